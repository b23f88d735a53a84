//! Damage that a fixed generator draws: what a reader must end by itself on.
//!
//! Text loses, doubles and swaps lines, and its numbers change. Bytes flip, and runs of them go, come twice or become numbers that
//! are too large. Of MLIR bytecode, alone or within a file of `jax.export`, lengths are changed as what they are: numbers of a
//! variable length, of a section or of anything else, are written anew with another value, and sections go, swap or come twice.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below `n`; 0 below 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// Damages a program of any form, in one to three places.
pub fn damage(program: &mut Vec<u8>, random: &mut Random) {
    let is_binary = std::str::from_utf8(program).is_err() || program.contains(&0);
    for _ in 0..=random.below(3) {
        if program.is_empty() {
            return;
        }
        match find(program, SIGNATURE) {
            Some(start) if random.below(2) == 0 => bytecode(program, start, random),
            _ if is_binary => bytes(program, random),
            _ => text(program, random),
        }
    }
}

const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "100",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999999",
];

fn text(text: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(text.len());
    match random.below(8) {
        0 => text[at] ^= 1 << random.below(8),
        1 => text[at] = b"{}[](),=%\"/*<>x-: \n\0"[random.below(20)],
        2 => text.truncate(at),
        kind @ 3..=5 => {
            let mut lines: Vec<Vec<u8>> = text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            let (i, j) = (random.below(lines.len()), random.below(lines.len()));
            match kind {
                3 => drop(lines.remove(i)),
                4 => lines.insert(i, lines[j].clone()),
                _ => lines.swap(i, j),
            }
            *text = lines.join(&b'\n');
        }
        _ => {
            // The next number after a random place, replaced whole.
            let Some(start) = (at..text.len()).find(|&i| text[i].is_ascii_digit()) else { return };
            let end = (start..text.len()).find(|&i| !text[i].is_ascii_digit()).unwrap_or(text.len());
            text.splice(start..end, NUMBERS[random.below(NUMBERS.len())].bytes());
        }
    }
}

/// Bytes that numbers of either encoding begin with, and end with.
const BYTES: [u8; 10] = [0x00, 0x01, 0x02, 0x07, 0x0a, 0x12, 0x7f, 0x80, 0xfe, 0xff];

fn bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len());
    let longest = [16, 16, 16, bytes.len()][random.below(4)];
    let run = at..(at + 1 + random.below(longest)).min(bytes.len());
    match random.below(8) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 | 3 => bytes[at] = BYTES[random.below(BYTES.len())],
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(run)),
        6 => {
            let copy = bytes[run].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            // A number that is too large for anything.
            let large = [0xff; 9].into_iter().chain([0x01]);
            bytes.splice(at..at, large.take(1 + random.below(10)));
        }
    }
}

/// What MLIR bytecode begins with.
const SIGNATURE: &[u8] = b"ML\xefR";

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|w| w == wanted)
}

/// A number of MLIR bytecode: its value and its length. The zeros below the lowest one tell how many bytes follow the first.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let extra = bytes.first()?.trailing_zeros() as usize;
    let mut wide = [0; 16];
    wide[..=extra].copy_from_slice(bytes.get(..=extra)?);
    // Nine bytes need no mark.
    Some(((u128::from_le_bytes(wide) >> (extra + 1).min(8)) as u64, extra + 1))
}

/// The shortest spelling of a number.
fn spelled(value: u64) -> Vec<u8> {
    let bits = 64 - value.leading_zeros().min(63);
    let length = bits.div_ceil(7).min(9) as usize;
    let wide = if length == 9 { u128::from(value) << 8 } else { (u128::from(value) << 1 | 1) << (length - 1) };
    wide.to_le_bytes()[..length].to_vec()
}

/// A section of a file.
struct Section {
    start: usize,
    /// Where its length stands.
    length: std::ops::Range<usize>,
    end: usize,
}

