//! Compiles `c/program.hlo`, then `c/main.c` with the system's C compiler, links the two and runs the result. Without a
//! C compiler it says so and does nothing.

use brolga_compiler::object::c_header;
use brolga_compiler::{CompileOptions, compile, text};
use std::process::Command;

const MODULE: &str = include_str!("../c/program.hlo");
const MAIN: &str = include_str!("../c/main.c");
const EXPECTED: &str = "myfunc: 42 1 1\nsum: 2 4\nends: 2 1, 10 60\n";

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        println!("SKIPPED: there is no C compiler '{compiler}'");
        return Ok(());
    }
    let options = CompileOptions { name: Some("program".to_owned()), ..CompileOptions::default() };
    let artifact = compile(&text::parse(MODULE)?, &options)?;
    let directory = std::env::temp_dir().join(format!("brolga-c-host-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("program.o"), &artifact.object)?;
    std::fs::write(directory.join("program.h"), c_header(&[artifact.descriptor]))?;
    std::fs::write(directory.join("main.c"), MAIN)?;
    let arguments = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "host", "main.c", "program.o"];
    let built = Command::new(&compiler).args(arguments).current_dir(&directory).output()?;
    if !built.status.success() {
        return Err(format!("{compiler} failed:\n{}", String::from_utf8_lossy(&built.stderr)).into());
    }
    let ran = Command::new(directory.join("host")).output()?;
    std::fs::remove_dir_all(&directory)?;
    let printed = String::from_utf8_lossy(&ran.stdout);
    print!("{printed}");
    if ran.status.success() && printed == EXPECTED {
        Ok(())
    } else {
        Err(format!("{}: expected\n{EXPECTED}", ran.status).into())
    }
}
