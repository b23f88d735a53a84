//! Special functions, expanded into elementwise operations.
//!
//! The approximations are the usual ones: Giles's polynomials for the inverse error function, Cephes' rationals for `erfc` and
//! its Chebyshev series for the Bessel function, Lanczos's series (g = 7) for the logarithm of the gamma function and its
//! derivative, Euler and Maclaurin's summation for the zeta function.

// Coefficients stand with the digits they were published with.
#![allow(clippy::excessive_precision)]

use super::body::Body;
use crate::error::Result;
use crate::hlo::{InstructionId as Id, Opcode};
use brolga_runtime::ElementType;

const ERF_INV_F32: [&[f64]; 2] = [
    &[
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    ],
    &[
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    ],
];

const ERF_INV_F64: [&[f64]; 3] = [
    &[
        -3.6444120640178196996e-21,
        -1.685059138182016589e-19,
        1.2858480715256400167e-18,
        1.115787767802518096e-17,
        -1.333171662854620906e-16,
        2.0972767875968561637e-17,
        6.6376381343583238325e-15,
        -4.0545662729752068639e-14,
        -8.1519341976054721522e-14,
        2.6335093153082322977e-12,
        -1.2975133253453532498e-11,
        -5.4154120542946279317e-11,
        1.051212273321532285e-09,
        -4.1126339803469836976e-09,
        -2.9070369957882005086e-08,
        4.2347877827932403518e-07,
        -1.3654692000834678645e-06,
        -1.3882523362786468719e-05,
        0.0001867342080340571352,
        -0.00074070253416626697512,
        -0.0060336708714301490533,
        0.24015818242558961693,
        1.6536545626831027356,
    ],
    &[
        2.2137376921775787049e-09,
        9.0756561938885390979e-08,
        -2.7517406297064545428e-07,
        1.8239629214389227755e-08,
        1.5027403968909827627e-06,
        -4.013867526981545969e-06,
        2.9234449089955446044e-06,
        1.2475304481671778723e-05,
        -4.7318229009055733981e-05,
        6.8284851459573175448e-05,
        2.4031110387097893999e-05,
        -0.0003550375203628474796,
        0.00095328937973738049703,
        -0.0016882755560235047313,
        0.0024914420961078508066,
        -0.0037512085075692412107,
        0.005370914553590063617,
        1.0052589676941592334,
        3.0838856104922207635,
    ],
    &[
        -2.7109920616438573243e-11,
        -2.5556418169965252055e-10,
        1.5076572693500548083e-09,
        -3.7894654401267369937e-09,
        7.6157012080783393804e-09,
        -1.4960026627149240478e-08,
        2.9147953450901080826e-08,
        -6.7711997758452339498e-08,
        2.2900482228026654717e-07,
        -9.9298272942317002539e-07,
        4.5260625972231537039e-06,
        -1.9681778105531670567e-05,
        7.5995277030017761139e-05,
        -0.00021503011930044477347,
        -0.00013871931833623122026,
        1.0103004648645343977,
        4.8499064014085844221,
    ],
];

/// exp(x^2) erfc(x) from 1 to 8: numerator and denominator.
const ERFC_NEAR: [&[f64]; 2] = [
    &[
        2.46196981473530512524e-10,
        5.64189564831068821977e-1,
        7.46321056442269912687,
        4.86371970985681366614e1,
        1.96520832956077098242e2,
        5.26445194995477358631e2,
        9.34528527171957607540e2,
        1.02755188689515710272e3,
        5.57535335369399327526e2,
    ],
    &[
        1.0,
        1.32281951154744992508e1,
        8.67072140885989742329e1,
        3.54937778887819891062e2,
        9.75708501743205489753e2,
        1.82390916687909736289e3,
        2.24633760818710981792e3,
        1.65666309194161350182e3,
        5.57535340817727675546e2,
    ],
];

/// The same from 8.
const ERFC_FAR: [&[f64]; 2] = [
    &[
        5.64189583547755073984e-1,
        1.27536670759978104416,
        5.01905042251180477414,
        6.16021097993053585195,
        7.40974269950448939160,
        2.97886665372100240670,
    ],
    &[
        1.0,
        2.26052863220117276590,
        9.39603524938001434673,
        1.20489539808096656605e1,
        1.70814450747565897222e1,
        9.60896809063285878198,
        3.36907645100081516050,
    ],
];

/// Lanczos's coefficients for g = 7, the constant first.
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_932_27,
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
];

