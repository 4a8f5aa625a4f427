//! Tests that exist and that no program runs.
//!
//! Does        find files of `tests/suite` that their `main.rs` does not name, and tests and
//!             examples in libraries whose manifest turns them off.
//! Leaves out  examples in indented blocks: only those in fences are found.
//! Start at    [`check`].

use serde::Deserialize;

use crate::tree::{File, Tree};

/// Languages of fences that rustdoc does not compile. An example without a language is Rust.
const OTHER_LANGUAGES: [&str; 7] = ["console", "ignore", "json", "python", "sh", "text", "toml"];

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    lib: Library,
}

#[derive(Deserialize, Default)]
struct Library {
    test: Option<bool>,
    doctest: Option<bool>,
}

/// Returns one line for each test that is not run.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut offences = Vec::new();
    for file in &tree.files {
        if let Some((home, name)) = file.path.split_once("/tests/suite/") {
            offences.extend(judge_suite(tree, home, name));
        }
        if let Some(home) = file.path.strip_suffix("/Cargo.toml") {
            offences.extend(judge_library(tree, home, &file.text));
        }
    }
    offences
}

fn judge_suite(tree: &Tree, home: &str, name: &str) -> Option<String> {
    let module = name.strip_suffix("/mod.rs").or_else(|| name.strip_suffix(".rs"))?;
    if module.contains('/') || module == "main" {
        return None;
    }
    let main = format!("{home}/tests/suite/main.rs");
    let is_named = tree.get(&main).is_some_and(|text| text.lines().any(|line| line == format!("mod {module};")));
    (!is_named).then(|| format!("{home}/tests/suite/{name}: not compiled; write `mod {module};` into {main}"))
}

fn judge_library(tree: &Tree, home: &str, manifest: &str) -> Vec<String> {
    let Ok(Manifest { lib }) = toml::from_str(manifest) else {
        return Vec::new(); // Cargo refuses it with a better message.
    };
    let mut offences = Vec::new();
    for file in tree.under(&format!("{home}/src")).filter(|file| file.path.ends_with(".rs")) {
        // A binary of the same crate is a program of its own.
        if file.path.ends_with("/src/main.rs") || file.path.contains("/src/bin/") {
            continue;
        }
        if lib.test == Some(false) {
            offences.extend(first(file, |line| line == "#[test]", home, "test", "a test"));
        }
        if lib.doctest == Some(false) {
            let mut is_open = false;
            offences.extend(first(file, |line| opens_example(line, &mut is_open), home, "doctest", "an example"));
        }
    }
    offences
}

fn first(file: &File, mut is_it: impl FnMut(&str) -> bool, home: &str, key: &str, what: &str) -> Option<String> {
    let at = file.text.lines().position(|line| is_it(line.trim()))?;
    let path = &file.path;
    Some(format!("{path}:{}: {what} that is not run; remove `{key} = false` from {home}/Cargo.toml", at + 1))
}

/// Whether a line of a doc comment opens a fence whose content rustdoc compiles. `is_open` says
/// whether the line before was inside of a fence.
fn opens_example(line: &str, is_open: &mut bool) -> bool {
    let Some(fence) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start) else {
        *is_open = false;
        return false;
    };
    let Some(language) = fence.strip_prefix("```") else { return false };
    *is_open = !*is_open;
    *is_open && !OTHER_LANGUAGES.contains(&language.split(',').next().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::planted;

    fn offences(files: &[(&str, &str)]) -> Vec<String> {
        check(&planted(files))
    }

    #[test]
    fn a_file_of_a_suite_is_named_by_its_main() {
        let main = (
            "crates/a/tests/suite/main.rs",
            "#[path = \"../common/mod.rs\"]\nmod common;\n\nmod orders;\nmod rules;\n",
        );
        let named =
            [main, ("crates/a/tests/suite/orders.rs", ""), ("crates/a/tests/suite/rules/mod.rs", "mod calls;\n")];
        assert_eq!(offences(&named), Vec::<String>::new());
        assert_eq!(offences(&[main, ("crates/a/tests/suite/rules/calls.rs", "")]), Vec::<String>::new());
        let found = offences(&[main, ("crates/a/tests/suite/order.rs", "")]);
        assert!(found[0].contains("write `mod order;` into crates/a/tests/suite/main.rs"), "{found:?}");
    }

    #[test]
    fn a_library_that_turns_tests_off_has_none() {
        let manifest = ("crates/a/Cargo.toml", "[lib]\ntest = false\n");
        let found = offences(&[manifest, ("crates/a/src/b.rs", "mod tests {\n    #[test]\n    fn f() {}\n}")]);
        assert!(found[0].starts_with("crates/a/src/b.rs:2: a test that is not run"), "{found:?}");
        assert_eq!(offences(&[manifest, ("crates/a/src/main.rs", "#[test]")]), Vec::<String>::new());
        assert_eq!(offences(&[manifest, ("crates/b/src/b.rs", "#[test]")]), Vec::<String>::new());
        assert_eq!(offences(&[("crates/a/Cargo.toml", ""), ("crates/a/src/b.rs", "#[test]")]), Vec::<String>::new());
    }

    #[test]
    fn a_library_that_turns_examples_off_has_none() {
        let manifest = ("crates/a/Cargo.toml", "[lib]\ndoctest = false\n");
        for (example, is_found) in [
            ("/// ```\n/// f();\n/// ```\n", true),
            ("//! ```rust\n//! f();\n//! ```\n", true),
            ("    /// ```should_panic\n", true),
            ("/// ```text\n/// f\n/// ```\n/// ```\n/// f();\n/// ```\n", true),
            ("/// ```text\n/// f();\n/// ```\n", false),
            ("// ```\n", false),
        ] {
            assert_eq!(!offences(&[manifest, ("crates/a/src/b.rs", example)]).is_empty(), is_found, "{example}");
        }
    }
}
