//! Fast Fourier transforms over the innermost one to three axes.
//!
//! Problem: any lengths, four kinds, rows near and far in memory. Invariant: a transform's rows are contiguous when it
//! runs; forward is not scaled, inverse is scaled by `1 / n` once for all axes. Algorithm: plans of `rustfft` and
//! `realfft`, kept by each thread; the innermost axis in place, row after row; of another axis a few columns at a time
//! are copied to rows and back. Of a real inverse only the entries up to `n / 2` are read, and of entry 0 (and of
//! `n / 2` for even `n`) only the real part.
//!
//! Attributes: the kind (0 FFT, 1 IFFT, 2 RFFT, 3 IRFFT), then the length along each axis.

use super::{Call, Failure, service};
use crate::ElementType;
use crate::abi::Context;
use num_complex::Complex;
use realfft::{FftNum, RealFftPlanner};
use rustfft::{FftDirection, FftPlanner};
use std::cell::RefCell;

/// Columns of an outer axis that are transformed together.
const TOGETHER: usize = 16;

/// The plans of one thread.
struct Plans<T: FftNum> {
    complex: FftPlanner<T>,
    real: RealFftPlanner<T>,
}

/// The real numbers of a transform.
trait Real: FftNum {
    /// From the bytes of one.
    fn load(bytes: &[u8]) -> Self;
    /// To the bytes of one.
    fn store(self, bytes: &mut [u8]);
    /// `1 / n`.
    fn reciprocal(n: f64) -> Self;
    /// Runs with this thread's plans.
    fn with_plans<R>(run: impl FnOnce(&mut Plans<Self>) -> R) -> R;
}

macro_rules! real {
    ($($ty:ty),*) => { $(
        impl Real for $ty {
            fn load(bytes: &[u8]) -> $ty { bytes.try_into().map_or(0.0, <$ty>::from_ne_bytes) }
            fn store(self, bytes: &mut [u8]) {
                bytes.iter_mut().zip(self.to_ne_bytes()).for_each(|(to, from)| *to = from);
            }
            fn reciprocal(n: f64) -> $ty { (1.0 / n) as $ty }
            fn with_plans<R>(run: impl FnOnce(&mut Plans<$ty>) -> R) -> R {
                thread_local! {
                    static PLANS: RefCell<Plans<$ty>> =
                        RefCell::new(Plans { complex: FftPlanner::new(), real: RealFftPlanner::new() });
                }
                PLANS.with_borrow_mut(run)
            }
        }
    )* };
}
real!(f32, f64);

fn load_reals<T: Real>(to: &mut [T], bytes: &[u8]) {
    to.iter_mut().zip(bytes.chunks_exact(size_of::<T>())).for_each(|(to, b)| *to = T::load(b));
}

fn each_complex<T: Real>(bytes: &[u8]) -> impl Iterator<Item = Complex<T>> + '_ {
    bytes.chunks_exact(2 * size_of::<T>()).map(|both| {
        let (re, im) = both.split_at(size_of::<T>());
        Complex::new(T::load(re), T::load(im))
    })
}

fn load_complexes<T: Real>(to: &mut [Complex<T>], bytes: &[u8]) {
    to.iter_mut().zip(each_complex(bytes)).for_each(|(to, v)| *to = v);
}

fn zeros<T: Real>(count: usize) -> Vec<Complex<T>> {
    vec![Complex::new(T::zero(), T::zero()); count]
}

fn put_reals<T: Real>(bytes: &mut [u8], values: &[T]) {
    bytes.chunks_exact_mut(size_of::<T>()).zip(values).for_each(|(to, v)| v.store(to));
}

fn put_complexes<T: Real>(bytes: &mut [u8], values: &[Complex<T>]) {
    for (to, v) in bytes.chunks_exact_mut(2 * size_of::<T>()).zip(values) {
        let (re, im) = to.split_at_mut(size_of::<T>());
        v.re.store(re);
        v.im.store(im);
    }
}

fn direction(inverse: bool) -> FftDirection {
    if inverse { FftDirection::Inverse } else { FftDirection::Forward }
}

