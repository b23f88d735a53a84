//! Inputs: from files, from literals on the command line, or made from a seed.
//!
//! Problem: a program's parameters have an order, and names that people know them by; files of checkpoints have names alone.
//! Invariant: every leaf array of the parameters gets one value, of its own shape, and nothing that was given is left over.
//! Algorithm: what has a name goes to the leaf of that name; the other inputs take the leaves that are left, in order.

use crate::command::archive::Arrays;
use crate::command::args::InputArgs;
use crate::command::failure::Failure;
use crate::command::random::Random;
use brolga_compiler::front::Argument;
use brolga_compiler::hlo::Module;
use brolga_compiler::parameters::{ParameterNames, array_leaves};
use brolga_compiler::{shortened, text};
use brolga_runtime::npy;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Program, Shape, room_for};
use std::io::Read;
use std::path::Path;

/// The entry parameters, with the names by which `--input NAME=...` finds their leaf arrays.
pub struct Parameters {
    shapes: Vec<Shape>,
    names: ParameterNames,
}

impl Parameters {
    /// Those of a module.
    pub fn of_module(module: &Module) -> Parameters {
        let entry = module.entry();
        let shapes = entry.parameters().into_iter().map(|id| entry.instructions[id].shape.clone()).collect();
        Parameters { shapes, names: ParameterNames::of_module(module) }
    }

    /// Those of a compiled program. Leaves of one name are the leaves of a tuple.
    pub fn of_program(program: &Program) -> Parameters {
        let leaves = &program.descriptor().parameters;
        let name = |k: usize| {
            let name = &leaves[k].name;
            let same = leaves.iter().filter(|leaf| leaf.name == *name).count();
            let before = leaves.iter().take(k).filter(|leaf| leaf.name == *name).count();
            vec![if same > 1 { format!("{name}.{before}") } else { name.clone() }]
        };
        let shapes = leaves.iter().map(|leaf| Shape::Array(leaf.shape.clone())).collect();
        Parameters { shapes, names: ParameterNames::new((0..leaves.len()).map(name).collect()) }
    }

    /// The parameters of several devices, one after another: a name stands for the array on every one.
    pub fn on_devices(&self, devices: usize) -> Parameters {
        let (shapes, names) = (self.shapes.iter(), self.names.leaves().iter());
        let count = (shapes.len() * devices, names.len() * devices);
        let (shapes, names) = (shapes.cycle().take(count.0), names.cycle().take(count.1));
        Parameters { shapes: shapes.cloned().collect(), names: ParameterNames::new(names.cloned().collect()) }
    }

    /// The shapes of the parameters.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }
}

/// Makes the values of the entry parameters; those that came with the program where the command line says nothing.
pub fn gather_or(args: &InputArgs, parameters: &Parameters, given: &[Literal]) -> Result<Vec<Literal>, Failure> {
    let shapes = &parameters.shapes;
    if given.is_empty() || !args.inputs.is_empty() || args.random_seed.is_some() {
        return gather(args, parameters);
    }
    let fits = |value: &Literal, shape: &Shape| value.shape().same_ignoring_layout(&shape.without_layout());
    match given.iter().zip(shapes).position(|(value, shape)| !fits(value, shape)) {
        _ if given.len() != shapes.len() => {
            let (have, want) = (given.len(), shapes.len());
            Err(Failure::Input(format!("the program takes {want} parameters, but the snapshot holds {have} inputs")))
        }
        Some(k) => {
            let (have, want) = (given.get(k).map(Literal::shape), shapes.get(k));
            let text = |shape: Option<&Shape>| shape.map_or_else(String::new, |s| format!("{s:#}"));
            let (have, want) = (text(have.as_ref()), text(want));
            Err(Failure::Input(format!("parameter {k} has shape {want}, but the snapshot's input has {have}")))
        }
        None => Ok(given.to_vec()),
    }
}

/// What one `--input` is.
pub enum Given<'a> {
    /// The next array that has no name.
    Next(&'a str),
    /// The array of that name.
    Named(&'a str, &'a str),
    /// All arrays of a file, each by its name.
    All(&'a str),
}

impl Given<'_> {
    pub fn of(spec: &str) -> Given<'_> {
        if Arrays::names_one(spec) && (!spec.contains('=') || Path::new(spec).exists()) {
            return Given::All(spec);
        }
        match spec.split_once('=') {
            // A path may hold `=`, and a shape stands before a value as a name does.
            Some((name, value)) if parse_shape(name).is_none() && !Path::new(spec).exists() => {
                Given::Named(name, value)
            }
            _ => Given::Next(spec),
        }
    }
}

