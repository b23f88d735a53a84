//! What programs are made of every day and the specification has no operation for: sums and means along dimensions, activations,
//! softmax, normalisation.
//!
//! Each is made of the operations that the other files have, all at the place of the one call. Dimensions may be counted from the
//! end: -1 is the last. Sums of narrow floats are folded as the compiler folds them, with one rounding at the end; means, and what is
//! made of them, are computed in f32.

use super::reduction::scalar_computation_at;
use super::{At, Builder, Failed, Op, Step};
use crate::hlo::Opcode;
use crate::shape::RuleError;
use brolga_runtime::{ArrayShape, ElementType, Scalar};
use std::panic::Location;

impl Builder {
    /// A scalar of any element type: the nearest that the type has to `value`; integers must have it exactly.
    ///
    /// ```
    /// # use brolga_compiler::builder::{Builder, ElementType};
    /// let b = Builder::new("constants");
    /// b.tuple(&[b.scalar(ElementType::BF16, 0.1), b.scalar(ElementType::S8, -3.0)]);
    /// assert!(b.build().is_ok());
    ///
    /// let b = Builder::new("wrong");
    /// b.scalar(ElementType::S8, 0.5);
    /// assert!(b.build().is_err());
    ///
    /// // The largest number of a type, and the next.
    /// let b = Builder::new("limits");
    /// b.scalar(ElementType::U64, 2f64.powi(63));
    /// assert!(b.build().is_ok());
    /// let b = Builder::new("limits");
    /// b.scalar(ElementType::S64, 2f64.powi(63));
    /// assert!(b.build().is_err());
    /// ```
    #[track_caller]
    pub fn scalar(&self, ty: ElementType, value: f64) -> Op {
        let at = Location::caller();
        if !ty.is_float() && !ty.is_complex() {
            // What is no integer of 64 bits is left as it is, and refused.
            let whole = value as i128;
            let scalar = match (i64::try_from(whole), u64::try_from(whole)) {
                _ if whole as f64 != value => Scalar::Float(value),
                (Ok(v), _) => Scalar::Int(v),
                (_, Ok(v)) => Scalar::UInt(v),
                _ => Scalar::Float(value),
            };
            return self.scalar_at(at, ty, scalar, &format!("the number {value}"));
        }
        self.made_at(at, || {
            let mut literal = brolga_runtime::ArrayLiteral::zeros(&ArrayShape::new(ty, []));
            literal.set(0, Scalar::Float(value).round_to(ty));
            self.constant_literal(literal)
        })
    }

