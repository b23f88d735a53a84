//! The debug sections of whole programs, read back.

#![allow(clippy::unwrap_used)]

use crate::codegen::target::TargetOptions;
use crate::sources::DebugLines;
use crate::{CompileOptions, Error, LineTable, compile, text};
use gimli::{AttributeValue, Dwarf, EndianSlice, Endianity as _, RunTimeEndian, SectionId, Unit};
use object::{Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};

/// Wide rows with their tails, a contraction with its tile, an epilogue and a loop, at two levels.
const PROGRAM: &str = r#"HloModule lined
body {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[64,64] get-tuple-element(p), index=1
  c = f32[64,64] cosine(v)
  ROOT t = (s32[], f32[64,64]) tuple(j, c)
}
cond {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[64,64] parameter(0)
  w = f32[64,64] parameter(1)
  e = f32[64,64] exponential(x), metadata={op_name="jit(f)/exp" source_file="model.py" source_line=3 source_column=7}
  s = f32[64,64] sine(e), metadata={op_name="jit(f)/sin" source_file="model.py" source_line=4}
  d = f32[64,64] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[64,64] tanh(d)
  zero = s32[] constant(0)
  init = (s32[], f32[64,64]) tuple(zero, h)
  loop = (s32[], f32[64,64]) while(init), condition=cond, body=body
  ROOT y = f32[64,64] get-tuple-element(loop), index=1
}"#;

/// The line of an instruction of [`PROGRAM`].
fn line(start: &str) -> u64 {
    PROGRAM.lines().position(|l| l.trim_start().starts_with(start)).unwrap() as u64 + 1
}

fn object(triple: &str, table: Option<LineTable>) -> Result<Vec<u8>, Error> {
    let target = TargetOptions { triple: Some(triple.into()), ..TargetOptions::default() };
    let debug_lines = table.map(|table| DebugLines { table, file: "dir/lined.hlo".into() });
    let options = CompileOptions { target, debug_lines, wide_work: Some(0), ..CompileOptions::default() };
    compile(&text::parse(PROGRAM).unwrap(), &options).map(|artifact| artifact.object)
}

const X86: &str = "x86_64-unknown-linux-gnu";

/// Where the section of code is taken to lie.
const TEXT: u64 = 0x10_0000;

/// A row of the line table: file, line.
type Row = (String, u64);

/// What was read: everything by address.
#[derive(Default)]
struct Read {
    /// Names of functions, with their ends.
    functions: BTreeMap<u64, (String, u64)>,
    /// Each stretch of code: its end and its row.
    rows: BTreeMap<u64, (u64, Row)>,
    /// Subprograms: name and end.
    programs: BTreeMap<u64, (String, u64)>,
    /// Inlined instructions: first and last address, name, where they are called.
    inlined: Vec<(u64, u64, String, Row)>,
}

impl Read {
    /// The lines of code in functions whose names end so; there are some.
    fn lines(&self, ending: &str) -> BTreeSet<Row> {
        let functions = self.functions.iter().filter(|(_, (name, _))| name.ends_with(ending));
        let rows = functions.flat_map(|(&start, &(_, end))| self.rows.range(start..end));
        let lines: BTreeSet<Row> = rows.map(|(_, (_, row))| row.clone()).collect();
        assert!(!lines.is_empty(), "no function {ending}");
        lines
    }
}

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

