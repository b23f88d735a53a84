//! Uniform quantised types, as the specification's «Quantization» defines them.
//!
//! A quantised value is held as its stored integers. Operations that move elements or hand values on move the integers;
//! arithmetic is done on the floats that they stand for (dequantize, compute, quantize), which is what the specification says
//! of every such operation, products and convolutions included. Regions that are applied to elements do so inside.

use super::body::Body;
use crate::error::Result;
use crate::hlo::{InstructionId, Opcode};
use crate::stablehlo::ir::{Operation, Quantized};
use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Literal, Scalar};
use std::sync::Arc;

/// Whether an operation computes with the numbers that quantised values stand for.
fn computes(short: &str) -> bool {
    matches!(
        short,
        "abs"
            | "add"
            | "atan2"
            | "cbrt"
            | "ceil"
            | "clamp"
            | "compare"
            | "convolution"
            | "cosine"
            | "divide"
            | "dot"
            | "dot_general"
            | "dynamic_conv"
            | "exponential"
            | "exponential_minus_one"
            | "floor"
            | "is_finite"
            | "log"
            | "log_plus_one"
            | "logistic"
            | "maximum"
            | "minimum"
            | "multiply"
            | "negate"
            | "power"
            | "reduce_precision"
            | "remainder"
            | "round_nearest_afz"
            | "round_nearest_even"
            | "rsqrt"
            | "sign"
            | "sine"
            | "sqrt"
            | "subtract"
            | "tan"
            | "tanh"
            | "cholesky"
            | "triangular_solve"
            | "batch_norm_inference"
            | "batch_norm_training"
            | "batch_norm_grad"
    )
}

/// Whether an operation hands stored values on: their meaning must not change.
fn moves(short: &str) -> bool {
    matches!(
        short,
        "all_gather"
            | "all_to_all"
            | "broadcast"
            | "broadcast_in_dim"
            | "collective_broadcast"
            | "collective_permute"
            | "concatenate"
            | "dynamic_broadcast_in_dim"
            | "dynamic_gather"
            | "dynamic_pad"
            | "dynamic_reshape"
            | "dynamic_slice"
            | "dynamic_update_slice"
            | "gather"
            | "optimization_barrier"
            | "pad"
            | "real_dynamic_slice"
            | "reshape"
            | "reverse"
            | "select"
            | "slice"
            | "transpose"
    )
}

/// Whether an operation leaves the meaning of stored values to its regions or to what it calls.
fn hands_on(short: &str) -> bool {
    matches!(
        short,
        "constant"
            | "tuple"
            | "get_tuple_element"
            | "get_dimension_size"
            | "call"
            | "while"
            | "if"
            | "case"
            | "composite"
            | "reduce"
            | "reduce_window"
            | "select_and_scatter"
            | "scatter"
            | "sort"
            | "map"
            | "all_reduce"
            | "reduce_scatter"
            | "infeed"
            | "outfeed"
            | "send"
            | "recv"
    )
}

