//! Version 1 of the interface, byte for byte: what programs of released compilers say of themselves must be read for ever,
//! and what callers of released headers lay out must be found where they put it. `docs/object-format.md` has the rules.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::ElementType;

/// A small program with an entry in every table.
fn info() -> DescriptorInfo {
    let mut d = DescriptorInfo::new("f", Architecture::X86_64);
    d.module_name = "m".into();
    d.features = IsaFeatures::SSE3.union(IsaFeatures::AVX);
    d.variant = NumericVariant::Fma;
    d.hash = [0xab; HASH_SIZE];
    (d.workspace_fixed, d.workspace_per_worker) = (256, 64);
    let x = ArrayShape::new(ElementType::F32, [2, 3]);
    d.parameters = vec![Leaf { name: "x".into(), shape: x, tensor: TensorFlags::VARIABLE }];
    d.results = vec![Leaf::new(ArrayShape::new(ElementType::S64, [3]))];
    d.aliases = vec![Alias { parameter: 0, result: 0, must: true }];
    (d.needed_services, d.optional_services) = (Services::PARALLEL_FOR, Services::GEMM_F32);
    d.custom_calls = vec![CustomCallInfo { symbol: "g".into(), abi: CustomCallAbi::TypedFfi, line: 7 }];
    d.open = vec![OpenDimension { parameter: 0, dimension: 1 }];
    d.devices = [2, 3];
    d.levels = vec![d.features, d.features.union(IsaFeatures::AVX2)];
    d
}

/// Words by their offsets; what is not named is zero.
const WORDS: &[(usize, &[u32])] = &[
    // Size, version, `BRLG`, size of the header, hash.
    (0, &[360, 1, 0x474c_5242, 152, 0xabab_abab, 0xabab_abab, 0xabab_abab, 0xabab_abab]),
    // Features, needed and optional services, workspace, in 64 bits; architecture, variant.
    (32, &[0x21, 0, 1, 0, 2, 0, 256, 0, 64, 0, 1, 1]),
    // Counts and offsets: parameters, results, aliases, custom calls. Names of module and entry: offsets and lengths.
    (80, &[1, 152, 1, 200, 1, 248, 1, 264, 352, 1, 354, 1]),
    // Open dimensions, devices, levels.
    (128, &[1, 328, 2, 3, 2, 336]),
    // The parameter: f32, rank, bytes; dimensions, dynamic flags, order, flags; bits, padding, name.
    (152, &[11, 2, 24, 0, 280, 304, 296, 0x602, 32, 0, 306, 1]),
    // The result: s64, without a name.
    (200, &[5, 1, 24, 0, 312, 324, 320, 2, 64, 0, 325, 0]),
    // The alias, the custom call.
    (248, &[0, 0, 1]),
    (264, &[326, 1, 4, 7]),
    // The dimensions and their order, of the parameter and of the result.
    (280, &[2, 0, 3, 0, 1, 0]),
    (312, &[3, 0, 0]),
    // The open dimension, the levels.
    (328, &[0, 1, 0x21, 0, 0x61, 0]),
];

/// The names, each with a zero behind it.
const NAMES: &[(usize, u8)] = &[(306, b'x'), (326, b'g'), (352, b'm'), (354, b'f')];

#[test]
fn the_descriptor_of_version_1() {
    let mut pinned = vec![0u8; 360];
    for (at, words) in WORDS {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        pinned[*at..at + bytes.len()].copy_from_slice(&bytes);
    }
    for &(at, letter) in NAMES {
        pinned[at] = letter;
    }
    let encoded = info().encode().unwrap();
    let differs = encoded.iter().zip(&pinned).position(|(a, b)| a != b);
    assert_eq!((encoded.len(), differs), (360, None), "the first byte that differs");
    assert_eq!(DescriptorInfo::decode(&pinned).unwrap(), info());
}

#[test]
fn the_context_of_version_1() {
    let offsets = [
        Context::OFFSET_SIZE,
        Context::OFFSET_ABI_VERSION,
        Context::OFFSET_RANDOM_SEED,
        Context::OFFSET_HOST,
        Context::OFFSET_WORKERS,
        Context::OFFSET_PARALLEL_FOR,
    ];
    assert_eq!(offsets, [0, 4, 8, 16, 24, 32]);
    assert_eq!([std::mem::offset_of!(Context, report), std::mem::offset_of!(Context, resources)], [56, 64]);
    let slots: Vec<(i32, &str)> = Service::ALL.iter().map(|&s| (Context::offset_of(s), s.name())).collect();
    let want = [
        (72, "fft"),
        (80, "cholesky"),
        (88, "triangular_solve"),
        (96, "lu"),
        (104, "qr"),
        (112, "householder_product"),
        (120, "svd"),
        (128, "eigh"),
        (136, "eig"),
        (144, "custom_call"),
        (152, "infeed"),
        (160, "outfeed"),
        (168, "collective"),
        (176, "transfer"),
    ];
    assert_eq!(slots, want, "services stand in the order in which they came to be");
}

#[test]
fn the_numbers_of_version_1() {
    let types: Vec<u8> = ElementType::ALL.iter().map(|ty| ty.code()).collect();
    let want =
        [1, 30, 26, 21, 2, 3, 4, 5, 31, 27, 22, 6, 7, 8, 9, 32, 29, 28, 23, 20, 25, 19, 24, 33, 10, 16, 11, 12, 15, 18];
    assert_eq!(types, want);
    let architectures =
        [Architecture::X86_64, Architecture::Aarch64, Architecture::Riscv64, Architecture::S390x].map(|a| a as u32);
    assert_eq!(architectures, [1, 2, 3, 4]);
    assert_eq!([NumericVariant::Plain, NumericVariant::Fma].map(|v| v as u32), [0, 1]);
    let features = [IsaFeatures::SSE3, IsaFeatures::AVX512BITALG, IsaFeatures::LSE, IsaFeatures::ZCD];
    assert_eq!(features.map(|f| f.0), [1, 1 << 18, 1 << 32, 1 << 61]);
}
