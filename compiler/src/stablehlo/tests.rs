//! Programs in StableHLO text, against HLO text and against numbers.

#![allow(clippy::unwrap_used)]

use super::{Argument, ReadOptions, read_text};
use crate::hlo::{AttrKey, Module};
use crate::interp::{self, Options};
use crate::text::{self, PrintOptions};
use crate::{Error, shape};
use brolga_runtime::{ArrayLiteral, Literal};

fn module(source: &str) -> Module {
    let module = read_text(source, &ReadOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    module
}

/// HLO text without names of files and layouts.
fn hlo(source: &str) -> String {
    let options = PrintOptions { percent: false, layouts: false, metadata: false, ..PrintOptions::default() };
    text::print(&module(source), &options)
}

/// A function of the given signature and body.
fn main(signature: &str, body: &str) -> String {
    format!("func.func @main({signature} {{\n{body}\n}}\n")
}

fn run(source: &str, arguments: &[Literal]) -> Literal {
    interp::run(&module(source), arguments, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn floats(list: &[f32]) -> Literal {
    ArrayLiteral::from_elements(&[list.len() as i64], list).into()
}

fn ints(list: &[i32]) -> Literal {
    ArrayLiteral::from_elements(&[list.len() as i64], list).into()
}

fn shown(literal: &Literal) -> String {
    text::literal_to_string(literal)
}

/// The error of a text, and its line and column.
fn refused(source: &str) -> (Error, u32, u32) {
    let error = read_text(source, &ReadOptions::default()).map(|_| ()).unwrap_err();
    let location = error.site().map(|s| s.location).unwrap_or_default();
    (error, location.line, location.column)
}

#[test]
fn pretty_and_generic_forms_are_one_program() {
    let pairs = [
        (
            "%0 = stablehlo.add %a, %a {mhlo.x = 1 : i32} : tensor<4x4xf32>",
            r#"%0 = "stablehlo.add"(%a, %a) {mhlo.x = 1 : i32} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>"#,
        ),
        (
            "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>",
            r#"%0 = "stablehlo.transpose"(%a) <{permutation = array<i64: 1, 0>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>"#,
        ),
        (
            "%0 = stablehlo.slice %a [1:3, 0:4:2] : (tensor<4x4xf32>) -> tensor<2x2xf32>",
            r#"%0 = "stablehlo.slice"(%a) {start_indices = dense<[1, 0]> : tensor<2xi64>, limit_indices = array<i64: 3, 4>,
                strides = array<i64: 1, 2>} : (tensor<4x4xf32>) -> tensor<2x2xf32>"#,
        ),
        (
            "%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] \
             : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>",
            r#"%0 = "stablehlo.dot_general"(%a, %a) {dot_dimension_numbers = #stablehlo.dot<
                lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>,
                precision_config = [#stablehlo<precision HIGHEST>, #stablehlo.precision<DEFAULT>]}
                : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>"#,
        ),
        (
            "%c = stablehlo.constant dense<0.0> : tensor<f32>
             %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0] \
             : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>",
            r#"%c = "stablehlo.constant"() <{value = dense<"0x00000000"> : tensor<f32>}> : () -> tensor<f32>
               %0 = "stablehlo.reduce"(%a, %c) <{dimensions = array<i64: 0>}> ({
               ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                 %1 = stablehlo.add %x, %y : tensor<f32>
                 stablehlo.return %1 : tensor<f32>
               }) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>"#,
        ),
    ];
    for (pretty, generic) in pairs {
        let of = |body: &str| {
            let ty = if pretty.contains("2x2xf32") {
                "tensor<2x2xf32>"
            } else if pretty.contains("reduce") {
                "tensor<4xf32>"
            } else {
                "tensor<4x4xf32>"
            };
            hlo(&main(&format!("%a: tensor<4x4xf32>) -> {ty}"), &format!("{body}\nreturn %0 : {ty}")))
        };
        assert_eq!(of(pretty), of(generic));
    }
}

#[test]
fn a_convolution_says_all_of_its_window() {
    let body = "%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {stride = [2, 1], pad = [[0, 1], [2, 3]], rhs_dilate = [1, 2], reverse = [false, true]}
        {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
        : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x4x9x6xf32>
        return %0 : tensor<1x4x9x6xf32>";
    let text = hlo(&main("%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x2x6xf32>) -> tensor<1x4x9x6xf32>", body));
    assert!(text.contains("size=3x3 stride=2x1 pad=0_1x2_3 rhs_dilate=1x2 rhs_reversal=0x1"), "{text}");
    assert!(text.contains("dim_labels=b01f_01io->b01f, feature_group_count=2"), "{text}");
}

#[test]
fn constants_have_many_spellings() {
    for (text, want) in [
        ("dense<[1, -2, 3]> : tensor<3xi32>", "{1, -2, 3}"),
        ("dense<7> : tensor<3xi32>", "{7, 7, 7}"),
        ("dense<\"0x01000000FEFFFFFF03000000\"> : tensor<3xi32>", "{1, -2, 3}"),
        ("dense<\"0x07000000\"> : tensor<3xi32>", "{7, 7, 7}"),
        ("dense<[[true, false], [false, true]]> : tensor<2x2xi1>", "{ {1, 0}, {0, 1} }"),
        ("dense<\"0x05\"> : tensor<3xi1>", "{1, 0, 1}"),
        ("dense<[1.5, 0x7FC00000, -1.0e-3, 0xFF800000]> : tensor<4xf32>", "{1.5, nan, -0.001, -inf}"),
        ("dense<[(1.0,-2.0), (0.5,3.0)]> : tensor<2xcomplex<f32>>", "{(1, -2), (0.5, 3)}"),
        ("dense<[-8, 7]> : tensor<2xi4>", "{-8, 7}"),
        ("dense<[1.0, 0x3C]> : tensor<2xf8E5M2>", "{1, 1}"),
        ("dense<> : tensor<0x3xf32>", "{}"),
        ("dense<18446744073709551615> : tensor<ui64>", "18446744073709551615"),
        ("dense_resource<blob> : tensor<2xf32>", "{1, 2}"),
    ] {
        let ty = text.split(" : ").nth(1).unwrap();
        let source = main(&format!(") -> {ty}"), &format!("%0 = stablehlo.constant {text}\nreturn %0 : {ty}"));
        let source = format!(
            "{source}\n{{-# dialect_resources: {{ builtin: {{ blob: \"0x040000000000803F00000040\" }} }} #-}}\n"
        );
        assert_eq!(shown(&run(&source, &[])), want, "{text}");
    }
    for text in [
        "dense<[1, 2]> : tensor<3xi32>",
        "dense<[1, 2, 3, 4]> : tensor<3xi32>",
        "dense<128> : tensor<i8>",
        "dense<-1> : tensor<ui8>",
        "dense<1.0e40> : tensor<f32>",
        "dense<\"0x0102\"> : tensor<3xi32>",
        "dense<\"0x0\"> : tensor<i8>",
        "dense_resource<none> : tensor<2xf32>",
    ] {
        let source = main(")", &format!("%0 = stablehlo.constant {text}\nreturn"));
        let (error, line, _) = refused(&source);
        assert!(matches!(error, Error::Syntax { .. }) && line == 2, "{text}: {error}");
    }
    let vast = "%0 = stablehlo.constant dense<1.0> : tensor<9223372036854775807x9223372036854775807xf32>\nreturn";
    let (error, line, _) = refused(&main(")", vast));
    assert!(matches!(error, Error::Unsupported { .. }) && line == 2, "{error}");
}

#[test]
fn regions_see_the_values_around_them() {
    // The loop and the branches use %n and %y, which become parts of the state.
    let source = main(
        "%n: tensor<i32>, %y: tensor<f32>) -> (tensor<i32>, tensor<f32>)",
        r#"%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %x = stablehlo.constant dense<1.0> : tensor<f32>
        %0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<f32>
        cond {
          %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %even = stablehlo.and %i, %one : tensor<i32>
          %r = "stablehlo.case"(%even) ({
            %a = stablehlo.multiply %s, %y : tensor<f32>
            stablehlo.return %a : tensor<f32>
          }, {
            %a = stablehlo.add %s, %x : tensor<f32>
            stablehlo.return %a : tensor<f32>
          }) : (tensor<i32>) -> tensor<f32>
          %j = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %j, %r : tensor<i32>, tensor<f32>
        }
        return %0#0, %0#1 : tensor<i32>, tensor<f32>"#,
    );
    let result = run(&source, &[Literal::scalar(4i32), Literal::scalar(3.0f32)]);
    // ((1 * 3 + 1) * 3) + 1
    assert_eq!(shown(&result), "(4, 13)");
}

#[test]
fn functions_are_called_and_results_are_several() {
    let source = r#"module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xi32> {tf.aliasing_output = 1 : i32}) -> (tensor<2xi32>, tensor<2xi32>) {
    %0:2 = call @both(%arg0) : (tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>)
    %1 = stablehlo.composite "my.square" %0#1 {decomposition = @square} : (tensor<2xi32>) -> tensor<2xi32>
    return %0#0, %1 : tensor<2xi32>, tensor<2xi32>
  }
  func.func private @both(%x: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>) {
    %0 = stablehlo.negate %x : tensor<2xi32>
    return %0, %x : tensor<2xi32>, tensor<2xi32>
  }
  func.func private @square(%x: tensor<2xi32>) -> tensor<2xi32> {
    %0 = chlo.square %x : tensor<2xi32> -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }
}"#;
    assert_eq!(shown(&run(source, &[ints(&[3, 4])])), "({-3, -4}, {9, 16})");
    let module = module(source);
    assert_eq!(module.name, "m");
    assert_eq!((module.config.aliases[0].output_index.as_slice(), module.config.aliases[0].parameter), (&[1][..], 0));
    let recursive = source.replace(
        "chlo.square %x : tensor<2xi32> -> tensor<2xi32>",
        "call @square(%x) : (tensor<2xi32>) -> tensor<2xi32>",
    );
    let (error, line, _) = refused(&recursive);
    assert!(error.to_string().contains("[call.recursive]") && line == 12, "{error}");
}

#[test]
fn open_sizes_follow_from_the_arguments() {
    let source = r#"module @jax_export attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%x: tensor<?x4xf32> loc("x")) -> (tensor<?x4xf32>, tensor<?xf32>) {
    %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1 = call @_inner(%0, %x) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    %c = stablehlo.constant dense<4> : tensor<1xi32>
    %2 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.multiply %2, %c : tensor<1xi32>
    %4 = stablehlo.dynamic_reshape %1, %3 : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>
    return %1, %4 : tensor<?x4xf32>, tensor<?xf32>
  }
  func.func private @_inner(%n: tensor<i32>, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.compare GE, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%0, %n) {api_version = 2 : i32, error_message = "n must be positive, found {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %c_0 = stablehlo.constant dense<4> : tensor<1xi32>
    %1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.concatenate %1, %c_0, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %3 = stablehlo.dynamic_iota %2, dim = 0 : (tensor<2xi32>) -> tensor<?x4xf32>
    %4 = stablehlo.add %x, %3 : tensor<?x4xf32>
    return %4 : tensor<?x4xf32>
  }
}"#;
    let given = |shape: &str| {
        let shape = text::parse_shape(shape).unwrap();
        ReadOptions { shapes: vec![(Argument::Name("x".to_owned()), shape)], ..ReadOptions::default() }
    };
    let module = read_text(source, &given("f32[2,4]")).unwrap();
    shape::verify(&module).unwrap();
    assert_eq!(module.entry().result_shape().to_string(), "(f32[2,4], f32[8])");
    let x = ArrayLiteral::from_elements(&[2, 4], &[0.0f32; 8]).into();
    let result = interp::run(&module, &[x], &Options::default()).unwrap();
    assert_eq!(shown(&result), "({ {0, 0, 0, 0}, {1, 1, 1, 1} }, {0, 0, 0, 0, 1, 1, 1, 1})");
    let sized = ReadOptions { sizes: vec![(Argument::Number(0), vec![3, 4])], ..ReadOptions::default() };
    assert_eq!(read_text(source, &sized).unwrap().entry().result_shape().to_string(), "(f32[3,4], f32[12])");
    let error = read_text(source, &given("f32[0,4]")).unwrap_err();
    assert!(error.to_string().contains("n must be positive, found 0 [shape-assertion]"), "{error}");
    let error = read_text(source, &given("f32[2,5]")).unwrap_err();
    assert!(error.to_string().contains("expected a shape of tensor<?x4xf32> for argument 'x'"), "{error}");
    let (error, ..) = refused(source);
    assert!(error.to_string().contains("whose sizes are open"), "{error}");
}

