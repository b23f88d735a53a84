//! The network: two convolutions and a linear layer that tell how the stripes of a small picture run.

use brolga_compiler::Result;
use brolga_compiler::builder::{
    ArrayLiteral, ArrayShape, ElementType, NativeType, Op, Opcode, Padding, scalar_computation,
};
use brolga_compiler::tensor::{Computation, Tensor, TensorGraph};

/// Pictures in a batch.
const BATCH: i64 = 32;
/// Rows and columns of a picture.
const SIDE: i64 = 8;
/// Kinds of stripes.
const CLASSES: i64 = 4;
/// How far a step goes, and how much of the last step's direction it keeps.
const RATE: f32 = 0.05;
const MOMENTUM: f32 = 0.9;

/// The declared tensors that the layers take.
struct Layers {
    first: Tensor,
    second: Tensor,
    linear: Tensor,
    bias: Tensor,
}

/// The program: `train_step` takes pictures and labels, updates the variables and yields the loss; `predict` takes pictures and
/// yields the probability of each class. All in numbers of type `T`, from the same initial values.
pub fn network<T: NativeType + From<f32>>() -> Result<TensorGraph> {
    let mut graph = TensorGraph::new("network");
    let mut random = Random(1);
    let layers = Layers {
        first: graph.variable("conv1", random.array::<T>(&[8, 1, 3, 3], 0.47)),
        second: graph.variable("conv2", random.array::<T>(&[16, 8, 3, 3], 0.17)),
        linear: graph.variable("linear", random.array::<T>(&[64, CLASSES], 0.18)),
        bias: graph.variable("bias", random.array::<T>(&[CLASSES], 0.0)),
    };
    let pictures = graph.placeholder("pictures", ArrayShape::new(T::TYPE, [BATCH, 1, SIDE, SIDE]));
    let labels = graph.placeholder("labels", ArrayShape::new(T::TYPE, [BATCH, CLASSES]));
    let rate = graph.constant("rate", ArrayLiteral::scalar(T::from(RATE)));
    let momentum = graph.constant("momentum", ArrayLiteral::scalar(T::from(MOMENTUM)));
    let variables = graph.trainable_variables();
    let zeros = |v: &Tensor| ArrayLiteral::zeros(v.shape());
    let velocities: Vec<Tensor> =
        variables.iter().map(|v| graph.persistent_tensor(format!("{}_velocity", v.name()), zeros(v))).collect();

    graph.computation("train_step", |c| {
        let sum = scalar_computation(Opcode::Add, T::TYPE)?;
        let likely = c.mul(c.read(&labels), log_softmax(c, layers.logits(c, c.read(&pictures)), T::TYPE)?);
        let total = c.reduce_all(likely, c.zero(T::TYPE), &sum);
        let loss = c.div(total, c.constant_r0(T::from(-(BATCH as f32))));
        let gradients = c.gradient(loss, &variables);
        for ((variable, velocity), gradient) in variables.iter().zip(&velocities).zip(gradients) {
            let step = c.sub(c.mul(c.read(&momentum), c.read(velocity)), c.mul(c.read(&rate), gradient));
            c.assign(velocity, step);
            c.assign(variable, c.add(c.read(variable), step));
        }
        Ok(vec![loss])
    })?;
    graph.computation("predict", |c| Ok(vec![c.exp(log_softmax(c, layers.logits(c, c.read(&pictures)), T::TYPE)?)]))?;
    Ok(graph)
}

impl Layers {
    /// A number for each picture and class.
    fn logits(&self, c: &Computation<'_>, pictures: Op) -> Op {
        let zero = c.zero(self.bias.shape().ty);
        let layer =
            |input: Op, kernel: &Tensor| c.max(c.conv(input, c.read(kernel), &[2, 2], &Padding::Same, 1, 1), zero);
        let features = c.reshape(layer(layer(pictures, &self.first), &self.second), &[BATCH, 64]);
        c.add_in_dims(c.dot(features, c.read(&self.linear)), c.read(&self.bias), &[1])
    }
}

/// The logarithm of the probabilities that `logits` give the classes.
fn log_softmax(c: &Computation<'_>, logits: Op, ty: ElementType) -> Result<Op> {
    let fold = |opcode, initial: Op, values: Op| -> Result<Op> {
        Ok(c.reduce(values, initial, &scalar_computation(opcode, ty)?, &[1]))
    };
    let largest = fold(Opcode::Maximum, c.min_value(ty), logits)?;
    let shifted = c.sub_in_dims(logits, largest, &[0]);
    let sum = fold(Opcode::Add, c.zero(ty), c.exp(shifted))?;
    Ok(c.sub_in_dims(shifted, c.log(sum), &[0]))
}

/// Numbers that are the same on every machine.
struct Random(u32);

impl Random {
    /// Numbers between `-scale` and `scale`, drawn one after another.
    fn array<T: NativeType + From<f32>>(&mut self, dims: &[i64], scale: f32) -> ArrayLiteral {
        let count: i64 = dims.iter().product();
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            T::from(((self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale)
        };
        ArrayLiteral::from_elements(dims, &(0..count).map(|_| next()).collect::<Vec<_>>())
    }
}