/// Makes the values of the entry parameters.
pub fn gather(args: &InputArgs, parameters: &Parameters) -> Result<Vec<Literal>, Failure> {
    let leaves: Vec<&ArrayShape> = parameters.shapes.iter().flat_map(array_leaves).collect();
    let values = match args.random_seed {
        Some(seed) => {
            let mut random = Random(seed);
            let none = |shape, e| Failure::Input(format!("a parameter of shape {shape:#} does not fit in memory: {e}"));
            leaves.iter().map(|shape| random.array(shape).map_err(|e| none(shape, e))).collect::<Result<_, _>>()?
        }
        None => given_values(args, parameters, &leaves)?,
    };
    let mut values = values.into_iter();
    let whole = |shape: &Shape| match Literal::from_arrays(shape, &mut values) {
        Some(literal) => Ok(literal),
        None => Err(Failure::Unsupported("an opaque entry parameter".to_owned())),
    };
    parameters.shapes.iter().map(whole).collect()
}

/// The value of each leaf, from the command line.
fn given_values(
    args: &InputArgs,
    parameters: &Parameters,
    leaves: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, Failure> {
    let mut values: Vec<Option<ArrayLiteral>> = vec![None; leaves.len()];
    let mut unnamed = Vec::new();
    let mut put = |name: &str, read: &mut dyn FnMut(&ArrayShape) -> Result<ArrayLiteral, String>| {
        for leaf in parameters.names.find(name)? {
            let (Some(slot), Some(shape)) = (values.get_mut(leaf), leaves.get(leaf)) else { continue };
            if slot.replace(read(shape)?).is_some() {
                return Err(format!("the parameter '{name}' has a value already"));
            }
        }
        Ok(())
    };
    for (i, spec) in args.inputs.iter().enumerate() {
        let wrong = move |e: String| Failure::Input(format!("input {i} ({}): {e}", shortened(spec)));
        match Given::of(spec) {
            Given::Next(value) => unnamed.push((value, wrong)),
            Given::Named(name, value) => put(name, &mut |shape| read_named(value, shape)).map_err(wrong)?,
            Given::All(path) => {
                let mut file = Arrays::open(path).map_err(wrong)?;
                for name in file.names() {
                    put(&name, &mut |shape| fitted(file.read(&name, shape)?, shape)).map_err(wrong)?;
                }
            }
        }
    }
    let open: Vec<usize> = (0..leaves.len()).filter(|&k| values[k].is_none()).collect();
    if open.len() != unnamed.len() {
        return Err(Failure::Input(miscount(args, parameters, &open, unnamed.len())));
    }
    for (k, (value, wrong)) in open.into_iter().zip(unnamed) {
        values[k] = Some(read(value, leaves[k]).map_err(wrong)?);
    }
    Ok(values.into_iter().flatten().collect())
}

/// Says that the leaves without a value are not as many as the inputs without a name.
fn miscount(args: &InputArgs, parameters: &Parameters, open: &[usize], unnamed: usize) -> String {
    let (leaves, given) = (parameters.names.leaves().len(), args.inputs.len());
    if unnamed == given {
        let known: Vec<&str> = parameters.names.leaves().iter().filter_map(|n| n.last()).map(String::as_str).collect();
        let known = if known.is_empty() { String::new() } else { format!(" ({})", shortened(&known.join(", "))) };
        let hint = match given {
            0 => "; --random-seed N makes inputs",
            _ if given > leaves => {
                "; jax.jit leaves out arguments that are not used, unless it is told keep_unused=True"
            }
            _ => "; the arrays of a dict are parameters each, in the order of its sorted keys",
        };
        return format!("the module takes {leaves} input arrays{known}, but {given} were given{hint}");
    }
    let list: Vec<&str> = open.iter().map(|&k| parameters.names.leaves()[k][0].as_str()).collect();
    let list = if list.is_empty() { "none".to_owned() } else { shortened(&list.join(", ")) };
    format!(
        "of the module's {leaves} input arrays these have no name among the inputs: {list}; {unnamed} inputs have no name"
    )
}

/// The dimensions that one value says it has.
fn dims_of(value: &str) -> Option<Vec<i64>> {
    // A header is shorter than this.
    const HEADER: u64 = 1 << 16;
    if let Some(declared) = value.split_once('=').and_then(|(shape, _)| parse_shape(shape)) {
        return Some(declared.dims);
    }
    let mut bytes = Vec::new();
    let path = value.strip_prefix('@').unwrap_or(value);
    std::fs::File::open(path).ok()?.take(HEADER).read_to_end(&mut bytes).ok()?;
    npy::describe(&bytes).ok().map(|(dims, _)| dims)
}

/// The dimensions that the inputs say they have, by name where they have one.
pub fn sizes(args: &InputArgs) -> Vec<(Argument, Vec<i64>)> {
    let mut out = Vec::new();
    let mut unnamed = 0;
    let mut any_name = false;
    for spec in &args.inputs {
        let (argument, dims) = match Given::of(spec) {
            Given::Next(value) => {
                unnamed += 1;
                (Argument::Number(unnamed - 1), dims_of(value))
            }
            Given::Named(name, value) => (Argument::Name(name.to_owned()), dims_of(value)),
            Given::All(path) => {
                any_name = true;
                let Ok(mut file) = Arrays::open(path) else { continue };
                let names = file.names().into_iter();
                out.extend(names.filter_map(|name| file.dims(&name).map(|dims| (Argument::Name(name), dims))));
                continue;
            }
        };
        any_name |= matches!(argument, Argument::Name(_));
        out.extend(dims.map(|dims| (argument, dims)));
    }
    // Which places the others take is known when the names are.
    out.retain(|(argument, _)| !any_name || matches!(argument, Argument::Name(_)));
    out
}

/// The dimensions of each leaf array, as far as the inputs say them.
pub fn dims(args: &InputArgs, parameters: &Parameters) -> Vec<Option<Vec<i64>>> {
    let mut out = vec![None; parameters.names.leaves().len()];
    for (argument, dims) in sizes(args) {
        let leaves = match argument {
            Argument::Number(k) => vec![k],
            Argument::Name(name) => parameters.names.find(&name).unwrap_or_default(),
        };
        for leaf in leaves {
            if let Some(slot) = out.get_mut(leaf) {
                *slot = Some(dims.clone());
            }
        }
    }
    out
}

/// Reads the value of an input that has a name: as [`read`], and literals without their shape.
pub fn read_named(value: &str, wanted: &ArrayShape) -> Result<ArrayLiteral, String> {
    if let Some(path) = value.strip_prefix('@') {
        return fitted(read_file(path, wanted.ty)?, wanted);
    }
    let scalar = wanted.dims.is_empty() && !value.contains('=') && !Path::new(value).exists();
    if scalar || value.starts_with(['{', '(']) { read_literal(value, wanted) } else { read(value, wanted) }
}

/// Reads the value of an `--input` or `--expect`, an array of shape `wanted`.
pub fn read(spec: &str, wanted: &ArrayShape) -> Result<ArrayLiteral, String> {
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
        return Err(format!("the module has {wanted:#} here, not {declared:#}"));
    }
    if declared.is_none() && spec.starts_with(['{', '(']) {
        return read_literal(spec, wanted);
    }
    let literal = match (declared.is_some(), value.strip_prefix('@')) {
        (true, Some(path)) => read_file(path, wanted.ty)?,
        (true, None) => read_literal(value, wanted)?,
        (false, _) => read_file(spec, wanted.ty)?,
    };
    fitted(literal, wanted)
}

