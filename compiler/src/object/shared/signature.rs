//! The text `NAME_signature`: what an entry takes and gives, as JSON in ASCII, for callers without C headers.
//!
//! It says what the descriptor says, in words instead of offsets: names of element types are those of HLO, shapes have
//! their dimensions outermost first, and `minor_to_major` is the layout. `strides` are those of the buffer, in elements; of a padded
//! array, `padded_shape` says what its dimensions are padded to.

use brolga_runtime::abi::{DescriptorInfo, Leaf, Services};
use std::fmt::Write;

/// The text, without a zero byte at its end.
pub(super) fn signature(d: &DescriptorInfo) -> String {
    let aliases = d
        .aliases
        .iter()
        .map(|a| format!("{{\"parameter\": {}, \"result\": {}, \"must_share\": {}}}", a.parameter, a.result, a.must));
    let calls = d.custom_calls.iter().map(|c| quoted(&c.symbol));
    format!(
        "{{\"entry\": {}, \"module\": {}, \"parameters\": {}, \"results\": {}, \"aliases\": {}, \
         \"workspace_fixed\": {}, \"workspace_per_worker\": {}, \"workspace_alignment\": 64, \"needs_services\": {}, \
         \"custom_calls\": {}, \"replicas\": {}, \"partitions\": {}}}",
        quoted(&d.entry),
        quoted(&d.module_name),
        list(d.parameters.iter().map(leaf)),
        list(d.results.iter().map(leaf)),
        list(aliases),
        d.workspace_fixed,
        d.workspace_per_worker,
        list(services(d.needed_services)),
        list(calls),
        d.devices[0],
        d.devices[1],
    )
}

fn leaf(leaf: &Leaf) -> String {
    let padding = match leaf.shape.is_padded() {
        true => format!(", \"padded_shape\": {}", list(leaf.shape.widths())),
        false => String::new(),
    };
    format!(
        "{{\"name\": {}, \"type\": {}, \"shape\": {}, \"dynamic\": {}, \"minor_to_major\": {}, \"strides\": {}{padding}, \
         \"bytes\": {}}}",
        quoted(&leaf.name),
        quoted(leaf.shape.ty.name()),
        list(leaf.shape.dims.iter()),
        list(leaf.shape.dynamic.iter()),
        list(leaf.minor_to_major()),
        list(leaf.shape.strides()),
        leaf.byte_size(),
    )
}

fn services(set: Services) -> Vec<String> {
    let names = set.to_string();
    names.split(',').filter(|name| !name.is_empty()).map(quoted).collect()
}

fn list(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// A JSON string in ASCII: everything else is written as UTF-16 escapes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(quoted("p['w']\"\\\n\u{e9}\u{1f600}"), "\"p['w']\\\"\\\\\\u000a\\u00e9\\ud83d\\ude00\"");
    }
}
