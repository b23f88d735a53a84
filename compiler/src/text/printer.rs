//! The printer: what [`super::parse`] reads back to the same module.
//!
//! Invariant: attributes print in the order of their table, asynchronous forms without sugar, so that equal modules
//! print equal.

use super::header::TABLES;
use super::literal;
use crate::hlo::{
    Alias, AliasKind, AttrKey, AttrValue, Computation, ComputationId, ConvolutionDims, Instruction, InstructionId,
    Module, Opcode, WindowDimension,
};
use brolga_runtime::{Shape, display};
use std::fmt::Write;

/// How a module prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// `%` before names.
    pub percent: bool,
    /// The shape before each operand.
    pub operand_shapes: bool,
    /// Layouts of shapes.
    pub layouts: bool,
    /// `metadata={...}` and `origin={...}`.
    pub metadata: bool,
    /// Constants of more than ten elements; `{...}` stands for them otherwise.
    pub large_constants: bool,
}

/// Everything that a text can carry but the shapes of operands, which repeat what is known.
impl Default for PrintOptions {
    fn default() -> Self {
        PrintOptions { percent: true, operand_shapes: false, layouts: true, metadata: true, large_constants: true }
    }
}

/// Elements from which on a constant counts as large.
const LARGE: usize = 11;

/// The text of a module.
pub fn print(module: &Module, options: &PrintOptions) -> String {
    let mut printer = Printer { module, options, out: String::new() };
    printer.header();
    for &id in &module.order {
        printer.out.push('\n');
        printer.computation(id);
    }
    printer.out
}

/// The text of one instruction, without a line break.
pub fn print_instruction(
    module: &Module,
    computation: ComputationId,
    id: InstructionId,
    options: &PrintOptions,
) -> String {
    let mut printer = Printer { module, options, out: String::new() };
    let computation = &module.computations[computation];
    printer.instruction(computation, &computation.instructions[id]);
    printer.out
}

struct Printer<'m> {
    module: &'m Module,
    options: &'m PrintOptions,
    out: String,
}

