//! The widths of registers that rows can go by in on the machine at hand.

use brolga_compiler::codegen::target::TargetOptions;
use brolga_runtime::abi::IsaFeatures;

/// What rows of 512 bits need.
pub const WIDEST: IsaFeatures = IsaFeatures::AVX512F.union(IsaFeatures::AVX512BW).union(IsaFeatures::AVX512DQ);

/// A target for each width that this machine has, the narrowest first: the level with registers of 256 bits, and that with 512.
/// Off x86-64 the default target.
pub fn targets() -> Vec<TargetOptions> {
    if cfg!(not(target_arch = "x86_64")) {
        return vec![TargetOptions::default()];
    }
    let levels = if IsaFeatures::detect().contains(WIDEST) { &["x86-64-v3", "x86-64-v4"][..] } else { &["x86-64-v3"] };
    levels.iter().map(|level| TargetOptions { cpu: Some((*level).to_owned()), ..TargetOptions::default() }).collect()
}
