//! Declared tensors that lie column by column or padded: what is computed is what row-major ones give, in process and linked.
#![allow(clippy::unwrap_used)]

#[allow(missing_docs)]
mod linked {
    include!(concat!(env!("OUT_DIR"), "/layer.rs"));
}
#[path = "../models/layer.rs"]
mod layer;

// In a package with a library Cargo links what a build script makes to that library alone.
#[link(name = "brolga_layer", kind = "static")]
unsafe extern "C" {}

use brolga_compiler::builder::{ArrayLiteral, ElementType, Layout, PaddingValue, Shape};
use brolga_compiler::hlo::Module;
use brolga_compiler::tensor::{Tensor, TensorFlags, TensorGraph};
use brolga_compiler::{CompileOptions, Error, compile_computations, interp, text};
use brolga_runtime::abi::Leaf;
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{ArrayShape, Literal, Program, RunOptions, Store};
use layer::{Layouts, columns_and_padding, layer, layout, numbers};

const TENSORS: [&str; 3] = ["weights", "bias", "velocity"];

fn store(graph: &TensorGraph) -> Store {
    let object = graph.compile(&CompileOptions::native()).unwrap().object;
    Store::new(&Program::all_from_object(&object, &LoadOptions::default()).unwrap(), &RunOptions::default()).unwrap()
}

fn leaf<'a>(store: &'a Store, name: &str) -> &'a Leaf {
    store.tensors().find(|leaf| leaf.name == name).unwrap()
}

/// The bytes of each element of padding in a tensor's buffer.
fn padding<'a>(store: &'a Store, name: &str) -> Vec<&'a [u8]> {
    let shape = &leaf(store, name).shape;
    let places = store.bytes(name).unwrap().chunks_exact(shape.ty.byte_size());
    (0..).zip(places).filter(|(place, _)| shape.multi_index(*place).is_none()).map(|(_, bytes)| bytes).collect()
}

fn assert_padding_holds_its_value(store: &Store, name: &str) {
    let shape = &leaf(store, name).shape;
    let value = shape.layout.as_ref().map(|l| l.padding_value).unwrap_or_default();
    let element = value.element(shape.ty).unwrap();
    assert!(padding(store, name).iter().all(|&bytes| bytes == element.bytes()), "{name}: {:?}", store.bytes(name));
}

/// What a caller might leave in the padding of a tensor: NaN, here.
fn spoil_padding(store: &mut Store, name: &str) {
    let shape = leaf(store, name).shape.clone();
    let places = store.bytes_mut(name).unwrap().chunks_exact_mut(shape.ty.byte_size());
    let added = (0..).zip(places).filter(|(place, _)| shape.multi_index(*place).is_none());
    added.for_each(|(_, bytes)| bytes.fill(0xff));
}

/// Initialises, trains for some steps, assigns parts, trains on and predicts, with noise in all padding before each call: everything
/// that is computed on the way.
fn trained(mut store: Store) -> Vec<ArrayLiteral> {
    let (x, y) = (numbers(&[8, 24]), numbers(&[8, 32]));
    let mut seen = Vec::new();
    for call in ["initialise", "step", "step", "step", "part", "step", "predict"] {
        if call != "initialise" {
            TENSORS.iter().for_each(|name| spoil_padding(&mut store, name));
        }
        let inputs: &[(&str, &ArrayLiteral)] = match call {
            "step" => &[("x", &x), ("y", &y)],
            "predict" => &[("x", &x)],
            _ => &[],
        };
        if call != "initialise" && call != "part" {
            store.set("x", &x).unwrap();
            assert_padding_holds_its_value(&store, "x");
            spoil_padding(&mut store, "x");
        }
        let addresses = TENSORS.map(|name| store.bytes(name).unwrap().as_ptr());
        let inputs: Vec<_> = inputs.iter().copied().filter(|(name, _)| *name != "x").collect();
        seen.extend(store.call(call, &inputs).unwrap());
        seen.extend(TENSORS.iter().map(|name| store.get(name).unwrap()));
        let written: &[&str] = match call {
            "initialise" | "step" => &TENSORS,
            "part" => &["weights"],
            _ => &[],
        };
        written.iter().for_each(|name| assert_padding_holds_its_value(&store, name));
        assert_eq!(addresses, TENSORS.map(|name| store.bytes(name).unwrap().as_ptr()), "updates are in place");
    }
    seen
}