    /// The sum along `dimensions`, which the result lacks.
    ///
    /// ```
    /// # use brolga_compiler::builder::{ArrayLiteral, Builder, ElementType, Shape};
    /// # use brolga_compiler::{CompileOptions, compile};
    /// # use brolga_runtime::Program;
    /// let b = Builder::new("sum");
    /// let x = b.parameter(0, Shape::array(ElementType::F32, [2, 3]), "x");
    /// b.sum(x, &[-1]);
    /// # let program = Program::from_object(&compile(&b.build()?, &CompileOptions::native())?.object)?;
    /// # let x = ArrayLiteral::from_elements(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// assert_eq!(program.run(&[&x])?[0].to_string(), "f32[2] {6, 15}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn sum(&self, operand: Op, dimensions: &[i64]) -> Op {
        self.folded(Location::caller(), operand, dimensions, Opcode::Add)
    }

    /// The largest along `dimensions`, which the result lacks; NaN where any is.
    #[track_caller]
    pub fn reduce_max(&self, operand: Op, dimensions: &[i64]) -> Op {
        self.folded(Location::caller(), operand, dimensions, Opcode::Maximum)
    }

    /// The least along `dimensions`, which the result lacks; NaN where any is.
    #[track_caller]
    pub fn reduce_min(&self, operand: Op, dimensions: &[i64]) -> Op {
        self.folded(Location::caller(), operand, dimensions, Opcode::Minimum)
    }

    /// The mean along `dimensions`, which the result lacks. Errors: anything but floats and complex numbers.
    #[track_caller]
    pub fn mean(&self, operand: Op, dimensions: &[i64]) -> Op {
        let at = Location::caller();
        self.composed(at, operand, |shape| {
            if !shape.ty.is_complex() {
                self.only_floats(at, shape, "a mean")?;
            }
            self.widely(operand, shape, |operand, ty| {
                let along = self.along(at, shape, dimensions)?;
                let count: f64 = along.iter().map(|&d| shape.dims.get(d).map_or(1.0, |&n| n as f64)).product();
                Ok(self.div(self.sum(operand, dimensions), self.scalar(ty, count)))
            })
        })
    }

    /// The mean of the squared distances from the mean along `dimensions`, which the result lacks. Errors: anything but floats.
    ///
    /// ```
    /// # use brolga_compiler::builder::{ArrayLiteral, Builder, ElementType, Shape};
    /// # use brolga_compiler::{CompileOptions, compile};
    /// # use brolga_runtime::Program;
    /// let b = Builder::new("spread");
    /// let x = b.parameter(0, Shape::array(ElementType::F32, [4]), "x");
    /// b.tuple(&[b.mean(x, &[0]), b.variance(x, &[0])]);
    /// # let program = Program::from_object(&compile(&b.build()?, &CompileOptions::native())?.object)?;
    /// let spread = program.run(&[&ArrayLiteral::from_elements(&[4], &[1f32, 1.0, 5.0, 5.0])])?;
    /// assert_eq!([spread[0].to_string(), spread[1].to_string()], ["f32[] 3", "f32[] 4"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn variance(&self, operand: Op, dimensions: &[i64]) -> Op {
        let at = Location::caller();
        self.composed(at, operand, |shape| {
            self.only_floats(at, shape, "a variance")?;
            let kept = self.kept(at, shape, dimensions)?;
            self.widely(operand, shape, |operand, _| {
                let distance = self.sub_in_dims(operand, self.mean(operand, dimensions), &kept);
                Ok(self.mean(self.mul(distance, distance), dimensions))
            })
        })
    }

    /// `exp(x) / sum(exp(x))` along a dimension, without overflow. Errors: anything but floats.
    #[track_caller]
    pub fn softmax(&self, operand: Op, dimension: i64) -> Op {
        let at = Location::caller();
        self.composed(at, operand, |shape| {
            let (kept, shifted) = self.shifted(at, operand, shape, dimension)?;
            let e = self.exp(shifted);
            Ok(self.div_in_dims(e, self.sum(e, &[dimension]), &kept))
        })
    }

    /// The logarithm of the softmax along a dimension, without overflow. Errors: anything but floats.
    #[track_caller]
    pub fn log_softmax(&self, operand: Op, dimension: i64) -> Op {
        let at = Location::caller();
        self.composed(at, operand, |shape| {
            let (kept, shifted) = self.shifted(at, operand, shape, dimension)?;
            let sum = self.sum(self.exp(shifted), &[dimension]);
            Ok(self.sub_in_dims(shifted, self.log(sum), &kept))
        })
    }

    /// `(x - mean) / sqrt(variance + epsilon)` along a dimension; scale and offset are a product and a sum of the caller's.
    /// Errors: anything but floats.
    ///
    /// ```
    /// # use brolga_compiler::builder::{ArrayLiteral, Builder, ElementType, Shape};
    /// # use brolga_compiler::{CompileOptions, compile};
    /// # use brolga_runtime::Program;
    /// let b = Builder::new("norm");
    /// let x = b.parameter(0, Shape::array(ElementType::F32, [1, 4]), "x");
    /// b.layer_norm(x, -1, 0.0);
    /// # let program = Program::from_object(&compile(&b.build()?, &CompileOptions::native())?.object)?;
    /// let y = program.run(&[&ArrayLiteral::from_elements(&[1, 4], &[1f32, 1.0, 5.0, 5.0])])?;
    /// assert_eq!(y[0].to_string(), "f32[1,4] { {-1, -1, 1, 1} }");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn layer_norm(&self, operand: Op, dimension: i64, epsilon: f64) -> Op {
        let at = Location::caller();
        self.composed(at, operand, |shape| {
            self.only_floats(at, shape, "a normalisation")?;
            let kept = self.kept(at, shape, &[dimension])?;
            self.widely(operand, shape, |operand, ty| {
                let distance = self.sub_in_dims(operand, self.mean(operand, &[dimension]), &kept);
                let variance = self.mean(self.mul(distance, distance), &[dimension]);
                let deviation = self.sqrt(self.add(variance, self.scalar(ty, epsilon)));
                Ok(self.div_in_dims(distance, deviation, &kept))
            })
        })
    }

    /// `max(x, 0)`; of NaN it is NaN.
    #[track_caller]
    pub fn relu(&self, operand: Op) -> Op {
        self.composed(Location::caller(), operand, |shape| Ok(self.max(operand, self.zero(shape.ty))))
    }

    /// `x * logistic(x)`. Errors: anything but floats and complex numbers.
    #[track_caller]
    pub fn silu(&self, operand: Op) -> Op {
        self.composed(Location::caller(), operand, |_| Ok(self.mul(operand, self.logistic(operand))))
    }

    /// `log(1 + exp(x))`, without overflow. Errors: anything but floats.
    #[track_caller]
    pub fn softplus(&self, operand: Op) -> Op {
        self.composed(Location::caller(), operand, |_| {
            let tail = self.log1p(self.exp(self.neg(self.abs(operand))));
            Ok(self.add(self.relu(operand), tail))
        })
    }

    /// `x * (1 + erf(x / sqrt(2))) / 2`. Errors: anything but floats.
    #[track_caller]
    pub fn gelu(&self, operand: Op) -> Op {
        self.composed(Location::caller(), operand, |shape| {
            let scaled = self.mul(operand, self.scalar(shape.ty, std::f64::consts::FRAC_1_SQRT_2));
            let weight = self.add(self.erf(scaled), self.one(shape.ty));
            Ok(self.mul(self.mul(operand, self.scalar(shape.ty, 0.5)), weight))
        })
    }

    /// Makes something of an array, all of it at one place.
    fn composed(&self, at: At, operand: Op, make: impl FnOnce(&ArrayShape) -> Step) -> Op {
        let made = self.array_at(at, Opcode::Copy, operand).and_then(|shape| self.made_at(at, || make(&shape)));
        self.finish(made)
    }

    /// The fold along dimensions, by an operation that has a neutral element.
    fn folded(&self, at: At, operand: Op, dimensions: &[i64], opcode: Opcode) -> Op {
        self.composed(at, operand, |shape| {
            let along: Vec<i64> = self.along(at, shape, dimensions)?.into_iter().map(|d| d as i64).collect();
            let neutral = match opcode {
                Opcode::Maximum => self.min_value(shape.ty),
                Opcode::Minimum => self.max_value(shape.ty),
                _ => self.zero(shape.ty),
            };
            match scalar_computation_at(at, opcode, shape.ty) {
                Ok(fold) => Ok(self.reduce(operand, neutral, &fold, &along)),
                Err(e) => {
                    self.state.borrow_mut().error.get_or_insert(e);
                    Err(Failed)
                }
            }
        })
    }

    /// The operand less its largest element along a dimension, and the dimensions besides it.
    fn shifted(&self, at: At, operand: Op, shape: &ArrayShape, dimension: i64) -> Step<(Vec<i64>, Op)> {
        self.only_floats(at, shape, "a softmax")?;
        let kept = self.kept(at, shape, &[dimension])?;
        let shifted = self.sub_in_dims(operand, self.reduce_max(operand, &[dimension]), &kept);
        Ok((kept, shifted))
    }

    /// Makes something of an operand in f32, where its floats are narrower: they need not have what is counted or added, and are
    /// rounded once, at the end.
    fn widely(&self, operand: Op, shape: &ArrayShape, make: impl FnOnce(Op, ElementType) -> Step) -> Step {
        if !shape.ty.is_float() || shape.ty.bits() >= ElementType::F32.bits() {
            return make(operand, shape.ty);
        }
        let made = make(self.convert_element_type(operand, ElementType::F32), ElementType::F32)?;
        Ok(self.convert_element_type(made, shape.ty))
    }

    fn only_floats(&self, at: At, shape: &ArrayShape, what: &str) -> Step<()> {
        match shape.ty.is_float() {
            true => Ok(()),
            false => {
                let message = format!("expected floats for {what}, found {shape:#}");
                Err(self.reject_plain(at, RuleError::new("operand.type", message)))
            }
        }
    }

    /// The dimensions, counted from the front, ascending.
    fn along(&self, at: At, shape: &ArrayShape, dimensions: &[i64]) -> Step<Vec<usize>> {
        let rank = shape.rank() as i64;
        let mut out = Vec::with_capacity(dimensions.len());
        for &d in dimensions {
            let from_front = if d < 0 { d.saturating_add(rank) } else { d };
            match usize::try_from(from_front) {
                Ok(found) if from_front < rank && !out.contains(&found) => out.push(found),
                _ => {
                    let message = format!(
                        "expected different dimensions of {shape:#}, from {} to {}, found {dimensions:?}",
                        -rank,
                        rank - 1
                    );
                    return Err(self.reject_plain(at, RuleError::new("builder.dimensions", message)));
                }
            }
        }
        out.sort_unstable();
        Ok(out)
    }

    /// The dimensions that are left.
    fn kept(&self, at: At, shape: &ArrayShape, dimensions: &[i64]) -> Step<Vec<i64>> {
        let along = self.along(at, shape, dimensions)?;
        Ok((0..shape.rank()).filter(|d| !along.contains(d)).map(|d| d as i64).collect())
    }
}
