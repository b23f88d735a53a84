//! Tiles of two axes: elements that lie side by side along one axis and are wanted along the other change places in registers.
//!
//! A tile is a stage whose last sequential loop is short. That loop and the row are written out: for each group of a register's elements
//! along the sequential axis, and each vector along the vector axis, what is contiguous along the former is loaded as rows of a square
//! and transposed.

use super::Reg;
use super::select::{Access, Pointer, Selected, Selector, Vector, count, load_code};
use crate::codegen::rows::{RowLoop, Width};
use crate::codegen::vector::{Leaves, Partial, Row, Step, Storing, Values, elements};
use crate::kernel::body::{Body, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Loop, Nest, PAGE, Stage};
use hashbrown::HashMap;
use iced_x86::Code;
use smallvec::smallvec;

/// The most elements of a tile.
const MOST_ELEMENTS: i64 = 256;

/// The loops of a stage that is a tile: those that run around it, and the one that is its other axis.
pub fn tile_of(stage: &Stage) -> Option<(&[Loop], Loop)> {
    let (inner, around) = stage.sequential.split_last()?;
    let plain = stage.accumulators.is_empty() && stage.row_stores.is_empty();
    let small = inner.extent.checked_mul(stage.vector.extent)? <= MOST_ELEMENTS;
    (plain && small).then_some((around, *inner))
}

/// The whole tile as one iteration; the plan is along both its axes. `None` where it is not made of whole squares, some part has no form
/// here, or nothing changes places.
///
/// # Errors
/// What the traversal of the body misses, a fault of ours.
pub(super) fn select(
    nest: &Nest,
    row: &RowLoop<'_>,
    (width, fma): (Width, bool),
    past: bool,
) -> Result<Selected, String> {
    let stage = row.stage;
    let Some((_, inner)) = tile_of(stage) else { return Ok(None) };
    let Some(group) = group_of(row, inner, width) else { return Ok(None) };
    if inner.extent % group != 0 || stage.vector.extent % width.vector() != 0 {
        return Ok(None);
    }
    let selector = Selector::new(nest, row, width, fma);
    let (loaded, turned) = (HashMap::new(), HashMap::new());
    let mut square = Square { selector, inner, group, past, first: 0, vector: 0, at: 0, loaded, turned };
    let vectors = stage.vector.extent / width.vector();
    // Past the caches, what lies in one line is stored together.
    let order: Vec<(i64, i64)> = if past {
        (0..group).flat_map(|at| (0..vectors).map(move |vector| (vector, at))).collect()
    } else {
        (0..vectors).flat_map(|vector| (0..group).map(move |at| (vector, at))).collect()
    };
    for first in (0..inner.extent).step_by(group as usize) {
        square.turned.clear();
        for &(vector, at) in &order {
            (square.first, square.vector, square.at) = (first, vector, at);
            if elements(&mut square, row).is_none() {
                return square.selector.fault.map_or(Ok(None), Err);
            }
        }
    }
    let mut selector = square.selector;
    Ok(selector.end().and_then(|iteration| selector.finish(Some(iteration), None, None)))
}

/// Elements from one to the next along the sequential axis and along the vector axis.
fn strides(row: &RowLoop<'_>, inner: Loop, ix: &Ix) -> Option<(i64, i64)> {
    Some((row.stride(ix, inner.axis)?, row.stride(ix, row.stage.vector.axis)?))
}

/// How many elements of what changes places a register has; `None` where nothing does, or not all alike.
fn group_of(row: &RowLoop<'_>, inner: Loop, width: Width) -> Option<i64> {
    let crossing: Vec<Mem> = row
        .loads
        .keys()
        .filter_map(|&id| match &row.stage.body.node(id).op {
            Op::Load(_, mem, ix) => Some((*mem, strides(row, inner, ix))),
            _ => None,
        })
        .filter(|(_, strides)| strides.is_some_and(|(along, across)| along == 1 && across != 1))
        .map(|(mem, _)| mem)
        .collect();
    let of = |mem: &Mem| width.vector() / count(mem.scalar()) as i64;
    let group = of(crossing.first()?);
    let alike = |mem: &Mem| !mem.is_extended() && of(mem) == group;
    crossing.iter().all(alike).then_some(group)
}

