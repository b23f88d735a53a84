//! Declared tensors, their assignment, and the store that computations share.
//!
//! Source: Nervana graph's «Tensors»; `docs/semantics/tensors.md` names the test of each of its sentences.
#![allow(clippy::unwrap_used)]

use brolga_compiler::builder::{ArrayLiteral, ElementType, Opcode, scalar_computation};
use brolga_compiler::hlo::{AliasKind, Module};
use brolga_compiler::object::read_descriptors;
use brolga_compiler::tensor::{Computation, Tensor, TensorFlags, TensorGraph, TensorView};
use brolga_compiler::{CompileOptions, Error, builder::Builder, interp};
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{ArrayShape, Literal, Program, RunOptions, Shape, Store, StoreError};

fn vector(values: &[f32]) -> ArrayLiteral {
    ArrayLiteral::from_elements(&[values.len() as i64], values)
}

fn f32s(dims: &[i64]) -> ArrayShape {
    ArrayShape::new(ElementType::F32, dims)
}

/// The numbers from 0 in an array of these sizes.
fn counting(dims: &[i64]) -> ArrayLiteral {
    let count: i64 = dims.iter().product();
    ArrayLiteral::from_elements(dims, &(0..count).map(|i| i as f32).collect::<Vec<_>>())
}

fn programs(graph: &TensorGraph) -> Vec<Program> {
    let object = graph.compile(&CompileOptions::native()).unwrap().object;
    Program::all_from_object(&object, &LoadOptions::default()).unwrap()
}

fn store(graph: &TensorGraph) -> Store {
    Store::new(&programs(graph), &RunOptions::default()).unwrap()
}

/// A program that counts: `add` adds `x` to the variable `total` and to `seen`, `read` yields both.
fn counter() -> TensorGraph {
    let mut graph = TensorGraph::new("counter");
    let total = graph.variable("total", vector(&[1.0, 2.0]));
    let seen = graph.persistent_tensor("seen", ArrayLiteral::scalar(0i32));
    let x = graph.placeholder("x", f32s(&[2]));
    graph
        .computation("add", |c| {
            let next = c.add(c.read(&total), c.read(&x));
            c.assign(&total, next);
            c.assign(&seen, c.add(c.read(&seen), c.constant_r0(1i32)));
            // The value after the assignment.
            Ok(vec![c.neg(c.read(&total))])
        })
        .unwrap();
    graph.computation("read", |c| Ok(vec![c.copy(c.read(&total)), c.copy(c.read(&seen))])).unwrap();
    graph
}

/// The document's table of helper methods.
#[test]
fn helpers_have_the_attributes_of_the_table() {
    let mut graph = TensorGraph::new("table");
    let tensors = [
        graph.constant("c", ArrayLiteral::scalar(1.0f32)),
        graph.placeholder("x", f32s(&[2])),
        graph.persistent_tensor("v", vector(&[0.0])),
        graph.variable("w", vector(&[0.0])),
    ];
    let table = [
        [true, true, false, false],
        [false, true, false, true],
        [false, true, false, false],
        [false, true, true, false],
    ];
    for (tensor, [constant, persistent, trainable, input]) in tensors.iter().zip(table) {
        assert_eq!(tensor.flags(), TensorFlags { constant, persistent, trainable, input }, "{}", tensor.name());
    }
    // All but the constant, which is immutable, are l-tensors, whose values can be assigned.
    assert_eq!(tensors.each_ref().map(Tensor::read_only), [true, false, false, false]);
    assert_eq!(tensors[1].shape(), &f32s(&[2]));
}

/// `constant`: immutable, can be inlined.
#[test]
fn constants_are_inlined() {
    let mut graph = TensorGraph::new("inlined");
    let c = graph.constant("c", ArrayLiteral::scalar(3.0f32));
    let x = graph.placeholder("x", f32s(&[4]));
    graph.computation("scale", |b| Ok(vec![b.mul(b.read(&c), b.read(&x))])).unwrap();
    let program = graph.compile(&CompileOptions::native()).unwrap();
    let [artifact] = program.computations.as_slice() else { panic!("there is nothing to initialise") };
    assert_eq!(artifact.descriptor.parameters.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["x"]);
    assert!(artifact.schedule.constants.is_empty(), "{}", artifact.kernel_text());
    assert!(artifact.kernel_text().contains("3"), "{}", artifact.kernel_text());
    let outputs = store(&graph).call("scale", &[("x", &vector(&[1.0, 2.0, 3.0, 4.0]))]).unwrap();
    assert_eq!(outputs, [vector(&[3.0, 6.0, 9.0, 12.0])]);
}