/// `(2j)!` over the Bernoulli number `2j`, from j = 1.
const ZETA: [f64; 12] = [
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1.8924375803183791606e9,
    7.47242496e10,
    -2.950130727918164224e12,
    1.1646782814350067249e14,
    -4.5979787224074726105e15,
    1.8152105401943546773e17,
    -7.1661652561756670113e18,
];

const BESSEL_I1E: [&[f64]; 2] = [
    &[
        2.77791411276104639959e-18,
        -2.11142121435816608115e-17,
        1.55363195773620046921e-16,
        -1.10559694773538630805e-15,
        7.60068429473540693410e-15,
        -5.04218550472791168711e-14,
        3.22379336594557470981e-13,
        -1.98397439776494371520e-12,
        1.17361862988909016308e-11,
        -6.66348972350202774223e-11,
        3.62559028155211703701e-10,
        -1.88724975172282928790e-9,
        9.38153738649577178388e-9,
        -4.44505912879632808065e-8,
        2.00329475355213526229e-7,
        -8.56872026469545474066e-7,
        3.47025130813767847674e-6,
        -1.32731636560394358279e-5,
        4.78156510755005422638e-5,
        -1.61760815825896745588e-4,
        5.12285956168575772895e-4,
        -1.51357245063125314899e-3,
        4.15642294431288815669e-3,
        -1.05640848946261981558e-2,
        2.47264490306265168283e-2,
        -5.29459812080949914269e-2,
        1.02643658689847095384e-1,
        -1.76416518357834055153e-1,
        2.52587186443633654823e-1,
    ],
    &[
        7.51729631084210481353e-18,
        4.41434832307170791151e-18,
        -4.65030536848935832153e-17,
        -3.20952592199342395980e-17,
        2.96262899764595013876e-16,
        3.30820231092092828324e-16,
        -1.88035477551078244854e-15,
        -3.81440307243700780478e-15,
        1.04202769841288027642e-14,
        4.27244001671195135429e-14,
        -2.10154184277266431302e-14,
        -4.08355111109219731823e-13,
        -7.19855177624590851209e-13,
        2.03562854414708950722e-12,
        1.41258074366137813316e-11,
        3.25260358301548823856e-11,
        -1.89749581235054123450e-11,
        -5.58974346219658380687e-10,
        -3.83538038596423702205e-9,
        -2.63146884688951950684e-8,
        -2.51223623787020892529e-7,
        -3.88256480887769039346e-6,
        -1.10588938762623716291e-4,
        -9.76109749136146840777e-3,
        7.78576235018280120474e-1,
    ],
];

impl Body<'_, '_> {
    fn add(&mut self, a: Id, b: Id) -> Result<Id> {
        self.op(Opcode::Add, &[a, b])
    }

    fn sub(&mut self, a: Id, b: Id) -> Result<Id> {
        self.op(Opcode::Subtract, &[a, b])
    }

    fn mul(&mut self, a: Id, b: Id) -> Result<Id> {
        self.op(Opcode::Multiply, &[a, b])
    }

    fn div(&mut self, a: Id, b: Id) -> Result<Id> {
        self.op(Opcode::Divide, &[a, b])
    }

    fn choose(&mut self, condition: Id, yes: Id, no: Id) -> Result<Id> {
        self.op(Opcode::Select, &[condition, yes, no])
    }

    fn plus(&mut self, a: Id, value: f64) -> Result<Id> {
        let value = self.number(a, value)?;
        self.add(a, value)
    }

    fn times(&mut self, a: Id, value: f64) -> Result<Id> {
        let value = self.number(a, value)?;
        self.mul(a, value)
    }

    fn is(&mut self, a: Id, direction: &'static str, value: f64) -> Result<Id> {
        let value = self.number(a, value)?;
        self.compare(a, direction, value)
    }

    /// A polynomial by Horner's rule, the highest coefficient first.
    fn polynomial(&mut self, x: Id, coefficients: &[f64]) -> Result<Id> {
        let mut sum = self.number(x, coefficients.first().copied().unwrap_or_default())?;
        for &c in coefficients.iter().skip(1) {
            let product = self.mul(sum, x)?;
            sum = self.plus(product, c)?;
        }
        Ok(sum)
    }

