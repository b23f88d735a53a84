//! A plan as text.

use super::{Access, Form, Mode, RowLoop, Segment, Walk, Width, passes};
use crate::kernel::ir::{Kernel, Phase};
use std::fmt::{self, Display, Formatter};

/// The plans of the rows of kernels, named by kernel, phase and stage.
pub fn describe<'k>(kernels: impl Iterator<Item = &'k Kernel>) -> String {
    let mut out = String::new();
    for kernel in kernels {
        for (p, phase) in kernel.phases.iter().enumerate() {
            let Phase::Nest(nest) = phase else { continue };
            for (s, stage) in nest.stages.iter().enumerate() {
                out +=
                    &format!("{}, phase {p}, stage {s}: {}", kernel.name, RowLoop::new(stage).in_points(nest.points()));
            }
        }
    }
    out
}

impl Display for RowLoop<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "row {}", self.stage.vector)?;
        let once: Vec<String> = self.uniform().map(|id| format!("%{}", id.0)).collect();
        if !once.is_empty() {
            writeln!(f, "  once {}", once.join(", "))?;
        }
        for (id, access) in &self.loads {
            writeln!(f, "  load %{}: {access}", id.0)?;
        }
        for (k, access) in self.stores.iter().enumerate() {
            match access {
                Some(access) => writeln!(f, "  store {k}: {access}")?,
                None => writeln!(f, "  store {k}: once")?,
            }
        }
        for (k, mode) in self.modes.iter().enumerate() {
            writeln!(f, "  fold {k}: {mode}")?;
        }
        if !self.has_elements() {
            return Ok(());
        }
        // The row goes by in wide code where the target has it: in the form that promises most, or else in the next.
        let mut plans: Vec<Vec<Segment>> = self.widths(Width::W512).iter().map(|&w| self.segments(Some(w))).collect();
        plans.dedup();
        for (k, plan) in plans.iter().enumerate() {
            if k > 0 {
                writeln!(f, "  or")?;
            }
            plan.iter().try_for_each(|s| writeln!(f, "  {s}"))?;
        }
        for width in Width::ALL {
            if let [first, rest @ ..] = passes(self.stage, Some(width)).as_slice()
                && !rest.is_empty()
            {
                write!(f, "  in {} bits: folds {} to {}", width.bits(), first.start, first.end - 1)?;
                rest.iter().try_for_each(|r| write!(f, ", then {} to {}", r.start, r.end - 1))?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl Display for Access {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of buffer {}, ", self.mem, self.buffer)?;
        match self.walk {
            Walk::Contiguous => write!(f, "contiguous from {}", self.start),
            Walk::Reversed => write!(f, "reversed from {}", self.start),
            Walk::Strided(stride) => write!(f, "by {stride} from {}", self.start),
            Walk::Gathered => write!(f, "gathered at {}", self.start),
        }
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Row => f.write_str("one for each element"),
            Mode::Vectors(vectors) => write!(f, "{vectors} vectors of lanes"),
            Mode::Few => f.write_str("a scalar for each element, folded at the end"),
            Mode::Chain => f.write_str("one element after another"),
        }
    }
}

impl Display for Segment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} by {} in ", self.begin, self.end, self.iteration)?;
        match self.form {
            Form::Wide(width) => write!(f, "{} bits", width.bits())?,
            Form::Vectors => f.write_str("vectors")?,
            Form::Singles => f.write_str("singles")?,
        }
        f.write_str(if self.starts { ", lanes start" } else { "" })
    }
}
