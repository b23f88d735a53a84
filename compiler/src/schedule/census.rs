//! The checker of schedules: the same elements are stored, and as many stored and folded, as before.
//!
//! **Problem.** The verifier proves that each index is inside its buffer, which a transformation that forgets the elements behind the
//! last whole piece, or computes them twice, does not break.
//!
//! **Invariant.** A transformation keeps, for each buffer that callers see, the number of elements stored; and the number of
//! elements folded, unless it writes folds out. What goes to a scratch array of its own is folded from there as often as it was stored.
//! Of a buffer that is updated, the same elements are stored; of every other, all are in the end, which the
//! [verifier](super::super::kernel::verify) proves.
//!
//! **Algorithm.** Numbers are products of extents, summed over nests; which elements, a [`Cover`] says. It runs after every transformation
//! of every compilation.

use crate::error::{Error, Result};
use crate::kernel::body::Op;
use crate::kernel::cover::Cover;
use crate::kernel::ir::{Kernel, Loop, Nest, Phase, Role, Stage};
use std::collections::BTreeMap;

/// How much is done in a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Elements stored to each buffer, scratch aside.
    stored: BTreeMap<u32, u128>,
    /// What is stored to each buffer that is updated, and its size in bytes.
    updated: BTreeMap<u32, (Cover, i64)>,
    /// Elements folded, of all but scratch arrays.
    folded: u128,
    /// Elements stored to each scratch array, and folded from it.
    scratch: BTreeMap<u32, (u128, u128)>,
}

impl Census {
    /// Counts.
    pub fn of(kernel: &Kernel) -> Census {
        let mut census = Census::default();
        for phase in &kernel.phases {
            if let Phase::Nest(nest) = phase {
                nest.stages.iter().for_each(|stage| census.stage(kernel, nest, stage));
            }
        }
        census
    }

    fn stage(&mut self, kernel: &Kernel, nest: &Nest, stage: &Stage) {
        let is_scratch = |b: &u32| kernel.buffers.get(*b as usize).is_some_and(|b| b.role == Role::Scratch);
        let loops = nest.parallel.iter().chain(&stage.sequential);
        let rows = loops.clone().fold(1u128, |n, l| n.saturating_mul(l.extent as u128));
        let elements = rows.saturating_mul(stage.vector.extent as u128);
        for s in &stage.stores {
            // One that is the same along the row happens once.
            let count = if s.index.mentions(stage.vector.axis) { elements } else { rows };
            match is_scratch(&s.buffer) {
                true => self.scratch.entry(s.buffer).or_default().0 += count,
                false => *self.stored.entry(s.buffer).or_default() += count,
            }
            if let Some(b) = kernel.buffers.get(s.buffer as usize).filter(|b| matches!(b.role, Role::Update { .. })) {
                let loops: Vec<Loop> = loops.clone().chain([&stage.vector]).copied().collect();
                let (cover, bytes) = self.updated.entry(s.buffer).or_default();
                cover.add(&s.index, s.mem, &loops);
                *bytes = b.bytes();
            }
        }
        for a in &stage.accumulators {
            let mut own = false;
            for &value in &a.values {
                match &stage.body.node(value).op {
                    Op::Load(b, _, _) if is_scratch(b) => self.scratch.entry(*b).or_default().1 += elements,
                    _ => own = true,
                }
            }
            if own {
                // Several iterations at once bring several times the values.
                self.folded += elements.saturating_mul(a.values.len() as u128);
            }
        }
    }

    /// Compares with what was before the transformation `name`; `folds` says whether folds stay folds.
    ///
    /// # Errors
    /// [`Error::Internal`] where something is done more or less often.
    pub fn check(&self, before: &Census, name: &str, folds: bool) -> Result<()> {
        let wrong = |what: &str| Err(Error::Internal(format!("the transformation '{name}' {what}")));
        if self.stored != before.stored {
            return wrong("stores another number of elements");
        }
        for (buffer, (cover, bytes)) in &self.updated {
            let was = before.updated.get(buffer).map(|(cover, _)| cover.clone()).unwrap_or_default();
            if !cover.clone().is_that_of(was, *bytes) {
                return wrong("stores other elements");
            }
        }
        if folds && self.folded != before.folded {
            return wrong("folds another number of elements");
        }
        for (array, counts) in &self.scratch {
            let (stored, folded) = counts;
            match before.scratch.get(array) {
                Some(was) if was != counts => {
                    return wrong("stores or folds another number of elements of a scratch array");
                }
                None if stored != folded => return wrong("folds another number of parts than it stores"),
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}
