//! What each fuzz target asks of its reader.
//!
//! Problem: a reader meets bytes that nobody wrote on purpose. Invariant: it returns a module or an error, never panics, and a
//! module that the verifier accepts prints to a text that reads back to the module that it is. Algorithm: read, verify, print,
//! read again, print again, compare the two prints; then the same with messages, whose bytes are compared. What the reader or the
//! verifier refuses is done with.

use brolga_compiler::front::ReadOptions;
use brolga_compiler::hlo::Module;
use brolga_compiler::text::{self, PrintOptions};
use brolga_compiler::{Error, Result, proto, shape, stablehlo};

/// Inputs that are longer are passed over: large ones cost time and hold nothing that small ones cannot.
pub const LARGEST: usize = 64 << 10;

/// Constants of more elements, which a few bytes can spell (`f32[9999,999] constant(0)`), are read and not printed: their text is as
/// long as they are.
pub const MOST_ELEMENTS: usize = 1 << 18;

/// HLO text.
pub fn hlo_text(data: &[u8]) {
    if let Some(source) = source(data) {
        check(text::parse(source));
    }
}

/// StableHLO text, pretty or generic.
pub fn stablehlo_text(data: &[u8]) {
    if let Some(source) = source(data) {
        check(stablehlo::read_text(source, &ReadOptions::default()));
    }
}

/// MLIR bytecode, and the files of `jax.export` around it.
pub fn bytecode(data: &[u8]) {
    if data.len() > LARGEST {
        return;
    }
    let program =
        if data.starts_with(b"ML\xefR") { stablehlo::bytecode::read(data) } else { stablehlo::export::read(data) };
    check(program.and_then(|program| stablehlo::lower(&program, &ReadOptions::default())));
}

/// `HloModuleProto`, `HloProto`, `HloSnapshot`.
pub fn message(data: &[u8]) {
    if data.len() <= LARGEST {
        check(proto::read(data).map(|read| read.module));
    }
}

fn source(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok().filter(|source| source.len() <= LARGEST)
}

/// # Panics
/// Where what was read does not survive being printed, and where an error is not about the input.
fn check(read: Result<Module>) {
    let verified = read.and_then(|module| shape::verify(&module).map(|()| module));
    let module = match verified {
        Ok(module) => module,
        Err(error @ (Error::Internal(_) | Error::Target(_))) => panic!("{error}"),
        Err(_) => return,
    };
    let instructions = module.computations.values().flat_map(|c| c.instructions.values());
    let constants = instructions.filter_map(|i| i.literal()).flat_map(|literal| literal.arrays());
    if constants.map(|array| array.elements()).sum::<usize>() > MOST_ELEMENTS {
        return;
    }
    let printed = text::print(&module, &PrintOptions::default());
    match text::parse(&printed) {
        Ok(again) => assert_eq!(text::print(&again, &PrintOptions::default()), printed, "the text reads back"),
        Err(error) => panic!("the text does not read back: {error}\n{printed}"),
    }
    // What the messages have no field for is refused. A message always says what callers see, where a text need not: the bytes
    // stay the same from the second message on.
    let Ok(bytes) = proto::write(&module) else { return };
    let rewritten = |bytes: &[u8]| proto::read(bytes).and_then(|read| proto::write(&read.module));
    match rewritten(&bytes).and_then(|second| Ok((rewritten(&second)?, second))) {
        Ok((third, second)) => assert_eq!(third, second, "the message reads back"),
        Err(error) => panic!("the message does not read back: {error}\n{printed}"),
    }
}
