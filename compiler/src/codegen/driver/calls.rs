//! Calls in the driver: library services, functions outside the object, the random state.
//!
//! A service's function is loaded from the context, whose slots the driver checks once, at its start; its status ends
//! the run where it is not 0. The words of a call are constant data, its buffers a table on the stack. A custom call of
//! the plain form is a direct call with tables of pointers on the stack and needs no context; only where a context offers
//! the service for custom calls does it go there, for closures have no address.

use super::Driver;
use super::parts::Counter;
use crate::codegen::clif::{host_signature, table_of};
use crate::codegen::lanes::flags;
use crate::error::{Error, Result};
use crate::kernel::ir::{Callee, HostCall, Phase};
use crate::memory::schedule::{KernelId, Schedule};
use crate::object::Numbered;
use brolga_runtime::Shape;
use brolga_runtime::abi::{Context, CustomCallAbi, CustomCallInfo, Service, Services, Status};
use brolga_runtime::custom_call::Description;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    ExtFuncData, ExternalName, FuncRef, InstBuilder, StackSlotData, StackSlotKind, Value, types,
};
use hashbrown::HashMap;

/// Instructions that a service of the runtime executes, at least about.
const SERVICE: i64 = 1 << 12;

/// What the calls of a schedule need.
#[derive(Default)]
pub struct Calls {
    /// The words of each call.
    pub words: Vec<Vec<i64>>,
    /// Which words belong to a kernel.
    words_of: HashMap<KernelId, usize>,
    /// The library services.
    pub services: Services,
    /// Functions outside the object, each symbol once.
    pub functions: Vec<CustomCallInfo>,
    /// Whether there is a random state.
    pub random: bool,
}

impl Calls {
    /// Looks at every kernel.
    pub fn of(schedule: &Schedule) -> Calls {
        let mut calls = Calls::default();
        for (k, kernel) in schedule.kernels.iter() {
            for phase in &kernel.phases {
                match phase {
                    Phase::RandomState { .. } => calls.random = true,
                    Phase::Call(call) => calls.add(k, call, kernel.line),
                    _ => {}
                }
            }
        }
        calls
    }

    fn add(&mut self, kernel: KernelId, call: &HostCall, line: u32) {
        let service = match &call.callee {
            Callee::Service(service) => Some(*service),
            Callee::Function { symbol, abi } => {
                if !self.functions.iter().any(|f| f.symbol == *symbol) {
                    self.functions.push(CustomCallInfo { symbol: symbol.clone(), abi: *abi, line });
                }
                (*abi != CustomCallAbi::Original).then_some(Service::CustomCall)
            }
        };
        if let Some(service) = service {
            self.services = self.services.union(service.set());
        }
        self.words_of.insert(kernel, self.words.len());
        self.words.push(call.words.clone());
    }
}

/// What a custom call's words say.
fn description(call: &HostCall) -> Result<Description> {
    let attributes = call.words.get(1).and_then(|&n| call.words.get(2..2usize.checked_add(usize::try_from(n).ok()?)?));
    attributes
        .and_then(Description::decode)
        .ok_or_else(|| Error::Internal("the words of a custom call do not describe it".to_owned()))
}

