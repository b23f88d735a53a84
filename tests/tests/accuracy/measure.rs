//! Distances in units of the last place, and programs of one function.

use brolga_compiler::{CompileOptions, compile, shape, text};
use brolga_runtime::half::{bf16, f16};
use brolga_runtime::{ElementType, Program, RunOptions};
use std::fmt;

/// A float format: its digits, the exponent of its least number and its largest number.
pub struct Format {
    pub ty: ElementType,
    digits: i32,
    least: i32,
    pub max: f64,
}

pub const F16: Format = Format { ty: ElementType::F16, digits: 11, least: -24, max: 65504.0 };
pub const BF16: Format = Format { ty: ElementType::BF16, digits: 8, least: -133, max: 3.3895313892515355e38 };
pub const F32: Format = Format { ty: ElementType::F32, digits: 24, least: -149, max: f32::MAX as f64 };
pub const F64: Format = Format { ty: ElementType::F64, digits: 53, least: -1074, max: f64::MAX };

/// The largest error so far, and where.
#[derive(Default)]
pub struct Worst {
    pub error: f64,
    at: Vec<f64>,
}

impl Worst {
    pub fn note(&mut self, error: f64, at: &[f64]) {
        if error > self.error {
            (self.error, self.at) = (error, at.to_vec());
        }
    }

    pub fn merge(&mut self, other: Worst) {
        self.note(other.error, &other.at);
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4} ULP at {:e}", self.error, self.at.first().unwrap_or(&0.0))?;
        self.at.iter().skip(1).try_for_each(|x| write!(f, ", {x:e}"))
    }
}

/// A program with the target's features changed.
pub fn program(source: &str, features: &str) -> Program {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let mut options = CompileOptions::default();
    options.target.features.push(features.to_owned());
    let artifact = compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"));
    Program::from_object(&artifact.object).unwrap()
}

impl Format {
    /// The unit of the last place of a finite number.
    fn unit(&self, v: f64) -> f64 {
        let exponent = libm::ilogb(v).max(-1100) + 1;
        libm::ldexp(1.0, (exponent - self.digits).max(self.least))
    }

    /// The distance of a result from a more precise value. Infinity is one unit past the largest number; NaN and zeros
    /// of unlike sign are infinitely far from anything else.
    pub fn ulps(&self, got: f64, want: f64) -> f64 {
        if got.is_nan() || want.is_nan() {
            return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
        }
        if got == 0.0 && want == 0.0 {
            return if got.is_sign_negative() == want.is_sign_negative() { 0.0 } else { f64::INFINITY };
        }
        let overflows = want.abs() >= self.max + self.unit(self.max) / 2.0;
        let apart = f64::from(u8::from(got.is_infinite() != overflows));
        let (got, want) = (got.clamp(-self.max, self.max), want.clamp(-self.max, self.max));
        (got - want).abs() / self.unit(want) + apart
    }

    /// Whether the distance may be more than `limit`: for normal numbers without the special cases.
    pub fn exceeds(&self, got: f64, want: f64, limit: f64) -> bool {
        let bits = want.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i64 - 1023;
        if want.is_nan() && got.is_nan() || bits == got.to_bits() {
            return false;
        }
        if exponent < i64::from(self.least) + i64::from(self.digits) || want.abs() >= self.max {
            return self.ulps(got, want) > limit;
        }
        let inverse = f64::from_bits(((1022 + i64::from(self.digits) - exponent) as u64) << 52);
        let error = (got - want).abs() * inverse;
        error > limit || error.is_nan()
    }

    /// The number of a code.
    pub fn value(&self, code: u64) -> f64 {
        match self.ty {
            ElementType::F16 => f16::from_bits(code as u16).to_f64(),
            ElementType::BF16 => bf16::from_bits(code as u16).to_f64(),
            ElementType::F32 => f64::from(f32::from_bits(code as u32)),
            _ => f64::from_bits(code),
        }
    }

    /// The code of the nearest number.
    pub fn code(&self, value: f64) -> u64 {
        match self.ty {
            ElementType::F16 => u64::from(f16::from_f64(value).to_bits()),
            ElementType::BF16 => u64::from(bf16::from_f64(value).to_bits()),
            ElementType::F32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        }
    }

    /// The results of an instruction on arrays of operands, all as codes.
    fn run(&self, name: &str, features: &str, operands: &[Vec<u64>]) -> Vec<u64> {
        let (ty, n, width) = (self.ty, operands[0].len(), self.ty.bits() as usize / 8);
        let lines: String = (0..operands.len()).map(|k| format!("  x{k} = {ty}[{n}] parameter({k})\n")).collect();
        let names: Vec<String> = (0..operands.len()).map(|k| format!("x{k}")).collect();
        let source =
            format!("HloModule one\n\nENTRY main {{\n{lines}  ROOT y = {ty}[{n}] {name}({})\n}}\n", names.join(", "));
        let mut session = program(&source, features).session(&RunOptions::default()).unwrap();
        for (k, codes) in operands.iter().enumerate() {
            let bytes = session.parameter_bytes_mut(k).unwrap().chunks_exact_mut(width);
            bytes.zip(codes).for_each(|(to, code)| to.copy_from_slice(&code.to_le_bytes()[..width]));
        }
        session.call().unwrap();
        let code = |bytes: &[u8]| bytes.iter().rev().fold(0, |code, byte| code << 8 | u64::from(*byte));
        session.result_bytes(0).unwrap().chunks_exact(width).map(code).collect()
    }

    pub fn worst_unary(&self, name: &str, want: fn(f64) -> f64, features: &str, codes: &[u64]) -> Worst {
        let mut worst = Worst::default();
        let results = self.run(name, features, &[codes.to_vec()]);
        for (code, got) in codes.iter().zip(results) {
            let x = self.value(*code);
            worst.note(self.ulps(self.value(got), want(x)), &[x]);
        }
        worst
    }

    pub fn worst_binary(&self, name: &str, want: fn(f64, f64) -> f64, features: &str, pairs: &[(u64, u64)]) -> Worst {
        let mut worst = Worst::default();
        let operands = [pairs.iter().map(|p| p.0).collect(), pairs.iter().map(|p| p.1).collect()];
        for (pair, got) in pairs.iter().zip(self.run(name, features, &operands)) {
            let (x, y) = (self.value(pair.0), self.value(pair.1));
            worst.note(self.ulps(self.value(got), want(x, y)), &[x, y]);
        }
        worst
    }
}
