//! Messages to a module.

use super::attributes::{self, Source};
use super::envelope;
use super::message::{
    self, Computation as ComputationMessage, Instruction as InstructionMessage, Module as ModuleMessage,
};
use super::{Read, kept, literal, malformed, named, shape};
use crate::Result;
use crate::hlo::{
    Alias, AliasKind, AttrKey, AttrValue, Computation, ComputationId, Instruction, InstructionId, Module, ModuleConfig,
    Opcode, SourceLocation, number_sorted_dimension, quote,
};
use crate::text::check_entry_layout;
use brolga_runtime::Shape;
use cranelift_entity::PrimaryMap;
use hashbrown::{HashMap, HashSet};
use prost::Message;
use prost::bytes::Bytes;

pub(super) fn read(bytes: &[u8]) -> Result<Read> {
    let envelope = envelope::open(Bytes::copy_from_slice(bytes))?;
    let message = ModuleMessage::decode(envelope.module).map_err(|e| malformed("", format!("HloModuleProto: {e}")))?;
    let module = Reader::new(&message).module()?;
    let inputs = envelope.inputs.iter().enumerate().map(|(k, input)| {
        let name = format!("argument {k} of the snapshot");
        literal::read(input).map_err(|e| named(e, &name))
    });
    Ok(Read { module, inputs: inputs.collect::<Result<_>>()? })
}

struct Reader<'a> {
    message: &'a ModuleMessage,
    computations: PrimaryMap<ComputationId, Computation>,
    ids: HashMap<i64, ComputationId>,
    names: Names,
    /// Computations that an `async-start` calls: each is that one's alone.
    begun: HashSet<ComputationId>,
    /// The order of a computation's instructions, where the module is scheduled.
    schedule: HashMap<i64, &'a [i64]>,
}

