//! Whether a combiner gives the same when its two sides are exchanged, and what it never chooses of them.
//!
//! **Problem.** The specification lets a reduction group its elements at will but nowhere exchange them, and elements dealt
//! out over lanes are exchanged. Products of matrices and `|a| * b` are associative and do not commute.
//!
//! **Invariant.** [`Commutes::Always`] is said only of what is proved, for each result of the combiner on its own; what is not
//! proved keeps its elements in order. Equal are numbers that compare equal (zeros of unlike sign, too) and any two NaN.
//!
//! **Algorithm.** Two proofs. *By form*: instructions are numbered by opcode, attributes and operands, those of commutative
//! operations in either order; with the two sides exchanged, the result must get the number that it had. *By cases*: a
//! result that is only chosen by comparing the two sides, as that of an arg-max, depends on nothing but how the components
//! compare (less, equal, greater, or which of them is NaN). Every combination of these is evaluated, as is and with sides
//! exchanged, and must choose the same element. In the same way it is seen which components such a result passes over: with extreme
//! ones on either side, it must choose all of the other side whatever that is.

use crate::hlo::{AttrKey, Attrs, Computation, Instruction, InstructionId, Opcode, resolve};
use brolga_runtime::Shape;
use hashbrown::HashMap;

/// What exchanging the sides of a combiner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commutes {
    /// Nothing.
    Always,
    /// Nothing but where a component is NaN on both sides.
    ButForNaNs,
    /// It may change the result.
    No,
}

/// Larger combiners are not looked at.
const MOST_INSTRUCTIONS: usize = 256;
/// Nor are those whose components can compare in more ways.
const MOST_CASES: usize = 4096;
/// What is never chosen is asked of so many components at most.
const MOST_CHOSEN: usize = 4;

/// Asks a combiner of `n` components, whose parameters are the `n` accumulators and then the `n` values.
pub(super) fn commutes(c: &Computation) -> Commutes {
    let Some((number, n)) = numbered(c) else { return Commutes::No };
    let mut forms = Forms { c, number: &number, n, known: Vec::new() };
    let (plain, exchanged) = (forms.number(false), forms.number(true));
    let roots = (0..n).map(|leaf| resolve(c, (c.root, leaf)).0);
    let open: Vec<InstructionId> =
        roots.filter(|r| !plain.contains_key(r) || plain.get(r) != exchanged.get(r)).collect();
    if open.is_empty() { Commutes::Always } else { Cases { c, number: &number, n }.commute(&open) }
}

/// The parameters of a combiner by number, and its components, half as many; `None` of one that is too large, or is none.
fn numbered(c: &Computation) -> Option<(HashMap<InstructionId, usize>, usize)> {
    let parameters = c.parameters();
    let n = parameters.len() / 2;
    let fits = parameters.len() == 2 * n && c.order.len() <= MOST_INSTRUCTIONS;
    let whole = fits && c.instructions[c.root].shape.leaf_count() == n;
    whole.then(|| (parameters.into_iter().zip(0..).collect(), n))
}

/// Of a combiner that chooses, components which it chooses over no others on either side: for each whether it is the greatest that there is,
/// or the least. What is chosen of equal ones is the same.
pub(super) fn never_chosen(c: &Computation) -> Option<Vec<bool>> {
    let (number, n) = numbered(c).filter(|(_, n)| *n <= MOST_CHOSEN)?;
    let cases = Cases { c, number: &number, n };
    let roots: Vec<InstructionId> = (0..n).map(|leaf| resolve(c, (c.root, leaf)).0).collect();
    let kinds = cases.kinds()?;
    let extremes = |choice: usize| (0..n).map(|k| choice >> k & 1 == 1).collect::<Vec<bool>>();
    (0..1 << n).map(extremes).find(|greatest| {
        [false, true].into_iter().all(|right| {
            let possible: Vec<Vec<Case>> =
                kinds.iter().zip(greatest).map(|(kind, &g)| beside(kind, g, right)).collect();
            combinations(&possible).all(|cases_now| {
                let values = cases.evaluate(&cases_now);
                (0..).zip(&roots).all(|(k, r)| match values.get(r) {
                    Some(&Known::Element(j, side)) => j == k && (side != right || cases_now[k] == Case::Equal),
                    _ => false,
                })
            })
        })
    })
}

/// How an extreme element, on the left or on the `right`, compares with any other.
fn beside(kind: &[Case], greatest: bool, right: bool) -> Vec<Case> {
    let (order, nan) = if right { (Case::Less, Case::LeftNaN) } else { (Case::Greater, Case::RightNaN) };
    let order = if greatest { order } else { order.exchanged() };
    kind.iter().copied().filter(|&case| case == Case::Equal || case == order || case == nan).collect()
}

