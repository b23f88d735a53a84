#![allow(clippy::unwrap_used)]

use super::*;
use crate::hlo::PaddingDimension;
use crate::text::{self, PrintOptions};
use brolga_runtime::ElementType::{self, *};
use reduction::scalar_computation;

fn constraint(error: &Error) -> &'static str {
    match error {
        Error::Invalid { constraint, .. } => constraint,
        other => panic!("{other}"),
    }
}

/// The result's shape, of a module that also prints and reads back.
fn result(b: Builder) -> String {
    let module = b.build().unwrap();
    let once = text::print(&module, &PrintOptions::default());
    let again = text::parse(&once).unwrap_or_else(|e| panic!("{e}\n{once}"));
    shape::verify(&again).unwrap();
    assert_eq!(text::print(&again, &PrintOptions::default()), once);
    module.entry().result_shape().to_string()
}

fn array(b: &Builder, n: i64, dims: &[i64]) -> Op {
    b.parameter(n, Shape::array(F32, dims), &format!("p{n}"))
}

#[test]
fn scalars_and_degenerate_dimensions_broadcast() {
    for (left, right, want) in [
        (&[][..], &[2, 3][..], "f32[2,3]"),
        (&[2, 3], &[], "f32[2,3]"),
        (&[2, 1], &[2, 3], "f32[2,3]"),
        (&[2, 1], &[1, 3], "f32[2,3]"),
        (&[1], &[1], "f32[1]"),
    ] {
        let b = Builder::new("main");
        b.add(array(&b, 0, left), array(&b, 1, right));
        assert_eq!(result(b), want);
    }
    let b = Builder::new("main");
    b.mul_in_dims(array(&b, 0, &[2, 3, 4]), array(&b, 1, &[3]), &[1]);
    assert_eq!(result(b), "f32[2,3,4]");
    let b = Builder::new("main");
    b.lt_in_dims(array(&b, 0, &[1, 4]), array(&b, 1, &[2, 3, 4]), &[0, 2]);
    assert_eq!(result(b), "pred[2,3,4]");
    for (left, right, dims) in
        [(&[2][..], &[3][..], &[][..]), (&[2], &[2, 3], &[]), (&[2], &[2, 3], &[1]), (&[2], &[2, 3], &[5])]
    {
        let b = Builder::new("main");
        b.add_in_dims(array(&b, 0, left), array(&b, 1, right), dims);
        assert_eq!(constraint(&b.build().unwrap_err()), "builder.broadcast");
    }
}

#[test]
fn the_first_error_is_kept_with_its_place() {
    let b = Builder::new("main");
    let x = array(&b, 0, &[2, 3]);
    let line = line!() + 1;
    let wrong = b.transpose(x, &[0, 0]);
    b.add(wrong, b.neg(wrong));
    b.reshape(x, &[7]);
    let error = b.build().unwrap_err();
    assert_eq!(constraint(&error), "transpose.permutation");
    assert_eq!(error.site().unwrap().location.line, line);
    assert!(error.to_string().starts_with(file!()), "{error}");
}

#[test]
fn values_of_other_builders_are_refused() {
    let other = Builder::new("other");
    let x = array(&other, 0, &[2]);
    let b = Builder::new("main");
    b.neg(x);
    assert_eq!(constraint(&b.build().unwrap_err()), "builder.operand");
    assert_eq!(constraint(&Builder::new("empty").build().unwrap_err()), "computation.root");
    let b = Builder::new("main");
    array(&b, 1, &[2]);
    assert_eq!(constraint(&b.build().unwrap_err()), "parameter.number");
}

#[test]
fn computations_are_embedded_once_under_unique_names() {
    let add = scalar_computation(Opcode::Add, F32).unwrap();
    let b = Builder::new("add");
    let x = array(&b, 0, &[4, 5]);
    let zero = b.constant_r0(0f32);
    let rows = b.reduce(x, zero, &add, &[1]);
    b.reduce_all(rows, zero, &add);
    let module = b.build().unwrap();
    assert_eq!(module.order.len(), 2);
    let names: Vec<_> = module.order.iter().map(|&c| module.computations[c].name.clone()).collect();
    assert_eq!(names, ["add.1", "add"]);
    assert_eq!(module.entry().result_shape().to_string(), "f32[]");
}

