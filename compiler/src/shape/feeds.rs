//! What feeds ask of a whole program: an order, and values that a queue can carry.
//!
//! Problem: a device has one infeed and one outfeed queue, so which instruction meets which value depends on the order in
//! which they run. The specification asks for a total order; a program without one can be read and printed, but means
//! nothing that two engines could agree on. Invariant: of any two infeeds that may both run, one depends on the other
//! through data, tokens or control predecessors; the same for outfeeds. An instruction that calls computations is one step
//! that ends as a whole: what uses its result comes after all feeds inside. The condition of a loop and its body, and one
//! turn and the next, take turns by themselves; branches exclude each other. What is applied to elements (reducers,
//! comparators) has no order and may not feed. Empty tuples carry nothing and need no order.
//!
//! Algorithm: within one computation the steps that feed stand in the order of the text, which the dependencies respect. A
//! total order exists exactly where each of them is reachable from the one before, and a path between the two passes only
//! through what stands between: one sweep over each computation finds out.

use super::RuleError;
use super::rule::{Rule, fail};
use super::verify::at;
use crate::error::Result;
use crate::hlo::{AttrKey, Category, Computation, ComputationId, Instruction, InstructionId, Module, Opcode};
use brolga_runtime::Shape;
use cranelift_entity::{EntitySet, SecondaryMap};

/// Checks the feeds of a program that is to be compiled or run.
///
/// # Errors
/// Names two feeds without an order between them, or one whose value no queue can carry.
pub fn verify_feeds(module: &Module) -> Result<()> {
    let feeds = |i: &Instruction| matches!(i.opcode, Opcode::Infeed | Opcode::Outfeed);
    let holds_one = |c: &Computation| c.order.iter().any(|&i| feeds(&c.instructions[i]));
    if !module.order.iter().any(|&c| holds_one(&module.computations[c])) {
        return Ok(());
    }
    let reachable = reachable(module);
    for &id in module.order.iter().filter(|&&c| reachable.contains(c)) {
        let c = &module.computations[id];
        for &i in &c.order {
            check_value(c, &c.instructions[i]).map_err(|e| at(&c.instructions[i], e))?;
        }
    }
    check_order(module, &reachable, Opcode::Infeed)?;
    check_order(module, &reachable, Opcode::Outfeed)
}

/// The computations that may run.
fn reachable(module: &Module) -> EntitySet<ComputationId> {
    let mut reachable = EntitySet::new();
    reachable.insert(module.entry);
    // Callers stand last.
    for &id in module.order.iter().rev() {
        if reachable.contains(id) {
            let computation = &module.computations[id];
            reachable.extend(computation.order.iter().flat_map(|&i| computation.instructions[i].attrs.called()));
        }
    }
    reachable
}

/// What a feed carries.
fn value<'a>(computation: &'a Computation, instruction: &'a Instruction) -> Option<&'a Shape> {
    match instruction.opcode {
        Opcode::Infeed => instruction.infeed_shape(),
        Opcode::Outfeed => instruction.operands.first().map(|&o| &computation.instructions[o].shape),
        _ => None,
    }
}

/// Values are arrays and flat tuples of arrays.
fn check_value(computation: &Computation, instruction: &Instruction) -> Rule<()> {
    let Some(value) = value(computation, instruction) else { return Ok(()) };
    let array = |s: &Shape| s.as_array().is_some();
    if array(value) || value.as_tuple().is_some_and(|t| t.iter().all(array)) {
        return Ok(());
    }
    let id = if instruction.opcode == Opcode::Infeed { "infeed.value" } else { "outfeed.value" };
    fail!(id, "expected an array or a tuple of arrays in {}, found {value:#}", instruction.opcode)
}

/// An instruction and the computation that it stands in.
type Place = (ComputationId, InstructionId);

fn check_order(module: &Module, reachable: &EntitySet<ComputationId>, opcode: Opcode) -> Result<()> {
    // Callees stand first: the first feed inside each computation, for messages, is known when its callers come.
    let mut first: SecondaryMap<ComputationId, Option<Place>> = SecondaryMap::new();
    for &id in module.order.iter().filter(|&&c| reachable.contains(c)) {
        let computation = &module.computations[id];
        let mut steps = Vec::new();
        for (position, &i) in computation.order.iter().enumerate() {
            let instruction = &computation.instructions[i];
            let nothing = value(computation, instruction).and_then(Shape::as_tuple).is_some_and(<[Shape]>::is_empty);
            if nothing {
                continue;
            }
            if let Some(feed) = feed_in(id, i, instruction, opcode, &first) {
                check_caller(module, instruction, feed, opcode)?;
                steps.push((position, feed));
            }
        }
        first[id] = steps.first().map(|s| s.1);
        for pair in steps.windows(2) {
            let [(before, one), (after, other)] = *pair else { continue };
            if !reaches(computation, before, after) {
                return Err(unordered(module, one, other, opcode));
            }
        }
    }
    Ok(())
}

