//! Nodes as CLIF: one element in scalar registers, or a vector of four in 128-bit registers.
//!
//! A vector of four 32-bit lanes is one register, of four 64-bit lanes two. What CLIF has no vector form for (division,
//! shifts by variable amounts, conversions between 64-bit integers and floats) goes element by element. Where the
//! machine has no vectors at all, a vector is four scalars: the loops, and so the order of every reduction, stay the same.

use super::attribution::Attribution;
use super::fault::Faults;
use super::flow::Flow;
use super::target::Target;
use super::vector::Isa;
use crate::hlo::InstructionId;
use crate::kernel::body::{FloatCond, IntCond, Mem, Op, ScalarType};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    Endianness, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value, ValueDef, types,
};
use cranelift_frontend::FunctionBuilder;

/// The value of a node.
#[derive(Clone, Copy, Debug)]
pub enum Val {
    /// One element.
    One(Value),
    /// Four elements of 32 bits.
    Four(Value),
    /// Four elements of 64 bits.
    Pair([Value; 2]),
    /// Four elements in a scalar register each, on a machine without vectors. Masks are as those of one element.
    Each([Value; 4]),
}

/// How many elements a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One.
    One,
    /// A vector of four.
    Vector,
}

impl Val {
    /// Whether elements are in scalar registers.
    fn is_scalar(self) -> bool {
        matches!(self, Val::One(_) | Val::Each(_))
    }
}

/// The CLIF type of an element.
pub fn clif_type(scalar: ScalarType) -> Type {
    match scalar {
        ScalarType::I32 => types::I32,
        ScalarType::I64 => types::I64,
        ScalarType::F32 => types::F32,
        ScalarType::F64 => types::F64,
        ScalarType::M32 | ScalarType::M64 => types::I8,
    }
}

/// The CLIF type of a vector of such elements; masks are integers, all ones or all zeros.
pub fn clif_vector(scalar: ScalarType) -> Type {
    match scalar {
        ScalarType::I32 | ScalarType::M32 => types::I32X4,
        ScalarType::I64 | ScalarType::M64 => types::I64X2,
        ScalarType::F32 => types::F32X4,
        ScalarType::F64 => types::F64X2,
    }
}

/// Flags of an access that cannot trap and is aligned to its element.
pub fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// The flags of casts between vectors of different lanes.
pub fn cast_flags() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

fn float_cc(c: FloatCond) -> FloatCC {
    match c {
        FloatCond::Eq => FloatCC::Equal,
        FloatCond::Ne => FloatCC::NotEqual,
        FloatCond::Lt => FloatCC::LessThan,
        FloatCond::Le => FloatCC::LessThanOrEqual,
        FloatCond::Gt => FloatCC::GreaterThan,
        FloatCond::Ge => FloatCC::GreaterThanOrEqual,
        FloatCond::Uno => FloatCC::Unordered,
    }
}

fn int_cc(c: IntCond) -> IntCC {
    match c {
        IntCond::Eq => IntCC::Equal,
        IntCond::Ne => IntCC::NotEqual,
        IntCond::SLt => IntCC::SignedLessThan,
        IntCond::SLe => IntCC::SignedLessThanOrEqual,
        IntCond::SGt => IntCC::SignedGreaterThan,
        IntCond::SGe => IntCC::SignedGreaterThanOrEqual,
        IntCond::ULt => IntCC::UnsignedLessThan,
        IntCond::ULe => IntCC::UnsignedLessThanOrEqual,
        IntCond::UGt => IntCC::UnsignedGreaterThan,
        IntCond::UGe => IntCC::UnsignedGreaterThanOrEqual,
    }
}

/// Emits nodes.
pub struct Lanes<'f, 'b> {
    /// Where code goes.
    pub b: &'f mut FunctionBuilder<'b>,
    /// The machine, which may have instructions of its own or lack some.
    pub target: &'f Target,
    /// Where it is noted that something is missing.
    pub faults: &'f Faults,
    /// What the nodes come from.
    pub attribution: Attribution,
}

impl<'b> Flow<'b> for Lanes<'_, 'b> {
    fn b(&mut self) -> &mut FunctionBuilder<'b> {
        self.b
    }
}

impl Isa for Lanes<'_, '_> {
    type Value = Val;
    type Shape = Shape;

    fn mark(&mut self, source: Option<InstructionId>) {
        self.attribution.mark(self.b, source);
    }

    fn constant(&mut self, shape: Shape, scalar: ScalarType, bits: u64) -> Val {
        match shape {
            Shape::One => Val::One(self.scalar_constant(scalar, bits)),
            Shape::Vector => self.constant_vector(scalar, bits),
        }
    }

