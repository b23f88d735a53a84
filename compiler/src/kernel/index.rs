//! Index maps: integer expressions in the loop variables.
//!
//! Problem: transpose, broadcast, slice, reverse and reshape cost nothing when they only change how an operand is
//! indexed. Invariant: an [`Ix`] is kept in one canonical form, a constant plus terms sorted by atom with no zero
//! coefficient, so that equal maps compare equal. Algorithm: sums and products distribute at once; division and
//! remainder are simplified with the ranges of the variables, and `k*n*(x/n) + k*(x%n)` is folded back to `k*x`, which
//! removes the div/mod that a reshape between equal layouts would leave.

use std::fmt;

/// A loop variable: a number of the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Axis(pub u32);

/// Names a node of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// What a coefficient multiplies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A loop variable and its extent: it runs from 0 to the extent, exclusive.
    Axis(Axis, i64),
    /// Floor division by a positive constant.
    Div(Box<Ix>, i64),
    /// Remainder by a positive constant, never negative.
    Mod(Box<Ix>, i64),
    /// An `I64` node of the body with its smallest and largest value: a loaded offset.
    Value(NodeId, i64, i64),
}

/// A canonical integer expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ix {
    /// The constant part.
    pub constant: i64,
    /// Coefficients and atoms, sorted by atom.
    pub terms: Vec<(Atom, i64)>,
}

/// A loop variable with its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The variable.
    pub axis: Axis,
    /// It runs from 0 to here, exclusive; at least 1.
    pub extent: i64,
}

impl Loop {
    /// The variable as an index expression.
    pub fn ix(&self) -> Ix {
        Ix::axis(self.axis, self.extent)
    }
}

impl Ix {
    /// A constant.
    pub fn constant(value: i64) -> Ix {
        Ix { constant: value, terms: Vec::new() }
    }

    /// A loop variable. One that runs over a single value is that value, 0.
    pub fn axis(axis: Axis, extent: i64) -> Ix {
        if extent == 1 { Ix::constant(0) } else { Ix::atom(Atom::Axis(axis, extent)) }
    }

    /// A loaded offset known to lie between `low` and `high`.
    pub fn value(node: NodeId, low: i64, high: i64) -> Ix {
        if low == high { Ix::constant(low) } else { Ix::atom(Atom::Value(node, low, high)) }
    }

    fn atom(atom: Atom) -> Ix {
        Ix { constant: 0, terms: vec![(atom, 1)] }
    }

    /// The value, where the expression is constant.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Sum.
    pub fn add(&self, other: &Ix) -> Ix {
        let mut out = self.clone();
        out.add_times(other, 1);
        out
    }

    /// Adds so many times another expression.
    fn add_times(&mut self, other: &Ix, times: i64) {
        self.constant = self.constant.wrapping_add(other.constant.wrapping_mul(times));
        for (atom, coefficient) in &other.terms {
            self.add_term(atom, coefficient.wrapping_mul(times));
        }
        self.fold_div_mod();
    }

    /// Whether it is `n` times an integer, whatever the values of its atoms.
    pub fn is_multiple_of(&self, n: i64) -> bool {
        self.constant % n == 0 && self.terms.iter().all(|(_, c)| c % n == 0)
    }

    /// Sum with a constant.
    pub fn offset(&self, by: i64) -> Ix {
        Ix { constant: self.constant.wrapping_add(by), terms: self.terms.clone() }
    }

    /// Product with a constant.
    pub fn scale(&self, by: i64) -> Ix {
        if by == 0 {
            return Ix::constant(0);
        }
        let terms = self.terms.iter().map(|(a, c)| (a.clone(), c.wrapping_mul(by))).collect();
        Ix { constant: self.constant.wrapping_mul(by), terms }
    }

    fn add_term(&mut self, atom: &Atom, coefficient: i64) {
        match self.terms.binary_search_by(|(a, _)| a.cmp(atom)) {
            Ok(i) => {
                self.terms[i].1 = self.terms[i].1.wrapping_add(coefficient);
                if self.terms[i].1 == 0 {
                    self.terms.remove(i);
                }
            }
            Err(i) if coefficient != 0 => self.terms.insert(i, (atom.clone(), coefficient)),
            Err(_) => {}
        }
    }

