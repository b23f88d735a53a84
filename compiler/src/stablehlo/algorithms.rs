//! Algorithms of a dot: XLA's names, and StableHLO's lists of types and counts.
//!
//! StableHLO's specification counts components of each side and products. Its verifier knows the sums of 3, 6 and 9 products under
//! one component, which is what its dialect writes; the counts that the specification's words give are read as well.

use super::ir::{DotAlgorithm, Element};
use brolga_runtime::ElementType;

/// XLA's name, the type of both sides, the type of the sum, and the number of products.
const ALGORITHMS: [(&str, &str, &str, i64); 14] = [
    ("dot_any_f8_any_f8_f32", "f8", "f32", 1),
    ("dot_f16_f16_f16", "f16", "f16", 1),
    ("dot_f16_f16_f32", "f16", "f32", 1),
    ("dot_bf16_bf16_bf16", "bf16", "bf16", 1),
    ("dot_bf16_bf16_f32", "bf16", "f32", 1),
    ("dot_bf16_bf16_f32_x3", "bf16", "f32", 3),
    ("dot_bf16_bf16_f32_x6", "bf16", "f32", 6),
    ("dot_bf16_bf16_f32_x9", "bf16", "f32", 9),
    ("dot_tf32_tf32_f32", "tf32", "f32", 1),
    ("dot_tf32_tf32_f32_x3", "tf32", "f32", 3),
    ("dot_f32_f32_f32", "f32", "f32", 1),
    ("dot_f64_f64_f64", "f64", "f64", 1),
    ("dot_any_f8_any_f8_f32_fast_accum", "f8", "f32", 1),
    ("dot_any_f8_any_f8_any", "f8", "any", 1),
];

/// Components of each side that make so many products.
fn components(products: i64) -> i64 {
    match products {
        3 => 2,
        6 | 9 => 3,
        _ => 1,
    }
}

/// XLA's name of an algorithm; `None` where it has none.
pub fn name(algorithm: &DotAlgorithm) -> Option<&'static str> {
    let word = |e: &Element| match e {
        Element::Tf32 => "tf32".to_owned(),
        Element::Type(ty) if ty.bits() == 8 && ty.is_float() => "f8".to_owned(),
        Element::Type(ElementType::BF16) => "bf16".to_owned(),
        other => other.to_string(),
    };
    let (lhs, rhs) = (word(&algorithm.lhs_precision_type), word(&algorithm.rhs_precision_type));
    let parts = algorithm.lhs_component_count;
    if lhs != rhs || parts != algorithm.rhs_component_count {
        return None;
    }
    let sum = word(&algorithm.accumulation_type);
    let count = algorithm.num_primitive_operations;
    if parts != 1 && parts != components(count) {
        return None;
    }
    if lhs == "f8" && algorithm.allow_imprecise_accumulation && sum == "f32" && count == 1 {
        return Some("dot_any_f8_any_f8_f32_fast_accum");
    }
    let found =
        ALGORITHMS.iter().find(|(_, side, total, products)| *side == lhs && *total == sum && *products == count);
    found.map(|(name, ..)| *name)
}

/// An algorithm by XLA's name. `operands` are the types of a dot's sides and `result` its own, which the names that say "any" leave
/// open; `None` where they do not fit or the name is unknown.
pub fn by_name(name: &str, operands: [ElementType; 2], result: Option<ElementType>) -> Option<DotAlgorithm> {
    let (_, side, sum, products) = *ALGORITHMS.iter().find(|(known, ..)| *known == name)?;
    let side = match side {
        "tf32" => Element::Tf32,
        "f8" => {
            let narrow = operands[0].is_float() && operands[0].bits() == 8 && operands[0] == operands[1];
            Element::Type(narrow.then_some(operands[0])?)
        }
        other => Element::Type(other.parse().ok()?),
    };
    let sum = if sum == "any" { result? } else { sum.parse().ok()? };
    Some(DotAlgorithm {
        lhs_precision_type: side.clone(),
        rhs_precision_type: side,
        accumulation_type: Element::Type(sum),
        lhs_component_count: 1,
        rhs_component_count: 1,
        num_primitive_operations: products,
        allow_imprecise_accumulation: name.ends_with("fast_accum"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_name_comes_back() {
        for (known, side, ..) in ALGORITHMS {
            let ty = if side == "f8" { ElementType::F8E4M3Fn } else { ElementType::F32 };
            let algorithm = by_name(known, [ty, ty], Some(ElementType::BF16)).unwrap();
            // A sum of bf16 over 8 bits has no name of its own: "any" goes one way.
            let want = (known != "dot_any_f8_any_f8_any").then_some(known);
            assert_eq!(name(&algorithm), want);
        }
        assert_eq!(by_name("dot_any_f8_any_f8_f32", [ElementType::F32; 2], None), None);
        assert_eq!(by_name("dot_f128", [ElementType::F32; 2], None), None);
    }

    #[test]
    fn components_are_read_as_the_verifier_knows_them_and_as_they_are_counted() {
        let mut algorithm = by_name("dot_bf16_bf16_f32_x6", [ElementType::F32; 2], None).unwrap();
        assert_eq!(algorithm.lhs_component_count, 1);
        (algorithm.lhs_component_count, algorithm.rhs_component_count) = (3, 3);
        assert_eq!(name(&algorithm), Some("dot_bf16_bf16_f32_x6"));
        (algorithm.lhs_component_count, algorithm.rhs_component_count) = (2, 2);
        assert_eq!(name(&algorithm), None);
        (algorithm.lhs_component_count, algorithm.rhs_component_count) = (1, 1);
        algorithm.num_primitive_operations = 5;
        assert_eq!(name(&algorithm), None);
    }
}
