//! Mutation tests of the matching engine.
//!
//! Does        copy the engine to `target/mutants`, make the edits of
//!             `crates/engine/mutants/faults.toml` in the copy, and run
//!             `crates/engine/mutants/mutation.rs` on it. Everything else of the workspace is
//!             linked, not copied.
//! Holds       1. every edit applies exactly once, or the command fails and names the fault;
//!             2. a file is written only if its content has changed, so that Cargo rebuilds only
//!                what it must.
//! Start at    [`run`] and [`check`].

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

const CATALOGUE: &str = "crates/engine/mutants/faults.toml";
const TEST: &str = "crates/engine/mutants/mutation.rs";
const SOURCES: &str = "crates/engine/src";
const COPY: &str = "target/mutants";

/// Root entries that the copy links to.
const LINKED: [&str; 4] = ["Cargo.lock", "contracts", "testing", "xtask"];

#[derive(Deserialize)]
struct Catalogue {
    fault: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    number: u8,
    name: String,
    what: String,
    edit: Vec<Edit>,
}

#[derive(Deserialize)]
struct Edit {
    file: String,
    find: String,
    replace: String,
}

/// Returns one line for each edit that does not apply.
///
/// # Errors
/// A message if the catalogue or a source file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut sources = read_sources(root)?;
    Ok(read_catalogue(root)?.fault.iter().flat_map(|fault| apply(fault, &mut sources)).collect())
}

/// Builds the copy and runs the mutation tests. `arguments` go to `cargo test`.
///
/// # Errors
/// A message if the copy cannot be made or Cargo cannot be run.
pub fn run(root: &Path, arguments: &[&str]) -> Result<Vec<String>, String> {
    let catalogue = read_catalogue(root)?;
    let mut sources = read_sources(root)?;
    let offences: Vec<String> = catalogue.fault.iter().flat_map(|fault| apply(fault, &mut sources)).collect();
    if !offences.is_empty() {
        return Ok(offences);
    }
    let copy = root.join(COPY);
    link_workspace(root, &copy)?;
    for (name, text) in &sources {
        let text = if name == "lib.rs" {
            format!("{text}\nmod mutation;\npub use mutation::{{Fault, enable_fault}};\n")
        } else {
            text.clone()
        };
        write_if_changed(&copy.join(SOURCES).join(name), &text)?;
    }
    write_if_changed(&copy.join(SOURCES).join("mutation.rs"), &fault_module(&catalogue))?;
    let test = read(&root.join(TEST))?;
    write_if_changed(&copy.join("crates/engine/tests/mutation.rs"), &test)?;
    let manifest = copy.join("Cargo.toml");
    let status = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string()))
        .args(["test", "-p", "pitwire-engine", "--test", "mutation", "--manifest-path"])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(root.join("target"))
        // Cargo names a built crate by its place in the workspace and its profile. With the profile
        // of the real engine, it would take one for the other.
        .args(["--config", "profile.dev.package.pitwire-engine.codegen-units=17"])
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot run cargo test for the mutants: {error}"))?;
    Ok(if status.success() { Vec::new() } else { vec![format!("the mutation tests failed: {status}")] })
}

fn read_catalogue(root: &Path) -> Result<Catalogue, String> {
    let text = read(&root.join(CATALOGUE))?;
    toml::from_str(&text).map_err(|error| format!("{CATALOGUE}: {error}"))
}

