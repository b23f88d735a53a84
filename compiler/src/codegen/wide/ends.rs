//! The end of reductions: an iteration behind all others, in which the lanes of each accumulator become one.
//!
//! Lanes are folded by halves, as the loop of 128 bits folds them: each of the lower half with the one of the same number in the upper
//! half, the lower one first. What the lanes above give meanwhile, nobody reads. Reductions of one form, as those of several rows that are
//! read in one iteration, share a register as soon as half of its lanes would be idle: each ends in a part of 128 bits.

use super::Reg;
use super::select::{Iteration, Selector, Vector, count};
use crate::codegen::rows::Width;
use crate::codegen::vector::combine;
use crate::kernel::body::{Op, ScalarType};
use crate::kernel::ir::{Accumulator, Place, Stage};
use iced_x86::Code;
use smallvec::smallvec;

/// So many reductions are folded side by side, and none waits for another.
const SEVERAL: usize = 3;
/// Bytes of a part of a register.
const PART: u32 = 16;

/// Whether the lanes of two reductions may be folded in one register: by the same operations, on lanes that are as wide.
fn go_together(a: &Accumulator, b: &Accumulator) -> bool {
    let bits = a.types().next().map(ScalarType::bits);
    let alike = a.types().all(|scalar| Some(scalar.bits()) == bits && !scalar.is_mask());
    let lanes = |a: &Accumulator| matches!(a.place, Place::Lanes { .. });
    alike && lanes(a) && lanes(b) && a.combine.nodes() == b.combine.nodes() && a.roots == b.roots
}