    /// Folds `k*n*(x/n) + k*(x%n)` into `k*x` and `k*n*((x/n)%m) + k*(x%n)` into `k*(x%(n*m))`, until nothing more folds. A
    /// quotient need not be written as such: `y/(g*n)` is `(y/g)/n`, and `x` may be what `y/g` has become.
    fn fold_div_mod(&mut self) {
        'again: loop {
            for (i, (atom, k)) in self.terms.iter().enumerate() {
                let Atom::Mod(x, n) = atom else { continue };
                let wanted = k.wrapping_mul(*n);
                if !self.terms.iter().any(|(_, c)| *c == wanted) {
                    continue;
                }
                let quotient = x.div(*n);
                // The other term, and what the two are together, over `k`.
                let found = self.terms.iter().enumerate().find_map(|(j, (a, c))| match a {
                    _ if *c != wanted => None,
                    Atom::Div(y, m) if quotient.is_atom(a) || (m % n == 0 && m > n && y.div(m / n) == **x) => {
                        Some((j, (**x).clone()))
                    }
                    Atom::Mod(y, m) if **y == quotient => {
                        // Where the whole would be taken apart, at this place or another, it is no form to fold into.
                        let both = n.checked_mul(*m)?;
                        let whole = Atom::Mod(x.clone(), both);
                        x.rem(both).is_atom(&whole).then(|| (j, Ix::atom(whole)))
                    }
                    _ => None,
                });
                if let Some((j, whole)) = found {
                    let whole = whole.scale(*k);
                    self.terms.remove(i.max(j));
                    self.terms.remove(i.min(j));
                    self.constant = self.constant.wrapping_add(whole.constant);
                    for (atom, coefficient) in &whole.terms {
                        self.add_term(atom, *coefficient);
                    }
                    continue 'again;
                }
            }
            return;
        }
    }

    /// `m*s + x` and `m` of an expression `s + x/m`.
    fn over_one_divisor(&self) -> Option<(Ix, i64)> {
        let found = self.terms.iter().find_map(|(a, c)| match a {
            Atom::Div(x, m) if *c == 1 => Some((a, x, *m)),
            _ => None,
        });
        let (atom, x, m) = found?;
        self.constant.checked_mul(m)?;
        self.terms.iter().try_for_each(|(_, c)| c.checked_mul(m).map(|_| ()))?;
        let mut rest = self.clone();
        rest.add_term(atom, -1);
        Some((rest.scale(m).add(x), m))
    }

    fn is_atom(&self, atom: &Atom) -> bool {
        self.constant == 0 && matches!(self.terms.as_slice(), [(a, 1)] if a == atom)
    }

    /// Smallest and largest value, from the extents.
    pub fn range(&self) -> (i64, i64) {
        let mut low = self.constant;
        let mut high = self.constant;
        for (atom, c) in &self.terms {
            let (a, b) = match atom {
                Atom::Axis(_, extent) => (0, (extent - 1).max(0)),
                Atom::Div(x, n) => {
                    let (a, b) = x.range();
                    (a.div_euclid(*n), b.div_euclid(*n))
                }
                Atom::Mod(_, n) => (0, n - 1),
                Atom::Value(_, low, high) => (*low, *high),
            };
            let (a, b) = (a.saturating_mul(*c), b.saturating_mul(*c));
            low = low.saturating_add(a.min(b));
            high = high.saturating_add(a.max(b));
        }
        (low, high)
    }

    /// Splits into a part whose coefficients are multiples of `n` and the rest.
    fn split_multiples(&self, n: i64) -> (Ix, Ix) {
        let (mut whole, mut rest) = (Ix::default(), Ix::default());
        whole.constant = self.constant.div_euclid(n) * n;
        rest.constant = self.constant.rem_euclid(n);
        for (atom, c) in &self.terms {
            if c % n == 0 {
                whole.terms.push((atom.clone(), *c));
            } else {
                rest.terms.push((atom.clone(), *c));
            }
        }
        (whole, rest)
    }

    /// A divisor `g` of `n`, not 1 nor `n`, such that the terms which are no multiples of `g` sum up to less than `g`.
    fn part_below(&self, n: i64) -> Option<i64> {
        self.terms.iter().map(|(_, c)| gcd(n, c.abs())).filter(|&g| 1 < g && g < n).find(|&g| {
            let (low, high) = self.split_multiples(g).1.range();
            low.div_euclid(g) == high.div_euclid(g)
        })
    }

    /// Floor division by a positive constant.
    pub fn div(&self, n: i64) -> Ix {
        debug_assert!(n > 0, "division by {n}");
        if n == 1 {
            return self.clone();
        }
        let (whole, rest) = self.split_multiples(n);
        let quotient =
            Ix { constant: whole.constant / n, terms: whole.terms.into_iter().map(|(a, c)| (a, c / n)).collect() };
        let (low, high) = rest.range();
        if low.div_euclid(n) == high.div_euclid(n) {
            return quotient.offset(low.div_euclid(n));
        }
        // (s + x/m)/n = (m*s + x)/(m*n)
        if let Some((sum, m)) = rest.over_one_divisor()
            && let Some(mn) = m.checked_mul(n)
        {
            return quotient.add(&sum.div(mn));
        }
        // All coefficients share a factor with n: (g*x + r)/(g*m) = x/m where 0 <= r < g.
        let g = rest.terms.iter().fold(n, |g, (_, c)| gcd(g, c.abs()));
        if g > 1 {
            let reduced = Ix {
                constant: rest.constant.div_euclid(g),
                terms: rest.terms.iter().map(|(a, c)| (a.clone(), c / g)).collect(),
            };
            return quotient.add(&reduced.div(n / g));
        }
        // The same where r is made of terms of its own.
        if let Some(g) = rest.part_below(n) {
            return quotient.add(&rest.div(g).div(n / g));
        }
        quotient.add(&Ix::atom(Atom::Div(Box::new(rest), n)))
    }

    /// Remainder by a positive constant, never negative.
    pub fn rem(&self, n: i64) -> Ix {
        debug_assert!(n > 0, "remainder by {n}");
        if n == 1 {
            return Ix::constant(0);
        }
        let (_, rest) = self.split_multiples(n);
        let (low, high) = rest.range();
        if low.div_euclid(n) == high.div_euclid(n) {
            return rest.offset(-low.div_euclid(n) * n);
        }
        // (g*x + r) % (g*m) = g*(x % m) + r where 0 <= r < g.
        let g = rest.terms.iter().fold(n, |g, (_, c)| gcd(g, c.abs()));
        if g > 1 {
            let reduced = Ix {
                constant: rest.constant.div_euclid(g),
                terms: rest.terms.iter().map(|(a, c)| (a.clone(), c / g)).collect(),
            };
            return reduced.rem(n / g).scale(g).offset(rest.constant.rem_euclid(g));
        }
        if let Some(g) = rest.part_below(n) {
            return rest.div(g).rem(n / g).scale(g).add(&rest.rem(g));
        }
        Ix::atom(Atom::Mod(Box::new(rest), n))
    }

    /// The coefficient of `axis` where the expression is linear in it (0 where it does not occur); `None` where the
    /// axis stands inside a division or remainder.
    pub fn stride(&self, axis: Axis) -> Option<i64> {
        // No divisor is a multiple of such a run.
        self.stride_in_run(axis, i64::MAX)
    }

    /// The length of the aligned runs of `axis`, dividing one another and `extent`, in each of which the expression is linear
    /// in it, and the coefficient there; `None` where there is no such length.
    pub fn run(&self, axis: Axis, extent: i64) -> Option<(i64, i64)> {
        let mut run = extent;
        self.visit_parts(&mut |x, n| {
            if x.is_axis(axis) {
                run = gcd(run, n);
            }
        });
        self.stride_in_run(axis, run).map(|stride| (run, stride))
    }

    fn is_axis(&self, axis: Axis) -> bool {
        self.constant == 0 && matches!(self.terms.as_slice(), [(Atom::Axis(a, _), 1)] if *a == axis)
    }

    /// Calls `visit` for what is divided anywhere, and the divisor.
    pub fn visit_parts(&self, visit: &mut impl FnMut(&Ix, i64)) {
        for (atom, _) in &self.terms {
            if let Atom::Div(x, n) | Atom::Mod(x, n) = atom {
                visit(x, *n);
                x.visit_parts(visit);
            }
        }
    }

    /// The coefficient of `axis` as long as it stays in one aligned run.
    fn stride_in_run(&self, axis: Axis, run: i64) -> Option<i64> {
        let mut stride = 0;
        for (atom, c) in &self.terms {
            stride += c * match atom {
                Atom::Axis(a, _) => i64::from(*a == axis),
                Atom::Value(..) => 0,
                Atom::Div(x, n) if x.is_axis(axis) && n % run == 0 => 0,
                Atom::Mod(x, n) if x.is_axis(axis) && n % run == 0 => 1,
                Atom::Div(x, _) | Atom::Mod(x, _) if x.stride_in_run(axis, run) == Some(0) => 0,
                Atom::Div(..) | Atom::Mod(..) => return None,
            };
        }
        Some(stride)
    }

    /// Whether `axis` occurs.
    pub fn mentions(&self, axis: Axis) -> bool {
        self.terms.iter().any(|(atom, _)| match atom {
            Atom::Axis(a, _) => *a == axis,
            Atom::Div(x, _) | Atom::Mod(x, _) => x.mentions(axis),
            Atom::Value(..) => false,
        })
    }

    /// Whether a loaded offset occurs.
    pub fn has_values(&self) -> bool {
        let mut any = false;
        self.for_each_value(&mut |_| any = true);
        any
    }

    /// Calls `visit` for every loaded offset.
    pub fn for_each_value(&self, visit: &mut impl FnMut(NodeId)) {
        self.for_each_bounded_value(&mut |node, _, _| visit(node));
    }

    /// Calls `visit` for every loaded offset, with the smallest and the largest value that it is said to have.
    pub fn for_each_bounded_value(&self, visit: &mut impl FnMut(NodeId, i64, i64)) {
        for (atom, _) in &self.terms {
            match atom {
                Atom::Value(node, low, high) => visit(*node, *low, *high),
                Atom::Div(x, _) | Atom::Mod(x, _) => x.for_each_bounded_value(visit),
                Atom::Axis(..) => {}
            }
        }
    }

    /// Calls `visit` for every loop variable, with the extent that simplification relied on.
    pub fn for_each_axis(&self, visit: &mut impl FnMut(Axis, i64)) {
        for (atom, _) in &self.terms {
            match atom {
                Atom::Axis(axis, extent) => visit(*axis, *extent),
                Atom::Div(x, _) | Atom::Mod(x, _) => x.for_each_axis(visit),
                Atom::Value(..) => {}
            }
        }
    }

    /// Whether every division and remainder is by a positive number.
    pub fn divisors_are_positive(&self) -> bool {
        let mut positive = true;
        self.visit_parts(&mut |_, n| positive &= n > 0);
        positive
    }

    /// The expression with every loaded offset, which lies between the bounds given, replaced by what `replace` says.
    pub fn replace_values(&self, replace: &impl Fn(NodeId, i64, i64) -> Ix) -> Ix {
        self.replace(&|atom| {
            if let Atom::Value(node, low, high) = *atom { Some(replace(node, low, high)) } else { None }
        })
    }

    /// How far an index lies behind another, where that is the same wherever the loops are at.
    pub fn behind(&self, other: &Ix) -> Option<i64> {
        if self.terms == other.terms { self.constant.checked_sub(other.constant) } else { None }
    }

    /// Each term, and the constant where there is one: expressions that sum up to this one.
    pub fn parts(&self) -> impl Iterator<Item = Ix> {
        let terms = self.terms.iter().map(|term| Ix { constant: 0, terms: vec![term.clone()] });
        terms.chain((self.constant != 0).then(|| Ix::constant(self.constant)))
    }

    /// Whether two indices are never the same, wherever the loops of each are at: one ends before the other begins, or what varies in them
    /// is a multiple of a number by which what is constant differs not.
    pub fn never_meets(&self, other: &Ix) -> bool {
        let ((a_low, a_high), (b_low, b_high)) = (self.range(), other.range());
        let step = self.terms.iter().chain(&other.terms).fold(0, |step, (_, c)| gcd(step, c.saturating_abs()));
        let apart = self.constant.checked_sub(other.constant);
        let between = |apart: i64| if step == 0 { apart != 0 } else { apart % step != 0 };
        a_high < b_low || b_high < a_low || apart.is_some_and(between)
    }

    /// Whether a division or remainder is left.
    pub fn has_div_mod(&self) -> bool {
        self.terms.iter().any(|(atom, _)| matches!(atom, Atom::Div(..) | Atom::Mod(..)))
    }

    /// The expression with every occurrence of each axis replaced by what `replace` says.
    pub fn substitute(&self, replace: &impl Fn(Axis) -> Option<Ix>) -> Ix {
        self.replace(&|atom| if let Atom::Axis(a, _) = atom { replace(*a) } else { None })
    }

    /// The expression with loop variables and loaded offsets replaced by what `replace` says of them, if anything.
    fn replace(&self, replace: &impl Fn(&Atom) -> Option<Ix>) -> Ix {
        let mut out = Ix { constant: self.constant, terms: Vec::with_capacity(self.terms.len()) };
        for (atom, c) in &self.terms {
            let value = match atom {
                Atom::Div(x, n) => Some(x.replace(replace).div(*n)),
                Atom::Mod(x, n) => Some(x.replace(replace).rem(*n)),
                Atom::Axis(..) | Atom::Value(..) => replace(atom),
            };
            match value {
                Some(value) => out.add_times(&value, *c),
                None => out.add_term(atom, *c),
            }
        }
        out.fold_div_mod();
        out
    }

    /// The expression where the variable of loop `axis` is `step`.
    pub fn at(&self, axis: Axis, step: &Ix) -> Ix {
        self.substitute(&|a| (a == axis).then(|| step.clone()))
    }

    /// The value at the given loop variables and loaded offsets.
    pub fn eval(&self, axis: &impl Fn(Axis) -> i64, value: &impl Fn(NodeId) -> i64) -> i64 {
        self.terms.iter().fold(self.constant, |sum, (atom, c)| {
            let v = match atom {
                Atom::Axis(a, _) => axis(*a),
                Atom::Div(x, n) => x.eval(axis, value).div_euclid(*n),
                Atom::Mod(x, n) => x.eval(axis, value).rem_euclid(*n),
                Atom::Value(node, _, _) => value(*node),
            };
            sum + c * v
        })
    }
}

