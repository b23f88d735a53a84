//! Callers' buffers: what a program reads in them and leaves there, byte by byte.
//!
//! Problem: literals have neither layouts nor addresses, so what they show of a run is less than what callers see. Invariant:
//! whatever lies in the padding of parameters and in the buffers of results before a run, afterwards each result lies in its own
//! buffer, or in that of the parameter which it shares one with, its elements where the layout says and the padding value between
//! them; and parameters that share nothing are as they were. Algorithm: the program runs on buffers full of noise, once with the
//! buffers shared that it must share, and where it may share others once more with those too; every byte is compared with what
//! the literals make in that layout. Behind each buffer lies a page that nobody may touch: reading more than there is ends the run.

use crate::compare::first_other_element;
use brolga_runtime::abi::{Alias, Leaf};
use brolga_runtime::{ArrayLiteral, Caller, Layout, Program, RunOptions};
use std::ffi::c_void;

/// What lies where nothing of the program's does: a NaN, and an integer that is rare.
const NOISE: u8 = 0xff;

/// Where the buffers of a program begin: multiples of so many bytes.
const ALIGNMENT: usize = 16;

/// The bytes of a buffer, aligned, and behind them as near as can be a page that nobody may touch.
struct Buffer {
    room: Room,
    start: usize,
    size: usize,
}

impl Buffer {
    fn new(bytes: &[u8]) -> Buffer {
        let mut room = Room::new(bytes.len());
        let size = bytes.len();
        let start = (room.bytes().len() - size) / ALIGNMENT * ALIGNMENT;
        room.bytes_mut()[start..start + size].copy_from_slice(bytes);
        Buffer { room, start, size }
    }

    fn bytes(&self) -> &[u8] {
        &self.room.bytes()[self.start..self.start + self.size]
    }

    fn pointer(&mut self) -> *mut c_void {
        self.room.bytes_mut()[self.start..].as_mut_ptr().cast()
    }
}

/// Pages of noise, and behind them one that is out of reach.
#[cfg(unix)]
pub struct Room {
    pages: *mut c_void,
    size: usize,
    page: usize,
}

#[cfg(unix)]
impl Room {
    /// So many bytes at least.
    pub fn new(size: usize) -> Room {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let size = size.max(1).next_multiple_of(page);
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: new memory, wherever there is room.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), size + page, access, kind, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED, "no room for {size} bytes");
        // SAFETY: the last page of that memory, which nothing refers to.
        let refused = unsafe { libc::mprotect(pages.add(size), page, libc::PROT_NONE) };
        assert_eq!(refused, 0, "a page cannot be protected");
        let mut room = Room { pages, size, page };
        room.bytes_mut().fill(NOISE);
        room
    }

    /// All of it, up to the page out of reach.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as many bytes can be read, and were written before.
        unsafe { std::slice::from_raw_parts(self.pages.cast(), self.size) }
    }

    /// The same, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as many bytes can be written, and nobody else refers to them.
        unsafe { std::slice::from_raw_parts_mut(self.pages.cast(), self.size) }
    }
}

#[cfg(unix)]
impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: what was mapped, to which no reference is left.
        unsafe { libc::munmap(self.pages, self.size + self.page) };
    }
}

/// Noise; elsewhere than on Unix nothing says that more was read.
#[cfg(not(unix))]
pub struct Room(Vec<u128>);

#[cfg(not(unix))]
impl Room {
    /// So many bytes at least.
    pub fn new(size: usize) -> Room {
        Room(vec![u128::MAX; size.div_ceil(ALIGNMENT) + 1])
    }

    /// All of it, up to the page out of reach.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: all bytes of integers are bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * ALIGNMENT) }
    }

    /// The same, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and all bytes make integers.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * ALIGNMENT) }
    }
}

/// Checks what a program leaves in callers' buffers: `want` are its results as literals. Arrays whose sizes lie behind them are left to
/// the literals.
pub(crate) fn check_memory(
    program: &Program,
    inputs: &[&ArrayLiteral],
    want: &[ArrayLiteral],
    options: &RunOptions,
) -> Result<(), String> {
    let descriptor = program.descriptor();
    let mut leaves = descriptor.parameters.iter().chain(&descriptor.results);
    if leaves.any(|leaf| leaf.shape.is_dynamic()) {
        return Ok(());
    }
    run(program, inputs, want, options, |alias| alias.must)?;
    match descriptor.aliases.iter().all(|alias| alias.must) {
        true => Ok(()),
        false => run(program, inputs, want, options, |_| true)
            .map_err(|e| format!("with all buffers shared that may be: {e}")),
    }
}