/// A vector along the vector axis, for one of a group of elements along the other.
struct Square<'k> {
    selector: Selector<'k>,
    inner: Loop,
    /// How many elements the group has, the first of it, and which of it is at hand.
    group: i64,
    first: i64,
    at: i64,
    /// The number of the vector.
    vector: i64,
    /// Whether stores go past the caches.
    past: bool,
    /// Rows of a later group, by their load, its first element and the vector.
    loaded: HashMap<(NodeId, i64, i64), Vec<Reg>>,
    /// Of what changes places, by its load and the vector, registers for each element of the group.
    turned: HashMap<(NodeId, i64), Vec<Vector>>,
}

impl<'k> Leaves for Square<'k> {
    type Isa = Selector<'k>;

    fn isa(&mut self) -> &mut Selector<'k> {
        &mut self.selector
    }

    fn shape(&self) {}

    fn leaf(&mut self, body: &Body, id: NodeId, _: &Values<Vector>) -> Option<Vector> {
        let Op::Load(_, mem, ix) = &body.node(id).op else { return None };
        let (element, begin) = (self.first + self.at, self.vector * self.selector.vector);
        match strides(self.selector.row, self.inner, ix)? {
            (along, 1) => self.selector.load(Pointer::Load(id), *mem, element * along + begin),
            (along, 0) => self.selector.broadcast(Pointer::Load(id), *mem, element * along),
            (1, across) => {
                let key = (id, self.vector);
                if !self.turned.contains_key(&key) {
                    let turned = self.iteration(id, *mem, across)?;
                    self.turned.insert(key, turned);
                }
                self.turned.get(&key)?.get(self.at as usize).cloned()
            }
            _ => None,
        }
    }
}

impl Row for Square<'_> {
    fn uniform(&mut self, body: &Body, id: NodeId) -> Option<Vector> {
        self.selector.uniform(body, id)
    }

    fn store(&mut self, s: Storing<'_, Vector>, _: &Values<Vector>) -> Option<usize> {
        let store = self.selector.row.stage.stores.get(s.number)?;
        let (along, 1) = strides(self.selector.row, self.inner, &store.index)? else { return None };
        let element = (self.first + self.at) * along + self.vector * self.selector.vector;
        let to = Pointer::Store(s.number);
        if self.past {
            self.selector.store_past(to, store.mem, element, s.value)?;
        } else {
            self.selector.store_vector(to, store.mem, element, s.value)?;
        }
        Some(0)
    }

    // A tile has no row buffers and folds nothing.

    fn row(&mut self, _: u32) -> Option<Vector> {
        None
    }

    fn set_row(&mut self, _: u32, _: &Vector) -> Option<()> {
        None
    }

    fn steps(&self, _: usize) -> Vec<Step> {
        Vec::new()
    }

    fn taken(&mut self, _: Step, _: ScalarType, _: &Vector) -> Option<Vector> {
        None
    }

    fn partial(&mut self, _: usize, _: Step) -> Option<Partial<Vector>> {
        None
    }

    fn set_partial(&mut self, _: usize, _: Step, _: Vec<Vector>) -> Option<()> {
        None
    }

    fn shape_of(&self, _: Step) {}
}

impl Square<'_> {
    /// What a load gives for the vector and the group at hand, turned to lie along the vector axis.
    fn iteration(&mut self, id: NodeId, mem: Mem, across: i64) -> Option<Vec<Vector>> {
        let (group, vector) = (self.group, self.selector.vector);
        // Rows so far apart leave the first cache again: a line of theirs is read at once, for later groups too.
        let ahead = self.past && across.checked_mul(mem.bytes())? % PAGE == 0;
        let groups = if ahead { (self.inner.extent - self.first) / group } else { 1 };
        if !self.loaded.contains_key(&(id, self.first, self.vector)) {
            for row in 0..vector {
                for first in (0..groups).map(|k| self.first + k * group) {
                    let element = (self.vector * vector + row).checked_mul(across)?.checked_add(first)?;
                    let from: Access = self.selector.access(Pointer::Load(id), mem, element, 0)?;
                    let r = self.selector.load_at(load_code(mem), from, false);
                    self.loaded.entry((id, first, self.vector)).or_default().push(r);
                }
            }
        }
        let rows = self.loaded.remove(&(id, self.first, self.vector))?;
        let mut out = vec![Vector::new(); group as usize];
        for square in rows.chunks(group as usize) {
            let columns = self.selector.transposed(mem, square)?;
            out.iter_mut().zip(columns).for_each(|(vector, r)| vector.push(r));
        }
        Some(out)
    }
}

