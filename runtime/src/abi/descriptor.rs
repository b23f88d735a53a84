//! The descriptor: what a compiled program says of itself, and how that is written down.
//!
//! A fixed header ([`HEADER_SIZE`] bytes, see [`DescriptorInfo::encode`]) refers by offset to tables of fixed-size
//! records, to arrays of dimensions and to names, all within the one blob.

use super::coded::coded;
use super::{IsaFeatures, TensorFlags, leaf_byte_size, storage_bits};
use crate::ArrayShape;
use std::fmt;

/// The third word of every descriptor: `BRLG`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"BRLG");
/// Bytes of the descriptor's fixed header in this version.
pub const HEADER_SIZE: usize = 152;
/// Bytes of the header before programs were compiled for several levels of a processor.
pub(super) const DEVICES_HEADER_SIZE: usize = 144;
/// Bytes of the header before programs for several devices were compiled.
pub(super) const FIRST_HEADER_SIZE: usize = 136;
/// Offset of the content hash in a descriptor.
pub const HASH_OFFSET: usize = 16;
/// Bytes of the content hash.
pub const HASH_SIZE: usize = 16;
/// The largest rank a descriptor may name.
pub const MAX_RANK: usize = 1024;
/// The largest number of parameters, results, aliases or custom calls.
pub const MAX_LEAVES: usize = 1 << 20;

pub(super) const LEAF_SIZE: usize = 48;
/// Where a leaf has the offset of its padding: zero in programs of compilers that knew none.
pub(super) const LEAF_PADDING: usize = 36;
pub(super) const ALIAS_SIZE: usize = 12;
pub(super) const CUSTOM_CALL_SIZE: usize = 16;
pub(super) const OPEN_SIZE: usize = 8;
pub(super) const LEVEL_SIZE: usize = 8;
pub(super) const LEAF_DYNAMIC: u32 = 1;
pub(super) const LEAF_ROW_MAJOR: u32 = 2;
/// Where the attributes of a declared tensor begin among a leaf's flags.
pub(super) const LEAF_TENSOR_SHIFT: u32 = 8;

coded! {
    /// The processor family of a program.
    pub enum Architecture: u32 {
        /// 64-bit x86.
        X86_64 = 1,
        /// 64-bit Arm.
        Aarch64 = 2,
        /// 64-bit RISC-V.
        Riscv64 = 3,
        /// IBM Z.
        S390x = 4,
    }
}

impl Architecture {
    /// Whether the first byte of a number in memory is its highest.
    pub const fn is_big_endian(self) -> bool {
        matches!(self, Architecture::S390x)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            Architecture::Riscv64 => "riscv64",
            Architecture::S390x => "s390x",
        })
    }
}

coded! {
    /// Which of the two families of polynomials and multiply-add chains the program computes with. Within one variant
    /// results have the same bits on every machine.
    #[derive(Default)]
    pub enum NumericVariant: u32 {
        /// Multiplications and additions are rounded separately.
        #[default]
        Plain = 0,
        /// Fused multiply-add.
        Fma = 1,
    }
}

/// A set of runtime services, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Services(pub u64);

impl Services {
    /// No service.
    pub const NONE: Services = Services(0);
    /// Parallel loops.
    pub const PARALLEL_FOR: Services = Services(1);
    /// A wide tile for `f32` contractions, which programs of older compilers use where it is offered.
    pub const GEMM_F32: Services = Services(2);
    /// The same for `f64`.
    pub const GEMM_F64: Services = Services(4);
    /// The bit of the first library service; see [`Service`](super::Service).
    pub const FIRST_LIBRARY_BIT: u32 = 8;

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Services) -> Services {
        Services(self.0 | other.0)
    }

    /// True where every service of `other` is in this set.
    pub const fn contains(self, other: Services) -> bool {
        other.0 & !self.0 == 0
    }
}

