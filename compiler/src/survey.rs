//! A compiled program for people: which kernels it has, which instructions each computes and why it ends there, and when each
//! array lives where.
//!
//! Problem: all of that is known to the rooms that decide it, each in its own terms. Invariant: nothing is decided here: a survey
//! asks the same plan that the kernels were made from, and the same lifetimes that the memory was. Algorithm: kernels are found in
//! their computation's plan by the value that they write; what no group owns is computed inside those that use it.

use crate::Artifact;
use crate::error::Result;
use crate::fusion::{self, ComputationPlan, Ending, Group, GroupKind, Step as PlanStep};
use crate::hlo::{ComputationId, InstructionId, Opcode};
use crate::kernel::ir::Role;
use crate::memory::lifetimes::{Lifetime, lifetimes};
use crate::memory::schedule::{Definition, KernelId, Schedule, Step, ValueId};
use crate::proto::Origins;
use crate::text::{PrintOptions, print_instruction};
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// A program as people see it.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The kernels, in the order in which they stand.
    pub kernels: Vec<KernelSurvey>,
    /// The arrays.
    pub arrays: Vec<ArraySurvey>,
    /// Bytes of the workspace, without what each worker has besides.
    pub workspace: u64,
    /// The position behind everything.
    pub end: u32,
}

/// One kernel.
#[derive(Clone, Debug)]
pub struct KernelSurvey {
    /// Which.
    pub id: KernelId,
    /// Its name, which is that of an instruction.
    pub name: String,
    /// What kind: `rows`, `dot`, `sort`, ...
    pub kind: &'static str,
    /// When it runs.
    pub position: u32,
    /// The line of the program that it comes from, 0 where unknown.
    pub line: u32,
    /// The instructions that it computes.
    pub instructions: Vec<InstructionSurvey>,
    /// Of each value that it stores, why whoever uses it is not computed here too.
    pub endings: Vec<String>,
    /// Bytes of the arrays that it reads.
    pub reads: u64,
    /// Bytes of the arrays that it writes.
    pub writes: u64,
    /// The kernel IR.
    pub text: String,
}

/// One instruction of a kernel.
#[derive(Clone, Debug)]
pub struct InstructionSurvey {
    /// What it does.
    pub opcode: Opcode,
    /// It as HLO text.
    pub text: String,
    /// The file and line that its metadata name, `model.py:7`, where it says so.
    pub origin: Option<String>,
}

/// One array.
#[derive(Clone, Debug)]
pub struct ArraySurvey {
    /// The instruction that defines it, and `.K` for leaf K of one that yields several.
    pub name: String,
    /// Its shape.
    pub shape: String,
    /// When and where it lives.
    pub life: Lifetime,
}

