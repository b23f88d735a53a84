//! Every operation at the lowest level of x86-64 gives the bits that it gives with the instructions of higher ones.
//!
//! The lowest level has no instruction for rounding, for the smaller of two integers of most widths, for counting bits or for
//! taking parts of registers. Both programs are of the variant without fused multiply-adds: the level must not be seen in a result.
#![allow(clippy::unwrap_used)]
#![cfg(target_arch = "x86_64")]

use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::hlo::{Module, Opcode};
use brolga_compiler::object::read_descriptor;
use brolga_compiler::{CompileOptions, Error, compile, shape, text};
use brolga_runtime::abi::NumericVariant;
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Program, Scalar, Shape};
use brolga_tests::compare::first_other_bits;
use brolga_tests::operations::program;

const LEVELS: [(&str, &[&str]); 3] = [("x86-64", &[]), ("x86-64-v2", &[]), ("x86-64", &["+sse4.1"])];

fn compiled(module: &Module, cpu: &str, features: &[&str]) -> Result<Program, Error> {
    let features = features.iter().map(|f| f.to_string()).collect();
    let target = TargetOptions { cpu: Some(cpu.into()), features, ..TargetOptions::default() };
    let artifact = compile(module, &CompileOptions { target, ..CompileOptions::default() })?;
    Ok(Program::from_object(&artifact.object).unwrap())
}

/// Leaves of small numbers.
fn arguments(module: &Module) -> Vec<ArrayLiteral> {
    let entry = module.entry();
    let leaves = entry.parameters().into_iter().flat_map(|p| entry.instructions[p].shape.leaves());
    let value = |a: &ArrayShape| {
        let mut array = ArrayLiteral::zeros(&ArrayShape::new(a.ty, a.dims.clone()));
        for k in 0..array.elements() {
            let number = [1.0, -0.5, 2.5, 0.25, -3.75, 0.0][k % 6];
            let whole = a.ty.is_integer() || a.ty == ElementType::Pred;
            array.set(k, if whole { Scalar::Int(k as i64 % 3) } else { Scalar::Float(number) });
        }
        array
    };
    leaves.filter_map(Shape::as_array).map(value).collect()
}

