//! Collectives and transfers: [`crate::devices`] behind the interface of services.
//!
//! The first attribute of a collective says which part of it is meant ([`CollectivePhase`]). Of an exchange, and of one that is
//! started, the words of [`Collective::encode`] follow; operands and results are the collective's. Of one that is done, the
//! number of the collective's operands follows: these come first, then the results as they were given to the start, and the
//! results again where they are to be. The numbers of a device are one `u32`.
//!
//! A transfer's attributes are [`TransferPhase`], the line, the channel, and either -1 or the number of pairs of a source and
//! a target with the pairs. A `send` has the value's arrays as operands, a `recv` gives the number of its request as `u32`,
//! which its `recv-done` takes to give the value's arrays.

use super::{Call, Failure, service};
use crate::abi::{Context, coded};
use crate::devices::{Ask, Collective, Device, Message, Part, Route, Span};

service! {
    /// Exchanges with the other devices, and their numbers.
    COLLECTIVE, Collective, collective
}

service! {
    /// Values sent to another device and received from one.
    TRANSFER, Transfer, transfer
}

coded! {
    /// Which part of a collective a call is.
    pub enum CollectivePhase: i64 {
        /// All of it.
        Exchange = 0,
        /// Its beginning.
        Start = 1,
        /// Its end.
        Done = 2,
        /// No exchange, but the number of this device's replica.
        ReplicaId = 3,
        /// The number of this device's partition.
        PartitionId = 4,
    }
}

coded! {
    /// Which part of a transfer a call is.
    pub enum TransferPhase: i64 {
        /// The value is given.
        Send = 0,
        /// The value is asked for.
        Recv = 1,
        /// The value is taken.
        RecvDone = 2,
    }
}

/// The context of a `recv` to which nobody sends.
const NO_REQUEST: u32 = u32::MAX;

fn device<'a>(call: &Call<'a>) -> Result<&'a Device, Failure> {
    let device = call.resources().and_then(|r| r.device.as_ref());
    device.ok_or_else(|| Failure::new("the program exchanges values with other devices, and runs on none of several"))
}

fn collective(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
    let device = device(call)?;
    let place = device.place();
    let (&phase, words) = call.attributes().split_first().ok_or_else(malformed)?;
    match CollectivePhase::from_code(phase).ok_or_else(malformed)? {
        CollectivePhase::ReplicaId => number(call, place.replica() as u32),
        CollectivePhase::PartitionId => number(call, place.partition() as u32),
        CollectivePhase::Exchange => {
            let ask = ask(call, words)?;
            // SAFETY: the program lends its buffers for the time of the call.
            unsafe { device.run(ask) }
        }
        CollectivePhase::Start => {
            let ask = ask(call, words)?;
            // SAFETY: the program keeps its buffers for the collective until it is done: it reads and writes none in between.
            // Where it ends without, the device is settled before they go.
            unsafe { device.start(ask) }
        }
        CollectivePhase::Done => done(call, device, words),
    }
}

fn ask(call: &Call<'_>, words: &[i64]) -> Result<Ask, Failure> {
    let collective = Collective::decode(words).ok_or_else(malformed)?;
    let (operands, results) = (call.operands().to_vec(), call.results().to_vec());
    let (inputs, outputs) = call.buffers().split_at_checked(operands.len()).ok_or_else(malformed)?;
    let span =
        |(shape, pointer): (&crate::ArrayShape, &*mut std::ffi::c_void)| Span::new(pointer.cast(), shape.byte_size());
    let part = Part {
        operands: operands.iter().zip(inputs).map(span).collect(),
        results: results.iter().zip(outputs).map(span).collect(),
    };
    let program = call.resources().map_or([0; 16], |r| r.program);
    Ok(Ask { collective, operands, results, program, part })
}

