//! Instruction-set features, under the names that Rust gives them.

use super::Architecture;
use std::fmt;

/// A set of instruction-set features, one bit each; the bits of different architectures do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IsaFeatures(pub u64);

macro_rules! isa_features {
    ($($constant:ident $bit:literal $name:tt;)*) => {
        impl IsaFeatures {
            $(#[doc = concat!("`", $name, "`.")] pub const $constant: IsaFeatures = IsaFeatures(1 << $bit);)*

            /// Every feature with its name.
            pub const ALL: &'static [(IsaFeatures, &'static str)] = &[$((IsaFeatures::$constant, $name),)*];
        }
    };
}

isa_features! {
    SSE3 0 "sse3";
    SSSE3 1 "ssse3";
    SSE41 2 "sse4.1";
    SSE42 3 "sse4.2";
    POPCNT 4 "popcnt";
    AVX 5 "avx";
    AVX2 6 "avx2";
    FMA 7 "fma";
    F16C 8 "f16c";
    BMI1 9 "bmi1";
    BMI2 10 "bmi2";
    LZCNT 11 "lzcnt";
    CMPXCHG16B 12 "cmpxchg16b";
    AVX512F 13 "avx512f";
    AVX512BW 14 "avx512bw";
    AVX512DQ 15 "avx512dq";
    AVX512VL 16 "avx512vl";
    AVX512VBMI 17 "avx512vbmi";
    AVX512BITALG 18 "avx512bitalg";
    AVX512VNNI 19 "avx512vnni";
    AVXVNNI 20 "avxvnni";
    AVX512BF16 21 "avx512bf16";
    LSE 32 "lse";
    PAUTH 33 "paca";
    FP16 34 "fp16";
    DOTPROD 35 "dotprod";
    RISCV_V 48 "v";
    ZBA 49 "zba";
    ZBB 50 "zbb";
    ZBC 51 "zbc";
    ZBS 52 "zbs";
    ZBKB 53 "zbkb";
    ZFA 54 "zfa";
    ZFH 55 "zfh";
    ZFHMIN 56 "zfhmin";
    ZICOND 57 "zicond";
    ZVFH 58 "zvfh";
    ZCA 59 "zca";
    ZCB 60 "zcb";
    ZCD 61 "zcd";
}

impl IsaFeatures {
    /// No feature beyond the architecture's baseline.
    pub const NONE: IsaFeatures = IsaFeatures(0);

    /// The feature with the given name, as in `CARGO_CFG_TARGET_FEATURE`.
    pub fn from_name(name: &str) -> Option<IsaFeatures> {
        IsaFeatures::ALL.iter().find(|(_, n)| *n == name).map(|&(f, _)| f)
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: IsaFeatures) -> IsaFeatures {
        IsaFeatures(self.0 | other.0)
    }

    /// What is in this set and not in `other`.
    #[must_use]
    pub const fn without(self, other: IsaFeatures) -> IsaFeatures {
        IsaFeatures(self.0 & !other.0)
    }

    /// True where every feature of `other` is in this set.
    pub const fn contains(self, other: IsaFeatures) -> bool {
        other.0 & !self.0 == 0
    }

    /// True for the empty set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What the processor that runs this code offers.
    pub fn detect() -> IsaFeatures {
        #[allow(unused_mut, reason = "a riscv64 host has no probe in the standard library")]
        let mut found = IsaFeatures::NONE;
        #[allow(unused_macros, reason = "as above")]
        macro_rules! probe {
            ($detect:ident: $($name:tt $constant:ident),*) => {
                $(if std::arch::$detect!($name) { found = found.union(IsaFeatures::$constant); })*
            };
        }
        #[cfg(target_arch = "x86_64")]
        probe!(is_x86_feature_detected: "sse3" SSE3, "ssse3" SSSE3, "sse4.1" SSE41, "sse4.2" SSE42, "popcnt" POPCNT,
            "avx" AVX, "avx2" AVX2, "fma" FMA, "f16c" F16C, "bmi1" BMI1, "bmi2" BMI2, "lzcnt" LZCNT,
            "cmpxchg16b" CMPXCHG16B, "avx512f" AVX512F, "avx512bw" AVX512BW, "avx512dq" AVX512DQ,
            "avx512vl" AVX512VL, "avx512vbmi" AVX512VBMI, "avx512bitalg" AVX512BITALG,
            "avx512vnni" AVX512VNNI, "avxvnni" AVXVNNI, "avx512bf16" AVX512BF16);
        #[cfg(target_arch = "aarch64")]
        probe!(is_aarch64_feature_detected: "lse" LSE, "paca" PAUTH, "fp16" FP16, "dotprod" DOTPROD);
        found
    }
}

/// The names, separated by commas.
impl fmt::Display for IsaFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut comma = "";
        for (feature, name) in IsaFeatures::ALL {
            if self.contains(*feature) {
                write!(f, "{comma}{name}")?;
                comma = ",";
                rest &= !feature.0;
            }
        }
        if rest != 0 {
            write!(f, "{comma}unknown features {rest:#x}")?;
        }
        Ok(())
    }
}

/// The architecture that this code was compiled for, where Brolga knows it.
pub const fn host_architecture() -> Option<Architecture> {
    if cfg!(target_arch = "x86_64") {
        Some(Architecture::X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(Architecture::Aarch64)
    } else if cfg!(target_arch = "riscv64") {
        Some(Architecture::Riscv64)
    } else if cfg!(target_arch = "s390x") {
        Some(Architecture::S390x)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_names_are_unique() {
        for (i, (a, name)) in IsaFeatures::ALL.iter().enumerate() {
            assert_eq!(IsaFeatures::from_name(name), Some(*a));
            assert!(IsaFeatures::ALL.iter().skip(i + 1).all(|(b, _)| a != b));
        }
        let both = IsaFeatures::AVX.union(IsaFeatures::FMA);
        assert_eq!(both.to_string(), "avx,fma");
        assert_eq!(both.without(IsaFeatures::AVX), IsaFeatures::FMA);
    }

    #[test]
    fn detection_stays_within_the_table() {
        let all = IsaFeatures::ALL.iter().fold(IsaFeatures::NONE, |a, (b, _)| a.union(*b));
        assert!(all.contains(IsaFeatures::detect()));
    }
}
