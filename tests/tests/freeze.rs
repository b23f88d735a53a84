//! Parameters that become constants: the results keep their bits, and the interface closes up.
#![allow(clippy::unwrap_used)]

use brolga_compiler::aot::Builder;
use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::front::Argument;
use brolga_compiler::hlo::{Module, Opcode, is_frozen};
use brolga_compiler::object::read_descriptors;
use brolga_compiler::{CompileOptions, Error, compile, freeze, passes, proto, shape, text};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Program, Scalar, Shape, npy};
use brolga_tests::compare::first_other_bits;
use brolga_tests::operations::program;
use std::path::{Path, PathBuf};

/// A layer: the weights are transposed and scaled, and go through a function that the interpreter rounds otherwise.
const LAYER: &str =
    "HloModule layer, entry_computation_layout={(f32[8,16]{0,1}, f32[4,16]{1,0}, f32[8]{0}, f32[])->f32[4,8]{1,0}}

ENTRY main {
  w = f32[8,16]{0,1} parameter(0), metadata={op_name=\"params['w']\"}
  x = f32[4,16]{1,0} parameter(1)
  b = f32[8]{0} parameter(2), metadata={op_name=\"params['b']\"}
  s = f32[] parameter(3)
  scale = f32[8,16]{1,0} broadcast(s), dimensions={}
  scaled = f32[8,16]{1,0} divide(w, scale)
  turned = f32[16,8]{1,0} transpose(scaled), dimensions={1,0}
  product = f32[4,8]{1,0} dot(x, turned), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  grown = f32[8]{0} exponential(b)
  root = f32[8]{0} rsqrt(grown)
  biases = f32[4,8]{1,0} broadcast(root), dimensions={1}
  sum = f32[4,8]{1,0} add(product, biases)
  ROOT result = f32[4,8]{1,0} tanh(sum)
}
";

fn parse(source: &str) -> Module {
    let module = text::parse(source).unwrap();
    shape::verify(&module).unwrap();
    module
}

/// Numbers with many digits.
fn numbers(dims: &[i64]) -> ArrayLiteral {
    let count: i64 = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|k| ((k * 37 % 101) as f32 - 50.0) / 70.3).collect();
    ArrayLiteral::from_elements(dims, &values)
}

fn run(module: &Module, options: &CompileOptions, inputs: &[&ArrayLiteral]) -> Vec<ArrayLiteral> {
    let artifact = compile(module, options).unwrap();
    Program::from_object(&artifact.object).unwrap().run(inputs).unwrap()
}

fn frozen(module: &Module, values: &[(Argument, ArrayLiteral)]) -> Module {
    let mut module = module.clone();
    freeze(&mut module, values).unwrap();
    shape::verify(&module).unwrap();
    module
}

#[test]
fn a_layer_gives_the_same_bits_and_takes_the_parameters_that_are_left() {
    let module = parse(LAYER);
    let (w, x, b, s) = (numbers(&[8, 16]), numbers(&[4, 16]), numbers(&[8]), ArrayLiteral::scalar(3.7f32));
    let options = CompileOptions::native();
    let want = run(&module, &options, &[&w, &x, &b, &s]);
    let weights = [("params['w']".into(), w.clone()), (2.into(), b.clone())];
    let part = frozen(&module, &weights);
    assert_eq!(first_other_bits(&run(&part, &options, &[&x, &s])[0], &want[0]), None);
    let descriptor = compile(&part, &options).unwrap().descriptor;
    let names: Vec<&str> = descriptor.parameters.iter().map(|leaf| leaf.name.as_str()).collect();
    assert_eq!(names, ["x", "s"]);
    // With the scale the whole chain of the weights is one constant.
    let mut whole = frozen(&module, &[&weights[..], &[("s".into(), s)]].concat());
    assert_eq!(first_other_bits(&run(&whole, &options, &[&x])[0], &want[0]), None);
    passes::optimize(&mut whole, &passes::PassOptions::default()).unwrap();
    let left: Vec<Opcode> = whole.entry().order.iter().map(|&i| whole.entry().instructions[i].opcode).collect();
    assert!(!left.contains(&Opcode::Transpose) && !left.contains(&Opcode::Divide), "{left:?}");
    assert!(left.contains(&Opcode::Exp) && left.contains(&Opcode::Rsqrt), "{left:?}");
    // The text and the message that a frozen module is written to are that module.
    let message = proto::read(&proto::write(&part).unwrap()).unwrap().module;
    let constants = |module: &Module| {
        let entry = module.entry();
        entry.order.iter().filter(|&&i| is_frozen(&entry.instructions[i])).count()
    };
    assert_eq!((constants(&part), constants(&message)), (2, 2));
    let printed = text::print(&part, &text::PrintOptions::default());
    let s = ArrayLiteral::scalar(3.7f32);
    assert_eq!(first_other_bits(&run(&parse(&printed), &options, &[&x, &s])[0], &want[0]), None);
}

/// Leaves of small numbers.
fn arguments(shapes: &[ArrayShape]) -> Vec<ArrayLiteral> {
    let value = |a: &ArrayShape| {
        let mut array = ArrayLiteral::zeros(&ArrayShape::new(a.ty, a.dims.clone()));
        for k in 0..array.elements() {
            let number = [1.3, -0.55, 2.71, 0.25, -3.76, 0.9][k % 6];
            let whole = a.ty.is_integer() || a.ty == ElementType::Pred;
            array.set(k, if whole { Scalar::Int(k as i64 % 3) } else { Scalar::Float(number) });
        }
        array
    };
    shapes.iter().map(value).collect()
}

#[test]
fn every_operation_on_frozen_operands_gives_the_same_bits() {
    let types = [
        ElementType::Pred,
        ElementType::S8,
        ElementType::U32,
        ElementType::S64,
        ElementType::F8E5M2,
        ElementType::BF16,
        ElementType::F32,
        ElementType::F64,
        ElementType::C64,
    ];
    // Narrow floats keep their bits where each operation rounds.
    let options = CompileOptions { strict_rounding: true, ..CompileOptions::native() };
    let (mut same, mut failures) = (0, Vec::new());
    for &opcode in Opcode::ALL {
        for ty in types {
            let Some(module) = program(opcode, ty).and_then(|source| text::parse(&source).ok()) else { continue };
            let entry = module.entry();
            let shapes: Option<Vec<ArrayShape>> = (entry.parameters().into_iter())
                .map(|p| entry.instructions[p].shape.as_array().filter(|a| !a.is_dynamic()).cloned())
                .collect();
            let Some(shapes) = shapes.filter(|shapes| !shapes.is_empty()) else { continue };
            if shape::verify(&module).is_err() || !module.config.aliases.is_empty() {
                continue;
            }
            // What has no compiled form, or runs only among several devices.
            let Ok(artifact) = compile(&module, &options) else { continue };
            let arguments = arguments(&shapes);
            let all: Vec<&ArrayLiteral> = arguments.iter().collect();
            let Ok(want) = Program::from_object(&artifact.object).unwrap().run(&all) else { continue };
            for from in [0, shapes.len() - 1] {
                let values: Vec<_> = (from..shapes.len()).map(|k| (k.into(), arguments[k].clone())).collect();
                let got = run(&frozen(&module, &values), &options, &all[..from]);
                for (got, want) in got.iter().zip(&want) {
                    match first_other_bits(got, want) {
                        None => same += 1,
                        Some(at) => failures.push(format!("{opcode} of {ty}, frozen from {from} on: {at:?}")),
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}: {failures:#?}", failures.len(), same + failures.len());
    assert!(same > 800, "only {same} results");
}

/// The constraint of the error that freezing ends with; `unsupported` where the program is fine.
fn refused(source: &str, values: &[(Argument, ArrayLiteral)]) -> (&'static str, String) {
    let mut module = parse(source);
    let before = text::print(&module, &text::PrintOptions::default());
    let error = freeze(&mut module, values).unwrap_err();
    assert_eq!(text::print(&module, &text::PrintOptions::default()), before, "{error}");
    match &error {
        Error::Invalid { constraint, .. } => (*constraint, error.to_string()),
        Error::Unsupported { .. } => ("unsupported", error.to_string()),
        _ => panic!("{error}"),
    }
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let (w, b) = (numbers(&[8, 16]), numbers(&[8]));
    let (id, message) = refused(LAYER, &[(0.into(), numbers(&[16, 8]))]);
    assert_eq!(id, "freeze.value");
    assert!(message.contains("params['w']") && message.contains("expected f32[8,16], found f32[16,8]"), "{message}");
    let whole = ArrayLiteral::from_elements(&[8], &[1i32; 8]);
    let (_, message) = refused(LAYER, &[("b".into(), whole)]);
    assert!(message.contains("params['b']") && message.contains("expected f32[8], found s32[8]"), "{message}");
    let (id, message) = refused(LAYER, &[("b".into(), b.clone()), (2.into(), b.clone())]);
    assert!(id == "freeze.value" && message.contains("found two"), "{message}");
    let (id, message) = refused(LAYER, &[("c".into(), b.clone())]);
    assert!(id == "freeze.parameter" && message.contains("no parameter 'c'"), "{message}");
    let (id, message) = refused(LAYER, &[(4.into(), b.clone())]);
    assert!(id == "freeze.parameter" && message.contains("below 4"), "{message}");
    const PAIR: &str = "HloModule pair\n\nENTRY main {\n  p = (f32[8]{0}, f32[8]{0}) parameter(0)\n  \
        a = f32[8]{0} get-tuple-element(p), index=0\n  d = f32[<=8]{0} parameter(1)\n  ROOT r = (f32[8]{0}, f32[<=8]{0}) tuple(a, d)\n}\n";
    let (id, message) = refused(PAIR, &[("p.1".into(), b.clone())]);
    assert!(id == "unsupported" && message.contains("'p'") && message.contains("tuple"), "{message}");
    let (id, message) = refused(PAIR, &[("d".into(), b.clone())]);
    assert!(id == "unsupported" && message.contains("'d'") && message.contains("dynamic size"), "{message}");
    let donated = LAYER.replace("HloModule layer", "HloModule layer, buffer_donor={ (0, {}) }");
    let (id, message) = refused(&donated, &[("w".into(), w)]);
    assert!(id == "freeze.donated" && message.contains("'w'") && message.contains("donate_argnums"), "{message}");
}

#[test]
fn aliases_and_donors_of_the_others_are_numbered_anew() {
    const STEP: &str = "HloModule step, input_output_alias={ {}: (2, {}, must-alias) }, buffer_donor={ (1, {}) }, \
        allow_spmd_sharding_propagation_to_parameters={true,false,false}\n\nENTRY main {\n  w = f32[4]{0} parameter(0)\n  \
        x = f32[4]{0} parameter(1)\n  y = f32[4]{0} parameter(2)\n  a = f32[4]{0} add(w, x)\n  ROOT r = f32[4]{0} multiply(a, y)\n}\n";
    let (w, x, y) = (numbers(&[4]), numbers(&[4]), numbers(&[4]));
    let (id, message) = refused(STEP, &[("y".into(), y.clone())]);
    assert!(id == "freeze.donated" && message.contains("'y'"), "{message}");
    let module = parse(STEP);
    let options = CompileOptions::native();
    let want = run(&module, &options, &[&w, &x, &y]);
    let part = frozen(&module, &[("w".into(), w)]);
    let head = text::print(&part, &text::PrintOptions::default());
    let head = head.lines().next().unwrap();
    assert!(head.contains("{}: (1, {}, must-alias)") && head.contains("buffer_donor={ (0, {}) }"), "{head}");
    assert!(!head.contains("allow_spmd"), "{head}");
    assert_eq!(run(&part, &options, &[&x, &y]), want);
    let descriptor = compile(&part, &options).unwrap().descriptor;
    assert_eq!(descriptor.aliases.iter().map(|a| a.parameter).collect::<Vec<_>>(), [1]);
}

#[test]
fn constants_of_the_program_fold_as_they_did() {
    // The function of the program's own constant is folded whether or not an equal one was a parameter.
    const BOTH: &str = "HloModule both\n\nENTRY main {\n  p = f32[] parameter(0)\n  c = f32[] constant(0.7)\n  \
        e = f32[] exponential(c)\n  f = f32[] exponential(p)\n  ROOT r = (f32[], f32[]) tuple(e, f)\n}\n";
    let module = parse(BOTH);
    let value = ArrayLiteral::scalar(0.7f32);
    let want = run(&module, &CompileOptions::native(), &[&value]);
    let part = frozen(&module, &[(0.into(), value)]);
    assert_eq!(run(&part, &CompileOptions::native(), &[]), want);
    let functions = |module: &Module| {
        let mut module = module.clone();
        passes::optimize(&mut module, &passes::PassOptions::default()).unwrap();
        let entry = module.entry();
        entry.order.iter().filter(|&&i| entry.instructions[i].opcode == Opcode::Exp).count()
    };
    assert_eq!((functions(&module), functions(&part)), (1, 1));
}

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("freeze-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn a_build_script_freezes_arrays_and_files() {
    let dir = directory("builder");
    let (program, cache) = (dir.join("layer.hlo"), dir.join("cache"));
    std::fs::write(&program, LAYER).unwrap();
    let (w, x, b, s) = (numbers(&[8, 16]), numbers(&[4, 16]), numbers(&[8]), ArrayLiteral::scalar(3.7f32));
    let file = dir.join("w.npy");
    std::fs::write(&file, npy::write(&w)).unwrap();
    let builder = |bias: &ArrayLiteral| {
        let mut builder = Builder::new();
        builder.silent(true).module(&program).target(this_machine()).out_dir(&dir).cache(&cache);
        builder.freeze_npy("w", &file).freeze("params['b']", bias.clone()).freeze("s", s.clone());
        builder
    };
    let output = builder(&b).compile();
    let object = std::fs::read(&output.object).unwrap();
    let names: Vec<String> = output.descriptors[0].parameters.iter().map(|leaf| leaf.name.clone()).collect();
    assert_eq!(names, ["x"]);
    let bindings = std::fs::read_to_string(&output.bindings).unwrap();
    assert!(bindings.contains("x: &[[f32; 16]; 4]") && !bindings.contains("w: &"), "{bindings}");
    let options = CompileOptions { target: TargetOptions::default(), ..CompileOptions::default() };
    let want = run(&parse(LAYER), &options, &[&w, &x, &b, &s]);
    let got = Program::from_object(&object).unwrap().run(&[&x]).unwrap();
    assert_eq!(first_other_bits(&got[0], &want[0]), None);
    // Other values are another object, in the cache too; so is another file.
    let zeros = ArrayLiteral::from_elements(&[8], &[0f32; 8]);
    assert_ne!(std::fs::read(builder(&zeros).out_dir(dir.join("zeros")).compile().object).unwrap(), object);
    std::fs::write(&file, npy::write(&numbers(&[16, 8]))).unwrap();
    let error = builder(&b).try_compile().unwrap_err().to_string();
    assert!(error.contains("expected f32[8,16], found f32[16,8]"), "{error}");
    std::fs::write(&file, npy::write(&ArrayLiteral::from_elements(&[8, 16], &[0i32; 128]))).unwrap();
    let error = builder(&b).try_compile().unwrap_err().to_string();
    assert!(error.contains("w.npy") && error.contains("params['w']") && error.contains("f32"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn tensors_of_a_file_go_to_the_parameters_of_their_names() {
    use safetensors::{Dtype, tensor::TensorView};
    let dir = directory("safetensors");
    let (program, file) = (dir.join("layer.hlo"), dir.join("weights.safetensors"));
    std::fs::write(&program, LAYER).unwrap();
    let (w, b, x, s) = (numbers(&[8, 16]), numbers(&[8]), numbers(&[4, 16]), ArrayLiteral::scalar(3.7f32));
    let write = |arrays: &[(&str, &ArrayLiteral)]| {
        let views = arrays.iter().map(|(name, array)| {
            let dims = array.dims().iter().map(|&d| d as usize).collect();
            (*name, TensorView::new(Dtype::F32, dims, array.bytes()).unwrap())
        });
        std::fs::write(&file, safetensors::serialize(views, None).unwrap()).unwrap();
    };
    let mut builder = Builder::new();
    builder.silent(true).module(&program).target(this_machine()).out_dir(&dir).freeze_safetensors(&file);
    write(&[("params['w']", &w), ("params['b']", &b), ("of another model", &x)]);
    let output = builder.compile();
    let object = std::fs::read(&output.object).unwrap();
    assert_eq!(read_descriptors(&object).unwrap()[0].parameters.len(), 2);
    let want = run(&parse(LAYER), &CompileOptions::default(), &[&w, &x, &b, &s]);
    let got = Program::from_object(&object).unwrap().run(&[&x, &s]).unwrap();
    assert_eq!(first_other_bits(&got[0], &want[0]), None);
    write(&[("of another model", &x)]);
    let error = builder.try_compile().unwrap_err().to_string();
    assert!(error.contains("none of its tensors has the name of a parameter"), "{error}");
    write(&[("w", &b)]);
    let error = builder.try_compile().unwrap_err().to_string();
    assert!(error.contains("params['w']") && error.contains("expected f32[8,16], found F32 of shape [8]"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn every_size_of_a_program_has_the_weights() {
    const OPEN: &str = "func.func @main(%w: tensor<3xf32>, %x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n  \
        %0 = \"stablehlo.get_dimension_size\"(%x) {dimension = 0 : i64} : (tensor<?x3xf32>) -> tensor<i32>\n  \
        %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>\n  %c = stablehlo.constant dense<3> : tensor<1xi32>\n  \
        %2 = stablehlo.concatenate %1, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>\n  \
        %3 = stablehlo.dynamic_broadcast_in_dim %w, %2, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>\n  \
        %4 = stablehlo.multiply %x, %3 : tensor<?x3xf32>\n  return %4 : tensor<?x3xf32>\n}\n";
    let dir = directory("sizes");
    let program = dir.join("open.mlir");
    std::fs::write(&program, OPEN).unwrap();
    let w = ArrayLiteral::from_elements(&[3], &[2f32, 3.0, 5.0]);
    let mut builder = Builder::new();
    builder.silent(true).module(&program).target(this_machine()).out_dir(&dir);
    for batch in [1, 2] {
        builder.size([("x", Shape::array(ElementType::F32, [batch, 3]))]);
    }
    let error = builder.clone().freeze("x", w.clone()).try_compile().unwrap_err().to_string();
    assert!(error.contains("expected f32[1,3], found f32[3]"), "{error}");
    let one = ArrayLiteral::from_elements(&[1, 3], &[1f32; 3]);
    let error = builder.clone().freeze("x", one).try_compile().unwrap_err().to_string();
    assert!(error.contains("sizes are open"), "{error}");
    let output = builder.freeze("w", w).compile();
    for (descriptor, batch) in output.descriptors.iter().zip([1, 2]) {
        assert_eq!(descriptor.sizes(), [batch]);
        assert_eq!(descriptor.open[0].parameter, 0);
    }
    let object = std::fs::read(&output.object).unwrap();
    let sizes = brolga_runtime::Sizes::from_object(&object).unwrap();
    let x = ArrayLiteral::from_elements(&[2, 3], &[1f32, 1.0, 1.0, 2.0, 2.0, 2.0]);
    let got = sizes.select(&[2]).unwrap().run(&[&x]).unwrap();
    assert_eq!(got[0].as_slice::<f32>(), [2.0, 3.0, 5.0, 4.0, 6.0, 10.0]);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The machine at hand.
fn this_machine() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}
