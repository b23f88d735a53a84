//! `testdata/` holds one program of two functions as an artifact of the oldest version and of a newer one, and a program with two
//! constants whose elements are resources.

use super::read;
use super::reader::Reader;
use crate::Error;
use crate::stablehlo::ir::{Attribute, Dim, DotDims, Element, Program, TensorType, Type};
use brolga_runtime::ElementType;

const OLD: &[u8] = include_bytes!("testdata/small_0_9_0.bc");
const NEW: &[u8] = include_bytes!("testdata/small_1_17_0.bc");

const RESOURCES: &[u8] = include_bytes!("testdata/resources.bc");

fn tensor(ty: ElementType, dims: &[Dim]) -> Type {
    Type::Tensor(TensorType { element: Element::Type(ty), dims: dims.to_vec() })
}

fn names(program: &Program, function: &str) -> Vec<String> {
    let body = program.function(function).and_then(|f| f.body.as_ref()).expect("the function has a body");
    body.body.iter().map(|o| o.name.to_string()).collect()
}

#[test]
fn both_versions_read_to_one_program() {
    for bytes in [OLD, NEW] {
        let program = read(bytes).expect("an artifact");
        assert_eq!(program.name.as_deref(), Some("m"));
        assert_eq!(program.functions.len(), 2);
        let main = program.function("main").expect("a function");
        assert!(!main.is_private && program.function("f").is_some_and(|f| f.is_private));
        let fixed = |n| Dim::Fixed(n);
        assert_eq!(
            main.arguments,
            [tensor(ElementType::F32, &[fixed(2), fixed(3)]), tensor(ElementType::S32, &[Dim::Dynamic])]
        );
        assert_eq!(main.results, [tensor(ElementType::F32, &[fixed(2)])]);
        assert_eq!(main.argument_attributes[0].get("jax.arg_info"), Some(&Attribute::string("x")));
        let operations = [
            "stablehlo.constant",
            "stablehlo.constant",
            "stablehlo.reduce",
            "stablehlo.dot_general",
            "func.call",
            "func.return",
        ];
        assert_eq!(names(&program, "main"), operations);
        assert_eq!(names(&program, "f"), ["stablehlo.tanh", "func.return"]);
        let body = main.body.as_ref().expect("a body");
        let Some(Attribute::Elements(mask)) = body.body[0].attribute("value") else { panic!("a constant") };
        assert_eq!((mask.data.bytes(), mask.is_splat), (&[1, 0, 1][..], false));
        let reduce = &body.body[2];
        assert_eq!(reduce.attribute("dimensions").and_then(Attribute::to_ints), Some(vec![1]));
        let inner: Vec<_> = reduce.regions[0].body.iter().map(|o| &*o.name).collect();
        assert_eq!(inner, ["stablehlo.add", "stablehlo.return"]);
        assert_eq!(reduce.regions[0].body[0].operands, reduce.regions[0].arguments);
        let dot = &body.body[3];
        let dims = DotDims { lhs_contracting: vec![0], rhs_contracting: vec![0], ..DotDims::default() };
        assert_eq!(dot.attribute("dot_dimension_numbers"), Some(&Attribute::Dot(Box::new(dims))));
        // What VHLO writes out where nothing is said.
        assert_eq!((dot.attribute("precision_config"), dot.attribute("algorithm")), (None, None));
        assert_eq!(body.body[4].attribute("callee"), Some(&Attribute::Symbol(vec!["f".into()])));
        assert_eq!(body.body[5].operands, body.body[4].results);
    }
}

#[test]
fn resources_are_named_by_their_number() {
    let program = read(RESOURCES).expect("an artifact");
    let body = program.function("main").and_then(|f| f.body.as_ref()).expect("a body");
    let bytes: Vec<&[u8]> = body.body[..2]
        .iter()
        .map(|constant| match constant.attribute("value") {
            Some(Attribute::Elements(elements)) => elements.data.bytes(),
            other => panic!("elements, found {other:?}"),
        })
        .collect();
    let second: Vec<u8> = [1.5f32, -2.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    let first: Vec<u8> = [1i32, 2, -3].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(bytes, [second, first]);
}

#[test]
fn numbers_of_every_length_are_read() {
    for (bytes, want) in [
        (&[0x01][..], 0),
        (&[0x03], 1),
        (&[0xff], 127),
        (&[0x02, 0x02], 128),
        (&[0xfe, 0xff], (1 << 14) - 1),
        (&[0x04, 0x00, 0x02], 1 << 14),
        (&[0x80, 0, 0, 0, 0, 0, 0, 1], 1 << 48),
        (&[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], u64::MAX),
    ] {
        let mut r = Reader::new(bytes);
        assert_eq!(r.varint().ok(), Some(want), "{bytes:x?}");
        assert!(r.is_empty());
    }
    for (value, want) in [(0x01, 0), (0x03, -1), (0x05, 1), (0x07, -2)] {
        assert_eq!(Reader::new(&[value]).signed().ok(), Some(want));
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_an_error_or_a_program() {
    for bytes in [OLD, NEW, RESOURCES] {
        for length in 0..bytes.len() {
            let cut = read(&bytes[..length]);
            assert!(matches!(cut, Err(Error::Syntax { .. } | Error::Unsupported { .. })), "{length}");
        }
        for place in 0..bytes.len() {
            for value in [0, 1, 0x03, 0x7f, 0x80, 0xff, bytes[place] ^ 4] {
                let mut changed = bytes.to_vec();
                changed[place] = value;
                match read(&changed) {
                    Ok(_) | Err(Error::Syntax { .. } | Error::Unsupported { .. }) => {}
                    Err(other) => panic!("{place}: {other}"),
                }
            }
        }
    }
}
