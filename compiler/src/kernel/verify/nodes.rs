//! The arguments and scalar types of every operation.

use super::{Check, broken, require};
use crate::kernel::body::{Body, Node, NodeId, Op, ScalarType};

/// What the leaves of a body may be.
pub(super) struct Leaves<'a> {
    /// The scalar type of each argument.
    pub args: &'a [ScalarType],
    /// The scalar type of a row buffer that is read here.
    pub row: &'a dyn Fn(u32) -> Check<ScalarType>,
    /// The scalar type of a finished reduction.
    pub result: &'a dyn Fn(u32) -> Check<ScalarType>,
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
    if let Some(root) = roots.iter().find(|r| r.0 as usize >= nodes.len()) {
        return broken("kernel.node", format!("there is no node %{}", root.0));
    }
    let needed = body.needed(roots.iter().copied());
    for (i, node) in nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
        let mut late = None;
        node.for_each_use(&mut |n| {
            if n.0 as usize >= i {
                late = Some(n);
            }
        });
        if let Some(n) = late {
            return broken("kernel.node", format!("%{i} uses %{}, which is not defined before it", n.0));
        }
        let scalar =
            type_of(body, node, leaves).map_err(|b| super::Broken { what: format!("%{i}: {}", b.what), ..b })?;
        require(scalar.is_none_or(|l| l == node.scalar), "kernel.type", || {
            format!("%{i} yields {}, not {}", scalar.unwrap_or(node.scalar), node.scalar)
        })?;
    }
    Ok(needed)
}

/// No operation takes more.
const MOST_ARGUMENTS: usize = 3;

/// The scalar type that a node yields by its operation and arguments; nothing where it names its own.
fn type_of(body: &Body, node: &Node, leaves: &Leaves<'_>) -> Check<Option<ScalarType>> {
    let mut scalars = [node.scalar; MOST_ARGUMENTS];
    require(node.args.len() <= scalars.len(), "kernel.arity", || {
        format!("{:?} of {} arguments", node.op, node.args.len())
    })?;
    let scalars = &mut scalars[..node.args.len()];
    scalars.iter_mut().zip(&node.args).for_each(|(scalar, &a)| *scalar = body.scalar(a));
    let scalars = &*scalars;
    let first = scalars.first().copied().unwrap_or(node.scalar);
    let alike = scalars.iter().all(|&l| l == first);
    let is_int = |l: ScalarType| matches!(l, ScalarType::I32 | ScalarType::I64);
    let takes = |arity: usize| {
        require(scalars.len() == arity, "kernel.arity", || format!("{:?} of {} arguments", node.op, scalars.len()))
    };
    let fits = |arity: usize, holds: bool, scalar: ScalarType| {
        takes(arity)?;
        require(holds, "kernel.type", || format!("{:?} of {scalars:?} yields no {}", node.op, node.scalar))?;
        Ok(Some(scalar))
    };
    match &node.op {
        Op::Const(bits) => {
            takes(0)?;
            let fits = node.scalar.bits() == 64 || *bits <= u64::from(u32::MAX);
            let truth = !node.scalar.is_mask() || *bits <= 1;
            require(fits && truth, "kernel.type", || format!("the constant {bits:#x} is no {}", node.scalar))?;
            Ok(None)
        }
        Op::Arg(n) => match leaves.args.get(*n as usize) {
            Some(&scalar) => fits(0, true, scalar),
            None => broken("kernel.node", format!("there is no argument {n}")),
        },
        Op::Load(_, mem, _) => fits(0, true, mem.scalar()),
        Op::Row(row) => fits(0, true, (leaves.row)(*row)?),
        Op::Result(r) => fits(0, true, (leaves.result)(*r)?),
        Op::Index(_) => fits(0, is_int(node.scalar), node.scalar),
        Op::FNeg | Op::FAbs | Op::Sqrt | Op::Floor | Op::Ceil | Op::Trunc | Op::Nearest => {
            fits(1, first.is_float(), first)
        }
        Op::Not => fits(1, !first.is_float(), first),
        Op::Clz | Op::Popcnt => fits(1, is_int(first), first),
        Op::ShlImm(by) | Op::LShrImm(by) | Op::AShrImm(by) => {
            fits(1, is_int(first) && u32::from(*by) < first.bits(), first)
        }
        Op::Bitcast => {
            fits(1, first.bits() == node.scalar.bits() && !first.is_mask() && !node.scalar.is_mask(), node.scalar)
        }
        Op::SToF | Op::UToF => fits(1, is_int(first) && node.scalar.is_float(), node.scalar),
        Op::FToS | Op::FToU => fits(1, first.is_float() && is_int(node.scalar), node.scalar),
        Op::FToSFast => fits(1, first == ScalarType::F32, ScalarType::I32),
        Op::Promote => fits(1, first == ScalarType::F32, ScalarType::F64),
        Op::Demote => fits(1, first == ScalarType::F64, ScalarType::F32),
        Op::SExt | Op::UExt => fits(1, first == ScalarType::I32, ScalarType::I64),
        Op::Wrap => fits(1, first == ScalarType::I64, ScalarType::I32),
        Op::MaskCast => fits(1, first.is_mask() && node.scalar.is_mask(), node.scalar),
        Op::MaskToInt => fits(1, first.is_mask(), first.integer()),
        Op::FAdd | Op::FSub | Op::FMul | Op::FDiv | Op::FMinPseudo | Op::FMaxPseudo => {
            fits(2, alike && first.is_float(), first)
        }
        Op::And | Op::Or | Op::Xor => fits(2, alike && !first.is_float(), first),
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
        | Op::AShr => fits(2, alike && is_int(first), first),
        Op::FCmp(_) => fits(2, alike && first.is_float(), first.mask()),
        Op::ICmp(_) => fits(2, alike && is_int(first), first.mask()),
        Op::Fma => fits(3, alike && first.is_float(), first),
        Op::Select => {
            takes(3)?;
            let (mask, then, other) = (scalars[0], scalars[1], scalars[2]);
            fits(3, then == other && mask == then.mask(), then)
        }
    }
}
