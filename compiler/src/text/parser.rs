//! Modules, computations and instructions.
//!
//! Asynchronous forms may be written with sugar: `negate-start(x)` stands for an `async-start` that calls a computation
//! of its own, which holds the parameters and the `negate`. The sugar is undone here, so that the rest of the compiler
//! knows one form only.

use super::cursor::Cursor;
use super::header::{self, HeaderPositions};
use super::{literal, shapes};
use crate::hlo::{
    AttrKey, AttrValue, Attrs, Computation, ComputationId, Instruction, InstructionId, Module, ModuleConfig, Opcode,
    SourceLocation, number_sorted_dimension,
};
use crate::shape::{self, InferContext};
use crate::{Error, Result, suggestion};
use brolga_runtime::Shape;
use cranelift_entity::PrimaryMap;
use hashbrown::{HashMap, HashSet};

pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    computations: PrimaryMap<ComputationId, Computation>,
    names: HashMap<&'a str, ComputationId>,
    /// Computations whose body is being read, outermost first.
    open: Vec<&'a str>,
    /// Computations that an `async-start` calls: each is that one's alone.
    begun: HashSet<ComputationId>,
    /// Computations that the text does not name, with the name that they would like to have.
    unnamed: Vec<(ComputationId, &'static str)>,
}

/// The computation being read.
#[derive(Default)]
pub(super) struct Scope<'a> {
    instructions: PrimaryMap<InstructionId, Instruction>,
    names: HashMap<&'a str, InstructionId>,
    root: Option<InstructionId>,
    /// Instructions written as operands of others, which have no name yet.
    unnamed: Vec<InstructionId>,
    /// True for a text that is one instruction: names that it does not define are parameters.
    lone: bool,
    /// Parameters, with where their numbers stand.
    parameters: Vec<(usize, (usize, usize), &'a str)>,
}

/// What an opcode word means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Itself.
    Plain(Opcode),
    /// `X-start`.
    Start(Opcode),
    /// `X-update` or `X-done`: `async-update` or `async-done`, of the second.
    Follow(Opcode, Opcode),
}

impl Head {
    fn from_word(word: &str) -> Option<Head> {
        let wrapped = |suffix| word.strip_suffix(suffix).and_then(Opcode::from_name);
        Opcode::from_name(word)
            .map(Head::Plain)
            .or_else(|| wrapped("-start").map(Head::Start))
            .or_else(|| wrapped("-update").map(|op| Head::Follow(Opcode::AsyncUpdate, op)))
            .or_else(|| wrapped("-done").map(|op| Head::Follow(Opcode::AsyncDone, op)))
    }

    /// The operation whose row says what operands and attributes the text takes.
    fn row(self) -> Opcode {
        match self {
            Head::Plain(op) | Head::Start(op) | Head::Follow(op, _) => op,
        }
    }

    /// The attribute that `name` stands for here: collective permutes write `slice_sizes` for a list of lists.
    fn attribute(self, name: &str) -> Option<AttrKey> {
        match (AttrKey::from_name(name)?, self.row()) {
            (AttrKey::SliceSizes, Opcode::CollectivePermute | Opcode::CollectivePermuteStart) => {
                Some(AttrKey::SliceSizesPerDevice)
            }
            (key, _) => Some(key),
        }
    }

    fn admits(self, key: AttrKey) -> bool {
        let row = self.row();
        row.required_attrs().contains(&key)
            || row.optional_attrs().contains(&key)
            || AttrKey::COMMON.contains(&key)
            || matches!(self, Head::Start(_)) && key == AttrKey::AsyncExecutionThread
    }
}

/// The result that a signature `(a: f32[2]) -> f32[]` states, with where it stands.
type StatedResult = (Shape, (usize, usize));

pub(super) fn parse_module(source: &str) -> Result<Module> {
    let mut cursor = Cursor::new(source)?;
    let lone = header::at_instruction(&mut cursor);
    let (name, config, positions) = if lone { header::none("_") } else { header::header(&mut cursor)? };
    let mut parser = Parser {
        cursor,
        computations: PrimaryMap::new(),
        names: HashMap::new(),
        open: Vec::new(),
        begun: HashSet::new(),
        unnamed: Vec::new(),
    };
    if lone {
        let entry = parser.lone_instruction()?;
        return parser.finish(name, config, positions, entry);
    }
    let (mut entry, mut last) = (None, None);
    while parser.cursor.peek().is_some() {
        let start = parser.cursor.start();
        let is_entry = parser.cursor.word() == Some("ENTRY");
        if !is_entry {
            parser.cursor.rewind(start);
        } else if entry.is_some() {
            return Err(parser.cursor.error(start, "expected one ENTRY computation, found a second".to_owned()));
        }
        let id = parser.computation()?;
        last = Some(id);
        if is_entry {
            entry = last;
        }
    }
    // As in XLA, the last computation is the entry where none is marked.
    let Some(entry) = entry.or(last) else { return Err(parser.cursor.expected("a computation")) };
    parser.finish(name, config, positions, entry)
}

