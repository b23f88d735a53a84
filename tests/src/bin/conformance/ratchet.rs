//! The committed results: what passes today must pass tomorrow.

use crate::check::{Outcome, Status};
use crate::diagnose;
use std::collections::BTreeMap;
use std::path::Path;

type Results = BTreeMap<String, BTreeMap<String, Outcome>>;
type Counts = BTreeMap<String, BTreeMap<String, usize>>;
type Anything<T> = Result<T, Box<dyn std::error::Error>>;

/// Compares with the committed results, or rewrites them. `partial` says that some cases were left out, so that counts
/// mean nothing. `Ok(false)` is a regression, which has been printed.
pub fn settle(dir: &Path, results: &Results, partial: bool, update: bool) -> Anything<bool> {
    let counts_file = dir.join("ratchet.json");
    let mut counts: Counts = match std::fs::read(&counts_file) {
        Ok(bytes) => read_counts(&serde_json::from_slice(&bytes)?),
        Err(_) => Counts::new(),
    };
    let mut good = true;
    let mut better = 0usize;
    for (engine, cases) in results {
        let list = read_list(&dir.join(format!("{engine}.txt")))?;
        for (id, outcome) in cases {
            let before = list.get(id).copied().unwrap_or(Status::Pass);
            if outcome.status > before && !update {
                good = false;
                println!("REGRESSION {engine} {id}: was {}, is {}", before.word(), outcome.status.word());
            }
            better += usize::from(outcome.status < before);
        }
        if partial {
            continue;
        }
        let now = passes(cases);
        for (suite, &before) in counts.get(engine).into_iter().flatten() {
            let is = now.get(suite).copied().unwrap_or(0);
            if is < before {
                good = false;
                println!("REGRESSION {engine} {suite}: {before} cases passed, now {is}");
            }
        }
        if update && good {
            counts.insert(engine.clone(), now);
            std::fs::create_dir_all(dir)?;
            std::fs::write(dir.join(format!("{engine}.txt")), list_text(cases))?;
            if engine == "diagnose" {
                diagnose::write(dir, cases)?;
            }
        }
    }
    if update && partial {
        return Err("--update needs the whole corpus: leave out --suite, --filter and --containing".into());
    }
    if update && good {
        std::fs::write(&counts_file, format!("{:#}\n", serde_json::json!(counts)))?;
        println!("the ratchet is updated");
    } else if better > 0 {
        println!("{better} cases do better than the ratchet says; --update raises it");
    }
    Ok(good)
}

fn passes(cases: &BTreeMap<String, Outcome>) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for (id, outcome) in cases {
        let suite = id.split('/').next().unwrap_or(id);
        *out.entry(suite.to_owned()).or_insert(0) += usize::from(outcome.status == Status::Pass);
    }
    out
}

fn read_counts(value: &serde_json::Value) -> Counts {
    let mut out = Counts::new();
    for (engine, suites) in value.as_object().into_iter().flatten() {
        for (suite, count) in suites.as_object().into_iter().flatten() {
            let count = count.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            out.entry(engine.clone()).or_default().insert(suite.clone(), count);
        }
    }
    out
}

fn read_list(path: &Path) -> Anything<BTreeMap<String, Status>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(BTreeMap::new());
    };
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (status, id) = line.split_once(' ').ok_or_else(|| format!("{}: '{line}'", path.display()))?;
            let status = Status::from_word(status).ok_or_else(|| format!("{}: '{line}'", path.display()))?;
            Ok((id.to_owned(), status))
        })
        .collect()
}

fn list_text(cases: &BTreeMap<String, Outcome>) -> String {
    let mut out = String::from("# Cases that do not pass; written by `conformance --update`.\n");
    for (id, outcome) in cases.iter().filter(|(_, o)| o.status != Status::Pass) {
        out.push_str(&format!("{} {id}\n", outcome.status.word()));
    }
    out
}