/// What `jnp.roll` exports: the place to cut at is what functions of the sizes say, of which one has two results.
#[test]
fn sizes_may_come_from_calls() {
    let source = r#"module @jax_export {
  func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %c = stablehlo.constant dense<7> : tensor<i32>
    %1:2 = call @divmod(%c, %0) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
    %2 = stablehlo.reshape %1#1 : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %one = stablehlo.constant dense<1> : tensor<1xi32>
    %zero = stablehlo.constant dense<0> : tensor<1xi32>
    %4 = stablehlo.real_dynamic_slice %x, %2, %3, %one : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
    %5 = stablehlo.real_dynamic_slice %x, %zero, %2, %one : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
    %6 = stablehlo.concatenate %4, %5, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    return %6 : tensor<?xf32>
  }
  func.func private @divmod(%a: tensor<i32>, %b: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
    %0 = stablehlo.divide %a, %b : tensor<i32>
    %1 = call @remainder(%a, %b) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    return %0, %1 : tensor<i32>, tensor<i32>
  }
  func.func private @remainder(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.remainder %a, %b : tensor<i32>
    return %0 : tensor<i32>
  }
}
"#;
    let options = ReadOptions { sizes: vec![(Argument::Number(0), vec![5])], ..ReadOptions::default() };
    let module = read_text(source, &options).unwrap();
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    let rolled = interp::run(&module, &[x], &Options::default()).unwrap();
    assert_eq!(shown(&rolled), "{3, 4, 5, 1, 2}");
}

