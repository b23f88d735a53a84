//! The function that a caller calls, of a program that was compiled for certain processors: it goes to the code for the
//! one at hand.
//!
//! The first call asks the processor, and the operating system whether it keeps the wide registers (`OSXSAVE` before
//! `xgetbv`, which else would trap), and keeps the answer in four bytes of the object; several threads may do so at once,
//! for all find the same. Later calls compare a number. Where the processor is below the lowest level, nothing is executed.

use super::asm::{Assembled, Assembler, Label, Refer, there};
use crate::codegen::target::{Leaf, X86};
use crate::error::{Error, Result};
use crate::object::Referent;
use brolga_runtime::abi::Status;
use cranelift_module::{DataId, FuncId, FuncOrDataId};
use iced_x86::{Code, Instruction, Register};
use std::sync::{Mutex, PoisonError};

/// Kept where no level is what the processor has.
const NONE: i32 = -1;

/// What is found out, by number: the words of the leaves, and which registers the operating system keeps.
const FIRST: usize = Leaf::First as usize;
const SEVENTH: usize = Leaf::Seventh as usize;
const SEVENTH_MORE: usize = Leaf::SeventhMore as usize;
const SEVENTH_SECOND: usize = Leaf::SeventhSecond as usize;
const EXTENDED: usize = Leaf::Extended as usize;
const KEPT: usize = EXTENDED + 1;
/// Where each of them is.
const WORDS: [Register; KEPT + 1] =
    [Register::R10D, Register::R11D, Register::ESI, Register::EDI, Register::R8D, Register::R9D];
/// Registers that callers pass arguments in or keep, and that what is found out goes by: those of every program ...
const SAVED: [Register; 5] = [Register::RBX, Register::RCX, Register::RDX, Register::R8, Register::R9];
/// ... and those of one that stands apart from the levels.
const SAVED_APART: [Register; 2] = [Register::RSI, Register::RDI];

/// Bits of `xcr0` for 256 and for 512 bits.
const KEPT_256: u32 = 0x6;
const KEPT_512: u32 = 0xe6;
const OSXSAVE: u32 = 27;

/// What a level needs, or all of them: bits of each word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs([u32; WORDS.len()]);

impl Needs {
    /// Those of features, by their names.
    pub fn of(features: &[&str]) -> Needs {
        let mut words = [0; WORDS.len()];
        for f in X86.iter().filter(|f| features.contains(&f.name)) {
            words[f.leaf as usize] |= 1 << f.bit;
        }
        let widest = features.iter().any(|f| f.starts_with("avx512"));
        let wide = features.iter().any(|f| f.starts_with("avx") || *f == "fma");
        words[KEPT] = match (widest, wide) {
            (true, _) => KEPT_512,
            (false, true) => KEPT_256,
            (false, false) => 0,
        };
        Needs(words)
    }

    /// Whether anything of a word is needed.
    fn asks(&self, word: usize) -> bool {
        self.0[word] != 0
    }

    /// What either needs.
    fn union(self, other: Needs) -> Needs {
        Needs(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Whether something is needed that no level has.
    fn stands_apart(&self) -> bool {
        self.asks(SEVENTH_MORE) || self.asks(SEVENTH_SECOND)
    }
}

/// The function: `levels` say what each needs, the lowest first, with its entry; `state` are the four bytes, which are zero
/// at first. Whoever compiles many programs compiles most of them for the same levels: what was assembled last is kept.
///
/// # Errors
/// [`crate::Error::Internal`] where an instruction cannot be encoded.
pub fn function(levels: &[(Needs, FuncId)], state: DataId) -> Result<Assembled> {
    static LAST: Mutex<Option<(Vec<Needs>, Assembled)>> = Mutex::new(None);
    let needs: Vec<Needs> = levels.iter().map(|(needs, _)| *needs).collect();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let mut code = match &*last {
        Some((of, code)) if *of == needs => code.clone(),
        _ => {
            let code = assembled(&needs)?;
            last.insert((needs, code)).1.clone()
        }
    };
    for reloc in &mut code.relocs {
        let symbol = match Referent::of(&reloc.name) {
            Some(Referent::Function(level)) => {
                levels.get(level.as_u32() as usize).map(|&(_, entry)| FuncOrDataId::Func(entry))
            }
            Some(Referent::Data(_)) => Some(FuncOrDataId::Data(state)),
            Some(Referent::Here(_)) | None => None,
        };
        reloc.name = symbol.ok_or_else(|| Error::Internal("a level has no entry".to_owned()))?.into();
    }
    Ok(code)
}

/// The function of levels with these needs, in which an entry is the number of its level.
fn assembled(levels: &[Needs]) -> Result<Assembled> {
    let mut a = Assembler::new();
    let state = Refer::Symbol(FuncOrDataId::Data(DataId::from_u32(0)));
    a.put_at(Instruction::with2(Code::Mov_r32_rm32, Register::EAX, there()), state);
    let choose = a.here();
    for number in (0..levels.len()).rev() {
        let next = a.label();
        compare(&mut a, Register::EAX, number as i32 + 1);
        a.branch(Code::Jne_rel32_64, Refer::Label(next));
        let entry = FuncId::from_u32(number as u32);
        a.branch(Code::Jmp_rel32_64, Refer::Symbol(FuncOrDataId::Func(entry)));
        a.bind(next);
    }
    let detect = a.label();
    a.put(Instruction::with2(Code::Test_rm32_r32, Register::EAX, Register::EAX));
    a.branch(Code::Je_rel32_64, Refer::Label(detect));
    a.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, Status::WrongProcessor.code()));
    a.plain(Code::Retnq);

