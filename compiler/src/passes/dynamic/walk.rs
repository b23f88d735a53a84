//! The walk over a computation: structure, calls, loops and branches.

use super::draft::Draft;
use super::site::Site;
use super::value::{Form, Value, element, pack, static_array, unpack};
use super::{contraction, indexing, movement, reduction};
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Category, ComputationId, InstructionId, Module, Opcode};
use crate::passes::rewrite::fresh_computation_name;
use cranelift_entity::{EntityRef, SecondaryMap};
use hashbrown::HashMap;

/// Calls, loops and branches may nest so deep.
const MAX_DEPTH: usize = 128;

/// How often the state of a loop may turn out more dynamic than assumed.
const MAX_TURNS: usize = 16;

pub(super) struct Walk<'m> {
    pub module: &'m mut Module,
    /// Which computations hold something dynamic, in what they call too.
    pub touched: SecondaryMap<ComputationId, bool>,
    pub depth: usize,
}

impl Walk<'_> {
    /// Emits what a computation does with `arguments` and returns its result.
    pub fn body(&mut self, draft: &mut Draft, id: ComputationId, arguments: &[Value]) -> Result<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(draft.unsupported(format!("calls nested over {MAX_DEPTH} deep")));
        }
        let computation = self.module.computations[id].clone();
        let mut values: HashMap<InstructionId, Value> = HashMap::new();
        let mut places: HashMap<InstructionId, InstructionId> = HashMap::new();
        for &i in &computation.order {
            let inst = &computation.instructions[i];
            draft.work_on(inst);
            draft.check_size()?;
            let operands: Option<Vec<Value>> = inst.operands.iter().map(|o| values.get(o).cloned()).collect();
            let operands = operands.ok_or_else(|| draft.internal("an operand comes later"))?;
            let value = if inst.opcode == Opcode::Parameter {
                let argument = inst.parameter_number().and_then(|n| arguments.get(n));
                argument.cloned().ok_or_else(|| draft.internal("an argument is missing"))?
            } else {
                let mut attrs = inst.attrs.clone();
                if let Some(AttrValue::Instructions(list)) = attrs.get_mut(AttrKey::ControlPredecessors) {
                    *list = list.iter().filter_map(|p| places.get(p).copied()).collect();
                }
                self.step(draft, &Site { inst, operands: &operands, attrs })?
            };
            if let Some(last) = draft.instructions.len().checked_sub(1) {
                places.insert(i, InstructionId::new(last));
            }
            values.insert(i, value);
        }
        self.depth -= 1;
        values.remove(&computation.root).ok_or_else(|| draft.internal("the root is missing"))
    }

    fn step(&mut self, draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
        let inst = at.inst;
        let concerned =
            matches!(inst.opcode, Opcode::SetDimensionSize | Opcode::GetDimensionSize | Opcode::DynamicReshape)
                || at.operands.iter().any(|o| o.whole().is_none())
                || inst.attrs.called().iter().any(|&c| self.touched[c]);
        if !concerned {
            let opens = matches!(inst.opcode, Opcode::CustomCall)
                || matches!(inst.opcode.category(), Category::SideEffect | Category::Async | Category::Collective);
            if opens && Form::of(&inst.shape) != Form::Static {
                return at.unsupported(draft);
            }
            let operands = at.all_data(draft)?;
            return Ok(Value::Whole(at.again(draft, operands)));
        }
        use Opcode::*;
        match inst.opcode {
            Tuple => Ok(Value::tuple(draft, at.operands.to_vec())),
            GetTupleElement => element(draft, at.operand(draft, 0)?, inst.element_number().unwrap_or(usize::MAX)),
            Copy => Ok(at.operand(draft, 0)?.clone()),
            OptimizationBarrier | AddDependency | Domain => passed_on(draft, at),
            Call => self.call(draft, at, AttrKey::ToApply),
            Fusion => self.call(draft, at, AttrKey::Calls),
            While => self.repeat(draft, at),
            Conditional => self.branch(draft, at),
            SetDimensionSize => movement::set_dimension_size(draft, at),
            GetDimensionSize => movement::get_dimension_size(draft, at),
            DynamicReshape => movement::dynamic_reshape(draft, at),
            Reshape => movement::reshape(draft, at),
            Broadcast => movement::broadcast(draft, at),
            Transpose => movement::transpose(draft, at),
            Reverse => movement::reverse(draft, at),
            Slice => movement::slice(draft, at),
            Pad => movement::pad(draft, at),
            Concatenate => movement::concatenate(draft, at),
            BitcastConvert => movement::bitcast_convert(draft, at),
            DynamicSlice => indexing::dynamic_slice(draft, at),
            DynamicUpdateSlice => indexing::dynamic_update_slice(draft, at),
            Gather => indexing::gather(draft, at),
            Scatter => indexing::scatter(draft, at),
            Reduce => reduction::reduce(draft, at, self.module),
            ReduceWindow => reduction::reduce_window(draft, at, self.module),
            Sort => reduction::sort(draft, at, self.module),
            Dot => contraction::dot(draft, at),
            Convolution => contraction::convolution(draft, at),
            BatchNormInference => contraction::batch_norm_inference(draft, at),
            Fft => contraction::fft(draft, at),
            Cholesky => contraction::cholesky(draft, at),
            TriangularSolve => contraction::triangular_solve(draft, at),
            TopK => reduction::top_k(draft, at, self.module),
            Map => reduction::map(draft, at, self.module),
            op if op.category() == Category::Elementwise => elementwise(draft, at),
            _ => at.unsupported(draft),
        }
    }

    fn call(&mut self, draft: &mut Draft, at: &Site<'_>, key: AttrKey) -> Result<Value> {
        let callee = at.inst.attrs.computation(key).ok_or_else(|| draft.internal("nothing to call"))?;
        self.body(draft, callee, at.operands)
    }

    /// What a computation's parameters declare, and its result.
    fn declared(&self, id: ComputationId) -> (Form, Form) {
        let computation = &self.module.computations[id];
        let parameter = computation.parameters().first().map(|&p| Form::of(&computation.instructions[p].shape));
        (parameter.unwrap_or(Form::Static), Form::of(computation.result_shape()))
    }

    /// A computation of one parameter, of the form given, under construction, and what it yields.
    fn open(
        &mut self,
        at: &Site<'_>,
        id: ComputationId,
        shape: &brolga_runtime::Shape,
        form: &Form,
    ) -> Result<(Draft, Value)> {
        let mut draft = Draft::new();
        draft.work_on(at.inst);
        let computation = &self.module.computations[id];
        if let Some(&p) = computation.parameters().first() {
            draft.work_on(&computation.instructions[p]);
        }
        let parameter = draft.parameter(0, form.packed(shape));
        let argument = unpack(&mut draft, parameter, form)?;
        let result = self.body(&mut draft, id, &[argument])?;
        Ok((draft, result))
    }

    fn close(&mut self, mut draft: Draft, id: ComputationId, result: &Value, form: &Form) -> Result<ComputationId> {
        let root = pack(&mut draft, result, form)?;
        let name = fresh_computation_name(self.module, &self.module.computations[id].name);
        Ok(draft.finish(self.module, name, root))
    }

    fn repeat(&mut self, draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
        let missing = || draft.internal("a loop without computations");
        let condition = at.inst.attrs.computation(AttrKey::Condition).ok_or_else(missing)?;
        let body = at.inst.attrs.computation(AttrKey::Body).ok_or_else(missing)?;
        let init = at.operand(draft, 0)?;
        let (parameter, result) = self.declared(body);
        let mut form = init.form().join(Form::of(&at.inst.shape)).join(parameter).join(result);
        for _ in 0..MAX_TURNS {
            let (inner, result) = self.open(at, body, &at.inst.shape, &form)?;
            let grown = form.clone().join(result.form());
            if grown != form {
                form = grown;
                continue;
            }
            let body = self.close(inner, body, &result, &form)?;
            let (inner, result) = self.open(at, condition, &at.inst.shape, &form)?;
            let condition = self.close(inner, condition, &result, &Form::Static)?;
            let init = pack(draft, init, &form)?;
            let mut attrs = at.attrs.clone();
            attrs.set(AttrKey::Condition, AttrValue::Computation(condition));
            attrs.set(AttrKey::Body, AttrValue::Computation(body));
            let state = draft.emit(Opcode::While, form.packed(&at.inst.shape), vec![init], attrs);
            return unpack(draft, state, &form);
        }
        Err(draft.unsupported("a loop whose state keeps growing more dynamic"))
    }

    fn branch(&mut self, draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
        let index = at.whole(draft, 0)?;
        let listed = at.inst.attrs.computations(AttrKey::BranchComputations).map(<[_]>::to_vec);
        let sides = [AttrKey::TrueComputation, AttrKey::FalseComputation];
        let branches = match &listed {
            Some(list) => list.clone(),
            None => sides.iter().filter_map(|&key| at.inst.attrs.computation(key)).collect(),
        };
        let mut operands = vec![index];
        let mut open = Vec::new();
        let mut form = Form::Static;
        for (k, &branch) in branches.iter().enumerate() {
            let argument = at.operand(draft, k + 1)?;
            let computation = &self.module.computations[branch];
            let shape = computation.parameters().first().map(|&p| computation.instructions[p].shape.clone());
            let shape = shape.ok_or_else(|| draft.internal("a branch without a parameter"))?;
            let taken = argument.form().join(self.declared(branch).0);
            operands.push(pack(draft, argument, &taken)?);
            let (inner, result) = self.open(at, branch, &shape, &taken)?;
            form = form.join(result.form());
            open.push((inner, result));
        }
        let mut closed = Vec::new();
        for (&branch, (inner, result)) in branches.iter().zip(open) {
            closed.push(self.close(inner, branch, &result, &form)?);
        }
        let mut attrs = at.attrs.clone();
        match listed {
            Some(_) => _ = attrs.set(AttrKey::BranchComputations, AttrValue::Computations(closed)),
            None => {
                for (key, id) in sides.into_iter().zip(closed) {
                    attrs.set(key, AttrValue::Computation(id));
                }
            }
        }
        let result = draft.emit(Opcode::Conditional, form.packed(&at.inst.shape), operands, attrs);
        unpack(draft, result, &form)
    }
}

/// Operations that hand their first operand on.
fn passed_on(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    if at.inst.opcode == Opcode::OptimizationBarrier && at.operands.len() != 1 {
        return at.unsupported(draft);
    }
    let value = at.operand(draft, 0)?;
    let form = value.form();
    let mut operands = vec![pack(draft, value, &form)?];
    for k in 1..at.operands.len() {
        operands.push(at.whole(draft, k)?);
    }
    let packed = draft.emit(at.inst.opcode, form.packed(&at.inst.shape), operands, at.attrs.clone());
    unpack(draft, packed, &form)
}

/// The elements are computed at the bounds; a dimension has the size of the first operand that is dynamic there.
fn elementwise(draft: &mut Draft, at: &Site<'_>) -> Result<Value> {
    let Some(shape) = at.inst.shape.as_array().map(static_array) else { return at.unsupported(draft) };
    let data = at.all_data(draft)?;
    let mut full = Vec::new();
    for (k, &operand) in data.iter().enumerate() {
        if draft.array(operand)?.rank() == shape.rank() {
            full.push(k);
        }
    }
    let sizes = (0..shape.rank()).map(|d| at.size_of_first(full.iter().copied(), d)).collect();
    Ok(Value::new(at.again(draft, data), sizes))
}
