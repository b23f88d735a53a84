//! What debuggers are told: which part of which function comes from where.

use crate::error::{Error, Result};
use std::sync::Arc;

/// Which text the line table speaks of; the other one is where that was inlined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineTable {
    /// The program's text.
    #[default]
    Hlo,
    /// The text that the program was made from, as its metadata say, where they do.
    Source,
}

/// A line of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The text's file, not empty and without zero bytes.
    file: Arc<str>,
    /// Line, from 1.
    line: u32,
    /// Column, from 1; 0 where unknown.
    column: u32,
}

impl Place {
    /// `None` where that is no place: line 0, or a file that has no name.
    pub fn new(file: &Arc<str>, line: u32, column: u32) -> Option<Place> {
        let file = is_name(file).then(|| Arc::clone(file));
        file.filter(|_| line > 0).map(|file| Place { file, line, column })
    }

    /// The text's file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Line, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Column, from 1; 0 where unknown.
    pub fn column(&self) -> u32 {
        self.column
    }
}

/// What code was compiled from: an instruction or a computation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Where it stands in the program.
    pub program: Option<Place>,
    /// What it was made from.
    pub origin: Option<Place>,
}

/// What the code of an object comes from; functions name the sources by their numbers here.
#[derive(Clone, Debug)]
pub struct Lines {
    table: LineTable,
    file: Arc<str>,
    sources: Vec<Source>,
}

impl Lines {
    /// None yet, of a program in that file.
    ///
    /// # Errors
    /// [`Error::Target`] where the file has no name.
    pub fn new(table: LineTable, file: &Arc<str>) -> Result<Lines> {
        if !is_name(file) {
            return Err(Error::Target("debug lines need the name of the program's file".to_owned()));
        }
        Ok(Lines { table, file: Arc::clone(file), sources: Vec::new() })
    }

    /// Adds sources; the number of the first.
    ///
    /// # Errors
    /// [`Error::Internal`] where there are more than can be numbered.
    pub fn add(&mut self, sources: impl IntoIterator<Item = Source>) -> Result<u32> {
        let first = self.sources.len();
        self.sources.extend(sources);
        // The last number means in CLIF that nothing is known.
        match (u32::try_from(first), u32::try_from(self.sources.len())) {
            (Ok(first), Ok(end)) if end < u32::MAX => Ok(first),
            _ => Err(Error::Internal("more than 2^32 sources of code".to_owned())),
        }
    }

    /// The program's file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// A source.
    pub fn source(&self, number: u32) -> Option<&Source> {
        self.sources.get(number as usize)
    }

    /// Where the line table places a source, and where that was inlined, if both are known.
    pub fn places<'s>(&self, source: &'s Source) -> (Option<&'s Place>, Option<&'s Place>) {
        let (inner, outer) = match self.table {
            LineTable::Hlo => (&source.program, &source.origin),
            LineTable::Source => (&source.origin, &source.program),
        };
        match (inner, outer) {
            (Some(inner), outer) => (Some(inner), outer.as_ref()),
            (None, only) => (only.as_ref(), None),
        }
    }
}

fn is_name(file: &str) -> bool {
    !file.is_empty() && !file.contains('\0')
}
