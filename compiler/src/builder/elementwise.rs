//! Elementwise operations.

use super::types::ComparisonDirection;
use super::{At, Builder, Op, Step};
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode};
use brolga_runtime::ElementType;
use std::panic::Location;

macro_rules! unary {
    ($($name:ident $opcode:ident $what:literal;)*) => {
        /// Functions of one operand, which yield its shape. Section «Element-wise unary functions»; those that the
        /// section leaves out follow its form. Errors: an element type that the function does not take.
        impl Builder {
            $(#[doc = concat!("`", stringify!($name), "(operand)`: ", $what)]
            #[track_caller]
            pub fn $name(&self, operand: Op) -> Op {
                self.op(Opcode::$opcode, &[operand], Attrs::new(), None)
            })*
        }
    };
}

unary! {
    abs Abs "the absolute value; of a complex operand its real-valued magnitude.";
    acos Acos "the inverse cosine, of floats and complex numbers.";
    acosh Acosh "the inverse hyperbolic cosine, of floats and complex numbers.";
    asin Asin "the inverse sine, of floats and complex numbers.";
    asinh Asinh "the inverse hyperbolic sine, of floats and complex numbers.";
    atanh Atanh "the inverse hyperbolic tangent, of floats and complex numbers.";
    cbrt Cbrt "the cube root.";
    ceil Ceil "the nearest integer not below, of floats.";
    clz Clz "the number of leading zero bits, of integers.";
    cos Cos "the cosine.";
    cosh Cosh "the hyperbolic cosine.";
    erf Erf "the error function, of floats.";
    exp Exp "e to the operand.";
    expm1 Expm1 "e to the operand, less one, exact near zero.";
    floor Floor "the nearest integer not above, of floats.";
    imag Imag "the imaginary part; zero of a float.";
    is_finite IsFinite "`pred`: neither infinite nor NaN, of floats.";
    log Log "the natural logarithm.";
    log1p Log1p "the natural logarithm of one plus the operand, exact near zero.";
    logistic Logistic "1 / (1 + exp(-x)).";
    neg Negate "the negation.";
    not Not "the bitwise, or for `pred` the logical, complement.";
    population_count PopulationCount "the number of one bits, of integers.";
    real Real "the real part; a float itself.";
    round RoundNearestAfz "the nearest integer, halves away from zero, of floats.";
    round_nearest_even RoundNearestEven "the nearest integer, halves to even, of floats.";
    rsqrt Rsqrt "one over the square root.";
    sign Sign "-1, -0, 0, 1 or NaN; of a complex operand `x / abs(x)`.";
    sin Sin "the sine.";
    sinh Sinh "the hyperbolic sine.";
    sqrt Sqrt "the square root.";
    tan Tan "the tangent.";
    tanh Tanh "the hyperbolic tangent.";
}

macro_rules! binary {
    ($($name:ident $in_dims:ident $opcode:ident $what:literal;)*) => {
        /// Operations of two operands of one element type. Section «Element-wise binary arithmetic operations». A
        /// scalar meets every element of the other operand, and a dimension of size one every place along it; operands
        /// of different rank need the `_in_dims` form, whose `broadcast_dimensions` say, ascending, which dimensions
        /// of the larger the smaller lies along. Errors: shapes that do not broadcast, element types that differ or
        /// that the operation does not take.
        impl Builder {
            $(#[doc = concat!("`", stringify!($name), "(lhs, rhs)`: ", $what)]
            #[track_caller]
            pub fn $name(&self, lhs: Op, rhs: Op) -> Op {
                self.finish(self.binary_at(Location::caller(), Opcode::$opcode, lhs, rhs, &[], Attrs::new()))
            }

            #[doc = concat!("As [`Builder::", stringify!($name), "`], for operands of different rank.")]
            #[track_caller]
            pub fn $in_dims(&self, lhs: Op, rhs: Op, broadcast_dimensions: &[i64]) -> Op {
                let at = Location::caller();
                self.finish(self.binary_at(at, Opcode::$opcode, lhs, rhs, broadcast_dimensions, Attrs::new()))
            })*
        }
    };
}

