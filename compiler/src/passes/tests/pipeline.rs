//! The whole pipeline: bounds, hooks, statistics.

use super::{lines, module};
use crate::passes::{PassOptions, REPEAT, inline, optimize, optimize_with};
use std::fmt::Write;

/// Computations that call the next one twice: 2^60 calls in a text of a few kilobytes.
#[test]
fn doubling_calls_stay_within_the_budget() {
    let mut others = String::from("f0 { x = f32[] parameter(0) y = f32[] add(x, x) ROOT r = f32[] multiply(y, x) }\n");
    for k in 1..60 {
        writeln!(
            others,
            "f{k} {{ x = f32[] parameter(0) a = f32[] call(x), to_apply=f{0} b = f32[] call(a), to_apply=f{0} \
             ROOT r = f32[] add(a, b) }}",
            k - 1
        )
        .unwrap();
    }
    let mut module = module(&others, "p = f32[] parameter(0)\nROOT r = f32[] call(p), to_apply=f59");
    optimize(&mut module, &PassOptions::default()).unwrap();
    let total: usize = module.order.iter().map(|&c| module.computations[c].order.len()).sum();
    assert!(total < 2 * inline::BUDGET_FLOOR, "{total} instructions");
}

#[test]
fn hooks_see_each_pass_and_times_are_kept() {
    let mut module = module("", "p = f32[2]{0} parameter(0)\nROOT c = f32[2]{0} copy(p)");
    let mut seen = Vec::new();
    let stats = optimize_with(&mut module, &PassOptions::default(), &mut |name, _| seen.push(name.to_owned())).unwrap();
    assert_eq!(seen.len(), stats.records.len());
    assert!(seen.iter().any(|name| name == "layout"), "{seen:?}");
    assert_eq!(lines(&module).len(), 1);
    assert!(stats.to_string().contains("simplify"), "{stats}");
}

#[test]
fn each_pass_that_repeats_sees_what_came_of_the_last_change_once() {
    let (p, twice) = ("p = f32[2] parameter(0)\n", "t = f32[2] call(p), to_apply=c\nu = f32[2] call(p), to_apply=c\n");
    let called = "c { q = f32[2] parameter(0)\nz = f32[] constant(1)\nb = f32[2] broadcast(z), dimensions={}\nROOT m = f32[2] multiply(q, b) }";
    for (others, text) in
        [("", format!("{p}ROOT n = f32[2] negate(p)")), (called, format!("{p}{twice}ROOT a = f32[2] add(t, u)"))]
    {
        let mut module = module(others, &text);
        let stats = optimize(&mut module, &PassOptions::default()).unwrap();
        let changed = stats.records.iter().rposition(|r| r.stats.changes() > 0).map_or(0, |last| last + 1);
        for &(name, _) in REPEAT {
            let runs = stats.records[changed..].iter().filter(|r| r.name == name).count();
            assert_eq!(runs, 1, "{name}: {stats}");
        }
        assert_eq!(changed > 0, !others.is_empty(), "{stats}");
    }
}

#[test]
fn callers_keep_their_layouts() {
    let text = "p = f32[2,3]{0,1} parameter(0)\nROOT n = f32[2,3]{1,0} negate(p)";
    let mut kept = module("", text);
    optimize(&mut kept, &PassOptions::default()).unwrap();
    let (parameters, _) = kept.config.abi.clone().unwrap();
    assert_eq!(parameters[0].to_string(), "f32[2,3]{0,1}");
    assert_eq!(crate::passes::layout::physical(&parameters[0]).to_string(), "f32[3,2]");
    let mut plain = module("", text);
    let options = PassOptions { keep_entry_layouts: false, ..PassOptions::default() };
    optimize(&mut plain, &options).unwrap();
    assert_eq!(lines(&plain).len(), 2);
}
