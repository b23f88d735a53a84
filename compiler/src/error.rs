//! The compiler's one error type.
//!
//! Each variant says whose mistake it is: the input's, ours for not supporting a valid program, the target's, or a
//! bug of ours. The command line turns the first into exit status 2 and the second into 3.

use std::fmt;
use std::panic::Location;

/// Where something stands in a source text; lines and columns count from 1, 0 means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
    /// The Rust file, of what a builder made; the text that is being read otherwise.
    pub file: Option<&'static str>,
}

impl SourceLocation {
    /// A place in the text that is being read.
    pub const fn in_text(line: u32, column: u32) -> SourceLocation {
        SourceLocation { line, column, file: None }
    }

    /// Where a builder's method was called.
    pub const fn of_caller(at: &'static Location<'static>) -> SourceLocation {
        SourceLocation { line: at.line(), column: at.column(), file: Some(at.file()) }
    }
}

/// `file:line:column`, or `line L, column C` of a text.
impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file {
            Some(file) => write!(f, "{file}:{}:{}", self.line, self.column),
            None if self.column > 0 => write!(f, "line {}, column {}", self.line, self.column),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// Where in a program an error was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Name of the instruction, where there is one.
    pub instruction: Option<String>,
    /// Position in the source, where there is one.
    pub location: SourceLocation,
    /// Length of the offending text, in characters, 0 where unknown.
    pub length: u32,
}

/// What went wrong while a program was read, checked, compiled or interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The text is not HLO: unexpected character, missing bracket, unknown opcode or attribute.
    Syntax {
        /// Where.
        site: Site,
        /// What was expected and what was found.
        message: String,
    },
    /// The program reads as HLO but breaks a rule.
    Invalid {
        /// Where.
        site: Site,
        /// The rule's id, such as `dot.contracting-sizes`.
        constraint: &'static str,
        /// What was expected and what was found.
        message: String,
    },
    /// The program is valid, but this version cannot run it.
    Unsupported {
        /// Where.
        site: Site,
        /// The feature that is missing.
        feature: String,
    },
    /// The program failed while it ran: wrong number of arguments, a failed service.
    Execution {
        /// Where.
        site: Site,
        /// What happened.
        message: String,
    },
    /// The target machine is unknown or lacks something.
    Target(String),
    /// A bug in Brolga.
    Internal(String),
}

/// A result with the compiler's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Where the error was found, for the variants that concern a program.
    pub fn site(&self) -> Option<&Site> {
        match self {
            Error::Syntax { site, .. }
            | Error::Invalid { site, .. }
            | Error::Unsupported { site, .. }
            | Error::Execution { site, .. } => Some(site),
            Error::Target(_) | Error::Internal(_) => None,
        }
    }

    /// The line of `text` that the error is about, with what it is about underlined; `None` where it has no place there.
    pub(crate) fn excerpt(&self, text: &str) -> Option<String> {
        /// Longer lines, of constants perhaps, are cut.
        const WIDTH: usize = 160;
        let site = self.site()?;
        let number = usize::try_from(site.location.line).ok()?;
        let line = text.lines().nth(number.checked_sub(1)?)?;
        let column = usize::try_from(site.location.column).ok()?.saturating_sub(1);
        let first = column.saturating_sub(WIDTH / 2);
        let shown: String =
            line.chars().skip(first).take(WIDTH).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let length = usize::try_from(site.length).unwrap_or(1).clamp(1, WIDTH);
        let (margin, spaces) = (" ".repeat(number.to_string().len()), " ".repeat(column - first));
        Some(format!("{margin} |\n{number} | {shown}\n{margin} | {spaces}{}", "^".repeat(length)))
    }

    /// The message without the place.
    pub fn message(&self) -> String {
        match self {
            Error::Syntax { message, .. } | Error::Execution { message, .. } => message.clone(),
            Error::Invalid { constraint, message, .. } => format!("{message} [{constraint}]"),
            Error::Unsupported { feature, .. } => format!("not supported yet: {feature}"),
            Error::Target(message) => format!("target: {message}"),
            Error::Internal(message) => format!("bug in Brolga: {message}"),
        }
    }
}

/// `; did you mean 'sine'?` where one of the names is close to `word`; nothing where none is.
pub fn suggestion<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    // A typing error or two, fewer in short words.
    let limit = (word.chars().count() / 3).min(2);
    let near = names.into_iter().map(|name| (strsim::osa_distance(word, name), name)).min();
    match near {
        Some((distance, name)) if distance <= limit => format!("; did you mean '{name}'?"),
        _ => String::new(),
    }
}

/// What people wrote, cut where it is too long to be shown again.
pub fn shortened(text: &str) -> String {
    if text.chars().count() > 200 { text.chars().take(200).chain("...".chars()).collect() } else { text.to_owned() }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(site) = self.site() {
            if site.location.line > 0 {
                write!(f, "{}: ", site.location)?;
            }
            if let Some(name) = &site.instruction {
                write!(f, "instruction '{name}': ")?;
            }
        }
        f.write_str(&self.message())
    }
}

impl std::error::Error for Error {}
