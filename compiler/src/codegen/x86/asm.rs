//! Instructions in order, with labels, constants behind them, what lies outside, and what is on the stack at each.

use crate::codegen::attribution::Attribution;
use crate::error::{Error, Result};
use crate::hlo::InstructionId;
use crate::object::{CompiledFunction, Unwind, lines};
use cranelift_codegen::binemit::Reloc;
use cranelift_module::{FuncOrDataId, ModuleReloc};
use gimli::write::CallFrameInstruction;
use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, OpKind, Register};

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// What an instruction's branch or memory operand refers to.
#[derive(Clone, Copy, Debug)]
pub enum Refer {
    /// A place in the code.
    Label(Label),
    /// So many bytes behind the start of the constants.
    Pool(u32),
    /// Something outside.
    Symbol(FuncOrDataId),
}

/// Machine code, its constants at the end, and what it refers to.
#[derive(Clone)]
pub struct Assembled {
    /// The bytes.
    pub code: Vec<u8>,
    /// Places to be filled in.
    pub relocs: Vec<ModuleReloc>,
    /// How the frame of the caller is found.
    pub unwind: Unwind,
    /// From which byte on the code is for which instruction of the kernel; for none in particular before and where none is named.
    pub sources: Vec<(u32, Option<InstructionId>)>,
}

impl Assembled {
    /// As a function of an object.
    pub fn aligned(self, alignment: u64, attribution: Attribution) -> CompiledFunction {
        let Assembled { code, relocs, unwind, sources } = self;
        let marked = sources.iter().filter_map(|&(at, source)| Some((at, attribution.number(source)?)));
        let lines = attribution.number(None).map(|own| lines(own, marked)).unwrap_or_default();
        CompiledFunction { alignment, code, relocs, unwind, lines, text: String::new() }
    }
}

/// What is on the stack at some place of the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// Bytes from the stack pointer up to the return address.
    depth: i32,
    /// Registers of the caller's, and the depth at which each lies.
    saved: Vec<(Register, i32)>,
}

impl StackFrame {
    /// The frame of a subroutine of the same function that is called where this frame is.
    pub fn called(&self) -> StackFrame {
        StackFrame { depth: self.depth + 8, saved: self.saved.clone() }
    }
}

/// Lines that a function of some size has at least.
const LINES: usize = 64;

/// Constants start on a line of so many bytes.
const POOL_ALIGNMENT: u64 = 64;

/// Collects the instructions of one function.
#[derive(Default)]
pub struct Assembler {
    lines: Vec<(Instruction, Option<Refer>)>,
    /// The line behind each label.
    labels: Vec<Option<usize>>,
    pool: Vec<u8>,
    /// What is on the stack behind the last line.
    frame: StackFrame,
    /// The lines before which the rules change by which the caller's frame is found, and how.
    changes: Vec<(usize, CallFrameInstruction)>,
    /// The lines from which on others are meant by [`Assembled::sources`].
    sources: Vec<(usize, Option<InstructionId>)>,
    fault: Option<String>,
}

impl Assembler {
    /// Without a line.
    pub fn new() -> Assembler {
        Assembler { lines: Vec::with_capacity(LINES), ..Assembler::default() }
    }

