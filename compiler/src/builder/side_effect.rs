//! What the outside world sees. Feeds and transfers of one builder happen in the order of the calls: each takes the
//! token of the one before, but for those that are given one; what is called later comes after these too.

use super::{At, Builder, CustomCallOptions, Op, Step};
use crate::hlo::{AttrKey, AttrValue, Attrs, Opcode, quote};
use crate::shape::RuleError;
use brolga_runtime::Shape;
use std::panic::Location;

fn channel(channel_handle: i64) -> Attrs {
    Attrs::new().with(AttrKey::ChannelId, AttrValue::Int(channel_handle))
}

impl Builder {
    /// The end of the chain of tokens.
    fn token_at(&self, at: At) -> Step {
        let last = self.state.borrow().token;
        match last {
            Some(token) => Ok(token),
            None => self.add_at(at, Opcode::AfterAll, &[], Attrs::new(), None),
        }
    }

    fn chain(&self, token: Op) {
        self.state.borrow_mut().token = Some(token);
    }

    /// Puts the token of what was given another behind the chain.
    fn join_at(&self, at: At, token: Op) -> Step<()> {
        let last = self.state.borrow().token;
        let end = match last {
            Some(last) if last != token => self.add_at(at, Opcode::AfterAll, &[last, token], Attrs::new(), None)?,
            _ => token,
        };
        self.chain(end);
        Ok(())
    }

    fn element_at(&self, at: At, tuple: Op, index: i64) -> Step {
        let attrs = Attrs::new().with(AttrKey::Index, AttrValue::Int(index));
        self.add_at(at, Opcode::GetTupleElement, &[tuple], attrs, None)
    }

    /// `infeed(shape)`: the next value of the infeed queue. Section «Infeed».
    #[track_caller]
    pub fn infeed(&self, shape: Shape) -> Op {
        let at = Location::caller();
        self.finish(self.token_at(at).and_then(|token| {
            let declared = Shape::tuple(vec![shape, Shape::Token]);
            let fed = self.add_at(at, Opcode::Infeed, &[token], Attrs::new(), Some(declared))?;
            self.chain(self.element_at(at, fed, 1)?);
            self.element_at(at, fed, 0)
        }))
    }

    /// `infeed_with_token(token, shape)`: the next value of the infeed queue, once `token` is there, and a token; so that
    /// feeds can be ordered without data. Section «Infeed». Errors: what is no token.
    #[track_caller]
    pub fn infeed_with_token(&self, token: Op, shape: Shape) -> (Op, Op) {
        let at = Location::caller();
        let declared = Shape::tuple(vec![shape, Shape::Token]);
        let fed = self.add_at(at, Opcode::Infeed, &[token], Attrs::new(), Some(declared));
        let pair = fed.and_then(|fed| {
            let (data, after) = (self.element_at(at, fed, 0)?, self.element_at(at, fed, 1)?);
            self.join_at(at, after)?;
            Ok((data, after))
        });
        match pair {
            Ok(pair) => pair,
            Err(failed) => (self.finish(Err(failed)), self.finish(Err(failed))),
        }
    }

    /// `outfeed_with_token(operand, token)`: puts the operand in the outfeed queue, once `token` is there; yields a token.
    /// Errors: what is no token.
    #[track_caller]
    pub fn outfeed_with_token(&self, operand: Op, token: Op) -> Op {
        let at = Location::caller();
        let mut attrs = Attrs::new();
        if let Ok(shape) = self.shape(operand) {
            attrs.set(AttrKey::OutfeedShape, AttrValue::Shape(shape));
        }
        let done = self.add_at(at, Opcode::Outfeed, &[operand, token], attrs, None);
        self.finish(done.and_then(|done| self.join_at(at, done).map(|()| done)))
    }

