//! Feeds in every engine: what is read and written, how often, and in which order.
#![allow(clippy::unwrap_used)]

use brolga_compiler::hlo::Module;
use brolga_compiler::interp::{self, Fed, NoHost};
use brolga_compiler::passes::PassOptions;
use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::feed::{FeedError, FeedValue, Feeds, Infeed, Outfeed, Sink, Source};
use brolga_runtime::{ArrayLiteral, Literal, Program, RunOptions, Shape};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn module(source: &str) -> Module {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    module
}

fn arguments(module: &Module) -> Vec<Literal> {
    let entry = module.entry();
    entry.parameters().iter().map(|&p| Literal::zeros(&entry.instructions[p].shape).unwrap()).collect()
}

/// Runs in the interpreter.
fn interpret(module: &Module, feeds: &Feeds) -> Result<Vec<ArrayLiteral>, String> {
    let mut host = NoHost;
    let mut host = Fed { feeds, host: &mut host };
    interp::run_with(module, &arguments(module), &interp::Options::default(), &mut host)
        .map(|l| l.arrays().into_iter().cloned().collect())
        .map_err(|e| e.message())
}

/// Compiles and runs from memory.
fn jit(module: &Module, feeds: &Feeds, optimize: bool) -> Result<Vec<ArrayLiteral>, String> {
    let passes = PassOptions { optimize, ..PassOptions::default() };
    let options = CompileOptions { passes, ..CompileOptions::default() };
    let artifact = compile(module, &options).unwrap_or_else(|e| panic!("{e}"));
    let program = Program::from_object(&artifact.object).unwrap();
    let arguments = arguments(module);
    let leaves: Vec<&ArrayLiteral> = arguments.iter().flat_map(Literal::arrays).collect();
    let options = RunOptions { feeds: feeds.clone(), ..RunOptions::default() };
    program.run_with(&leaves, &options).map_err(|e| e.to_string())
}

/// Feeds 1, 2, 3, ... and notes everything in the order in which it happens.
#[derive(Default)]
struct Recorder(Mutex<(i32, Vec<String>)>);

impl Source for Recorder {
    fn next(&self, shape: &Shape, _: Option<Duration>) -> Result<Literal, FeedError> {
        let mut state = self.0.lock().unwrap();
        state.0 += 1;
        let count = state.0;
        let mut value = Literal::zeros(shape).unwrap();
        let parts: Vec<&mut ArrayLiteral> = match &mut value {
            Literal::Array(a) => vec![a],
            Literal::Tuple(t) => {
                t.iter_mut().filter_map(|l| if let Literal::Array(a) = l { Some(a) } else { None }).collect()
            }
            Literal::Token => Vec::new(),
        };
        for part in parts {
            match size_of_element(part) {
                1 => part.bytes_mut().fill(u8::from(count < 4)),
                _ => part.as_mut_slice::<i32>().fill(count),
            }
        }
        state.1.push(format!("in {shape:#}"));
        Ok(value)
    }
}

fn size_of_element(array: &ArrayLiteral) -> usize {
    array.ty().byte_size()
}

impl Sink for Recorder {
    fn put(&self, value: FeedValue, _: Option<Duration>) -> Result<(), FeedError> {
        let shown: Vec<String> = value
            .literal()
            .arrays()
            .iter()
            .map(|a| a.as_slice::<i32>().iter().map(i32::to_string).collect::<Vec<_>>().join(","))
            .collect();
        self.0.lock().unwrap().1.push(format!("out {}", shown.join(" ")));
        Ok(())
    }
}

/// Checks what happens, in the interpreter and in code compiled with and without optimisation.
#[track_caller]
fn happens(source: &str, expected: &[&str]) {
    let module = module(source);
    let mut results = Vec::new();
    for engine in 0..3 {
        let recorder = Arc::new(Recorder::default());
        let feeds = Feeds { infeed: Some(recorder.clone()), outfeed: Some(recorder.clone()), timeout: None };
        let result = match engine {
            0 => interpret(&module, &feeds),
            1 => jit(&module, &feeds, true),
            _ => jit(&module, &feeds, false),
        };
        results.push(result.unwrap_or_else(|e| panic!("engine {engine}: {e}")));
        assert_eq!(recorder.0.lock().unwrap().1, expected, "engine {engine}");
    }
    assert!(results.iter().all(|r| *r == results[0]), "{results:?}");
}

