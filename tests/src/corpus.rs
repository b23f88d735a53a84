//! Reading the conformance corpus: folders of cases, or zip files of such folders.

use crate::compare::Tolerance;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::{Path, PathBuf};

/// What a case checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The numbers.
    Run,
    /// The summary.
    Parse,
    /// That the module is refused.
    Error,
}

/// An expected result.
#[derive(Clone, Debug)]
pub struct Output {
    /// File name.
    pub file: String,
    /// Element type, as HLO spells it.
    pub dtype: String,
    /// How equal it must be.
    pub tolerance: Tolerance,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name, unique in the suite.
    pub name: String,
    /// Suite.
    pub suite: String,
    /// What to check.
    pub expect: Expect,
    /// Input file names.
    pub inputs: Vec<String>,
    /// Expected results.
    pub outputs: Vec<Output>,
    /// Expected summary.
    pub summary: Value,
    /// Replicas.
    pub replicas: u64,
    /// Partitions.
    pub partitions: u64,
    /// The case's files by name.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Case {
    /// `SUITE/NAME`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.suite, self.name)
    }

    fn new(files: BTreeMap<String, Vec<u8>>) -> Option<Case> {
        let meta: Value = serde_json::from_slice(files.get("meta.json")?).ok()?;
        let text = |v: &Value, key: &str| Some(v.get(key)?.as_str()?.to_owned());
        let list = |key: &str| meta.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let number = |key: &str| meta.get(key).and_then(Value::as_u64).unwrap_or(1);
        Some(Case {
            name: text(&meta, "name")?,
            suite: text(&meta, "suite")?,
            expect: match meta.get("expect")?.as_str()? {
                "run" => Expect::Run,
                "parse" => Expect::Parse,
                "error" => Expect::Error,
                _ => return None,
            },
            inputs: list("inputs").iter().map(|v| text(v, "file")).collect::<Option<_>>()?,
            outputs: list("outputs")
                .iter()
                .map(|v| {
                    let tolerance = Tolerance::from_json(v.get("tol")?)?;
                    Some(Output { file: text(v, "file")?, dtype: text(v, "dtype")?, tolerance })
                })
                .collect::<Option<_>>()?,
            summary: meta.get("summary").cloned().unwrap_or(Value::Null),
            replicas: number("replicas"),
            partitions: number("partitions"),
            files,
        })
    }
}

/// The zip files and case folders under a path, sorted.
pub fn sources(path: &Path) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    let mut stack = vec![path.to_owned()];
    while let Some(path) = stack.pop() {
        if path.is_file() {
            if path.extension().is_some_and(|e| e == "zip") {
                out.push(path);
            }
        } else if path.join("meta.json").exists() {
            out.push(path);
        } else {
            for entry in std::fs::read_dir(&path)? {
                stack.push(entry?.path());
            }
        }
    }
    out.sort();
    Ok(out)
}

/// The cases of one source.
pub fn read(source: &Path) -> Result<Vec<Case>> {
    let bad = |what: &str| Error::new(ErrorKind::InvalidData, format!("{}: {what}", source.display()));
    let mut folders: BTreeMap<String, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    if source.is_dir() {
        let files = folders.entry(String::new()).or_default();
        for entry in std::fs::read_dir(source)? {
            let entry = entry?;
            files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
        }
    } else {
        let mut archive = zip::ZipArchive::new(std::io::BufReader::new(std::fs::File::open(source)?))?;
        for i in 0..archive.len() {
            let mut file = archive.by_index(i)?;
            let Some((folder, name)) = file.name().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())) else {
                continue;
            };
            if name.is_empty() || name.contains('\\') {
                continue;
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            folders.entry(folder).or_default().insert(name, bytes);
        }
    }
    folders
        .into_iter()
        .map(|(name, files)| {
            Case::new(files).ok_or_else(|| bad(&format!("the case '{name}' has no readable meta.json")))
        })
        .collect()
}
