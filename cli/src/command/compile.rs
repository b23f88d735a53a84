//! `brolga compile`.

use crate::command::args::{CompileArgs, TargetArgs};
use crate::command::failure::Failure;
use crate::command::source::{SizedModules, load_module, load_sizes};
use crate::command::{freeze, output, progress};
use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::collective::Grid;
use brolga_compiler::hlo::Module;
use brolga_compiler::object::{c_header, rust_bindings, static_library};
use brolga_compiler::{
    Artifact, CompileOptions, compile_sizes_with, compile_with, stablehlo, suggestion, symbol_name, text,
};
use brolga_runtime::abi::{DescriptorInfo, IsaFeatures, NumericVariant};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What a compilation can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The object file.
    Obj,
    /// The shared library.
    So,
    /// The object as a static library.
    Lib,
    /// Cranelift's IR.
    Clif,
    /// Assembly.
    Asm,
    /// The module as the passes left it.
    Hlo,
    /// The module as it was read, as StableHLO.
    StableHlo,
    /// The kernel IR.
    Kernel,
    /// The plans of row loops.
    Rows,
    /// A C header.
    Header,
    /// Rust bindings.
    Rs,
}

impl Kind {
    const ALL: [(Kind, &'static str, &'static str); 11] = [
        (Kind::Obj, "obj", "o"),
        (Kind::So, "so", "so"),
        (Kind::Lib, "lib", "a"),
        (Kind::Clif, "clif", "clif"),
        (Kind::Asm, "asm", "s"),
        (Kind::Hlo, "hlo", "opt.hlo"),
        (Kind::StableHlo, "stablehlo", "mlir"),
        (Kind::Kernel, "kernel", "kernel"),
        (Kind::Rows, "rows", "rows"),
        (Kind::Header, "header", "h"),
        (Kind::Rs, "rs", "rs"),
    ];

    fn extension(self) -> &'static str {
        Kind::ALL.into_iter().find(|(kind, ..)| *kind == self).map_or("out", |(.., extension)| extension)
    }
}

/// One entry of `--emit`: `asm` or `asm=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emit {
    kind: Kind,
    path: Option<PathBuf>,
}

impl FromStr for Emit {
    type Err = String;

    fn from_str(text: &str) -> Result<Emit, String> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name, Some(PathBuf::from(path))),
            None => (text, None),
        };
        match Kind::ALL.into_iter().find(|(_, n, _)| *n == name) {
            Some((kind, ..)) => Ok(Emit { kind, path }),
            None => {
                let known = Kind::ALL.map(|(_, n, _)| n);
                Err(format!("'{name}' is none of {}{}", known.join(", "), suggestion(name, known)))
            }
        }
    }
}

/// The compiler's options for a target.
pub fn options(target: &TargetArgs) -> CompileOptions {
    CompileOptions {
        target: TargetOptions {
            triple: target.target.clone(),
            cpu: target.target_cpu.clone(),
            features: target.target_features.clone(),
            variant: None,
        },
        ..CompileOptions::default()
    }
}

/// The devices that the command line names; of what it leaves out, as many as the module says.
fn grid(args: &CompileArgs, modules: &[Module]) -> Option<Grid> {
    let said = modules.first().map_or(Grid::ONE, |module| Grid::of(&module.config));
    let count = |n: Option<u32>, otherwise| n.map_or(otherwise, |n| n as usize);
    let named = args.replicas.is_some() || args.partitions.is_some();
    named.then(|| Grid {
        replicas: count(args.replicas, said.replicas),
        partitions: count(args.partitions, said.partitions),
    })
}