/// Surveys a compiled program.
///
/// # Errors
/// Those of the rooms that are asked, which a program that was compiled does not give.
pub fn survey(artifact: &Artifact) -> Result<Survey> {
    let (module, schedule) = (&artifact.module, &artifact.schedule);
    let lives = lifetimes(schedule, &artifact.assignment)?;
    let mut plans: HashMap<ComputationId, (ComputationPlan, Vec<Vec<Ending>>)> = HashMap::new();
    let buffers: HashMap<KernelId, &[ValueId]> = kernel_buffers(schedule).collect();
    let (mut kernels, origins) = (Vec::new(), Origins::of(module));
    for &(id, position) in &lives.kernels {
        let kernel = &schedule.kernels[id];
        let values = buffers.get(&id).copied().unwrap_or_default();
        let bytes = |wanted: &dyn Fn(Role) -> bool| -> u64 {
            let all = kernel.buffers.iter().filter(|b| wanted(b.role));
            all.map(|b| b.elements as u64 * b.ty.byte_size() as u64).sum()
        };
        let mut entry = KernelSurvey {
            id,
            name: kernel.name.clone(),
            kind: "loop",
            position,
            line: kernel.line,
            instructions: Vec::new(),
            endings: Vec::new(),
            reads: bytes(&|role| role == Role::Input),
            writes: bytes(&|role| matches!(role, Role::Output | Role::Update { .. })),
            text: kernel.to_string(),
        };
        let stored = values.iter().zip(&kernel.buffers).find(|(_, b)| b.role != Role::Input).map(|(&v, _)| v);
        // One that stores nothing, such as what is sent to the host, knows its instruction itself.
        let Some((computation, source)) = stored.map(|v| schedule.values[v].source).or(kernel.source) else {
            kernels.push(entry);
            continue;
        };
        if let hashbrown::hash_map::Entry::Vacant(slot) = plans.entry(computation) {
            let plan = fusion::plan(module, computation)?;
            let endings = fusion::endings(module, computation, &plan)?;
            slot.insert((plan, endings));
        }
        let (plan, endings) = &plans[&computation];
        let number = plan.steps.iter().position(|step| match step {
            PlanStep::Group(group) => {
                group.members.contains(&source) || group.outputs.iter().any(|(id, _)| *id == source)
            }
            PlanStep::Control(id) => *id == source,
        });
        let name = |id: InstructionId| module.instruction(computation, id).name.as_str();
        if let Some(number) = number {
            let members = match &plan.steps[number] {
                PlanStep::Group(group) => {
                    entry.kind = kind(&group.kind);
                    computed(artifact, computation, plan, group)
                }
                // A loop in registers.
                PlanStep::Control(id) => BTreeSet::from([*id]),
            };
            let order = &module.computations[computation].order;
            let options = PrintOptions { large_constants: false, metadata: false, ..PrintOptions::default() };
            let one = |&id: &InstructionId| InstructionSurvey {
                opcode: module.instruction(computation, id).opcode,
                text: print_instruction(module, computation, id, &options),
                origin: origins
                    .place(module.instruction(computation, id))
                    .map(|(file, line, _)| format!("{file}:{line}")),
            };
            entry.instructions = order.iter().filter(|id| members.contains(id)).map(one).collect();
            let ending = |e: &Ending| match e.user {
                Some(user) => {
                    let opcode = module.instruction(computation, user).opcode;
                    format!("{} is stored for {} ({opcode}): {}", name(e.stored), name(user), e.reason)
                }
                None => format!("{} is stored: {}", name(e.stored), e.reason),
            };
            entry.endings = endings[number].iter().map(ending).collect();
        }
        kernels.push(entry);
    }
    let arrays = lives.arrays.into_iter().map(|life| array(artifact, life)).collect();
    Ok(Survey { kernels, arrays, workspace: artifact.assignment.workspace, end: lives.end })
}

fn kernel_buffers(schedule: &Schedule) -> impl Iterator<Item = (KernelId, &[ValueId])> {
    schedule.blocks.values().flat_map(|block| &block.steps).filter_map(|step| match step {
        Step::Kernel { kernel, buffers } => Some((*kernel, buffers.as_slice())),
        _ => None,
    })
}

fn array(artifact: &Artifact, life: Lifetime) -> ArraySurvey {
    let value = &artifact.schedule.values[life.value];
    let instruction = artifact.module.instruction(value.source.0, value.source.1);
    let name = match (value.leaf, value.definition) {
        (None, Definition::Step) => format!("scratch of {}", instruction.name),
        (Some(leaf), _) if instruction.shape.leaf_count() > 1 => format!("{}.{leaf}", instruction.name),
        _ => instruction.name.clone(),
    };
    ArraySurvey { name, shape: value.shape.to_string(), life }
}

/// The members of a group, and what is computed inside it because it is stored nowhere.
fn computed(
    artifact: &Artifact,
    computation: ComputationId,
    plan: &ComputationPlan,
    group: &Group,
) -> BTreeSet<InstructionId> {
    let computation = &artifact.module.computations[computation];
    let mut owned: BTreeSet<InstructionId> = BTreeSet::new();
    for step in &plan.steps {
        match step {
            PlanStep::Group(group) => owned.extend(&group.members),
            PlanStep::Control(id) => drop(owned.insert(*id)),
        }
    }
    let mut found: BTreeSet<InstructionId> = group.members.iter().copied().collect();
    let mut rest = group.members.clone();
    while let Some(id) = rest.pop() {
        for &operand in &computation.instructions[id].operands {
            let is_none = matches!(
                computation.instructions[operand].opcode,
                Opcode::Parameter | Opcode::Constant | Opcode::Tuple | Opcode::GetTupleElement
            );
            if !is_none && !owned.contains(&operand) && found.insert(operand) {
                rest.push(operand);
            }
        }
    }
    found
}