/// `persistent`: the value is retained across computations; `input`: a value is passed in at run time, and, as a placeholder
/// is persistent, retained until another is.
#[test]
fn persistent_values_are_retained_across_computations() {
    let mut store = store(&counter());
    store.initialise().unwrap();
    let outputs = store.call("add", &[("x", &vector(&[10.0, 20.0]))]).unwrap();
    assert_eq!(outputs, [vector(&[-11.0, -22.0])]);
    assert_eq!(store.call("read", &[]).unwrap(), [vector(&[11.0, 22.0]), ArrayLiteral::scalar(1i32)]);
    store.call("add", &[]).unwrap();
    assert_eq!(store.call("read", &[]).unwrap(), [vector(&[21.0, 42.0]), ArrayLiteral::scalar(2i32)]);
    store.initialise().unwrap();
    assert_eq!(store.get("total").unwrap(), vector(&[1.0, 2.0]));
}

/// An input that is not persistent is given for each run; a tensor that is neither is memory of one computation.
#[test]
fn what_is_not_persistent_is_not_retained() {
    let mut graph = TensorGraph::new("local");
    let input = TensorFlags { input: true, ..TensorFlags::NONE };
    let x = graph.assignable_tensor("x", input, f32s(&[]));
    let scratch = graph.assignable_tensor("scratch", TensorFlags::NONE, ArrayLiteral::scalar(5.0f32));
    graph
        .computation("run", |c| {
            c.assign(&scratch, c.add(c.read(&scratch), c.read(&x)));
            Ok(vec![c.read(&scratch)])
        })
        .unwrap();
    let mut store = store(&graph);
    let one = ArrayLiteral::scalar(1.0f32);
    for _ in 0..2 {
        assert_eq!(store.call("run", &[("x", &one)]).unwrap(), [ArrayLiteral::scalar(6.0f32)]);
    }
    let error = store.call("run", &[]).unwrap_err();
    assert_eq!(error.to_string(), "run: the tensor 'x' has no value yet; it is an input of the call");
    assert_eq!(store.tensors().count(), 1);
}

/// `trainable`: a marker for tensors that are retrieved as a list of variables, in the graph and from an object alone.
#[test]
fn trainable_variables_are_listed() {
    let graph = counter();
    let names: Vec<String> = graph.trainable_variables().iter().map(|t| t.name().to_owned()).collect();
    assert_eq!(names, ["total"]);
    assert_eq!(store(&graph).trainable_variables().collect::<Vec<_>>(), ["total"]);
    let object = graph.compile(&CompileOptions::default()).unwrap().object;
    let descriptors = read_descriptors(&object).unwrap();
    let entries: Vec<&str> = descriptors.iter().map(|d| d.entry.as_str()).collect();
    assert_eq!(entries, ["counter_initialise", "counter_add", "counter_read"]);
    let flags: Vec<(&str, TensorFlags)> =
        descriptors[1].parameters.iter().map(|p| (p.name.as_str(), p.tensor)).collect();
    let expected =
        [("total", TensorFlags::VARIABLE), ("seen", TensorFlags::PERSISTENT_TENSOR), ("x", TensorFlags::PLACEHOLDER)];
    assert_eq!(flags, expected);
}

/// The text of a module keeps the declarations, so that a file of HLO compiles to the same object.
#[test]
fn text_keeps_declarations() {
    use brolga_compiler::{compile_computations, text};
    let modules = counter().modules().unwrap();
    let read: Vec<Module> =
        modules.iter().map(|m| text::parse(&text::print(m, &text::PrintOptions::default())).unwrap()).collect();
    let options = CompileOptions { name: Some("counter".into()), ..CompileOptions::default() };
    let parameters = |modules: &[Module]| -> Vec<_> {
        let program = compile_computations(modules, &options).unwrap();
        program.computations.into_iter().map(|c| (c.descriptor.parameters, c.descriptor.aliases)).collect()
    };
    assert_eq!(parameters(&modules), parameters(&read));
}

