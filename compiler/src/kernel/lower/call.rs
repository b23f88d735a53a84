//! Calls: operations that are no loop nests become one call of a library service or of a function outside the program.
//!
//! Operands and results are whole arrays, dense and row-major; tokens have no buffer. The words of the call carry the
//! operation's attributes; what they mean for each service is said at its function in `brolga_runtime::services`.

use super::{Lowered, internal, site, unsupported};
use crate::collective::{self as devices, Grid, ends, starts};
use crate::custom_call::{describe, is_marker};
use crate::error::{Error, Result};
use crate::fusion::written;
use crate::hlo::{
    AttrKey, Category, Computation, ComputationId, Instruction, InstructionId, Leaf, Module, Opcode, lapack, resolve,
};
use crate::kernel::ir::{Buffer, Callee, HostCall, Kernel, Phase, Role};
use brolga_runtime::abi::{Service, encode_call};
use brolga_runtime::custom_call::Description;
use brolga_runtime::services::collective::{CollectivePhase, TransferPhase};
use brolga_runtime::services::routine::{self, Routine};
use brolga_runtime::{ArrayShape, Shape};

/// Leaves and their shapes.
type Arrays<'a> = Vec<(Leaf, &'a ArrayShape)>;

/// Lowers one call.
pub(super) fn call(module: &Module, computation: ComputationId, id: InstructionId) -> Result<Lowered> {
    let c = &module.computations[computation];
    let inst = &c.instructions[id];
    let (inputs, outputs) = match inst.opcode {
        Opcode::Send | Opcode::Recv | Opcode::RecvDone => transferred(c, id)?,
        op if ends(op) => {
            let start = inst.operands.first().copied().filter(|&o| starts(c.instructions[o].opcode));
            let start = start.ok_or_else(|| unsupported(inst, format!("compiling '{op}' apart from its start")))?;
            // The operands are read until the exchange ends.
            let mut inputs = operand_arrays(c, &c.instructions[start]);
            inputs.extend(outputs(c, start));
            (inputs, outputs(c, id))
        }
        _ => (operand_arrays(c, inst), outputs(c, id)),
    };
    let operands: Vec<&ArrayShape> = inputs.iter().map(|i| i.1).collect();
    let results: Vec<&ArrayShape> = outputs.iter().map(|o| o.1).collect();
    let mut in_place = Vec::new();
    let phase = match inst.opcode {
        Opcode::RngGetAndUpdateState => {
            Phase::RandomState { delta: inst.attrs.int(AttrKey::Delta).unwrap_or(1).max(0) as u64 }
        }
        _ => {
            let (callee, attributes) = match inst.opcode {
                Opcode::CustomCall if lapack(inst)?.is_none() => {
                    let (callee, description) = custom_call(c, inst)?;
                    for alias in &description.aliases {
                        let (output, input) = (operands.len() + alias.result, alias.operand);
                        // The function writes while it reads this one operand, and no other that is the same value.
                        if inputs.iter().filter(|i| inputs.get(input).is_some_and(|own| own.0 == i.0)).count() == 1 {
                            in_place.push((output as u32, input as u32));
                        }
                    }
                    (callee, description.encode())
                }
                Opcode::Send | Opcode::Recv | Opcode::RecvDone => {
                    (Callee::Service(Service::Transfer), transfer(module, c, inst)?)
                }
                op if ends(op) => {
                    let before = operands.len().checked_sub(results.len());
                    let before = before.ok_or_else(|| internal(inst, "an exchange without operands"))?;
                    in_place.extend((0..results.len()).map(|i| ((operands.len() + i) as u32, (before + i) as u32)));
                    (Callee::Service(Service::Collective), vec![CollectivePhase::Done as i64, before as i64])
                }
                op if starts(op) || op.category() == Category::Collective => {
                    (Callee::Service(Service::Collective), collective(module, inst, &operands, &results)?)
                }
                _ => callee(c, inst, &operands, &results)?,
            };
            Phase::Call(Box::new(HostCall { callee, words: encode_call(&attributes, &operands, &results) }))
        }
    };
    let buffer = |role| move |s: &&ArrayShape| Buffer { ty: s.ty, elements: s.elements(), role };
    let mut buffers: Vec<Buffer> = operands.iter().map(buffer(Role::Input)).collect();
    buffers.extend(results.iter().map(buffer(Role::Output)));
    let (name, line) = (inst.name.clone(), inst.location.line);
    let source = Some((computation, id));
    let kernel = Kernel { name, buffers, phases: vec![phase], in_place, line, source };
    let leaves = |list: Arrays<'_>| list.into_iter().map(|l| l.0).collect();
    Ok(Lowered { kernel, inputs: leaves(inputs), outputs: leaves(outputs) })
}

