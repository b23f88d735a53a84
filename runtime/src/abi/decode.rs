//! Reading a descriptor: every offset, size, name and shape is checked, nothing panics.

use super::descriptor::{
    ALIAS_SIZE, Alias, Architecture, CUSTOM_CALL_SIZE, CustomCallAbi, CustomCallInfo, DEVICES_HEADER_SIZE,
    DescriptorInfo, FIRST_HEADER_SIZE, HASH_OFFSET, HEADER_SIZE, LEAF_PADDING, LEAF_SIZE, LEAF_TENSOR_SHIFT,
    LEVEL_SIZE, Leaf, MAGIC, MAX_LEAVES, MAX_RANK, NumericVariant, OPEN_SIZE, OpenDimension, Services,
};
use super::{ABI_VERSION, IsaFeatures, TensorFlags, leaf_byte_size, storage_bits};
use crate::{ArrayShape, ElementType, Layout, PaddingValue};

/// Why bytes are not a descriptor that this version can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// Made for another version of the interface.
    #[error("the program was compiled for version {found} of the interface, this runtime has version {ABI_VERSION}")]
    AbiVersion {
        /// The program's version.
        found: u32,
    },
    /// Not a descriptor at all, or a damaged one.
    #[error("the program's descriptor is malformed: {0}")]
    Malformed(&'static str),
}

type Result<T> = std::result::Result<T, DescriptorError>;

fn bad<T>(what: &'static str) -> Result<T> {
    Err(DescriptorError::Malformed(what))
}

