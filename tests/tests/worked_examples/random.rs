//! «RngBitGenerator», «RngNormal» and «RngUniform».

use super::{Example, compiled, interpreted};
use brolga_compiler::builder::{Builder, ElementType, Op, RandomAlgorithm, Shape};
use brolga_runtime::ArrayLiteral;

/// The blocks that the authors of the algorithms publish: all zeros, all ones, digits of pi. The state that comes out has
/// counted the block.
#[test]
fn rng_three_fry_draws_the_published_blocks() {
    for (key, counter, block, next) in [
        (0u64, 0u64, [0x6b20_0159u32, 0x99ba_4efe], 1u64),
        (u64::MAX, u64::MAX, [0x1cb9_96fc, 0xbb00_2be7], 0),
        (0x0370_7344_1319_8a2e, 0x85a3_08d3_243f_6a88, [0xc492_3a9c, 0x483d_f7a0], 0x85a3_08d3_243f_6a89),
    ] {
        let x = Example::new();
        let shape = Shape::array(ElementType::U32, [2]);
        let root = x.b.rng_bit_generator(RandomAlgorithm::ThreeFry, x.array(&[2], &[key, counter]), shape);
        x.gives(root, &[ArrayLiteral::from_elements(&[2], &[key, next]), ArrayLiteral::from_elements(&[2], &block)]);
    }
}

#[test]
fn rng_philox_draws_the_published_blocks() {
    for (key, low, high, block, next) in [
        (0u64, 0u64, 0u64, [0x6627_e8d5u32, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8], [1u64, 0]),
        (u64::MAX, u64::MAX, u64::MAX, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd], [0, 0]),
    ] {
        let x = Example::new();
        let shape = Shape::array(ElementType::U32, [4]);
        let root = x.b.rng_bit_generator(RandomAlgorithm::Philox, x.array(&[3], &[key, low, high]), shape);
        let state = ArrayLiteral::from_elements(&[3], &[key, next[0], next[1]]);
        x.gives(root, &[state, ArrayLiteral::from_elements(&[4], &block)]);
    }
}

/// The output is a function of the state; the default algorithm is Philox; what comes out as state draws what follows.
#[test]
fn rng_bit_generator_goes_on_from_its_state() {
    let x = Example::new();
    let state = x.array(&[3], &[7u64, 11, 13]);
    let bits = |n: i64| Shape::array(ElementType::U32, [n]);
    let part = |of: Op, k: i64| x.b.get_tuple_element(of, k);
    let (both, again) = (
        x.b.rng_bit_generator(RandomAlgorithm::Philox, state, bits(8)),
        x.b.rng_bit_generator(RandomAlgorithm::Default, state, bits(8)),
    );
    let first = x.b.rng_bit_generator(RandomAlgorithm::Philox, state, bits(4));
    let second = x.b.rng_bit_generator(RandomAlgorithm::Philox, part(first, 0), bits(4));
    let parts = x.b.concat_in_dim(&[part(first, 1), part(second, 1)], 0);
    let same =
        [x.b.eq(part(both, 1), parts), x.b.eq(part(both, 1), part(again, 1)), x.b.eq(part(both, 0), part(second, 0))];
    let root = x.b.tuple(&same);
    let yes = |n: usize| ArrayLiteral::from_bools(&[n as i64], &vec![true; n]);
    x.gives(root, &[yes(8), yes(8), yes(3)]);
}

const N: usize = 1 << 14;

/// The numbers of both engines, which draw the same bits.
fn numbers(build: impl Fn(&Example) -> Op) -> [ArrayLiteral; 2] {
    let x = Example::new();
    let root = build(&x);
    let (module, inputs) = x.parts(root);
    [interpreted(&module, &inputs), compiled(&module, &inputs)].map(|mut leaves| leaves.remove(0))
}

#[test]
fn rng_normal_has_its_mean_and_deviation() {
    let shape = Shape::array(ElementType::F32, [N as i64]);
    for drawn in numbers(|x| x.b.rng_normal(x.scalar(3f32), x.scalar(2f32), shape.clone())) {
        let all: Vec<f64> = drawn.as_slice::<f32>().iter().map(|&v| f64::from(v)).collect();
        let mean = all.iter().sum::<f64>() / N as f64;
        let moment = |p: i32| all.iter().map(|v| ((v - mean) / 2.0).powi(p)).sum::<f64>() / N as f64;
        // Six standard errors of each.
        assert!((mean - 3.0).abs() < 0.1, "mean {mean}");
        assert!((moment(2) - 1.0).abs() < 0.07, "variance {}", moment(2));
        assert!(moment(3).abs() < 0.12 && (moment(4) - 3.0).abs() < 0.5, "skew {} {}", moment(3), moment(4));
        let within = all.iter().filter(|v| (**v - 3.0).abs() < 2.0).count() as f64 / N as f64;
        assert!((within - 0.682_7).abs() < 0.022, "{within} within one deviation");
    }
}

#[test]
fn rng_uniform_fills_its_interval() {
    let shape = Shape::array(ElementType::F32, [N as i64]);
    for drawn in numbers(|x| x.b.rng_uniform(x.scalar(-1f32), x.scalar(3f32), shape.clone())) {
        let all = drawn.as_slice::<f32>();
        assert!(all.iter().all(|v| (-1.0..3.0).contains(v)), "half open");
        let mut bins = [0usize; 16];
        all.iter().for_each(|v| bins[((v + 1.0) * 4.0) as usize] += 1);
        // A bin has 1024 of 16384 on the average, with a deviation of 31.
        assert!(bins.iter().all(|&n| (838..1210).contains(&n)), "{bins:?}");
    }
    let shape = Shape::array(ElementType::S32, [N as i64]);
    for drawn in numbers(|x| x.b.rng_uniform(x.scalar(-2i32), x.scalar(2i32), shape.clone())) {
        let mut bins = [0usize; 4];
        drawn.as_slice::<i32>().iter().for_each(|v| bins[(v + 2) as usize] += 1);
        assert!(bins.iter().all(|&n| (3760..4430).contains(&n)), "{bins:?}");
    }
    let shape = Shape::array(ElementType::Pred, [64]);
    for drawn in numbers(|x| x.b.rng_uniform(x.pred(&[], &[false]), x.pred(&[], &[true]), shape.clone())) {
        assert!(drawn.bytes().iter().all(|&b| b == 0), "from false up to true, which is not reached");
    }
}

/// Limits of another type, or that are no scalars, or types that the distribution does not have.
#[test]
fn rng_asks_for_scalars_of_one_type() {
    let f32s = Shape::array(ElementType::F32, [4]);
    let refused = |build: &dyn Fn(&Builder) -> Op| {
        let b = Builder::new("wrong");
        build(&b);
        assert!(b.build().is_err());
    };
    refused(&|b| b.rng_normal(b.constant_r0(0f32), b.constant_r0(1f64), Shape::array(ElementType::S32, [4])));
    refused(&|b| b.rng_normal(b.constant_r0(0i32), b.constant_r0(1i32), Shape::array(ElementType::S32, [4])));
    refused(&|b| b.rng_uniform(b.constant_r0(0i32), b.constant_r0(1f32), f32s.clone()));
    refused(&|b| b.rng_uniform(b.constant_r1(&[0f32]), b.constant_r0(1f32), f32s.clone()));
    refused(&|b| b.rng_bit_generator(RandomAlgorithm::ThreeFry, b.constant_r1(&[1i32, 2]), f32s.clone()));
}