#[test]
fn loops_and_branches() {
    let state = Shape::tuple(vec![Shape::scalar(S32), Shape::array(F32, [4])]);
    let c = Builder::new("condition");
    let s = c.parameter(0, state.clone(), "s");
    c.lt(c.get_tuple_element(s, 0), c.constant_r0(10i32));
    let condition = c.build().unwrap();
    let c = Builder::new("body");
    let s = c.parameter(0, state.clone(), "s");
    let next = c.add(c.get_tuple_element(s, 0), c.constant_r0(1i32));
    c.tuple(&[next, c.exp(c.get_tuple_element(s, 1))]);
    let body = c.build().unwrap();
    let b = Builder::new("main");
    let init = b.tuple(&[b.constant_r0(0i32), array(&b, 0, &[4])]);
    let out = b.while_(&condition, &body, init);
    let x = b.get_tuple_element(out, 1);
    let negate = Builder::new("negate");
    negate.neg(array(&negate, 0, &[4]));
    let negate = negate.build().unwrap();
    let chosen = b.conditional(b.constant_pred(true), x, &negate, x, &negate);
    b.conditional_indexed(b.get_tuple_element(out, 0), &[&negate, &negate], &[chosen, x]);
    assert_eq!(result(b), "f32[4]");

    let b = Builder::new("main");
    b.while_(&body, &body, b.parameter(0, state, "s"));
    assert_eq!(constraint(&b.build().unwrap_err()), "while.condition-result");
}

#[test]
fn movement() {
    let b = Builder::new("main");
    let x = array(&b, 0, &[4, 6]);
    let y = b.slice_in_dim(b.transpose(x, &[1, 0]), 1, 6, 2, 0);
    let y = b.concat_in_dim(&[y, y], 0);
    let y = b.pad(y, b.zero(F32), &[PaddingDimension { low: 1, high: 0, interior: 1 }, PaddingDimension::default()]);
    let y = b.collapse(b.broadcast(y, &[2]), &[0, 1]);
    let y = b.broadcast_in_dim(b.reshape(y, &[1, 96]), &[3, 7, 96], &[0, 2]);
    let y = b.rev(b.bitcast_convert_type(y, U8), &[3]);
    b.convert_element_type(y, S32);
    assert_eq!(result(b), "s32[3,7,96,4]");
}

#[test]
fn contractions_and_windows() {
    let b = Builder::new("main");
    let x = array(&b, 0, &[2, 3, 9, 9]);
    let k = array(&b, 1, &[8, 3, 3, 3]);
    let y = b.conv(x, k, &[2, 2], &Padding::Same, 1, 1);
    assert_eq!(b.shape(y).unwrap().to_string(), "f32[2,8,5,5]");
    let max = scalar_computation(Opcode::Maximum, F32).unwrap();
    let y = b.reduce_window(y, b.constant_r0(f32::NEG_INFINITY), &max, &[1, 1, 2, 2], &[1, 1, 2, 2], &Padding::Valid);
    assert_eq!(b.shape(y).unwrap().to_string(), "f32[2,8,2,2]");
    let y = b.reshape(y, &[2, 32]);
    let dims = DotDimensions { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotDimensions::default() };
    b.dot_general_with_type(y, y, &dims, F64);
    assert_eq!(result(b), "f64[2,2]");

    let b = Builder::new("main");
    b.dot(array(&b, 0, &[3, 4]), array(&b, 1, &[5, 4]));
    assert_eq!(constraint(&b.build().unwrap_err()), "dot.contracting-sizes");
}

