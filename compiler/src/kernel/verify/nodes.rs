//! The arguments and lanes of every operation.

use super::{Check, broken, require};
use crate::kernel::body::{Body, Lane, Node, NodeId, Op};

/// What the leaves of a body may be.
pub(super) struct Leaves<'a> {
    /// The lane of each argument.
    pub args: &'a [Lane],
    /// The lane of a row buffer that is read here.
    pub row: &'a dyn Fn(u32) -> Check<Lane>,
    /// The lane of a finished reduction.
    pub result: &'a dyn Fn(u32) -> Check<Lane>,
}

impl Leaves<'_> {
    /// Neither arguments nor rows nor results.
    pub(super) fn none() -> Leaves<'static> {
        Leaves {
            args: &[],
            row: &|row| broken("kernel.row", format!("row{row} is read where no row is")),
            result: &|r| broken("kernel.result", format!("r{r} is read where nothing is folded")),
        }
    }
}

/// Checks the nodes that `roots` need; says which they are.
pub(super) fn check_body(body: &Body, roots: &[NodeId], leaves: &Leaves<'_>) -> Check<Vec<bool>> {
    let nodes = body.nodes();
    let mut needed = vec![false; nodes.len()];
    for root in roots {
        match needed.get_mut(root.0 as usize) {
            Some(n) => *n = true,
            None => return broken("kernel.node", format!("there is no node %{}", root.0)),
        }
    }
    for i in (0..nodes.len()).rev() {
        if !needed[i] {
            continue;
        }
        let mut late = None;
        let mut uses = |n: NodeId| {
            if (n.0 as usize) < i {
                needed[n.0 as usize] = true;
            } else {
                late = Some(n);
            }
        };
        nodes[i].args.iter().for_each(|&a| uses(a));
        if let Op::Load(_, _, ix) | Op::Index(ix) = &nodes[i].op {
            ix.for_each_value(&mut uses);
        }
        if let Some(n) = late {
            return broken("kernel.node", format!("%{i} uses %{}, which is not defined before it", n.0));
        }
    }
    for (i, node) in nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
        let lane = lane_of(body, node, leaves).map_err(|b| super::Broken { what: format!("%{i}: {}", b.what), ..b })?;
        require(lane.is_none_or(|l| l == node.lane), "kernel.lane", || {
            format!("%{i} yields {}, not {}", lane.unwrap_or(node.lane), node.lane)
        })?;
    }
    Ok(needed)
}

