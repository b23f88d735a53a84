//! The front door: a file's bytes in, a module out, whatever form the program comes in.
//!
//! Problem: programs arrive as HLO text, as XLA's protobufs, as StableHLO text, as portable artifacts and as the files of
//! `jax.export`; endings are missing (standard input) or wrong. Invariant: the content decides wherever it can; the ending is
//! asked only where it cannot. Algorithm: signatures first, then the first word of a text, then the ending. What is known to be
//! something else (`foreign`) is named, with what to do instead.

mod foreign;

use crate::error::{Error, Result, Site};
use crate::hlo::{Module, SourceLocation};
use crate::{proto, stablehlo, text};
use brolga_runtime::Literal;
use brolga_runtime::abi::OpenDimension;

pub use crate::stablehlo::{Argument, ReadOptions};

/// The signature of MLIR bytecode.
const BYTECODE: &[u8] = b"ML\xefR";

/// The forms in which programs come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// HLO text.
    HloText,
    /// A serialized `HloModuleProto`, `HloProto` or `HloSnapshot`.
    HloProto,
    /// StableHLO text.
    StableHloText,
    /// MLIR bytecode: a portable artifact.
    StableHloBytecode,
    /// What `jax.export(...).serialize()` writes: a flatbuffer around a portable artifact.
    JaxExport,
}

impl Format {
    /// True where the bytes are text, which errors can show.
    pub const fn is_text(self) -> bool {
        matches!(self, Format::HloText | Format::StableHloText)
    }

    /// What it is called in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Format::HloText => "HLO text",
            Format::HloProto => "HloModuleProto",
            Format::StableHloText => "StableHLO text",
            Format::StableHloBytecode => "a StableHLO portable artifact",
            Format::JaxExport => "a file of jax.export",
        }
    }

    /// The form of `bytes`. `ending` is the file's, without the dot, where it has one.
    pub fn detect(bytes: &[u8], ending: Option<&str>) -> Format {
        let bytes = unmarked(bytes);
        if bytes.starts_with(BYTECODE) {
            return Format::StableHloBytecode;
        }
        let ending = ending.map(str::to_ascii_lowercase);
        let by_ending = match ending.as_deref() {
            Some("pb" | "hlopb") => Some(Format::HloProto),
            Some("mlir") => Some(Format::StableHloText),
            Some("hlo" | "txt") => Some(Format::HloText),
            _ => None,
        };
        match first_word(bytes) {
            FirstWord::Hlo => Format::HloText,
            FirstWord::Mlir => Format::StableHloText,
            FirstWord::Text => by_ending.filter(|f| f.is_text()).unwrap_or(Format::HloText),
            FirstWord::Binary if is_flatbuffer_with_bytecode(bytes) => Format::JaxExport,
            // Each of XLA's messages begins with its first field, which has a length: the byte 0x0a.
            FirstWord::Binary if bytes.first() == Some(&0x0a) => Format::HloProto,
            FirstWord::Binary => by_ending.unwrap_or(Format::HloText),
        }
    }
}

/// What the beginning of a file says.
enum FirstWord {
    /// Only HLO text begins so.
    Hlo,
    /// Only MLIR begins so.
    Mlir,
    /// It is text.
    Text,
    /// It is not text.
    Binary,
}

fn first_word(bytes: &[u8]) -> FirstWord {
    let mut rest = bytes;
    loop {
        rest = rest.trim_ascii_start();
        let Some(comment) = rest.strip_prefix(b"//") else { break };
        let end = comment.iter().position(|&b| b == b'\n').unwrap_or(comment.len());
        rest = comment.get(end..).unwrap_or_default();
    }
    // A text may be long: what is not text shows itself early, and the readers look at the rest.
    const PROBE: usize = 4096;
    let probe = bytes.get(..PROBE).unwrap_or(bytes);
    if probe.iter().any(|&b| b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0c)) {
        return FirstWord::Binary;
    }
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'"');
    let length = rest.iter().position(|b| !is_word(b)).unwrap_or(rest.len());
    let word = rest.get(..length).unwrap_or_default();
    // `module = f32[2] add(...)` is an instruction of HLO.
    let is_name = rest.get(length..).unwrap_or_default().trim_ascii_start().first() == Some(&b'=');
    match word {
        b"HloModule" | b"ENTRY" => FirstWord::Hlo,
        b"module" | b"builtin.module" | b"func.func" | b"\"builtin.module\"" | b"\"func.func\"" if !is_name => {
            FirstWord::Mlir
        }
        // An alias of an attribute or of a type.
        b"" if matches!(rest.first(), Some(b'#' | b'!')) => FirstWord::Mlir,
        _ => FirstWord::Text,
    }
}

/// Whether a flatbuffer's offset of its root table stands in front, and MLIR bytecode further on.
fn is_flatbuffer_with_bytecode(bytes: &[u8]) -> bool {
    let root = bytes.first_chunk().map(|&b| u32::from_le_bytes(b) as usize);
    root.is_some_and(|root| root >= 4 && root < bytes.len()) && bytes.windows(BYTECODE.len()).any(|w| w == BYTECODE)
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The form it was read from.
    pub format: Format,
    /// The program. Its shapes are not verified, see [`crate::shape::verify`].
    pub module: Module,
    /// The inputs that an `HloSnapshot` holds, one for each parameter; empty in other forms.
    pub inputs: Vec<Literal>,
}