binary! {
    add add_in_dims Add "the sum; of `pred` the logical or.";
    and and_in_dims And "the bitwise, or for `pred` the logical, and.";
    atan2 atan2_in_dims Atan2 "the angle of the point (rhs, lhs).";
    complex complex_in_dims Complex "the complex number of a real and an imaginary part, both f32 or both f64.";
    div div_in_dims Divide "the quotient; of integers rounded towards zero.";
    max max_in_dims Maximum "the larger; NaN if either is.";
    min min_in_dims Minimum "the smaller; NaN if either is.";
    mulhi mulhi_in_dims Mulhi "the high half of the product of integers.";
    mul mul_in_dims Multiply "the product; of `pred` the logical and.";
    or or_in_dims Or "the bitwise, or for `pred` the logical, or.";
    pow pow_in_dims Power "lhs to the power rhs.";
    rem rem_in_dims Remainder "the remainder, with the sign of lhs.";
    shift_left shift_left_in_dims ShiftLeft "lhs shifted left by rhs bits, of integers.";
    shift_right_arithmetic shift_right_arithmetic_in_dims ShiftRightArithmetic
        "lhs shifted right by rhs bits, the sign bit repeated, of integers.";
    shift_right_logical shift_right_logical_in_dims ShiftRightLogical
        "lhs shifted right by rhs bits, zeros shifted in, of integers.";
    sub sub_in_dims Subtract "the difference.";
    xor xor_in_dims Xor "the bitwise, or for `pred` the logical, exclusive or.";
}

macro_rules! comparisons {
    ($($name:ident $in_dims:ident $total:ident $total_in_dims:ident $direction:ident $what:literal;)*) => {
        /// Comparisons, which yield `pred`. Section «Element-wise comparison operations». They broadcast as the
        /// arithmetic operations do. The `_total_order` forms order floats -NaN < -inf < -0 < +0 < +inf < +NaN.
        impl Builder {
            $(#[doc = concat!("`", stringify!($name), "(lhs, rhs)`: ", $what)]
            #[track_caller]
            pub fn $name(&self, lhs: Op, rhs: Op) -> Op {
                self.finish(self.compare_at(Location::caller(), lhs, rhs, &[], ComparisonDirection::$direction, false))
            }

            #[doc = concat!("As [`Builder::", stringify!($name), "`], for operands of different rank.")]
            #[track_caller]
            pub fn $in_dims(&self, lhs: Op, rhs: Op, broadcast_dimensions: &[i64]) -> Op {
                let (at, direction) = (Location::caller(), ComparisonDirection::$direction);
                self.finish(self.compare_at(at, lhs, rhs, broadcast_dimensions, direction, false))
            }

            #[doc = concat!("As [`Builder::", stringify!($name), "`], in the total order of floats.")]
            #[track_caller]
            pub fn $total(&self, lhs: Op, rhs: Op) -> Op {
                self.finish(self.compare_at(Location::caller(), lhs, rhs, &[], ComparisonDirection::$direction, true))
            }

            #[doc = concat!("As [`Builder::", stringify!($total), "`], for operands of different rank.")]
            #[track_caller]
            pub fn $total_in_dims(&self, lhs: Op, rhs: Op, broadcast_dimensions: &[i64]) -> Op {
                let (at, direction) = (Location::caller(), ComparisonDirection::$direction);
                self.finish(self.compare_at(at, lhs, rhs, broadcast_dimensions, direction, true))
            })*
        }
    };
}

comparisons! {
    eq eq_in_dims eq_total_order eq_total_order_in_dims Eq "equal.";
    ne ne_in_dims ne_total_order ne_total_order_in_dims Ne "not equal.";
    ge ge_in_dims ge_total_order ge_total_order_in_dims Ge "greater or equal.";
    gt gt_in_dims gt_total_order gt_total_order_in_dims Gt "greater.";
    le le_in_dims le_total_order le_total_order_in_dims Le "less or equal.";
    lt lt_in_dims lt_total_order lt_total_order_in_dims Lt "less.";
}

