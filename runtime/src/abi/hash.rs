//! The content hash of an object: guards against accidents (truncation, bit rot, mixed-up files), not against malice.
//!
//! Four independent lanes each take every fourth 64-bit word. A step (xor, odd multiplication, rotation) is a
//! bijection of the lane, so a change confined to one word always changes its lane.

const K: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0xff51_afd7_ed55_8ccd, 0xd6e8_feb8_6659_fd93];

struct Hasher {
    lanes: [u64; 4],
    length: u64,
}

impl Hasher {
    fn new() -> Hasher {
        Hasher { lanes: K, length: 0 }
    }

    fn step(lane: u64, word: u64, k: u64) -> u64 {
        (lane ^ word).wrapping_mul(k).rotate_left(29)
    }

    /// Takes `bytes`, the last block padded with zeros.
    fn update(&mut self, bytes: &[u8]) {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        let (blocks, tail) = bytes.as_chunks::<32>();
        for block in blocks {
            self.block(block);
        }
        if !tail.is_empty() {
            let mut last = [0u8; 32];
            for (to, from) in last.iter_mut().zip(tail) {
                *to = *from;
            }
            self.block(&last);
        }
    }

    fn block(&mut self, block: &[u8; 32]) {
        let (words, _) = block.as_chunks::<8>();
        for ((lane, word), k) in self.lanes.iter_mut().zip(words).zip(K) {
            *lane = Hasher::step(*lane, u64::from_le_bytes(*word), k);
        }
    }

    fn finish(self) -> [u8; 16] {
        let mix = |mut x: u64| {
            x = (x ^ (x >> 32)).wrapping_mul(K[2]);
            x = (x ^ (x >> 29)).wrapping_mul(K[0]);
            x ^ (x >> 32)
        };
        let fold = |seed: u64, order: [usize; 4]| {
            order.iter().zip(K).fold(mix(seed ^ self.length), |h, (&i, k)| {
                mix(Hasher::step(h, self.lanes.get(i).copied().unwrap_or(0), k))
            })
        };
        let mut out = [0u8; 16];
        let low = fold(K[1], [0, 1, 2, 3]).to_le_bytes();
        let high = fold(K[3], [3, 1, 0, 2]).to_le_bytes();
        for (to, from) in out.iter_mut().zip(low.into_iter().chain(high)) {
            *to = from;
        }
        out
    }
}

/// The hash of `bytes`.
pub fn content_hash(bytes: &[u8]) -> [u8; 16] {
    let mut hasher = Hasher::new();
    hasher.update(bytes);
    hasher.finish()
}

/// The hash of an object file whose descriptors keep the hash itself at `holes` (16 bytes each, left out), in any order.
/// `None` where a hole is not inside the file, or two overlap.
pub fn object_hash(file: &[u8], holes: &[usize]) -> Option<[u8; 16]> {
    let mut holes = holes.to_vec();
    holes.sort_unstable();
    let mut hasher = Hasher::new();
    let mut start = 0;
    for hole in holes {
        hasher.update(file.get(start..hole)?);
        start = hole.checked_add(16)?;
    }
    hasher.update(file.get(start..)?);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts() {
        let base: Vec<u8> = (0..100).collect();
        let h = content_hash(&base);
        for i in 0..base.len() {
            let mut other = base.clone();
            other[i] ^= 1;
            assert_ne!(content_hash(&other), h, "byte {i}");
        }
        assert_ne!(content_hash(&base[..99]), h);
        assert_ne!(content_hash(&[]), content_hash(&[0]));
    }

    #[test]
    fn holes_do_not_count() {
        let mut file = vec![7u8; 64];
        let h = object_hash(&file, &[20]);
        let two = object_hash(&file, &[40, 20]);
        file[20..36].fill(9);
        assert_eq!(object_hash(&file, &[20]), h);
        file[40] = 8;
        assert_ne!(object_hash(&file, &[20]), h);
        assert_eq!(object_hash(&file, &[20, 40]), two);
        file[36] = 8;
        assert_ne!(object_hash(&file, &[20, 40]), two);
        assert_eq!(object_hash(&file, &[60]), None);
        assert_eq!(object_hash(&file, &[usize::MAX]), None);
        assert_eq!(object_hash(&file, &[20, 30]), None);
    }
}
