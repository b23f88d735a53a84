//! Plans of rows written by hand: what they say, and what the checker refuses.

use super::{Access, Form, Mode, RowLoop, Segment, Walk, Width, passes};
use crate::kernel::body::NodeId;
use crate::kernel::index::Ix;
use crate::kernel::ir::{Kernel, Phase, Stage};
use crate::kernel::parse;

const COPIES: &str = "\
kernel copies (in0: f32[100], in1: s32[100]) -> (out0: f32[100], out1: f32[200])
  phase
    stage vector i0 in 100
      %0 = load in0[i0] : f32
      %1 = load in0[99 - i0] : f32
      %2 = load in1[i0] : i32
      %3 = sext %2 : i64
      %4 = load in0[(%3 in 0..=99)] : f32
      %5 = fadd %0, %1 : f32
      %6 = fadd %5, %4 : f32
      store out0[i0] = %6 : f32
      store out1[2*i0] = %5 : f32
      store out1[2*i0 + 1] = %6 : f32
";

/// The first stage of a kernel's first phase.
fn with_stage(text: &str, check: impl FnOnce(&Stage)) {
    let kernels = parse::parse(text).unwrap_or_else(|e| panic!("{e:?}"));
    let [Kernel { phases, .. }] = kernels.as_slice() else { panic!("not one kernel") };
    let Some(Phase::Nest(nest)) = phases.first() else { panic!("no nest") };
    check(&nest.stages[0]);
}

#[test]
fn accesses_walk_as_their_indices_do() {
    with_stage(COPIES, |stage| {
        let row = RowLoop::new(stage);
        let walks: Vec<Walk> = row.loads.values().map(|a| a.walk).collect();
        assert_eq!(walks, [Walk::Contiguous, Walk::Reversed, Walk::Contiguous, Walk::Gathered]);
        let stores: Vec<Option<Walk>> = row.stores.iter().map(|a| a.as_ref().map(|a| a.walk)).collect();
        assert_eq!(stores, [Some(Walk::Contiguous), Some(Walk::Strided(2)), Some(Walk::Strided(2))]);
        assert_eq!([0, 1, 2].map(|number| row.woven(number)), [1, 2, 1]);
        assert_eq!(row.verify(), Ok(()));
    });
}

#[test]
fn a_plan_is_printed() {
    with_stage(COPIES, |stage| {
        let text = RowLoop::new(stage).to_string();
        assert!(text.contains("  load %1: f32 of buffer 0, reversed from 99\n"), "{text}");
        assert!(text.contains("  store 2: f32 of buffer 3, by 2 from 1\n"), "{text}");
        assert!(text.ends_with("  0 to 96 by 32 in 256 bits\n  96 to 100 by 4 in vectors\n"), "{text}");
    });
}

fn sum(n: i64, identity: &str) -> String {
    format!(
        "\
kernel sum (in0: f32[{n}]) -> (out0: f32[1])
  phase
    stage vector i0 in {n}
      %0 = load in0[i0] : f32
      fold r0 of %0 over i0, init -0.0{identity}
        with (a0: f32, x0: f32)
          %1 = fadd a0, x0 : f32
          yield %1
    stage
      store out0[0] = r0 : f32
"
    )
}

fn segment(begin: i64, end: i64, iteration: i64, form: Form, starts: bool) -> Segment {
    Segment { begin, end, iteration, form, starts }
}

#[test]
fn lanes_are_iterations_and_tails_are_written_out() {
    with_stage(&sum(103, ", identity -0.0"), |stage| {
        let row = RowLoop::new(stage);
        assert_eq!(row.modes, [Mode::Vectors(8)]);
        let tail = [segment(96, 100, 4, Form::Vectors, false), segment(100, 103, 3, Form::Singles, false)];
        assert_eq!(
            row.segments(Some(Width::W256)),
            [&[segment(0, 96, 32, Form::Wide(Width::W256), false)], &tail[..]].concat()
        );
        assert_eq!(row.segments(None), [&[segment(0, 96, 32, Form::Vectors, false)], &tail[..]].concat());
        assert_eq!(row.verify(), Ok(()));
    });
    with_stage(&sum(103, ""), |stage| {
        let row = RowLoop::new(stage);
        assert_eq!(
            row.segments(Some(Width::W256))[0],
            segment(0, 32, 32, Form::Vectors, true),
            "the first elements start lanes"
        );
        assert_eq!(row.segments(Some(Width::W256))[1], segment(32, 96, 32, Form::Wide(Width::W256), false));
        assert_eq!(row.verify(), Ok(()));
    });
    with_stage(&sum(7, ", identity -0.0"), |stage| {
        let row = RowLoop::new(stage);
        assert_eq!(
            (row.modes.as_slice(), row.segments(None)),
            (&[Mode::Few][..], vec![segment(0, 7, 7, Form::Singles, false)])
        );
    });
}