fn read(bytes: &[u8]) -> Read {
    let file = object::File::parse(bytes).unwrap();
    let text = file.section_by_name(".text").unwrap().index();
    let mut out = Read::default();
    let order = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.is_definition()) {
        let start = TEXT + symbol.address();
        out.functions.insert(start, (symbol.name().unwrap().to_owned(), start + symbol.size()));
    }
    let mut sections: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for section in file.sections().filter(|s| s.name().unwrap().starts_with(".debug_")) {
        let mut data = section.data().unwrap().to_vec();
        for (offset, relocation) in section.relocations() {
            assert_eq!(relocation.kind(), RelocationKind::Absolute);
            let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("a symbol") };
            let symbol = file.symbol_by_index(symbol).unwrap();
            let base = if symbol.section_index() == Some(text) { TEXT } else { 0 };
            let value = base.wrapping_add_signed(relocation.addend());
            let size = usize::from(relocation.size() / 8);
            let field = &mut data[offset as usize..][..size];
            match size {
                4 => order.write_u32(field, value as u32),
                _ => order.write_u64(field, value),
            }
        }
        sections.insert(section.name().unwrap(), data);
    }
    let none = Vec::new();
    let load = |id: SectionId| -> Result<Slice<'_>, gimli::Error> {
        Ok(EndianSlice::new(sections.get(id.name()).unwrap_or(&none), order))
    };
    let dwarf = Dwarf::load(load).unwrap();
    let mut units = dwarf.units();
    let unit = dwarf.unit(units.next().unwrap().unwrap()).unwrap();
    assert!(units.next().unwrap().is_none());
    rows(&dwarf, &unit, &mut out);
    entries(&dwarf, &unit, &mut out);
    out
}

fn string(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, value: AttributeValue<Slice<'_>>) -> String {
    dwarf.attr_string(unit, value).unwrap().to_string_lossy().into_owned()
}

fn file_name(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, number: u64) -> String {
    let header = unit.line_program.as_ref().unwrap().header();
    string(dwarf, unit, header.file(number).unwrap().path_name())
}

fn rows(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, out: &mut Read) {
    let mut rows = unit.line_program.clone().unwrap().rows();
    let mut before: Option<(u64, Row)> = None;
    while let Some((_, row)) = rows.next_row().unwrap() {
        if let Some((start, what)) = before.take() {
            assert!(start < row.address());
            assert!(out.rows.insert(start, (row.address(), what)).is_none());
        }
        if !row.end_sequence() {
            let line = row.line().map_or(0, |line| line.get());
            before = Some((row.address(), (file_name(dwarf, unit, row.file_index()), line)));
        }
    }
    assert!(before.is_none());
}

fn entries(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, out: &mut Read) {
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs().unwrap() {
        let number = |name| entry.attr_value(name).and_then(|v| v.udata_value());
        let mut ranges = dwarf.die_ranges(unit, entry).unwrap();
        match entry.tag() {
            gimli::DW_TAG_subprogram => {
                let name = string(dwarf, unit, entry.attr_value(gimli::DW_AT_name).unwrap());
                if let Some(range) = ranges.next().unwrap() {
                    out.programs.insert(range.begin, (name, range.end));
                }
            }
            gimli::DW_TAG_inlined_subroutine => {
                let AttributeValue::UnitRef(origin) = entry.attr_value(gimli::DW_AT_abstract_origin).unwrap() else {
                    panic!("a reference in the unit")
                };
                let origin = unit.entry(origin).unwrap();
                let name = string(dwarf, unit, origin.attr_value(gimli::DW_AT_name).unwrap());
                let Some(AttributeValue::FileIndex(file)) = entry.attr_value(gimli::DW_AT_call_file) else {
                    panic!("a file")
                };
                let call = (file_name(dwarf, unit, file), number(gimli::DW_AT_call_line).unwrap());
                while let Some(range) = ranges.next().unwrap() {
                    out.inlined.push((range.begin, range.end, name.clone(), call.clone()));
                }
            }
            _ => {}
        }
    }
}

const HLO: &str = "dir/lined.hlo";

fn hlo(start: &str) -> Row {
    (HLO.to_owned(), line(start))
}

#[test]
fn every_byte_of_a_function_has_a_line() {
    for triple in [X86, "aarch64-unknown-linux-gnu", "riscv64gc-unknown-linux-gnu", "s390x-unknown-linux-gnu"] {
        let read = read(&object(triple, Some(LineTable::Hlo)).unwrap());
        assert_eq!(read.programs, read.functions, "{triple}");
        for (&start, (name, end)) in &read.functions {
            let mut at = start;
            while at < *end {
                let Some((next, (file, line))) = read.rows.get(&at) else { panic!("{triple}: {name} at {at:#x}") };
                assert!(file == HLO && *line > 0, "{triple}: {name} at {at:#x}");
                at = *next;
            }
            assert_eq!(at, *end, "{triple}: {name}");
        }
        // Fused, called, and of the loop's condition.
        let lines = read.lines("");
        for start in ["e = ", "s = ", "d = ", "h = ", "c = ", "ROOT l = "] {
            assert!(lines.contains(&hlo(start)), "{triple}: {start}");
        }
    }
}

