//! Programs for several devices: compiled code against the interpreter, and what happens when a device fails.

use brolga_compiler::collective::Grid;
use brolga_compiler::hlo::Category;
use brolga_compiler::interp::{Options, run_devices};
use brolga_compiler::{CompileOptions, compile, text};
use brolga_runtime::devices::Devices;
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{ArrayLiteral, ArrayShape, CustomCall, CustomCalls, ElementType, Program, RunError, RunOptions};
use brolga_tests::corpus;
use brolga_tests::devices::{Outcome, check, program};
use brolga_tests::random_graph::Rng;
use std::path::Path;
use std::time::{Duration, Instant};

fn compiled(text: &str, options: &CompileOptions) -> Program {
    let module = text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let artifact = compile(&module, options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    Program::from_object(&artifact.object).expect("the program loads")
}

fn floats(values: &[f32]) -> ArrayLiteral {
    ArrayLiteral::from_elements(&[values.len() as i64], values)
}

#[test]
fn random_programs_agree() {
    let options = CompileOptions { strict_rounding: true, ..CompileOptions::default() };
    let mut agree = 0;
    for seed in 0..150 {
        let (text, grid) = program(seed);
        let module = text::parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        match check(&module, grid, seed, &options) {
            Outcome::Agrees => agree += 1,
            Outcome::Unsupported(what) => panic!("seed {seed}: {what}\n{text}"),
            Outcome::Endless => panic!("seed {seed} does not end\n{text}"),
            Outcome::Differs(message) => panic!("seed {seed}: {message}\n{text}"),
        }
    }
    assert_eq!(agree, 150);
}

/// What `gradient` adds for other devices' losses runs in compiled code as in the interpreter.
#[test]
fn gradients_of_programs_for_several_devices_agree() {
    let text = "HloModule m
add { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT s = f64[] add(a, b) }
ENTRY e {
  x = f64[4,6] parameter(0)
  w = f64[6,3] parameter(1)
  shares = f64[2,6] reduce-scatter(x), replica_groups={{0,1},{2,3}}, dimensions={0}, to_apply=add
  next = f64[2,6] collective-permute(shares), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  whole = f64[4,6] all-gather(next), replica_groups={{0,1},{2,3}}, dimensions={0}
  blocks = f64[4,6] all-to-all(whole), replica_groups={{0,1,2,3}}, dimensions={0}
  waves = f64[4,6] multiply(blocks, blocks)
  y = f64[4,3] dot(waves, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  all = f64[4,3] all-reduce(y), replica_groups={}, to_apply=add
  square = f64[4,3] multiply(all, all)
  zero = f64[] constant(0)
  ROOT loss = f64[] reduce(square, zero), dimensions={0,1}, to_apply=add
}";
    let module = text::parse(text).expect("a program");
    let module = brolga_compiler::gradient::differentiate(&module, &[0, 1]).expect("a gradient");
    let zeros = |dims: &[i64]| ArrayLiteral::zeros(&ArrayShape::new(ElementType::F64, dims)).into();
    let arguments = vec![vec![zeros(&[4, 6]), zeros(&[6, 3])]; 4];
    run_devices(&module, &arguments, 4, 1, &Options::default()).expect("the interpreter runs it");
    // Of small whole numbers all sums are exact.
    let options = CompileOptions { strict_rounding: true, ..CompileOptions::default() };
    match check(&module, Grid { replicas: 4, partitions: 1 }, 3, &options) {
        Outcome::Agrees => {}
        Outcome::Unsupported(what) | Outcome::Differs(what) => panic!("{what}"),
        Outcome::Endless => panic!("no end"),
    }
}

/// Elements of all values of a module that the interpreter runs in a test.
const LARGEST: usize = 1 << 22;

#[test]
fn the_corpus_of_modules_agrees() {
    let Some(folder) = std::env::var_os("BROLGA_CONFORMANCE") else {
        eprintln!(
            "BROLGA_CONFORMANCE does not name the conformance corpus: its modules for several devices are SKIPPED"
        );
        return;
    };
    let options = CompileOptions { strict_rounding: true, ..CompileOptions::default() };
    let (mut agree, mut unsupported, mut endless, mut different) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut large = Vec::new();
    for source in corpus::sources(Path::new(&folder)).expect("the corpus is there") {
        for case in corpus::read(&source).expect("the corpus is readable") {
            if case.suite != "xla_parse" {
                continue;
            }
            let Some(text) = case.files.get("module.hlo").and_then(|b| std::str::from_utf8(b).ok()) else { continue };
            let Ok(module) = text::parse(text) else { continue };
            let grid = Grid::needed(&module);
            let collective = module.order.iter().any(|&c| {
                let computation = &module.computations[c];
                computation.order.iter().any(|&i| computation.instructions[i].opcode.category() == Category::Collective)
            });
            if !collective || !(2..=8).contains(&grid.devices()) {
                continue;
            }
            let elements = |c: &brolga_compiler::hlo::Computation| -> usize {
                let leaves = c.order.iter().flat_map(|&i| c.instructions[i].shape.leaves());
                leaves.filter_map(|s| s.as_array()?.checked_elements()).sum()
            };
            if module.order.iter().map(|&c| elements(&module.computations[c])).sum::<usize>() > LARGEST {
                large.push(case.id());
                continue;
            }
            match check(&module, grid, 1, &options) {
                Outcome::Agrees => agree += 1,
                Outcome::Unsupported(what) => unsupported.push(format!("{}: {what}", case.id())),
                // Such a module says what a loop looks like, and is none to run.
                Outcome::Endless => endless.push(case.id()),
                Outcome::Differs(message) => different.push(format!("{}: {message}", case.id())),
            }
        }
    }
    eprintln!("{agree} agree; without an end: {endless:?}; too large: {large:?}; not supported: {unsupported:#?}");
    assert!(different.is_empty(), "{different:#?}");
    assert!(agree > 0 && unsupported.is_empty(), "{unsupported:#?}");
}

#[test]
fn a_program_runs_on_the_devices_it_was_compiled_for() {
    let text = "HloModule m, replica_count=2\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[4] all-gather(x), \
                replica_groups={}, dimensions={0}\n}\n";
    let program = compiled(text, &CompileOptions::default());
    let (x, y) = (floats(&[1.0, 2.0]), floats(&[3.0, 4.0]));
    let alone = program.run(&[&x]).expect_err("one device is not two");
    assert_eq!(
        alone.to_string(),
        "the program was compiled for 2 replicas of 1 partitions, and runs on one device alone"
    );
    let arguments = [vec![&x], vec![&y]];
    let wrong = Devices::local(1, 2).and_then(|d| d.run(&program, &arguments, &RunOptions::default()));
    assert!(wrong.expect_err("partitions are no replicas").to_string().contains("runs on 1 x 2"));
    let results = Devices::local(2, 1).and_then(|d| d.run(&program, &arguments, &RunOptions::default()));
    assert_eq!(results.expect("two devices"), vec![vec![floats(&[1.0, 2.0, 3.0, 4.0])]; 2]);
    assert!(Devices::local(0, 3).is_err() && Devices::local(1 << 40, 1 << 40).is_err());
}

#[test]
fn sessions_meet_again_and_again() {
    let text = "HloModule m, replica_count=2\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] \
                add(a, b)\n}\nENTRY e {\n  x = f32[3] parameter(0)\n  ROOT r = f32[3] all-reduce(x), replica_groups={}, \
                to_apply=add\n}\n";
    let program = compiled(text, &CompileOptions::default());
    let devices = Devices::local(2, 1).expect("two devices").connect();
    let last: Vec<ArrayLiteral> = std::thread::scope(|scope| {
        let threads: Vec<_> = devices
            .into_iter()
            .map(|device| {
                let program = &program;
                scope.spawn(move || {
                    let number = device.place().device as f32;
                    let options = RunOptions { device: Some(device), ..RunOptions::default() };
                    let mut session = program.session(&options).expect("a session");
                    for i in 0..1000 {
                        session.set_parameter(0, &floats(&[number, i as f32, 1.0])).expect("it fits");
                        session.call().expect("the devices meet");
                    }
                    session.result(0).expect("a result")
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    assert_eq!(last, [floats(&[1.0, 1998.0, 2.0]), floats(&[1.0, 1998.0, 2.0])]);
}

const SENDER: &str = "HloModule sender\nENTRY e {\n  x = f32[2] parameter(0)\n  t = token[] after-all()\n  s = (f32[2], u32[], \
                      token[]) send(x, t), channel_id=4\n  d = token[] send-done(s), channel_id=4\n  ROOT r = f32[2] add(x, \
                      x)\n}\n";

fn receiver(channel: u32) -> String {
    format!(
        "HloModule receiver\nENTRY e {{\n  t = token[] after-all()\n  r = (f32[2], u32[], token[]) recv(t), \
         channel_id={channel}\n  d = (f32[2], token[]) recv-done(r), channel_id={channel}\n  v = f32[2] \
         get-tuple-element(d), index=0\n  ROOT n = f32[2] negate(v)\n}}\n"
    )
}

#[test]
fn programs_exchange_over_channels() {
    let options = CompileOptions { devices: Some(Grid { replicas: 2, partitions: 1 }), ..CompileOptions::default() };
    let (sender, receives) = (compiled(SENDER, &options), compiled(&receiver(4), &options));
    let devices = Devices::local(2, 1).expect("two devices");
    let x = floats(&[1.0, 2.0]);
    let results = devices.run_programs(&[&sender, &receives], &[vec![&x], vec![]], &RunOptions::default());
    assert_eq!(results.expect("it runs"), [vec![floats(&[2.0, 4.0])], vec![floats(&[-1.0, -2.0])]]);
    // A cycle: each waits for what the other would send afterwards.
    let waits = compiled(&receiver(5), &options);
    let cycle = devices.run_programs(&[&receives, &waits], &[vec![], vec![]], &RunOptions::default());
    let cycle = cycle.expect_err("nobody sends").to_string();
    assert!(cycle.contains("every device waits"), "{cycle}");
    let ended = devices.run_programs(&[&sender, &waits], &[vec![&x], vec![]], &RunOptions::default());
    let ended = ended.expect_err("nobody sends over channel 5").to_string();
    assert!(ended.contains("no device ever sends"), "{ended}");
}

#[test]
fn a_context_is_used_once() {
    let text = "HloModule m\nENTRY e {\n  t = token[] after-all()\n  r = (f32[2], u32[], token[]) recv(t), channel_id=4\n  d \
                = (f32[2], token[]) recv-done(r), channel_id=4\n  a = (f32[2], token[]) recv-done(r), channel_id=4\n  x = \
                f32[2] get-tuple-element(d), index=0\n  y = f32[2] get-tuple-element(a), index=0\n  ROOT z = f32[2] add(x, \
                y)\n}\n";
    let module = text::parse(text).expect("the program parses");
    let refused = compile(
        &module,
        &CompileOptions { devices: Some(Grid { replicas: 2, partitions: 1 }), ..CompileOptions::default() },
    );
    assert!(refused.is_err_and(|e| e.to_string().contains("recv.context")));
    // The interpreter meets the second use when the first has been answered.
    let pairs = "channel_id=4, frontend_attributes={_xla_send_recv_source_target_pairs=\"{{0,1},{1,0}}\"}";
    let send = "  c = f32[2] constant({1,2})\n  s = (f32[2], u32[], token[]) send(c, t), channel_id=4\n  e = token[] \
                send-done(s), channel_id=4\n  d = (";
    let ring = text.replace("  d = (", send).replace("channel_id=4", pairs);
    let ring = text::parse(&ring).expect("the program parses");
    let error = run_devices(&ring, &[vec![], vec![]], 2, 1, &Options::default()).expect_err("the context is gone");
    assert!(error.to_string().contains("used a second time"), "{error}");
}

/// Six all-reduces, each after a custom call that is told its number and the replica.
fn steps(elements: [usize; 6]) -> String {
    let mut body = String::from("  x = f32[8] parameter(0)\n  i = u32[] replica-id()\n");
    let mut last = "x".to_owned();
    for (k, n) in elements.into_iter().enumerate() {
        body += &format!(
            "  k{k} = u32[] constant({k})\n  c{k} = f32[8] custom-call({last}, k{k}, i), custom_call_target=\"step\"\n  \
             s{k} = f32[{n}] slice(c{k}), slice={{[0:{n}]}}\n  a{k} = f32[{n}] all-reduce(s{k}), replica_groups={{}}, \
             to_apply=add\n  z{k} = f32[] constant(0)\n  p{k} = f32[8] pad(a{k}, z{k}), padding=0_{}\n",
            8 - n
        );
        last = format!("p{k}");
    }
    let root = format!("  ROOT r = f32[8] negate({last})\n");
    format!(
        "HloModule m, replica_count=3\nadd {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, \
         b)\n}}\nENTRY e {{\n{body}{root}}}\n"
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Panic,
    Error,
    Stop,
    Shape,
}

/// A device, what it saw of a fault, and after how long.
type Seen = (usize, Result<(), RunError>, Duration);

/// Loads a program whose custom calls fail as told, on device 1 at one of its steps.
fn faulty(object: &[u8], fault: Fault, at: u32, limit: Duration) -> Program {
    let mut calls = CustomCalls::new();
    calls.register("step", move |call: &mut CustomCall<'_>| {
        let number = |i: usize| call.operand::<u32>(i).map(|s| s.as_slice()[0]);
        let here = number(1)? == at && number(2)? == 1;
        match fault {
            Fault::Panic if here => panic!("by order"),
            Fault::Error if here => return Err("by order".into()),
            Fault::Stop if here => std::thread::sleep(4 * limit),
            _ => {}
        }
        let from = call.operand::<f32>(0)?;
        call.result_mut::<f32>(0)?.as_mut_slice().copy_from_slice(from.as_slice());
        Ok(())
    });
    let options = LoadOptions { custom_calls: Some(&calls), ..LoadOptions::default() };
    Program::from_object_with(object, &options).expect("the program loads")
}

#[test]
fn a_fault_on_one_device_is_an_error_on_all_within_the_limit() {
    let limit = Duration::from_millis(60);
    let devices = Devices::local(3, 1).expect("three devices").with_timeout(limit);
    let object = |elements| {
        let module = text::parse(&steps(elements)).expect("the program parses");
        compile(&module, &CompileOptions::default()).expect("it compiles").object
    };
    let right = object([8; 6]);
    let wrong: Vec<Vec<u8>> = (0..6)
        .map(|k| {
            let mut elements = [8; 6];
            elements[k] = 7;
            object(elements)
        })
        .collect();
    let x = floats(&[1.0; 8]);
    let mut rng = Rng::new(7);
    for run in 0..200 {
        let fault = rng.pick(&[Fault::Panic, Fault::Error, Fault::Shape, Fault::Panic, Fault::Shape, Fault::Stop]);
        let at = rng.below(6) as u32;
        let program = faulty(&right, fault, at, limit);
        let other = if fault == Fault::Shape { faulty(&wrong[at as usize], fault, at, limit) } else { program.clone() };
        let results: std::sync::Mutex<Vec<Seen>> = std::sync::Mutex::default();
        let outcome = devices.run_each(|device| {
            let number = device.place().device;
            let options = RunOptions { device: Some(device.clone()), ..RunOptions::default() };
            let start = Instant::now();
            let result = if number == 1 { &other } else { &program }.run_with(&[&x], &options).map(|_| ());
            results.lock().expect("no panic").push((number, result.clone(), start.elapsed()));
            result
        });
        assert!(outcome.is_err(), "run {run}: {fault:?} at {at} went by");
        let results = results.into_inner().expect("no panic");
        assert_eq!(results.len(), 3, "run {run}: {fault:?}");
        for (number, result, time) in results {
            assert!(result.is_err(), "run {run}: device {number} saw nothing of {fault:?} at {at}");
            assert!(
                number == 1 || time < 3 * limit,
                "run {run}: device {number} waited {time:?} for {fault:?} at {at}"
            );
        }
    }
    let program = faulty(&right, Fault::Error, 9, limit);
    let results = devices.run(&program, &[vec![&x], vec![&x], vec![&x]], &RunOptions::default());
    assert_eq!(results.expect("without a fault it runs"), vec![vec![floats(&[-729.0; 8])]; 3]);
}

#[test]
fn what_is_computed_between_start_and_done_does_not_wait() {
    // Device 1 comes to its start late; device 0 has computed by then, in its own custom call between start and done.
    let text = "HloModule m, replica_count=2\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] \
                add(a, b)\n}\nENTRY e {\n  x = f32[8] parameter(0)\n  i = u32[] replica-id()\n  k0 = u32[] constant(0)\n  \
                c0 = f32[8] custom-call(x, k0, i), custom_call_target=\"step\", custom_call_has_side_effect=true\n  s = \
                f32[8] all-reduce-start(c0), replica_groups={}, to_apply=add\n  k1 = u32[] constant(1)\n  c1 = f32[8] \
                custom-call(x, k1, i), custom_call_target=\"step\", custom_call_has_side_effect=true\n  d = f32[8] \
                all-reduce-done(s)\n  ROOT r = f32[8] add(d, c1)\n}\n";
    let module = text::parse(text).expect("the program parses");
    let artifact = compile(&module, &CompileOptions::default()).expect("it compiles");
    let pause = Duration::from_millis(300);
    let mut calls = CustomCalls::new();
    calls.register("step", move |call: &mut CustomCall<'_>| {
        let number = |i: usize| call.operand::<u32>(i).map(|s| s.as_slice()[0]);
        // Device 0 rests between start and done, device 1 before its start.
        if number(1)? != number(2)? {
            std::thread::sleep(pause);
        }
        let from = call.operand::<f32>(0)?;
        call.result_mut::<f32>(0)?.as_mut_slice().copy_from_slice(from.as_slice());
        Ok(())
    });
    let options = LoadOptions { custom_calls: Some(&calls), ..LoadOptions::default() };
    let program = Program::from_object_with(&artifact.object, &options).expect("the program loads");
    let x = floats(&[1.0; 8]);
    let start = Instant::now();
    let results = Devices::local(2, 1).and_then(|d| d.run(&program, &[vec![&x], vec![&x]], &RunOptions::default()));
    let time = start.elapsed();
    assert_eq!(results.expect("it runs"), vec![vec![floats(&[3.0; 8])]; 2]);
    assert!(time < 2 * pause, "the pauses followed each other: {time:?}");
}

/// A file that `tools/devices/export.py` wrote.
fn exported(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("devices").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn exported_text(name: &str) -> String {
    String::from_utf8(exported(name)).expect("text")
}

/// The elements of an `.npy` file of `f32`.
fn numbers(name: &str) -> Vec<f32> {
    let bytes = exported(name);
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[start..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn data_parallel_training_has_the_losses_of_the_whole_batch() {
    let stored: Vec<f32> = exported_text("losses.txt").lines().map(|l| l.parse().expect("a number")).collect();
    let (x, y) = (numbers("x.npy"), numbers("y.npy"));
    for replicas in [1usize, 2, 4] {
        let program = compiled(&exported_text(&format!("train_{replicas}.hlo")), &CompileOptions::default());
        let [r, p] = program.descriptor().devices;
        assert_eq!((r * p) as usize, replicas);
        let shape = |i: usize| program.descriptor().parameters[i].shape.dims.clone();
        let part = |all: &[f32], d: usize| {
            let n = all.len() / replicas;
            all[d * n..(d + 1) * n].to_vec()
        };
        let mut arguments: Vec<Vec<ArrayLiteral>> = (0..replicas)
            .map(|d| {
                let parts = [numbers("w1.npy"), numbers("b1.npy"), numbers("w2.npy"), part(&x, d), part(&y, d)];
                parts.iter().enumerate().map(|(i, a)| ArrayLiteral::from_elements(&shape(i), a)).collect()
            })
            .collect();
        let devices = Devices::local(r as usize, p as usize).expect("few devices");
        for (step, want) in stored.iter().enumerate() {
            let lent: Vec<Vec<&ArrayLiteral>> = arguments.iter().map(|a| a.iter().collect()).collect();
            let results = devices.run(&program, &lent, &RunOptions::default()).expect("a step");
            for (own, mut new) in arguments.iter_mut().zip(results) {
                let loss = new.pop().expect("a loss").as_slice::<f32>()[0];
                assert!(
                    (loss - want).abs() <= 1e-5,
                    "{replicas} replicas, step {step}: {loss}, one replica has {want}"
                );
                own.splice(..3, new);
            }
        }
    }
    assert!(stored.last() < stored.first());
}

#[test]
fn sharded_programs_of_jax_run() {
    let options = CompileOptions { strict_rounding: true, ..CompileOptions::default() };
    for name in ["layer_spmd.hlo", "shard_map.hlo", "train_2.hlo", "train_4.hlo"] {
        let module = text::parse(&exported_text(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let grid = Grid::needed(&module);
        assert!(grid.devices() > 1, "{name}");
        assert!(exported_text(name).contains("all-reduce"), "{name}");
        // Sums of products may differ in their last bits between the engines, so these are compared by value below.
        if name == "shard_map.hlo" {
            assert_eq!(check(&module, grid, 3, &options), Outcome::Agrees, "{name}");
        }
    }
    // relu(x w1) w2 over a mesh of 2 x 4, against the same in one piece.
    let program = compiled(&exported_text("layer_spmd.hlo"), &options);
    let value = |i: usize| ((i * 37 % 23) as f32 - 11.0) / 8.0;
    let [x, w1, w2] = [8 * 16, 16 * 32, 32 * 16].map(|n| (0..n).map(value).collect::<Vec<f32>>());
    let arguments: Vec<Vec<ArrayLiteral>> = (0..8)
        .map(|d| {
            let (batch, model) = (d / 4, d % 4);
            let columns: Vec<f32> = (0..16).flat_map(|r| w1[r * 32 + model * 8..][..8].to_vec()).collect();
            vec![
                ArrayLiteral::from_elements(&[4, 16], &x[batch * 64..][..64]),
                ArrayLiteral::from_elements(&[16, 8], &columns),
                ArrayLiteral::from_elements(&[8, 16], &w2[model * 128..][..128]),
            ]
        })
        .collect();
    let lent: Vec<Vec<&ArrayLiteral>> = arguments.iter().map(|a| a.iter().collect()).collect();
    let results = Devices::local(1, 8).and_then(|d| d.run(&program, &lent, &RunOptions::default())).expect("it runs");
    for (d, result) in results.iter().enumerate() {
        for (i, got) in result[0].as_slice::<f32>().iter().enumerate() {
            let (row, column) = (d / 4 * 4 + i / 16, i % 16);
            let hidden = |h: usize| (0..16).map(|k| f64::from(x[row * 16 + k] * w1[k * 32 + h])).sum::<f64>().max(0.0);
            let want: f64 = (0..32).map(|h| hidden(h) * f64::from(w2[h * 16 + column])).sum();
            assert!((f64::from(*got) - want).abs() < 1e-3, "device {d}, element {i}: {got}, want {want}");
        }
    }
}
