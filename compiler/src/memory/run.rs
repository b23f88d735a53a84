//! Runs a schedule on the kernel interpreter: every value has bytes of its own, so that buffer assignment and machine code
//! have no part in what comes out.

use super::schedule::{BlockId, Definition, LeafPlace, Schedule, Step, ValueId};
use crate::error::{Error, Result, Site};
use crate::kernel::interp;
use crate::kernel::ir::Role;
use cranelift_entity::SecondaryMap;
use std::rc::Rc;

/// Runs a schedule on the bytes of the caller's parameter buffers; gives those of its result buffers.
///
/// # Errors
/// [`Error::Internal`] where schedule or kernels break a rule, [`Error::Unsupported`] for calls and where the machine's budget
/// is spent.
pub fn run(schedule: &Schedule, machine: interp::Machine, parameters: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
    let mut runner = Runner { schedule, machine, values: SecondaryMap::new() };
    for (v, value) in schedule.values.iter() {
        let bytes = match value.definition {
            Definition::Parameter(n) => {
                let place = LeafPlace::of(&schedule.parameter_places, n)?;
                let start = place.offset as usize;
                let leaf = parameters.get(place.leaf as usize);
                let range = leaf.and_then(|leaf| leaf.get(start..start.checked_add(value.shape.byte_size())?));
                range.ok_or_else(|| wrong(format!("parameter {n} is not given whole")))?.to_vec()
            }
            Definition::Constant(c) => schedule.constants[c].bytes().to_vec(),
            Definition::Step | Definition::BlockParameter => continue,
        };
        runner.values[v] = Some(Rc::new(bytes));
    }
    let entry = schedule.entry.ok_or_else(|| wrong("a schedule without an entry".to_owned()))?;
    runner.block(entry)?;
    let mut results: Vec<Vec<u8>> = Vec::new();
    for (n, &v) in (0..).zip(&schedule.results) {
        let place = LeafPlace::of(&schedule.result_places, n)?;
        let (leaf, start) = (place.leaf as usize, place.offset as usize);
        let bytes = runner.get(v)?;
        if results.len() <= leaf {
            results.resize(leaf + 1, Vec::new());
        }
        let end = start + bytes.len();
        if results[leaf].len() < end {
            results[leaf].resize(end, 0);
        }
        results[leaf][start..end].copy_from_slice(&bytes);
    }
    Ok(results)
}

fn wrong(what: String) -> Error {
    Error::Internal(format!("schedule: {what}"))
}

struct Runner<'a> {
    schedule: &'a Schedule,
    machine: interp::Machine,
    values: SecondaryMap<ValueId, Option<Rc<Vec<u8>>>>,
}

impl Runner<'_> {
    fn get(&self, v: ValueId) -> Result<Rc<Vec<u8>>> {
        // No step makes a value without elements.
        if self.schedule.values[v].shape.byte_size() == 0 {
            return Ok(Rc::default());
        }
        self.values[v].clone().ok_or_else(|| wrong(format!("{v} is read before it is defined")))
    }

    fn get_all(&self, values: &[ValueId]) -> Result<Vec<Rc<Vec<u8>>>> {
        values.iter().map(|&v| self.get(v)).collect()
    }

    fn set_all(&mut self, places: &[ValueId], values: Vec<Rc<Vec<u8>>>) {
        for (&place, value) in places.iter().zip(values) {
            self.values[place] = Some(value);
        }
    }

    /// The scalar of a condition or of a branch's index.
    fn scalar(&self, v: ValueId) -> Result<i64> {
        let bytes = self.get(v)?;
        match bytes[..] {
            [byte] => Ok(i64::from(byte)),
            [a, b, c, d] => Ok(i64::from(i32::from_le_bytes([a, b, c, d]))),
            _ => Err(wrong(format!("{v} is no condition"))),
        }
    }

    fn block(&mut self, id: BlockId) -> Result<()> {
        let schedule = self.schedule;
        schedule.blocks[id].steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Kernel { kernel, buffers } => {
                let kernel = &self.schedule.kernels[*kernel];
                let mut given: Vec<Vec<u8>> = Vec::with_capacity(kernel.buffers.len());
                for (n, b) in kernel.buffers.iter().enumerate() {
                    let source = match b.role {
                        Role::Input => Some(n),
                        Role::Update { of } => Some(of as usize),
                        Role::Output | Role::Scratch => None,
                    };
                    given.push(match source.map(|n| buffers.get(n)) {
                        Some(Some(&v)) => self.get(v)?.to_vec(),
                        Some(None) => return Err(wrong(format!("kernel '{}' lacks a buffer", kernel.name))),
                        None => vec![0xa5; b.elements.saturating_mul(b.ty.byte_size())],
                    });
                }
                let done = interp::run(kernel, &mut self.machine, given)?;
                for ((b, &v), bytes) in kernel.buffers.iter().zip(buffers).zip(done) {
                    if b.role != Role::Input {
                        self.values[v] = Some(Rc::new(bytes));
                    }
                }
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
                let mut state = self.get_all(init)?;
                loop {
                    self.machine.budget = self.machine.budget.saturating_sub(1);
                    if self.machine.budget == 0 {
                        let feature = "so long a run in the kernel interpreter".to_owned();
                        return Err(Error::Unsupported { site: Site::default(), feature });
                    }
                    self.set_all(condition_parameters, state.clone());
                    self.block(*condition)?;
                    if self.scalar(*condition_result)? == 0 {
                        break;
                    }
                    self.set_all(body_parameters, state);
                    self.block(*body)?;
                    state = self.get_all(body_results)?;
                }
                self.set_all(results, state);
            }
            Step::Conditional { index, is_pred, branches, results } => {
                let value = self.scalar(*index)?;
                let last = branches.len() as i64 - 1;
                let taken = match is_pred {
                    true => i64::from(value == 0),
                    false if (0..=last).contains(&value) => value,
                    false => last,
                };
                let branch = usize::try_from(taken).ok().and_then(|n| branches.get(n));
                let (block, from) = branch.ok_or_else(|| wrong("a conditional without branches".to_owned()))?;
                self.block(*block)?;
                let values = self.get_all(from)?;
                self.set_all(results, values);
            }
        }
        Ok(())
    }
}