#[test]
fn the_rest() {
    let b = Builder::new("main");
    let x = array(&b, 0, &[5, 6]);
    let i = b.parameter(1, Shape::array(S32, [4]), "i");
    let rows = GatherDimensions {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDimensions::default()
    };
    let g = b.gather(x, i, &rows, &[1, 6], false);
    let back = ScatterDimensions {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDimensions::default()
    };
    let add = scalar_computation(Opcode::Add, F32).unwrap();
    let s = b.scatter(&[x], i, &[g], &add, &back, false, true);
    let at = b.constant_r0(1i32);
    let s = b.dynamic_update_slice(s, b.dynamic_slice(s, &[at, at], &[2, 2]), &[at, at]);
    let less = Builder::new("less");
    let (l, r) = (less.parameter(0, Shape::scalar(F32), "l"), less.parameter(1, Shape::scalar(F32), "r"));
    less.lt(l, r);
    let s = b.sort(&[s], &less.build().unwrap(), 1, true);
    let t = b.top_k(s, 3, true);
    let u = b.rng_uniform(b.zero(F32), b.constant_r0(1f32), Shape::array(F32, [5, 3]));
    let v = b.infeed(Shape::array(F32, [5, 3]));
    b.outfeed(v);
    let w = b.all_to_all(b.add(u, b.add(v, b.get_tuple_element(t, 0))), 0, 1, 5, &[]);
    b.custom_call("double", &[b.fft(b.complex(w, w), FftKind::Fft, &[15])], Shape::array(C64, [1, 15]));
    assert_eq!(result(b), "c64[1,15]");
}

/// What the text forbids of operations that HLO text lets pass, or has no words for.
#[test]
fn what_the_text_forbids_is_refused() {
    let refused = |make: &dyn Fn(&Builder)| {
        let b = Builder::new("main");
        make(&b);
        constraint(&b.build().unwrap_err())
    };
    let square = |b: &Builder| array(b, 0, &[4, 4]);
    let sent = |count: i64, groups: &'static [&'static [i64]]| {
        let groups: Vec<Vec<i64>> = groups.iter().map(|g| g.to_vec()).collect();
        [(0, 0), (0, 1)].map(|(split, concat)| {
            refused(&|b| {
                b.all_to_all(square(b), split, concat, count, &groups);
            })
        })
    };
    assert_eq!(sent(3, &[]), ["collective.sizes"; 2]);
    assert_eq!(sent(0, &[]), ["collective.sizes"; 2]);
    assert_eq!(sent(2, &[&[0, 1, 2, 3]]), ["collective.group-sizes"; 2]);
    assert_eq!(sent(4, &[&[0, 1], &[2, 3]]), ["collective.group-sizes"; 2]);
    let places = |split, concat| {
        refused(&|b| {
            b.all_to_all(square(b), split, concat, 2, &[]);
        })
    };
    assert_eq!([places(2, 2), places(-1, 0)], ["collective.dimension"; 2]);

    let add = scalar_computation(Opcode::Add, F32).unwrap();
    let empty = |reduce: &dyn Fn(&Builder, Op)| refused(&|b| reduce(b, b.tuple(&[])));
    assert_eq!(empty(&|b, t| _ = b.all_reduce(t, &add, &[], None)), "arity");
    assert_eq!(empty(&|b, t| _ = b.reduce_scatter(t, &add, 0, 2, &[], None)), "arity");

    assert_eq!(refused(&|b| _ = b.after_all(&[array(b, 0, &[4])])), "operand.token");
    assert_eq!(refused(&|b| _ = b.infeed_with_token(array(b, 0, &[4]), Shape::array(F32, [4]))), "operand.token");
    assert_eq!(refused(&|b| _ = b.outfeed_with_token(array(b, 0, &[4]), array(b, 1, &[4]))), "operand.token");
    assert_eq!(refused(&|b| _ = b.outfeed(b.after_all(&[]))), "outfeed.value");
    assert_eq!(refused(&|b| _ = b.infeed(Shape::Token)), "infeed.value");
    assert_eq!(refused(&|b| _ = b.send(b.after_all(&[]), 1)), "transfer.data");
    assert_eq!(refused(&|b| _ = b.recv(Shape::Token, 1)), "transfer.data");
    let twice: [&dyn Fn(&Builder); 2] =
        [&|b| _ = b.send(array(b, 0, &[4]), 7), &|b| _ = b.recv(Shape::array(F32, [4]), 7)];
    for (k, transfer) in twice.into_iter().enumerate() {
        let b = Builder::new("main");
        transfer(&b);
        // The other end of the channel is another instruction.
        twice[1 - k](&b);
        assert_eq!(b.first_error(), None);
        transfer(&b);
        assert_eq!(constraint(&b.build().unwrap_err()), "transfer.channel");
    }
}

