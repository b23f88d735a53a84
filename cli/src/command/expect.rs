//! `--expect`: results compared with what they should be.
//!
//! Invariant: a result passes where every element is near the expected one, |found - expected| <= atol + rtol * |expected|, as
//! NumPy has it; NaN equals NaN, an infinity only itself, and truth values and integers are compared exactly. What does not pass
//! is named by its index, with how many others there are, and the largest difference.

use crate::command::archive::Arrays;
use crate::command::args::RunArgs;
use crate::command::failure::Failure;
use crate::command::input::{fitted, read};
use brolga_runtime::{ArrayLiteral, ArrayShape, Kind, Literal, Scalar};
use std::path::Path;

/// Compares the leaves of a result with the `--expect`s of the command line; says how near they are.
pub fn check(args: &RunArgs, result: &Literal) -> Result<String, Failure> {
    let leaves = result.arrays();
    let expected = expected(args, &leaves)?;
    let (mut report, mut wrong) = (String::new(), false);
    for (k, (found, expected)) in leaves.iter().zip(&expected).enumerate() {
        let comparison = compare(found, expected, args.rtol, args.atol);
        wrong |= comparison.beyond.is_some();
        report += &format!("result {k} {:#}: {}\n", found.shape(), comparison.text(found, expected));
    }
    if wrong { Err(Failure::Run(format!("not as expected\n{}", report.trim_end()))) } else { Ok(report) }
}

/// The expected value of each leaf: from one file of several arrays or folder, else from one `--expect` each.
fn expected(args: &RunArgs, leaves: &[&ArrayLiteral]) -> Result<Vec<ArrayLiteral>, Failure> {
    let wrong = |spec: &str, e: String| Failure::Input(format!("expected value {spec}: {e}"));
    let shape = |leaf: &ArrayLiteral| ArrayShape::new(leaf.ty(), leaf.dims().to_vec());
    let count = |found: usize| {
        let results = leaves.len();
        (found != results).then(|| Failure::Input(format!("the program has {results} results, expected are {found}")))
    };
    if let [only] = args.expect.as_slice() {
        if Arrays::names_one(only) {
            let mut file = Arrays::open(only).map_err(|e| wrong(only, e))?;
            let names = file.names();
            count(names.len()).map_or(Ok(()), Err)?;
            let one = |(name, leaf): (&String, &&ArrayLiteral)| fitted(file.read(name, &shape(leaf))?, &shape(leaf));
            return names.iter().zip(leaves).map(one).collect::<Result<_, _>>().map_err(|e| wrong(only, e));
        }
        if Path::new(only).is_dir() {
            let path = |k: usize| format!("{}", Path::new(only).join(format!("out{k}.npy")).display());
            let one = |(k, leaf): (usize, &&ArrayLiteral)| read(&path(k), &shape(leaf)).map_err(|e| wrong(&path(k), e));
            return leaves.iter().enumerate().map(one).collect();
        }
    }
    count(args.expect.len()).map_or(Ok(()), Err)?;
    args.expect.iter().zip(leaves).map(|(spec, leaf)| read(spec, &shape(leaf)).map_err(|e| wrong(spec, e))).collect()
}

/// How two arrays of one shape differ.
#[derive(Default)]
struct Comparison {
    /// How many elements are too far away, and the first of them.
    beyond: Option<(usize, usize)>,
    /// The largest difference between finite elements, and where.
    largest: Option<(f64, usize)>,
}

fn compare(found: &ArrayLiteral, expected: &ArrayLiteral, rtol: f64, atol: f64) -> Comparison {
    let mut out = Comparison::default();
    let exact = matches!(found.ty().kind(), Kind::Pred | Kind::Signed | Kind::Unsigned);
    for i in 0..found.elements() {
        let (a, b) = (found.get(i), expected.get(i));
        let (distance, magnitude) = distance(a, b);
        if distance > out.largest.map_or(0.0, |(d, _)| d) && distance.is_finite() {
            out.largest = Some((distance, i));
        }
        let near = if exact {
            a == b
        } else {
            distance <= atol + rtol * magnitude && magnitude.is_finite() || distance == 0.0
        };
        if !near {
            let (count, first) = out.beyond.unwrap_or((0, i));
            out.beyond = Some((count + 1, first));
        }
    }
    out
}

