//! Operations whose places are values: what was read from a place is added there, and the other way round.
//!
//! A gather moves windows inwards that would not fit, a scatter drops them: the places of the one are moved before the other
//! takes them, and what was dropped gets zero.

use super::replay::behind;
use super::rule::{Rule, full, number, zeros};
use super::scalars::root_name;
use crate::builder::{GatherDimensions, Op, ScatterDimensions, scalar_computation};
use crate::error::{Error, Result};
use crate::hlo::{AttrKey, Module, Opcode};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Scalar};

pub(super) fn rule(r: &mut Rule<'_>) -> Result<()> {
    match r.instruction.opcode {
        Opcode::DynamicSlice => dynamic_slice(r),
        Opcode::DynamicUpdateSlice => dynamic_update_slice(r),
        Opcode::Gather => gather(r),
        _ => scatter(r),
    }
}

fn dynamic_slice(r: &mut Rule<'_>) -> Result<()> {
    let ct = r.array_cotangent()?;
    let whole = zeros(r.b, &r.shape(r.operand(0)?)?);
    let value = r.b.dynamic_update_slice(whole, ct, r.operands.get(1..).unwrap_or(&[]));
    r.give(0, value);
    Ok(())
}

fn dynamic_update_slice(r: &mut Rule<'_>) -> Result<()> {
    let (b, ct, part) = (r.b, r.array_cotangent()?, r.shape(r.operand(1)?)?);
    let starts = r.operands.get(2..).unwrap_or(&[]).to_vec();
    if r.wants(0) {
        r.give(0, b.dynamic_update_slice(ct, zeros(b, &part), &starts));
    }
    if r.wants(1) {
        r.give(1, b.dynamic_slice(ct, &starts, &part.dims));
    }
    Ok(())
}

/// Windows of an array at index vectors, in the terms of both operations.
struct Windows {
    /// The dimensions of the slices or updates that run inside a window.
    inside: Vec<i64>,
    collapsed: Vec<i64>,
    map: Vec<i64>,
    batching: Vec<i64>,
    index_batching: Vec<i64>,
    vector: i64,
    /// The sizes of a window along the dimensions of the array.
    sizes: Vec<i64>,
    sorted: bool,
}

impl Windows {
    fn gather(&self, r: &Rule<'_>, array: Op, indices: Op) -> Op {
        let dims = GatherDimensions {
            offset_dims: self.inside.clone(),
            collapsed_slice_dims: self.collapsed.clone(),
            start_index_map: self.map.clone(),
            index_vector_dim: self.vector,
            operand_batching_dims: self.batching.clone(),
            start_indices_batching_dims: self.index_batching.clone(),
        };
        r.b.gather(array, indices, &dims, &self.sizes, self.sorted)
    }

    fn scatter(&self, r: &Rule<'_>, array: Op, indices: Op, updates: Op, by: &Module, unique: bool) -> Op {
        let dims = ScatterDimensions {
            update_window_dims: self.inside.clone(),
            inserted_window_dims: self.collapsed.clone(),
            scatter_dims_to_operand_dims: self.map.clone(),
            index_vector_dim: self.vector,
            input_batching_dims: self.batching.clone(),
            scatter_indices_batching_dims: self.index_batching.clone(),
        };
        r.b.scatter(&[array], indices, &[updates], by, &dims, self.sorted, unique)
    }