    /// A label that [`Assembler::bind`] puts somewhere.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label here.
    pub fn bind(&mut self, label: Label) {
        let here = self.lines.len();
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(here);
        }
    }

    /// A label that is here.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// An instruction that stands for itself.
    pub fn put(&mut self, instruction: std::result::Result<Instruction, IcedError>) {
        self.line(instruction, None);
    }

    /// An instruction without operands.
    pub fn plain(&mut self, code: Code) {
        self.lines.push((Instruction::with(code), None));
    }

    /// A branch or call with a 32-bit distance.
    pub fn branch(&mut self, code: Code, to: Refer) {
        self.line(Instruction::with_branch(code, 0), Some(to));
    }

    /// An instruction one of whose operands is memory at a distance from the instruction pointer, such as [`there`].
    pub fn put_at(&mut self, instruction: std::result::Result<Instruction, IcedError>, refer: Refer) {
        self.line(instruction, Some(refer));
    }

    /// Constants; what refers to the first of their bytes.
    pub fn constant(&mut self, bytes: &[u8]) -> Refer {
        let at = self.pool.len() as u32;
        self.pool.extend_from_slice(bytes);
        Refer::Pool(at)
    }

    fn line(&mut self, instruction: std::result::Result<Instruction, IcedError>, refer: Option<Refer>) {
        match instruction {
            Ok(instruction) => {
                self.lines.push((instruction, refer));
                self.follow_stack(&instruction);
            }
            Err(e) => self.fault = Some(e.to_string()),
        }
    }

    /// Says for which instruction of the kernel the code is from here on.
    pub fn mark(&mut self, source: Option<InstructionId>) {
        if self.sources.last().map(|s| s.1) != Some(source) {
            self.sources.push((self.lines.len(), source));
        }
    }

    /// What is on the stack here.
    pub fn frame(&self) -> StackFrame {
        self.frame.clone()
    }

    /// Says what is on the stack where no line before leads to: at the start of a subroutine.
    pub fn resume(&mut self, frame: StackFrame) {
        let before = std::mem::replace(&mut self.frame, frame.clone());
        if frame.depth != before.depth {
            self.deepen(0);
        }
        for &saved in frame.saved.iter().filter(|s| !before.saved.contains(s)) {
            self.saved(saved);
        }
        for &(register, _) in before.saved.iter().filter(|s| !frame.saved.contains(s)) {
            self.restored(register);
        }
    }

    /// The rules change behind the last line.
    fn change(&mut self, how: CallFrameInstruction) {
        self.changes.push((self.lines.len(), how));
    }

    /// The stack grows by so many bytes.
    fn deepen(&mut self, bytes: i32) {
        self.frame.depth += bytes;
        self.change(CallFrameInstruction::CfaOffset(RETURN_ADDRESS + self.frame.depth));
    }

    /// A register of the caller's lies on the stack.
    fn saved(&mut self, (register, depth): (Register, i32)) {
        if KEPT.contains(&register) {
            self.change(CallFrameInstruction::Offset(dwarf(register), -(RETURN_ADDRESS + depth)));
        }
    }

    /// A register of the caller's is what it was.
    fn restored(&mut self, register: Register) {
        if KEPT.contains(&register) {
            self.change(CallFrameInstruction::Restore(dwarf(register)));
        }
    }

    fn follow_stack(&mut self, instruction: &Instruction) {
        let of_stack = instruction.op0_register() == Register::RSP;
        match instruction.code() {
            Code::Push_r64 => {
                self.deepen(8);
                let saved = (instruction.op0_register(), self.frame.depth);
                self.frame.saved.push(saved);
                self.saved(saved);
            }
            Code::Pop_r64 => {
                self.deepen(-8);
                if let Some((register, _)) = self.frame.saved.pop() {
                    self.restored(register);
                }
            }
            Code::Sub_rm64_imm32 if of_stack => self.deepen(instruction.immediate32() as i32),
            Code::Add_rm64_imm32 if of_stack => self.deepen(-(instruction.immediate32() as i32)),
            _ => {}
        }
    }

    /// The function.
    ///
    /// # Errors
    /// [`Error::Internal`] where the encoder refuses an instruction, or a label was put nowhere.
    pub fn finish(mut self) -> Result<Assembled> {
        if let Some(fault) = self.fault {
            return Err(internal(fault));
        }
        let mut encoded = encode(&mut self.lines)?;
        let end = encoded.places.last().copied().unwrap_or(0);
        let pool = if self.pool.is_empty() { end } else { end.next_multiple_of(POOL_ALIGNMENT) };
        let relocs = encoded.measure(&self.labels, pool)?;
        let Encoded { mut code, places, .. } = encoded;
        // Behind the last instruction lies what nobody runs.
        code.resize(pool as usize, 0xcc);
        code.extend_from_slice(&self.pool);
        let missing = || internal("what changes for unwinders is behind no instruction".to_owned());
        let placed = |(line, how)| Ok((*places.get(line).ok_or_else(missing)? as u32, how));
        let unwind = Unwind::Changes(self.changes.into_iter().map(placed).collect::<Result<_>>()?);
        let marked = self.sources.iter().filter_map(|&(line, source)| Some((*places.get(line)? as u32, source)));
        let sources = marked.filter(|(at, _)| u64::from(*at) < end).collect();
        Ok(Assembled { code, relocs, unwind, sources })
    }
}