/// The array leaves of an instruction's result, each under the name of the instruction that computes it.
fn arrays(c: &Computation, id: InstructionId) -> Arrays<'_> {
    let leaves = c.instructions[id].shape.leaves().into_iter().enumerate();
    leaves
        .filter_map(|(k, shape)| match shape {
            Shape::Array(s) | Shape::Buffer(s) => Some((resolve(c, (id, k)), s)),
            _ => None,
        })
        .collect()
}

/// The attributes of a feed: its line, whether the value is a tuple, and the layout of each array.
fn feed(inst: &Instruction, value: Option<&Shape>) -> Result<Vec<i64>> {
    let value = value.ok_or_else(|| internal(inst, "a feed without a value"))?;
    let mut attributes = vec![i64::from(inst.location.line), i64::from(value.as_tuple().is_some())];
    for array in value.leaves().into_iter().filter_map(Shape::as_array) {
        if array.is_dynamic() {
            return Err(unsupported(inst, "compiling feeds of bounded dynamic arrays"));
        }
        attributes.extend(array.minor_to_major().iter().map(|&d| d as i64));
    }
    Ok(attributes)
}

/// The array leaves of all operands.
fn operand_arrays<'a>(c: &'a Computation, inst: &Instruction) -> Arrays<'a> {
    inst.operands.iter().flat_map(|&o| arrays(c, o)).collect()
}

/// The array leaves that a call writes.
fn outputs(c: &Computation, id: InstructionId) -> Arrays<'_> {
    let leaf = |leaf: Leaf| match c.instructions[leaf.0].shape.leaves().get(leaf.1) {
        Some(Shape::Array(s) | Shape::Buffer(s)) => Some((leaf, s)),
        _ => None,
    };
    written(c, id).into_iter().filter_map(leaf).collect()
}

