//! Parameters of the entry that become constants.
//!
//! Problem: a program that is deployed has weights that never change, and still asks for them at every call. Invariant: the
//! module that is left gives, on the parameters that are left, the results that the whole one gives on all of them, bit for bit
//! (docs/numerics.md says of which types), and these parameters keep their order, names, layouts and aliases. Algorithm: a frozen parameter becomes a constant where it stood, with its name, and marked, so that the
//! constant folder keeps to operations that are the same bits whoever computes them; what the module line says of the other
//! parameters is numbered anew.

use crate::error::{Error, Result, Site};
use crate::front::Argument;
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode, set_frozen};
use crate::parameters::{ParameterNames, array_leaves};
use crate::proto::kept;
use brolga_runtime::abi::OpenDimension;
use brolga_runtime::{ArrayLiteral, ArrayShape, Literal, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A parameter that can be frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freezable {
    /// Its number.
    pub number: usize,
    /// The names that it is known by, that of its instruction first.
    pub names: Vec<String>,
    /// The shape of its value.
    pub shape: ArrayShape,
    /// Where it stands.
    pub site: Site,
}

impl Freezable {
    /// That a value for this parameter is wrong.
    pub fn refuse(&self, message: &str) -> Error {
        let name = self.names.last().map_or("", String::as_str);
        let message = format!("the value of the frozen parameter '{name}': {message}");
        Error::Invalid { site: self.site.clone(), constraint: "freeze.value", message }
    }
}

/// The parameter of that number or name (see [`ParameterNames::find`]).
///
/// # Errors
/// `Invalid` where there is no such parameter, or a result may take its memory; `Unsupported` for a tuple and for an array of
/// dynamic size.
pub fn parameter(module: &Module, argument: &Argument) -> Result<Freezable> {
    let parameters = module.entry().parameters();
    let number = match argument {
        Argument::Number(number) => *number,
        Argument::Name(name) => {
            let unknown = |message| invalid(Site::default(), "freeze.parameter", message);
            let leaf = ParameterNames::of_module(module).find(name).map_err(unknown)?;
            let leaves = leaf_numbers(module);
            leaves
                .iter()
                .position(|&(first, count)| leaf.iter().any(|k| (first..first + count).contains(k)))
                .unwrap_or(parameters.len())
        }
    };
    let Some(&id) = parameters.get(number) else {
        let message = format!("expected a parameter below {}, found {argument}", parameters.len());
        return Err(invalid(Site::default(), "freeze.parameter", message));
    };
    let instruction = &module.entry().instructions[id];
    let site = Site { instruction: Some(instruction.name.clone()), location: instruction.location, length: 0 };
    let unsupported = |what: &str| {
        let feature = format!("freezing the parameter '{}', {what} {:#}", instruction.name, instruction.shape);
        Err(Error::Unsupported { site: site.clone(), feature })
    };
    let shape = match &instruction.shape {
        Shape::Array(shape) if shape.is_dynamic() => return unsupported("an array of dynamic size,"),
        Shape::Array(shape) => ArrayShape { layout: None, ..shape.clone() },
        Shape::Tuple(_) => return unsupported("the tuple"),
        _ => return unsupported("which is no array but"),
    };
    if module.config.aliases.iter().any(|alias| alias.parameter == number) || donors(module)?.contains_key(&number) {
        let message = format!(
            "expected a parameter that keeps its value, found '{}', whose memory the program may write to \
             (input_output_alias or buffer_donor; in JAX, donate_argnums)",
            instruction.name
        );
        return Err(invalid(site, "freeze.donated", message));
    }
    let leaf = leaf_numbers(module).get(number).map_or(0, |&(first, _)| first);
    let names = ParameterNames::of_module(module).leaves().get(leaf).cloned().unwrap_or_default();
    Ok(Freezable { number, names, shape, site })
}

/// Makes parameters of the entry constants. The numbers of those that are left close up.
///
/// ```
/// # use brolga_compiler::builder::{ArrayLiteral, Builder, ElementType, Shape};
/// let b = Builder::new("scale");
/// let x = b.parameter(0, Shape::array(ElementType::F32, [2]), "x");
/// let w = b.parameter(1, Shape::array(ElementType::F32, [2]), "w");
/// b.mul(x, w);
/// let mut module = b.build()?;
/// brolga_compiler::freeze(&mut module, &[("w".into(), ArrayLiteral::from_elements(&[2], &[2f32, 3.0]))])?;
/// assert_eq!(module.entry().parameters().len(), 1);
/// # Ok::<(), brolga_compiler::Error>(())
/// ```
///
/// # Errors
/// As [`parameter`]; `Invalid` for a value of another type or other dimensions, and for two values of one parameter. The module
/// is unchanged then.
pub fn freeze(module: &mut Module, values: &[(Argument, ArrayLiteral)]) -> Result<()> {
    let values = checked(module, values)?;
    replace(module, &values)
}

/// As [`freeze`], for the modules of the sizes of one program; `open` are the dimensions that tell them apart.
///
/// # Errors
/// As [`freeze`], and `Invalid` for a parameter whose sizes are open.
pub fn freeze_sizes(
    modules: &mut [Module],
    open: &mut [OpenDimension],
    values: &[(Argument, ArrayLiteral)],
) -> Result<()> {
    let Some(first) = modules.first() else { return Ok(()) };
    let leaves = leaf_numbers(first);
    let frozen = checked(first, values)?;
    for &number in frozen.keys() {
        let leaf = leaves.get(number).map_or(0, |&(first, _)| first);
        if open.iter().any(|dimension| dimension.parameter as usize == leaf) {
            let one = parameter(first, &Argument::Number(number))?;
            return Err(one.refuse("expected a parameter of one size, found one whose sizes are open"));
        }
    }
    let all: Vec<_> = modules.iter().map(|module| checked(module, values)).collect::<Result<_>>()?;
    modules.iter_mut().zip(&all).try_for_each(|(module, values)| replace(module, values))?;
    // Every frozen parameter is one leaf.
    for dimension in open {
        let before =
            |number: &&usize| leaves.get(**number).is_some_and(|&(leaf, _)| leaf < dimension.parameter as usize);
        dimension.parameter -= frozen.keys().filter(before).count() as u32;
    }
    Ok(())
}

/// The values by the numbers of their parameters, which they fit.
fn checked<'a>(module: &Module, values: &'a [(Argument, ArrayLiteral)]) -> Result<BTreeMap<usize, &'a ArrayLiteral>> {
    if module.config.abi.is_some() {
        let message = "expected a module as it was read, found one that the passes have changed".to_owned();
        return Err(invalid(Site::default(), "freeze.module", message));
    }
    let mut out = BTreeMap::new();
    for (argument, value) in values {
        let one = parameter(module, argument)?;
        if value.ty() != one.shape.ty || value.dims() != one.shape.dims {
            return Err(one.refuse(&format!("expected {:#}, found {:#}", one.shape, value.shape())));
        }
        if out.insert(one.number, value).is_some() {
            return Err(one.refuse("expected one value, found two"));
        }
    }
    Ok(out)
}

