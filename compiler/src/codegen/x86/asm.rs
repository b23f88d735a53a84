//! Instructions in order, with labels, constants behind them, and what lies outside.

use crate::error::{Error, Result};
use crate::object::{CodeReloc, Target};
use cranelift_codegen::binemit::Reloc;
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
    Symbol(Target),
}

/// Machine code, its constants at the end, and what it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// The bytes.
    pub code: Vec<u8>,
    /// Places to be filled in.
    pub relocs: Vec<CodeReloc>,
}

/// Constants start on a line of so many bytes.
const POOL_ALIGNMENT: u64 = 64;

/// Collects the instructions of one function.
#[derive(Default)]
pub struct Assembler {
    lines: Vec<(Instruction, Option<Refer>)>,
    /// The line behind each label.
    labels: Vec<Option<usize>>,
    pool: Vec<u8>,
    fault: Option<String>,
}

impl Assembler {
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
            Ok(instruction) => self.lines.push((instruction, refer)),
            Err(e) => self.fault = Some(e.to_string()),
        }
    }

    /// The function.
    ///
    /// # Errors
    /// [`Error::Internal`] where the encoder refuses an instruction, or a label was put nowhere.
    pub fn finish(mut self) -> Result<Assembled> {
        if let Some(fault) = self.fault {
            return Err(Error::Internal(format!("an instruction cannot be encoded: {fault}")));
        }
        // Lengths do not depend on distances, all of which have 32 bits: the first round finds them, the second uses them.
        let places = vec![0; self.lines.len() + 1];
        let (_, places, _) = encode(&mut self.lines, &self.labels, &places, 0)?;
        let end = places.last().copied().unwrap_or(0);
        let pool = if self.pool.is_empty() { end } else { end.next_multiple_of(POOL_ALIGNMENT) };
        let (mut code, again, relocs) = encode(&mut self.lines, &self.labels, &places, pool)?;
        if places != again {
            return Err(Error::Internal("the length of an instruction depends on a distance".to_owned()));
        }
        // Behind the last instruction lies what nobody runs.
        code.resize(pool as usize, 0xcc);
        code.extend_from_slice(&self.pool);
        Ok(Assembled { code, relocs })
    }
}

/// Encodes all lines; the bytes, where each line starts, with the end, and what lies outside.
fn encode(
    lines: &mut [(Instruction, Option<Refer>)],
    labels: &[Option<usize>],
    places: &[u64],
    pool: u64,
) -> Result<(Vec<u8>, Vec<u64>, Vec<CodeReloc>)> {
    let internal = |what: String| Error::Internal(format!("an instruction cannot be encoded: {what}"));
    let mut encoder = Encoder::new(64);
    let (mut found, mut relocs) = (Vec::with_capacity(places.len()), Vec::new());
    let mut at = 0;
    for (instruction, refer) in lines {
        found.push(at);
        let target = match refer {
            None => None,
            Some(Refer::Label(label)) => {
                let line = labels.get(label.0).copied().flatten();
                let place = line.and_then(|line| places.get(line)).copied();
                Some(place.ok_or_else(|| internal("a label was put nowhere".to_owned()))?)
            }
            Some(Refer::Pool(offset)) => Some(pool + u64::from(*offset)),
            Some(Refer::Symbol(_)) => Some(at),
        };
        let branches = instruction.op0_kind() == OpKind::NearBranch64;
        match target {
            Some(target) if branches => instruction.set_near_branch64(target),
            Some(target) => instruction.set_memory_displacement64(target),
            None => {}
        }
        let length = encoder.encode(instruction, at).map_err(|e| internal(e.to_string()))?;
        if let Some(Refer::Symbol(target)) = refer {
            let offsets = encoder.get_constant_offsets();
            let field = if branches { offsets.immediate_offset() } else { offsets.displacement_offset() };
            let kind = if branches { Reloc::X86CallPCRel4 } else { Reloc::X86PCRel4 };
            let (offset, addend) = (at as u32 + field as u32, field as i64 - length as i64);
            relocs.push(CodeReloc { offset, kind, target: *target, addend });
        }
        at += length as u64;
    }
    found.push(at);
    Ok((encoder.take_buffer(), found, relocs))
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

    #[test]
    fn labels_constants_and_symbols_are_reached() {
        let mut a = Assembler::default();
        let end = a.label();
        a.branch(Code::Jmp_rel32_64, Refer::Label(end));
        a.branch(Code::Call_rel32_64, Refer::Symbol(Target::Function(3)));
        let word = a.constant(&7u32.to_le_bytes());
        a.put_at(Instruction::with2(Code::Mov_r32_rm32, Register::EAX, there()), word);
        a.put_at(Instruction::with2(Code::Cmp_rm32_imm8, there(), 1), Refer::Symbol(Target::Data(5)));
        a.bind(end);
        a.plain(Code::Retnq);
        let Assembled { code, relocs } = a.finish().unwrap();
        // The jump of five bytes goes over the call, the load and the comparison.
        assert_eq!(code[..5], [0xe9, 18, 0, 0, 0]);
        assert_eq!(code[10..12], [0x8b, 0x05]);
        assert_eq!(i32::from_le_bytes(code[12..16].try_into().unwrap()), 64 - 16);
        assert_eq!(code[23], 0xc3);
        assert_eq!(code[64..], 7u32.to_le_bytes());
        let reloc = |offset, kind, target, addend| CodeReloc { offset, kind, target, addend };
        let want = [
            reloc(6, Reloc::X86CallPCRel4, Target::Function(3), -4),
            // Behind the distance stands the number that is compared.
            reloc(18, Reloc::X86PCRel4, Target::Data(5), -5),
        ];
        assert_eq!(relocs, want);
    }

    #[test]
    fn a_label_that_was_put_nowhere_is_an_error() {
        let mut a = Assembler::default();
        let nowhere = a.label();
        a.branch(Code::Jmp_rel32_64, Refer::Label(nowhere));
        assert!(a.finish().is_err());
    }
}