/// What a collective's service is told.
fn collective(
    module: &Module,
    inst: &Instruction,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<Vec<i64>> {
    let reduction = inst.attrs.computation(AttrKey::ToApply).and_then(|c| devices::reduction(module, c));
    Ok(match inst.opcode {
        Opcode::ReplicaId => vec![CollectivePhase::ReplicaId as i64],
        Opcode::PartitionId => vec![CollectivePhase::PartitionId as i64],
        _ => {
            let collective = devices::describe(inst, Grid::of(&module.config), reduction)?;
            if collective.operation.reduces() && collective.reduction.is_none() {
                return Err(internal(inst, "a reduction that the runtime does not know"));
            }
            if let Err(message) = devices::check_shapes(&collective, operands, results) {
                return Err(Error::Invalid { site: site(inst), constraint: "collective.devices", message });
            }
            let phase = if starts(inst.opcode) { CollectivePhase::Start } else { CollectivePhase::Exchange };
            let mut words = vec![phase as i64];
            words.extend(collective.encode());
            words
        }
    })
}

/// The `recv` that a `recv-done` ends: its operand, for what a loop or a call hands on has no channel.
fn received(c: &Computation, inst: &Instruction) -> Result<InstructionId> {
    let recv = inst.operands.first().copied().filter(|&o| c.instructions[o].opcode == Opcode::Recv);
    recv.ok_or_else(|| unsupported(inst, "compiling a recv-done apart from its recv"))
}

/// What a transfer reads and writes: of a `recv` there is its request alone, until it is done.
fn transferred(c: &Computation, id: InstructionId) -> Result<(Arrays<'_>, Arrays<'_>)> {
    let inst = &c.instructions[id];
    Ok(match inst.opcode {
        Opcode::Send => {
            let value = inst.operands.first().map_or_else(Vec::new, |&o| arrays(c, o));
            (value, outputs(c, id))
        }
        Opcode::Recv => {
            let early = |i: &&InstructionId| {
                let user = &c.instructions[**i];
                user.operands.contains(&id) && user.opcode != Opcode::RecvDone
            };
            if c.root == id || c.order.iter().any(|i| early(&i)) {
                return Err(unsupported(inst, "compiling a recv that is handed on before it is done"));
            }
            let ends = |i: &&InstructionId| c.instructions[**i].operands.contains(&id);
            if c.order.iter().filter(ends).count() > 1 {
                let message = "expected one recv-done, found several that use the context of this recv".to_owned();
                return Err(Error::Invalid { site: site(inst), constraint: "recv.context", message });
            }
            (Vec::new(), outputs(c, id))
        }
        _ => (outputs(c, received(c, inst)?), outputs(c, id)),
    })
}

/// What a transfer's service is told.
fn transfer(module: &Module, c: &Computation, inst: &Instruction) -> Result<Vec<i64>> {
    let (phase, said) = match inst.opcode {
        Opcode::Send => (TransferPhase::Send, inst),
        Opcode::Recv => (TransferPhase::Recv, inst),
        Opcode::RecvDone => (TransferPhase::RecvDone, &c.instructions[received(c, inst)?]),
        _ => return Err(internal(inst, "it transfers nothing")),
    };
    let (channel, pairs) = devices::transfer(said, Grid::of(&module.config))?;
    let count = pairs.as_ref().map_or(-1, |pairs| pairs.len() as i64);
    let mut words = vec![phase as i64, i64::from(inst.location.line), channel, count];
    words.extend(pairs.into_iter().flatten().flatten().map(|d| d as i64));
    Ok(words)
}

/// A function of the user and what it is told.
fn custom_call(c: &Computation, inst: &Instruction) -> Result<(Callee, Description)> {
    let operands: Vec<Shape> = inst.operands.iter().map(|&o| c.instructions[o].shape.clone()).collect();
    let description = describe(inst, &operands)?;
    let symbol = description.target.clone();
    if is_marker(&symbol) {
        return Err(unsupported(inst, format!("'{symbol}' over several devices")));
    }
    if symbol.is_empty() || symbol.contains('\0') {
        return Err(unsupported(inst, "a custom call target that is no symbol"));
    }
    Ok((Callee::Function { symbol, abi: description.abi }, description))
}

/// What is called, and with which attributes.
fn callee(
    c: &Computation,
    inst: &Instruction,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<(Callee, Vec<i64>)> {
    if let Some((routine, ty, attributes)) = lapack(inst)? {
        let misfit = |message| Error::Invalid { site: site(inst), constraint: "lapack.shapes", message };
        routine::check(routine, &attributes[2..], operands, results).map_err(misfit)?;
        if !operands.iter().any(|s| s.ty == ty) {
            return Err(misfit(format!("the target's name says {ty}, which no operand is")));
        }
        return Ok((Callee::Service(routine.service()), attributes));
    }
    // LAPACK's letter for a flag.
    let letter = |key, yes: u8, no: u8| i64::from(if inst.attrs.bool(key).unwrap_or(false) { yes } else { no });
    // The position of a word among those that the attribute knows.
    let word = |key, known: &[&str], default: &str| -> Result<i64> {
        let found = inst.attrs.word(key).unwrap_or(default);
        let position = known.iter().position(|k| *k == found);
        position.map(|p| p as i64).ok_or_else(|| internal(inst, "an unknown word"))
    };
    match inst.opcode {
        Opcode::Fft => {
            let mut attributes = vec![word(AttrKey::FftType, &["FFT", "IFFT", "RFFT", "IRFFT"], "FFT")?];
            attributes.extend(inst.attrs.ints_or_empty(AttrKey::FftLength));
            Ok((Callee::Service(Service::Fft), attributes))
        }
        Opcode::Cholesky => {
            let attributes = vec![Routine::Cholesky as i64, 0, letter(AttrKey::Lower, b'L', b'U')];
            Ok((Callee::Service(Service::Cholesky), attributes))
        }
        Opcode::TriangularSolve => {
            let transpose = word(AttrKey::TransposeA, &["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"], "NO_TRANSPOSE")?;
            let attributes = vec![
                Routine::Trsm as i64,
                0,
                letter(AttrKey::LeftSide, b'L', b'R'),
                letter(AttrKey::Lower, b'L', b'U'),
                letter(AttrKey::UnitDiagonal, b'U', b'N'),
                i64::from(match transpose {
                    0 => b'N',
                    1 => b'T',
                    2 => b'C',
                    other => return Err(Error::Internal(format!("word {other} of three"))),
                }),
            ];
            Ok((Callee::Service(Service::TriangularSolve), attributes))
        }
        Opcode::Infeed => Ok((Callee::Service(Service::Infeed), feed(inst, inst.infeed_shape())?)),
        Opcode::Outfeed => {
            let operand = inst.operands.first().map(|&o| &c.instructions[o].shape);
            let value = inst.attrs.shape(AttrKey::OutfeedShape).or(operand);
            Ok((Callee::Service(Service::Outfeed), feed(inst, value)?))
        }
        op => Err(unsupported(inst, format!("compiling '{op}'"))),
    }
}
