//! Calls, loops and branches.

use super::body::{Body, Frame};
use super::symbol_name;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, ComputationId, InstructionId, Opcode};
use crate::stablehlo::ir::{Attribute, Function, Operation, Region, Value};
use brolga_runtime::{Literal, Shape};
use hashbrown::HashMap;
use std::sync::Arc;

impl<'p> Body<'_, 'p> {
    pub fn control(&mut self, op: &'p Operation, short: &str) -> Result<Option<Vec<InstructionId>>> {
        Ok(Some(match short {
            "while" => self.while_loop(op)?,
            "if" => {
                let [condition] = self.operands(op)?;
                self.branches(op, condition, true)?
            }
            "case" => {
                let [index] = self.operands(op)?;
                self.branches(op, index, false)?
            }
            "composite" => {
                let callee = self.callee(op, "decomposition")?;
                let operands = self.all_operands(op)?;
                self.call_function(callee, operands)?
            }
            "async_start" => {
                let region = self.region(op, 0)?;
                let operands = self.all_operands(op)?;
                let results = self.in_place(region, &operands)?;
                vec![self.tuple(&results)?]
            }
            "async_done" => {
                let [future] = self.operands(op)?;
                self.parts(future)?
            }
            _ => return Ok(None),
        }))
    }

    pub fn call(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let callee = self.callee(op, "callee")?;
        let operands = self.all_operands(op)?;
        self.call_function(callee, operands)
    }

    pub fn callee(&self, op: &'p Operation, attribute: &str) -> Result<&'p Function> {
        let name = symbol_name(self.attribute(op, attribute)?).unwrap_or_default();
        self.function_named(name)
    }

    pub fn function_named(&self, name: &str) -> Result<&'p Function> {
        let message = || format!("expected a function of the module, found '@{name}'");
        self.lowering.function(name).ok_or_else(|| self.invalid("call.function", message()))
    }

    fn call_function(&mut self, callee: &'p Function, operands: Vec<InstructionId>) -> Result<Vec<InstructionId>> {
        if operands.len() != callee.arguments.len() {
            let (want, found) = (callee.arguments.len(), operands.len());
            let message = format!("'@{}' takes {want} arguments, found {found}", callee.name);
            return Err(self.invalid("call.arguments", message));
        }
        let site = self.site();
        if !self.lowering.open.contains(callee.name.as_str()) {
            let id = self.lowering.computation_of(callee, &|| site.clone())?;
            let attrs = Attrs::new().with(AttrKey::ToApply, AttrValue::Computation(id));
            let result = self.emit(Opcode::Call, &operands, attrs, None)?;
            return self.several(result, callee.results.len());
        }
        self.lowering.enter_call(callee, &|| site.clone())?;
        let region = self.lowering.body_of(callee, &|| site.clone())?;
        for (k, (ty, &operand)) in callee.arguments.iter().zip(&operands).enumerate() {
            if !super::body::agrees(ty, self.shape(operand)) {
                let message = format!("argument {k} of '@{}' is {ty}, found {}", callee.name, self.shape(operand));
                return Err(self.invalid("call.arguments", message));
            }
        }
        let values = region.arguments.iter().copied().zip(operands).collect();
        let outer = std::mem::replace(&mut self.frame, Frame { function: callee, values });
        let results = self.operations(&region.body);
        self.frame = outer;
        self.lowering.calls.pop();
        results
    }

    /// Converts a region here, with values for its arguments.
    fn in_place(&mut self, region: &'p Region, arguments: &[InstructionId]) -> Result<Vec<InstructionId>> {
        if region.arguments.len() != arguments.len() {
            let message = format!("expected a region of {} arguments", arguments.len());
            return Err(self.invalid("region.arguments", message));
        }
        for (&value, &id) in region.arguments.iter().zip(arguments) {
            self.frame.values.insert(value, id);
        }
        self.operations(&region.body)
    }

    fn while_loop(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let operands = self.all_operands(op)?;
        let (condition, body) = (self.region(op, 0)?, self.region(op, 1)?);
        let count = operands.len();
        if condition.arguments.len() != count || body.arguments.len() != count {
            let message = format!("expected a condition and a body of {count} arguments");
            return Err(self.invalid("while.arguments", message));
        }
        let captured = self.captured(&[condition, body]);
        let (mut constants, left) = self.inner(&captured)?;
        // What the body hands on unchanged is the same in every turn: sizes come that way.
        let returned = body.body.last().map(|r| r.operands.as_slice()).unwrap_or_default();
        for (k, &operand) in operands.iter().enumerate() {
            if returned.get(k) == body.arguments.get(k)
                && let Some(literal) = self.fold(operand)
            {
                for region in [condition, body] {
                    constants.push((region.arguments[k], Arc::clone(&literal)));
                }
            }
        }
        let mut state = operands.clone();
        for &value in &left {
            state.push(self.value(value)?);
        }
        let shapes: Vec<Shape> = state.iter().map(|&s| self.shape(s).clone()).collect();
        let mut computations = Vec::new();
        for (region, stem) in [(condition, "condition"), (body, "body")] {
            let at = self.graph.at;
            let mut inner = self.nested();
            let values = inner.state_parameter(&shapes)?;
            let names = region.arguments.iter().chain(&left);
            for (&name, &value) in names.zip(&values) {
                inner.frame.values.insert(name, value);
            }
            inner.bind(&constants)?;
            let mut results = inner.operations(&region.body)?;
            let root = if stem == "body" {
                if results.len() != count {
                    let message = format!("expected {count} results of the body, found {}", results.len());
                    return Err(inner.invalid("while.body", message));
                }
                results.extend(values.get(count..).unwrap_or_default());
                inner.one_of(results)?
            } else {
                inner.one_of(results)?
            };
            let graph = inner.graph;
            computations.push(self.lowering.finish(graph, stem, root, at));
        }
        let &[condition, body] = computations.as_slice() else { return Ok(Vec::new()) };
        let initial = self.one_of(state.clone())?;
        let attrs = Attrs::new()
            .with(AttrKey::Condition, AttrValue::Computation(condition))
            .with(AttrKey::Body, AttrValue::Computation(body));
        let result = self.emit(Opcode::While, &[initial], attrs, None)?;
        let mut results = self.several(result, state.len())?;
        results.truncate(count);
        // Sizes that are constants before the loop are constants behind it.
        for (k, &operand) in operands.iter().enumerate() {
            if returned.get(k).is_some()
                && returned.get(k) == op.regions.get(1).and_then(|b| b.arguments.get(k))
                && self.fold(operand).is_some()
            {
                results[k] = operand;
            }
        }
        Ok(results)
    }

    /// One parameter for all of a loop's state or a branch's operand, and its parts.
    fn state_parameter(&mut self, shapes: &[Shape]) -> Result<Vec<InstructionId>> {
        let shape = match shapes {
            [one] => one.clone(),
            _ => Shape::tuple(shapes.to_vec()),
        };
        let whole = self.parameter(0, shape, "state")?;
        self.several(whole, shapes.len())
    }

    /// Makes constants of the surroundings again.
    fn bind(&mut self, constants: &[(Value, Arc<Literal>)]) -> Result<()> {
        let mut made: HashMap<*const Literal, InstructionId> = HashMap::new();
        for (value, literal) in constants {
            let id = match made.get(&Arc::as_ptr(literal)) {
                Some(&id) => id,
                None => self.literal(Arc::clone(literal))?,
            };
            made.insert(Arc::as_ptr(literal), id);
            self.frame.values.insert(*value, id);
        }
        Ok(())
    }

    fn branches(&mut self, op: &'p Operation, selector: InstructionId, by_truth: bool) -> Result<Vec<InstructionId>> {
        if op.regions.is_empty() || by_truth && op.regions.len() != 2 {
            return Err(self.invalid("region", format!("expected a region for each branch of {}", op.name)));
        }
        if !by_truth && op.regions.len() == 1 {
            // The only branch is always taken.
            let region = self.region(op, 0)?;
            return self.in_place(region, &[]);
        }
        if by_truth && let Some(literal) = self.fold(selector) {
            // Which branch sizes come from must be known here.
            let taken = literal.as_array().is_some_and(|a| a.elements() == 1 && a.get(0).as_bool());
            let region = self.region(op, usize::from(!taken))?;
            return self.in_place(region, &[]);
        }
        let mut computations: Vec<ComputationId> = Vec::new();
        let mut operands = vec![selector];
        for region in &op.regions {
            let captured = self.captured(&[region]);
            let (constants, left) = self.inner(&captured)?;
            let mut values = Vec::new();
            for &value in &left {
                values.push(self.value(value)?);
            }
            let shapes: Vec<Shape> = values.iter().map(|&v| self.shape(v).clone()).collect();
            let at = self.graph.at;
            let mut inner = self.nested();
            let parameters = inner.state_parameter(&shapes)?;
            for (&name, &value) in left.iter().zip(&parameters) {
                inner.frame.values.insert(name, value);
            }
            inner.bind(&constants)?;
            let results = inner.operations(&region.body)?;
            let root = inner.one_of(results)?;
            let graph = inner.graph;
            computations.push(self.lowering.finish(graph, "branch", root, at));
            operands.push(self.one_of(values)?);
        }
        let attrs = match (by_truth, computations.as_slice()) {
            (true, &[yes, no]) => Attrs::new()
                .with(AttrKey::TrueComputation, AttrValue::Computation(yes))
                .with(AttrKey::FalseComputation, AttrValue::Computation(no)),
            _ => Attrs::new().with(AttrKey::BranchComputations, AttrValue::Computations(computations)),
        };
        let result = self.emit(Opcode::Conditional, &operands, attrs, None)?;
        self.several(result, op.results.len())
    }

    /// The computations that an operation names.
    pub fn called(&mut self, op: &'p Operation) -> Result<Vec<ComputationId>> {
        let Some(Attribute::Array(list)) = op.attribute("called_computations") else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        for item in list {
            let function = self.function_named(symbol_name(item).unwrap_or_default())?;
            let site = self.site();
            out.push(self.lowering.computation_of(function, &|| site.clone())?);
        }
        Ok(out)
    }
}