/// The first error of one computation, which has the place of a call in this file.
fn refused(declare: impl FnOnce(&mut TensorGraph) -> Tensor, make: impl FnOnce(&Computation<'_>, &Tensor)) -> String {
    let mut graph = TensorGraph::new("refused");
    let tensor = declare(&mut graph);
    let error = graph.computation("f", |c| {
        make(c, &tensor);
        Ok(vec![])
    });
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("tensors.rs:"), "{text}");
    text
}

/// An r-tensor is a tensor that values cannot be assigned to: `x + y`. An immutable one, a constant, is none to assign to either.
#[test]
fn r_tensors_are_not_assigned() {
    let x = |g: &mut TensorGraph| g.variable("x", vector(&[1.0, 2.0]));
    let text = refused(x, |c, x| c.assign(c.add(c.read(x), c.read(x)), c.read(x)));
    assert!(text.contains("expected an l-tensor to assign to, found the value 'add', an r-tensor"), "{text}");
    let text = refused(|g| g.constant("k", vector(&[1.0])), |c, k| c.assign(k, c.read(k)));
    assert!(text.contains("found 'k', a constant, which never changes"), "{text}");
    let other = TensorGraph::new("other").variable("x", vector(&[1.0, 2.0]));
    let text = refused(x, |c, x| c.assign(&other, c.read(x)));
    assert!(text.contains("expected a tensor of 'refused', found 'x' of another graph"), "{text}");
    let text = refused(x, |c, _| {
        c.read(&other);
    });
    assert!(text.contains("found 'x' of another graph"), "{text}");
}

/// "An `AssignableTensorOp` is a special case of a tensor-valued `Op` in that its tensor is an l-tensor": so are placeholders. What is
/// assigned lies in the input's buffer until the host sets another value; it is retained where the input is persistent.
#[test]
fn placeholders_are_assigned() {
    let mut graph = TensorGraph::new("inputs");
    let x = graph.placeholder("x", f32s(&[2]));
    let once = graph.assignable_tensor("once", TensorFlags { input: true, ..TensorFlags::NONE }, f32s(&[2]));
    graph
        .computation("double", |c| {
            c.assign(&x, c.add(c.read(&x), c.read(&x)));
            Ok(vec![])
        })
        .unwrap();
    graph
        .computation("add", |c| {
            c.assign(&once, c.add(c.read(&once), c.read(&x)));
            Ok(vec![c.read(&once)])
        })
        .unwrap();
    let mut store = store(&graph);
    let value = vector(&[1.0, -3.0]);
    store.call("double", &[("x", &value)]).unwrap();
    let address = store.bytes("x").unwrap().as_ptr();
    store.call("double", &[]).unwrap();
    assert_eq!(store.get("x").unwrap(), vector(&[4.0, -12.0]));
    assert_eq!(store.bytes("x").unwrap().as_ptr(), address);
    assert_eq!(store.call("add", &[("once", &value)]).unwrap(), [vector(&[5.0, -15.0])]);
    assert!(matches!(store.get("once"), Err(StoreError::NoValue { .. })));
    store.call("double", &[("x", &value)]).unwrap();
    assert_eq!(store.get("x").unwrap(), vector(&[2.0, -6.0]));
}

