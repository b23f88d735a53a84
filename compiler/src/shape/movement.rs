//! Operations that move elements without looking at them, except those that take indices (see `indexing`).

use super::rule::{Call, Rule, Show, array, common_type, ensure, fail};
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    let shape = match call.opcode {
        Opcode::Copy => return Ok(call.shape(0)?.without_layout()),
        Opcode::Bitcast => bitcast(call)?,
        Opcode::BitcastConvert => bitcast_convert(call)?,
        Opcode::Broadcast => broadcast(call)?,
        Opcode::Concatenate => concatenate(call)?,
        Opcode::DynamicReshape => dynamic_reshape(call)?,
        Opcode::GetDimensionSize => get_dimension_size(call)?,
        Opcode::Iota => iota(call)?,
        Opcode::Pad => pad(call)?,
        Opcode::Reshape => reshape(call)?,
        Opcode::Reverse => reverse(call)?,
        Opcode::SetDimensionSize => set_dimension_size(call)?,
        Opcode::Slice => slice(call)?,
        Opcode::Transpose => transpose(call)?,
        other => fail!("opcode", "no rule for {other}"),
    };
    Ok(Shape::Array(shape))
}

fn bits(a: &ArrayShape) -> Option<u128> {
    Some(a.checked_elements()? as u128 * u128::from(a.ty.bits()))
}

fn declared_clone(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.declared_array()?;
    Ok(array(a.ty, a.dims.clone(), a.dynamic.clone()))
}

fn bitcast(call: &Call<'_>) -> Rule<ArrayShape> {
    let (from, to) = (call.array(0)?, call.declared_array()?);
    ensure!(
        bits(from).is_some() && bits(from) == bits(to),
        "bitcast.size",
        "expected as many bits in the result of bitcast as in {}, found {}",
        Show(from),
        Show(to)
    );
    declared_clone(call)
}

fn bitcast_convert(call: &Call<'_>) -> Rule<ArrayShape> {
    let (from, to) = (call.array(0)?, call.declared_array()?.ty);
    ensure!(
        from.ty.is_complex() == to.is_complex(),
        "bitcast-convert.complex",
        "expected both types of bitcast-convert complex or none, found {} and {to}",
        from.ty
    );
    let (old, new) = (from.ty.bits(), to.bits());
    let mut out = from.with_type(to);
    if old > new {
        out.dims.push(i64::from(old / new));
        out.dynamic.push(false);
        ensure!(old % new == 0, "bitcast-convert.width", "expected widths that divide, found {old} and {new} bits");
    } else if new > old {
        let ratio = i64::from(new / old);
        let last = out.dims.pop();
        out.dynamic.pop();
        ensure!(
            new % old == 0 && last == Some(ratio),
            "bitcast-convert.width",
            "expected a last dimension of {ratio} to convert {} to {to}, found {}",
            from.ty,
            Show(from)
        );
    }
    Ok(out)
}

fn broadcast(call: &Call<'_>) -> Rule<ArrayShape> {
    let (from, to) = (call.array(0)?, call.declared_array()?);
    let dims = call.dims(AttrKey::Dimensions, to.rank(), "broadcast.dimensions")?;
    ensure!(
        dims.len() == from.rank(),
        "broadcast.rank",
        "expected {} dimensions for the operand {}, found {}",
        from.rank(),
        Show(from),
        dims.len()
    );
    let mut out = array(from.ty, to.dims.clone(), to.dynamic.clone());
    for (i, &d) in dims.iter().enumerate() {
        ensure!(
            from.dims[i] == to.dims[d],
            "broadcast.sizes",
            "expected size {} in dimension {d} of the result, found {}",
            from.dims[i],
            to.dims[d]
        );
        out.dynamic[d] |= from.dynamic[i];
    }
    Ok(out)
}

fn concatenate(call: &Call<'_>) -> Rule<ArrayShape> {
    let arrays = call.arrays()?;
    let ty = common_type(call, &arrays)?;
    let first = call.array(0)?;
    let axis = call.one_dim(AttrKey::Dimensions, first.rank(), "concatenate.dimension")?;
    let mut out = first.with_type(ty);
    for next in &arrays[1..] {
        ensure!(
            next.rank() == first.rank(),
            "concatenate.rank",
            "expected operands of rank {}, found {}",
            first.rank(),
            Show(next)
        );
        for d in (0..first.rank()).filter(|&d| d != axis) {
            ensure!(
                next.dims[d] == first.dims[d],
                "concatenate.sizes",
                "expected operands that differ in dimension {axis} only, found {} and {}",
                Show(first),
                Show(next)
            );
            out.dynamic[d] |= next.dynamic[d];
        }
        out.dynamic[axis] |= next.dynamic[axis];
        out.dims[axis] = match out.dims[axis].checked_add(next.dims[axis]) {
            Some(sum) => sum,
            None => fail!("concatenate.overflow", "a size of dimension {axis} of 2^63 or more"),
        };
    }
    Ok(out)
}

fn dynamic_reshape(call: &Call<'_>) -> Rule<ArrayShape> {
    let (from, to) = (call.array(0)?, call.declared_array()?);
    ensure!(
        call.operands.len() == to.rank() + 1,
        "dynamic-reshape.sizes",
        "expected {} sizes for {}, found {}",
        to.rank(),
        Show(to),
        call.operands.len().saturating_sub(1)
    );
    for i in 1..call.operands.len() {
        let size = call.scalar(i)?;
        ensure!(
            size.ty == ElementType::S32,
            "dynamic-reshape.sizes",
            "expected s32 sizes, found {} in operand {i}",
            Show(size)
        );
    }
    ensure!(
        from.ty == to.ty && from.checked_elements() == to.checked_elements(),
        "dynamic-reshape.elements",
        "expected as many elements as in {}, found {}",
        Show(from),
        Show(to)
    );
    declared_clone(call)
}