/// The place of an instruction or an error: this file and a line of it.
fn here(line: u32, location: SourceLocation) {
    assert_eq!((location.file, location.line), (Some(file!()), line));
}

/// Every rule's message names the operation; the place is said once, with its file, before it.
#[test]
fn errors_name_the_operation_and_the_call() {
    type Wrong = fn(&Builder, Op, Op) -> u32;
    let cases: &[(&str, Wrong)] = &[
        ("and", |b, x, _| (b.logical_and(x, x), line!()).1),
        ("or", |b, x, _| (b.logical_or(x, x), line!()).1),
        ("not", |b, x, _| (b.logical_not(x), line!()).1),
        ("and", |b, x, _| (b.and(x, x), line!()).1),
        ("add", |b, x, s| (b.add(x, b.tuple(&[s])), line!()).1),
        ("dynamic-update-slice", |b, x, s| (b.dynamic_update_slice_modulo(x, s, b.constant_r1(&[0i32, 0])), line!()).1),
        ("dynamic-slice", |b, x, s| (b.dynamic_slice_modulo(x, s, &[1, 1]), line!()).1),
        ("parameter", |b, _, _| (b.parameter(-1, Shape::scalar(F32), "p"), line!()).1),
        ("parameter", |b, _, _| (b.parameter(2, Shape::array(F32, [-3]), "p"), line!()).1),
        ("broadcast", |b, _, s| (b.broadcast_in_dim(s, &[2], &[0]), line!()).1),
        ("transpose", |b, x, _| (b.transpose(x, &[1]), line!()).1),
        ("transpose", |b, _, s| (b.transpose(s, &[0]), line!()).1),
        ("reverse", |b, _, s| (b.rev(s, &[0]), line!()).1),
        ("slice", |b, x, _| (b.slice_in_dim(x, 0, 1, 1, 5), line!()).1),
        ("slice", |b, _, s| (b.slice_in_dim(s, 0, 1, 1, 0), line!()).1),
        ("concatenate", |b, _, s| (b.concat_in_dim(&[s, s], 0), line!()).1),
        ("iota", |b, _, _| (b.iota(Shape::scalar(S32), 0), line!()).1),
        ("get-dimension-size", |b, _, s| (b.get_dimension_size(s, 0), line!()).1),
        ("get-tuple-element", |b, _, _| (b.get_tuple_element(b.tuple(&[]), 0), line!()).1),
        ("gather", |b, x, s| (b.gather(x, s, &GatherDimensions::default(), &[1], false), line!()).1),
        ("dot", |b, x, _| (b.dot(x, x), line!()).1),
        ("convolution", |b, x, s| (b.conv(x, s, &[], &Padding::Valid, 1, 1), line!()).1),
        ("reduce-window", |b, x, s| {
            let add = scalar_computation(Opcode::Add, F32).unwrap();
            (b.reduce_window(x, s, &add, &[1], &[1], &Padding::Valid), line!()).1
        }),
        ("map", |b, x, s| {
            let add = scalar_computation(Opcode::Add, F32).unwrap();
            (b.map_with_static_operands(&[x], &add, &[b.tuple(&[s])]), line!()).1
        }),
        ("sort", |b, x, _| (b.sort_ascending(b.complex(x, x)), line!()).1),
        ("rng", |b, _, s| (b.rng_bernoulli(s, Shape::array(F32, [2])), line!()).1),
        ("all-reduce", |b, _, _| (b.cross_replica_sum(b.tuple(&[])), line!()).1),
        ("all-to-all", |b, x, _| (b.all_to_all(x, 0, 7, 2, &[]), line!()).1),
        ("all-gather", |b, _, s| (b.all_gather(s, 0, 2, &[], None), line!()).1),
        ("cholesky", |b, x, _| (b.cholesky(x, true), line!()).1),
        ("topk", |b, x, _| (b.top_k(x, 9, true), line!()).1),
        ("conditional", |b, x, _| {
            let add = scalar_computation(Opcode::Add, F32).unwrap();
            (b.conditional(x, x, &add, x, &add), line!()).1
        }),
    ];
    for (operation, wrong) in cases {
        let b = Builder::new("main");
        let (x, s) = (array(&b, 0, &[2, 3]), array(&b, 1, &[]));
        let line = wrong(&b, x, s);
        let error = b.build().unwrap_err();
        here(line, error.site().unwrap().location);
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("{}:{line}:", file!())), "{shown}");
        assert_eq!(shown.matches(file!()).count(), 1, "{shown}");
        let message = error.message();
        let words = message.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        assert!(words.clone().any(|w| w == *operation), "{operation}: {message}");
        assert!(!shown.contains("Some(") && !shown.contains("rank 0") && !shown.contains("below 0"), "{shown}");
    }
}

