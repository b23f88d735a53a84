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

/// Loads a shared library whose functions then are symbols of this process. It stays loaded, and what it does at its
/// start is done with the rights of this process: load only what you trust.
///
/// # Errors
/// What the system says.
#[cfg(unix)]
pub fn open_library(path: &std::path::Path) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt;
    // A path without a slash would be searched for where the system keeps its libraries.
    let path = std::path::absolute(path).map_err(|e| e.to_string())?;
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: the name is a C string; the library's constructors are the caller's business.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(());
    }
    // SAFETY: asks for the reason of the failure above, a C string that lives until the next such call of this thread.
    let reason = unsafe { libc::dlerror() };
    if reason.is_null() {
        return Err("it cannot be loaded".to_owned());
    }
    // SAFETY: as above.
    Err(unsafe { std::ffi::CStr::from_ptr(reason) }.to_string_lossy().into_owned())
}

/// Loads a shared library: not on this system.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub fn open_library(_path: &std::path::Path) -> Result<(), String> {
    Err("shared libraries cannot be loaded on this system".to_owned())
}
