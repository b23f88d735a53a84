//! One exchange among threads, from the first member's arrival to the last one's leave.
//!
//! Invariant: buffers are touched only once every member has come and brought the same, and nobody leaves before every piece
//! is done. Algorithm: the last to come cuts the exchange into pieces; from then on whoever waits for the end takes pieces
//! until none is left, so that a member that computes in between keeps nobody waiting.

use super::Collective;
use super::link::{Exchange, described};
use super::work::{Part, Work};
use crate::ArrayShape;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const OPEN: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

/// Where a meeting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Members are missing.
    Open,
    /// Everybody has come.
    Ready,
    /// It will never be.
    Failed,
}

pub(super) struct Meeting {
    /// The members.
    pub(super) group: Vec<usize>,
    /// As the first member says.
    pub(super) collective: Collective,
    operands: Vec<ArrayShape>,
    signature: Vec<i64>,
    first: usize,
    stage: AtomicU8,
    parts: Mutex<Vec<Option<Part>>>,
    work: OnceLock<(Work, Vec<Part>)>,
    next: AtomicUsize,
    complete: AtomicUsize,
    spoiled: AtomicBool,
}

impl Meeting {
    /// A meeting that nobody has come to yet, as its first member describes it.
    pub(super) fn new(exchange: &Exchange) -> Meeting {
        Meeting {
            group: exchange.group.clone(),
            collective: exchange.collective.clone(),
            operands: exchange.operands.clone(),
            signature: exchange.signature(),
            first: exchange.group.get(exchange.me).copied().unwrap_or(0),
            stage: AtomicU8::new(OPEN),
            parts: Mutex::new(vec![None; exchange.group.len()]),
            work: OnceLock::new(),
            next: AtomicUsize::new(0),
            complete: AtomicUsize::new(0),
            spoiled: AtomicBool::new(false),
        }
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Option<Part>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member comes. True where it was the last.
    pub(super) fn join(&self, exchange: &Exchange) -> Result<bool, String> {
        if self.signature != exchange.signature() {
            let theirs = described(&self.collective, &self.operands);
            let ours = exchange.describe();
            return Err(format!("device {} came to {theirs}, where this device has {ours}", self.first));
        }
        let mut parts = self.parts();
        match parts.get_mut(exchange.me) {
            Some(slot @ None) => *slot = Some(exchange.part.clone()),
            _ => return Err("a device came twice".to_owned()),
        }
        if parts.iter().any(Option::is_none) {
            return Ok(false);
        }
        let all: Vec<Part> = parts.iter_mut().filter_map(Option::take).collect();
        let work = Work::new(&exchange.collective, &exchange.group, &exchange.operands, &exchange.results)?;
        // Only the last member comes here.
        let _ = self.work.set((work, all));
        self.stage.store(READY, Ordering::SeqCst);
        Ok(true)
    }

    /// The first member that has not come and for which `gone` holds.
    pub(super) fn missing(&self, gone: impl Fn(usize) -> bool) -> Option<usize> {
        if self.stage() != Stage::Open {
            return None;
        }
        let parts = self.parts();
        let mut absent = self.group.iter().zip(parts.iter()).filter(|(_, part)| part.is_none());
        absent.find(|(device, _)| gone(**device)).map(|(&device, _)| device)
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::SeqCst) {
            OPEN => Stage::Open,
            READY => Stage::Ready,
            _ => Stage::Failed,
        }
    }

    /// It will never be, unless everybody has come already.
    pub(super) fn fail(&self) {
        let _ = self.stage.compare_exchange(OPEN, FAILED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Works until no piece is left to take. True where this thread did the last one.
    pub(super) fn work(&self) -> bool {
        let Some((work, parts)) = self.work.get() else { return false };
        let mut finished = false;
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= work.len() {
                return finished;
            }
            // SAFETY: every member has come and none leaves before `complete` counts all pieces; each piece is taken once.
            if unsafe { work.run(piece, parts) }.is_none() {
                self.spoiled.store(true, Ordering::Relaxed);
            }
            finished |= self.complete.fetch_add(1, Ordering::SeqCst) + 1 == work.len();
        }
    }

    /// Whether every piece is done.
    pub(super) fn is_complete(&self) -> bool {
        self.work.get().is_some_and(|(work, _)| self.complete.load(Ordering::SeqCst) >= work.len())
    }

    /// Whether a piece could not be done: rows that an operand names lie outside their arrays.
    pub(super) fn is_spoiled(&self) -> bool {
        self.spoiled.load(Ordering::Relaxed)
    }
}