/// Registers that some convention has functions keep for their callers: an unwinder asks for no others.
const KEPT: [Register; 8] = [
    Register::RBX,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Bytes of the return address, which lies between the function's frame and what its rules count from.
const RETURN_ADDRESS: i32 = 8;

/// The number of a 64-bit register in unwind tables.
fn dwarf(register: Register) -> gimli::Register {
    const NUMBERS: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
    let number = (register as u16).wrapping_sub(Register::RAX as u16);
    gimli::Register(NUMBERS.get(usize::from(number)).copied().unwrap_or(number))
}

fn internal(what: String) -> Error {
    Error::Internal(format!("an instruction cannot be encoded: {what}"))
}

/// Instructions as bytes, without their distances.
struct Encoded {
    code: Vec<u8>,
    /// Where each line starts, and the end.
    places: Vec<u64>,
    distances: Vec<Distance>,
}

/// Four bytes of an instruction that say how far from its end something lies.
struct Distance {
    /// Where they are.
    at: u32,
    /// The end of the instruction.
    end: u64,
    refer: Refer,
    /// Whether the instruction goes there.
    branches: bool,
}

impl Encoded {
    /// Fills in the distances, where the constants start at `pool`; what lies outside is left to whoever puts the code somewhere.
    fn measure(&mut self, labels: &[Option<usize>], pool: u64) -> Result<Vec<ModuleReloc>> {
        let Encoded { code, places, distances } = self;
        let mut relocs = Vec::new();
        for distance in distances.iter() {
            let (at, ahead) = (distance.at as usize, distance.end - u64::from(distance.at));
            let field = code.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>);
            let field = field.ok_or_else(|| internal("a distance lies outside".to_owned()))?;
            let target = match distance.refer {
                Refer::Label(label) => {
                    let line = labels.get(label.0).copied().flatten();
                    let place = line.and_then(|line| places.get(line)).copied();
                    place.ok_or_else(|| internal("a label was put nowhere".to_owned()))?
                }
                Refer::Pool(offset) => pool + u64::from(offset),
                Refer::Symbol(symbol) => {
                    let kind = if distance.branches { Reloc::X86CallPCRel4 } else { Reloc::X86PCRel4 };
                    relocs.push(ModuleReloc {
                        offset: distance.at,
                        kind,
                        name: symbol.into(),
                        addend: -(ahead as i64),
                    });
                    // Formats without addends of their own keep them here, and add what is found.
                    *field = [0; 4];
                    continue;
                }
            };
            let bytes = i32::try_from(target as i64 - distance.end as i64);
            *field = bytes.map_err(|_| internal("a distance of more than 32 bits".to_owned()))?.to_le_bytes();
        }
        Ok(relocs)
    }
}

/// Encodes all lines. No length depends on a distance: all of them have 32 bits.
fn encode(lines: &mut [(Instruction, Option<Refer>)]) -> Result<Encoded> {
    let mut encoder = Encoder::new(64);
    let (mut places, mut distances) = (Vec::with_capacity(lines.len() + 1), Vec::new());
    let mut at = 0;
    for (instruction, refer) in lines {
        places.push(at);
        let branches = instruction.op0_kind() == OpKind::NearBranch64;
        match refer {
            Some(_) if branches => instruction.set_near_branch64(at),
            Some(_) => instruction.set_memory_displacement64(at),
            None => {}
        }
        let end = at + encoder.encode(instruction, at).map_err(|e| internal(e.to_string()))? as u64;
        if let Some(refer) = *refer {
            let offsets = encoder.get_constant_offsets();
            let (field, size) = if branches {
                (offsets.immediate_offset(), offsets.immediate_size())
            } else {
                (offsets.displacement_offset(), offsets.displacement_size())
            };
            if size != 4 {
                return Err(internal(format!("a distance has {size} bytes")));
            }
            distances.push(Distance { at: at as u32 + field as u32, end, refer, branches });
        }
        at = end;
    }
    places.push(at);
    Ok(Encoded { code: encoder.take_buffer(), places, distances })
}

