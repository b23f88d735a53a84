//! Files of several arrays, each by its name: NumPy's `.npz` and safetensors.
//!
//! Problem: such a file may claim anything about an array's size, and says in its own words of which type it is. Invariant: what
//! is unpacked is no larger than what the program asks for; an array comes out with the type that is asked for, or not at all.

use brolga_runtime::npy;
use brolga_runtime::store::safetensors_array;
use brolga_runtime::{ArrayLiteral, ArrayShape};
use safetensors::SafeTensors;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;

/// Bytes that the header of an array may have.
const HEADER: u64 = 1 << 20;

/// An open `.npz` file.
pub type Npz = ZipArchive<BufReader<File>>;

/// Opens an `.npz` file.
pub fn open_npz(path: &Path) -> Result<Npz, String> {
    let file = File::open(path).map_err(|e| e.to_string())?;
    ZipArchive::new(BufReader::new(file)).map_err(|e| e.to_string())
}

/// Reads the array of that number in the archive, which has the type of `shape` and no more bytes than it.
pub fn npz_array(archive: &mut Npz, index: usize, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
    let mut entry = archive.by_index(index).map_err(|e| e.to_string())?;
    let name = entry.name().to_owned();
    let limit = (shape.byte_size() as u64).saturating_add(HEADER);
    let mut bytes = Vec::new();
    let read = entry.by_ref().take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| format!("{name}: {e}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("{name}: larger than {shape:#}, which the program reads"));
    }
    npy::read(&bytes, shape.ty).map_err(|e| format!("{name}: {e}"))
}

/// A file of arrays.
pub enum Arrays {
    /// NumPy's.
    Npz(Npz),
    /// The bytes of a file of safetensors, and the names in it.
    Safetensors(Vec<u8>, Vec<String>),
}

impl Arrays {
    /// Whether a path is one of a file of several arrays, by its ending.
    pub fn names_one(path: &str) -> bool {
        let ending = Path::new(path).extension().and_then(|e| e.to_str());
        matches!(ending, Some("npz" | "safetensors"))
    }

    /// Opens a file; the ending says which kind it is.
    pub fn open(path: &str) -> Result<Arrays, String> {
        let path = Path::new(path);
        if path.extension().is_some_and(|e| e == "npz") {
            return open_npz(path).map(Arrays::Npz);
        }
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        let names = tensors(&bytes)?.names().into_iter().map(str::to_owned).collect();
        Ok(Arrays::Safetensors(bytes, names))
    }

    /// The names of the arrays, in natural order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match self {
            Arrays::Npz(archive) => {
                archive.file_names().map(|n| n.strip_suffix(".npy").unwrap_or(n).to_owned()).collect()
            }
            Arrays::Safetensors(_, names) => names.clone(),
        };
        names.sort_by(|a, b| natural(a, b).then_with(|| a.cmp(b)));
        names
    }

    /// The dimensions that an array says it has.
    pub fn dims(&mut self, name: &str) -> Option<Vec<i64>> {
        match self {
            Arrays::Npz(archive) => {
                let index = npz_index(archive, name)?;
                let mut bytes = Vec::new();
                archive.by_index(index).ok()?.take(HEADER).read_to_end(&mut bytes).ok()?;
                npy::describe(&bytes).ok().map(|(dims, _)| dims)
            }
            Arrays::Safetensors(bytes, _) => {
                let dims = tensors(bytes).ok()?.tensor(name).ok()?.shape().to_vec();
                dims.into_iter().map(|d| i64::try_from(d).ok()).collect()
            }
        }
    }

    /// Reads an array of the type of `shape`, and no larger.
    pub fn read(&mut self, name: &str, shape: &ArrayShape) -> Result<ArrayLiteral, String> {
        match self {
            Arrays::Npz(archive) => {
                let index = npz_index(archive, name).ok_or_else(|| format!("there is no array '{name}'"))?;
                npz_array(archive, index, shape)
            }
            Arrays::Safetensors(bytes, _) => safetensors_array(&tensors(bytes)?, name, shape),
        }
    }
}

fn tensors(bytes: &[u8]) -> Result<SafeTensors<'_>, String> {
    SafeTensors::deserialize(bytes).map_err(|e| format!("not a file of safetensors: {e}"))
}

fn npz_index(archive: &Npz, name: &str) -> Option<usize> {
    archive.index_for_name(&format!("{name}.npy")).or_else(|| archive.index_for_name(name))
}

/// A name cut into runs of digits and of anything else; shorter numbers are smaller.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    while !a.is_empty() && !b.is_empty() {
        let ((x, rest_a), (y, rest_b)) = (run(a), run(b));
        let digits = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
        let order = if digits(x) && digits(y) {
            let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            x.cmp(y)
        };
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
    a.len().cmp(&b.len())
}

/// The digits, or whatever is no digit, that a text starts with.
fn run(text: &str) -> (&str, &str) {
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    text.split_at(text.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["arr_10", "arr_2", "x", "arr_1", "arr_02"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names[0], "arr_1");
        assert_eq!(names[3..], ["arr_10", "x"]);
    }
}
