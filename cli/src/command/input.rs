//! Inputs: from files, from literals on the command line, or made from a seed.

use crate::args::InputArgs;
use crate::failure::Failure;
use crate::npy;
use brolga_compiler::text;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Kind, Literal, OutOfMemory, Shape, half, room_for};
use std::io::Read;
use std::path::Path;

/// Makes the values of the entry parameters; those that came with the program where the command line says nothing.
pub fn gather_or(args: &InputArgs, parameters: &[Shape], given: &[Literal]) -> Result<Vec<Literal>, Failure> {
    if given.is_empty() || !args.inputs.is_empty() || args.random_seed.is_some() {
        return gather(args, parameters);
    }
    let fits = |value: &Literal, shape: &Shape| value.shape().same_ignoring_layout(&shape.without_layout());
    match given.iter().zip(parameters).position(|(value, shape)| !fits(value, shape)) {
        _ if given.len() != parameters.len() => {
            let (have, want) = (given.len(), parameters.len());
            Err(Failure::Input(format!("the program takes {want} parameters, but the snapshot holds {have} inputs")))
        }
        Some(k) => {
            let (have, want) = (given.get(k).map(Literal::shape), parameters.get(k));
            let text = |shape: Option<&Shape>| shape.map_or_else(String::new, |s| format!("{s:#}"));
            let (have, want) = (text(have.as_ref()), text(want));
            Err(Failure::Input(format!("parameter {k} has shape {want}, but the snapshot's input has {have}")))
        }
        None => Ok(given.to_vec()),
    }
}

/// Makes the values of the entry parameters.
pub fn gather(args: &InputArgs, parameters: &[Shape]) -> Result<Vec<Literal>, Failure> {
    let leaves: usize = parameters.iter().map(array_leaves).sum();
    match args.random_seed {
        Some(seed) => {
            let mut random = Random(seed);
            fill(parameters, &mut |shape| {
                let none = |e| Failure::Input(format!("a parameter of shape {shape:#} does not fit in memory: {e}"));
                random.array(shape).map_err(none)
            })
        }
        None if args.inputs.len() != leaves => {
            let hint = if args.inputs.is_empty() { " (--random-seed N makes inputs)" } else { "" };
            let given = args.inputs.len();
            Err(Failure::Input(format!("the module takes {leaves} input arrays, but {given} were given{hint}")))
        }
        None => {
            let mut next = args.inputs.iter().enumerate();
            fill(parameters, &mut |shape| match next.next() {
                Some((i, spec)) => {
                    read(spec, shape).map_err(|e| Failure::Input(format!("input {i} ({}): {e}", shorten(spec))))
                }
                None => Err(Failure::Input("too few inputs were given".to_owned())),
            })
        }
    }
}

/// The dimensions that each input says it has.
pub fn sizes(args: &InputArgs) -> Vec<Option<Vec<i64>>> {
    // A header is shorter than this.
    const HEADER: u64 = 1 << 16;
    let of = |spec: &String| {
        let declared = spec.split_once('=').and_then(|(shape, _)| parse_shape(shape));
        if let Some(declared) = declared {
            return Some(declared.dims);
        }
        let mut bytes = Vec::new();
        std::fs::File::open(spec).ok()?.take(HEADER).read_to_end(&mut bytes).ok()?;
        npy::describe(&bytes).ok().map(|(dims, _)| dims)
    };
    args.inputs.iter().map(of).collect()
}

fn shorten(spec: &str) -> String {
    if spec.chars().count() > 200 { spec.chars().take(200).chain("...".chars()).collect() } else { spec.to_owned() }
}

fn array_leaves(shape: &Shape) -> usize {
    shape.leaves().iter().filter(|leaf| matches!(leaf, Shape::Array(_) | Shape::Buffer(_))).count()
}

fn fill(
    shapes: &[Shape],
    make: &mut dyn FnMut(&ArrayShape) -> Result<ArrayLiteral, Failure>,
) -> Result<Vec<Literal>, Failure> {
    shapes
        .iter()
        .map(|shape| {
            Ok(match shape {
                Shape::Array(a) | Shape::Buffer(a) => Literal::Array(make(a)?),
                Shape::Tuple(elements) => Literal::Tuple(fill(elements, make)?),
                Shape::Token => Literal::Token,
                Shape::Opaque => return Err(Failure::Unsupported("an opaque entry parameter".to_owned())),
            })
        })
        .collect()
}

/// Reads one `--input`.
fn read(spec: &str, wanted: &ArrayShape) -> Result<ArrayLiteral, String> {
    let (declared, value) = match spec.split_once('=') {
        // A path may hold `=` too; only what reads as a shape before it counts as one.
        Some((shape, value)) => match parse_shape(shape) {
            Some(shape) => (Some(shape), value),
            None => (None, spec),
        },
        None => (None, spec),
    };
    if let Some(declared) = &declared
        && (declared.ty != wanted.ty || declared.dims != wanted.dims)
    {
        return Err(format!("the module takes {wanted:#}, not {declared:#}"));
    }
    let mut literal = match (declared.is_some(), value.strip_prefix('@')) {
        (true, Some(path)) => read_file(path, wanted.ty)?,
        (true, None) => read_literal(value, wanted)?,
        (false, _) => read_file(spec, wanted.ty)?,
    };
    // Some writers cannot say rank 0.
    if wanted.dims.is_empty() && literal.dims() == [1] {
        literal = literal.reshaped(&[]);
    }
    let fits = literal.dims().len() == wanted.dims.len()
        && literal
            .dims()
            .iter()
            .zip(&wanted.dims)
            .zip(&wanted.dynamic)
            .all(|((have, want), &dynamic)| have == want || (dynamic && have < want));
    if !fits {
        return Err(format!("the module takes {wanted:#}, but the array's dimensions are {:?}", literal.dims()));
    }
    Ok(literal)
}