/// "If the linear tensor also has the shape, bounds checking may be performed on the index."
#[test]
fn assignments_are_checked_against_shape_and_bounds() {
    let x = |g: &mut TensorGraph| g.variable("x", counting(&[4, 3]));
    let text = refused(x, |c, x| c.assign(x, c.constant_r0(0.0f32)));
    assert!(text.contains("expected f32[4,3] to assign to 'x', found f32[]"), "{text}");
    let text = refused(x, |c, x| c.assign_at(x, &[0, 0], c.constant(&[2, 3], &[0i32; 6])));
    assert!(text.contains("expected f32[2,3] to assign to a part of 'x', found s32[2,3]"), "{text}");
    let part = |c: &Computation<'_>| c.constant(&[2, 2], &[0.0f32; 4]);
    for (start, found) in [([3, 0], "5"), ([0, 2], "4"), ([-1, 0], "-1")] {
        let text = refused(x, |c, x| c.assign_at(x, &start, part(c)));
        assert!(text.contains("slice") && text.contains(found), "{text}");
    }
    let text = refused(x, |c, x| c.assign_at(x, &[0], part(c)));
    assert!(text.contains("slice"), "{text}");
    let row = |x: &Tensor| x.view().slice(&[0, 0], &[1, 3], &[]).reshape(&[3]).broadcast(&[2, 3], &[1]);
    let text = refused(x, |c, x| c.assign(row(x), c.constant(&[2, 3], &[0.0f32; 6])));
    assert!(text.contains("a view that shows each element once to assign to, found a broadcast"), "{text}");
}

#[test]
fn declarations_are_checked() {
    type Declare = fn(&mut TensorGraph) -> Tensor;
    let cases: [(Declare, &str); 7] = [
        (|g| g.variable("two words", vector(&[])), "expected a name of letters"),
        (|g| g.constant("x", vector(&[])), "expected names that differ, found 'x' again"),
        (
            |g| {
                let flags = TensorFlags { constant: true, trainable: true, ..TensorFlags::NONE };
                g.assignable_tensor("a", flags, vector(&[]))
            },
            "expected a constant to be neither trainable nor an input",
        ),
        (
            |g| {
                let flags = TensorFlags { trainable: true, ..TensorFlags::NONE };
                g.assignable_tensor("a", flags, vector(&[]))
            },
            "expected a trainable tensor to be persistent",
        ),
        (
            |g| g.assignable_tensor("a", TensorFlags::VARIABLE, f32s(&[1])),
            "expected a value, which only inputs can do without",
        ),
        (
            |g| {
                let mut shape = f32s(&[4]);
                shape.dynamic = vec![true];
                g.placeholder("a", shape)
            },
            "expected fixed sizes",
        ),
        // "An n-tuple of non-negative integers."
        (|g| g.placeholder("a", f32s(&[4, -1])), "expected a size of at least 0 in dimension 1, found -1"),
    ];
    for (declare, expected) in cases {
        let mut graph = TensorGraph::new("g");
        graph.variable("x", vector(&[1.0]));
        declare(&mut graph);
        let text = graph.computation("f", |_| Ok(vec![])).unwrap_err().to_string();
        assert!(text.contains(expected) && text.contains("tensors.rs:"), "{text}");
        assert!(graph.modules().is_err());
    }
    let mut graph = counter();
    for name in ["add", "initialise"] {
        let text = graph.computation(name, |_| Ok(vec![])).unwrap_err().to_string();
        assert!(text.contains("expected a name that no other computation has"), "{text}");
    }
    let text = graph.computation("p", |c| Ok(vec![c.parameter(0, Shape::array(ElementType::F32, [1]), "p")]));
    assert!(text.unwrap_err().to_string().contains("expected placeholders instead of parameters"));
    let text = graph.computation("t", |c| Ok(vec![c.tuple(&[c.constant_r0(1.0f32)])]));
    assert!(text.unwrap_err().to_string().contains("expected arrays as outputs of a computation, found (f32[])"));
}