/// Training steps on variables in any layout give the values of the row-major program.
#[test]
fn variables_train_in_any_layout() {
    let want = trained(store(&layer(&Layouts::default()).unwrap()));
    assert!(want.iter().all(|value| value.as_slice::<f32>().iter().all(|v| v.is_finite())));
    let columns = Some(layout(&[0, 1], &[], PaddingValue::Invalid));
    let padded = Some(layout(&[1, 0], &[24, 33], PaddingValue::Lowest));
    let both = Some(layout(&[0, 1], &[30, 35], PaddingValue::Zero));
    for layouts in [
        columns_and_padding(),
        Layouts { weights: padded.clone(), velocity: columns.clone(), ..Layouts::default() },
        Layouts { weights: both.clone(), velocity: both, ..Layouts::default() },
        Layouts { weights: columns, velocity: padded, ..columns_and_padding() },
    ] {
        let graph = layer(&layouts).unwrap();
        assert_eq!(trained(store(&graph)), want, "{layouts:?}");
    }
    let graph = layer(&columns_and_padding()).unwrap();
    assert_eq!(graph.tensors()[0].shape().to_string(), "f32[24,32]{0,1}");
    assert_eq!(padding(&store(&graph), "velocity").len(), 25 * 40 - 24 * 32);
}

/// So do computations that were compiled by a build script, linked, and shared by a store through generated bindings.
#[test]
fn linked_computations_share_variables_in_any_layout() {
    let linked = Store::new(&linked::programs().unwrap(), &RunOptions::default()).unwrap();
    assert_eq!(leaf(&linked, "weights").shape.to_string(), "f32[24,32]{0,1}");
    assert_eq!(leaf(&linked, "velocity").shape.to_string(), "f32[24,32]{1,0:W(25,40)V(one)}");
    assert_eq!(trained(linked), trained(store(&layer(&Layouts::default()).unwrap())));
}

/// The interpreter, whose values have no layouts, computes the same from a module with layouts as from one without.
#[test]
fn layouts_mean_nothing_inside_a_computation() {
    let [plain, laid_out] = [Layouts::default(), columns_and_padding()].map(|layouts| {
        let step = layer(&layouts).unwrap().modules().unwrap().remove(1);
        let dims: [&[i64]; 5] = [&[24, 32], &[32], &[24, 32], &[8, 24], &[8, 32]];
        let inputs = dims.map(|dims| Literal::from(numbers(dims)));
        interp::run(&step, &inputs, &interp::Options::default()).unwrap()
    });
    assert_eq!(plain, laid_out);
}

/// "We only know the layout for the subset of tensors whose layout has been explicitly provided by the frontend": a module says them at
/// its interface, and of nothing else.
#[test]
fn layouts_are_known_where_they_are_stated() {
    let layouts = Layouts { bias: None, ..columns_and_padding() };
    let graph = layer(&layouts).unwrap();
    let stated: Vec<bool> = graph.tensors().iter().map(|t| t.shape().layout.is_some()).collect();
    assert_eq!(stated, [true, false, true, true, false]);
    let step = &graph.modules().unwrap()[1];
    let (parameters, result) = step.interface();
    let known = |shapes: &[Shape]| -> Vec<bool> {
        shapes.iter().flat_map(Shape::leaves).filter_map(Shape::as_array).map(|a| a.layout.is_some()).collect()
    };
    assert_eq!(known(&parameters), stated);
    // The loss, and the tensors that are assigned.
    assert_eq!(known(&[result]), [false, true, false, true]);
    let inside = step.entry().order.iter().map(|&i| step.entry().instructions[i].shape.clone());
    assert!(!known(&inside.collect::<Vec<_>>()).contains(&true));
}

