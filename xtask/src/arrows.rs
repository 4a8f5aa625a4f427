//! The arrows: who may import whom, as `docs/arrows.toml` says and as the manifests do.
//!
//! Does        compare every dependency of every crate with its room's list; compare descriptions with purposes;
//!             follow the relative imports of `web` and `lab`.
//! Leaves out  cargo metadata: manifests are read as text, so this works when nothing builds.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::imports::{resolve, script_imports};
use crate::tree::{Tree, matches};

const ARROWS: &str = "docs/arrows.toml";
const SCRIPTS: [&str; 7] = [".ts", ".js", ".mjs", ".cjs", ".mts", ".svelte", ".tsx"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrows {
    tests_may_also_import: Vec<String>,
    pub room: Vec<Room>,
    #[serde(default)]
    ban: Vec<Ban>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    pub path: String,
    pub purpose: String,
    pub may_import: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ban {
    rooms: Vec<String>,
    crates: Vec<String>,
    why: String,
}

/// The parts of a Cargo.toml that matter here.
#[derive(Deserialize)]
struct Manifest {
    package: Option<Package>,
    workspace: Option<Workspace>,
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

#[derive(Deserialize)]
struct Workspace {
    #[serde(default)]
    members: Vec<String>,
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

pub fn read(tree: &Tree) -> Result<Arrows, String> {
    let text = tree.get(ARROWS).ok_or(format!("{ARROWS} is missing: the arrows must be written down"))?;
    toml::from_str(text).map_err(|error| format!("{ARROWS}: {error}"))
}

pub fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let arrows = read(tree)?;
    let top = manifest(tree, "Cargo.toml")?.ok_or("Cargo.toml is missing: run this in a checkout")?;
    let members = top.workspace.map(|workspace| workspace.members).unwrap_or_default();
    let mut offences = Vec::new();
    let mut crates = BTreeMap::new();
    for member in &members {
        match manifest(tree, &format!("{member}/Cargo.toml"))? {
            Some(manifest) => _ = crates.insert(member.as_str(), manifest),
            None => offences.push(format!("{member}: a workspace member without a Cargo.toml; remove it or write one")),
        }
    }
    let homes: BTreeMap<&str, &str> = crates
        .iter()
        .filter_map(|(member, manifest)| Some((manifest.package.as_ref()?.name.as_str(), *member)))
        .collect();
    for (member, manifest) in &crates {
        let Some(room) = arrows.room.iter().find(|room| room.path == *member) else {
            offences.push(format!("{member}: not in {ARROWS}; add a [[room]] with its purpose and what it may import"));
            continue;
        };
        offences.extend(judge_description(room, manifest));
        offences.extend(judge_edges(&arrows, room, manifest, &homes));
        offences.extend(judge_bans(&arrows, room, manifest));
    }
    for room in arrows.room.iter().filter(|room| room.path.contains('/')) {
        if !members.contains(&room.path) {
            offences
                .push(format!("{}: in {ARROWS} but not a workspace member; delete one or add the other", room.path));
        }
    }
    for folder in ["web", "lab"] {
        offences.extend(judge_scripts(tree, folder));
    }
    Ok(offences)
}

fn manifest(tree: &Tree, path: &str) -> Result<Option<Manifest>, String> {
    let Some(text) = tree.get(path) else { return Ok(None) };
    toml::from_str(text).map(Some).map_err(|error| format!("{path}: {error}"))
}

fn judge_description(room: &Room, manifest: &Manifest) -> Option<String> {
    let description = manifest.package.as_ref()?.description.as_deref().unwrap_or("");
    (description != room.purpose).then(|| {
        format!(
            "{}/Cargo.toml: description {description:?} is not the purpose in {ARROWS} {:?}; make them the same words",
            room.path, room.purpose
        )
    })
}

fn judge_edges(arrows: &Arrows, room: &Room, manifest: &Manifest, homes: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut offences = Vec::new();
    for (name, for_tests) in dependencies(manifest) {
        let Some(target) = homes.get(name) else { continue };
        let allowed = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, target));
        if allowed(&room.may_import) || (for_tests && allowed(&arrows.tests_may_also_import)) {
            continue;
        }
        offences.push(format!(
            "{} -> {target}{}: not allowed; {}",
            room.path,
            if for_tests { " (dev)" } else { "" },
            cure(&room.path, target)
        ));
    }
    offences
}

fn judge_bans(arrows: &Arrows, room: &Room, manifest: &Manifest) -> Vec<String> {
    let mut offences = Vec::new();
    for ban in arrows.ban.iter().filter(|ban| ban.rooms.iter().any(|pattern| matches(pattern, &room.path))) {
        for (name, for_tests) in dependencies(manifest) {
            if !for_tests && ban.crates.iter().any(|banned| banned == name) {
                offences.push(format!("{} -> {name}: not allowed; {}", room.path, ban.why));
            }
        }
    }
    offences
}

/// Every dependency of a manifest, and whether only tests have it.
fn dependencies(manifest: &Manifest) -> Vec<(&str, bool)> {
    let mut all = Vec::new();
    for tables in std::iter::once(&manifest.tables).chain(manifest.target.values()) {
        for (table, for_tests) in [(&tables.dependencies, false), (&tables.build, false), (&tables.dev, true)] {
            all.extend(table.iter().map(|(key, value)| (real_name(key, value), for_tests)));
        }
    }
    all
}

/// `other = { package = "pitwire-model" }` imports pitwire-model.
fn real_name<'a>(key: &'a str, value: &'a toml::Value) -> &'a str {
    value.get("package").and_then(toml::Value::as_str).unwrap_or(key)
}

fn cure(from: &str, to: &str) -> String {
    let (from_group, to_group) = (group(from), group(to));
    match (from_group, to_group) {
        (_, "apps") => "nothing imports a program; move what is wanted into a crate".to_string(),
        ("core" | "wire", "edge" | "sim") | ("core", "wire") => {
            format!(
                "arrows point from {to_group} to {from_group}; turn it round with a trait of core/ports, or move the code"
            )
        }
        ("edge", "edge") => {
            "edge crates do not import one another; share through core or wire, join them in apps".to_string()
        }
        ("edge", "sim") => {
            "the world's doubles are for tests; make it a dev-dependency, or join them in apps".to_string()
        }
        ("sim", "edge") if to == "edge/host" => "sim replaces the host; use the port in core/ports instead".to_string(),
        _ => format!("move the code, or change {ARROWS} and say why in the commit"),
    }
}

fn group(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn judge_scripts(tree: &Tree, folder: &str) -> Vec<String> {
    let mut offences = Vec::new();
    for file in tree.under(folder).filter(|file| SCRIPTS.iter().any(|end| file.path.ends_with(end))) {
        for (line, specifier) in script_imports(&file.text) {
            let target = resolve(&file.path, &specifier);
            let stays = target.as_deref().is_some_and(|target| [folder, "contracts"].contains(&group(target)));
            if !stays {
                offences.push(format!(
                    "{}:{line}: imports {specifier}, outside {folder}; {folder} may import contracts only",
                    file.path
                ));
            }
        }
    }
    for file in tree.under(folder).filter(|file| file.path.ends_with("/Cargo.toml")) {
        for (index, line) in file.text.lines().enumerate().filter(|(_, line)| line.contains("pitwire")) {
            if line.contains("path") || line.contains("workspace") {
                offences.push(format!(
                    "{}:{}: {folder} imports none of our Rust; work from contracts",
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