    fn operation(&mut self, op: &Op, args: &[Val], from: &[ScalarType], to: ScalarType) -> Option<Val> {
        let whole = args.first()?.is_scalar() || !needs_scalar(op, *from.first()?, to);
        whole.then(|| self.node(op, args, from, to))
    }

    fn by_elements(&mut self, op: &Op, args: &[Val], from: &[ScalarType], to: ScalarType) -> Option<Val> {
        let v = [0, 1, 2, 3].map(|i| {
            let scalars: Vec<Val> = args.iter().zip(from).map(|(&a, &l)| Val::One(self.extract(l, a, i))).collect();
            let v = self.node(op, &scalars, from, to);
            self.scalar(v)
        });
        Some(self.gather(to, v))
    }

    fn fault(&mut self, what: String) {
        self.faults.report(what);
    }
}

impl Lanes<'_, '_> {
    /// The one element of a scalar.
    pub fn scalar(&mut self, v: Val) -> Value {
        match v {
            Val::One(v) => v,
            Val::Four(v) | Val::Pair([v, _]) | Val::Each([v, ..]) => {
                self.faults.report("a vector where a scalar is expected");
                v
            }
        }
    }

    /// What stands in for a value that is missing, which is noted.
    pub fn missing(&mut self, scalar: ScalarType, what: impl Into<String>) -> Value {
        self.faults.report(what);
        self.scalar_constant(scalar, 0)
    }

    /// A scalar constant.
    pub fn scalar_constant(&mut self, scalar: ScalarType, bits: u64) -> Value {
        match scalar {
            ScalarType::I32 => self.b.ins().iconst(types::I32, i64::from(bits as u32)),
            ScalarType::I64 => self.b.ins().iconst(types::I64, bits as i64),
            ScalarType::F32 => self.b.ins().f32const(f32::from_bits(bits as u32)),
            ScalarType::F64 => self.b.ins().f64const(f64::from_bits(bits)),
            ScalarType::M32 | ScalarType::M64 => self.b.ins().iconst(types::I8, i64::from(bits != 0)),
        }
    }

    /// A constant in every element of a vector.
    pub fn constant_vector(&mut self, scalar: ScalarType, bits: u64) -> Val {
        if !self.target.has_vectors() {
            return Val::Each([self.scalar_constant(scalar, bits); 4]);
        }
        let bits = if scalar.is_mask() && bits != 0 { u64::MAX } else { bits };
        let bytes: Vec<u8> = match scalar.bits() {
            32 => (bits as u32).to_le_bytes().repeat(4),
            _ => bits.to_le_bytes().repeat(2),
        };
        let data = self.b.func.dfg.constants.insert(bytes.into());
        let v = self.b.ins().vconst(clif_vector(scalar), data);
        if scalar.bits() == 32 { Val::Four(v) } else { Val::Pair([v, v]) }
    }

    /// A constant, one element or a vector as `v` is.
    fn constant_like(&mut self, v: Val, scalar: ScalarType, bits: u64) -> Val {
        match v {
            Val::One(_) => Val::One(self.scalar_constant(scalar, bits)),
            Val::Four(_) | Val::Pair(_) | Val::Each(_) => self.constant_vector(scalar, bits),
        }
    }

    /// A scalar in every element of a vector.
    pub fn splat(&mut self, scalar: ScalarType, v: Value) -> Val {
        if !self.target.has_vectors() {
            return Val::Each([v; 4]);
        }
        let v = if scalar.is_mask() {
            let wide = self.b.ins().uextend(clif_type(scalar.integer()), v);
            self.b.ins().ineg(wide)
        } else {
            v
        };
        let v = self.b.ins().splat(clif_vector(scalar), v);
        if scalar.bits() == 32 { Val::Four(v) } else { Val::Pair([v, v]) }
    }

    /// One element of a vector.
    pub fn extract(&mut self, scalar: ScalarType, v: Val, i: u8) -> Value {
        let raw = match v {
            Val::One(v) => return v,
            Val::Each(v) => return v[usize::from(i)],
            Val::Four(v) => self.b.ins().extractlane(v, i),
            Val::Pair(p) => self.b.ins().extractlane(p[usize::from(i / 2)], i % 2),
        };
        if scalar.is_mask() { self.b.ins().icmp_imm_s(IntCC::NotEqual, raw, 0) } else { raw }
    }

