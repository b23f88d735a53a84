//! Debug information: the lines that functions come from, in DWARF.
//!
//! **Problem.** A debugger that stops in compiled code, a profiler and `addr2line` are to name the line of the program, and the
//! line of the text that the program was made from.
//!
//! **Invariant.** Every byte of a function that has lines has one. Sections say what [`Lines`] and the functions say and
//! nothing of the machine that compiles: the same input gives the same bytes.
//!
//! **Algorithm.** One compilation unit in DWARF 4, which all tools read: a sequence of the line table and a subprogram for each
//! function. An instruction for which two places are known is an inlined subroutine of each function that computes it: the
//! line table has the one place, the call the other. `gimli` writes the sections; what they refer to is kept as [`Reference`]s,
//! which the object turns into relocations.

use super::CompiledFunction;
use super::lines::{Lines, Place};
use crate::error::{Error, Result};
use gimli::constants::{
    DW_AT_abstract_origin, DW_AT_call_column, DW_AT_call_file, DW_AT_call_line, DW_AT_decl_column, DW_AT_decl_file,
    DW_AT_decl_line, DW_AT_high_pc, DW_AT_inline, DW_AT_language, DW_AT_low_pc, DW_AT_name, DW_AT_producer,
    DW_AT_ranges, DW_INL_inlined, DW_LANG_C99, DW_TAG_inlined_subroutine, DW_TAG_subprogram,
};
use gimli::write::{
    Address, AttributeValue, DwarfUnit, EndianVec, FileId, LineProgram, LineString, Range, RangeList, RelocateWriter,
    Relocation, RelocationTarget, Sections, UnitEntryId,
};
use gimli::{DwAt, DwTag, Encoding, Format, LineEncoding, RunTimeEndian, SectionId};
use hashbrown::HashMap;
use std::collections::BTreeMap;

const ENCODING: Encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };

/// A function as debuggers see it.
pub(super) struct Function<'f> {
    /// Its symbol.
    pub(super) name: String,
    /// Its code and lines.
    pub(super) code: &'f CompiledFunction,
    /// Bytes from the start of the section of code.
    pub(super) place: u64,
}

/// What a place in a section refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Referent {
    /// The code of a function, by its number among those that were given.
    Function(usize),
    /// Another of the sections.
    Section(SectionId),
}

/// An address still to be filled in.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) offset: u64,
    /// Bytes of the address.
    pub(super) size: u8,
    pub(super) to: Referent,
    pub(super) addend: i64,
}

/// A section without addresses.
pub(super) struct Section {
    pub(super) id: SectionId,
    pub(super) bytes: Vec<u8>,
    pub(super) references: Vec<Reference>,
}

/// The sections for functions in the order of their places, their numbers in the given order of bytes.
///
/// # Errors
/// [`Error::Internal`] where lines are out of order.
pub(super) fn sections(lines: &Lines, functions: &[Function<'_>], order: RunTimeEndian) -> Result<Vec<Section>> {
    let mut unit = Unit::new(lines, functions);
    for (number, function) in functions.iter().enumerate() {
        unit.function(number, function)?;
    }
    let failed = |e: gimli::write::Error| Error::Internal(format!("debug lines cannot be written: {e}"));
    let mut sections = Sections::new(Recorder { writer: EndianVec::new(order), references: Vec::new() });
    unit.dwarf.write(&mut sections).map_err(failed)?;
    let mut out = Vec::new();
    let each = sections.for_each_mut(|id, section| {
        let bytes = section.writer.take();
        if !bytes.is_empty() {
            out.push(Section { id, bytes, references: std::mem::take(&mut section.references) });
        }
        Ok(())
    });
    each.map_err(failed)?;
    Ok(out)
}

/// The compilation unit while it is made.
struct Unit<'l> {
    lines: &'l Lines,
    dwarf: DwarfUnit,
    /// What instructions that are inlined somewhere are called and where they stand, by their numbers.
    inlined: HashMap<u32, UnitEntryId>,
}

