//! What becomes of each opcode, and elementwise operations.

use super::body::{Body, Frame, Repr, dictionary};
use super::{attributes, callee, no_such_operation, only, unsupported};
use crate::error::Result;
use crate::hlo::{AttrKey, ELIDED_CONSTANT, Instruction, Opcode};
use crate::stablehlo::ir::{Attribute, Dictionary, Elements, TensorType, Type, Value};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Shape};
use std::sync::Arc;

impl Body<'_, '_> {
    /// Converts one instruction, and yields its value.
    pub fn instruction(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        use Opcode as O;
        match i.opcode {
            // Parameters have their values before the walk begins.
            O::Parameter => Err(crate::Error::Internal(format!("the parameter '{}' has no value", i.name))),
            O::Constant => match i.literal() {
                Some(literal) => self.constant(i, literal),
                None => Err(unsupported(i, ELIDED_CONSTANT)),
            },
            O::Tuple => {
                let parts = (0..i.operands.len()).map(|k| self.operand(frame, i, k).cloned());
                Ok(Repr::Tuple(parts.collect::<Result<Vec<_>>>()?.into()))
            }
            O::GetTupleElement => {
                let tuple = self.operand(frame, i, 0)?.clone();
                let index = i.element_number().unwrap_or(usize::MAX);
                self.element(&tuple, index)
            }
            // Layouts are not StableHLO's: a copy is its operand.
            O::Copy => self.operand(frame, i, 0).cloned(),
            O::OptimizationBarrier => {
                let operands = self.flat_operands(frame, i)?;
                self.flat(i, "stablehlo.optimization_barrier", operands, Dictionary::new(), Vec::new())
            }
            O::AddDependency => self.add_dependency(frame, i),
            O::AfterAll => self.after_all(frame, i),

            O::Abs => self.elementwise(frame, i, "stablehlo.abs"),
            O::Acos => self.elementwise(frame, i, "chlo.acos"),
            O::Acosh => self.elementwise(frame, i, "chlo.acosh"),
            O::Asin => self.elementwise(frame, i, "chlo.asin"),
            O::Asinh => self.elementwise(frame, i, "chlo.asinh"),
            O::Atanh => self.elementwise(frame, i, "chlo.atanh"),
            O::Cbrt => self.elementwise(frame, i, "stablehlo.cbrt"),
            O::Ceil => self.elementwise(frame, i, "stablehlo.ceil"),
            O::Clz => self.elementwise(frame, i, "stablehlo.count_leading_zeros"),
            O::Cos => self.elementwise(frame, i, "stablehlo.cosine"),
            O::Cosh => self.elementwise(frame, i, "chlo.cosh"),
            O::Erf => self.elementwise(frame, i, "chlo.erf"),
            O::Exp => self.elementwise(frame, i, "stablehlo.exponential"),
            O::Expm1 => self.elementwise(frame, i, "stablehlo.exponential_minus_one"),
            O::Floor => self.elementwise(frame, i, "stablehlo.floor"),
            O::Log => self.elementwise(frame, i, "stablehlo.log"),
            O::Log1p => self.elementwise(frame, i, "stablehlo.log_plus_one"),
            O::Logistic => self.elementwise(frame, i, "stablehlo.logistic"),
            O::Negate => self.elementwise(frame, i, "stablehlo.negate"),
            O::Not => self.elementwise(frame, i, "stablehlo.not"),
            O::PopulationCount => self.elementwise(frame, i, "stablehlo.popcnt"),
            O::RoundNearestAfz => self.elementwise(frame, i, "stablehlo.round_nearest_afz"),
            O::RoundNearestEven => self.elementwise(frame, i, "stablehlo.round_nearest_even"),
            O::Rsqrt => self.elementwise(frame, i, "stablehlo.rsqrt"),
            O::Sign => self.elementwise(frame, i, "stablehlo.sign"),
            O::Sin => self.elementwise(frame, i, "stablehlo.sine"),
            O::Sinh => self.elementwise(frame, i, "chlo.sinh"),
            O::Sqrt => self.elementwise(frame, i, "stablehlo.sqrt"),
            O::Tan => self.elementwise(frame, i, "stablehlo.tan"),
            O::Tanh => self.elementwise(frame, i, "stablehlo.tanh"),
            O::Imag => self.direct(frame, i, "stablehlo.imag"),
            O::IsFinite => self.direct(frame, i, "stablehlo.is_finite"),
            O::Real => self.direct(frame, i, "stablehlo.real"),
            O::Convert => self.direct(frame, i, "stablehlo.convert"),
            O::BitcastConvert => self.bitcast_convert(frame, i),
            O::ReducePrecision => {
                let bits = |key| attributes::int32(i.attrs.int(key).unwrap_or_default());
                let attributes = dictionary([
                    ("exponent_bits", bits(AttrKey::ExponentBits)),
                    ("mantissa_bits", bits(AttrKey::MantissaBits)),
                ]);
                let operand = self.leaf(frame, i, 0)?;
                self.one(i, "stablehlo.reduce_precision", vec![operand], attributes)
            }

            O::Add => self.elementwise(frame, i, "stablehlo.add"),
            O::And => self.elementwise(frame, i, "stablehlo.and"),
            O::Atan2 => self.elementwise(frame, i, "stablehlo.atan2"),
            O::Complex => self.direct(frame, i, "stablehlo.complex"),
            O::Compare => self.comparison(frame, i),
            O::Divide => self.elementwise(frame, i, "stablehlo.divide"),
            O::Maximum => self.elementwise(frame, i, "stablehlo.maximum"),
            O::Minimum => self.elementwise(frame, i, "stablehlo.minimum"),
            O::Mulhi => self.elementwise(frame, i, "chlo.mulhi"),
            O::Multiply => self.elementwise(frame, i, "stablehlo.multiply"),
            O::Or => self.elementwise(frame, i, "stablehlo.or"),
            O::Power => self.elementwise(frame, i, "stablehlo.power"),
            O::Remainder => self.elementwise(frame, i, "stablehlo.remainder"),
            O::ShiftLeft => self.elementwise(frame, i, "stablehlo.shift_left"),
            O::ShiftRightArithmetic => self.elementwise(frame, i, "stablehlo.shift_right_arithmetic"),
            O::ShiftRightLogical => self.elementwise(frame, i, "stablehlo.shift_right_logical"),
            O::Subtract => self.elementwise(frame, i, "stablehlo.subtract"),
            O::Xor => self.elementwise(frame, i, "stablehlo.xor"),
            O::Clamp => self.elementwise(frame, i, "stablehlo.clamp"),
            O::Select => self.selection(frame, i),

            O::Bitcast => self.bitcast(frame, i),
            O::Broadcast => self.broadcast(frame, i),
            O::Concatenate => self.concatenation(frame, i),
            O::DynamicReshape => self.dynamic_reshape(frame, i),
            O::DynamicSlice => self.dynamic_slice(frame, i),
            O::DynamicUpdateSlice => self.dynamic_update_slice(frame, i),
            O::Gather => self.gather(frame, i),
            O::GetDimensionSize => self.along(frame, i, "stablehlo.get_dimension_size"),
            O::SetDimensionSize => self.along(frame, i, "stablehlo.set_dimension_size"),
            O::Iota => {
                let dimension = Attribute::int(i.attrs.int(AttrKey::IotaDimension).unwrap_or_default());
                self.one(i, "stablehlo.iota", Vec::new(), dictionary([("iota_dimension", dimension)]))
            }
            O::Pad => self.pad(frame, i),
            O::Reshape => self.direct(frame, i, "stablehlo.reshape"),
            O::Reverse => self.over(frame, i, "stablehlo.reverse", "dimensions"),
            O::Scatter => self.scatter(frame, i),
            O::Slice => self.slice(frame, i),
            O::Transpose => self.over(frame, i, "stablehlo.transpose", "permutation"),

            O::BatchNormGrad => self.batch_norm(frame, i, "stablehlo.batch_norm_grad"),
            O::BatchNormInference => self.batch_norm(frame, i, "stablehlo.batch_norm_inference"),
            O::BatchNormTraining => self.batch_norm(frame, i, "stablehlo.batch_norm_training"),
            O::Map => self.map(frame, i),
            O::Reduce => self.reduce(frame, i),
            O::ReduceWindow => self.reduce_window(frame, i),
            O::Scan => self.scan(frame, i),
            O::SelectAndScatter => self.select_and_scatter(frame, i),

            O::Convolution => self.convolution(frame, i),
            O::Dot => self.dot(frame, i),
            O::RaggedDot => self.ragged_dot(frame, i),
            O::Cholesky => {
                let lower = Attribute::Bool(i.attrs.bool(AttrKey::Lower).unwrap_or(false));
                let operand = self.leaf(frame, i, 0)?;
                self.one(i, "stablehlo.cholesky", vec![operand], dictionary([("lower", lower)]))
            }
            O::Fft => self.fft(frame, i),
            O::TriangularSolve => self.triangular_solve(frame, i),

            O::Sort => self.sort(frame, i),
            O::TopK => self.top_k(frame, i),

            O::Rng => self.rng(frame, i),
            O::RngBitGenerator => self.random_bits(frame, i),

            O::Call => self.invocation(frame, i),
            O::Fusion => self.invoke(frame, i, callee(i, AttrKey::Calls)?),
            O::Conditional => self.conditional(frame, i),
            O::While => self.while_loop(frame, i),

            O::AllGather => self.all_gather(frame, i),
            O::AllReduce => self.all_reduce(frame, i),
            O::AllToAll => self.all_to_all(frame, i),
            O::CollectiveBroadcast => self.collective_broadcast(frame, i),
            O::CollectivePermute => self.collective_permute(frame, i),
            O::PartitionId => self.direct(frame, i, "stablehlo.partition_id"),
            O::ReduceScatter => self.reduce_scatter(frame, i),
            O::ReplicaId => self.direct(frame, i, "stablehlo.replica_id"),

            O::CustomCall => self.custom_call(frame, i),
            O::Infeed => self.infeed(frame, i),
            O::Outfeed => self.outfeed(frame, i),
            O::Send => self.send(frame, i),
            O::SendDone => self.send_done(frame, i),
            // A receive waits: it stands where its value is asked for.
            O::Recv => Ok(Repr::Tuple(Vec::new().into())),
            O::RecvDone => self.receive(frame, i),

            O::Domain
            | O::StochasticConvert
            | O::ScaledDot
            | O::RngGetAndUpdateState
            | O::RaggedAllToAll
            // These have been made synchronous.
            | O::AllGatherDone
            | O::AllGatherStart
            | O::AllReduceDone
            | O::AllReduceStart
            | O::AsyncDone
            | O::AsyncStart
            | O::AsyncUpdate
            | O::CollectivePermuteDone
            | O::CollectivePermuteStart
            | O::CopyDone
            | O::CopyStart => Err(no_such_operation(i)),
        }
    }