#[test]
fn select_broadcasts_its_predicate_only() {
    let select = |p: &[i64], t: &[i64], f: &[i64]| {
        let b = Builder::new("main");
        b.select(b.parameter(0, Shape::array(Pred, p), "p"), array(&b, 1, t), array(&b, 2, f));
        b.build().map(|m| m.entry().result_shape().to_string()).map_err(|e| constraint(&e))
    };
    assert_eq!(select(&[], &[2, 3], &[2, 3]), Ok("f32[2,3]".to_owned()));
    assert_eq!(select(&[2, 3], &[2, 3], &[2, 3]), Ok("f32[2,3]".to_owned()));
    for (p, t, f) in [
        (&[2, 3][..], &[2, 3][..], &[][..]),
        (&[2, 3], &[], &[2, 3]),
        (&[2, 3], &[2, 3], &[1, 3]),
        (&[], &[2, 3], &[2, 1]),
        (&[2, 3], &[], &[]),
        (&[1, 3], &[2, 3], &[2, 3]),
    ] {
        assert_eq!(select(p, t, f), Err("elementwise.same-dimensions"), "{p:?} {t:?} {f:?}");
    }
}

#[test]
fn a_map_checks_what_it_is_given() {
    let one = {
        let f = Builder::new("one");
        f.neg(f.parameter(0, Shape::scalar(F32), "x"));
        f.build().unwrap()
    };
    let mapped = |dimensions: &[i64]| {
        let b = Builder::new("main");
        b.map_with_dimensions(&[array(&b, 0, &[2, 3])], &one, dimensions);
        b.build().map(|m| m.entry().result_shape().to_string()).map_err(|e| constraint(&e))
    };
    assert_eq!(mapped(&[0, 1]), Ok("f32[2,3]".to_owned()));
    for dimensions in [&[0][..], &[1, 0], &[0, 1, 2]] {
        assert_eq!(mapped(dimensions), Err("map.dimensions"));
    }
    let picks = {
        let f = Builder::new("picks");
        let (i, table) = (f.parameter(0, Shape::scalar(S32), "i"), f.parameter(1, Shape::array(F32, [3]), "table"));
        f.reshape(f.dynamic_slice(table, &[i], &[1]), &[]);
        f.build().unwrap()
    };
    let refused = |operands: &[(ElementType, &[i64])], computation: &Module, statics: &[i64]| {
        let b = Builder::new("main");
        let parameter =
            |(k, &(ty, dims)): (usize, &(ElementType, &[i64]))| b.parameter(k as i64, Shape::array(ty, dims), "");
        let operands: Vec<Op> = operands.iter().enumerate().map(parameter).collect();
        let table = array(&b, operands.len() as i64, statics);
        b.map_with_static_operands(&operands, computation, &[table]);
        constraint(&b.build().unwrap_err())
    };
    assert_eq!(refused(&[], &picks, &[3]), "arity");
    assert_eq!(refused(&[(S32, &[2]), (S32, &[3])], &picks, &[3]), "map.same-dimensions");
    assert_eq!(refused(&[(S32, &[2])], &picks, &[4]), "call.parameter-shape");
    assert_eq!(refused(&[(F32, &[2])], &picks, &[3]), "call.parameter-shape");
    assert_eq!(refused(&[(S32, &[2]), (S32, &[2])], &picks, &[3]), "call.parameters");
    let whole = {
        let f = Builder::new("whole");
        f.parameter(0, Shape::scalar(S32), "i");
        f.neg(f.parameter(1, Shape::array(F32, [3]), "table"));
        f.build().unwrap()
    };
    assert_eq!(refused(&[(S32, &[2])], &whole, &[3]), "map.result");
}

