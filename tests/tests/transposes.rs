//! Transposes whose results no cache holds: each element in its place, at every width, on one thread and on three, wherever the
//! caller's buffers start.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile, text};
use brolga_runtime::{Caller, ElementType, Program, RunOptions};
use brolga_tests::widths;
use std::ffi::c_void;

/// Bytes around a result that nobody writes.
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xa5;

/// Where a buffer of so many bytes starts whose address is `offset` behind a line, with a guard on both sides.
fn start(memory: &[u8], offset: usize) -> usize {
    memory.as_ptr().align_offset(64) + GUARD + offset
}

/// Numbers of which no two near each other are alike.
fn input(bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    words.flatten().take(bytes).collect()
}

#[track_caller]
fn check(ty: ElementType, [rows, columns]: [usize; 2]) {
    let source = format!(
        "HloModule m\nENTRY e {{\n  x = {ty}[{rows},{columns}]{{1,0}} parameter(0)\n  \
         ROOT t = {ty}[{columns},{rows}]{{1,0}} transpose(x), dimensions={{1,0}}\n}}\n"
    );
    let module = text::parse(&source).unwrap();
    let size = ty.byte_size();
    let x = input(rows * columns * size);
    let mut want = vec![0; x.len()];
    for (k, element) in want.chunks_exact_mut(size).enumerate() {
        let from = (k % rows * columns + k / rows) * size;
        element.copy_from_slice(&x[from..from + size]);
    }
    let mut memory = vec![UNTOUCHED; x.len() + 3 * GUARD + 64];
    for target in widths::targets() {
        let cpu = target.cpu.clone();
        let artifact = compile(&module, &CompileOptions { target, ..CompileOptions::default() }).unwrap();
        let text = artifact.kernel_text();
        let elements_in_registers = matches!(size, 4 | 8) && ty != ElementType::C64;
        assert!(!elements_in_registers || text.contains("past the caches"), "{text}");
        let program = Program::from_object(&artifact.object).unwrap();
        for (threads, offset) in [(1, 0), (3, 0), (1, size), (3, 32)] {
            memory.fill(UNTOUCHED);
            let first = start(&memory, offset);
            let mut caller = Caller::new(&program, &RunOptions { threads, ..RunOptions::default() }).unwrap();
            let (parameter, result) = (x.as_ptr().cast::<c_void>(), memory[first..].as_mut_ptr().cast::<c_void>());
            // SAFETY: both are as long as the program says and aligned for their elements, and do not overlap.
            unsafe { caller.call(&[parameter], &[result]) }.unwrap();
            let (before, rest) = memory.split_at(first);
            let (got, after) = rest.split_at(want.len());
            let other = got.chunks_exact(size).zip(want.chunks_exact(size)).position(|(got, want)| got != want);
            assert_eq!(other, None, "{ty}[{rows},{columns}] on {cpu:?}, {threads} threads, {offset} behind a line");
            assert!(before.iter().chain(after).all(|&b| b == UNTOUCHED), "{ty}[{rows},{columns}] writes elsewhere");
        }
    }
}

#[test]
fn rows_of_whole_pages() {
    check(ElementType::F32, [2048, 1024]);
    check(ElementType::F64, [1024, 1024]);
}

#[test]
fn rows_of_whole_lines() {
    check(ElementType::S32, [1504, 1408]);
    check(ElementType::S64, [1032, 1040]);
}

#[test]
fn results_of_whole_lines_of_what_has_none() {
    check(ElementType::F32, [1504, 1501]);
    check(ElementType::U64, [1024, 1027]);
}

/// Two parts an element, which are loaded apart.
#[test]
fn complex_numbers() {
    check(ElementType::C64, [1024, 1024]);
}