/// Every combination of one of each.
fn combinations<K: AsRef<[Case]>>(of: &[K]) -> impl Iterator<Item = Vec<Case>> + use<'_, K> {
    let count = of.iter().map(|kind| kind.as_ref().len()).product::<usize>();
    (0..count).map(move |mut number| {
        let digit = |kind: &K| {
            let kind = kind.as_ref();
            let case = kind[number % kind.len()];
            number /= kind.len();
            case
        };
        of.iter().map(digit).collect()
    })
}

/// Numbers of instructions: equal numbers mean equal values.
struct Forms<'c> {
    c: &'c Computation,
    number: &'c HashMap<InstructionId, usize>,
    n: usize,
    known: Vec<(Opcode, Shape, Attrs, Vec<usize>)>,
}

impl Forms<'_> {
    fn number(&mut self, exchanged: bool) -> HashMap<InstructionId, usize> {
        let mut numbers: HashMap<InstructionId, usize> = HashMap::new();
        for &id in &self.c.order {
            let inst = &self.c.instructions[id];
            let mut attrs = inst.attrs.clone();
            for note in [AttrKey::Metadata, AttrKey::Statistics, AttrKey::Origin, AttrKey::FrontendAttributes] {
                attrs.remove(note);
            }
            let mut operands: Vec<usize> =
                inst.operands.iter().filter_map(|&o| numbers.get(&resolve(self.c, (o, 0)).0).copied()).collect();
            match inst.opcode {
                // Structure has no value of its own.
                Opcode::Tuple | Opcode::GetTupleElement => continue,
                _ if operands.len() != inst.operands.len() => continue,
                Opcode::Parameter => {
                    let Some(&k) = self.number.get(&id) else { continue };
                    let k = if exchanged { (k + self.n) % (2 * self.n) } else { k };
                    attrs = Attrs::new();
                    operands = vec![k];
                }
                Opcode::Compare => {
                    let direction = attrs.word(AttrKey::Direction).unwrap_or_default();
                    let (kept, swap) = match direction {
                        "GT" => ("LT", true),
                        "GE" => ("LE", true),
                        "EQ" | "NE" => (direction, operands.is_sorted_by(|a, b| a > b)),
                        other => (other, false),
                    };
                    if swap {
                        operands.reverse();
                    }
                    attrs.set(AttrKey::Direction, crate::hlo::AttrValue::Word(kept));
                }
                Opcode::Abs if self.is_difference(operands[0]) => {
                    let (_, shape, own, mut sides) = self.known[operands[0]].clone();
                    sides.sort_unstable();
                    operands = vec![self.of(Opcode::Subtract, shape, own, sides)];
                }
                op if op.is_commutative() => operands.sort_unstable(),
                _ => {}
            }
            let number = self.of(inst.opcode, inst.shape.clone(), attrs, operands);
            numbers.insert(id, number);
        }
        numbers
    }

    fn is_difference(&self, number: usize) -> bool {
        self.known.get(number).is_some_and(|(op, shape, ..)| {
            *op == Opcode::Subtract && shape.as_array().is_some_and(|a| a.ty.is_float() || a.ty.is_complex())
        })
    }

    fn of(&mut self, opcode: Opcode, shape: Shape, attrs: Attrs, operands: Vec<usize>) -> usize {
        let entry = (opcode, shape, attrs, operands);
        match self.known.iter().position(|known| *known == entry) {
            Some(number) => number,
            None => {
                self.known.push(entry);
                self.known.len() - 1
            }
        }
    }
}

/// How the left and the right element of a component compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Less,
    Equal,
    Greater,
    LeftNaN,
    RightNaN,
    BothNaN,
}

impl Case {
    const NUMBERS: [Case; 3] = [Case::Less, Case::Equal, Case::Greater];
    const FLOATS: [Case; 6] = [Case::Less, Case::Equal, Case::Greater, Case::LeftNaN, Case::RightNaN, Case::BothNaN];

    fn exchanged(self) -> Case {
        match self {
            Case::Less => Case::Greater,
            Case::Greater => Case::Less,
            Case::LeftNaN => Case::RightNaN,
            Case::RightNaN => Case::LeftNaN,
            Case::Equal | Case::BothNaN => self,
        }
    }

    fn is_nan(self, right: bool) -> bool {
        match self {
            Case::BothNaN => true,
            Case::LeftNaN => !right,
            Case::RightNaN => right,
            Case::Less | Case::Equal | Case::Greater => false,
        }
    }
}