impl<'a> Parser<'a> {
    fn finish(
        mut self,
        name: String,
        config: ModuleConfig,
        positions: HeaderPositions,
        entry: ComputationId,
    ) -> Result<Module> {
        let mut names = FreshNames::new(self.names.keys().copied());
        for (id, base) in std::mem::take(&mut self.unnamed) {
            self.computations[id].name = names.fresh(base);
        }
        // Callees come before callers in the text, and those made on the way right before their users.
        let order = self.computations.keys().collect();
        let module = Module { name, computations: self.computations, order, entry, config };
        if let Some((parameters, result)) = &module.config.entry_layout {
            let (start, end) = positions.entry_layout;
            check_entry_layout(module.entry(), parameters, result)
                .map_err(|message| self.cursor.error_span(start, end, message))?;
        }
        Ok(module)
    }

    /// Reads a computation at the top level, after `ENTRY`.
    fn computation(&mut self) -> Result<ComputationId> {
        let start = self.cursor.start();
        let name = self.cursor.name("the name of a computation")?;
        if self.names.contains_key(name) {
            return Err(self.cursor.error(start, format!("expected a new computation name, found '{name}' again")));
        }
        let location = self.cursor.locate(start);
        let signature = if self.cursor.peek() == Some(b'(') { Some(self.signature()?) } else { None };
        self.open.push(name);
        let mut computation = self.body(location)?;
        self.open.pop();
        computation.name = name.to_owned();
        if let Some((result, (start, end))) = signature {
            check_result(&computation, &result, Shape::same_ignoring_layout)
                .map_err(|message| self.cursor.error_span(start, end, message))?;
        }
        while self.cursor.eat(",") {
            let start = self.cursor.start();
            if self.cursor.word() != Some("execution_thread") || !computation.trailing.is_empty() {
                self.cursor.rewind(start);
                return Err(self.cursor.expected("the attribute execution_thread, once"));
            }
            self.cursor.expect("=")?;
            self.cursor.string("a quoted string")?;
            computation.trailing = self.cursor.since(start).to_owned();
        }
        let id = self.computations.push(computation);
        self.names.insert(name, id);
        Ok(id)
    }

    /// Reads a signature. What it says of parameters is read and dropped, as in XLA: the body's `parameter` instructions
    /// say all there is to know, and texts written by hand let the two drift apart.
    fn signature(&mut self) -> Result<StatedResult> {
        let c = &mut self.cursor;
        c.expect("(")?;
        if !c.eat(")") {
            loop {
                c.name("the name of a parameter")?;
                c.eat(":");
                shapes::shape(c)?;
                if !c.eat(",") {
                    break;
                }
            }
            c.expect(")")?;
        }
        c.expect("->")?;
        let start = c.start();
        let result = shapes::shape(c)?;
        Ok((result, (start, c.pos())))
    }

    /// Reads the instructions between braces. The caller names the computation.
    fn body(&mut self, location: SourceLocation) -> Result<Computation> {
        self.cursor.expect("{")?;
        let mut scope = Scope::default();
        let mut last = None;
        while !self.cursor.eat("}") {
            last = Some(self.named_instruction(&mut scope)?);
        }
        // As elsewhere, the last instruction is the result where none is marked.
        let Some(root) = scope.root.or(last) else {
            let end = self.cursor.pos();
            return Err(self.cursor.error_span(end - 1, end, "expected an instruction, found '}'".to_owned()));
        };
        self.close(scope, root, location)
    }

    /// Reads a text that is one instruction, whose operands become parameters in the order in which they appear.
    fn lone_instruction(&mut self) -> Result<ComputationId> {
        let start = self.cursor.start();
        let location = self.cursor.locate(start);
        let mut scope = Scope { lone: true, ..Scope::default() };
        let root = self.named_instruction(&mut scope)?;
        self.cursor.expect_end()?;
        let computation = self.close(scope, root, location)?;
        let id = self.computations.push(computation);
        self.unnamed.push((id, "_"));
        Ok(id)
    }

