//! Buffer assignment.

use super::schedule::{Assignment, Block, BlockCopies, BlockId, Copy, Definition, Location, Schedule, Step, ValueId};
use crate::error::{Error, Result};
use cranelift_entity::SecondaryMap;

/// Workspace offsets are multiples of this.
const ALIGNMENT: u64 = 64;

/// Gives every value a place.
///
/// # Errors
/// [`Error::Internal`] where the schedule is malformed, [`Error::Unsupported`] where the workspace overflows.
pub fn assign(schedule: &Schedule) -> Result<Assignment> {
    let mut a = Assigner {
        schedule,
        out: Assignment { locations: SecondaryMap::new(), copies: SecondaryMap::new(), workspace: 0 },
    };
    for (v, value) in schedule.values.iter() {
        a.out.locations[v] = match value.definition {
            Definition::Parameter(n) => Some(Location::Parameter(n)),
            Definition::Constant(c) => Some(Location::Constant(c)),
            Definition::Step | Definition::BlockParameter => None,
        };
    }
    let entry = schedule.entry.ok_or_else(|| Error::Internal("a schedule without an entry".into()))?;
    // What the caller wants is written where the caller wants it.
    for (n, &v) in schedule.results.iter().enumerate() {
        if schedule.values[v].definition == Definition::Step && a.out.locations[v].is_none() {
            a.out.locations[v] = Some(Location::Result(n as u32));
        }
    }
    a.block(entry)?;
    let mut copies = Vec::new();
    for (n, &v) in schedule.results.iter().enumerate() {
        a.copy(v, Location::Result(n as u32), &mut copies)?;
    }
    a.out.copies[entry].at_end = copies;
    Ok(a.out)
}

struct Assigner<'a> {
    schedule: &'a Schedule,
    out: Assignment,
}

impl Assigner<'_> {
    fn bytes(&self, v: ValueId) -> u64 {
        self.schedule.values[v].shape.byte_size() as u64
    }

    fn new_space(&mut self, bytes: u64) -> Result<Location> {
        let at = self.out.workspace;
        let padded = bytes.checked_next_multiple_of(ALIGNMENT);
        self.out.workspace = padded
            .and_then(|b| at.checked_add(b))
            .filter(|&b| b < 1 << 46)
            .ok_or_else(|| Error::Internal("the workspace does not fit the address space".into()))?;
        Ok(Location::Workspace(at))
    }

    fn place(&mut self, v: ValueId) -> Result<Location> {
        if let Some(l) = self.out.locations[v] {
            return Ok(l);
        }
        let l = self.new_space(self.bytes(v))?;
        self.out.locations[v] = Some(l);
        Ok(l)
    }

    fn copy(&mut self, v: ValueId, to: Location, copies: &mut Vec<Copy>) -> Result<()> {
        let from = self.place(v)?;
        let bytes = self.bytes(v);
        if from != to && bytes > 0 {
            copies.push(Copy { from, to, bytes });
        }
        Ok(())
    }

    /// Orders copies that happen at once: one that would overwrite what another still reads goes through a temporary.
    fn at_once(&mut self, copies: Vec<Copy>) -> Result<Vec<Copy>> {
        let mut first = Vec::new();
        let mut second = Vec::new();
        for (i, c) in copies.iter().enumerate() {
            let overwritten_before = copies[..i].iter().any(|other| other.to == c.from);
            if overwritten_before {
                let temporary = self.new_space(c.bytes)?;
                first.push(Copy { to: temporary, ..*c });
                second.push(Copy { from: temporary, ..*c });
            } else {
                second.push(*c);
            }
        }
        first.extend(second);
        Ok(first)
    }

    fn block(&mut self, id: BlockId) -> Result<()> {
        let schedule = self.schedule;
        let block: &Block = &schedule.blocks[id];
        let mut copies = BlockCopies { before: vec![Vec::new(); block.steps.len()], at_end: Vec::new() };
        for (i, step) in block.steps.iter().enumerate() {
            match step {
                Step::Kernel { buffers, .. } => {
                    for &v in buffers {
                        self.place(v)?;
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
                    let mut start = Vec::new();
                    for k in 0..init.len() {
                        let state = self.place(results[k])?;
                        self.out.locations[condition_parameters[k]] = Some(state);
                        self.out.locations[body_parameters[k]] = Some(state);
                        self.copy(init[k], state, &mut start)?;
                    }
                    copies.before[i] = self.at_once(start)?;
                    self.block(*condition)?;
                    self.place(*condition_result)?;
                    self.block(*body)?;
                    let mut next = Vec::new();
                    for (&v, &r) in body_results.iter().zip(results) {
                        let state = self.place(r)?;
                        self.copy(v, state, &mut next)?;
                    }
                    self.out.copies[*body].at_end = self.at_once(next)?;
                }
                Step::Conditional { branches, results, .. } => {
                    for (branch, branch_results) in branches {
                        self.block(*branch)?;
                        let mut out = Vec::new();
                        for (&v, &r) in branch_results.iter().zip(results) {
                            let to = self.place(r)?;
                            self.copy(v, to, &mut out)?;
                        }
                        self.out.copies[*branch].at_end = out;
                    }
                }
            }
        }
        let at_end = std::mem::take(&mut self.out.copies[id].at_end);
        self.out.copies[id] = BlockCopies { at_end, ..copies };
        Ok(())
    }
}
