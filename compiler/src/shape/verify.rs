//! The verifier: a module that it accepts keeps every invariant that later rooms rely on.
//!
//! Computations are checked callees first or not at all: recursion is found by an iterative search over the call graph
//! before any rule looks at a called signature. Within a computation, instructions are checked in order, so that the
//! first fault in the source is the one that is named.

use super::indexing::check_batches;
use super::padding::verify_padding;
use super::rule::compatible;
use super::{InferContext, RuleError, check_shape, infer, pairs, verify_feeds};
use crate::error::{Error, Result, Site};
use crate::hlo::{
    AttrKey, AttrValue, Computation, ComputationId, Instruction, InstructionId, Module, Opcode, SourceLocation,
};
use brolga_runtime::{ElementType, Shape};
use cranelift_entity::SecondaryMap;
use hashbrown::HashSet;

/// Checks a whole module.
pub fn verify(module: &Module) -> Result<()> {
    verify_module(module, false)
}

/// Checks a module that is read and not run: as [`verify`], but calls, fusions and asynchronous calls need not agree
/// with the signature of what they call. XLA's reader accepts such modules, and tools that edit modules write them on the way.
pub fn verify_open(module: &Module) -> Result<()> {
    verify_module(module, true)
}

fn verify_module(module: &Module, open_calls: bool) -> Result<()> {
    check_computations(module)?;
    let cx = InferContext::new(module);
    for &id in &module.order {
        check_computation(&cx, &module.computations[id], open_calls)?;
    }
    check_entry(&cx, module)?;
    check_aliases(module)
}

/// Checks what a verified module must be besides, to be compiled or run: feeds have an order, gathers batches of one size,
/// padding is between elements that callers alone see, and `f64` meets no narrower float where neither XLA nor Brolga has a way to compute with both.
///
/// # Errors
/// Names the feed or the gather that breaks a rule, or the instruction that mixes or is padded.
pub fn verify_runnable(module: &Module) -> Result<()> {
    verify_feeds(module)?;
    verify_padding(module)?;
    for computation in module.order.iter().map(|&id| &module.computations[id]) {
        let gathers = computation.order.iter().map(|&i| &computation.instructions[i]);
        for gather in gathers.filter(|i| i.opcode == Opcode::Gather) {
            check_batches(computation, gather).map_err(|e| at(gather, e))?;
        }
    }
    let types = float_types(module);
    if !types.contains(&ElementType::F64) || types.len() == 1 {
        return Ok(());
    }
    let check = |cx: &InferContext<'_>| -> Result<()> {
        for &id in &module.order {
            check_computation(cx, &module.computations[id], false)?;
        }
        check_entry(cx, module)
    };
    let cx = InferContext::new(module);
    match check(&cx.of_one_scalar()) {
        // What breaks a rule either way is not this one's to tell.
        Err(e) if check(&cx).is_ok() => Err(Error::Unsupported {
            site: e.site().cloned().unwrap_or_default(),
            feature: format!("f64 together with a narrower float: {}", e.message()),
        }),
        _ => Ok(()),
    }
}

/// The float types of a module, those of the parts of complex numbers too.
fn float_types(module: &Module) -> HashSet<ElementType> {
    let instructions = module.order.iter().flat_map(|&c| module.computations[c].instructions.values());
    let leaves = instructions.flat_map(|i| i.shape.leaves());
    leaves.filter_map(Shape::as_array).map(|a| a.ty.real_part()).filter(|ty| ty.is_float()).collect()
}

/// Checks one computation: order, names, parameters and every instruction against its rule.
pub fn verify_computation(cx: &InferContext<'_>, computation: &Computation) -> Result<()> {
    check_computation(cx, computation, false)
}

fn check_computation(cx: &InferContext<'_>, computation: &Computation, open_calls: bool) -> Result<()> {
    check_order(computation)?;
    check_parameters(computation)?;
    for &id in &computation.order {
        let instruction = &computation.instructions[id];
        let checked = match instruction.opcode {
            Opcode::Call | Opcode::Fusion | Opcode::AsyncStart | Opcode::AsyncUpdate | Opcode::AsyncDone
                if open_calls =>
            {
                check_shape(&instruction.shape)
            }
            _ => check_instruction(cx, computation, instruction),
        };
        let checked =
            checked.and_then(|()| pairs::check(computation, instruction).map_err(|e| e.of(instruction.opcode)));
        checked.map_err(|e| at(instruction, e))?;
    }
    Ok(())
}

fn error(instruction: Option<String>, location: SourceLocation, e: RuleError) -> Error {
    let site = Site { instruction, location, length: 0 };
    e.into_error(site)
}

pub(super) fn at(instruction: &Instruction, e: RuleError) -> Error {
    error(Some(instruction.name.clone()), instruction.location, e)
}