/// The feed that an instruction is, or one that it runs.
fn feed_in(
    computation: ComputationId,
    id: InstructionId,
    instruction: &Instruction,
    opcode: Opcode,
    first: &SecondaryMap<ComputationId, Option<Place>>,
) -> Option<Place> {
    if instruction.opcode == opcode {
        return Some((computation, id));
    }
    // An asynchronous operation runs once, whichever of its parts name its computation.
    if matches!(instruction.opcode, Opcode::AsyncUpdate | Opcode::AsyncDone) {
        return None;
    }
    instruction.attrs.called().into_iter().find_map(|c| first[c])
}

fn check_caller(module: &Module, instruction: &Instruction, feed: Place, opcode: Opcode) -> Result<()> {
    let runs_once = matches!(instruction.opcode.category(), Category::Control | Category::Async)
        || matches!(instruction.opcode, Opcode::CustomCall)
        || instruction.opcode == opcode;
    if runs_once {
        return Ok(());
    }
    let id = if opcode == Opcode::Infeed { "infeed.applied" } else { "outfeed.applied" };
    let message = format!(
        "expected no {opcode} in what {} applies to elements in no order, found {}",
        instruction.opcode,
        describe(module, feed)
    );
    Err(at(instruction, RuleError::new(id, message)))
}

/// Whether the instruction at `after` depends on the one at `before`, through whatever stands between.
fn reaches(computation: &Computation, before: usize, after: usize) -> bool {
    let mut reached: EntitySet<InstructionId> = EntitySet::new();
    let Some(&start) = computation.order.get(before) else { return false };
    // What an asynchronous operation does may last until its done.
    let start = end_of(computation, start, before);
    for (position, &i) in computation.order.iter().enumerate().skip(before) {
        let instruction = &computation.instructions[i];
        let control = instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]);
        if i == start || instruction.operands.iter().chain(control).any(|&o| reached.contains(o)) {
            reached.insert(i);
        }
        if position == after {
            return i != start && reached.contains(i);
        }
    }
    false
}

/// The done of an asynchronous operation; every other instruction ends with itself.
fn end_of(computation: &Computation, start: InstructionId, position: usize) -> InstructionId {
    let mut end = start;
    if computation.instructions[start].opcode == Opcode::AsyncStart {
        for &i in computation.order.iter().skip(position) {
            let instruction = &computation.instructions[i];
            let continues = matches!(instruction.opcode, Opcode::AsyncUpdate | Opcode::AsyncDone);
            if continues && instruction.operands.first() == Some(&end) {
                end = i;
            }
        }
    }
    end
}

fn describe(module: &Module, (computation, id): Place) -> String {
    let instruction = module.instruction(computation, id);
    match instruction.location.line {
        0 => format!("'{}' in '{}'", instruction.name, module.computations[computation].name),
        line => format!("'{}' at line {line}", instruction.name),
    }
}

fn unordered(module: &Module, one: Place, other: Place, opcode: Opcode) -> crate::Error {
    let id = if opcode == Opcode::Infeed { "infeed.order" } else { "outfeed.order" };
    let message = format!(
        "expected a total order of every {opcode} of a device, found no dependency of {} on {} (let it take a token of the \
         other)",
        describe(module, other),
        describe(module, one)
    );
    at(module.instruction(other.0, other.1), RuleError::new(id, message))
}

#[cfg(test)]
mod tests {
    use super::verify_feeds;
    use crate::error::Error;
    use crate::{CompileOptions, compile, interp, shape, text};

