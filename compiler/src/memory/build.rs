//! From a planned module to a schedule.

use super::schedule::{
    Block, BlockId, ConstantId, Definition, LeafPlace, Schedule, Step as ScheduleStep, Value, ValueId,
};
use crate::error::{Error, Result, Site};
use crate::fusion::{self, GroupKind, Step};
use crate::hlo::{Alias, AliasKind, AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode};
use crate::hlo::{Leaf, resolve};
use crate::kernel::ir::{Buffer, Kernel, Phase, Role};
use crate::kernel::lower::lower_while;
use crate::kernel::lower::{self, Numerics};
use crate::kernel::registers::{RegisterLoop, StateArray};
use crate::kernel::verify;
use crate::schedule::schedule;
use brolga_runtime::abi::dynamic_sizes_offset;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Shape};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Loops and conditionals may nest this deep.
const MAX_NESTING: usize = 128;

/// Plans and lowers every computation that runs, and puts the kernels in order.
///
/// # Errors
/// [`Error::Unsupported`] for the first instruction without a compiled form.
pub fn build(module: &Module, numerics: Numerics) -> Result<Schedule> {
    let mut builder =
        Builder { module, numerics, schedule: Schedule::default(), constants: HashMap::new(), token: None };
    let entry = module.entry;
    let computation = &module.computations[entry];
    // Tokens are no part of the interface.
    let (mut arguments, mut parameters) = (Vec::new(), Vec::new());
    for p in computation.parameters() {
        let inst = &computation.instructions[p];
        for (n, leaf) in inst.shape.leaves().into_iter().enumerate() {
            if *leaf == Shape::Token {
                arguments.push(builder.token((entry, p)));
                continue;
            }
            let number = parameters.len() as u32;
            let shape = array_leaf(inst, Some(leaf))?;
            let v = builder.push((entry, p), n, shape, Definition::Parameter(number));
            arguments.push(v);
            parameters.push(v);
        }
    }
    let (block, results) = builder.block(entry, &arguments, 0)?;
    let mut schedule = builder.schedule;
    schedule.parameters = parameters;
    let results = results.into_iter().zip(computation.result_shape().leaves());
    schedule.results = results.filter(|(_, leaf)| **leaf != Shape::Token).map(|(v, _)| v).collect();
    schedule.donated = donated(module, &schedule);
    schedule.entry = Some(block);
    if let Some((parameters, result)) = &module.config.abi {
        schedule.parameter_places = places(parameters)?;
        schedule.result_places = places(std::slice::from_ref(result))?;
        let counts = (schedule.parameters.len(), schedule.results.len());
        if counts != (schedule.parameter_places.len(), schedule.result_places.len()) {
            return Err(Error::Internal("the entry's leaves are not those that callers see".to_owned()));
        }
    }
    Ok(schedule)
}

/// The pairs of `input_output_alias` as numbers of parameter and result leaves.
fn donated(module: &Module, schedule: &Schedule) -> Vec<(u32, u32, bool)> {
    let entry = module.entry();
    let arrays = |shape: &Shape| shape.leaves().iter().filter(|s| matches!(s, Shape::Array(_))).count();
    // The number of a leaf among the arrays of a shape.
    let number = |mut shape: &Shape, path: &[usize]| -> Option<usize> {
        let mut before = 0;
        for &step in path {
            let elements = shape.as_tuple()?;
            before += elements.get(..step)?.iter().map(arrays).sum::<usize>();
            shape = elements.get(step)?;
        }
        matches!(shape, Shape::Array(_)).then_some(before)
    };
    let shapes: Vec<&Shape> = entry.parameters().iter().map(|&p| &entry.instructions[p].shape).collect();
    let pair = |alias: &Alias| -> Option<(u32, u32, bool)> {
        let before: usize = shapes.get(..alias.parameter)?.iter().map(|s| arrays(s)).sum();
        let parameter = before + number(shapes.get(alias.parameter)?, &alias.parameter_index)?;
        let result = number(entry.result_shape(), &alias.output_index)?;
        let (from, to) = (schedule.parameters.get(parameter)?, schedule.results.get(result)?);
        let bytes = |v: &ValueId| schedule.values[*v].shape.byte_size();
        (bytes(from) == bytes(to)).then_some((parameter as u32, result as u32, alias.kind == AliasKind::Must))
    };
    module.config.aliases.iter().filter_map(pair).collect()
}

