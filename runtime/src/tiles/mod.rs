//! Wide register tiles for contractions.
//!
//! **Problem.** Compiled programs carry a register tile in 128-bit vectors, which is a quarter of what a processor with
//! AVX-512 can do. Registers of 256 and 512 bits are the business of the machine at hand, not of the object.
//!
//! **Invariant.** A tile gives the very bits of the program's own: every element of `c` is one chain of fused multiply-adds
//! in ascending `k`, whatever the shape of the register tile, so edges may be cut in any way.
//!
//! **Algorithm.** The program blocks for the caches and packs; a tile gets one block. Columns are taken in strips of whole
//! registers, the last under a mask; rows in equal parts so that the sums of a part fill the register file. Blocks of
//! few rows take wider strips instead, for one row of one register would wait for every product.

#[cfg(target_arch = "x86_64")]
mod x86;

/// `c[m, n] (+)= a[m, k] * b[k, n]`: `a[i, p]` at `a + i * a_row + p * a_k`, `b[p, j]` at `b + p * b_k + j`, `c[i, j]` at
/// `c + i * c_row + j`. The sums start from `c` where `accumulate` is not 0, from 0 otherwise.
pub type Gemm<T> = unsafe extern "C" fn(
    k: i64,
    a: *const T,
    a_row: i64,
    a_k: i64,
    b: *const T,
    b_k: i64,
    c: *mut T,
    c_row: i64,
    m: i64,
    n: i64,
    accumulate: i64,
);

/// The widest tile for `f32` that this processor runs; `None` where it has nothing wider than the program's own.
pub fn gemm_f32() -> Option<Gemm<f32>> {
    #[cfg(target_arch = "x86_64")]
    return x86::gemm_f32();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The widest tile for `f64`; as [`gemm_f32`].
pub fn gemm_f64() -> Option<Gemm<f64>> {
    #[cfg(target_arch = "x86_64")]
    return x86::gemm_f64();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Small integers and quarters: sums differ in their last bits when the order of a chain does.
    fn numbers(n: usize, seed: u32) -> Vec<f64> {
        let mut state = seed;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                f64::from(state >> 8) / f64::from(1 << 24) - 0.5
            })
            .collect()
    }

    macro_rules! check {
        ($name:ident, $t:ty, $tiles:expr) => {
            #[test]
            fn $name() {
                for gemm in $tiles {
                    for (m, n, k) in [
                        (1, 1, 1),
                        (1, 200, 9),
                        (2, 131, 5),
                        (3, 65, 4),
                        (5, 67, 33),
                        (7, 16, 8),
                        (11, 33, 17),
                        (12, 32, 64),
                        (13, 7, 3),
                        (24, 64, 20),
                        (25, 95, 31),
                        (40, 3, 2),
                    ] {
                        for (transposed, accumulate) in [(false, 0), (true, 1)] {
                            let (a_row, a_k) = if transposed { (1, m + 1) } else { (k + 3, 1) };
                            let (b_k, c_row) = (n + 5, n + 2);
                            let to = |v: Vec<f64>| v.into_iter().map(|x| x as $t).collect::<Vec<$t>>();
                            let a = to(numbers((m + 3) * (k + 3), 1));
                            let b = to(numbers(k * b_k, 2));
                            let start = to(numbers(m * c_row, 3));
                            let mut expected = start.clone();
                            for i in 0..m {
                                for j in 0..n {
                                    let mut sum = if accumulate == 1 { start[i * c_row + j] } else { 0.0 };
                                    for p in 0..k {
                                        sum = a[i * a_row + p * a_k].mul_add(b[p * b_k + j], sum);
                                    }
                                    expected[i * c_row + j] = sum;
                                }
                            }
                            let mut c = start.clone();
                            let [k, a_row, a_k, b_k, c_row, m, n] = [k, a_row, a_k, b_k, c_row, m, n].map(|x| x as i64);
                            // SAFETY: the arrays hold every element that the extents and strides reach.
                            unsafe {
                                gemm(
                                    k,
                                    a.as_ptr(),
                                    a_row,
                                    a_k,
                                    b.as_ptr(),
                                    b_k,
                                    c.as_mut_ptr(),
                                    c_row,
                                    m,
                                    n,
                                    accumulate,
                                );
                            }
                            let bits = |v: &[$t]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                            assert_eq!(bits(&c), bits(&expected), "{m} {n} {k} {transposed}");
                        }
                    }
                }
            }
        };
    }

    check!(f32_chains, f32, x86::all_f32());
    check!(f64_chains, f64, x86::all_f64());
}