/// The names, separated by commas.
impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Vec::new();
        let known = [
            (Services::PARALLEL_FOR, "parallel_for"),
            (Services::GEMM_F32, "gemm_f32"),
            (Services::GEMM_F64, "gemm_f64"),
        ];
        for (bit, name) in known {
            if self.contains(bit) {
                names.push(name.to_owned());
            }
        }
        let mut rest = self.0 & !7;
        for service in super::Service::ALL.iter().filter(|s| self.contains(s.set())) {
            names.push(service.name().to_owned());
            rest &= !service.set().0;
        }
        if rest != 0 {
            names.push(format!("unknown services {rest:#x}"));
        }
        f.write_str(&names.join(","))
    }
}

/// One parameter or result buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// The parameter's name in the program, empty for results.
    pub name: String,
    /// The shape with its layout.
    pub shape: ArrayShape,
    /// The attributes of the tensor that is declared by this name; none where there is no declaration.
    pub tensor: TensorFlags,
}

impl Leaf {
    /// A leaf without a name.
    pub fn new(shape: ArrayShape) -> Leaf {
        Leaf { name: String::new(), shape, tensor: TensorFlags::NONE }
    }

    /// Bytes of the buffer. Saturates; descriptors with such a leaf cannot be encoded or decoded.
    pub fn byte_size(&self) -> u64 {
        leaf_byte_size(&self.shape).unwrap_or(u64::MAX)
    }

    /// Elements of the buffer, padding included. Saturates.
    pub fn buffer_elements(&self) -> usize {
        self.shape.padded_elements().unwrap_or(usize::MAX)
    }

    /// The dimensions from the fastest-varying to the slowest.
    pub fn minor_to_major(&self) -> Vec<usize> {
        self.shape.minor_to_major()
    }
}

/// A parameter and a result that share, or may share, a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    /// Number of the parameter leaf.
    pub parameter: u32,
    /// Number of the result leaf.
    pub result: u32,
    /// True where the caller must pass the same pointer for both, false where it may.
    pub must: bool,
}

coded! {
    /// How a custom call's function is called.
    pub enum CustomCallAbi: u32 {
        /// `void f(void *out, const void **in)`.
        Original = 1,
        /// `void f(void *out, const void **in, XlaCustomCallStatus *status)`.
        StatusReturning = 2,
        /// As [`CustomCallAbi::StatusReturning`], with the opaque string and its length before the status.
        StatusReturningUnified = 3,
        /// `XLA_FFI_Error *f(XLA_FFI_CallFrame *)`.
        TypedFfi = 4,
    }
}

/// A function outside the object that the program calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomCallInfo {
    /// The undefined symbol.
    pub symbol: String,
    /// How it is called.
    pub abi: CustomCallAbi,
    /// Line of the (first) instruction in the HLO text, 0 where unknown.
    pub line: u32,
}

/// A dimension of a parameter whose size the source program leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenDimension {
    /// Number of the parameter leaf.
    pub parameter: u32,
    /// Number of the dimension.
    pub dimension: u32,
}

/// Sizes of `open` dimensions as names show them: `x` between those of one parameter, `_` before the next, `8x128_8`.
pub fn size_text(open: &[OpenDimension], sizes: &[i64]) -> String {
    let mut out = String::new();
    let mut last = None;
    for (open, size) in open.iter().zip(sizes) {
        match last {
            Some(parameter) if parameter == open.parameter => out.push('x'),
            Some(_) => out.push('_'),
            None => {}
        }
        out.push_str(&size.to_string());
        last = Some(open.parameter);
    }
    out
}