/// Where the leaves of shapes that callers see lie: the sizes of a dynamic leaf are one of their own.
fn places(shapes: &[Shape]) -> Result<Vec<LeafPlace>> {
    let mut out = Vec::new();
    let arrays = shapes.iter().flat_map(|s| s.leaves()).filter_map(Shape::as_array);
    for (leaf, array) in (0u32..).zip(arrays) {
        out.push(LeafPlace { leaf, offset: 0 });
        // Buffers hold whole bytes for each element, whatever width a layout names for other machines.
        let whole = ArrayShape { layout: None, ..array.clone() };
        let sizes = dynamic_sizes_offset(&whole);
        let sizes = sizes.ok_or_else(|| Error::Unsupported {
            site: Site::default(),
            feature: format!("a buffer of more than 2^60 bytes, {array}"),
        })?;
        out.extend(sizes.map(|offset| LeafPlace { leaf, offset }));
    }
    Ok(out)
}

struct Builder<'a> {
    module: &'a Module,
    numerics: Numerics,
    schedule: Schedule,
    constants: HashMap<(ComputationId, Leaf), ValueId>,
    /// The value of every token.
    token: Option<ValueId>,
}

/// The array that a leaf is in memory, without layout: a token is an empty one.
fn array_leaf(inst: &Instruction, leaf: Option<&Shape>) -> Result<ArrayShape> {
    match leaf {
        Some(Shape::Array(a)) => Ok(ArrayShape { layout: None, ..a.clone() }),
        Some(Shape::Token) => Ok(ArrayShape::new(ElementType::Pred, [0])),
        _ => {
            let site = Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 };
            Err(Error::Unsupported { site, feature: "compiling values that are not arrays".into() })
        }
    }
}