impl<'p> Body<'_, 'p> {
    /// Converts an operation with quantised operands or results; `None` where there are none, or they are only handed on.
    pub fn quantized_operation(&mut self, op: &'p Operation) -> Result<Option<Vec<InstructionId>>> {
        let of = |list: &[crate::stablehlo::ir::Value]| -> Vec<Option<&'p Arc<Quantized>>> {
            list.iter().map(|&v| self.quantized(v)).collect()
        };
        let (operands, results) = (of(&op.operands), of(&op.results));
        if operands.iter().chain(&results).all(Option::is_none) {
            return Ok(None);
        }
        let short = op.name.split_once('.').map_or(&*op.name, |(_, s)| s);
        match short {
            "uniform_quantize" | "uniform_dequantize" => {
                let [value] = self.operands(op)?;
                let plain = match operands.first() {
                    Some(Some(q)) => self.dequantized(value, q)?,
                    _ => value,
                };
                let result = match results.first() {
                    Some(Some(q)) => self.stored(plain, q)?,
                    _ => {
                        let ty = self.result_element(op, 0)?;
                        self.convert(plain, ty)?
                    }
                };
                Ok(Some(vec![result]))
            }
            _ if computes(short) => self.computed(op, &operands, &results).map(Some),
            _ if moves(short) => {
                let mut all = operands.iter().chain(&results).flatten();
                let first = all.next();
                let same = |q: &&&Arc<Quantized>| {
                    first.is_some_and(|f| {
                        f.scales == q.scales && f.zero_points == q.zero_points && f.storage == q.storage
                    })
                };
                if all.all(|q| same(&q)) {
                    return Ok(None);
                }
                // One scale for all moves with the elements; another scale needs a computation that nothing defines.
                Err(self.unsupported(format!("{} between quantised types of different scales", op.name)))
            }
            _ if hands_on(short) => Ok(None),
            _ => Err(self.unsupported(format!("{} of quantised values", op.name))),
        }
    }

    fn computed(
        &mut self,
        op: &'p Operation,
        operands: &[Option<&'p Arc<Quantized>>],
        results: &[Option<&'p Arc<Quantized>>],
    ) -> Result<Vec<InstructionId>> {
        let stored = self.all_operands(op)?;
        for ((&name, &value), quantized) in op.operands.iter().zip(&stored).zip(operands) {
            if let Some(q) = quantized {
                let plain = self.dequantized(value, q)?;
                self.frame.values.insert(name, plain);
            }
        }
        let outer = std::mem::replace(&mut self.expressed, true);
        let plain = self.plain_operation(op);
        self.expressed = outer;
        for (&name, &value) in op.operands.iter().zip(&stored) {
            self.frame.values.insert(name, value);
        }
        let mut out = Vec::new();
        for (value, quantized) in plain?.into_iter().zip(results) {
            out.push(match quantized {
                Some(q) => self.stored(value, q)?,
                None => value,
            });
        }
        Ok(out)
    }

    /// One number, or one for each index of the quantised dimension, of the sizes of `like`.
    fn broadcast_list(&mut self, q: &Quantized, list: &[f64], like: &ArrayShape) -> Result<InstructionId> {
        let Some(axis) = q.axis else {
            let value = list.first().copied().unwrap_or(1.0);
            return self.filled(like, q.expressed, Scalar::Float(value));
        };
        if like.dims.get(axis) != Some(&(list.len() as i64)) {
            let message = format!("expected {} scales along dimension {axis} of {like}", list.len());
            return Err(self.invalid("quantized.scales", message));
        }
        let mut literal = ArrayLiteral::zeros(&ArrayShape::new(q.expressed, [list.len() as i64]));
        for (k, &value) in list.iter().enumerate() {
            literal.set(k, Scalar::Float(value));
        }
        let vector = self.literal(Arc::new(Literal::Array(literal)))?;
        let shape = ArrayShape { ty: q.expressed, layout: None, ..like.clone() };
        self.broadcast(vector, &[axis as i64], shape)
    }

    fn zero_points(&mut self, q: &Quantized, like: &ArrayShape) -> Result<InstructionId> {
        let list: Vec<f64> = q.zero_points.iter().map(|&z| z as f64).collect();
        self.broadcast_list(q, &list, like)
    }

    /// `(stored - zero point) * scale`
    fn dequantized(&mut self, value: InstructionId, q: &Quantized) -> Result<InstructionId> {
        let shape = self.array(value)?;
        let converted = self.convert(value, q.expressed)?;
        let zero = self.zero_points(q, &shape)?;
        let shifted = self.op(Opcode::Subtract, &[converted, zero])?;
        let scale = self.broadcast_list(q, &q.scales, &shape)?;
        self.op(Opcode::Multiply, &[shifted, scale])
    }

    /// `clamp(least, round(value / scale) + zero point, largest)`
    fn stored(&mut self, value: InstructionId, q: &Quantized) -> Result<InstructionId> {
        let value = self.convert(value, q.expressed)?;
        let shape = self.array(value)?;
        let scale = self.broadcast_list(q, &q.scales, &shape)?;
        let scaled = self.op(Opcode::Divide, &[value, scale])?;
        let rounded = self.op(Opcode::RoundNearestEven, &[scaled])?;
        let zero = self.zero_points(q, &shape)?;
        let shifted = self.op(Opcode::Add, &[rounded, zero])?;
        let wide = if q.expressed == ElementType::F64 { ElementType::F64 } else { ElementType::F32 };
        let shifted = self.convert(shifted, wide)?;
        let least = self.scalar(wide, Scalar::Float(q.storage_min as f64))?;
        let largest = self.scalar(wide, Scalar::Float(q.storage_max as f64))?;
        let clamped = self.op(Opcode::Clamp, &[least, shifted, largest])?;
        self.convert(clamped, q.storage)
    }
}