    /// A vector of four scalars.
    pub fn gather(&mut self, scalar: ScalarType, mut v: [Value; 4]) -> Val {
        if !self.target.has_vectors() {
            return Val::Each(v);
        }
        if scalar.is_mask() {
            for x in &mut v {
                let wide = self.b.ins().uextend(clif_type(scalar.integer()), *x);
                *x = self.b.ins().ineg(wide);
            }
        }
        let ty = clif_vector(scalar);
        if scalar.bits() == 32 {
            let mut out = self.b.ins().scalar_to_vector(ty, v[0]);
            for (i, &x) in v.iter().enumerate().skip(1) {
                out = self.b.ins().insertlane(out, x, i as u8);
            }
            Val::Four(out)
        } else {
            let mut pair = |a, b| {
                let low = self.b.ins().scalar_to_vector(ty, a);
                self.b.ins().insertlane(low, b, 1u8)
            };
            Val::Pair([pair(v[0], v[1]), pair(v[2], v[3])])
        }
    }

    /// The vector with one element replaced.
    pub fn insert(&mut self, scalar: ScalarType, v: Val, i: u8, x: Value) -> Val {
        let x = if scalar.is_mask() && !v.is_scalar() {
            let wide = self.b.ins().uextend(clif_type(scalar.integer()), x);
            self.b.ins().ineg(wide)
        } else {
            x
        };
        match v {
            Val::One(_) => Val::One(x),
            Val::Each(mut each) => {
                each[usize::from(i)] = x;
                Val::Each(each)
            }
            Val::Four(v) => Val::Four(self.b.ins().insertlane(v, x, i)),
            Val::Pair(mut p) => {
                p[usize::from(i / 2)] = self.b.ins().insertlane(p[usize::from(i / 2)], x, i % 2);
                Val::Pair(p)
            }
        }
    }

    fn cast(&mut self, ty: Type, v: Value) -> Value {
        if self.b.func.dfg.value_type(v) == ty { v } else { self.b.ins().bitcast(ty, cast_flags(), v) }
    }

    /// Does something to each register of a vector.
    fn each(&mut self, args: &[Val], f: &mut impl FnMut(&mut Self, &[Value]) -> Value) -> Val {
        match args[0] {
            Val::One(_) => Val::One(f(self, &regs(args, 0))),
            Val::Four(_) => Val::Four(f(self, &regs(args, 0))),
            Val::Pair(_) => Val::Pair([f(self, &regs(args, 0)), f(self, &regs(args, 1))]),
            Val::Each(_) => Val::Each([0, 1, 2, 3].map(|n| f(self, &regs(args, n)))),
        }
    }

