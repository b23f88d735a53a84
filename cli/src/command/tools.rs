//! `brolga parse` and `brolga opt`.

use crate::command::args::{OptArgs, ParseArgs};
use crate::command::failure::Failure;
use crate::command::source::{load_module, load_open_module};
use crate::command::{freeze, output};
use brolga_compiler::{passes, proto, stablehlo, text};

/// `brolga parse`.
pub fn parse(args: &ParseArgs) -> Result<(), Failure> {
    let (module, _) = load_open_module(&args.module, &args.shapes.options()?)?;
    let summary = summary_json(&text::summary(&module));
    match &args.summary {
        Some(path) => output::write(path, summary.as_bytes()),
        None => output::print(&summary),
    }
}

fn summary_json(summary: &text::Summary) -> String {
    let value = serde_json::json!({
        "computations": summary.computations,
        "instructions": summary.instructions,
        "opcodes": summary.opcodes,
        "params": summary.params,
        "result": summary.result,
    });
    format!("{value:#}\n")
}

/// `brolga opt`.
pub fn opt(args: &OptArgs) -> Result<(), Failure> {
    let (mut module, source) = load_module(&args.module, &args.shapes.options()?)?;
    freeze::apply(&args.freeze, &mut module, &source)?;
    if !args.no_passes {
        passes::optimize(&mut module, &passes::PassOptions::default()).map_err(|e| Failure::program(e, &source))?;
    }
    if let Some(path) = &args.output {
        let written = match path.extension().and_then(|e| e.to_str()) {
            Some("pb" | "hlopb") => Some(proto::write(&module)),
            Some("mlir") => Some(stablehlo::write_text(&module).map(String::into_bytes)),
            _ => None,
        };
        if let Some(bytes) = written {
            return output::write(path, &bytes.map_err(|e| Failure::program(e, &source))?);
        }
    }
    let text = text::print(&module, &text::PrintOptions::default());
    match &args.output {
        Some(path) => output::write(path, text.as_bytes()),
        None => output::print(&text),
    }
}