/// What a compiled program says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorInfo {
    /// Name of the HLO module.
    pub module_name: String,
    /// Symbol of the entry function, `NAME`; the descriptor's own symbol is `NAME_descriptor`.
    pub entry: String,
    /// The processor family.
    pub architecture: Architecture,
    /// The features that the code needs; of code for several levels, those of the lowest.
    pub features: IsaFeatures,
    /// Which arithmetic the program uses.
    pub variant: NumericVariant,
    /// Hash of the object file without these sixteen bytes. The writer of the object fills it in.
    pub hash: [u8; HASH_SIZE],
    /// Bytes of workspace whatever the number of workers.
    pub workspace_fixed: u64,
    /// Bytes of workspace for each worker; a multiple of 64 where not 0. Worker `w` owns the bytes from
    /// `workspace_fixed` rounded up to 64, plus `w` times this.
    pub workspace_per_worker: u64,
    /// Parameter leaves.
    pub parameters: Vec<Leaf>,
    /// Result leaves.
    pub results: Vec<Leaf>,
    /// Parameters and results that share buffers.
    pub aliases: Vec<Alias>,
    /// Services that the program cannot run without.
    pub needed_services: Services,
    /// Services that the program uses where they are offered.
    pub optional_services: Services,
    /// Undefined symbols of the object.
    pub custom_calls: Vec<CustomCallInfo>,
    /// Of an object for several sizes: the dimensions whose sizes tell its entries apart, in order. Empty for a program
    /// of one size.
    pub open: Vec<OpenDimension>,
    /// How many replicas, and partitions of each, the program was compiled for.
    pub devices: [u32; 2],
    /// The features of each level of the processor that the program has code for, the lowest first. Empty where there is one
    /// code for all processors with [`DescriptorInfo::features`] and the program does not ask the processor.
    pub levels: Vec<IsaFeatures>,
}

impl DescriptorInfo {
    /// A descriptor without leaves, workspace or services.
    pub fn new(entry: &str, architecture: Architecture) -> DescriptorInfo {
        DescriptorInfo {
            module_name: entry.to_owned(),
            entry: entry.to_owned(),
            architecture,
            features: IsaFeatures::NONE,
            variant: NumericVariant::Plain,
            hash: [0; HASH_SIZE],
            workspace_fixed: 0,
            workspace_per_worker: 0,
            parameters: Vec::new(),
            results: Vec::new(),
            aliases: Vec::new(),
            needed_services: Services::NONE,
            optional_services: Services::NONE,
            custom_calls: Vec::new(),
            open: Vec::new(),
            devices: [1, 1],
            levels: Vec::new(),
        }
    }

    /// The sizes of the open dimensions that this entry was compiled for.
    pub fn sizes(&self) -> Vec<i64> {
        let size = |open: &OpenDimension| {
            let leaf = self.parameters.get(open.parameter as usize);
            leaf.and_then(|leaf| leaf.shape.dims.get(open.dimension as usize)).copied().unwrap_or(0)
        };
        self.open.iter().map(size).collect()
    }

    /// [`DescriptorInfo::sizes`] as names show them.
    pub fn size_text(&self) -> String {
        size_text(&self.open, &self.sizes())
    }

    /// The name of the whole program: the entry's, without the size of an object for several.
    pub fn program_name(&self) -> &str {
        let suffix = format!("__{}", self.size_text());
        if self.open.is_empty() { &self.entry } else { self.entry.strip_suffix(&suffix).unwrap_or(&self.entry) }
    }

    /// Symbol of the descriptor.
    pub fn descriptor_symbol(&self) -> String {
        format!("{}_descriptor", self.entry)
    }

    /// Bytes of workspace for the given number of workers, or `None` where that overflows.
    pub fn workspace_size(&self, workers: u32) -> Option<u64> {
        if self.workspace_per_worker == 0 {
            return Some(self.workspace_fixed);
        }
        let per_worker = self.workspace_per_worker.checked_mul(u64::from(workers))?;
        self.workspace_fixed.checked_next_multiple_of(64)?.checked_add(per_worker)
    }

    /// True where the program needs neither services nor symbols: its context may be null.
    pub fn is_freestanding(&self) -> bool {
        self.needed_services == Services::NONE && self.custom_calls.is_empty()
    }