    /// The computation that has been read. The caller names it.
    fn close(&self, mut scope: Scope<'a>, root: InstructionId, location: SourceLocation) -> Result<Computation> {
        self.check_parameters(&scope)?;
        if !scope.unnamed.is_empty() {
            let mut names = FreshNames::new(scope.names.keys().copied());
            for id in std::mem::take(&mut scope.unnamed) {
                let instruction = &mut scope.instructions[id];
                instruction.name = names.fresh(instruction.opcode.name());
            }
        }
        let order = scope.instructions.keys().collect();
        let instructions = scope.instructions;
        Ok(Computation { name: String::new(), instructions, order, root, trailing: String::new(), location })
    }

    /// Parameter numbers must be 0, 1, ... in any order.
    fn check_parameters(&self, scope: &Scope<'a>) -> Result<()> {
        let count = scope.parameters.len();
        let mut seen = vec![false; count];
        for &(number, (start, end), name) in &scope.parameters {
            let message = match seen.get_mut(number) {
                Some(s) if !*s => {
                    *s = true;
                    continue;
                }
                Some(_) => format!("expected each parameter number once, found '{number}' again"),
                None => format!("expected a parameter number below {count}, found '{number}'"),
            };
            let mut error = self.cursor.error_span(start, end, message);
            if let Error::Syntax { site, .. } = &mut error {
                site.instruction = Some(name.to_owned());
            }
            return Err(error);
        }
        Ok(())
    }

    /// `ROOT name = shape opcode(...), ...`
    fn named_instruction(&mut self, scope: &mut Scope<'a>) -> Result<InstructionId> {
        let start = self.cursor.start();
        let is_root = self.cursor.word() == Some("ROOT");
        if !is_root {
            self.cursor.rewind(start);
        } else if scope.root.is_some() {
            return Err(self.cursor.error(start, "expected one ROOT, found a second".to_owned()));
        }
        let start = self.cursor.start();
        let name = self.cursor.name("an instruction or '}'")?;
        // An inline computation stands inside of an instruction of another.
        let outer = self.cursor.instruction.replace(name);
        if scope.names.contains_key(name) {
            return Err(self.cursor.error(start, format!("expected a new instruction name, found '{name}' again")));
        }
        let location = self.cursor.locate(start);
        self.cursor.expect("=")?;
        let shape = self.stated_shape()?;
        let mut instruction = self.instruction(scope, shape, location, false)?;
        instruction.name = name.to_owned();
        let id = scope.instructions.push(instruction);
        scope.names.insert(name, id);
        if is_root {
            scope.root = Some(id);
        }
        self.cursor.instruction = outer;
        Ok(id)
    }

    /// The shape that comes next, if one does.
    fn stated_shape(&mut self) -> Result<Option<Shape>> {
        if shapes::at_shape(&mut self.cursor) { shapes::shape(&mut self.cursor).map(Some) } else { Ok(None) }
    }