fn run(
    program: &Program,
    inputs: &[&ArrayLiteral],
    want: &[ArrayLiteral],
    options: &RunOptions,
    shared: impl Fn(&Alias) -> bool,
) -> Result<(), String> {
    let descriptor = program.descriptor();
    let given = descriptor.parameters.iter().zip(inputs).map(|(leaf, input)| with_noise(leaf, input));
    let given = given.collect::<Option<Vec<_>>>().ok_or("an input has not the layout of its parameter")?;
    let mut parameters: Vec<Buffer> = given.iter().map(|bytes| Buffer::new(bytes)).collect();
    let empty = |leaf: &Leaf| Buffer::new(&vec![NOISE; leaf.byte_size() as usize]);
    let mut own: Vec<Buffer> = descriptor.results.iter().map(empty).collect();
    let parameter_of = |result: usize| {
        let alias = descriptor.aliases.iter().find(|alias| alias.result as usize == result);
        alias.filter(|alias| shared(alias)).map(|alias| alias.parameter as usize)
    };
    let pointers: Vec<*mut c_void> = parameters.iter_mut().map(Buffer::pointer).collect();
    let results: Vec<*mut c_void> = own
        .iter_mut()
        .enumerate()
        .map(|(result, buffer)| parameter_of(result).map_or_else(|| buffer.pointer(), |p| pointers[p]))
        .collect();
    let pointers: Vec<*const c_void> = pointers.into_iter().map(<*mut c_void>::cast_const).collect();
    let mut caller = Caller::new(program, options).map_err(|e| e.to_string())?;
    // SAFETY: a live buffer for each leaf, of its size and aligned for any element; results have their own, or that of the parameter
    // that they are declared to share one with.
    unsafe { caller.call(&pointers, &results) }.map_err(|e| e.to_string())?;

    for (number, (leaf, value)) in descriptor.results.iter().zip(want).enumerate() {
        let bytes = parameter_of(number).map_or_else(|| own[number].bytes(), |p| parameters[p].bytes());
        let wanted = in_memory(leaf, value).ok_or("a result has not the layout of its leaf")?;
        if let Some(place) = first_other_element(leaf.shape.ty, bytes, &wanted) {
            let size = leaf.shape.ty.byte_size();
            let found = &bytes[place * size..(place + 1) * size];
            let part = match leaf.shape.multi_index(place as i64) {
                Some(index) => format!("in its element {index:?}"),
                None => format!("in its padding, at place {place}"),
            };
            return Err(format!("result {number}, {}, has {found:02x?} {part}", leaf.shape));
        }
    }
    let taken: Vec<usize> = (0..own.len()).filter_map(parameter_of).collect();
    let changed = |&number: &usize| !taken.contains(&number) && parameters[number].bytes() != given[number];
    match (0..parameters.len()).find(changed) {
        Some(number) => Err(format!("parameter {number} is not as it was")),
        None => Ok(()),
    }
}

/// The bytes of an array in the layout of its leaf.
fn in_memory(leaf: &Leaf, value: &ArrayLiteral) -> Option<Vec<u8>> {
    value.to_memory(&leaf.shape.layout.clone().unwrap_or_else(|| Layout::row_major(leaf.shape.rank())))
}

/// The same, with noise in the padding.
fn with_noise(leaf: &Leaf, value: &ArrayLiteral) -> Option<Vec<u8>> {
    let mut memory = in_memory(leaf, value)?;
    let places = memory.chunks_exact_mut(leaf.shape.ty.byte_size());
    (0..).zip(places).filter(|(place, _)| leaf.shape.multi_index(*place).is_none()).for_each(|(_, b)| b.fill(NOISE));
    Some(memory)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use brolga_compiler::{CompileOptions, compile, text};

    /// What a wrong program would leave is told apart: elements, padding, a parameter's buffer.
    #[test]
    fn every_byte_is_compared() {
        let layout = "f32[2,3]{0,1:W(3,3)V(one)}";
        let source = format!(
            "HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}, entry_computation_layout={{({layout})->{layout}}}\n\n\
             ENTRY e {{\n  x = f32[2,3] parameter(0)\n  ROOT y = f32[2,3] negate(x)\n}}\n"
        );
        let object = compile(&text::parse(&source).unwrap(), &CompileOptions::default()).unwrap().object;
        let program = Program::from_object(&object).unwrap();
        let array = |sign: f32| ArrayLiteral::from_elements(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|v| sign * v));
        let (x, right) = (array(1.0), array(-1.0));
        let checked =
            |want: &ArrayLiteral| check_memory(&program, &[&x], std::slice::from_ref(want), &RunOptions::default());
        assert_eq!(checked(&right), Ok(()));
        assert_eq!(checked(&x).unwrap_err(), format!("result 0, {layout}, has [00, 00, 80, bf] in its element [0, 0]"));
        let leaf = &program.descriptor().results[0];
        let noisy = with_noise(leaf, &right).unwrap();
        let place = first_other_element(leaf.shape.ty, &noisy, &in_memory(leaf, &right).unwrap());
        assert_eq!(place.map(|p| leaf.shape.multi_index(p as i64)), Some(None), "noise is none of the padding");
    }
}