/// What is known of a value in one combination of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It is an element: the component, and whether of the right side.
    Element(usize, bool),
    /// It is this truth value.
    Truth(bool),
    /// Nothing.
    Nothing,
}

struct Cases<'c> {
    c: &'c Computation,
    number: &'c HashMap<InstructionId, usize>,
    n: usize,
}

impl Cases<'_> {
    /// In which ways each component can compare; `None` where one has no order.
    fn kinds(&self) -> Option<Vec<&'static [Case]>> {
        let mut kinds: Vec<&[Case]> = vec![&[]; self.n];
        for (&id, &k) in self.number {
            let array = self.c.instructions[id].shape.as_array()?;
            kinds[k % self.n] = if array.ty.is_float() {
                &Case::FLOATS
            } else if array.ty.is_complex() {
                return None;
            } else {
                &Case::NUMBERS
            };
        }
        Some(kinds)
    }

    fn commute(&self, roots: &[InstructionId]) -> Commutes {
        let Some(kinds) = self.kinds() else { return Commutes::No };
        let count = kinds.iter().fold(1usize, |n, k| n.saturating_mul(k.len()));
        if count > MOST_CASES {
            return Commutes::No;
        }
        let mut verdict = Commutes::Always;
        for cases in combinations(&kinds) {
            let exchanged: Vec<Case> = cases.iter().map(|c| c.exchanged()).collect();
            let (plain, other) = (self.evaluate(&cases), self.evaluate(&exchanged));
            let same = roots.iter().all(|r| match (plain.get(r), other.get(r)) {
                (Some(Known::Truth(a)), Some(Known::Truth(b))) => a == b,
                (Some(&Known::Element(j, a)), Some(&Known::Element(k, b))) => {
                    j == k && (a != b || matches!(cases[j], Case::Equal | Case::BothNaN))
                }
                _ => false,
            });
            if !same && !cases.contains(&Case::BothNaN) {
                return Commutes::No;
            }
            if !same {
                verdict = Commutes::ButForNaNs;
            }
        }
        verdict
    }

    fn evaluate(&self, cases: &[Case]) -> HashMap<InstructionId, Known> {
        let mut values: HashMap<InstructionId, Known> = HashMap::new();
        for &id in &self.c.order {
            let inst = &self.c.instructions[id];
            let of = |k: usize| {
                let operand = inst.operands.get(k).map(|&o| resolve(self.c, (o, 0)).0);
                operand.and_then(|o| values.get(&o)).copied().unwrap_or(Known::Nothing)
            };
            let value = match inst.opcode {
                Opcode::Parameter => match self.number.get(&id) {
                    Some(&k) => Known::Element(k % self.n, k >= self.n),
                    None => Known::Nothing,
                },
                Opcode::Constant => truth(inst),
                Opcode::Copy => of(0),
                Opcode::Compare => {
                    let operand = inst.operands.first().map(|&o| &self.c.instructions[o].shape);
                    let float = operand.and_then(|s| s.as_array()).is_none_or(|a| a.ty.is_float());
                    // The total order tells zeros from each other, and NaN.
                    let total = inst.attrs.word(AttrKey::ComparisonType) == Some("TOTALORDER") && float;
                    compare(inst, total, (of(0), of(1)), cases)
                }
                Opcode::Select => match of(0) {
                    Known::Truth(yes) => of(if yes { 1 } else { 2 }),
                    _ if of(1) == of(2) => of(1),
                    _ => Known::Nothing,
                },
                Opcode::Not => match of(0) {
                    Known::Truth(v) => Known::Truth(!v),
                    _ => Known::Nothing,
                },
                op @ (Opcode::And | Opcode::Or | Opcode::Xor) => match (of(0), of(1)) {
                    (Known::Truth(a), Known::Truth(b)) => Known::Truth(match op {
                        Opcode::And => a & b,
                        Opcode::Or => a | b,
                        _ => a ^ b,
                    }),
                    _ => Known::Nothing,
                },
                op @ (Opcode::Maximum | Opcode::Minimum) => extreme(op == Opcode::Maximum, of(0), of(1), cases),
                _ => Known::Nothing,
            };
            values.insert(id, value);
        }
        values
    }
}

fn truth(inst: &Instruction) -> Known {
    let array = inst.literal().and_then(|l| l.as_array().cloned());
    match array {
        Some(a) if a.ty() == brolga_runtime::ElementType::Pred && a.bytes().len() == 1 => {
            Known::Truth(a.bytes()[0] != 0)
        }
        _ => Known::Nothing,
    }
}