    /// For each component of an index vector the greatest value at which a window fits, as a scalar or along the dimension
    /// of the vectors of `indices`.
    fn bounds(&self, r: &Rule<'_>, array: &ArrayShape, indices: &ArrayShape) -> Op {
        let at = |list: &[i64], d: i64| usize::try_from(d).ok().and_then(|d| list.get(d)).copied().unwrap_or(0);
        let ty = indices.ty;
        // An index cannot be greater than its type holds.
        let signed = u32::from(ty.is_signed_integer());
        let greatest = if ty.bits() - signed >= 63 { i64::MAX } else { (1i64 << (ty.bits() - signed)) - 1 };
        let bound = |&d: &i64| (at(&array.dims, d) - at(&self.sizes, d)).clamp(0, greatest);
        let bounds: Vec<i64> = self.map.iter().map(bound).collect();
        let scalar = self.vector >= indices.rank() as i64;
        let dims = if scalar { vec![] } else { vec![bounds.len() as i64] };
        let mut literal = ArrayLiteral::zeros(&ArrayShape::new(ty, dims));
        bounds.iter().enumerate().for_each(|(i, &v)| literal.set(i, Scalar::Int(v).round_to(ty)));
        let bounds = r.b.constant_literal(literal);
        if scalar { bounds } else { r.b.broadcast_in_dim(bounds, &indices.dims, &[self.vector]) }
    }

    /// The indices, moved inwards as a gather moves them.
    fn inwards(&self, r: &Rule<'_>, array: &ArrayShape, indices: Op) -> Result<Op> {
        let shape = r.shape(indices)?;
        let (low, high) = (r.b.zero(shape.ty), self.bounds(r, array, &shape));
        let scalar = r.shape(high)?.rank() == 0;
        Ok(r.b.clamp(if scalar { low } else { full(r.b, &shape, low) }, indices, high))
    }

    /// Which elements of the updates belong to windows that fit, as a scatter takes them.
    fn fitting(&self, r: &Rule<'_>, array: &ArrayShape, indices: Op, updates: &ArrayShape) -> Result<Op> {
        let (b, shape) = (r.b, r.shape(indices)?);
        let fits = b.and(b.ge(indices, b.zero(shape.ty)), b.le(indices, self.bounds(r, array, &shape)));
        let fits = match self.vector < shape.rank() as i64 {
            true => {
                let all = scalar_computation(Opcode::And, ElementType::Pred)?;
                b.reduce(fits, b.constant_pred(true), &all, &[self.vector])
            }
            false => fits,
        };
        let outside: Vec<i64> = (0..updates.rank() as i64).filter(|d| !self.inside.contains(d)).collect();
        Ok(b.broadcast_in_dim(fits, &updates.dims, &outside))
    }
}

fn list(r: &Rule<'_>, key: AttrKey) -> Vec<i64> {
    r.attrs().ints_or_empty(key).to_vec()
}

fn gather(r: &mut Rule<'_>) -> Result<()> {
    let windows = Windows {
        inside: list(r, AttrKey::OffsetDims),
        collapsed: list(r, AttrKey::CollapsedSliceDims),
        map: list(r, AttrKey::StartIndexMap),
        batching: list(r, AttrKey::OperandBatchingDims),
        index_batching: list(r, AttrKey::StartIndicesBatchingDims),
        vector: r.attrs().int(AttrKey::IndexVectorDim).unwrap_or(0),
        sizes: list(r, AttrKey::SliceSizes),
        sorted: r.attrs().bool(AttrKey::IndicesAreSorted).unwrap_or(false),
    };
    let (ct, shape) = (r.array_cotangent()?, r.shape(r.operand(0)?)?);
    let indices = windows.inwards(r, &shape, r.operand(1)?)?;
    let add = scalar_computation(Opcode::Add, shape.ty)?;
    let value = windows.scatter(r, zeros(r.b, &shape), indices, ct, &add, false);
    r.give(0, value);
    Ok(())
}

/// What a scatter does with the present value and the update.
enum Update {
    Add,
    Multiply,
    /// The greater or the smaller of the two stays.
    Extreme,
    /// The update replaces the value.
    Set,
}

