//! Bad edges are planted in a small workspace; each must be found, and a sound one passed.

use super::*;
use crate::tree::planted;

const TOP: &str = r#"
[workspace]
members = ["core/model", "wire/log", "edge/host", "edge/journal", "sim/world", "apps/pitwire"]
"#;

const WRITTEN: &str = r#"
tests_may_also_import = ["core/*", "sim/world"]
[[room]]
path = "core/model"
purpose = "Units."
may_import = []
[[room]]
path = "wire/log"
purpose = "Bytes."
may_import = ["core/*"]
[[room]]
path = "edge/host"
purpose = "World."
may_import = ["core/*", "wire/*"]
[[room]]
path = "edge/journal"
purpose = "Log."
may_import = ["core/*", "wire/*"]
[[room]]
path = "sim/world"
purpose = "Double."
may_import = ["core/*", "wire/*", "edge/journal"]
[[room]]
path = "apps/pitwire"
purpose = "Program."
may_import = ["core/*", "wire/*", "edge/*", "sim/*"]
[[ban]]
rooms = ["core/*"]
crates = ["serde"]
why = "encode in wire"
"#;

/// The workspace above with one manifest's tail, or one other file, replaced.
fn offences_with(room: &str, extra: &str, more: &[(&str, &str)]) -> Vec<String> {
    let crates = [
        ("core/model", "pitwire-model", "Units."),
        ("wire/log", "pitwire-log", "Bytes."),
        ("edge/host", "pitwire-host", "World."),
        ("edge/journal", "pitwire-journal", "Log."),
        ("sim/world", "pitwire-world", "Double."),
        ("apps/pitwire", "pitwire", "Program."),
    ];
    let mut tree = planted(&[("Cargo.toml", TOP), ("docs/arrows.toml", WRITTEN)]);
    for (path, name, description) in crates {
        let tail = if path == room { extra } else { "" };
        let text = format!("[package]\nname = {name:?}\ndescription = {description:?}\n{tail}");
        tree.files.extend(planted(&[(&format!("{path}/Cargo.toml"), &text)]).files);
    }
    tree.files.extend(planted(more).files);
    check(&tree).unwrap()
}

#[track_caller]
fn assert_one(offences: &[String], part: &str) {
    assert!(matches!(offences, [only] if only.contains(part)), "{offences:?}");
}

#[test]
fn a_sound_workspace_passes() {
    let dependencies = "[dependencies]\npitwire-model.workspace = true\nserde.workspace = true";
    assert_eq!(offences_with("wire/log", dependencies, &[]), Vec::<String>::new());
}

#[test]
fn an_edge_that_points_right_is_found_with_its_cure() {
    let offences = offences_with("wire/log", "[dependencies]\npitwire-journal.workspace = true", &[]);
    assert_one(&offences, "wire/log -> edge/journal: not allowed; arrows point from edge to wire");
}

#[test]
fn edge_crates_do_not_import_one_another() {
    let offences = offences_with("edge/journal", "[dependencies]\npitwire-host.workspace = true", &[]);
    assert_one(&offences, "edge/journal -> edge/host: not allowed; edge crates do not import one another");
}

#[test]
fn sim_does_not_import_the_host_and_nobody_imports_a_program() {
    let offences = offences_with("sim/world", "[dependencies]\npitwire-host = { path = \"../../edge/host\" }", &[]);
    assert_one(&offences, "sim/world -> edge/host");
    let offences = offences_with("sim/world", "[build-dependencies]\npitwire = { path = \"x\" }", &[]);
    assert_one(&offences, "nothing imports a program");
}

#[test]
fn a_renamed_or_target_specific_import_is_still_an_import() {
    let renamed = "[dependencies]\nlog = { package = \"pitwire-host\", path = \"x\" }";
    assert_one(&offences_with("edge/journal", renamed, &[]), "edge/journal -> edge/host");
    let target = "[target.'cfg(unix)'.dependencies]\npitwire-host.workspace = true";
    assert_one(&offences_with("edge/journal", target, &[]), "edge/journal -> edge/host");
}

#[test]
fn tests_may_import_the_doubles_but_not_the_world() {
    let double = "[dev-dependencies]\npitwire-world.workspace = true";
    assert_eq!(offences_with("edge/journal", double, &[]), Vec::<String>::new());
    let world = "[dev-dependencies]\npitwire-host.workspace = true";
    assert_one(&offences_with("edge/journal", world, &[]), "edge/journal -> edge/host (dev)");
}

#[test]
fn a_banned_crate_is_found() {
    let offences = offences_with("core/model", "[dependencies]\nserde.workspace = true", &[]);
    assert_one(&offences, "core/model -> serde: not allowed; encode in wire");
}

#[test]
fn a_description_must_be_the_purpose() {
    let wrong = ("wire/log/Cargo.toml", "[package]\nname = \"pitwire-log\"\ndescription = \"Other.\"");
    let mut tree = planted(&[("Cargo.toml", "[workspace]\nmembers = [\"wire/log\"]"), wrong]);
    let written = WRITTEN.split("[[room]]").filter(|part| !part.contains("path") || part.contains("wire/log"));
    let written = written.collect::<Vec<_>>().join("[[room]]");
    tree.files.extend(planted(&[("docs/arrows.toml", &written)]).files);
    assert_one(&check(&tree).unwrap(), "description \"Other.\" is not the purpose");
}

#[test]
fn the_window_may_not_climb_out_of_its_folder() {
    let inside = ("web/src/a.ts", "import { b } from './b';\nimport e from '../../contracts/errors.json';");
    assert_eq!(offences_with("", "", &[inside]), Vec::<String>::new());
    let outside = ("web/src/App.svelte", "<script>\n  import x from '../../core/x';\n</script>");
    assert_one(&offences_with("", "", &[outside]), "web/src/App.svelte:2: imports ../../core/x, outside web");
}

#[test]
fn the_lab_imports_none_of_our_rust() {
    let cargo = ("lab/connectors/rust/Cargo.toml", "[dependencies]\npitwire-model = { path = \"../../core/model\" }");
    assert_one(&offences_with("", "", &[cargo]), "lab imports none of our Rust");
}