/// Checked reads from the blob.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Reader<'a> {
    /// Finds the order of the numbers by the magic word.
    fn new(bytes: &'a [u8]) -> Result<Reader<'a>> {
        let reader = Reader { bytes, big_endian: false };
        match reader.u32(8)? {
            MAGIC => Ok(reader),
            other if other.swap_bytes() == MAGIC => Ok(Reader { bytes, big_endian: true }),
            _ => bad("the magic word is missing"),
        }
    }

    fn bytes(self, at: usize, len: usize) -> Result<&'a [u8]> {
        at.checked_add(len)
            .and_then(|end| self.bytes.get(at..end))
            .ok_or(DescriptorError::Malformed("an offset points outside"))
    }

    fn array<const N: usize>(self, at: usize) -> Result<[u8; N]> {
        self.bytes(at, N)?.try_into().or(bad("an offset points outside"))
    }

    fn u32(self, at: usize) -> Result<u32> {
        let bytes = self.array(at)?;
        Ok(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn size(self, at: usize) -> Result<usize> {
        Ok(self.u32(at)? as usize)
    }

    fn u64(self, at: usize) -> Result<u64> {
        let bytes = self.array(at)?;
        Ok(if self.big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    fn text(self, at: usize) -> Result<String> {
        let bytes = self.bytes(self.size(at)?, self.size(at + 4)?)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => bad("a name is not UTF-8"),
        }
    }

    /// The start of each record of the table whose count and offset stand at `at`.
    fn table(self, at: usize, record: usize) -> Result<impl Iterator<Item = usize>> {
        let (count, start) = (self.size(at)?, self.size(at + 4)?);
        if count > MAX_LEAVES {
            return bad("a table is too long");
        }
        self.bytes(start, count * record)?;
        Ok((0..count).map(move |i| start + i * record))
    }

    fn sizes(self, at: usize, rank: usize) -> Result<Vec<i64>> {
        (0..rank).map(|i| Ok(self.u64(at.saturating_add(8 * i))? as i64)).collect()
    }

    /// The padding of the leaf at `at`, where it has some.
    fn padding(self, at: usize, dims: &[i64], layout: &mut Layout) -> Result<()> {
        let start = self.size(at + LEAF_PADDING)?;
        if start == 0 {
            return Ok(());
        }
        let widths = self.sizes(start, dims.len())?;
        if widths.iter().zip(dims).any(|(width, size)| width < size) {
            return bad("a dimension is wider than its padding");
        }
        let Some(value) = PaddingValue::from_code(self.u32(start + 8 * dims.len())?) else {
            return bad("unknown padding value");
        };
        layout.padded_dimensions = widths;
        layout.padding_value = value;
        Ok(())
    }

    fn leaf(self, at: usize) -> Result<Leaf> {
        let code = u8::try_from(self.u32(at)?).or(bad("unknown element type"))?;
        let Some(ty) = ElementType::from_code(code) else {
            return bad("unknown element type");
        };
        let rank = self.size(at + 4)?;
        if rank > MAX_RANK {
            return bad("a rank is too large");
        }
        let dims = self.sizes(self.size(at + 16)?, rank)?;
        let dynamic: Vec<bool> = self.bytes(self.size(at + 20)?, rank)?.iter().map(|&d| d != 0).collect();
        let start = self.size(at + 24)?;
        let order: Vec<usize> = (0..rank).map(|i| self.size(start.saturating_add(4 * i))).collect::<Result<_>>()?;
        let mut seen = vec![false; rank];
        for &d in &order {
            match seen.get_mut(d) {
                Some(seen) if !*seen => *seen = true,
                _ => return bad("a layout is not a permutation"),
            }
        }
        if dims.iter().any(|&d| d < 0) {
            return bad("a dimension is negative");
        }
        let mut layout = Layout { minor_to_major: order, ..Layout::default() };
        let bits = self.u32(at + 32)?;
        if bits != 8 * ty.byte_size() as u32 {
            if bits == 0 || bits > 128 {
                return bad("an element has no size");
            }
            layout.element_size_in_bits = i64::from(bits);
        }
        self.padding(at, &dims, &mut layout)?;
        let plain = layout == Layout::row_major(rank);
        let shape = ArrayShape { ty, dims, dynamic, layout: (!plain).then_some(layout) };
        if leaf_byte_size(&shape) != Some(self.u64(at + 8)?) || storage_bits(&shape) != bits {
            return bad("a shape and its size disagree");
        }
        let tensor = TensorFlags::from_bits(self.u32(at + 28)? >> LEAF_TENSOR_SHIFT);
        Ok(Leaf { name: self.text(at + 40)?, shape, tensor })
    }
}

impl DescriptorInfo {
    /// Whether a descriptor may start there: its magic word does, in either order.
    pub fn is_at(bytes: &[u8]) -> bool {
        Reader::new(bytes).is_ok()
    }

    /// Reads the descriptor at the start of `bytes`; what follows it is ignored.
    ///
    /// # Errors
    /// Where the bytes are not a descriptor of this version of the interface.
    pub fn decode(bytes: &[u8]) -> Result<DescriptorInfo> {
        let head = Reader::new(bytes)?;
        let found = head.u32(4)?;
        if found != ABI_VERSION {
            return Err(DescriptorError::AbiVersion { found });
        }
        let size = head.size(0)?;
        if size < FIRST_HEADER_SIZE || head.size(12)? < FIRST_HEADER_SIZE {
            return bad("it is too short");
        }
        let r = Reader { bytes: head.bytes(0, size)?, ..head };
        let Some(architecture) = Architecture::from_code(r.u32(72)?) else {
            return bad("unknown architecture");
        };
        if architecture.is_big_endian() != r.big_endian {
            return bad("the order of its bytes is not that of its architecture");
        }
        let Some(variant) = NumericVariant::from_code(r.u32(76)?) else {
            return bad("unknown numeric variant");
        };
        let parameters: Vec<Leaf> = r.table(80, LEAF_SIZE)?.map(|at| r.leaf(at)).collect::<Result<_>>()?;
        let results: Vec<Leaf> = r.table(88, LEAF_SIZE)?.map(|at| r.leaf(at)).collect::<Result<_>>()?;
        let mut aliases = Vec::new();
        for at in r.table(96, ALIAS_SIZE)? {
            let alias = Alias { parameter: r.u32(at)?, result: r.u32(at + 4)?, must: r.u32(at + 8)? != 0 };
            let pair = (parameters.get(alias.parameter as usize), results.get(alias.result as usize));
            match pair {
                (Some(p), Some(q)) if p.byte_size() == q.byte_size() => {
                    let taken = |other: &Alias| other.parameter == alias.parameter || other.result == alias.result;
                    if alias.must && aliases.iter().any(|other: &Alias| other.must && taken(other)) {
                        return bad("a buffer is aliased twice");
                    }
                    aliases.push(alias);
                }
                _ => return bad("an aliased pair does not fit"),
            }
        }
        let mut custom_calls = Vec::new();
        for at in r.table(104, CUSTOM_CALL_SIZE)? {
            let Some(abi) = CustomCallAbi::from_code(r.u32(at + 8)?) else {
                return bad("unknown kind of custom call");
            };
            custom_calls.push(CustomCallInfo { symbol: r.text(at)?, abi, line: r.u32(at + 12)? });
        }
        let mut open = Vec::new();
        for at in r.table(128, OPEN_SIZE)? {
            let dimension = OpenDimension { parameter: r.u32(at)?, dimension: r.u32(at + 4)? };
            let leaf = parameters.get(dimension.parameter as usize);
            if leaf.is_none_or(|leaf| dimension.dimension as usize >= leaf.shape.rank()) {
                return bad("an open dimension does not exist");
            }
            open.push(dimension);
        }
        // A header of the first size is that of a program for one device.
        let header = head.size(12)?;
        let devices = if header < DEVICES_HEADER_SIZE { [1, 1] } else { [r.u32(136)?, r.u32(140)?] };
        if devices.contains(&0) {
            return bad("it is for no device");
        }
        let mut levels = Vec::new();
        if header >= HEADER_SIZE {
            for at in r.table(144, LEVEL_SIZE)? {
                levels.push(IsaFeatures(r.u64(at)?));
            }
        }
        let workspace_per_worker = r.u64(64)?;
        if workspace_per_worker % 64 != 0 {
            return bad("the workspace of a worker is not a multiple of 64");
        }
        Ok(DescriptorInfo {
            module_name: r.text(112)?,
            entry: r.text(120)?,
            architecture,
            features: IsaFeatures(r.u64(32)?),
            variant,
            hash: r.array(HASH_OFFSET)?,
            workspace_fixed: r.u64(56)?,
            workspace_per_worker,
            parameters,
            results,
            aliases,
            needed_services: Services(r.u64(40)?),
            optional_services: Services(r.u64(48)?),
            custom_calls,
            open,
            devices,
            levels,
        })
    }

    /// Reads the descriptor that `raw` points to, such as a linked-in `NAME_descriptor`.
    ///
    /// # Safety
    /// `raw` points to a descriptor: as many readable bytes as its first word says, at least 16.
    ///
    /// # Errors
    /// As [`DescriptorInfo::decode`].
    pub unsafe fn decode_raw(raw: *const u8) -> Result<DescriptorInfo> {
        // SAFETY: the caller promises 16 bytes at least.
        let head = Reader::new(unsafe { std::slice::from_raw_parts(raw, 16) })?;
        // SAFETY: the caller promises as many bytes as the first word says.
        let bytes = unsafe { std::slice::from_raw_parts(raw, head.size(0)?.max(16)) };
        DescriptorInfo::decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample() -> DescriptorInfo {
        let mut d = DescriptorInfo::new("mlp", Architecture::X86_64);
        let mut column = ArrayShape::new(ElementType::F32, [2, 3]);
        column.layout = Some(Layout { minor_to_major: vec![0, 1], ..Layout::default() });
        let mut packed = ArrayShape::new(ElementType::S4, [7]);
        packed.layout = Some(Layout { element_size_in_bits: 4, ..Layout::row_major(1) });
        let mut padded = ArrayShape::new(ElementType::U8, [2, 3]);
        padded.layout = Some(Layout {
            minor_to_major: vec![0, 1],
            padded_dimensions: vec![3, 5],
            padding_value: PaddingValue::Lowest,
            ..Layout::default()
        });
        let mut dynamic = ArrayShape::new(ElementType::BF16, [5, 1]);
        dynamic.dynamic = vec![true, false];
        d.parameters = vec![
            Leaf { name: "x".into(), shape: column.clone(), tensor: TensorFlags::VARIABLE },
            Leaf::new(packed),
            Leaf::new(ArrayShape::new(ElementType::Pred, [])),
        ];
        d.results = vec![Leaf::new(dynamic), Leaf::new(column), Leaf::new(padded)];
        d.aliases = vec![Alias { parameter: 0, result: 1, must: true }];
        d.features = IsaFeatures::AVX;
        d.workspace_fixed = 100;
        d.workspace_per_worker = 64;
        d.hash = [7; 16];
        d.devices = [2, 4];
        d.levels = vec![IsaFeatures::AVX, IsaFeatures::AVX.union(IsaFeatures::AVX512F)];
        d.custom_calls =
            vec![CustomCallInfo { symbol: "my_call".into(), abi: CustomCallAbi::StatusReturning, line: 12 }];
        d.open = vec![OpenDimension { parameter: 0, dimension: 1 }, OpenDimension { parameter: 1, dimension: 0 }];
        d
    }

    #[test]
    fn round_trips() {
        let d = sample();
        let blob = d.encode().unwrap();
        assert_eq!(blob.len() % 8, 0);
        assert_eq!(DescriptorInfo::decode(&blob).unwrap(), d);
        // SAFETY: the blob is a whole descriptor.
        assert_eq!(unsafe { DescriptorInfo::decode_raw(blob.as_ptr()) }.unwrap(), d);
        assert_eq!(d.workspace_size(3), Some(128 + 3 * 64));
        assert_eq!((d.sizes(), d.size_text().as_str()), (vec![3, 7], "3_7"));
        assert_eq!(DescriptorInfo { entry: "mlp__3_7".into(), ..d.clone() }.program_name(), "mlp");
    }

    #[test]
    fn damage_is_refused_or_harmless() {
        let blob = sample().encode().unwrap();
        for len in 0..blob.len() {
            assert!(DescriptorInfo::decode(&blob[..len]).is_err(), "cut at {len}");
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut other = blob.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % other.len();
                other[at] = (state >> 20) as u8;
            }
            if let Ok(d) = DescriptorInfo::decode(&other) {
                assert!(d.encode().is_some());
            }
        }
    }

    #[test]
    fn older_headers_are_of_one_device_and_no_levels() {
        let mut blob = sample().encode().unwrap();
        let older = DescriptorInfo { levels: Vec::new(), ..sample() };
        blob[12..16].copy_from_slice(&(DEVICES_HEADER_SIZE as u32).to_le_bytes());
        assert_eq!(DescriptorInfo::decode(&blob).unwrap(), older);
        blob[12..16].copy_from_slice(&(FIRST_HEADER_SIZE as u32).to_le_bytes());
        assert_eq!(DescriptorInfo::decode(&blob).unwrap(), DescriptorInfo { devices: [1, 1], ..older });
    }

    /// The order of the bytes is the architecture's, all through.
    #[test]
    fn a_big_endian_descriptor_says_the_same() {
        let big = DescriptorInfo { architecture: Architecture::S390x, ..sample() };
        let (blob, little) = (big.encode().unwrap(), sample().encode().unwrap());
        assert_eq!(blob[8..12], MAGIC.to_be_bytes());
        assert_eq!(blob.len(), little.len());
        assert_eq!(DescriptorInfo::decode(&blob).unwrap(), big);
        assert!(DescriptorInfo::is_at(&blob) && DescriptorInfo::is_at(&little) && !DescriptorInfo::is_at(&blob[1..]));
        let words = |blob: &[u8]| -> Vec<[u8; 4]> { blob[..16].as_chunks().0.to_vec() };
        let reversed: Vec<[u8; 4]> = words(&little).into_iter().map(|[a, b, c, d]| [d, c, b, a]).collect();
        assert_eq!(words(&blob), reversed);
        let refused = Err(DescriptorError::Malformed("the order of its bytes is not that of its architecture"));
        let mut wrong = little;
        wrong[72] = Architecture::S390x as u8;
        assert_eq!(DescriptorInfo::decode(&wrong), refused);
        let mut wrong = blob;
        wrong[75] = Architecture::Aarch64 as u8;
        assert_eq!(DescriptorInfo::decode(&wrong), refused);
    }

    /// Without padding a leaf has the zero where it always had one, and nothing follows.
    #[test]
    fn padding_is_an_addition() {
        let mut d = sample();
        let with = d.encode().unwrap();
        let padded = d.results.pop().unwrap();
        let without = d.encode().unwrap();
        let records = |blob: &[u8]| {
            let r = Reader::new(blob).unwrap();
            let leaves = r.table(80, LEAF_SIZE).unwrap().chain(r.table(88, LEAF_SIZE).unwrap());
            leaves.map(|at| r.u32(at + LEAF_PADDING).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(records(&without), [0; 5]);
        assert_eq!(records(&with).iter().filter(|&&at| at != 0).count(), 1);
        let mut narrow = padded.clone();
        narrow.shape.dims = vec![4, 3];
        let mut wrong = DescriptorInfo { results: vec![narrow], aliases: Vec::new(), ..d };
        let blob = wrong.encode().unwrap();
        assert_eq!(
            DescriptorInfo::decode(&blob),
            Err(DescriptorError::Malformed("a dimension is wider than its padding"))
        );
        wrong.results = vec![padded];
        assert_eq!(DescriptorInfo::decode(&wrong.encode().unwrap()), Ok(wrong));
    }

    #[test]
    fn other_versions_are_named() {
        let mut blob = sample().encode().unwrap();
        blob[4] = 99;
        assert_eq!(DescriptorInfo::decode(&blob), Err(DescriptorError::AbiVersion { found: 99 }));
    }

    #[test]
    fn oversized_shapes_cannot_be_encoded() {
        let mut d = sample();
        d.results = vec![Leaf::new(ArrayShape::new(ElementType::F32, [i64::MAX]))];
        assert_eq!(d.encode(), None);
    }
}
