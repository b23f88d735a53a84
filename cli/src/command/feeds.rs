//! `--infeed` and `--outfeed-dir`: feeds that are files.
//!
//! A file of arrays does not say of which HLO type they are, the program does: each is read when it is asked for. The
//! stem of a name is the value, `STEM.K` part K of a tuple; values come in the natural order of their stems, in which `2`
//! stands before `10`.

use crate::command::archive::{Npz, natural, npz_array, open_npz};
use crate::command::args::RunArgs;
use crate::command::failure::Failure;
use crate::command::output;
use brolga_runtime::feed::{FeedError, FeedValue, Feeds, Sink, Source};
use brolga_runtime::{ArrayShape, Literal, Shape, npy};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The feeds of each device.
pub fn feeds(args: &RunArgs, devices: usize) -> Result<Vec<Feeds>, Failure> {
    if !args.infeed.is_empty() && args.infeed.len() != devices {
        let message = format!("{devices} devices, but --infeed was given {} times", args.infeed.len());
        return Err(Failure::Usage(message));
    }
    (0..devices)
        .map(|device| {
            let infeed = match args.infeed.get(device) {
                Some(path) => Some(Arc::new(Archive::open(path)?) as Arc<dyn Source>),
                None => None,
            };
            let outfeed = match &args.outfeed_dir {
                Some(dir) if devices > 1 => Some(folder(&dir.join(device.to_string()))?),
                Some(dir) => Some(folder(dir)?),
                None => None,
            };
            Ok(Feeds { infeed, outfeed, timeout: None })
        })
        .collect()
}

/// The value that an array belongs to, and which part of it it is.
fn stem(name: &str) -> (&str, Option<usize>) {
    let name = name.strip_suffix(".npy").unwrap_or(name);
    match name.rsplit_once('.') {
        Some((stem, part)) if !stem.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) => {
            part.parse().map_or((name, None), |part| (stem, Some(part)))
        }
        _ => (name, None),
    }
}

/// The arrays of one value.
enum Parts {
    Array(usize),
    Tuple(Vec<usize>),
}

/// An `.npz` file whose values have not all been read.
struct Archive {
    path: PathBuf,
    state: Mutex<(Npz, VecDeque<Parts>)>,
    values: usize,
}

impl Archive {
    fn open(path: &Path) -> Result<Archive, Failure> {
        let archive = open_npz(path).map_err(|e| Failure::file(path, e))?;
        let mut values: BTreeMap<&str, BTreeMap<Option<usize>, usize>> = BTreeMap::new();
        for (index, name) in archive.file_names().enumerate() {
            let (stem, part) = stem(name);
            let index = archive.index_for_name(name).unwrap_or(index);
            if values.entry(stem).or_default().insert(part, index).is_some() {
                return Err(Failure::file(path, format!("two arrays are called '{name}'")));
            }
        }
        let mut names: Vec<&str> = values.keys().copied().collect();
        names.sort_by(|a, b| natural(a, b).then_with(|| a.cmp(b)));
        let mut queue = VecDeque::with_capacity(names.len());
        for name in names {
            let parts = values.remove(name).unwrap_or_default();
            let numbered = parts.keys().enumerate().all(|(k, part)| *part == Some(k));
            queue.push_back(match parts.get(&None) {
                Some(&only) if parts.len() == 1 => Parts::Array(only),
                None if numbered => Parts::Tuple(parts.into_values().collect()),
                _ => {
                    let message = format!("expected '{name}.0', '{name}.1', ... or '{name}' alone");
                    return Err(Failure::file(path, message));
                }
            });
        }
        let values = queue.len();
        Ok(Archive { path: path.to_owned(), state: Mutex::new((archive, queue)), values })
    }

    fn wrong(&self, reason: &dyn std::fmt::Display) -> FeedError {
        FeedError::Other(format!("{}: {reason}", self.path.display()))
    }
}

impl Source for Archive {
    fn next(&self, shape: &Shape, _: Option<Duration>) -> Result<Literal, FeedError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (archive, queue) = &mut *state;
        let Some(parts) = queue.pop_front() else {
            let message =
                format!("the infeed is at its end: the file has {} values, the program reads more", self.values);
            return Err(self.wrong(&message));
        };
        let arrays: Vec<&ArrayShape> = shape.leaves().into_iter().filter_map(Shape::as_array).collect();
        let found = match &parts {
            Parts::Array(only) => vec![*only],
            Parts::Tuple(parts) => parts.clone(),
        };
        if found.len() != arrays.len() {
            let number = self.values - queue.len() - 1;
            let message = format!("value {number} has {} arrays, the program reads {shape:#}", found.len());
            return Err(self.wrong(&message));
        }
        let mut literals = Vec::with_capacity(found.len());
        for (index, array) in found.into_iter().zip(arrays) {
            literals.push(Literal::Array(npz_array(archive, index, array).map_err(|e| self.wrong(&e))?));
        }
        match (shape, literals.pop()) {
            (Shape::Array(_), Some(only)) => Ok(only),
            (_, last) => Ok(Literal::Tuple(literals.into_iter().chain(last).collect())),
        }
    }
}

/// A folder that outfeeds are written to.
struct Folder {
    dir: PathBuf,
    next: Mutex<usize>,
}

fn folder(dir: &Path) -> Result<Arc<dyn Sink>, Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::file(dir, e))?;
    Ok(Arc::new(Folder { dir: dir.to_owned(), next: Mutex::new(0) }))
}

impl Sink for Folder {
    fn put(&self, value: FeedValue, _: Option<Duration>) -> Result<(), FeedError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let tuple = matches!(value.literal(), Literal::Tuple(_));
        for (k, array) in value.literal().arrays().into_iter().enumerate() {
            let name = if tuple { format!("{next}.{k}.npy") } else { format!("{next}.npy") };
            let path = self.dir.join(name);
            output::write(&path, &npy::write(array))
                .map_err(|_| FeedError::Other(format!("cannot write {}", path.display())))?;
        }
        *next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_tuples_are_told_from_their_names() {
        assert_eq!(stem("0.npy"), ("0", None));
        assert_eq!(stem("0.1.npy"), ("0", Some(1)));
        assert_eq!(stem("batch.x.npy"), ("batch.x", None));
        assert_eq!(stem("batch.12"), ("batch", Some(12)));
        assert_eq!(stem(".5.npy"), (".5", None));
    }
}
