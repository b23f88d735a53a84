//! `brolga bench --profile --trace`: a run as Chrome's trace events.
//!
//! Problem: compiled code keeps no clock, so nobody has seen when each kernel began. Invariant: a trace shows what the profile
//! measured and nothing else: each kernel once, as long as it took alone. Algorithm: the kernels in the order in which they stand, one
//! after the other, inside one event for the run, all on the track of the thread that calls; the workers' shares were not measured
//! apart. What has no time, a call of the host or of a library service, is a mark between them.

use brolga_compiler::survey::KernelSurvey;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The number of the one process and of its thread.
const ONE: u32 = 1;

/// The text of a trace: times are in microseconds. `threads` is what each kernel was measured with.
pub fn trace(module: &str, threads: u32, measured: &[(KernelSurvey, Option<f64>)]) -> String {
    let named =
        |kind: &str, name: &str| json!({ "ph": "M", "name": kind, "pid": ONE, "tid": ONE, "args": { "name": name } });
    let mut events = vec![named("process_name", module), named("thread_name", "kernels, each measured alone")];
    let (mut now, mut kernels) = (0.0, Vec::new());
    for (kernel, seconds) in measured {
        let mut event = json!({
            "name": format!("{} {}", kernel.id, kernel.name),
            "cat": kernel.kind,
            "ts": now,
            "pid": ONE,
            "tid": ONE,
            "args": arguments(kernel),
        });
        match seconds.map(|seconds| seconds * 1e6) {
            Some(micros) => {
                event["ph"] = "X".into();
                event["dur"] = micros.into();
                now += micros;
            }
            None => {
                event["ph"] = "i".into();
                // On its thread alone.
                event["s"] = "t".into();
            }
        }
        kernels.push(event);
    }
    let about = json!({ "threads": threads, "kernels": measured.len() });
    events.push(json!({
        "ph": "X", "name": format!("run of {module}"), "cat": "run", "ts": 0.0, "dur": now, "pid": ONE, "tid": ONE, "args": about,
    }));
    events.append(&mut kernels);
    format!("{:#}\n", json!({ "displayTimeUnit": "ns", "traceEvents": events }))
}

/// What a viewer shows of a kernel that is clicked on.
fn arguments(kernel: &KernelSurvey) -> Value {
    let origins: BTreeSet<&str> = kernel.instructions.iter().filter_map(|i| i.origin.as_deref()).collect();
    json!({
        "hlo": kernel.instructions.iter().map(|i| i.text.as_str()).collect::<Vec<_>>(),
        "line": (kernel.line > 0).then_some(kernel.line),
        "source": origins,
        "reads_bytes": kernel.reads,
        "writes_bytes": kernel.writes,
    })
}
