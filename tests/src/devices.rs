//! Programs for several devices: random ones, and any program in both engines.

use crate::compare::first_other_bits;
use crate::random_graph::Rng;
use brolga_compiler::collective::Grid;
use brolga_compiler::hlo::Module;
use brolga_compiler::{CompileOptions, Error, compile, interp};
use brolga_runtime::devices::Devices;
use brolga_runtime::{ArrayLiteral, ArrayShape, Kind, Literal, Program, RunOptions, Scalar, Shape};
use std::fmt::Write;
use std::time::Duration;

/// How both engines run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The same bits on every device, or both fail.
    Agrees,
    /// The interpreter ran for too long.
    Endless,
    /// There is no compiled form.
    Unsupported(String),
    /// Anything else.
    Differs(String),
}

/// Instructions that a device may run.
const FUEL: u64 = 100_000;

/// Nobody computes for so long.
const LIMIT: Duration = Duration::from_secs(60);

/// An argument: small numbers, so that sums of integers are exact.
fn argument(shape: &Shape, rng: &mut Rng) -> Option<Literal> {
    Some(match shape {
        Shape::Array(a) | Shape::Buffer(a) => {
            let mut array = ArrayLiteral::zeros(&ArrayShape::new(a.ty, a.dims.clone()));
            for i in 0..array.elements() {
                let number = rng.between(-4, 4);
                array.set(
                    i,
                    match a.ty.kind() {
                        Kind::Pred => Scalar::Pred(number > 0),
                        Kind::Signed => Scalar::Int(number.clamp(-1, 3)),
                        Kind::Unsigned => Scalar::UInt(number.unsigned_abs()),
                        Kind::Float => Scalar::Float(number as f64 / 2.0),
                        Kind::Complex => Scalar::Complex(brolga_runtime::num_complex::Complex::new(number as f64, 0.5)),
                    },
                );
            }
            Literal::Array(array)
        }
        Shape::Tuple(elements) => {
            Literal::Tuple(elements.iter().map(|e| argument(e, rng)).collect::<Option<Vec<_>>>()?)
        }
        Shape::Token => Literal::Token,
        Shape::Opaque => return None,
    })
}

/// Runs a module on the devices of `grid`, with arguments that follow from `seed`, interpreted, and compiled with one thread a
/// device and with three.
pub fn check(module: &Module, grid: Grid, seed: u64, options: &CompileOptions) -> Outcome {
    let mut rng = Rng::new(seed);
    let entry = module.entry();
    let shapes: Vec<&Shape> = entry.parameters().into_iter().map(|p| &entry.instructions[p].shape).collect();
    let one = |rng: &mut Rng| shapes.iter().map(|s| argument(s, rng)).collect::<Option<Vec<Literal>>>();
    let Some(arguments) = (0..grid.devices()).map(|_| one(&mut rng)).collect::<Option<Vec<_>>>() else {
        return Outcome::Unsupported("an opaque parameter".to_owned());
    };
    let limited = interp::Options { timeout: Some(LIMIT), fuel: Some(FUEL), ..interp::Options::default() };
    let want = interp::run_devices(module, &arguments, grid.replicas, grid.partitions, &limited);
    if matches!(&want, Err(Error::Unsupported { feature, .. }) if feature == "a program that runs this long") {
        return Outcome::Endless;
    }
    let options = CompileOptions { devices: Some(grid), threads: 1, ..options.clone() };
    let artifact = match compile(module, &options) {
        Ok(artifact) => artifact,
        Err(Error::Unsupported { feature, .. }) => return Outcome::Unsupported(feature),
        Err(_) if want.is_err() => return Outcome::Agrees,
        Err(e) => return Outcome::Differs(format!("the compiler: {e}")),
    };
    let devices = match Devices::local(grid.replicas, grid.partitions) {
        Ok(devices) => devices.with_timeout(LIMIT),
        Err(e) => return Outcome::Differs(e.to_string()),
    };
    let program = match Program::from_object(&artifact.object) {
        Ok(program) => program,
        Err(e) => return Outcome::Differs(format!("the loader: {e}")),
    };
    let leaves: Vec<Vec<&ArrayLiteral>> =
        arguments.iter().map(|list| list.iter().flat_map(Literal::arrays).collect()).collect();
    for threads in [1, 3] {
        let got = devices.run(&program, &leaves, &RunOptions { threads, ..RunOptions::default() });
        match (&got, &want) {
            (Ok(got), Ok(want)) => {
                if let Some(message) = difference(got, want) {
                    return Outcome::Differs(message);
                }
            }
            (Err(_), Err(_)) => {}
            (Ok(_), Err(e)) => return Outcome::Differs(format!("compiled code runs, the interpreter says: {e}")),
            (Err(e), Ok(_)) => return Outcome::Differs(format!("compiled code says: {e}")),
        }
    }
    Outcome::Agrees
}