impl Printer<'_> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn name(&mut self, name: &str) {
        // Without `%` these two would read as keywords.
        if self.options.percent || matches!(name, "ROOT" | "ENTRY") {
            self.out.push('%');
            self.out.push_str(name);
        } else {
            self.bare_name(name);
        }
    }

    /// A name without `%`, unless it could not be read then.
    fn bare_name(&mut self, name: &str) {
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            self.out.push('%');
        }
        self.out.push_str(name);
    }

    fn shape(&mut self, shape: &Shape) {
        if self.options.layouts {
            self.put(format_args!("{shape}"));
        } else {
            self.put(format_args!("{shape:#}"));
        }
    }

    /// `items` with `separator` between them.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, separator: &str, mut print: impl FnMut(&mut Self, T)) {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(separator);
            }
            print(self, item);
        }
    }

    fn header(&mut self) {
        let module = self.module;
        let config = &module.config;
        self.put(format_args!("HloModule {}", module.name));
        if config.is_scheduled {
            self.out.push_str(", is_scheduled=true");
        }
        if !config.aliases.is_empty() {
            self.out.push_str(", input_output_alias={ ");
            self.list(&config.aliases, ", ", Self::alias);
            self.out.push_str(" }");
        }
        if let Some((parameters, result)) = &config.entry_layout {
            self.out.push_str(", entry_computation_layout={(");
            self.list(parameters, ", ", Self::shape);
            self.out.push_str(")->");
            self.shape(result);
            self.out.push('}');
        }
        if let Some(count) = config.replica_count {
            self.put(format_args!(", replica_count={count}"));
        }
        if let Some(count) = config.num_partitions {
            self.put(format_args!(", num_partitions={count}"));
        }
        let is_table = |key: &str| TABLES.contains(&key);
        for (key, value) in config.other.iter().filter(|(key, _)| !is_table(key)) {
            self.put(format_args!(", {key}={value}"));
        }
        self.out.push('\n');
        for (key, rows) in config.other.iter().filter(|(key, _)| is_table(key)) {
            self.put(format_args!("\n{key}\n{rows}"));
        }
    }

    fn alias(&mut self, alias: &Alias) {
        let kind = match alias.kind {
            AliasKind::May => "may-alias",
            AliasKind::Must => "must-alias",
        };
        self.out.push('{');
        self.list(&alias.output_index, ",", |p, i| p.put(format_args!("{i}")));
        self.put(format_args!("}}: ({}, {{", alias.parameter));
        self.list(&alias.parameter_index, ",", |p, i| p.put(format_args!("{i}")));
        self.put(format_args!("}}, {kind})"));
    }

    fn computation(&mut self, id: ComputationId) {
        let computation = &self.module.computations[id];
        if id == self.module.entry {
            self.out.push_str("ENTRY ");
        }
        self.name(&computation.name);
        self.out.push_str(" (");
        self.list(computation.parameters(), ", ", |p, i| {
            let parameter = &computation.instructions[i];
            p.bare_name(&parameter.name);
            p.out.push_str(": ");
            p.put(format_args!("{:#}", parameter.shape));
        });
        self.put(format_args!(") -> {:#} {{\n", computation.result_shape()));
        for &i in &computation.order {
            self.out.push_str(if i == computation.root { "  ROOT " } else { "  " });
            self.instruction(computation, &computation.instructions[i]);
            self.out.push('\n');
        }
        self.out.push('}');
        if !computation.trailing.is_empty() {
            self.put(format_args!(", {}", computation.trailing));
        }
        self.out.push('\n');
    }

    fn instruction(&mut self, computation: &Computation, instruction: &Instruction) {
        self.name(&instruction.name);
        self.out.push_str(" = ");
        self.shape(&instruction.shape);
        self.put(format_args!(" {}(", instruction.opcode));
        match instruction.opcode {
            Opcode::Parameter => {
                self.put(format_args!("{}", instruction.parameter_number().unwrap_or_default()));
            }
            Opcode::Constant => self.constant(instruction),
            _ => self.list(&instruction.operands, ", ", |p, &operand| {
                let operand = &computation.instructions[operand];
                if p.options.operand_shapes {
                    p.shape(&operand.shape);
                    p.out.push(' ');
                }
                p.name(&operand.name);
            }),
        }
        self.out.push(')');
        for (key, value) in instruction.attrs.iter() {
            let hidden = match key {
                AttrKey::ParameterNumber => true,
                AttrKey::Literal => instruction.opcode == Opcode::Constant,
                AttrKey::Metadata | AttrKey::Origin => !self.options.metadata,
                _ => false,
            };
            if !hidden {
                let name = if key == AttrKey::SliceSizesPerDevice { "slice_sizes" } else { key.name() };
                self.put(format_args!(", {name}="));
                self.value(computation, instruction, value);
            }
        }
    }

    fn constant(&mut self, instruction: &Instruction) {
        let elements: usize = instruction.shape.leaves().iter().map(|s| s.as_array().map_or(0, |a| a.elements())).sum();
        match instruction.literal() {
            Some(value) if self.options.large_constants || elements < LARGE => {
                let _ = display::write_values(&mut self.out, value);
            }
            _ => self.out.push_str(literal::ELIDED),
        }
    }

    fn value(&mut self, computation: &Computation, instruction: &Instruction, value: &AttrValue) {
        match value {
            AttrValue::Int(v) => self.put(format_args!("{v}")),
            AttrValue::Bool(v) => self.put(format_args!("{v}")),
            AttrValue::Float(v) => {
                let _ = display::write_number(&mut self.out, *v);
            }
            AttrValue::Ints(v) => self.braced(v, ",", |p, i| p.put(format_args!("{i}"))),
            AttrValue::Str(v) => self.out.push_str(&crate::hlo::quote(v)),
            AttrValue::Word(v) => self.out.push_str(v),
            AttrValue::Words(v) => self.braced(v, ",", |p, w| p.out.push_str(w)),
            AttrValue::Computation(id) => self.name(&self.module.computations[*id].name),
            AttrValue::Computations(ids) => {
                self.braced(ids, ", ", |p, id| p.name(&p.module.computations[*id].name));
            }
            AttrValue::Instructions(ids) => {
                self.braced(ids, ", ", |p, id| p.name(&computation.instructions[*id].name));
            }
            AttrValue::Window(dims) => self.window(dims),
            AttrValue::DimLabels(dims) => self.dim_labels(computation, instruction, dims),
            AttrValue::Padding(dims) => self.list(dims, "x", |p, d| {
                p.put(format_args!("{}_{}", d.low, d.high));
                if d.interior != 0 {
                    p.put(format_args!("_{}", d.interior));
                }
            }),
            AttrValue::SliceRanges(ranges) => self.braced(ranges, ", ", |p, r| {
                p.put(format_args!("[{}:{}", r.start, r.limit));
                if r.stride != 1 {
                    p.put(format_args!(":{}", r.stride));
                }
                p.out.push(']');
            }),
            AttrValue::Shape(shape) => self.shape(shape),
            AttrValue::Shapes(shapes) => self.braced(shapes, ", ", Self::shape),
            AttrValue::Raw(text) => self.out.push_str(text),
            AttrValue::Literal(value) => literal::print_with_shape(&mut self.out, value),
        }
    }

    fn braced<T>(&mut self, items: impl IntoIterator<Item = T>, separator: &str, print: impl FnMut(&mut Self, T)) {
        self.out.push('{');
        self.list(items, separator, print);
        self.out.push('}');
    }

    /// Fields that have their default in every dimension are left out, but for the size.
    fn window(&mut self, dims: &[WindowDimension]) {
        let default = WindowDimension::default();
        self.out.push('{');
        self.window_field(dims, "size", true, |w| w.size.to_string());
        self.window_field(dims, " stride", dims.iter().any(|w| w.stride != default.stride), |w| w.stride.to_string());
        let padded = dims.iter().any(|w| (w.padding_low, w.padding_high) != (0, 0));
        self.window_field(dims, " pad", padded, |w| format!("{}_{}", w.padding_low, w.padding_high));
        let base = dims.iter().any(|w| w.base_dilation != default.base_dilation);
        self.window_field(dims, " lhs_dilate", base, |w| w.base_dilation.to_string());
        let window = dims.iter().any(|w| w.window_dilation != default.window_dilation);
        self.window_field(dims, " rhs_dilate", window, |w| w.window_dilation.to_string());
        let reversed = dims.iter().any(|w| w.reversal);
        self.window_field(dims, " rhs_reversal", reversed, |w| u8::from(w.reversal).to_string());
        self.out.push('}');
    }

    fn window_field(
        &mut self,
        dims: &[WindowDimension],
        name: &str,
        shown: bool,
        print: impl Fn(&WindowDimension) -> String,
    ) {
        if shown && !dims.is_empty() {
            self.out.push_str(name);
            self.out.push('=');
            self.list(dims, "x", |p, w| p.out.push_str(&print(w)));
        }
    }

    fn dim_labels(&mut self, computation: &Computation, instruction: &Instruction, dims: &ConvolutionDims) {
        let rank = |shape: Option<&Shape>| shape.and_then(Shape::as_array).map_or(0, |a| a.rank());
        let operand = |i: usize| instruction.operands.get(i).map(|&id| &computation.instructions[id].shape);
        let ConvolutionDims { input_batch, input_feature, input_spatial, .. } = dims;
        self.labels(rank(operand(0)), ('b', *input_batch), ('f', *input_feature), input_spatial);
        self.out.push('_');
        let (input, output) = (('i', dims.kernel_input_feature), ('o', dims.kernel_output_feature));
        self.labels(rank(operand(1)), input, output, &dims.kernel_spatial);
        self.out.push_str("->");
        let (batch, feature) = (('b', dims.output_batch), ('f', dims.output_feature));
        self.labels(rank(Some(&instruction.shape)), batch, feature, &dims.output_spatial);
    }

    /// One letter a dimension; `?` for those of an operand of the given rank that play no part.
    fn labels(&mut self, rank: usize, first: (char, usize), second: (char, usize), spatial: &[usize]) {
        let digits = spatial.iter().enumerate().filter_map(|(n, &d)| Some((char::from_digit(n as u32, 10)?, d)));
        let places: Vec<(char, usize)> = [first, second].into_iter().chain(digits).collect();
        let rank = places.iter().map(|(_, d)| d + 1).max().unwrap_or(0).max(rank);
        for d in 0..rank {
            self.out.push(places.iter().find(|(_, at)| *at == d).map_or('?', |(label, _)| *label));
        }
    }
}
