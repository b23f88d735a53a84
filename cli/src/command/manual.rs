//! `brolga completions` and `brolga man`: what the command line says of itself, for shells and for `man`.

use crate::command::args::{Cli, CompletionsArgs, ManArgs};
use crate::command::failure::Failure;
use crate::command::output;
use clap::CommandFactory;

/// `brolga completions`.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "brolga", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// `brolga man`.
pub fn pages(args: &ManArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.dir).map_err(|e| Failure::file(&args.dir, e))?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(|e| Failure::file(&args.dir, e))
}