/// Every view as an assignment changes the elements that it shows and no other: `x[f(i)] = y[i]`, in both engines.
#[test]
fn views_are_assigned() {
    type MakeView = fn(TensorView) -> TensorView;
    // The view, and the elements of a 4 x 6 array that it shows, in its order.
    let cases: [(MakeView, Vec<usize>); 9] = [
        (|x| x, (0..24).collect()),
        (|x| x.slice(&[1, 2], &[3, 5], &[]), vec![8, 9, 10, 14, 15, 16]),
        (|x| x.slice(&[0, 1], &[4, 6], &[2, 3]), vec![1, 4, 13, 16]),
        (|x| x.slice(&[3, 0], &[4, 6], &[1, 5]), vec![18, 23]),
        (|x| x.slice(&[2, 2], &[2, 5], &[]), vec![]),
        (|x| x.transpose(&[1, 0]).slice(&[4, 0], &[6, 4], &[]), vec![4, 10, 16, 22, 5, 11, 17, 23]),
        (|x| x.reshape(&[24]).slice(&[7], &[24], &[8]), vec![7, 15, 23]),
        (|x| x.reverse(&[1]).slice(&[0, 0], &[4, 1], &[]).reshape(&[4]), vec![5, 11, 17, 23]),
        (|x| x.slice(&[0, 0], &[2, 6], &[]).reshape(&[2, 3, 2]).transpose(&[2, 0, 1]), {
            let index = |a: usize, b: usize, c: usize| b * 6 + c * 2 + a;
            (0..12).map(|i| index(i / 6, i / 3 % 2, i % 3)).collect()
        }),
    ];
    for (n, (view, shown)) in cases.into_iter().enumerate() {
        let mut graph = TensorGraph::new("views");
        let x = graph.variable("x", counting(&[4, 6]));
        graph
            .computation("set", |c| {
                let old = c.read(view(x.view()));
                c.assign(view(x.view()), c.add(old, c.broadcast(c.constant_r0(100.0f32), &dims(c, old))));
                Ok(vec![old])
            })
            .unwrap();
        let expected_old: Vec<f32> = shown.iter().map(|&i| i as f32).collect();
        let mut expected: Vec<f32> = (0..24).map(|i| i as f32).collect();
        shown.iter().for_each(|&i| expected[i] += 100.0);
        let mut store = store(&graph);
        store.initialise().unwrap();
        let outputs = store.call("set", &[]).unwrap();
        assert_eq!(outputs[0].as_slice::<f32>(), expected_old, "view {n}");
        assert_eq!(store.get("x").unwrap().as_slice::<f32>(), expected, "view {n}");
        let module = &graph.modules().unwrap()[1];
        let result = interp::run(module, &[Literal::from(counting(&[4, 6]))], &interp::Options::default()).unwrap();
        assert_eq!(result.arrays()[1].as_slice::<f32>(), expected, "view {n} in the interpreter");
    }
}

fn dims(c: &Computation<'_>, op: brolga_compiler::builder::Op) -> Vec<i64> {
    c.shape(op).unwrap().as_array().unwrap().dims.clone()
}

/// Two assignments of one tensor, the second of a part of what the first made.
#[test]
fn assignments_follow_each_other() {
    let mut graph = TensorGraph::new("order");
    let x = graph.variable("x", vector(&[1.0, 2.0, 3.0]));
    graph
        .computation("set", |c| {
            let first = c.read(&x);
            c.assign(&x, c.mul(first, first));
            c.assign_at(&x, &[1], c.constant_r1(&[7.0f32]));
            Ok(vec![first, c.read(&x)])
        })
        .unwrap();
    let mut store = store(&graph);
    store.initialise().unwrap();
    assert_eq!(store.call("set", &[]).unwrap(), [vector(&[1.0, 2.0, 3.0]), vector(&[1.0, 7.0, 9.0])]);
    assert_eq!(store.get("x").unwrap(), vector(&[1.0, 7.0, 9.0]));
}

/// Tensors that trade their values, in three places at once.
#[test]
fn tensors_are_exchanged_in_place() {
    let mut graph = TensorGraph::new("exchange");
    let names = ["a", "b", "c"];
    let tensors: Vec<Tensor> = (0..3).map(|i| graph.persistent_tensor(names[i], vector(&[i as f32; 5]))).collect();
    graph
        .computation("turn", |c| {
            let old: Vec<_> = tensors.iter().map(|t| c.read(t)).collect();
            (0..3).for_each(|i| c.assign(&tensors[i], old[(i + 1) % 3]));
            Ok(vec![])
        })
        .unwrap();
    let mut store = store(&graph);
    store.initialise().unwrap();
    let addresses: Vec<*const u8> = names.iter().map(|n| store.bytes(n).unwrap().as_ptr()).collect();
    store.call("turn", &[]).unwrap();
    for (i, name) in names.iter().enumerate() {
        assert_eq!(store.get(name).unwrap(), vector(&[((i + 1) % 3) as f32; 5]));
        assert_eq!(store.bytes(name).unwrap().as_ptr(), addresses[i]);
    }
}

