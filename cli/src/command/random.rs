//! Inputs made from a seed.

use brolga_runtime::{ArrayLiteral, ArrayShape, ElementType, Kind, OutOfMemory, half, narrow};

/// A small fixed generator (SplitMix64), so that a seed means the same inputs on every machine and in every version.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [-1, 1), a multiple of 2^-23, so that `f32` holds it exactly.
    fn float(&mut self) -> f64 {
        (self.next() >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    }

    /// An array of such numbers.
    pub fn array(&mut self, shape: &ArrayShape) -> Result<ArrayLiteral, OutOfMemory> {
        let mut out = ArrayLiteral::try_zeros(shape)?;
        let ty = shape.ty;
        let size = ty.byte_size();
        for element in out.bytes_mut().chunks_exact_mut(size) {
            match ty.kind() {
                Kind::Pred => element[0] = (self.next() >> 63) as u8,
                Kind::Signed | Kind::Unsigned => {
                    // Non-negative, so that the low byte alone is the value in every integer type but `s1`.
                    let usable = if ty.is_signed_integer() { ty.bits() - 1 } else { ty.bits() }.min(3);
                    let value = (self.next() >> 32) & ((1 << usable) - 1);
                    element.fill(0);
                    element[if cfg!(target_endian = "big") { size - 1 } else { 0 }] = value as u8;
                }
                Kind::Float => {
                    let value = self.float();
                    float_bytes(ty, value, element);
                }
                Kind::Complex => {
                    for part in element.chunks_exact_mut(size / 2) {
                        let value = self.float();
                        float_bytes(ty.real_part(), value, part);
                    }
                }
            }
        }
        Ok(out)
    }
}

fn float_bytes(ty: ElementType, value: f64, out: &mut [u8]) {
    match ty {
        ElementType::F64 => out.copy_from_slice(&value.to_ne_bytes()),
        ElementType::F32 => out.copy_from_slice(&(value as f32).to_ne_bytes()),
        ElementType::F16 => out.copy_from_slice(&half::f16::from_f64(value).to_ne_bytes()),
        ElementType::BF16 => out.copy_from_slice(&half::bf16::from_f64(value).to_ne_bytes()),
        // The narrow formats. One has no negative numbers, and rounds small ones to nothing.
        _ => {
            let shown = if ty == ElementType::F8E8M0Fnu { value.abs().max(0.125) } else { value };
            out[0] = narrow::encode(ty, shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brolga_runtime::npy;

    #[test]
    fn a_seed_fixes_the_inputs() {
        for &ty in ElementType::ALL {
            let shape = ArrayShape::new(ty, [16]);
            let [a, b] = [7, 7].map(|seed| Random(seed).array(&shape).expect("a small array"));
            assert_eq!(a, b, "{ty}");
            assert_eq!(npy::read(&npy::write(&a), ty), Ok(a), "{ty} values are in range");
        }
        let shape = ArrayShape::new(ElementType::F32, [4]);
        assert_eq!(Random(1).array(&shape).expect("a small array").as_slice::<f32>()[0], 0.13312304);
    }
}