fn read_file(path: &str, ty: ElementType) -> Result<ArrayLiteral, String> {
    let (_, bytes) = crate::source::read(Path::new(path)).map_err(|failure| match failure {
        Failure::File { reason, .. } => reason,
        _ => "the file cannot be read".to_owned(),
    })?;
    // The reader makes an array of the data, and on the way two copies.
    room_for(3 * bytes.len() as u64).map_err(|e| e.to_string())?;
    npy::read(&bytes, ty)
}

/// Reads `{1,2,3}`.
fn read_literal(value: &str, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
    match text::parse_literal(value, &Shape::Array(shape.clone())) {
        Ok(Literal::Array(array)) => Ok(array),
        Ok(_) => Err("expected an array literal such as {1,2,3}".to_owned()),
        Err(error) => Err(error.message()),
    }
}

/// Reads `f32[2,3]`, or the same as `2x3xf32`.
fn parse_shape(text: &str) -> Option<ArrayShape> {
    if text.contains('[') {
        return match text::parse_shape(text) {
            Ok(Shape::Array(shape)) => Some(shape),
            _ => None,
        };
    }
    let mut parts: Vec<&str> = text.split('x').collect();
    let ty = parts.pop()?.parse().ok()?;
    let dims = parts.into_iter().map(|d| d.parse().ok().filter(|&d: &i64| d >= 0)).collect::<Option<Vec<i64>>>()?;
    Some(ArrayShape::new(ty, dims))
}

/// A small fixed generator (SplitMix64), so that a seed means the same inputs on every machine and in every version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [-1, 1), a multiple of 2^-23, so that `f32` holds it exactly.
    fn float(&mut self) -> f64 {
        (self.next() >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    }

    fn array(&mut self, shape: &ArrayShape) -> Result<ArrayLiteral, OutOfMemory> {
        let mut out = ArrayLiteral::try_zeros(shape)?;
        let ty = shape.ty;
        let size = ty.byte_size();
        for element in out.bytes_mut().chunks_exact_mut(size) {
            match ty.kind() {
                Kind::Pred => element[0] = (self.next() >> 63) as u8,
                Kind::Signed | Kind::Unsigned => {
                    // Non-negative, so that the low byte alone is the value in every integer type but `s1`.
                    let usable = if ty.is_signed_integer() { ty.bits() - 1 } else { ty.bits() }.min(3);
                    let value = (self.next() >> 32) & ((1 << usable) - 1);
                    element.fill(0);
                    element[if cfg!(target_endian = "big") { size - 1 } else { 0 }] = value as u8;
                }
                Kind::Float => {
                    let value = self.float();
                    float_bytes(ty, value, element);
                }
                Kind::Complex => {
                    for part in element.chunks_exact_mut(size / 2) {
                        let value = self.float();
                        float_bytes(ty.real_part(), value, part);
                    }
                }
            }
        }
        Ok(out)
    }
}

fn float_bytes(ty: ElementType, value: f64, out: &mut [u8]) {
    match ty {
        ElementType::F64 => out.copy_from_slice(&value.to_ne_bytes()),
        ElementType::F32 => out.copy_from_slice(&(value as f32).to_ne_bytes()),
        ElementType::F16 => out.copy_from_slice(&half::f16::from_f64(value).to_ne_bytes()),
        ElementType::BF16 => out.copy_from_slice(&half::bf16::from_f64(value).to_ne_bytes()),
        // The narrow formats: the decimal spelling, rounded by the HLO reader, which knows them all.
        _ => {
            let shown = if ty == ElementType::F8E8M0Fnu { value.abs().max(0.125) } else { value };
            let scalar = read_literal(&format!("{shown}"), &ArrayShape::new(ty, []));
            out[0] = scalar.ok().and_then(|s| s.bytes().first().copied()).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_shape_are_read() {
        assert_eq!(parse_shape("2x3xf32"), Some(ArrayShape::new(ElementType::F32, [2, 3])));
        assert_eq!(parse_shape("s4"), Some(ArrayShape::new(ElementType::S4, [])));
        assert_eq!(parse_shape("f32[2,3]"), Some(ArrayShape::new(ElementType::F32, [2, 3])));
        assert_eq!(parse_shape("dir/a"), None);
        assert_eq!(parse_shape("-1xf32"), None);
    }

    #[test]
    fn literals_are_read_and_checked() {
        let shape = ArrayShape::new(ElementType::S32, [2]);
        assert_eq!(read("s32[2]={1,-2}", &shape).expect("valid").as_slice::<i32>(), &[1, -2]);
        assert!(read("s32[3]={1,2,3}", &shape).expect_err("wrong shape").contains("takes s32[2]"));
        assert!(read("s32[2]={1}", &shape).is_err());
        assert!(read("no such file.npy", &shape).is_err());
    }

    #[test]
    fn a_seed_fixes_the_inputs() {
        for &ty in ElementType::ALL {
            let shape = ArrayShape::new(ty, [16]);
            let [a, b] = [7, 7].map(|seed| Random(seed).array(&shape).expect("a small array"));
            assert_eq!(a, b, "{ty}");
            assert_eq!(npy::read(&npy::write(&a), ty), Ok(a), "{ty} values are in range");
        }
        let shape = ArrayShape::new(ElementType::F32, [4]);
        assert_eq!(Random(1).array(&shape).expect("a small array").as_slice::<f32>()[0], 0.13312304);
    }
}