    /// Everything after the shape, which may be left out where the operands tell it. The caller names the instruction.
    fn instruction(
        &mut self,
        scope: &mut Scope<'a>,
        shape: Option<Shape>,
        location: SourceLocation,
        nested: bool,
    ) -> Result<Instruction> {
        let start = self.cursor.start();
        let Some(head) = self.cursor.word().and_then(Head::from_word) else {
            self.cursor.rewind(start);
            let what = if shape.is_some() { "an opcode" } else { "a shape or an opcode" };
            return Err(self.cursor.expected_name(what, Opcode::ALL.iter().map(|opcode| opcode.name())));
        };
        let span = (start, self.cursor.pos());
        let told_by_operands = match head {
            Head::Plain(op) => !matches!(op, Opcode::Parameter | Opcode::Constant),
            _ => false,
        };
        if shape.is_none() && !told_by_operands {
            let message = format!("expected a shape before '{}', found none", head.row());
            return Err(self.cursor.error_span(span.0, span.1, message));
        }
        let mut attrs = Attrs::new();
        let mut operands = Vec::new();
        self.cursor.expect("(")?;
        match head {
            Head::Plain(Opcode::Parameter) => {
                let at = self.cursor.start();
                let number = self.cursor.size("a parameter number")?;
                let name = self.cursor.instruction.unwrap_or_default();
                scope.parameters.push((number, (at, self.cursor.pos()), name));
                attrs.set(AttrKey::ParameterNumber, AttrValue::Int(number as i64));
            }
            Head::Plain(Opcode::Constant) => {
                let value = match &shape {
                    Some(shape) if !self.cursor.eat(literal::ELIDED) => {
                        AttrValue::Literal(literal::constant(&mut self.cursor, shape)?.into())
                    }
                    _ => AttrValue::Raw(literal::ELIDED.to_owned()),
                };
                attrs.set(AttrKey::Literal, value);
            }
            _ => {
                if self.cursor.peek() != Some(b')') {
                    loop {
                        operands.push(self.operand(scope)?);
                        if !self.cursor.eat(",") {
                            break;
                        }
                    }
                }
            }
        }
        if !self.cursor.eat(")") {
            return Err(self.cursor.expected(if operands.is_empty() { "')'" } else { "',' or ')'" }));
        }
        let row = head.row();
        if !row.arity().allows(operands.len()) {
            let message = format!("expected {} for '{row}', found '{}'", row.arity(), operands.len());
            return Err(self.cursor.error_span(span.0, span.1, message));
        }
        self.attributes(scope, head, &mut attrs, nested)?;
        if let Some(missing) = row.required_attrs().iter().find(|key| attrs.get(**key).is_none()) {
            let message = format!("expected attribute '{}' for '{row}', found none", missing.name());
            return Err(self.cursor.error_span(span.0, span.1, message));
        }
        number_sorted_dimension(row, operands.first().map(|&o| &scope.instructions[o].shape), &mut attrs);
        let shape = match shape {
            Some(shape) => shape,
            None => self.inferred_shape(scope, row, &operands, &attrs, span)?,
        };
        if row == Opcode::AsyncStart && attrs.computation(AttrKey::Calls).is_some_and(|id| !self.begun.insert(id)) {
            let message = "expected a computation that no other async-start calls".to_owned();
            return Err(self.cursor.error_span(span.0, span.1, message));
        }
        if let Head::Follow(_, wrapped) = head {
            self.check_follows(scope, operands.first().copied(), wrapped, span)?;
        }
        let instruction = Instruction { name: String::new(), shape, opcode: row, operands, attrs, location };
        match head {
            Head::Start(_) => self.wrap(scope, instruction, span),
            _ => Ok(instruction),
        }
    }

    /// The shape of an instruction that does not say it.
    fn inferred_shape(
        &self,
        scope: &Scope<'a>,
        opcode: Opcode,
        operands: &[InstructionId],
        attrs: &Attrs,
        span: (usize, usize),
    ) -> Result<Shape> {
        let operands: Vec<&Shape> = operands.iter().map(|&o| &scope.instructions[o].shape).collect();
        let known = InferContext::of(&self.computations);
        shape::infer(&known, opcode, &operands, attrs, None).map_err(|e| self.cursor.invalid(span, e))
    }

    /// `X-update` and `X-done` go on with what `X-start` began.
    fn check_follows(
        &self,
        scope: &Scope<'a>,
        operand: Option<InstructionId>,
        wrapped: Opcode,
        span: (usize, usize),
    ) -> Result<()> {
        let mut begun = operand.map(|id| &scope.instructions[id]);
        while let Some(update) = begun.filter(|i| i.opcode == Opcode::AsyncUpdate) {
            begun = update.operands.first().map(|&id| &scope.instructions[id]);
        }
        let callee = begun.filter(|i| i.opcode == Opcode::AsyncStart).and_then(|i| i.attrs.computation(AttrKey::Calls));
        let found = match callee.map(|id| &self.computations[id]) {
            Some(computation) => computation.instructions[computation.root].opcode.name(),
            None => "no asynchronous operation",
        };
        if found == wrapped.name() {
            return Ok(());
        }
        let message = format!("expected an asynchronous '{wrapped}' as operand, found '{found}'");
        Err(self.cursor.error_span(span.0, span.1, message))
    }

