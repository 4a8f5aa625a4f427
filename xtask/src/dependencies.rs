//! The dependencies between crates, as `docs/dependencies.toml` states them and as the manifests
//! have them.
//!
//! Does        compare every manifest with its entry, in both directions; compare descriptions with
//!             purposes; refuse third-party crates that reach the outside world in crates marked
//!             `pure`; follow the relative imports of `web` and `lab`.
//! Leaves out  cargo metadata. Manifests are read as text, so the check works when nothing builds.
//! Start at    [`check`].

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::imports::{resolve, script_imports};
use crate::tree::Tree;

pub const FILE: &str = "docs/dependencies.toml";
const SCRIPTS: [&str; 7] = [".ts", ".js", ".mjs", ".cjs", ".mts", ".svelte", ".tsx"];

/// The one manifest of the laboratory with a workspace crate, and the line that names it. That
/// crate is what its connector measures.
const UNDER_TEST: (&str, &str) = ("lab/connectors/rust-pitwire/Cargo.toml", "pitwire-websocket = ");

/// Third-party crates that a pure crate must not use: they read a clock, open files or sockets, or
/// draw random numbers.
const IMPURE_CRATES: [&str; 12] = [
    "mio",
    "rustix",
    "libc",
    "nix",
    "tokio",
    "socket2",
    "io-uring",
    "rand",
    "getrandom",
    "fastrand",
    "chrono",
    "tracing-subscriber",
];

/// The whole of `docs/dependencies.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dependencies {
    #[serde(rename = "crate")]
    pub crates: Vec<CrateEntry>,
}

/// One crate of the workspace: its purpose and what it may depend on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateEntry {
    pub path: String,
    pub purpose: String,
    #[serde(default)]
    pub pure: bool,
    pub depends_on: Vec<String>,
    #[serde(default)]
    tests_depend_on: Vec<String>,
    /// Names that the purity check permits in this crate although it is pure.
    #[serde(default)]
    pub allows: Vec<String>,
}

/// The parts of a Cargo.toml that matter here.
#[derive(Deserialize)]
struct Manifest {
    package: Package,
    #[serde(flatten)]
    tables: DependencyTables,
    #[serde(default)]
    target: BTreeMap<String, DependencyTables>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    description: Option<String>,
}

#[derive(Deserialize, Default)]
struct DependencyTables {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
    #[serde(default, rename = "build-dependencies")]
    build: BTreeMap<String, toml::Value>,
    #[serde(default, rename = "dev-dependencies")]
    dev: BTreeMap<String, toml::Value>,
}

/// Reads `docs/dependencies.toml`.
///
/// # Errors
///
/// Returns a message if the file is missing or does not have the expected form.
pub fn read(tree: &Tree) -> Result<Dependencies, String> {
    let text = tree.get(FILE).ok_or(format!("{FILE} is missing; it lists every crate and its dependencies"))?;
    toml::from_str(text).map_err(|error| format!("{FILE}: {error}"))
}

/// Returns one line per difference between `docs/dependencies.toml` and the tree.
///
/// # Errors
///
/// Returns a message if `docs/dependencies.toml` or a manifest cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let written = read(tree)?;
    let mut offences = Vec::new();
    let mut manifests = BTreeMap::new();
    for file in tree.files.iter().filter(|file| is_member(&file.path)) {
        let path = file.path.trim_end_matches("/Cargo.toml");
        let manifest: Manifest = toml::from_str(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
        manifests.insert(path, manifest);
    }
    let homes: BTreeMap<&str, &str> =
        manifests.iter().map(|(path, manifest)| (manifest.package.name.as_str(), short(path))).collect();
    for (path, manifest) in &manifests {
        match written.crates.iter().find(|entry| entry.path == *path) {
            Some(entry) => {
                offences.extend(judge_description(entry, manifest));
                offences.extend(judge_edges(entry, manifest, &homes));
                offences.extend(judge_purity(entry, manifest));
            }
            None => offences.push(format!("{path}: not in {FILE}; add a [[crate]] with its purpose and dependencies")),
        }
    }
    for entry in written.crates.iter().filter(|entry| !manifests.contains_key(entry.path.as_str())) {
        offences.push(format!("{}: in {FILE} but not a crate; remove the entry", entry.path));
    }
    for folder in ["web", "lab"] {
        offences.extend(judge_scripts(tree, folder));
    }
    Ok(offences)
}