#[test]
fn extremes_of_every_type() {
    for &ty in ElementType::ALL {
        let value = |make: &dyn Fn(&Builder) -> Op| -> std::result::Result<f64, &'static str> {
            let b = Builder::new("main");
            make(&b);
            let module = b.build().map_err(|e| constraint(&e))?;
            let root = module.instruction(module.entry, module.entry().root);
            Ok(root.literal().unwrap().as_array().unwrap().get(0).as_complex().re)
        };
        let ends = (value(&|b| b.min_value(ty)), value(&|b| b.max_value(ty)));
        if ty.is_complex() {
            assert_eq!(ends, (Err("constant.elements"), Err("constant.elements")));
            continue;
        }
        let (low, high): (f64, f64) = (ends.0.unwrap(), ends.1.unwrap());
        let zero = if ty == F8E8M0Fnu { 0.25 } else { 0.0 };
        assert!(low <= zero && zero < high || ty == S1, "{ty}: {low} {high}");
        let want = match ty {
            Pred | U1 => (0.0, 1.0),
            S1 => (-1.0, 0.0),
            S8 => (-128.0, 127.0),
            U8 => (0.0, 255.0),
            S32 => (-2147483648.0, 2147483647.0),
            U64 => (0.0, u64::MAX as f64),
            S64 => (i64::MIN as f64, i64::MAX as f64),
            F4E2M1Fn => (-6.0, 6.0),
            F8E4M3Fn => (-448.0, 448.0),
            F8E8M0Fnu => (2f64.powi(-127), 2f64.powi(127)),
            F8E5M2 | F16 | BF16 | F32 | F64 => (f64::NEG_INFINITY, f64::INFINITY),
            _ => (low, high),
        };
        assert_eq!((low, high), want, "{ty}");
        let one = value(&|b| b.one(ty));
        assert_eq!(one, if ty == S1 { Err("constant.elements") } else { Ok(1.0) }, "{ty}");
    }
}

/// Two feeds that share no data have the order of their tokens; a third, called later, follows both.
#[test]
fn feeds_take_and_give_tokens() {
    let read = |ordered: bool| {
        let b = Builder::new("main");
        let scalar = Shape::scalar(F32);
        let start = b.after_all(&[]);
        let (first, after) = b.infeed_with_token(start, scalar.clone());
        let (second, after) = b.infeed_with_token(if ordered { after } else { start }, scalar.clone());
        b.outfeed_with_token(first, after);
        b.add(b.sub(first, second), b.infeed(scalar));
        let module = b.build().unwrap();
        shape::verify_feeds(&module).map_err(|e| constraint(&e))
    };
    assert_eq!(read(true), Ok(()));
    assert_eq!(read(false), Err("infeed.order"));
}