    /// `outfeed(operand)`: puts the operand in the outfeed queue; yields a token. No section describes it; it is the
    /// counterpart of [`Builder::infeed`]. Errors: what is no data.
    #[track_caller]
    pub fn outfeed(&self, operand: Op) -> Op {
        let at = Location::caller();
        self.finish(self.token_at(at).and_then(|token| {
            let mut attrs = Attrs::new();
            if let Ok(shape) = self.shape(operand) {
                attrs.set(AttrKey::OutfeedShape, AttrValue::Shape(shape));
            }
            let done = self.add_at(at, Opcode::Outfeed, &[operand, token], attrs, None)?;
            self.chain(done);
            Ok(done)
        }))
    }

    /// A channel has one `send` and one `recv`.
    fn channel_at(&self, at: At, opcode: Opcode, channel_handle: i64) -> Step<()> {
        let taken = self
            .state
            .borrow()
            .instructions
            .values()
            .any(|i| i.opcode == opcode && i.attrs.int(AttrKey::ChannelId) == Some(channel_handle));
        if taken {
            let message = format!("expected one {opcode} on channel {channel_handle}, found another");
            return Err(self.reject(at, opcode, RuleError::new("transfer.channel", message)));
        }
        Ok(())
    }

    /// `send(operand, channel_handle)`: sends the operand to the `recv` of the same channel; yields a token. Section
    /// «Send». Errors: a second one on a channel, an operand that is no data.
    #[track_caller]
    pub fn send(&self, operand: Op, channel_handle: i64) -> Op {
        let at = Location::caller();
        let token = self.channel_at(at, Opcode::Send, channel_handle).and_then(|()| self.token_at(at));
        self.finish(token.and_then(|token| {
            let begun = self.add_at(at, Opcode::Send, &[operand, token], channel(channel_handle), None)?;
            let done = self.add_at(at, Opcode::SendDone, &[begun], channel(channel_handle), None)?;
            self.chain(done);
            Ok(done)
        }))
    }

    /// `recv(shape, channel_handle)`: what the `send` of the same channel sends. Section «Recv». Errors: as of
    /// [`Builder::send`].
    #[track_caller]
    pub fn recv(&self, shape: Shape, channel_handle: i64) -> Op {
        let at = Location::caller();
        let token = self.channel_at(at, Opcode::Recv, channel_handle).and_then(|()| self.token_at(at));
        self.finish(token.and_then(|token| {
            let context = Shape::tuple(vec![shape, Shape::scalar(brolga_runtime::ElementType::U32), Shape::Token]);
            let begun = self.add_at(at, Opcode::Recv, &[token], channel(channel_handle), Some(context))?;
            let done = self.add_at(at, Opcode::RecvDone, &[begun], channel(channel_handle), None)?;
            self.chain(self.element_at(at, done, 1)?);
            self.element_at(at, done, 0)
        }))
    }

    /// `custom_call(target_name, args, shape)`: what the function `target_name` of the program that runs this one makes
    /// of `args`. Section «CustomCall».
    #[track_caller]
    pub fn custom_call(&self, target_name: &str, args: &[Op], shape: Shape) -> Op {
        self.custom_call_with_options(target_name, args, shape, &CustomCallOptions::default())
    }

    /// As [`Builder::custom_call`], with text for the target, a side effect, or another calling convention.
    #[track_caller]
    pub fn custom_call_with_options(
        &self,
        target_name: &str,
        args: &[Op],
        shape: Shape,
        options: &CustomCallOptions,
    ) -> Op {
        let mut attrs = Attrs::new().with(AttrKey::CustomCallTarget, AttrValue::Str(target_name.to_owned()));
        if options.has_side_effect {
            attrs.set(AttrKey::CustomCallHasSideEffect, AttrValue::Bool(true));
        }
        if let Some(version) = options.api_version {
            attrs.set(AttrKey::ApiVersion, AttrValue::Word(version));
        }
        if !options.opaque.is_empty() {
            attrs.set(AttrKey::BackendConfig, AttrValue::Raw(quote(&options.opaque)));
        }
        self.op(Opcode::CustomCall, args, attrs, Some(shape))
    }
}