#[test]
fn instructions_are_found_in_the_functions_that_compute_them() {
    let read = read(&object(X86, Some(LineTable::Hlo)).unwrap());
    // One kernel computes both, whole rows in wide registers.
    let row = read.lines(".s.0.row0");
    assert!(row.contains(&hlo("e = ")) && row.contains(&hlo("s = ")), "{row:?}");
    assert!(!row.contains(&hlo("d = ")) && !row.contains(&hlo("h = ")), "{row:?}");
    // A product, and what is done with its sums.
    let product = read.lines(".h.0");
    assert!(product.contains(&hlo("d = ")) && product.contains(&hlo("h = ")), "{product:?}");
    // The driver stands at the entry, at the calls of kernels and at the loop.
    let driver = read.lines("lined.v3");
    for start in ["s = ", "h = ", "loop = ", "c = ", "ENTRY"] {
        assert!(driver.contains(&hlo(start)), "{start}: {driver:?}");
    }
    assert!(!driver.contains(&hlo("e = ")), "{driver:?}");
}

#[test]
fn the_origin_is_the_caller_of_an_instruction_or_the_reverse() {
    let model = |line| ("model.py".to_owned(), line);
    let check = |table, inner: Row, outer: Row| {
        let read = read(&object(X86, Some(table)).unwrap());
        let parts: Vec<_> = read.inlined.iter().filter(|(.., name, _)| name == "s").collect();
        assert!(!parts.is_empty());
        for (start, end, _, call) in parts {
            assert_eq!(*call, outer);
            // The line table has the one place wherever the call has the other.
            assert!(read.rows.range(start..end).all(|(_, (_, row))| *row == inner));
            assert!(
                read.rows.range(..=start).next_back().is_some_and(|(_, (last, row))| last > start && *row == inner)
            );
        }
        // What has one place only is not inlined.
        assert!(read.inlined.iter().all(|(.., name, _)| name == "s" || name == "e"));
        assert!(read.lines(".h.0").contains(&hlo("d = ")));
    };
    check(LineTable::Hlo, hlo("s = "), model(4));
    check(LineTable::Source, model(4), hlo("s = "));
}

#[test]
fn code_does_not_depend_on_lines() {
    let (without, with) = (object(X86, None).unwrap(), object(X86, Some(LineTable::Hlo)).unwrap());
    assert_eq!(with, object(X86, Some(LineTable::Hlo)).unwrap());
    let sections = |bytes: &[u8]| -> BTreeMap<String, Vec<u8>> {
        let file = object::File::parse(bytes).unwrap();
        file.sections().map(|s| (s.name().unwrap().to_owned(), s.data().unwrap().to_vec())).collect()
    };
    let (without, with) = (sections(&without), sections(&with));
    assert!(without.keys().all(|name| !name.contains(".debug")));
    for name in [".text", ".eh_frame"] {
        assert_eq!(without[name], with[name], "{name}");
    }
    for name in [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"] {
        assert!(with.contains_key(name), "{name}");
    }
}

#[test]
fn other_formats_are_refused_in_words() {
    for triple in ["x86_64-apple-darwin", "x86_64-pc-windows-msvc"] {
        let error = object(triple, Some(LineTable::Hlo)).unwrap_err();
        assert!(matches!(&error, Error::Unsupported { feature, .. } if feature.contains("debug lines")), "{error}");
        object(triple, None).unwrap();
    }
    let compiled = |file: &str, shared: Option<&str>| {
        let debug_lines = Some(DebugLines { table: LineTable::Hlo, file: file.into() });
        let shared = shared.map(str::to_owned);
        compile(&text::parse(PROGRAM).unwrap(), &CompileOptions { debug_lines, shared, ..CompileOptions::default() })
    };
    let error = compiled("lined.hlo", Some("lined.so")).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { feature, .. } if feature.contains("shared library")), "{error}");
    let error = compiled("", None).unwrap_err();
    assert!(matches!(&error, Error::Target(what) if what.contains("the name of the program's file")), "{error}");
}