/// An update of a laid out variable is one kernel in place: no pass that brings it into another order.
#[test]
fn updates_of_any_layout_happen_in_place() {
    for order in [&[0, 1], &[1, 0]] {
        for widths in [&[][..], &[41, 52]] {
            let mut graph = TensorGraph::new("sgd");
            let memory = layout(order, widths, PaddingValue::Invalid);
            let w = graph.variable("w", (numbers(&[40, 50]), memory.clone()));
            let g = graph.placeholder("g", ArrayShape { layout: Some(memory), ..numbers(&[40, 50]).shape().clone() });
            graph
                .computation("step", |c| {
                    c.assign(&w, c.sub(c.read(&w), c.mul(c.constant_r0(0.5f32), c.read(&g))));
                    Ok(vec![])
                })
                .unwrap();
            let step = &graph.compile(&CompileOptions::native()).unwrap().computations[1];
            assert_eq!(step.schedule.kernels.len(), 1, "{}", step.kernel_text());
            assert_eq!(step.descriptor.workspace_fixed, 0, "{}", step.kernel_text());
        }
    }
}

/// Checkpoints are dense and row-major, whatever the layouts of the variables that are saved and loaded.
#[test]
fn checkpoints_do_not_depend_on_layouts() {
    let folder = std::env::temp_dir().join(format!("brolga-tensor-layouts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut plain = store(&layer(&Layouts::default()).unwrap());
    let mut laid_out = store(&layer(&columns_and_padding()).unwrap());
    let (x, y) = (numbers(&[8, 24]), numbers(&[8, 32]));
    let paths = ["plain", "laid_out"].map(|name| folder.join(name));
    for (store, path) in [(&mut plain, &paths[0]), (&mut laid_out, &paths[1])] {
        store.initialise().unwrap();
        store.call("step", &[("x", &x), ("y", &y)]).unwrap();
        TENSORS.iter().for_each(|name| spoil_padding(store, name));
        store.save(path).unwrap();
        store.initialise().unwrap();
    }
    assert!(std::fs::read(&paths[0]).unwrap() == std::fs::read(&paths[1]).unwrap());
    // Each loads what the other saved, and they train on alike.
    plain.load(&paths[1]).unwrap();
    laid_out.load(&paths[0]).unwrap();
    TENSORS.iter().for_each(|name| assert_padding_holds_its_value(&laid_out, name));
    let [a, b] = [&mut plain, &mut laid_out].map(|store| {
        let outputs = store.call("step", &[("x", &x), ("y", &y)]).unwrap();
        (outputs, TENSORS.map(|name| store.get(name).unwrap()))
    });
    assert_eq!(a, b);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The text of a module keeps the layouts, as its entry's, so that a file of HLO compiles to the same interface.
#[test]
fn text_keeps_the_layouts_of_tensors() {
    let modules = layer(&columns_and_padding()).unwrap().modules().unwrap();
    let read: Vec<Module> =
        modules.iter().map(|m| text::parse(&text::print(m, &text::PrintOptions::default())).unwrap()).collect();
    let options = CompileOptions { name: Some("layer".into()), ..CompileOptions::default() };
    let interface = |modules: &[Module]| -> Vec<_> {
        let program = compile_computations(modules, &options).unwrap();
        program.computations.into_iter().map(|c| (c.descriptor.parameters, c.descriptor.results)).collect()
    };
    assert_eq!(interface(&modules), interface(&read));
    assert_eq!(modules[1].interface().0[0].to_string(), "f32[24,32]{0,1}");
}

/// Outputs are row-major where nothing is said, also where a laid out tensor is one; a computation can say how they lie.
#[test]
fn computations_say_layouts_of_outputs() {
    let columns = layout(&[0, 1], &[], PaddingValue::Invalid);
    let padded = layout(&[1, 0], &[2, 4], PaddingValue::One);
    let value = ArrayLiteral::from_elements(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let laid_out = |layout: &Layout| Shape::from(ArrayShape { layout: Some(layout.clone()), ..value.shape().clone() });
    let mut graph = TensorGraph::new("outputs");
    let w = graph.variable("w", (value.clone(), columns.clone()));
    graph.computation("plain", |c| Ok(vec![c.read(&w)])).unwrap();
    graph
        .computation("said", |c| {
            c.set_result_layout(Shape::tuple(vec![laid_out(&padded), laid_out(&columns)]));
            let old = c.read(&w);
            c.assign(&w, c.neg(old));
            Ok(vec![c.read(&w), old])
        })
        .unwrap();
    let mut store = store(&graph);
    store.initialise().unwrap();
    let mut bytes = |name: &str| {
        let id = store.computation(name).unwrap();
        store.run(id).unwrap();
        [0, 1].map(|n| store.output_bytes(id, n).map(<[u8]>::to_vec))
    };
    assert_eq!(bytes("plain"), [Some(value.bytes().to_vec()), None]);
    let negated = ArrayLiteral::from_elements(&[2, 3], &[-1f32, -2.0, -3.0, -4.0, -5.0, -6.0]);
    assert_eq!(bytes("said"), [negated.to_memory(&padded), value.to_memory(&columns)]);

    for (shape, expected) in [
        (laid_out(&columns), "expected layouts of the outputs (f32[2,3], f32[2,3]), found (f32[2,3]{0,1})"),
        (Shape::tuple(vec![laid_out(&layout(&[0, 0], &[], PaddingValue::Invalid)); 2]), "a layout that permutes"),
    ] {
        let refused = graph.computation("refused", |c| {
            c.set_result_layout(shape);
            Ok(vec![c.read(&w), c.read(&w)])
        });
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(expected) && text.contains("tensor_layouts.rs:"), "{text}");
    }
}

/// A layout that equals row-major is none; one that a tensor cannot have is refused where it is declared.
#[test]
fn layouts_of_tensors_are_checked() {
    let value = || numbers(&[2, 3]);
    let mut graph = TensorGraph::new("plain");
    let w = graph.variable("w", (value(), layout(&[1, 0], &[2, 3], PaddingValue::Zero)));
    assert_eq!(w.shape(), value().shape());

    type Declare = fn(&mut TensorGraph, ArrayLiteral) -> Tensor;
    let cases: [(Declare, &str); 5] = [
        (
            |g, v| g.variable("w", (v, layout(&[0], &[], PaddingValue::Invalid))),
            "a layout that permutes the 2 dimensions",
        ),
        (
            |g, v| g.persistent_tensor("w", (v, layout(&[1, 0], &[2, 2], PaddingValue::Invalid))),
            "expected padded dimensions of at least [2, 3], or none, found [2, 2], of the tensor 'w'",
        ),
        (
            |g, _| {
                let element = ArrayShape::new(ElementType::C64, [4]);
                g.variable("w", (ArrayLiteral::zeros(&element), layout(&[0], &[5], PaddingValue::Lowest)))
            },
            "expected a padding value that c64 has, found lowest",
        ),
        (
            |g, v| g.assignable_tensor("w", TensorFlags::CONSTANT, (v, layout(&[0, 1], &[], PaddingValue::Invalid))),
            "expected no layout, which only a persistent tensor or an input can have, that is no constant, found f32[2,3]{0,1}",
        ),
        (
            |g, v| g.assignable_tensor("w", TensorFlags::NONE, (v, layout(&[0, 1], &[], PaddingValue::Invalid))),
            "expected no layout",
        ),
    ];
    for (declare, expected) in cases {
        let mut graph = TensorGraph::new("g");
        declare(&mut graph, value());
        let error = graph.computation("f", |_| Ok(vec![])).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains("tensor_layouts.rs:"), "{text}");
    }
    // Programs that were compiled for other layouts of one tensor do not share it.
    let objects = [layout(&[0, 1], &[], PaddingValue::Invalid), layout(&[1, 0], &[2, 4], PaddingValue::Invalid)];
    let [one, other] = objects.map(|memory| {
        let mut graph = TensorGraph::new("g");
        let w = graph.variable("w", (value(), memory));
        graph.computation("f", |c| Ok(vec![c.read(&w)])).unwrap();
        let object = graph.compile(&CompileOptions::native()).unwrap().object;
        Program::all_from_object(&object, &LoadOptions::default()).unwrap()
    });
    let mut store = Store::new(&one[..1], &RunOptions::default()).unwrap();
    let text = store.add(&other[1]).unwrap_err().to_string();
    assert!(text.contains("'w' is f32[2,3]{0,1}") && text.contains("found f32[2,3]{1,0:W(2,4)}"), "{text}");
}