/// What becomes of operand `number` of a scatter of so many operands.
fn update(module: &Module, operands: usize, number: usize) -> Option<Update> {
    let entry = module.entry();
    let root = &entry.instructions[entry.root];
    let value = if operands == 1 { entry.root } else { *root.operands.get(number)? };
    let (present, new) = (number, operands + number);
    let parameter = |id, pass: &[Opcode]| entry.instructions[behind(entry, id, pass)].parameter_number();
    if parameter(value, &[Opcode::Copy]) == Some(new) {
        return Some(Update::Set);
    }
    let pass = [Opcode::Convert, Opcode::Copy];
    let combined = &entry.instructions[behind(entry, value, &pass)];
    let [x, y] = combined.operands[..] else { return None };
    let mut numbers = [parameter(x, &pass)?, parameter(y, &pass)?];
    numbers.sort_unstable();
    match combined.opcode {
        _ if numbers != [present, new] => None,
        Opcode::Add => Some(Update::Add),
        Opcode::Multiply => Some(Update::Multiply),
        Opcode::Maximum | Opcode::Minimum => Some(Update::Extreme),
        _ => None,
    }
}

/// The error of a scatter by a computation that is none of these.
fn unknown(r: &Rule<'_>, computation: &Module) -> Error {
    r.refuse(&format!("by a computation that ends in {}", root_name(computation)))
}

impl Windows {
    /// The windows of a scatter of such updates into such arrays.
    fn of_scatter(r: &Rule<'_>, array: &ArrayShape, updates: &ArrayShape) -> Windows {
        let inside = list(r, AttrKey::UpdateWindowDims);
        let (collapsed, batching) = (list(r, AttrKey::InsertedWindowDims), list(r, AttrKey::InputBatchingDims));
        let mut window = inside.iter().filter_map(|&d| updates.dims.get(usize::try_from(d).ok()?).copied());
        let sizes = (0..array.rank() as i64)
            .map(|d| if collapsed.contains(&d) || batching.contains(&d) { 1 } else { window.next().unwrap_or(1) })
            .collect();
        Windows {
            inside,
            collapsed,
            map: list(r, AttrKey::ScatterDimsToOperandDims),
            batching,
            index_batching: list(r, AttrKey::ScatterIndicesBatchingDims),
            vector: r.attrs().int(AttrKey::IndexVectorDim).unwrap_or(0),
            sizes,
            sorted: r.attrs().bool(AttrKey::IndicesAreSorted).unwrap_or(false),
        }
    }
}

/// Operands that do not look at each other are scattered one by one instead.
fn several(r: &mut Rule<'_>, computation: &Module) -> Result<()> {
    let count = r.operands.len() / 2;
    let unique = r.attrs().bool(AttrKey::UniqueIndices).unwrap_or(false);
    r.instead(|r| {
        let indices = r.operand(count)?;
        let each = (0..count).map(|k| {
            let (x, u) = (r.operand(k)?, r.operand(count + 1 + k)?);
            let array = r.shape(x)?;
            let by = match update(computation, count, k) {
                Some(Update::Set) => overwrite(array.ty)?,
                Some(_) => {
                    let entry = computation.entry();
                    let value = entry.instructions[entry.root].operands[k];
                    let opcode = entry.instructions[behind(entry, value, &[Opcode::Convert, Opcode::Copy])].opcode;
                    scalar_computation(opcode, array.ty)?
                }
                None => return Err(unknown(r, computation)),
            };
            Ok(Windows::of_scatter(r, &array, &r.shape(u)?).scatter(r, x, indices, u, &by, unique))
        });
        each.collect()
    })
}

/// The present values and updates that are the extreme of their place share its cotangent equally: what each gets.
fn extreme(r: &Rule<'_>, windows: &Windows) -> Result<(Op, Op)> {
    let (b, ct) = (r.b, r.array_cotangent()?);
    let (x, indices, u) = (r.operand(0)?, r.operand(1)?, r.operand(2)?);
    let (array, updates) = (r.shape(x)?, r.shape(u)?.with_type(r.shape(x)?.ty));
    let u = b.convert_element_type(u, array.ty);
    let fits = windows.fitting(r, &array, indices, &updates)?;
    let wins = [b.eq(x, r.op), b.and(fits, b.eq(u, windows.gather(r, r.op, indices)))];
    let shapes = [&array, &updates];
    let of = |shape: &ArrayShape, value: f64| full(b, shape, number(b, shape.ty, value));
    let marks = [0, 1].map(|i| b.select(wins[i], of(shapes[i], 1.0), of(shapes[i], 0.0)));
    let add = scalar_computation(Opcode::Add, array.ty)?;
    let count = windows.scatter(r, marks[0], indices, marks[1], &add, false);
    // Where nothing is, nothing gets a share: of NaN.
    let share = b.div(ct, b.max(count, of(&array, 1.0)));
    let shares = [share, windows.gather(r, share, indices)];
    let [to_x, to_u] = [0, 1].map(|i| b.select(wins[i], shares[i], zeros(b, shapes[i])));
    Ok((to_x, to_u))
}

