//! Values of parameters that become constants, from Rust or from files.

use super::{BuildError, at};
use crate::error::Result;
use crate::freeze::parameter;
use crate::front::Argument;
use crate::hlo::Module;
use brolga_runtime::{ArrayLiteral, npy};
use std::fmt;
use std::path::{Path, PathBuf};

/// What is frozen. Text of it says what, but for the values.
#[derive(Clone)]
pub(super) enum Frozen {
    /// The parameter of that name.
    Value(String, ArrayLiteral),
    /// The parameter of that name, as the file says.
    Npy(String, PathBuf),
    /// Those that the file names.
    #[cfg(feature = "checkpoint")]
    Safetensors(PathBuf),
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frozen::Value(name, value) => f.debug_tuple("Value").field(name).field(value.shape()).finish(),
            Frozen::Npy(name, path) => f.debug_tuple("Npy").field(name).field(path).finish(),
            #[cfg(feature = "checkpoint")]
            Frozen::Safetensors(path) => f.debug_tuple("Safetensors").field(path).finish(),
        }
    }
}

impl Frozen {
    /// The file, where there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Frozen::Value(..) => None,
            Frozen::Npy(_, path) => Some(path),
            #[cfg(feature = "checkpoint")]
            Frozen::Safetensors(path) => Some(path),
        }
    }

    /// Reads the file.
    pub(super) fn load(&self) -> std::result::Result<Weights<'_>, BuildError> {
        let file = self.path().map(|path| std::fs::read(path).map_err(|e| at(path, e))).transpose()?;
        Ok(Weights { frozen: self, file: file.unwrap_or_default() })
    }
}

/// What is frozen, with the contents of its file.
pub(super) struct Weights<'a> {
    frozen: &'a Frozen,
    file: Vec<u8>,
}

impl Weights<'_> {
    /// The bytes that the values are made of.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.frozen {
            Frozen::Value(_, value) => value.bytes(),
            _ => &self.file,
        }
    }
}

/// The values for the parameters of a module.
///
/// # Errors
/// `Invalid` where a file does not fit the program, as [`parameter`] otherwise.
pub(super) fn values(weights: &[Weights<'_>], module: &Module) -> Result<Vec<(Argument, ArrayLiteral)>> {
    let mut out = Vec::new();
    for Weights { frozen, file } in weights {
        match frozen {
            Frozen::Value(name, value) => out.push((Argument::Name(name.clone()), value.clone())),
            Frozen::Npy(name, path) => {
                let one = parameter(module, &Argument::Name(name.clone()))?;
                let value = npy::read(file, one.shape.ty);
                let value = value.map_err(|e| one.refuse(&format!("{}: {e}", path.display())))?;
                out.push((Argument::Number(one.number), value));
            }
            #[cfg(feature = "checkpoint")]
            Frozen::Safetensors(path) => named(&mut out, path, file, module)?,
        }
    }
    Ok(out)
}

/// Adds the tensors of a file of safetensors that have the names of parameters.
#[cfg(feature = "checkpoint")]
fn named(out: &mut Vec<(Argument, ArrayLiteral)>, path: &Path, bytes: &[u8], module: &Module) -> Result<()> {
    use crate::error::{Error, Site};
    use crate::parameters::ParameterNames;
    use brolga_runtime::store::safetensors_array;
    let wrong = |message: String| {
        let message = format!("{}: {message}", path.display());
        Error::Invalid { site: Site::default(), constraint: "freeze.file", message }
    };
    let file = safetensors::SafeTensors::deserialize(bytes);
    let file = file.map_err(|e| wrong(format!("expected a file of safetensors: {e}")))?;
    let names = ParameterNames::of_module(module);
    let mut known: Vec<&str> = file.names().into_iter().filter(|name| names.find(name).is_ok()).collect();
    known.sort_unstable();
    if known.is_empty() {
        return Err(wrong("none of its tensors has the name of a parameter".to_owned()));
    }
    for name in known {
        let one = parameter(module, &Argument::from(name))?;
        let value = safetensors_array(&file, name, &one.shape);
        let value = value.map_err(|e| one.refuse(&format!("{}: {e}", path.display())))?;
        out.push((Argument::Number(one.number), value));
    }
    Ok(())
}
