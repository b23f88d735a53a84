//! Layouts of what callers see: parameters and results in any order of dimensions, padded, and sharing buffers.

use super::Rng;
use brolga_compiler::hlo::{Alias, AliasKind, Module};
use brolga_runtime::{ArrayShape, Layout, PaddingValue, Shape};

/// How often graphs have layouts for their callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layouts {
    /// A third of them.
    #[default]
    Sometimes,
    /// All: each has another order of dimensions, padding or a shared buffer.
    Always,
}

/// What a graph has of layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Some array's dimensions lie in another order than row-major, and it has elements that lie elsewhere for it.
    pub order: bool,
    /// Some array is padded.
    pub padding: bool,
    /// A result shares the buffer of a parameter.
    pub aliasing: bool,
}

impl Traits {
    /// Those of a module.
    pub fn of(module: &Module) -> Traits {
        let (parameters, result) = module.interface();
        let shapes: Vec<&ArrayShape> =
            parameters.iter().chain([&result]).flat_map(Shape::leaves).filter_map(Shape::as_array).collect();
        Traits {
            order: shapes.iter().any(|array| is_reordered(array)),
            padding: shapes.iter().any(|array| array.is_padded()),
            aliasing: !module.config.aliases.is_empty(),
        }
    }

    /// Whether it has any.
    pub fn any(self) -> bool {
        self.order || self.padding || self.aliasing
    }
}

/// Whether the dimensions of more than one place in memory lie in another order than row-major.
fn is_reordered(array: &ArrayShape) -> bool {
    let widths = array.widths();
    let order: Vec<usize> = array.minor_to_major().into_iter().filter(|&d| widths[d] > 1).collect();
    array.elements() > 1 && !order.is_sorted_by(|a, b| a > b)
}

/// Gives arrays that callers see layouts until the module has something of [`Traits`], which one with an array of a dimension
/// comes to.
pub(super) fn lay_out_for_certain(module: &mut Module, rng: &mut Rng) {
    while !Traits::of(module).any() {
        module.config.entry_layout = None;
        module.config.aliases.clear();
        lay_out(module, rng);
    }
}

/// Gives about half of the arrays that callers see a layout, and makes results share the buffers of parameters like them.
pub(super) fn lay_out(module: &mut Module, rng: &mut Rng) {
    let (mut parameters, mut result) = module.interface();
    for shape in parameters.iter_mut().chain([&mut result]) {
        for_each_array(shape, &mut |array| lay_out_array(array, rng));
    }
    if let Shape::Tuple(results) = &mut result {
        let mut parts = results.to_vec();
        module.config.aliases = share(&mut parameters, &mut parts, rng);
        *results = parts.into();
    }
    module.config.entry_layout = Some((parameters, result));
}

fn for_each_array(shape: &mut Shape, change: &mut impl FnMut(&mut ArrayShape)) {
    match shape {
        Shape::Array(array) => change(array),
        Shape::Tuple(elements) => {
            let mut parts = elements.to_vec();
            parts.iter_mut().for_each(|e| for_each_array(e, change));
            *elements = parts.into();
        }
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
