//! Symbols of the running process.

use std::ffi::c_void;

/// The address of a function that this process, or a shared library in it, exports.
#[cfg(unix)]
pub fn process_symbol(name: &str) -> Option<*const c_void> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the name is a C string, and RTLD_DEFAULT is always a valid handle.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// The address of a function that this process exports: unknown on this system.
#[cfg(not(unix))]
pub fn process_symbol(_name: &str) -> Option<*const c_void> {
    None
}
