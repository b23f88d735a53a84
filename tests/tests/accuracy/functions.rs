//! The functions of the specification on real floats, and what they should be, in `f64`.

/// Name of the instruction and the function.
pub type Unary = (&'static str, fn(f64) -> f64);

/// Name of the instruction and the function.
pub type Binary = (&'static str, fn(f64, f64) -> f64);

fn logistic(x: f64) -> f64 {
    if x < 0.0 { libm::exp(x) / (1.0 + libm::exp(x)) } else { 1.0 / (1.0 + libm::exp(-x)) }
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { 1f64.copysign(x) }
}

pub const UNARY: &[Unary] = &[
    ("abs", f64::abs),
    ("acos", libm::acos),
    ("acosh", |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }),
    ("asin", libm::asin),
    ("asinh", libm::asinh),
    ("atanh", libm::atanh),
    ("cbrt", libm::cbrt),
    ("ceil", f64::ceil),
    ("cosine", libm::cos),
    ("cosh", libm::cosh),
    ("erf", libm::erf),
    ("exponential", libm::exp),
    ("exponential-minus-one", libm::expm1),
    ("floor", f64::floor),
    ("log", libm::log),
    ("log-plus-one", libm::log1p),
    ("logistic", logistic),
    ("negate", |x| -x),
    ("round-nearest-afz", f64::round),
    ("round-nearest-even", f64::round_ties_even),
    ("rsqrt", |x| 1.0 / x.sqrt()),
    ("sign", sign),
    ("sine", libm::sin),
    ("sinh", libm::sinh),
    ("sqrt", f64::sqrt),
    ("tan", libm::tan),
    ("tanh", libm::tanh),
];

pub const BINARY: &[Binary] = &[("atan2", libm::atan2), ("power", f64::powf), ("remainder", |x, y| x % y)];