/// Memory at `base + displacement`.
pub fn memory(base: Register, displacement: i64) -> MemoryOperand {
    indexed(base, Register::None, 1, displacement)
}

/// Memory at `base + index * scale + displacement`.
pub fn indexed(base: Register, index: Register, scale: u32, displacement: i64) -> MemoryOperand {
    MemoryOperand::new(base, index, scale, displacement, u32::from(displacement != 0), false, Register::None)
}

/// Memory that a [`Refer`] names.
pub fn there() -> MemoryOperand {
    MemoryOperand::new(Register::RIP, Register::None, 1, 0, 8, false, Register::None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cranelift_module::{DataId, FuncId};

    #[test]
    fn labels_constants_and_symbols_are_reached() {
        let mut a = Assembler::new();
        let end = a.label();
        a.branch(Code::Jmp_rel32_64, Refer::Label(end));
        a.branch(Code::Call_rel32_64, Refer::Symbol(FuncOrDataId::Func(FuncId::from_u32(3))));
        let word = a.constant(&7u32.to_le_bytes());
        a.put_at(Instruction::with2(Code::Mov_r32_rm32, Register::EAX, there()), word);
        a.put_at(
            Instruction::with2(Code::Cmp_rm32_imm8, there(), 1),
            Refer::Symbol(FuncOrDataId::Data(DataId::from_u32(5))),
        );
        a.bind(end);
        a.plain(Code::Retnq);
        let Assembled { code, relocs, .. } = a.finish().unwrap();
        // The jump of five bytes goes over the call, the load and the comparison.
        assert_eq!(code[..5], [0xe9, 18, 0, 0, 0]);
        assert_eq!(code[10..12], [0x8b, 0x05]);
        assert_eq!(i32::from_le_bytes(code[12..16].try_into().unwrap()), 64 - 16);
        assert_eq!(code[23], 0xc3);
        assert_eq!(code[64..], 7u32.to_le_bytes());
        assert!(relocs.iter().all(|r| code[r.offset as usize..][..4] == [0; 4]));
        let found: Vec<_> = relocs.iter().map(|r| (r.offset, r.kind, r.name.to_string(), r.addend)).collect();
        let want = [
            (6, Reloc::X86CallPCRel4, "u0:3".to_owned(), -4),
            // Behind the distance stands the number that is compared.
            (18, Reloc::X86PCRel4, "u1:5".to_owned(), -5),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn what_is_on_the_stack_is_followed() {
        use CallFrameInstruction::{CfaOffset, Offset, Restore};
        let mut a = Assembler::new();
        a.put(Instruction::with1(Code::Push_r64, Register::RBX));
        a.put(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, 32));
        let inside = a.frame();
        a.put(Instruction::with2(Code::Add_rm64_imm32, Register::RSP, 32));
        a.put(Instruction::with1(Code::Pop_r64, Register::RBX));
        a.plain(Code::Retnq);
        a.resume(inside.called());
        a.plain(Code::Retnq);
        let Unwind::Changes(changes) = a.finish().unwrap().unwind else { panic!("the assembler's own") };
        let rbx = gimli::X86_64::RBX;
        // push of one byte; sub and add of seven; pop and return of one each.
        let want = [
            (1, CfaOffset(16)),
            (1, Offset(rbx, -16)),
            (8, CfaOffset(48)),
            (15, CfaOffset(16)),
            (16, CfaOffset(8)),
            (16, Restore(rbx)),
            (17, CfaOffset(56)),
            (17, Offset(rbx, -16)),
        ];
        assert_eq!(changes, want);
        let numbers = [gimli::X86_64::RSI, gimli::X86_64::RBP, gimli::X86_64::R15];
        assert_eq!([Register::RSI, Register::RBP, Register::R15].map(dwarf), numbers);
    }

    #[test]
    fn a_label_that_was_put_nowhere_is_an_error() {
        let mut a = Assembler::new();
        let nowhere = a.label();
        a.branch(Code::Jmp_rel32_64, Refer::Label(nowhere));
        assert!(a.finish().is_err());
    }
}
