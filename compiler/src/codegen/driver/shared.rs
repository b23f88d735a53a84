//! What the levels of a program share: its calls, its constants and their numbers in the object.

use super::Calls;
use crate::codegen::target::Target;
use crate::error::Result;
use crate::memory::schedule::{ConstantId, Schedule};
use crate::object::{ObjectInput, bytes};
use cranelift_entity::PrimaryMap;
use cranelift_module::{DataId, FuncId};

/// Constants begin on a cache line.
const CONSTANT_ALIGNMENT: u64 = 64;

/// The data of a program and the functions outside that it calls, declared once for all levels.
pub struct Shared {
    /// The program's name, which those of its data follow.
    pub symbol: String,
    /// What the calls need.
    pub calls: Calls,
    /// The schedule's constants.
    pub constants: PrimaryMap<ConstantId, DataId>,
    /// The words of each call.
    pub words: Vec<DataId>,
    /// The functions outside the object, in the order of the calls' list.
    pub imports: Vec<FuncId>,
}

impl Shared {
    /// Declares and defines them in the object, in the order of bytes that the target has.
    ///
    /// # Errors
    /// Where a custom call has the name of something else in the object.
    pub fn declare(symbol: &str, schedule: &Schedule, target: &Target, object: &mut ObjectInput) -> Result<Shared> {
        let calls = Calls::of(schedule);
        let mut constants = PrimaryMap::with_capacity(schedule.constants.len());
        for (c, array) in schedule.constants.iter() {
            let mut elements = array.bytes().to_vec();
            target.order_bytes(&mut elements, array.ty().real_part().byte_size());
            let contents = bytes(CONSTANT_ALIGNMENT, elements);
            constants.push(object.datum(&format!("{symbol}.constant.{}", c.as_u32()), false, contents)?);
        }
        let mut words = Vec::with_capacity(calls.words.len());
        for (i, list) in calls.words.iter().enumerate() {
            let mut list: Vec<u8> = list.iter().flat_map(|w| w.to_le_bytes()).collect();
            target.order_bytes(&mut list, 8);
            let contents = bytes(8, list);
            words.push(object.datum(&format!("{symbol}.call.{i}"), false, contents)?);
        }
        let imports = calls.functions.iter().map(|f| object.import(&f.symbol)).collect::<Result<_>>()?;
        Ok(Shared { symbol: symbol.to_owned(), calls, constants, words, imports })
    }
}