/// Reads a program. `ending` is the file's, without the dot, where it has one.
///
/// # Errors
/// `Syntax` and `Invalid` for what is wrong with the bytes, `Unsupported` for a program or a form that is not read yet.
pub fn read(bytes: &[u8], ending: Option<&str>, options: &ReadOptions) -> Result<Read> {
    let bytes = program_bytes(bytes, ending)?;
    let format = Format::detect(bytes, ending);
    let (module, inputs) = match stablehlo_program(bytes, format)? {
        Some(program) => (stablehlo::lower(&program, options)?, Vec::new()),
        None => {
            let (module, inputs) = match format {
                Format::HloProto => proto::read(bytes).map(|proto::Read { module, inputs }| (module, inputs))?,
                _ => (text::parse(utf8(bytes)?)?, Vec::new()),
            };
            check_shapes(&module, options)?;
            (module, inputs)
        }
    };
    Ok(Read { format, module, inputs })
}

/// The bytes behind a byte order mark, if they may be a program.
fn program_bytes<'a>(bytes: &'a [u8], ending: Option<&str>) -> Result<&'a [u8]> {
    match foreign::recognise(bytes, ending) {
        Some(message) => Err(Error::Syntax { site: Site::default(), message }),
        None => Ok(unmarked(bytes)),
    }
}

/// The bytes behind a byte order mark of UTF-8.
fn unmarked(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The program of a form that may leave sizes open; `None` for HLO.
fn stablehlo_program(bytes: &[u8], format: Format) -> Result<Option<stablehlo::ir::Program>> {
    Ok(Some(match format {
        Format::HloText | Format::HloProto => return Ok(None),
        Format::StableHloText => stablehlo::parse(utf8(bytes)?)?,
        Format::StableHloBytecode => stablehlo::bytecode::read(bytes)?,
        Format::JaxExport => stablehlo::export::read(bytes)?,
    }))
}

/// HLO leaves no sizes open: shapes that are given must be those that it has.
fn check_shapes(module: &Module, options: &ReadOptions) -> Result<()> {
    let entry = module.entry();
    let parameters = entry.parameters();
    for (argument, shape) in &options.shapes {
        let found = match argument {
            Argument::Number(n) => parameters.get(*n),
            Argument::Name(name) => parameters.iter().find(|&&p| entry.instructions[p].name == *name),
        };
        let own = found.map(|&p| &entry.instructions[p].shape);
        if own.is_none_or(|own| own.without_layout() != shape.without_layout()) {
            let own = own.map_or_else(|| "no such parameter".to_owned(), |own| format!("{:#}", own.without_layout()));
            let message = format!("expected the shape that the program has for {argument}, {own}, found {shape:#}");
            return Err(Error::Invalid { site: Site::default(), constraint: "argument.shape", message });
        }
    }
    Ok(())
}

/// What was read for several sizes.
#[derive(Clone, Debug)]
pub struct ReadSizes {
    /// A module for each size. Shapes are not verified, see [`crate::shape::verify`].
    pub modules: Vec<Module>,
    /// The dimensions whose sizes the program leaves open.
    pub open: Vec<OpenDimension>,
}

/// Reads a program that leaves sizes open once for each of `sizes`.
///
/// # Errors
/// As [`read`]; `Invalid` for a program that leaves no sizes open.
pub fn read_sizes(bytes: &[u8], ending: Option<&str>, sizes: &[ReadOptions]) -> Result<ReadSizes> {
    let bytes = program_bytes(bytes, ending)?;
    let format = Format::detect(bytes, ending);
    let Some(program) = stablehlo_program(bytes, format)? else {
        let message = format!("expected a program that leaves sizes open, found {}", format.name());
        return Err(Error::Invalid { site: Site::default(), constraint: "sizes.open", message });
    };
    let open = stablehlo::open_dimensions(&program)?;
    let modules = sizes.iter().map(|options| stablehlo::lower(&program, options)).collect::<Result<_>>()?;
    Ok(ReadSizes { modules, open })
}

/// The bytes as text, or where they cease to be.
fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = good.iter().filter(|&&b| b == b'\n').count() + 1;
        let start = good.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
        let column = String::from_utf8_lossy(good.get(start..).unwrap_or_default()).chars().count() + 1;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let location = SourceLocation::in_text(number(line), number(column));
        let site = Site { instruction: None, location, length: 1 };
        Error::Syntax { site, message: "the text is not UTF-8 from here on".to_owned() }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn content_decides_before_the_ending() {
        let of = |bytes: &[u8], ending| Format::detect(bytes, ending);
        assert_eq!(of(b"// c\nHloModule m", Some("mlir")), Format::HloText);
        assert_eq!(of(b"\n module @m {}", Some("hlo")), Format::StableHloText);
        assert_eq!(of(b"#loc = loc(unknown)\nmodule {}", None), Format::StableHloText);
        assert_eq!(of(b"\"builtin.module\"() ({}) : () -> ()", None), Format::StableHloText);
        assert_eq!(of(b"module = f32[2] add(a, b)", None), Format::HloText);
        assert_eq!(of(b"%f (x: f32[]) -> f32[] {", None), Format::HloText);
        assert_eq!(of(b"ML\xefR\x0dStableHLO", Some("hlo")), Format::StableHloBytecode);
        assert_eq!(of(b"\x0a\x01m\x12\x01\x00", None), Format::HloProto);
        assert_eq!(of(b"\x08\x00\x00\x00....ML\xefR", Some("bin")), Format::JaxExport);
        assert_eq!(of(b"", Some("pb")), Format::HloText);
        assert_eq!(of(b"\x00", Some("pb")), Format::HloProto);
    }

    #[test]
    fn what_is_not_utf8_is_located() {
        let error = read(b"HloModule m\n\xc3\xa9\xff", None, &ReadOptions::default()).unwrap_err();
        let location = error.site().unwrap().location;
        assert_eq!((location.line, location.column), (2, 2), "{error}");
    }
}
