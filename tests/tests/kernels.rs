//! Kernels written by hand, in `tests/kernels`: the kernel interpreter, the same with rows that go by as they are planned, rows
//! of single elements and 128-bit registers, rows in registers of 256 and 512 bits, and those without fused multiply-add give
//! the same bits.

use brolga_compiler::codegen::rows::{Access, RowLoop, Segment, Width};
use brolga_compiler::codegen::target::TargetOptions;
use brolga_compiler::kernel::body::Variant;
use brolga_compiler::kernel::interp::{self, Machine, Plan, Visit};
use brolga_compiler::kernel::ir::{Kernel, Phase, Role, Stage};
use brolga_compiler::kernel::{parse, verify};
use brolga_compiler::{CompileOptions, compile_kernel, memory};
use brolga_runtime::{ArrayLiteral, Program};
use brolga_tests::compare::first_other_bits;
use brolga_tests::widths;
use std::path::Path;

/// Data that is neither small nor large, of any type, the same in every run.
fn input(ty: brolga_runtime::ElementType, elements: usize, seed: u64) -> ArrayLiteral {
    let shape = brolga_runtime::ArrayShape::new(ty, [elements as i64]);
    let mut out = ArrayLiteral::zeros(&shape);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let size = ty.byte_size();
    for element in out.bytes_mut().chunks_exact_mut(size) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = state >> 33;
        let number = (word % 4001) as f64 / 100.0 - 20.0;
        match (ty.is_float(), size) {
            (true, 4) => element.copy_from_slice(&(number as f32).to_le_bytes()),
            (true, 8) => element.copy_from_slice(&number.to_le_bytes()),
            // Small numbers among large ones: offsets and counts, and what overflows.
            _ if word.is_multiple_of(3) => element.copy_from_slice(&(word * word).to_le_bytes()[..size]),
            _ => element.copy_from_slice(&(word % 50).to_le_bytes()[..size]),
        }
    }
    out
}

/// Compares; how many compilations have code of more than 128 bits for a row.
fn check(kernel: &Kernel) -> usize {
    let mut with_wide_rows = 0;
    let name = &kernel.name;
    verify::verify(kernel).unwrap_or_else(|e| panic!("{e}"));
    // A body that asks for a fused multiply-add was made for a machine that has it.
    let fused = kernel.to_string().contains(" = fma ");
    let narrow = TargetOptions { cpu: Some("x86-64-v2".to_owned()), ..TargetOptions::default() };
    let wide = widths::targets().into_iter().map(|target| (target, Variant::Fma));
    for (target, variant) in wide.chain([(narrow, Variant::NoFma)]) {
        if fused && variant == Variant::NoFma {
            continue;
        }
        let mut wants = Vec::new();
        for wide_work in [u64::MAX, 0] {
            let options =
                CompileOptions { target: target.clone(), wide_work: Some(wide_work), ..CompileOptions::default() };
            let (schedule, object) = compile_kernel(kernel, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
            let inputs: Vec<ArrayLiteral> = (1..)
                .zip(&schedule.parameters)
                .map(|(k, v)| {
                    let shape = &schedule.values[*v].shape;
                    input(shape.ty, shape.elements(), k)
                })
                .collect();
            let leaves: Vec<&ArrayLiteral> = inputs.iter().collect();
            let bytes: Vec<&[u8]> = inputs.iter().map(ArrayLiteral::bytes).collect();
            let machine = Machine { variant, random: [0, 0], budget: 1 << 24 };
            let want = memory::run::run(&schedule, machine, &bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            with_wide_rows += usize::from(object.windows(5).any(|bytes| bytes == b".row0"));
            let program = Program::from_object(&object).unwrap_or_else(|e| panic!("{name}: {e}"));
            let got = program.run(&leaves).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(got.len(), want.len(), "{name}");
            for (n, (got, want)) in got.iter().zip(&want).enumerate() {
                let want = ArrayLiteral::from_bytes(got.shape(), want).unwrap_or_else(|| panic!("{name}: size"));
                assert!(want.bytes().iter().any(|&b| b != 0), "{name}: result {n} is all zeros and shows nothing");
                let other = first_other_bits(got, &want);
                assert_eq!(other, None, "{name}, {:?}, least work {wide_work}: result {n}", target.cpu);
            }
            wants.push(want);
        }
        assert_eq!(wants[0], wants[1], "{name}: the interpreter depends on the width");
    }
    with_wide_rows
}

/// A row as its plan has it: what is computed once is computed once, accesses walk, and elements go by in segments.
fn planned(stage: &Stage, wide: Option<Width>) -> Plan {
    let row = RowLoop::new(stage);
    row.verify().unwrap_or_else(|e| panic!("{e}\n{row}"));
    let access = |a: &Access| match a.walk.stride() {
        Some(stride) => interp::Access::Walk { start: a.start.clone(), stride },
        None => interp::Access::Index(a.start.clone()),
    };
    let segments = row.segments(wide);
    let elements = |s: &Segment| (s.begin..s.end).map(|element| (element, s.starts)).collect::<Vec<_>>();
    let elements = if row.has_elements() { segments.iter().flat_map(elements).collect() } else { vec![(0, true)] };
    Plan {
        visits: elements.into_iter().map(|(element, starts)| Visit { element, starts }).collect(),
        once: row.uniform().collect(),
        loads: row.loads.iter().map(|(id, a)| (*id, access(a))).collect(),
        stores: row.stores.iter().map(|a| a.as_ref().map(access)).collect(),
    }
}

/// The interpreter gives the same whether a row goes by one element after another or as its plan says.
fn check_plans(kernel: &Kernel) {
    let buffer = |(k, b): (usize, &brolga_compiler::kernel::ir::Buffer)| match b.role {
        Role::Input => input(b.ty, b.elements, k as u64 + 1).bytes().to_vec(),
        Role::Output | Role::Update { .. } | Role::Scratch => vec![0; b.elements * b.ty.byte_size()],
    };
    let buffers = || kernel.buffers.iter().enumerate().map(buffer).collect();
    let mut machine = Machine { variant: Variant::Fma, random: [0, 0], budget: 1 << 24 };
    let want = match interp::run(kernel, &mut machine, buffers()) {
        Ok(want) => want,
        // Calls leave the kernel, whatever the rows.
        Err(_) if kernel.phases.iter().any(|phase| matches!(phase, Phase::Call(_))) => return,
        Err(e) => panic!("{}: {e}", kernel.name),
    };
    for wide in [None, Some(Width::W256), Some(Width::W512)] {
        let got = interp::run_rows(kernel, &mut machine, buffers(), &|stage| planned(stage, wide));
        let got = got.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        assert!(got == want, "{}: rows in {wide:?}", kernel.name);
    }
}

#[test]
fn kernels_give_the_same_bits_at_every_width() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let (mut count, mut with_wide_rows) = (0, 0);
    for entry in std::fs::read_dir(&dir).expect("the folder of kernels") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let kernels = parse::parse(&text).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        with_wide_rows += kernels.iter().map(check).sum::<usize>();
        kernels.iter().for_each(check_plans);
        count += kernels.len();
    }
    assert!(count >= 20, "{count} kernels");
    let widths = widths::targets().len();
    assert!(
        with_wide_rows >= 10 * widths,
        "{with_wide_rows} compilations at {widths} levels have rows in wide registers"
    );
}

