//! The walk over a computation, and what every operation may ask of its surroundings.
//!
//! Invariant: what is needed runs, in order, and a value lives from its instruction to its last use. Algorithm: for each
//! computation, once, it is worked out what runs and which values die at each position ([`Plan`]); the walk takes
//! operands that die out of the environment, so that an operation holding the only reference may work in place.

use super::code::Code;
use super::plan::{Effects, Plan};
use super::value::Value;
use super::{control, invalid, movement, op, room, to_result_precision, unsupported};
use crate::hlo::{AttrKey, Computation, ComputationId, Instruction, InstructionId, Module, Opcode};
use crate::{Error, Result, Site};
use brolga_runtime::{Literal, Shape};
use cranelift_entity::SecondaryMap;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// How deep calls may nest. Each level costs Rust stack, of which a thread may have as little as 2 MiB.
pub const MAX_CALL_DEPTH: usize = 128;

/// The largest value the interpreter will make, in bytes.
pub const MAX_VALUE_BYTES: usize = 1 << 33;

/// What a caller may choose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The key of what `rng` and `rng-get-and-update-state` draw.
    pub seed: u64,
    /// How many instructions may run before the program is given up; `None` for no limit.
    pub fuel: Option<u64>,
    /// How long one of several devices may wait for the others; `None` for as long as they compute.
    pub timeout: Option<Duration>,
}

/// What a program may ask of the world around it. Every method has a default that refuses or stands alone.
pub trait Host {
    /// Answers a custom call that is not one of the interpreter's own.
    fn custom_call(&mut self, inst: &Instruction, _operands: &[&Literal]) -> Result<Literal> {
        let target = inst.attrs.str(AttrKey::CustomCallTarget).unwrap_or_default();
        Err(unsupported(inst, format!("custom call target '{target}' in the interpreter")))
    }

    /// This device's replica number.
    fn replica_id(&self) -> u32 {
        0
    }

    /// This device's partition number.
    fn partition_id(&self) -> u32 {
        0
    }

    /// Runs a collective among several devices; `None` where this device is alone.
    fn collective(&mut self, _inst: &Instruction, _operands: &[&Literal]) -> Option<Result<Literal>> {
        None
    }

    /// The next value of an infeed; its shape is the first element of the instruction's.
    fn infeed(&mut self, inst: &Instruction) -> Result<Literal> {
        Err(unsupported(inst, "infeed without a host"))
    }

    /// Takes the value of an outfeed.
    fn outfeed(&mut self, inst: &Instruction, _value: &Literal) -> Result<()> {
        Err(unsupported(inst, "outfeed without a host"))
    }

    /// Takes a value sent over a channel.
    fn send(&mut self, inst: &Instruction, _value: &Literal) -> Result<()> {
        Err(unsupported(inst, "send without a host"))
    }

    /// A `recv` begins: the number that its context carries to its `recv-done`.
    fn begin_recv(&mut self, _inst: &Instruction) -> Result<u32> {
        Ok(0)
    }

    /// The value received over a channel, asked for by `recv-done` with the number that [`Host::begin_recv`] gave; its
    /// shape is the first element of the instruction's.
    fn recv(&mut self, inst: &Instruction, _request: u32) -> Result<Literal> {
        Err(unsupported(inst, "recv without a host"))
    }
}

/// The host that refuses everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}

