//! One test a family of rules.

use super::check;
use crate::passes::{
    async_to_sync, cse, dce, expand, fold, inline, layout, simplify, transposed_dot, turned_operands, while_state,
};

/// Simplification followed by the removal of what it left behind.
#[track_caller]
fn simplified(body: &str, expected: &str) {
    check(&[simplify::run, dce::run], ADD, body, expected);
}

const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
maximum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }";

#[test]
fn movement_composes() {
    simplified(
        "p = f32[2,3,4] parameter(0)
         t = f32[4,2,3] transpose(p), dimensions={2,0,1}
         u = f32[3,4,2] transpose(t), dimensions={2,0,1}
         ROOT r = f32[24] reshape(u)",
        "p = f32[2,3,4] parameter(0)
         u.1 = f32[3,4,2] transpose(p), dimensions={1,2,0}
         ROOT r = f32[24] reshape(u.1)",
    );
    simplified(
        "p = f32[2,3] parameter(0)
         t = f32[3,2] transpose(p), dimensions={1,0}
         ROOT u = f32[2,3] transpose(t), dimensions={1,0}",
        "ROOT p = f32[2,3] parameter(0)",
    );
}

#[test]
fn products_of_widened_integers_are_products_of_narrow_ones() {
    let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let product = |[a, b]: [&str; 2], [to, also]: [&str; 2], out: &str| {
        format!(
            "x = {a}[4,40] parameter(0)
             y = {b}[40,24] parameter(1)
             w = {to}[4,40] convert(x)
             v = {also}[40,24] convert(y)
             ROOT d = {out}[4,24] dot(w, v), {dims}"
        )
    };
    let narrow = |[a, b]: [&str; 2], out: &str| {
        format!(
            "x = {a}[4,40] parameter(0)
             y = {b}[40,24] parameter(1)
             ROOT d.1 = {out}[4,24] dot(x, y), {dims}"
        )
    };
    for (from, to, out) in [
        (["u8", "s8"], ["s32"; 2], "s32"),
        (["s8", "s16"], ["s32"; 2], "s64"),
        (["s8", "s8"], ["u32"; 2], "u32"),
        (["s4", "s8"], ["s16"; 2], "s32"),
    ] {
        simplified(&product(from, to, out), &narrow(from, out));
    }
    // What a wider sum would see of a sign that was lost, what is as wide as before, and what is no integer.
    for (from, to, out) in
        [(["s8", "s8"], ["u16"; 2], "s32"), (["s32", "s8"], ["s64"; 2], "s64"), (["pred", "s8"], ["s32"; 2], "s32")]
    {
        let body = product(from, to, out);
        simplified(&body, &body);
    }
    let vector = "x = s8[4,40] parameter(0)
         y = s8[40] parameter(1)
         w = s32[4,40] convert(x)
         v = s32[40] convert(y)
         ROOT d = s32[4] dot(w, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    simplified(vector, vector);
    simplified(
        "x = s8[1,8,8,4] parameter(0)
         y = u8[3,3,4,2] parameter(1)
         w = s32[1,8,8,4] convert(x)
         v = s32[3,3,4,2] convert(y)
         ROOT c = s32[1,6,6,2] convolution(w, v), window={size=3x3}, dim_labels=b01f_01io->b01f",
        "x = s8[1,8,8,4] parameter(0)
         y = u8[3,3,4,2] parameter(1)
         ROOT c.1 = s32[1,6,6,2] convolution(x, y), window={size=3x3}, dim_labels=b01f_01io->b01f",
    );
}

#[test]
fn products_take_transposed_operands_as_they_lie() {
    let taken = |body: &str, expected: &str| check(&[turned_operands::run, dce::run], ADD, body, expected);
    taken(
        "x = f32[4,40] parameter(0)
         w = f32[24,40] parameter(1)
         t = f32[40,24] transpose(w), dimensions={1,0}
         ROOT d = f32[4,24] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "x = f32[4,40] parameter(0)
         w = f32[24,40] parameter(1)
         ROOT d.1 = f32[4,24] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    );
    // Both sides, one of them with its heads behind its rows.
    taken(
        "q = f32[8,2,16] parameter(0)
         k = f32[2,24,16] parameter(1)
         a = f32[2,8,16] transpose(q), dimensions={1,0,2}
         b = f32[2,16,24] transpose(k), dimensions={0,2,1}
         ROOT d = f32[2,8,24] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        "q = f32[8,2,16] parameter(0)
         k = f32[2,24,16] parameter(1)
         ROOT d.1 = f32[2,8,24] dot(q, k), lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}",
    );
    // The dimensions that stay would come in another order.
    let other = "x = f32[6,4,40] parameter(0)
         w = f32[40,24] parameter(1)
         t = f32[4,6,40] transpose(x), dimensions={1,0,2}
         ROOT d = f32[4,6,24] dot(t, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}";
    taken(other, other);
}