    /// An operation of the same operands, without attributes.
    fn direct(&mut self, frame: &Frame<'_>, i: &Instruction, name: &str) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        self.one(i, name, operands, Dictionary::new())
    }

    /// An operation whose operands have the result's element type; HLO lets floats of several types meet.
    fn elementwise(&mut self, frame: &Frame<'_>, i: &Instruction, name: &str) -> Result<Repr> {
        let mut operands = self.all_leaves(frame, i)?;
        if let Some(to) = i.shape.as_array() {
            for operand in &mut operands {
                *operand = self.rounded(*operand, to.ty)?;
            }
        }
        let mut attributes = Dictionary::new();
        attributes::accuracy(i, &mut attributes)?;
        self.one(i, name, operands, attributes)
    }

    /// A float as a float of another type.
    pub fn rounded(&mut self, value: Value, to: ElementType) -> Result<Value> {
        let Type::Tensor(from) = self.ty(value) else { return Ok(value) };
        let differs = self.element_type(value).is_some_and(|ty| ty.is_float() && to.is_float() && ty != to);
        if !differs {
            return Ok(value);
        }
        let ty = TensorType { element: crate::stablehlo::ir::Element::Type(to), dims: from.dims.clone() };
        only(&self.helper("stablehlo.convert", vec![value], Dictionary::new(), vec![Type::Tensor(ty)]))
    }