fn replace(module: &mut Module, values: &BTreeMap<usize, &ArrayLiteral>) -> Result<()> {
    let donors = donors(module)?;
    // Where each parameter that is left stands afterwards.
    let number = |old: usize| old - values.range(..old).count();
    let entry = &mut module.computations[module.entry];
    for (old, id) in entry.parameters().into_iter().enumerate() {
        let instruction = &mut entry.instructions[id];
        match values.get(&old) {
            None => {
                let number = i64::try_from(number(old)).unwrap_or(i64::MAX);
                instruction.attrs.set(AttrKey::ParameterNumber, AttrValue::Int(number));
            }
            Some(&value) => {
                let literal = Arc::new(Literal::Array(value.clone()));
                let mut attrs = Attrs::new().with(AttrKey::Literal, AttrValue::Literal(literal));
                if let Some(metadata) = instruction.attrs.remove(AttrKey::Metadata) {
                    attrs.set(AttrKey::Metadata, metadata);
                }
                set_frozen(&mut attrs);
                (instruction.opcode, instruction.attrs) = (Opcode::Constant, attrs);
            }
        }
    }
    let config = &mut module.config;
    if let Some((parameters, _)) = &mut config.entry_layout {
        let mut old = 0..;
        parameters.retain(|_| old.next().is_none_or(|old| !values.contains_key(&old)));
    }
    for alias in &mut config.aliases {
        alias.parameter = number(alias.parameter);
    }
    // What a partitioner may do with each parameter says nothing to us, and is a list of all of them.
    config.other.retain(|(key, _)| key != "allow_spmd_sharding_propagation_to_parameters");
    let donors =
        donors.into_iter().flat_map(|(old, paths)| paths.into_iter().map(move |path| (number(old) as i64, path)));
    let donors: Vec<(i64, Vec<i64>)> = donors.collect();
    if let Some((_, text)) = config.other.iter_mut().find(|(key, _)| key == kept::DONORS) {
        *text = kept::donors_text(&donors);
    }
    Ok(())
}

/// Of each parameter the number of its first leaf array, and how many it has.
fn leaf_numbers(module: &Module) -> Vec<(usize, usize)> {
    let entry = module.entry();
    let counts = entry.parameters().into_iter().map(|id| array_leaves(&entry.instructions[id].shape).len());
    counts.scan(0, |next, count| Some((std::mem::replace(next, *next + count), count))).collect()
}

/// The parameters that may be overwritten, and the paths to the parts that may.
fn donors(module: &Module) -> Result<BTreeMap<usize, Vec<Vec<i64>>>> {
    let mut out: BTreeMap<usize, Vec<Vec<i64>>> = BTreeMap::new();
    let text = module.config.other.iter().find(|(key, _)| key == kept::DONORS);
    for (number, path) in text.map(|(_, text)| kept::donors(text)).transpose()?.unwrap_or_default() {
        if let Ok(number) = usize::try_from(number) {
            out.entry(number).or_default().push(path);
        }
    }
    Ok(out)
}

fn invalid(site: Site, constraint: &'static str, message: String) -> Error {
    Error::Invalid { site, constraint, message }
}
