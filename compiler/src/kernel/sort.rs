//! Sorted rows: the structured kernel of `sort` and `topk`, and the keys that make it fast.
//!
//! **Problem.** A comparator is any computation on two elements of each operand; called for every comparison, or even
//! inlined there, it costs far more than a comparison of integers, and nothing but comparing can be done with it.
//!
//! **Invariant.** The result is the one of a bottom-up merge sort that starts from runs of one element and takes from the
//! right run only where its element comes before the left one's: stable where the comparator is a strict weak order, and
//! defined, a permutation, the same in every engine, where it is none. [`SortKey`] is given only where ordering unsigned
//! integers and keeping equal ones in their order gives that very result.
//!
//! **Algorithm.** [`key`] looks for a comparator that compares one function of each side's elements with `<` or `>`.
//! Arguments of the first element are renamed to those of the second: where the two sides are the same function, nodes
//! being unique, they become the same node. The function and what makes its values order as unsigned integers is the key.
//! A comparison of floats that knows no total order is no order where there is NaN: such a key says which elements are
//! unordered, and rows with one fall back to the comparator.

use super::body::{Body, FloatCond, IntCond, Mem, NodeId, Op, ScalarType};
use super::elementwise::total_order_key;
use super::index::{Ix, Loop};

/// One operand, or one part of an operand whose elements are several numbers.
#[derive(Clone, Debug)]
pub struct SortOperand {
    /// Memory form of an element.
    pub mem: Mem,
    /// The element in its memory form: a node of [`Sort::load`].
    pub value: NodeId,
    /// Where the sorted row goes: buffer number, and element offset in the parallel axes and the row's axis; nowhere
    /// where nobody wants it.
    pub store: Option<(u32, Ix)>,
}

/// Rows, each sorted on its own.
#[derive(Clone, Debug)]
pub struct Sort {
    /// The dimensions that are not sorted, outermost first.
    pub parallel: Vec<Loop>,
    /// The sorted dimension.
    pub row: Loop,
    /// The elements of the operands, in the parallel axes and the row's axis.
    pub load: Body,
    /// The operands, which are sorted together.
    pub operands: Vec<SortOperand>,
    /// So many elements of each sorted row are stored, from its start.
    pub keep: i64,
    /// Arguments `2k` and `2k + 1` are operand `k` of the first and the second element, in memory form.
    pub comparator: Body,
    /// The mask that says whether the first element comes before the second: a node of the comparator.
    pub before: NodeId,
    /// A key that orders elements as the comparator does, where there is one.
    pub key: Option<SortKey>,
}

/// An unsigned integer for each element, by which elements are ordered.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// Argument `k` is operand `k` of the element, in memory form.
    pub body: Body,
    /// The key: an unsigned integer of [`ScalarType::I32`] or [`ScalarType::I64`].
    pub root: NodeId,
    /// Its highest bits are zero from here on.
    pub bits: u32,
    /// The mask of elements that the comparator puts into no order: where a row has one, the key does not hold.
    pub unordered: Option<NodeId>,
}

impl Sort {
    /// Number of rows.
    pub fn points(&self) -> i64 {
        self.parallel.iter().map(|l| l.extent).product()
    }
}

/// What the nodes that `root` follows from say about its arguments: whether any has an even number, whether any an odd.
fn sides(body: &Body, root: NodeId) -> (bool, bool) {
    let (mut even, mut odd) = (false, false);
    for (node, needed) in body.nodes().iter().zip(body.needed([root])) {
        if let (Op::Arg(n), true) = (&node.op, needed) {
            even |= n % 2 == 0;
            odd |= n % 2 == 1;
        }
    }
    (even, odd)
}

/// Bits of a node read as an unsigned integer; those above are zero.
fn unsigned_bits(body: &Body, id: NodeId, mems: &[Mem]) -> u32 {
    let node = body.node(id);
    match node.op {
        Op::MaskToInt => 1,
        Op::Arg(k) => match mems.get(k as usize) {
            Some(Mem::U8) => 8,
            Some(Mem::U16) => 16,
            _ => node.scalar.bits(),
        },
        _ => node.scalar.bits(),
    }
}

/// Bits of a node read as a signed integer; those above repeat the sign.
fn signed_bits(body: &Body, id: NodeId, mems: &[Mem]) -> u32 {
    let node = body.node(id);
    match node.op {
        Op::Arg(k) => match mems.get(k as usize) {
            Some(Mem::S8) => 8,
            Some(Mem::S16) => 16,
            _ => node.scalar.bits(),
        },
        _ => node.scalar.bits(),
    }
}

/// An unsigned integer that orders as the signed one does, and its bits.
fn from_signed(body: &mut Body, id: NodeId, bits: u32) -> NodeId {
    let scalar = body.scalar(id);
    if bits < 32 {
        let half = body.int(scalar, 1 << (bits - 1));
        return body.iadd(id, half);
    }
    let top = body.bits(scalar, 1 << (scalar.bits() - 1));
    body.xor(id, top)
}

