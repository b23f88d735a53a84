//! The helper for `build.rs`: precompiles a module and links it into the crate that is being built.
//!
//! ```no_run
//! // build.rs
//! brolga_compiler::aot::Builder::new().module("model.hlo").name("mlp").compile();
//! ```
//!
//! ```ignore
//! // src/main.rs
//! mod model {
//!     include!(concat!(env!("OUT_DIR"), "/mlp.rs"));
//! }
//! let mut mlp = model::Mlp::new()?;
//! mlp.run(&input, &mut output)?; // arrays of the program's own shapes: &[[f32; 8]; 4]
//! let output = mlp.compute(&input)?; // slices, and vectors for the results
//! ```
//!
//! The target is that which Cargo builds for; the object has code for two levels of x86-64, v3 and v4, of which it runs the
//! higher that the processor has ([`Builder::target_cpu`] names others). The package needs `brolga-compiler` as a build dependency and `brolga-runtime`
//! as a dependency. With a checked-in object ([`Builder::object`]) the compiler makes the bindings alone; where library and bindings are
//! both checked in, as `brolga compile --emit=lib,rs` writes them, a package needs no compiler.

mod cache;
mod frozen;

use crate::codegen::target::TargetOptions;
use crate::collective::Grid;
use crate::freeze::{freeze, freeze_sizes};
use crate::front::{self, Argument, ReadOptions, ReadSizes};
use crate::hlo::Module;
use crate::object::{c_header, program_name, read_descriptors, rust_bindings, static_library};
use crate::{
    CompileOptions, DebugLines, LineTable, compile, compile_computations, compile_sizes, shape, symbol_name, text,
};
use brolga_runtime::abi::{Architecture, DescriptorInfo};
use brolga_runtime::{ArrayLiteral, Shape};
use cache::Question;
use frozen::Frozen;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Why a build failed: the file concerned and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The file that was read or written, where there is one.
    pub path: PathBuf,
    /// What went wrong.
    pub message: String,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.as_os_str().is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path.display(), self.message)
        }
    }
}

impl std::error::Error for BuildError {}

fn at(path: &Path, message: impl fmt::Display) -> BuildError {
    BuildError { path: path.to_owned(), message: message.to_string() }
}

/// What a build has written.
#[derive(Clone, Debug)]
pub struct Output {
    /// The object file.
    pub object: PathBuf,
    /// The static library that holds it.
    pub library: PathBuf,
    /// The Rust bindings, for `include!`.
    pub bindings: PathBuf,
    /// The C header.
    pub header: PathBuf,
    /// What the program says of itself, once for each computation or size.
    pub descriptors: Vec<DescriptorInfo>,
}

#[derive(Clone, Debug)]
enum Source {
    Module(PathBuf),
    Modules(Vec<Module>),
    Object(PathBuf),
}

impl Source {
    fn path(&self) -> &Path {
        match self {
            Source::Module(path) | Source::Object(path) => path,
            Source::Modules(_) => Path::new(""),
        }
    }
}

/// Precompiles one module. See the [module's page](self).
#[derive(Clone, Debug, Default)]
pub struct Builder {
    source: Option<Source>,
    name: Option<String>,
    target: Option<String>,
    cpu: Option<String>,
    features: Vec<String>,
    out_dir: Option<PathBuf>,
    cache: Option<PathBuf>,
    options: CompileOptions,
    shapes: Vec<(Argument, Shape)>,
    sizes: Vec<Vec<(Argument, Shape)>>,
    frozen: Vec<Frozen>,
    debug_lines: Option<LineTable>,
    silent: bool,
}

impl Builder {
    /// A builder that knows what Cargo tells a build script.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// The module to compile, in any form that [`crate::front`] reads; relative paths start at the package's root.
    pub fn module(&mut self, path: impl Into<PathBuf>) -> &mut Builder {
        self.source = Some(Source::Module(path.into()));
        self
    }

    /// The computations of one program, such as [`TensorGraph::modules`](crate::tensor::TensorGraph::modules) gives,
    /// instead of a file: all become one object, and bindings for each of them. [`Builder::name`] must name the program.
    pub fn modules(&mut self, modules: impl IntoIterator<Item = Module>) -> &mut Builder {
        self.source = Some(Source::Modules(modules.into_iter().collect()));
        self
    }

