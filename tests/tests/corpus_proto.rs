//! Messages against the corpus: what XLA wrote must read to the module that its text is, and what is written here must read back.
//!
//! Set `BROLGA_CONFORMANCE` to a folder with the suites' zip files. Without it these tests say so and pass.

use super::corpus::corpus;
use brolga_compiler::text::{self, PrintOptions};
use brolga_compiler::{Error, hlo, proto};

fn printed(module: &hlo::Module) -> String {
    text::print(module, &PrintOptions::default())
}

/// The module with its instructions called by number: a message has each name once.
fn numbered(mut module: hlo::Module) -> hlo::Module {
    for computation in module.computations.values_mut() {
        for (k, &id) in computation.order.iter().enumerate() {
            computation.instructions[id].name = format!("i{k}");
        }
    }
    module
}

/// What the text of a module says, without what no message has a field for.
fn without_configuration(mut module: hlo::Module, like: &hlo::Module) -> hlo::Module {
    (module.config.replica_count, module.config.num_partitions) = (None, None);
    let of_compilation = ["alias_passthrough_params", "origin_recovery_table"];
    module.config.other.retain(|(key, _)| !of_compilation.contains(&key.as_str()) && !key.starts_with("allow_spmd"));
    // A message always says what callers see.
    if module.config.entry_layout.is_none() {
        module.config.entry_layout = like.config.entry_layout.clone();
    }
    module
}

#[test]
fn messages_of_xla_read_as_their_text() {
    let Some(cases) = corpus() else { return };
    let mut failures = Vec::new();
    let mut total = 0;
    for case in &cases {
        let Some(message) = &case.message else { continue };
        let Ok(module) = text::parse(&case.text) else { continue };
        total += 1;
        match proto::read(message) {
            Ok(found) => {
                let module = without_configuration(module, &found.module);
                if printed(&found.module) != printed(&module) {
                    failures.push(format!("{}/{} reads as another module", case.suite, case.name));
                }
            }
            Err(error) => failures.push(format!("{}/{}: {error}", case.suite, case.name)),
        }
    }
    eprintln!("{} of {total} messages read as their text\n{}", total - failures.len(), failures.join("\n"));
    assert!(failures.is_empty());
}

#[test]
fn modules_come_back_from_their_messages() {
    let Some(cases) = corpus() else { return };
    let (mut failures, mut refused) = (Vec::new(), Vec::new());
    let mut total = 0;
    for case in &cases {
        let Ok(module) = text::parse(&case.text) else { continue };
        total += 1;
        let bytes = match proto::write(&module) {
            Ok(bytes) => bytes,
            Err(error @ Error::Unsupported { .. }) => {
                refused.push(format!("{}/{}: {error}", case.suite, case.name));
                continue;
            }
            Err(error) => {
                failures.push(format!("{}/{}: {error}", case.suite, case.name));
                continue;
            }
        };
        match proto::read(&bytes) {
            Ok(found) => {
                let module = without_configuration(module, &found.module);
                if printed(&numbered(found.module)) != printed(&numbered(module)) {
                    failures.push(format!("{}/{} comes back as another module", case.suite, case.name));
                }
            }
            Err(error) => failures.push(format!("{}/{}: {error}", case.suite, case.name)),
        }
    }
    eprintln!("{} of {total} refused\n{}", refused.len(), refused.join("\n"));
    eprintln!("{} of {total} fail\n{}", failures.len(), failures.join("\n"));
    assert!(failures.is_empty() && refused.len() * 50 <= total);
}