/// The key of a comparator, where it has one; `mems` are the memory forms of the operands.
pub fn key(comparator: &Body, before: NodeId, mems: &[Mem]) -> Option<SortKey> {
    let node = comparator.node(comparator.uncast(before));
    let &[a, b] = node.args.as_slice() else { return None };
    let descending = match (&node.op, sides(comparator, a), sides(comparator, b)) {
        (op, (true, false), (false, true)) => is_greater(op)?,
        (op, (false, true), (true, false)) => !is_greater(op)?,
        _ => return None,
    };
    let mut body = Body::new();
    let scalars: Vec<ScalarType> = mems.iter().map(|m| m.scalar()).collect();
    let args: Vec<NodeId> =
        scalars.iter().enumerate().flat_map(|(k, &l)| [body.arg(k as u32, l), body.arg(k as u32, l)]).collect();
    let side = |body: &mut Body, n| body.inline(comparator, &args, &[n])?.first().copied();
    let (value, other) = (side(&mut body, a)?, side(&mut body, b)?);
    if value != other {
        return None;
    }
    let scalar = body.scalar(value);
    let (ascending, bits, unordered) = match node.op {
        Op::ICmp(IntCond::ULt | IntCond::UGt) => (value, unsigned_bits(&body, value, mems), None),
        Op::ICmp(_) => {
            let bits = signed_bits(&body, value, mems);
            (from_signed(&mut body, value, bits), bits, None)
        }
        _ => {
            let zero = body.float(scalar, 0.0);
            let is_zero = body.fcmp(FloatCond::Eq, value, zero);
            let one_zero = body.select(is_zero, zero, value);
            let total = total_order_key(&mut body, one_zero);
            let unordered = body.fcmp(FloatCond::Uno, value, value);
            (from_signed(&mut body, total, scalar.bits()), scalar.bits(), Some(unordered))
        }
    };
    let root = match descending {
        false => ascending,
        true if bits == scalar.bits() => body.not(ascending),
        true => {
            let largest = body.int(scalar, (1 << bits) - 1);
            body.isub(largest, ascending)
        }
    };
    Some(SortKey { body, root, bits, unordered })
}

/// Whether a comparison is «greater» (and not «less»); nothing for one that is neither.
fn is_greater(op: &Op) -> Option<bool> {
    match op {
        Op::ICmp(IntCond::SLt | IntCond::ULt) | Op::FCmp(FloatCond::Lt) => Some(false),
        Op::ICmp(IntCond::SGt | IntCond::UGt) | Op::FCmp(FloatCond::Gt) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::kernel::eval;

    /// The key of `x < y` or `x > y` of argument 0 in a scalar type.
    fn plain(mem: Mem, op: Op) -> Option<SortKey> {
        let mut b = Body::new();
        let (x, y) = (b.arg(0, mem.scalar()), b.arg(1, mem.scalar()));
        let before = b.push(op, &[x, y], mem.scalar().mask());
        key(&b, before, &[mem])
    }

    fn keys(k: &SortKey, elements: &[u64]) -> Vec<u64> {
        elements.iter().map(|&e| eval::eval(k.body.nodes(), &[e])[k.root.0 as usize].unwrap()).collect()
    }

    #[test]
    fn keys_order_as_the_comparison_does() {
        let bytes: Vec<u64> = [-128i32, -3, 0, 5, 127].iter().map(|&v| u64::from(v as u32)).collect();
        let up = plain(Mem::S8, Op::ICmp(IntCond::SLt)).unwrap();
        assert_eq!((keys(&up, &bytes), up.bits), (vec![0, 125, 128, 133, 255], 8));
        let down = plain(Mem::S8, Op::ICmp(IntCond::SGt)).unwrap();
        assert_eq!(keys(&down, &bytes), [255, 130, 127, 122, 0]);
        let floats = [f32::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-40, 7.0].map(|v| u64::from(v.to_bits()));
        let up = plain(Mem::F32, Op::FCmp(FloatCond::Lt)).unwrap();
        let k = keys(&up, &floats);
        assert!(k.is_sorted() && k[2] == k[3] && k[3] < k[4] && up.unordered.is_some(), "{k:?}");
        let down = keys(&plain(Mem::F32, Op::FCmp(FloatCond::Gt)).unwrap(), &floats);
        assert!(down.iter().rev().is_sorted(), "{down:?}");
    }

    #[test]
    fn sides_may_be_exchanged_but_must_be_one_function() {
        let mut b = Body::new();
        let (x, y) = (b.arg(0, ScalarType::I32), b.arg(1, ScalarType::I32));
        let exchanged = b.icmp(IntCond::ULt, y, x);
        let k = key(&b, exchanged, &[Mem::I32]).unwrap();
        assert_eq!(keys(&k, &[1, 2]), [u64::from(u32::MAX - 1), u64::from(u32::MAX - 2)]);
        let one = b.i32(1);
        let more = b.iadd(y, one);
        let uneven = b.icmp(IntCond::ULt, x, more);
        assert!(key(&b, uneven, &[Mem::I32]).is_none());
        let mixed = b.iadd(x, y);
        let mixed = b.icmp(IntCond::ULt, mixed, y);
        assert!(key(&b, mixed, &[Mem::I32]).is_none());
        let not_strict = b.icmp(IntCond::ULe, x, y);
        assert!(key(&b, not_strict, &[Mem::I32]).is_none());
    }
}
