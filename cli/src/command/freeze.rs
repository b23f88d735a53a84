//! `--freeze`: parameters of a program that become constants, before anything else is done with it.
//!
//! Problem: weights lie in files, by the names of parameters or without a name. Invariant: a value is frozen only into the parameter
//! that it was meant for, of its very type and shape; what cannot be is an error that names the parameter. Algorithm: `P=VALUE` is
//! read as an input with a name is; of `P=FILE` with several arrays the one called P, or else as the parameter is, counts; a file alone
//! gives every parameter whose name it has.

use crate::command::archive::Arrays;
use crate::command::args::FreezeArgs;
use crate::command::failure::Failure;
use crate::command::input::{Given, fitted, read_named};
use crate::command::source::{SizedModules, Source};
use brolga_compiler::freeze::{Freezable, freeze, freeze_sizes, parameter};
use brolga_compiler::front::Argument;
use brolga_compiler::hlo::Module;
use brolga_compiler::parameters::ParameterNames;
use brolga_runtime::ArrayLiteral;
use std::path::Path;
use std::sync::Arc;

/// Values of parameters.
pub type Values = Vec<(Argument, ArrayLiteral)>;

/// Freezes what the command line says. The numbers of the parameters that are gone.
pub fn apply(args: &FreezeArgs, module: &mut Module, source: &Arc<Source>) -> Result<Vec<usize>, Failure> {
    let (values, numbers) = values(args, module, source)?;
    freeze(module, &values).map_err(|e| Failure::program(e, source))?;
    Ok(numbers)
}

/// As [`apply`], in every size of a program.
pub fn apply_to_sizes(args: &FreezeArgs, sizes: &mut SizedModules) -> Result<(), Failure> {
    let Some(first) = sizes.modules.first() else { return Ok(()) };
    let (values, _) = values(args, first, &sizes.source)?;
    freeze_sizes(&mut sizes.modules, &mut sizes.open, &values).map_err(|e| Failure::program(e, &sizes.source))
}

/// Refuses `--freeze` of an object, whose parameters are what they are.
pub fn refuse_object(args: &FreezeArgs) -> Result<(), Failure> {
    match args.freeze.is_empty() {
        true => Ok(()),
        false => Err(Failure::Usage("--freeze is for modules; an object was compiled already".to_owned())),
    }
}

/// The values that the command line names for parameters of a module, and the numbers of these.
pub fn values(args: &FreezeArgs, module: &Module, source: &Arc<Source>) -> Result<(Values, Vec<usize>), Failure> {
    let (mut values, mut numbers) = (Values::new(), Vec::new());
    let mut put = |one: &Freezable, value: Result<ArrayLiteral, String>| {
        let value = value.map_err(|e| Failure::program(one.refuse(&e), source))?;
        numbers.push(one.number);
        values.push((Argument::Number(one.number), value));
        Ok::<(), Failure>(())
    };
    let find = |argument: &Argument| parameter(module, argument).map_err(|e| Failure::program(e, source));
    for spec in &args.freeze {
        match Given::of(spec) {
            Given::Next(_) => {
                let message = "expected P=FILE with the number or the name of a parameter, or a file of several arrays";
                return Err(Failure::Usage(format!("--freeze {spec}: {message}")));
            }
            Given::Named(name, value) => {
                let argument = name.parse().map_or_else(|_| Argument::from(name), Argument::Number);
                let one = find(&argument)?;
                if !Arrays::names_one(value) {
                    put(&one, read_named(value, &one.shape))?;
                    continue;
                }
                let mut file = open(value)?;
                let known = file.names();
                let mut names = [name].into_iter().chain(one.names.iter().map(String::as_str));
                let found = names.find(|name| known.iter().any(|known| known == name)).unwrap_or(name);
                put(&one, file.read(found, &one.shape).and_then(|array| fitted(array, &one.shape)))?;
            }
            Given::All(path) => {
                let mut file = open(path)?;
                let names = ParameterNames::of_module(module);
                let known: Vec<String> = file.names().into_iter().filter(|name| names.find(name).is_ok()).collect();
                if known.is_empty() {
                    let message = format!("{path}: none of its arrays has the name of a parameter");
                    return Err(Failure::Size(message));
                }
                for name in known {
                    let one = find(&Argument::Name(name.clone()))?;
                    put(&one, file.read(&name, &one.shape).and_then(|array| fitted(array, &one.shape)))?;
                }
            }
        }
    }
    Ok((values, numbers))
}

fn open(path: &str) -> Result<Arrays, Failure> {
    Arrays::open(path).map_err(|e| Failure::file(Path::new(path), e))
}
