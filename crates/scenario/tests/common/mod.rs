//! The published vectors, for the tests that play them.

use std::path::{Path, PathBuf};

use pitwire_scenario::{Scenario, read};

/// Returns all scenarios of `contracts/vectors/rules`, in order of their file names.
pub fn vectors() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/vectors/rules");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the vectors").map(|entry| entry.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    let read_file = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a vector file");
        read(&file.display().to_string(), &text).unwrap_or_else(|malformed| panic!("{malformed}"))
    };
    files.iter().flat_map(read_file).collect()
}