    /// The shape of an argument, by its name, whose sizes a StableHLO program leaves open.
    pub fn shape(&mut self, argument: impl Into<String>, shape: Shape) -> &mut Builder {
        self.shapes.push((Argument::Name(argument.into()), shape));
        self
    }

    /// A size that the program is compiled for: shapes of arguments, by their names, whose sizes a StableHLO program leaves
    /// open. Called several times it gives one object for several sizes, and bindings that choose among them.
    ///
    /// ```no_run
    /// # use brolga_runtime::{ElementType, Shape};
    /// let mut builder = brolga_compiler::aot::Builder::new();
    /// for batch in [1, 8] {
    ///     builder.size([("x", Shape::array(ElementType::F32, [batch, 128]))]);
    /// }
    /// builder.module("model.mlir").name("model").compile();
    /// ```
    pub fn size<N: Into<String>>(&mut self, shapes: impl IntoIterator<Item = (N, Shape)>) -> &mut Builder {
        self.sizes.push(shapes.into_iter().map(|(name, shape)| (Argument::Name(name.into()), shape)).collect());
        self
    }

    /// Makes the parameter of that name a constant: it vanishes from the bindings, and what depends on constants alone is computed
    /// now. Results are the same bits as those of the whole program ([`freeze`](fn@crate::freeze)). For programs that
    /// [`Builder::module`] names.
    pub fn freeze(&mut self, parameter: impl Into<String>, value: ArrayLiteral) -> &mut Builder {
        self.frozen.push(Frozen::Value(parameter.into(), value));
        self
    }

    /// As [`Builder::freeze`], with the array of a file of NumPy's.
    pub fn freeze_npy(&mut self, parameter: impl Into<String>, path: impl Into<PathBuf>) -> &mut Builder {
        self.frozen.push(Frozen::Npy(parameter.into(), path.into()));
        self
    }

    /// As [`Builder::freeze`], of every parameter whose name is that of a tensor in the file. Needs the feature `checkpoint`.
    ///
    /// ```no_run
    /// brolga_compiler::aot::Builder::new().module("model.jax").freeze_safetensors("weights.safetensors").compile();
    /// ```
    #[cfg(feature = "checkpoint")]
    pub fn freeze_safetensors(&mut self, path: impl Into<PathBuf>) -> &mut Builder {
        self.frozen.push(Frozen::Safetensors(path.into()));
        self
    }

    /// An object that was compiled before, checked in perhaps, instead of a module. It must be for Cargo's target.
    pub fn object(&mut self, path: impl Into<PathBuf>) -> &mut Builder {
        self.source = Some(Source::Object(path.into()));
        self
    }

    /// Compiles for so many replicas, and partitions of each, instead of those that the program says or its groups name.
    /// Who runs it says by [`RunOptions::device`](brolga_runtime::RunOptions::device) which device a run is.
    pub fn devices(&mut self, replicas: usize, partitions: usize) -> &mut Builder {
        self.options.devices = Some(Grid { replicas, partitions });
        self
    }