/// An update happens in the variable's buffer: the result must share it, and needs no workspace.
#[test]
fn updates_happen_in_place() {
    let mut graph = TensorGraph::new("sgd");
    let w = graph.variable("w", counting(&[1000]));
    let g = graph.placeholder("g", f32s(&[1000]));
    graph
        .computation("step", |c| {
            let rate = c.broadcast(c.constant_r0(0.5f32), &[1000]);
            c.assign(&w, c.sub(c.read(&w), c.mul(rate, c.read(&g))));
            Ok(vec![])
        })
        .unwrap();
    let program = graph.compile(&CompileOptions::native()).unwrap();
    let step = &program.computations[1];
    assert_eq!(step.descriptor.workspace_fixed, 0, "{}", step.kernel_text());
    assert!(step.descriptor.aliases.iter().any(|a| a.must && a.parameter == 0 && a.result == 0));
    let mut store = store(&graph);
    store.initialise().unwrap();
    let address = store.bytes("w").unwrap().as_ptr();
    store.call("step", &[("g", &counting(&[1000]))]).unwrap();
    let halves: Vec<f32> = (0..1000).map(|i| i as f32 / 2.0).collect();
    assert_eq!(store.get("w").unwrap(), vector(&halves));
    assert_eq!(store.bytes("w").unwrap().as_ptr(), address);
}

/// Aliases that the builder itself declares: the parameter's buffer becomes the result's.
#[test]
fn builders_declare_aliases() {
    let shape = Shape::array(ElementType::F32, [4]);
    let b = Builder::new("double");
    let x = b.parameter(0, shape.clone(), "x");
    b.add(x, x);
    b.input_output_alias(&[], 0, &[], AliasKind::Must);
    let module = b.build().unwrap();
    let artifact = brolga_compiler::compile(&module, &CompileOptions::native()).unwrap();
    let mut session = Program::from_object(&artifact.object).unwrap().session(&RunOptions::default()).unwrap();
    session.set_parameter(0, &vector(&[1.0, 2.0, 3.0, 4.0])).unwrap();
    let address = session.parameter_bytes_mut(0).unwrap().as_ptr();
    session.call().unwrap();
    session.call().unwrap();
    assert_eq!(session.result(0).unwrap(), vector(&[4.0, 8.0, 12.0, 16.0]));
    assert_eq!(session.result_bytes(0).unwrap().as_ptr(), address);
    let b = Builder::new("wrong");
    let x = b.parameter(0, shape, "x");
    b.reshape(x, &[2, 2]);
    b.input_output_alias(&[0], 0, &[], AliasKind::May);
    assert!(b.build().unwrap_err().to_string().contains("expected arrays in parameter 0"));
}

#[test]
fn gradients_are_of_tensors() {
    let mut graph = TensorGraph::new("gradient");
    let w = graph.variable("w", vector(&[1.0, -2.0]));
    graph
        .computation("step", |c| {
            let value = c.read(&w);
            let sum = scalar_computation(Opcode::Add, ElementType::F32)?;
            let loss = c.reduce_all(c.mul(value, value), c.zero(ElementType::F32), &sum);
            let gradient = c.gradient(loss, std::slice::from_ref(&w))[0];
            c.assign(&w, c.sub(value, gradient));
            Ok(vec![loss])
        })
        .unwrap();
    let mut store = store(&graph);
    store.initialise().unwrap();
    assert_eq!(store.call("step", &[]).unwrap(), [ArrayLiteral::scalar(5.0f32)]);
    assert_eq!(store.get("w").unwrap(), vector(&[-1.0, 2.0]));
    let x = |g: &mut TensorGraph| g.variable("x", ArrayLiteral::scalar(1.0f32));
    let text = refused(x, |c, x| {
        let loss = c.read(x);
        c.assign(x, loss);
        c.gradient(loss, std::slice::from_ref(x));
    });
    assert!(text.contains("expected the gradient before the assignment of 'x'"), "{text}");
}