/// `brolga compile`.
pub fn compile(args: &CompileArgs) -> Result<(), Failure> {
    let sizes = args.shapes.sizes();
    let emits = if args.emit.is_empty() { vec![Emit { kind: Kind::Obj, path: None }] } else { args.emit.clone() };
    let loaded = if sizes.len() > 1 {
        let mut loaded = load_sizes(&args.module, &sizes)?;
        freeze::apply_to_sizes(&args.freeze, &mut loaded)?;
        loaded
    } else {
        let (mut module, source) = load_module(&args.module, &args.shapes.options()?)?;
        freeze::apply(&args.freeze, &mut module, &source)?;
        SizedModules { modules: vec![*module], open: Vec::new(), source }
    };
    let SizedModules { modules, open, source } = &loaded;
    let mut stablehlo = String::new();
    if emits.iter().any(|e| e.kind == Kind::StableHlo) {
        let texts: Result<Vec<String>, _> = modules.iter().map(stablehlo::write_text).collect();
        // Modules in one file are parted as MLIR's tools part them.
        stablehlo = texts.map_err(|e| Failure::program(e, source))?.join("// -----\n");
    }
    // What needs no machine code is not refused for what has none.
    if emits.iter().all(|e| e.kind == Kind::StableHlo) {
        return emits.iter().try_for_each(|e| output::write(&destination(args, e, emits.len()), stablehlo.as_bytes()));
    }
    let options = CompileOptions {
        name: args.name.clone().or_else(|| file_name(&args.module).map(symbol_name)),
        threads: args.jobs,
        strict_rounding: args.strict_rounding,
        devices: grid(args, modules),
        debug_lines: args.debug_lines.lines(&args.module),
        shared: emits.iter().find(|e| e.kind == Kind::So).map(|e| library_name(args, e, emits.len())),
        keep_texts: args.dump_to.is_some() || emits.iter().any(|e| matches!(e.kind, Kind::Clif | Kind::Asm)),
        ..options(&args.target)
    };
    let mut dump = args.dump_to.as_deref().map(|dir| Dump::new(dir, args.dump_pass.as_ref())).transpose()?;
    let mut observe = |pass: &str, module: &Module| {
        if let Some(dump) = &mut dump {
            dump.module(pass, module);
        }
    };
    modules.iter().for_each(|module| observe("input", module));
    let compiled = progress::during("compiling", || match modules.as_slice() {
        [module] => compile_with(module, &options, &mut observe).map(|mut a| Compiled {
            object: std::mem::take(&mut a.object),
            shared: a.shared.take(),
            sizes: vec![a],
        }),
        modules => compile_sizes_with(modules, open, &options, &mut observe).map(|a| Compiled {
            object: a.object,
            shared: a.shared,
            sizes: a.sizes,
        }),
    });
    let compiled = compiled.map_err(|e| Failure::program(e, source))?;
    if let Some(mut dump) = dump {
        dump.text("clif", "clif", &compiled.text(|a| a.clif.clone()));
        dump.text("asm", "s", &compiled.text(|a| a.asm.clone()));
        dump.failure.map_or(Ok(()), Err)?;
    }
    let fuses = |d: &DescriptorInfo| d.levels.iter().any(|level| level.contains(IsaFeatures::FMA));
    let of_plain = |d: &&DescriptorInfo| d.variant == NumericVariant::Plain && fuses(d);
    if let Some(descriptor) = compiled.sizes.iter().map(|a| &a.descriptor).find(of_plain) {
        eprintln!(
            "note: a level of '{}' has no fused multiply-add: all of them multiply and add in two steps, to the same bits",
            descriptor.entry
        );
    }
    if args.time_passes {
        for artifact in &compiled.sizes {
            eprintln!("{}", artifact.passes);
            for (part, time) in &artifact.timings {
                eprintln!("{:>9.3} ms  {part}", time.as_secs_f64() * 1e3);
            }
        }
    }
    let library = static_library(&compiled.descriptors(), &compiled.object, args.target.target.as_deref());
    for emit in &emits {
        let path = destination(args, emit, emits.len());
        if emit.kind == Kind::Lib {
            let Some(library) = &library else {
                return Err(Failure::Unsupported("an object too large for an archive".to_owned()));
            };
            // Who links it finds it by this name.
            let named = emit.path.is_some() || (args.output.is_some() && emits.len() == 1);
            output::write(&if named { path } else { path.with_file_name(&library.file) }, &library.bytes)?;
            continue;
        }
        let contents = match emit.kind {
            Kind::StableHlo => stablehlo.clone().into_bytes(),
            kind => compiled.contents(kind),
        };
        output::write(&path, &contents)?;
    }
    Ok(())
}

