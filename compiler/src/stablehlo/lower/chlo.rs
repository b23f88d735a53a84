//! CHLO: operations above StableHLO, most of them functions that HLO does not have or broadcasts as NumPy does it.

use super::body::Body;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::stablehlo::ir::{Attribute, Operation};
use brolga_runtime::{ArrayShape, ElementType, Scalar, Shape};
use std::sync::Arc;

impl<'p> Body<'_, 'p> {
    pub fn chlo(&mut self, op: &'p Operation, short: &str) -> Result<Vec<InstructionId>> {
        let one = |id: InstructionId| Ok(vec![id]);
        if let Some(plain) = short.strip_prefix("broadcast_") {
            return one(self.broadcasting(op, plain)?);
        }
        match short {
            "acos" | "acosh" | "asin" | "asinh" | "atanh" | "cosh" | "erf" | "sinh" | "tan" => {
                let [x] = self.operands(op)?;
                let opcode = Opcode::from_name(short).unwrap_or(Opcode::Tan);
                one(self.op(opcode, &[x])?)
            }
            "atan" => {
                let [x] = self.operands(op)?;
                let array = self.array(x)?;
                let ones = self.filled(&array, array.ty, Scalar::Float(1.0))?;
                one(self.op(Opcode::Atan2, &[x, ones])?)
            }
            "mulhi" => {
                let operands: [InstructionId; 2] = self.operands(op)?;
                one(self.op(Opcode::Mulhi, &operands)?)
            }
            "square" => {
                let [x] = self.operands(op)?;
                one(self.op(Opcode::Multiply, &[x, x])?)
            }
            "conj" => {
                let [x] = self.operands(op)?;
                if !self.array(x)?.ty.is_complex() {
                    return one(x);
                }
                let (re, im) = (self.op(Opcode::Real, &[x])?, self.op(Opcode::Imag, &[x])?);
                let im = self.op(Opcode::Negate, &[im])?;
                one(self.op(Opcode::Complex, &[re, im])?)
            }
            "is_inf" | "is_pos_inf" | "is_neg_inf" => {
                let [x] = self.operands(op)?;
                let x = if short == "is_inf" { self.op(Opcode::Abs, &[x])? } else { x };
                let limit = if short == "is_neg_inf" { f64::NEG_INFINITY } else { f64::INFINITY };
                let limit = self.number(x, limit)?;
                one(self.compare(x, "EQ", limit)?)
            }
            "constant" => {
                let Attribute::Elements(elements) = self.attribute(op, "value")? else {
                    return Err(self.invalid("attribute.kind", "expected the elements of a constant as value"));
                };
                let id = self.literal(Arc::new(brolga_runtime::Literal::Array((*elements.data).clone())))?;
                match (elements.is_splat, elements.dims()) {
                    (true, Some(dims)) => one(self.splat(id, &ArrayShape::new(elements.data.ty(), dims))?),
                    _ => one(id),
                }
            }
            "constant_like" => {
                let [like] = self.operands(op)?;
                let array = self.array(like)?;
                let value = match self.attribute(op, "value")? {
                    Attribute::Int(n, _) if array.ty.is_float() || array.ty.is_complex() => Scalar::Float(*n as f64),
                    Attribute::Int(n, _) => Scalar::Int(*n),
                    Attribute::Bool(b) => Scalar::Pred(*b),
                    Attribute::Float(x, _) => Scalar::Float(*x),
                    Attribute::Elements(e) if e.data.elements() == 1 => e.data.get(0),
                    _ => return Err(self.invalid("attribute.kind", "expected a number as value")),
                };
                let ty = self.result_element(op, 0)?;
                one(self.filled(&array, ty, value)?)
            }
            "next_after" => {
                let [x, y] = self.operands(op)?;
                one(self.next_after(x, y)?)
            }
            "erf_inv" => one(self.special(op, ElementType::F32, |b, x| b.erf_inv(x[0]))?),
            "erfc" => one(self.special(op, ElementType::F64, |b, x| b.erfc(x[0]))?),
            "lgamma" => one(self.special(op, ElementType::F64, |b, x| b.lgamma(x[0]))?),
            "digamma" => one(self.special(op, ElementType::F64, |b, x| b.digamma(x[0]))?),
            "bessel_i1e" => one(self.special(op, ElementType::F64, |b, x| b.bessel_i1e(x[0]))?),
            "zeta" => one(self.special(op, ElementType::F64, |b, x| b.zeta(x[0], x[1]))?),
            "polygamma" => one(self.special(op, ElementType::F64, |b, x| b.polygamma(x[0], x[1]))?),
            "top_k" => {
                let [operand] = self.operands(op)?;
                let k = self.int(op, "k")?;
                self.top_k(operand, k)
            }
            "ragged_dot" => one(self.ragged_dot(op)?),
            "scan" => self.scan(op),
            _ => Err(self.unsupported(format!("the operation {}", op.name))),
        }
    }

    /// A number of the type and the sizes of `like`.
    pub fn number(&mut self, like: InstructionId, value: f64) -> Result<InstructionId> {
        let array = self.array(like)?;
        self.filled(&array, array.ty, Scalar::Float(value))
    }

    /// A function of floats, computed with at least the precision of `least`.
    fn special(
        &mut self,
        op: &'p Operation,
        least: ElementType,
        function: impl FnOnce(&mut Self, &[InstructionId]) -> Result<InstructionId>,
    ) -> Result<InstructionId> {
        let operands = self.all_operands(op)?;
        let wanted =
            if matches!(&*op.name, "chlo.zeta" | "chlo.polygamma" | "chlo.broadcast_zeta" | "chlo.broadcast_polygamma")
            {
                2
            } else {
                1
            };
        if operands.len() != wanted {
            let message = format!("expected {wanted} operands of {}, found {}", op.name, operands.len());
            return Err(self.invalid("arity", message));
        }
        let ty = self.array(operands[0])?.ty;
        if !ty.is_float() {
            return Err(self.invalid("operand.float", format!("expected floats, found {ty}")));
        }
        let wide = if ty.bits() < least.bits() { least } else { ty };
        let mut converted = Vec::new();
        for operand in operands {
            converted.push(self.convert(operand, wide)?);
        }
        let result = function(self, &converted)?;
        self.convert(result, ty)
    }

    pub fn top_k(&mut self, operand: InstructionId, k: i64) -> Result<Vec<InstructionId>> {
        let attrs = Attrs::new().with(AttrKey::K, AttrValue::Int(k)).with(AttrKey::Largest, AttrValue::Bool(true));
        let id = self.emit(Opcode::TopK, &[operand], attrs, None)?;
        self.parts(id)
    }

    /// The next float from `x` towards `y`.
    fn next_after(&mut self, x: InstructionId, y: InstructionId) -> Result<InstructionId> {
        let array = self.array(x)?;
        let bits = match array.ty.bits() {
            16 => ElementType::S16,
            32 => ElementType::S32,
            64 => ElementType::S64,
            _ => return Err(self.unsupported(format!("chlo.next_after of {}", array.ty))),
        };
        let integer = |b: &mut Self, n: i64| b.filled(&array, bits, Scalar::Int(n));
        let sign_bit = if bits == ElementType::S64 { i64::MIN } else { -(1i64 << (bits.bits() - 1)) };
        let (xb, yb) = (self.bitcast(x, bits)?, self.bitcast(y, bits)?);
        let (one, minus_one, zero) = (integer(self, 1)?, integer(self, -1)?, integer(self, 0)?);
        let (sign, rest) = (integer(self, sign_bit)?, integer(self, !sign_bit)?);
        let (x_sign, y_sign) = (self.op(Opcode::And, &[xb, sign])?, self.op(Opcode::And, &[yb, sign])?);
        let (x_abs, y_abs) = (self.op(Opcode::And, &[xb, rest])?, self.op(Opcode::And, &[yb, rest])?);
        // Away from zero or towards it: one more or one less in magnitude.
        let signs_differ = self.compare(x_sign, "NE", y_sign)?;
        let x_larger = self.compare(x_abs, "GT", y_abs)?;
        let shrinks = self.op(Opcode::Or, &[x_larger, signs_differ])?;
        let step = self.op(Opcode::Select, &[shrinks, minus_one, one])?;
        let stepped = self.op(Opcode::Add, &[xb, step])?;
        // From zero to the least number of the other's sign.
        let least = self.op(Opcode::Or, &[y_sign, one])?;
        let (x_zero, y_zero) = (self.compare(x_abs, "EQ", zero)?, self.compare(y_abs, "EQ", zero)?);
        let from_zero = self.op(Opcode::Select, &[y_zero, yb, least])?;
        let moved = self.op(Opcode::Select, &[x_zero, from_zero, stepped])?;
        let equal = self.compare(x, "EQ", y)?;
        let result = self.op(Opcode::Select, &[equal, yb, moved])?;
        let result = self.bitcast(result, array.ty)?;
        let (x_nan, y_nan) = (self.compare(x, "NE", x)?, self.compare(y, "NE", y)?);
        let nan = self.op(Opcode::Or, &[x_nan, y_nan])?;
        let not_a_number = self.filled(&array, array.ty, Scalar::Float(f64::NAN))?;
        self.op(Opcode::Select, &[nan, not_a_number, result])
    }

    fn ragged_dot(&mut self, op: &'p Operation) -> Result<InstructionId> {
        let operands: [InstructionId; 3] = self.operands(op)?;
        let Attribute::RaggedDot(dims) = self.attribute(op, "ragged_dot_dimension_numbers")? else {
            return Err(self.invalid("attribute.kind", "expected #chlo.ragged_dot<...>"));
        };
        let mut attrs = Attrs::new();
        for (key, list) in [
            (AttrKey::LhsBatchDims, &dims.dot.lhs_batching),
            (AttrKey::RhsBatchDims, &dims.dot.rhs_batching),
            (AttrKey::LhsContractingDims, &dims.dot.lhs_contracting),
            (AttrKey::RhsContractingDims, &dims.dot.rhs_contracting),
            (AttrKey::LhsRaggedDims, &dims.lhs_ragged),
            (AttrKey::RhsGroupDims, &dims.rhs_group),
        ] {
            if !list.is_empty() {
                attrs.set(key, AttrValue::Ints(list.clone()));
            }
        }
        self.precision(op, &mut attrs)?;
        let inferred = {
            let shapes: Vec<&Shape> = operands.iter().map(|&o| self.shape(o)).collect();
            crate::shape::infer(&crate::shape::InferContext::empty(), Opcode::RaggedDot, &shapes, &attrs, None)
        };
        let inferred = inferred.map_err(|e| self.broken(e))?;
        let declared = match inferred.as_array() {
            Some(array) => Some(Shape::Array(array.with_type(self.result_element(op, 0)?))),
            None => None,
        };
        self.emit(Opcode::RaggedDot, &operands, attrs, declared)
    }

    fn scan(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let operands = self.all_operands(op)?;
        let carries = match self.optional_ints(op, "operandSegmentSizes")?.as_deref() {
            Some(&[_, carries]) => carries,
            _ => self.int(op, "carries")?,
        };
        let computation = self.applied(self.region(op, 0)?, "scanned")?;
        let mut attrs = Attrs::new()
            .with(AttrKey::Dimensions, AttrValue::Ints(vec![self.int(op, "dimension")?]))
            .with(AttrKey::NumCarries, AttrValue::Int(carries))
            .with(AttrKey::ToApply, AttrValue::Computation(computation));
        if self.bool_or(op, "is_reverse", false)? {
            attrs.set(AttrKey::IsReverse, AttrValue::Bool(true));
        }
        let id = self.emit(Opcode::Scan, &operands, attrs, None)?;
        if self.shape(id).as_tuple().is_some() { self.parts(id) } else { Ok(vec![id]) }
    }

    /// `chlo.broadcast_add` and its like: operands take each other's sizes.
    fn broadcasting(&mut self, op: &'p Operation, plain: &str) -> Result<InstructionId> {
        let mut operands = self.all_operands(op)?;
        let mut arrays = Vec::new();
        for &operand in &operands {
            arrays.push(self.array(operand)?);
        }
        let rank = arrays.iter().map(ArrayShape::rank).max().unwrap_or(0);
        // Where the smaller operand's dimensions go; the last ones by default.
        let stated = self.optional_ints(op, "broadcast_dimensions")?;
        let place = |array: &ArrayShape| -> Vec<i64> {
            match &stated {
                Some(dims) if dims.len() == array.rank() && array.rank() < rank => dims.clone(),
                _ => ((rank - array.rank()) as i64..rank as i64).collect(),
            }
        };
        let mut dims = vec![1i64; rank];
        for array in &arrays {
            for (&d, &n) in place(array).iter().zip(&array.dims) {
                match usize::try_from(d).ok().and_then(|d| dims.get_mut(d)) {
                    Some(size) if *size == 1 => *size = n,
                    Some(size) if n == 1 || *size == n => {}
                    _ => {
                        let shown: Vec<String> = arrays.iter().map(ToString::to_string).collect();
                        let message = format!("expected sizes that broadcast, found {}", shown.join(" and "));
                        return Err(self.invalid("broadcast.sizes", message));
                    }
                }
            }
        }
        for (operand, array) in operands.iter_mut().zip(&arrays) {
            if array.dims != dims {
                let shape = ArrayShape::new(array.ty, dims.clone());
                *operand = self.broadcast_in_dim(*operand, &place(array), shape)?;
            }
        }
        for (&name, &operand) in op.operands.iter().zip(&operands) {
            self.frame.values.insert(name, operand);
        }
        self.broadcast_result(op, plain, &operands)
    }

    fn broadcast_result(
        &mut self,
        op: &'p Operation,
        plain: &str,
        operands: &[InstructionId],
    ) -> Result<InstructionId> {
        let opcode = match plain {
            "add" => Opcode::Add,
            "and" => Opcode::And,
            "atan2" => Opcode::Atan2,
            "complex" => Opcode::Complex,
            "divide" => Opcode::Divide,
            "maximum" => Opcode::Maximum,
            "minimum" => Opcode::Minimum,
            "multiply" => Opcode::Multiply,
            "or" => Opcode::Or,
            "power" => Opcode::Power,
            "remainder" => Opcode::Remainder,
            "select" => Opcode::Select,
            "shift_left" => Opcode::ShiftLeft,
            "shift_right_arithmetic" => Opcode::ShiftRightArithmetic,
            "shift_right_logical" => Opcode::ShiftRightLogical,
            "subtract" => Opcode::Subtract,
            "xor" => Opcode::Xor,
            "compare" => return self.comparison_of(op, operands),
            "next_after" => {
                let &[x, y] = operands else { return Err(self.invalid("arity", "expected 2 operands")) };
                return self.next_after(x, y);
            }
            "zeta" => return self.special(op, ElementType::F64, |b, x| b.zeta(x[0], x[1])),
            "polygamma" => return self.special(op, ElementType::F64, |b, x| b.polygamma(x[0], x[1])),
            _ => return Err(self.unsupported(format!("the operation {}", op.name))),
        };
        self.op(opcode, operands)
    }
}
