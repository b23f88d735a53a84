//! What a person sees who waits: on a terminal, what is being done and for how long; nothing anywhere else.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What takes less long is not spoken of.
const PATIENCE: Duration = Duration::from_millis(700);

/// How often the line is drawn.
const TICK: Duration = Duration::from_millis(120);

/// Does `work`; while it lasts, standard error says `what` where it is a terminal. The line is gone afterwards.
pub fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, waits) = channel::<()>();
        scope.spawn(move || {
            if waits.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.set_style(style);
            }
            bar.set_message(what.to_owned());
            while waits.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        });
        // Dropped where the work panics, too, so that the thread ends.
        let _done = done;
        work()
    })
}