#[test]
fn transposed_products_exchange_their_sides() {
    let turned = |body: &str, expected: &str| {
        check(&[transposed_dot::run, simplify::run, simplify::run, dce::run], ADD, body, expected);
    };
    turned(
        "x = f32[40,24] parameter(0)
         g = f32[40,16] parameter(1)
         d = f32[24,16] dot(x, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         ROOT t = f32[16,24] transpose(d), dimensions={1,0}",
        "x = f32[40,24] parameter(0)
         g = f32[40,16] parameter(1)
         ROOT d.1 = f32[16,24] dot(g, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    );
    // A step of gradient descent on weights that lie column by column, and batches.
    turned(
        "x = f32[2,8,24] parameter(0)
         g = f32[8,2,16] parameter(1)
         w = f32[2,16,24] parameter(2)
         v = f32[2,24,16] transpose(w), dimensions={0,2,1}
         d = f32[2,24,16] dot(x, g), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={0}
         s = f32[2,24,16] subtract(v, d)
         ROOT t = f32[2,16,24] transpose(s), dimensions={0,2,1}",
        "x = f32[2,8,24] parameter(0)
         g = f32[8,2,16] parameter(1)
         w = f32[2,16,24] parameter(2)
         d.1 = f32[2,16,24] dot(g, x), lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={0}, rhs_contracting_dims={1}
         ROOT s.1 = f32[2,16,24] subtract(w, d.1)",
    );
    // Narrow floats, and integers that are summed in a wider type.
    turned(
        "x = bf16[40,24] parameter(0)
         g = bf16[40,16] parameter(1)
         d = bf16[24,16] dot(x, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         ROOT t = bf16[16,24] transpose(d), dimensions={1,0}",
        "x = bf16[40,24] parameter(0)
         g = bf16[40,16] parameter(1)
         ROOT d.1 = bf16[16,24] dot(g, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    );
    turned(
        "x = s8[40,24] parameter(0)
         g = u8[40,16] parameter(1)
         d = s32[24,16] dot(x, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         ROOT t = s32[16,24] transpose(d), dimensions={1,0}",
        "x = s8[40,24] parameter(0)
         g = u8[40,16] parameter(1)
         ROOT d.1 = s32[16,24] dot(g, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    );
    let kept = |body: &str| turned(body, body);
    // Somebody else uses the product; a contraction reads it as it lies; the sides stay where they are.
    kept(
        "x = f32[40,24] parameter(0)
         d = f32[24,24] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         t = f32[24,24] transpose(d), dimensions={1,0}
         ROOT r = (f32[24,24], f32[24,24]) tuple(d, t)",
    );
    kept(
        "x = f32[40,24] parameter(0)
         d = f32[24,24] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
         t = f32[24,24] transpose(d), dimensions={1,0}
         ROOT r = f32[24,40] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    );
    kept(
        "x = f32[2,8,24] parameter(0)
         d = f32[2,24,24] dot(x, x), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
         ROOT t = f32[24,24,2] transpose(d), dimensions={2,1,0}",
    );
}

#[test]
fn broadcasts_compose_and_pass_through_reshapes() {
    simplified(
        "p = f32[3] parameter(0)
         b = f32[3,4] broadcast(p), dimensions={0}
         c = f32[2,3,4] broadcast(b), dimensions={1,2}
         ROOT r = f32[2,1,3,4,1] reshape(c)",
        "p = f32[3] parameter(0)
         ROOT r.1 = f32[2,1,3,4,1] broadcast(p), dimensions={2}",
    );
}

#[test]
fn slices_compose() {
    simplified(
        "p = f32[20] parameter(0)
         s = f32[6] slice(p), slice={[2:19:3]}
         ROOT t = f32[2] slice(s), slice={[1:4:2]}",
        "p = f32[20] parameter(0)
         ROOT t.1 = f32[2] slice(p), slice={[5:12:6]}",
    );
    simplified(
        "p = f32[4] parameter(0)
         q = f32[6] parameter(1)
         c = f32[10] concatenate(p, q), dimensions={0}
         ROOT s = f32[3] slice(c), slice={[5:8]}",
        "p = f32[4] parameter(0)
         q = f32[6] parameter(1)
         ROOT s.1 = f32[3] slice(q), slice={[1:4]}",
    );
}

#[test]
fn dynamic_slices_at_constants_clamp() {
    simplified(
        "p = f32[10] parameter(0)
         i = s32[] constant(9)
         ROOT s = f32[4] dynamic-slice(p, i), dynamic_slice_sizes={4}",
        "p = f32[10] parameter(0)
         ROOT s.1 = f32[4] slice(p), slice={[6:10]}",
    );
}

#[test]
fn float_identities_respect_the_sign_of_zero() {
    // x + 0.0 and x * 0.0 stay; x - 0.0, x + -0.0 and x * 1 go.
    simplified(
        "p = f32[] parameter(0)
         zero = f32[] constant(0)
         minus = f32[] constant(-0)
         one = f32[] constant(1)
         a = f32[] add(p, zero)
         b = f32[] multiply(a, zero)
         c = f32[] subtract(b, zero)
         d = f32[] add(c, minus)
         ROOT e = f32[] multiply(d, one)",
        "p = f32[] parameter(0)
         zero = f32[] constant(0)
         a = f32[] add(p, zero)
         ROOT b = f32[] multiply(a, zero)",
    );
}

#[test]
fn integer_identities() {
    simplified(
        "p = u32[] parameter(0)
         zero = u32[] constant(0)
         eight = u32[] constant(8)
         a = u32[] add(p, zero)
         b = u32[] multiply(a, eight)
         c = u32[] divide(b, eight)
         ROOT d = u32[] remainder(c, eight)",
        "p = u32[] parameter(0)
         b.1 = u32[] constant(3)
         b.2 = u32[] shift-left(p, b.1)
         c.1 = u32[] constant(3)
         c.2 = u32[] shift-right-logical(b.2, c.1)
         d.1 = u32[] constant(7)
         ROOT d.2 = u32[] and(c.2, d.1)",
    );
    // A signed division by a power of two rounds towards zero, which a shift does not.
    simplified(
        "p = s32[] parameter(0)
         eight = s32[] constant(8)
         ROOT c = s32[] divide(p, eight)",
        "p = s32[] parameter(0)
         eight = s32[] constant(8)
         ROOT c = s32[] divide(p, eight)",
    );
}

#[test]
fn exact_divisions_multiply() {
    simplified(
        "p = f32[4] parameter(0)
         c = f32[4] constant({4, 4, 4, 4})
         ROOT d = f32[4] divide(p, c)",
        "p = f32[4] parameter(0)
         d.1 = f32[] constant(0.25)
         d.2 = f32[4] broadcast(d.1), dimensions={}
         ROOT d.3 = f32[4] multiply(p, d.2)",
    );
    simplified(
        "p = f32[] parameter(0)
         c = f32[] constant(3)
         ROOT d = f32[] divide(p, c)",
        "p = f32[] parameter(0)
         c = f32[] constant(3)
         ROOT d = f32[] divide(p, c)",
    );
}

#[test]
fn comparisons_and_selections() {
    simplified(
        "p = s32[] parameter(0)
         q = s32[] parameter(1)
         l = pred[] compare(p, q), direction=LT
         n = pred[] not(l)
         t = pred[] compare(p, p), direction=EQ
         s = s32[] select(t, p, q)
         ROOT r = s32[] select(n, s, q)",
        "p = s32[] parameter(0)
         q = s32[] parameter(1)
         n.1 = pred[] compare(p, q), direction=GE
         ROOT r = s32[] select(n.1, p, q)",
    );
}

#[test]
fn reductions_of_one_element_keep_their_initial_value() {
    simplified(
        "p = f32[3,1] parameter(0)
         i = f32[] parameter(1)
         ROOT r = f32[3] reduce(p, i), dimensions={1}, to_apply=add",
        "p = f32[3,1] parameter(0)
         i = f32[] parameter(1)
         r.1 = f32[3] reshape(p)
         r.2 = f32[3] broadcast(i), dimensions={}
         ROOT r.3 = f32[3] add(r.2, r.1)",
    );
    simplified(
        "p = f32[3,1] parameter(0)
         i = f32[] constant(-inf)
         ROOT r = f32[3] reduce(p, i), dimensions={1}, to_apply=maximum",
        "p = f32[3,1] parameter(0)
         ROOT r.1 = f32[3] reshape(p)",
    );
    simplified(
        "p = f32[3,0] parameter(0)
         i = f32[] parameter(1)
         ROOT r = f32[3] reduce(p, i), dimensions={1}, to_apply=add",
        "p = f32[3,0] parameter(0)
         i = f32[] parameter(1)
         ROOT r.1 = f32[3] broadcast(i), dimensions={}",
    );
    simplified(
        "p = f32[0,4] parameter(0)
         i = f32[] parameter(1)
         ROOT r = f32[2,3] reduce-window(p, i), window={size=1x2 pad=1_1x0_0}, to_apply=add",
        "p = f32[0,4] parameter(0)
         i = f32[] parameter(1)
         ROOT r.1 = f32[2,3] broadcast(i), dimensions={}",
    );
}

#[test]
fn tuples_come_apart() {
    simplified(
        "p = (f32[2], s32[]) parameter(0)
         a = f32[2] get-tuple-element(p), index=0
         b = s32[] get-tuple-element(p), index=1
         t = (f32[2], s32[]) tuple(a, b)
         c = f32[2] get-tuple-element(t), index=0
         ROOT n = f32[2] negate(c)",
        "p = (f32[2], s32[]) parameter(0)
         c = f32[2] get-tuple-element(p), index=0
         ROOT n = f32[2] negate(c)",
    );
}

#[test]
fn barriers_and_controlled_instructions_stay() {
    simplified(
        "p = s32[] parameter(0)
         zero = s32[] constant(0)
         a = s32[] add(p, zero)
         b = s32[] opt-barrier(a)
         ROOT c = s32[] add(b, zero), control-predecessors={a}",
        "p = s32[] parameter(0)
         zero = s32[] constant(0)
         b = s32[] opt-barrier(p)
         ROOT c = s32[] add(b, zero), control-predecessors={p}",
    );
}

const LOOP: &str = "cond { s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(LIMIT) ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) y = f32[] add(x, x) ROOT r = (s32[], f32[]) tuple(j, y) }";

const LOOP_ENTRY: &str = "p = f32[] parameter(0)
         zero = s32[] constant(0)
         init = (s32[], f32[]) tuple(zero, p)
         w = (s32[], f32[]) while(init), condition=cond, body=body
         ROOT r = f32[] get-tuple-element(w), index=1";

#[test]
fn loops_that_run_never_or_once() {
    let passes = [simplify::run, inline::run, simplify::run, dce::run];
    check(&passes, &LOOP.replace("LIMIT", "0"), LOOP_ENTRY, "ROOT p = f32[] parameter(0)");
    check(&passes, &LOOP.replace("LIMIT", "1"), LOOP_ENTRY, "p = f32[] parameter(0)\nROOT y = f32[] add(p, p)");
}

/// The state holds a bound and a scale that never change, a sum that only the loop reads, and the result.
#[test]
fn loop_states_lose_what_never_changes_or_is_never_read() {
    let mut module = super::module(
        "cond { s = (s32[], s32[], f32[], f32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
           n = s32[] get-tuple-element(s), index=1 ROOT r = pred[] compare(i, n), direction=LT }
         body { s = (s32[], s32[], f32[], f32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
           n = s32[] get-tuple-element(s), index=1 scale = f32[] get-tuple-element(s), index=2
           sum = f32[] get-tuple-element(s), index=3 x = f32[] get-tuple-element(s), index=4
           one = s32[] constant(1) j = s32[] add(i, one) more = f32[] add(sum, x) y = f32[] multiply(x, scale)
           ROOT r = (s32[], s32[], f32[], f32[], f32[]) tuple(j, n, scale, more, y) }",
        "p = f32[] parameter(0)
         scale = f32[] parameter(1)
         zero = s32[] constant(0)
         n = s32[] constant(9)
         init = (s32[], s32[], f32[], f32[], f32[]) tuple(zero, n, scale, p, p)
         w = (s32[], s32[], f32[], f32[], f32[]) while(init), condition=cond, body=body
         a = f32[] get-tuple-element(w), index=2
         b = f32[] get-tuple-element(w), index=4
         ROOT r = f32[] add(a, b)",
    );
    super::run(&mut module, &[while_state::run, simplify::run, dce::run]);
    let got = super::lines(&module);
    let expected = [
        "p = f32[] parameter(0)",
        "scale = f32[] parameter(1)",
        "zero = s32[] constant(0)",
        "w.4 = (s32[], f32[], f32[]) tuple(zero, scale, p)",
        "w = (s32[], f32[], f32[]) while(w.4), condition=cond, body=body",
        "b = f32[] get-tuple-element(w), index=2",
        "ROOT r = f32[] add(scale, b)",
    ];
    assert_eq!(got, expected);
    let id = module.entry().order[4];
    assert_eq!(crate::passes::loops::trip_count(&module, module.entry, id), Some(9));
}

#[test]
fn trip_counts() {
    let module = super::module(&LOOP.replace("LIMIT", "7"), LOOP_ENTRY);
    let id = module.entry().order[3];
    assert_eq!(crate::passes::loops::trip_count(&module, module.entry, id), Some(7));
}

#[test]
fn equal_expressions_merge() {
    check(
        &[cse::run, dce::run],
        "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
         g { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }",
        "p = f32[4] parameter(0)
         q = f32[4] parameter(1)
         zero = f32[] constant(0)
         null = f32[] constant(0)
         minus = f32[] constant(-0)
         a = f32[4] add(p, q), metadata={op_name=\"one\"}
         b = f32[4] add(q, p), metadata={op_name=\"two\"}
         r = f32[] reduce(a, zero), dimensions={0}, to_apply=f
         s = f32[] reduce(b, null), dimensions={0}, to_apply=g
         u = f32[] reduce(b, minus), dimensions={0}, to_apply=g
         x = f32[] rng(zero, r), distribution=rng_uniform
         y = f32[] rng(zero, r), distribution=rng_uniform
         ROOT t = (f32[], f32[], f32[], f32[], f32[]) tuple(r, s, u, x, y)",
        "p = f32[4] parameter(0)
         q = f32[4] parameter(1)
         zero = f32[] constant(0)
         minus = f32[] constant(-0)
         a = f32[4] add(p, q)
         r = f32[] reduce(a, zero), dimensions={0}, to_apply=f
         u = f32[] reduce(a, minus), dimensions={0}, to_apply=g
         x = f32[] rng(zero, r), distribution=rng_uniform
         y = f32[] rng(zero, r), distribution=rng_uniform
         ROOT t = (f32[], f32[], f32[], f32[], f32[]) tuple(r, r, u, x, y)",
    );
}

#[test]
fn calls_inline_and_keep_effects() {
    check(
        &[inline::run, dce::run],
        "inner { t = token[] parameter(0) x = f32[] parameter(1) o = token[] outfeed(x, t) ROOT r = f32[] negate(x) }
         fused { x = f32[] parameter(0) ROOT r = f32[] exponential(x) }",
        "p = f32[] parameter(0)
         t = token[] after-all()
         c = f32[] call(t, p), to_apply=inner
         f = f32[] fusion(p), kind=kLoop, calls=fused
         ROOT r = f32[] add(f, p), control-predecessors={c}",
        "p = f32[] parameter(0)
         t = token[] after-all()
         o = token[] outfeed(p, t)
         r.1 = f32[] negate(p)
         r.2 = f32[] exponential(p)
         ROOT r = f32[] add(r.2, p), control-predecessors={o, r.1}",
    );
}

#[test]
fn calls_within_calls_inline_in_one_go_and_keep_effects_in_order() {
    check(
        &[inline::run, dce::run],
        "deep { t = token[] parameter(0) x = f32[] parameter(1) o = token[] outfeed(x, t) ROOT r = f32[] negate(x) }
         middle {
           t = token[] parameter(0) x = f32[] parameter(1) s = f32[] sine(x)
           c = f32[] call(t, s), to_apply=deep, control-predecessors={s}
           ROOT e = f32[] exponential(x), control-predecessors={c} }
         often { x = f32[] parameter(0) ROOT r = f32[] cosine(x) }
         above { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=often }",
        "p = f32[] parameter(0)
         t = token[] after-all()
         c = f32[] call(t, p), to_apply=middle
         a = f32[] call(c), to_apply=above
         b = f32[] call(a), to_apply=often
         ROOT r = f32[] add(c, b), control-predecessors={c}",
        "p = f32[] parameter(0)
         t = token[] after-all()
         s = f32[] sine(p)
         o = token[] outfeed(s, t), control-predecessors={s}
         r.1 = f32[] negate(s)
         e = f32[] exponential(p), control-predecessors={o, r.1}
         r.2 = f32[] cosine(e)
         r.3 = f32[] cosine(r.2)
         ROOT r = f32[] add(e, r.3), control-predecessors={o, e}",
    );
}

#[test]
fn asynchronous_forms_become_plain() {
    check(
        &[async_to_sync::run, inline::run, simplify::run, dce::run],
        "wrapped { x = f32[2] parameter(0) ROOT r = f32[2] negate(x) }",
        "p = f32[2] parameter(0)
         s = ((f32[2]), f32[2], u32[]) async-start(p), calls=wrapped
         u = ((f32[2]), f32[2], u32[]) async-update(s)
         d = f32[2] async-done(u)
         c = (f32[2], f32[2], u32[]) copy-start(d)
         ROOT e = f32[2] copy-done(c)",
        "p = f32[2] parameter(0)
         ROOT r = f32[2] negate(p)",
    );
}

#[test]
fn entry_layouts_become_transposes() {
    check(
        &[layout::run],
        "",
        "p = f32[2,3]{0,1} parameter(0)
         n = f32[2,3]{0,1} negate(p)
         b = f32[6]{0} bitcast(n)
         ROOT t = (f32[2,3]{0,1}, f32[6]{0}) tuple(n, b)",
        "p = f32[3,2] parameter(0)
         p.2 = f32[2,3] transpose(p), dimensions={1,0}
         n = f32[2,3] negate(p.2)
         b.1 = f32[3,2] transpose(n), dimensions={1,0}
         b.2 = f32[6] reshape(b.1)
         t = (f32[2,3], f32[6]) tuple(n, b.2)
         t.1 = f32[2,3] get-tuple-element(t), index=0
         t.2 = f32[3,2] transpose(t.1), dimensions={1,0}
         t.3 = f32[6] get-tuple-element(t), index=1
         ROOT t.4 = (f32[3,2], f32[6]) tuple(t.2, t.3)",
    );
}

#[test]
fn maps_clamps_and_selections_expand() {
    check(
        &[expand::run, dce::run],
        "f { x = f32[] parameter(0) y = f32[] parameter(1) c = f32[] constant(2) m = f32[] multiply(x, c)
             ROOT r = f32[] add(m, y) }",
        "p = f32[3] parameter(0)
         q = f32[3] parameter(1)
         l = f32[] parameter(2)
         b = pred[] parameter(3)
         m = f32[3] map(p, q), dimensions={0}, to_apply=f
         c = f32[3] clamp(l, m, q)
         ROOT s = f32[3] select(b, c, m)",
        "p = f32[3] parameter(0)
         q = f32[3] parameter(1)
         l = f32[] parameter(2)
         b = pred[] parameter(3)
         c.1 = f32[] constant(2)
         m.1 = f32[3] broadcast(c.1), dimensions={}
         m.2 = f32[3] multiply(p, m.1)
         r = f32[3] add(m.2, q)
         c.2 = f32[3] broadcast(l), dimensions={}
         c.3 = f32[3] clamp(c.2, r, q)
         s.1 = pred[3] broadcast(b), dimensions={}
         ROOT s.2 = f32[3] select(s.1, c.3, r)",
    );
}

#[test]
fn constants_fold_within_limits() {
    check(
        &[simplify::run, fold::run, simplify::run, dce::run],
        ADD,
        "two = f32[] constant(2)
         three = f32[] constant(3)
         a = f32[1000000000] broadcast(two), dimensions={}
         b = f32[1000000000] broadcast(three), dimensions={}
         c = f32[1000000000] multiply(a, b)
         d = s32[3] constant({1, 2, 3})
         e = s32[3] reverse(d), dimensions={0}
         ROOT t = (f32[1000000000], s32[3]) tuple(c, e)",
        "c.1 = f32[] constant(6)
         c.2 = f32[1000000000] broadcast(c.1), dimensions={}
         e.1 = s32[3] constant({3, 2, 1})
         ROOT t = (f32[1000000000], s32[3]) tuple(c.2, e.1)",
    );
}

#[test]
fn loops_that_change_nothing_are_their_initial_state() {
    check(
        &[while_state::run, dce::run],
        "cond { s = (s32[]) parameter(0) ROOT r = pred[] constant(true) }
         body { s = (s32[]) parameter(0) c = s32[] constant(4) ROOT r = (s32[]) tuple(c) }",
        "c = s32[] constant(4)
         init = (s32[]) tuple(c)
         ROOT w = (s32[]) while(init), condition=cond, body=body",
        "c = s32[] constant(4)
         ROOT init = (s32[]) tuple(c)",
    );
}
