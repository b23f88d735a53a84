//! Products, convolutions, transforms, linear algebra and batch normalisation.

use super::body::Body;
use super::reduction::Window;
use crate::error::Result;
use crate::hlo::{AttrKey, AttrValue, Attrs, InstructionId, Opcode};
use crate::stablehlo::algorithms;
use crate::stablehlo::ir::{Attribute, DotDims, Operation};
use brolga_runtime::Shape;

impl<'p> Body<'_, 'p> {
    pub fn contraction(&mut self, op: &'p Operation, short: &str) -> Result<Option<Vec<InstructionId>>> {
        let id = match short {
            "dot_general" => {
                let operands: [InstructionId; 2] = self.operands(op)?;
                let Attribute::Dot(dims) = self.attribute(op, "dot_dimension_numbers")? else {
                    return Err(self.invalid("attribute.kind", "expected #stablehlo.dot<...>"));
                };
                self.dot(op, operands, dims)?
            }
            "dot" => {
                let operands: [InstructionId; 2] = self.operands(op)?;
                let rank = self.array(operands[0])?.rank() as i64;
                let dims = DotDims { lhs_contracting: vec![rank - 1], rhs_contracting: vec![0], ..DotDims::default() };
                self.dot(op, operands, &dims)?
            }
            "convolution" => {
                let operands: [InstructionId; 2] = self.operands(op)?;
                let padding = self.optional_ints(op, "padding")?;
                self.convolution(op, operands, padding)?
            }
            "dynamic_conv" => {
                let [lhs, rhs, padding] = self.operands(op)?;
                let padding = self.ints_of(padding)?;
                self.convolution(op, [lhs, rhs], Some(padding))?
            }
            "fft" => {
                let [operand] = self.operands(op)?;
                let kind = self.known_word(op, "fft_type", &["FFT", "IFFT", "RFFT", "IRFFT"])?;
                let attrs = Attrs::new()
                    .with(AttrKey::FftType, AttrValue::Word(kind))
                    .with(AttrKey::FftLength, AttrValue::Ints(self.ints(op, "fft_length")?));
                self.emit(Opcode::Fft, &[operand], attrs, None)?
            }
            "cholesky" => {
                let [operand] = self.operands(op)?;
                let lower = self.bool_or(op, "lower", false)?;
                let attrs = Attrs::new().with(AttrKey::Lower, AttrValue::Bool(lower));
                self.emit(Opcode::Cholesky, &[operand], attrs, None)?
            }
            "triangular_solve" => {
                let operands: [InstructionId; 2] = self.operands(op)?;
                let words = ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"];
                let transpose = match op.attribute("transpose_a") {
                    Some(_) => self.known_word(op, "transpose_a", &words)?,
                    None => "NO_TRANSPOSE",
                };
                let attrs = Attrs::new()
                    .with(AttrKey::LeftSide, AttrValue::Bool(self.bool_or(op, "left_side", false)?))
                    .with(AttrKey::Lower, AttrValue::Bool(self.bool_or(op, "lower", false)?))
                    .with(AttrKey::UnitDiagonal, AttrValue::Bool(self.bool_or(op, "unit_diagonal", false)?))
                    .with(AttrKey::TransposeA, AttrValue::Word(transpose));
                self.emit(Opcode::TriangularSolve, &operands, attrs, None)?
            }
            "batch_norm_inference" => self.batch_norm(op, Opcode::BatchNormInference)?,
            "batch_norm_training" => {
                let id = self.batch_norm(op, Opcode::BatchNormTraining)?;
                return self.parts(id).map(Some);
            }
            "batch_norm_grad" => {
                let id = self.batch_norm(op, Opcode::BatchNormGrad)?;
                return self.parts(id).map(Some);
            }
            "einsum" => self.einsum(op)?,
            "rng" => {
                let [a, b, sizes] = self.operands(op)?;
                let sizes = self.ints_of(sizes)?;
                let shape = self.checked(op, sizes)?;
                let word = match self.word(op, "rng_distribution")? {
                    "UNIFORM" => "rng_uniform",
                    "NORMAL" => "rng_normal",
                    other => return Err(self.unsupported(format!("the distribution {other}"))),
                };
                let attrs = Attrs::new().with(AttrKey::Distribution, AttrValue::Word(word));
                self.emit(Opcode::Rng, &[a, b], attrs, Some(Shape::Array(shape)))?
            }
            "rng_bit_generator" => {
                let [state] = self.operands(op)?;
                let shape = Shape::tuple(vec![self.known_shape(op, 0)?, self.known_shape(op, 1)?]);
                let id = self.random_bits(op, state, shape)?;
                return self.parts(id).map(Some);
            }
            _ => return Ok(None),
        };
        Ok(Some(vec![id]))
    }

    pub fn random_bits(&mut self, op: &'p Operation, state: InstructionId, shape: Shape) -> Result<InstructionId> {
        let algorithm = match self.word(op, "rng_algorithm")? {
            "DEFAULT" => "rng_default",
            "THREE_FRY" => "rng_three_fry",
            "PHILOX" => "rng_philox",
            other => return Err(self.unsupported(format!("the random generator {other}"))),
        };
        let attrs = Attrs::new().with(AttrKey::Algorithm, AttrValue::Raw(algorithm.to_owned()));
        self.emit(Opcode::RngBitGenerator, &[state], attrs, Some(shape))
    }

    /// `operand_precision`, where it says more than the default.
    pub fn precision(&self, op: &'p Operation, attrs: &mut Attrs) -> Result<()> {
        let Some(Attribute::Array(list)) = op.attribute("precision_config") else { return Ok(()) };
        let mut words = Vec::new();
        for item in list {
            words.push(match item.to_word() {
                Some("DEFAULT") => "default",
                Some("HIGH") => "high",
                Some("HIGHEST") => "highest",
                _ => return Err(self.invalid("attribute.kind", "expected precisions in precision_config")),
            });
        }
        if words.iter().any(|w| *w != "default") {
            attrs.set(AttrKey::OperandPrecision, AttrValue::Words(words));
        }
        Ok(())
    }

    fn dot(&mut self, op: &'p Operation, operands: [InstructionId; 2], dims: &DotDims) -> Result<InstructionId> {
        let mut attrs = Attrs::new();
        for (key, list) in [
            (AttrKey::LhsBatchDims, &dims.lhs_batching),
            (AttrKey::RhsBatchDims, &dims.rhs_batching),
            (AttrKey::LhsContractingDims, &dims.lhs_contracting),
            (AttrKey::RhsContractingDims, &dims.rhs_contracting),
        ] {
            if !list.is_empty() {
                attrs.set(key, AttrValue::Ints(list.clone()));
            }
        }
        self.precision(op, &mut attrs)?;
        if let Some(Attribute::DotAlgorithm(algorithm)) = op.attribute("algorithm") {
            let name = algorithms::name(algorithm);
            let name = name.ok_or_else(|| self.unsupported("this algorithm of a dot, which XLA has no name for"))?;
            attrs.set(AttrKey::Algorithm, AttrValue::Raw(name.to_owned()));
        }
        // The element type of the sum is the result's, not the operands'.
        let inferred = {
            let shapes = [self.shape(operands[0]), self.shape(operands[1])];
            crate::shape::infer(&crate::shape::InferContext::empty(), Opcode::Dot, &shapes, &attrs, None)
        };
        let inferred = inferred.map_err(|e| self.broken(e))?;
        let declared = match inferred.as_array() {
            Some(array) => Some(Shape::Array(array.with_type(self.result_element(op, 0)?))),
            None => None,
        };
        self.emit(Opcode::Dot, &operands, attrs, declared)
    }

    fn convolution(
        &mut self,
        op: &'p Operation,
        operands: [InstructionId; 2],
        padding: Option<Vec<i64>>,
    ) -> Result<InstructionId> {
        let Attribute::Convolution(dims) = self.attribute(op, "dimension_numbers")? else {
            return Err(self.invalid("attribute.kind", "expected #stablehlo.conv<...> as dimension_numbers"));
        };
        let kernel = self.array(operands[1])?;
        let sizes: Option<Vec<i64>> = dims.kernel_spatial.iter().map(|&d| kernel.dims.get(d).copied()).collect();
        let sizes = sizes.ok_or_else(|| {
            let message = format!("expected a kernel with more than {} dimensions", kernel.rank());
            self.invalid("convolution.rank", message)
        })?;
        let window = Window {
            strides: self.optional_ints(op, "window_strides")?,
            padding,
            base_dilations: self.optional_ints(op, "lhs_dilation")?,
            window_dilations: self.optional_ints(op, "rhs_dilation")?,
            reversal: self.optional_ints(op, "window_reversal")?,
        };
        let mut attrs = Attrs::new()
            .with(AttrKey::DimLabels, AttrValue::DimLabels(dims.clone()))
            .with(AttrKey::Window, AttrValue::Window(self.window(&sizes, &window)?));
        for (name, key) in
            [("feature_group_count", AttrKey::FeatureGroupCount), ("batch_group_count", AttrKey::BatchGroupCount)]
        {
            let count = self.int_or(op, name, 1)?;
            if count != 1 {
                attrs.set(key, AttrValue::Int(count));
            }
        }
        self.precision(op, &mut attrs)?;
        let inferred = {
            let shapes = [self.shape(operands[0]), self.shape(operands[1])];
            crate::shape::infer(&crate::shape::InferContext::empty(), Opcode::Convolution, &shapes, &attrs, None)
        };
        let inferred = inferred.map_err(|e| self.broken(e))?;
        let declared = match inferred.as_array() {
            Some(array) => Some(Shape::Array(array.with_type(self.result_element(op, 0)?))),
            None => None,
        };
        self.emit(Opcode::Convolution, &operands, attrs, declared)
    }

    fn batch_norm(&mut self, op: &'p Operation, opcode: Opcode) -> Result<InstructionId> {
        let operands = self.all_operands(op)?;
        let attrs = Attrs::new()
            .with(AttrKey::Epsilon, AttrValue::Float(self.float(op, "epsilon")? as f32))
            .with(AttrKey::FeatureIndex, AttrValue::Int(self.int(op, "feature_index")?));
        self.emit(opcode, &operands, attrs, None)
    }

    /// An `einsum` of two operands, each letter once in each: a dot and a transpose.
    fn einsum(&mut self, op: &'p Operation) -> Result<InstructionId> {
        let operands: [InstructionId; 2] = self.operands(op)?;
        let config: String = self.text(op, "einsum_config")?.unwrap_or_default().split_whitespace().collect();
        let parts = config.split_once("->").and_then(|(from, to)| from.split_once(',').map(|(l, r)| (l, r, to)));
        let letters = |text: &str| {
            let list: Vec<char> = text.chars().collect();
            let mut sorted = list.clone();
            sorted.sort_unstable();
            sorted.dedup();
            (sorted.len() == list.len() && list.iter().all(|c| c.is_alphabetic())).then_some(list)
        };
        let parts = parts.and_then(|(l, r, to)| Some((letters(l)?, letters(r)?, letters(to)?)));
        let Some((lhs, rhs, to)) = parts else {
            return Err(self.unsupported(format!("the einsum '{config}'")));
        };
        let place = |list: &[char], c: &char| list.iter().position(|l| l == c).map(|p| p as i64);
        let mut dims = DotDims::default();
        let mut order: Vec<char> = Vec::new();
        for (k, c) in lhs.iter().enumerate() {
            match (place(&rhs, c), to.contains(c)) {
                (Some(r), true) => {
                    dims.lhs_batching.push(k as i64);
                    dims.rhs_batching.push(r);
                    order.push(*c);
                }
                (Some(r), false) => {
                    dims.lhs_contracting.push(k as i64);
                    dims.rhs_contracting.push(r);
                }
                _ => {}
            }
        }
        let free =
            |list: &[char], other: &[char]| list.iter().filter(|c| !other.contains(c)).copied().collect::<Vec<_>>();
        order.extend(free(&lhs, &rhs));
        order.extend(free(&rhs, &lhs));
        let permutation: Option<Vec<i64>> = to.iter().map(|c| place(&order, c)).collect();
        let Some(permutation) = permutation.filter(|p| p.len() == order.len()) else {
            return Err(self.unsupported(format!("the einsum '{config}'")));
        };
        let product = self.dot(op, operands, &dims)?;
        let attrs = Attrs::new().with(AttrKey::Dimensions, AttrValue::Ints(permutation));
        self.emit(Opcode::Transpose, &[product], attrs, None)
    }
}
