//! What every shape rule is written with: the error, the operands under their names, type compatibility.

use super::InferContext;
use crate::error::{Error, Site};
use crate::hlo::{AttrKey, Attrs, Opcode};
use brolga_runtime::{ArrayShape, ElementType, Shape};

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The rule's id, such as `dot.contracting-sizes`.
    pub constraint: &'static str,
    /// What was expected and what was found.
    pub message: String,
}

impl RuleError {
    /// An error against the rule `constraint`.
    pub fn new(constraint: &'static str, message: impl Into<String>) -> RuleError {
        RuleError { constraint, message: message.into() }
    }

    /// The error of a program that breaks the rule at `site`. A size past the address space breaks none: such a program is
    /// valid, and nothing can run it.
    pub(crate) fn into_error(self, site: Site) -> Error {
        let RuleError { constraint, message } = self;
        match constraint {
            "shape.size" | "concatenate.overflow" | "pad.overflow" | "window.overflow" => {
                Error::Unsupported { site, feature: message }
            }
            _ => Error::Invalid { site, constraint, message },
        }
    }

    /// The same about one operation, which the message names.
    pub(crate) fn of(mut self, opcode: Opcode) -> RuleError {
        if !names(&self.message, opcode.name()) {
            self.message = format!("{opcode}: {}", self.message);
        }
        self
    }
}

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}]", self.message, self.constraint)
    }
}

impl std::error::Error for RuleError {}

/// True where a message speaks of the operation `name`. Some names are common words (`and`, `not`, `copy`), so that the word alone
/// says nothing: it begins the message or stands where a name can stand.
fn names(message: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    message.strip_prefix(name).is_some_and(ends)
        || [" of ", " in ", " for "].iter().any(|before| {
            let mut places = message.match_indices(before).map(|(at, _)| &message[at + before.len()..]);
            places.any(|rest| rest.strip_prefix(name).is_some_and(ends))
        })
}

pub(crate) type Rule<T> = Result<T, RuleError>;

/// Returns from the rule with an error where a condition does not hold.
macro_rules! ensure {
    ($condition:expr, $id:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::shape::RuleError::new($id, format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// Returns from the rule with an error.
macro_rules! fail {
    ($id:expr, $($message:tt)+) => {
        return Err($crate::shape::RuleError::new($id, format!($($message)+)))
    };
}
pub(crate) use fail;

/// Parameter and result shapes of a called computation.
#[derive(Clone, Debug)]
pub struct Signature<'a> {
    /// Parameters by number.
    pub parameters: Vec<&'a Shape>,
    /// The root's shape.
    pub result: &'a Shape,
}

/// One application of an operation, as the rules see it.
pub(crate) struct Call<'a> {
    pub cx: &'a InferContext<'a>,
    pub opcode: Opcode,
    pub operands: &'a [&'a Shape],
    pub attrs: &'a Attrs,
    pub declared: Option<&'a Shape>,
}

impl<'a> Call<'a> {
    /// The shape of operand `i`.
    pub fn shape(&self, i: usize) -> Rule<&'a Shape> {
        match self.operands.get(i) {
            Some(shape) => Ok(shape),
            None => fail!("arity", "expected an operand {i} of {}, found {}", self.opcode, self.operands.len()),
        }
    }

    /// Operand `i`, which must be an array.
    pub fn array(&self, i: usize) -> Rule<&'a ArrayShape> {
        match self.shape(i)? {
            Shape::Array(a) | Shape::Buffer(a) => Ok(a),
            other => fail!("operand.array", "expected an array as operand {i} of {}, found {other:#}", self.opcode),
        }
    }

    /// All operands, which must be arrays.
    pub fn arrays(&self) -> Rule<Vec<&'a ArrayShape>> {
        (0..self.operands.len()).map(|i| self.array(i)).collect()
    }

    /// Operand `i`, which must be a rank-0 array.
    pub fn scalar(&self, i: usize) -> Rule<&'a ArrayShape> {
        let a = self.array(i)?;
        ensure!(
            a.rank() == 0,
            "operand.scalar",
            "expected a scalar as operand {i} of {}, found {:#}",
            self.opcode,
            Show(a)
        );
        Ok(a)
    }

    /// Operand `i`, which must be a token.
    pub fn token(&self, i: usize) -> Rule<()> {
        let shape = self.shape(i)?;
        ensure!(
            *shape == Shape::Token,
            "operand.token",
            "expected a token as operand {i} of {}, found {shape:#}",
            self.opcode
        );
        Ok(())
    }

    /// The shape that the program states for the result, for operations whose operands do not determine it.
    pub fn declared(&self) -> Rule<&'a Shape> {
        match self.declared {
            Some(shape) => Ok(shape),
            None => fail!("result.declared", "the shape of {} must be stated", self.opcode),
        }
    }

    /// As [`Call::declared`], where it must be an array.
    pub fn declared_array(&self) -> Rule<&'a ArrayShape> {
        match self.declared()? {
            Shape::Array(a) => Ok(a),
            other => fail!("result.array", "expected an array as result of {}, found {other:#}", self.opcode),
        }
    }

    /// The element type stated for an array result, where one is.
    pub fn declared_type(&self) -> Option<ElementType> {
        self.declared.and_then(Shape::as_array).map(|a| a.ty)
    }

    /// Results of an operation on one array or several: as a tuple where there are several or where the program states a
    /// tuple, of one too; one alone where it states that or nothing.
    pub fn as_declared(&self, shapes: Vec<Shape>) -> Shape {
        match self.declared {
            Some(Shape::Tuple(_)) => Shape::tuple(shapes),
            _ => one_or_tuple(shapes),
        }
    }

    /// As [`Call::as_declared`]; where the program states nothing, a computation that yields a tuple makes it one.
    pub fn as_called(&self, key: AttrKey, shapes: Vec<Shape>) -> Rule<Shape> {
        let tuple = self.declared.is_none() && matches!(self.callee(key)?.result, Shape::Tuple(_));
        Ok(if tuple { Shape::tuple(shapes) } else { self.as_declared(shapes) })
    }

    /// A list of distinct dimension numbers below `rank`; absent means empty.
    pub fn dims(&self, key: AttrKey, rank: usize, id: &'static str) -> Rule<Vec<usize>> {
        distinct_dims(self.attrs.ints_or_empty(key), rank, key.name(), id)
    }

    /// The one dimension number that `key` lists, below `rank`.
    pub fn one_dim(&self, key: AttrKey, rank: usize, id: &'static str) -> Rule<usize> {
        match *self.dims(key, rank, id)? {
            [d] => Ok(d),
            ref other => fail!(id, "expected one dimension in {}, found {}", key.name(), other.len()),
        }
    }

    /// A dimension number below `rank` in an integer attribute.
    pub fn dim(&self, key: AttrKey, rank: usize, id: &'static str) -> Rule<usize> {
        let found = self.attrs.int(key).unwrap_or(0);
        match usize::try_from(found) {
            Ok(d) if d < rank => Ok(d),
            _ if rank == 0 => fail!(id, "expected an operand with dimensions for {}, found a scalar", key.name()),
            _ => fail!(id, "expected {} from 0 to {}, found {found}", key.name(), rank - 1),
        }
    }

    /// True where two element types may meet in this operation.
    pub fn mixes(&self, a: ElementType, b: ElementType) -> bool {
        mixes(self.cx, a, b)
    }

    /// Parameters and result of the computation that `key` names.
    pub fn callee(&self, key: AttrKey) -> Rule<Signature<'a>> {
        match self.attrs.computation(key) {
            Some(id) => self.cx.signature(id),
            None => fail!("attribute.required", "{} must say {}=", self.opcode, key.name()),
        }
    }
}