    /// Floats of several types in one that holds them all.
    pub fn meet(&mut self, i: &Instruction, sides: &mut [Value]) -> Result<()> {
        let types: Vec<ElementType> = sides.iter().filter_map(|&v| self.element_type(v)).collect();
        let Some(&widest) = types.iter().max_by_key(|ty| ty.bits()) else { return Ok(()) };
        let alike = types.iter().all(|ty| *ty == widest || ty.bits() < widest.bits());
        let common = if alike { widest } else { ElementType::F32 };
        for side in sides.iter_mut() {
            *side = self.rounded(*side, common)?;
            if self.element_type(*side) != Some(common) {
                return Err(unsupported(i, "operands of different types"));
            }
        }
        Ok(())
    }

    fn after_all(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        for k in 0..i.operands.len() {
            if !matches!(self.shape(frame, i, k)?, Shape::Token) {
                return Err(unsupported(i, format!("operand {k}, which is no token,")));
            }
        }
        self.direct(frame, i, "stablehlo.after_all")
    }

    /// Truth values are bytes in HLO and bits in StableHLO.
    fn bitcast_convert(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let from = self.array(frame, i, 0)?.ty;
        let to = i.shape.as_array().map(|a| a.ty);
        if (from == ElementType::Pred) != (to == Some(ElementType::Pred)) {
            return Err(unsupported(i, "the bytes of truth values"));
        }
        self.direct(frame, i, "stablehlo.bitcast_convert")
    }