/// The engine's sources: path below `src`, text.
fn read_sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let home = root.join(SOURCES);
    let mut found = Vec::new();
    let mut folders = vec![home.clone()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.strip_prefix(&home) {
                found.push((name.display().to_string(), read(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Makes the edits of one fault. Returns a line for each that does not apply.
fn apply(fault: &Fault, sources: &mut [(String, String)]) -> Vec<String> {
    let enabled = format!("crate::mutation::fault_enabled(crate::mutation::Fault::{})", fault.name);
    let mut offences = Vec::new();
    for Edit { file, find, replace } in &fault.edit {
        let Some((_, text)) = sources.iter_mut().find(|(name, _)| name == file) else {
            offences.push(format!("{CATALOGUE}: fault {} edits {file}, which does not exist", fault.name));
            continue;
        };
        match text.matches(find.as_str()).count() {
            1 => *text = text.replacen(find.as_str(), &replace.replace("FAULT", &enabled), 1),
            times => {
                let name = &fault.name;
                offences
                    .push(format!("{CATALOGUE}: fault {name}: its text occurs {times} times in {file}, expected 1"));
            }
        }
    }
    offences
}

/// The module that the copy has in addition: the list of faults, and which of them is enabled.
fn fault_module(catalogue: &Catalogue) -> String {
    let (mut variants, mut all, mut texts) = (String::new(), String::new(), String::new());
    for Fault { number, name, what, .. } in &catalogue.fault {
        _ = writeln!(variants, "    {name} = {number},");
        _ = writeln!(all, "        Fault::{name},");
        _ = writeln!(texts, "            Fault::{name} => {what:?},");
    }
    format!(
        "//! Generated from {CATALOGUE}.\n\
         use std::sync::atomic::{{AtomicU8, Ordering}};\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq)]\n#[repr(u8)]\npub enum Fault {{\n{variants}}}\n\
         impl Fault {{\n    pub const ALL: &'static [Fault] = &[\n{all}    ];\n\
         \x20   pub const fn what(self) -> &'static str {{\n        match self {{\n{texts}        }}\n    }}\n}}\n\
         static ENABLED: AtomicU8 = AtomicU8::new(0);\n\
         /// Enables one fault in every engine of the process, or none.\n\
         pub fn enable_fault(fault: Option<Fault>) {{\n\
         \x20   ENABLED.store(fault.map_or(0, |fault| fault as u8), Ordering::Relaxed);\n}}\n\
         pub(crate) fn fault_enabled(fault: Fault) -> bool {{\n\
         \x20   ENABLED.load(Ordering::Relaxed) == fault as u8\n}}\n"
    )
}

/// Links everything of the workspace that the engine's tests need into `copy`, except the engine's
/// sources.
fn link_workspace(root: &Path, copy: &Path) -> Result<(), String> {
    let engine = copy.join("crates/engine");
    for folder in [engine.join("src"), engine.join("tests")] {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    write_if_changed(&copy.join("Cargo.toml"), &read(&root.join("Cargo.toml"))?)?;
    write_if_changed(&engine.join("Cargo.toml"), &read(&root.join("crates/engine/Cargo.toml"))?)?;
    for name in LINKED {
        link(&root.join(name), &copy.join(name))?;
    }
    for path in entries(&root.join("crates"))? {
        if let Some(name) = path.file_name().filter(|name| *name != "engine") {
            link(&path, &copy.join("crates").join(name))?;
        }
    }
    link(&root.join("crates/engine/tests/common"), &engine.join("tests/common"))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(read.filter_map(Result::ok).map(|entry| entry.path()).collect())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write_if_changed(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn link(target: &Path, at: &Path) -> Result<(), String> {
    if at.exists() {
        return Ok(());
    }
    std::os::unix::fs::symlink(target, at).map_err(|error| format!("{}: {error}", at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(find: &str) -> Fault {
        let edit = Edit { file: "a.rs".into(), find: find.into(), replace: "y || FAULT".into() };
        Fault { number: 1, name: "Sample".into(), what: "a sample".into(), edit: vec![edit] }
    }

    #[test]
    fn an_edit_applies_once() {
        let mut sources = vec![("a.rs".to_string(), "if x {".to_string())];
        assert!(apply(&fault("x"), &mut sources).is_empty());
        assert_eq!(sources[0].1, "if y || crate::mutation::fault_enabled(crate::mutation::Fault::Sample) {");
    }

    #[test]
    fn an_edit_that_no_longer_applies_or_is_ambiguous_is_reported() {
        let mut sources = vec![("a.rs".to_string(), "x + x".to_string())];
        assert_eq!(apply(&fault("z"), &mut sources).len(), 1);
        assert_eq!(apply(&fault("x"), &mut sources).len(), 1);
    }
}