fn compare(inst: &Instruction, total: bool, (a, b): (Known, Known), cases: &[Case]) -> Known {
    let (Known::Element(j, left), Known::Element(k, right)) = (a, b) else { return Known::Nothing };
    let case = cases[j];
    if j != k || total {
        return Known::Nothing;
    }
    // Less, equal, greater, or none of them.
    let order = match case {
        _ if case.is_nan(left) || case.is_nan(right) => None,
        _ if left == right => Some(std::cmp::Ordering::Equal),
        Case::Less => Some(std::cmp::Ordering::Less),
        Case::Greater => Some(std::cmp::Ordering::Greater),
        Case::Equal | Case::LeftNaN | Case::RightNaN | Case::BothNaN => Some(std::cmp::Ordering::Equal),
    };
    let order = if left { order.map(std::cmp::Ordering::reverse) } else { order };
    Known::Truth(match inst.attrs.word(AttrKey::Direction) {
        Some("EQ") => order.is_some_and(|o| o.is_eq()),
        Some("NE") => order.is_none_or(|o| o.is_ne()),
        Some("LT") => order.is_some_and(|o| o.is_lt()),
        Some("LE") => order.is_some_and(|o| o.is_le()),
        Some("GT") => order.is_some_and(|o| o.is_gt()),
        Some("GE") => order.is_some_and(|o| o.is_ge()),
        _ => return Known::Nothing,
    })
}