fn difference(got: &[Vec<ArrayLiteral>], want: &[Literal]) -> Option<String> {
    for (device, (got, want)) in got.iter().zip(want).enumerate() {
        let want = want.arrays();
        if got.len() != want.len() {
            return Some(format!("{} results, want {}", got.len(), want.len()));
        }
        for (k, (got, want)) in got.iter().zip(want).enumerate() {
            if first_other_bits(got, want).is_none() {
                continue;
            }
            // Of two zeros of unlike sign, maxima and minima yield either.
            let same = |i: &usize| match (got.get(*i), want.get(*i)) {
                (Scalar::Float(a), Scalar::Float(b)) => a == b || a.is_nan() && b.is_nan(),
                (a, b) => a == b,
            };
            let other = (0..want.elements()).find(|i| !same(i));
            if got.dims() != want.dims() || other.is_some() {
                let i = other.unwrap_or(0);
                let (got, want) = (got.get(i), want.get(i));
                return Some(format!(
                    "device {device}, result {k}, element {i}: {got:?}, the interpreter has {want:?}"
                ));
            }
        }
    }
    None
}

/// A value of a program that is being written.
#[derive(Clone)]
struct Value {
    name: String,
    ty: &'static str,
    dims: Vec<i64>,
}

impl Value {
    fn shape(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(i64::to_string).collect();
        format!("{}[{}]", self.ty, dims.join(","))
    }

    fn elements(&self) -> i64 {
        self.dims.iter().product()
    }
}

const TYPES: &[&str] = &["f32", "s32", "bf16", "f64", "u8", "pred"];

/// Values grow no larger.
const MOST: i64 = 2048;

struct Writer {
    rng: Rng,
    grid: Grid,
    body: String,
    values: Vec<Value>,
    /// Ends of exchanges that have started, and the instructions that they wait for still.
    open: Vec<(u64, String, Value)>,
    count: usize,
}

