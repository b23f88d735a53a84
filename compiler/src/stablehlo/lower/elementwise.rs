//! Which conversion an operation has, and those of elementwise operations.

use super::body::Body;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::stablehlo::ir::{Attribute, Operation};
use brolga_runtime::Shape;

/// Operations that HLO has under another name or the same, without attributes of their own.
fn elementwise(short: &str) -> Option<Opcode> {
    Some(match short {
        "abs" => Opcode::Abs,
        "acos" => Opcode::Acos,
        "acosh" => Opcode::Acosh,
        "add" => Opcode::Add,
        "and" => Opcode::And,
        "asin" => Opcode::Asin,
        "asinh" => Opcode::Asinh,
        "atan2" => Opcode::Atan2,
        "atanh" => Opcode::Atanh,
        "cbrt" => Opcode::Cbrt,
        "ceil" => Opcode::Ceil,
        "complex" => Opcode::Complex,
        "cosh" => Opcode::Cosh,
        "cosine" => Opcode::Cos,
        "count_leading_zeros" => Opcode::Clz,
        "divide" => Opcode::Divide,
        "erf" => Opcode::Erf,
        "exponential" => Opcode::Exp,
        "exponential_minus_one" => Opcode::Expm1,
        "floor" => Opcode::Floor,
        "imag" => Opcode::Imag,
        "is_finite" => Opcode::IsFinite,
        "log" => Opcode::Log,
        "log_plus_one" => Opcode::Log1p,
        "logistic" => Opcode::Logistic,
        "maximum" => Opcode::Maximum,
        "minimum" => Opcode::Minimum,
        "mulhi" => Opcode::Mulhi,
        "multiply" => Opcode::Multiply,
        "negate" => Opcode::Negate,
        "not" => Opcode::Not,
        "or" => Opcode::Or,
        "popcnt" => Opcode::PopulationCount,
        "power" => Opcode::Power,
        "real" => Opcode::Real,
        "remainder" => Opcode::Remainder,
        "round_nearest_afz" => Opcode::RoundNearestAfz,
        "round_nearest_even" => Opcode::RoundNearestEven,
        "rsqrt" => Opcode::Rsqrt,
        "shift_left" => Opcode::ShiftLeft,
        "shift_right_arithmetic" => Opcode::ShiftRightArithmetic,
        "shift_right_logical" => Opcode::ShiftRightLogical,
        "sign" => Opcode::Sign,
        "sine" => Opcode::Sin,
        "sinh" => Opcode::Sinh,
        "sqrt" => Opcode::Sqrt,
        "subtract" => Opcode::Subtract,
        "tan" => Opcode::Tan,
        "tanh" => Opcode::Tanh,
        "xor" => Opcode::Xor,
        _ => return None,
    })
}