impl<'a> Reader<'a> {
    fn new(message: &'a ModuleMessage) -> Reader<'a> {
        let sequences = message.schedule.iter().flat_map(|s| &s.sequences);
        let schedule = sequences
            .filter_map(|s| Some((s.computation, &s.instructions.as_ref()?.ids[..])))
            .collect::<HashMap<_, _>>();
        Reader {
            message,
            computations: PrimaryMap::new(),
            ids: HashMap::new(),
            names: Names::default(),
            begun: HashSet::new(),
            schedule,
        }
    }

    fn module(mut self) -> Result<Module> {
        for bytes in &self.message.computations {
            let number = self.computations.len();
            let message = ComputationMessage::decode(bytes.clone())
                .map_err(|e| malformed("", format!("computation {number}: {e}")))?;
            let computation = self.computation(&message)?;
            let id = self.computations.push(computation);
            if self.ids.insert(message.id, id).is_some() {
                return Err(malformed(&message.name, format!("id: expected a new number, found {} again", message.id)));
            }
        }
        let entry = self.entry()?;
        let order = self.computations.keys().collect();
        let config = self.config(&self.computations[entry])?;
        let mut name = sanitized(&self.message.name, "module");
        // A module's name stands without '%': a digit in front would make it a number.
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        Ok(Module { name, computations: self.computations, order, entry, config })
    }

    fn entry(&self) -> Result<ComputationId> {
        let by_name = || {
            let name = &self.message.entry_name;
            self.computations.iter().find(|(_, c)| c.name == *name).map(|(id, _)| id)
        };
        let id = self.message.entry_id;
        self.ids.get(&id).copied().or_else(by_name).ok_or_else(|| {
            malformed("", format!("entry_computation_id: expected the number of a computation, found {id}"))
        })
    }

    fn config(&self, entry: &Computation) -> Result<ModuleConfig> {
        let m = self.message;
        let mut config = ModuleConfig { is_scheduled: m.schedule.is_some(), ..ModuleConfig::default() };
        if let Some(shape) = &m.host_program_shape
            && let Some(result) = &shape.result
        {
            let parameters = shape.parameters.iter().map(shape::read).collect::<Result<Vec<_>>>()?;
            let result = shape::read(result)?;
            check_entry_layout(entry, &parameters, &result)
                .map_err(|message| malformed("", format!("host_program_shape: {message}")))?;
            config.entry_layout = Some((parameters, result));
        }
        let path = |list: &[i64]| list.iter().map(|&i| usize::try_from(i).ok()).collect::<Option<Vec<_>>>();
        for e in m.aliases.iter().flat_map(|a| &a.entries) {
            let parts = (path(&e.output_index), path(&e.parameter_index), usize::try_from(e.parameter).ok());
            let (Some(output_index), Some(parameter_index), Some(parameter)) = parts else {
                return Err(malformed("", "input_output_alias: expected numbers of at least 0"));
            };
            let kind = if e.kind == 2 { AliasKind::Must } else { AliasKind::May };
            config.aliases.push(Alias { output_index, parameter, parameter_index, kind });
        }
        if let Some(donors) = m.donors.as_ref().filter(|d| !d.entries.is_empty()) {
            let each: Vec<_> = donors.entries.iter().map(|d| (d.parameter, d.index.clone())).collect();
            config.other.push((kept::DONORS.to_owned(), kept::donors_text(&each)));
        }
        if let Some(attributes) = m.frontend_attributes.as_ref().filter(|f| !f.entries.is_empty()) {
            config.other.push(("frontend_attributes".to_owned(), kept::frontend_attributes(attributes)?));
        }
        if let Some(frames) = &m.stack_frames {
            config.other.extend(tables(frames));
        }
        Ok(config)
    }

    fn computation(&mut self, message: &ComputationMessage) -> Result<Computation> {
        let name = self.names.fresh(&message.name, "computation");
        let mut scope = Scope::default();
        for bytes in &message.instructions {
            let number = scope.instructions.len();
            let message = InstructionMessage::decode(bytes.clone())
                .map_err(|e| malformed("", format!("instruction {number} of computation '{name}': {e}")))?;
            let instruction =
                self.instruction(&mut scope, &message).map_err(|e| named(e, &sanitized(&message.name, "?")))?;
            let id = scope.instructions.push(instruction);
            if scope.ids.insert(message.id, id).is_some() {
                return Err(malformed(&message.name, format!("id: expected a new number, found {} again", message.id)));
            }
        }
        scope.check_parameters(&name)?;
        let root = scope.ids.get(&message.root_id).copied().ok_or_else(|| {
            let id = message.root_id;
            malformed(&name, format!("root_id: expected the number of an instruction, found {id}"))
        })?;
        let order = match self.schedule.get(&message.id) {
            Some(sequence) => scope.scheduled(sequence, &name)?,
            None => scope.instructions.keys().collect(),
        };
        let thread = &message.execution_thread;
        let trailing = match thread.as_str() {
            "" | "main" => String::new(),
            thread => format!("execution_thread={}", quote(thread)),
        };
        let location = SourceLocation::default();
        Ok(Computation { name, instructions: scope.instructions, order, root, trailing, location })
    }

    fn instruction(&mut self, scope: &mut Scope, m: &InstructionMessage) -> Result<Instruction> {
        let Some(opcode) = Opcode::from_name(&m.opcode) else {
            return Err(malformed("", format!("opcode: expected an operation, found '{}'", m.opcode)));
        };
        let Some(shape) = &m.shape else { return Err(malformed("", "shape: expected a shape, found none")) };
        let shape = shape::read(shape)?;
        let operands = scope.find(&m.operands, "operand_ids")?;
        if !opcode.arity().allows(operands.len()) {
            let what = format!("operand_ids: expected {} for '{opcode}', found {}", opcode.arity(), operands.len());
            return Err(malformed("", what));
        }
        let called = self.called(&m.called)?;
        let shapes: Vec<&Shape> = operands.iter().map(|&o| &scope.instructions[o].shape).collect();
        let backend_config = self.backend_config(m)?;
        let source =
            Source { instruction: m, opcode, shape: &shape, operands: &shapes, called: &called, backend_config };
        let mut attrs = attributes::read(&source)?;
        number_sorted_dimension(opcode, shapes.first().copied(), &mut attrs);
        let fallback = m.opcode.as_str();
        match (opcode, &m.literal) {
            (Opcode::Constant, Some(bytes)) => {
                let value = literal::read(bytes)?;
                if !value.shape().same_ignoring_layout(&shape) {
                    let found = value.shape();
                    return Err(malformed(
                        "",
                        format!("literal: expected a value of shape {shape:#}, found {found:#}"),
                    ));
                }
                attrs.set(AttrKey::Literal, AttrValue::Literal(value.into()));
            }
            (Opcode::Constant, None) => return Err(malformed("", "literal: expected a value, found none")),
            (Opcode::CustomCall, Some(bytes)) => {
                attrs.set(AttrKey::Literal, AttrValue::Literal(literal::read(bytes)?.into()));
            }
            _ => {}
        }
        if !m.control_predecessors.is_empty() {
            let before = scope.find(&m.control_predecessors, "control_predecessor_ids")?;
            attrs.set(AttrKey::ControlPredecessors, AttrValue::Instructions(before));
        }
        if opcode == Opcode::AsyncStart && called.first().is_some_and(|&id| !self.begun.insert(id)) {
            let what = "called_computation_ids: expected a computation that no other async-start calls";
            return Err(malformed("", what));
        }
        let name = scope.names.fresh(&m.name, fallback);
        if opcode == Opcode::Parameter {
            scope.parameters.push(m.parameter_number);
        }
        Ok(Instruction { name, shape, opcode, operands, attrs, location: SourceLocation::default() })
    }

    fn called(&self, ids: &[i64]) -> Result<Vec<ComputationId>> {
        let find = |id: &i64| {
            self.ids.get(id).copied().ok_or_else(|| {
                malformed("", format!("called_computation_ids: expected a computation read before, found {id}"))
            })
        };
        ids.iter().map(find).collect()
    }

    /// The configuration, which may stand in the table of payloads.
    fn backend_config<'m>(&self, m: &'m InstructionMessage) -> Result<&'m [u8]>
    where
        'a: 'm,
    {
        let Some(payload) = &m.backend_config_payload else { return Ok(&m.backend_config) };
        match (&payload.value, payload.id) {
            (Some(value), _) => Ok(value),
            (None, Some(id)) => {
                let found = usize::try_from(id).ok().and_then(|k| self.message.payloads.get(k));
                found.map(|b| &b[..]).ok_or_else(|| {
                    malformed("", format!("backend_config_payload: expected the number of a payload, found {id}"))
                })
            }
            (None, None) => Ok(&m.backend_config),
        }
    }
}