/// Several stores of the same programs are independent.
#[test]
fn stores_stand_side_by_side() {
    let programs = programs(&counter());
    let new = || {
        let mut store = Store::new(&programs, &RunOptions::default()).unwrap();
        store.initialise().unwrap();
        store
    };
    let (mut one, two) = (new(), new());
    one.call("add", &[("x", &vector(&[1.0, 1.0]))]).unwrap();
    assert_eq!(one.get("total").unwrap(), vector(&[2.0, 3.0]));
    assert_eq!(two.get("total").unwrap(), vector(&[1.0, 2.0]));
}

/// Nothing is computed from tensors without values, and what does not fit is refused in words.
#[test]
fn stores_refuse_what_does_not_fit() {
    let mut store = store(&counter());
    let refused = |result: Result<Vec<ArrayLiteral>, StoreError>| result.unwrap_err().to_string();
    let x = vector(&[1.0, 2.0]);
    let text = refused(store.call("add", &[("x", &x)]));
    assert_eq!(text, "add: the tensor 'total' has no value yet; `initialise`, `load` or `set` gives it one");
    assert!(matches!(store.get("total"), Err(StoreError::NoValue { .. })));
    store.initialise().unwrap();
    let text = refused(store.call("step", &[]));
    assert_eq!(text, "there is no computation 'step'; there are: initialise, add, read");
    let text = refused(store.call("add", &[("y", &x)]));
    assert_eq!(text, "there is no tensor 'y'; there are: total, seen, x");
    let text = refused(store.call("add", &[("total", &x)]));
    assert_eq!(text, "'total' is no input of the computation 'add', whose inputs are: x");
    let text = refused(store.call("read", &[("x", &x)]));
    assert_eq!(text, "'x' is no input of the computation 'read', whose inputs are: ");
    let text = refused(store.call("add", &[("x", &vector(&[1.0]))]));
    assert_eq!(text, "the tensor 'x' is f32[2], found f32[1]");
    let text = store.set("seen", &ArrayLiteral::scalar(1.0f32)).unwrap_err().to_string();
    assert_eq!(text, "the tensor 'seen' is s32[], found f32[]");

    let programs = programs(&counter());
    let text = store.add(&programs[1]).unwrap_err().to_string();
    assert_eq!(text, "the store has a computation 'add' already");
    let mut other = TensorGraph::new("other");
    let total = other.variable("total", vector(&[1.0]));
    other.computation("f", |c| Ok(vec![c.read(&total)])).unwrap();
    let object = other.compile(&CompileOptions::native()).unwrap().object;
    let all = Program::all_from_object(&object, &LoadOptions::default()).unwrap();
    let text = store.add(&all[1]).unwrap_err().to_string();
    assert!(text.contains("the tensor 'total' is f32[2] (persistent,trainable), found f32[1]"), "{text}");
    let b = Builder::new("plain");
    b.parameter(0, Shape::scalar(ElementType::F32), "p");
    let plain = brolga_compiler::compile(&b.build().unwrap(), &CompileOptions::native()).unwrap();
    let text = store.add(&Program::from_object(&plain.object).unwrap()).unwrap_err().to_string();
    assert!(text.contains("found 'p' without a declaration"), "{text}");
    assert_eq!(store.tensors().count(), 3, "what was refused left nothing");
}

/// An object of several computations is refused where one program is expected.
#[test]
fn several_programs_are_not_one() {
    let object = counter().compile(&CompileOptions::native()).unwrap().object;
    let text = Program::from_object(&object).unwrap_err().to_string();
    let expected = "several programs (counter_initialise, counter_add, counter_read)";
    assert!(text.contains(expected), "{text}");
    assert!(brolga_runtime::Sizes::from_object(&object).unwrap_err().to_string().contains(expected));

    let mut graph = counter();
    graph.computation("add_descriptor", |c| Ok(vec![c.constant_r0(1.0f32)])).unwrap();
    let text = graph.compile(&CompileOptions::native()).unwrap_err().to_string();
    assert!(text.contains("expected different symbols, found 'counter_add_descriptor' twice"), "{text}");
}