/// The array, where it has the dimensions that are wanted; dynamic ones may be shorter.
pub fn fitted(mut literal: ArrayLiteral, wanted: &ArrayShape) -> Result<ArrayLiteral, String> {
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
        return Err(format!("the module has {wanted:#} here, but the array's dimensions are {:?}", literal.dims()));
    }
    Ok(literal)
}

fn read_file(path: &str, ty: ElementType) -> Result<ArrayLiteral, String> {
    let (_, bytes) = crate::command::source::read(Path::new(path)).map_err(|failure| match failure {
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
    fn a_name_stands_for_the_array_of_every_device() {
        let names = ParameterNames::new(vec![vec!["x".to_owned()], vec!["y".to_owned()]]);
        let parameters = Parameters { shapes: vec![Shape::array(ElementType::F32, [2]); 2], names };
        assert_eq!(parameters.on_devices(2).names.find("y"), Ok(vec![1, 3]));
    }

    #[test]
    fn literals_are_read_and_checked() {
        let shape = ArrayShape::new(ElementType::S32, [2]);
        assert_eq!(read("s32[2]={1,-2}", &shape).expect("valid").as_slice::<i32>(), &[1, -2]);
        assert_eq!(read("{1,-2}", &shape).expect("valid").as_slice::<i32>(), &[1, -2]);
        assert!(read("s32[3]={1,2,3}", &shape).expect_err("wrong shape").contains("has s32[2]"));
        assert!(read("s32[2]={1}", &shape).is_err());
        assert!(read("no such file.npy", &shape).is_err());
    }
}