    /// The blob, to be placed at 8-byte alignment, its numbers in the order of the architecture. `None` where a shape or table is
    /// too large for one.
    ///
    /// | offset | type | field |
    /// |---|---|---|
    /// | 0 | u32 | size of the blob |
    /// | 4 | u32 | ABI version |
    /// | 8 | u32 | magic, `BRLG` |
    /// | 12 | u32 | size of this header |
    /// | 16 | u8\[16\] | content hash |
    /// | 32 | u64 | instruction-set features |
    /// | 40, 48 | u64 | needed and optional services |
    /// | 56, 64 | u64 | workspace, fixed and per worker |
    /// | 72 | u32 | architecture |
    /// | 76 | u32 | numeric variant |
    /// | 80 | u32 x 2 | parameters: count, offset of the table |
    /// | 88 | u32 x 2 | results |
    /// | 96 | u32 x 2 | aliases |
    /// | 104 | u32 x 2 | custom calls |
    /// | 112 | u32 x 2 | module name: offset, length (a zero byte follows) |
    /// | 120 | u32 x 2 | entry symbol |
    /// | 128 | u32 x 2 | open dimensions, zero where there are none |
    /// | 136 | u32 x 2 | replicas, partitions |
    /// | 144 | u32 x 2 | levels of the processor, zero where there are none |
    ///
    /// A leaf is `u32 element type, u32 rank, u64 bytes, u32 offset of the dimensions (i64 each), u32 offset of the
    /// dynamic flags (u8 each), u32 offset of minor-to-major (u32 each), u32 flags (1 dynamic, 2 row-major and not
    /// padded; of a declared tensor 256 constant, 512 persistent, 1024 trainable, 2048 input), u32 bits of an element, u32
    /// offset of the padding (i64 width of each dimension, then u32 padding value; zero where there is none), u32 offset and
    /// length of the name`; an alias `u32 parameter, result, must`; a custom call `u32 offset and length of the symbol,
    /// abi, line`; an open dimension `u32 parameter, dimension`; a level `u64 instruction-set features`.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut blob = Blob { bytes: vec![0; HEADER_SIZE], big_endian: self.architecture.is_big_endian() };
        let tables = [
            (80, self.parameters.len(), LEAF_SIZE),
            (88, self.results.len(), LEAF_SIZE),
            (96, self.aliases.len(), ALIAS_SIZE),
            (104, self.custom_calls.len(), CUSTOM_CALL_SIZE),
        ];
        let mut starts = [0usize; 4];
        for (start, (at, count, size)) in starts.iter_mut().zip(tables) {
            *start = blob.table(at, count, size)?;
        }
        let [parameters, results, aliases, custom_calls] = starts;
        for (start, leaves) in [(parameters, &self.parameters), (results, &self.results)] {
            for (i, leaf) in leaves.iter().enumerate() {
                blob.leaf(start + i * LEAF_SIZE, leaf)?;
            }
        }
        for (i, alias) in self.aliases.iter().enumerate() {
            let at = aliases + i * ALIAS_SIZE;
            blob.u32(at, alias.parameter);
            blob.u32(at + 4, alias.result);
            blob.u32(at + 8, u32::from(alias.must));
        }
        for (i, call) in self.custom_calls.iter().enumerate() {
            let at = custom_calls + i * CUSTOM_CALL_SIZE;
            blob.text(at, &call.symbol)?;
            blob.u32(at + 8, call.abi as u32);
            blob.u32(at + 12, call.line);
        }
        if !self.open.is_empty() {
            let start = blob.table(128, self.open.len(), OPEN_SIZE)?;
            for (i, open) in self.open.iter().enumerate() {
                blob.u32(start + i * OPEN_SIZE, open.parameter);
                blob.u32(start + i * OPEN_SIZE + 4, open.dimension);
            }
        }
        if !self.levels.is_empty() {
            let start = blob.table(144, self.levels.len(), LEVEL_SIZE)?;
            for (i, level) in self.levels.iter().enumerate() {
                blob.u64(start + i * LEVEL_SIZE, level.0);
            }
        }
        blob.text(112, &self.module_name)?;
        blob.text(120, &self.entry)?;
        blob.u32(4, super::ABI_VERSION);
        blob.u32(8, MAGIC);
        blob.u32(12, HEADER_SIZE as u32);
        blob.put(HASH_OFFSET, &self.hash);
        blob.u64(32, self.features.0);
        blob.u64(40, self.needed_services.0);
        blob.u64(48, self.optional_services.0);
        blob.u64(56, self.workspace_fixed);
        blob.u64(64, self.workspace_per_worker);
        blob.u32(72, self.architecture as u32);
        blob.u32(76, self.variant as u32);
        blob.u32(136, self.devices[0]);
        blob.u32(140, self.devices[1]);
        blob.reserve(0, 8);
        blob.u32(0, u32::try_from(blob.bytes.len()).ok()?);
        Some(blob.bytes)
    }
}

