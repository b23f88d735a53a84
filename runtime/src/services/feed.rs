//! Infeed and outfeed: the queues of [`crate::feed`] behind the interface of services.
//!
//! The attributes are the line of the operation in the HLO text, 1 where the value is a tuple, and for each array of the
//! value its dimensions from the fastest-varying to the slowest in the layout that the program names. The arrays
//! themselves are row-major, as those of all services.

use super::{Call, Failure, service};
use crate::abi::Context;
use crate::feed::{FeedError, Feeds};
use crate::{ArrayLiteral, ArrayShape, Layout, Literal, Shape};

service! {
    /// The next value of the infeed queue.
    INFEED, Infeed, infeed
}

service! {
    /// A value for the outfeed queue.
    OUTFEED, Outfeed, outfeed
}

fn infeed(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
    let shape = value_shape(call, call.results())?;
    let value = feeds(call).read(&shape).map_err(|e| failure(call, "infeed", &e))?;
    for (to, from) in call.results_mut()?.into_iter().zip(value.arrays()) {
        // `read` has checked the shape; a literal of it has as many bytes as the buffer.
        let wrong = || Failure::new("an infeed's value does not fit its buffer");
        to.get_mut(..from.bytes().len()).ok_or_else(wrong)?.copy_from_slice(from.bytes());
    }
    Ok(())
}

fn outfeed(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
    let shape = value_shape(call, call.operands())?;
    let mut arrays = Vec::with_capacity(call.operands().len());
    for (i, array) in call.operands().iter().enumerate() {
        let literal = ArrayLiteral::from_bytes(array, call.operand_bytes(i)?);
        arrays.push(Literal::Array(literal.ok_or_else(|| Failure::new("an outfeed's value does not fit its shape"))?));
    }
    let value = match shape {
        Shape::Tuple(_) => Literal::Tuple(arrays),
        _ => arrays.pop().ok_or_else(|| Failure::new("an outfeed without a value"))?,
    };
    feeds(call).write(&shape, value).map_err(|e| failure(call, "outfeed", &e))
}

fn feeds<'a>(call: &Call<'a>) -> &'a Feeds {
    static NONE: Feeds = Feeds { infeed: None, outfeed: None, timeout: None };
    call.resources().map_or(&NONE, |r| &r.feeds)
}

fn failure(call: &Call<'_>, what: &str, error: &FeedError) -> Failure {
    let message = match call.attribute(0) {
        line if line > 0 => format!("{what} at line {line}: {error}"),
        _ => format!("{what}: {error}"),
    };
    Failure { code: error.status().code(), message }
}

/// The shape of the value, with its layouts.
fn value_shape(call: &Call<'_>, arrays: &[ArrayShape]) -> Result<Shape, Failure> {
    let mut words = call.attributes().iter().skip(2);
    let mut parts = Vec::with_capacity(arrays.len());
    for array in arrays {
        let order = words.by_ref().take(array.rank()).map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>();
        let order = order.filter(|o| o.len() == array.rank());
        let minor_to_major = order.ok_or_else(|| Failure::new("a feed was called without layouts"))?;
        let layout = Some(Layout { minor_to_major, ..Layout::default() });
        parts.push(Shape::Array(ArrayShape { layout, ..array.clone() }));
    }
    match (call.attribute(1), parts.len()) {
        (0, 1) => parts.pop().ok_or_else(|| Failure::new("a feed without a value")),
        (0, _) => Err(Failure::new("a feed of several arrays that is no tuple")),
        _ => Ok(Shape::tuple(parts)),
    }
}