impl Selector<'_> {
    /// Whether lanes are folded in registers. Fewer instructions do that, but in those of 512 bits one reduction alone has its result
    /// later: a row loop that is behind it in the same point would wait.
    pub(super) fn folds_itself(&self) -> bool {
        let results = || {
            self.row.stage.accumulators.iter().flat_map(|a| match &a.place {
                Place::Lanes { results } => results.as_slice(),
                Place::Row { .. } => &[],
            })
        };
        let takes = |op: &Op| matches!(op, Op::Result(r) if results().any(|own| own == r));
        let awaits = |s: &Stage| s.vector.extent > 1 && s.body.nodes().iter().any(|n| takes(&n.op));
        self.width == Width::W256 || results().count() >= SEVERAL || !self.nest.stages.iter().any(awaits)
    }

    /// The iteration that leaves what each accumulator's lanes are together where [`Frame::ends`](super::Frame) says; `None` where a combiner
    /// has no form.
    ///
    /// # Errors
    /// What the traversal of a combiner misses, a fault of ours.
    pub(super) fn ends(&mut self) -> Result<Option<Iteration>, String> {
        if self.start_iteration().is_none() {
            return Ok(None);
        }
        (self.now, self.live) = (0, self.vector);
        let folded = self.fold_all();
        match (self.fault.take(), folded) {
            (Some(fault), _) => Err(fault),
            (None, None) => Ok(None),
            (None, Some(ends)) => {
                self.frame.ends = ends;
                Ok(self.end())
            }
        }
    }

    /// Folds all accumulators, and says where in the frame each component then lies.
    fn fold_all(&mut self) -> Option<Vec<u32>> {
        let accumulators = &self.row.stage.accumulators;
        let parts = self.width.bytes() / PART;
        let (mut ends, mut number, mut register) = (Vec::new(), 0, 0);
        while let Some(a) = accumulators.get(number) {
            let behind = accumulators[number..].iter().take(parts as usize);
            let together = behind.take_while(|other| go_together(a, other)).count().max(1);
            // Where the components of the first of them lie.
            let mut places = Vec::new();
            for of in number..number + together {
                for component in &self.accumulators[of] {
                    places.extend((of == number).then_some(register));
                    register += component.iter().map(|vector| vector.len() as u32).sum::<u32>();
                }
            }
            let mut items = Vec::new();
            for of in number..number + together {
                items.extend(self.one_vector(of, a)?);
            }
            let (mut half, alone) = (self.vector / 2, together == 1);
            while half >= 1 {
                items = if alone { self.each_halved(a, items, half) } else { self.all_halved(a, items, half) }?;
                half /= 2;
            }
            for ((component, v), scalar) in items.into_iter().flatten().enumerate().zip(a.types()) {
                self.accumulators[number][component][0][0] = self.as_register(scalar, *v.first()?);
            }
            for item in 0..together as u32 {
                ends.extend(places.iter().map(|&k| self.frame.accumulator(k) + item * PART));
            }
            number += together;
        }
        Some(ends)
    }

    /// What the vectors of an accumulator are together, a vector for each component; nothing where it has no lanes.
    fn one_vector(&mut self, number: usize, a: &Accumulator) -> Option<Option<Vec<Vector>>> {
        let mut vectors: Vec<Vec<Vector>> = Vec::new();
        for (component, scalar) in self.accumulators[number].clone().iter().zip(a.types()) {
            vectors.resize(component.len(), Vec::new());
            for (all, vector) in vectors.iter_mut().zip(component) {
                all.push(vector.iter().map(|&r| self.as_mask(scalar, r)).collect());
            }
        }
        while vectors.len() > 1 {
            let upper = vectors.split_off(vectors.len() / 2);
            for (lower, upper) in vectors.iter_mut().zip(upper) {
                *lower = combine(self, (), a, lower.iter().cloned().chain(upper).collect())?;
            }
        }
        Some(vectors.pop())
    }

    /// The lower half of the lanes of each item, combined with the upper one.
    fn each_halved(&mut self, a: &Accumulator, items: Vec<Vec<Vector>>, half: i64) -> Option<Vec<Vec<Vector>>> {
        let mut out = Vec::new();
        for folded in items {
            let upper = folded.iter().zip(a.types()).map(|(v, scalar)| self.lanes_from(scalar, v, half));
            let upper = upper.collect::<Option<Vec<Vector>>>()?;
            out.push(combine(self, (), a, folded.into_iter().chain(upper).collect())?);
        }
        Some(out)
    }

    /// The same, where the halves of two items, or of one twice, that are whole parts of a register become one: the first keeps the parts
    /// before those of the second.
    fn all_halved(&mut self, a: &Accumulator, items: Vec<Vec<Vector>>, half: i64) -> Option<Vec<Vec<Vector>>> {
        let bytes = a.types().next().map_or(0, |scalar| half as u32 * scalar.bits() / 8);
        if bytes < PART || bytes >= self.width.bytes() {
            return self.each_halved(a, items, half);
        }
        let mut out = Vec::new();
        for two in items.chunks(2) {
            let (first, second) = (two.first()?, two.last()?);
            let (mut lower, mut upper) = (Vec::new(), Vec::new());
            for (x, y) in first.iter().zip(second) {
                let of = [*x.first()?, *y.first()?];
                let halves = if bytes == PART { self.parts_by_turns(of) } else { self.lower_and_upper(of) };
                for (all, r) in [&mut lower, &mut upper].into_iter().zip(halves) {
                    all.push(smallvec![r; x.len()]);
                }
            }
            lower.append(&mut upper);
            out.push(combine(self, (), a, lower)?);
        }
        Some(out)
    }

    /// A vector whose lanes begin with lane `first` of another, the half of it, the quarter and so on.
    fn lanes_from(&mut self, scalar: ScalarType, v: &[Reg], first: i64) -> Option<Vector> {
        let each = self.vector / count(scalar) as i64;
        let r = if first >= each { *v.get((first / each) as usize)? } else { self.moved(scalar, *v.first()?, first) };
        Some(smallvec![r; count(scalar)])
    }

    /// A register whose first lanes are those of another from lane `first` on, a power of two.
    fn moved(&mut self, scalar: ScalarType, r: Reg, first: i64) -> Reg {
        if self.iteration.is_mask(r) {
            return self.shifted_mask(r, first as u8);
        }
        match first * i64::from(scalar.bits() / 8) {
            32 => self.upper(r),
            16 => self.part(r, 1),
            8 => self.with_imm(Code::VEX_Vpermilps_ymm_ymmm256_imm8, &[r], 0b01_00_11_10),
            _ => self.with_imm(Code::VEX_Vpermilps_ymm_ymmm256_imm8, &[r], 0b10_11_00_01),
        }
    }
}