    /// Emits one operation that is one of CLIF for what the arguments are. Leaves (constants, loads, arguments) are not operations.
    fn node(&mut self, op: &Op, args: &[Val], from: &[ScalarType], to: ScalarType) -> Val {
        let (Some(&kind), Some(&scalar)) = (args.first(), from.first()) else {
            return Val::One(self.missing(to, format!("{op:?} without arguments")));
        };
        let single = kind.is_scalar();
        match op {
            Op::FNeg => self.each(args, &mut |s, a| s.b.ins().fneg(a[0])),
            Op::FAbs => self.each(args, &mut |s, a| s.b.ins().fabs(a[0])),
            Op::Sqrt => self.each(args, &mut |s, a| s.b.ins().sqrt(a[0])),
            Op::Floor | Op::Ceil | Op::Trunc | Op::Nearest if !self.target.rounds() => self.rounded(op, args, scalar),
            Op::Floor => self.each(args, &mut |s, a| s.b.ins().floor(a[0])),
            Op::Ceil => self.each(args, &mut |s, a| s.b.ins().ceil(a[0])),
            Op::Trunc => self.each(args, &mut |s, a| s.b.ins().trunc(a[0])),
            Op::Nearest => self.each(args, &mut |s, a| s.b.ins().nearest(a[0])),
            Op::Not if single && scalar.is_mask() => self.each(args, &mut |s, a| s.b.ins().bxor_imm_u(a[0], 1)),
            Op::Not => self.each(args, &mut |s, a| s.b.ins().bnot(a[0])),
            Op::Clz => self.each(args, &mut |s, a| s.b.ins().clz(a[0])),
            Op::Popcnt => self.each(args, &mut |s, a| s.b.ins().popcnt(a[0])),
            Op::FAdd => self.each(args, &mut |s, a| s.b.ins().fadd(a[0], a[1])),
            Op::FSub => self.each(args, &mut |s, a| s.b.ins().fsub(a[0], a[1])),
            Op::FMul => self.each(args, &mut |s, a| s.b.ins().fmul(a[0], a[1])),
            Op::FDiv => self.each(args, &mut |s, a| s.b.ins().fdiv(a[0], a[1])),
            Op::Fma => self.each(args, &mut |s, a| s.b.ins().fma(a[0], a[1], a[2])),
            Op::FMinPseudo => self.pick(args, false),
            Op::FMaxPseudo => self.pick(args, true),
            Op::IAdd => self.each(args, &mut |s, a| s.b.ins().iadd(a[0], a[1])),
            Op::ISub => self.each(args, &mut |s, a| s.b.ins().isub(a[0], a[1])),
            Op::IMul => self.each(args, &mut |s, a| s.b.ins().imul(a[0], a[1])),
            Op::SMulHi | Op::UMulHi if !single => {
                let signed = *op == Op::SMulHi;
                self.each(args, &mut |s, a| s.multiply_high(signed, a[0], a[1]))
            }
            Op::SMulHi => self.each(args, &mut |s, a| s.b.ins().smulhi(a[0], a[1])),
            Op::UMulHi => self.each(args, &mut |s, a| s.b.ins().umulhi(a[0], a[1])),
            Op::SDiv => self.each(args, &mut |s, a| s.b.ins().sdiv(a[0], a[1])),
            Op::UDiv => self.each(args, &mut |s, a| s.b.ins().udiv(a[0], a[1])),
            Op::SRem => self.each(args, &mut |s, a| s.b.ins().srem(a[0], a[1])),
            Op::URem => self.each(args, &mut |s, a| s.b.ins().urem(a[0], a[1])),
            Op::SMin => self.each(args, &mut |s, a| s.b.ins().smin(a[0], a[1])),
            Op::SMax => self.each(args, &mut |s, a| s.b.ins().smax(a[0], a[1])),
            Op::UMin => self.each(args, &mut |s, a| s.b.ins().umin(a[0], a[1])),
            Op::UMax => self.each(args, &mut |s, a| s.b.ins().umax(a[0], a[1])),
            Op::And => self.each(args, &mut |s, a| s.b.ins().band(a[0], a[1])),
            Op::Or => self.each(args, &mut |s, a| s.b.ins().bor(a[0], a[1])),
            Op::Xor => self.each(args, &mut |s, a| s.b.ins().bxor(a[0], a[1])),
            Op::ShlImm(n) => self.each(args, &mut |s, a| s.b.ins().ishl_imm_u(a[0], i64::from(*n))),
            Op::LShrImm(n) => self.each(args, &mut |s, a| s.b.ins().ushr_imm_u(a[0], i64::from(*n))),
            Op::AShrImm(n) => self.each(args, &mut |s, a| s.b.ins().sshr_imm_u(a[0], i64::from(*n))),
            Op::Shl => self.each(args, &mut |s, a| s.b.ins().ishl(a[0], a[1])),
            Op::LShr => self.each(args, &mut |s, a| s.b.ins().ushr(a[0], a[1])),
            Op::AShr => self.each(args, &mut |s, a| s.b.ins().sshr(a[0], a[1])),
            Op::FCmp(c) => self.each(args, &mut |s, a| s.b.ins().fcmp(float_cc(*c), a[0], a[1])),
            Op::ICmp(c) => self.each(args, &mut |s, a| s.b.ins().icmp(int_cc(*c), a[0], a[1])),
            Op::Select if single => self.each(args, &mut |s, a| s.b.ins().select(a[0], a[1], a[2])),
            Op::Select => self.each(args, &mut |s, a| {
                let ty = s.b.func.dfg.value_type(a[1]);
                let mask = s.cast(ty, a[0]);
                // NaN where the first is NaN: all ones are a NaN, and one instruction instead of a slow blend.
                if s.is_nan_test(a[0], a[1]) {
                    return s.b.ins().bor(mask, a[2]);
                }
                s.b.ins().bitselect(mask, a[1], a[2])
            }),
            Op::Bitcast if single => {
                let ty = clif_type(to);
                self.each(args, &mut |s, a| s.float_bits(ty, a[0]).unwrap_or_else(|| s.cast(ty, a[0])))
            }
            Op::Bitcast => {
                let ty = clif_vector(to);
                self.each(args, &mut |s, a| s.cast(ty, a[0]))
            }
            Op::MaskToInt if single => {
                let ty = clif_type(to);
                self.each(args, &mut |s, a| s.b.ins().uextend(ty, a[0]))
            }
            Op::MaskToInt => {
                let one = self.constant_vector(to, 1);
                let one = regs(&[one], 0)[0];
                self.each(args, &mut |s, a| s.b.ins().band(a[0], one))
            }
            Op::MaskCast if single => args[0],
            Op::SToF
            | Op::UToF
            | Op::FToS
            | Op::FToU
            | Op::FToSFast
            | Op::Promote
            | Op::Demote
            | Op::SExt
            | Op::UExt
            | Op::Wrap
            | Op::MaskCast => self.conversion(op, args[0], to),
            Op::Const(bits) => Val::One(self.scalar_constant(to, *bits)),
            Op::Arg(_) | Op::Load(..) | Op::Row(_) | Op::Result(_) | Op::Index(_) => {
                Val::One(self.missing(to, format!("{op:?} is a leaf and has its value from the row loop")))
            }
        }
    }