impl Driver<'_, '_, '_> {
    /// Refuses a context that lacks a needed service, and starts the random state.
    pub(super) fn prologue(&mut self) {
        let services = Service::ALL.iter().copied().filter(|s| self.around.shared.calls.services.contains(s.set()));
        let mut needed: Vec<i32> = services.map(Context::offset_of).collect();
        if !needed.is_empty() {
            let present = self.b.ins().icmp_imm_u(IntCC::NotEqual, self.context, 0);
            self.require(present);
        }
        for offset in needed.drain(..) {
            let function = self.b.ins().load(types::I64, flags(), self.context, offset);
            let present = self.b.ins().icmp_imm_u(IntCC::NotEqual, function, 0);
            self.require(present);
        }
        if self.around.shared.calls.random {
            let slot = self.b.create_sized_stack_slot(StackSlotData::new(
                StackSlotKind::ExplicitSlot,
                size_of::<u64>() as u32,
                3,
            ));
            let zero = self.b.ins().iconst(types::I64, 0);
            self.b.ins().stack_store(types::I64, zero, slot, 0);
            self.counter = Some(Counter::Slot(slot));
        }
    }

    /// Ends the run with [`Status::MissingService`] where `present` is false.
    fn require(&mut self, present: Value) {
        let status = self.b.ins().iconst(types::I32, i64::from(Status::MissingService.code()));
        self.return_unless(present, status);
    }

    pub(super) fn return_unless(&mut self, fine: Value, status: Value) {
        let (failed, next) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(failed);
        self.b.ins().brif(fine, next, &[], failed, &[]);
        self.b.switch_to_block(failed);
        self.b.seal_block(failed);
        self.b.ins().return_(&[status]);
        self.b.switch_to_block(next);
        self.b.seal_block(next);
    }

    /// Emits a call; a status that is not 0 ends the run.
    pub(super) fn call(&mut self, kernel: KernelId, call: &HostCall, buffers: &[Value]) -> Result<()> {
        match &call.callee {
            Callee::Service(service) => {
                let null = self.b.ins().iconst(types::I64, 0);
                self.service(kernel, *service, null, buffers)
            }
            Callee::Function { symbol, abi } => {
                let description = description(call)?;
                let buffers = self.share(&description, buffers);
                if *abi == CustomCallAbi::Original {
                    return self.plain_call(kernel, symbol, &description, &buffers);
                }
                let function = self.import(symbol, 0, false)?;
                let function = self.b.ins().func_addr(types::I64, function);
                self.service(kernel, Service::CustomCall, function, &buffers)
            }
        }
    }

    fn service(&mut self, kernel: KernelId, service: Service, function: Value, buffers: &[Value]) -> Result<()> {
        let callee = self.b.ins().load(types::I64, flags(), self.context, Context::offset_of(service));
        self.service_at(kernel, callee, function, buffers)
    }

    fn service_at(&mut self, kernel: KernelId, callee: Value, function: Value, buffers: &[Value]) -> Result<()> {
        self.executed.add_called(1, SERVICE);
        let table = table_of(&mut self.b, buffers);
        let shared = self.around.shared;
        let words = shared.calls.words_of.get(&kernel).and_then(|&n| shared.words.get(n)).copied();
        let words = self.data(words.ok_or_else(|| Error::Internal(format!("{kernel} has no words")))?);
        let signature = self.b.func.import_signature(host_signature(4, true, self.around.target));
        let inst = self.b.ins().call_indirect(signature, callee, &[self.context, words, table, function]);
        let status = self.b.inst_results(inst)[0];
        let fine = self.b.ins().icmp_imm_s(IntCC::Equal, status, 0);
        self.return_unless(fine, status);
        Ok(())
    }

    /// A result that has an operand's buffer starts as a copy of it, and the function gets one pointer for both.
    fn share(&mut self, description: &Description, buffers: &[Value]) -> Vec<Value> {
        let operands = description.operand_arrays();
        let mut out = buffers.to_vec();
        for alias in &description.aliases {
            let result = operands.len() + alias.result;
            let (Some(&from), Some(&to)) = (buffers.get(alias.operand), buffers.get(result)) else { continue };
            let bytes = operands.get(alias.operand).map_or(0, |s| s.byte_size() as u64);
            let (apart, after) = (self.b.create_block(), self.b.create_block());
            let same = self.b.ins().icmp(IntCC::Equal, from, to);
            self.b.ins().brif(same, after, &[], apart, &[]);
            self.b.switch_to_block(apart);
            self.b.seal_block(apart);
            self.copy_bytes(from, to, bytes);
            self.b.ins().jump(after, &[]);
            self.b.switch_to_block(after);
            self.b.seal_block(after);
            if let Some(shared) = out.get_mut(alias.operand) {
                *shared = to;
            }
        }
        out
    }

    /// A call of the plain form: the function itself, unless the context offers the service for custom calls. A
    /// loader whose registry has closures puts it there; a closure has no address that could be called.
    fn plain_call(&mut self, kernel: KernelId, symbol: &str, d: &Description, buffers: &[Value]) -> Result<()> {
        let [given, offered, direct, after] = [(); 4].map(|()| self.b.create_block());
        self.b.append_block_param(offered, types::I64);
        self.b.ins().brif(self.context, given, &[], direct, &[]);
        self.b.switch_to_block(given);
        self.b.seal_block(given);
        let slot = Context::offset_of(Service::CustomCall);
        let service = self.b.ins().load(types::I64, flags(), self.context, slot);
        self.b.ins().brif(service, offered, &[service.into()], direct, &[]);
        self.b.switch_to_block(offered);
        self.b.seal_block(offered);
        let service = self.b.block_params(offered)[0];
        let function = self.import(symbol, 2, false)?;
        let address = self.b.ins().func_addr(types::I64, function);
        self.service_at(kernel, service, address, buffers)?;
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(direct);
        self.b.seal_block(direct);
        let mut leaves = buffers.iter().copied();
        let operands: Vec<Value> = d.operands.iter().map(|s| self.tuple_table(s, &mut leaves)).collect();
        let out = self.tuple_table(&d.result, &mut leaves);
        let operands = table_of(&mut self.b, &operands);
        self.b.ins().call(function, &[out, operands]);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
        Ok(())
    }

    /// XLA's form of a value: the pointer of an array, or a table of the elements' pointers; null for a token.
    fn tuple_table(&mut self, shape: &Shape, leaves: &mut dyn Iterator<Item = Value>) -> Value {
        match shape {
            Shape::Tuple(elements) => {
                let pointers: Vec<Value> = elements.iter().map(|e| self.tuple_table(e, leaves)).collect();
                table_of(&mut self.b, &pointers)
            }
            Shape::Array(_) | Shape::Buffer(_) => match leaves.next() {
                Some(leaf) => leaf,
                None => self.b.ins().iconst(types::I64, 0),
            },
            Shape::Token | Shape::Opaque => self.b.ins().iconst(types::I64, 0),
        }
    }

    /// A reference to a function outside the object.
    fn import(&mut self, symbol: &str, parameters: usize, returns: bool) -> Result<FuncRef> {
        let index = self.around.shared.calls.functions.iter().position(|f| f.symbol == symbol);
        let id = index.and_then(|index| self.around.shared.imports.get(index)).copied();
        let id = id.ok_or_else(|| Error::Internal(format!("'{symbol}' was never declared")))?;
        let name = ExternalName::user(self.b.func.declare_imported_user_function(id.external_name()));
        let signature = self.b.func.import_signature(host_signature(parameters, returns, self.around.target));
        let colocated = self.around.target.branches_to_imports();
        Ok(self.b.func.import_function(ExtFuncData { name, signature, colocated, patchable: false }))
    }

    /// Writes the random state and advances it. Without a context the seed is 0.
    pub(super) fn random_state(&mut self, delta: u64, buffers: &[Value]) {
        let (Some(counter), Some(&out)) = (self.counter, buffers.first()) else { return };
        let (given, after) = (self.b.create_block(), self.b.create_block());
        self.b.append_block_param(after, types::I64);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().brif(self.context, given, &[], after, &[zero.into()]);
        self.b.switch_to_block(given);
        self.b.seal_block(given);
        let seed = self.b.ins().load(types::I64, flags(), self.context, Context::OFFSET_RANDOM_SEED);
        self.b.ins().jump(after, &[seed.into()]);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
        let seed = self.b.block_params(after)[0];
        let state = self.counter_address(counter);
        let counter = self.b.ins().load(types::I64, flags(), state, 0);
        self.b.ins().store(flags(), seed, out, 0);
        self.b.ins().store(flags(), counter, out, 8);
        let delta = self.b.ins().iconst(types::I64, delta as i64);
        let next = self.b.ins().iadd(counter, delta);
        self.b.ins().store(flags(), next, state, 0);
    }
}