/// The greatest common divisor; that of nothing but 0 is 0.
pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The offset, in elements, of a row-major array at the given index.
pub fn linearize(index: &[Ix], dims: &[i64]) -> Ix {
    let strides = brolga_runtime::row_major_strides(dims);
    index.iter().zip(strides).fold(Ix::default(), |sum, (i, s)| sum.add(&i.scale(s)))
}

/// The index into a row-major array at the given offset.
pub fn delinearize(offset: &Ix, dims: &[i64]) -> Vec<Ix> {
    let strides = brolga_runtime::row_major_strides(dims);
    dims.iter()
        .zip(strides)
        .enumerate()
        .map(|(i, (&d, s))| {
            let q = offset.div(s.max(1));
            // The first dimension needs no remainder: the offset is in range.
            if i == 0 && q.range().1 < d { q } else { q.rem(d.max(1)) }
        })
        .collect()
}

impl fmt::Display for Ix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (atom, c) in &self.terms {
            let sign = match (first, *c < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            f.write_str(sign)?;
            if c.unsigned_abs() != 1 {
                write!(f, "{}*", c.unsigned_abs())?;
            }
            match atom {
                Atom::Axis(a, _) => write!(f, "i{}", a.0)?,
                Atom::Div(x, n) => write!(f, "(({x}) / {n})")?,
                Atom::Mod(x, n) => write!(f, "(({x}) % {n})")?,
                Atom::Value(node, low, high) => write!(f, "(%{} in {low}..={high})", node.0)?,
            }
            first = false;
        }
        match (first, self.constant) {
            (true, c) => write!(f, "{c}"),
            (false, 0) => Ok(()),
            (false, c) if c < 0 => write!(f, " - {}", c.unsigned_abs()),
            (false, c) => write!(f, " + {c}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(extents: &[i64]) -> Vec<Ix> {
        extents.iter().enumerate().map(|(i, &e)| Ix::axis(Axis(i as u32), e)).collect()
    }

    #[test]
    fn a_split_of_an_outer_dimension_leaves_nothing_behind() {
        let (i, j) = (Axis(0), Axis(1));
        let offset = Ix::axis(i, 35).scale(2).add(&Ix::axis(j, 2));
        let index = delinearize(&offset, &[5, 7, 2]);
        assert_eq!(linearize(&index, &[5, 7, 2]), offset);
        assert_eq!(index[0], Ix::axis(i, 35).div(7));
        for at in 0..70 {
            let value = |n: i64| offset.div(n).eval(&|a| if a == i { at / 2 } else { at % 2 }, &|_| 0);
            assert_eq!(value(14), at / 14);
            let rest = offset.rem(14).eval(&|a| if a == i { at / 2 } else { at % 2 }, &|_| 0);
            assert_eq!(rest, at % 14);
        }
    }

    /// Of pairs of lines over short loops: what is said never to meet does not, and what does not meet is mostly said to.
    #[test]
    fn indices_that_never_meet() {
        let (mut said, mut true_for) = (0, 0);
        let line = |by: i64, from: i64| Ix::axis(Axis(0), 5).scale(by).offset(from);
        for (a, b) in (-4..=4).flat_map(|a| (-4..=4).map(move |b| (a, b))) {
            for from in -25..=25 {
                let (x, y) = (line(a, 3), line(b, from));
                let meet = (0..5).any(|i| (0..5).any(|j| a * i + 3 == b * j + from));
                assert!(!(meet && x.never_meets(&y)), "{x} and {y}");
                (said, true_for) = (said + i32::from(x.never_meets(&y)), true_for + i32::from(!meet));
            }
        }
        assert!(said * 10 > true_for * 9, "{said} of {true_for}");
    }

    #[test]
    fn reshapes_between_equal_layouts_vanish() {
        let index = axes(&[4, 6, 5]);
        let flat = linearize(&index, &[4, 6, 5]);
        let other = delinearize(&flat, &[24, 5]);
        assert_eq!(linearize(&other, &[24, 5]), flat);
        assert!(!other[0].has_div_mod() && !other[1].has_div_mod());
        assert_eq!(delinearize(&flat, &[4, 6, 5]), index);
    }

    #[test]
    fn splits_keep_their_meaning() {
        let index = axes(&[6, 35]);
        let flat = linearize(&index, &[6, 35]);
        for dims in [&[14, 15][..], &[2, 3, 5, 7], &[210], &[3, 70], &[10, 21]] {
            let other = delinearize(&flat, dims);
            let back = linearize(&other, dims);
            for i in 0..6 {
                for j in 0..35 {
                    let at = |ix: &Ix| ix.eval(&|a: Axis| [i, j][a.0 as usize], &|_| 0);
                    assert_eq!(at(&back), i * 35 + j, "{dims:?}");
                    for (ix, &d) in other.iter().zip(dims) {
                        assert!((0..d).contains(&at(ix)), "{dims:?}: {ix}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_reshape_there_and_back_is_nothing() {
        let dims = [4, 3, 4];
        let flat = linearize(&axes(&dims), &dims);
        for to in [&[1, 3, 2, 8][..], &[2, 2, 2, 6], &[48], &[16, 3], &[3, 16], &[6, 8], &[2, 24], &[4, 12], &[12, 4]] {
            assert_eq!(linearize(&delinearize(&flat, to), to), flat, "{to:?}");
        }
        assert_ne!(flat, flat.offset(1));
        assert_ne!(linearize(&axes(&dims), &[4, 4, 3]), flat);
    }

    /// Reshapes of every kind, there and back, through a third shape, and their values at every point.
    #[test]
    fn equal_maps_have_one_form() {
        for total in [12i64, 36, 48, 60, 72] {
            let shapes = factorizations(total);
            for from in &shapes {
                let flat = linearize(&axes(from), from);
                for by in &shapes {
                    let through = linearize(&delinearize(&flat, by), by);
                    assert_eq!(through, flat, "{from:?} through {by:?}");
                    let index = delinearize(&flat, by);
                    // A transposed view of it and back.
                    let reversed: Vec<Ix> = index.iter().rev().cloned().collect();
                    let turned: Vec<i64> = by.iter().rev().copied().collect();
                    let seen = delinearize(&linearize(&reversed, &turned), &turned);
                    assert_eq!(seen, reversed, "{from:?} by {by:?}, transposed");
                }
            }
        }
    }

    /// Random sums, products, quotients and remainders have the values that arithmetic gives them, and lie in their range.
    #[test]
    fn simplification_keeps_values() {
        let extents = [5i64, 6, 4];
        let loops = axes(&extents);
        let points: Vec<[i64; 3]> = (0..120)
            .map(|k| [k / 24, k / 4 % 6, k % 4])
            .filter(|p| p.iter().zip(extents).all(|(&i, e)| i < e))
            .collect();
        let mut state = 1u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for round in 0..4000 {
            // Each entry is a map and its values, found apart.
            let mut pool: Vec<(Ix, Vec<i64>)> =
                loops.iter().enumerate().map(|(d, ix)| (ix.clone(), points.iter().map(|p| p[d]).collect())).collect();
            for _ in 0..8 {
                let (a, b) = (below(pool.len() as u64) as usize, below(pool.len() as u64) as usize);
                let n = [2, 3, 4, 6, 8, 12][below(6) as usize];
                let (x, xs) = pool[a].clone();
                let (y, ys) = &pool[b];
                pool.push(match below(5) {
                    0 => (x.add(y), xs.iter().zip(ys).map(|(u, v)| u + v).collect()),
                    1 => (x.scale(n).add(y), xs.iter().zip(ys).map(|(u, v)| u * n + v).collect()),
                    2 => (x.scale(-1).offset(n), xs.iter().map(|u| n - u).collect()),
                    3 => (x.div(n), xs.iter().map(|u| u.div_euclid(n)).collect()),
                    _ => (x.rem(n), xs.iter().map(|u| u.rem_euclid(n)).collect()),
                });
            }
            for (ix, values) in &pool {
                let (low, high) = ix.range();
                assert_eq!(ix.substitute(&|_| None), *ix, "round {round}");
                for (p, &v) in points.iter().zip(values) {
                    assert_eq!(ix.eval(&|a| p[a.0 as usize], &|_| 0), v, "round {round}: {ix} at {p:?}");
                    assert!((low..=high).contains(&v), "round {round}: {ix} is {v}, said to lie in {low}..={high}");
                }
            }
        }
    }

    /// What a map is made of makes it again: so a text reads back, and what is replaced by itself stays.
    #[test]
    fn forms_are_made_of_their_parts() {
        let dims = [2, 10, 2, 3];
        let through = |index: &[Ix], order: [usize; 4], from: [i64; 4], to: [i64; 4]| {
            let offset = linearize(index, &from);
            let mut turned = delinearize(&offset, &to);
            let before = turned.clone();
            order.iter().zip(before).for_each(|(&d, ix)| turned[d] = ix);
            turned
        };
        let seen = through(&axes(&dims), [1, 3, 0, 2], dims, [10, 3, 2, 2]);
        let seen = through(&seen, [3, 0, 1, 2], dims, [10, 3, 2, 2]);
        let whole = linearize(&seen, &[3, 2, 2, 10]);
        for ix in seen.iter().chain([&whole]) {
            assert_eq!(ix.substitute(&|_| None), *ix, "{ix}");
        }
    }

    fn factorizations(n: i64) -> Vec<Vec<i64>> {
        let mut out = vec![vec![n]];
        for d in (2..n).filter(|d| n % d == 0) {
            out.extend(factorizations(n / d).into_iter().map(|mut f| {
                f.insert(0, d);
                f
            }));
        }
        out
    }

    #[test]
    fn strides_are_seen_through_sums() {
        let index = axes(&[8, 16]);
        let transposed = linearize(&[index[1].clone(), index[0].clone()], &[16, 8]);
        assert_eq!(transposed.stride(Axis(0)), Some(1));
        assert_eq!(transposed.stride(Axis(1)), Some(8));
        assert_eq!(index[1].div(3).stride(Axis(1)), None);
    }

    #[test]
    fn runs_are_where_parts_of_an_axis_are_linear() {
        // Three of the dimensions that were one axis, as the base of a convolution is walked.
        let k = Ix::axis(Axis(0), 3 * 5 * 8);
        let parts = delinearize(&k, &[3, 5, 8]);
        let index = linearize(&parts, &[3, 9, 8]);
        assert_eq!(index.run(Axis(0), 120), Some((40, 1)), "{index}");
        assert_eq!(parts[0].scale(100).run(Axis(0), 120), Some((40, 0)));
        assert_eq!(parts[2].scale(-3).run(Axis(0), 120), Some((8, -3)));
        assert_eq!(k.scale(7).run(Axis(0), 120), Some((120, 7)));
        assert_eq!(k.offset(1).div(8).run(Axis(0), 120), None);
        for i in 0..120 {
            let at = |ix: &Ix| ix.eval(&|_| i, &|_| 0);
            assert_eq!(at(&index), i / 40 * 72 + i % 40);
        }
    }

    #[test]
    fn neighbouring_remainders_are_one() {
        let x = Ix::axis(Axis(0), 1000);
        let joined = x.div(4).rem(5).scale(8).add(&x.rem(4).scale(2));
        assert_eq!(joined, x.rem(20).scale(2));
        assert_eq!(x.rem(4).scale(2).add(&x.div(4).rem(5).scale(8)), joined);
        assert_ne!(x.div(4).rem(5).scale(9).add(&x.rem(4).scale(2)), joined);
    }
}
