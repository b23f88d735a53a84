//! Feeds in the interpreter: the queues that compiled programs have, in front of any other host.

use super::context::Host;
use super::{execution, invalid};
use crate::Result;
use crate::hlo::{AttrKey, Instruction};
use brolga_runtime::Literal;
use brolga_runtime::feed::Feeds;

/// A host whose infeeds and outfeeds are those of [`Feeds`]; everything else is another host's.
pub struct Fed<'a> {
    /// The queues.
    pub feeds: &'a Feeds,
    /// Who answers all else.
    pub host: &'a mut dyn Host,
}

impl Host for Fed<'_> {
    fn custom_call(&mut self, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
        self.host.custom_call(inst, operands)
    }

    fn replica_id(&self) -> u32 {
        self.host.replica_id()
    }

    fn partition_id(&self) -> u32 {
        self.host.partition_id()
    }

    fn collective(&mut self, inst: &Instruction, operands: &[&Literal]) -> Option<Result<Literal>> {
        self.host.collective(inst, operands)
    }

    fn infeed(&mut self, inst: &Instruction) -> Result<Literal> {
        let shape = inst.infeed_shape().ok_or_else(|| invalid(inst, "an infeed without a value"))?;
        self.feeds.read(shape).map_err(|e| execution(inst, e.to_string()))
    }

    fn outfeed(&mut self, inst: &Instruction, value: &Literal) -> Result<()> {
        let stated = inst.attrs.shape(AttrKey::OutfeedShape).cloned();
        let shape = stated.unwrap_or_else(|| value.shape());
        self.feeds.write(&shape, value.clone()).map_err(|e| execution(inst, e.to_string()))
    }

    fn send(&mut self, inst: &Instruction, value: &Literal) -> Result<()> {
        self.host.send(inst, value)
    }

    fn begin_recv(&mut self, inst: &Instruction) -> Result<u32> {
        self.host.begin_recv(inst)
    }

    fn recv(&mut self, inst: &Instruction, request: u32) -> Result<Literal> {
        self.host.recv(inst, request)
    }
}
