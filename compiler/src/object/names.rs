//! Names for generated source: identifiers of C and Rust made from whatever a program calls its parts.

use crate::symbol_name;
use brolga_runtime::abi::{DescriptorInfo, Leaf};
use hashbrown::HashSet;

/// The name of a whole program: without the sizes, or the name of the computation, that one of several has.
pub fn program_name<'d>(mut descriptors: impl Iterator<Item = &'d DescriptorInfo>) -> &'d str {
    let Some(first) = descriptors.next() else { return "" };
    let computation = format!("_{}", symbol_name(&first.module_name));
    match first.entry.strip_suffix(&computation) {
        Some(name) if first.open.is_empty() && descriptors.next().is_some() => name,
        _ => first.program_name(),
    }
}

/// The modules that a program was compiled from, each once.
pub(super) fn modules(descriptors: &[DescriptorInfo]) -> String {
    let mut names: Vec<&str> = descriptors.iter().map(|d| d.module_name.as_str()).collect();
    names.dedup();
    names.join(", ")
}

/// Words that generated code cannot use as a name in Rust, C or C++.
const RESERVED: &str = " abstract alignas alignof and as asm async auto await become bool box break case catch char class \
    const const_cast continue crate default delete do double dyn else enum explicit export extern false final float fn \
    for friend gen goto if impl in inline int let long loop macro match mod move mut namespace new not nullptr operator \
    or override priv private protected pub public ref register restrict return self short signed sizeof static struct \
    super switch template this throw trait true try type typedef typename typeof union unsafe unsigned unsized use \
    using virtual void volatile where while xor yield ";

/// `name` as an identifier: other characters become underscores; never empty, never a reserved word.
pub(super) fn identifier(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if out.trim_matches('_').is_empty() {
        out = "unnamed".into();
    }
    if out.starts_with(|c: char| c.is_ascii_digit()) || RESERVED.contains(&format!(" {out} ")) {
        out.insert(0, '_');
    }
    out
}

/// True where `name` can be declared in C as it stands.
pub(super) fn is_identifier(name: &str) -> bool {
    identifier(name) == name
}

/// A different lower-case identifier for each leaf: its own name, or `stem` and its number.
pub(super) fn leaf_names(leaves: &[Leaf], stem: &str, taken: &mut HashSet<String>) -> Vec<String> {
    let mut names = Vec::with_capacity(leaves.len());
    for (i, leaf) in leaves.iter().enumerate() {
        let plain = if leaf.name.is_empty() { format!("{stem}{i}") } else { snake_case(&leaf.name) };
        let mut name = plain.clone();
        let mut suffix = i;
        while !taken.insert(name.clone()) {
            name = format!("{plain}_{suffix}");
            suffix += 1;
        }
        names.push(name);
    }
    names
}

/// An identifier without capitals, and with single underscores between its words: `params['w']` is `params_w`.
fn snake_case(name: &str) -> String {
    let lower = identifier(&name.to_lowercase());
    let words: Vec<&str> = lower.split('_').filter(|w| !w.is_empty()).collect();
    identifier(&words.join("_"))
}

/// `some_name` as `SomeName`.
pub(super) fn camel_case(name: &str) -> String {
    let mut out = String::new();
    for word in identifier(name).split('_').filter(|w| !w.is_empty()) {
        let mut chars = word.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.push_str(chars.as_str());
    }
    if out.starts_with(|c: char| c.is_ascii_alphabetic()) { out } else { format!("Program{out}") }
}

/// Text that may stand in a comment of C or Rust, on one line.
pub(super) fn comment(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    flat.replace("*/", "* /").replace("/*", "/ *").replace("??/", "? ?/").trim_end_matches('\\').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brolga_runtime::abi::Architecture;
    use brolga_runtime::{ArrayShape, ElementType};

    #[test]
    fn any_text_becomes_an_identifier() {
        assert_eq!(identifier("Arg_0.1"), "Arg_0_1");
        assert_eq!(identifier("3d"), "_3d");
        assert_eq!(identifier("fn"), "_fn");
        assert_eq!(identifier("é"), "unnamed");
        assert_eq!(camel_case("jit_train.step"), "JitTrainStep");
        assert_eq!(camel_case("3d"), "Program3d");
        assert_eq!(comment("a*/b\nc"), "a* /b c");
    }

    #[test]
    fn computations_share_the_name_of_their_program() {
        let of = |module: &str| {
            let mut d = DescriptorInfo::new(&format!("net_{module}"), Architecture::X86_64);
            d.module_name = module.into();
            d
        };
        let both = [of("step"), of("predict")];
        assert_eq!((program_name(both.iter()), modules(&both).as_str()), ("net", "step, predict"));
        assert_eq!(program_name(both[..1].iter()), "net_step");
    }

    #[test]
    fn leaf_names_differ() {
        let leaf = |name: &str| Leaf { name: name.into(), ..Leaf::new(ArrayShape::new(ElementType::F32, [])) };
        let names = leaf_names(&[leaf("x"), leaf("X"), leaf(""), leaf("x_1")], "arg", &mut HashSet::new());
        assert_eq!(names, ["x", "x_1", "arg2", "x_1_3"]);
        let of_dict =
            [leaf("params['Dense_0']['kernel']"), leaf("__"), leaf("3d"), leaf("type"), leaf("params_dense_0_kernel")];
        let names = leaf_names(&of_dict, "arg", &mut HashSet::new());
        assert_eq!(names, ["params_dense_0_kernel", "unnamed", "_3d", "_type", "params_dense_0_kernel_4"]);
    }
}