fn done(call: &Call<'_>, device: &Device, words: &[i64]) -> Result<(), Failure> {
    let operands = words.first().and_then(|&n| usize::try_from(n).ok()).ok_or_else(malformed)?;
    let shapes = call.results();
    let started = call.operands().get(operands..).filter(|given| *given == shapes).ok_or_else(malformed)?;
    let buffers = call.buffers().get(operands..).ok_or_else(malformed)?;
    let (from, to) = buffers.split_at_checked(started.len()).ok_or_else(malformed)?;
    let first = shapes.iter().zip(from).find(|(shape, _)| shape.byte_size() > 0);
    device.finish(first.map_or(0, |(_, pointer)| pointer.addr()))?;
    for ((shape, from), to) in shapes.iter().zip(from).zip(to) {
        if from != to && shape.byte_size() > 0 {
            // SAFETY: the program passes two buffers of the shape, which are one or lie apart.
            unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), shape.byte_size()) };
        }
    }
    Ok(())
}

fn number(call: &mut Call<'_>, number: u32) -> Result<(), Failure> {
    let mut results = call.results_mut()?;
    let result = results.first_mut().filter(|r| r.len() == size_of::<u32>()).ok_or_else(malformed)?;
    result.copy_from_slice(&number.to_ne_bytes());
    Ok(())
}

fn malformed() -> Failure {
    Failure::new("the words of a collective or a transfer do not follow their form")
}

fn transfer(call: &mut Call<'_>, _: Option<&Context>) -> Result<(), Failure> {
    let device = device(call)?;
    let &[phase, line, channel, pairs, ref rest @ ..] = call.attributes() else { return Err(malformed()) };
    let own = device.place().device as i64;
    // The route from this device, or to it.
    let routes = |end: usize| -> Vec<Route> {
        if pairs < 0 {
            return vec![Route::Channel(channel)];
        }
        let (pairs, _) = rest.as_chunks::<2>();
        let own = pairs.iter().filter(|pair| pair.get(end) == Some(&own));
        own.map(|&[from, to]| Route::Pair(channel, from as usize, to as usize)).collect()
    };
    let outcome = match TransferPhase::from_code(phase).ok_or_else(malformed)? {
        TransferPhase::Send => {
            let shapes = call.operands().to_vec();
            let parts: Vec<&[u8]> = (0..shapes.len()).map(|i| call.operand_bytes(i)).collect::<Result<_, _>>()?;
            let message = Message { shapes, bytes: parts.concat() };
            routes(0).into_iter().try_for_each(|route| device.send(route, message.clone()))
        }
        TransferPhase::Recv => {
            let request = routes(1).into_iter().next_back().map(|route| device.request(route)).transpose();
            return number(call, request?.map_or(NO_REQUEST, |n| n as u32));
        }
        TransferPhase::RecvDone => recv_done(call, device, routes(1).into_iter().next_back()),
    };
    outcome.map_err(|failure| match line {
        line if line > 0 => Failure { message: format!("transfer at line {line}: {}", failure.message), ..failure },
        _ => failure,
    })
}

fn recv_done(call: &mut Call<'_>, device: &Device, route: Option<Route>) -> Result<(), Failure> {
    let request = call.operand_bytes(0)?.try_into().map(u32::from_ne_bytes).map_err(|_| malformed())?;
    let shapes = call.results().to_vec();
    let mut results = call.results_mut()?;
    let Some(route) = route.filter(|_| request != NO_REQUEST) else {
        results.iter_mut().for_each(|r| r.fill(0));
        return Ok(());
    };
    let message = device.receive(route, u64::from(request))?;
    if message.shapes != shapes {
        let text = |shapes: &[crate::ArrayShape]| shapes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let (expected, found) = (text(&shapes), text(&message.shapes));
        return Err(Failure::new(format!("expected to receive {expected}, found {found}")));
    }
    let mut rest = message.bytes.as_slice();
    for result in &mut results {
        let (own, after) = rest.split_at_checked(result.len()).ok_or_else(malformed)?;
        result.copy_from_slice(own);
        rest = after;
    }
    Ok(())
}