impl<'l> Unit<'l> {
    fn new(lines: &'l Lines, functions: &[Function<'_>]) -> Unit<'l> {
        let mut dwarf = DwarfUnit::new(ENCODING);
        let file = LineString::String(lines.file().into());
        // The folder is not written.
        let folder = LineString::String(b".".to_vec());
        dwarf.unit.line_program = LineProgram::new(ENCODING, LineEncoding::default(), folder, None, file, None);
        let mut unit = Unit { lines, dwarf, inlined: HashMap::new() };
        let root = unit.dwarf.unit.root();
        unit.text(root, DW_AT_producer, concat!("brolga ", env!("CARGO_PKG_VERSION")));
        unit.text(root, DW_AT_name, lines.file());
        // Debuggers ask for a language; names and types are written as C writes them.
        unit.set(root, DW_AT_language, AttributeValue::Language(DW_LANG_C99));
        if let (Some(first), Some(last)) = (functions.first(), functions.last()) {
            let start = AttributeValue::Address(Address::Symbol { symbol: 0, addend: 0 });
            let end = last.place + last.code.code.len() as u64;
            unit.set(root, DW_AT_low_pc, start);
            unit.set(root, DW_AT_high_pc, AttributeValue::Udata(end.saturating_sub(first.place)));
        }
        unit
    }

    fn add(&mut self, parent: UnitEntryId, tag: DwTag) -> UnitEntryId {
        self.dwarf.unit.add(parent, tag)
    }

    fn set(&mut self, entry: UnitEntryId, name: DwAt, value: AttributeValue) {
        self.dwarf.unit.get_mut(entry).set(name, value);
    }

    fn text(&mut self, entry: UnitEntryId, name: DwAt, text: &str) {
        // What a name says behind a zero byte nobody could read.
        let text = text.replace('\0', "?");
        let text = self.dwarf.strings.add(text);
        self.set(entry, name, AttributeValue::StringRef(text));
    }

    /// The file of a text.
    fn file(&mut self, name: &str) -> FileId {
        let program = &mut self.dwarf.unit.line_program;
        let folder = program.default_directory();
        program.add_file(LineString::String(name.into()), folder, None)
    }

    /// Says where something stands, or is inlined.
    fn place(&mut self, entry: UnitEntryId, [file, line, column]: [DwAt; 3], place: &Place) {
        let number = self.file(place.file());
        self.set(entry, file, AttributeValue::FileIndex(Some(number)));
        self.set(entry, line, AttributeValue::Udata(place.line().into()));
        if place.column() > 0 {
            self.set(entry, column, AttributeValue::Udata(place.column().into()));
        }
    }

    fn function(&mut self, symbol: usize, function: &Function<'_>) -> Result<()> {
        let (root, size) = (self.dwarf.unit.root(), function.code.code.len() as u64);
        let entry = self.add(root, DW_TAG_subprogram);
        self.text(entry, DW_AT_name, &function.name);
        self.set(entry, DW_AT_low_pc, AttributeValue::Address(Address::Symbol { symbol, addend: 0 }));
        self.set(entry, DW_AT_high_pc, AttributeValue::Udata(size));
        let lines = &function.code.lines;
        let Some(&(first, own)) = lines.first() else { return Ok(()) };
        if first != 0 || !lines.is_sorted_by(|a, b| a.0 < b.0) || lines.last().is_some_and(|l| u64::from(l.0) >= size) {
            return Err(Error::Internal(format!("the lines of '{}' are out of order", function.name)));
        }
        if let Some(place) = self.lines.source(own).and_then(|own| self.lines.places(own).0) {
            self.place(entry, [DW_AT_decl_file, DW_AT_decl_line, DW_AT_decl_column], place);
        }
        // By source, where it is inlined.
        let mut inlined: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        self.dwarf.unit.line_program.begin_sequence(Some(Address::Symbol { symbol, addend: 0 }));
        let ends = lines.iter().skip(1).map(|l| u64::from(l.0)).chain([size]);
        for (&(start, number), end) in lines.iter().zip(ends) {
            let start = u64::from(start);
            let places = self.lines.source(number).map(|source| self.lines.places(source));
            let (inner, outer) = places.unwrap_or_default();
            self.row(start, inner);
            if outer.is_some() {
                let ranges = inlined.entry(number).or_default();
                match ranges.last_mut().filter(|(_, before)| *before == start) {
                    Some(range) => range.1 = end,
                    None => ranges.push((start, end)),
                }
            }
        }
        self.dwarf.unit.line_program.end_sequence(size);
        for (number, ranges) in inlined {
            self.inlined(entry, symbol, number, &ranges);
        }
        Ok(())
    }

    /// A row of the line table, at so many bytes from the function's start.
    fn row(&mut self, offset: u64, place: Option<&Place>) {
        let file = self.file(place.map_or(self.lines.file(), Place::file));
        let row = self.dwarf.unit.line_program.row();
        row.address_offset = offset;
        row.file = file;
        row.line = place.map_or(0, |p| p.line().into());
        row.column = place.map_or(0, |p| p.column().into());
        self.dwarf.unit.line_program.generate_row();
    }

    /// A source inlined into a function, in these ranges of it.
    fn inlined(&mut self, function: UnitEntryId, symbol: usize, number: u32, ranges: &[(u64, u64)]) {
        let Some(source) = self.lines.source(number) else { return };
        let (inner, Some(outer)) = self.lines.places(source) else { return };
        let root = self.dwarf.unit.root();
        let known = self.inlined.get(&number).copied();
        let origin = known.unwrap_or_else(|| {
            let origin = self.add(root, DW_TAG_subprogram);
            self.text(origin, DW_AT_name, &source.name);
            self.set(origin, DW_AT_inline, AttributeValue::Inline(DW_INL_inlined));
            if let Some(inner) = inner {
                self.place(origin, [DW_AT_decl_file, DW_AT_decl_line, DW_AT_decl_column], inner);
            }
            self.inlined.insert(number, origin);
            origin
        });
        let entry = self.add(function, DW_TAG_inlined_subroutine);
        self.set(entry, DW_AT_abstract_origin, AttributeValue::UnitRef(origin));
        self.place(entry, [DW_AT_call_file, DW_AT_call_line, DW_AT_call_column], outer);
        if let [(start, end)] = *ranges {
            let start_address = Address::Symbol { symbol, addend: start as i64 };
            self.set(entry, DW_AT_low_pc, AttributeValue::Address(start_address));
            self.set(entry, DW_AT_high_pc, AttributeValue::Udata(end - start));
            return;
        }
        let base = Range::BaseAddress { address: Address::Symbol { symbol, addend: 0 } };
        let pairs = ranges.iter().map(|&(begin, end)| Range::OffsetPair { begin, end });
        let list = self.dwarf.unit.ranges.add(RangeList([base].into_iter().chain(pairs).collect()));
        self.set(entry, DW_AT_ranges, AttributeValue::RangeListRef(list));
    }
}

/// The bytes as they come, with the places of addresses.
#[derive(Clone)]
struct Recorder {
    writer: EndianVec<RunTimeEndian>,
    references: Vec<Reference>,
}

impl RelocateWriter for Recorder {
    type Writer = EndianVec<RunTimeEndian>;

    fn writer(&self) -> &Self::Writer {
        &self.writer
    }

    fn writer_mut(&mut self) -> &mut Self::Writer {
        &mut self.writer
    }

    fn relocate(&mut self, Relocation { offset, size, target, addend, .. }: Relocation) {
        let to = match target {
            RelocationTarget::Symbol(function) => Referent::Function(function),
            RelocationTarget::Section(id) => Referent::Section(id),
        };
        self.references.push(Reference { offset: offset as u64, size, to, addend });
    }
}

#[cfg(test)]
mod tests;