    fn comparison(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let mut sides = self.all_leaves(frame, i)?;
        self.meet(i, &mut sides)?;
        let direction = i.attrs.word(AttrKey::Direction).unwrap_or("EQ");
        let mut attributes =
            dictionary([("comparison_direction", attributes::word("comparison_direction", direction))]);
        if let Some(ty) = i.attrs.word(AttrKey::ComparisonType) {
            attributes.set("compare_type", attributes::word("comparison_type", ty));
        }
        self.one(i, "stablehlo.compare", sides, attributes)
    }

    fn selection(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let condition = self.leaf(frame, i, 0)?;
        let mut operands = vec![condition];
        for k in 1..i.operands.len() {
            let value = self.leaf(frame, i, k)?;
            let to = i.shape.as_array().map(|a| a.ty);
            operands.push(match to {
                Some(to) => self.rounded(value, to)?,
                None => value,
            });
        }
        self.one(i, "stablehlo.select", operands, Dictionary::new())
    }

    /// A value that is there once a token is: the barrier ties both together.
    fn add_dependency(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.flat_operands(frame, i)?;
        let types = self.types(&operands);
        let mut results = self.add("stablehlo.optimization_barrier", operands, Dictionary::new(), Vec::new(), types);
        results.pop();
        self.unflattened(&i.shape, &mut results.into_iter())
    }

    fn constant(&mut self, i: &Instruction, literal: &Literal) -> Result<Repr> {
        match literal {
            Literal::Array(array) => {
                let shape = ArrayShape::new(array.ty(), array.dims());
                let ty = attributes::tensor_type(&shape).map_err(|what| unsupported(i, what))?;
                let elements = match splat(array) {
                    Some(one) => Elements { ty: ty.clone(), data: Arc::new(one), is_splat: true },
                    None => Elements { ty: ty.clone(), data: Arc::new(array.clone()), is_splat: false },
                };
                let attributes = dictionary([("value", Attribute::Elements(elements))]);
                let results = self.helper("stablehlo.constant", Vec::new(), attributes, vec![Type::Tensor(ty)]);
                only(&results).map(Repr::Value)
            }
            Literal::Tuple(parts) => {
                let parts = parts.iter().map(|p| self.constant(i, p));
                Ok(Repr::Tuple(parts.collect::<Result<Vec<_>>>()?.into()))
            }
            Literal::Token => self.no_token().map(Repr::Value),
        }
    }

    /// A token that waits for nothing.
    pub fn no_token(&mut self) -> Result<Value> {
        only(&self.helper("stablehlo.after_all", Vec::new(), Dictionary::new(), vec![Type::Token]))
    }

