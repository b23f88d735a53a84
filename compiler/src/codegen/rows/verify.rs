//! What must be so of every plan, found again without how it was made.

use super::{Form, Mode, RowLoop, Segment, VECTOR, Width};
use crate::kernel::body::Op;
use crate::kernel::index::Ix;

impl RowLoop<'_> {
    /// Checks the plan against its stage, with the segments that it would have with and without code of each width.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn verify(&self) -> Result<(), String> {
        self.nodes()?;
        self.accesses()?;
        self.check_segments(&self.segments(None), None)?;
        Width::ALL.into_iter().try_for_each(|width| self.check_segments(&self.segments(Some(width)), Some(width)))
    }

    /// What is computed once depends on nothing that changes.
    fn nodes(&self) -> Result<(), String> {
        let body = &self.stage.body;
        for id in self.uniform() {
            let node = body.node(id);
            let (mut walks, mut offset) = (false, false);
            if let Some(ix) = node.op.index() {
                walks = self.axes.iter().any(|&a| ix.mentions(a));
                ix.for_each_value(&mut |n| offset |= self.varies(n));
            }
            if walks || offset || node.args.iter().any(|&a| self.varies(a)) {
                return Err(format!("%{} is computed once, but differs along the row", id.0));
            }
        }
        Ok(())
    }

    /// An access that walks lies, by the forms of its indices, where its index says.
    fn accesses(&self) -> Result<(), String> {
        let body = &self.stage.body;
        let loads = self.loads.iter().filter_map(|(id, access)| match &body.node(*id).op {
            Op::Load(_, _, ix) => Some((("the load %", id.0 as usize), access, ix)),
            _ => None,
        });
        let stores = self.stage.stores.iter().zip(&self.stores).enumerate();
        let stores = stores.filter_map(|(k, (s, a))| Some((("store ", k), a.as_ref()?, &s.index)));
        for ((what, number), access, ix) in loads.chain(stores) {
            let Some(stride) = access.walk.stride() else { continue };
            let first = |axis| (axis != self.stage.vector.axis && self.axes.contains(&axis)).then(|| Ix::constant(0));
            let walked = access.start.add(&self.stage.vector.ix().scale(stride));
            if walked != ix.substitute(&first) {
                return Err(format!("{what}{number} walks from {} by {stride}, but lies at {ix}", access.start));
            }
        }
        Ok(())
    }

    /// Segments are the row, and lanes stay what they are.
    pub(super) fn check_segments(&self, segments: &[Segment], wide: Option<Width>) -> Result<(), String> {
        let (n, lanes) = (self.stage.vector.extent, self.stage.lane_count());
        let in_lanes = self.modes.iter().any(|m| matches!(m, Mode::Vectors(_)));
        let mut done = 0;
        for s in segments {
            let fault = |what: &str| Err(format!("the segment {s:?} of a row of {n} {what}"));
            if s.begin != done || s.end <= s.begin || s.end > n {
                return fault("does not follow what is before it");
            }
            let whole = |left: i64| match s.form {
                Form::Wide(width) => left % width.least() == 0,
                Form::Vectors | Form::Singles => left == 0,
            };
            if s.iteration <= 0 || !whole((s.end - s.begin) % s.iteration) {
                return fault("is not made of whole iterations");
            }
            let register = match s.form {
                Form::Wide(width) => width.vector(),
                Form::Vectors => VECTOR,
                Form::Singles => 1,
            };
            if s.iteration % register != 0 {
                return fault("cuts a register");
            }
            let several = s.end - s.begin > s.iteration;
            if in_lanes && (s.begin % VECTOR != 0 || (several && (s.iteration % lanes != 0 || s.begin % lanes != 0))) {
                return fault("puts elements into other lanes");
            }
            if let Form::Wide(width) = s.form
                && (wide != Some(width) || self.has_few())
            {
                return fault("has no code of its width");
            }
            if self.has_few() && several {
                return fault("has a scalar for each element and is a loop");
            }
            done = s.end;
        }
        if done != n {
            return Err(format!("segments end at {done} of {n}"));
        }
        let started: i64 =
            segments.iter().take_while(|s| s.starts && s.end - s.begin == s.iteration).map(|s| s.iteration).sum();
        for (a, mode) in self.stage.accumulators.iter().zip(&self.modes) {
            if matches!(mode, Mode::Vectors(_)) && a.identity.is_none() && started < a.lane_count() {
                return Err(format!("{started} elements start {} lanes", a.lane_count()));
            }
        }
        Ok(())
    }
}
