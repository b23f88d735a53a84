//! Making a module that shows a fault as small as it can be.
//!
//! Problem: a program of thousands of instructions on which something goes wrong says little; the three lines that are
//! at fault say much. Whoever asks knows how to tell (a command, a comparison of engines), this room knows what to try.
//!
//! Invariant: what is asked about always verifies, prints and reads back to itself; every step taken makes the module
//! lighter ([`Weight`]), so the search ends; the same question gives the same answer, because nothing is random.
//!
//! Algorithm: delta debugging over instructions, by name. A round tries, coarse before fine: headers and attributes; a
//! shorter beginning of the program (bisection); fewer results; inlining and the removal of loop state; groups of
//! instructions turned into parameters or zeros, groups halved until single instructions are left; one operand in an
//! instruction's place; a body or branch in place of its loop; smaller dimensions everywhere at once; fewer parameters.
//! Rounds repeat until one changes nothing.

mod edit;
mod shrink;
#[cfg(test)]
mod tests;

use crate::hlo::{AttrKey, Instruction, Module, Opcode};
use crate::{passes, shape, text};
use hashbrown::HashSet;
pub use shrink::leading_array;

use brolga_runtime::Shape;
use edit::Place;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What the search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceOptions {
    /// Ask no more often than this.
    pub max_questions: usize,
    /// Only take steps that leave every value of the entry what it was, or make it zero, or a parameter of its name, or
    /// cut it to its first elements: for callers who know what each value should be.
    pub keep_values: bool,
}

impl Default for ReduceOptions {
    fn default() -> Self {
        ReduceOptions { max_questions: usize::MAX, keep_values: false }
    }
}

/// What the search found.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The smallest module that still shows the fault.
    pub module: Module,
    /// Its text.
    pub text: String,
    /// How often the question was asked.
    pub questions: usize,
}

/// Shrinks `module` as long as `interesting` says that a candidate still shows the fault; the candidate comes with its
/// text. `None` where the module itself does not.
pub fn reduce(
    module: &Module,
    options: ReduceOptions,
    interesting: &mut dyn FnMut(&Module, &str) -> bool,
) -> Option<Reduction> {
    // A module that only reads as an open one (calls that disagree with what they call) stays as open as it is.
    let verify = if shape::verify(module).is_ok() { shape::verify } else { shape::verify_open };
    let (best, best_text) = normal(module, verify)?;
    if !interesting(&best, &best_text) {
        return None;
    }
    let weight = Weight::of(&best, &best_text);
    let mut search =
        Search { best, best_text, weight, verify, seen: HashSet::new(), questions: 1, options, interesting };
    search.run();
    Some(Reduction { module: search.best, text: search.best_text, questions: search.questions })
}

/// The module as its text reads back; `None` where it does not, or breaks a rule.
fn normal(module: &Module, verify: fn(&Module) -> crate::Result<()>) -> Option<(Module, String)> {
    let printed = text::print(module, &text::PrintOptions::default());
    let read = text::parse(&printed).ok()?;
    verify(&read).ok()?;
    Some((read, printed))
}

/// How heavy a module is; compared field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Weight {
    /// Instructions and operands; parameters and constants count little, zeros broadcast over a shape less than work.
    work: u64,
    elements: u64,
    attributes: usize,
    length: usize,
}

impl Weight {
    fn of(module: &Module, text: &str) -> Weight {
        let mut weight = Weight { work: 0, elements: 0, attributes: 0, length: text.len() };
        for &id in &module.order {
            let computation = &module.computations[id];
            let users = computation.users();
            weight.work += 10;
            for &i in &computation.order {
                let instruction = &computation.instructions[i];
                let broadcast_constant = |o| computation.instructions[o].opcode == Opcode::Constant;
                weight.work += match instruction.opcode {
                    Opcode::Constant | Opcode::AfterAll => 1,
                    Opcode::Parameter if users[i].is_empty() && computation.root != i => 2,
                    Opcode::Parameter => 6,
                    Opcode::Broadcast if instruction.operands.iter().all(|&o| broadcast_constant(o)) => 2,
                    _ => 10 + instruction.operands.len() as u64,
                };
                weight.elements = weight.elements.saturating_add(elements(&instruction.shape));
                weight.attributes += instruction.attrs.iter().count();
            }
        }
        weight
    }
}

fn elements(shape: &Shape) -> u64 {
    let leaf = |s: &&Shape| s.as_array().and_then(|a| a.checked_elements()).unwrap_or(0) as u64;
    shape.leaves().iter().map(leaf).fold(0, u64::saturating_add)
}

struct Search<'a> {
    best: Module,
    best_text: String,
    weight: Weight,
    verify: fn(&Module) -> crate::Result<()>,
    /// Texts that were asked about.
    seen: HashSet<u64>,
    questions: usize,
    options: ReduceOptions,
    interesting: &'a mut dyn FnMut(&Module, &str) -> bool,
}

