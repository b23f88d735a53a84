//! Straight-line bodies: what a row loop computes for each element.
//!
//! A body is a list of nodes in single-assignment form. A node stands for «W elements of a scalar type»; the emitter
//! chooses W and splits it into registers. Only a few scalar types exist: narrow integers are carried in [`ScalarType::I32`]
//! (sign- or zero-extended, always in range), 16-bit and 8-bit floats in [`ScalarType::F32`], truth values in masks. Loads and
//! stores convert; everything between is primitive, so that an emitter needs no knowledge of HLO: transcendental
//! functions are expanded into these nodes by [`super::math`].

use super::eval::apply;
use super::index::Ix;
pub use super::index::NodeId;
pub use super::op::{Args, FloatCond, IntCond, Mem, Node, Op, PART, ScalarType};
use crate::hlo::InstructionId;
use brolga_runtime::ElementType;
use hashbrown::HashMap;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// Steps from an integer to what it is made of, in which its range is looked for: fewer than the verifier takes.
const DEPTH: u32 = 4;

/// A straight-line body; equal nodes are one node.
#[derive(Clone, Debug, Default)]
pub struct Body {
    nodes: Vec<Node>,
    /// The nodes by their hashes, ...
    known: HashTable<NodeId>,
    /// ... which are told apart by this.
    hashes: DefaultHashBuilder,
    /// See [`Body::set_stored`].
    stored: HashMap<NodeId, (ElementType, NodeId)>,
    /// See [`Body::source`].
    sources: Vec<Option<InstructionId>>,
    /// The source of nodes that are added.
    now: Option<InstructionId>,
}

/// Whether expansions may use fused multiply-add: the two numeric variants of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Variant {
    /// With FMA (the default target, x86-64-v3, and aarch64).
    #[default]
    Fma,
    /// Without.
    NoFma,
}