/// What `lax.scan` over a symbolic length exports: a step cuts where its counter says.
#[test]
fn a_slice_of_known_sizes_may_start_where_the_program_says() {
    let source = r#"module @m {
  func.func public @main(%x: tensor<?x3xf32>, %i: tensor<i32>) -> tensor<?x3xf32> {
    %two = stablehlo.constant dense<2> : tensor<1xi32>
    %zero = stablehlo.constant dense<0> : tensor<1xi32>
    %0 = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %starts = stablehlo.concatenate %0, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %sizes = stablehlo.constant dense<3> : tensor<2xi32>
    %limits = stablehlo.add %sizes, %starts : tensor<2xi32>
    %strides = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
    %1 = stablehlo.real_dynamic_slice %x, %starts, %limits, %strides : (tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x3xf32>
    return %1 : tensor<?x3xf32>
  }
}
"#;
    let options = ReadOptions { sizes: vec![(Argument::Number(0), vec![5, 3])], ..ReadOptions::default() };
    let module = read_text(source, &options).unwrap();
    let x: Vec<f32> = (0..15u8).map(f32::from).collect();
    let x = ArrayLiteral::from_elements(&[5, 3], &x).into();
    let cut = interp::run(&module, &[x, Literal::scalar(1)], &Options::default()).unwrap();
    assert_eq!(shown(&cut), "{ {3, 4, 5}, {9, 10, 11} }");
    // Where nothing says how much is cut, the result has no size.
    let unknown = source.replace("stablehlo.add %sizes, %starts", "stablehlo.multiply %sizes, %starts");
    let error = read_text(&unknown, &options).unwrap_err();
    assert!(error.to_string().contains("sizes that are known only when the program runs"), "{error}");
}