    a.bind(detect);
    let all = levels.iter().fold(Needs::default(), |all, needs| all.union(*needs));
    let apart = if all.stands_apart() { &SAVED_APART[..] } else { &[] };
    let saved = SAVED.iter().chain(apart).copied();
    for r in saved.clone() {
        a.put(Instruction::with1(Code::Push_r64, r));
    }
    look(&mut a, &all);
    number(&mut a, levels);
    for r in saved.rev() {
        a.put(Instruction::with1(Code::Pop_r64, r));
    }
    a.put_at(Instruction::with2(Code::Mov_rm32_r32, there(), Register::EAX), state);
    a.branch(Code::Jmp_rel32_64, Refer::Label(choose));
    a.finish()
}

fn set(a: &mut Assembler, to: Register, from: Register) {
    a.put(Instruction::with2(Code::Mov_r32_rm32, to, from));
}

fn compare(a: &mut Assembler, register: Register, with: i32) {
    a.put(Instruction::with2(Code::Cmp_rm32_imm32, register, with));
}

fn zero(a: &mut Assembler, register: Register) {
    a.put(Instruction::with2(Code::Xor_r32_rm32, register, register));
}

/// `cpuid` of a part of a leaf; where it is not there, the processor says zeros.
fn ask(a: &mut Assembler, leaf: u32, part: u32) {
    a.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, leaf));
    a.put(Instruction::with2(Code::Mov_r32_imm32, Register::ECX, part));
    a.plain(Code::Cpuid);
}

/// Goes on where the highest leaf of a group reaches as far as `leaf`, otherwise to the label that is returned.
fn reach(a: &mut Assembler, group: u32, leaf: u32) -> Label {
    let missing = a.label();
    a.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, group));
    a.plain(Code::Cpuid);
    a.put(Instruction::with2(Code::Cmp_rm32_imm32, Register::EAX, leaf));
    a.branch(Code::Jb_rel32_64, Refer::Label(missing));
    missing
}

/// Finds out what of their needs the processor and the operating system have.
fn look(a: &mut Assembler, needs: &Needs) {
    for (_, register) in WORDS.into_iter().enumerate().filter(|(word, _)| needs.asks(*word)) {
        zero(a, register);
    }
    if needs.asks(FIRST) || needs.asks(KEPT) {
        // Every processor of the architecture has it.
        ask(a, 1, 0);
        set(a, WORDS[FIRST], Register::ECX);
    }
    if needs.asks(SEVENTH) || needs.stands_apart() {
        let missing = reach(a, 0, 7);
        ask(a, 7, 0);
        set(a, WORDS[SEVENTH], Register::EBX);
        if needs.asks(SEVENTH_MORE) {
            set(a, WORDS[SEVENTH_MORE], Register::ECX);
        }
        if needs.asks(SEVENTH_SECOND) {
            ask(a, 7, 1);
            set(a, WORDS[SEVENTH_SECOND], Register::EAX);
        }
        a.bind(missing);
    }
    if needs.asks(EXTENDED) {
        let missing = reach(a, 0x8000_0000, 0x8000_0001);
        ask(a, 0x8000_0001, 0);
        set(a, WORDS[EXTENDED], Register::ECX);
        a.bind(missing);
    }
    if needs.asks(KEPT) {
        let narrow = a.label();
        a.put(Instruction::with2(Code::Test_rm32_imm32, WORDS[FIRST], 1u32 << OSXSAVE));
        a.branch(Code::Je_rel32_64, Refer::Label(narrow));
        zero(a, Register::ECX);
        a.plain(Code::Xgetbv);
        set(a, WORDS[KEPT], Register::EAX);
        a.bind(narrow);
    }
}

/// The number of the highest level that has what it needs, as do all below it, in `eax`.
fn number(a: &mut Assembler, levels: &[Needs]) {
    let done = a.label();
    a.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, NONE));
    let mut below = Needs::default();
    for (number, needs) in (1..).zip(levels) {
        for (word, register) in WORDS.into_iter().enumerate() {
            all_of(a, register, needs.0[word] & !below.0[word], done);
        }
        a.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, number));
        below = below.union(*needs);
    }
    a.bind(done);
}

