//! Calls, branches and loops.

use super::{Builder, Op};
use crate::hlo::{AttrKey, AttrValue, Attrs, Module, Opcode, quote};

impl Builder {
    /// `call(computation, args)`: the result of `computation` for `args`. Section «Call».
    #[track_caller]
    pub fn call(&self, computation: &Module, args: &[Op]) -> Op {
        let attrs = Attrs::new().with(AttrKey::ToApply, AttrValue::Computation(self.embed(computation)));
        self.op(Opcode::Call, args, attrs, None)
    }

    /// `composite_call(decomposition, inputs, name, composite_attributes, version)`: the result of `decomposition`, marked
    /// as one operation called `name`, which whoever knows it may put in the place of the call. Section «CompositeCall».
    #[track_caller]
    pub fn composite_call(
        &self,
        decomposition: &Module,
        inputs: &[Op],
        name: &str,
        composite_attributes: Option<&str>,
        version: i64,
    ) -> Op {
        let attributes = composite_attributes.map_or(String::new(), |a| format!("composite.attributes={a},"));
        let name = quote(name);
        let frontend = format!("{{{attributes}composite.name={name},composite.version=\"{version}\"}}");
        let attrs = Attrs::new()
            .with(AttrKey::ToApply, AttrValue::Computation(self.embed(decomposition)))
            .with(AttrKey::IsComposite, AttrValue::Bool(true))
            .with(AttrKey::FrontendAttributes, AttrValue::Raw(frontend));
        self.op(Opcode::Call, inputs, attrs, None)
    }

    /// `while_(condition, body, init)`: `body` applied to the state, at first `init`, for as long as `condition` yields
    /// true of it. Section «While».
    #[track_caller]
    pub fn while_(&self, condition: &Module, body: &Module, init: Op) -> Op {
        let attrs = Attrs::new()
            .with(AttrKey::Condition, AttrValue::Computation(self.embed(condition)))
            .with(AttrKey::Body, AttrValue::Computation(self.embed(body)));
        self.op(Opcode::While, &[init], attrs, None)
    }

    /// `conditional(pred, true_operand, true_computation, false_operand, false_computation)`: the result of the one
    /// computation or the other. Section «Conditional».
    #[track_caller]
    pub fn conditional(
        &self,
        pred: Op,
        true_operand: Op,
        true_computation: &Module,
        false_operand: Op,
        false_computation: &Module,
    ) -> Op {
        let attrs = Attrs::new()
            .with(AttrKey::TrueComputation, AttrValue::Computation(self.embed(true_computation)))
            .with(AttrKey::FalseComputation, AttrValue::Computation(self.embed(false_computation)));
        self.op(Opcode::Conditional, &[pred, true_operand, false_operand], attrs, None)
    }

    /// `conditional_indexed(branch_index, branch_computations, branch_operands)`: the result of branch number
    /// `branch_index`, an `s32[]`; of the last, where there is no such branch. Section «Conditional», second form.
    #[track_caller]
    pub fn conditional_indexed(&self, branch_index: Op, branch_computations: &[&Module], branch_operands: &[Op]) -> Op {
        let branches = branch_computations.iter().map(|m| self.embed(m)).collect();
        let attrs = Attrs::new().with(AttrKey::BranchComputations, AttrValue::Computations(branches));
        let operands: Vec<Op> = [branch_index].iter().chain(branch_operands).copied().collect();
        self.op(Opcode::Conditional, &operands, attrs, None)
    }
}
