//! The forms of their own that operations have.
//!
//! Most share one grammar: operands, words and `name = value` with commas between them, attributes, `:` and types, of which
//! the shorter spellings stand for operands and result alike. A table says which attribute a name or a word is.

use super::{Reader, empty_operation};
use crate::Result;
use crate::hlo::ConvolutionDims;
use crate::stablehlo::ir::{Attribute, DotDims, Element, Elements, Operation, Region, TensorType, Type, Value};
use brolga_runtime::{ArrayLiteral, ElementType};
use std::sync::Arc;

/// What the types behind the colon say.
enum Types {
    /// `(T, T) -> T`, `T, T -> T`: those of the operands and of the results.
    Both(Vec<Type>, Vec<Type>),
    /// `T, T`
    List(Vec<Type>),
}

/// An operation, and the types of its results.
type Parsed = (Operation, Vec<Type>);

fn word(kind: &str, word: &str) -> Attribute {
    Attribute::Enum { kind: kind.into(), word: word.into() }
}

impl<'a> Reader<'a> {
    /// An operation in its own form; `first` is the name of its first results.
    pub(super) fn pretty(&mut self, _first: Option<(&'a str, usize)>) -> Result<Parsed> {
        let start = self.c.start();
        let Some(name) = self.c.word() else { return Err(self.c.expected("an operation")) };
        let end = self.c.pos();
        match name {
            "return" | "func.return" | "stablehlo.return" | "chlo.return" | "mhlo.return" => {
                let name = if name == "return" { "func.return" } else { name };
                let mut operation = empty_operation(name);
                operation.operands = self.operands()?;
                self.optional_dictionary(&mut operation.attributes)?;
                if self.c.eat(":") {
                    let types = self.type_list()?;
                    self.check_types((start, end), &operation.operands, &types)?;
                } else if !operation.operands.is_empty() {
                    return Err(self.c.expected("':' and the types of the values"));
                }
                Ok((operation, Vec::new()))
            }
            "call" | "func.call" => {
                let mut operation = empty_operation("func.call");
                let callee = self.c.symbol()?;
                operation.attributes.set("callee", Attribute::Symbol(vec![callee.into()]));
                self.operands_in_parentheses(&mut operation)?;
                self.optional_dictionary(&mut operation.attributes)?;
                self.functional((start, end), operation)
            }
            "stablehlo.constant" | "chlo.constant" => self.constant(name),
            "stablehlo.while" => self.while_loop((start, end)),
            "stablehlo.reduce" => self.reduce((start, end)),
            "stablehlo.custom_call" => {
                let mut operation = empty_operation(name);
                let target = self.c.symbol()?;
                operation.attributes.set("call_target_name", Attribute::string(&target));
                self.operands_in_parentheses(&mut operation)?;
                self.optional_dictionary(&mut operation.attributes)?;
                self.functional((start, end), operation)
            }
            "stablehlo.composite" => {
                let mut operation = empty_operation(name);
                let text = self.c.string("the name of the composite")?;
                operation.attributes.set("name", Attribute::String(text.into()));
                operation.operands = self.operands()?;
                self.optional_dictionary(&mut operation.attributes)?;
                self.functional((start, end), operation)
            }
            "stablehlo.convolution" => {
                let mut operation = empty_operation(name);
                self.operands_in_parentheses(&mut operation)?;
                self.c.expect_word("dim_numbers")?;
                self.c.expect("=")?;
                let dims = self.convolution_dims()?;
                operation.attributes.set("dimension_numbers", Attribute::Convolution(Box::new(dims)));
                self.c.expect(",")?;
                self.window(&mut operation)?;
                self.optional_dictionary(&mut operation.attributes)?;
                self.functional((start, end), operation)
            }
            "chlo.top_k" => {
                let mut operation = empty_operation(name);
                self.c.expect("(")?;
                operation.operands.push(self.operand()?);
                while self.c.eat(",") {
                    match self.c.word() {
                        Some(key @ ("k" | "is_stable")) => {
                            self.c.expect("=")?;
                            let value = self.attribute()?;
                            operation.attributes.set(key, value);
                        }
                        _ => return Err(self.c.expected("'k' or 'is_stable'")),
                    }
                }
                self.c.expect(")")?;
                self.optional_dictionary(&mut operation.attributes)?;
                self.functional((start, end), operation)
            }
            "chlo.scan" => self.scan((start, end)),
            "sdy.sharding_constraint" => {
                let mut operation = empty_operation(name);
                operation.operands.push(self.operand()?);
                self.c.expect("<")?;
                self.c.balanced()?;
                self.c.expect(">")?;
                self.optional_dictionary(&mut operation.attributes)?;
                self.functional((start, end), operation)
            }
            _ if name.starts_with("stablehlo.") || name.starts_with("chlo.") => self.uniform((start, end), name),
            _ if name.contains('.') => Err(self.c.unsupported(start, format!("the operation {name}"))),
            _ => {
                self.c.rewind(start);
                Err(self.c.expected("an operation"))
            }
        }
    }

    /// `%a, %b`, as many as there are.
    fn operands(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        if self.c.peek() == Some(b'%') {
            loop {
                out.push(self.operand()?);
                if !self.c.eat(",") {
                    break;
                }
            }
        }
        Ok(out)
    }

    fn operands_in_parentheses(&mut self, operation: &mut Operation) -> Result<()> {
        self.c.expect("(")?;
        operation.operands.extend(self.operands()?);
        self.c.expect(")")
    }

    /// `T, T`
    fn type_list(&mut self) -> Result<Vec<Type>> {
        let mut out = vec![self.ty()?];
        while self.c.eat(",") {
            out.push(self.ty()?);
        }
        Ok(out)
    }

    /// What stands behind the colon.
    fn types(&mut self) -> Result<Types> {
        self.c.expect(":")?;
        if self.c.peek() == Some(b'(') {
            let (operands, results) = self.function_type()?;
            return Ok(Types::Both(operands, results));
        }
        let list = self.type_list()?;
        if !self.c.eat("->") {
            return Ok(Types::List(list));
        }
        let results = if self.c.peek() == Some(b'(') { self.types_in_parentheses()? } else { vec![self.ty()?] };
        Ok(Types::Both(list, results))
    }

    /// Types of operands and results, or one type for all.
    fn functional(&mut self, span: (usize, usize), operation: Operation) -> Result<Parsed> {
        let (operands, results) = match self.types()? {
            Types::Both(operands, results) => (operands, results),
            Types::List(list) if list.len() == 1 => (vec![list[0].clone(); operation.operands.len()], list),
            Types::List(_) => return Err(self.c.error_span(span.0, span.1, "expected a function's type".to_owned())),
        };
        self.check_types(span, &operation.operands, &operands)?;
        Ok((operation, results))
    }

    /// The grammar that most operations share.
    fn uniform(&mut self, span: (usize, usize), name: &'a str) -> Result<Parsed> {
        let mut operation = empty_operation(name);
        let short = name.split_once('.').map_or(name, |(_, s)| s);
        self.optional_dictionary(&mut operation.attributes)?;
        if self.c.eat("(") {
            self.c.expect(")")?;
        } else {
            loop {
                match self.c.peek() {
                    Some(b'%') => operation.operands.push(self.operand()?),
                    Some(b) if b.is_ascii_alphabetic() => self.keyword(short, &mut operation)?,
                    _ => break,
                }
                self.brackets(short, &mut operation)?;
                if !self.c.eat(",") {
                    break;
                }
            }
        }
        self.optional_dictionary(&mut operation.attributes)?;
        if short == "optimization_barrier" && operation.operands.is_empty() {
            return Ok((operation, Vec::new()));
        }
        let at = self.c.start();
        let types = self.types()?;
        let count = operation.operands.len();
        let (operands, results) = match types {
            Types::Both(operands, results) => (operands, results),
            Types::List(list) => match (short, list.as_slice()) {
                ("tuple", [Type::Tuple(parts)]) => (parts.clone(), list),
                ("optimization_barrier", _) => (list.clone(), list),
                ("select", [condition, value]) => {
                    (vec![condition.clone(), value.clone(), value.clone()], vec![value.clone()])
                }
                ("complex", [Type::Tensor(TensorType { element: Element::Type(ty), dims })]) if ty.is_complex() => {
                    let part = Element::Type(ty.real_part());
                    let part = Type::Tensor(TensorType { element: part, dims: dims.clone() });
                    (vec![part.clone(), part], list)
                }
                (_, [one]) => (vec![one.clone(); count], list),
                _ => {
                    let message = format!("expected the types of the operands and of the result of {name}");
                    return Err(self.c.error(at, message));
                }
            },
        };
        self.check_types(span, &operation.operands, &operands)?;
        Ok((operation, results))
    }

    /// What may stand in brackets behind the first operand.
    fn brackets(&mut self, short: &str, operation: &mut Operation) -> Result<()> {
        if self.c.peek() != Some(b'[') {
            return Ok(());
        }
        match short {
            "get_tuple_element" => {
                self.c.expect("[")?;
                let index = self.c.int("the number of an element")?;
                operation.attributes.set("index", Attribute::int(index));
                self.c.expect("]")
            }
            "slice" => {
                let (mut starts, mut limits, mut strides) = (Vec::new(), Vec::new(), Vec::new());
                self.c.list("[", "]", |c| {
                    starts.push(c.int("the first index")?);
                    c.expect(":")?;
                    limits.push(c.int("the limit")?);
                    strides.push(if c.eat(":") { c.int("the step")? } else { 1 });
                    Ok(())
                })?;
                operation.attributes.set("start_indices", Attribute::ints(starts));
                operation.attributes.set("limit_indices", Attribute::ints(limits));
                operation.attributes.set("strides", Attribute::ints(strides));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A word, or `name = value`.
    fn keyword(&mut self, short: &str, operation: &mut Operation) -> Result<()> {
        let start = self.c.start();
        let name = self.c.word().unwrap_or_default();
        if !self.c.eat("=") {
            let attribute = match (short, operation.operands.is_empty()) {
                ("compare" | "broadcast_compare", true) => "comparison_direction",
                ("compare" | "broadcast_compare", false) => "compare_type",
                _ => {
                    self.c.rewind(start);
                    return Err(self.c.expected("an operand"));
                }
            };
            let kind = if attribute == "compare_type" { "comparison_type" } else { attribute };
            operation.attributes.set(attribute, word(kind, name));
            return Ok(());
        }
        let attribute = match (short, name) {
            (_, "dim") => {
                let attribute = match short {
                    "iota" | "dynamic_iota" => "iota_dimension",
                    "concatenate" | "get_dimension_size" | "set_dimension_size" => "dimension",
                    _ => {
                        self.c.rewind(start);
                        return Err(self.c.expected(&format!("an operand or an attribute of {}", operation.name)));
                    }
                };
                // What follows a colon is the operation's type, not the number's.
                let number = self.c.int("a dimension")?;
                operation.attributes.set(attribute, Attribute::int(number));
                return Ok(());
            }
            ("dynamic_slice", "sizes") => "slice_sizes",
            ("broadcast", "sizes") => "broadcast_sizes",
            ("broadcast_in_dim" | "dynamic_broadcast_in_dim", "dims") => "broadcast_dimensions",
            ("transpose", "dims") => "permutation",
            ("reverse", "dims") => "dimensions",
            ("pad", "low") => "edge_padding_low",
            ("pad", "high") => "edge_padding_high",
            ("pad", "interior") => "interior_padding",
            ("cholesky", "lower") => "lower",
            ("einsum" | "unary_einsum", "config") => "einsum_config",
            ("fft", "length") => "fft_length",
            ("fft", "type") => return self.named_word(operation, "fft_type"),
            ("rng", "distribution") => return self.named_word(operation, "rng_distribution"),
            ("rng_bit_generator", "algorithm") => return self.named_word(operation, "rng_algorithm"),
            ("dot" | "dot_general", "precision") => {
                let mut list = Vec::new();
                self.c.list("[", "]", |c| {
                    let Some(text) = c.word() else { return Err(c.expected("a precision")) };
                    list.push(word("precision", text));
                    Ok(())
                })?;
                operation.attributes.set("precision_config", Attribute::Array(list));
                return Ok(());
            }
            ("dot_general", "batching_dims" | "contracting_dims") => {
                let lhs = self.c.ints("a dimension")?;
                self.c.expect_word("x")?;
                let rhs = self.c.ints("a dimension")?;
                let mut dims = match operation.attribute("dot_dimension_numbers") {
                    Some(Attribute::Dot(dims)) => dims.clone(),
                    _ => Box::new(DotDims::default()),
                };
                if name == "batching_dims" {
                    (dims.lhs_batching, dims.rhs_batching) = (lhs, rhs);
                } else {
                    (dims.lhs_contracting, dims.rhs_contracting) = (lhs, rhs);
                }
                operation.attributes.set("dot_dimension_numbers", Attribute::Dot(dims));
                return Ok(());
            }
            ("dot_general", "algorithm") => {
                let value = if self.c.peek() == Some(b'<') {
                    self.c.expect("<")?;
                    let algorithm = self.dot_algorithm()?;
                    self.c.expect(">")?;
                    Attribute::DotAlgorithm(Box::new(algorithm))
                } else {
                    self.attribute()?
                };
                operation.attributes.set("algorithm", value);
                return Ok(());
            }
            ("reduce_precision", "format") => {
                let at = self.c.start();
                let text = self.c.word().unwrap_or_default();
                let parts = text.strip_prefix('e').and_then(|t| t.split_once('m'));
                let number = |t: &str| t.parse::<i64>().ok().filter(|n| (0..=1024).contains(n));
                let Some((exponent, mantissa)) = parts.and_then(|(e, m)| number(e).zip(number(m))) else {
                    self.c.rewind(at);
                    return Err(self.c.expected("a format such as 'e5m10'"));
                };
                operation.attributes.set("exponent_bits", Attribute::int(exponent));
                operation.attributes.set("mantissa_bits", Attribute::int(mantissa));
                return Ok(());
            }
            _ => {
                self.c.rewind(start);
                return Err(self.c.expected(&format!("an operand or an attribute of {}", operation.name)));
            }
        };
        let value =
            if self.c.peek() == Some(b'[') { Attribute::ints(self.c.ints("a number")?) } else { self.attribute()? };
        operation.attributes.set(attribute, value);
        Ok(())
    }

    fn named_word(&mut self, operation: &mut Operation, attribute: &str) -> Result<()> {
        let Some(text) = self.c.word() else { return Err(self.c.expected("a word")) };
        operation.attributes.set(attribute, word(attribute, text));
        Ok(())
    }

    /// `{...} dense<...> : T`, or the generic form without quotes.
    fn constant(&mut self, name: &str) -> Result<Parsed> {
        let mut operation = empty_operation(name);
        if self.c.eat("(") {
            self.c.expect(")")?;
            if self.c.eat("<") {
                self.dictionary(&mut operation.attributes)?;
                self.c.expect(">")?;
            }
            self.optional_dictionary(&mut operation.attributes)?;
            self.c.expect(":")?;
            let (_, results) = self.function_type()?;
            return Ok((operation, results));
        }
        self.optional_dictionary(&mut operation.attributes)?;
        let start = self.c.start();
        let value = self.attribute()?;
        let Attribute::Elements(elements) = &value else {
            return Err(self.c.error(start, "expected a constant such as 'dense<1.0> : tensor<2xf32>'".to_owned()));
        };
        let ty = Type::Tensor(elements.ty.clone());
        operation.attributes.set("value", value);
        Ok((operation, vec![ty]))
    }

    /// `(%x = %a, ...) : T attributes {...} cond {...} do {...}`
    fn while_loop(&mut self, span: (usize, usize)) -> Result<Parsed> {
        let mut operation = empty_operation("stablehlo.while");
        let mut names: Vec<(usize, &'a str)> = Vec::new();
        self.c.expect("(")?;
        if !self.c.eat(")") {
            loop {
                let at = self.c.start();
                names.push((at, self.c.name("%", "an argument of the loop")?));
                self.c.expect("=")?;
                operation.operands.push(self.operand()?);
                if !self.c.eat(",") {
                    self.c.expect(")")?;
                    break;
                }
            }
        }
        let mut types = Vec::new();
        if !names.is_empty() {
            self.c.expect(":")?;
            types = self.type_list()?;
        }
        self.check_types(span, &operation.operands, &types)?;
        if self.c.eat_word("attributes") {
            self.dictionary(&mut operation.attributes)?;
        }
        for keyword in ["cond", "do"] {
            self.c.expect_word(keyword)?;
            let arguments = names.iter().zip(&types).map(|(&(at, name), ty)| (at, name, ty.clone())).collect();
            operation.regions.push(self.region(Some(arguments))?);
        }
        Ok((operation, types))
    }

    /// `(%a init: %b), ... applies stablehlo.add across dimensions = [0] : T`, or with `reducer (...) {...}`.
    fn reduce(&mut self, span: (usize, usize)) -> Result<Parsed> {
        let mut operation = empty_operation("stablehlo.reduce");
        let mut initial = Vec::new();
        loop {
            self.c.expect("(")?;
            operation.operands.push(self.operand()?);
            self.c.expect_word("init")?;
            self.c.expect(":")?;
            initial.push(self.operand()?);
            self.c.expect(")")?;
            if !self.c.eat(",") {
                break;
            }
        }
        operation.operands.append(&mut initial);
        let at = self.c.start();
        let applied = if self.c.eat_word("applies") {
            match self.c.word() {
                Some(name) => Some(name),
                None => return Err(self.c.expected("an operation")),
            }
        } else {
            None
        };
        let location = self.c.locate(at);
        self.c.expect_word("across")?;
        self.c.expect_word("dimensions")?;
        self.c.expect("=")?;
        operation.attributes.set("dimensions", Attribute::ints(self.c.ints("a dimension")?));
        self.optional_dictionary(&mut operation.attributes)?;
        self.c.expect(":")?;
        let (operands, results) = self.function_type()?;
        self.check_types(span, &operation.operands, &operands)?;
        let region = match applied {
            Some(name) => {
                let Some(Type::Tensor(first)) = operands.first() else {
                    return Err(self.c.error_span(span.0, span.1, "expected a tensor to reduce".to_owned()));
                };
                let scalar = Type::Tensor(TensorType { element: first.element.clone(), dims: Vec::new() });
                let mut arguments = self.define(at, "", vec![scalar.clone()])?;
                arguments.extend(self.define(at, "", vec![scalar.clone()])?);
                let mut inner = empty_operation(name);
                inner.at = location;
                inner.operands.clone_from(&arguments);
                inner.results = self.define(at, "", vec![scalar])?;
                let mut end = empty_operation("stablehlo.return");
                end.at = location;
                end.operands.clone_from(&inner.results);
                Region { arguments, body: vec![inner, end] }
            }
            None => {
                self.c.expect_word("reducer")?;
                let (mut elements, mut accumulators) = (Vec::new(), Vec::new());
                while self.c.eat("(") {
                    elements.push(self.block_argument()?);
                    self.c.expect(",")?;
                    accumulators.push(self.block_argument()?);
                    self.c.expect(")")?;
                }
                elements.append(&mut accumulators);
                self.region(Some(elements))?
            }
        };
        operation.regions.push(region);
        Ok((operation, results))
    }

    /// `%x: T loc(...)`
    fn block_argument(&mut self) -> Result<(usize, &'a str, Type)> {
        let at = self.c.start();
        let name = self.c.name("%", "an argument of the block")?;
        self.c.expect(":")?;
        let ty = self.ty()?;
        self.optional_location()?;
        Ok((at, name, ty))
    }

    /// `(%a, ...) inits (%b, ...) dimension=0 attributes {...} {...} : (T) -> T`
    fn scan(&mut self, span: (usize, usize)) -> Result<Parsed> {
        let mut operation = empty_operation("chlo.scan");
        self.operands_in_parentheses(&mut operation)?;
        let inputs = operation.operands.len();
        self.c.expect_word("inits")?;
        self.operands_in_parentheses(&mut operation)?;
        let carries = operation.operands.len() - inputs;
        operation.attributes.set("inputs", Attribute::int(inputs as i64));
        operation.attributes.set("carries", Attribute::int(carries as i64));
        self.c.expect_word("dimension")?;
        self.c.expect("=")?;
        operation.attributes.set("dimension", Attribute::int(self.c.int("a dimension")?));
        if self.c.eat_word("attributes") {
            self.dictionary(&mut operation.attributes)?;
        }
        operation.regions.push(self.region(None)?);
        self.functional(span, operation)
    }

    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, or `raw` and all fields.
    pub(super) fn convolution_dims(&mut self) -> Result<ConvolutionDims> {
        let start = self.c.start();
        if self.c.eat_word("raw") {
            return Err(self.c.unsupported(start, "the raw form of #stablehlo.conv"));
        }
        let input = self.labels(['b', 'f'])?;
        self.c.expect_word("x")?;
        let kernel = self.labels(['i', 'o'])?;
        self.c.expect("->")?;
        let output = self.labels(['b', 'f'])?;
        Ok(ConvolutionDims {
            input_batch: input.0[0],
            input_feature: input.0[1],
            input_spatial: input.1,
            kernel_input_feature: kernel.0[0],
            kernel_output_feature: kernel.0[1],
            kernel_spatial: kernel.1,
            output_batch: output.0[0],
            output_feature: output.0[1],
            output_spatial: output.1,
        })
    }

    /// `[b, 0, 1, f]`: where the two letters stand, and the numbers.
    fn labels(&mut self, letters: [char; 2]) -> Result<([usize; 2], Vec<usize>)> {
        let start = self.c.start();
        let mut found = [None; 2];
        let mut spatial: Vec<(usize, usize)> = Vec::new();
        let mut position = 0;
        self.c.list("[", "]", |c| {
            let at = c.start();
            if c.peek().is_some_and(|b| b.is_ascii_digit()) {
                let number = usize::try_from(c.int("a dimension")?).unwrap_or(usize::MAX);
                spatial.push((number, position));
            } else {
                let text = c.word().unwrap_or_default();
                let k = letters.iter().position(|l| text.chars().eq([*l]));
                match k.and_then(|k| found.get_mut(k)) {
                    Some(slot @ None) => *slot = Some(position),
                    _ => {
                        c.rewind(at);
                        let [a, b] = letters;
                        return Err(c.expected(&format!("'{a}', '{b}' or a number, each once")));
                    }
                }
            }
            position += 1;
            Ok(())
        })?;
        spatial.sort_unstable();
        let dense = spatial.iter().enumerate().all(|(k, &(number, _))| k == number);
        match found {
            [Some(a), Some(b)] if dense => Ok(([a, b], spatial.into_iter().map(|(_, p)| p).collect())),
            _ => {
                let [a, b] = letters;
                let message = format!("expected '{a}', '{b}' and the numbers of the spatial dimensions from 0");
                Err(self.c.error(start, message))
            }
        }
    }

    /// `window = {stride = [1, 1], pad = [[0, 0], [1, 1]], ...}`
    fn window(&mut self, operation: &mut Operation) -> Result<()> {
        self.c.expect_word("window")?;
        self.c.expect("=")?;
        self.c.expect("{")?;
        while !self.c.eat("}") {
            let start = self.c.start();
            let key = self.c.word().unwrap_or_default();
            let attribute = match key {
                "stride" => "window_strides",
                "pad" => "padding",
                "lhs_dilate" => "lhs_dilation",
                "rhs_dilate" => "rhs_dilation",
                "reverse" => "window_reversal",
                _ => {
                    self.c.rewind(start);
                    return Err(self.c.expected("'stride', 'pad', 'lhs_dilate', 'rhs_dilate' or 'reverse'"));
                }
            };
            self.c.expect("=")?;
            let value = match key {
                "pad" => {
                    let mut list = Vec::new();
                    self.c.list("[", "]", |c| {
                        let at = c.start();
                        let pair = c.ints("an amount")?;
                        if pair.len() != 2 {
                            return Err(c.error(at, "expected a low and a high amount".to_owned()));
                        }
                        list.extend(pair);
                        Ok(())
                    })?;
                    let rows = (list.len() / 2) as i64;
                    let data = ArrayLiteral::from_elements(&[rows, 2], &list);
                    let dims = [rows, 2].map(crate::stablehlo::ir::Dim::Fixed).to_vec();
                    let ty = TensorType { element: Element::Type(ElementType::S64), dims };
                    Attribute::Elements(Elements { ty, data: Arc::new(data), is_splat: false })
                }
                "reverse" => {
                    let mut list = Vec::new();
                    self.c.list("[", "]", |c| {
                        list.push(match c.peek_word() {
                            Some(text @ ("true" | "false")) => {
                                c.word();
                                i64::from(text == "true")
                            }
                            _ => c.int("a truth value")?,
                        });
                        Ok(())
                    })?;
                    Attribute::Ints(list, Element::Type(ElementType::Pred))
                }
                _ => Attribute::ints(self.c.ints("a number")?),
            };
            operation.attributes.set(attribute, value);
            if !self.c.eat(",") {
                self.c.expect("}")?;
                break;
            }
        }
        Ok(())
    }
}