    /// `, name=value` as often as it comes.
    ///
    /// After the comma behind a `nested` instruction, the next operand may come instead.
    fn attributes(&mut self, scope: &Scope<'a>, head: Head, attrs: &mut Attrs, nested: bool) -> Result<()> {
        loop {
            let comma = self.cursor.start();
            if !self.cursor.eat(",") {
                return Ok(());
            }
            let after = self.cursor.start();
            if nested && !(self.cursor.word().is_some() && self.cursor.peek() == Some(b'=')) {
                self.cursor.rewind(comma);
                return Ok(());
            }
            self.cursor.rewind(after);
            let start = self.cursor.start();
            let Some(name) = self.cursor.word() else { return Err(self.cursor.expected("an attribute")) };
            let key = head.attribute(name).filter(|key| head.admits(*key));
            let Some(key) = key else {
                self.cursor.rewind(start);
                let names = AttrKey::ALL.iter().filter(|key| head.admits(**key)).map(|key| key.name());
                return Err(self.cursor.expected_name(&format!("an attribute of '{}'", head.row()), names));
            };
            if attrs.get(key).is_some() {
                return Err(self.cursor.error(start, format!("expected each attribute once, found '{name}' again")));
            }
            self.cursor.expect("=")?;
            let value = self.attribute_value(scope, key)?;
            attrs.set(key, value);
        }
    }

    /// An operand: a name or a whole instruction, with or without its shape.
    fn operand(&mut self, scope: &mut Scope<'a>) -> Result<InstructionId> {
        let start = self.cursor.start();
        let shape = self.stated_shape()?;
        let after = self.cursor.start();
        if self.cursor.word().is_some() && self.cursor.peek() == Some(b'(') {
            self.cursor.rewind(after);
            self.cursor.enter("nested instructions")?;
            let location = self.cursor.locate(start);
            let instruction = self.instruction(scope, shape, location, true)?;
            self.cursor.leave();
            let id = scope.instructions.push(instruction);
            scope.unnamed.push(id);
            return Ok(id);
        }
        self.cursor.rewind(after);
        if let Some(shape) = shape.as_ref().filter(|_| scope.lone) {
            let location = self.cursor.locate(start);
            self.implied_parameter(scope, shape, location)?;
        }
        let id = self.instruction_reference(scope)?;
        let Some(shape) = shape else { return Ok(id) };
        let actual = &scope.instructions[id].shape;
        if !shape.same_ignoring_layout(actual) {
            let name = &scope.instructions[id].name;
            let message = format!("expected shape {actual:#} of operand '{name}', found '{shape:#}'");
            return Err(self.cursor.error(start, message));
        }
        Ok(id)
    }

    /// Makes the name that comes next a parameter, unless it is known; takes nothing.
    fn implied_parameter(&mut self, scope: &mut Scope<'a>, shape: &Shape, location: SourceLocation) -> Result<()> {
        let start = self.cursor.start();
        let name = self.cursor.name("the name of an instruction")?;
        let span = (start, self.cursor.pos());
        self.cursor.rewind(start);
        if scope.names.contains_key(name) || self.cursor.instruction == Some(name) {
            return Ok(());
        }
        let number = scope.parameters.len();
        scope.parameters.push((number, span, name));
        let id = scope.instructions.push(Instruction {
            name: name.to_owned(),
            shape: shape.clone(),
            opcode: Opcode::Parameter,
            operands: Vec::new(),
            attrs: Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(number as i64)),
            location,
        });
        scope.names.insert(name, id);
        Ok(())
    }

    /// The name of an instruction defined above.
    pub(super) fn instruction_reference(&mut self, scope: &Scope<'a>) -> Result<InstructionId> {
        let start = self.cursor.start();
        let name = self.cursor.name("the name of an instruction")?;
        scope.names.get(name).copied().ok_or_else(|| {
            let hint = suggestion(name, scope.names.keys().copied());
            self.cursor.error(start, format!("expected an instruction defined above, found '{name}'{hint}"))
        })
    }

    /// The name of a computation defined above, or a whole computation in braces.
    pub(super) fn computation_reference(&mut self) -> Result<ComputationId> {
        if self.cursor.peek() == Some(b'{') {
            self.cursor.enter("inline computations")?;
            let start = self.cursor.start();
            let location = self.cursor.locate(start);
            let computation = self.body(location)?;
            self.cursor.leave();
            let id = self.computations.push(computation);
            self.unnamed.push((id, "inline"));
            return Ok(id);
        }
        let start = self.cursor.start();
        let name = self.cursor.name("the name of a computation")?;
        if let Some(id) = self.names.get(name) {
            return Ok(*id);
        }
        let message = if self.open.contains(&name) {
            format!("expected a computation defined above, found '{name}', which would call itself")
        } else {
            format!("expected a computation defined above, found '{name}'")
        };
        Err(self.cursor.error(start, message))
    }

    /// Undoes the sugar of `X-start`: the operation moves into a computation of its own.
    fn wrap(&mut self, scope: &Scope<'a>, mut inner: Instruction, span: (usize, usize)) -> Result<Instruction> {
        let result = match inner.shape.as_tuple() {
            Some([Shape::Tuple(_), result, ..]) => Some(result.clone()),
            _ => None,
        };
        let Some(result) = result else {
            let message = format!(
                "expected a tuple of operands, result and context for '{}-start', found '{:#}'",
                inner.opcode, inner.shape
            );
            return Err(self.cursor.error_span(span.0, span.1, message));
        };
        let mut outer = Instruction {
            name: String::new(),
            shape: std::mem::replace(&mut inner.shape, result),
            opcode: Opcode::AsyncStart,
            operands: std::mem::take(&mut inner.operands),
            attrs: Attrs::new(),
            location: inner.location,
        };
        for &key in AttrKey::COMMON.iter().chain(&[AttrKey::AsyncExecutionThread]) {
            if let Some(value) = inner.attrs.remove(key) {
                outer.attrs.set(key, value);
            }
        }
        let mut instructions = PrimaryMap::new();
        for (i, &operand) in outer.operands.iter().enumerate() {
            inner.operands.push(instructions.push(Instruction {
                name: format!("param_{i}"),
                shape: scope.instructions[operand].shape.clone(),
                opcode: Opcode::Parameter,
                operands: Vec::new(),
                attrs: Attrs::new().with(AttrKey::ParameterNumber, AttrValue::Int(i as i64)),
                location: inner.location,
            }));
        }
        inner.name = inner.opcode.name().to_owned();
        let location = inner.location;
        let root = instructions.push(inner);
        let trailing = match outer.attrs.str(AttrKey::AsyncExecutionThread) {
            Some(thread) => format!("execution_thread={}", crate::hlo::quote(thread)),
            None => String::new(),
        };
        let order = instructions.keys().collect();
        let computation = Computation { name: String::new(), instructions, order, root, trailing, location };
        let id = self.computations.push(computation);
        self.unnamed.push((id, "async_wrapped"));
        outer.attrs.set(AttrKey::Calls, AttrValue::Computation(id));
        Ok(outer)
    }
}

