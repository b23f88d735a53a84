//! Schedules as text: the steps, then every kernel.

use super::schedule::{BlockId, Definition, Schedule, Step, ValueId};
use std::fmt::{self, Display, Formatter};

impl Display for Schedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule ({}) -> ({})", self.declared(&self.parameters), names(&self.results))?;
        for (parameter, result, must) in &self.donated {
            let word = if *must { "shares" } else { "may share" };
            writeln!(f, "  result {result} {word} the memory of parameter {parameter}")?;
        }
        for (v, value) in self.values.iter() {
            if let Definition::Constant(c) = value.definition {
                writeln!(f, "  {} = {c}", self.declared(&[v]))?;
            }
        }
        if let Some(entry) = self.entry {
            self.block(f, entry, "  ")?;
        }
        for (id, kernel) in self.kernels.iter() {
            write!(f, "\n// {id}\n{kernel}")?;
        }
        Ok(())
    }
}

fn names(values: &[ValueId]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Schedule {
    /// Values with their shapes.
    fn declared(&self, values: &[ValueId]) -> String {
        let one = |&v: &ValueId| match self.values.get(v) {
            Some(value) => format!("{v}: {}", value.shape),
            None => v.to_string(),
        };
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn block(&self, f: &mut Formatter<'_>, id: BlockId, indent: &str) -> fmt::Result {
        let Some(block) = self.blocks.get(id) else { return Ok(()) };
        block.steps.iter().try_for_each(|step| self.step(f, step, indent))
    }

    fn step(&self, f: &mut Formatter<'_>, step: &Step, indent: &str) -> fmt::Result {
        let deeper = format!("{indent}    ");
        match step {
            Step::Kernel { kernel, buffers } => {
                let inputs = self
                    .kernels
                    .get(*kernel)
                    .map_or(0, |k| k.buffers.iter().take_while(|b| b.role == crate::kernel::ir::Role::Input).count());
                let (read, written) = buffers.split_at(inputs.min(buffers.len()));
                let name = self.kernels.get(*kernel).map_or("", |k| k.name.as_str());
                writeln!(f, "{indent}{} = {kernel} {name} ({})", self.declared(written), names(read))
            }
            Step::While {
                init,
                condition,
                condition_parameters,
                condition_result,
                body,
                body_parameters,
                body_results,
                results,
            } => {
                writeln!(f, "{indent}{} = loop ({})", self.declared(results), names(init))?;
                writeln!(f, "{indent}  while ({})", self.declared(condition_parameters))?;
                self.block(f, *condition, &deeper)?;
                writeln!(f, "{deeper}yield {condition_result}")?;
                writeln!(f, "{indent}  do ({})", self.declared(body_parameters))?;
                self.block(f, *body, &deeper)?;
                writeln!(f, "{deeper}yield {}", names(body_results))
            }
            Step::Conditional { index, is_pred, branches, results } => {
                let word = if *is_pred { "if" } else { "switch" };
                writeln!(f, "{indent}{} = {word} {index}", self.declared(results))?;
                for (n, (branch, yielded)) in branches.iter().enumerate() {
                    writeln!(f, "{indent}  branch {n}")?;
                    self.block(f, *branch, &deeper)?;
                    writeln!(f, "{deeper}yield {}", names(yielded))?;
                }
                Ok(())
            }
        }
    }
}