#[test]
fn a_loop_reads_in_its_condition_and_its_body() {
    happens(
        "HloModule m
cond { s = (s32[], token[]) parameter(0)
  t = token[] get-tuple-element(s), index=1
  f = (pred[], token[]) infeed(t)
  ROOT more = pred[] get-tuple-element(f), index=0 }
body { s = (s32[], token[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  t = token[] get-tuple-element(s), index=1
  f = ((s32[2], s32[]), token[]) infeed(t)
  v = (s32[2], s32[]) get-tuple-element(f), index=0
  k = token[] get-tuple-element(f), index=1
  x = s32[] get-tuple-element(v), index=1
  sum = s32[] add(n, x)
  o = token[] outfeed(sum, k), outfeed_shape=s32[]
  p = token[] outfeed(v, o), outfeed_shape=(s32[2], s32[])
  ROOT r = (s32[], token[]) tuple(sum, p) }
ENTRY main { z = s32[] constant(0)
  t = token[] after-all()
  s = (s32[], token[]) tuple(z, t)
  w = (s32[], token[]) while(s), condition=cond, body=body
  ROOT n = s32[] get-tuple-element(w), index=0 }",
        &[
            "in pred[]",
            "in (s32[2], s32[])",
            "out 2",
            "out 2,2 2",
            "in pred[]",
            "in (s32[2], s32[])",
            "out 6",
            "out 4,4 4",
            "in pred[]",
        ],
    );
}

#[test]
fn effects_that_look_alike_or_useless_all_happen() {
    happens(
        "HloModule m
say { x = s32[] parameter(0)
  t = token[] after-all()
  o = token[] outfeed(x, t), outfeed_shape=s32[]
  ROOT r = s32[] constant(5) }
quiet { x = s32[] parameter(0)
  ROOT r = s32[] constant(5) }
yes { x = s32[] parameter(0)
  ROOT r = pred[] constant(true) }
less { x = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT r = pred[] compare(x, one), direction=LT }
once { x = s32[] parameter(0)
  one = s32[] constant(1)
  s = s32[] call(x), to_apply=say
  d = s32[] subtract(s, s)
  y = s32[] add(x, d)
  ROOT n = s32[] add(x, one), control-predecessors={s} }
ENTRY main { c = s32[] parameter(0)
  a = s32[] call(c), to_apply=say
  b = s32[] call(c), to_apply=say, control-predecessors={a}
  zero = s32[] constant(0)
  w = s32[] while(zero), condition=less, body=once, control-predecessors={b}
  on = pred[] constant(true)
  d = s32[] conditional(on, w, w), true_computation=say, false_computation=quiet
  e = s32[] conditional(on, d, d), true_computation=quiet, false_computation=say
  f = s32[] conditional(on, e, e), true_computation=say, false_computation=say
  nothing = ((), token[]) infeed()
  empty = () get-tuple-element(nothing), index=0
  void = token[] outfeed(empty), outfeed_shape=()
  seven = s32[] constant(7)
  ROOT r = s32[] add(seven, seven) }",
        &["out 0", "out 0", "out 0", "out 1", "out 5"],
    );
}

#[test]
fn tokens_barriers_and_dependencies_order_what_they_join() {
    happens(
        "HloModule m
read { x = s32[] parameter(0)
  t = token[] after-all()
  f = (s32[], token[]) infeed(t)
  v = s32[] get-tuple-element(f), index=0
  ROOT r = s32[] add(v, x) }
write { x = s32[] parameter(0)
  ROOT o = token[] outfeed(x), outfeed_shape=s32[] }
ENTRY main { c = s32[] parameter(0)
  t = token[] after-all()
  a = (s32[], token[]) infeed(t)
  av = s32[] get-tuple-element(a), index=0
  at = token[] get-tuple-element(a), index=1
  first = token[] outfeed(av, at), outfeed_shape=s32[]
  both = token[] after-all(at, first)
  waits = s32[] add-dependency(c, both)
  b = s32[] call(waits), to_apply=read
  held = (s32[], s32[]) tuple(b, av)
  bar = (s32[], s32[]) opt-barrier(held)
  bv = s32[] get-tuple-element(bar), index=0
  second = token[] call(bv), to_apply=write, control-predecessors={first}
  s = ((s32[]), s32[], u32[]) async-start(bv), calls=read
  d = s32[] async-done(s), calls=read
  third = token[] outfeed(d, second), outfeed_shape=s32[]
  ROOT r = (s32[], token[]) tuple(d, third) }",
        &["in s32[]", "out 1", "in s32[]", "out 2", "in s32[]", "out 5"],
    );
}

#[test]
fn branches_in_loops_choose_who_feeds() {
    happens(
        "HloModule m
reads { s = (s32[], token[]) parameter(0)
  t = token[] get-tuple-element(s), index=1
  f = (s32[3], token[]) infeed(t)
  v = s32[3] get-tuple-element(f), index=0
  k = token[] get-tuple-element(f), index=1
  ROOT o = token[] outfeed(v, k), outfeed_shape=s32[3] }
writes { s = (s32[], token[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  t = token[] get-tuple-element(s), index=1
  ROOT o = token[] outfeed(n, t), outfeed_shape=s32[] }
cond { s = (s32[], token[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  four = s32[] constant(4)
  ROOT r = pred[] compare(n, four), direction=LT }
body { s = (s32[], token[]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  odd = s32[] and(n, one)
  o = token[] conditional(odd, s, s), branch_computations={writes, reads}
  next = s32[] add(n, one)
  ROOT r = (s32[], token[]) tuple(next, o) }
ENTRY main { z = s32[] parameter(0)
  t = token[] after-all()
  s = (s32[], token[]) tuple(z, t)
  ROOT w = (s32[], token[]) while(s), condition=cond, body=body }",
        &["out 0", "in s32[3]", "out 1,1,1", "out 2", "in s32[3]", "out 2,2,2"],
    );
}

const COLUMNS: &str = "HloModule m
ENTRY main { t = token[] after-all()
  f = (u8[2,3]{0,1}, token[]) infeed(t)
  v = u8[2,3]{0,1} get-tuple-element(f), index=0
  k = token[] get-tuple-element(f), index=1
  o = token[] outfeed(v, k), outfeed_shape=u8[2,3]{0,1}
  ROOT c = u8[2,3]{1,0} copy(v) }";

/// Both engines on queues made by `make`; each must end in the same way.
fn both(source: &str, make: impl Fn() -> (Infeed, Outfeed)) -> Result<(Vec<ArrayLiteral>, Arc<Outfeed>), String> {
    let module = module(source);
    let run = |compiled: bool| {
        let (infeed, outfeed) = make();
        let outfeed = Arc::new(outfeed);
        let feeds = Feeds { timeout: Some(Duration::from_millis(20)), ..Feeds::new(Arc::new(infeed), outfeed.clone()) };
        let result = if compiled { jit(&module, &feeds, true) } else { interpret(&module, &feeds) };
        (result, outfeed)
    };
    let ((interpreted, _), (compiled, outfeed)) = (run(false), run(true));
    match (interpreted, compiled) {
        (Ok(a), Ok(b)) => {
            assert_eq!(a, b);
            Ok((b, outfeed))
        }
        (Err(a), Err(b)) => {
            assert!(b.ends_with(&a), "interpreted: {a}\ncompiled: {b}");
            Err(b)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_pass_in_the_layout_that_the_program_names() {
    let Shape::Tuple(parts) = module(COLUMNS).entry().instructions.values().nth(1).unwrap().shape.clone() else {
        panic!("an infeed yields a tuple")
    };
    let columns = parts[0].clone();
    let memory: &[u8] = &[1, 4, 2, 5, 3, 6];
    let feed = |shape: &Shape| {
        let infeed = Infeed::new(1);
        infeed.push(FeedValue::from_bytes(shape, &[memory]).unwrap()).unwrap();
        infeed
    };
    let (results, outfeed) = both(COLUMNS, || (feed(&columns), Outfeed::new(1))).unwrap();
    assert_eq!(results[0].bytes(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(outfeed.pop().unwrap().bytes(0).unwrap(), memory);
    // In another layout, or into a queue for another one.
    let rows = columns.without_layout();
    let wrong = both(COLUMNS, || (feed(&rows), Outfeed::new(1))).unwrap_err();
    assert_eq!(wrong, "infeed at line 3: expected a value in the layout of u8[2,3]{0,1}, found u8[2,3]{1,0}");
    let wrong = both(COLUMNS, || (feed(&columns), Outfeed::typed(rows.clone(), 1).unwrap())).unwrap_err();
    assert_eq!(wrong, "outfeed at line 6: expected a value in the layout of u8[2,3]{1,0}, found u8[2,3]{0,1}");
}

#[test]
fn every_failure_ends_the_run_in_the_same_words() {
    let value = || ArrayLiteral::from_elements(&[2, 3], &[0u8; 6]);
    let filled = || {
        let infeed = Infeed::new(1);
        infeed.push(value()).unwrap();
        infeed
    };
    let closed = both(COLUMNS, || {
        let infeed = Infeed::new(1);
        infeed.close();
        (infeed, Outfeed::new(1))
    });
    assert_eq!(closed.unwrap_err(), "infeed at line 3: the infeed queue is closed");
    let closed = both(COLUMNS, || {
        let outfeed = Outfeed::new(1);
        outfeed.close();
        (filled(), outfeed)
    });
    assert_eq!(closed.unwrap_err(), "outfeed at line 6: the outfeed queue is closed");
    let late = both(COLUMNS, || (Infeed::new(1), Outfeed::new(1))).unwrap_err();
    assert_eq!(late, "infeed at line 3: the infeed queue stayed empty for 20ms, which is the time-out");
    let late = both(COLUMNS, || {
        let outfeed = Outfeed::new(1);
        outfeed.put(value().into(), None).unwrap();
        (filled(), outfeed)
    });
    assert_eq!(late.unwrap_err(), "outfeed at line 6: the outfeed queue stayed full for 20ms, which is the time-out");
    let wrong = both(COLUMNS, || {
        let infeed = Infeed::new(1);
        infeed.push(ArrayLiteral::scalar(1u8)).unwrap();
        (infeed, Outfeed::new(1))
    });
    assert_eq!(wrong.unwrap_err(), "infeed at line 3: expected a value of shape u8[2,3], found u8[]");
}

#[test]
fn a_program_waits_for_its_caller() {
    let module = module(COLUMNS);
    let (infeed, outfeed) = (Arc::new(Infeed::new(1)), Arc::new(Outfeed::new(1)));
    let feeds = Feeds::new(infeed.clone(), outfeed.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            infeed.push(ArrayLiteral::from_elements(&[2, 3], &[7u8; 6])).unwrap();
        });
        assert_eq!(jit(&module, &feeds, true).unwrap()[0].bytes(), [7; 6]);
    });
    assert_eq!(outfeed.len(), 1);
}