impl Search<'_> {
    fn run(&mut self) {
        loop {
            let before = self.weight;
            self.decorations();
            self.beginning();
            self.results();
            self.whole_passes();
            self.sweep(edit::entry_places, edit::to_parameters);
            self.sweep(edit::all_places, edit::to_zeros);
            if !self.options.keep_values {
                self.sweep(edit::all_places, |m, p| edit::to_operand(m, p, false));
                self.sweep(edit::all_places, |m, p| edit::to_operand(m, p, true));
                self.control();
                self.sweep(edit::entry_parameters, edit::merge_parameters);
            }
            self.dimensions();
            self.sweep(edit::entry_parameters, edit::drop_parameters);
            if self.weight == before || self.spent() {
                return;
            }
        }
    }

    fn spent(&self) -> bool {
        self.questions >= self.options.max_questions
    }

    /// Takes a candidate where it is valid, lighter, new and shows the fault.
    fn attempt(&mut self, candidate: Option<Module>) -> bool {
        let Some(mut candidate) = candidate else { return false };
        if self.spent() || passes::dce::run(&mut candidate).is_err() {
            return false;
        }
        edit::settle_header(&mut candidate);
        let Some((candidate, text)) = normal(&candidate, self.verify) else { return false };
        let weight = Weight::of(&candidate, &text);
        if weight >= self.weight {
            return false;
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return false;
        }
        self.questions += 1;
        if !(self.interesting)(&candidate, &text) {
            return false;
        }
        (self.best, self.best_text, self.weight) = (candidate, text, weight);
        true
    }

    /// Applies `change` to groups of the places that `list` names: all, halves, quarters, down to single ones.
    fn sweep(&mut self, list: fn(&Module) -> Vec<Place>, change: impl Fn(&Module, &[Place]) -> Option<Module>) {
        let mut places = list(&self.best);
        let mut size = places.len();
        while size > 0 {
            let mut start = 0;
            while start < places.len() {
                let end = (start + size).min(places.len());
                let candidate = change(&self.best, &places[start..end]);
                if self.attempt(candidate) {
                    let left: HashSet<Place> = list(&self.best).into_iter().collect();
                    places = places
                        .into_iter()
                        .enumerate()
                        .filter(|(i, p)| !(start..end).contains(i) && left.contains(p))
                        .map(|(_, p)| p)
                        .collect();
                } else {
                    start = end;
                }
                if self.spent() {
                    return;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Headers, layouts and attributes that may be missing: all of them, then one kind after another.
    fn decorations(&mut self) {
        let bare = edit::without_header(&self.best);
        self.attempt(Some(bare));
        let flat = edit::without_layouts(&self.best);
        self.attempt(Some(flat));
        let common = edit::without_attributes(&self.best, |_, key| AttrKey::COMMON.contains(&key));
        self.attempt(Some(common));
        let optional = |i: &Instruction, key: AttrKey| {
            !matches!(key, AttrKey::Literal | AttrKey::ParameterNumber) && !i.opcode.required_attrs().contains(&key)
        };
        let mut keys = BTreeSet::new();
        for &c in &self.best.order {
            let computation = &self.best.computations[c];
            for &i in &computation.order {
                let instruction = &computation.instructions[i];
                keys.extend(instruction.attrs.iter().map(|(k, _)| k).filter(|&k| optional(instruction, k)));
            }
        }
        for key in keys {
            let candidate = edit::without_attributes(&self.best, |i, k| k == key && optional(i, k));
            self.attempt(Some(candidate));
        }
    }

    /// The shortest beginning of the entry that still shows the fault, all its unused values as results.
    fn beginning(&mut self) {
        let mut low = 0;
        while self.best.entry().order.len() >= low + 2 && !self.spent() {
            let middle = (low + self.best.entry().order.len()) / 2;
            let candidate = edit::beginning(&self.best, middle);
            if !self.attempt(candidate) {
                low = middle;
            }
        }
    }

    /// Fewer results, then an operand in place of the root.
    fn results(&mut self) {
        let mut size = edit::result_count(&self.best);
        while size > 0 {
            let mut start = 0;
            while start < edit::result_count(&self.best) {
                let end = start + size;
                let candidate = edit::without_results(&self.best, start, end);
                if !self.attempt(candidate) {
                    start = end;
                }
            }
            size /= 2;
        }
        let mut position = 0;
        while position < edit::root_choices(&self.best) && !self.spent() {
            let candidate = edit::root_choice(&self.best, position);
            if self.attempt(candidate) {
                position = 0;
            } else {
                position += 1;
            }
        }
    }

    fn whole_passes(&mut self) {
        for pass in [passes::inline::run, passes::while_state::run, passes::cse::run] {
            let mut candidate = self.best.clone();
            let ran = pass(&mut candidate).is_ok();
            self.attempt(ran.then_some(candidate));
        }
    }

    /// A loop's body, a branch, a region in place of what calls it.
    fn control(&mut self) {
        for place in edit::all_places(&self.best) {
            for way in 0..edit::ways_into(&self.best, &place) {
                let candidate = edit::step_into(&self.best, &place, way);
                if self.attempt(candidate) {
                    break;
                }
            }
        }
    }

    /// Each size of a dimension, wherever it occurs, made as small as possible; the largest first.
    fn dimensions(&mut self) {
        let mut below = i64::MAX;
        while let Some(size) = shrink::largest_size(&self.best, below) {
            below = size;
            let smaller: BTreeSet<i64> =
                [1, 2, 3, size / 2, size - 1].into_iter().filter(|n| (1..size).contains(n)).collect();
            for to in smaller {
                let candidate = shrink::shrink(&self.best, size, to);
                if self.attempt(candidate) {
                    break;
                }
            }
            if self.spent() {
                return;
            }
        }
    }
}

/// Whether an instruction may be put out of the way by a parameter or a zero.
fn replaceable(instruction: &Instruction) -> bool {
    !matches!(instruction.opcode, Opcode::Parameter | Opcode::Constant | Opcode::AfterAll | Opcode::Tuple)
}
