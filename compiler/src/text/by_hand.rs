//! Texts as XLA's own tests write them, by hand: looser than what XLA prints. Each is one that XLA's reader takes.

#![allow(clippy::unwrap_used)]
use super::{PrintOptions, parse, print};
use crate::hlo::{AttrKey, Module};
use crate::{Error, shape};

/// A text that must be read, be valid and print to what reads back.
fn accepted(text: &str) -> Module {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let printed = print(&module, &PrintOptions::default());
    assert_eq!(parse(&printed).map(|m| print(&m, &PrintOptions::default())), Ok(printed));
    module
}

fn root_shape(module: &Module) -> String {
    module.entry().result_shape().to_string()
}

#[test]
fn the_parameters_of_a_signature_are_those_of_the_body() {
    for parameters in ["p: f32[3]", "p: f32[2], q: f32[2]", "", "p: s32[2]", "a f32[2]", "p: (f32[2], s32[])"] {
        let text = format!("HloModule m\nENTRY %e ({parameters}) -> f32[2] {{\n ROOT p = f32[2] parameter(0)\n}}");
        let module = accepted(&text);
        let entry = module.entry();
        let shapes: Vec<String> = entry.parameters().iter().map(|&p| entry.instructions[p].shape.to_string()).collect();
        assert_eq!(shapes, ["f32[2]"], "{parameters}");
    }
    let result = "HloModule m\nENTRY %e (p: f32[2]) -> f32[3] {\n ROOT p = f32[2] parameter(0)\n}";
    assert!(matches!(parse(result), Err(Error::Syntax { .. })), "the result is still what the body says");
    let nameless = "HloModule m\nENTRY %e (f32[2]) -> f32[2] {\n ROOT p = f32[2] parameter(0)\n}";
    assert!(matches!(parse(nameless), Err(Error::Syntax { .. })));
}

#[test]
fn precisions_are_read_in_any_case() {
    for (written, want) in [("HIGH,HIGHEST", ["high", "highest"]), ("High,default", ["high", "default"])] {
        let module = accepted(&format!(
            "HloModule m\nENTRY e {{\n a = f32[2,2] parameter(0)\n ROOT d = f32[2,2] dot(a, a), \
             lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, operand_precision={{{written}}}\n}}"
        ));
        let entry = module.entry();
        let kept = entry.instructions[entry.root].attrs.get(AttrKey::OperandPrecision);
        assert!(matches!(kept, Some(crate::hlo::AttrValue::Words(words)) if *words == want), "{written}: {kept:?}");
    }
    let direction = "ENTRY e {\n a = f32[2] parameter(0)\n ROOT c = pred[2] compare(a, a), direction=lt\n}";
    assert!(matches!(parse(direction), Err(Error::Syntax { .. })), "other words have one case");
}

#[test]
fn blanks_may_stand_before_dimensions_and_layouts() {
    let module = accepted(
        "HloModule m, entry_computation_layout={(f32 [2,3] {0,1}, (s32 [2] {0}, pred [])) -> f32 [2,3] {0,1}}
ENTRY e (p: f32 [2 , 3] {0,1}, t: (s32 [2] {0}, pred [])) -> f32 [2,3] {0,1} {
 p = f32 [2,3] {0,1} parameter(0)
 t = (s32 [2] {0}, pred []) parameter(1)
 c = f32 [2,3] {1,0} constant({ {1, 2, 3}, {4, 5, 6} })
 ROOT r = f32[2,3] {0,1} add(f32 [2,3] {0,1} p, f32[2,3] {1,0} c)
}",
    );
    assert_eq!(root_shape(&module), "f32[2,3]{0,1}");
    // A brace behind the shape of a literal holds the literal.
    let literal = accepted(
        "HloModule m\nENTRY e {\n ROOT r = () custom-call(), custom_call_target=\"x\", literal=s32[2] {1, 0}\n}",
    );
    let entry = literal.entry();
    let kept = entry.instructions[entry.root].attrs.get(AttrKey::Literal);
    assert!(matches!(kept, Some(crate::hlo::AttrValue::Literal(l)) if l.arrays()[0].as_slice::<i32>() == [1, 0]));
}

#[test]
fn a_window_of_nothing_and_a_narrower_start() {
    let module = |result: &str, shape: &str, start: &str, window: &str| {
        format!(
            "HloModule m\nadd {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}}
ENTRY e {{\n p = {shape} parameter(0)\n z = {start}[] constant(0)\n ROOT r = {result}reduce-window(p, z), {window}to_apply=add\n}}"
        )
    };
    let two = "window={size=2}, ";
    assert_eq!(root_shape(&accepted(&module("", "f32[4]", "f32", two))), "f32[3]");
    assert_eq!(root_shape(&accepted(&module("", "f32[4]", "bf16", two))), "bf16[3]", "the type of the initial value");
    assert_eq!(root_shape(&accepted(&module("f32[3] ", "f32[4]", "bf16", two))), "f32[3]");
    assert_eq!(root_shape(&accepted(&module("", "bf16[4]", "f32", two))), "f32[3]");
    assert_eq!(root_shape(&accepted(&module("", "f32[]", "f32", ""))), "f32[]");
    assert!(matches!(parse(&module("", "f32[4]", "f32", "")), Err(Error::Invalid { .. })));
}

#[test]
fn arrays_past_the_address_space_are_valid_but_unsupported() {
    for shape in ["f32[9223372036854775807]", "s8[4294967296,4294967296]", "c128[576460752303423488,2]"] {
        let text = format!("HloModule m\nENTRY e {{\n ROOT p = {shape} parameter(0)\n}}");
        let error = parse(&text).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(shape) && error.site().is_some_and(|s| s.location.line == 3), "{error}");
    }
}

/// As XLA's builder writes it where no dimension is named.
#[test]
fn the_dimension_of_a_sort_may_be_the_last() {
    let module = |shape: &str, dimension: i64| {
        format!(
            "HloModule m\nlt {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT l = pred[] compare(a, b), direction=LT\n}}
ENTRY e {{\n p = {shape} parameter(0)\n ROOT r = {shape} sort(p), dimensions={{{dimension}}}, to_apply=lt\n}}"
        )
    };
    for (shape, want) in [("f32[2,3]", 1), ("f32[5]", 0), ("f32[]", 0)] {
        let module = accepted(&module(shape, -1));
        let entry = module.entry();
        assert_eq!(entry.instructions[entry.root].attrs.ints(AttrKey::Dimensions), Some(&[want][..]), "{shape}");
    }
    let read = parse(&module("f32[2,3]", -2)).and_then(|m| shape::verify(&m));
    assert!(matches!(read, Err(Error::Invalid { constraint: "sort.dimension", .. })), "{read:?}");
}

#[test]
fn a_number_may_stand_for_an_array() {
    for (shape, want) in [("f32[3]", vec![0.65f32, 0.0, 0.0]), ("f32[2,2]", vec![0.65, 0.0, 0.0, 0.0])] {
        let module = accepted(&format!("HloModule m\nENTRY e {{\n ROOT c = {shape} constant(0.65)\n}}"));
        let entry = module.entry();
        let value = entry.instructions[entry.root].literal().and_then(|l| l.as_array()).unwrap();
        assert_eq!(value.as_slice::<f32>(), want, "{shape}");
    }
}
