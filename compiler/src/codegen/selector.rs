//! The function that chooses among the sizes of one program: `NAME_select`.

use super::attribution::Attribution;
use super::clif::{data_address, host_signature, import_function};
use super::effort::Effort;
use super::flow::enter;
use super::lanes::flags;
use super::machine::machine_code;
use super::target::Target;
use crate::error::Result;
use crate::object::{Numbered, ObjectInput};
use cranelift_codegen::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId};

/// `fn(sizes: *const i64, descriptor: *mut *const u8) -> entry`: the entry compiled for the `sizes`, null where there is
/// none; where `descriptor` is not null, it gets the entry's. `entries` are the functions for each of `sizes` and their
/// descriptors. The selector is added to the object.
///
/// # Errors
/// [`crate::Error::Internal`] where Cranelift refuses the function.
pub fn selector(
    object: &mut ObjectInput,
    symbol: &str,
    sizes: &[Vec<i64>],
    entries: &[(FuncId, DataId)],
    target: &Target,
) -> Result<()> {
    let mut own = Signature::new(target.host_convention());
    own.params = vec![AbiParam::new(types::I64); 2];
    own.returns = vec![AbiParam::new(types::I64)];
    let id = object.function(symbol, true, &own)?;
    let mut function = Function::with_name_signature(UserFuncName::User(id.external_name()), own);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let values = enter(&mut b);
    let (given, out) = (values[0], values[1]);
    let count = sizes.iter().map(Vec::len).max().unwrap_or(0);
    let given: Vec<_> = (0..count).map(|i| b.ins().load(types::I64, flags(), given, 8 * i as i32)).collect();
    for (sizes, &(entry, descriptor)) in sizes.iter().zip(entries) {
        let (found, tell, done, next) = (b.create_block(), b.create_block(), b.create_block(), b.create_block());
        for (&have, &want) in given.iter().zip(sizes) {
            let matched = b.create_block();
            let want = b.ins().iconst(types::I64, want);
            let equal = b.ins().icmp(IntCC::Equal, have, want);
            b.ins().brif(equal, matched, &[], next, &[]);
            b.switch_to_block(matched);
        }
        b.ins().jump(found, &[]);
        b.switch_to_block(found);
        b.ins().brif(out, tell, &[], done, &[]);
        b.switch_to_block(tell);
        let descriptor = data_address(&mut b, descriptor);
        b.ins().store(flags(), descriptor, out, 0);
        b.ins().jump(done, &[]);
        b.switch_to_block(done);
        let of_entry = b.func.import_signature(host_signature(4, true, target));
        let entry = import_function(b.func, entry, of_entry);
        let entry = b.ins().func_addr(types::I64, entry);
        b.ins().return_(&[entry]);
        b.switch_to_block(next);
    }
    let none = b.ins().iconst(types::I64, 0);
    b.ins().return_(&[none]);
    b.seal_all_blocks();
    b.finalize(target.isa.frontend_config());
    let code =
        machine_code((id, Attribution::default()), symbol, function, (target, Effort::Full), &mut Context::new())?;
    object.define(id, code)
}