impl<'p> Body<'_, 'p> {
    /// Converts one operation, and yields its results.
    pub fn operation(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        if let Some(results) = self.quantized_operation(op)? {
            return Ok(results);
        }
        self.plain_operation(op)
    }

    /// As [`Body::operation`], of operands that are computed as they are stored.
    pub fn plain_operation(&mut self, op: &'p Operation) -> Result<Vec<InstructionId>> {
        let one = |id: InstructionId| Ok(vec![id]);
        let (dialect, short) = op.name.split_once('.').unwrap_or(("", &op.name));
        match dialect {
            "stablehlo" | "mhlo" => {}
            "chlo" => return self.chlo(op, short),
            "func" if short == "call" => return self.call(op),
            "sdy" if short == "sharding_constraint" => return one(self.operands::<1>(op)?[0]),
            "builtin" if short == "unrealized_conversion_cast" && op.operands.len() == op.results.len() => {
                return self.all_operands(op);
            }
            _ => return Err(self.unsupported(format!("the operation {}", op.name))),
        }
        if let Some(opcode) = elementwise(short) {
            return one(self.elementwise(op, opcode)?);
        }
        match short {
            "clamp" => {
                let operands: [InstructionId; 3] = self.operands(op)?;
                one(self.op(Opcode::Clamp, &operands)?)
            }
            "select" => {
                let [condition, yes, no] = self.operands(op)?;
                let like = self.array(yes)?;
                let condition =
                    if self.array(condition)?.rank() == 0 { self.splat(condition, &like)? } else { condition };
                one(self.op(Opcode::Select, &[condition, yes, no])?)
            }
            "compare" => one(self.comparison(op)?),
            "convert" => {
                let [operand] = self.operands(op)?;
                let ty = self.result_element(op, 0)?;
                one(self.convert(operand, ty)?)
            }
            "reduce_precision" => {
                let [operand] = self.operands(op)?;
                let attrs = Attrs::new()
                    .with(AttrKey::ExponentBits, AttrValue::Int(self.int(op, "exponent_bits")?))
                    .with(AttrKey::MantissaBits, AttrValue::Int(self.int(op, "mantissa_bits")?));
                one(self.emit(Opcode::ReducePrecision, &[operand], attrs, None)?)
            }
            "constant" => one(self.constant(op)?),
            "tuple" => {
                let operands = self.all_operands(op)?;
                one(self.tuple(&operands)?)
            }
            "get_tuple_element" => {
                let [operand] = self.operands(op)?;
                let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(self.int(op, "index")?));
                one(self.emit(Opcode::GetTupleElement, &[operand], attrs, None)?)
            }
            "optimization_barrier" => {
                let operands = self.all_operands(op)?;
                if operands.is_empty() {
                    return Ok(operands);
                }
                let count = operands.len();
                let whole = self.one_of(operands)?;
                let barrier = self.op(Opcode::OptimizationBarrier, &[whole])?;
                self.several(barrier, count)
            }
            "create_token" | "after_all" => {
                let operands = self.all_operands(op)?;
                one(self.op(Opcode::AfterAll, &operands)?)
            }
            "uniform_quantize" | "uniform_dequantize" => {
                Err(self.invalid("quantized.type", format!("expected a quantised type in {}", op.name)))
            }
            "custom_call" => self.custom_call(op),
            _ => self.structured(op, short),
        }
    }

    fn structured(&mut self, op: &'p Operation, short: &str) -> Result<Vec<InstructionId>> {
        if let Some(result) = self.movement(op, short)? {
            return Ok(vec![result]);
        }
        if let Some(result) = self.contraction(op, short)? {
            return Ok(result);
        }
        if let Some(results) = self.reduction(op, short)? {
            return Ok(results);
        }
        if let Some(results) = self.control(op, short)? {
            return Ok(results);
        }
        if let Some(results) = self.collective(op, short)? {
            return Ok(results);
        }
        Err(self.unsupported(format!("the operation {}", op.name)))
    }

    fn elementwise(&mut self, op: &'p Operation, opcode: Opcode) -> Result<InstructionId> {
        let operands = self.all_operands(op)?;
        let mut attrs = Attrs::new();
        if let Some(Attribute::ResultAccuracy(accuracy)) = op.attribute("result_accuracy")
            && opcode.optional_attrs().contains(&AttrKey::ResultAccuracy)
        {
            let text = match &*accuracy.mode {
                "DEFAULT" => None,
                "HIGHEST" => Some("{mode=highest}".to_owned()),
                _ => Some(format!(
                    "{{tolerance={{atol={:?},rtol={:?},ulps={}}}}}",
                    accuracy.atol, accuracy.rtol, accuracy.ulps
                )),
            };
            if let Some(text) = text {
                attrs.set(AttrKey::ResultAccuracy, AttrValue::Raw(text));
            }
        }
        self.emit(opcode, &operands, attrs, None)
    }

    fn comparison(&mut self, op: &'p Operation) -> Result<InstructionId> {
        let operands: [InstructionId; 2] = self.operands(op)?;
        self.comparison_of(op, &operands)
    }

    pub fn comparison_of(&mut self, op: &'p Operation, operands: &[InstructionId]) -> Result<InstructionId> {
        let direction = self.known_word(op, "comparison_direction", &["EQ", "NE", "GE", "GT", "LE", "LT"])?;
        let mut attrs = Attrs::new().with(AttrKey::Direction, AttrValue::Word(direction));
        if op.attribute("compare_type").is_some() {
            let words = ["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"];
            let word = self.known_word(op, "compare_type", &words)?;
            if word != "NOTYPE" {
                attrs.set(AttrKey::ComparisonType, AttrValue::Word(word));
            }
        }
        self.emit(Opcode::Compare, operands, attrs, None)
    }

    fn constant(&mut self, op: &'p Operation) -> Result<InstructionId> {
        let Attribute::Elements(elements) = self.attribute(op, "value")? else {
            return Err(self.invalid("attribute.kind", "expected the elements of a constant as value"));
        };
        let literal = std::sync::Arc::new(brolga_runtime::Literal::Array((*elements.data).clone()));
        let id = self.literal(literal)?;
        match (elements.is_splat, elements.dims()) {
            (true, Some(dims)) => {
                let shape = brolga_runtime::ArrayShape::new(elements.data.ty(), dims);
                crate::shape::check_shape(&Shape::Array(shape.clone())).map_err(|e| self.broken(e))?;
                self.splat(id, &shape)
            }
            _ => Ok(id),
        }
    }
}