macro_rules! unary { ($($(#[$doc:meta])* $name:ident $op:ident;)*) => { $($(#[$doc])*
    pub fn $name(&mut self, a: NodeId) -> NodeId { let scalar = self.scalar(a); self.push(Op::$op, &[a], scalar) })* } }
macro_rules! binary { ($($(#[$doc:meta])* $name:ident $op:ident;)*) => { $($(#[$doc])*
    pub fn $name(&mut self, a: NodeId, b: NodeId) -> NodeId {
        debug_assert_eq!(self.scalar(a), self.scalar(b), stringify!($name));
        let scalar = self.scalar(a); self.push(Op::$op, &[a, b], scalar) })* } }

impl Body {
    /// An empty body.
    pub fn new() -> Body {
        Body::default()
    }

    /// An empty body with room for so many nodes.
    pub fn sized(nodes: usize) -> Body {
        Body {
            nodes: Vec::with_capacity(nodes),
            known: HashTable::with_capacity(nodes),
            sources: Vec::with_capacity(nodes),
            ..Body::default()
        }
    }

    /// All nodes, arguments before users.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Remembers that `value` is the element of type `ty` that memory holds as `raw`.
    pub fn set_stored(&mut self, value: NodeId, ty: ElementType, raw: NodeId) {
        self.stored.insert(value, (ty, raw));
    }

    /// What memory holds for `value` as an element of type `ty`, where it came from there or from the same bits.
    pub fn stored(&self, value: NodeId, ty: ElementType) -> Option<NodeId> {
        self.stored.get(&value).filter(|s| s.0 == ty).map(|s| s.1)
    }

    /// The instruction of the kernel's computation for which a node was added first, where one is known. It is for debuggers
    /// alone: nodes that differ in nothing else are one node.
    pub fn source(&self, id: NodeId) -> Option<InstructionId> {
        self.sources.get(id.0 as usize).copied().flatten()
    }

    /// Says what nodes are added for from now on; gives what was said before.
    pub fn set_source(&mut self, source: Option<InstructionId>) -> Option<InstructionId> {
        std::mem::replace(&mut self.now, source)
    }

    /// Says of all nodes, and of those that are added from now on, what they are for.
    pub fn attribute(&mut self, source: InstructionId) {
        self.sources.fill(Some(source));
        self.now = Some(source);
    }

    /// How many nodes are computed from others.
    pub fn operations(&self) -> usize {
        self.nodes.iter().filter(|n| !n.args.is_empty()).count()
    }

    /// The scalar type of a node.
    pub fn scalar(&self, id: NodeId) -> ScalarType {
        self.node(id).scalar
    }

    /// The bits of a constant node.
    pub fn constant_bits(&self, id: NodeId) -> Option<u64> {
        match self.node(id).op {
            Op::Const(bits) => Some(bits),
            _ => None,
        }
    }

    /// What a node clamps, an integer, and at which bound.
    pub fn clamp(&self, id: NodeId) -> Option<(NodeId, i64)> {
        let node = self.node(id);
        let (Op::SMax | Op::SMin, &[a, b]) = (&node.op, node.args.as_slice()) else { return None };
        self.bounded(a, b)
    }

    /// The one of two integers that is no constant, and the constant.
    fn bounded(&self, a: NodeId, b: NodeId) -> Option<(NodeId, i64)> {
        let (x, bits) = match (self.constant_bits(a), self.constant_bits(b)) {
            (Some(bits), None) => (b, bits),
            (None, Some(bits)) => (a, bits),
            _ => return None,
        };
        Some((x, if self.scalar(x) == ScalarType::I32 { i64::from(bits as i32) } else { bits as i64 }))
    }

    /// A number of 64 bits as it was before it got so many: of 32 bits, with a sign.
    pub fn unextended(&self, id: NodeId) -> Option<NodeId> {
        match (&self.node(id).op, self.node(id).args.as_slice()) {
            (Op::SExt, &[before]) => Some(before),
            _ => None,
        }
    }

    /// A truth value as it was before it got the width of what it chooses.
    pub fn uncast(&self, mask: NodeId) -> NodeId {
        match (&self.node(mask).op, self.node(mask).args.as_slice()) {
            (Op::MaskCast, &[before]) => self.uncast(before),
            _ => mask,
        }
    }

    /// As [`Body::push`], for a node that another instruction asked for, if one did.
    pub fn push_of(&mut self, source: Option<InstructionId>, op: Op, args: &[NodeId], scalar: ScalarType) -> NodeId {
        let now = self.now;
        self.now = source.or(now);
        let id = self.push(op, args, scalar);
        self.now = now;
        id
    }

    /// Adds a node, or finds the equal one. An operation on constants alone becomes its value, and one that changes nothing what it
    /// would have changed: a clamp of an index that lies within it, a choice that is made already.
    pub fn push(&mut self, op: Op, args: &[NodeId], scalar: ScalarType) -> NodeId {
        if let Some(same) = self.unchanged(&op, args) {
            return same;
        }
        if let Some(same) = self.narrower(&op, args, scalar) {
            return same;
        }
        if let Some((shift, x)) = self.immediate(&op, args) {
            return self.push(shift, &[x], scalar);
        }
        let (op, args) = match self.fold(&op, args, scalar) {
            Some(bits) => (Op::Const(bits), &[][..]),
            None => (op, args),
        };
        let node = Node { op, args: Args::from_slice(args), scalar };
        let Body { nodes, known, hashes, .. } = self;
        let at = |id: NodeId| &nodes[id.0 as usize];
        match known.entry(hashes.hash_one(&node), |&id| *at(id) == node, |&id| hashes.hash_one(at(id))) {
            Entry::Occupied(same) => *same.get(),
            Entry::Vacant(new) => {
                let id = NodeId(nodes.len() as u32);
                new.insert(id);
                self.nodes.push(node);
                self.sources.push(self.now);
                id
            }
        }
    }

    /// A clamp of what was 32 bits wide at a bound that is so too: more lanes of it fit into a register.
    fn narrower(&mut self, op: &Op, args: &[NodeId], scalar: ScalarType) -> Option<NodeId> {
        let (Op::SMax | Op::SMin, &[a, b], ScalarType::I64) = (op, args, scalar) else { return None };
        let (x, bound) = self.bounded(a, b)?;
        let before = self.unextended(x)?;
        let bound = self.i32(i32::try_from(bound).ok()?);
        let clamped = self.push(op.clone(), &[before, bound], ScalarType::I32);
        Some(self.push(Op::SExt, &[clamped], ScalarType::I64))
    }

    /// A shift by a constant as the operation that has it in itself, and what it shifts.
    fn immediate(&self, op: &Op, args: &[NodeId]) -> Option<(Op, NodeId)> {
        let (form, &[x, by]): (fn(u8) -> Op, _) = match op {
            Op::Shl => (Op::ShlImm, args.try_into().ok()?),
            Op::LShr => (Op::LShrImm, args.try_into().ok()?),
            Op::AShr => (Op::AShrImm, args.try_into().ok()?),
            _ => return None,
        };
        let by = self.constant_bits(by)?;
        // Shifts by more than a scalar type has stay what they are, and so does what is known whole.
        let short = by < u64::from(self.scalar(x).bits()) && self.constant_bits(x).is_none();
        Some((form(by as u8), x)).filter(|_| short)
    }

    /// The argument whose value an operation has whatever the others are, where that can be seen here.
    fn unchanged(&self, op: &Op, args: &[NodeId]) -> Option<NodeId> {
        match (op, args) {
            (Op::Select, &[mask, then, other]) => Some(if self.constant_bits(mask)? != 0 { then } else { other }),
            (Op::SMax | Op::SMin | Op::UMax | Op::UMin, &[a, b]) => {
                let ((a_low, a_high), (b_low, b_high)) = (self.range(a, DEPTH), self.range(b, DEPTH));
                // Without a sign, negative numbers are large.
                if matches!(op, Op::UMax | Op::UMin) && (a_low < 0 || b_low < 0) {
                    return None;
                }
                let [lower, higher] = match () {
                    () if a_high <= b_low => [a, b],
                    () if b_high <= a_low => [b, a],
                    () => return None,
                };
                Some(if matches!(op, Op::SMin | Op::UMin) { lower } else { higher })
            }
            (Op::And, &[a, b]) if !self.scalar(a).is_mask() => {
                let (x, ones) = self.bounded(a, b)?;
                let kept =
                    ones >= 0 && ones.count_ones() == ones.trailing_ones() && within(self.range(x, DEPTH), (0, ones));
                kept.then_some(x)
            }
            (Op::ShlImm(0) | Op::LShrImm(0) | Op::AShrImm(0), &[x]) => Some(x),
            (Op::IAdd | Op::ISub, &[x, zero]) if self.constant_bits(zero) == Some(0) => Some(x),
            (Op::IAdd, &[zero, x]) if self.constant_bits(zero) == Some(0) => Some(x),
            (&Op::AShrImm(n), &[shifted]) => match (&self.node(shifted).op, self.node(shifted).args.as_slice()) {
                // A sign is copied from a bit which is the sign.
                (&Op::ShlImm(m), &[x]) if m == n => {
                    let (low, high) = self.whole(x);
                    within(self.range(x, DEPTH), (low >> n.min(63), high >> n.min(63))).then_some(x)
                }
                _ => None,
            },
            (Op::And | Op::Or, &[a, b]) if self.scalar(a).is_mask() => {
                let (known, other) = match (self.constant_bits(a), self.constant_bits(b)) {
                    (Some(_), _) => (a, b),
                    (None, Some(_)) => (b, a),
                    (None, None) => return (a == b).then_some(a),
                };
                // True leaves the other side of "and" as it is, false that of "or".
                let leaves = (self.constant_bits(known)? != 0) == (*op == Op::And);
                Some(if leaves { other } else { known })
            }
            (Op::ICmp(IntCond::Ne), &[a, zero]) if self.constant_bits(zero) == Some(0) => match self.node(a) {
                Node { op: Op::MaskToInt, args, .. } => args.first().copied(),
                _ => None,
            },
            _ => None,
        }
    }

    /// A node as a part of an index, which it brings to between `low` and `high`: what is an index itself needs no node.
    pub fn offset(&self, node: NodeId, low: i64, high: i64) -> Ix {
        match &self.nodes.get(node.0 as usize).map(|n| (&n.op, n.scalar)) {
            Some((Op::Const(bits), ScalarType::I64)) => Ix::constant(*bits as i64),
            Some((Op::Index(ix), ScalarType::I64)) => ix.clone(),
            _ => Ix::value(node, low, high),
        }
    }

    /// The smallest and the largest value of an integer, as far as so many steps to what it is made of say. What this is relied on for,
    /// the verifier proves again.
    pub(super) fn range(&self, id: NodeId, depth: u32) -> (i64, i64) {
        let (node, whole) = (self.node(id), self.whole(id));
        let of = |k: usize| match node.args.get(k) {
            Some(&arg) if depth > 0 => self.range(arg, depth - 1),
            _ => whole,
        };
        match &node.op {
            Op::Const(bits) if node.scalar == ScalarType::I32 => (i64::from(*bits as i32), i64::from(*bits as i32)),
            Op::Const(bits) => (*bits as i64, *bits as i64),
            // What has too many bits for its scalar type is cut.
            Op::Index(ix) if within(ix.range(), whole) => ix.range(),
            Op::Load(_, Mem::S8, _) => (i64::from(i8::MIN), i64::from(i8::MAX)),
            Op::Load(_, Mem::U8, _) => (0, i64::from(u8::MAX)),
            Op::Load(_, Mem::S16, _) => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Op::Load(_, Mem::U16, _) => (0, i64::from(u16::MAX)),
            Op::SMin => {
                let (a, b) = (of(0), of(1));
                (a.0.min(b.0), a.1.min(b.1))
            }
            Op::SMax => {
                let (a, b) = (of(0), of(1));
                (a.0.max(b.0), a.1.max(b.1))
            }
            Op::UMin => match (of(0), of(1)) {
                ((a_low @ 0.., a), (b_low @ 0.., b)) => (a_low.min(b_low), a.min(b)),
                ((0.., a), _) | (_, (0.., a)) => (0, a),
                _ => whole,
            },
            Op::SExt if depth > 0 => of(0),
            Op::UExt => match of(0) {
                (low @ 0.., high) if depth > 0 => (low, high),
                _ => (0, i64::from(u32::MAX)),
            },
            Op::MaskToInt => (0, 1),
            Op::Select => {
                let (a, b) = (of(1), of(2));
                (a.0.min(b.0), a.1.max(b.1))
            }
            // A mask without a sign leaves no more bits than it has.
            Op::And => match (of(0), of(1)) {
                ((0.., a), (0.., b)) => (0, a.min(b)),
                ((0.., a), _) | (_, (0.., a)) => (0, a),
                _ => whole,
            },
            Op::LShrImm(n) => match of(0) {
                (low @ 0.., high) => (low >> (*n).min(63), high >> (*n).min(63)),
                _ => whole,
            },
            Op::LShr => match of(0) {
                (0.., high) => (0, high),
                _ => whole,
            },
            Op::AShrImm(n) => {
                let (low, high) = of(0);
                (low >> (*n).min(63), high >> (*n).min(63))
            }
            Op::ShlImm(n) => extremes([of(0), (1, 1)], |a, _| a << (*n).min(63), whole),
            Op::IAdd => extremes([of(0), of(1)], |a, b| a + b, whole),
            Op::ISub => extremes([of(0), of(1)], |a, b| a - b, whole),
            Op::IMul => extremes([of(0), of(1)], |a, b| a * b, whole),
            _ => whole,
        }
    }

    /// What an integer of a node's scalar type can be.
    fn whole(&self, id: NodeId) -> (i64, i64) {
        match self.scalar(id) {
            ScalarType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// How two integers compare, where that holds for all that they can be.
    fn decided(&self, cond: IntCond, a: NodeId, b: NodeId) -> Option<bool> {
        let ((a_low, a_high), (b_low, b_high)) = (self.range(a, DEPTH), self.range(b, DEPTH));
        let positive = a_low >= 0 && b_low >= 0;
        let less = match () {
            () if a_high < b_low => Some(true),
            () if a_low >= b_high => Some(false),
            () => None,
        };
        let greater = match () {
            () if a_low > b_high => Some(true),
            () if a_high <= b_low => Some(false),
            () => None,
        };
        let apart = less == Some(true) || greater == Some(true);
        match cond {
            IntCond::Eq => apart.then_some(false),
            IntCond::Ne => apart.then_some(true),
            IntCond::SLt => less,
            IntCond::SGe => less.map(|is| !is),
            IntCond::SGt => greater,
            IntCond::SLe => greater.map(|is| !is),
            IntCond::ULt => less.filter(|_| positive),
            IntCond::UGe => less.filter(|_| positive).map(|is| !is),
            IntCond::UGt => greater.filter(|_| positive),
            IntCond::ULe => greater.filter(|_| positive).map(|is| !is),
        }
    }

    fn fold(&self, op: &Op, args: &[NodeId], scalar: ScalarType) -> Option<u64> {
        if let (Op::ICmp(_), &[a, b]) = (op, args)
            && a == b
        {
            // Whatever the number is, it compares with itself as zero does.
            return apply(op, scalar, &[self.scalar(a); 2], &[0; 2]);
        }
        if let (Op::ICmp(cond), &[a, b]) = (op, args)
            && let Some(is) = self.decided(*cond, a, b)
        {
            return Some(u64::from(is));
        }
        if let Op::Index(ix) = op {
            let value = ix.as_constant()?;
            return Some(if scalar.bits() == 32 { u64::from(value as u32) } else { value as u64 });
        }
        let n = args.len();
        if n == 0 || n > 3 {
            return None;
        }
        let (mut values, mut lanes) = ([0u64; 3], [scalar; 3]);
        for (k, &a) in args.iter().enumerate() {
            values[k] = self.constant_bits(a)?;
            lanes[k] = self.scalar(a);
        }
        apply(op, scalar, &lanes[..n], &values[..n])
    }

    /// A constant by its bits.
    pub fn bits(&mut self, scalar: ScalarType, bits: u64) -> NodeId {
        self.push(Op::Const(bits), &[], scalar)
    }
    /// A 32-bit integer.
    pub fn i32(&mut self, v: i32) -> NodeId {
        self.bits(ScalarType::I32, u64::from(v as u32))
    }
    /// A 64-bit integer.
    pub fn i64(&mut self, v: i64) -> NodeId {
        self.bits(ScalarType::I64, v as u64)
    }
    /// A 32-bit float.
    pub fn f32(&mut self, v: f32) -> NodeId {
        self.bits(ScalarType::F32, u64::from(v.to_bits()))
    }
    /// A 64-bit float.
    pub fn f64(&mut self, v: f64) -> NodeId {
        self.bits(ScalarType::F64, v.to_bits())
    }
    /// A float constant of either width; `f64` values are rounded for [`ScalarType::F32`].
    pub fn float(&mut self, scalar: ScalarType, v: f64) -> NodeId {
        if scalar == ScalarType::F32 { self.f32(v as f32) } else { self.f64(v) }
    }
    /// An integer constant of either width.
    pub fn int(&mut self, scalar: ScalarType, v: i64) -> NodeId {
        if scalar.bits() == 32 { self.i32(v as i32) } else { self.i64(v) }
    }
    /// An argument.
    pub fn arg(&mut self, index: u32, scalar: ScalarType) -> NodeId {
        self.push(Op::Arg(index), &[], scalar)
    }

    unary! {
        /// See [`Op::FNeg`].
        fneg FNeg;
        /// See [`Op::FAbs`].
        fabs FAbs;
        /// See [`Op::Sqrt`].
        sqrt Sqrt;
        /// See [`Op::Floor`].
        floor Floor;
        /// See [`Op::Ceil`].
        ceil Ceil;
        /// See [`Op::Trunc`].
        trunc Trunc;
        /// See [`Op::Nearest`].
        nearest Nearest;
        /// See [`Op::Not`].
        not Not;
        /// See [`Op::Clz`].
        clz Clz;
        /// See [`Op::Popcnt`].
        popcnt Popcnt;
    }
    binary! {
        /// See [`Op::FAdd`].
        fadd FAdd;
        /// See [`Op::FSub`].
        fsub FSub;
        /// See [`Op::FMul`].
        fmul FMul;
        /// See [`Op::FDiv`].
        fdiv FDiv;
        /// See [`Op::FMinPseudo`].
        fmin_pseudo FMinPseudo;
        /// See [`Op::FMaxPseudo`].
        fmax_pseudo FMaxPseudo;
        /// See [`Op::IAdd`].
        iadd IAdd;
        /// See [`Op::ISub`].
        isub ISub;
        /// See [`Op::IMul`].
        imul IMul;
        /// See [`Op::SMulHi`].
        smulhi SMulHi;
        /// See [`Op::UMulHi`].
        umulhi UMulHi;
        /// See [`Op::SDiv`].
        sdiv SDiv;
        /// See [`Op::UDiv`].
        udiv UDiv;
        /// See [`Op::SRem`].
        srem SRem;
        /// See [`Op::URem`].
        urem URem;
        /// See [`Op::SMin`].
        smin SMin;
        /// See [`Op::SMax`].
        smax SMax;
        /// See [`Op::UMin`].
        umin UMin;
        /// See [`Op::UMax`].
        umax UMax;
        /// See [`Op::And`].
        and And;
        /// See [`Op::Or`].
        or Or;
        /// See [`Op::Xor`].
        xor Xor;
        /// See [`Op::Shl`].
        shl Shl;
        /// See [`Op::LShr`].
        lshr LShr;
        /// See [`Op::AShr`].
        ashr AShr;
    }

    /// See [`Op::Fma`].
    pub fn fma(&mut self, a: NodeId, b: NodeId, c: NodeId) -> NodeId {
        let scalar = self.scalar(a);
        self.push(Op::Fma, &[a, b, c], scalar)
    }
    /// `a * b + c` with one rounding or two, as the variant says.
    pub fn mul_add(&mut self, variant: Variant, a: NodeId, b: NodeId, c: NodeId) -> NodeId {
        match variant {
            Variant::Fma => self.fma(a, b, c),
            Variant::NoFma => {
                let product = self.fmul(a, b);
                self.fadd(product, c)
            }
        }
    }
    /// See [`Op::ShlImm`].
    pub fn shl_imm(&mut self, a: NodeId, by: u8) -> NodeId {
        let scalar = self.scalar(a);
        self.push(Op::ShlImm(by), &[a], scalar)
    }
    /// See [`Op::LShrImm`].
    pub fn lshr_imm(&mut self, a: NodeId, by: u8) -> NodeId {
        let scalar = self.scalar(a);
        self.push(Op::LShrImm(by), &[a], scalar)
    }
    /// See [`Op::AShrImm`].
    pub fn ashr_imm(&mut self, a: NodeId, by: u8) -> NodeId {
        let scalar = self.scalar(a);
        self.push(Op::AShrImm(by), &[a], scalar)
    }
    /// See [`Op::FCmp`].
    pub fn fcmp(&mut self, cond: FloatCond, a: NodeId, b: NodeId) -> NodeId {
        debug_assert_eq!(self.scalar(a), self.scalar(b), "fcmp");
        let scalar = self.scalar(a).mask();
        self.push(Op::FCmp(cond), &[a, b], scalar)
    }
    /// See [`Op::ICmp`].
    pub fn icmp(&mut self, cond: IntCond, a: NodeId, b: NodeId) -> NodeId {
        debug_assert_eq!(self.scalar(a), self.scalar(b), "icmp");
        let scalar = self.scalar(a).mask();
        self.push(Op::ICmp(cond), &[a, b], scalar)
    }
    /// See [`Op::Select`]; the mask is cast to the width of the values where it has another.
    pub fn select(&mut self, mask: NodeId, then: NodeId, other: NodeId) -> NodeId {
        debug_assert_eq!(self.scalar(then), self.scalar(other), "select");
        let scalar = self.scalar(then);
        let mask = self.mask_cast(mask, scalar.mask());
        self.push(Op::Select, &[mask, then, other], scalar)
    }
    /// See [`Op::MaskCast`]; nothing where the width is right already, or was right before another cast.
    pub fn mask_cast(&mut self, mask: NodeId, scalar: ScalarType) -> NodeId {
        if let Node { op: Op::MaskCast, args, .. } = self.node(mask)
            && let [source] = args[..]
            && self.scalar(source) == scalar
        {
            return source;
        }
        if self.scalar(mask) == scalar { mask } else { self.push(Op::MaskCast, &[mask], scalar) }
    }
    /// See [`Op::MaskToInt`].
    pub fn mask_to_int(&mut self, mask: NodeId) -> NodeId {
        let scalar = self.scalar(mask).integer();
        self.push(Op::MaskToInt, &[mask], scalar)
    }
    /// See [`Op::Bitcast`]; nothing where the scalar type is right already.
    pub fn bitcast(&mut self, a: NodeId, scalar: ScalarType) -> NodeId {
        debug_assert_eq!(self.scalar(a).bits(), scalar.bits(), "bitcast");
        if self.scalar(a) == scalar { a } else { self.push(Op::Bitcast, &[a], scalar) }
    }
    /// A conversion that names its result type: [`Op::SToF`], [`Op::UToF`], [`Op::FToS`], [`Op::FToU`],
    /// [`Op::FToSFast`], [`Op::Promote`], [`Op::Demote`], [`Op::SExt`], [`Op::UExt`], [`Op::Wrap`].
    pub fn convert(&mut self, op: Op, a: NodeId, scalar: ScalarType) -> NodeId {
        self.push(op, &[a], scalar)
    }

    /// The nodes that `roots` follow from, themselves, arguments and loaded offsets of index maps included. What is no node
    /// of the body is passed over: the verifier says so.
    pub fn needed(&self, roots: impl IntoIterator<Item = NodeId>) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        let mark = |needed: &mut Vec<bool>, id: NodeId| {
            if let Some(n) = needed.get_mut(id.0 as usize) {
                *n = true;
            }
        };
        roots.into_iter().for_each(|r| mark(&mut needed, r));
        for (i, node) in self.nodes.iter().enumerate().rev() {
            if needed[i] {
                node.for_each_use(&mut |n| mark(&mut needed, n));
            }
        }
        needed
    }

    /// Copies the nodes that `roots` need from `other`, with `args` in place of its [`Op::Arg`] nodes, and returns
    /// the copies of the roots; `None` where there is no such argument. What is not said to be for an instruction is for that which nodes are
    /// added for now.
    pub fn inline(&mut self, other: &Body, args: &[NodeId], roots: &[NodeId]) -> Option<Vec<NodeId>> {
        let mut map: Vec<Option<NodeId>> = vec![None; other.nodes.len()];
        let needed = other.needed(roots.iter().copied());
        for (i, node) in other.nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
            map[i] = Some(match node.op {
                Op::Arg(n) => *args.get(n as usize)?,
                _ => {
                    let mapped: Option<Args> = node.args.iter().map(|a| *map.get(a.0 as usize)?).collect();
                    self.push_of(other.source(NodeId(i as u32)), node.op.clone(), &mapped?, node.scalar)
                }
            });
        }
        roots.iter().map(|r| *map.get(r.0 as usize)?).collect()
    }
}

fn within(inner: (i64, i64), outer: (i64, i64)) -> bool {
    outer.0 <= inner.0 && inner.1 <= outer.1
}

/// The range of what grows or falls with each of two numbers in these ranges; `whole` where it may not fit into that.
fn extremes(of: [(i64, i64); 2], result: impl Fn(i128, i128) -> i128, whole: (i64, i64)) -> (i64, i64) {
    let [(a, b), (c, d)] = of.map(|(low, high)| (i128::from(low), i128::from(high)));
    let ends = [result(a, c), result(a, d), result(b, c), result(b, d)];
    let (low, high) = ends.into_iter().fold((ends[0], ends[0]), |(low, high), end| (low.min(end), high.max(end)));
    match (i64::try_from(low), i64::try_from(high)) {
        (Ok(low), Ok(high)) if within((low, high), whole) => (low, high),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::index::Axis;

    #[test]
    fn equal_nodes_are_one_node() {
        let mut b = Body::new();
        let (x, one) = (b.arg(0, ScalarType::F32), b.f32(1.0));
        let y = b.fadd(x, one);
        assert_eq!(b.fadd(x, one), y);
        assert_eq!(b.nodes().len(), 3);
    }

    #[test]
    fn inlining_substitutes_arguments() {
        let mut inner = Body::new();
        let (x, y) = (inner.arg(0, ScalarType::F32), inner.arg(1, ScalarType::F32));
        let sum = inner.fadd(x, y);
        let mut outer = Body::new();
        let (p, q) = (outer.arg(2, ScalarType::F32), outer.arg(3, ScalarType::F32));
        let out = outer.inline(&inner, &[p, q], &[sum]).expect("both arguments are there");
        assert_eq!(outer.inline(&inner, &[p], &[sum]), None, "there is no second argument");
        assert_eq!(outer.node(out[0]).args.as_slice(), [p, q]);
    }

    #[test]
    fn what_changes_nothing_is_no_node() {
        let mut b = Body::new();
        let axis = Ix::axis(Axis(0), 9);
        let (x, y, at) =
            (b.arg(0, ScalarType::F32), b.arg(1, ScalarType::F32), b.push(Op::Index(axis), &[], ScalarType::I64));
        let [below, zero, eight, seven] = [-1, 0, 8, 7].map(|n| b.i64(n));
        assert_eq!([b.smax(at, zero), b.smin(eight, at), b.smax(below, at)], [at; 3]);
        assert_eq!([b.smin(at, zero), b.smin(below, at), b.smax(at, eight)], [zero, below, eight]);
        let clamped = b.smin(at, seven);
        assert_eq!(b.node(clamped).op, Op::SMin, "eight is above seven");

        let mask = b.fcmp(FloatCond::Lt, x, y);
        let [yes, no] = [1, 0].map(|bit| b.bits(ScalarType::M32, bit));
        assert_eq!([b.and(mask, yes), b.or(no, mask), b.and(mask, mask), b.or(mask, mask)], [mask; 4]);
        assert_eq!([b.and(no, mask), b.or(mask, yes)], [no, yes]);
        assert_eq!([b.select(yes, x, y), b.select(no, x, y)], [x, y]);
        let (number, none) = (b.mask_to_int(mask), b.i32(0));
        assert_eq!(b.icmp(IntCond::Ne, number, none), mask);
        let [itself, less] = [IntCond::Eq, IntCond::SLt].map(|cond| b.icmp(cond, number, number));
        let truths = [yes, no].map(|bit| b.constant_bits(bit));
        assert_eq!([itself, less].map(|truth| b.constant_bits(truth)), truths);
        // A float that is no number is not equal to itself.
        let equal = b.fcmp(FloatCond::Eq, x, x);
        assert_eq!(b.constant_bits(equal), None);
    }

    /// A byte against numbers around its ends: what is decided holds for each value, and a comparison with a sign that is not decided
    /// holds for some values and not for others.
    #[test]
    fn ranges_decide_comparisons() {
        use IntCond::*;
        for (mem, values) in [(Mem::U8, 0..=255), (Mem::S8, -128..=127)] {
            for number in [-129, -128, -127, -1, 0, 1, 126, 127, 128, 254, 255, 256] {
                for cond in [Eq, Ne, SLt, SLe, SGt, SGe, ULt, ULe, UGt, UGe] {
                    let mut b = Body::new();
                    let (x, c) = (b.push(Op::Load(0, mem, Ix::default()), &[], ScalarType::I32), b.i32(number));
                    let found = b.icmp(cond, x, c);
                    let found = b.constant_bits(found);
                    let truth = |v: i32| {
                        apply(
                            &Op::ICmp(cond),
                            ScalarType::M32,
                            &[ScalarType::I32; 2],
                            &[v, number].map(|n| u64::from(n as u32)),
                        )
                    };
                    let mut truths: Vec<_> = values.clone().map(truth).collect();
                    truths.dedup();
                    match found {
                        Some(_) => assert_eq!(truths, [found], "{mem:?} {cond:?} {number}"),
                        None => assert!(
                            truths.len() > 1 || matches!(cond, ULt | ULe | UGt | UGe),
                            "{mem:?} {cond:?} {number}"
                        ),
                    }
                }
            }
        }
        let mut b = Body::new();
        let x = b.push(Op::Load(0, Mem::U8, Ix::default()), &[], ScalarType::I32);
        let wide = b.convert(Op::SExt, x, ScalarType::I64);
        let (zero, most) = (b.i64(0), b.i64(255));
        let clamped = b.smax(wide, zero);
        assert_eq!(b.smin(clamped, most), wide, "a byte is an index of a table of 256");
    }

    /// Sums and products of bytes are cut where they may be too large, and not where they are not.
    #[test]
    fn what_cannot_wrap_is_not_cut() {
        let mut b = Body::new();
        let [x, s] = [Mem::U8, Mem::S8].map(|mem| b.push(Op::Load(0, mem, Ix::default()), &[], ScalarType::I32));
        let [byte, word, weight, offset] = [255, 65_535, 77, -28].map(|n| b.i32(n));
        let product = b.imul(x, weight);
        let high = b.lshr_imm(product, 8);
        assert_eq!([b.and(product, word), b.and(high, byte), b.and(byte, x)], [product, high, x]);
        let cut = b.and(product, byte);
        assert_ne!(cut, product);
        let mut signed = |x| {
            let up = b.shl_imm(x, 24);
            b.ashr_imm(up, 24)
        };
        assert_eq!(signed(s), s);
        assert_ne!(signed(x), x, "128 is no signed byte");
        let moved = b.iadd(s, offset);
        let up = b.shl_imm(moved, 24);
        assert_ne!(b.ashr_imm(up, 24), moved, "-128 - 28 is none");
    }

    #[test]
    fn parts_of_an_index_that_are_indices_need_no_node() {
        let mut b = Body::new();
        let axis = Ix::axis(Axis(0), 9);
        let (at, five) = (b.push(Op::Index(axis.clone()), &[], ScalarType::I64), b.i64(5));
        assert_eq!([b.offset(at, 0, 8), b.offset(five, 0, 8)], [axis, Ix::constant(5)]);
        let loaded = b.arg(0, ScalarType::I64);
        assert_eq!(b.offset(loaded, 0, 8), Ix::value(loaded, 0, 8));
    }

    #[test]
    fn nodes_remember_what_they_were_added_for() {
        let [one, two] = [1, 2].map(InstructionId::from_u32);
        let mut inner = Body::new();
        let x = inner.arg(0, ScalarType::F32);
        let known = inner.fneg(x);
        inner.attribute(one);
        inner.set_source(None);
        let unknown = inner.fabs(known);
        let mut outer = Body::new();
        let p = outer.arg(0, ScalarType::F32);
        outer.set_source(Some(two));
        let out = outer.inline(&inner, &[p], &[known, unknown]).expect("its argument is there");
        assert_eq!(outer.source(p), None);
        assert_eq!(out.iter().map(|&n| outer.source(n)).collect::<Vec<_>>(), [Some(one), Some(two)]);
        // An equal node is the first one, and the body goes on where it was.
        assert_eq!(outer.fneg(p), out[0]);
        assert_eq!(outer.set_source(None), Some(two));
    }
}
