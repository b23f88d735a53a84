//! Target machines.
//!
//! Cranelift's presets leave AVX out, which would turn `fma` into a library call, so features are set one by one. A program
//! for x86-64 may be compiled for several levels at once, x86-64-v3 and x86-64-v4 where nothing is said; all compute with one
//! numeric variant, so that its results do not depend on the processor.

use super::effort::Effort;
use super::rows::Width;
use crate::error::{Error, Result, Site, suggestion};
use crate::kernel::body::Variant;
use brolga_runtime::abi::{IsaFeatures, NumericVariant};
use cranelift_codegen::isa::{self, CallConv, LookupError, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use std::str::FromStr;
use target_lexicon::{Architecture, BinaryFormat, Endianness, PointerWidth, Riscv64Architecture, Triple};

/// What a program is compiled for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// Target triple; `None` for the host's.
    pub triple: Option<String>,
    /// CPU: `native`, or levels among `x86-64`, `x86-64-v2`, `x86-64-v3` and `x86-64-v4`, separated by commas: the program
    /// runs the highest that the processor has. `None` for [`DEFAULT_LEVELS`] where the machine is x86-64.
    pub cpu: Option<String>,
    /// Features to add (`+avx2` or `avx2`) or take away (`-fma`), at each level.
    pub features: Vec<String>,
    /// The arithmetic, such as that of an object whose results are to be had elsewhere; `None` for the fused one where all
    /// levels have it.
    pub variant: Option<NumericVariant>,
}

impl TargetOptions {
    /// The machine at hand.
    pub fn native() -> TargetOptions {
        let cpu = cfg!(target_arch = "x86_64").then(|| NATIVE.to_owned());
        TargetOptions { cpu, ..TargetOptions::default() }
    }
}

/// The levels of x86-64 that a program is compiled for where none is named.
pub const DEFAULT_LEVELS: &str = "x86-64-v3,x86-64-v4";

const NATIVE: &str = "native";

/// A target machine, ready to compile for.
#[derive(Clone)]
pub struct Target {
    /// The level in the names of its functions; empty where there are none.
    pub level: String,
    /// Cranelift's description.
    pub isa: OwnedTargetIsa,
    /// The same, for functions of which nothing is simplified, ...
    unsimplified: OwnedTargetIsa,
    /// ... and for those that are worth the least.
    least: OwnedTargetIsa,
    /// The numeric variant that the machine's instructions allow.
    pub variant: Variant,
    /// Names of the instruction set features that the code may use, as `std::is_x86_feature_detected!` spells them.
    pub features: Vec<&'static str>,
}

/// Where a processor tells of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// `ecx` of leaf 1.
    First,
    /// `ebx` of leaf 7.
    Seventh,
    /// `ecx` of leaf 7.
    SeventhMore,
    /// `eax` of the second part of leaf 7.
    SeventhSecond,
    /// `ecx` of leaf 0x8000_0001.
    Extended,
}

/// A feature of x86-64 that code generation can make use of.
#[derive(Debug)]
pub struct Feature {
    /// Its name, as `std::is_x86_feature_detected!` spells it.
    pub name: &'static str,
    /// Cranelift's name of it, where it has one.
    flag: Option<&'static str>,
    /// The lowest level that has it; `None` where it stands apart from them.
    level: Option<u8>,
    /// Where the processor tells of it.
    pub leaf: Leaf,
    /// The bit there.
    pub bit: u32,
}

const fn feature(name: &'static str, flag: &'static str, level: u8, leaf: Leaf, bit: u32) -> Feature {
    Feature { name, flag: Some(flag), level: Some(level), leaf, bit }
}

const fn apart(name: &'static str, leaf: Leaf, bit: u32) -> Feature {
    Feature { name, flag: None, level: None, leaf, bit }
}