#[test]
fn the_python_line_is_kept() {
    let source = r#"#loc = loc(unknown)
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32> loc(#loc3)
  return %0 : tensor<2xf32> loc(#loc)
} loc(#loc)
#loc1 = loc("model.py":12:5 to :20)
#loc2 = loc("main"(#loc1))
#loc3 = loc("jit(f)/neg"(#loc2))
"#;
    let module = module(source);
    let entry = module.entry();
    let root = &entry.instructions[entry.root];
    let metadata = root.attrs.raw(AttrKey::Metadata).unwrap();
    assert_eq!(metadata, r#"{op_name="jit(f)/neg" source_file="model.py" source_line=12}"#);
    assert_eq!((root.location.line, root.location.column), (3, 3));
    // It stands in errors, too.
    let (error, line, _) = refused(&source.replace("negate", "ceil").replace("xf32", "xi32"));
    assert!(error.to_string().contains("%0 = stablehlo.ceil at model.py:12") && line == 3, "{error}");
}

#[test]
fn quantised_values_are_what_they_stand_for() {
    // lhs: (10, 20) * 0.5; rhs: (3, 4) * 2 - each less its zero point; the sum in steps of 0.25 about 1.
    let source = main(
        "%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi8>)",
        r#"%0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:10>>
        %1 = stablehlo.uniform_quantize %b : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32:0, {2.0, 1.0:3}>>
        %2 = "stablehlo.add"(%0, %1) : (tensor<2x!quant.uniform<i8:f32, 0.5:10>>, tensor<2x!quant.uniform<i8:f32:0, {2.0, 1.0:3}>>)
            -> tensor<2x!quant.uniform<i8<-20:20>:f32, 0.25:1>>
        %3 = stablehlo.uniform_dequantize %2 : (tensor<2x!quant.uniform<i8<-20:20>:f32, 0.25:1>>) -> tensor<2xf32>
        %4 = stablehlo.constant dense<[1, 2]> : tensor<2xi8>
        return %3, %4 : tensor<2xf32>, tensor<2xi8>"#,
    );
    let result = run(&source, &[floats(&[1.2, 9.0]), floats(&[2.9, 1.4])]);
    // 1.2 -> 1.0, 2.9 -> 2.0: 3.0. 9.0 and 1.4 -> 1.0: 10, past the largest stored value: 19 * 0.25.
    assert_eq!(shown(&result), "({3, 4.75}, {1, 2})");
}

#[test]
fn special_functions_have_their_values() {
    let unary = [
        ("lgamma", 4.5, 2.453736570842442),
        ("lgamma", -0.5, 1.2655121234846454),
        ("digamma", 3.0, 0.9227843350984671),
        ("digamma", -0.5, 0.03648997397857652),
        ("erfc", 2.0, 0.004677734981047266),
        ("erfc", -1.5, 1.9661051464753108),
        ("erfc", 9.0, 4.13703174651381e-37),
        ("erf_inv", 0.5, 0.4769362762044699),
        ("erf_inv", -0.999999, -3.458910737275499),
        ("bessel_i1e", 2.0, 0.2152692892489376),
        ("bessel_i1e", -20.0, -0.08750622218328867),
        ("atan", 1.0, std::f64::consts::FRAC_PI_4),
        ("sinh", 1.0, 1.1752011936438014),
    ];
    for (name, x, want) in unary {
        let body = format!("%0 = chlo.{name} %x : tensor<f64> -> tensor<f64>\nreturn %0 : tensor<f64>");
        let result = run(&main("%x: tensor<f64>) -> tensor<f64>", &body), &[Literal::scalar(x)]);
        let got = result.as_array().unwrap().as_slice::<f64>()[0];
        assert!((got - want).abs() <= 2e-13 * want.abs(), "{name}({x}) = {got}, want {want}");
    }
    for (name, a, b, want) in [
        ("zeta", 2.0, 1.0, 1.6449340668482264),
        ("zeta", 3.5, 0.25, 128.54695896428433),
        ("polygamma", 0.0, 3.0, 0.9227843350984671),
        ("polygamma", 1.0, 2.0, 0.6449340668482264),
        ("polygamma", 2.0, 1.5, -0.8287966442343202),
    ] {
        let body =
            format!("%0 = chlo.{name} %a, %b : tensor<f64>, tensor<f64> -> tensor<f64>\nreturn %0 : tensor<f64>");
        let source = main("%a: tensor<f64>, %b: tensor<f64>) -> tensor<f64>", &body);
        let result = run(&source, &[Literal::scalar(a), Literal::scalar(b)]);
        let got = result.as_array().unwrap().as_slice::<f64>()[0];
        let tolerance = 1e-12;
        assert!((got - want).abs() <= tolerance * want.abs(), "{name}({a}, {b}) = {got}, want {want}");
    }
}

/// A cumulative sum over a dimension whose size is open, as JAX writes it.
#[test]
fn a_window_told_by_operands_is_read() {
    let body = "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
        %size = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
        %one = stablehlo.constant dense<1> : tensor<1xi32>
        %low = stablehlo.subtract %size, %one : tensor<1xi32>
        %none = stablehlo.constant dense<0> : tensor<1xi32>
        %pair = stablehlo.concatenate %low, %none, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
        %padding = stablehlo.reshape %pair : (tensor<2xi32>) -> tensor<1x2xi32>
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %zero, %size, %one, %one, %one, %padding)
            {called_computations = [@sum]} : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>,
            tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
        return %0 : tensor<?xf32>";
    let reducer = "func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
        %0 = stablehlo.add %a, %b : tensor<f32>
        return %0 : tensor<f32>\n}\n";
    let source = format!("{}{reducer}", main("%x: tensor<?xf32>) -> tensor<?xf32>", body));
    let sized = |n| ReadOptions { sizes: vec![(Argument::Number(0), vec![n])], ..ReadOptions::default() };
    let module = read_text(&source, &sized(4)).unwrap_or_else(|e| panic!("{e}"));
    shape::verify(&module).unwrap();
    let result = interp::run(&module, &[floats(&[1.0, 2.0, 3.0, 4.0])], &Options::default()).unwrap();
    assert_eq!(result, floats(&[1.0, 3.0, 6.0, 10.0]));
    let short = source.replace("%one, %padding)", "%padding)");
    let short = short.replacen("tensor<f32>, tensor<1xi32>, ", "tensor<f32>, ", 1);
    let error = read_text(&short, &sized(4)).unwrap_err();
    assert!(error.to_string().contains("expected 7 operands"), "{error}");
}

#[test]
fn mistakes_are_placed() {
    let cases = [
        ("%0 = stablehlo.add %x, %y : tensor<2xf32>", 2, 24, "'%y' is not defined"),
        ("%0 = stablehlo.add %x, %x : tensor<3xf32>", 2, 6, "'%x' has the type tensor<2xf32>, found tensor<3xf32>"),
        ("%0 = stablehlo.add %x %x : tensor<2xf32>", 2, 23, "expected ':', found '%x'"),
        ("%0 = stablehlo.frob %x : tensor<2xf32>", 2, 1, "the operation stablehlo.frob"),
        ("%0 = arith.addf %x, %x : tensor<2xf32>", 2, 6, "the operation arith.addf"),
        ("%0 = stablehlo.and %x, %x : tensor<2xf32>", 2, 1, "instruction '%0 = stablehlo.and'"),
        ("%0 = stablehlo.reshape %x : (tensor<2xf32>) -> tensor<3xf32>", 2, 1, "instruction '%0 = stablehlo.reshape'"),
        ("%0 = stablehlo.iota dim = 1 : tensor<2xf32>", 2, 1, "iota"),
        ("%0, %1 = stablehlo.negate %x : tensor<2xf32>", 2, 10, "has 1 results, found names for 2"),
        ("%0 = stablehlo.transpose %x, dims = [0 : (tensor<2xf32>) -> tensor<2xf32>", 2, 40, "expected ']', found ':'"),
        ("%x = stablehlo.negate %x : tensor<2xf32>", 2, 1, "'%x' is defined twice"),
        ("%0 = stablehlo.constant dense<[1.0, x]> : tensor<2xf32>", 2, 37, "expected an f32 number, found 'x'"),
        ("%0 = stablehlo.constant dense<1> : tensor<2x?xi32>", 2, 36, "expected a constant of fixed sizes"),
        ("%0 = stablehlo.negate %x : tensor<2xf32> loc(#nowhere)", 2, 46, "the location '#nowhere' is not defined"),
        ("%0 = \"stablehlo.negate\"(%x) : (tensor<2xf32>) -> tensor<2xi32>", 2, 1, "[result."),
    ];
    for (body, line, column, message) in cases {
        let source = format!("func.func @main(%x: tensor<2xf32>) {{\n{body}\nreturn\n}}\n");
        let (error, found_line, found_column) = refused(&source);
        assert!(error.to_string().contains(message), "{body}\n{error}");
        assert_eq!((found_line, found_column), (line, column), "{body}\n{error}");
    }
}

#[test]
fn hostile_texts_are_refused() {
    let deep = |open: &str, close: &str| format!("#a = {}{}", open.repeat(100_000), close.repeat(100_000));
    let region = "\"stablehlo.map\"() ({".repeat(100_000);
    for source in [
        deep("[", "]"),
        deep("{a = ", "}"),
        format!("!t = {}f32{}", "tuple<".repeat(100_000), ">".repeat(100_000)),
        format!("#loc = {}", "loc(callsite(".repeat(100_000)),
        format!("func.func @main() {{ {region}"),
        "module {".repeat(100_000),
        "{-#".to_owned(),
        "func.func @main() { return } {-# dialect_resources: { builtin: { x".to_owned(),
        "#loc1 = loc(\"a\"(#loc1))\nfunc.func @main() { %0 = stablehlo.create_token : !stablehlo.token loc(#loc1)"
            .to_owned(),
    ] {
        let error = read_text(&source, &ReadOptions::default()).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Syntax { .. } | Error::Unsupported { .. }), "{error}");
    }
}

#[test]
fn a_layout_of_an_operand_must_permute_its_dimensions() {
    let verified = |order: &str| {
        let text = format!(
            r#"func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
              %0 = stablehlo.custom_call @f(%x) {{operand_layouts = [dense<[{order}]> : tensor<2xindex>],
                result_layouts = [dense<[1, 0]> : tensor<2xindex>]}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
              return %0 : tensor<2x3xf32>
            }}"#
        );
        let module = read_text(&text, &ReadOptions::default())?;
        shape::verify(&module)
    };
    assert_eq!(verified("0, 1"), Ok(()));
    for order in ["1, 1", "0, 2"] {
        let wrong = verified(order);
        assert!(matches!(wrong, Err(Error::Invalid { constraint: "shape.layout", .. })), "{order}: {wrong:?}");
    }
}
