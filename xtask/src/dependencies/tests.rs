//! A bad dependency is planted in a small workspace. Each must be found, and a sound workspace must
//! pass.

use super::*;
use crate::tree::planted;

const WRITTEN: &str = r#"
[[crate]]
path = "crates/model"
purpose = "Units."
pure = true
depends_on = []
[[crate]]
path = "crates/journal"
purpose = "Log."
pure = true
depends_on = ["model"]
tests_depend_on = ["testing/disk"]
[[crate]]
path = "testing/disk"
purpose = "Faulty."
depends_on = ["model"]
"#;

const MODEL: &str = "[dependencies]\npitwire-model.workspace = true\n";
const DISK: &str = "[dev-dependencies]\npitwire-disk.workspace = true\n";

/// The workspace above with the dependencies of the journal replaced, and more files.
fn offences_with(journal: &str, more: &[(&str, &str)]) -> Vec<String> {
    let crates = [
        ("crates/model", "pitwire-model", "Units.", ""),
        ("crates/journal", "pitwire-journal", "Log.", journal),
        ("testing/disk", "pitwire-disk", "Faulty.", MODEL),
    ];
    let mut tree = planted(&[(FILE, WRITTEN)]);
    for (path, name, description, tail) in crates {
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
    assert_eq!(offences_with(&format!("{MODEL}{DISK}"), &[]), Vec::<String>::new());
}

#[test]
fn an_unlisted_dependency_is_refused() {
    let twice = format!("{MODEL}pitwire-disk.workspace = true\n{DISK}");
    assert_one(&offences_with(&twice, &[]), "crates/journal -> testing/disk: not in its depends_on");
}

#[test]
fn a_listed_dependency_that_no_manifest_uses_is_refused() {
    assert_one(&offences_with(DISK, &[]), "lists \"model\" in depends_on, but its manifest does not");
    assert_one(&offences_with(MODEL, &[]), "lists \"testing/disk\" in tests_depend_on");
}

#[test]
fn a_renamed_or_target_specific_dependency_still_counts() {
    let renamed = format!("[dependencies]\nm = {{ package = \"pitwire-model\", path = \"x\" }}\n{DISK}");
    assert_eq!(offences_with(&renamed, &[]), Vec::<String>::new());
    let target = format!("{MODEL}[target.'cfg(unix)'.dependencies]\npitwire-disk.workspace = true\n{DISK}");
    assert_one(&offences_with(&target, &[]), "crates/journal -> testing/disk");
}

#[test]
fn a_pure_crate_may_not_use_a_crate_of_the_outside_world() {
    let impure = format!("{MODEL}mio.workspace = true\n{DISK}");
    assert_one(&offences_with(&impure, &[]), "crates/journal -> mio: a pure crate must not use it");
}

#[test]
fn a_description_must_equal_the_purpose() {
    let written = WRITTEN.replace("Units.", "Other.");
    let manifest = "[package]\nname = \"pitwire-model\"\ndescription = \"Units.\"";
    let only = written.split("[[crate]]").nth(1).map(|entry| format!("[[crate]]{entry}")).unwrap();
    let tree = planted(&[(FILE, &only), ("crates/model/Cargo.toml", manifest)]);
    assert_one(&check(&tree).unwrap(), "description \"Units.\" differs from the purpose");
}

#[test]
fn a_crate_without_an_entry_and_an_entry_without_a_crate_are_refused() {
    let entry = "[[crate]]\npath = \"crates/a\"\npurpose = \"A.\"\ndepends_on = []\n";
    let tree = planted(&[(FILE, entry), ("crates/b/Cargo.toml", "[package]\nname = \"b\"")]);
    let offences = check(&tree).unwrap();
    assert!(offences[0].contains("crates/b: not in"), "{offences:?}");
    assert!(offences[1].contains("crates/a: in"), "{offences:?}");
}

#[test]
fn the_page_may_not_import_from_outside_its_folder() {
    let sound = format!("{MODEL}{DISK}");
    let inside = ("web/src/a.ts", "import { b } from './b';\nimport e from '../../contracts/errors.json';");
    assert_eq!(offences_with(&sound, &[inside]), Vec::<String>::new());
    let outside = ("web/src/App.svelte", "<script>\n  import x from '../../crates/x';\n</script>");
    assert_one(&offences_with(&sound, &[outside]), "web/src/App.svelte:2: imports ../../crates/x, outside web");
}

#[test]
fn the_lab_may_not_depend_on_workspace_crates() {
    let cargo = ("lab/rust/Cargo.toml", "[dependencies]\npitwire-model = { path = \"../../crates/model\" }");
    assert_one(&offences_with(&format!("{MODEL}{DISK}"), &[cargo]), "lab must not depend on workspace crates");
}

#[test]
fn the_rust_connector_may_depend_on_the_crate_that_it_measures() {
    let manifest = "[dependencies]\npitwire-websocket = { path = \"../../../crates/websocket\" }";
    let cargo = ("lab/connectors/rust-pitwire/Cargo.toml", manifest);
    assert_eq!(offences_with(&format!("{MODEL}{DISK}"), &[cargo]), Vec::<String>::new());
    let cargo = (cargo.0, "[dependencies]\npitwire-model = { path = \"../../../crates/model\" }");
    assert_one(&offences_with(&format!("{MODEL}{DISK}"), &[cargo]), "lab must not depend on workspace crates");
}