/// What a plan may have wrong, the interpreter sees: results are others, or nobody writes them.
#[test]
fn wrong_plans_give_other_results() {
    let text = "kernel scaled (in0: f32[40], in1: f32[3]) -> (out0: f32[120])
  phase
    stage sequential i1 in 3 vector i0 in 40
      %0 = load in0[i0] : f32
      %1 = load in1[i1] : f32
      %2 = fmul %0, %1 : f32
      store out0[40*i1 + i0] = %2 : f32
";
    let kernel = parse::parse(text).unwrap_or_else(|e| panic!("{e:?}")).remove(0);
    let run = |change: &dyn Fn(&mut Plan)| {
        let [a, b] =
            [(40, 1), (3, 2)].map(|(n, seed)| input(brolga_runtime::ElementType::F32, n, seed).bytes().to_vec());
        let mut machine = Machine { variant: Variant::Fma, random: [0, 0], budget: 1 << 24 };
        interp::run_rows(&kernel, &mut machine, vec![a, b, vec![0; 480]], &|stage| {
            let mut plan = planned(stage, Some(Width::W256));
            change(&mut plan);
            plan
        })
    };
    let want = run(&|_| {}).unwrap_or_else(|e| panic!("{e}"));
    let differs = |change: &dyn Fn(&mut Plan)| run(change).is_ok_and(|got| got != want);
    let refused = |change: &dyn Fn(&mut Plan)| run(change).is_err();
    assert!(!differs(&|plan| plan.once.clear()), "what may be computed once may be computed often");
    let ids = |plan: &Plan| plan.loads.keys().copied().collect::<Vec<_>>();
    assert!(differs(&|plan| plan.once.extend(ids(plan))), "a load that differs along the row");
    let walk = |plan: &mut Plan, to: i64| {
        for access in plan.loads.values_mut() {
            let interp::Access::Walk { stride, .. } = access else { panic!("a load that does not walk") };
            *stride = to;
        }
    };
    assert!(differs(&|plan| walk(plan, 0)) && refused(&|plan| walk(plan, 2)));
    assert!(refused(&|plan| plan.stores[0] = None), "stored once");
    assert!(refused(&|plan| plan.visits.truncate(39)), "an element is left out");
    assert!(refused(&|plan| plan.stores.clear()), "another stage's plan");
}

/// What an operation gives outside its domain, nothing may depend on: the interpreter sees whether something does.
#[test]
fn what_no_operation_gives_is_not_stored() {
    let with = |root: &str| {
        let text = format!(
            "kernel quotient (in0: s32[1], in1: s32[1]) -> (out0: s32[1])
  phase
    stage
      %0 = load in0[0] : i32
      %1 = load in1[0] : i32
      %2 = sdiv %0, %1 : i32
      %3 = icmp.eq %1, 0 : m32
      %4 = select %3, -1, %2 : i32
      %5 = imul %2, 0 : i32
      store out0[0] = {root} : i32
"
        );
        parse::parse(&text).unwrap_or_else(|e| panic!("{e:?}")).remove(0)
    };
    let run = |root: &str, divisor: i32| {
        let buffers = vec![7i32.to_le_bytes().to_vec(), divisor.to_le_bytes().to_vec(), vec![0; 4]];
        let mut machine = Machine { variant: Variant::Fma, random: [0, 0], budget: 1 << 10 };
        interp::run(&with(root), &mut machine, buffers).map(|b| b[2].clone())
    };
    assert_eq!(run("%2", 2), Ok(3i32.to_le_bytes().to_vec()));
    assert_eq!(run("%4", 2), Ok(3i32.to_le_bytes().to_vec()));
    assert_eq!(run("%4", 0), Ok((-1i32).to_le_bytes().to_vec()));
    for root in ["%2", "%5"] {
        let error = run(root, 0).expect_err("a quotient by zero");
        assert!(error.to_string().contains("has no value"), "{error}");
    }
}
