//! `fft`: forward and inverse, complex and real, over the innermost one to three axes.
//!
//! Problem: any length. Invariant: all work is on full complex rows in `f64`; real forms differ only in what is read
//! and kept. Algorithm: short rows by the definition; powers of two by radix-2 decimation; other lengths by
//! Bluestein's identity `jk = (j^2 + k^2 - (k - j)^2) / 2`, which turns the transform into a cyclic convolution of a
//! power-of-two length. Of a real inverse only the entries up to `n / 2` are read, and of entry 0 (and of `n / 2` for
//! even `n`) only the real part.

use super::dense::Number;
use super::{Context, array, invalid, new_array, result_shape};
use crate::Result;
use crate::hlo::{AttrKey, Instruction};
use brolga_runtime::Literal;
use brolga_runtime::num_complex::Complex;

type C = Complex<f64>;

/// Longest row transformed by the definition.
const DIRECT: usize = 64;

/// Evaluates `fft`.
pub(super) fn op(_cx: &Context<'_>, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
    let operand = array(inst, operands, 0)?;
    let shape = result_shape(inst)?;
    let kind = inst.attrs.word(AttrKey::FftType).unwrap_or("FFT");
    let lengths = inst.attrs.ints_or_empty(AttrKey::FftLength);
    let rank = operand.dims().len();
    if lengths.is_empty() || lengths.len() > 3 || lengths.len() > rank || shape.rank() != rank {
        return Err(invalid(inst, "fft transforms one to three of the innermost dimensions"));
    }
    let dims: Vec<usize> = operand.dims().iter().map(|&d| d as usize).collect();
    let kept = shape.dims[rank - 1] as usize;
    let outer = rank - lengths.len()..rank - 1;
    let length = lengths[lengths.len() - 1].max(0) as usize;
    let (inverse, real_input, real_output) = match kind {
        "IFFT" => (true, false, false),
        "RFFT" => (false, true, false),
        "IRFFT" => (true, false, true),
        _ => (false, false, false),
    };
    let half = length / 2 + 1;
    let (read, written) = match (real_input, real_output) {
        _ if length == 0 => (dims[rank - 1], kept),
        (true, _) => (length, half),
        (_, true) => (half, length),
        _ => (length, length),
    };
    if dims[rank - 1] != read || kept != written || shape.dims[..rank - 1] != operand.dims()[..rank - 1] {
        return Err(invalid(inst, format!("fft_length {lengths:?} does not fit {} and {shape}", operand.shape())));
    }
    let mut data = C::read(operand);
    if shape.elements() == 0 || data.is_empty() {
        return Ok(new_array(inst, shape)?.into());
    }

    if real_output {
        for axis in outer {
            transform_axis(&mut data, &dims, axis, true);
        }
        let rows = data.chunks_exact(half).flat_map(|row| hermitian(row, length)).collect();
        data = rows;
        data.chunks_exact_mut(length).for_each(|row| transform(row, true));
    } else {
        data.chunks_exact_mut(length).for_each(|row| transform(row, inverse));
        if real_input {
            data = data.chunks_exact(length).flat_map(|row| row[..half].iter().copied()).collect();
        }
        let dims: Vec<usize> = shape.dims.iter().map(|&d| d as usize).collect();
        for axis in outer {
            transform_axis(&mut data, &dims, axis, inverse);
        }
    }
    Ok(C::write(inst, shape, &data)?.into())
}

/// The full row of which `half` is the non-redundant part.
fn hermitian(half: &[C], length: usize) -> Vec<C> {
    (0..length)
        .map(|k| match k {
            _ if k == 0 || 2 * k == length => C::new(half[k].re, 0.0),
            _ if k < half.len() => half[k],
            _ => half[length - k].conj(),
        })
        .collect()
}

