//! What must be so of every plan, found again without how it was made.

use super::{Form, Mode, RowLoop, Segment, VECTOR, Width};
use crate::kernel::body::Op;
use crate::kernel::index::Ix;
use crate::kernel::ir::Place;

impl RowLoop<'_> {
    /// Checks the plan against its stage, with the segments that it would have with and without code of each width.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn verify(&self) -> Result<(), String> {
        self.nodes()?;
        self.accesses()?;
        self.neighbours()?;
        self.folds()?;
        self.check_segments(&self.segments(None), None)?;
        Width::ALL.into_iter().try_for_each(|width| self.check_segments(&self.segments(Some(width)), Some(width)))
    }

    /// What is computed once depends on nothing that changes.
    fn nodes(&self) -> Result<(), String> {
        let body = &self.stage.body;
        for id in self.uniform() {
            let node = body.node(id);
            let (mut walks, mut offset) = (matches!(node.op, Op::Row(_)) && self.stage.vector.extent > 1, false);
            if let Some(ix) = node.op.index() {
                walks |= self.axes.iter().any(|&a| ix.mentions(a));
                ix.for_each_value(&mut |n| offset |= self.varies(n));
            }
            if walks || offset || node.args.iter().any(|&a| self.varies(a)) {
                return Err(format!("%{} is computed once, but differs along the row", id.0));
            }
        }
        Ok(())
    }

    /// What happens for each element has an access, of its own buffer, and what happens once for the row has none; one that walks
    /// lies, by the forms of its indices, where its index says, and one that does not, at its index.
    fn accesses(&self) -> Result<(), String> {
        let (body, vector) = (&self.stage.body, self.stage.vector);
        let loads = self.varying().filter_map(|id| match &body.node(id).op {
            Op::Load(buffer, mem, ix) => {
                Some((("the load %", id.0 as usize), self.loads.get(&id), (*buffer, *mem, ix)))
            }
            _ => None,
        });
        let stores = self.stage.stores.iter().zip(&self.stores).enumerate().filter_map(|(k, (s, access))| {
            let varies = self.varies(s.value) || s.index.mentions(vector.axis);
            (varies || access.is_some()).then_some((("store ", k), access.as_ref(), (s.buffer, s.mem, &s.index)))
        });
        if self.stores.len() != self.stage.stores.len() {
            return Err(format!("{} stores have {} accesses", self.stage.stores.len(), self.stores.len()));
        }
        for ((what, number), access, (buffer, mem, ix)) in loads.chain(stores) {
            let access = access.filter(|a| (a.buffer, a.mem) == (buffer, mem));
            let Some(access) = access else { return Err(format!("{what}{number} has no access")) };
            let (lies, of) = match access.walk.stride() {
                Some(stride) => {
                    let first = |axis| (axis != vector.axis && self.axes.contains(&axis)).then(|| Ix::constant(0));
                    (access.start.add(&vector.ix().scale(stride)), ix.substitute(&first))
                }
                None => (access.start.clone(), ix.clone()),
            };
            if lies != of {
                return Err(format!("{what}{number} is {access}, but lies at {ix}"));
            }
        }
        Ok(())
    }

    /// A load that lies near another walks as that does, so many elements behind it.
    fn neighbours(&self) -> Result<(), String> {
        for (id, near) in &self.near {
            let behind = self.loads.get(id).zip(self.loads.get(&near.leader)).filter(|(load, leader)| {
                (load.buffer, load.mem.bytes(), load.walk) == (leader.buffer, leader.mem.bytes(), leader.walk)
            });
            let behind = behind.and_then(|(load, leader)| load.start.behind(&leader.start));
            if behind != Some(near.behind) || !(0..=near.span).contains(&near.behind) {
                return Err(format!("the load %{} lies not {} behind %{}", id.0, near.behind, near.leader.0));
            }
        }
        Ok(())
    }

    /// Reductions run as their places, their combiners and the length of the row ask for: another order is another number.
    pub(super) fn folds(&self) -> Result<(), String> {
        let (n, accumulators) = (self.stage.vector.extent, &self.stage.accumulators);
        if self.modes.len() != accumulators.len() {
            return Err(format!("{} reductions run in {} ways", accumulators.len(), self.modes.len()));
        }
        for (k, (a, mode)) in accumulators.iter().zip(&self.modes).enumerate() {
            let lanes = a.lane_count();
            // Each lane has something to start from.
            let starts = a.identity.is_some() || (n >= lanes && self.stage.sequential.is_empty());
            let filled = n.min(lanes);
            let fits = match (&a.place, mode) {
                (Place::Row { .. }, mode) => *mode == Mode::Row,
                (Place::Lanes { .. }, Mode::Row) => false,
                (Place::Lanes { .. }, Mode::Chain) => !(a.splits && starts),
                (Place::Lanes { .. }, Mode::Few) => a.splits && starts && n < 2 * VECTOR,
                (Place::Lanes { .. }, Mode::Vectors(vectors)) => {
                    let enough = (filled..filled + VECTOR).contains(&(vectors * VECTOR));
                    a.splits && starts && n >= 2 * VECTOR && enough
                }
            };
            if !fits {
                return Err(format!("fold {k} of a row of {n} runs as {mode}"));
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