/// The descriptor while it is written.
struct Blob {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Blob {
    /// Appends zeros, aligned, and returns where they start.
    fn reserve(&mut self, size: usize, align: usize) -> usize {
        let start = self.bytes.len().next_multiple_of(align);
        self.bytes.resize(start + size, 0);
        start
    }

    /// Makes room for a table of records; writes their number and its start to `at`, and returns the start.
    fn table(&mut self, at: usize, count: usize, record: usize) -> Option<usize> {
        if count > MAX_LEAVES {
            return None;
        }
        let start = self.reserve(count * record, 8);
        self.u32(at, u32::try_from(count).ok()?);
        self.u32(at + 4, u32::try_from(start).ok()?);
        Some(start)
    }

    /// Overwrites what `reserve` made room for.
    fn put(&mut self, at: usize, value: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(at).zip(value) {
            *to = *from;
        }
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.put(at, &if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.put(at, &if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    /// Appends a name and a zero byte; writes its offset and length to `at`.
    fn text(&mut self, at: usize, text: &str) -> Option<()> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        self.u32(at, u32::try_from(start).ok()?);
        self.u32(at + 4, u32::try_from(text.len()).ok()?);
        Some(())
    }

    fn leaf(&mut self, at: usize, leaf: &Leaf) -> Option<()> {
        let shape = &leaf.shape;
        let rank = shape.rank();
        if rank > MAX_RANK || shape.dynamic.len() != rank {
            return None;
        }
        let size = leaf_byte_size(shape)?;
        let dims = self.reserve(8 * rank, 8);
        for (i, &d) in shape.dims.iter().enumerate() {
            self.u64(dims + 8 * i, d as u64);
        }
        let order = self.reserve(4 * rank, 4);
        for (i, d) in leaf.minor_to_major().into_iter().enumerate() {
            self.u32(order + 4 * i, u32::try_from(d).ok()?);
        }
        let dynamic = self.reserve(rank, 1);
        for (i, &d) in shape.dynamic.iter().enumerate() {
            self.put(dynamic + i, &[u8::from(d)]);
        }
        if let Some(layout) = shape.layout.as_ref().filter(|_| shape.is_padded()) {
            let widths = self.reserve(8 * rank + 4, 8);
            for (i, &width) in shape.widths().iter().enumerate() {
                self.u64(widths + 8 * i, width as u64);
            }
            self.u32(widths + 8 * rank, layout.padding_value as u32);
            self.u32(at + LEAF_PADDING, u32::try_from(widths).ok()?);
        }
        let mut flags = leaf.tensor.bits() << LEAF_TENSOR_SHIFT;
        if shape.is_dynamic() {
            flags |= LEAF_DYNAMIC;
        }
        if shape.is_dense_row_major() {
            flags |= LEAF_ROW_MAJOR;
        }
        self.u32(at, u32::from(shape.ty.code()));
        self.u32(at + 4, u32::try_from(rank).ok()?);
        self.u64(at + 8, size);
        self.u32(at + 16, u32::try_from(dims).ok()?);
        self.u32(at + 20, u32::try_from(dynamic).ok()?);
        self.u32(at + 24, u32::try_from(order).ok()?);
        self.u32(at + 28, flags);
        self.u32(at + 32, storage_bits(shape));
        self.text(at + 40, &leaf.name)
    }
}
