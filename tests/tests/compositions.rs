//! The builder's everyday compositions and operators, in the interpreter and compiled, against the formulas in f64.
#![allow(clippy::unwrap_used)]

use brolga_compiler::builder::{Builder, Expression, Op};
use brolga_compiler::{CompileOptions, compile, interp};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Program, Scalar, Shape};

const ROWS: usize = 3;
const COLUMNS: usize = 5;
const X: [f64; ROWS * COLUMNS] = [-30.0, -3.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 3.75, 40.0, 7.0, 7.0, -7.0, 1.5, 0.125];

/// What a computation of `X` gives in both engines, which must be near each other.
fn results(make: impl Fn(&Builder, Op) -> Op) -> Vec<f64> {
    let b = Builder::new("composition");
    let x = b.parameter(0, Shape::array(ElementType::F64, [ROWS as i64, COLUMNS as i64]), "x");
    let root = make(&b, x);
    let module = b.build_with_root(root).unwrap();
    let x = ArrayLiteral::from_elements(&[ROWS as i64, COLUMNS as i64], &X);
    let program = Program::from_object(&compile(&module, &CompileOptions::native()).unwrap().object).unwrap();
    let compiled = program.run(&[&x]).unwrap().remove(0);
    let interpreted = interp::run(&module, &[Literal::Array(x)], &interp::Options::default()).unwrap();
    let compiled = compiled.as_slice::<f64>().to_vec();
    near(&compiled, interpreted.as_array().unwrap().as_slice::<f64>());
    compiled
}

#[track_caller]
fn near(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 1e-14 + 1e-12 * want.abs(), "{got}, expected {want}");
    }
}

/// A function of each row.
fn rows<T>(f: impl Fn(&[f64]) -> T) -> Vec<T> {
    X.chunks(COLUMNS).map(f).collect()
}

fn mean(row: &[f64]) -> f64 {
    row.iter().sum::<f64>() / row.len() as f64
}

fn variance(row: &[f64]) -> f64 {
    mean(&row.iter().map(|v| (v - mean(row)).powi(2)).collect::<Vec<_>>())
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = row.iter().map(|v| (v - largest).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

#[test]
fn folds_along_dimensions() {
    near(&results(|b, x| b.sum(x, &[1])), &rows(|row| row.iter().sum()));
    near(&results(|b, x| b.reduce_max(x, &[-1])), &rows(|row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max)));
    near(&results(|b, x| b.reduce_min(x, &[-1])), &rows(|row| row.iter().copied().fold(f64::INFINITY, f64::min)));
    near(&results(|b, x| b.mean(x, &[1])), &rows(mean));
    near(&results(|b, x| b.variance(x, &[1])), &rows(variance));
    near(&results(|b, x| b.mean(x, &[1, -2])), &[mean(&X)]);
    let columns: Vec<f64> = (0..COLUMNS).map(|c| X.iter().skip(c).step_by(COLUMNS).sum()).collect();
    near(&results(|b, x| b.sum(x, &[0])), &columns);
    near(&results(|b, x| b.sum(x, &[])), &X);
}

#[test]
fn softmax_and_normalisation() {
    near(&results(|b, x| b.softmax(x, -1)), &rows(softmax).concat());
    let logarithms = rows(|row| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|v| (v - largest).exp()).sum();
        row.iter().map(|v| v - largest - sum.ln()).collect::<Vec<_>>()
    });
    near(&results(|b, x| b.log_softmax(x, 1)), &logarithms.concat());
    let normal = rows(|row| row.iter().map(|v| (v - mean(row)) / (variance(row) + 1e-3).sqrt()).collect::<Vec<_>>());
    near(&results(|b, x| b.layer_norm(x, -1, 1e-3)), &normal.concat());
}

#[test]
fn activations() {
    let each = |f: fn(f64) -> f64| X.map(f).to_vec();
    near(&results(Builder::relu), &each(|x| x.max(0.0)));
    near(&results(Builder::silu), &each(|x| x / (1.0 + (-x).exp())));
    near(&results(Builder::softplus), &each(|x| x.max(0.0) + (-x.abs()).exp().ln_1p()));
    near(&results(Builder::gelu), &each(|x| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2))));
}