/// Makes names for what the text does not name.
struct FreshNames<'a> {
    used: HashSet<&'a str>,
    /// The number to try next for each base, so that a base asked for often is not tried from the start each time.
    next: HashMap<&'static str, usize>,
}

impl<'a> FreshNames<'a> {
    fn new(used: impl Iterator<Item = &'a str>) -> Self {
        FreshNames { used: used.collect(), next: HashMap::new() }
    }

    /// `base` or `base.N`, given to nobody yet.
    fn fresh(&mut self, base: &'static str) -> String {
        let next = self.next.entry(base).or_insert(0);
        loop {
            let name = if *next == 0 { base.to_owned() } else { format!("{base}.{next}") };
            *next += 1;
            // Two bases never meet: none of them ends in a dot and a number.
            if !self.used.contains(name.as_str()) {
                return name;
            }
        }
    }
}

/// Equal in everything but layouts and element types: `entry_computation_layout` is about layouts, and XLA prints
/// modules whose element types it changed without changing them there.
fn same_dimensions(a: &Shape, b: &Shape) -> bool {
    match (a, b) {
        (Shape::Array(a), Shape::Array(b)) => a.same_dims(b),
        (Shape::Tuple(a), Shape::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_dimensions(a, b)),
        _ => a.same_ignoring_layout(b),
    }
}

/// The shapes of `entry_computation_layout` must be those of the entry, but for layouts and element types.
pub(crate) fn check_entry_layout(
    computation: &Computation,
    parameters: &[Shape],
    result: &Shape,
) -> Result<(), String> {
    let actual = computation.parameters();
    if actual.len() != parameters.len() {
        return Err(format!("expected {} parameters as in the body, found '{}'", actual.len(), parameters.len()));
    }
    for (i, (id, shape)) in actual.into_iter().zip(parameters).enumerate() {
        let actual = &computation.instructions[id].shape;
        if !same_dimensions(actual, shape) {
            return Err(format!("expected shape {actual:#} of parameter {i} as in the body, found '{shape:#}'"));
        }
    }
    check_result(computation, result, same_dimensions)
}

/// The shape that a text repeats of a computation's result must agree with it.
fn check_result(computation: &Computation, result: &Shape, agree: fn(&Shape, &Shape) -> bool) -> Result<(), String> {
    let actual = computation.result_shape();
    if !agree(actual, result) {
        return Err(format!("expected shape {actual:#} of the result as in the body, found '{result:#}'"));
    }
    Ok(())
}