/// Transforms along an axis of `length` elements that are `inner` apart, unscaled.
fn axis<T: Real>(plans: &mut Plans<T>, data: &mut [Complex<T>], length: usize, inner: usize, inverse: bool) {
    let block = length.saturating_mul(inner);
    if length < 2 || block == 0 {
        return;
    }
    let plan = plans.complex.plan_fft(length, direction(inverse));
    let mut scratch = zeros(plan.get_inplace_scratch_len());
    let mut lines = zeros(length * TOGETHER.min(inner));
    for block in data.chunks_exact_mut(block) {
        for first in (0..inner).step_by(TOGETHER) {
            let count = TOGETHER.min(inner - first);
            for (k, row) in block.chunks_exact(inner).enumerate() {
                for (c, &v) in row[first..first + count].iter().enumerate() {
                    lines[c * length + k] = v;
                }
            }
            for line in lines[..count * length].chunks_exact_mut(length) {
                plan.process_with_scratch(line, &mut scratch);
            }
            for (k, row) in block.chunks_exact_mut(inner).enumerate() {
                for (c, v) in row[first..first + count].iter_mut().enumerate() {
                    *v = lines[c * length + k];
                }
            }
        }
    }
}

/// One transform: `dims` are the sizes of the full complex data, of which `lengths` says which axes are transformed.
struct Transform {
    kind: i64,
    lengths: Vec<usize>,
    /// Sizes of the operand and of the result along the innermost axis.
    read: usize,
    written: usize,
}

impl Transform {
    /// Reads the call's attributes and shapes; the rank of both arrays is that of the operand.
    fn of(attributes: &[i64], operand: &[i64], result: &[i64]) -> Option<Transform> {
        let (&kind, lengths) = attributes.split_first()?;
        let lengths: Vec<usize> = lengths.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<_>>()?;
        let (&last, rank) = (lengths.last()?, operand.len());
        if lengths.len() > 3 || lengths.len() > rank || result.len() != rank {
            return None;
        }
        let (&read, &written) = (operand.last()?, result.last()?);
        let (read, written) = (usize::try_from(read).ok()?, usize::try_from(written).ok()?);
        let half = last / 2 + 1;
        let sizes_fit = match kind {
            _ if last == 0 => true,
            0 | 1 => read == last && written == last,
            2 => read == last && written == half,
            3 => read == half && written == last,
            _ => return None,
        };
        let first = rank - lengths.len();
        let outer = operand.get(first..rank - 1)?;
        let outer_fits = outer.iter().zip(&lengths).all(|(&d, &n)| usize::try_from(d) == Ok(n));
        let same = operand.get(..rank - 1) == result.get(..rank - 1);
        (sizes_fit && outer_fits && same).then_some(Transform { kind, lengths, read, written })
    }

    /// Transforms all axes but the innermost of data whose innermost size is `inner`.
    fn outer_axes<T: Real>(&self, plans: &mut Plans<T>, data: &mut [Complex<T>], mut inner: usize) {
        for &length in self.lengths.iter().rev().skip(1) {
            axis(plans, data, length, inner, self.kind % 2 == 1);
            inner *= length;
        }
    }

    fn scale<T: Real>(&self) -> T {
        T::reciprocal(self.lengths.iter().map(|&n| n as f64).product())
    }

