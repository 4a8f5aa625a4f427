//! The rules of CONTRIBUTING.md that no other tool keeps.
//!
//! Does        read every source line once and name the rule it breaks, with the cure.
//! Leaves out  test code (from `#[cfg(test)]` to the end of a file, and `tests.rs`) for the purity
//!             rules: a test may read a seed from the environment.
//! Start at    [`check`], then [`BANS`].

use serde::Deserialize;

use crate::dependencies::{self, CrateEntry};
use crate::imports::{rust_uses, without_comment};
use crate::tree::{File, Tree, top};

const LONGEST_FILE: usize = 800;
/// Columns of a line with a comment.
const WIDEST_COMMENT: usize = 100;
const SOURCES: [&str; 7] = [".rs", ".py", ".ts", ".svelte", ".js", ".mjs", ".css"];
const ERRORS: &str = "contracts/errors.toml";

/// Names that a pure crate may not use unless its entry in `docs/dependencies.toml` allows them.
struct Ban {
    names: &'static [&'static str],
    /// Why the names are refused and what to do instead.
    remedy: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        names: &["std::fs", "std::net", "std::os::fd", "std::os::unix", "std::env", "std::process"],
        remedy: "a pure crate touches no file, socket or process; take what is needed as an argument",
    },
    Ban {
        names: &["std::thread", "tokio", "mio", "rustix"],
        remedy: "a pure crate has no threads and no event loop; the caller provides them",
    },
    Ban { names: &["std::io"], remedy: "a pure crate does no I/O; only crates that define an I/O trait allow it" },
    Ban {
        names: &["std::time::Instant", "std::time::SystemTime"],
        remedy: "time is an argument; a pure crate reads no clock",
    },
    Ban {
        names: &["rand", "getrandom", "fastrand"],
        remedy: "a run is determined by its seed; take the random generator as an argument",
    },
    Ban {
        names: &["std::collections::HashMap", "std::collections::HashSet", "std::collections::hash_map"],
        remedy: "its iteration order differs from run to run; use BTreeMap, or hashbrown with a fixed hasher",
    },
    Ban { names: &["println!", "eprintln!", "print!", "eprint!"], remedy: "return the text; only programs print" },
];

/// Checks the sources against the rules of CONTRIBUTING.md.
///
/// # Errors
/// If the list of dependencies cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let crates = dependencies::read(tree)?.crates;
    let mut offences = Vec::new();
    for file in &tree.files {
        let home = crate_of_source(&file.path);
        if let Some(entry) = crates.iter().find(|entry| entry.pure && home == Some(&entry.path)) {
            offences.extend(judge_purity(file, entry));
        }
        offences.extend(judge_header(file));
        offences.extend(judge_length(file));
        offences.extend(judge_comment_width(file));
        offences.extend(judge_marks(file));
        offences.extend(judge_machine_paths(file));
    }
    offences.extend(judge_remedies(tree));
    Ok(offences)
}

fn judge_purity(file: &File, entry: &CrateEntry) -> Vec<String> {
    let code = without_tests(file);
    let mut offences = Vec::new();
    let mut report = |line: usize, name: &str, ban: &Ban| {
        offences.push(format!("{}:{line}: {name} in {}; {}", file.path, entry.path, ban.remedy));
    };
    let uses = rust_uses(code);
    for ban in BANS {
        for name in ban.names.iter().filter(|name| !entry.allows.iter().any(|allowed| allowed == *name)) {
            for named in uses.iter().filter(|named| reaches(&named.path, name)) {
                report(named.line, name, ban);
            }
            for (index, line) in code.lines().enumerate() {
                let line = without_comment(line);
                let imported = line.trim_start().starts_with("use ") || line.trim_start().starts_with("pub use ");
                if !imported && mentions(line, name) {
                    report(index + 1, name, ban);
                }
            }
        }
    }
    offences
}

/// `crates/engine` for `crates/engine/src/book/mod.rs`; `None` for files outside `src` and for test
/// modules.
fn crate_of_source(path: &str) -> Option<&str> {
    let (home, inside) = path.split_once("/src/")?;
    let is_test = inside.ends_with("tests.rs") || inside.contains("tests/");
    (path.ends_with(".rs") && home.matches('/').count() == 1 && !is_test).then_some(home)
}

fn without_tests(file: &File) -> &str {
    let end = file.text.find("\n#[cfg(test)]\nmod ").unwrap_or(file.text.len());
    &file.text[..end]
}

/// Whether importing `path` brings in `name`: the same, something below it, or a glob above it.
fn reaches(path: &str, name: &str) -> bool {
    let below = |longer: &str, shorter: &str| longer.strip_prefix(shorter).is_some_and(|rest| rest.starts_with("::"));
    path == name || below(path, name) || path.strip_suffix("::*").is_some_and(|module| below(name, module))
}