/// How far two elements are from one another, infinitely where only one is NaN or infinite; and how large the second is.
fn distance(a: Scalar, b: Scalar) -> (f64, f64) {
    let (a, b) = (a.as_complex(), b.as_complex());
    let part = |a: f64, b: f64| match (a == b || a.is_nan() && b.is_nan(), (a - b).abs()) {
        (true, _) => 0.0,
        (false, d) if d.is_nan() => f64::INFINITY,
        (false, d) => d,
    };
    (part(a.re, b.re).hypot(part(a.im, b.im)), b.re.hypot(b.im))
}

impl Comparison {
    fn text(&self, found: &ArrayLiteral, expected: &ArrayLiteral) -> String {
        let largest = match self.largest {
            Some((d, i)) => format!("; the largest difference is {d:e}, at {}", place(found, i)),
            None => String::new(),
        };
        match self.beyond {
            None => format!("as expected{largest}"),
            Some((count, i)) => {
                let element = |array: &ArrayLiteral| {
                    let scalar = ArrayShape::new(array.ty(), []);
                    let size = array.ty().byte_size();
                    let bytes = array.bytes().get(i * size..(i + 1) * size);
                    let one = bytes.and_then(|bytes| ArrayLiteral::from_bytes(&scalar, bytes));
                    one.map_or_else(String::new, |one| one.to_string())
                };
                let (found_text, expected_text) = (element(found), element(expected));
                let total = found.elements();
                let place = place(found, i);
                format!(
                    "{count} of {total} elements differ, first {place}: {found_text}, expected {expected_text}{largest}"
                )
            }
        }
    }
}

/// The index of element `i`, such as `[1,0]`.
fn place(array: &ArrayLiteral, i: usize) -> String {
    let mut rest = i;
    let mut index: Vec<String> = Vec::new();
    for &d in array.dims().iter().rev() {
        let d = usize::try_from(d).unwrap_or(1).max(1);
        index.push((rest % d).to_string());
        rest /= d;
    }
    index.reverse();
    format!("[{}]", index.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearness_is_numpys() {
        let of = |a: [f32; 2], b: [f32; 2], rtol, atol| {
            let [a, b] = [a, b].map(|v| ArrayLiteral::from_elements(&[2], &v));
            let comparison = compare(&a, &b, rtol, atol);
            (comparison.beyond, comparison.text(&a, &b))
        };
        assert_eq!(of([1.0, f32::NAN], [1.0, f32::NAN], 0.0, 0.0), (None, "as expected".to_owned()));
        assert_eq!(of([-0.0, f32::INFINITY], [0.0, f32::INFINITY], 0.0, 0.0).0, None);
        assert_eq!(of([1.0, 101.0], [1.0, 100.0], 0.01, 0.0).0, None);
        assert_eq!(of([1.0, 101.0], [1.0, 100.0], 0.009, 0.0).0, Some((1, 1)));
        assert_eq!(of([0.5, 0.0], [0.0, 0.0], 1.0, 0.25).0, Some((1, 0)));
        // No tolerance makes an infinity or a NaN near anything else.
        assert_eq!(of([1.0, f32::MAX], [1.0, f32::INFINITY], 10.0, 10.0).0, Some((1, 1)));
        assert_eq!(of([f32::NAN, f32::INFINITY], [1.0, 1.0], 10.0, 10.0).0, Some((2, 0)));
        let text = of([1.0, 3.0], [1.0, 2.5], 0.0, 0.0).1;
        assert_eq!(
            text,
            "1 of 2 elements differ, first [1]: f32[] 3, expected f32[] 2.5; the largest difference is 5e-1, at [1]"
        );
    }

    #[test]
    fn integers_are_compared_exactly() {
        let [a, b] = [[i64::MAX, 1], [i64::MAX - 1, 1]].map(|v| ArrayLiteral::from_elements(&[2, 1], &v));
        assert_eq!(compare(&a, &b, 1.0, 1.0).beyond, Some((1, 0)));
        assert_eq!(place(&a, 1), "[1,0]");
    }
}