    /// A row at a time along the innermost axis; what other axes are transformed of lies in an array between.
    fn run<T: Real>(&self, plans: &mut Plans<T>, from: &[u8], to: &mut [u8]) -> Result<(), Failure> {
        let last = self.lengths.last().copied().unwrap_or(0);
        let (real, complex) = (size_of::<T>(), 2 * size_of::<T>());
        let several = self.lengths.len() > 1;
        match self.kind {
            2 => {
                let plan = plans.real.plan_fft_forward(last);
                let (mut scratch, mut row) = (plan.make_scratch_vec(), plan.make_input_vec());
                let mut spectrum = plan.make_output_vec();
                let mut between = zeros(if several { to.len() / complex } else { 0 });
                let places = to.chunks_exact_mut(complex * self.written);
                for (number, (from, to)) in from.chunks_exact(real * last).zip(places).enumerate() {
                    load_reals(&mut row, from);
                    plan.process_with_scratch(&mut row, &mut spectrum, &mut scratch)
                        .map_err(|e| Failure::new(e.to_string()))?;
                    // To the array between, where there is one, else to where the result lies.
                    match between.get_mut(number * self.written..(number + 1) * self.written) {
                        Some(there) => there.copy_from_slice(&spectrum),
                        None => put_complexes(to, &spectrum),
                    }
                }
                if several {
                    self.outer_axes(plans, &mut between, self.written);
                    put_complexes(to, &between);
                }
            }
            3 => {
                let mut between: Vec<Complex<T>> = if several { each_complex(from).collect() } else { Vec::new() };
                self.outer_axes(plans, &mut between, self.read);
                let plan = plans.real.plan_fft_inverse(last);
                let (mut scratch, mut spectrum) = (plan.make_scratch_vec(), plan.make_input_vec());
                let (mut row, factor) = (plan.make_output_vec(), self.scale::<T>());
                let sources = from.chunks_exact(complex * self.read);
                for (number, (from, to)) in sources.zip(to.chunks_exact_mut(real * last)).enumerate() {
                    match between.get(number * self.read..(number + 1) * self.read) {
                        Some(there) => spectrum.copy_from_slice(there),
                        None => load_complexes(&mut spectrum, from),
                    }
                    if let Some(v) = spectrum.first_mut() {
                        v.im = T::zero();
                    }
                    if last % 2 == 0
                        && let Some(v) = spectrum.last_mut()
                    {
                        v.im = T::zero();
                    }
                    plan.process_with_scratch(&mut spectrum, &mut row, &mut scratch)
                        .map_err(|e| Failure::new(e.to_string()))?;
                    row.iter_mut().for_each(|v| *v = *v * factor);
                    put_reals(to, &row);
                }
            }
            kind => {
                let inverse = kind == 1;
                let plan = plans.complex.plan_fft(last, direction(inverse));
                let mut scratch = zeros(plan.get_inplace_scratch_len());
                let factor = self.scale::<T>();
                let scale = |values: &mut [Complex<T>]| {
                    if inverse {
                        values.iter_mut().for_each(|v| *v = *v * factor);
                    }
                };
                let bytes = complex * last;
                if several {
                    let mut between: Vec<Complex<T>> = each_complex(from).collect();
                    between.chunks_exact_mut(last).for_each(|row| plan.process_with_scratch(row, &mut scratch));
                    self.outer_axes(plans, &mut between, last);
                    scale(&mut between);
                    put_complexes(to, &between);
                } else {
                    let mut row = zeros(last);
                    for (from, to) in from.chunks_exact(bytes).zip(to.chunks_exact_mut(bytes)) {
                        load_complexes(&mut row, from);
                        plan.process_with_scratch(&mut row, &mut scratch);
                        scale(&mut row);
                        put_complexes(to, &row);
                    }
                }
            }
        }
        Ok(())
    }
}

fn fft(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
    let misfit = || Failure::new("fft was called with arrays that do not fit its lengths");
    let ([operand], [result]) = (call.operands(), call.results()) else { return Err(misfit()) };
    let transform = Transform::of(call.attributes(), &operand.dims, &result.dims).ok_or_else(misfit)?;
    let real = |ty| match ty {
        ElementType::C64 => Some((ElementType::F32, true)),
        ElementType::C128 => Some((ElementType::F64, true)),
        ElementType::F32 | ElementType::F64 => Some((ty, false)),
        _ => None,
    };
    let (from_complex, to_complex) = (transform.kind != 2, transform.kind != 3);
    let width = match (real(operand.ty), real(result.ty)) {
        (Some((a, from)), Some((b, to))) if a == b && from == from_complex && to == to_complex => a,
        _ => return Err(misfit()),
    };
    let empty = operand.elements() == 0 || transform.lengths.contains(&0);
    // Operand and result as numbers, and lines on their way.
    call.room(usize::MAX, 3)?;
    let from = call.operand_bytes(0)?;
    let mut results = call.results_mut()?;
    let to = results.first_mut().ok_or_else(misfit)?;
    if empty {
        to.fill(0);
        return Ok(());
    }
    if width == ElementType::F32 {
        f32::with_plans(|plans| transform.run::<f32>(plans, from, to))
    } else {
        f64::with_plans(|plans| transform.run::<f64>(plans, from, to))
    }
}

