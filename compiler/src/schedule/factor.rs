//! Loops whose variables are divided: each becomes two.
//!
//! **Problem.** A reshape leaves quotients and remainders of a loop variable in index maps. What is read through them does not lie side
//! by side for any emitter, although it does in every piece as long as the divisor, and each row divides anew to know where it begins.
//!
//! **Invariant.** The points are the same, in the same order.
//!
//! **Algorithm.** A loop of a nest is cut by a divisor of its extent that an index map has, where fewer divisions are left then; neighbours
//! that now lie behind each other everywhere become one loop again. The vector axis is cut where its pieces are long enough to be
//! rows, or one element each that is stored several times.

use super::cost::UNIT;
use super::cost::rows::repeats;
use super::split::{Fresh, pieces};
use crate::kernel::index::Ix;
use crate::kernel::ir::{Kernel, Loop, Nest, Phase};
use crate::kernel::rewrite::indices;
use crate::kernel::simplify::merge_loops;
use std::collections::BTreeSet;

/// The shortest row that a vector axis is cut into.
const ROW: i64 = UNIT / 2;

/// Cuts the loops of every nest that index maps divide.
pub fn run(kernel: &mut Kernel) {
    let mut changed = false;
    for phase in &mut kernel.phases {
        let Phase::Nest(nest) = phase else { continue };
        while let Some(new) = factored(nest) {
            *nest = new;
            changed = true;
        }
    }
    if changed {
        merge_loops(kernel);
    }
}

/// The nest with one of its loops cut, which leaves fewer divisions.
fn factored(nest: &Nest) -> Option<Nest> {
    let before = divisions(nest);
    if before == 0 {
        return None;
    }
    let cut = |l: Loop, number: usize, fits: &dyn Fn(i64, &Nest) -> bool| {
        let mut divisors = BTreeSet::new();
        indices(nest).for_each(|ix| divisors_of(ix, l, &mut divisors));
        divisors.into_iter().find_map(|d| {
            let (mut new, outer) = pieces(nest, &[l.axis], l.extent, d, &mut Fresh::of(nest))?.whole;
            new.parallel.insert(number, outer);
            (divisions(&new) < before && fits(d, &new)).then_some(new)
        })
    };
    let parallel = nest.parallel.iter().enumerate().find_map(|(number, &l)| cut(l, number, &|_, _| true));
    parallel.or_else(|| match nest.stages.as_slice() {
        [stage] if stage.accumulators.is_empty() && stage.sequential.is_empty() && stage.row_stores.is_empty() => {
            cut(stage.vector, nest.parallel.len(), &|d, new| d >= ROW || repeats(new))
        }
        _ => None,
    })
}

/// Quotients and remainders in index maps.
fn divisions(nest: &Nest) -> usize {
    let mut count = 0;
    indices(nest).for_each(|ix| ix.visit_parts(&mut |_, _| count += 1));
    count
}

/// Divisors of a loop's extent that would leave no division of its variable.
fn divisors_of(ix: &Ix, l: Loop, all: &mut BTreeSet<i64>) {
    ix.visit_parts(&mut |x, n| {
        if let Some(stride @ 1..) = x.stride(l.axis)
            && n % stride == 0
        {
            let d = n / stride;
            if 1 < d && d < l.extent && l.extent % d == 0 {
                all.insert(d);
            }
        }
    });
}
