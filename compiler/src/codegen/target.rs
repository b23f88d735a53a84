//! Target machines.
//!
//! Cranelift's presets leave AVX out, which would turn `fma` into a library call, so features are set one by one; the
//! default x86-64 target is x86-64-v3.

use crate::error::{Error, Result, Site};
use crate::kernel::body::Variant;
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use std::str::FromStr;
use target_lexicon::{Architecture, BinaryFormat, Triple};

/// What a program is compiled for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// Target triple; `None` for the host's.
    pub triple: Option<String>,
    /// CPU: `native`, `x86-64`, `x86-64-v2`, `x86-64-v3`, `x86-64-v4`, or `None` for the default (`x86-64-v3`).
    pub cpu: Option<String>,
    /// Features to add (`+avx2` or `avx2`) or take away (`-fma`).
    pub features: Vec<String>,
}

/// A target machine, ready to compile for.
#[derive(Clone)]
pub struct Target {
    /// Cranelift's description.
    pub isa: OwnedTargetIsa,
    /// The numeric variant that the machine's instructions allow.
    pub variant: Variant,
    /// Names of the instruction set features that the code may use, as `std::is_x86_feature_detected!` spells them.
    pub features: Vec<&'static str>,
}

/// Feature, Cranelift's flag, lowest x86-64 level that has it.
const X86: &[(&str, &str, u8)] = &[
    ("sse3", "has_sse3", 2),
    ("ssse3", "has_ssse3", 2),
    ("sse4.1", "has_sse41", 2),
    ("sse4.2", "has_sse42", 2),
    ("popcnt", "has_popcnt", 2),
    ("cmpxchg16b", "has_cmpxchg16b", 2),
    ("avx", "has_avx", 3),
    ("avx2", "has_avx2", 3),
    ("bmi1", "has_bmi1", 3),
    ("bmi2", "has_bmi2", 3),
    ("fma", "has_fma", 3),
    ("lzcnt", "has_lzcnt", 3),
    ("avx512f", "has_avx512f", 4),
    ("avx512dq", "has_avx512dq", 4),
    ("avx512vl", "has_avx512vl", 4),
];

/// Whether `name` is an x86-64 feature that code generation can make use of.
pub fn is_known_feature(name: &str) -> bool {
    X86.iter().any(|f| f.0 == name)
}

fn target_error(e: impl std::fmt::Display) -> Error {
    Error::Target(e.to_string())
}

impl Target {
    /// Finds the target that the options name.
    ///
    /// # Errors
    /// [`Error::Target`] for unknown triples, CPUs and features.
    pub fn new(options: &TargetOptions) -> Result<Target> {
        let triple = match &options.triple {
            Some(t) => Triple::from_str(t).map_err(|e| Error::Target(format!("'{t}': {e}")))?,
            None => Triple::host(),
        };
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("is_pic", "true"),
            ("unwind_info", "false"),
            ("enable_probestack", "false"),
            ("preserve_frame_pointers", "true"),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ] {
            flags.set(name, value).map_err(target_error)?;
        }
        let flags = settings::Flags::new(flags);
        let unsupported = |feature: String| Error::Unsupported { site: Site::default(), feature };
        if triple.binary_format == BinaryFormat::Coff && triple.architecture != Architecture::X86_64 {
            return Err(unsupported(format!("the target {triple}, COFF objects of other machines than x86-64")));
        }
        let mut builder = isa::lookup(triple.clone()).map_err(|_| unsupported(format!("the target {triple}")))?;
        let mut features = Vec::new();
        let mut variant = Variant::NoFma;
        match triple.architecture {
            Architecture::X86_64 => {
                features = x86_features(options)?;
                for (name, flag, _) in X86 {
                    let on = features.contains(name);
                    builder.set(flag, if on { "true" } else { "false" }).map_err(target_error)?;
                }
                if features.contains(&"avx") && features.contains(&"fma") {
                    variant = Variant::Fma;
                }
            }
            Architecture::Aarch64(_) => {
                only_x86(options, &triple)?;
                variant = Variant::Fma;
            }
            _ => only_x86(options, &triple)?,
        }
        let isa = builder.finish(flags).map_err(target_error)?;
        Ok(Target { isa, variant, features })
    }

    /// Whether vectors of 128 bits are there (riscv64 without V has none).
    pub fn has_vectors(&self) -> bool {
        matches!(self.isa.triple().architecture, Architecture::X86_64 | Architecture::Aarch64(_))
    }

    /// Whether vectors of 256 bits are there for integers and floats alike.
    pub fn has_avx2(&self) -> bool {
        self.is_x86() && self.features.contains(&"avx") && self.features.contains(&"avx2")
    }

    /// Whether floats are rounded to integers by an instruction.
    pub fn rounds(&self) -> bool {
        !self.is_x86() || self.features.contains(&"sse4.1")
    }

    /// Whether this is x86-64.
    pub fn is_x86(&self) -> bool {
        self.isa.triple().architecture == Architecture::X86_64
    }
}

/// Refuses processors and features of a machine that has no names for them here.
fn only_x86(options: &TargetOptions, triple: &Triple) -> Result<()> {
    let cpu = options.cpu.as_ref().filter(|cpu| *cpu != "generic").map(|cpu| format!("CPU '{cpu}'"));
    let feature = options.features.first().map(|feature| format!("feature '{feature}'"));
    match cpu.or(feature) {
        Some(what) => Err(Error::Target(format!("unknown {what} of {triple}: only x86-64 has such names"))),
        None => Ok(()),
    }
}

fn x86_features(options: &TargetOptions) -> Result<Vec<&'static str>> {
    let level = match options.cpu.as_deref() {
        Some("x86-64") | Some("generic") => 1,
        Some("x86-64-v2") => 2,
        Some("x86-64-v3") | None => 3,
        Some("x86-64-v4") => 4,
        Some("native") => {
            let isa = cranelift_native::builder()
                .map_err(target_error)?
                .finish(settings::Flags::new(settings::builder()))
                .map_err(target_error)?;
            let on: Vec<String> =
                isa.isa_flags().iter().filter(|f| f.as_bool() == Some(true)).map(|f| f.name.to_owned()).collect();
            return apply(
                options,
                X86.iter().filter(|(_, flag, _)| on.iter().any(|f| f == flag)).map(|f| f.0).collect(),
            );
        }
        Some(other) => {
            let known = "native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4";
            return Err(Error::Target(format!("unknown CPU '{other}', expected one of {known}")));
        }
    };
    apply(options, X86.iter().filter(|(_, _, l)| *l <= level).map(|(name, _, _)| *name).collect())
}

fn apply(options: &TargetOptions, mut features: Vec<&'static str>) -> Result<Vec<&'static str>> {
    for text in &options.features {
        let (on, name) = match text.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, text.strip_prefix('+').unwrap_or(text)),
        };
        let known = X86.iter().find(|(n, _, _)| *n == name).map(|f| f.0);
        let Some(known) = known else { return Err(Error::Target(format!("unknown feature '{name}'"))) };
        features.retain(|f| *f != known);
        if on {
            features.push(known);
        }
    }
    features.sort_unstable();
    Ok(features)
}
