//! Steps that move elements.

use super::note::Note;
use super::{Generator, MAX_ELEMENTS};
use brolga_compiler::hlo::PaddingDimension;
use brolga_runtime::{ElementType as E, Shape};

impl Generator {
    pub(super) fn movement(&mut self) -> Option<usize> {
        match self.rng.below(9) {
            0 => self.reshape(),
            1 => self.transpose(),
            2 => self.broadcast(),
            3 | 4 => self.slice(),
            5 => self.reverse(),
            6 => self.concatenate(),
            7 => self.pad(),
            _ => self.iota(),
        }
    }

    fn reshape(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty())?;
        let mut dims = self.values[x].shape.dims.clone();
        for _ in 0..1 + self.rng.below(2) {
            let d = self.rng.below(dims.len() as u64) as usize;
            match self.rng.below(3) {
                0 if d + 1 < dims.len() => {
                    let n = dims.remove(d + 1);
                    dims[d] *= n;
                }
                1 => dims.insert(d, 1),
                _ => {
                    let factor = self.rng.pick(&[2, 3, 4, 5, 7]);
                    if dims[d] % factor == 0 {
                        dims[d] /= factor;
                        dims.insert(d + self.rng.below(2) as usize, factor);
                    }
                }
            }
        }
        let op = self.builder.reshape(self.values[x].op, &dims);
        self.add(op, &[x], self.values[x].note)
    }

    fn transpose(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.shape.rank() >= 2)?;
        let order: Vec<i64> = self.rng.permutation(self.values[x].shape.rank()).iter().map(|&d| d as i64).collect();
        let op = self.builder.transpose(self.values[x].op, &order);
        self.add(op, &[x], self.values[x].note)
    }

    /// A chain of transposes, each reshaped back to what it was made of or to other dimensions.
    pub(super) fn shuffles(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.shape.rank() >= 2)?;
        let dims = self.values[x].shape.dims.clone();
        let mut at = x;
        for _ in 0..1 + self.rng.below(12) {
            let order: Vec<i64> = self.rng.permutation(dims.len()).iter().map(|&d| d as i64).collect();
            let op = self.builder.transpose(self.values[at].op, &order);
            at = self.add(op, &[at], self.values[x].note)?;
            let to = if self.rng.chance(3, 4) {
                dims.clone()
            } else {
                self.rng.permutation(dims.len()).iter().map(|&d| dims[d]).collect()
            };
            let op = self.builder.reshape(self.values[at].op, &to);
            at = self.add(op, &[at], self.values[x].note)?;
        }
        Some(at)
    }

    fn broadcast(&mut self) -> Option<usize> {
        let x = self.choose(|v| v.elements() * 4 <= MAX_ELEMENTS && v.shape.rank() <= 3)?;
        let mut dims = self.values[x].shape.dims.clone();
        let mut numbers: Vec<i64> = (0..dims.len() as i64).collect();
        for _ in 0..1 + self.rng.below(2) {
            let total: i64 = dims.iter().product();
            let n = self.rng.between(1, (MAX_ELEMENTS / total.max(1)).clamp(1, 40));
            let at = self.rng.below(dims.len() as u64 + 1) as usize;
            dims.insert(at, n);
            numbers.iter_mut().filter(|d| **d >= at as i64).for_each(|d| *d += 1);
        }
        let op = self.builder.broadcast_in_dim(self.values[x].op, &dims, &numbers);
        self.add(op, &[x], self.values[x].note)
    }

    fn slice(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty())?;
        let dims = self.values[x].shape.dims.clone();
        let (mut starts, mut limits, mut strides) = (Vec::new(), Vec::new(), Vec::new());
        for &n in &dims {
            let whole = self.rng.chance(1, 2);
            let start = if whole { 0 } else { self.rng.between(0, n / 2) };
            let limit = if whole { n } else { self.rng.between(start.max(n / 2), n) };
            starts.push(start);
            limits.push(if limit == start && !self.rng.chance(1, 10) { n } else { limit });
            strides.push(self.rng.pick(&[1, 1, 1, 2, 3]));
        }
        let op = self.builder.slice(self.values[x].op, &starts, &limits, &strides);
        self.add(op, &[x], self.values[x].note)
    }

    fn reverse(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty())?;
        let rank = self.values[x].shape.rank();
        let mut dims: Vec<i64> = (0..rank as i64).filter(|_| self.rng.chance(1, 2)).collect();
        if dims.is_empty() {
            dims.push(self.rng.below(rank as u64) as i64);
        }
        let op = self.builder.rev(self.values[x].op, &dims);
        self.add(op, &[x], self.values[x].note)
    }

    fn concatenate(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty())?;
        let shape = self.values[x].shape.clone();
        let d = self.rng.below(shape.rank() as u64) as usize;
        let mut parts = vec![x];
        let mut note = self.values[x].note;
        for _ in 0..1 + self.rng.below(3) {
            let fits = |s: &brolga_runtime::ArrayShape| {
                s.ty == shape.ty
                    && s.rank() == shape.rank()
                    && (0..s.rank()).all(|e| e == d || s.dims[e] == shape.dims[e])
            };
            let y = self.choose(|v| fits(&v.shape))?;
            let total: i64 = parts.iter().map(|&p| self.values[p].elements()).sum();
            if total + self.values[y].elements() > 2 * MAX_ELEMENTS {
                break;
            }
            note = note.either(self.values[y].note);
            parts.push(y);
        }
        // Nothing is computed, so that each part keeps its own certainty; the whole has that of the worst.
        let usable = parts.iter().all(|&p| self.values[p].note.is_exact()) || note.bound.is_finite();
        let ops: Vec<_> = parts.iter().map(|&p| self.values[p].op).collect();
        let op = self.builder.concat_in_dim(&ops, d as i64);
        self.add_if(op, &parts, usable.then_some(note))
    }

    fn pad(&mut self) -> Option<usize> {
        let x = self.choose(|v| !v.shape.dims.is_empty() && v.elements() * 3 <= MAX_ELEMENTS)?;
        let ty = self.values[x].ty();
        let value =
            self.choose(|v| v.ty() == ty && v.shape.dims.is_empty() && v.note.is_exact() && v.note.bound <= 4.0);
        let (value, operands, bound) = match value {
            Some(v) => (self.values[v].op, vec![x, v], self.values[v].note.bound),
            None => (self.scalar(ty, 1.0), vec![x], 1.0),
        };
        let mut config = Vec::new();
        let mut total = 1;
        for &n in &self.values[x].shape.dims.clone() {
            let mut c = PaddingDimension { low: 0, high: 0, interior: 0 };
            if self.rng.chance(2, 3) {
                c = PaddingDimension {
                    low: self.rng.between(-1, 3),
                    high: self.rng.between(-1, 3),
                    interior: self.rng.pick(&[0, 0, 0, 1, 2]),
                };
            }
            let mut size = n + (n - 1).max(0) * c.interior + c.low + c.high;
            if size < 0 {
                (c.low, c.high) = (0, 0);
                size = n + (n - 1).max(0) * c.interior;
            }
            total *= size;
            config.push(c);
        }
        if total > 2 * MAX_ELEMENTS {
            return None;
        }
        let note = self.values[x].note.either(Note::exact(bound));
        let op = self.builder.pad(self.values[x].op, value, &config);
        self.add(op, &operands, note)
    }

    fn iota(&mut self) -> Option<usize> {
        let (ty, dims) = (self.any_type(), self.any_dims());
        if ty == E::Pred || dims.is_empty() {
            return None;
        }
        let d = self.rng.below(dims.len() as u64) as usize;
        let note = Note::exact(dims[d] as f64).rounded(ty, true);
        let op = self.builder.iota(Shape::array(ty, dims), d as i64);
        self.add_if(op, &[], note)
    }
}