#[test]
fn every_operation_compiles_at_the_lowest_level_to_the_same_bits() {
    let (mut same, mut failures) = (0, Vec::new());
    for &opcode in Opcode::ALL {
        for &ty in ElementType::ALL {
            let Some(module) = program(opcode, ty).and_then(|source| text::parse(&source).ok()) else { continue };
            if shape::verify(&module).is_err() {
                continue;
            }
            // What has no compiled form, or runs only among several devices.
            let Ok(reference) = compiled(&module, "x86-64-v3", &["-fma"]) else { continue };
            let arguments = arguments(&module);
            let arguments: Vec<&ArrayLiteral> = arguments.iter().collect();
            let want = reference.run(&arguments);
            for (cpu, features) in LEVELS {
                let got = match compiled(&module, cpu, features) {
                    Ok(program) => program.run(&arguments),
                    Err(error) => {
                        failures.push(format!("{opcode} of {ty} at {cpu}: {error}"));
                        continue;
                    }
                };
                match (&got, &want) {
                    (Ok(got), Ok(want)) => {
                        if got.iter().zip(want).any(|(g, w)| first_other_bits(g, w).is_some()) {
                            failures.push(format!("{opcode} of {ty} at {cpu}: {got:?}, of {want:?}"));
                        }
                        same += 1;
                    }
                    (Err(got), Err(want)) if got == want => {}
                    _ => failures.push(format!("{opcode} of {ty} at {cpu}: {got:?}, of {want:?}")),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(same > 3000, "{same}");
}

/// Where qemu and cross compilers are, `.ci/qemu` runs those for Linux too.
#[test]
fn every_operation_compiles_for_every_machine() {
    let triples = [
        "aarch64-unknown-linux-gnu",
        "riscv64gc-unknown-linux-gnu",
        "s390x-unknown-linux-gnu",
        "aarch64-apple-darwin",
        "x86_64-pc-windows-msvc",
        "aarch64-pc-windows-msvc",
    ];
    let (mut compiled, mut failures) = (0, Vec::new());
    for &opcode in Opcode::ALL {
        for ty in [ElementType::Pred, ElementType::U8, ElementType::S64, ElementType::F16, ElementType::F32] {
            let Some(module) = program(opcode, ty).and_then(|source| text::parse(&source).ok()) else { continue };
            if shape::verify(&module).is_err() || compile(&module, &CompileOptions::default()).is_err() {
                continue;
            }
            for triple in triples {
                let target = TargetOptions { triple: Some(triple.into()), ..TargetOptions::default() };
                match compile(&module, &CompileOptions { target, ..CompileOptions::default() }) {
                    // The base of the others has fused multiply-adds, as the default levels of x86-64 have.
                    Ok(artifact) => assert_eq!(artifact.descriptor.variant, NumericVariant::Fma, "{triple}"),
                    Err(error) => failures.push(format!("{opcode} of {ty} for {triple}: {error}")),
                }
                compiled += 1;
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(compiled > 1000, "{compiled}");
}

/// Whoever loads a program learns all that its level needs, what Cranelift has no name for too.
#[test]
fn a_descriptor_has_the_features_of_its_level() {
    let module = text::parse("HloModule m\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}").unwrap();
    for (cpu, features, named) in [("x86-64-v4", &[][..], "avx512bw"), ("x86-64-v3", &["+avxvnni"], "avxvnni")] {
        let target = TargetOptions {
            triple: Some("x86_64-unknown-linux-gnu".into()),
            cpu: Some(cpu.into()),
            features: features.iter().map(|f| f.to_string()).collect(),
            ..TargetOptions::default()
        };
        let artifact = compile(&module, &CompileOptions { target, ..CompileOptions::default() }).unwrap();
        let descriptor = read_descriptor(&artifact.object).unwrap();
        assert!(descriptor.features.to_string().split(',').any(|name| name == named), "{}", descriptor.features);
        assert_eq!(descriptor.levels, [descriptor.features]);
    }
}

/// A program of several levels is that of the one it runs; all of a list compute as the lowest must.
#[test]
fn levels_in_one_object_give_the_bits_of_each_alone() {
    let mut same = 0;
    for &opcode in Opcode::ALL {
        for ty in [ElementType::F32, ElementType::F64, ElementType::S32, ElementType::BF16, ElementType::C64] {
            let Some(module) = program(opcode, ty).and_then(|source| text::parse(&source).ok()) else { continue };
            if shape::verify(&module).is_err() {
                continue;
            }
            let arguments = arguments(&module);
            let arguments: Vec<&ArrayLiteral> = arguments.iter().collect();
            for (list, alone, features) in
                [("x86-64-v3,x86-64-v4", "x86-64-v3", &[][..]), ("x86-64-v4,x86-64", "x86-64-v3", &["-fma"][..])]
            {
                let Ok(want) = compiled(&module, alone, features) else { continue };
                let got = compiled(&module, list, &[]).unwrap();
                assert_eq!(got.descriptor().levels.len(), 2);
                assert_eq!(got.descriptor().features, got.descriptor().levels[0], "callers need the lowest only");
                assert_eq!(got.descriptor().variant, want.descriptor().variant, "{list}");
                match (got.run(&arguments), want.run(&arguments)) {
                    (Ok(got), Ok(want)) => {
                        let other = got.iter().zip(&want).find(|(g, w)| first_other_bits(g, w).is_some());
                        assert!(other.is_none(), "{opcode} of {ty} at {list}: {other:?}");
                        same += 1;
                    }
                    (got, want) => assert_eq!(got.is_err(), want.is_err(), "{opcode} of {ty} at {list}"),
                }
            }
        }
    }
    assert!(same > 700, "{same}");
}

#[test]
fn what_is_no_list_of_levels_is_refused_in_words() {
    let module = text::parse("HloModule m\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}").unwrap();
    for (cpu, want) in [
        ("x86-64-v3,native", "stands alone"),
        ("x86-64-v3,z80", "unknown CPU 'z80'"),
        ("", "unknown CPU ''"),
        ("x86-64-v3,", "unknown CPU ''"),
    ] {
        let error = compiled(&module, cpu, &[]).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Target(what) if what.contains(want)), "{cpu}: {error}");
    }
    let target = TargetOptions {
        variant: Some(NumericVariant::Fma),
        cpu: Some("x86-64,x86-64-v4".into()),
        ..TargetOptions::default()
    };
    let error = compile(&module, &CompileOptions { target, ..CompileOptions::default() }).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("fused"), "{error}");
}

/// Who runs a program at once may ask for the arithmetic of an object that runs elsewhere.
#[test]
fn the_variant_of_an_object_is_had_on_request() {
    let source = "HloModule m\nENTRY e {\n  a = f32[40,70] parameter(0)\n  b = f32[70,33] parameter(1)\n  \
                  d = f32[40,33] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  \
                  ROOT s = f32[40,33] sine(d)\n}";
    let module = text::parse(source).unwrap();
    let leaf = |rows: i64, columns: i64| {
        let values: Vec<f32> = (0..rows * columns).map(|k| ((k * 7919 % 1013) as f32 - 500.0) / 331.0).collect();
        ArrayLiteral::from_elements(&[rows, columns], &values)
    };
    let arguments = [leaf(40, 70), leaf(70, 33)];
    let run = |target: TargetOptions| {
        let object = compile(&module, &CompileOptions { target, ..CompileOptions::default() }).unwrap().object;
        let results = Program::from_object(&object).unwrap().run(&arguments.iter().collect::<Vec<_>>()).unwrap();
        results[0].as_slice::<f32>().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let of = |cpu: &str| TargetOptions { cpu: Some(cpu.into()), ..TargetOptions::default() };
    let elsewhere = run(of("x86-64"));
    assert_eq!(run(TargetOptions { variant: Some(NumericVariant::Plain), ..TargetOptions::native() }), elsewhere);
    if is_x86_feature_detected!("fma") {
        assert_ne!(run(TargetOptions::native()), elsewhere, "the variants differ");
    }
}

/// Halves, what lies beside integers, zeros of both signs, the greatest numbers with a fraction, and those without.
#[test]
fn roundings_without_an_instruction_are_exact() {
    let (edge32, edge64) = (f64::from(1u32 << 23), (1u64 << 52) as f64);
    let mut values = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -1e-40, 1e30, -1e30];
    for whole in [
        0.0,
        1.0,
        2.0,
        3.0,
        1023.0,
        edge32 / 2.0,
        edge32 - 1.0,
        edge32,
        edge32 + 1.0,
        edge64 / 2.0,
        edge64 - 1.0,
        edge64,
    ] {
        for fraction in [0.0, 0.25, 0.5, 0.75, 0.499_999_97, -0.499_999_97, 0.999_999_9, -0.5] {
            values.extend([whole + fraction, -(whole + fraction)]);
        }
    }
    let single: Vec<f32> = values.iter().map(|&v| v as f32).collect();
    // A length that leaves single elements over.
    let n = values.len() as i64;
    assert!(n % 4 != 0, "{n}");
    for (opcode, of32, of64) in [
        ("floor", f32::floor as fn(f32) -> f32, f64::floor as fn(f64) -> f64),
        ("ceil", f32::ceil, f64::ceil),
        ("round-nearest-even", f32::round_ties_even, f64::round_ties_even),
        ("round-nearest-afz", f32::round, f64::round),
    ] {
        let source = format!(
            "HloModule m\nENTRY e {{\n  x = f32[{n}] parameter(0)\n  y = f64[{n}] parameter(1)\n  a = f32[{n}] {opcode}(x)\n  \
             b = f64[{n}] {opcode}(y)\n  ROOT t = (f32[{n}], f64[{n}]) tuple(a, b)\n}}"
        );
        let module = text::parse(&source).unwrap();
        let arguments = [ArrayLiteral::from_elements(&[n], &single), ArrayLiteral::from_elements(&[n], &values)];
        let results = compiled(&module, "x86-64", &[]).unwrap().run(&arguments.iter().collect::<Vec<_>>()).unwrap();
        let same = |got: f64, want: f64| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        for (&x, &got) in single.iter().zip(results[0].as_slice::<f32>()) {
            assert!(same(got.into(), of32(x).into()), "{opcode}({x:?}) = {got:?} in f32, not {:?}", of32(x));
        }
        for (&x, &got) in values.iter().zip(results[1].as_slice::<f64>()) {
            assert!(same(got, of64(x)), "{opcode}({x:?}) = {got:?} in f64, not {:?}", of64(x));
        }
    }
}

/// A target without the instructions that a program needs is refused in words, and names that mean nothing there are too.
#[test]
fn other_machines_are_refused_in_words() {
    let module =
        text::parse("HloModule m\nENTRY e {\n  x = f32[16] parameter(0)\n  ROOT y = f32[16] sine(x)\n}").unwrap();
    let error = |triple: &str, cpu: Option<&str>, features: &[&str]| {
        let features = features.iter().map(|f| f.to_string()).collect();
        let target = TargetOptions { triple: Some(triple.into()), cpu: cpu.map(Into::into), features, variant: None };
        compile(&module, &CompileOptions { target, ..CompileOptions::default() }).map(|_| ()).unwrap_err()
    };
    for triple in [
        "aarch64_be-unknown-linux-gnu",
        "x86_64-unknown-linux-gnux32",
        "riscv64imac-unknown-none-elf",
        "riscv32gc-unknown-linux-gnu",
        "riscv64gc-pc-windows-msvc",
        "wasm32-wasip1",
    ] {
        let error = error(triple, None, &[]);
        let machine = triple.split('-').next().unwrap();
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(machine), "{triple}: {error}");
    }
    for (cpu, features) in [(Some("cortex-a72"), &[][..]), (None, &["+neon"])] {
        let error = error("aarch64-unknown-linux-gnu", cpu, features);
        assert!(matches!(error, Error::Target(_)), "{error}");
        assert!(error.to_string().contains("only x86-64 has such names"), "{error}");
    }
}