service! {
    /// Fast Fourier transforms.
    FFT, Fft, fft
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ArrayShape;
    use crate::abi::encode_call;

    type C = Complex<f64>;

    /// Calls the service as a program does; yields the bytes of the result.
    fn call(kind: i64, lengths: &[i64], from: (ElementType, &[i64], &[f64]), to: (ElementType, &[i64])) -> Vec<f64> {
        let parts = |ty: ElementType| if ty.is_complex() { 2 } else { 1 };
        let (a, b) = (ArrayShape::new(from.0, from.1), ArrayShape::new(to.0, to.1));
        let single = a.ty.byte_size() / parts(a.ty) == 4;
        let mut input: Vec<u8> = Vec::new();
        for &v in from.2 {
            if single { input.extend((v as f32).to_ne_bytes()) } else { input.extend(v.to_ne_bytes()) }
        }
        assert_eq!(input.len(), a.byte_size(), "the test's own input");
        let mut output = vec![7u8; b.byte_size()];
        let words = encode_call(&[&[kind], lengths].concat(), &[&a], &[&b]);
        let buffers = [input.as_mut_ptr().cast(), output.as_mut_ptr().cast()];
        // SAFETY: the words describe the two buffers.
        let status = unsafe { (FFT.function)(std::ptr::null(), words.as_ptr(), buffers.as_ptr(), std::ptr::null()) };
        assert_eq!(status, 0);
        let one = |b: &[u8]| if single { f64::from(f32::load(b)) } else { <f64 as Real>::load(b) };
        output.chunks_exact(if single { 4 } else { 8 }).map(one).collect()
    }

    fn numbers(count: usize) -> Vec<f64> {
        (0..count).map(|i| ((i * 37 + 11) % 101) as f64 / 10.0 - 5.0).collect()
    }

    fn pairs(flat: &[f64]) -> Vec<C> {
        flat.chunks_exact(2).map(|p| C::new(p[0], p[1])).collect()
    }

    /// The definition, along the last axis.
    fn slow(row: &[C], inverse: bool) -> Vec<C> {
        let n = row.len();
        let sign = if inverse { 1.0 } else { -1.0 };
        let root = |k: usize| C::from_polar(1.0, sign * std::f64::consts::TAU * (k % n) as f64 / n as f64);
        let factor = if inverse { 1.0 / n as f64 } else { 1.0 };
        (0..n).map(|k| row.iter().enumerate().map(|(j, v)| v * root(j * k)).sum::<C>() * factor).collect()
    }

    fn close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        let scale = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() <= tolerance * scale, "{f} against {e}");
        }
    }

    fn flat(values: &[C]) -> Vec<f64> {
        values.iter().flat_map(|v| [v.re, v.im]).collect()
    }

    #[test]
    fn every_kind_and_length_follows_the_definition() {
        for (complex, real, tolerance) in
            [(ElementType::C128, ElementType::F64, 1e-13), (ElementType::C64, ElementType::F32, 1e-5)]
        {
            for n in [1usize, 2, 3, 4, 5, 7, 8, 12, 15, 31, 64, 97, 100] {
                let (length, half) = (n as i64, n as i64 / 2 + 1);
                let rows = numbers(2 * 2 * n);
                for (kind, inverse) in [(0, false), (1, true)] {
                    let found = call(kind, &[length], (complex, &[2, length], &rows), (complex, &[2, length]));
                    let expected: Vec<C> = pairs(&rows).chunks(n).flat_map(|row| slow(row, inverse)).collect();
                    close(&found, &flat(&expected), tolerance);
                }
                let signal = numbers(n);
                let full = slow(&signal.iter().map(|&v| C::new(v, 0.0)).collect::<Vec<_>>(), false);
                let found = call(2, &[length], (real, &[length], &signal), (complex, &[half]));
                close(&found, &flat(&full[..half as usize]), tolerance);
                // What the imaginary parts of the first entry and of the middle one hold does not count.
                let mut spoiled = found.clone();
                spoiled[1] = 3.0;
                if n % 2 == 0 {
                    spoiled[n + 1] = -2.0;
                }
                let back = call(3, &[length], (complex, &[half], &spoiled), (real, &[length]));
                close(&back, &signal, tolerance);
            }
        }
    }

    #[test]
    fn several_axes_are_transformed_one_after_another() {
        let (dims, n) = ([2i64, 3, 20, 5], 600);
        let (complex, real) = (ElementType::C128, ElementType::F64);
        let data = numbers(2 * n);
        let there = call(0, &[3, 20, 5], (complex, &dims, &data), (complex, &dims));
        let back = call(1, &[3, 20, 5], (complex, &dims, &there), (complex, &dims));
        close(&back, &data, 1e-12);
        // The sum of everything is the first entry.
        let sum: C = pairs(&data)[..300].iter().sum();
        close(&there[..2], &[sum.re, sum.im], 1e-12);
        let signal = numbers(n);
        let there = call(2, &[3, 20, 5], (real, &dims, &signal), (complex, &[2, 3, 20, 3]));
        close(&call(3, &[3, 20, 5], (complex, &[2, 3, 20, 3], &there), (real, &dims)), &signal, 1e-12);
    }

    #[test]
    fn empty_transforms_are_zeros() {
        assert!(call(0, &[0], (ElementType::C64, &[3, 0], &[]), (ElementType::C64, &[3, 0])).is_empty());
        let zeros = call(3, &[0], (ElementType::C64, &[0], &[]), (ElementType::F32, &[0]));
        assert!(zeros.is_empty());
        assert!(call(1, &[4], (ElementType::C64, &[0, 4], &[]), (ElementType::C64, &[0, 4])).is_empty());
    }
}