/// Every feature.
pub const X86: &[Feature] = &[
    feature("sse3", "has_sse3", 2, Leaf::First, 0),
    feature("ssse3", "has_ssse3", 2, Leaf::First, 9),
    feature("sse4.1", "has_sse41", 2, Leaf::First, 19),
    feature("sse4.2", "has_sse42", 2, Leaf::First, 20),
    feature("popcnt", "has_popcnt", 2, Leaf::First, 23),
    feature("cmpxchg16b", "has_cmpxchg16b", 2, Leaf::First, 13),
    feature("avx", "has_avx", 3, Leaf::First, 28),
    feature("avx2", "has_avx2", 3, Leaf::Seventh, 5),
    feature("bmi1", "has_bmi1", 3, Leaf::Seventh, 3),
    feature("bmi2", "has_bmi2", 3, Leaf::Seventh, 8),
    feature("fma", "has_fma", 3, Leaf::First, 12),
    feature("lzcnt", "has_lzcnt", 3, Leaf::Extended, 5),
    feature("avx512f", "has_avx512f", 4, Leaf::Seventh, 16),
    // Cranelift has no form that needs it.
    Feature { name: "avx512bw", flag: None, level: Some(4), leaf: Leaf::Seventh, bit: 30 },
    feature("avx512dq", "has_avx512dq", 4, Leaf::Seventh, 17),
    feature("avx512vl", "has_avx512vl", 4, Leaf::Seventh, 31),
    apart("avx512vnni", Leaf::SeventhMore, 11),
    apart("avxvnni", Leaf::SeventhSecond, 4),
    apart("avx512bf16", Leaf::SeventhSecond, 5),
];

fn target_error(e: impl std::fmt::Display) -> Error {
    Error::Target(e.to_string())
}