/// The lane that a node yields by its operation and arguments; nothing where it names its own.
fn lane_of(body: &Body, node: &Node, leaves: &Leaves<'_>) -> Check<Option<Lane>> {
    let lanes: Vec<Lane> = node.args.iter().map(|&a| body.lane(a)).collect();
    let wrong = || broken("kernel.lane", format!("{:?} of {lanes:?} yields no {}", node.op, node.lane));
    let fits = |holds: bool, lane: Lane| if holds { Ok(Some(lane)) } else { wrong() };
    let is_int = |l: Lane| matches!(l, Lane::I32 | Lane::I64);
    let arity = match &node.op {
        Op::Const(_) | Op::Arg(_) | Op::Load(..) | Op::Row(_) | Op::Result(_) | Op::Index(_) => 0,
        Op::FNeg
        | Op::FAbs
        | Op::Sqrt
        | Op::Floor
        | Op::Ceil
        | Op::Trunc
        | Op::Nearest
        | Op::Not
        | Op::Clz
        | Op::Popcnt
        | Op::ShlImm(_)
        | Op::LShrImm(_)
        | Op::AShrImm(_)
        | Op::Bitcast
        | Op::SToF
        | Op::UToF
        | Op::FToS
        | Op::FToU
        | Op::FToSFast
        | Op::Promote
        | Op::Demote
        | Op::SExt
        | Op::UExt
        | Op::Wrap
        | Op::MaskCast
        | Op::MaskToInt => 1,
        Op::FAdd
        | Op::FSub
        | Op::FMul
        | Op::FDiv
        | Op::FMinPseudo
        | Op::FMaxPseudo
        | Op::IAdd
        | Op::ISub
        | Op::IMul
        | Op::SMulHi
        | Op::UMulHi
        | Op::SDiv
        | Op::UDiv
        | Op::SRem
        | Op::URem
        | Op::SMin
        | Op::SMax
        | Op::UMin
        | Op::UMax
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Shl
        | Op::LShr
        | Op::AShr
        | Op::FCmp(_)
        | Op::ICmp(_) => 2,
        Op::Fma | Op::Select => 3,
    };
    require(lanes.len() == arity, "kernel.arity", || format!("{:?} of {} arguments", node.op, lanes.len()))?;
    let first = lanes.first().copied().unwrap_or(node.lane);
    let alike = lanes.iter().all(|&l| l == first);
    match &node.op {
        Op::Const(bits) => {
            let fits = node.lane.bits() == 64 || *bits <= u64::from(u32::MAX);
            let truth = !node.lane.is_mask() || *bits <= 1;
            require(fits && truth, "kernel.lane", || format!("the constant {bits:#x} is no {}", node.lane))?;
            Ok(None)
        }
        Op::Arg(n) => match leaves.args.get(*n as usize) {
            Some(&lane) => Ok(Some(lane)),
            None => broken("kernel.node", format!("there is no argument {n}")),
        },
        Op::Load(_, mem, _) => Ok(Some(mem.lane())),
        Op::Row(row) => (leaves.row)(*row).map(Some),
        Op::Result(r) => (leaves.result)(*r).map(Some),
        Op::Index(_) => fits(is_int(node.lane), node.lane),
        Op::FNeg | Op::FAbs | Op::Sqrt | Op::Floor | Op::Ceil | Op::Trunc | Op::Nearest => {
            fits(first.is_float(), first)
        }
        Op::FAdd | Op::FSub | Op::FMul | Op::FDiv | Op::FMinPseudo | Op::FMaxPseudo | Op::Fma => {
            fits(alike && first.is_float(), first)
        }
        Op::Not => fits(!first.is_float(), first),
        Op::And | Op::Or | Op::Xor => fits(alike && !first.is_float(), first),
        Op::Clz | Op::Popcnt => fits(is_int(first), first),
        Op::ShlImm(by) | Op::LShrImm(by) | Op::AShrImm(by) => {
            fits(is_int(first) && u32::from(*by) < first.bits(), first)
        }
        Op::IAdd
        | Op::ISub
        | Op::IMul
        | Op::SMulHi
        | Op::UMulHi
        | Op::SDiv
        | Op::UDiv
        | Op::SRem
        | Op::URem
        | Op::SMin
        | Op::SMax
        | Op::UMin
        | Op::UMax
        | Op::Shl
        | Op::LShr
        | Op::AShr => fits(alike && is_int(first), first),
        Op::FCmp(_) => fits(alike && first.is_float(), first.mask()),
        Op::ICmp(_) => fits(alike && is_int(first), first.mask()),
        Op::Select => match lanes[..] {
            [mask, then, other] => fits(then == other && mask == then.mask(), then),
            _ => wrong(),
        },
        Op::Bitcast => fits(first.bits() == node.lane.bits() && !first.is_mask() && !node.lane.is_mask(), node.lane),
        Op::SToF | Op::UToF => fits(is_int(first) && node.lane.is_float(), node.lane),
        Op::FToS | Op::FToU => fits(first.is_float() && is_int(node.lane), node.lane),
        Op::FToSFast => fits(first == Lane::F32, Lane::I32),
        Op::Promote => fits(first == Lane::F32, Lane::F64),
        Op::Demote => fits(first == Lane::F64, Lane::F32),
        Op::SExt | Op::UExt => fits(first == Lane::I32, Lane::I64),
        Op::Wrap => fits(first == Lane::I64, Lane::I32),
        Op::MaskCast => fits(first.is_mask() && node.lane.is_mask(), node.lane),
        Op::MaskToInt => fits(first.is_mask(), first.integer()),
    }
}
