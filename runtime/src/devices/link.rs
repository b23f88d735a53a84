//! What a device asks of whatever joins it to the others: threads of a process, or processes of MPI.

use super::work::Part;
use super::{Collective, Place};
use crate::ArrayShape;
use crate::services::Failure;

/// One device's part of a collective.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What is done.
    pub collective: Collective,
    /// The devices that take part, in the group's order.
    pub group: Vec<usize>,
    /// This device's place in the group.
    pub me: usize,
    /// Shapes of the operands, dense and row-major.
    pub operands: Vec<ArrayShape>,
    /// Shapes of the results.
    pub results: Vec<ArrayShape>,
    /// The hash of the program, all zero where it has none.
    pub program: [u8; 16],
    /// The buffers.
    pub part: Part,
}

impl Exchange {
    /// What must be equal on all members, as words: operation, shapes, and the program where no channel joins different
    /// ones. The line is left out over a channel, for programs may say the same in different places.
    pub fn signature(&self) -> Vec<i64> {
        let Collective { channel, line, .. } = self.collective;
        let own = if channel > 0 { (0, [0; 16]) } else { (line, self.program) };
        let mut words = Collective { line: own.0, groups: Vec::new(), ..self.collective.clone() }.encode();
        words.extend(own.1.as_chunks::<8>().0.iter().map(|w| i64::from_le_bytes(*w)));
        words.extend(self.group.iter().map(|&d| d as i64));
        for pair in self.collective.groups.iter().filter(|_| self.permutes()) {
            words.extend(pair.iter().map(|&d| d as i64));
        }
        for shape in self.operands.iter().chain(&self.results) {
            words.extend([i64::from(shape.ty.code()), shape.rank() as i64]);
            words.extend(&shape.dims);
        }
        words
    }

    fn permutes(&self) -> bool {
        self.collective.operation == super::Operation::CollectivePermute
    }

    /// As [`described`].
    pub(super) fn describe(&self) -> String {
        described(&self.collective, &self.operands)
    }
}

/// Operation and operands, for a message.
pub(super) fn described(collective: &Collective, operands: &[ArrayShape]) -> String {
    let shapes: Vec<String> = operands.iter().map(ArrayShape::to_string).collect();
    format!("{collective} of {}", shapes.join(", "))
}

/// Where values that are sent go one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Over a channel that says nothing of devices: one sends, one receives.
    Channel(i64),
    /// Over a channel, from one device to another.
    Pair(i64, usize, usize),
}

/// A value on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its arrays' shapes.
    pub shapes: Vec<ArrayShape>,
    /// Its arrays' bytes, one array after another.
    pub bytes: Vec<u8>,
}

/// One device's line to the others. All methods but [`Link::fail`] are called by one thread at a time.
pub trait Link: Send + Sync {
    /// Which device this is.
    fn place(&self) -> Place;

    /// Begins an exchange; it ends with [`Link::end`], in whatever order, or with [`Link::withdraw`].
    ///
    /// # Errors
    /// Where the other members bring something else, or one of them failed.
    ///
    /// # Safety
    /// The buffers live, and nobody else writes operands or uses results, until the exchange has ended.
    unsafe fn begin(&self, exchange: Exchange) -> Result<u64, Failure>;

    /// Waits until an exchange is done.
    ///
    /// # Errors
    /// Where a member fails, or does not come in time.
    fn end(&self, ticket: u64) -> Result<(), Failure>;

    /// Takes back an exchange that will not be waited for: nobody uses its buffers afterwards.
    fn withdraw(&self, ticket: u64);

    /// Puts a value on its way, and waits for nobody.
    ///
    /// # Errors
    /// Where the route has another sender.
    fn send(&self, route: Route, message: Message) -> Result<(), Failure>;

    /// Takes the next place in the order of a route; its number.
    ///
    /// # Errors
    /// Where the route has another receiver.
    fn request(&self, route: Route) -> Result<u64, Failure>;

    /// Waits for the value that answers a request.
    ///
    /// # Errors
    /// Where it cannot come, or does not come in time.
    fn receive(&self, route: Route, number: u64) -> Result<Message, Failure>;

    /// Says that this device failed: everyone who waits for it, now or later, fails too.
    fn fail(&self, why: &str);
}
