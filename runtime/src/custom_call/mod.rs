//! Custom calls: functions of the user that a program calls.
//!
//! Problem: a function may be C code with one of XLA's four conventions, or a Rust closure; it may be found by a linker,
//! in a registry or among the symbols of the process; and the interpreter must reach the same ones. Invariant: whoever
//! calls, what the function is told is one [`Description`], and what it does wrong (an error, a panic of a closure) is
//! the failure of this one run, with its message. Algorithm: compiled code with the plain convention calls the function
//! itself, unless a registry is at hand; all else goes through the service [`CUSTOM_CALL`], which decodes the
//! description from the words of the call and dispatches on the convention: [`call`] builds pointer tables, [`ffi`]
//! the typed call frame, [`registry`] the views that a closure gets.
//!
//! A program that was loaded with a registry in which one of its symbols is a closure has, in place of each address, a
//! *handle*: the address of a [`registry::Handler`] that lives as long as the program, and the service that reads
//! handles. Nothing is global.
//!
//! A linked `extern "C"` function that panics aborts the process, as everywhere in Rust: unwinding does not cross it.

mod call;
mod description;
mod ffi;
mod registry;
mod status;
mod views;

pub use description::{Alias, Attribute, Description};
#[cfg(feature = "loader")]
pub(crate) use registry::Handler;
pub use registry::{CustomCallResult, CustomCalls};
pub use status::{XlaCustomCallStatus, XlaCustomCallStatusSetFailure, XlaCustomCallStatusSetSuccess};
pub use views::{ArrayView, ArrayViewMut, CustomCall};

use crate::abi::{Context, Status};
use crate::services::{Call, Failure, service};

service! {
    /// Custom calls: the function is given by its address.
    CUSTOM_CALL, CustomCall, by_address
}

service! {
    /// Custom calls of a program that was loaded with a registry: the function is given by a handle.
    BY_HANDLE, CustomCall, by_handle
}

fn by_address(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
    let description = description(call)?;
    // SAFETY: the compiled program took the address from a symbol that the linker or the loader resolved to a function
    // of the convention that the description names; its buffers fit the shapes, which `description` has compared.
    unsafe { call::function(&description, call.function(), call.buffers()) }
}

fn by_handle(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
    let description = description(call)?;
    // SAFETY: this service stands only in programs for which the loader has put handlers in place of all addresses; the
    // program keeps them alive. Buffers are as above.
    unsafe { call::handler(&description, call.function().cast(), call.buffers()) }
}

/// The description of a call, whose arrays must be those of the call.
fn description(call: &Call<'_>) -> Result<Description, Failure> {
    let bad =
        || Failure { code: Status::InvalidArgument.code(), message: "a custom call has no description".to_owned() };
    let description = Description::decode(call.attributes()).ok_or_else(bad)?;
    let same = |stated: Vec<&crate::ArrayShape>, found: &[crate::ArrayShape]| {
        stated.len() == found.len()
            && stated.iter().zip(found).all(|(s, f)| s.ty == f.ty && s.checked_elements() == f.checked_elements())
    };
    if same(description.operand_arrays(), call.operands()) && same(description.result_arrays(), call.results()) {
        Ok(description)
    } else {
        Err(bad())
    }
}