impl Target {
    /// Finds the machines that the options name, the lowest level first. All have the variant that the lowest allows.
    ///
    /// # Errors
    /// [`Error::Target`] for unknown triples, CPUs and features.
    pub fn levels(options: &TargetOptions) -> Result<Vec<Target>> {
        let triple = match &options.triple {
            Some(t) => Triple::from_str(t).map_err(|e| Error::Target(format!("'{t}': {e}")))?,
            None => Triple::host(),
        };
        let unsupported = |feature: String| Error::Unsupported { site: Site::default(), feature };
        let has_coff = matches!(triple.architecture, Architecture::X86_64 | Architecture::Aarch64(_));
        if triple.binary_format == BinaryFormat::Coff && !has_coff {
            return Err(unsupported(format!(
                "the target {triple}, COFF objects of other machines than x86-64 and aarch64"
            )));
        }
        // The pointers of the interface are of 64 bits. Vectors are laid out for the low byte first.
        let order = if triple.architecture == Architecture::S390x { Endianness::Big } else { Endianness::Little };
        if triple.endianness() != Ok(order) || triple.pointer_width() != Ok(PointerWidth::U64) {
            return Err(unsupported(format!("the target {triple}")));
        }
        let [full, unsimplified, least] = flags(&triple)?;
        let one = |level: String, features: Vec<&'static str>, variant| -> Result<Target> {
            let mut builder = isa::lookup(triple.clone()).map_err(|e| unsupported(missing(e, &triple)))?;
            for f in X86.iter().filter(|_| triple.architecture == Architecture::X86_64) {
                let Some(flag) = f.flag else { continue };
                let on = features.contains(&f.name);
                builder.set(flag, if on { "true" } else { "false" }).map_err(target_error)?;
            }
            let isa = |flags| builder.finish(flags).map_err(target_error);
            let (isa, unsimplified, least) = (isa(full.clone())?, isa(unsimplified.clone())?, isa(least.clone())?);
            Ok(Target { level, isa, unsimplified, least, variant, features })
        };
        match triple.architecture {
            Architecture::X86_64 => {
                let levels = x86_levels(options)?;
                let fuses = |features: &Vec<&str>| features.contains(&"avx") && features.contains(&"fma");
                let all_fuse = levels.iter().all(|(_, features)| fuses(features));
                let variant = variant(options, all_fuse)?;
                levels.into_iter().map(|(level, features)| one(level, features, variant)).collect()
            }
            // The base of each of these architectures has fused multiply-add.
            Architecture::Aarch64(_) | Architecture::Riscv64(Riscv64Architecture::Riscv64gc) | Architecture::S390x => {
                only_x86(options, &triple)?;
                Ok(vec![one(String::new(), Vec::new(), variant(options, true)?)?])
            }
            _ => Err(unsupported(format!("the target {triple}"))),
        }
    }

    /// Cranelift's description, for functions that are worth so much.
    pub fn isa_for(&self, effort: Effort) -> &dyn TargetIsa {
        match effort {
            Effort::Full => &*self.isa,
            Effort::Unsimplified => &*self.unsimplified,
            Effort::Least => &*self.least,
        }
    }

    /// Puts the bytes of little-endian numbers of `size` bytes into the order that the machine has in memory.
    pub fn order_bytes(&self, numbers: &mut [u8], size: usize) {
        if self.isa.endianness() == cranelift_codegen::ir::Endianness::Big {
            numbers.chunks_mut(size.max(1)).for_each(<[u8]>::reverse);
        }
    }

    /// Whether code uses vectors of 128 bits: riscv64 without V has none, and on s390x their lanes and bytes have another order
    /// than the emitter knows.
    pub fn has_vectors(&self) -> bool {
        matches!(self.isa.triple().architecture, Architecture::X86_64 | Architecture::Aarch64(_))
    }

    /// Whether vectors of 256 bits are there for integers and floats alike.
    pub fn has_avx2(&self) -> bool {
        self.is_x86() && self.features.contains(&"avx") && self.features.contains(&"avx2")
    }

    /// Whether vectors of 512 bits are there, with what 256 bits have.
    pub fn has_avx512(&self) -> bool {
        self.has_avx2() && self.features.contains(&"avx512f")
    }

    /// The widest registers in which four products of bytes are added to a word by one instruction (`vpdpbusd`).
    pub fn byte_products(&self) -> Option<Width> {
        if self.has_avx512() && self.features.contains(&"avx512vnni") {
            return Some(Width::W512);
        }
        (self.has_avx2() && self.features.contains(&"avxvnni")).then_some(Width::W256)
    }

    /// Whether two products of `bf16` are added to an `f32` by one instruction (`vdpbf16ps`), in registers of 512 bits.
    pub fn has_bf16_products(&self) -> bool {
        self.has_avx512() && self.variant == Variant::Fma && self.features.contains(&"avx512bf16")
    }

    /// The widest registers that rows of loops go by in, if wider than those of CLIF.
    pub fn widest_rows(&self) -> Option<Width> {
        let all = self.has_avx512() && ["avx512bw", "avx512dq"].iter().all(|name| self.features.contains(name));
        let widest = if all { Width::W512 } else { Width::W256 };
        self.has_avx2().then_some(widest)
    }

    /// How the host calls functions, those of the program and those that it lends: as its C compiler does.
    pub fn host_convention(&self) -> CallConv {
        let windows = self.is_x86() && self.isa.triple().binary_format == BinaryFormat::Coff;
        if windows { CallConv::WindowsFastcall } else { CallConv::SystemV }
    }

    /// Whether functions outside of the object are reached by distances, which the linker fills in. Elsewhere their addresses are
    /// taken from the global offset table, for which Cranelift has no form on s390x, and aarch64 none in COFF.
    pub fn branches_to_imports(&self) -> bool {
        let triple = self.isa.triple();
        match triple.architecture {
            Architecture::S390x => true,
            Architecture::Aarch64(_) => triple.binary_format == BinaryFormat::Coff,
            _ => false,
        }
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

/// What is not supported where Cranelift has no back end: the target, or the target without the feature that brings it.
fn missing(error: LookupError, triple: &Triple) -> String {
    let feature = match triple.architecture {
        Architecture::X86_64 => "x86",
        Architecture::Aarch64(_) => "arm64",
        Architecture::Riscv64(_) => "riscv64",
        Architecture::S390x => "s390x",
        _ => return format!("the target {triple}"),
    };
    match error {
        LookupError::SupportDisabled => format!("the target {triple} without brolga-compiler's feature `{feature}`"),
        LookupError::Unsupported => format!("the target {triple}"),
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

/// The variant that is asked for, where the machine can.
fn variant(options: &TargetOptions, fuses: bool) -> Result<Variant> {
    match options.variant {
        Some(NumericVariant::Plain) => Ok(Variant::NoFma),
        None if !fuses => Ok(Variant::NoFma),
        Some(NumericVariant::Fma) if !fuses => Err(Error::Target(
            "the fused variant needs fused multiply-add, which a level of the target lacks".to_owned(),
        )),
        Some(NumericVariant::Fma) | None => Ok(Variant::Fma),
    }
}

/// Cranelift's settings for [`Effort::Full`], [`Effort::Unsimplified`] and [`Effort::Least`].
fn flags(triple: &Triple) -> Result<[settings::Flags; 3]> {
    let mut flags = settings::builder();
    // Windows grows a stack by one page at a time: who takes more touches each.
    let coff = triple.binary_format == BinaryFormat::Coff;
    let probes = if coff { "true" } else { "false" };
    // Of aarch64, what is said to be independent of its position goes by a global offset table, which COFF has not; distances to
    // pages are independent of it too.
    let by_table = if coff && matches!(triple.architecture, Architecture::Aarch64(_)) { "false" } else { "true" };
    for (name, value) in [
        ("opt_level", "speed"),
        ("is_pic", by_table),
        ("unwind_info", "true"),
        ("enable_probestack", probes),
        ("probestack_strategy", "inline"),
        ("preserve_frame_pointers", "true"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ] {
        flags.set(name, value).map_err(target_error)?;
    }
    let mut unsimplified = flags.clone();
    unsimplified.set("opt_level", "none").map_err(target_error)?;
    let mut least = unsimplified.clone();
    least.set("regalloc_algorithm", "single_pass").map_err(target_error)?;
    Ok([flags, unsimplified, least].map(settings::Flags::new))
}

/// The levels that the options name, with their features, the lowest first.
fn x86_levels(options: &TargetOptions) -> Result<Vec<(String, Vec<&'static str>)>> {
    let names = options.cpu.as_deref().unwrap_or(DEFAULT_LEVELS);
    if names == NATIVE {
        return Ok(vec![(NATIVE.to_owned(), apply(options, native_features()?)?)]);
    }
    let mut levels = Vec::new();
    for name in names.split(',').map(str::trim) {
        let level: u8 = match name {
            "x86-64" | "generic" => 1,
            "x86-64-v2" => 2,
            "x86-64-v3" => 3,
            "x86-64-v4" => 4,
            NATIVE => return Err(Error::Target("the CPU 'native' stands alone, without other levels".to_owned())),
            other => {
                let known = "native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4";
                let near = suggestion(other, known.split(", "));
                return Err(Error::Target(format!("unknown CPU '{other}', expected one of {known}{near}")));
            }
        };
        levels.push(level);
    }
    levels.sort_unstable();
    levels.dedup();
    let features =
        |level: u8| X86.iter().filter(move |f| f.level.is_some_and(|l| l <= level)).map(|f| f.name).collect();
    levels.into_iter().map(|level| Ok((format!("v{level}"), apply(options, features(level))?))).collect()
}

/// The features of the processor at hand.
fn native_features() -> Result<Vec<&'static str>> {
    let flags = settings::Flags::new(settings::builder());
    let isa = cranelift_native::builder().map_err(target_error)?.finish(flags).map_err(target_error)?;
    let on: Vec<&str> = isa.isa_flags().iter().filter(|f| f.as_bool() == Some(true)).map(|f| f.name).collect();
    let there = IsaFeatures::detect();
    let has = |f: &&Feature| match f.flag {
        Some(flag) => on.contains(&flag),
        None => IsaFeatures::from_name(f.name).is_some_and(|feature| there.contains(feature)),
    };
    Ok(X86.iter().filter(has).map(|f| f.name).collect())
}

fn apply(options: &TargetOptions, mut features: Vec<&'static str>) -> Result<Vec<&'static str>> {
    for text in &options.features {
        let (on, name) = match text.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, text.strip_prefix('+').unwrap_or(text)),
        };
        let known = X86.iter().find(|f| f.name == name).map(|f| f.name);
        let Some(known) = known else {
            let near = suggestion(name, X86.iter().map(|f| f.name));
            return Err(Error::Target(format!("unknown feature '{name}'{near}")));
        };
        features.retain(|f| *f != known);
        if on {
            features.push(known);
        }
    }
    features.sort_unstable();
    Ok(features)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_back_end_that_was_left_out_is_named() {
        for (triple, feature) in [
            ("x86_64-unknown-linux-gnu", "x86"),
            ("aarch64-apple-darwin", "arm64"),
            ("riscv64gc-unknown-linux-gnu", "riscv64"),
            ("s390x-unknown-linux-gnu", "s390x"),
        ] {
            let triple = Triple::from_str(triple).unwrap();
            let words = format!("the target {triple} without brolga-compiler's feature `{feature}`");
            assert_eq!(missing(LookupError::SupportDisabled, &triple), words);
            assert_eq!(missing(LookupError::Unsupported, &triple), format!("the target {triple}"));
        }
    }
}
