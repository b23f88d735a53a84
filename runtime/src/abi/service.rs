//! Library services: functions of the runtime that a compiled program calls where loops will not do.
//!
//! All have one type, [`ServiceFn`], and one form of arguments, so that the compiler needs one way to call and a
//! service one way to read ([`crate::services::Call`]): a constant list of words that holds the operation's attributes
//! and the shapes of its arrays, and a table of buffers, operands first. Arrays are dense and row-major.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | number of words that follow |
//! | 1 | number of attributes `a`; the attributes follow |
//! | 2 + a, 3 + a | number of operands and of results |
//! | then | for each array, operands first: code of the element type, rank, dimensions |

use super::{Context, Services};
use crate::ArrayShape;
use std::ffi::c_void;

/// A library service. `parameters` is the list of words above; `buffers` holds a pointer for each array, operands first;
/// `function` is the function to call for a custom call and null for all other services. Returns a
/// [`Status`](super::Status) or, from custom calls, any other number that is not 0.
pub type ServiceFn = unsafe extern "C" fn(
    cx: *const Context,
    parameters: *const i64,
    buffers: *const *mut c_void,
    function: *const c_void,
) -> i32;

/// Takes the message of a failing service, UTF-8, before it returns its status.
pub type ReportFn = unsafe extern "C" fn(host: *mut c_void, message: *const u8, length: usize);

macro_rules! services {
    ($($variant:ident $name:ident $text:literal;)*) => {
        /// The library services, in the order of their slots in [`Context::library`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Service { $(#[doc = $text] $variant,)* }

        impl Service {
            /// Every service.
            pub const ALL: &'static [Service] = &[$(Service::$variant,)*];

            /// The name, as in C.
            pub const fn name(self) -> &'static str { match self { $(Service::$variant => stringify!($name),)* } }

            /// What it does.
            pub const fn description(self) -> &'static str { match self { $(Service::$variant => $text,)* } }
        }
    };
}

services! {
    Fft fft "fast Fourier transforms";
    Cholesky cholesky "Cholesky factors of symmetric and Hermitian matrices";
    TriangularSolve triangular_solve "solutions of triangular systems";
    Lu lu "LU factors with partial pivoting";
    Qr qr "QR factors as Householder reflectors";
    HouseholderProduct householder_product "the orthogonal matrix of Householder reflectors";
    Svd svd "singular values and vectors";
    Eigh eigh "eigenvalues and eigenvectors of symmetric and Hermitian matrices";
    Eig eig "eigenvalues and eigenvectors of general matrices";
    CustomCall custom_call "custom calls with a status or a call frame";
    Infeed infeed "the next value of the infeed queue";
    Outfeed outfeed "a value for the outfeed queue";
    Collective collective "exchanges with the other devices, and their numbers";
    Transfer transfer "values sent to another device and received from one";
}

impl Service {
    /// Number of services.
    pub const COUNT: usize = Service::ALL.len();

    /// Its place in [`Context::library`].
    pub const fn slot(self) -> usize {
        self as usize
    }

    /// The set of this service alone.
    pub const fn set(self) -> Services {
        Services(1 << (Services::FIRST_LIBRARY_BIT + self as u32))
    }
}

/// A service and the function that does it.
#[derive(Clone, Copy, Debug)]
pub struct Implementation {
    /// The service.
    pub service: Service,
    /// Its function.
    pub function: ServiceFn,
}

/// The words of a call: see the module's table.
pub fn encode_call(attributes: &[i64], operands: &[&ArrayShape], results: &[&ArrayShape]) -> Vec<i64> {
    let mut words = vec![0, attributes.len() as i64];
    words.extend(attributes);
    words.extend([operands.len() as i64, results.len() as i64]);
    for shape in operands.iter().chain(results) {
        words.extend([i64::from(shape.ty.code()), shape.rank() as i64]);
        words.extend(&shape.dims);
    }
    words[0] = words.len() as i64 - 1;
    words
}
