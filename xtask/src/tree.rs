//! The files of the checkout, read once: path from the top, and text.
//!
//! Leaves out  what git ignores, and files that are not UTF-8 text.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Tree {
    pub files: Vec<File>,
}

pub struct File {
    /// From the top of the checkout, with `/`.
    pub path: String,
    pub text: String,
}

impl Tree {
    /// Reads every file that git tracks or would track, new files included.
    ///
    /// # Errors
    /// If git is missing or fails.
    pub fn of_checkout() -> Result<Tree, String> {
        let top = top();
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&top)
            .output()
            .map_err(|error| format!("cannot run git: {error}; install git"))?;
        if !listing.status.success() {
            return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&listing.stderr).trim()));
        }
        let mut files = Vec::new();
        for path in String::from_utf8_lossy(&listing.stdout).split_terminator('\0') {
            // Deleted but still in the index, or not text: nothing to judge.
            if let Ok(text) = std::fs::read_to_string(top.join(path)) {
                files.push(File { path: path.to_string(), text });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Tree { files })
    }

    pub fn get(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    pub fn under(&self, folder: &str) -> impl Iterator<Item = &File> {
        let prefix = format!("{folder}/");
        self.files.iter().filter(move |file| file.path.starts_with(&prefix))
    }
}

/// The folder above `xtask`.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

#[cfg(test)]
pub fn planted(files: &[(&str, &str)]) -> Tree {
    let files = files.iter().map(|(path, text)| File { path: (*path).to_string(), text: (*text).to_string() });
    Tree { files: files.collect() }
}
