//! Reading modules: files or standard input, in any of the forms that the front door knows.

use crate::command::failure::Failure;
use brolga_compiler::front::{self, Format, ReadOptions};
use brolga_compiler::hlo::Module;
use brolga_compiler::shape;
use brolga_runtime::Literal;
use brolga_runtime::abi::OpenDimension;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Files larger than this are refused rather than read: 2 GiB.
const LARGEST_FILE: u64 = 1 << 31;

/// What was read besides the program: its text, so that errors can show it, and the inputs that came with it.
#[derive(Debug)]
pub struct Source {
    name: String,
    text: String,
    /// The file, where it is not text.
    bytes: Vec<u8>,
    ending: Option<String>,
    inputs: Vec<Literal>,
}

impl Source {
    /// The name to show: the path as given, or `<stdin>`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the module again.
    pub fn read(&self, options: &ReadOptions) -> brolga_compiler::Result<Module> {
        front::read(self.bytes(), self.ending.as_deref(), options).map(|read| read.module)
    }

    /// Reads the module for several sizes again.
    pub fn read_sizes(&self, sizes: &[ReadOptions]) -> brolga_compiler::Result<front::ReadSizes> {
        front::read_sizes(self.bytes(), self.ending.as_deref(), sizes)
    }

    fn bytes(&self) -> &[u8] {
        if self.bytes.is_empty() { self.text.as_bytes() } else { &self.bytes }
    }

    /// The text; empty for a program that came as a message.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The inputs of a snapshot, but for those of the parameters of these numbers; empty for everything else.
    pub fn inputs_without(&self, frozen: &[usize]) -> Vec<Literal> {
        let left = self.inputs.iter().enumerate().filter(|(number, _)| !frozen.contains(number));
        left.map(|(_, value)| value.clone()).collect()
    }
}

/// What a file holds.
pub enum Input {
    /// A module that parsed and verified.
    Module(Box<Module>, Arc<Source>),
    /// The bytes of an object file.
    Object(Vec<u8>),
}

/// Reads a module or an object.
pub fn load(path: &Path, options: &ReadOptions) -> Result<Input, Failure> {
    load_with(path, options, shape::verify)
}

fn load_with(
    path: &Path,
    options: &ReadOptions,
    verify: fn(&Module) -> brolga_compiler::Result<()>,
) -> Result<Input, Failure> {
    let (name, bytes) = read(path)?;
    if is_object(path, &bytes) {
        return Ok(Input::Object(bytes));
    }
    let ending = path.extension().and_then(|e| e.to_str());
    let read = front::read(&bytes, ending, options);
    // What is not text has no lines to show; of what ceases to be text, the part before is shown.
    let is_text = Format::detect(&bytes, ending).is_text();
    let (text, bytes) = if is_text { (text_of(bytes), Vec::new()) } else { (String::new(), bytes) };
    let (read, inputs) = match read {
        Ok(front::Read { module, inputs, .. }) => (Ok(module), inputs),
        Err(error) => (Err(error), Vec::new()),
    };
    let source = Arc::new(Source { name, text, bytes, ending: ending.map(str::to_owned), inputs });
    let module = read.map_err(|e| Failure::program(e, &source))?;
    verify(&module).map_err(|e| Failure::program(e, &source))?;
    Ok(Input::Module(Box::new(module), source))
}

/// A program that was read for several sizes.
pub struct SizedModules {
    /// A module for each size, verified.
    pub modules: Vec<Module>,
    /// The dimensions whose sizes tell them apart.
    pub open: Vec<OpenDimension>,
    /// What errors show.
    pub source: Arc<Source>,
}

/// Reads a module for several sizes; an object is refused.
pub fn load_sizes(path: &Path, sizes: &[ReadOptions]) -> Result<SizedModules, Failure> {
    let (name, bytes) = read(path)?;
    if is_object(path, &bytes) {
        return Err(Failure::Usage(format!("{}: an object has its sizes already; name one", path.display())));
    }
    let ending = path.extension().and_then(|e| e.to_str());
    let read = front::read_sizes(&bytes, ending, sizes);
    let is_text = Format::detect(&bytes, ending).is_text();
    let (text, bytes) = if is_text { (text_of(bytes), Vec::new()) } else { (String::new(), bytes) };
    let source = Arc::new(Source { name, text, bytes, ending: ending.map(str::to_owned), inputs: Vec::new() });
    let front::ReadSizes { modules, open } = read.map_err(|e| Failure::program(e, &source))?;
    modules.iter().try_for_each(shape::verify).map_err(|e| Failure::program(e, &source))?;
    Ok(SizedModules { modules, open, source })
}

/// Objects say what they are in their first bytes; standard input has no ending.
fn is_object(path: &Path, bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") || path.extension().is_some_and(|e| e == "o")
}

/// The bytes as text, as far as they are.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let good = error.utf8_error().valid_up_to();
        String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned()
    })
}

/// Reads a module; an object is refused.
pub fn load_module(path: &Path, options: &ReadOptions) -> Result<(Box<Module>, Arc<Source>), Failure> {
    only_module(path, load(path, options)?)
}

/// Reads a module that will not be run: calls need not agree with what they call.
pub fn load_open_module(path: &Path, options: &ReadOptions) -> Result<(Box<Module>, Arc<Source>), Failure> {
    only_module(path, load_with(path, options, shape::verify_open)?)
}

fn only_module(path: &Path, input: Input) -> Result<(Box<Module>, Arc<Source>), Failure> {
    match input {
        Input::Module(module, source) => Ok((module, source)),
        Input::Object(_) => {
            let name = if path.as_os_str() == "-" { "<stdin>".into() } else { path.display().to_string() };
            Err(Failure::Usage(format!(
                "{name}: expected a module, found an object; `run`, `bench` and `inspect` take objects"
            )))
        }
    }
}

/// Reads a file, or standard input for `-`; gives the name to show with it.
pub fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let mut bytes = Vec::new();
    let name = if path.as_os_str() == "-" { "<stdin>".to_owned() } else { path.display().to_string() };
    let result = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(LARGEST_FILE + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| {
            bytes.reserve(usize::try_from(file.metadata()?.len().min(LARGEST_FILE)).unwrap_or(0));
            file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)
        })
    };
    match result {
        Ok(n) if n as u64 > LARGEST_FILE => Err(Failure::file(path, "the file is larger than 2 GiB")),
        Ok(_) => Ok((name, bytes)),
        Err(error) => Err(Failure::file(path, error)),
    }
}
