//! Layouts of what callers see: parameters and results in any order of dimensions, padded, and sharing buffers.

use super::Rng;
use brolga_compiler::hlo::{Alias, AliasKind, Module};
use brolga_runtime::{ArrayShape, Layout, PaddingValue, Shape};

/// Gives about half of the arrays that callers see a layout, and makes results share the buffers of parameters like them.
pub(super) fn lay_out(module: &mut Module, rng: &mut Rng) {
    let (mut parameters, mut result) = module.interface();
    for shape in parameters.iter_mut().chain([&mut result]) {
        for_each_array(shape, &mut |array| lay_out_array(array, rng));
    }
    if let Shape::Tuple(results) = &mut result {
        module.config.aliases = share(&mut parameters, results, rng);
    }
    module.config.entry_layout = Some((parameters, result));
}

fn for_each_array(shape: &mut Shape, change: &mut impl FnMut(&mut ArrayShape)) {
    match shape {
        Shape::Array(array) => change(array),
        Shape::Tuple(elements) => elements.iter_mut().for_each(|e| for_each_array(e, change)),
        _ => {}
    }
}

fn lay_out_array(array: &mut ArrayShape, rng: &mut Rng) {
    if array.is_dynamic() || rng.chance(1, 2) {
        return;
    }
    let mut layout = Layout { minor_to_major: rng.permutation(array.rank()), ..Layout::default() };
    if array.rank() > 0 && rng.chance(1, 2) {
        layout.padded_dimensions.clone_from(&array.dims);
        for _ in 0..1 + rng.below(2) {
            let d = rng.below(array.rank() as u64) as usize;
            layout.padded_dimensions[d] = array.dims[d] + rng.below(4) as i64;
        }
        let value = rng.pick(PaddingValue::ALL);
        layout.padding_value = if value.element(array.ty).is_some() { value } else { PaddingValue::Unknown };
    }
    array.layout = Some(layout);
}

/// Pairs of a parameter and a result of one type and size, now and then; the result takes the parameter's layout.
fn share(parameters: &mut [Shape], results: &mut [Shape], rng: &mut Rng) -> Vec<Alias> {
    let mut aliases: Vec<Alias> = Vec::new();
    for (parameter, from) in parameters.iter().enumerate() {
        let fits = |(index, to): (usize, &Shape)| {
            let taken = aliases.iter().any(|a| a.output_index == [index]);
            (!taken && to.same_ignoring_layout(from) && from.as_array().is_some()).then_some(index)
        };
        let Some(index) = results.iter().enumerate().find_map(fits).filter(|_| rng.chance(1, 3)) else { continue };
        results[index] = from.clone();
        let kind = if rng.chance(1, 2) { AliasKind::Must } else { AliasKind::May };
        aliases.push(Alias { output_index: vec![index], parameter, parameter_index: Vec::new(), kind });
    }
    aliases
}
