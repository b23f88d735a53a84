//! What the nodes of a body are: operations, the scalar types that they yield, the forms of elements in memory.

use super::index::{Ix, NodeId};
use smallvec::SmallVec;

/// The type of the elements that a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScalarType {
    /// 32-bit integer, no sign of its own.
    I32,
    /// 64-bit integer, no sign of its own.
    I64,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// Truth value beside elements of 32 bits.
    M32,
    /// Truth value beside elements of 64 bits.
    M64,
}

impl ScalarType {
    /// Width in bits.
    pub const fn bits(self) -> u32 {
        match self {
            ScalarType::I32 | ScalarType::F32 | ScalarType::M32 => 32,
            ScalarType::I64 | ScalarType::F64 | ScalarType::M64 => 64,
        }
    }

    /// The integer type of the same width.
    pub const fn integer(self) -> ScalarType {
        if self.bits() == 32 { ScalarType::I32 } else { ScalarType::I64 }
    }

    /// The mask type of the same width.
    pub const fn mask(self) -> ScalarType {
        if self.bits() == 32 { ScalarType::M32 } else { ScalarType::M64 }
    }

    /// True for the two float types.
    pub const fn is_float(self) -> bool {
        matches!(self, ScalarType::F32 | ScalarType::F64)
    }

    /// The number that some bits are in a float type.
    pub const fn float(self, bits: u64) -> Option<f64> {
        match self {
            ScalarType::F32 => Some(f32::from_bits(bits as u32) as f64),
            ScalarType::F64 => Some(f64::from_bits(bits)),
            ScalarType::I32 | ScalarType::I64 | ScalarType::M32 | ScalarType::M64 => None,
        }
    }

    /// True for the two mask types.
    pub const fn is_mask(self) -> bool {
        matches!(self, ScalarType::M32 | ScalarType::M64)
    }
}

/// How an element lies in memory and becomes a scalar type, or the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mem {
    /// One byte, sign-extended to [`ScalarType::I32`].
    S8,
    /// One byte, zero-extended to [`ScalarType::I32`].
    U8,
    /// Two bytes, sign-extended to [`ScalarType::I32`].
    S16,
    /// Two bytes, zero-extended to [`ScalarType::I32`].
    U16,
    /// Four bytes, [`ScalarType::I32`].
    I32,
    /// Eight bytes, [`ScalarType::I64`].
    I64,
    /// Four bytes, [`ScalarType::F32`].
    F32,
    /// Eight bytes, [`ScalarType::F64`].
    F64,
}

/// Bytes of a register of 128 bits, of which wider ones are made.
pub const PART: i64 = 16;

impl Mem {
    /// How the elements of a row buffer or of scratch lie: those of a scalar type as they are, masks as integers.
    pub const fn of(scalar: ScalarType) -> Mem {
        match scalar {
            ScalarType::I32 | ScalarType::M32 => Mem::I32,
            ScalarType::I64 | ScalarType::M64 => Mem::I64,
            ScalarType::F32 => Mem::F32,
            ScalarType::F64 => Mem::F64,
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> i64 {
        match self {
            Mem::S8 | Mem::U8 => 1,
            Mem::S16 | Mem::U16 => 2,
            Mem::I32 | Mem::F32 => 4,
            Mem::I64 | Mem::F64 => 8,
        }
    }

    /// The scalar type that a load yields and a store takes.
    pub const fn scalar(self) -> ScalarType {
        match self {
            Mem::S8 | Mem::U8 | Mem::S16 | Mem::U16 | Mem::I32 => ScalarType::I32,
            Mem::I64 => ScalarType::I64,
            Mem::F32 => ScalarType::F32,
            Mem::F64 => ScalarType::F64,
        }
    }

    /// Elements in a register of 128 bits, the part of a wider one by which rows of a few elements go to and from memory.
    pub const fn per_part(self) -> i64 {
        PART / self.bytes()
    }

    /// Whether so many neighbours in a row fill such a part, in the form that they have in registers.
    pub const fn fills_part(self, neighbours: i64) -> bool {
        !self.is_extended() && neighbours >= self.per_part()
    }

    /// Whether an element is extended to its scalar type by its sign.
    pub const fn is_signed(self) -> bool {
        match self {
            Mem::S8 | Mem::S16 => true,
            Mem::U8 | Mem::U16 | Mem::I32 | Mem::I64 | Mem::F32 | Mem::F64 => false,
        }
    }

    /// Whether an element has fewer bits in memory than in its scalar type.
    pub const fn is_extended(self) -> bool {
        match self {
            Mem::S8 | Mem::U8 | Mem::S16 | Mem::U16 => true,
            Mem::I32 | Mem::I64 | Mem::F32 | Mem::F64 => false,
        }
    }
}

/// Comparison conditions on floats; `Uno` is true where either side is NaN, the others are false there but `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FloatCond {
    /// Equal.
    Eq,
    /// Not equal, or unordered.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Unordered.
    Uno,
}

/// Comparison conditions on integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum IntCond {
    Eq,
    Ne,
    SLt,
    SLe,
    SGt,
    SGe,
    ULt,
    ULe,
    UGt,
    UGe,
}

