//! Faults of our own that are found while code is emitted.
//!
//! An emitter that misses a value, an argument or a register must not make one up. Emission is deep in closures of loops and
//! branches, so it notes the fault here and goes on with a stand-in; the code is thrown away: whoever began the function asks
//! [`Faults::check`] and gives the error to the user.

use crate::error::{Error, Result};
use std::cell::RefCell;

/// The first fault of a function, if there is one.
#[derive(Debug, Default)]
pub struct Faults(RefCell<Option<String>>);

impl Faults {
    /// Notes what is missing.
    pub fn report(&self, what: impl Into<String>) {
        self.0.borrow_mut().get_or_insert_with(|| what.into());
    }

    /// # Errors
    /// [`Error::Internal`] with the first fault that was noted.
    pub fn check(&self) -> Result<()> {
        match self.0.borrow().as_ref() {
            Some(what) => Err(Error::Internal(format!("code generation: {what}"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_is_the_error() {
        let faults = Faults::default();
        assert_eq!(faults.check(), Ok(()));
        faults.report("no value for node 3");
        faults.report("no register");
        assert_eq!(faults.check(), Err(Error::Internal("code generation: no value for node 3".into())));
    }
}