    /// Rounding to integers in additions: a magnitude below 2^(p-1), with p bits of precision, plus and minus that power is the
    /// nearest integer, even where two are near. The other directions step back by one where that went too far. A greater
    /// magnitude is an integer or no number and stays; the sign is always the operand's, that of a zero included.
    fn rounded(&mut self, op: &Op, args: &[Val], scalar: ScalarType) -> Val {
        let Some(&x) = args.first() else { return Val::One(self.missing(scalar, format!("{op:?} without arguments"))) };
        let (power, one) = match scalar {
            ScalarType::F32 => (u64::from(8_388_608f32.to_bits()), u64::from(1f32.to_bits())),
            ScalarType::F64 => (4_503_599_627_370_496f64.to_bits(), 1f64.to_bits()),
            ScalarType::I32 | ScalarType::I64 | ScalarType::M32 | ScalarType::M64 => {
                return Val::One(self.missing(scalar, format!("{op:?} of no float")));
            }
        };
        let (mask, integer) = (scalar.mask(), scalar.integer());
        let (power, one) = (self.constant_like(x, scalar, power), self.constant_like(x, scalar, one));
        let sign = self.constant_like(x, integer, 1 << (scalar.bits() - 1));
        let two = [scalar, scalar];
        let magnitude = self.node(&Op::FAbs, &[x], &[scalar], scalar);
        let up = self.node(&Op::FAdd, &[magnitude, power], &two, scalar);
        let nearest = self.node(&Op::FSub, &[up, power], &two, scalar);
        let bits = self.node(&Op::Bitcast, &[x], &[scalar], integer);
        let sign = self.node(&Op::And, &[bits, sign], &[integer, integer], integer);
        // The operand's sign, put on a magnitude.
        let signed = |s: &mut Self, v: Val| {
            let v = s.node(&Op::FAbs, &[v], &[scalar], scalar);
            let v = s.node(&Op::Bitcast, &[v], &[scalar], integer);
            let v = s.node(&Op::Or, &[v, sign], &[integer, integer], integer);
            s.node(&Op::Bitcast, &[v], &[integer], scalar)
        };
        let whole = match op {
            Op::Nearest => nearest,
            Op::Trunc => self.step(magnitude, nearest, FloatCond::Gt, &Op::FSub, one, scalar),
            Op::Floor => {
                let nearest = signed(self, nearest);
                self.step(x, nearest, FloatCond::Gt, &Op::FSub, one, scalar)
            }
            Op::Ceil => {
                let nearest = signed(self, nearest);
                self.step(x, nearest, FloatCond::Lt, &Op::FAdd, one, scalar)
            }
            other => {
                self.faults.report(format!("{other:?} rounds to no integer"));
                nearest
            }
        };
        let whole = signed(self, whole);
        let small = self.node(&Op::FCmp(FloatCond::Lt), &[magnitude, power], &two, mask);
        self.node(&Op::Select, &[small, whole, x], &[mask, scalar, scalar], scalar)
    }

    /// One step back from `rounded` where it compares to `exact` as it should not.
    fn step(&mut self, exact: Val, rounded: Val, too_far: FloatCond, back: &Op, one: Val, scalar: ScalarType) -> Val {
        let far = self.node(&Op::FCmp(too_far), &[rounded, exact], &[scalar, scalar], scalar.mask());
        let stepped = self.node(back, &[rounded, one], &[scalar, scalar], scalar);
        self.node(&Op::Select, &[far, stepped, rounded], &[scalar.mask(), scalar, scalar], scalar)
    }