    /// Symbol of the entry function, and the name of all files written; by default the source file's name.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Builder {
        self.name = Some(name.into());
        self
    }

    /// The target triple instead of Cargo's.
    pub fn target(&mut self, triple: impl Into<String>) -> &mut Builder {
        self.target = Some(triple.into());
        self
    }

    /// The processors to compile for: levels such as `x86-64-v2,x86-64-v3`, of which the program runs the highest that it
    /// can, instead of [`DEFAULT_LEVELS`](crate::codegen::target::DEFAULT_LEVELS). Below the lowest, a run is an error.
    pub fn target_cpu(&mut self, cpu: impl Into<String>) -> &mut Builder {
        self.cpu = Some(cpu.into());
        self
    }

    /// A feature to add (`avx2`) or to take away (`-fma`).
    pub fn target_feature(&mut self, feature: impl Into<String>) -> &mut Builder {
        self.features.push(feature.into());
        self
    }

    /// Where files go, instead of `OUT_DIR`.
    pub fn out_dir(&mut self, path: impl Into<PathBuf>) -> &mut Builder {
        self.out_dir = Some(path.into());
        self
    }

    /// Where compiled objects are kept for later builds, and looked for, instead of the folder that the environment variable
    /// `BROLGA_CACHE` names; without either there is no cache. Builds may share a folder, at the same time too. Nothing is ever
    /// removed from it.
    pub fn cache(&mut self, folder: impl Into<PathBuf>) -> &mut Builder {
        self.cache = Some(folder.into());
        self
    }

    /// Tells debuggers and profilers from which line code comes, of the text that is named here. The object gets sections of
    /// DWARF for it, which must be in ELF; without this, as in [`Builder::options`], there are none.
    pub fn debug_lines(&mut self, table: LineTable) -> &mut Builder {
        self.debug_lines = Some(table);
        self
    }

    /// Options of the compiler. Their target and name are replaced by the builder's.
    pub fn options(&mut self, options: CompileOptions) -> &mut Builder {
        self.options = options;
        self
    }

    /// Whether to print nothing to Cargo: for use outside build scripts.
    pub fn silent(&mut self, silent: bool) -> &mut Builder {
        self.silent = silent;
        self
    }

    /// Compiles, writes the files and tells Cargo to link the library.
    ///
    /// Where anything fails, Cargo shows the message, with the line of the program underlined, and the build script ends.
    ///
    /// # Panics
    /// Where anything fails and nobody listens to this: outside a build script, or with [`Builder::silent`].
    pub fn compile(&self) -> Output {
        match self.try_compile() {
            Ok(output) => output,
            Err(error) if !self.silent && environment("OUT_DIR").is_some() => {
                for line in format!("brolga: {error}").lines() {
                    println!("cargo::error={line}");
                }
                std::process::exit(1);
            }
            Err(error) => panic!("\n\nbrolga: {error}\n\n"),
        }
    }

    /// As [`Builder::compile`].
    ///
    /// # Errors
    /// Where a file cannot be read or written, or the program cannot be compiled.
    pub fn try_compile(&self) -> Result<Output, BuildError> {
        let missing = |what: &str| at(Path::new(""), what);
        let source = self.source.as_ref().ok_or_else(|| missing("no module was given: call `module` or `object`"))?;
        let path = source.path();
        if !path.as_os_str().is_empty() {
            self.tell(format_args!("cargo:rerun-if-changed={}", path.display()));
        }
        if !self.frozen.is_empty() && !matches!(source, Source::Module(_)) {
            return Err(at(path, "parameters are frozen in a module from a file, found another source"));
        }
        for path in self.frozen.iter().filter_map(Frozen::path) {
            self.tell(format_args!("cargo:rerun-if-changed={}", path.display()));
        }
        let target = self.target_options();
        let read = || std::fs::read(path).map_err(|e| at(path, e));
        let (object, descriptors) = match source {
            Source::Module(_) => self.compile_module(path, read()?, target.clone())?,
            Source::Modules(modules) => self.compile_modules(modules, target.clone())?,
            Source::Object(_) => self.take_object(path, read()?, target.triple.as_deref())?,
        };
        let directory = match &self.out_dir {
            Some(directory) => directory.clone(),
            None => environment("OUT_DIR").map(PathBuf::from).ok_or_else(|| missing("OUT_DIR is not set"))?,
        };
        self.write(&directory, object, descriptors, target.triple.as_deref())
    }

    /// What the compiler is told of the program called `name`, which was read from `file`.
    fn compile_options(&self, target: TargetOptions, name: String, file: &str) -> CompileOptions {
        let own = self.debug_lines.map(|table| DebugLines { table, file: file.to_owned() });
        let debug_lines = own.or_else(|| self.options.debug_lines.clone());
        CompileOptions { target, name: Some(name), debug_lines, ..self.options.clone() }
    }

    fn compile_module(
        &self,
        path: &Path,
        bytes: Vec<u8>,
        target: TargetOptions,
    ) -> Result<(Vec<u8>, Vec<DescriptorInfo>), BuildError> {
        let ending = path.extension().and_then(|e| e.to_str());
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("program");
        let name = symbol_name(self.name.as_deref().unwrap_or(stem));
        let options = self.compile_options(target, name, &path.display().to_string());
        let read = |shapes: &[(Argument, Shape)]| ReadOptions {
            shapes: self.shapes.iter().chain(shapes).cloned().collect(),
            ..ReadOptions::default()
        };
        let weights = self.frozen.iter().map(Frozen::load).collect::<Result<Vec<_>, _>>()?;
        let make = || {
            if self.sizes.is_empty() {
                let mut module = front::read(&bytes, ending, &read(&[]))?.module;
                shape::verify(&module)?;
                let values = frozen::values(&weights, &module)?;
                freeze(&mut module, &values)?;
                compile(&module, &options).map(|artifact| artifact.object)
            } else {
                let sizes: Vec<ReadOptions> = self.sizes.iter().map(|shapes| read(shapes)).collect();
                let ReadSizes { mut modules, mut open } = front::read_sizes(&bytes, ending, &sizes)?;
                modules.iter().try_for_each(shape::verify)?;
                if let Some(first) = modules.first() {
                    let values = frozen::values(&weights, first)?;
                    freeze_sizes(&mut modules, &mut open, &values)?;
                }
                compile_sizes(&modules, &open, &options).map(|artifact| artifact.object)
            }
        };
        let frozen: Vec<usize> = weights.iter().map(|weight| weight.bytes().len()).collect();
        let given = format!("{ending:?} {:?} {:?} {:?} {frozen:?}", self.shapes, self.sizes, self.frozen);
        let contents = [&*bytes].into_iter().chain(weights.iter().map(|weight| weight.bytes()));
        let program = contents.collect::<Vec<_>>().concat();
        let object = self.cached(&options, &given, &program, make).map_err(|error| {
            match std::str::from_utf8(&bytes).ok().and_then(|text| error.excerpt(text)) {
                Some(excerpt) => at(path, format!("{error}\n{excerpt}")),
                None => at(path, error),
            }
        })?;
        // As a reader of the object sees it, so that bindings made from the object alone are the same.
        let descriptors = read_descriptors(&object).map_err(|e| at(path, e))?;
        Ok((object, descriptors))
    }

    fn compile_modules(
        &self,
        modules: &[Module],
        target: TargetOptions,
    ) -> Result<(Vec<u8>, Vec<DescriptorInfo>), BuildError> {
        let here = Path::new("");
        let name = self.name.as_deref().ok_or_else(|| at(here, "modules need a name: call `name`"))?;
        let options = self.compile_options(target, symbol_name(name), name);
        let print = |module: &Module| text::print(module, &text::PrintOptions::default());
        let program: String = modules.iter().map(print).collect();
        let make = || compile_computations(modules, &options).map(|artifact| artifact.object);
        let mut given = "modules".to_owned();
        if options.debug_lines.is_some() {
            // The text does not say where in Rust an instruction was built.
            let computations = modules.iter().flat_map(|module| module.computations.values());
            for inst in computations.flat_map(|computation| computation.instructions.values()) {
                given += &format!(" {}", inst.location);
            }
        }
        let object = self.cached(&options, &given, program.as_bytes(), make).map_err(|e| at(here, e))?;
        let descriptors = read_descriptors(&object).map_err(|e| at(here, e))?;
        Ok((object, descriptors))
    }

    /// The object that `make` compiles, from the cache where it is there.
    fn cached(
        &self,
        options: &CompileOptions,
        given: &str,
        program: &[u8],
        make: impl FnOnce() -> crate::Result<Vec<u8>>,
    ) -> crate::Result<Vec<u8>> {
        self.tell(format_args!("cargo:rerun-if-env-changed=BROLGA_CACHE"));
        let folder = self.cache.clone().or_else(|| environment("BROLGA_CACHE").map(PathBuf::from));
        let Some((folder, question)) = folder.zip(Question::new(options, given, program)) else { return make() };
        if let Some(object) = question.find(&folder) {
            return Ok(object);
        }
        let object = make()?;
        if let Err(error) = question.keep(&folder, &object) {
            self.tell(format_args!("cargo:warning=brolga: nothing is kept in {}: {error}", folder.display()));
        }
        Ok(object)
    }

    fn take_object(
        &self,
        path: &Path,
        bytes: Vec<u8>,
        triple: Option<&str>,
    ) -> Result<(Vec<u8>, Vec<DescriptorInfo>), BuildError> {
        let descriptors = read_descriptors(&bytes).map_err(|e| at(path, e))?;
        let Some(descriptor) = descriptors.first() else { return Err(at(path, "the object holds no program")) };
        let wanted = triple.and_then(|t| t.parse::<target_lexicon::Triple>().ok()).map(|t| t.architecture);
        let fits = match wanted {
            None => true,
            Some(target_lexicon::Architecture::X86_64) => descriptor.architecture == Architecture::X86_64,
            Some(target_lexicon::Architecture::Aarch64(_)) => descriptor.architecture == Architecture::Aarch64,
            Some(target_lexicon::Architecture::Riscv64(_)) => descriptor.architecture == Architecture::Riscv64,
            Some(target_lexicon::Architecture::S390x) => descriptor.architecture == Architecture::S390x,
            Some(_) => false,
        };
        if !fits {
            let message =
                format!("the object is for {}, the build for {}", descriptor.architecture, triple.unwrap_or("?"));
            return Err(at(path, message));
        }
        let own = program_name(descriptors.iter());
        if let Some(name) = self.name.as_ref().filter(|n| *n != own) {
            return Err(at(path, format!("the object's program is called '{own}', not '{name}'")));
        }
        Ok((bytes, descriptors))
    }

    fn write(
        &self,
        directory: &Path,
        object: Vec<u8>,
        descriptors: Vec<DescriptorInfo>,
        triple: Option<&str>,
    ) -> Result<Output, BuildError> {
        let name = program_name(descriptors.iter()).to_owned();
        self.claim(directory.join(&name))?;
        std::fs::create_dir_all(directory).map_err(|e| at(directory, e))?;
        let library = static_library(&descriptors, &object, triple)
            .ok_or_else(|| at(directory, "the object is too large for an archive"))?;
        let output = Output {
            object: directory.join(format!("{name}.o")),
            library: directory.join(&library.file),
            bindings: directory.join(format!("{name}.rs")),
            header: directory.join(format!("{name}.h")),
            descriptors,
        };
        for (path, bytes) in [
            (&output.object, object),
            (&output.library, library.bytes),
            (&output.bindings, rust_bindings(&output.descriptors).into_bytes()),
            (&output.header, c_header(&output.descriptors).into_bytes()),
        ] {
            std::fs::write(path, bytes).map_err(|e| at(path, e))?;
        }
        self.tell(format_args!("cargo:rustc-link-search=native={}", directory.display()));
        self.tell(format_args!("cargo:rustc-link-lib=static={}", library.name));
        Ok(output)
    }

    /// Takes a name in a folder for this builder's program: another program of this process would overwrite its files.
    fn claim(&self, stem: PathBuf) -> Result<(), BuildError> {
        static CLAIMED: Mutex<BTreeMap<PathBuf, (String, PathBuf)>> = Mutex::new(BTreeMap::new());
        let path = self.source.as_ref().map_or(Path::new(""), Source::path);
        let this = (format!("{self:?}"), path.to_owned());
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        match claimed.get(&stem) {
            Some((other, first)) if *other != this.0 => {
                let name = stem.file_name().unwrap_or_default().display();
                let message = format!(
                    "{} is called '{name}' already: give one of them another name with `name`",
                    first.display()
                );
                Err(at(path, message))
            }
            _ => {
                claimed.insert(stem, this);
                Ok(())
            }
        }
    }

    /// Cargo's target; its features may be those of the machine that builds, so the levels do not follow them.
    fn target_options(&self) -> TargetOptions {
        let triple = self.target.clone().or_else(|| environment("TARGET"));
        TargetOptions { triple, cpu: self.cpu.clone(), features: self.features.clone(), variant: None }
    }

    fn tell(&self, line: fmt::Arguments<'_>) {
        if !self.silent {
            println!("{line}");
        }
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MODULE: &str = "HloModule m\n\nENTRY %main (x: f32[4], y: f32[4]) -> f32[4] {\n  %x = f32[4]{0} parameter(0)\n  \
        %y = f32[4]{0} parameter(1)\n  ROOT %z = f32[4]{0} add(f32[4]{0} %x, f32[4]{0} %y)\n}\n";

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("brolga-aot-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn a_module_becomes_a_library_and_bindings() {
        let directory = directory("module");
        let module = directory.join("model.hlo");
        std::fs::write(&module, MODULE).unwrap();
        let mut builder = Builder::new();
        builder.silent(true).module(&module).name("adder").target("x86_64-unknown-linux-gnu").out_dir(&directory);
        let output = builder.compile();
        let bindings = std::fs::read_to_string(&output.bindings).unwrap();
        assert!(
            bindings.contains("pub fn run(&mut self, x: &[f32; 4], y: &[f32; 4], out0: &mut [f32; 4])"),
            "{bindings}"
        );
        assert!(output.library.ends_with("libbrolga_adder.a"));
        assert_eq!(read_descriptors(&std::fs::read(&output.object).unwrap()).unwrap()[0].entry, "adder");

        // Debug lines name the file as the builder was told.
        let mut lined = Builder::new();
        lined.silent(true).module(&module).name("adder").target("x86_64-unknown-linux-gnu");
        let lined = lined.out_dir(directory.join("lined")).debug_lines(LineTable::Hlo).compile();
        let names = |object: &Path| std::fs::read(object).unwrap().windows(9).any(|bytes| bytes == b"model.hlo");
        assert!(names(&lined.object) && !names(&output.object));

        // The object can be checked in and taken as it is.
        let again = directory.join("again");
        std::fs::create_dir_all(&again).unwrap();
        let mut from_object = Builder::new();
        from_object.silent(true).object(&output.object).target("x86_64-unknown-linux-gnu").out_dir(&again);
        let second = from_object.try_compile().unwrap();
        assert_eq!(std::fs::read(&output.library).unwrap(), std::fs::read(&second.library).unwrap());
        assert_eq!(bindings, std::fs::read_to_string(&second.bindings).unwrap());
        let error = from_object.target("aarch64-unknown-linux-gnu").try_compile().unwrap_err();
        assert!(error.message.contains("the object is for x86_64"), "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn programs_of_one_name_do_not_overwrite_each_other() {
        let directory = directory("names");
        let (one, two) = (directory.join("one"), directory.join("two"));
        for folder in [&one, &two] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("model.hlo"), MODULE).unwrap();
        }
        let builder = |folder: &Path| {
            let mut builder = Builder::new();
            builder
                .silent(true)
                .module(folder.join("model.hlo"))
                .target("x86_64-unknown-linux-gnu")
                .out_dir(&directory);
            builder
        };
        builder(&one).compile();
        let error = builder(&two).try_compile().unwrap_err().to_string();
        assert!(error.contains("two") && error.contains("model.hlo is called 'model' already"), "{error}");
        // The same again is the same, and so is what has a name of its own.
        builder(&one).compile();
        builder(&two).name("other").compile();
        let error = builder(&two).name("model").options(CompileOptions::default()).try_compile().unwrap_err();
        assert!(error.message.contains("with `name`"), "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// The entries of a cache, by name.
    fn entries(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    #[test]
    fn objects_are_kept_and_damaged_ones_are_made_again() {
        let directory = directory("cache");
        let (module, cache) = (directory.join("model.hlo"), directory.join("cache"));
        std::fs::write(&module, MODULE).unwrap();
        let mut builder = Builder::new();
        builder.silent(true).module(&module).target("x86_64-unknown-linux-gnu").out_dir(&directory).cache(&cache);
        let object = |builder: &Builder| std::fs::read(builder.compile().object).unwrap();
        let first = object(&builder);
        let kept = entries(&cache);
        assert_eq!(kept.len(), 1);
        // What is kept is used: an entry with another program's object answers with that.
        let other = directory.join("other.hlo");
        std::fs::write(&other, MODULE.replace("add(", "multiply(")).unwrap();
        let mut second = builder.clone();
        let multiplied = object(second.module(&other).name("model").out_dir(directory.join("second")));
        assert_eq!(entries(&cache).len(), 2);
        assert_ne!(first, multiplied);
        let (path, entry) = kept.first_key_value().unwrap();
        let question = &entry[..entry.len() - first.len()];
        std::fs::write(path, [question, &multiplied].concat()).unwrap();
        assert_eq!(object(&builder), multiplied);
        // Entries that were cut off or changed are made again, and then whole.
        let mut damaged = vec![Vec::new(), entry[..entry.len() - 1].to_vec(), entry[..20].to_vec()];
        for place in [0, 16, question.len() / 2, question.len() + 100, entry.len() - 9] {
            let mut bytes = entry.clone();
            bytes[place] ^= 1;
            damaged.push(bytes);
        }
        for bytes in damaged {
            std::fs::write(path, bytes).unwrap();
            assert_eq!(object(&builder), first);
            assert_eq!(&std::fs::read(path).unwrap(), entry);
        }
        // Another level, another option, another question.
        for (count, change) in [
            (3, &(|b: &mut Builder| b.target_cpu("x86-64-v2").clone()) as &dyn Fn(&mut Builder) -> Builder),
            (4, &|b| b.options(CompileOptions { strict_rounding: true, ..CompileOptions::default() }).clone()),
            (5, &|b| b.name("renamed").clone()),
        ] {
            change(builder.clone().out_dir(directory.join(count.to_string()))).compile();
            assert_eq!(entries(&cache).len(), count);
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn builds_at_the_same_time_share_a_cache() {
        let directory = directory("shared-cache");
        let (module, cache) = (directory.join("model.hlo"), directory.join("cache"));
        std::fs::write(&module, MODULE).unwrap();
        let build = |n: usize| {
            let mut builder = Builder::new();
            let out = directory.join(n.to_string());
            std::fs::create_dir_all(&out).unwrap();
            builder.silent(true).module(&module).target("x86_64-unknown-linux-gnu").out_dir(out).cache(&cache);
            std::fs::read(builder.compile().object).unwrap()
        };
        let objects: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || build(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(objects.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(entries(&cache).len(), 1, "no temporary file is left");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    /// A build script is a process that ends: this test is one, when it is asked for a module by the variable.
    #[test]
    fn a_build_script_that_fails_ends_with_errors_of_cargo() {
        const ASKED: &str = "BROLGA_TEST_BUILD_SCRIPT";
        if let Some(module) = environment(ASKED) {
            Builder::new().module(module).target("x86_64-unknown-linux-gnu").compile();
            return;
        }
        let directory = directory("script");
        let module = directory.join("bad.hlo");
        std::fs::write(&module, MODULE.replace("add(", "addd(")).unwrap();
        let mut script = std::process::Command::new(std::env::current_exe().unwrap());
        script.args(["--exact", "--nocapture", "aot::tests::a_build_script_that_fails_ends_with_errors_of_cargo"]);
        let output = script.env(ASKED, &module).env("OUT_DIR", &directory).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let errors: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("cargo::error=")).collect();
        assert!(errors[0].starts_with("brolga: ") && errors[0].contains("bad.hlo: line 6"), "{said}");
        assert!(errors[0].ends_with("found 'addd'; did you mean 'add'?"), "{said}");
        assert_eq!(
            errors[2..],
            ["6 |   ROOT %z = f32[4]{0} addd(f32[4]{0} %x, f32[4]{0} %y)", "  |                       ^^^^"]
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn mistakes_are_named() {
        assert!(Builder::new().try_compile().unwrap_err().message.contains("no module was given"));
        let error = Builder::new().silent(true).module("/no/such/file.hlo").try_compile().unwrap_err();
        assert!(error.to_string().contains("file.hlo"), "{error}");
        let directory = directory("mistakes");
        let module = directory.join("bad.hlo");
        std::fs::write(&module, MODULE.replace("add(", "ad(")).unwrap();
        let error = Builder::new().silent(true).module(&module).out_dir(&directory).try_compile().unwrap_err();
        assert!(error.to_string().contains("line 6"), "{error}");
        let lines: Vec<&str> = error.message.lines().skip(1).collect();
        let want = ["  |", "6 |   ROOT %z = f32[4]{0} ad(f32[4]{0} %x, f32[4]{0} %y)", "  |                       ^^"];
        assert_eq!(lines, want, "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