/// The sections of the bytecode that begins at `start`, as far as they can be followed.
fn sections(file: &[u8], start: usize) -> Vec<Section> {
    let mut out = Vec::new();
    let mut at = start + SIGNATURE.len();
    at += file.get(at..).and_then(number).map_or(0, |(_, length)| length);
    at += file.get(at..).and_then(|rest| rest.iter().position(|&b| b == 0)).map_or(0, |n| n + 1);
    while let Some(&head) = file.get(at) {
        let Some((size, bytes)) = file.get(at + 1..).and_then(number) else { break };
        let mut content = at + 1 + bytes;
        if head & 0x80 != 0 {
            let Some((alignment, bytes)) = file.get(content..).and_then(number) else { break };
            let alignment = usize::try_from(alignment).unwrap_or(1).clamp(1, 4096);
            content = start + (content + bytes - start).next_multiple_of(alignment);
        }
        let end = usize::try_from(size).ok().and_then(|size| content.checked_add(size));
        let Some(end) = end.filter(|&end| end <= file.len()) else { break };
        out.push(Section { start: at, length: at + 1..at + 1 + bytes, end });
        at = end;
    }
    out
}

/// Another value for a number: beside it, or one at which something ends.
fn other(value: u64, random: &mut Random) -> u64 {
    const ENDS: [u64; 8] = [0, 1, 0x7f, 0x80, 0xffff, 1 << 31, u32::MAX as u64, u64::MAX];
    match random.below(4) {
        0 => value.wrapping_add(1),
        1 => value.wrapping_sub(1),
        2 => value.wrapping_mul(2).wrapping_add(random.below(16) as u64),
        _ => ENDS[random.below(ENDS.len())],
    }
}

fn bytecode(file: &mut Vec<u8>, start: usize, random: &mut Random) {
    let sections = sections(file, start);
    let Some(section) = sections.get(random.below(sections.len())) else { return bytes(file, random) };
    match random.below(6) {
        0 => {
            let Some((value, _)) = number(&file[section.length.clone()]) else { return };
            file.splice(section.length.clone(), spelled(other(value, random)));
        }
        1 => drop(file.drain(section.start..section.end)),
        2 => {
            let copy = file[section.start..section.end].to_vec();
            let to = sections[random.below(sections.len())].start;
            file.splice(to..to, copy);
        }
        _ => {
            // Any place may be the beginning of a number.
            let at = section.start + random.below(section.end - section.start);
            let Some((value, length)) = number(&file[at..]) else { return };
            let new = spelled(other(value, random));
            // With or without the lengths around it staying true.
            if random.below(2) == 0 || new.len() == length {
                file.splice(at..at + length, new);
            } else {
                let fitting = new.into_iter().chain(std::iter::repeat(1)).take(length);
                file.splice(at..at + length, fitting);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_were_spelled() {
        for value in [0, 1, 127, 128, 16383, 16384, 1 << 48, (1 << 56) - 1, 1 << 56, u64::MAX] {
            let bytes = spelled(value);
            assert_eq!(number(&bytes), Some((value, bytes.len())), "{bytes:x?}");
        }
        assert_eq!((spelled(127).len(), spelled(128).len(), spelled(u64::MAX).len()), (1, 2, 9));
    }

    #[test]
    fn sections_are_found_within_another_file() {
        let mut file = b"envelope ML\xefR\x0dproducer\0".to_vec();
        let content = [vec![0x01], spelled(3), b"abc".to_vec(), vec![0x02], spelled(200), vec![7; 200]].concat();
        file.extend(&content);
        let found = sections(&file, 9);
        let lengths: Vec<usize> = found.iter().map(|s| s.end - s.start).collect();
        assert_eq!(lengths, [5, 203]);
        assert_eq!(found.last().map(|s| s.end), Some(file.len()));
    }

    #[test]
    fn a_seed_names_a_damage() {
        let file = include_bytes!("../../compiler/src/stablehlo/bytecode/testdata/small_1_17_0.bc");
        let damaged = |seed| {
            let mut copy = file.to_vec();
            damage(&mut copy, &mut Random(seed));
            copy
        };
        assert_eq!(damaged(7), damaged(7));
        let changed = (0..100).filter(|&seed| damaged(seed) != file).count();
        assert!(changed > 90, "{changed}");
    }
}
