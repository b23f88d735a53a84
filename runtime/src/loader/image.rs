//! The memory of a loaded program: one mapping of three parts with different protection.

use super::unwind::Registered;
use crate::LoadError;
use crate::abi::EntryFn;
use memmap2::MmapMut;
use std::ops::Range;

/// A mapping that is still writable and not executable.
pub(super) struct Builder {
    map: MmapMut,
    text: usize,
    rodata: usize,
}

/// The memory of a loaded program; dropping it unmaps the code.
pub struct Image {
    /// What debuggers know of it, taken back before the memory goes.
    pub(super) shown: Option<super::gdb::Registered>,
    /// Forgotten before the memory goes.
    _unwind_table: Option<Registered>,
    map: MmapMut,
    text: usize,
}

/// Bytes of a page, on which protection changes.
pub(super) fn page_size() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: asks for a constant of the system.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).ok().filter(|s| s.is_power_of_two()).unwrap_or(1 << 16)
    }
    #[cfg(not(unix))]
    {
        1 << 16
    }
}

/// Makes the processor forget what it has read at addresses that hold other code now.
#[cfg(unix)]
fn code_is_new(start: *mut u8, bytes: usize) {
    // x86-64 notices by itself.
    #[cfg(all(target_arch = "aarch64", target_vendor = "apple"))]
    {
        unsafe extern "C" {
            fn sys_icache_invalidate(start: *mut std::ffi::c_void, length: usize);
        }
        // SAFETY: the range is mapped; nothing is changed but what caches hold.
        unsafe { sys_icache_invalidate(start.cast(), bytes) };
    }
    #[cfg(all(target_arch = "aarch64", not(target_vendor = "apple")))]
    {
        unsafe extern "C" {
            fn __clear_cache(start: *mut std::ffi::c_char, end: *mut std::ffi::c_char);
        }
        // SAFETY: as above; the end is that of the mapped range.
        unsafe { __clear_cache(start.cast(), start.wrapping_add(bytes).cast()) };
    }
    #[cfg(not(target_arch = "aarch64"))]
    let _ = (start, bytes);
}

impl Builder {
    /// Maps room for the three parts, whose sizes are multiples of the page size.
    pub(super) fn new(text: usize, rodata: usize, data: usize) -> Result<Builder, LoadError> {
        let total = text
            .checked_add(rodata)
            .and_then(|n| n.checked_add(data))
            .filter(|&n| n > 0)
            .ok_or_else(|| LoadError::Malformed("the object is empty or too large".into()))?;
        let map = MmapMut::map_anon(total).map_err(|e| LoadError::Memory(e.to_string()))?;
        Ok(Builder { map, text, rodata })
    }

    /// The address of the first byte.
    pub(super) fn base(&self) -> u64 {
        self.map.as_ptr() as usize as u64
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// Makes the text executable and the read-only data read-only, and the process know the unwind table, where there is one.
    ///
    /// # Errors
    /// Where the system refuses, and where the table has another form than the compiler's.
    #[cfg(unix)]
    pub(super) fn protect(self, unwind_table: Option<Range<usize>>) -> Result<Image, LoadError> {
        let base = self.base();
        let code = base..base + self.text as u64;
        if let Some(at) = &unwind_table {
            let inside = self.text <= at.start && at.end <= self.text + self.rodata;
            let table = self.map.get(at.clone()).filter(|_| inside);
            let table = table.ok_or_else(|| LoadError::Malformed("its unwind table lies outside".into()))?;
            super::unwind::check(table, base + at.start as u64, &code)?;
        }
        let start = self.map.as_ptr().cast_mut();
        let parts = [(0, self.text, libc::PROT_READ | libc::PROT_EXEC), (self.text, self.rodata, libc::PROT_READ)];
        for (offset, size, protection) in parts {
            if size == 0 {
                continue;
            }
            // SAFETY: the range lies in the mapping, which this value owns and nobody else points into; it starts
            // and ends at page boundaries. The bytes are not touched through `map` from here on.
            let result = unsafe { libc::mprotect(start.add(offset).cast(), size, protection) };
            if result != 0 {
                return Err(LoadError::Memory(std::io::Error::last_os_error().to_string()));
            }
        }
        code_is_new(start, self.text);
        let registered = unwind_table.map(|at| {
            // SAFETY: the table was checked above; it lies in read-only memory of the mapping now, as the code does in
            // executable memory, and the image drops the registration before the mapping.
            unsafe { Registered::new(self.map.as_ptr().wrapping_add(at.start)) }
        });
        Ok(Image { shown: None, _unwind_table: registered, map: self.map, text: self.text })
    }

    /// Unknown on this system.
    #[cfg(not(unix))]
    pub(super) fn protect(self, _unwind_table: Option<Range<usize>>) -> Result<Image, LoadError> {
        let _ = (self.text, self.rodata);
        Err(LoadError::Unsupported("running code from memory on this system".into()))
    }
}

impl Image {
    /// The function at an offset, where that lies in the text.
    pub(super) fn function(&self, offset: usize) -> Option<EntryFn> {
        if offset >= self.text {
            return None;
        }
        let address = self.map.as_ptr().wrapping_add(offset);
        // SAFETY: this makes a function pointer and calls nothing. The address lies in executable memory of ours and
        // is not null; whoever calls it relies on the object's writer for what stands there.
        Some(unsafe { std::mem::transmute::<*const u8, EntryFn>(address) })
    }
}