/// Distinct dimension numbers below `rank`, or an error against `id`.
pub(crate) fn distinct_dims(list: &[i64], rank: usize, name: &str, id: &'static str) -> Rule<Vec<usize>> {
    let mut out = Vec::with_capacity(list.len().min(rank));
    let mut seen = vec![false; rank];
    for &d in list {
        let slot = usize::try_from(d).ok().and_then(|d| Some((d, seen.get_mut(d)?)));
        let Some((d, seen)) = slot else {
            match rank.checked_sub(1) {
                Some(last) => fail!(id, "expected dimension numbers from 0 to {last} in {name}, found {d}"),
                None => fail!(id, "expected no dimension numbers of a scalar in {name}, found {d}"),
            }
        };
        ensure!(!*seen, id, "expected distinct dimension numbers in {name}, found {d} twice");
        *seen = true;
        out.push(d);
    }
    Ok(out)
}

/// An array shape without its layout.
pub(crate) struct Show<'a>(pub &'a ArrayShape);

impl std::fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// True where two element types may meet in one operation. As in XLA, real floating point types of different
/// precision may: passes that lower precision leave such mixtures behind.
fn mixes(cx: &InferContext<'_>, a: ElementType, b: ElementType) -> bool {
    let one_scalar = (a == ElementType::F64) == (b == ElementType::F64);
    a == b || (a.is_float() && b.is_float() && (one_scalar || !cx.same_scalar))
}

/// The more precise of two types that may meet.
pub(crate) fn promote(a: ElementType, b: ElementType) -> ElementType {
    if b.bits() > a.bits() { b } else { a }
}

/// The most precise type of `arrays`, all of which must mix.
pub(crate) fn common_type(call: &Call<'_>, arrays: &[&ArrayShape]) -> Rule<ElementType> {
    let op = call.opcode;
    let mut types = arrays.iter().map(|a| a.ty);
    let Some(first) = types.next() else {
        fail!("arity", "expected an operand of {op}, found none");
    };
    types.try_fold(first, |ty, next| {
        ensure!(
            call.mixes(ty, next),
            "operand.same-type",
            "expected operands of {op} of one element type, found {ty} and {next}"
        );
        Ok(promote(ty, next))
    })
}

/// Equal but for layouts and for whether a dimension is dynamic; with `mixed`, also but for float precision as far as
/// the context lets precisions mix.
pub(crate) fn compatible(a: &Shape, b: &Shape, mixed: Option<&InferContext<'_>>) -> bool {
    match (a, b) {
        (Shape::Array(a), Shape::Array(b)) | (Shape::Buffer(a), Shape::Buffer(b)) => {
            a.same_dims(b) && (a.ty == b.ty || mixed.is_some_and(|cx| mixes(cx, a.ty, b.ty)))
        }
        (Shape::Tuple(a), Shape::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| compatible(x, y, mixed))
        }
        (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
        _ => false,
    }
}

/// One shape as it is, several as a tuple.
pub(crate) fn one_or_tuple(mut shapes: Vec<Shape>) -> Shape {
    if shapes.len() == 1 { shapes.swap_remove(0) } else { Shape::tuple(shapes) }
}

/// The leaves of a result: the elements of a tuple, or the one shape itself.
pub(crate) fn parts(shape: &Shape) -> &[Shape] {
    match shape {
        Shape::Tuple(elements) => elements,
        one => std::slice::from_ref(one),
    }
}

/// A fresh array shape with the given dynamic flags.
pub(crate) fn array(ty: ElementType, dims: Vec<i64>, dynamic: Vec<bool>) -> ArrayShape {
    ArrayShape { ty, dims, dynamic, layout: None }
}
