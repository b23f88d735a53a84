//! Loading compiled programs.

use crate::failure::Failure;
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{Program, UndefinedSymbol};

/// Loads an object; with `strict` a custom call that nobody defines is an error.
pub fn load(object: &[u8], strict: bool) -> Result<Program, Failure> {
    let options = LoadOptions { strict_symbols: strict, ..LoadOptions::default() };
    Program::from_object_with(object, &options).map_err(|e| Failure::Run(e.to_string()))
}

/// Says which custom calls lead nowhere; with `strict` the first of them is an error.
pub fn report_undefined(symbols: &[UndefinedSymbol], strict: bool) -> Result<(), Failure> {
    match symbols.first() {
        Some(symbol) if strict => Err(Failure::Run(symbol.to_string())),
        _ => {
            for symbol in symbols {
                eprintln!("warning: {symbol}; a run that comes to the call fails");
            }
            Ok(())
        }
    }
}