/// What an operation sees besides its operands.
pub(super) struct Context<'a> {
    /// The program.
    pub(super) module: &'a Module,
    /// The state of `rng` and `rng-get-and-update-state`: seed and counter.
    rng: Cell<[u64; 2]>,
    host: RefCell<&'a mut dyn Host>,
    depth: Cell<usize>,
    fuel: Cell<u64>,
    current: Cell<Option<ComputationId>>,
    plans: RefCell<SecondaryMap<ComputationId, Option<Rc<Plan>>>>,
    effects: RefCell<Effects>,
    regions: RefCell<HashMap<ComputationId, Rc<Code>>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(module: &'a Module, options: &Options, host: &'a mut dyn Host) -> Context<'a> {
        Context {
            module,
            rng: Cell::new([options.seed, 0]),
            host: RefCell::new(host),
            depth: Cell::new(0),
            fuel: Cell::new(options.fuel.unwrap_or(u64::MAX)),
            current: Cell::new(None),
            plans: RefCell::default(),
            effects: RefCell::default(),
            regions: RefCell::default(),
        }
    }

    /// Calls a computation.
    pub(super) fn call(&self, computation: ComputationId, args: Vec<Literal>) -> Result<Literal> {
        Ok(self.run(computation, args.into_iter().map(Value::from).collect())?.into_literal())
    }

    /// A reducer or comparator in the form to be evaluated on scalars.
    pub(super) fn code(&self, computation: ComputationId) -> Rc<Code> {
        let code = self.regions.borrow().get(&computation).cloned();
        code.unwrap_or_else(|| {
            let code = Rc::new(Code::new(self.module, computation));
            self.regions.borrow_mut().insert(computation, code.clone());
            code
        })
    }

    /// The declared shape of an operand, layout included, while its computation runs.
    pub(super) fn operand_shape(&self, inst: &Instruction, index: usize) -> Option<&'a Shape> {
        let computation = &self.module.computations[self.current.get()?];
        Some(&computation.instructions.get(*inst.operands.get(index)?)?.shape)
    }

    /// The seed and the counter of random numbers, of which the counter then moves on.
    pub(super) fn random_state(&self, delta: u64) -> [u64; 2] {
        let [seed, counter] = self.rng.get();
        self.rng.set([seed, counter.wrapping_add(delta)]);
        [seed, counter]
    }

    /// Counts instructions that run.
    pub(super) fn spend(&self, inst: &Instruction, instructions: u64) -> Result<()> {
        let fuel = self.fuel.get().checked_sub(instructions);
        self.fuel.set(fuel.ok_or_else(|| unsupported(inst, "a program that runs this long"))?);
        Ok(())
    }

    /// Asks the host.
    pub(super) fn with_host<T>(&self, inst: &Instruction, ask: impl FnOnce(&mut dyn Host) -> Result<T>) -> Result<T> {
        match self.host.try_borrow_mut() {
            Ok(mut host) => ask(&mut **host),
            Err(_) => Err(unsupported(inst, "a host that calls back into the program it serves")),
        }
    }

    /// Runs a computation.
    pub(super) fn run(&self, id: ComputationId, args: Vec<Value>) -> Result<Value> {
        let computation = &self.module.computations[id];
        if self.depth.get() >= MAX_CALL_DEPTH {
            let site = Site { instruction: None, location: computation.location, length: 0 };
            let feature = format!("calls nested deeper than {MAX_CALL_DEPTH}, at computation '{}'", computation.name);
            return Err(Error::Unsupported { site, feature });
        }
        self.depth.set(self.depth.get() + 1);
        let caller = self.current.replace(Some(id));
        let result = self.walk(computation, id, args);
        self.current.set(caller);
        self.depth.set(self.depth.get() - 1);
        result
    }

    fn walk(&self, computation: &Computation, id: ComputationId, args: Vec<Value>) -> Result<Value> {
        let plan = || Rc::new(Plan::new(self.module, computation, &mut self.effects.borrow_mut()));
        let plan = self.plans.borrow_mut()[id].get_or_insert_with(plan).clone();
        let mut values: Vec<Option<Value>> = vec![None; computation.instructions.len()];
        let mut args: Vec<Option<Value>> = args.into_iter().map(Some).collect();
        for ((&id, dying), &take) in plan.order.iter().zip(&plan.dying).zip(&plan.taking) {
            let inst = &computation.instructions[id];
            let value = match inst.opcode {
                Opcode::Parameter => inst
                    .parameter_number()
                    .and_then(|n| args.get_mut(n)?.take())
                    .ok_or_else(|| invalid(inst, "no argument for this parameter"))?,
                Opcode::GetTupleElement => element(inst, &mut values, take)?,
                _ => self.step(inst, &mut values, dying)?,
            };
            values[id.as_u32() as usize] = Some(value);
            for dead in dying {
                values[dead.as_u32() as usize] = None;
            }
        }
        values
            .get_mut(computation.root.as_u32() as usize)
            .and_then(Option::take)
            .ok_or_else(|| Error::Internal(format!("computation '{}' has no root value", computation.name)))
    }

    fn step(&self, inst: &Instruction, values: &mut [Option<Value>], dying: &[InstructionId]) -> Result<Value> {
        self.spend(inst, 1)?;
        // The last mention of an operand that dies here takes it, so that it may be the only reference.
        let mut operands = Vec::with_capacity(inst.operands.len());
        for (i, operand) in inst.operands.iter().enumerate() {
            let slot = values.get_mut(operand.as_u32() as usize);
            let last = dying.contains(operand) && !inst.operands[i + 1..].contains(operand);
            let value = slot.and_then(|slot| if last { slot.take() } else { slot.clone() });
            operands.push(value.ok_or_else(|| invalid(inst, format!("operand {i} has no value yet")))?);
        }
        if control::handles(inst.opcode) {
            return control::step(self, inst, operands);
        }
        if inst.opcode == Opcode::DynamicUpdateSlice {
            return update(inst, operands);
        }
        let shared: Vec<_> = operands.iter().map(Value::to_shared).collect();
        let operands: Vec<&Literal> = shared.iter().map(|l| &**l).collect();
        op(self, inst, &operands).map(Value::from)
    }
}

/// `get-tuple-element`, by moving the element out where nobody else will ask for it.
fn element(inst: &Instruction, values: &mut [Option<Value>], take: bool) -> Result<Value> {
    let index = inst.element_number();
    let tuple = inst.operands.first().and_then(|o| values.get_mut(o.as_u32() as usize)?.as_mut());
    match (tuple, index) {
        (Some(Value::Tuple(elements)), Some(index)) => elements
            .get_mut(index)
            .map(|element| if take { std::mem::replace(element, Value::token()) } else { element.clone() })
            .ok_or_else(|| invalid(inst, format!("no element {index}"))),
        _ => Err(invalid(inst, "expected a tuple")),
    }
}

/// `dynamic-update-slice`, in place where nobody else holds the array.
fn update(inst: &Instruction, mut operands: Vec<Value>) -> Result<Value> {
    if operands.len() < 2 {
        return Err(invalid(inst, "an operand is missing"));
    }
    let rest: Vec<_> = operands.drain(1..).map(|v| v.to_shared()).collect();
    room(inst, &[])?;
    let mut rest: Vec<&Literal> = rest.iter().map(|l| &**l).collect();
    let converted = to_result_precision(inst, rest[0]);
    rest[0] = converted.as_ref().unwrap_or(rest[0]);
    let operand = operands.remove(0).into_literal();
    match to_result_precision(inst, &operand).unwrap_or(operand) {
        Literal::Array(array) => movement::update_in_place(inst, array, &rest).map(Value::from),
        _ => Err(invalid(inst, "operand 0 must be an array")),
    }
}
