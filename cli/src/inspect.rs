//! `brolga inspect`: the descriptor of an object, in words.

use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::output;
use crate::source::read;
use brolga_compiler::object::read_descriptors;
use brolga_runtime::abi::{DescriptorInfo, Leaf};
use std::fmt::Write;

/// `brolga inspect`.
pub fn inspect(args: &InspectArgs) -> Result<(), Failure> {
    let (name, bytes) = read(&args.object)?;
    let descriptors = read_descriptors(&bytes).map_err(|e| Failure::Run(format!("{name}: {e}")))?;
    let all: Vec<String> = descriptors.iter().map(|d| describe(d, bytes.len())).collect();
    output::print(&all.join("\n"))
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
    format!("{}  {} bytes{name}", leaf.shape, leaf.byte_size())
}