/// Goes to `otherwise` where not all bits are set.
fn all_of(a: &mut Assembler, register: Register, mask: u32, otherwise: Label) {
    if mask == 0 {
        return;
    }
    set(a, Register::ECX, register);
    a.put(Instruction::with2(Code::And_rm32_imm32, Register::ECX, mask));
    a.put(Instruction::with2(Code::Cmp_rm32_imm32, Register::ECX, mask));
    a.branch(Code::Jne_rel32_64, Refer::Label(otherwise));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::codegen::attribution::Attribution;
    use crate::codegen::clif::signature;
    use crate::codegen::target::{Target, TargetOptions};
    use crate::object::{self, ObjectInput, zeros};
    use brolga_runtime::abi::{Architecture, DescriptorInfo};
    use brolga_runtime::{Program, RunError};

    /// Bit 16 of `ecx` of leaf 1 is reserved: no processor sets it.
    const NOBODY: Needs = Needs([1 << 16, 0, 0, 0, 0, 0]);

    /// What a program of such levels returns in two calls; level `n` returns 100 + `n`.
    fn statuses(levels: &[Needs]) -> [i32; 2] {
        let mut input = ObjectInput::new();
        let add = |input: &mut ObjectInput, symbol: &str, exported, assembled: Assembled| {
            let id = input.function(symbol, exported, &signature(4, true)).unwrap();
            input.define(id, assembled.aligned(16, Attribution::default())).unwrap();
            id
        };
        let mut entries = Vec::new();
        for (n, needs) in levels.iter().enumerate() {
            let mut a = Assembler::new();
            a.put(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, 101 + n as i32));
            a.plain(Code::Retnq);
            entries.push((*needs, add(&mut input, &format!("f.v{n}"), false, a.finish().unwrap())));
        }
        let state = input.datum("f.level", true, zeros(4, 4)).unwrap();
        add(&mut input, "f", true, function(&entries, state).unwrap());
        input.describe(DescriptorInfo::new("f", Architecture::X86_64)).unwrap();
        let target = TargetOptions { cpu: Some("x86-64".into()), ..TargetOptions::default() };
        let target = Target::levels(&target).unwrap().remove(0);
        let program = Program::from_object(&object::write(&input, &target.isa).unwrap()).unwrap();
        // Nothing is read but the processor: there are no buffers, no workspace and no context.
        let bare = || {
            let entry = program.entry();
            // SAFETY: the program has no parameters, no results and no workspace, and needs no context.
            unsafe { entry(std::ptr::null(), std::ptr::null(), std::ptr::null_mut(), std::ptr::null()) }
        };
        [(); 2].map(|()| match program.run(&[]) {
            Err(RunError::Status { code }) => {
                assert_eq!(bare(), code, "with and without a context");
                code
            }
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_highest_level_that_is_there_runs() {
        let baseline = Needs::default();
        assert_eq!(statuses(&[baseline, NOBODY]), [101; 2]);
        assert_eq!(statuses(&[baseline, baseline, NOBODY]), [102; 2]);
        let sse3 = Needs::of(&["sse3"]);
        assert_eq!(sse3, Needs([1, 0, 0, 0, 0, 0]));
        let want = if is_x86_feature_detected!("sse3") { 102 } else { 101 };
        assert_eq!(statuses(&[baseline, sse3]), [want; 2]);
    }

    /// `xgetbv` traps where the operating system does not offer it: it is behind a branch on the bit that says so.
    #[test]
    fn the_operating_system_is_asked_where_it_answers() {
        let code = assembled(&[Needs::of(&["avx512f"])]).unwrap().code;
        let all: Vec<Instruction> = iced_x86::Decoder::new(64, &code, iced_x86::DecoderOptions::NONE).iter().collect();
        let asks = all.iter().position(|i| i.code() == Code::Xgetbv).unwrap();
        let tests = |i: &Instruction| i.code() == Code::Test_rm32_imm32 && i.immediate32() == 1 << OSXSAVE;
        let test = all[..asks].iter().rposition(tests).unwrap();
        assert_eq!((all[test].op0_register(), all[test + 1].code()), (WORDS[FIRST], Code::Je_rel32_64));
        assert!(all[test + 1].near_branch_target() > all[asks].ip(), "the branch leads past the question");
    }

    #[test]
    fn nothing_runs_below_the_lowest_level() {
        assert_eq!(statuses(&[NOBODY, Needs::default()]), [Status::WrongProcessor.code(); 2]);
    }

    #[test]
    fn the_processor_is_asked_as_the_standard_library_asks() {
        macro_rules! each {
            ($($name:tt)*) => {
                $(
                    let there = std::arch::is_x86_feature_detected!($name);
                    assert_eq!(statuses(&[Needs::of(&[$name])]) == [101; 2], there, $name);
                )*
            };
        }
        each!("sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b" "avx" "avx2" "bmi1" "bmi2" "fma" "lzcnt" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avxvnni" "avx512bf16");
    }
}