#[test]
fn a_method_made_of_others_stands_where_it_was_called() {
    let b = Builder::new("main");
    let x = array(&b, 0, &[4, 4]);
    let p = b.parameter(1, Shape::array(Pred, [4]), "p");
    let starts = b.constant_r1(&[1i32, 2]);
    let first = b.state.borrow().instructions.len();
    let line = line!() + 1;
    b.logical_and(p, b.logical_or(p, b.logical_not(p)));
    b.dynamic_update_slice_modulo(b.dynamic_slice_modulo(x, starts, &[4, 4]), x, starts);
    b.sort_ascending(b.dot_last_dimensions(x, b.sign_without_negative_zero(x)));
    b.cross_replica_sum(b.tuple(&[x]));
    b.rng_bernoulli(b.constant_r0(0.5f32), Shape::array(U32, [3]));
    b.all_to_all(b.reshape_in_order(x, &[1, 0], &[4, 4]), 0, 1, 2, &[]);
    b.constant(&[1], &[b.constant_r0(1f32)].map(|_| 1f32));
    let last = line!() - 1;
    let module = b.build().unwrap();
    for &c in &module.order {
        let computation = &module.computations[c];
        let skipped = if c == module.entry { first } else { 0 };
        for (_, i) in computation.instructions.iter().skip(skipped) {
            assert_eq!(i.location.file, Some(file!()), "{}", i.name);
            assert!((line..=last).contains(&i.location.line), "{} at {}", i.name, i.location);
        }
    }
}

/// What the verifier, or a later room, finds wrong is found where it was built.
#[test]
fn errors_after_the_build_keep_the_call() {
    let b = Builder::new("main");
    let line = line!() + 1;
    let x = b.parameter(1, Shape::scalar(F32), "x");
    let error = b.build_with_root(x).unwrap_err();
    assert_eq!(constraint(&error), "parameter.number");
    here(line, error.site().unwrap().location);
    let b = Builder::new("main");
    let (x, y) = (array(&b, 0, &[]), b.parameter(1, Shape::scalar(F64), "y"));
    let line = line!() + 1;
    b.add(x, y);
    let error = crate::compile(&b.build().unwrap(), &crate::CompileOptions::default()).unwrap_err();
    here(line, error.site().unwrap().location);
    assert!(error.to_string().starts_with(file!()), "{error}");
    // A builder that has nothing to build is named by its own place.
    let line = line!() + 1;
    let empty = Builder::new("empty");
    here(line, empty.build().unwrap_err().site().unwrap().location);
}

#[test]
fn names_are_made_printable() {
    let texts =
        ["a b,c", "", "1st", "-x", ".x", "größe", "%x", "ROOT", "ENTRY", "f32", "f32[2]", "true", "x/*", "a\nb"];
    for name in texts {
        for percent in [true, false] {
            let b = Builder::new(name);
            let x = b.parameter(0, Shape::array(F32, [2]), name);
            let y = b.parameter(1, Shape::array(F32, [2]), name);
            b.add(x, y);
            let module = b.build().unwrap();
            let options = PrintOptions { percent, ..PrintOptions::default() };
            let once = text::print(&module, &options);
            let again = text::parse(&once).unwrap_or_else(|e| panic!("{name:?}: {e}\n{once}"));
            assert_eq!(text::print(&again, &options), once);
            assert_eq!(again.name, module.name);
        }
    }
    let b = Builder::new("my module!");
    let x = b.parameter(0, Shape::scalar(F32), "a b,c");
    assert_eq!(b.name(x).unwrap(), "a_b_c");
    assert_eq!(b.build().unwrap().name, "my_module_");
}

/// Texts that a caller hands on stand in quotes, whatever they hold.
#[test]
fn strings_print_as_they_read_back() {
    let odd = "a \"b\"\\ \u{7} é\n";
    let b = Builder::new("main");
    let x = array(&b, 0, &[2]);
    let options = CustomCallOptions { opaque: odd.to_owned(), ..CustomCallOptions::default() };
    let y = b.custom_call_with_options(odd, &[x], Shape::array(F32, [2]), &options);
    let body = Builder::new("body");
    body.neg(array(&body, 0, &[2]));
    b.composite_call(&body.build().unwrap(), &[y], odd, None, 2);
    let once = text::print(&b.build().unwrap(), &PrintOptions::default());
    let again = text::parse(&once).unwrap_or_else(|e| panic!("{e}\n{once}"));
    assert_eq!(text::print(&again, &PrintOptions::default()), once);
    let call = again.entry().instructions.values().find(|i| i.opcode == Opcode::CustomCall).unwrap();
    assert_eq!(call.attrs.str(crate::hlo::AttrKey::CustomCallTarget), Some(odd));
    assert_eq!(text::parse_string(call.attrs.raw(crate::hlo::AttrKey::BackendConfig).unwrap()).unwrap(), odd);
}