    /// What is a float's bits and something, as a float again, is done on the float: signs are put on results, and the way to a general
    /// register and back is longer than the rest of it. Where the machine has such instructions for scalar floats.
    fn float_bits(&mut self, ty: Type, v: Value) -> Option<Value> {
        if !self.target.is_x86() || !ty.is_float() {
            return None;
        }
        let dfg = &self.b.func.dfg;
        let made = |v: Value| dfg.value_def(v).inst().map(|inst| &dfg.insts[inst]);
        let float = |v: Value| match made(v) {
            Some(InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. }) => {
                (dfg.value_type(*arg) == ty).then_some(*arg)
            }
            _ => None,
        };
        let Some(&InstructionData::Binary { opcode, args: [a, b] }) = made(v) else { return None };
        let (float, other) = float(a).map(|x| (x, b)).or_else(|| float(b).map(|x| (x, a)))?;
        let other = self.cast(ty, other);
        match opcode {
            Opcode::Bxor => Some(self.b.ins().bxor(float, other)),
            Opcode::Band => Some(self.b.ins().band(float, other)),
            Opcode::Bor => Some(self.b.ins().bor(float, other)),
            _ => None,
        }
    }

    /// Whether `mask` is «`x` is NaN».
    fn is_nan_test(&self, mask: Value, x: Value) -> bool {
        let dfg = &self.b.func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(mask) else { return false };
        matches!(
            dfg.insts[inst],
            InstructionData::FloatCompare { cond: FloatCC::Unordered, args, .. } if args == [x, x]
        )
    }

    /// `a < b ? a : b`, or `b < a ? a : b`: the forms that become one min or max instruction.
    fn pick(&mut self, args: &[Val], larger: bool) -> Val {
        let scalar = args[0].is_scalar();
        self.each(args, &mut |s, a| {
            let (x, y) = if larger { (a[1], a[0]) } else { (a[0], a[1]) };
            let mask = s.b.ins().fcmp(FloatCC::LessThan, x, y);
            if scalar {
                s.b.ins().select(mask, a[0], a[1])
            } else {
                let ty = s.b.func.dfg.value_type(a[0]);
                let mask = s.cast(ty, mask);
                s.b.ins().bitselect(mask, a[0], a[1])
            }
        })
    }

    fn conversion(&mut self, op: &Op, arg: Val, to: ScalarType) -> Val {
        let ty = clif_type(to);
        match (op, arg) {
            (_, Val::Each(all)) => Val::Each(all.map(|v| {
                let one = self.conversion(op, Val::One(v), to);
                self.scalar(one)
            })),
            (Op::SToF, Val::One(a)) => Val::One(self.b.ins().fcvt_from_sint(ty, a)),
            (Op::UToF, Val::One(a)) => Val::One(self.b.ins().fcvt_from_uint(ty, a)),
            (Op::FToS | Op::FToSFast, Val::One(a)) => Val::One(self.b.ins().fcvt_to_sint_sat(ty, a)),
            (Op::FToU, Val::One(a)) => Val::One(self.b.ins().fcvt_to_uint_sat(ty, a)),
            (Op::Promote, Val::One(a)) => Val::One(self.b.ins().fpromote(ty, a)),
            (Op::Demote, Val::One(a)) => Val::One(self.b.ins().fdemote(ty, a)),
            (Op::SExt, Val::One(a)) => Val::One(self.b.ins().sextend(ty, a)),
            (Op::UExt, Val::One(a)) => Val::One(self.b.ins().uextend(ty, a)),
            (Op::Wrap, Val::One(a)) => Val::One(self.b.ins().ireduce(ty, a)),
            (Op::SToF, Val::Four(a)) if to == ScalarType::F32 => {
                Val::Four(self.b.ins().fcvt_from_sint(types::F32X4, a))
            }
            (Op::UToF, Val::Four(a)) if to == ScalarType::F32 => {
                Val::Four(self.b.ins().fcvt_from_uint(types::F32X4, a))
            }
            (Op::SToF, Val::Four(a)) => {
                let (low, high) = (self.b.ins().swiden_low(a), self.b.ins().swiden_high(a));
                Val::Pair([low, high].map(|v| self.b.ins().fcvt_from_sint(types::F64X2, v)))
            }
            (Op::UToF, Val::Four(a)) => {
                let (low, high) = (self.b.ins().uwiden_low(a), self.b.ins().uwiden_high(a));
                Val::Pair([low, high].map(|v| self.b.ins().fcvt_from_uint(types::F64X2, v)))
            }
            (Op::SToF, Val::Pair(p)) => Val::Pair(p.map(|v| self.b.ins().fcvt_from_sint(types::F64X2, v))),
            (Op::UToF, Val::Pair(p)) => Val::Pair(p.map(|v| self.b.ins().fcvt_from_uint(types::F64X2, v))),
            (Op::FToSFast, Val::Four(a)) if self.target.is_x86() => {
                Val::Four(self.b.ins().x86_cvtt2dq(types::I32X4, a))
            }
            (Op::FToS | Op::FToSFast, Val::Four(a)) => Val::Four(self.b.ins().fcvt_to_sint_sat(types::I32X4, a)),
            (Op::FToU, Val::Four(a)) => Val::Four(self.b.ins().fcvt_to_uint_sat(types::I32X4, a)),
            (Op::Promote, Val::Four(a)) => {
                let high = self.shuffle(a, a, [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]);
                let high = self.cast(types::F32X4, high);
                Val::Pair([a, high].map(|v| self.b.ins().fvpromote_low(v)))
            }
            (Op::Demote, Val::Pair(p)) => {
                let [low, high] = p.map(|v| self.b.ins().fvdemote(v));
                let both = self.shuffle(low, high, [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]);
                Val::Four(self.cast(types::F32X4, both))
            }
            (Op::SExt | Op::MaskCast, Val::Four(a)) => {
                Val::Pair([self.b.ins().swiden_low(a), self.b.ins().swiden_high(a)])
            }
            (Op::UExt, Val::Four(a)) => Val::Pair([self.b.ins().uwiden_low(a), self.b.ins().uwiden_high(a)]),
            (Op::Wrap | Op::MaskCast, Val::Pair([low, high])) => {
                let both = self.shuffle(low, high, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]);
                Val::Four(self.cast(types::I32X4, both))
            }
            // `needs_scalar` has every other conversion go through the scalar forms above.
            (op, other) => {
                self.faults.report(format!("{op:?} has no form on vectors"));
                other
            }
        }
    }

    /// The high halves of the products of 32-bit lanes: the widened halves of a register multiply in one instruction.
    fn multiply_high(&mut self, signed: bool, x: Value, y: Value) -> Value {
        let mut product = |high: bool| {
            let [x, y] = [x, y].map(|v| match (signed, high) {
                (true, false) => self.b.ins().swiden_low(v),
                (true, true) => self.b.ins().swiden_high(v),
                (false, false) => self.b.ins().uwiden_low(v),
                (false, true) => self.b.ins().uwiden_high(v),
            });
            self.b.ins().imul(x, y)
        };
        let (low, high) = (product(false), product(true));
        let both = self.shuffle(low, high, [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31]);
        self.cast(types::I32X4, both)
    }

    /// Whether a vector lies in vector registers.
    pub fn has_vectors(&self) -> bool {
        self.target.has_vectors()
    }

    /// Four registers of four elements of 32 bits, transposed.
    pub fn transpose(&mut self, [a, b, c, d]: [Value; 4]) -> [Value; 4] {
        let ty = self.b.func.dfg.value_type(a);
        let low = [0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23];
        let high = low.map(|byte| byte + 8);
        let [ab, cd] = [(a, b), (c, d)].map(|(x, y)| [low, high].map(|mask| self.shuffle(x, y, mask)));
        let [[x, y], [z, w]] = [0, 1].map(|k| self.transpose_pair(ab[k], cd[k]));
        [x, y, z, w].map(|v| self.cast(ty, v))
    }

    /// Two registers of two elements of 64 bits, transposed.
    pub fn transpose_pair(&mut self, a: Value, b: Value) -> [Value; 2] {
        let ty = self.b.func.dfg.value_type(a);
        let low = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
        let high = low.map(|byte| byte + 8);
        [low, high].map(|mask| {
            let v = self.shuffle(a, b, mask);
            self.cast(ty, v)
        })
    }

    fn shuffle(&mut self, a: Value, b: Value, mask: [u8; 16]) -> Value {
        let (a, b) = (self.cast(types::I8X16, a), self.cast(types::I8X16, b));
        let mask = self.b.func.dfg.immediates.push(mask.to_vec().into());
        self.b.ins().shuffle(a, b, mask)
    }

    /// A load of one element.
    pub fn load_one(&mut self, mem: Mem, address: Value, offset: i32) -> Value {
        let f = flags();
        match mem {
            Mem::S8 => self.b.ins().sload8(types::I32, f, address, offset),
            Mem::U8 => self.b.ins().uload8(types::I32, f, address, offset),
            Mem::S16 => self.b.ins().sload16(types::I32, f, address, offset),
            Mem::U16 => self.b.ins().uload16(types::I32, f, address, offset),
            Mem::I32 | Mem::I64 | Mem::F32 | Mem::F64 => self.b.ins().load(clif_type(mem.scalar()), f, address, offset),
        }
    }

    /// A load of four neighbouring elements.
    pub fn load_vector(&mut self, mem: Mem, address: Value, offset: i32) -> Val {
        if !self.target.has_vectors() {
            return Val::Each([0, 1, 2, 3].map(|n| self.load_one(mem, address, offset + n * mem.bytes() as i32)));
        }
        let f = flags();
        match mem {
            Mem::S8 | Mem::U8 => {
                let raw = self.b.ins().load(types::I32, f, address, offset);
                let v = self.b.ins().scalar_to_vector(types::I32X4, raw);
                let v = self.cast(types::I8X16, v);
                Val::Four(if mem == Mem::S8 {
                    let v = self.b.ins().swiden_low(v);
                    self.b.ins().swiden_low(v)
                } else {
                    let v = self.b.ins().uwiden_low(v);
                    self.b.ins().uwiden_low(v)
                })
            }
            Mem::S16 => Val::Four(self.b.ins().sload16x4(f, address, offset)),
            Mem::U16 => Val::Four(self.b.ins().uload16x4(f, address, offset)),
            Mem::I32 | Mem::F32 => Val::Four(self.b.ins().load(clif_vector(mem.scalar()), f, address, offset)),
            Mem::I64 | Mem::F64 => {
                let ty = clif_vector(mem.scalar());
                Val::Pair([0, 16].map(|o| self.b.ins().load(ty, f, address, offset + o)))
            }
        }
    }

    /// A store of one element.
    pub fn store_one(&mut self, mem: Mem, v: Value, address: Value, offset: i32) {
        let f = flags();
        match mem {
            Mem::S8 | Mem::U8 => self.b.ins().istore8(f, v, address, offset),
            Mem::S16 | Mem::U16 => self.b.ins().istore16(f, v, address, offset),
            Mem::I32 | Mem::I64 | Mem::F32 | Mem::F64 => self.b.ins().store(f, v, address, offset),
        };
    }

    /// A store of four neighbouring elements.
    pub fn store_vector(&mut self, mem: Mem, v: Val, address: Value, offset: i32) {
        let f = flags();
        match (mem, v) {
            (_, Val::Each(all)) => {
                for (n, v) in (0..).zip(all) {
                    self.store_one(mem, v, address, offset + n * mem.bytes() as i32);
                }
            }
            (Mem::S8 | Mem::U8, Val::Four(v)) => {
                let v = self.b.ins().snarrow(v, v);
                let v = if mem == Mem::S8 { self.b.ins().snarrow(v, v) } else { self.b.ins().unarrow(v, v) };
                let v = self.cast(types::I32X4, v);
                let v = self.b.ins().extractlane(v, 0u8);
                self.b.ins().store(f, v, address, offset);
            }
            (Mem::S16 | Mem::U16, Val::Four(v)) => {
                let v = if mem == Mem::S16 { self.b.ins().snarrow(v, v) } else { self.b.ins().unarrow(v, v) };
                let v = self.cast(types::I64X2, v);
                let v = self.b.ins().extractlane(v, 0u8);
                self.b.ins().store(f, v, address, offset);
            }
            (_, Val::Pair(p)) => {
                self.b.ins().store(f, p[0], address, offset);
                self.b.ins().store(f, p[1], address, offset + 16);
            }
            (_, Val::Four(v) | Val::One(v)) => {
                self.b.ins().store(f, v, address, offset);
            }
        }
    }
}

/// The registers number `n` of some vectors.
fn regs(args: &[Val], n: usize) -> Vec<Value> {
    args.iter()
        .map(|a| match a {
            Val::One(v) | Val::Four(v) => *v,
            Val::Pair(p) => p[n],
            Val::Each(e) => e[n],
        })
        .collect()
}

/// Whether CLIF has no vector form for an operation on vectors (see the legality notes in docs/architecture.md).
fn needs_scalar(op: &Op, from: ScalarType, to: ScalarType) -> bool {
    match op {
        Op::Clz | Op::Popcnt => true,
        Op::SMulHi | Op::UMulHi => from == ScalarType::I64,
        Op::SDiv | Op::UDiv | Op::SRem | Op::URem | Op::Shl | Op::LShr | Op::AShr => true,
        Op::SToF | Op::UToF => from == ScalarType::I64 && to == ScalarType::F32,
        Op::FToS | Op::FToU | Op::FToSFast => !(from == ScalarType::F32 && to == ScalarType::I32),
        // A form that CLIF lacks is an error of its own.
        _ => false,
    }
}
