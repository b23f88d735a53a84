//! Sorting and random numbers.

use super::rule::{Call, Rule, Show, ensure, fail, parts};
use crate::hlo::{AttrKey, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

pub(super) fn infer(call: &Call<'_>) -> Rule<Shape> {
    match call.opcode {
        Opcode::Sort => sort(call),
        Opcode::TopK => top_k(call),
        Opcode::Rng => rng(call),
        Opcode::RngBitGenerator => rng_bit_generator(call),
        _ => rng_get_and_update_state(call),
    }
}

fn sort(call: &Call<'_>) -> Rule<Shape> {
    let arrays = call.arrays()?;
    let first = call.array(0)?;
    for next in &arrays {
        ensure!(
            next.same_dims(first),
            "sort.same-dimensions",
            "expected operands of sort of the same dimensions, found {} and {}",
            Show(first),
            Show(next)
        );
    }
    // A scalar is sorted already, along whatever dimension.
    if call.attrs.get(AttrKey::Dimensions).is_some() && first.rank() > 0 {
        call.one_dim(AttrKey::Dimensions, first.rank(), "sort.dimension")?;
    }
    let comparator = call.callee(AttrKey::ToApply)?;
    ensure!(
        comparator.parameters.len() == 2 * arrays.len(),
        "sort.comparator-parameters",
        "expected a comparator of {} parameters, found {}",
        2 * arrays.len(),
        comparator.parameters.len()
    );
    for (i, p) in comparator.parameters.iter().enumerate() {
        let ty = arrays[i / 2].ty;
        ensure!(
            p.as_array().is_some_and(|a| a.rank() == 0 && call.mixes(a.ty, ty)),
            "sort.comparator-parameters",
            "expected a {ty} scalar as parameter {i} of the comparator, found {p:#}"
        );
    }
    // Alone or as a tuple of one.
    let answers = parts(comparator.result);
    ensure!(
        answers.len() == 1 && answers[0].same_ignoring_layout(&Shape::scalar(ElementType::Pred)),
        "sort.comparator-result",
        "expected a comparator that yields pred[], found {:#}",
        comparator.result
    );
    Ok(call.as_declared(arrays.iter().map(|a| a.with_type(a.ty).into()).collect()))
}

fn top_k(call: &Call<'_>) -> Rule<Shape> {
    let a = call.array(0)?;
    let k = call.attrs.int(AttrKey::K).unwrap_or(-1);
    let Some(&last) = a.dims.last() else {
        fail!("topk.rank", "expected an operand of rank 1 or more of topk, found {}", Show(a));
    };
    ensure!((0..=last).contains(&k), "topk.k", "expected k from 0 to {last}, found {k}");
    ensure!(!a.ty.is_complex(), "topk.type", "expected an ordered element type in topk, found {}", a.ty);
    let mut values = a.with_type(a.ty);
    let at = values.rank() - 1;
    values.dims[at] = k;
    values.dynamic[at] = false;
    let indices = values.with_type(ElementType::S32);
    Ok(Shape::tuple(vec![values.into(), indices.into()]))
}

fn rng(call: &Call<'_>) -> Rule<Shape> {
    ensure!(call.operands.len() >= 2, "rng.operands", "expected 2 operands of rng, found {}", call.operands.len());
    let to = call.declared_array()?;
    for i in 0..2 {
        let a = call.scalar(i)?;
        ensure!(
            call.mixes(a.ty, to.ty),
            "rng.type",
            "expected a {} scalar as operand {i} of rng, found {}",
            to.ty,
            Show(a)
        );
    }
    let kind = call.attrs.word(AttrKey::Distribution).unwrap_or_default();
    let fits = match kind {
        "rng_normal" => to.ty.is_float(),
        _ => !to.ty.is_complex(),
    };
    ensure!(fits, "rng.type", "expected a type that {kind} can yield, found {}", to.ty);
    Ok(Shape::Array(to.with_type(to.ty)))
}

fn rng_bit_generator(call: &Call<'_>) -> Rule<Shape> {
    let declared = call.declared()?;
    let Some([state_out, Shape::Array(bits)]) = declared.as_tuple() else {
        fail!("rng-bit-generator.result", "expected a state and an array of bits as result, found {declared:#}");
    };
    let state = call.array(0)?;
    // The smallest state that an algorithm has is u64[2].
    let bits_of_state = state.dims.first().map_or(0, |&n| n.saturating_mul(i64::from(state.ty.bits())));
    ensure!(
        state.ty.is_unsigned_integer() && state.rank() == 1 && bits_of_state >= 128,
        "rng-bit-generator.state",
        "expected a vector of u32 or u64 of at least 128 bits as state, found {}",
        Show(state)
    );
    ensure!(
        bits.ty.is_integer() || bits.ty.is_float(),
        "rng-bit-generator.result",
        "expected an integer or floating point result, found {}",
        Show(bits)
    );
    let algorithm = call.attrs.raw(AttrKey::Algorithm).unwrap_or_default().trim();
    ensure!(
        matches!(algorithm, "rng_default" | "rng_three_fry" | "rng_philox"),
        "rng-bit-generator.algorithm",
        "expected rng_default, rng_three_fry or rng_philox, found {algorithm}"
    );
    let same = Shape::Array(state.with_type(state.ty));
    ensure!(
        state_out.same_ignoring_layout(&same),
        "rng-bit-generator.state",
        "expected the state {same:#} in the result, found {state_out:#}"
    );
    Ok(Shape::tuple(vec![same, Shape::Array(bits.with_type(bits.ty))]))
}

fn rng_get_and_update_state(call: &Call<'_>) -> Rule<Shape> {
    let state = match call.declared {
        Some(_) => call.declared_array()?.clone(),
        None => ArrayShape::new(ElementType::U64, [2]),
    };
    ensure!(
        state.ty == ElementType::U64 && state.dims == [2],
        "rng-get-and-update-state.result",
        "expected u64[2], found {}",
        Show(&state)
    );
    ensure!(
        call.attrs.int(AttrKey::Delta).is_some_and(|d| d >= 0),
        "rng-get-and-update-state.delta",
        "expected a delta of at least 0"
    );
    Ok(Shape::Array(state.with_type(state.ty)))
}
