//! AVX-512 and AVX2 tiles.

use super::Gemm;
use std::arch::x86_64::*;

/// Defines a tile. `$sums` rows of `$columns` registers of `$lanes` elements are the largest register tile; `$wide` rows
/// or fewer take four registers a row, `$widest` or fewer eight.
macro_rules! tile {
    (
        $name:ident, $t:ty, $register:ty, $lanes:literal, $features:literal, [$($rows:literal)*],
        $most:literal, $columns:literal, $wide:literal, $widest:literal,
        $zero:ident, $load:ident, $store:ident, $splat:ident, $fma:ident,
        $mask:ty, |$n:ident| $make_mask:expr, |$p:ident, $lm:ident| $masked_load:expr,
        |$q:ident, $sm:ident, $v:ident| $masked_store:expr
    ) => {
        mod $name {
            use super::*;

            /// Where a block lies.
            #[derive(Clone, Copy)]
            struct Block {
                k: i64,
                a: *const $t,
                a_row: i64,
                a_k: i64,
                b: *const $t,
                b_k: i64,
                c: *mut $t,
                c_row: i64,
                accumulate: bool,
            }

            /// One register tile: `R` rows of `V` registers, the last under `mask` where `M`.
            ///
            /// # Safety
            /// The processor has the features; the block's pointers reach `R` rows and the columns that the mask leaves.
            #[target_feature(enable = $features)]
            unsafe fn micro<const R: usize, const V: usize, const M: bool>(t: Block, mask: $mask) {
                // SAFETY: as promised; masked elements are not touched.
                unsafe {
                    let mut sums = [[$zero(); V]; R];
                    if t.accumulate {
                        for r in 0..R {
                            for v in 0..V {
                                let $p = t.c.offset(r as isize * t.c_row as isize).add(v * $lanes).cast_const();
                                sums[r][v] = if M && v + 1 == V {
                                    let $lm = mask;
                                    $masked_load
                                } else {
                                    $load($p)
                                };
                            }
                        }
                    }
                    // A pointer for every third row: the others are one or two strides behind.
                    let mut a = [t.a; 4];
                    for (i, p) in a.iter_mut().enumerate() {
                        *p = t.a.wrapping_offset(3 * i as isize * t.a_row as isize);
                    }
                    let mut b = t.b;
                    for _ in 0..t.k {
                        let mut right = [$zero(); V];
                        for v in 0..V {
                            let $p = b.add(v * $lanes);
                            right[v] = if M && v + 1 == V {
                                let $lm = mask;
                                $masked_load
                            } else {
                                $load($p)
                            };
                        }
                        for r in 0..R {
                            let x = $splat(*a[r / 3].wrapping_offset((r % 3) as isize * t.a_row as isize));
                            for v in 0..V {
                                sums[r][v] = $fma(x, right[v], sums[r][v]);
                            }
                        }
                        for p in &mut a {
                            *p = p.wrapping_offset(t.a_k as isize);
                        }
                        b = b.wrapping_offset(t.b_k as isize);
                    }
                    for r in 0..R {
                        for v in 0..V {
                            let $q = t.c.offset(r as isize * t.c_row as isize).add(v * $lanes);
                            if M && v + 1 == V {
                                let ($sm, $v) = (mask, sums[r][v]);
                                $masked_store;
                            } else {
                                $store($q, sums[r][v]);
                            }
                        }
                    }
                }
            }

            /// A tile of `rows` rows and at most `V` registers of columns.
            ///
            /// # Safety
            /// As [`micro`], for `rows` rows and `columns` columns.
            #[target_feature(enable = $features)]
            unsafe fn rows<const V: usize>(t: Block, rows: usize, columns: usize) {
                let $n = columns - (V - 1) * $lanes;
                let mask = $make_mask;
                // SAFETY: as promised.
                unsafe {
                    if $n == $lanes {
                        match rows {
                            $($rows if $rows * V <= $most * $columns => micro::<$rows, V, false>(t, mask),)*
                            _ => {}
                        }
                    } else {
                        match rows {
                            $($rows if $rows * V <= $most * $columns => micro::<$rows, V, true>(t, mask),)*
                            _ => {}
                        }
                    }
                }
            }

            /// All rows of a strip of columns, in equal parts.
            ///
            /// # Safety
            /// As [`micro`], for `m` rows and `columns` columns.
            #[target_feature(enable = $features)]
            unsafe fn strip(t: Block, m: usize, columns: usize) {
                let registers = columns.div_ceil($lanes);
                let most = match registers {
                    1..=$columns => $most,
                    3..=4 => $wide,
                    _ => $widest,
                };
                let parts = m.div_ceil(most);
                let mut t = t;
                let mut left = m;
                for part in (1..=parts).rev() {
                    let r = left.div_ceil(part);
                    // SAFETY: as promised.
                    unsafe {
                        match registers {
                            1 => rows::<1>(t, r, columns),
                            2 => rows::<2>(t, r, columns),
                            3 => rows::<3>(t, r, columns),
                            4 => rows::<4>(t, r, columns),
                            _ => rows::<8>(t, r, columns),
                        }
                    }
                    left -= r;
                    t.a = t.a.wrapping_offset(r as isize * t.a_row as isize);
                    t.c = t.c.wrapping_offset(r as isize * t.c_row as isize);
                }
            }

            /// # Safety
            /// As [`super::super::Gemm`] says, on a processor with the features.
            #[target_feature(enable = $features)]
            unsafe fn all(t: Block, m: usize, n: usize) {
                let most = match m {
                    _ if m <= $widest => 8,
                    _ if m <= $wide => 4,
                    _ => $columns,
                };
                let mut j = 0;
                let mut t = t;
                while j < n {
                    let left = (n - j).div_ceil($lanes);
                    // Eight registers come whole only: their masked forms would not earn their code.
                    let registers = match most {
                        8 if n - j >= 8 * $lanes => 8,
                        8 => left.min(4),
                        most => left.min(most),
                    };
                    let columns = (registers * $lanes).min(n - j);
                    // SAFETY: as promised.
                    unsafe { strip(t, m, columns) };
                    j += columns;
                    t.b = t.b.wrapping_add(columns);
                    t.c = t.c.wrapping_add(columns);
                }
                _mm256_zeroupper();
            }

            /// # Safety
            /// As [`super::super::Gemm`] says; the processor has been asked for the features.
            #[allow(clippy::too_many_arguments)]
            pub(super) unsafe extern "C" fn gemm(
                k: i64,
                a: *const $t,
                a_row: i64,
                a_k: i64,
                b: *const $t,
                b_k: i64,
                c: *mut $t,
                c_row: i64,
                m: i64,
                n: i64,
                accumulate: i64,
            ) {
                let t = Block { k, a, a_row, a_k, b, b_k, c, c_row, accumulate: accumulate != 0 };
                // SAFETY: as promised.
                unsafe { all(t, m.max(0) as usize, n.max(0) as usize) }
            }
        }
    };
}

