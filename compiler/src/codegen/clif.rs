//! What every function that calls others is made with: signatures, references, tables and copies.

use super::flow::Flow;
use super::lanes::flags;
use super::target::Target;
use crate::object::Numbered;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, GlobalValueData, InstBuilder, SigRef, Signature,
    StackSlotData, StackSlotKind, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{DataId, FuncId};

/// The signature of a function of the program's own: so many pointers and numbers, and a status where it `returns` one.
pub(super) fn signature(parameters: usize, returns: bool) -> Signature {
    let mut s = Signature::new(CallConv::SystemV);
    s.params = vec![AbiParam::new(types::I64); parameters];
    if returns {
        s.returns = vec![status()];
    }
    s
}

/// The signature of a function that the host calls or lends, otherwise as [`signature`].
pub(super) fn host_signature(parameters: usize, returns: bool, target: &Target) -> Signature {
    Signature { call_conv: target.host_convention(), ..signature(parameters, returns) }
}

/// How a status is returned: widened by its sign, as some architectures ask of numbers of 32 bits.
pub(super) fn status() -> AbiParam {
    AbiParam::new(types::I32).sext()
}

/// A reference to another function of the program.
pub(super) fn import_function(func: &mut Function, id: FuncId, signature: SigRef) -> FuncRef {
    let name = ExternalName::user(func.declare_imported_user_function(id.external_name()));
    func.import_function(ExtFuncData { name, signature, colocated: true, patchable: false })
}

/// The address of the program's data.
pub(super) fn data_address(b: &mut FunctionBuilder<'_>, id: DataId) -> Value {
    let name = ExternalName::user(b.func.declare_imported_user_function(id.external_name()));
    let symbol = GlobalValueData::Symbol { name, offset: 0.into(), colocated: true, tls: false };
    let symbol = b.func.create_global_value(symbol);
    b.ins().symbol_value(types::I64, symbol)
}

/// Pointers in a table on the stack.
pub(super) fn table_of(b: &mut FunctionBuilder<'_>, pointers: &[Value]) -> Value {
    let table = table_for(b, pointers.len());
    for (i, &p) in pointers.iter().enumerate() {
        enter_in(b, table, i, p);
    }
    table
}

/// A table for so many pointers on the stack.
pub(super) fn table_for(b: &mut FunctionBuilder<'_>, pointers: usize) -> Value {
    let size = 8 * pointers.max(1) as u32;
    let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3));
    b.ins().stack_addr(types::I64, slot, 0)
}

/// Enters a pointer in a table.
pub(super) fn enter_in(b: &mut FunctionBuilder<'_>, table: Value, place: usize, pointer: Value) {
    b.ins().store(flags(), pointer, table, 8 * place as i32);
}

/// Copies bytes: short runs straight, long ones in a loop of 64 bytes.
pub(super) fn copy(b: &mut FunctionBuilder<'_>, from: Value, to: Value, bytes: u64) {
    const STEP: u64 = 64;
    let f = flags();
    let whole = if bytes > 4 * STEP { bytes / STEP * STEP } else { 0 };
    if whole > 0 {
        let (head, after) = (b.create_block(), b.create_block());
        let i = b.declare_var(types::I64);
        let zero = b.ins().iconst(types::I64, 0);
        b.def_var(i, zero);
        b.ins().jump(head, &[]);
        b.switch_to_block(head);
        let now = b.use_var(i);
        let (source, target) = (b.ins().iadd(from, now), b.ins().iadd(to, now));
        let words: Vec<Value> = (0..8).map(|k| b.ins().load(types::I64, f, source, 8 * k)).collect();
        for (k, w) in words.into_iter().enumerate() {
            b.ins().store(f, w, target, 8 * k as i32);
        }
        let next = b.ins().iadd_imm_s(now, STEP as i64);
        b.def_var(i, next);
        let more = b.ins().icmp_imm_u(IntCC::UnsignedLessThan, next, whole as i64);
        b.ins().brif(more, head, &[], after, &[]);
        b.seal_block(head);
        b.switch_to_block(after);
        b.seal_block(after);
    }
    let (from, to) = (b.behind(from, whole as i64), b.behind(to, whole as i64));
    let mut at = 0;
    let rest = bytes - whole;
    for (ty, size) in [(types::I64, 8), (types::I32, 4), (types::I16, 2), (types::I8, 1)] {
        while rest - at >= size {
            let v = b.ins().load(ty, f, from, at as i32);
            b.ins().store(f, v, to, at as i32);
            at += size;
        }
    }
}