/// Whether this is the manifest of a workspace member.
fn is_member(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates" | "testing", _, "Cargo.toml"] | ["xtask", "Cargo.toml"])
}

/// The name of a crate in `docs/dependencies.toml`: `engine` for `crates/engine`, the whole path
/// for every other.
pub fn short(path: &str) -> &str {
    path.strip_prefix("crates/").unwrap_or(path)
}

fn judge_description(entry: &CrateEntry, manifest: &Manifest) -> Option<String> {
    let description = manifest.package.description.as_deref().unwrap_or("");
    (description != entry.purpose).then(|| {
        format!(
            "{}/Cargo.toml: description {description:?} differs from the purpose in {FILE} {:?}; make them equal",
            entry.path, entry.purpose
        )
    })
}

fn judge_edges(entry: &CrateEntry, manifest: &Manifest, homes: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut offences = Vec::new();
    let (mut used, mut used_by_tests) = (BTreeSet::new(), BTreeSet::new());
    for (name, only_tests) in dependencies(manifest) {
        let Some(target) = homes.get(name) else { continue };
        let (list, set, key) = match only_tests {
            false => (&entry.depends_on, &mut used, "depends_on"),
            true => (&entry.tests_depend_on, &mut used_by_tests, "tests_depend_on"),
        };
        if !list.iter().any(|listed| listed == target) {
            offences.push(format!(
                "{} -> {target}: not in its {key} in {FILE}; move the code, or add the dependency there and give the \
                 reason in the commit",
                entry.path
            ));
        }
        set.insert(*target);
    }
    for (list, set, key) in
        [(&entry.depends_on, &used, "depends_on"), (&entry.tests_depend_on, &used_by_tests, "tests_depend_on")]
    {
        for listed in list.iter().filter(|listed| !set.contains(listed.as_str())) {
            offences.push(format!(
                "{FILE}: {} lists {listed:?} in {key}, but its manifest does not; remove it",
                entry.path
            ));
        }
    }
    offences
}

fn judge_purity(entry: &CrateEntry, manifest: &Manifest) -> Vec<String> {
    if !entry.pure {
        return Vec::new();
    }
    let impure = |name: &str| IMPURE_CRATES.contains(&name) && !entry.allows.iter().any(|allowed| allowed == name);
    let names = dependencies(manifest).into_iter().filter(|(name, only_tests)| !only_tests && impure(name));
    names
        .map(|(name, _)| {
            format!("{} -> {name}: a pure crate must not use it; take what is needed as an argument", entry.path)
        })
        .collect()
}

/// Every dependency of a manifest, and whether only its tests use it.
fn dependencies(manifest: &Manifest) -> Vec<(&str, bool)> {
    let mut all = Vec::new();
    for tables in std::iter::once(&manifest.tables).chain(manifest.target.values()) {
        for (table, only_tests) in [(&tables.dependencies, false), (&tables.build, false), (&tables.dev, true)] {
            all.extend(table.iter().map(|(key, value)| (real_name(key, value), only_tests)));
        }
    }
    all
}

/// The package that a dependency names: `other = { package = "pitwire-model" }` is pitwire-model.
fn real_name<'a>(key: &'a str, value: &'a toml::Value) -> &'a str {
    value.get("package").and_then(toml::Value::as_str).unwrap_or(key)
}

fn judge_scripts(tree: &Tree, folder: &str) -> Vec<String> {
    let mut offences = Vec::new();
    for file in tree.under(folder).filter(|file| SCRIPTS.iter().any(|end| file.path.ends_with(end))) {
        for (line, specifier) in script_imports(&file.text) {
            let target = resolve(&file.path, &specifier);
            let top = target.as_deref().and_then(|target| target.split('/').next());
            if !top.is_some_and(|top| [folder, "contracts"].contains(&top)) {
                offences.push(format!(
                    "{}:{line}: imports {specifier}, outside {folder}; {folder} may import contracts only",
                    file.path
                ));
            }
        }
    }
    for file in tree.under(folder).filter(|file| file.path.ends_with("/Cargo.toml")) {
        for (index, line) in file.text.lines().enumerate().filter(|(_, line)| line.contains("pitwire")) {
            let is_under_test = file.path == UNDER_TEST.0 && line.starts_with(UNDER_TEST.1);
            if (line.contains("path") || line.contains("workspace")) && !is_under_test {
                offences.push(format!(
                    "{}:{}: {folder} must not depend on workspace crates; use the data in contracts",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests;