/// What was compiled: an object for one size or several.
struct Compiled {
    object: Vec<u8>,
    shared: Option<Vec<u8>>,
    sizes: Vec<Artifact>,
}

impl Compiled {
    /// The texts of all sizes, one behind the other.
    fn text(&self, of: impl Fn(&Artifact) -> String) -> String {
        self.sizes.iter().map(of).collect::<Vec<_>>().join("\n")
    }

    fn descriptors(&self) -> Vec<DescriptorInfo> {
        self.sizes.iter().map(|a| a.descriptor.clone()).collect()
    }

    fn contents(&self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Obj => return self.object.clone(),
            Kind::So => return self.shared.clone().unwrap_or_default(),
            Kind::Clif => self.text(|a| a.clif.clone()),
            Kind::Asm => self.text(|a| a.asm.clone()),
            Kind::Hlo => self.text(|a| text::print(&a.module, &text::PrintOptions::default())),
            Kind::Kernel => self.text(Artifact::kernel_text),
            Kind::Rows => self.text(Artifact::rows_text),
            Kind::Header => c_header(&self.descriptors()),
            Kind::Rs => rust_bindings(&self.descriptors()),
            // Written from the modules as they were read, and from the object.
            Kind::StableHlo | Kind::Lib => String::new(),
        }
        .into_bytes()
    }
}

/// The file's name without its ending, as `build.rs` names programs too: JAX calls all functions of one name the same.
fn file_name(module: &Path) -> Option<&str> {
    module.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-")
}

/// Where one kind of output goes: its own path, else `-o` where there is one kind, else beside `-o` or the module.
fn destination(args: &CompileArgs, emit: &Emit, count: usize) -> PathBuf {
    match (&emit.path, &args.output) {
        (Some(path), _) => path.clone(),
        (None, Some(output)) if count == 1 || emit.kind == Kind::Obj => output.clone(),
        (None, None) if count == 1 && !matches!(emit.kind, Kind::Obj | Kind::So | Kind::Lib) => PathBuf::from("-"),
        (None, Some(output)) => output.with_extension(emit.kind.extension()),
        (None, None) => {
            let stem = file_name(&args.module).unwrap_or("module");
            PathBuf::from(format!("{stem}.{}", emit.kind.extension()))
        }
    }
}

/// What a shared library calls itself: the name of its file, by which the dynamic linker looks for it where a program was
/// linked with it.
fn library_name(args: &CompileArgs, emit: &Emit, count: usize) -> String {
    let path = destination(args, emit, count);
    match path.file_name() {
        Some(name) if name != "-" => name.to_string_lossy().into_owned(),
        _ => "module.so".to_owned(),
    }
}

/// Writes what the compiler has between its passes; the modules among it can be run again.
struct Dump<'a> {
    dir: &'a Path,
    wanted: Option<&'a regex_lite::Regex>,
    number: usize,
    failure: Option<Failure>,
}

impl<'a> Dump<'a> {
    fn new(dir: &'a Path, wanted: Option<&'a regex_lite::Regex>) -> Result<Self, Failure> {
        std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, e))?;
        Ok(Dump { dir, wanted, number: 0, failure: None })
    }

    fn module(&mut self, pass: &str, module: &Module) {
        if self.wanted.is_none_or(|r| r.is_match(pass)) {
            self.text(pass, "hlo", &text::print(module, &text::PrintOptions::default()));
        } else {
            self.number += 1;
        }
    }

    fn text(&mut self, pass: &str, extension: &str, text: &str) {
        let path = self.dir.join(format!("{:02}-{pass}.{extension}", self.number));
        self.number += 1;
        if self.wanted.is_none_or(|r| r.is_match(pass))
            && let Err(failure) = output::write(&path, text.as_bytes())
        {
            self.failure.get_or_insert(failure);
        }
    }
}
