//! The arguments that are neither values nor numbers.

use crate::hlo::WindowDimension;
use crate::shape::RuleError;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $word:literal,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// The word in HLO text.
            pub const fn word(self) -> &'static str { match self { $($name::$variant => $word,)* } }
        })*
    };
}

words! {
    /// Which comparison.
    ComparisonDirection {
        /// Equal.
        Eq "EQ",
        /// Not equal.
        Ne "NE",
        /// Greater or equal.
        Ge "GE",
        /// Greater.
        Gt "GT",
        /// Less or equal.
        Le "LE",
        /// Less.
        Lt "LT",
    }
    /// Which Fourier transform.
    FftKind {
        /// Forward, complex to complex.
        Fft "FFT",
        /// Inverse, complex to complex.
        Ifft "IFFT",
        /// Forward, real to the non-redundant half of complex.
        Rfft "RFFT",
        /// Inverse of `Rfft`.
        Irfft "IRFFT",
    }
    /// What a triangular solve does to its matrix first.
    TransposeKind {
        /// Nothing.
        NoTranspose "NO_TRANSPOSE",
        /// Transpose.
        Transpose "TRANSPOSE",
        /// Conjugate transpose.
        Adjoint "ADJOINT",
    }
    /// Which generator of random bits.
    RandomAlgorithm {
        /// Whatever the target prefers.
        Default "rng_default",
        /// ThreeFry, two by 32 bits.
        ThreeFry "rng_three_fry",
        /// Philox, four by 32 bits.
        Philox "rng_philox",
    }
}

/// Padding of windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// None: windows stay inside.
    Valid,
    /// As much as makes the output `ceil(input / stride)` long.
    Same,
    /// Low and high amounts for each dimension.
    Explicit(Vec<(i64, i64)>),
}

/// Which dimensions of a dot-general are summed over and which run along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDimensions {
    /// Summed dimensions of the left.
    pub lhs_contracting: Vec<i64>,
    /// Summed dimensions of the right, in the same order.
    pub rhs_contracting: Vec<i64>,
    /// Batch dimensions of the left.
    pub lhs_batch: Vec<i64>,
    /// Batch dimensions of the right, in the same order.
    pub rhs_batch: Vec<i64>,
}

/// The dimension numbers of a gather.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatherDimensions {
    /// Dimensions of the result that run inside a slice.
    pub offset_dims: Vec<i64>,
    /// Dimensions of the operand that slices drop.
    pub collapsed_slice_dims: Vec<i64>,
    /// Which operand dimension each element of an index vector starts.
    pub start_index_map: Vec<i64>,
    /// The dimension of the indices that holds index vectors; the rank, where indices are scalars.
    pub index_vector_dim: i64,
    /// Operand dimensions that run along with `start_indices_batching_dims`.
    pub operand_batching_dims: Vec<i64>,
    /// Dimensions of the indices that run along with `operand_batching_dims`.
    pub start_indices_batching_dims: Vec<i64>,
}

/// The dimension numbers of a scatter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScatterDimensions {
    /// Dimensions of the updates that run inside a window.
    pub update_window_dims: Vec<i64>,
    /// Dimensions of the operand that windows lack.
    pub inserted_window_dims: Vec<i64>,
    /// Which operand dimension each element of an index vector starts.
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// The dimension of the indices that holds index vectors; the rank, where indices are scalars.
    pub index_vector_dim: i64,
    /// Operand dimensions that run along with `scatter_indices_batching_dims`.
    pub input_batching_dims: Vec<i64>,
    /// Dimensions of the indices that run along with `input_batching_dims`.
    pub scatter_indices_batching_dims: Vec<i64>,
}

/// What a custom call may say besides its target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomCallOptions {
    /// Text handed to the target, `backend_config`.
    pub opaque: String,
    /// The call must stay although nobody uses its result.
    pub has_side_effect: bool,
    /// The calling convention, such as `API_VERSION_TYPED_FFI`; the original one where absent.
    pub api_version: Option<&'static str>,
}

/// One entry of a list that may be empty, which stands for ones.
fn entry(list: &[i64], d: usize) -> i64 {
    list.get(d).copied().unwrap_or(1)
}

/// The window over dimensions `base`. Strides and dilations may be empty, for ones.
pub(super) fn window(
    base: &[i64],
    sizes: &[i64],
    strides: &[i64],
    padding: &Padding,
    base_dilations: &[i64],
    window_dilations: &[i64],
) -> Result<Vec<WindowDimension>, RuleError> {
    let rank = base.len();
    let explicit = match padding {
        Padding::Explicit(list) => list.len(),
        _ => rank,
    };
    let lists = [strides.len(), base_dilations.len(), window_dilations.len()];
    if sizes.len() != rank || explicit != rank || lists.iter().any(|&n| n != 0 && n != rank) {
        let message = format!("expected window sizes, strides, padding and dilations of {rank} dimensions each");
        return Err(RuleError::new("window.rank", message));
    }
    let mut out = Vec::with_capacity(rank);
    for (d, &n) in base.iter().enumerate() {
        let mut w = WindowDimension {
            size: sizes[d],
            stride: entry(strides, d),
            base_dilation: entry(base_dilations, d),
            window_dilation: entry(window_dilations, d),
            ..WindowDimension::default()
        };
        match padding {
            Padding::Valid => {}
            Padding::Explicit(list) => (w.padding_low, w.padding_high) = list[d],
            Padding::Same => {
                let Some(total) = same_padding(n, &w) else {
                    return Err(RuleError::new("window.padding", format!("the padding of dimension {d} overflows")));
                };
                w.padding_low = total / 2;
                w.padding_high = total - total / 2;
            }
        }
        out.push(w);
    }
    Ok(out)
}

/// How much padding in all makes `ceil(n / stride)` places; a stride that no rule admits pads nothing.
fn same_padding(n: i64, w: &WindowDimension) -> Option<i64> {
    let span = |n: i64, dilation: i64| (n - 1).max(0).checked_mul(dilation)?.checked_add(i64::from(n > 0));
    if w.stride <= 0 {
        return Some(0);
    }
    let base = span(n, w.base_dilation)?;
    let places = base / w.stride + i64::from(base % w.stride != 0);
    let needed = (places - 1).max(0).checked_mul(w.stride)?.checked_add(span(w.size, w.window_dilation)?)?;
    Some(needed.saturating_sub(base).max(0))
}