    fn batch_norm(&mut self, frame: &Frame<'_>, i: &Instruction, name: &str) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let epsilon = i.attrs.float(AttrKey::Epsilon).unwrap_or_default();
        let feature = i.attrs.int(AttrKey::FeatureIndex).unwrap_or_default();
        let f32 = crate::stablehlo::ir::Element::Type(ElementType::F32);
        let attributes =
            dictionary([("epsilon", Attribute::Float(epsilon, f32)), ("feature_index", Attribute::int(feature))]);
        self.parts(i, name, operands, attributes, Vec::new())
    }

    fn fft(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operand = self.leaf(frame, i, 0)?;
        let attributes = dictionary([
            ("fft_type", attributes::word("fft_type", i.attrs.word(AttrKey::FftType).unwrap_or("FFT"))),
            ("fft_length", Attribute::ints(i.attrs.ints_or_empty(AttrKey::FftLength))),
        ]);
        self.one(i, "stablehlo.fft", vec![operand], attributes)
    }

    fn triangular_solve(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let operands = self.all_leaves(frame, i)?;
        let flag = |key| Attribute::Bool(i.attrs.bool(key).unwrap_or(false));
        let transpose = i.attrs.word(AttrKey::TransposeA).unwrap_or("NO_TRANSPOSE");
        let attributes = dictionary([
            ("left_side", flag(AttrKey::LeftSide)),
            ("lower", flag(AttrKey::Lower)),
            ("unit_diagonal", flag(AttrKey::UnitDiagonal)),
            ("transpose_a", attributes::word("transpose", transpose)),
        ]);
        self.one(i, "stablehlo.triangular_solve", operands, attributes)
    }

    fn top_k(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        if i.attrs.bool(AttrKey::Largest) == Some(false) {
            return Err(unsupported(i, "the smallest elements"));
        }
        let operand = self.leaf(frame, i, 0)?;
        let k = Attribute::int(i.attrs.int(AttrKey::K).unwrap_or_default());
        self.parts(i, "chlo.top_k", vec![operand], dictionary([("k", k)]), Vec::new())
    }

    fn rng(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let distribution = match i.attrs.word(AttrKey::Distribution) {
            Some("rng_uniform") => "UNIFORM",
            Some("rng_normal") => "NORMAL",
            other => return Err(unsupported(i, format!("the distribution {}", other.unwrap_or_default()))),
        };
        let Shape::Array(to) = &i.shape else { return Err(unsupported(i, "a result that is no array")) };
        let mut operands = Vec::new();
        for k in 0..2 {
            let limit = self.leaf(frame, i, k)?;
            operands.push(self.rounded(limit, to.ty)?);
        }
        let sizes = ArrayLiteral::from_elements(&[to.rank() as i64], &to.dims);
        let Repr::Value(sizes) = self.constant(i, &Literal::Array(sizes))? else {
            return Err(crate::Error::Internal("the sizes of a random array are a tuple".to_owned()));
        };
        operands.push(sizes);
        let word = attributes::word("rng_distribution", distribution);
        self.one(i, "stablehlo.rng", operands, dictionary([("rng_distribution", word)]))
    }

    fn random_bits(&mut self, frame: &Frame<'_>, i: &Instruction) -> Result<Repr> {
        let algorithm = match i.attrs.raw(AttrKey::Algorithm).unwrap_or_default().trim() {
            "rng_default" => "DEFAULT",
            "rng_three_fry" => "THREE_FRY",
            "rng_philox" => "PHILOX",
            other => return Err(unsupported(i, format!("the random generator {other}"))),
        };
        let state = self.leaf(frame, i, 0)?;
        let attributes = dictionary([("rng_algorithm", attributes::word("rng_algorithm", algorithm))]);
        self.parts(i, "stablehlo.rng_bit_generator", vec![state], attributes, Vec::new())
    }
}

/// The one element that all elements are, where there are several.
fn splat(array: &ArrayLiteral) -> Option<ArrayLiteral> {
    let size = array.ty().byte_size();
    let bytes = array.bytes();
    let first = bytes.get(..size).filter(|_| array.elements() > 1)?;
    // Each element equals the one before it.
    let same = bytes.get(size..).is_some_and(|rest| bytes.starts_with(rest));
    if same { ArrayLiteral::from_bytes(&ArrayShape::new(array.ty(), []), first) } else { None }
}
