//! The struct of a program for several sizes: a call says the sizes, and its slices must have the lengths of that size.

use super::{Signature, check_length, element_type, is_raw, rust_type, signature};
use crate::object::names::{camel_case, comment};
use brolga_runtime::abi::{DescriptorInfo, Leaf};
use std::fmt::Write;

/// The leaf of that number in each size.
fn each(descriptors: &[DescriptorInfo], i: usize, result: bool) -> Vec<&Leaf> {
    descriptors.iter().filter_map(|d| if result { d.results.get(i) } else { d.parameters.get(i) }).collect()
}

/// The one type that a leaf has in every size.
fn fixed(leaves: &[&Leaf]) -> Option<String> {
    let first = rust_type(leaves.first()?);
    leaves.iter().all(|leaf| rust_type(leaf) == first).then_some(first)
}

/// Elements of the slice for a leaf.
fn length(leaf: &Leaf) -> u64 {
    if is_raw(leaf) { leaf.byte_size().div_ceil(8) } else { leaf.buffer_elements() as u64 }
}

/// Appends the struct; `types` are those of the single sizes.
pub(super) fn whole(out: &mut String, descriptors: &[DescriptorInfo], types: &[String]) {
    let Some(first) = descriptors.first() else { return };
    let ty = camel_case(first.program_name());
    let slice = |i: usize, result: bool| {
        let leaves = each(descriptors, i, result);
        fixed(&leaves).unwrap_or_else(|| match leaves.first() {
            Some(leaf) if !is_raw(leaf) => format!("[{}]", element_type(leaf.shape.ty)),
            _ => "[u64]".to_owned(),
        })
    };
    let describe = |i: usize, result: bool| {
        let leaves = each(descriptors, i, result);
        let mut shapes: Vec<String> = leaves.iter().map(|leaf| format!("`{}`", leaf.shape)).collect();
        shapes.dedup();
        shapes.join(", ")
    };
    let used = ["parameters", "results", "sizes", "number", "slot", "caller", "lengths", "length"];
    let Signature { arguments, docs, borrows, parameter_pointers, result_pointers, parameters, results } =
        signature(first, &used, &describe, &slice);
    let mut lengths = String::new();
    let names = [(&parameters, false), (&results, true)];
    for (names, result) in names {
        for (i, name) in names.iter().enumerate() {
            let leaves = each(descriptors, i, result);
            // A result in a parameter's buffer has the parameter's length.
            if fixed(&leaves).is_some() || (result && parameters.contains(name)) {
                continue;
            }
            let expected: Vec<String> = leaves.iter().map(|leaf| length(leaf).to_string()).collect();
            let index = if result { parameters.len() + i } else { i };
            lengths += &check_length(index, name, &format!("[{}][number]", expected.join(", ")));
        }
    }
    let count = descriptors.len();
    let dimensions = first.open.len();
    let table: Vec<String> = descriptors.iter().map(|d| format!("{:?}", d.sizes())).collect();
    let programs: Vec<String> = types.iter().map(|ty| format!("{ty}::program()?")).collect();
    let arms: String =
        types.iter().enumerate().map(|(i, ty)| format!("                {i} => {ty}::program(),\n")).collect();
    let opens: String = first
        .open
        .iter()
        .map(|o| {
            let name = parameters.get(o.parameter as usize).map_or("", String::as_str);
            format!("    /// * dimension {} of `{name}`\n", o.dimension)
        })
        .collect();
    let list: Vec<String> = descriptors.iter().map(DescriptorInfo::size_text).collect();
    let _ = write!(
        out,
        r#"
/// The program compiled from the HLO module `{module}` for the sizes {list}.
///
/// Programs are independent: make one for each thread that calls it. The workspace of a size is allocated at its first call.
#[allow(dead_code)]
pub struct {ty} {{
    options: ::brolga_runtime::RunOptions,
    callers: [::core::option::Option<::brolga_runtime::Caller>; {count}],
}}

#[allow(dead_code, clippy::too_many_arguments, clippy::large_types_passed_by_value, clippy::doc_markdown)]
impl {ty} {{
    /// The sizes that the program was compiled for: in each, the sizes of
    ///
{opens}    pub const SIZES: [[i64; {dimensions}]; {count}] = [{table}];

    /// The programs of all sizes, for calls with buffers or literals chosen at run time.
    ///
    /// # Errors
    /// Where this processor lacks instructions that the program was compiled for.
    pub fn sizes() -> ::core::result::Result<::brolga_runtime::Sizes, ::brolga_runtime::LoadError> {{
        ::brolga_runtime::Sizes::new(::std::vec![{programs}])
    }}

    /// A program that runs on the calling thread.
    ///
    /// # Errors
    /// Where this processor lacks instructions that the program was compiled for.
    pub fn new() -> ::core::result::Result<Self, ::brolga_runtime::Error> {{
        Self::with_options(&::brolga_runtime::RunOptions::default())
    }}

    /// A program with a say in threads and seed.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options(
        options: &::brolga_runtime::RunOptions,
    ) -> ::core::result::Result<Self, ::brolga_runtime::Error> {{
        Self::sizes()?;
        ::core::result::Result::Ok(Self {{ options: options.clone(), callers: [const {{ None }}; {count}] }})
    }}

    /// Sets the seed of the stateful random number generators.
    pub fn set_seed(&mut self, seed: u64) {{
        self.options.seed = seed;
        for caller in self.callers.iter_mut().flatten() {{
            caller.set_seed(seed);
        }}
    }}

    /// Runs the program for the `sizes`, one of [`Self::SIZES`]. Arrays whose sizes differ are slices in the order of the layout:
    ///
{docs}    ///
    /// # Errors
    /// Where the program was not compiled for the sizes, a slice has not the length that belongs to them, or a service or a
    /// custom call fails.
    pub fn run(&mut self, sizes: [i64; {dimensions}]{arguments}) -> ::core::result::Result<(), ::brolga_runtime::RunError> {{
        let Some(number) = Self::SIZES.iter().position(|known| *known == sizes) else {{
            return Err(::brolga_runtime::RunError::Size {{
                found: format!("{{sizes:?}}"),
                sizes: "{list}".into(),
            }});
        }};
{lengths}        let slot = &mut self.callers[number];
        if slot.is_none() {{
            let program = match number {{
{arms}                _ => return Err(::brolga_runtime::RunError::Index(number)),
            }};
            let program = program.map_err(|e| ::brolga_runtime::RunError::Unsupported(e.to_string()))?;
            *slot = Some(::brolga_runtime::Caller::new(&program, &self.options)?);
        }}
        let Some(caller) = slot.as_mut() else {{ return Err(::brolga_runtime::RunError::Index(number)) }};
{borrows}        let parameters: [*const ::core::ffi::c_void; {parameter_count}] = [{parameter_pointers}];
        let results: [*mut ::core::ffi::c_void; {result_count}] = [{result_pointers}];
        // SAFETY: the types of the arguments, and the lengths of slices checked above, give each buffer the size and
        // alignment that the descriptor of this size states, and mutable references overlap nothing.
        unsafe {{ caller.call(&parameters, &results) }}
    }}
}}
"#,
        module = comment(&first.module_name),
        list = list.join(", "),
        table = table.join(", "),
        programs = programs.join(", "),
        parameter_count = parameter_pointers.len(),
        result_count = result_pointers.len(),
        parameter_pointers = parameter_pointers.join(", "),
        result_pointers = result_pointers.join(", "),
    );
}