    pub(super) fn erf_inv(&mut self, x: Id) -> Result<Id> {
        let double = self.array(x)?.ty == ElementType::F64;
        let magnitude = self.op(Opcode::Abs, &[x])?;
        // The logarithm of 1 - x^2, of which either form loses the digits that the other keeps.
        let square = self.mul(x, x)?;
        let square = self.op(Opcode::Negate, &[square])?;
        let inner = self.op(Opcode::Log1p, &[square])?;
        let one = self.number(x, 1.0)?;
        let (below, above) = (self.sub(one, x)?, self.plus(x, 1.0)?);
        let product = self.mul(below, above)?;
        let outer = self.op(Opcode::Log, &[product])?;
        let near = self.is(magnitude, "LT", 0.5)?;
        let logarithm = self.choose(near, inner, outer)?;
        let w = self.op(Opcode::Negate, &[logarithm])?;
        let root = self.op(Opcode::Sqrt, &[w])?;
        let factor = if double {
            let near = self.plus(w, -3.125)?;
            let near = self.polynomial(near, ERF_INV_F64[0])?;
            let middle = self.plus(root, -3.25)?;
            let middle = self.polynomial(middle, ERF_INV_F64[1])?;
            let far = self.plus(root, -5.0)?;
            let far = self.polynomial(far, ERF_INV_F64[2])?;
            let below = self.is(w, "LT", 16.0)?;
            let outer = self.choose(below, middle, far)?;
            let below = self.is(w, "LT", 6.25)?;
            self.choose(below, near, outer)?
        } else {
            let near = self.plus(w, -2.5)?;
            let near = self.polynomial(near, ERF_INV_F32[0])?;
            let far = self.plus(root, -3.0)?;
            let far = self.polynomial(far, ERF_INV_F32[1])?;
            let below = self.is(w, "LT", 5.0)?;
            self.choose(below, near, far)?
        };
        let result = self.mul(factor, x)?;
        let at_end = self.is(magnitude, "EQ", 1.0)?;
        let infinite = self.times(x, f64::INFINITY)?;
        self.choose(at_end, infinite, result)
    }

    pub(super) fn erfc(&mut self, x: Id) -> Result<Id> {
        let near_zero = self.op(Opcode::Erf, &[x])?;
        let one = self.number(x, 1.0)?;
        let near_zero = self.sub(one, near_zero)?;
        let magnitude = self.op(Opcode::Abs, &[x])?;
        let square = self.mul(x, x)?;
        let square = self.op(Opcode::Negate, &[square])?;
        let exponential = self.op(Opcode::Exp, &[square])?;
        let mut parts = Vec::new();
        for [numerator, denominator] in [ERFC_NEAR, ERFC_FAR] {
            let numerator = self.polynomial(magnitude, numerator)?;
            let denominator = self.polynomial(magnitude, denominator)?;
            parts.push(self.div(numerator, denominator)?);
        }
        let below = self.is(magnitude, "LT", 8.0)?;
        let factor = self.choose(below, parts[0], parts[1])?;
        let tail = self.mul(exponential, factor)?;
        // Far out the exponential is zero and the quotient may be none.
        let vanished = self.is(exponential, "EQ", 0.0)?;
        let zero = self.number(x, 0.0)?;
        let tail = self.choose(vanished, zero, tail)?;
        let two = self.number(x, 2.0)?;
        let mirrored = self.sub(two, tail)?;
        let negative = self.is(x, "LT", 0.0)?;
        let tail = self.choose(negative, mirrored, tail)?;
        let small = self.is(magnitude, "LT", 1.0)?;
        let result = self.choose(small, near_zero, tail)?;
        let number = self.compare(x, "EQ", x)?;
        self.choose(number, result, x)
    }

    /// Where the series is evaluated: -x below one half, x - 1 elsewhere; whether x is below; z + 7.5; its logarithm.
    fn lanczos_point(&mut self, x: Id) -> Result<(Id, Id, Id, Id)> {
        let reflect = self.is(x, "LT", 0.5)?;
        let negative = self.op(Opcode::Negate, &[x])?;
        let less = self.plus(x, -1.0)?;
        let z = self.choose(reflect, negative, less)?;
        let t = self.plus(z, 7.5)?;
        let part = self.times(z, 1.0 / 7.5)?;
        let log = self.op(Opcode::Log1p, &[part])?;
        let log_t = self.plus(log, 7.5f64.ln())?;
        Ok((z, reflect, t, log_t))
    }