#[test]
fn arrays_past_the_address_space_are_valid_but_unsupported() {
    let too_large: [&dyn Fn(&Builder); 5] = [
        &|b| _ = b.parameter(0, Shape::array(F32, [i64::MAX]), "p"),
        &|b| _ = b.broadcast(b.constant_r0(1f32), &[1 << 40, 1 << 40]),
        &|b| _ = b.iota(Shape::array(S64, [1 << 61]), 0),
        &|b| {
            let p = b.parameter(0, Shape::array(S8, [1 << 62]), "p");
            b.concat_in_dim(&[p, p], 0);
        },
        &|b| {
            let p = b.parameter(0, Shape::array(S8, [4]), "p");
            b.pad(p, b.constant_r0(0i8), &[PaddingDimension { low: i64::MAX, ..PaddingDimension::default() }]);
        },
    ];
    for (k, make) in too_large.iter().enumerate() {
        let b = Builder::new("main");
        make(&b);
        match b.build() {
            Err(Error::Unsupported { site, feature }) => {
                assert!(site.location.file.is_some() && feature.contains("2^63"), "{k}: {feature}");
            }
            other => panic!("{k}: {other:?}"),
        }
    }
}

/// Parameters have the layouts of their shapes, and the result the one that is set; the module line says both.
#[test]
fn layouts_of_parameters_and_the_result() {
    let with = |layout: &str| text::parse_shape(&format!("f32[2,3]{layout}")).unwrap();
    let b = Builder::new("main");
    let p = b.parameter(0, with("{0,1:W(2,4)V(one)}"), "p");
    b.set_result_layout(with("{0,1}"));
    b.neg(p);
    let module = b.build().unwrap();
    let printed = text::print(&module, &PrintOptions::default());
    assert!(printed.contains("entry_computation_layout={(f32[2,3]{0,1:W(2,4)V(one)})->f32[2,3]{0,1}}"), "{printed}");
    assert_eq!(text::parse(&printed).unwrap().interface(), module.interface());
    let b = Builder::new("main");
    b.neg(b.parameter(0, with(""), "p"));
    b.set_result_layout(Shape::array(F32, [3, 2]));
    let error = b.build().unwrap_err();
    assert_eq!(constraint(&error), "builder.result-layout");
    assert!(error.site().unwrap().location.file.is_some(), "{error}");
}

/// Compositions check what the operations that they are made of do not.
#[test]
fn compositions_check_dimensions_and_types() {
    let refused = |ty, make: fn(&Builder, Op) -> Op| {
        let b = Builder::new("main");
        make(&b, b.parameter(0, Shape::array(ty, [2, 3]), "x"));
        constraint(&b.build().unwrap_err())
    };
    for dimensions in [&[2][..], &[-3], &[0, -2]] {
        let b = Builder::new("main");
        b.sum(array(&b, 0, &[2, 3]), dimensions);
        assert_eq!(constraint(&b.build().unwrap_err()), "builder.dimensions", "{dimensions:?}");
    }
    assert_eq!(refused(ElementType::S32, |b, x| b.mean(x, &[0])), "operand.type");
    assert_eq!(refused(ElementType::Pred, |b, x| b.softmax(x, 0)), "operand.type");
    assert_eq!(refused(ElementType::C64, |b, x| b.reduce_max(x, &[0])), "constant.elements");
    assert_eq!(refused(ElementType::U8, |b, x| b.mul(x, b.scalar(ElementType::U8, 256.0))), "constant.elements");
}