fn fault<T>(instruction: &Instruction, constraint: &'static str, message: String) -> Result<T> {
    Err(at(instruction, RuleError::new(constraint, message)))
}

fn module_fault<T>(location: SourceLocation, constraint: &'static str, message: String) -> Result<T> {
    Err(error(None, location, RuleError::new(constraint, message)))
}

fn check_instruction(
    cx: &InferContext<'_>,
    computation: &Computation,
    instruction: &Instruction,
) -> std::result::Result<(), RuleError> {
    let stated = instruction.attrs.iter().filter_map(|(_, value)| match value {
        AttrValue::Shapes(shapes) => Some(shapes),
        _ => None,
    });
    let mut shapes = std::iter::once(&instruction.shape).chain(stated.flatten());
    shapes.try_for_each(|shape| check_shape(shape).map_err(|e| e.of(instruction.opcode)))?;
    let operands: Vec<&Shape> =
        instruction.operands.iter().filter_map(|&o| Some(&computation.instructions.get(o)?.shape)).collect();
    infer(cx, instruction.opcode, &operands, &instruction.attrs, Some(&instruction.shape))?;
    Ok(())
}

/// Every id names something live, and no call is recursive.
fn check_computations(module: &Module) -> Result<()> {
    let nowhere = SourceLocation::default();
    let live: HashSet<ComputationId> = module.order.iter().copied().collect();
    if live.len() != module.order.len() {
        return module_fault(nowhere, "module.order", "expected each computation once in the order".to_owned());
    }
    if !live.contains(&module.entry) {
        return module_fault(nowhere, "module.entry", "expected the entry among the computations".to_owned());
    }
    if let Some(&lost) = module.order.iter().find(|&&id| !module.computations.is_valid(id)) {
        return module_fault(nowhere, "module.order", format!("{lost} does not exist"));
    }
    let mut names = HashSet::new();
    for &id in &module.order {
        let computation = &module.computations[id];
        if !names.insert(computation.name.as_str()) {
            let message = format!("expected distinct names of computations, found '{}' twice", computation.name);
            return module_fault(computation.location, "module.unique-names", message);
        }
        for &i in &computation.order {
            let Some(instruction) = computation.instructions.get(i) else { continue };
            if let Some(&lost) = instruction.attrs.called().iter().find(|c| !live.contains(*c)) {
                return fault(instruction, "call.computation", format!("the called {lost} does not exist"));
            }
        }
    }
    check_recursion(module)
}

fn check_recursion(module: &Module) -> Result<()> {
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut state: SecondaryMap<ComputationId, u8> = SecondaryMap::new();
    for &start in &module.order {
        let mut stack = vec![(start, false)];
        while let Some((id, finished)) = stack.pop() {
            if finished {
                state[id] = DONE;
                continue;
            }
            if state[id] != 0 {
                continue;
            }
            state[id] = OPEN;
            stack.push((id, true));
            let computation = &module.computations[id];
            for &i in &computation.order {
                let Some(instruction) = computation.instructions.get(i) else { continue };
                for callee in instruction.attrs.called() {
                    match state[callee] {
                        OPEN => {
                            let name = &module.computations[callee].name;
                            return fault(instruction, "call.recursive", format!("the call of '{name}' is recursive"));
                        }
                        DONE => {}
                        _ => stack.push((callee, false)),
                    }
                }
            }
        }
    }
    Ok(())
}

/// Operands stand before their users, each instruction once; the root is among them; names are distinct.
fn check_order(computation: &Computation) -> Result<()> {
    let mut seen: HashSet<InstructionId> = HashSet::with_capacity(computation.order.len());
    let mut names = HashSet::with_capacity(computation.order.len());
    for &id in &computation.order {
        let Some(instruction) = computation.instructions.get(id) else {
            return module_fault(computation.location, "computation.order", format!("{id} does not exist"));
        };
        if let Some(position) = instruction.operands.iter().position(|o| !seen.contains(o)) {
            let message = format!("expected operand {position} to stand before its user");
            return fault(instruction, "computation.order", message);
        }
        if !seen.insert(id) {
            let message = "expected each instruction once in the order".to_owned();
            return fault(instruction, "computation.order", message);
        }
        if !names.insert(instruction.name.as_str()) {
            let message = format!("expected distinct names, found '{}' twice", instruction.name);
            return fault(instruction, "computation.unique-names", message);
        }
    }
    for &id in &computation.order {
        let instruction = &computation.instructions[id];
        let predecessors = instruction.attrs.instructions(AttrKey::ControlPredecessors).unwrap_or(&[]);
        if predecessors.iter().any(|p| !seen.contains(p)) {
            let message = "expected control predecessors of the same computation".to_owned();
            return fault(instruction, "computation.control-predecessors", message);
        }
    }
    if !seen.contains(&computation.root) {
        let message = format!("expected a root in '{}', found none", computation.name);
        return module_fault(computation.location, "computation.root", message);
    }
    Ok(())
}