fn get_dimension_size(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.array(0)?;
    call.one_dim(AttrKey::Dimensions, a.rank(), "get-dimension-size.dimension")?;
    Ok(ArrayShape::new(ElementType::S32, []))
}

fn set_dimension_size(call: &Call<'_>) -> Rule<ArrayShape> {
    let (a, size) = (call.array(0)?, call.scalar(1)?);
    let d = call.one_dim(AttrKey::Dimensions, a.rank(), "set-dimension-size.dimension")?;
    ensure!(size.ty == ElementType::S32, "set-dimension-size.size", "expected an s32 size, found {}", Show(size));
    let mut out = a.with_type(a.ty);
    // Where the program states the whole static size, the mark is its to leave out.
    out.dynamic[d] = call.declared.and_then(Shape::as_array).and_then(|s| s.dynamic.get(d).copied()).unwrap_or(true);
    Ok(out)
}

fn iota(call: &Call<'_>) -> Rule<ArrayShape> {
    let to = call.declared_array()?;
    call.dim(AttrKey::IotaDimension, to.rank(), "iota.dimension")?;
    ensure!(to.ty != ElementType::Pred, "iota.type", "expected a number as element type of iota, found pred");
    declared_clone(call)
}

fn pad(call: &Call<'_>) -> Rule<ArrayShape> {
    let (a, value) = (call.array(0)?, call.scalar(1)?);
    let ty = common_type(call, &[a, value])?;
    let padding = call.attrs.padding(AttrKey::Padding).unwrap_or(&[]);
    ensure!(
        padding.len() == a.rank(),
        "pad.rank",
        "expected padding of {} dimensions, found {}",
        a.rank(),
        padding.len()
    );
    let mut out = a.with_type(ty);
    for (d, p) in padding.iter().enumerate() {
        ensure!(p.interior >= 0, "pad.interior", "expected interior padding of at least 0, found {}", p.interior);
        let between = a.dims[d].saturating_sub(1).max(0).checked_mul(p.interior);
        let size = between
            .and_then(|b| a.dims[d].checked_add(b))
            .and_then(|n| n.checked_add(p.low))
            .and_then(|n| n.checked_add(p.high));
        out.dims[d] = match size {
            Some(size) if size >= 0 => size,
            Some(size) => fail!("pad.negative", "expected a padded size of at least 0 in dimension {d}, found {size}"),
            None => fail!("pad.overflow", "a padded size of dimension {d} past 2^63"),
        };
    }
    Ok(out)
}

fn reshape(call: &Call<'_>) -> Rule<ArrayShape> {
    let (from, to) = (call.array(0)?, call.declared_array()?);
    ensure!(
        from.ty == to.ty,
        "reshape.type",
        "expected the element type {} in the result of reshape, found {}",
        from.ty,
        to.ty
    );
    ensure!(
        from.checked_elements().is_some() && from.checked_elements() == to.checked_elements(),
        "reshape.elements",
        "expected as many elements in the result of reshape as in {}, found {}",
        Show(from),
        Show(to)
    );
    if call.attrs.get(AttrKey::InferredDimension).is_some() {
        call.dim(AttrKey::InferredDimension, to.rank(), "reshape.inferred-dimension")?;
    }
    declared_clone(call)
}

fn reverse(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.array(0)?;
    call.dims(AttrKey::Dimensions, a.rank(), "reverse.dimensions")?;
    Ok(a.with_type(a.ty))
}

fn slice(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.array(0)?;
    let ranges = call.attrs.slice_ranges(AttrKey::Slice).unwrap_or(&[]);
    ensure!(
        ranges.len() == a.rank(),
        "slice.rank",
        "expected {} ranges for {}, found {}",
        a.rank(),
        Show(a),
        ranges.len()
    );
    let mut out = a.with_type(a.ty);
    for (d, r) in ranges.iter().enumerate() {
        let size = a.dims[d];
        ensure!(
            0 <= r.start && r.start <= r.limit && r.limit <= size,
            "slice.bounds",
            "expected 0 <= start <= limit <= {size} in dimension {d}, found [{}:{}]",
            r.start,
            r.limit
        );
        ensure!(r.stride > 0, "slice.stride", "expected a stride of at least 1 in dimension {d}, found {}", r.stride);
        let length = r.limit - r.start;
        out.dims[d] = length / r.stride + i64::from(length % r.stride != 0);
    }
    Ok(out)
}

fn transpose(call: &Call<'_>) -> Rule<ArrayShape> {
    let a = call.array(0)?;
    let permutation = call.dims(AttrKey::Dimensions, a.rank(), "transpose.permutation")?;
    ensure!(
        permutation.len() == a.rank(),
        "transpose.permutation",
        "expected a permutation of {} dimensions, found {} numbers",
        a.rank(),
        permutation.len()
    );
    let dims = permutation.iter().map(|&d| a.dims[d]).collect();
    let dynamic = permutation.iter().map(|&d| a.dynamic[d]).collect();
    Ok(array(a.ty, dims, dynamic))
}
