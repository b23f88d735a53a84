//! Reads the conformance corpus: a folder with a zip file for each suite.

use std::io::Read;
use std::path::PathBuf;

/// One module and what is said of it.
#[allow(dead_code, reason = "each test uses what it needs")]
pub struct Case {
    pub name: String,
    pub suite: String,
    pub text: String,
    /// The same module as an `HloModuleProto`, where the suite has it.
    pub message: Option<Vec<u8>>,
    pub meta: serde_json::Value,
}

/// The cases of every suite; `None` where there is no corpus.
pub fn corpus() -> Option<Vec<Case>> {
    let Some(folder) = std::env::var_os("BROLGA_CONFORMANCE").map(PathBuf::from) else {
        eprintln!("SKIPPED: BROLGA_CONFORMANCE does not name a folder with the conformance corpus");
        return None;
    };
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of the corpus can be read") {
        let path = entry.expect("the folder of the corpus can be read").path();
        if path.extension().is_none_or(|e| e != "zip") {
            continue;
        }
        let suite = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let file = std::fs::File::open(&path).expect("a suite can be opened");
        let mut archive = zip::ZipArchive::new(std::io::BufReader::new(file)).expect("a suite is a zip file");
        let modules: Vec<String> =
            archive.file_names().filter(|n| n.ends_with("/module.hlo")).map(str::to_owned).collect();
        for module in modules {
            let mut read = |name: &str| {
                let mut text = String::new();
                let mut file = archive.by_name(name).expect("a case has its files");
                file.read_to_string(&mut text).expect("a case's files are UTF-8");
                text
            };
            let text = read(&module);
            let meta = read(&module.replace("module.hlo", "meta.json"));
            let message = archive.by_name(&module.replace("module.hlo", "module.pb")).ok().map(|mut file| {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).expect("a case's files can be read");
                bytes
            });
            let meta = serde_json::from_str(&meta).expect("meta is JSON");
            cases.push(Case { name: module.replace("/module.hlo", ""), suite: suite.clone(), text, message, meta });
        }
    }
    cases.sort_by(|a, b| (&a.suite, &a.name).cmp(&(&b.suite, &b.name)));
    assert!(!cases.is_empty(), "the corpus has suites");
    Some(cases)
}