impl Builder<'_> {
    fn value(
        &mut self,
        (computation, id): (ComputationId, InstructionId),
        leaf: usize,
        definition: Definition,
    ) -> Result<ValueId> {
        let inst = self.module.instruction(computation, id);
        let shape = array_leaf(inst, inst.shape.leaf(leaf))?;
        Ok(self.push((computation, id), leaf, shape, definition))
    }

    fn push(
        &mut self,
        source: (ComputationId, InstructionId),
        leaf: usize,
        shape: ArrayShape,
        definition: Definition,
    ) -> ValueId {
        self.schedule.values.push(Value { shape, definition, source, leaf: Some(leaf) })
    }

    /// The value of every token: nothing, known from the start.
    fn token(&mut self, source: (ComputationId, InstructionId)) -> ValueId {
        if let Some(v) = self.token {
            return v;
        }
        let shape = ArrayShape::new(ElementType::Pred, [0]);
        let constant: ConstantId = self.schedule.constants.push(Arc::new(ArrayLiteral::zeros(&shape)));
        let definition = Definition::Constant(constant);
        let v = self.schedule.values.push(Value { shape, definition, source, leaf: None });
        self.token = Some(v);
        v
    }

    /// The value of a leaf: one that a step has defined already, or a constant.
    fn find(&mut self, computation: ComputationId, values: &HashMap<Leaf, ValueId>, leaf: Leaf) -> Result<ValueId> {
        let c = &self.module.computations[computation];
        let leaf = resolve(c, leaf);
        if let Some(&v) = values.get(&leaf) {
            return Ok(v);
        }
        let inst = &c.instructions[leaf.0];
        if let Some(Shape::Token) = inst.shape.leaves().get(leaf.1) {
            return Ok(self.token((computation, leaf.0)));
        }
        if let (Opcode::Constant, Some(literal)) = (inst.opcode, inst.literal()) {
            if let Some(&v) = self.constants.get(&(computation, leaf)) {
                return Ok(v);
            }
            if let Some(&array) = literal.arrays().get(leaf.1) {
                let constant: ConstantId = self.schedule.constants.push(Arc::new(array.clone()));
                let v = self.value((computation, leaf.0), leaf.1, Definition::Constant(constant))?;
                self.constants.insert((computation, leaf), v);
                return Ok(v);
            }
        }
        if inst.opcode == Opcode::Constant {
            let site = Site { instruction: Some(inst.name.clone()), location: inst.location, length: 0 };
            return Err(Error::Unsupported { site, feature: crate::hlo::elided_constant() });
        }
        Err(Error::Internal(format!("'{}' ({}) was never computed", inst.name, inst.opcode)))
    }

    fn leaves(
        &mut self,
        computation: ComputationId,
        values: &HashMap<Leaf, ValueId>,
        id: InstructionId,
    ) -> Result<Vec<ValueId>> {
        let mut out = Vec::new();
        // A tuple's leaves are those of its operands, one after another.
        let mut rest = vec![id];
        while let Some(id) = rest.pop() {
            let inst = self.module.instruction(computation, id);
            if inst.opcode == Opcode::Tuple {
                rest.extend(inst.operands.iter().rev());
                continue;
            }
            for leaf in 0..inst.shape.leaf_count() {
                out.push(self.find(computation, values, (id, leaf))?);
            }
        }
        Ok(out)
    }

    /// Schedules a computation whose parameter leaves are given, and finds its result leaves.
    fn block(&mut self, id: ComputationId, parameters: &[ValueId], depth: usize) -> Result<(BlockId, Vec<ValueId>)> {
        let module = self.module;
        let c = &module.computations[id];
        if depth > MAX_NESTING {
            let site = Site { instruction: None, location: c.location, length: 0 };
            return Err(Error::Unsupported { site, feature: format!("control flow nested over {MAX_NESTING} deep") });
        }
        let plan = fusion::plan(module, id)?;
        let mut values: HashMap<Leaf, ValueId> = HashMap::new();
        let mut rest = parameters.iter();
        for p in c.parameters() {
            for leaf in 0..c.instructions[p].shape.leaf_count() {
                if let Some(&v) = rest.next() {
                    values.insert((p, leaf), v);
                }
            }
        }
        let stored: HashSet<Leaf> = plan
            .steps
            .iter()
            .flat_map(|s| match s {
                Step::Group(g) => g.outputs.clone(),
                Step::Control(i) => (0..c.instructions[*i].shape.leaf_count()).map(|leaf| (*i, leaf)).collect(),
            })
            .collect();
        let mut block = Block::default();
        for step in &plan.steps {
            match step {
                Step::Group(group) => {
                    let mut outputs = Vec::new();
                    let mut empty = true;
                    for &leaf in &group.outputs {
                        let inst = module.instruction(id, leaf.0);
                        if let Some(Shape::Token) = inst.shape.leaves().get(leaf.1) {
                            continue;
                        }
                        let v = self.value((id, leaf.0), leaf.1, Definition::Step)?;
                        empty &= self.schedule.values[v].shape.elements() == 0;
                        values.insert(leaf, v);
                        outputs.push(v);
                    }
                    // A call may have an effect, whatever it yields.
                    if empty && !matches!(group.kind, GroupKind::Call(_)) {
                        continue;
                    }
                    let mut lowered = lower::lower(module, id, &stored, group, self.numerics)?;
                    schedule(&mut lowered.kernel, &group.kind)?;
                    let mut buffers = Vec::new();
                    for &leaf in &lowered.inputs {
                        buffers.push(self.find(id, &values, leaf)?);
                    }
                    buffers.extend(outputs);
                    for b in lowered.kernel.buffers.iter().filter(|b| b.role == Role::Scratch) {
                        let shape = ArrayShape::new(b.ty, [b.elements as i64]);
                        let (source, definition) = ((id, group.members[0]), Definition::Step);
                        buffers.push(self.schedule.values.push(Value { shape, definition, source, leaf: None }));
                    }
                    verify::verify(&lowered.kernel)?;
                    let kernel = self.schedule.kernels.push(lowered.kernel);
                    block.steps.push(ScheduleStep::Kernel { kernel, buffers });
                }
                Step::Control(i) => {
                    let step = self.control(id, *i, &values, depth)?;
                    let results = match &step {
                        ScheduleStep::While { results, .. } | ScheduleStep::Conditional { results, .. } => {
                            results.clone()
                        }
                        ScheduleStep::Kernel { buffers, .. } => buffers[buffers.len() / 2..].to_vec(),
                    };
                    values.extend(results.into_iter().enumerate().map(|(leaf, v)| ((*i, leaf), v)));
                    block.steps.push(step);
                }
            }
        }
        let results = self.leaves(id, &values, c.root)?;
        Ok((self.schedule.blocks.push(block), results))
    }

    fn define_all(&mut self, at: (ComputationId, InstructionId), definition: Definition) -> Result<Vec<ValueId>> {
        let inst = self.module.instruction(at.0, at.1);
        let leaves = inst.shape.leaves().into_iter().enumerate();
        leaves.map(|(n, leaf)| Ok(self.push(at, n, array_leaf(inst, Some(leaf))?, definition))).collect()
    }

    /// A loop in registers is one kernel: it loads the initial state and stores the final one.
    fn register_loop(
        &mut self,
        at: (ComputationId, InstructionId),
        l: RegisterLoop,
        init: Vec<ValueId>,
    ) -> Result<ScheduleStep> {
        let inst = self.module.instruction(at.0, at.1);
        let buffer = |role| move |s: &StateArray| Buffer { ty: s.ty, elements: s.elements, role };
        let mut buffers: Vec<Buffer> = l.state.iter().map(buffer(Role::Input)).collect();
        buffers.extend(l.state.iter().map(buffer(Role::Output)));
        // Everything is loaded before anything is stored.
        let n = init.len() as u32;
        let in_place = (0..n).map(|k| (n + k, k)).collect();
        let phases = vec![Phase::Registers(Box::new(l))];
        let (name, line) = (inst.name.clone(), inst.location.line);
        let kernel = Kernel { name, buffers, phases, in_place, line, source: Some(at) };
        verify::verify(&kernel)?;
        let kernel = self.schedule.kernels.push(kernel);
        let mut values = init;
        values.extend(self.define_all(at, Definition::Step)?);
        Ok(ScheduleStep::Kernel { kernel, buffers: values })
    }

    fn control(
        &mut self,
        computation: ComputationId,
        id: InstructionId,
        values: &HashMap<Leaf, ValueId>,
        depth: usize,
    ) -> Result<ScheduleStep> {
        let module = self.module;
        let inst = module.instruction(computation, id);
        let at = (computation, id);
        let missing = |what: &str| Error::Internal(format!("'{}' has no {what}", inst.name));
        if inst.opcode == Opcode::While {
            let condition = inst.attrs.computation(AttrKey::Condition).ok_or_else(|| missing("condition"))?;
            let body = inst.attrs.computation(AttrKey::Body).ok_or_else(|| missing("body"))?;
            let init = self.leaves(computation, values, inst.operands[0])?;
            if let Some(l) = lower_while(module, inst, self.numerics) {
                return self.register_loop(at, l, init);
            }
            let condition_parameters = self.define_all(at, Definition::BlockParameter)?;
            let body_parameters = self.define_all(at, Definition::BlockParameter)?;
            let (condition, result) = self.block(condition, &condition_parameters, depth + 1)?;
            let condition_result = *result.first().ok_or_else(|| missing("condition result"))?;
            let (body, body_results) = self.block(body, &body_parameters, depth + 1)?;
            let results = self.define_all(at, Definition::Step)?;
            return Ok(ScheduleStep::While {
                init,
                condition,
                condition_parameters,
                condition_result,
                body,
                body_parameters,
                body_results,
                results,
            });
        }
        let index = self.find(computation, values, (inst.operands[0], 0))?;
        let is_pred = self.schedule.values[index].shape.ty == brolga_runtime::ElementType::Pred;
        let called = match inst.attrs.computations(AttrKey::BranchComputations) {
            Some(list) => list.to_vec(),
            None => {
                let side = |key| inst.attrs.computation(key).ok_or_else(|| missing("branch"));
                vec![side(AttrKey::TrueComputation)?, side(AttrKey::FalseComputation)?]
            }
        };
        let mut branches = Vec::new();
        for (n, branch) in called.into_iter().enumerate() {
            let operand = *inst.operands.get(n + 1).ok_or_else(|| missing("branch operand"))?;
            let arguments = self.leaves(computation, values, operand)?;
            branches.push(self.block(branch, &arguments, depth + 1)?);
        }
        let results = self.define_all(at, Definition::Step)?;
        Ok(ScheduleStep::Conditional { index, is_pred, branches, results })
    }
}