/// Whether a line of code spells `name` out, as a path or as a macro.
fn mentions(line: &str, name: &str) -> bool {
    let word = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        let alone = !before.ends_with(|letter| word(letter) || letter == ':') && !after.starts_with(word);
        alone && (name.contains("::") || name.ends_with('!') || after.starts_with("::"))
    })
}

fn judge_header(file: &File) -> Option<String> {
    let group = file.path.split('/').next()?;
    let is_module = file.path.contains("/src/") && file.path.ends_with(".rs");
    let needs = ["crates", "testing"].contains(&group) && is_module;
    (needs && !file.text.starts_with("//!"))
        .then(|| format!("{}:1: no header; start with //! and say what it does and leaves out", file.path))
}

fn judge_length(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    let is_source = SOURCES.iter().any(|end| file.path.ends_with(end));
    (is_source && lines > LONGEST_FILE).then(|| {
        format!("{}: {lines} lines, more than {LONGEST_FILE}; find the second noun in it and give it a file", file.path)
    })
}

/// Comments of at most 100 columns. An address may be longer, because it cannot be broken.
fn judge_comment_width(file: &File) -> Vec<String> {
    let marks: &[&str] = match file.path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("rs" | "ts" | "svelte" | "js" | "mjs" | "css" | "go" | "java" | "cpp" | "hpp" | "c" | "h" | "php") => {
            &["//", "/*", "* "]
        }
        Some("py" | "toml" | "sh") => &["# ", "#: ", "\"\"\""],
        _ => return Vec::new(),
    };
    let is_too_wide = |line: &str| {
        let text = line.trim_start();
        line.chars().count() > WIDEST_COMMENT
            && marks.iter().any(|mark| text.starts_with(mark))
            && !text.contains("https://")
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_too_wide(line));
    let path = &file.path;
    lines.map(|(index, _)| format!("{path}:{}: a comment above {WIDEST_COMMENT} columns; wrap it", index + 1)).collect()
}

/// Marks of unfinished work, spelled in two halves so that this file does not carry them itself.
fn judge_marks(file: &File) -> Vec<String> {
    let marks = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("X", "XX"),
        concat!("NotImplement", "edError"),
    ];
    if !SOURCES.iter().any(|end| file.path.ends_with(end)) {
        return Vec::new();
    }
    let mut offences = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for mark in marks.iter().filter(|mark| line.contains(*mark)) {
            offences.push(format!(
                "{}:{}: {mark} is unfinished work; finish it or write an issue",
                file.path,
                index + 1
            ));
        }
    }
    offences
}

/// Absolute paths of one machine: its usual homes, and wherever this checkout happens to be.
fn judge_machine_paths(file: &File) -> Vec<String> {
    if file.path.ends_with(".lock") || file.path.ends_with("package-lock.json") {
        return Vec::new();
    }
    let here = top().display().to_string();
    let homes = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), here.as_str()];
    let mut offences = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let absolute = |home: &str| line.match_indices(home).any(|(at, _)| starts_a_path(&line[..at]));
        if let Some(home) = homes.iter().find(|home| absolute(home)) {
            offences.push(format!("{}:{}: {home} is a path of one machine; make it relative", file.path, index + 1));
        }
    }
    offences
}

/// `https://host/home/` and `web/home/` are not absolute paths.
fn starts_a_path(before: &str) -> bool {
    !before.ends_with(|letter: char| letter.is_alphanumeric() || "._-/:~$})>".contains(letter))
}

#[derive(Deserialize)]
struct Registry {
    #[serde(default)]
    error: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    name: String,
    #[serde(default)]
    meaning: String,
    #[serde(default)]
    remedy: String,
}

fn judge_remedies(tree: &Tree) -> Vec<String> {
    let Some(text) = tree.get(ERRORS) else {
        return vec![format!("{ERRORS} is missing; every error is written there with its remedy")];
    };
    let registry: Registry = match toml::from_str(text) {
        Ok(registry) => registry,
        Err(error) => return vec![format!("{ERRORS}: {error}")],
    };
    let mut offences = Vec::new();
    if registry.error.is_empty() {
        offences.push(format!("{ERRORS}: no [[error]] at all"));
    }
    for (index, error) in registry.error.iter().enumerate() {
        for (field, value) in [("name", &error.name), ("meaning", &error.meaning), ("remedy", &error.remedy)] {
            if value.trim().is_empty() {
                offences.push(format!("{ERRORS}: error {:?} has an empty {field}; say it in one sentence", error.name));
            }
        }
        if registry.error[..index].iter().any(|earlier| earlier.name == error.name) {
            offences.push(format!("{ERRORS}: error {:?} is there twice; keep one", error.name));
        }
    }
    offences
}

#[cfg(test)]
mod tests;