impl Builder {
    pub(super) fn binary_at(&self, at: At, opcode: Opcode, lhs: Op, rhs: Op, dimensions: &[i64], attrs: Attrs) -> Step {
        let (lhs, rhs) = self.broadcast_pair(at, opcode, lhs, rhs, dimensions)?;
        self.add_at(at, opcode, &[lhs, rhs], attrs, None)
    }

    fn compare_at(
        &self,
        at: At,
        lhs: Op,
        rhs: Op,
        dimensions: &[i64],
        direction: ComparisonDirection,
        total: bool,
    ) -> Step {
        let mut attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction.word()));
        // Integers have one order; only floats need to say which.
        if total && self.array_at(at, Opcode::Compare, lhs)?.ty.is_float() {
            attrs.set(AttrKey::ComparisonType, AttrValue::Word("TOTALORDER"));
        }
        self.binary_at(at, Opcode::Compare, lhs, rhs, dimensions, attrs)
    }

    /// `compare(lhs, rhs, direction)`: the comparison as a value. Section «Element-wise comparison operations».
    #[track_caller]
    pub fn compare(&self, lhs: Op, rhs: Op, direction: ComparisonDirection) -> Op {
        self.finish(self.compare_at(Location::caller(), lhs, rhs, &[], direction, false))
    }

    /// `select(pred, on_true, on_false)`: each element from `on_true` or `on_false`, which have one shape, the
    /// result's; `pred` has the same dimensions or is a scalar. Tuples are taken whole, by a scalar. Errors: other shapes;
    /// nothing but the predicate is broadcast. Section «Select».
    #[track_caller]
    pub fn select(&self, pred: Op, on_true: Op, on_false: Op) -> Op {
        self.op(Opcode::Select, &[pred, on_true, on_false], Attrs::new(), None)
    }

    /// `clamp(min, operand, max)`: `operand` kept within the bounds, which are scalars or have its shape. Section
    /// «Clamp».
    #[track_caller]
    pub fn clamp(&self, min: Op, operand: Op, max: Op) -> Op {
        self.op(Opcode::Clamp, &[min, operand, max], Attrs::new(), None)
    }

    /// `convert_element_type(operand, new_element_type)`: each element converted to the nearest value. Errors: from a
    /// complex to a real type. Section «ConvertElementType».
    #[track_caller]
    pub fn convert_element_type(&self, operand: Op, new_element_type: ElementType) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::Convert, operand).and_then(|a| {
            let shape = a.with_type(new_element_type).into();
            self.add_at(at, Opcode::Convert, &[operand], Attrs::new(), Some(shape))
        }))
    }

    /// `reduce_precision(operand, exponent_bits, mantissa_bits)`: rounded to a narrower format and back. Section
    /// «ReducePrecision».
    #[track_caller]
    pub fn reduce_precision(&self, operand: Op, exponent_bits: i64, mantissa_bits: i64) -> Op {
        let attrs = Attrs::new()
            .with(AttrKey::ExponentBits, AttrValue::Int(exponent_bits))
            .with(AttrKey::MantissaBits, AttrValue::Int(mantissa_bits));
        self.op(Opcode::ReducePrecision, &[operand], attrs, None)
    }

    /// `stochastic_convert(operand, random, new_element_type)`: rounded up or down as unsigned random bits of the
    /// operand's width decide.
    #[track_caller]
    pub fn stochastic_convert(&self, operand: Op, random: Op, new_element_type: ElementType) -> Op {
        let at = Location::caller();
        self.finish(self.array_at(at, Opcode::StochasticConvert, operand).and_then(|a| {
            let shape = a.with_type(new_element_type).into();
            self.add_at(at, Opcode::StochasticConvert, &[operand, random], Attrs::new(), Some(shape))
        }))
    }
}