impl Selector<'_> {
    /// An element in every place of a vector.
    fn broadcast(&mut self, p: Pointer, mem: Mem, element: i64) -> Option<Vector> {
        let code = match mem {
            Mem::I32 | Mem::F32 => Code::VEX_Vbroadcastss_ymm_m32,
            Mem::I64 | Mem::F64 => Code::VEX_Vbroadcastsd_ymm_m64,
            _ => return None,
        };
        let from = self.access(p, mem, element, 0)?;
        let r = self.load_at(code, from, false);
        Some(smallvec![r; count(mem.scalar())])
    }

    /// Stores a vector past the caches, from `first` on; its registers lie on multiples of their size.
    fn store_past(&mut self, p: Pointer, mem: Mem, first: i64, v: &[Reg]) -> Option<()> {
        if mem.is_extended() {
            return None;
        }
        self.store_registers((p, mem), first, v, (Code::VEX_Vmovntps_m256_ymm, false))
    }

    /// The columns of a square whose rows are registers.
    fn transposed(&mut self, mem: Mem, rows: &[Reg]) -> Option<Vec<Reg>> {
        let parts = if mem.scalar().bits() == 64 { self.pairs(rows) } else { self.fours(rows) };
        let elements = parts.len();
        let mut out = vec![None; rows.len()];
        for (k, same) in parts.iter().enumerate() {
            let columns = match (self.width, same.as_slice()) {
                (Width::W256, &[x, y]) => self.lower_and_upper([x, y]).to_vec(),
                (Width::W512, &[a, b, c, d]) => self.quarters_turned([a, b, c, d]).to_vec(),
                _ => return None,
            };
            for (part, r) in columns.into_iter().enumerate() {
                *out.get_mut(part * elements + k)? = Some(r);
            }
        }
        out.into_iter().collect()
    }

    /// Of rows of 64-bit elements, for both elements of a part of 128 bits, the registers that have it of two rows after another.
    fn pairs(&mut self, rows: &[Reg]) -> Vec<Vec<Reg>> {
        use Code::*;
        let mut out = vec![Vec::new(); 2];
        for &[a, b] in rows.as_chunks::<2>().0 {
            let codes = [VEX_Vunpcklpd_ymm_ymm_ymmm256, VEX_Vunpckhpd_ymm_ymm_ymmm256];
            for (same, code) in out.iter_mut().zip(codes) {
                same.push(self.plain(code, &[a, b]));
            }
        }
        out
    }

    /// Of rows of 32-bit elements, for each of the four of a part of 128 bits, the registers that have it of four rows after another.
    fn fours(&mut self, rows: &[Reg]) -> Vec<Vec<Reg>> {
        use Code::*;
        let mut out = vec![Vec::new(); 4];
        for &[a, b, c, d] in rows.as_chunks::<4>().0 {
            let codes = [VEX_Vunpcklps_ymm_ymm_ymmm256, VEX_Vunpckhps_ymm_ymm_ymmm256];
            for (two, code) in out.chunks_mut(2).zip(codes) {
                let (x, y) = (self.plain(code, &[a, b]), self.plain(code, &[c, d]));
                for (same, imm) in two.iter_mut().zip([0b01_00_01_00, 0b11_10_11_10]) {
                    same.push(self.with_imm(VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[x, y], imm));
                }
            }
        }
        out
    }

    /// The parts of 128 bits of four registers, changing places: of all the first, of all the second and so on.
    fn quarters_turned(&mut self, [a, b, c, d]: [Reg; 4]) -> [Reg; 4] {
        let [[even, odd], [also_even, also_odd]] = [[a, b], [c, d]].map(|of| self.parts_by_turns(of));
        let [first, third] = self.parts_by_turns([even, also_even]);
        let [second, fourth] = self.parts_by_turns([odd, also_odd]);
        [first, second, third, fourth]
    }
}