fn scatter(r: &mut Rule<'_>) -> Result<()> {
    let computation = r.callee(AttrKey::ToApply)?;
    if r.operands.len() != 3 {
        return several(r, &computation);
    }
    let (b, ct) = (r.b, r.array_cotangent()?);
    let (x, indices, u) = (r.operand(0)?, r.operand(1)?, r.operand(2)?);
    let (array, updates) = (r.shape(x)?, r.shape(u)?);
    let windows = Windows::of_scatter(r, &array, &updates);
    let unique = r.attrs().bool(AttrKey::UniqueIndices).unwrap_or(false);
    // The cotangent of each update, were it the only one at its place.
    let taken = |from: Op| -> Result<Op> {
        let value = windows.gather(r, from, indices);
        let fits = windows.fitting(r, &array, indices, &updates)?;
        Ok(b.select(fits, value, zeros(b, &r.shape(value)?)))
    };
    let (to_x, to_u) = match update(&computation, 1, 0) {
        Some(Update::Add) => (Some(ct), if r.wants(2) { Some(taken(ct)?) } else { None }),
        Some(Update::Multiply) if unique || !r.wants(2) => {
            let ones = full(b, &array, number(b, array.ty, 1.0));
            let factors = windows.scatter(r, ones, indices, u, &computation, unique);
            (Some(b.mul(ct, factors)), if r.wants(2) { Some(taken(b.mul(ct, x))?) } else { None })
        }
        Some(Update::Multiply) => return Err(r.refuse("by multiply at indices that may not be unique")),
        Some(Update::Extreme) => {
            let (to_x, to_u) = extreme(r, &windows)?;
            (Some(to_x), Some(to_u))
        }
        Some(Update::Set) => {
            let to_x = windows.scatter(r, ct, indices, zeros(b, &updates), &computation, unique);
            let to_u = match (r.wants(2), unique) {
                (false, _) => None,
                (true, true) => Some(taken(ct)?),
                (true, false) => {
                    // The update that stands at a place is found by scattering their numbers in the same way.
                    let count = updates.elements();
                    let ty = if count < i32::MAX as usize { ElementType::S32 } else { ElementType::S64 };
                    let by = overwrite(ty)?;
                    let numbers = b.reshape(b.iota(ArrayShape::new(ty, [count as i64]).into(), 0), &updates.dims);
                    let none = full(b, &array.with_type(ty), b.neg(b.one(ty)));
                    let last = windows.gather(r, windows.scatter(r, none, indices, numbers, &by, false), indices);
                    let value = taken(ct)?;
                    Some(b.select(b.eq(last, numbers), value, zeros(b, &updates)))
                }
            };
            (Some(to_x), to_u)
        }
        None => return Err(unknown(r, &computation)),
    };
    if let Some(value) = to_x {
        r.give(0, value);
    }
    if let Some(value) = to_u {
        r.give(2, value);
    }
    Ok(())
}

/// The computation that yields its second argument.
fn overwrite(ty: ElementType) -> Result<Module> {
    let b = crate::builder::Builder::new("overwrite");
    b.parameter(0, brolga_runtime::Shape::scalar(ty), "old");
    let new = b.parameter(1, brolga_runtime::Shape::scalar(ty), "new");
    b.build_with_root(new)
}