    pub(super) fn lgamma(&mut self, x: Id) -> Result<Id> {
        let (z, reflect, t, log_t) = self.lanczos_point(x)?;
        let mut sum = self.number(z, LANCZOS[0])?;
        for (k, &c) in LANCZOS.iter().enumerate().skip(1) {
            let numerator = self.number(z, c)?;
            let denominator = self.plus(z, k as f64)?;
            let term = self.div(numerator, denominator)?;
            sum = self.add(sum, term)?;
        }
        // (z + 1/2) log t - t, so that large terms do not cancel.
        let quotient = self.div(t, log_t)?;
        let half = self.plus(z, 0.5)?;
        let difference = self.sub(half, quotient)?;
        let product = self.mul(difference, log_t)?;
        let log_sum = self.op(Opcode::Log, &[sum])?;
        let plain = self.plus(product, (2.0 * std::f64::consts::PI).ln() / 2.0)?;
        let plain = self.add(plain, log_sum)?;
        // lgamma(x) = log(pi) - log|sin(pi x)| - lgamma(1 - x)
        let magnitude = self.op(Opcode::Abs, &[x])?;
        let floor = self.op(Opcode::Floor, &[magnitude])?;
        let fraction = self.sub(magnitude, floor)?;
        let upper = self.is(fraction, "GT", 0.5)?;
        let one = self.number(x, 1.0)?;
        let rest = self.sub(one, fraction)?;
        let fraction = self.choose(upper, rest, fraction)?;
        let angle = self.times(fraction, std::f64::consts::PI)?;
        let sine = self.op(Opcode::Sin, &[angle])?;
        let log_sine = self.op(Opcode::Log, &[sine])?;
        let log_pi = self.number(x, std::f64::consts::PI.ln())?;
        let reflected = self.sub(log_pi, log_sine)?;
        let reflected = self.sub(reflected, plain)?;
        let finite = self.op(Opcode::IsFinite, &[log_sine])?;
        let pole = self.op(Opcode::Negate, &[log_sine])?;
        let reflected = self.choose(finite, reflected, pole)?;
        let result = self.choose(reflect, reflected, plain)?;
        let infinite = self.is(magnitude, "EQ", f64::INFINITY)?;
        let infinity = self.number(x, f64::INFINITY)?;
        self.choose(infinite, infinity, result)
    }

    pub(super) fn digamma(&mut self, x: Id) -> Result<Id> {
        let (z, reflect, t, log_t) = self.lanczos_point(x)?;
        let mut numerator = self.number(z, 0.0)?;
        let mut denominator = self.number(z, LANCZOS[0])?;
        for (k, &c) in LANCZOS.iter().enumerate().skip(1) {
            let shifted = self.plus(z, k as f64)?;
            let c = self.number(z, c)?;
            let term = self.div(c, shifted)?;
            denominator = self.add(denominator, term)?;
            let term = self.div(term, shifted)?;
            numerator = self.sub(numerator, term)?;
        }
        let seven = self.number(t, 7.0)?;
        let seven = self.div(seven, t)?;
        let quotient = self.div(numerator, denominator)?;
        let plain = self.add(log_t, quotient)?;
        let plain = self.sub(plain, seven)?;
        // The cotangent has period one in x: the fraction is enough.
        let shifted = self.plus(x, 0.5)?;
        let nearest = self.op(Opcode::Floor, &[shifted])?;
        let nearest = self.op(Opcode::Abs, &[nearest])?;
        let fraction = self.add(x, nearest)?;
        let angle = self.times(fraction, std::f64::consts::PI)?;
        let (cosine, sine) = (self.op(Opcode::Cos, &[angle])?, self.op(Opcode::Sin, &[angle])?);
        let cotangent = self.div(cosine, sine)?;
        let cotangent = self.times(cotangent, std::f64::consts::PI)?;
        let reflected = self.sub(plain, cotangent)?;
        let result = self.choose(reflect, reflected, plain)?;
        // Poles at zero and the negative integers.
        let floor = self.op(Opcode::Floor, &[x])?;
        let whole = self.compare(x, "EQ", floor)?;
        let not_positive = self.is(x, "LE", 0.0)?;
        let pole = self.op(Opcode::And, &[whole, not_positive])?;
        let nan = self.number(x, f64::NAN)?;
        self.choose(pole, nan, result)
    }