/// Transforms along one axis that is not the innermost.
fn transform_axis(data: &mut [C], dims: &[usize], axis: usize, inverse: bool) {
    let (n, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
    for block in data.chunks_exact_mut((n * inner).max(1)) {
        for i in 0..inner {
            let mut row: Vec<C> = (0..n).map(|k| block[k * inner + i]).collect();
            transform(&mut row, inverse);
            row.into_iter().enumerate().for_each(|(k, v)| block[k * inner + i] = v);
        }
    }
}

/// Transforms one row; the inverse is scaled by `1 / n`.
fn transform(row: &mut [C], inverse: bool) {
    let n = row.len();
    if n <= 1 {
        return;
    }
    if n <= DIRECT {
        let roots: Vec<C> = (0..n).map(|k| root(k, n, inverse)).collect();
        let out: Vec<C> =
            (0..n).map(|k| row.iter().enumerate().fold(C::ZERO, |s, (j, &v)| s + v * roots[j * k % n])).collect();
        row.copy_from_slice(&out);
    } else if n.is_power_of_two() {
        radix2(row, inverse);
    } else {
        bluestein(row, inverse);
    }
    if inverse {
        row.iter_mut().for_each(|v| *v /= n as f64);
    }
}

/// `exp(-2 pi i k / n)`, conjugated for the inverse; exact at whole quarter turns.
fn root(k: usize, n: usize, inverse: bool) -> C {
    let (sin, cos) = match 4 * k {
        0 => (0.0, 1.0),
        quarter if quarter == n => (1.0, 0.0),
        quarter if quarter == 2 * n => (0.0, -1.0),
        quarter if quarter == 3 * n => (-1.0, 0.0),
        _ => (2.0 * std::f64::consts::PI * k as f64 / n as f64).sin_cos(),
    };
    C::new(cos, if inverse { sin } else { -sin })
}

/// Unscaled transform of a power-of-two length.
fn radix2(row: &mut [C], inverse: bool) {
    let n = row.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            row.swap(i, j);
        }
    }
    let roots: Vec<C> = (0..n / 2).map(|k| root(k, n, inverse)).collect();
    let mut half = 1;
    while half < n {
        let step = n / (2 * half);
        for block in row.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (k, (a, b)) in low.iter_mut().zip(high).enumerate() {
                let (u, v) = (*a, *b * roots[k * step]);
                *a = u + v;
                *b = u - v;
            }
        }
        half *= 2;
    }
}

/// Unscaled transform of any length.
fn bluestein(row: &mut [C], inverse: bool) {
    let n = row.len();
    let m = (2 * n - 1).next_power_of_two();
    // Squares modulo 2n keep the angles small, hence exact to the last bits.
    let chirp: Vec<C> =
        (0..n).map(|k| root((k as u128 * k as u128 % (2 * n as u128)) as usize, 2 * n, inverse)).collect();
    let mut a = vec![C::ZERO; m];
    let mut b = vec![C::ZERO; m];
    for k in 0..n {
        a[k] = row[k] * chirp[k];
        b[k] = chirp[k].conj();
        b[(m - k) % m] = chirp[k].conj();
    }
    radix2(&mut a, false);
    radix2(&mut b, false);
    a.iter_mut().zip(&b).for_each(|(x, y)| *x *= y);
    radix2(&mut a, true);
    for k in 0..n {
        row[k] = a[k] * chirp[k] / m as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::dense::testing::check;

    /// The definition.
    fn slow(row: &[C]) -> Vec<C> {
        let n = row.len();
        (0..n).map(|k| (0..n).map(|j| row[j] * root(j * k % n, n, false)).sum()).collect()
    }

    #[test]
    fn every_length_follows_the_definition() {
        for n in [1, 2, 3, 64, 65, 97, 128, 210, 256, 1000] {
            let row: Vec<C> = (0..n).map(|i| C::new((i * 7 % 11) as f64 - 5.0, (i * 3 % 5) as f64)).collect();
            let mut fast = row.clone();
            transform(&mut fast, false);
            let error = fast.iter().zip(slow(&row)).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
            assert!(error < 1e-10 * n as f64, "length {n}: {error}");
            transform(&mut fast, true);
            let error = fast.iter().zip(&row).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
            assert!(error < 1e-11, "length {n} and back: {error}");
        }
    }

    #[test]
    fn fft_forms_of_the_table() {
        let signal = "x = c64[4] constant({(1,0),(2,0),(3,0),(4,0)})\n r = f32[4] constant({1,2,3,4})
            s = c64[3] constant({(10,5),(-2,2),(-2,7)})\n";
        let expect = |body: &str, expected: &str| check("", &format!("{signal} ROOT y = {body}"), expected);
        expect("c64[4] fft(x), fft_type=FFT, fft_length={4}", "{(10,0),(-2,2),(-2,0),(-2,-2)}");
        expect("c64[4] fft(x), fft_type=IFFT, fft_length={4}", "{(2.5,0),(-0.5,-0.5),(-0.5,0),(-0.5,0.5)}");
        expect("c64[3] fft(r), fft_type=RFFT, fft_length={4}", "{(10,0),(-2,2),(-2,0)}");
        // The imaginary parts of entries 0 and n / 2 do not count.
        expect("f32[4] fft(s), fft_type=IRFFT, fft_length={4}", "{1,2,3,4}");
    }

    #[test]
    fn fft_of_several_axes_is_a_cascade() {
        check(
            "",
            "x = f32[2,2] constant({{1,2},{3,4}})\n ROOT y = c64[2,2] fft(x), fft_type=RFFT, fft_length={2,2}",
            "{{(10,0),(-2,0)},{(-4,0),(0,0)}}",
        );
        check(
            "",
            "x = c64[2,2] constant({{(10,0),(-2,0)},{(-4,0),(0,0)}})
             ROOT y = f32[2,2] fft(x), fft_type=IRFFT, fft_length={2,2}",
            "{{1,2},{3,4}}",
        );
    }
}
