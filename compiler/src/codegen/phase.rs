//! The function of a phase, and what stands in it.

use super::address::Bases;
use super::attribution::Attribution;
use super::clif::signature;
use super::effort::Executed;
use super::fault::Faults;
use super::flow::{Flow, enter};
use super::lanes::Lanes;
use super::nest::{NestEmitter, WideRows};
use super::registers::emit_loop;
use super::sort;
use super::target::Target;
use crate::error::{Error, Result};
use crate::kernel::ir::{Nest, Phase};
use crate::object::Numbered;
use cranelift_codegen::ir::{Function, InstBuilder, UserFuncName, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::FuncId;
use hashbrown::HashMap;

/// `fn(buffers: *const *mut u8, begin: i64, end: i64, scratch: *mut u8, cx: *const Context)`, and what it executes where that is known.
/// Several phases follow each other, each of them whole, whatever `begin` and `end` are; registers are shared by the iterations of one, for
/// each loads the pointers of its buffers itself.
pub(super) fn phase_function(
    (id, attribution): (FuncId, Attribution),
    phases: &[Phase],
    target: &Target,
    mut wide: Option<&mut WideRows<'_>>,
) -> Result<(Function, Option<Executed>)> {
    let mut function = Function::with_name_signature(UserFuncName::User(id.external_name()), signature(5, false));
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    attribution.mark(&mut b, None);
    let values = enter(&mut b);
    let [buffers, begin, end, scratch] = [0, 1, 2, 3].map(|i| values[i]);
    let mut all = Some(Executed::default());
    for phase in phases {
        let bases = Bases::load(&mut b, buffers, &phase.buffers());
        let points = if phases.len() > 1 { (b.iconst(0), b.iconst(points(phase))) } else { (begin, end) };
        let wide = wide.as_deref_mut();
        let executed = emit_phase(&mut b, target, (phase, attribution), &bases, points, scratch, wide)?;
        all = all.zip(executed).map(|(mut all, executed)| {
            all.add(1, executed);
            all
        });
    }
    b.ins().return_(&[]);
    b.finalize(target.isa.frontend_config());
    Ok((function, all))
}

/// Points of a phase that its function counts: all of a nest.
pub(super) fn points(phase: &Phase) -> i64 {
    phase.as_nest().map_or(1, Nest::points)
}

/// Instructions for each element that is sorted, at least.
const SORTED: i64 = 16;

/// The loops of a phase, where they belong: its own function or the driver. `begin` and `end` are of its parallel space. What is
/// executed is counted of nests and sorts.
pub(super) fn emit_phase(
    b: &mut FunctionBuilder<'_>,
    target: &Target,
    (phase, attribution): (&Phase, Attribution),
    bases: &Bases,
    (begin, end): (Value, Value),
    scratch: Value,
    wide: Option<&mut WideRows<'_>>,
) -> Result<Option<Executed>> {
    let faults = Faults::default();
    attribution.mark(b, None);
    let mut lanes = Lanes { b, target, faults: &faults, attribution };
    let executed = match phase {
        Phase::Nest(nest) => {
            let emitter = NestEmitter::new(lanes, nest, (bases, scratch, HashMap::new()), wide);
            Some(emitter.run(begin, end))
        }
        Phase::Registers(l) => {
            emit_loop(&mut lanes, l, bases);
            None
        }
        Phase::Sort(s) => {
            sort::emit(lanes, s, bases, (begin, end), scratch);
            let mut executed = Executed::default();
            executed.add_own(s.points().saturating_mul(s.row.extent), SORTED);
            Some(executed)
        }
        Phase::Contraction(_) | Phase::Call(_) | Phase::RandomState { .. } => {
            return Err(Error::Internal("a phase that is no loop nest reached the emitter of nests".into()));
        }
    };
    faults.check().map(|()| executed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::target::TargetOptions;
    use crate::kernel::body::ScalarType;
    use crate::kernel::ir::Stage;
    use crate::kernel::{parse, verify};

    const SUMS: &str = "\
kernel sums (in0: f32[300], in1: s32[3]) -> (out0: f32[3])
  phase parallel i0 in 3
    stage vector i1 in 100
      %0 = load in0[100*i0 + i1] : f32
      fold r0 of %0 over i1, init 0.5, identity -0.0
        with (a0: f32, x0: f32)
          %1 = fadd a0, x0 : f32
          yield %1
    stage
      %0 = load in1[i0] : i32
      %1 = sext %0 : i64
      %2 = smax %1, 0 : i64
      %3 = smin %2, 299 : i64
      %4 = load in0[(%3 in 0..=299)] : f32
      %5 = fadd r0, %4 : f32
      store out0[i0] = %5 : f32
";

    /// What the checker of kernels says of a kernel that was changed, and what its emission does, unchecked.
    fn judged(change: impl FnOnce(&mut Nest)) -> (Result<()>, Result<()>) {
        let mut kernel = parse::parse(SUMS).unwrap_or_else(|e| panic!("{e:?}")).remove(0);
        let Some(Phase::Nest(nest)) = kernel.phases.first_mut() else { panic!("no nest") };
        change(nest);
        let levels = Target::levels(&TargetOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let attribution = Attribution::of_entry(None);
        let emitted = levels.iter().try_for_each(|target| {
            phase_function((FuncId::from_u32(0), attribution), &kernel.phases, target, None).map(|_| ())
        });
        (verify::verify(&kernel), emitted)
    }

    #[test]
    fn a_broken_kernel_that_nobody_checked_is_an_error_and_no_code() {
        assert_eq!(judged(|_| {}), (Ok(()), Ok(())));
        let argument = |stage: &mut Stage| stage.stores[0].value = stage.body.arg(7, ScalarType::F32);
        type Change<'c> = &'c dyn Fn(&mut Nest);
        let broken: [(Change<'_>, &str); 3] = [
            (&|nest| nest.parallel.clear(), "axis i0 runs in no loop around its use"),
            (&|nest| nest.stages.swap(0, 1), "result 0 is used before it is folded"),
            (&|nest| argument(&mut nest.stages[1]), "Arg(7) without arguments"),
        ];
        for (change, words) in broken {
            let (checked, emitted) = judged(change);
            assert!(matches!(checked, Err(Error::Internal(_))), "{words}: {checked:?}");
            let Err(Error::Internal(text)) = emitted else { panic!("{words}: it is emitted") };
            assert!(text.contains("code generation: ") && text.contains(words), "{words}: {text}");
        }
    }
}