    pub(super) fn zeta(&mut self, x: Id, q: Id) -> Result<Id> {
        let exponent = self.op(Opcode::Negate, &[x])?;
        let mut a = q;
        let mut power = self.op(Opcode::Power, &[a, exponent])?;
        let mut sum = power;
        for _ in 0..9 {
            a = self.plus(a, 1.0)?;
            power = self.op(Opcode::Power, &[a, exponent])?;
            sum = self.add(sum, power)?;
        }
        let less = self.plus(x, -1.0)?;
        let product = self.mul(power, a)?;
        let tail = self.div(product, less)?;
        sum = self.add(sum, tail)?;
        let half = self.times(power, 0.5)?;
        sum = self.sub(sum, half)?;
        let mut factor = self.div(x, a)?;
        let square = self.mul(a, a)?;
        for (j, &c) in ZETA.iter().enumerate() {
            let term = self.mul(power, factor)?;
            let term = self.times(term, 1.0 / c)?;
            sum = self.add(sum, term)?;
            let next = 2.0 * j as f64 + 1.0;
            let (one, two) = (self.plus(x, next)?, self.plus(x, next + 1.0)?);
            let product = self.mul(one, two)?;
            let product = self.mul(factor, product)?;
            factor = self.div(product, square)?;
        }
        // Where the terms are as small as can be, the sum is what its beginning is.
        let nan = self.number(x, f64::NAN)?;
        let infinity = self.number(x, f64::INFINITY)?;
        let floor = self.op(Opcode::Floor, &[x])?;
        let x_whole = self.compare(x, "EQ", floor)?;
        let floor = self.op(Opcode::Floor, &[q])?;
        let q_whole = self.compare(q, "EQ", floor)?;
        let q_low = self.is(q, "LE", 0.0)?;
        let halved = self.times(x, 0.5)?;
        let halved_floor = self.op(Opcode::Floor, &[halved])?;
        let even = self.compare(halved, "EQ", halved_floor)?;
        let at_pole = self.choose(even, infinity, nan)?;
        let between = self.choose(x_whole, sum, nan)?;
        let low = self.choose(q_whole, at_pole, between)?;
        let result = self.choose(q_low, low, sum)?;
        let small = self.is(x, "LT", 1.0)?;
        let result = self.choose(small, nan, result)?;
        let one = self.is(x, "EQ", 1.0)?;
        self.choose(one, infinity, result)
    }

    pub(super) fn polygamma(&mut self, n: Id, x: Id) -> Result<Id> {
        let next = self.plus(n, 1.0)?;
        // (-1)^(n+1)
        let halved = self.times(n, 0.5)?;
        let floor = self.op(Opcode::Floor, &[halved])?;
        let even = self.compare(halved, "EQ", floor)?;
        let (minus, plus) = (self.number(n, -1.0)?, self.number(n, 1.0)?);
        let sign = self.choose(even, minus, plus)?;
        let factorial = self.lgamma(next)?;
        let factorial = self.op(Opcode::Exp, &[factorial])?;
        let zeta = self.zeta(next, x)?;
        let general = self.mul(sign, factorial)?;
        let general = self.mul(general, zeta)?;
        let zero = self.is(n, "EQ", 0.0)?;
        let digamma = self.digamma(x)?;
        let result = self.choose(zero, digamma, general)?;
        let floor = self.op(Opcode::Floor, &[n])?;
        let whole = self.compare(n, "EQ", floor)?;
        let not_negative = self.is(n, "GE", 0.0)?;
        let defined = self.op(Opcode::And, &[whole, not_negative])?;
        let nan = self.number(n, f64::NAN)?;
        self.choose(defined, result, nan)
    }

    /// A series of Chebyshev polynomials by Clenshaw's rule, the last coefficient first.
    fn chebyshev(&mut self, x: Id, coefficients: &[f64]) -> Result<Id> {
        let zero = self.number(x, 0.0)?;
        let (mut b0, mut b1, mut b2) = (zero, zero, zero);
        for &c in coefficients {
            b2 = b1;
            b1 = b0;
            let product = self.mul(x, b1)?;
            let difference = self.sub(product, b2)?;
            b0 = self.plus(difference, c)?;
        }
        let difference = self.sub(b0, b2)?;
        self.times(difference, 0.5)
    }

    pub(super) fn bessel_i1e(&mut self, x: Id) -> Result<Id> {
        let magnitude = self.op(Opcode::Abs, &[x])?;
        let near = self.times(magnitude, 0.5)?;
        let near = self.plus(near, -2.0)?;
        let near = self.chebyshev(near, BESSEL_I1E[0])?;
        let near = self.mul(near, magnitude)?;
        let far = self.number(x, 32.0)?;
        let far = self.div(far, magnitude)?;
        let far = self.plus(far, -2.0)?;
        let far = self.chebyshev(far, BESSEL_I1E[1])?;
        let root = self.op(Opcode::Sqrt, &[magnitude])?;
        let far = self.div(far, root)?;
        let small = self.is(magnitude, "LE", 8.0)?;
        let result = self.choose(small, near, far)?;
        let sign = self.op(Opcode::Sign, &[x])?;
        self.mul(sign, result)
    }
}
