//! Loaded programs for gdb and debuggers that do as it does.
//!
//! Such a debugger knows code that no file was mapped for by two names of the process: it stops at a function
//! `__jit_debug_register_code` of no effect, and reads then from `__jit_debug_descriptor` which file in memory came or goes. Programs
//! show theirs, the object with the addresses of its sections filled in, where [`VARIABLE`] is set and not empty, and take it back
//! when they are dropped. The names are weak: another compiler in the process may have them too, and the list is then one.

use crate::LoadError;

/// The environment variable that asks for it.
const VARIABLE: &str = "BROLGA_GDB";

/// A file that debuggers know. Dropping it takes it back.
pub(super) struct Registered {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    entry: usize,
    /// Read by the debugger.
    _file: Vec<u8>,
}

/// Shows debuggers a file, an object with addresses, where that is asked for.
///
/// # Errors
/// Those of `file`.
pub(super) fn show(file: impl FnOnce() -> Result<Vec<u8>, LoadError>) -> Result<Option<Registered>, LoadError> {
    super::asked_for(VARIABLE).then(|| file().map(Registered::new)).transpose()
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Registered {
    /// Unknown on this system.
    fn new(file: Vec<u8>) -> Registered {
        Registered { _file: file }
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod interface {
    use super::Registered;
    use std::ptr::{null_mut, with_exposed_provenance_mut};
    use std::sync::{Mutex, PoisonError};

    /// A file in the list, as debuggers read it.
    #[repr(C)]
    pub(super) struct Entry {
        pub(super) next: *mut Entry,
        previous: *mut Entry,
        pub(super) file: *const u8,
        size: u64,
    }

    /// What happened, and the list.
    #[repr(C)]
    pub(super) struct Descriptor {
        version: u32,
        action: u32,
        relevant: *mut Entry,
        pub(super) first: *mut Entry,
    }

    /// Nothing happened.
    const NONE: u32 = 0;
    /// The relevant file came.
    const REGISTER: u32 = 1;
    /// The relevant file goes.
    const UNREGISTER: u32 = 2;

    // Weak symbols have no words in Rust.
    std::arch::global_asm!(
        ".pushsection .text.__jit_debug_register_code, \"ax\", %progbits",
        ".weak __jit_debug_register_code",
        ".type __jit_debug_register_code, %function",
        "__jit_debug_register_code:",
        "ret",
        ".size __jit_debug_register_code, . - __jit_debug_register_code",
        ".popsection",
        ".pushsection .data.__jit_debug_descriptor, \"aw\", %progbits",
        ".weak __jit_debug_descriptor",
        ".type __jit_debug_descriptor, %object",
        ".balign 8",
        "__jit_debug_descriptor:",
        ".long 1",
        ".long 0",
        ".quad 0",
        ".quad 0",
        ".size __jit_debug_descriptor, 24",
        ".popsection",
    );

    unsafe extern "C" {
        pub(super) static mut __jit_debug_descriptor: Descriptor;
        fn __jit_debug_register_code();
    }

    /// Held by who changes the list.
    pub(super) static LIST: Mutex<()> = Mutex::new(());

    impl Registered {
        /// Shows a file.
        pub(super) fn new(file: Vec<u8>) -> Registered {
            let _list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
            let list = &raw mut __jit_debug_descriptor;
            // SAFETY: the descriptor is defined above, or by another compiler in the same form; its list holds entries that are
            // alive. Whoever changes it holds the lock.
            unsafe {
                let next = (*list).first;
                let (previous, size) = (null_mut(), file.len() as u64);
                let entry = Box::into_raw(Box::new(Entry { next, previous, file: file.as_ptr(), size }));
                if !next.is_null() {
                    (*next).previous = entry;
                }
                (*list).first = entry;
                tell(list, entry, REGISTER);
                Registered { entry: entry.expose_provenance(), _file: file }
            }
        }
    }

    impl Drop for Registered {
        fn drop(&mut self) {
            let _list = LIST.lock().unwrap_or_else(PoisonError::into_inner);
            let list = &raw mut __jit_debug_descriptor;
            let entry: *mut Entry = with_exposed_provenance_mut(self.entry);
            // SAFETY: `new` has made the entry and put it into the list, where it still is; the descriptor is as said there. Nothing
            // points to the entry when it is freed.
            unsafe {
                let Entry { next, previous, .. } = *entry;
                if !next.is_null() {
                    (*next).previous = previous;
                }
                if previous.is_null() {
                    (*list).first = next;
                } else {
                    (*previous).next = next;
                }
                tell(list, entry, UNREGISTER);
                drop(Box::from_raw(entry));
            }
        }
    }

    /// Says what happened to a file.
    ///
    /// # Safety
    /// The descriptor is whole, and nobody else changes it.
    unsafe fn tell(list: *mut Descriptor, entry: *mut Entry, action: u32) {
        // SAFETY: as the caller says; the function has no effect but to be noticed.
        unsafe {
            (*list).relevant = entry;
            (*list).action = action;
            __jit_debug_register_code();
            (*list).relevant = null_mut();
            (*list).action = NONE;
        }
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Registered;
    use super::interface::{__jit_debug_descriptor, LIST};

    /// The first bytes of the files in the list.
    fn listed() -> Vec<u8> {
        let _list = LIST.lock().unwrap();
        let (list, mut out) = (&raw const __jit_debug_descriptor, Vec::new());
        // SAFETY: the list holds entries that are alive, and nobody changes it here.
        unsafe {
            let mut at = (*list).first;
            while !at.is_null() {
                out.push(*(*at).file);
                at = (*at).next;
            }
        }
        out
    }

    #[test]
    fn files_come_and_go_in_any_order() {
        let [a, b, c] = [1, 2, 3].map(|n| Registered::new(vec![n; 8]));
        assert_eq!(listed(), [3, 2, 1]);
        drop(b);
        assert_eq!(listed(), [3, 1]);
        drop(c);
        assert_eq!(listed(), [1]);
        drop(a);
        assert!(listed().is_empty());
    }
}
