//! The widths of registers that rows can go by in on the machine at hand.

use brolga_compiler::codegen::target::TargetOptions;
use brolga_runtime::abi::IsaFeatures;
use std::sync::Once;

/// What rows of 512 bits need.
pub const WIDEST: IsaFeatures = IsaFeatures::AVX512F.union(IsaFeatures::AVX512BW).union(IsaFeatures::AVX512DQ);

/// A level, with features besides its own.
pub fn level(cpu: &str, features: &[&str]) -> TargetOptions {
    let features = features.iter().map(|f| (*f).to_owned()).collect();
    TargetOptions { cpu: Some(cpu.to_owned()), features, ..TargetOptions::default() }
}

/// A target for each width that this machine has, the narrowest first: the level with registers of 256 bits, and that with 512.
/// Off x86-64 the default target. What this machine has not is said, once.
pub fn targets() -> Vec<TargetOptions> {
    if cfg!(not(target_arch = "x86_64")) {
        return vec![TargetOptions::default()];
    }
    static SAID: Once = Once::new();
    let levels = if IsaFeatures::detect().contains(WIDEST) {
        &["x86-64-v3", "x86-64-v4"][..]
    } else {
        SAID.call_once(|| eprintln!("SKIPPED: registers of 512 bits, which this machine has not"));
        &["x86-64-v3"]
    };
    levels.iter().map(|cpu| level(cpu, &[])).collect()
}