/// The computation being read.
#[derive(Default)]
struct Scope {
    instructions: PrimaryMap<InstructionId, Instruction>,
    ids: HashMap<i64, InstructionId>,
    names: Names,
    /// The numbers of the parameters.
    parameters: Vec<i64>,
}

impl Scope {
    fn find(&self, ids: &[i64], field: &str) -> Result<Vec<InstructionId>> {
        let find = |id: &i64| {
            let found = self.ids.get(id).copied();
            found.ok_or_else(|| malformed("", format!("{field}: expected an instruction read before, found {id}")))
        };
        ids.iter().map(find).collect()
    }

    /// Parameter numbers must be 0, 1, ... in any order.
    fn check_parameters(&self, computation: &str) -> Result<()> {
        let count = self.parameters.len();
        let mut seen = vec![false; count];
        for &number in &self.parameters {
            match usize::try_from(number).ok().and_then(|n| seen.get_mut(n)).filter(|s| !**s) {
                Some(s) => *s = true,
                None => {
                    let what = format!("parameter_number: expected each of 0 to {count} once, found {number}");
                    return Err(malformed(computation, what));
                }
            }
        }
        Ok(())
    }

    /// The instructions in the order of the schedule, which must keep operands before their users.
    fn scheduled(&self, sequence: &[i64], computation: &str) -> Result<Vec<InstructionId>> {
        let order = self.find(sequence, "schedule").map_err(|e| named(e, computation))?;
        let mut seen = HashSet::new();
        let ready = order.iter().all(|&id| {
            let instruction = &self.instructions[id];
            let before = instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or_default();
            instruction.operands.iter().chain(before).all(|o| seen.contains(o)) && seen.insert(id)
        });
        if ready && order.len() == self.instructions.len() {
            return Ok(order);
        }
        Err(malformed(computation, "schedule: expected each instruction once, after its operands"))
    }
}

/// Names that were given, so that none is given twice.
#[derive(Default)]
pub(super) struct Names {
    used: HashSet<String>,
    next: HashMap<String, usize>,
}

impl Names {
    /// `name` made readable, or `fallback` where it is empty; a number is added where it was given before.
    pub(super) fn fresh(&mut self, name: &str, fallback: &str) -> String {
        let base = sanitized(name, fallback);
        if self.used.insert(base.clone()) {
            return base;
        }
        let next = self.next.entry(base.clone()).or_insert(1);
        loop {
            let name = format!("{base}.{next}");
            *next += 1;
            if self.used.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// A name that a text can hold: letters, digits, `_`, `.` and `-`, not beginning with what begins no name.
fn sanitized(name: &str, fallback: &str) -> String {
    let name = if name.is_empty() { fallback } else { name };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut out: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if out.starts_with(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        out.insert(0, '_');
    }
    out
}

/// The tables of source positions as the text has them.
fn tables(index: &message::StackFrameIndex) -> Vec<(String, String)> {
    fn rows(items: impl Iterator<Item = String>) -> String {
        items.enumerate().map(|(i, row)| format!("{} {row}\n", i + 1)).collect()
    }
    let locations = index.locations.iter().map(|l| {
        let (file, function) = (l.file_name_id, l.function_name_id);
        let (line, end_line, column, end_column) = (l.line, l.end_line, l.column, l.end_column);
        format!(
            "{{file_name_id={file} function_name_id={function} line={line} end_line={end_line} column={column} \
             end_column={end_column}}}"
        )
    });
    let frames = index
        .frames
        .iter()
        .map(|f| format!("{{file_location_id={} parent_frame_id={}}}", f.file_location_id, f.parent_frame_id));
    let all = [
        ("FileNames", rows(index.files.iter().map(|f| quote(f)))),
        ("FunctionNames", rows(index.functions.iter().map(|f| quote(f)))),
        ("FileLocations", rows(locations)),
        ("StackFrames", rows(frames)),
    ];
    all.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(name, rows)| (name.to_owned(), rows)).collect()
}