/// Parameters are numbered from 0 without gaps.
fn check_parameters(computation: &Computation) -> Result<()> {
    let parameters: Vec<&Instruction> = computation
        .order
        .iter()
        .map(|&i| &computation.instructions[i])
        .filter(|i| i.opcode == Opcode::Parameter)
        .collect();
    let mut seen = vec![false; parameters.len()];
    for parameter in &parameters {
        let number = parameter.attrs.int(AttrKey::ParameterNumber).unwrap_or(-1);
        let slot = usize::try_from(number).ok().and_then(|n| seen.get_mut(n));
        match slot {
            Some(seen) if !*seen => *seen = true,
            Some(_) => {
                let message = format!("expected distinct parameter numbers, found {number} twice");
                return fault(parameter, "parameter.number", message);
            }
            None => {
                let count = parameters.len();
                let message =
                    format!("expected a parameter number below {count}, the number of parameters, found {number}");
                return fault(parameter, "parameter.number", message);
            }
        }
    }
    Ok(())
}

/// The entry agrees with `entry_computation_layout`, but for the precision of floats: passes that change it leave the
/// header behind.
fn check_entry(cx: &InferContext<'_>, module: &Module) -> Result<()> {
    let Some((parameters, result)) = &module.config.entry_layout else { return Ok(()) };
    let header = SourceLocation::in_text(1, 1);
    let entry = module.entry();
    let actual = entry.parameters();
    if actual.len() != parameters.len() {
        let message =
            format!("expected {} parameters in entry_computation_layout, found {}", actual.len(), parameters.len());
        return module_fault(header, "module.entry-layout", message);
    }
    let root = &entry.instructions[entry.root];
    let pairs = actual.iter().map(|&i| &entry.instructions[i]).zip(parameters).chain([(root, result)]);
    for (instruction, stated) in pairs {
        check_shape(stated).map_err(|e| error(None, header, e))?;
        if !compatible(&instruction.shape, stated, Some(cx)) {
            let message =
                format!("expected {stated:#}, as entry_computation_layout says, found {:#}", instruction.shape);
            return fault(instruction, "module.entry-layout", message);
        }
    }
    Ok(())
}

fn leaf<'a>(mut shape: &'a Shape, path: &[usize]) -> Option<&'a Shape> {
    for &i in path {
        shape = shape.as_tuple()?.get(i)?;
    }
    Some(shape)
}

/// Aliased leaves exist, are arrays of equal size that callers see in one layout, and no leaf is aliased twice.
fn check_aliases(module: &Module) -> Result<()> {
    let header = SourceLocation::in_text(1, 1);
    let entry = module.entry();
    let parameters = entry.parameters();
    let (mut outputs, mut inputs) = (HashSet::new(), HashSet::new());
    let (seen, seen_result) = module.interface();
    for alias in &module.config.aliases {
        let parameter = parameters.get(alias.parameter).map(|&i| &entry.instructions[i].shape);
        let input = parameter.and_then(|s| leaf(s, &alias.parameter_index)).and_then(Shape::as_array);
        let output = leaf(entry.result_shape(), &alias.output_index).and_then(Shape::as_array);
        let (Some(input), Some(output)) = (input, output) else {
            let message = format!(
                "expected arrays in parameter {} at {:?} and in the result at {:?}",
                alias.parameter, alias.parameter_index, alias.output_index
            );
            return module_fault(header, "alias.index", message);
        };
        if input.byte_size() != output.byte_size() {
            let message = format!("expected aliased arrays of equal size, found {input:#} and {output:#}");
            return module_fault(header, "alias.size", message);
        }
        let seen_input = seen.get(alias.parameter).and_then(|s| leaf(s, &alias.parameter_index));
        let seen_output = leaf(&seen_result, &alias.output_index);
        if let (Some(Shape::Array(a)), Some(Shape::Array(b))) = (seen_input, seen_output)
            && !(a.is_dense_row_major() && b.is_dense_row_major() || a.same_memory(b))
        {
            let message = format!("expected aliased arrays in the same layout, found {a} and {b}");
            return module_fault(header, "alias.layout", message);
        }
        if !outputs.insert(&alias.output_index) || !inputs.insert((alias.parameter, &alias.parameter_index)) {
            let message = format!("expected each array to be aliased once, found {:?} again", alias.output_index);
            return module_fault(header, "alias.once", message);
        }
    }
    Ok(())
}