#[test]
fn operators_are_the_methods() {
    let of = |f: fn(Expression<'_>) -> Expression<'_>| results(move |b, x| f(b.expression(x)).into());
    near(&of(|x| x + x * 3.0 - 1.0), &X.map(|x| x + x * 3.0 - 1.0));
    near(&of(|x| 2.0 - -x), &X.map(|x| 2.0 + x));
    near(&of(|x| 1.0 / (x * x + 1.0)), &X.map(|x| 1.0 / (x * x + 1.0)));
    near(&results(|b, x| b.mul(x, b.scalar(ElementType::F64, 0.1))), &X.map(|x| x * 0.1));
    near(&of(|x| x / 4.0 % 0.5), &X.map(|x| x / 4.0 % 0.5));
    near(&of(|x| 3.0 % (0.5 + x * x)), &X.map(|x| 3.0 % (0.5 + x * x)));
    let b = Builder::new("bits");
    let [x, y] = [0, 1].map(|n| b.expression(b.parameter(n, Shape::array(ElementType::U8, [2]), "x")));
    b.tuple(&[(x & y).op(), (x | y).op(), (x ^ y).op(), (!x + 1.0).op()]);
    let program =
        Program::from_object(&compile(&b.build().unwrap(), &CompileOptions::native()).unwrap().object).unwrap();
    let [x, y] = [[12u8, 255], [10, 1]].map(|v| ArrayLiteral::from_elements(&[2], &v));
    let results: Vec<String> = program.run(&[&x, &y]).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(results, ["u8[2] {8, 1}", "u8[2] {14, 255}", "u8[2] {6, 254}", "u8[2] {244, 1}"]);
}

#[test]
fn mistakes_are_found_where_the_composition_stands() {
    let error = |ty: ElementType, make: fn(&Builder, Op) -> Op| {
        let b = Builder::new("wrong");
        let x = b.parameter(0, Shape::array(ty, [2, 3]), "x");
        make(&b, x);
        b.build().unwrap_err()
    };
    for (error, message) in [
        (
            error(ElementType::F32, |b, x| b.sum(x, &[2])),
            "expected different dimensions of f32[2,3], from -2 to 1, found [2]",
        ),
        (error(ElementType::F32, |b, x| b.sum(x, &[1, -1])), "found [1, -1]"),
        (error(ElementType::F32, |b, x| b.softmax(x, i64::MIN)), "from -2 to 1"),
        (error(ElementType::S32, |b, x| b.mean(x, &[0])), "expected floats for a mean, found s32[2,3]"),
        (error(ElementType::S32, |b, x| b.softmax(x, 0)), "expected floats for a softmax"),
        (
            error(ElementType::S32, |b, x| (b.expression(x) * 0.5).op()),
            "expected an element type with the number 0.5, found s32",
        ),
        (error(ElementType::C64, |b, x| b.reduce_max(x, &[0])), "ordered element type"),
    ] {
        assert!(error.to_string().contains(message), "{message} in {error}");
        let file = error.site().unwrap().location.file.unwrap();
        assert!(file.ends_with("compositions.rs"), "{error}");
    }
}

/// The programs of compositions are differentiated as any other.
#[test]
fn compositions_have_gradients() {
    let gradient = results(|b, x| {
        let loss = b.sum(b.relu(x), &[0, 1]);
        b.gradient(loss, &[x])[0]
    });
    near(
        &gradient,
        &X.map(|x| {
            if x > 0.0 {
                1.0
            } else if x == 0.0 {
                // Each side of a maximum whose two sides meet.
                0.5
            } else {
                0.0
            }
        }),
    );
}

/// Neither the count nor epsilon needs to be a number of the operand's type.
#[test]
fn narrow_floats_have_means_and_norms() {
    for (ty, count) in [(ElementType::F16, 70_000), (ElementType::BF16, 259), (ElementType::F8E4M3Fn, 500)] {
        let b = Builder::new("narrow");
        let x = b.parameter(0, Shape::array(ty, [count]), "x");
        b.tuple(&[b.mean(x, &[0]), b.layer_norm(x, 0, 1e-12)]);
        let mut x = ArrayLiteral::zeros(&ArrayShape::new(ty, [count]));
        (0..x.elements()).for_each(|i| x.set(i, Scalar::Float(1.5)));
        let program =
            Program::from_object(&compile(&b.build().unwrap(), &CompileOptions::native()).unwrap().object).unwrap();
        let results = program.run(&[&x]).unwrap();
        assert_eq!(results[0].get(0), Scalar::Float(1.5), "{ty}");
        assert!((0..x.elements()).all(|i| results[1].get(i) == Scalar::Float(0.0)), "{ty}");
    }
}