fn extreme(largest: bool, a: Known, b: Known, cases: &[Case]) -> Known {
    match (a, b) {
        (Known::Truth(a), Known::Truth(b)) => Known::Truth(if largest { a | b } else { a & b }),
        (Known::Element(j, left), Known::Element(k, right)) if j == k => {
            let right_wins = match cases[j] {
                _ if left == right => left,
                Case::Less => largest,
                Case::Greater => !largest,
                Case::RightNaN => true,
                Case::Equal | Case::LeftNaN | Case::BothNaN => false,
            };
            Known::Element(j, right_wins)
        }
        _ => Known::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Commutes {
        let text = format!("HloModule m\nENTRY %f {body}\n");
        let module = crate::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        commutes(module.entry())
    }

    fn binary(lines: &str, root: &str) -> Commutes {
        of(&format!("{{\na = f32[] parameter(0)\nb = f32[] parameter(1)\n{lines}\nROOT r = f32[] {root}\n}}"))
    }

    #[test]
    fn by_form() {
        assert_eq!(binary("", "add(a, b)"), Commutes::Always);
        assert_eq!(binary("", "maximum(a, b)"), Commutes::Always);
        assert_eq!(binary("", "subtract(a, b)"), Commutes::No);
        assert_eq!(binary("x = f32[] abs(a)", "multiply(x, b)"), Commutes::No);
        assert_eq!(binary("x = f32[] abs(a)\ny = f32[] abs(b)", "multiply(y, x)"), Commutes::Always);
        assert_eq!(binary("x = f32[] floor(a)", "add(x, b)"), Commutes::No);
        let log_add = "m = f32[] maximum(a, b)\nd = f32[] subtract(a, b)\nx = f32[] abs(d)\ny = f32[] negate(x)\n\
                       e = f32[] exponential(y)\nl = f32[] log-plus-one(e)";
        assert_eq!(binary(log_add, "add(m, l)"), Commutes::Always);
        let compared = "p = pred[] compare(a, b), direction=GE\nq = pred[] compare(b, a), direction=GE\n\
                        x = pred[] and(p, q)\ny = f32[] multiply(a, b)\nz = f32[] add(b, a)";
        assert_eq!(binary(compared, "select(x, y, z)"), Commutes::Always);
        assert_eq!(
            binary(&compared.replace("and", "xor").replace("(b, a), dir", "(b, b), dir"), "select(x, y, z)"),
            Commutes::No
        );
    }

    #[test]
    fn products_of_quaternions_and_of_complex_numbers() {
        let complex = "{\na = f32[] parameter(0)\nb = f32[] parameter(1)\nc = f32[] parameter(2)\nd = f32[] parameter(3)\n\
                       ac = f32[] multiply(a, c)\nbd = f32[] multiply(b, d)\nad = f32[] multiply(a, d)\n\
                       bc = f32[] multiply(b, c)\nre = f32[] subtract(ac, bd)\nim = f32[] add(ad, bc)\n\
                       ROOT r = (f32[], f32[]) tuple(re, im)\n}";
        assert_eq!(of(complex), Commutes::Always);
        // A product of upper triangular matrices ((a, b), (0, 1)).
        let affine = "{\na = f32[] parameter(0)\nb = f32[] parameter(1)\nc = f32[] parameter(2)\nd = f32[] parameter(3)\n\
                      ac = f32[] multiply(a, c)\nad = f32[] multiply(a, d)\nt = f32[] add(ad, b)\n\
                      ROOT r = (f32[], f32[]) tuple(ac, t)\n}";
        assert_eq!(of(affine), Commutes::No);
    }

    /// The arg-max of JAX over keys of a type, or what else compares them; `tie` decides between equal ones.
    fn arg_extreme(keys: &str, ty: &str, pick: &str, tie: &str) -> String {
        format!(
            "{{\na = {ty}[] parameter(0)\ni = s32[] parameter(1)\nb = {ty}[] parameter(2)\nj = s32[] parameter(3)\n\
             gt = pred[] compare(a, b), direction={keys}\nnan = pred[] compare(a, a), direction=NE\n\
             eq = pred[] compare(a, b), direction=EQ\nlt = pred[] compare(i, j), direction=LT\n\
             or = pred[] or(gt, nan)\nboth = pred[] and(eq, lt)\ntie = pred[] or(or, both)\n\
             v = {ty}[] select({pick}, a, b)\nk = s32[] select({tie}, i, j)\n\
             ROOT r = ({ty}[], s32[]) tuple(v, k)\n}}"
        )
    }

    fn arg_max(pick: &str, tie: &str) -> Commutes {
        of(&arg_extreme("GT", "f32", pick, tie))
    }

    #[test]
    fn by_cases() {
        assert_eq!(arg_max("or", "tie"), Commutes::ButForNaNs);
        assert_eq!(arg_max("gt", "tie"), Commutes::No, "a NaN is passed over on one side");
        assert_eq!(arg_max("or", "or"), Commutes::No, "of equal keys the last");
        assert_eq!(arg_max("or", "lt"), Commutes::Always, "the least index, whatever the key");
        let ge = "p = pred[] compare(a, b), direction=GE";
        assert_eq!(binary(ge, "select(p, a, b)"), Commutes::No, "NaN");
        let integers = "{\na = s32[] parameter(0)\nb = s32[] parameter(1)\n\
                        p = pred[] compare(a, b), direction=GE\nROOT r = s32[] select(p, a, b)\n}";
        assert_eq!(of(integers), Commutes::Always);
        assert_eq!(binary(&format!("{ge}, type=TOTALORDER"), "select(p, a, b)"), Commutes::No);
    }

    #[test]
    fn what_is_never_chosen() {
        let chosen = |body: &str| {
            let text = format!("HloModule m\nENTRY %f {body}\n");
            let module = crate::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            never_chosen(module.entry())
        };
        let of = |keys: &str, ty: &str, pick: &str, tie: &str| chosen(&arg_extreme(keys, ty, pick, tie));
        assert_eq!(of("GT", "f32", "or", "tie"), Some(vec![false, true]), "an arg-max");
        assert_eq!(of("LT", "bf16", "or", "tie"), Some(vec![true, true]), "an arg-min");
        assert_eq!(of("GT", "s8", "or", "tie"), Some(vec![false, true]), "of integers");
        assert_eq!(of("GE", "f32", "or", "tie"), None, "of equal keys sometimes the last");
        assert_eq!(of("GT", "f32", "gt", "tie"), None, "a NaN gives way to it");
        assert_eq!(of("GE", "s32", "gt", "gt"), None, "of equal keys the index on the left");
        let plain = |ty: &str, root: &str| {
            chosen(&format!(
                "{{\na = {ty}[] parameter(0)\nb = {ty}[] parameter(1)\n\
                 p = pred[] compare(a, b), direction=GE\nROOT r = {ty}[] {root}\n}}"
            ))
        };
        assert_eq!(plain("s32", "select(p, a, b)"), Some(vec![false]));
        assert_eq!(plain("f32", "select(p, a, b)"), None, "NaN");
        assert_eq!(plain("f32", "maximum(a, b)"), Some(vec![false]));
        assert_eq!(plain("s32", "add(a, b)"), None);
        assert_eq!(plain("s32", "copy(a)"), None, "the left side is chosen");
    }

    #[test]
    fn each_result_is_asked() {
        let mixed = |second: &str| {
            of(&format!(
                "{{\na = f32[] parameter(0)\ni = s32[] parameter(1)\nb = f32[] parameter(2)\nj = s32[] parameter(3)\n\
                 s = f32[] add(a, b)\nt = s32[] {second}(i, j)\nROOT r = (f32[], s32[]) tuple(s, t)\n}}"
            ))
        };
        assert_eq!(mixed("multiply"), Commutes::Always);
        assert_eq!(mixed("shift-left"), Commutes::No);
    }
}