/// Where registers have masks, the last iteration is what is left; lanes that the row does not fill are not begun there.
#[test]
fn masked_rows_have_no_tails() {
    with_stage(COPIES, |stage| {
        let row = RowLoop::new(stage);
        let whole = [segment(0, 100, 64, Form::Wide(Width::W512), false)];
        assert_eq!(row.segments(Some(Width::W512)), whole);
        assert_eq!(row.verify(), Ok(()));
        let cut = [segment(0, 100, 64, Form::Wide(Width::W256), false)];
        assert!(row.check_segments(&cut, Some(Width::W256)).expect_err("a cut iteration").contains("whole iterations"));
    });
    with_stage(&sum(103, ""), |stage| {
        let row = RowLoop::new(stage);
        let starts = segment(0, 32, 32, Form::Vectors, true);
        assert_eq!(row.segments(Some(Width::W512)), [starts, segment(32, 103, 32, Form::Wide(Width::W512), false)]);
        assert_eq!(row.verify(), Ok(()));
    });
    with_stage(&sum(20, ", identity -0.0"), |stage| {
        let row = RowLoop::new(stage);
        assert_eq!(row.wide_segment(Width::W512), None);
        assert_eq!(row.verify(), Ok(()));
    });
}

/// Elements that wait for memory wait as long in registers of any width.
#[test]
fn what_is_beyond_the_caches_goes_by_in_256_bits() {
    let text = |operations: usize| {
        let squares: String =
            (1..operations).map(|k| format!("      %{k} = fmul %{}, %{} : f32\n", k - 1, k - 1)).collect();
        let loads =
            "  phase parallel i0 in 4096\n    stage vector i1 in 1024\n      %0 = load in0[1024*i0 + i1] : f32\n";
        let head = "kernel row (in0: f32[4194304]) -> (out0: f32[4194304])\n";
        format!("{head}{loads}{squares}      store out0[1024*i0 + i1] = %{} : f32\n", operations - 1)
    };
    let widths = |operations: usize, points: i64| {
        let mut first = None;
        with_stage(&text(operations), |stage| {
            first = RowLoop::new(stage).in_points(points).widths(Width::W512).first().copied();
        });
        first
    };
    assert_eq!([widths(3, 4096), widths(3, 16)], [Some(Width::W256), Some(Width::W512)], "32 MiB and 128 KiB");
    assert_eq!(widths(20, 4096), Some(Width::W512), "much is computed");
}

