//! `brolga inspect`: the descriptor of an object, in words; the tensors of a program, and its kernels as a page.

use crate::command::args::InspectArgs;
use crate::command::failure::Failure;
use crate::command::page::page;
use crate::command::source::{load_module, read};
use crate::command::{freeze, output};
use brolga_compiler::front::ReadOptions;
use brolga_compiler::object::read_descriptors;
use brolga_compiler::survey::survey;
use brolga_compiler::tensor::{self, TensorDescription};
use brolga_compiler::{CompileOptions, compile};
use brolga_runtime::abi::{DescriptorInfo, Leaf, TensorFlags};
use std::fmt::Write;

/// `brolga inspect`.
pub fn inspect(args: &InspectArgs) -> Result<(), Failure> {
    if args.tensors {
        return tensors(args);
    }
    if let Some(path) = &args.html {
        let (mut module, source) = load_module(&args.object, &ReadOptions::default())?;
        freeze::apply(&args.freeze, &mut module, &source)?;
        let wrong = |e| Failure::program(e, &source);
        let artifact = compile(&module, &CompileOptions::native()).map_err(wrong)?;
        let survey = survey(&artifact).map_err(wrong)?;
        return output::write(path, page(source.name(), &artifact, &survey).as_bytes());
    }
    freeze::refuse_object(&args.freeze)?;
    let (name, bytes) = read(&args.object)?;
    let descriptors = read_descriptors(&bytes).map_err(|e| Failure::Run(format!("{name}: {e}")))?;
    let all: Vec<String> = descriptors.iter().map(|d| describe(d, bytes.len())).collect();
    output::print(&all.join("\n"))
}

/// `brolga inspect --tensors`.
fn tensors(args: &InspectArgs) -> Result<(), Failure> {
    let (mut module, source) = load_module(&args.object, &ReadOptions::default())?;
    freeze::apply(&args.freeze, &mut module, &source)?;
    let artifact = compile(&module, &CompileOptions::native()).map_err(|e| Failure::program(e, &source))?;
    let header = [
        "computation",
        "tensor",
        "type",
        "access",
        "shape",
        "size",
        "strides",
        "offset",
        "layout",
        "align",
        "memory",
        "view of",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(tensor::describe(&artifact).iter().map(row));
    let mut out = columns(&rows);
    let _ = writeln!(out, "\nworkspace: {} bytes", artifact.assignment.workspace);
    output::print(&out)
}

fn row(t: &TensorDescription) -> Vec<String> {
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        t.computation.clone(),
        t.name.clone(),
        t.dtype.to_string(),
        if t.read_only { "read-only" } else { "assignable" }.to_owned(),
        tuple(&t.shape),
        tuple(&t.size),
        or_unknown(t.layout.as_ref().map(|l| tuple(&l.strides))),
        or_unknown(t.layout.as_ref().map(|l| l.offset.to_string())),
        or_unknown(t.memory_layout.as_ref().map(ToString::to_string)),
        t.alignment.to_string(),
        t.storage.to_string(),
        t.view_of.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

fn tuple(numbers: &[i64]) -> String {
    format!("({})", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// Rows with their cells one below the other.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| rows.iter().filter_map(|r| r.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    }
    out
}

fn describe(d: &DescriptorInfo, size: usize) -> String {
    let mut out = String::new();
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    let mut line = |key: &str, value: String| {
        let _ = writeln!(out, "{key:16} {value}");
    };
    line("module", d.module_name.clone());
    line("entry", d.entry.clone());
    line("descriptor", d.descriptor_symbol());
    if !d.open.is_empty() {
        line("size", d.size_text());
        line("selector", format!("{}_select", d.program_name()));
    }
    line("object bytes", size.to_string());
    line("architecture", d.architecture.to_string());
    line("features", or_none(d.features.to_string()));
    for (number, level) in (1..).zip(&d.levels) {
        line(&format!("level {number}"), or_none(level.to_string()));
    }
    line("arithmetic", format!("{:?}", d.variant).to_lowercase());
    line("hash", d.hash.iter().map(|b| format!("{b:02x}")).collect());
    line("workspace", format!("{} bytes, and {} for each worker", d.workspace_fixed, d.workspace_per_worker));
    line("needs services", or_none(d.needed_services.to_string()));
    line("uses services", or_none(d.optional_services.to_string()));
    line("freestanding", d.is_freestanding().to_string());
    for (kind, leaves) in [("parameter", &d.parameters), ("result", &d.results)] {
        for (i, leaf) in leaves.iter().enumerate() {
            line(&format!("{kind} {i}"), leaf_text(leaf));
        }
    }
    for alias in &d.aliases {
        let how = if alias.must { "must share" } else { "may share" };
        line("alias", format!("result {} {how} the buffer of parameter {}", alias.result, alias.parameter));
    }
    for call in &d.custom_calls {
        line("custom call", format!("{} ({:?}), line {}", call.symbol, call.abi, call.line));
    }
    out
}

fn leaf_text(leaf: &Leaf) -> String {
    let name = if leaf.name.is_empty() { String::new() } else { format!("  {}", leaf.name) };
    let tensor = if leaf.tensor == TensorFlags::NONE { String::new() } else { format!(" ({})", leaf.tensor) };
    format!("{}  {} bytes{name}{tensor}", leaf.shape, leaf.byte_size())
}
