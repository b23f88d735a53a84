//! Attributes, and the words that stand in them.

use super::{Printer, dense};
use crate::stablehlo::ir::{Attribute, Dictionary, DotDims, Element};
use brolga_runtime::ElementType;

/// Whether MLIR reads `name` without quotes.
fn is_bare(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.'))
}

impl Printer<'_> {
    /// A string in quotes: what is not printable, and the two characters that mean something, in hexadecimal.
    pub(super) fn string(&mut self, bytes: &[u8]) {
        self.out.push('"');
        for &b in bytes {
            match b {
                b'"' | b'\\' | ..b' ' | 0x7f.. => self.put(format_args!("\\{b:02X}")),
                b => self.out.push(char::from(b)),
            }
        }
        self.out.push('"');
    }

    /// `@name`, or `@"a name"`.
    pub(super) fn symbol(&mut self, name: &str) {
        self.out.push('@');
        if is_bare(name) {
            self.out.push_str(name);
        } else {
            self.string(name.as_bytes());
        }
    }

    /// `{name = value, name}`
    pub(super) fn dictionary<'a>(&mut self, entries: impl Iterator<Item = (&'a str, &'a Attribute)>) {
        self.out.push('{');
        self.list(entries, |p, (name, value)| {
            if is_bare(name) {
                p.out.push_str(name);
            } else {
                p.string(name.as_bytes());
            }
            if *value != Attribute::Unit {
                p.out.push_str(" = ");
                p.attribute(value);
            }
        });
        self.out.push('}');
    }

    fn attribute(&mut self, value: &Attribute) {
        match value {
            Attribute::Unit => self.out.push_str("unit"),
            Attribute::Bool(b) => self.put(format_args!("{b}")),
            Attribute::Int(n, Element::Type(ElementType::Pred)) => self.put(format_args!("{}", *n != 0)),
            Attribute::Int(n, element @ Element::Type(ElementType::U64)) => {
                self.put(format_args!("{} : {element}", *n as u64));
            }
            Attribute::Int(n, element) => self.put(format_args!("{n} : {element}")),
            Attribute::Float(x, element) => self.put(format_args!("{} : {element}", dense::number(*x, element))),
            Attribute::String(bytes) => self.string(bytes),
            Attribute::Symbol(parts) => {
                for (k, part) in parts.iter().enumerate() {
                    self.out.push_str(if k > 0 { "::" } else { "" });
                    self.symbol(part);
                }
            }
            Attribute::Type(ty) => self.put(format_args!("{ty}")),
            Attribute::Array(list) => {
                self.out.push('[');
                self.list(list, Self::attribute);
                self.out.push(']');
            }
            Attribute::Dictionary(entries) => self.nested(entries),
            Attribute::Ints(list, element) => {
                let is_truth = *element == Element::Type(ElementType::Pred);
                self.array(element, list, |p, &n| match is_truth {
                    true => p.put(format_args!("{}", n != 0)),
                    false => p.put(format_args!("{n}")),
                });
            }
            Attribute::Floats(list, element) => {
                self.array(element, list, |p, &x| p.out.push_str(&dense::number(x, element)));
            }
            Attribute::Elements(elements) => dense::elements(&mut self.out, elements),
            Attribute::Enum { kind, word } => {
                let dialect = if &**kind == "ragged_dot_mode" { "chlo" } else { "stablehlo" };
                self.put(format_args!("#{dialect}<{kind} {word}>"));
            }
            Attribute::Dot(dims) => {
                self.out.push_str("#stablehlo.dot<");
                self.dot(dims);
                self.out.push('>');
            }
            Attribute::RaggedDot(dims) => {
                self.out.push_str("#chlo.ragged_dot<");
                self.dot(&dims.dot);
                self.put(format_args!(
                    ", lhs_ragged_dimensions = {:?}, rhs_group_dimensions = {:?}>",
                    dims.lhs_ragged, dims.rhs_group
                ));
            }
            Attribute::Gather(d) => self.put(format_args!(
                "#stablehlo.gather<offset_dims = {:?}, collapsed_slice_dims = {:?}, operand_batching_dims = {:?}, \
                 start_indices_batching_dims = {:?}, start_index_map = {:?}, index_vector_dim = {}>",
                d.offset_dims,
                d.collapsed_slice_dims,
                d.operand_batching_dims,
                d.start_indices_batching_dims,
                d.start_index_map,
                d.index_vector_dim
            )),
            Attribute::Scatter(d) => self.put(format_args!(
                "#stablehlo.scatter<update_window_dims = {:?}, inserted_window_dims = {:?}, input_batching_dims = {:?}, \
                 scatter_indices_batching_dims = {:?}, scatter_dims_to_operand_dims = {:?}, index_vector_dim = {}>",
                d.update_window_dims,
                d.inserted_window_dims,
                d.input_batching_dims,
                d.scatter_indices_batching_dims,
                d.scatter_dims_to_operand_dims,
                d.index_vector_dim
            )),
            Attribute::Convolution(d) => {
                self.out.push_str("#stablehlo.conv<");
                self.labels(('b', d.input_batch), ('f', d.input_feature), &d.input_spatial);
                self.out.push('x');
                self.labels(('i', d.kernel_input_feature), ('o', d.kernel_output_feature), &d.kernel_spatial);
                self.out.push_str("->");
                self.labels(('b', d.output_batch), ('f', d.output_feature), &d.output_spatial);
                self.out.push('>');
            }
            Attribute::DotAlgorithm(a) => self.put(format_args!(
                "#stablehlo.dot_algorithm<lhs_precision_type = {}, rhs_precision_type = {}, accumulation_type = {}, \
                 lhs_component_count = {}, rhs_component_count = {}, num_primitive_operations = {}, \
                 allow_imprecise_accumulation = {}>",
                a.lhs_precision_type,
                a.rhs_precision_type,
                a.accumulation_type,
                a.lhs_component_count,
                a.rhs_component_count,
                a.num_primitive_operations,
                a.allow_imprecise_accumulation
            )),
            Attribute::ResultAccuracy(a) => {
                let f64 = Element::Type(ElementType::F64);
                self.put(format_args!(
                    "#stablehlo.result_accuracy<atol = {}, rtol = {}, ulps = {}, mode = \
                     #stablehlo.result_accuracy_mode<{}>>",
                    dense::number(a.atol, &f64),
                    dense::number(a.rtol, &f64),
                    a.ulps,
                    a.mode
                ));
            }
            Attribute::OutputOperandAlias(a) => self.put(format_args!(
                "#stablehlo.output_operand_alias<output_tuple_indices = {:?}, operand_index = {}, \
                 operand_tuple_indices = {:?}>",
                a.output_tuple_indices, a.operand_index, a.operand_tuple_indices
            )),
            Attribute::Channel { handle, kind } => {
                self.put(format_args!("#stablehlo.channel_handle<handle = {handle}, type = {kind}>"));
            }
            Attribute::MeshAxes(mesh) => {
                self.out.push_str("#stablehlo.replica_group_mesh_axes<mesh = ");
                self.symbol(&mesh.mesh);
                self.out.push_str(", axes = [");
                self.list(&mesh.axes, |p, (name, part)| {
                    p.out.push_str("#stablehlo.axis_ref<name = ");
                    p.string(name.as_bytes());
                    if let Some((before, size)) = part {
                        p.put(format_args!(", sub_axis_info = ({before}){size}"));
                    }
                    p.out.push('>');
                });
                self.out.push_str("]>");
            }
            Attribute::Other(text) => self.out.push_str(text),
        }
    }

    fn nested(&mut self, entries: &Dictionary) {
        self.dictionary(entries.iter());
    }

    /// `array<i64: 1, 2>`
    fn array<T>(&mut self, element: &Element, list: &[T], print: impl FnMut(&mut Self, &T)) {
        self.put(format_args!("array<{element}"));
        self.out.push_str(if list.is_empty() { "" } else { ": " });
        self.list(list, print);
        self.out.push('>');
    }

    fn dot(&mut self, d: &DotDims) {
        self.put(format_args!(
            "lhs_batching_dimensions = {:?}, rhs_batching_dimensions = {:?}, lhs_contracting_dimensions = {:?}, \
             rhs_contracting_dimensions = {:?}",
            d.lhs_batching, d.rhs_batching, d.lhs_contracting, d.rhs_contracting
        ));
    }

    /// `[b, 0, 1, f]`: what each dimension is.
    fn labels(&mut self, first: (char, usize), second: (char, usize), spatial: &[usize]) {
        let letters = [first, second].map(|(letter, place)| (place, letter.to_string()));
        let numbers = spatial.iter().enumerate().map(|(k, &place)| (place, k.to_string()));
        let mut all: Vec<(usize, String)> = letters.into_iter().chain(numbers).collect();
        all.sort();
        self.out.push('[');
        self.list(all, |p, (_, label)| p.out.push_str(&label));
        self.out.push(']');
    }
}