fn kind(kind: &GroupKind) -> &'static str {
    match kind {
        GroupKind::Rows { .. } => "rows",
        GroupKind::Columns { .. } => "columns",
        GroupKind::Reduce(_) => "reduction",
        GroupKind::Dot(_) => "product",
        GroupKind::Concatenate(_) => "concatenation",
        GroupKind::Pad(_) => "padding",
        GroupKind::DynamicUpdateSlice(_) | GroupKind::Scatter(_) => "update",
        GroupKind::ReduceWindow(_) => "windows",
        GroupKind::Convolution(_) => "convolution",
        GroupKind::Scan(_) => "scan",
        GroupKind::Call(_) => "call",
        GroupKind::Sort(_) | GroupKind::TopK(_) => "sort",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{CompileOptions, compile, text};

    fn of(body: &str) -> Survey {
        let module = text::parse(&format!("HloModule s\n\n{body}")).unwrap();
        survey(&compile(&module, &CompileOptions::default()).unwrap()).unwrap()
    }

    #[test]
    fn a_running_sum_ends_before_what_costs_much() {
        let survey = of("add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[8,300] parameter(0)
  zero = f32[] constant(0)
  s = f32[8,300] reduce-window(x, zero), window={size=1x300 pad=0_0x299_0}, to_apply=add
  ROOT r = f32[8,300] exponential(s)
}");
        let reason = "it costs too much for a kernel that takes one element after another";
        assert_eq!(survey.kernels[0].endings, [format!("s is stored for r (exponential): {reason}")]);
    }

    #[test]
    fn kernels_name_what_they_compute_and_why_they_end() {
        let survey = of("ENTRY e {
  x = f32[8,16] parameter(0)
  w = f32[16,16] parameter(1)
  a = f32[8,16] exponential(x)
  d = f32[8,16] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,16] tanh(d)
  ROOT r = f32[8,16] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}");
        let [first, second, third] = &survey.kernels[..] else { panic!("{:#?}", survey.kernels) };
        assert_eq!((first.kind, second.kind, third.kind), ("rows", "product", "product"));
        assert!(first.instructions[0].text.contains("exponential("), "{:?}", first.instructions);
        assert_eq!(first.endings, ["a is stored for d (dot): it reads the whole array, or changes it in place"]);
        assert_eq!((first.reads, first.writes), (512, 512));
        assert_eq!(second.instructions.iter().map(|i| i.opcode).collect::<Vec<_>>(), [Opcode::Dot, Opcode::Tanh]);
        assert_eq!(second.endings, ["b is stored for r (dot): it reads the whole array, or changes it in place"]);
        assert_eq!(third.endings, ["r is stored: the caller, a tuple or control flow takes the array"]);
        assert!(first.position < second.position && second.position < third.position && third.position < survey.end);
        // `a` lives from its kernel to the next.
        let a = survey.arrays.iter().find(|a| a.name == "a").unwrap();
        assert_eq!(a.life.ranges, [(first.position, second.position + 1)]);
    }

    #[test]
    fn loops_have_kernels_and_arrays_too() {
        let survey = of("body {
  p = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[64] get-tuple-element(p), index=1
  y = f32[64] cosine(x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[64]) tuple(j, y)
}
cond {
  p = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[64] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[64]) tuple(z, x)
  w = (s32[], f32[64]) while(t), condition=cond, body=body
  ROOT r = f32[64] get-tuple-element(w), index=1
}");
        assert!(survey.kernels.iter().any(|k| k.instructions.iter().any(|i| i.opcode == Opcode::Cos)), "{survey:#?}");
        assert!(survey.kernels.windows(2).all(|w| w[0].position < w[1].position));
        assert!(
            survey.arrays.iter().all(|a| a.life.ranges.iter().all(|(from, to)| from < to && *to <= survey.end + 1))
        );
    }
    #[test]
    fn what_is_sent_to_the_host_is_a_call() {
        let survey = of("ENTRY e {
  x = f32[8] parameter(0)
  t = token[] after-all()
  ROOT sent = token[] outfeed(x, t), outfeed_shape=f32[8]
}");
        let [kernel] = &survey.kernels[..] else { panic!("{:#?}", survey.kernels) };
        assert_eq!(kernel.kind, "call");
        assert_eq!(kernel.instructions.last().map(|i| i.opcode), Some(Opcode::Outfeed), "{kernel:#?}");
    }
}