/// A random program with collectives of all kinds, and the devices that it runs on.
pub fn program(seed: u64) -> (String, Grid) {
    let mut rng = Rng::new(seed);
    let (replicas, partitions) = rng.pick(&[(2, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (1, 4), (2, 4), (4, 2)]);
    let grid = Grid { replicas, partitions };
    let mut w = Writer { rng, grid, body: String::new(), values: Vec::new(), open: Vec::new(), count: 0 };
    for k in 0..w.rng.between(1, 3) {
        let ty = w.rng.pick(TYPES);
        let dims = (0..w.rng.between(1, 2)).map(|_| grid.devices() as i64 * w.rng.between(1, 2)).collect();
        let value = Value { name: format!("p{k}"), ty, dims };
        w.line(&format!("{} = {} parameter({k})", value.name, value.shape()));
        w.values.push(value);
    }
    for _ in 0..w.rng.between(3, 12) {
        w.step();
        w.close();
    }
    for (left, ..) in &mut w.open {
        *left = 0;
    }
    w.close();
    let results: Vec<Value> = w.values.iter().rev().take(6).cloned().collect();
    let names: Vec<&str> = results.iter().map(|v| v.name.as_str()).collect();
    let shapes: Vec<String> = results.iter().map(Value::shape).collect();
    let root = format!("  ROOT result = ({}) tuple({})\n", shapes.join(", "), names.join(", "));
    let mut text = format!("HloModule devices_{seed}, replica_count={replicas}, num_partitions={partitions}\n\n");
    for ty in TYPES {
        for op in ["add", "multiply", "minimum", "maximum", "and", "or"] {
            let _ = writeln!(
                text,
                "{op}_{ty} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  ROOT r = {ty}[] {op}(a, b)\n}}\n"
            );
        }
        // Neither commutes nor associates.
        let odd = if *ty == "pred" { "not" } else { "negate" };
        let _ = writeln!(
            text,
            "odd_{ty} {{\n  a = {ty}[] parameter(0)\n  b = {ty}[] parameter(1)\n  n = {ty}[] {odd}(a)\n  m = {ty}[] \
             maximum(n, b)\n  ROOT r = {ty}[] add(m, a)\n}}\n"
        );
    }
    let _ = write!(text, "{}ENTRY entry {{\n{}{root}}}\n", w.loops(), w.body);
    (text, grid)
}

impl Writer {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "  {text}");
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    fn pick(&mut self) -> Value {
        let k = self.rng.below(self.values.len() as u64) as usize;
        self.values[k].clone()
    }

    fn emit(&mut self, ty: &'static str, dims: Vec<i64>, right: &str) -> Value {
        let value = Value { name: self.name(), ty, dims };
        self.line(&format!("{} = {} {right}", value.name, value.shape()));
        self.values.push(value.clone());
        value
    }

    /// Ends what has been open for long enough.
    fn close(&mut self) {
        let (ready, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|(left, ..)| *left == 0);
        self.open = rest.into_iter().map(|(left, text, value)| (left - 1, text, value)).collect();
        for (_, text, value) in ready {
            self.line(&text);
            self.values.push(value);
        }
    }

    /// Computations of the loops in the body.
    fn loops(&self) -> String {
        "loop_condition {\n  s = (s32[], f32[4]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] \
         constant(3)\n  ROOT r = pred[] compare(i, n), direction=LT\n}\n\nloop_body {\n  s = (s32[], f32[4]) parameter(0)\n  \
         i = s32[] get-tuple-element(s), index=0\n  x = f32[4] get-tuple-element(s), index=1\n  one = s32[] constant(1)\n  \
         next = s32[] add(i, one)\n  sum = f32[4] all-reduce(x), replica_groups={}, to_apply=add_f32\n  half = f32[] \
         constant(0.5)\n  halves = f32[4] broadcast(half), dimensions={}\n  y = f32[4] multiply(sum, halves)\n  ROOT r = \
         (s32[], f32[4]) tuple(next, y)\n}\n\n"
            .to_owned()
    }

    /// Numbers 0 to `count` in random groups of one size, as text, and that size.
    fn groups(&mut self, count: usize) -> (String, usize) {
        if self.rng.chance(1, 4) {
            return ("{}".to_owned(), count);
        }
        let sizes: Vec<usize> = (1..=count).filter(|n| count.is_multiple_of(*n)).collect();
        let size = self.rng.pick(&sizes);
        let order = self.rng.permutation(count);
        let lists: Vec<String> = order
            .chunks(size)
            .map(|g| format!("{{{}}}", g.iter().map(usize::to_string).collect::<Vec<_>>().join(",")))
            .collect();
        (format!("{{{}}}", lists.join(",")), size)
    }

    /// Attributes that say who takes part, and how many a group has. `pairs` counts partitions where there is a channel,
    /// what else has all partitions of its replicas.
    fn members(&mut self, pairs: bool) -> (String, usize) {
        let Grid { replicas, partitions } = self.grid;
        match self.rng.below(3) {
            0 => {
                let (text, size) = self.groups(replicas);
                (format!("replica_groups={text}"), size)
            }
            1 if pairs => {
                let (text, size) = self.groups(partitions);
                (format!("channel_id=1, replica_groups={text}"), size)
            }
            1 => {
                let (text, size) = self.groups(replicas);
                (format!("channel_id=1, replica_groups={text}"), size * partitions)
            }
            _ if pairs => {
                let (text, size) = self.groups(replicas);
                (format!("replica_groups={text}"), size)
            }
            _ => {
                let (text, size) = self.groups(self.grid.devices());
                (format!("channel_id=2, use_global_device_ids=true, replica_groups={text}"), size)
            }
        }
    }

    fn reducer(&mut self, ty: &str) -> String {
        let of_bits = matches!(ty, "s32" | "u8" | "pred");
        let op = if of_bits {
            self.rng.pick(&["add", "multiply", "minimum", "maximum", "and", "or", "odd"])
        } else {
            self.rng.pick(&["add", "multiply", "minimum", "maximum", "odd"])
        };
        format!("{op}_{ty}")
    }

    fn pairs(&mut self, count: usize) -> String {
        let (from, to) = (self.rng.permutation(count), self.rng.permutation(count));
        let keep = self.rng.between(0, count as i64) as usize;
        let list: Vec<String> = from.iter().zip(&to).take(keep).map(|(a, b)| format!("{{{a},{b}}}")).collect();
        format!("{{{}}}", list.join(","))
    }

    fn step(&mut self) {
        let x = self.pick();
        let d = self.rng.below(x.dims.len() as u64) as usize;
        match self.rng.below(12) {
            0 => {
                let op = if x.ty == "pred" { "xor" } else { self.rng.pick(&["add", "subtract", "maximum"]) };
                let like: Vec<Value> =
                    self.values.iter().filter(|v| v.ty == x.ty && v.dims == x.dims).cloned().collect();
                let y = like[self.rng.below(like.len() as u64) as usize].clone();
                self.emit(x.ty, x.dims.clone(), &format!("{op}({}, {})", x.name, y.name));
            }
            1 => {
                let opcode = self.rng.pick(&["replica-id", "partition-id"]);
                let id = self.name();
                self.line(&format!("{id} = u32[] {opcode}()"));
                let own = self.name();
                self.line(&format!("{own} = {}[] convert({id})", x.ty));
                let all = self.emit(x.ty, x.dims.clone(), &format!("broadcast({own}), dimensions={{}}"));
                let op = if x.ty == "pred" { "or" } else { "add" };
                self.emit(x.ty, x.dims.clone(), &format!("{op}({}, {})", x.name, all.name));
            }
            2 | 3 => {
                let (who, _) = self.members(false);
                let reducer = self.reducer(x.ty);
                if self.rng.chance(1, 3) {
                    let start = self.name();
                    self.line(&format!(
                        "{start} = {} all-reduce-start({}), {who}, to_apply={reducer}",
                        x.shape(),
                        x.name
                    ));
                    let value = Value { name: self.name(), ..x };
                    let done = format!("{} = {} all-reduce-done({start})", value.name, value.shape());
                    let left = self.rng.below(4);
                    self.open.push((left, done, value));
                } else {
                    self.emit(x.ty, x.dims.clone(), &format!("all-reduce({}), {who}, to_apply={reducer}", x.name));
                }
            }
            4 => {
                // Several arrays in one.
                let like: Vec<Value> = self.values.iter().filter(|v| v.ty == x.ty).take(3).cloned().collect();
                let (who, _) = self.members(false);
                let reducer = self.reducer(x.ty);
                let names: Vec<&str> = like.iter().map(|v| v.name.as_str()).collect();
                let shapes: Vec<String> = like.iter().map(Value::shape).collect();
                let tuple = self.name();
                let (names, shapes) = (names.join(", "), shapes.join(", "));
                self.line(&format!("{tuple} = ({shapes}) all-reduce({names}), {who}, to_apply={reducer}"));
                for (k, v) in like.into_iter().enumerate() {
                    self.emit(v.ty, v.dims, &format!("get-tuple-element({tuple}), index={k}"));
                }
            }
            5 => {
                let (who, size) = self.members(false);
                if x.elements() * size as i64 > MOST {
                    return;
                }
                let mut dims = x.dims.clone();
                dims[d] *= size as i64;
                let value = Value { name: self.name(), ty: x.ty, dims };
                if self.rng.chance(1, 3) {
                    let start = self.name();
                    let (from, to) = (x.shape(), value.shape());
                    self.line(&format!(
                        "{start} = ({from}, {to}) all-gather-start({}), {who}, dimensions={{{d}}}",
                        x.name
                    ));
                    let done = format!("{} = {to} all-gather-done({start})", value.name);
                    let left = self.rng.below(4);
                    self.open.push((left, done, value));
                } else {
                    self.line(&format!(
                        "{} = {} all-gather({}), {who}, dimensions={{{d}}}",
                        value.name,
                        value.shape(),
                        x.name
                    ));
                    self.values.push(value);
                }
            }
            6 | 7 => {
                let (who, size) = self.members(false);
                if x.dims[d] % size as i64 != 0 {
                    return;
                }
                let mut dims = x.dims.clone();
                dims[d] /= size as i64;
                let reducer = self.reducer(x.ty);
                self.emit(
                    x.ty,
                    dims,
                    &format!("reduce-scatter({}), {who}, dimensions={{{d}}}, to_apply={reducer}", x.name),
                );
            }
            8 => {
                let (who, size) = self.members(true);
                if self.rng.chance(1, 3) {
                    let names = vec![x.name.as_str(); size].join(", ");
                    let shapes = vec![x.shape(); size].join(", ");
                    let tuple = self.name();
                    self.line(&format!("{tuple} = ({shapes}) all-to-all({names}), {who}"));
                    for k in 0..size {
                        self.emit(x.ty, x.dims.clone(), &format!("get-tuple-element({tuple}), index={k}"));
                    }
                } else if x.dims[d] % size as i64 == 0 {
                    self.emit(x.ty, x.dims.clone(), &format!("all-to-all({}), {who}, dimensions={{{d}}}", x.name));
                }
            }
            9 => {
                let (who, _) = self.members(true);
                self.emit(x.ty, x.dims.clone(), &format!("collective-broadcast({}), {who}", x.name));
            }
            10 => {
                let Grid { replicas, partitions } = self.grid;
                let (channel, count) =
                    if self.rng.chance(1, 2) { ("", replicas) } else { (", channel_id=3", partitions) };
                let pairs = self.pairs(count);
                if self.rng.chance(1, 3) {
                    let start = self.name();
                    let shape = x.shape();
                    self.line(&format!(
                        "{start} = ({shape}, {shape}) collective-permute-start({}){channel}, source_target_pairs={pairs}",
                        x.name
                    ));
                    let value = Value { name: self.name(), ..x };
                    let done = format!("{} = {shape} collective-permute-done({start})", value.name);
                    let left = self.rng.below(4);
                    self.open.push((left, done, value));
                } else {
                    let right = format!("collective-permute({}){channel}, source_target_pairs={pairs}", x.name);
                    self.emit(x.ty, x.dims.clone(), &right);
                }
            }
            _ if self.rng.chance(1, 2) => self.transfer(&x),
            _ => self.repeat(),
        }
    }

    fn transfer(&mut self, x: &Value) {
        let Grid { replicas, partitions } = self.grid;
        let pairs = self.pairs(if partitions > 1 { partitions } else { replicas });
        let route = format!("channel_id=9, frontend_attributes={{_xla_send_recv_source_target_pairs=\"{pairs}\"}}");
        let shape = x.shape();
        let [token, recv, send, sent, received] = [(); 5].map(|()| self.name());
        self.line(&format!("{token} = token[] after-all()"));
        self.line(&format!("{recv} = ({shape}, u32[], token[]) recv({token}), {route}"));
        self.line(&format!("{send} = ({shape}, u32[], token[]) send({}, {token}), {route}", x.name));
        self.line(&format!("{received} = ({shape}, token[]) recv-done({recv}), {route}"));
        self.line(&format!("{sent} = token[] send-done({send}), {route}"));
        self.emit(x.ty, x.dims.clone(), &format!("get-tuple-element({received}), index=0"));
    }

    fn repeat(&mut self) {
        let [zero, id, own, init, state, looped] = [(); 6].map(|()| self.name());
        self.line(&format!("{zero} = s32[] constant(0)"));
        self.line(&format!("{id} = u32[] replica-id()"));
        self.line(&format!("{own} = f32[] convert({id})"));
        self.line(&format!("{init} = f32[4] broadcast({own}), dimensions={{}}"));
        self.line(&format!("{state} = (s32[], f32[4]) tuple({zero}, {init})"));
        self.line(&format!("{looped} = (s32[], f32[4]) while({state}), condition=loop_condition, body=loop_body"));
        self.emit("f32", vec![4], &format!("get-tuple-element({looped}), index=1"));
    }
}
