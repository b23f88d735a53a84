//! How much of the code generator's time a function gets.
//!
//! **Problem.** Most functions that Cranelift compiles surround those that compute: they fill a frame, call, and go on. What it takes for
//! these to be as good as can be is most of the compile time of a small program, and no caller notices.
//!
//! **Invariant.** Effort changes how fast code is, never what it computes.
//!
//! **Algorithm.** While a function is emitted, what it executes itself and what rows and tiles execute that it
//! calls is counted ([`Executed`]). One that executes next to nothing beside what it calls is compiled with the least effort. So
//! are, in a program that runs each function once, those that together execute next to nothing of the whole. Nothing is simplified
//! of one that executes little: what it does is written without what simplifying would change much, divisions by constants.

/// What the code generator does for a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// All that it can.
    Full,
    /// Registers are given as well as they can be, but nothing is simplified.
    Unsimplified,
    /// What must be: nothing is simplified, and registers are given in one pass.
    Least,
}

/// Code that was made with the least effort takes two or three times as long: of so many instructions, one may be of such code.
const SHARE: i64 = 16;

/// Code that nothing simplifies takes hardly longer, where it waits for what it calls: of so many instructions, one may be of such code.
const UNSIMPLIFIED_SHARE: i64 = 7;

/// Runs of fewer instructions are over so soon that each function around those that compute is felt.
const SHORT: i64 = 1 << 16;

/// About how many instructions a function executes in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    own: i64,
    called: i64,
}

impl Executed {
    /// Adds instructions of its own.
    pub fn add_own(&mut self, times: i64, instructions: i64) {
        self.own = self.own.saturating_add(times.saturating_mul(instructions));
    }

    /// Adds instructions of functions that it calls.
    pub fn add_called(&mut self, times: i64, instructions: i64) {
        self.called = self.called.saturating_add(times.saturating_mul(instructions));
    }

    /// Adds what is executed so many times.
    pub fn add(&mut self, times: i64, other: Executed) {
        self.add_own(times, other.own);
        self.add_called(times, other.called);
    }

    fn all(self) -> i64 {
        self.own.saturating_add(self.called)
    }
}

/// What each function of a program is worth; nothing is known of some. Whether each is called `once`, or perhaps in a loop.
pub fn efforts(functions: impl Iterator<Item = Option<Executed>>, once: bool) -> Vec<Effort> {
    let functions: Vec<Option<Executed>> = functions.collect();
    let is_part = |own: i64, share: i64, all: i64| own <= all / share;
    let whole = functions.iter().flatten().fold(0i64, |sum, e| sum.saturating_add(e.all()));
    let mut efforts = vec![Effort::Full; functions.len()];
    let mut known: Vec<(usize, Executed)> =
        functions.iter().copied().enumerate().filter_map(|(k, e)| Some((k, e?))).collect();
    known.sort_by_key(|(_, e)| e.own);
    let mut together = 0i64;
    for (k, e) in known {
        together = together.saturating_add(e.own);
        if is_part(e.own, SHARE, e.all()) || (once && whole >= SHORT && is_part(together, SHARE, whole)) {
            efforts[k] = Effort::Least;
        } else if is_part(e.own, UNSIMPLIFIED_SHARE, e.all()) {
            efforts[k] = Effort::Unsimplified;
        }
    }
    efforts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(own: i64, called: i64) -> Option<Executed> {
        Some(Executed { own, called })
    }

    #[test]
    fn what_calls_more_than_it_does_is_worth_the_least() {
        let all = [executed(10, 10 * SHARE), executed(10, SHARE), executed(0, 0), None];
        assert_eq!(efforts(all.into_iter(), false), [Effort::Least, Effort::Full, Effort::Least, Effort::Full]);
        let little = [executed(10, 10 * (UNSIMPLIFIED_SHARE - 1)), executed(10, 10 * (UNSIMPLIFIED_SHARE - 1) - 1)];
        assert_eq!(efforts(little.into_iter(), false), [Effort::Unsimplified, Effort::Full]);
    }

    #[test]
    fn what_is_next_to_nothing_of_a_run_is_too() {
        let most = executed(SHORT, 0);
        let share = SHORT / SHARE;
        assert_eq!(efforts([executed(share, 0), most].into_iter(), true), [Effort::Least, Effort::Full]);
        assert_eq!(efforts([executed(share, 0), most].into_iter(), false), [Effort::Full, Effort::Full]);
        // Together they are more.
        let several = [most, executed(share / 2, 0), executed(share * 3 / 4, 0)];
        assert_eq!(efforts(several.into_iter(), true), [Effort::Full, Effort::Least, Effort::Full]);
        // Of a short run nothing is next to nothing.
        let short = [executed(1, 0), executed(SHORT - 2, 0)];
        assert_eq!(efforts(short.into_iter(), true), [Effort::Full, Effort::Full]);
    }

    #[test]
    fn counts_do_not_overflow() {
        let mut e = Executed::default();
        e.add_own(i64::MAX, 3);
        e.add_called(i64::MAX, 2);
        e.add(2, e);
        assert_eq!(efforts([Some(e), executed(1, 0)].into_iter(), true), [Effort::Full, Effort::Least]);
    }
}