/// A primitive operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The same value in every element: the bits of the scalar type, or 0/1 for masks.
    Const(u64),
    /// An argument of a combiner or an expansion under test.
    Arg(u32),
    /// A load: buffer number of the kernel, memory form, element offset.
    Load(u32, Mem, Ix),
    /// A load from a row buffer, at the vector axis' index.
    Row(u32),
    /// The final value of an accumulator of an earlier stage.
    Result(u32),
    /// An integer index expression as a value.
    Index(Ix),

    /// Float negation (flips the sign bit).
    FNeg,
    /// Float magnitude (clears the sign bit).
    FAbs,
    /// Correctly rounded square root.
    Sqrt,
    /// Toward minus infinity.
    Floor,
    /// Toward plus infinity.
    Ceil,
    /// Toward zero.
    Trunc,
    /// To nearest, ties to even.
    Nearest,
    /// Bitwise complement of integers; logical not of masks.
    Not,
    /// Leading zero bits, of the scalar type's width.
    Clz,
    /// Set bits.
    Popcnt,

    /// Float sum.
    FAdd,
    /// Float difference.
    FSub,
    /// Float product.
    FMul,
    /// Float quotient.
    FDiv,
    /// `a * b + c`, rounded once.
    Fma,
    /// `a < b ? a : b`: the second operand where either is NaN.
    FMinPseudo,
    /// `a > b ? a : b`: the second operand where either is NaN.
    FMaxPseudo,

    /// Wrapping sum.
    IAdd,
    /// Wrapping difference.
    ISub,
    /// Wrapping product.
    IMul,
    /// High half of the signed product.
    SMulHi,
    /// High half of the unsigned product.
    UMulHi,
    /// Signed quotient; the divisor is neither 0 nor -1 with the minimum above it (the lowering sees to that).
    SDiv,
    /// Unsigned quotient; the divisor is not 0.
    UDiv,
    /// Signed remainder; as for [`Op::SDiv`].
    SRem,
    /// Unsigned remainder; the divisor is not 0.
    URem,
    /// Signed minimum.
    SMin,
    /// Signed maximum.
    SMax,
    /// Unsigned minimum.
    UMin,
    /// Unsigned maximum.
    UMax,
    /// Bitwise and, of integers or masks.
    And,
    /// Bitwise or, of integers or masks.
    Or,
    /// Bitwise exclusive or, of integers or masks.
    Xor,
    /// Left shift by a constant below the width.
    ShlImm(u8),
    /// Logical right shift by a constant below the width.
    LShrImm(u8),
    /// Arithmetic right shift by a constant below the width.
    AShrImm(u8),
    /// Left shift; the amount is below the width.
    Shl,
    /// Logical right shift; the amount is below the width.
    LShr,
    /// Arithmetic right shift; the amount is below the width.
    AShr,

    /// Float comparison, to the mask of the operand's width.
    FCmp(FloatCond),
    /// Integer comparison, to the mask of the operand's width.
    ICmp(IntCond),
    /// Mask, then, else: the mask has the width of the others (which may be masks).
    Select,

    /// The same bits in another scalar type of the same width (not to or from masks).
    Bitcast,
    /// Signed integer to float: `I32` to `F32` or `F64`, `I64` to `F32` or `F64`.
    SToF,
    /// Unsigned integer to float: as [`Op::SToF`].
    UToF,
    /// Float to signed integer, toward zero, saturating, NaN to 0: `F32` to `I32`/`I64`, `F64` to `I32`/`I64`.
    FToS,
    /// Float to unsigned integer, toward zero, saturating, NaN to 0: as [`Op::FToS`].
    FToU,
    /// `F32` to `I32` toward zero where the value is known to fit (one instruction on x86).
    FToSFast,
    /// `F32` to `F64`.
    Promote,
    /// `F64` to `F32`, to nearest even.
    Demote,
    /// `I32` to `I64` with the sign.
    SExt,
    /// `I32` to `I64` with zeros.
    UExt,
    /// `I64` to `I32`.
    Wrap,
    /// A mask of the other width.
    MaskCast,
    /// A mask as integer 0 or 1 of the same width.
    MaskToInt,
}

impl Op {
    /// The index map, where it has one.
    pub fn index(&self) -> Option<&Ix> {
        match self {
            Op::Load(_, _, ix) | Op::Index(ix) => Some(ix),
            _ => None,
        }
    }

    /// The operation with its index map, where it has one, replaced by what `change` makes of it.
    pub fn map_index(&self, change: impl FnOnce(&Ix) -> Ix) -> Op {
        match self {
            Op::Load(buffer, mem, ix) => Op::Load(*buffer, *mem, change(ix)),
            Op::Index(ix) => Op::Index(change(ix)),
            other => other.clone(),
        }
    }

    /// Whether arguments of a chain of this operation may change places and be grouped otherwise: of floats, up to rounding.
    pub fn regroups(&self) -> bool {
        use Op::*;
        matches!(self, FAdd | FMul | IAdd | IMul | SMin | SMax | UMin | UMax | And | Or | Xor)
    }
}

/// The arguments of a node: three at most of what is no mistake.
pub type Args = SmallVec<[NodeId; 3]>;

/// A node: an operation, its arguments and the scalar type it yields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// The arguments; as many as the operation takes.
    pub args: Args,
    /// What it yields.
    pub scalar: ScalarType,
}

impl Node {
    /// Calls `visit` for every node that this one is computed from: arguments, and loaded offsets of its index map.
    pub fn for_each_use(&self, visit: &mut impl FnMut(NodeId)) {
        self.args.iter().for_each(|&a| visit(a));
        if let Some(ix) = self.op.index() {
            ix.for_each_value(visit);
        }
    }
}