    const PRELUDE: &str = "HloModule m
inner {
  p = s32[] parameter(0)
  t = token[] after-all()
  deep = (s32[], token[]) infeed(t)
  ROOT d = s32[] get-tuple-element(deep), index=0
}
ask {
  p = s32[] parameter(0)
  t = token[] after-all()
  f = (pred[], token[]) infeed(t)
  ROOT d = pred[] get-tuple-element(f), index=0
}
same {
  p = s32[] parameter(0)
  ROOT n = s32[] negate(p)
}
reads {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  t = token[] after-all()
  f = (s32[], token[]) infeed(t)
  ROOT d = s32[] get-tuple-element(f), index=0
}
writes {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  t = token[] after-all()
  out = token[] outfeed(a, t)
  ROOT sum = s32[] add(a, b)
}
two {
  p = s32[] parameter(0)
  t = token[] after-all()
  e = (s32[], token[]) infeed(t)
  f = (s32[], token[]) infeed(t)
  ROOT d = s32[] get-tuple-element(f), index=0
}
unreachable {
  t = token[] after-all()
  e = (s32[], token[]) infeed(t)
  f = (s32[], token[]) infeed(t)
  ROOT d = s32[] get-tuple-element(f), index=0
}
ENTRY main {
  c = s32[] parameter(0)
  v = s32[4] parameter(1)
  q = pred[] parameter(2)
  t = token[] after-all()
";

    fn check(lines: &str) -> Result<(), Error> {
        let source = format!("{PRELUDE}{lines}\n  ROOT done = () tuple()\n}}\n");
        let module = text::parse(&source).and_then(|m| shape::verify(&m).map(|()| m));
        let module = module.unwrap_or_else(|e| panic!("parsing and verifying accept it: {e}\n{lines}"));
        let checked = verify_feeds(&module);
        if let Err(error) = &checked {
            // Whoever would run it refuses it in the same words.
            assert_eq!(compile(&module, &CompileOptions::default()).err().as_ref(), Some(error));
            assert_eq!(interp::run(&module, &[], &interp::Options::default()).err().as_ref(), Some(error));
        }
        checked
    }

    #[track_caller]
    fn refuse(id: &str, lines: &str, names: &[&str]) {
        match check(lines) {
            Err(Error::Invalid { constraint, message, .. }) => {
                assert_eq!(constraint, id, "{message}");
                assert!(names.iter().all(|n| message.contains(n)), "{message}");
            }
            other => panic!("{other:?}\n{lines}"),
        }
    }

    #[track_caller]
    fn accept(lines: &str) {
        check(lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
    }

    #[test]
    fn feeds_without_an_order_are_refused_and_both_named() {
        let both = "a = (s32[], token[]) infeed(t)\n b = (s32[], token[]) infeed(t)";
        refuse("infeed.order", both, &["'b' at line 51", "'a' at line 50"]);
        let out = "a = token[] outfeed(c, t)\n b = token[] outfeed(v, t)";
        refuse("outfeed.order", out, &["'b' at line 51", "'a' at line 50"]);
        // The first and the third have one, the second has none.
        let third = "a = (s32[], token[]) infeed(t)\n k = token[] get-tuple-element(a), index=1
            b = (s32[], token[]) infeed()\n d = (s32[], token[]) infeed(k)";
        refuse("infeed.order", third, &["'a'", "'b'"]);
        accept("a = (s32[], token[]) infeed(t)\n b = token[] outfeed(c, t)");
    }

    #[test]
    fn feeds_inside_calls_loops_and_branches_are_found() {
        let call = "w = s32[] call(c), to_apply=inner\n a = (s32[], token[]) infeed(t)";
        refuse("infeed.order", call, &["'deep' at line 5", "'a' at line 51"]);
        let loops = "w = s32[] while(c), condition=ask, body=inner\n x = s32[] while(c), condition=ask, body=inner";
        refuse("infeed.order", loops, &["'f' at line 11"]);
        let branch = "w = s32[] conditional(q, c, c), true_computation=inner, false_computation=same
            a = (s32[], token[]) infeed(t)";
        refuse("infeed.order", branch, &["'deep'", "'a'"]);
        refuse("infeed.order", "w = s32[] call(c), to_apply=two", &["'e'", "'f'"]);
        // Within a started operation and before its end there is no order.
        let started = "s = ((s32[]), s32[], u32[]) async-start(c), calls=inner
            a = (s32[], token[]) infeed(t)
            d = s32[] async-done(s), calls=inner";
        refuse("infeed.order", started, &["'deep'", "'a'"]);
    }

    #[test]
    fn dependencies_of_every_kind_are_an_order() {
        // Data, as in the specification's example of two loops.
        accept("w = s32[] while(c), condition=ask, body=inner\n x = s32[] while(w), condition=ask, body=inner");
        // Tokens, through whatever hands them on.
        accept(
            "a = (s32[], token[]) infeed(t)
             k = token[] get-tuple-element(a), index=1
             l = token[] after-all(t, k)
             m = s32[] add-dependency(c, l)
             w = s32[] call(m), to_apply=inner",
        );
        accept("a = (s32[], token[]) infeed(t)\n b = (s32[], token[]) infeed(t), control-predecessors={a}");
        // Branches exclude each other.
        accept("w = s32[] conditional(q, c, c), true_computation=inner, false_computation=inner");
        let done = "s = ((s32[]), s32[], u32[]) async-start(c), calls=inner
            d = s32[] async-done(s), calls=inner
            w = s32[] call(d), to_apply=inner";
        accept(done);
    }

    #[test]
    fn values_are_arrays_and_flat_tuples() {
        accept("a = ((s32[], f32[2]), token[]) infeed(t)");
        accept("a = ((), token[]) infeed(t)");
        refuse("infeed.value", "a = ((s32[], (f32[2])), token[]) infeed(t)", &["(s32[], (f32[2]))"]);
        let nested = "p = (s32[]) tuple(c)\n n = ((s32[])) tuple(p)\n a = token[] outfeed(n, t)";
        refuse("outfeed.value", nested, &["((s32[]))"]);
    }

    #[test]
    fn what_is_applied_to_elements_does_not_feed() {
        refuse("infeed.applied", "r = s32[] reduce(v, c), dimensions={0}, to_apply=reads", &["reduce", "'f'"]);
        refuse("outfeed.applied", "r = s32[] reduce(v, c), dimensions={0}, to_apply=writes", &["reduce", "'out'"]);
    }
}