tile!(
    f32_512, f32, __m512, 16, "avx512f", [1 2 3 4 5 6 7 8 9 10 11 12], 12, 2, 6, 2,
    _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps,
    __mmask16, |n| ((1u32 << n) - 1) as __mmask16, |p, m| _mm512_maskz_loadu_ps(m, p),
    |q, m, v| _mm512_mask_storeu_ps(q, m, v)
);

tile!(
    f64_512, f64, __m512d, 8, "avx512f", [1 2 3 4 5 6 7 8 9 10 11 12], 12, 2, 6, 2,
    _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd,
    __mmask8, |n| ((1u32 << n) - 1) as __mmask8, |p, m| _mm512_maskz_loadu_pd(m, p),
    |q, m, v| _mm512_mask_storeu_pd(q, m, v)
);

tile!(
    f32_256, f32, __m256, 8, "avx2,fma", [1 2 3 4 5 6], 6, 2, 3, 1,
    _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps,
    __m256i, |n| first_32(n), |p, m| _mm256_maskload_ps(p, m),
    |q, m, v| _mm256_maskstore_ps(q, m, v)
);

tile!(
    f64_256, f64, __m256d, 4, "avx2,fma", [1 2 3 4 5 6], 6, 2, 3, 1,
    _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd,
    __m256i, |n| first_64(n), |p, m| _mm256_maskload_pd(p, m),
    |q, m, v| _mm256_maskstore_pd(q, m, v)
);

/// A mask of the first `n` of eight lanes.
#[target_feature(enable = "avx2")]
fn first_32(n: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// A mask of the first `n` of four lanes.
#[target_feature(enable = "avx2")]
fn first_64(n: usize) -> __m256i {
    _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3))
}

fn has_512() -> bool {
    is_x86_feature_detected!("avx512f")
}

fn has_256() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

pub(super) fn gemm_f32() -> Option<Gemm<f32>> {
    if has_512() {
        return Some(f32_512::gemm);
    }
    has_256().then_some(f32_256::gemm as Gemm<f32>)
}

pub(super) fn gemm_f64() -> Option<Gemm<f64>> {
    if has_512() {
        return Some(f64_512::gemm);
    }
    has_256().then_some(f64_256::gemm as Gemm<f64>)
}

#[cfg(test)]
pub(super) fn all_f32() -> Vec<Gemm<f32>> {
    let wide = has_512().then_some(f32_512::gemm as Gemm<f32>);
    wide.into_iter().chain(has_256().then_some(f32_256::gemm as Gemm<f32>)).collect()
}

#[cfg(test)]
pub(super) fn all_f64() -> Vec<Gemm<f64>> {
    let wide = has_512().then_some(f64_512::gemm as Gemm<f64>);
    wide.into_iter().chain(has_256().then_some(f64_256::gemm as Gemm<f64>)).collect()
}
