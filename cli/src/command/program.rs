//! Loading compiled programs.

use crate::command::args::{InputArgs, ShapeArgs};
use crate::command::failure::Failure;
use crate::command::input::{self, Parameters};
use brolga_compiler::front::Argument;
use brolga_runtime::abi::OpenDimension;
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{LoadError, Program, Shape, Sizes, UndefinedSymbol};

/// Where the symbols of custom calls come from.
const LIBRARY: &str = "`--custom-call-library FILE` loads a shared library that defines it";

/// Loads an object for one size; with `strict` a custom call that nobody defines is an error.
pub fn load(object: &[u8], strict: bool) -> Result<Program, Failure> {
    let options = LoadOptions { strict_symbols: strict, ..LoadOptions::default() };
    Program::from_object_with(object, &options).map_err(|e| refused(&e))
}

/// Loads an object for any number of sizes.
pub fn load_sizes(object: &[u8], strict: bool) -> Result<Sizes, Failure> {
    let options = LoadOptions { strict_symbols: strict, ..LoadOptions::default() };
    Sizes::from_object_with(object, &options).map_err(|e| refused(&e))
}

/// An object that cannot be used here.
fn refused(error: &LoadError) -> Failure {
    match error {
        LoadError::UndefinedSymbol(symbol) => undefined(symbol),
        other => Failure::Run(other.to_string()),
    }
}

fn undefined(symbol: &UndefinedSymbol) -> Failure {
    Failure::Run(format!("{symbol}; {LIBRARY}"))
}

/// The program for the size of the inputs, or of the shapes that the command line names.
pub fn choose(sizes: &Sizes, shapes: &ShapeArgs, inputs: &InputArgs) -> Result<Program, Failure> {
    let Some(first) = sizes.programs().first() else {
        return Err(Failure::Run("the object holds no program".to_owned()));
    };
    let named = shapes.options()?.shapes;
    let leaves = &first.descriptor().parameters;
    let mut dims = input::dims(inputs, &Parameters::of_program(first));
    for (argument, shape) in &named {
        let number = match argument {
            Argument::Number(n) => Some(*n),
            Argument::Name(name) => leaves.iter().position(|leaf| leaf.name == *name),
        };
        match (number.and_then(|n| dims.get_mut(n)), shape) {
            (Some(slot), Shape::Array(array)) => *slot = Some(array.dims.clone()),
            _ => return Err(Failure::Input(format!("the program takes no {argument} of shape {shape:#}"))),
        }
    }
    let wanted = wanted(sizes.open(), &dims)?;
    sizes.select(&wanted).cloned().map_err(|e| Failure::Size(e.to_string()))
}

/// The program for the size of the inputs, which say it.
pub fn choose_by_inputs(sizes: &Sizes, inputs: &InputArgs) -> Result<Program, Failure> {
    let dims = sizes.programs().first().map(|first| input::dims(inputs, &Parameters::of_program(first)));
    let wanted = wanted(sizes.open(), &dims.unwrap_or_default())?;
    sizes.select(&wanted).cloned().map_err(|e| Failure::Size(e.to_string()))
}

/// The sizes of the open dimensions among the dimensions of the arguments.
pub fn wanted(open: &[OpenDimension], arguments: &[Option<Vec<i64>>]) -> Result<Vec<i64>, Failure> {
    let of = |open: &OpenDimension| {
        let dims = arguments.get(open.parameter as usize).and_then(Option::as_ref).ok_or_else(|| {
            Failure::Usage(format!(
                "the program has several sizes, and nothing says that of argument {}: give --input with a shape, or one \
                 size with --shape",
                open.parameter
            ))
        })?;
        dims.get(open.dimension as usize)
            .copied()
            .ok_or_else(|| Failure::Input(format!("argument {} has only {} dimensions", open.parameter, dims.len())))
    };
    open.iter().map(of).collect()
}

/// Says which custom calls lead nowhere; with `strict` the first of them is an error.
pub fn report_undefined(symbols: &[UndefinedSymbol], strict: bool) -> Result<(), Failure> {
    match symbols.first() {
        Some(symbol) if strict => Err(undefined(symbol)),
        _ => {
            for symbol in symbols {
                eprintln!("warning: {symbol}; a run that comes to the call fails; {LIBRARY}");
            }
            Ok(())
        }
    }
}