#[test]
fn broken_plans_are_refused() {
    with_stage(&sum(103, ""), |stage| {
        let row = RowLoop::new(stage);
        let plan = row.segments(Some(Width::W256));
        let refused = |what: &str, change: &dyn Fn(&mut Vec<Segment>)| {
            let mut broken = plan.clone();
            change(&mut broken);
            let fault = row.check_segments(&broken, Some(Width::W256)).expect_err(what);
            assert!(fault.contains(what), "{fault}");
        };
        assert_eq!(row.check_segments(&plan, Some(Width::W256)), Ok(()));
        refused("end at", &|s| s.truncate(2));
        refused("does not follow", &|s| s[1].begin -= 32);
        refused("whole iterations", &|s| s[1].iteration = 36);
        refused("other lanes", &|s| s[1].iteration = 16);
        refused("cuts a register", &|s| s[2].iteration = 2);
        refused("start 32 lanes", &|s| s[0].starts = false);
        assert!(row.check_segments(&plan, None).expect_err("wide").contains("no code of its width"));
    });
    with_stage(COPIES, |stage| {
        let refused = |what: &str, change: &dyn Fn(&mut RowLoop<'_>)| {
            let mut row = RowLoop::new(stage);
            change(&mut row);
            let fault = row.verify().expect_err(what);
            assert!(fault.contains(what), "{fault}");
        };
        refused("computed once", &|row| row.varies.fill(false));
        refused("the load %0 has no access", &|row| drop(row.loads.remove(&NodeId(0))));
        refused("the load %2 has no access", &|row| row.loads.values_mut().for_each(|a| a.buffer = 0));
        refused("store 1 has no access", &|row| row.stores[1] = None);
        refused("2 accesses", &|row| drop(row.stores.pop()));
        let load = |row: &mut RowLoop<'_>, id: u32, change: &dyn Fn(&mut Access)| {
            row.loads.get_mut(&NodeId(id)).into_iter().for_each(change);
        };
        refused("by 2 from 0, but lies at i0", &|row| load(row, 0, &|a| a.walk = Walk::Strided(2)));
        refused("contiguous from 3, but lies at i0", &|row| load(row, 0, &|a| a.start = Ix::constant(3)));
        refused("the load %4 is", &|row| load(row, 4, &|a| a.start = a.start.offset(1)));
        refused("lies not", &|row| row.near.values_mut().for_each(|n| n.behind += 1));
    });
    // What a row holds differs from element to element.
    with_stage(KEPT, |stage| {
        let mut row = RowLoop::new(stage);
        assert_eq!(row.verify(), Ok(()));
        row.varies.fill(false);
        assert!(row.verify().expect_err("a row").contains("%0 is computed once"));
    });
    let modes = [Mode::Row, Mode::Few, Mode::Chain, Mode::Vectors(7), Mode::Vectors(8), Mode::Vectors(9)];
    let of = |n: i64, identity: &str| {
        let mut fit = Vec::new();
        with_stage(&sum(n, identity), |stage| {
            let fits = |mode: &Mode| RowLoop { modes: vec![*mode], ..RowLoop::new(stage) }.folds().is_ok();
            fit = modes.iter().copied().filter(fits).collect();
        });
        fit
    };
    assert_eq!(of(103, ", identity -0.0"), [Mode::Vectors(8)]);
    assert_eq!(of(7, ", identity -0.0"), [Mode::Few]);
    assert_eq!(of(20, ""), [Mode::Chain], "lanes that nothing starts");
}

/// The second stage of a nest alone: a row that another has written.
const KEPT: &str = "\
kernel kept (in0: f32[100]) -> (out0: f32[100])
  phase
    row buffer row0: f32[100]
    stage vector i0 in 100
      %0 = load row0[i0] : f32
      store out0[i0] = %0 : f32
";

/// Sums of four rows of a matrix, one of them of 64-bit lanes.
const SUMS: &str = "\
kernel sums (in0: f32[1024], in1: f64[256]) -> (out0: f32[3], out1: f64[1])
  phase
    stage vector i0 in 256
      %0 = load in0[i0] : f32
      %1 = load in0[i0 + 256] : f32
      %2 = load in0[i0 + 512] : f32
      %3 = load in1[i0] : f64
      fold r0 of %0 over i0, init 0.0, identity -0.0
        with (a0: f32, x0: f32)
          %4 = fadd a0, x0 : f32
          yield %4
      fold r1 of %1 over i0, init 0.0, identity -0.0
        with (a0: f32, x0: f32)
          %4 = fadd a0, x0 : f32
          yield %4
      fold r2 of %2 over i0, init 0.0, identity -0.0
        with (a0: f32, x0: f32)
          %4 = fadd a0, x0 : f32
          yield %4
      fold r3 of %3 over i0, init 0.0, identity -0.0
        with (a0: f64, x0: f64)
          %4 = fadd a0, x0 : f64
          yield %4
    stage
      store out0[0] = r0 : f32
      store out0[1] = r1 : f32
      store out0[2] = r2 : f32
      store out1[0] = r3 : f64
";

/// 32 lanes of 32 bits, or 16 of 64, are eight registers of 128 bits, four of 256 and two of 512.
#[test]
fn reductions_go_by_in_as_many_passes_as_registers_ask_for() {
    with_stage(SUMS, |stage| {
        assert_eq!(passes(stage, None), [0..1, 1..2, 2..3, 3..4]);
        assert_eq!(passes(stage, Some(Width::W256)), [0..2, 2..4]);
        assert_eq!(passes(stage, Some(Width::W512)).as_slice(), std::slice::from_ref(&(0..4)));
        let text = RowLoop::new(stage).to_string();
        assert!(text.contains("  in 256 bits: folds 0 to 1, then 2 to 3\n"), "{text}");
        // What is stored on the way would be stored by each pass.
        let (value, index) = (stage.accumulators[0].values[0], crate::kernel::index::Ix::constant(0));
        let store = crate::kernel::ir::Store { buffer: 2, mem: crate::kernel::body::Mem::F32, index, value };
        let stage = Stage { stores: vec![store], ..stage.clone() };
        assert_eq!(passes(&stage, None).as_slice(), std::slice::from_ref(&(0..4)));
    });
}
