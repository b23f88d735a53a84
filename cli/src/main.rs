//! The `brolga` program. Everything it does stands in the library beside it, where tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    brolga::command::main()
}
