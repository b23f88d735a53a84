//! A dense layer that learns, whose tensors lie in memory in one way or another: compiled by the build script, and by the tests that
//! link what it made.

use brolga_compiler::builder::{
    ArrayLiteral, ArrayShape, ElementType, Error, Layout, Op, Opcode, PaddingValue, scalar_computation,
};
use brolga_compiler::tensor::{Computation, Content, Tensor, TensorGraph};

/// How the tensors lie; row-major where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    pub weights: Option<Layout>,
    pub bias: Option<Layout>,
    pub velocity: Option<Layout>,
    pub x: Option<Layout>,
}

/// A layout of this order of dimensions, from the minor one on, padded to `widths`, which are empty where there is no padding.
pub fn layout(order: &[usize], widths: &[i64], padding_value: PaddingValue) -> Layout {
    let (minor_to_major, padded_dimensions) = (order.to_vec(), widths.to_vec());
    Layout { minor_to_major, padded_dimensions, padding_value, ..Layout::default() }
}

/// Weights column by column, the others padded.
pub fn columns_and_padding() -> Layouts {
    Layouts {
        weights: Some(layout(&[0, 1], &[], PaddingValue::Invalid)),
        bias: Some(layout(&[0], &[40], PaddingValue::Highest)),
        velocity: Some(layout(&[1, 0], &[25, 40], PaddingValue::One)),
        x: Some(layout(&[0, 1], &[9, 24], PaddingValue::Unknown)),
    }
}

/// The program: `step` takes `x` and `y`, updates the tensors by their gradients and yields the loss; `part` assigns parts of the
/// weights; `predict` takes `x` and yields what the layer makes of it, and the weights.
pub fn layer(layouts: &Layouts) -> Result<TensorGraph, Error> {
    let mut graph = TensorGraph::new("layer");
    let weights = graph.variable("weights", laid_out(numbers(&[24, 32]), &layouts.weights));
    let bias = graph.variable("bias", laid_out(numbers(&[32]), &layouts.bias));
    let zeros = ArrayLiteral::zeros(weights.shape());
    let velocity = graph.persistent_tensor("velocity", laid_out(zeros, &layouts.velocity));
    let mut input = ArrayShape::new(ElementType::F32, [8, 24]);
    input.layout.clone_from(&layouts.x);
    let x = graph.placeholder("x", input);
    let y = graph.placeholder("y", ArrayShape::new(ElementType::F32, [8, 32]));
    let made = |c: &Computation<'_>| c.add_in_dims(c.dot(c.read(&x), c.read(&weights)), c.read(&bias), &[1]);

    graph.computation("step", |c| {
        let sum = scalar_computation(Opcode::Add, ElementType::F32)?;
        let error = c.sub(made(c), c.read(&y));
        let loss = c.reduce_all(c.mul(error, error), c.zero(ElementType::F32), &sum);
        let gradients = c.gradient(loss, &[weights.clone(), bias.clone()]);
        let scaled = |value: Op, by: f32| c.mul(value, c.constant_r0(by));
        c.assign(&velocity, c.sub(scaled(c.read(&velocity), 0.5), scaled(gradients[0], 1.0 / 1024.0)));
        c.assign(&weights, c.add(c.read(&weights), c.read(&velocity)));
        c.assign(&bias, c.sub(c.read(&bias), scaled(gradients[1], 1.0 / 1024.0)));
        Ok(vec![loss])
    })?;
    graph.computation("part", |c| {
        c.assign_at(&weights, &[1, 2], c.broadcast(c.constant_r0(0.25f32), &[3, 4]));
        let some = |t: &Tensor| t.view().transpose(&[1, 0]).slice(&[2, 0], &[32, 24], &[7, 5]);
        c.assign(some(&weights), c.neg(c.read(some(&velocity))));
        Ok(vec![])
    })?;
    graph.computation("predict", |c| Ok(vec![made(c), c.read(&weights)]))?;
    Ok(graph)
}

fn laid_out(value: ArrayLiteral, layout: &Option<Layout>) -> Content {
    match layout {
        Some(layout) => (value, layout.clone()).into(),
        None => value.into(),
    }
}

/// Eighths between -6 and 6 in an array of these sizes.
pub fn numbers(dims: &[i64]) -> ArrayLiteral {
    let count: i64 = dims.iter().product();
    let element = |i: i64| ((i * 37 % 97) as f32 - 48.0) / 8.0;
    ArrayLiteral::from_elements(dims, &(0..count).map(element).collect::<Vec<_>>())
}
