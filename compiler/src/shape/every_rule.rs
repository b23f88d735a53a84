//! Every rule has a negative test: the ids in the sources are those in the tests. And the rules that no text can break,
//! because the reader refuses it first or cannot write it.
#![allow(clippy::unwrap_used)]

use super::{MAX_LEAVES, check_shape, verify};
use crate::builder::Builder;
use crate::error::Error;
use crate::hlo::{Alias, AliasKind, AttrKey, AttrValue, Instruction, InstructionId, Module, Opcode};
use crate::text;
use brolga_runtime::{ArrayShape, ElementType, Shape};
use cranelift_entity::EntityRef;
use std::collections::BTreeSet;

/// What looks like a rule's id in a source: words with hyphens around one dot, in quotes, not in a comment.
fn ids(source: &str) -> BTreeSet<String> {
    let code = source.lines().filter(|l| !l.trim_start().starts_with("//"));
    let is_word =
        |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    code.flat_map(|l| l.split('"').skip(1).step_by(2))
        .filter(|s| s.split_once('.').is_some_and(|(a, b)| is_word(a) && is_word(b)))
        .map(str::to_owned)
        .collect()
}

/// The ids in the tests of a folder, files and modules, and in all else.
fn ids_of_folder(folder: &str, tests: &[&str]) -> [BTreeSet<String>; 2] {
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            // What stands behind the code in a file is its tests.
            let (code, inside) = source.split_once("#[cfg(test)]\nmod tests {").unwrap_or((source.as_str(), ""));
            found[usize::from(!tests.contains(&name.as_str()))].extend(ids(code));
            found[0].extend(ids(inside));
        }
    }
    found
}

#[test]
fn every_rule_has_a_negative_test() {
    let [tested, rules] = ids_of_folder("shape", &["negative.rs", "tests.rs", "every_rule.rs"]);
    assert!(rules.len() > 150, "the sources are read: {} rules", rules.len());
    let [by_builder, of_builder] = ids_of_folder("builder", &["tests.rs"]);
    let all: BTreeSet<_> = tested.union(&by_builder).collect();
    let untested: Vec<_> = rules.union(&of_builder).filter(|id| !all.contains(id)).collect();
    assert!(untested.is_empty(), "rules without a negative test: {untested:?}");
}

fn module() -> Module {
    let source = "HloModule m

callee {
  x = f32[4] parameter(0)
  ROOT r = f32[4] negate(x)
}

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] call(a), to_apply=callee
  c = f32[4] add(a, b)
  ROOT t = (f32[4], f32[4]) tuple(b, c)
}
";
    text::parse(source).unwrap()
}

#[track_caller]
fn refused(id: &str, change: impl FnOnce(&mut Module)) {
    let mut module = module();
    verify(&module).unwrap();
    change(&mut module);
    match verify(&module) {
        Err(Error::Invalid { constraint, .. }) if constraint == id => {}
        other => panic!("{id}: {other:?}"),
    }
}

fn named(module: &Module, name: &str) -> InstructionId {
    let entry = module.entry();
    entry.order.iter().copied().find(|&i| entry.instructions[i].name == name).unwrap()
}

fn change<'a>(module: &'a mut Module, name: &str) -> &'a mut Instruction {
    let id = named(module, name);
    &mut module.computations[module.entry].instructions[id]
}

#[test]
fn the_order_of_instructions() {
    refused("computation.order", |m| m.computations[m.entry].order.swap(1, 2));
    refused("computation.order", |m| {
        let twice = named(m, "a");
        m.computations[m.entry].order.push(twice);
    });
    refused("computation.order", |m| m.computations[m.entry].order.push(InstructionId::new(77)));
    refused("computation.unique-names", |m| change(m, "c").name = "a".to_owned());
    refused("computation.root", |m| m.computations[m.entry].root = InstructionId::new(77));
    refused("computation.control-predecessors", |m| {
        let lost = AttrValue::Instructions(vec![InstructionId::new(77)]);
        change(m, "c").attrs.set(AttrKey::ControlPredecessors, lost);
    });
}

#[test]
fn computations_and_calls() {
    refused("module.order", |m| m.order.push(m.order[0]));
    refused("module.entry", |m| m.order.retain(|&c| c != m.entry));
    refused("module.unique-names", |m| m.computations[m.entry].name = "callee".to_owned());
    refused("call.computation", |m| m.order.retain(|&c| c == m.entry));
    refused("call.recursive", |m| {
        let callee = m.order[0];
        let root = m.computations[callee].root;
        let instruction = &mut m.computations[callee].instructions[root];
        instruction.opcode = Opcode::Call;
        instruction.attrs.set(AttrKey::ToApply, AttrValue::Computation(callee));
    });
    let alias =
        |k: usize| Alias { output_index: vec![k], parameter: 0, parameter_index: Vec::new(), kind: AliasKind::May };
    refused("alias.once", |m| m.config.aliases = vec![alias(0), alias(1)]);
}

#[test]
fn attributes_and_constants() {
    refused("attribute.kind", |m| {
        change(m, "t").attrs.set(AttrKey::Dimensions, AttrValue::Int(0));
    });
    refused("constant.literal", |m| {
        let c = change(m, "c");
        c.opcode = Opcode::Constant;
        c.operands.clear();
    });
}

#[test]
fn shapes_that_no_text_says() {
    let constraint = |shape: &Shape| check_shape(shape).map_err(|e| e.constraint);
    let unmarked = Shape::Array(ArrayShape { dynamic: Vec::new(), ..ArrayShape::new(ElementType::F32, [4]) });
    assert_eq!(constraint(&unmarked), Err("shape.dynamic"));
    let wide = Shape::tuple(vec![Shape::Token; MAX_LEAVES + 1]);
    assert_eq!(constraint(&wide), Err("shape.leaves"));
}

#[test]
fn the_builders_own_rules() {
    let first = |make: &dyn Fn(&Builder)| {
        let b = Builder::new("main");
        make(&b);
        match b.build() {
            Err(Error::Invalid { constraint, .. }) => constraint,
            other => panic!("{other:?}"),
        }
    };
    let array = |b: &Builder| b.parameter(0, Shape::array(ElementType::S32, [2, 3]), "x");
    let collapse = |dimensions: &'static [i64]| {
        first(&|b| {
            b.collapse(array(b), dimensions);
        })
    };
    assert_eq!(collapse(&[1, 0]), "collapse.dimensions");
    assert_eq!(collapse(&[1, 2]), "collapse.dimensions");
    let constant = |b: &Builder| {
        b.constant(&[2], &[1f32]);
    };
    assert_eq!(first(&constant), "constant.elements");
    let dot = |b: &Builder| {
        let cube = b.parameter(0, Shape::array(ElementType::F32, [2, 3, 4]), "x");
        b.dot(cube, cube);
    };
    assert_eq!(first(&dot), "dot.rank");
}
