//! Import circles: groups of source files of one crate that import each other in a loop.
//!
//! Does        build the module tree of every crate, resolve each `crate::`, `super::` and `self::`
//!             path and each path that starts with a child module to the file that defines the
//!             name, and report every strongly connected group of two or more files.
//! Holds       a re-export is followed to the file that defines the name, so `mod.rs` and `lib.rs`
//!             may collect the names of their children; a declaration `mod child;` alone is not an
//!             import.
//! Leaves out  test modules; methods, because an `impl` block may stand in another file than its
//!             type.
//! Start at    [`check`].

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{rust_uses, without_comment};
use crate::tree::{File, Tree};

/// Re-exports are followed at most this many times, so that two modules that re-export each other
/// end the search.
const DEEPEST: usize = 8;

/// Returns one line per circle.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in &tree.files {
        if let Some(home) = crate_of(&file.path) {
            crates.entry(home).or_default().push(file);
        }
    }
    crates.values().flat_map(|files| circles_of(files)).collect()
}

/// `crates/engine` for `crates/engine/src/book/mod.rs`; `None` for files outside `src` and for test
/// modules.
fn crate_of(path: &str) -> Option<&str> {
    let (home, inside) = path.split_once("/src/")?;
    let is_test = inside.split('/').any(|part| part == "tests" || part == "tests.rs");
    let is_member = home.starts_with("crates/") || home.starts_with("testing/") || home == "xtask";
    (path.ends_with(".rs") && is_member && !is_test).then_some(home)
}

fn circles_of(files: &[&File]) -> Vec<String> {
    let modules = Modules::new(files);
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut names: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for module in modules.by_path.values() {
        for path in &module.paths {
            if let Some((target, name)) = modules.resolve(module, path)
                && target != module.file
            {
                edges.entry(module.file).or_default().insert(target);
                names.entry((module.file, target)).or_default().insert(name);
            }
        }
    }
    let groups = connected_groups(&edges);
    groups.iter().map(|group| describe(group, &names)).collect()
}

fn describe(group: &BTreeSet<&str>, names: &BTreeMap<(&str, &str), BTreeSet<String>>) -> String {
    let mut text = format!("{} files import each other in a circle; move what they share below both:", group.len());
    for ((from, to), used) in names.iter().filter(|((from, to), _)| group.contains(from) && group.contains(to)) {
        let used: Vec<&str> = used.iter().map(String::as_str).collect();
        text.push_str(&format!("\n    {from} -> {to}: {}", used.join(", ")));
    }
    text
}

/// One file as a module.
struct Module<'a> {
    file: &'a str,
    /// Module path from the crate's root; empty for `lib.rs` and `main.rs`.
    path: Vec<String>,
    /// Names that the file defines at any depth.
    defines: BTreeSet<String>,
    /// Names that the file imports or re-exports, with the path that it takes them from.
    exports: BTreeMap<String, Vec<String>>,
    /// Every path that the file uses, as segments.
    paths: Vec<Vec<String>>,
}

/// The module tree of one crate.
struct Modules<'a> {
    by_path: BTreeMap<Vec<String>, Module<'a>>,
}

impl<'a> Modules<'a> {
    fn new(files: &[&'a File]) -> Self {
        let mut by_path = BTreeMap::new();
        let all: BTreeSet<Vec<String>> = files.iter().map(|file| module_path(&file.path)).collect();
        for file in files {
            let path = module_path(&file.path);
            let children: BTreeSet<&str> = all
                .iter()
                .filter(|other| other.len() == path.len() + 1 && other.starts_with(&path))
                .filter_map(|other| other.last().map(String::as_str))
                .collect();
            by_path.entry(path.clone()).or_insert_with(|| read(file, path, &children));
        }
        Modules { by_path }
    }

    /// The file that defines what `path` names when `from` uses it, and the name.
    fn resolve(&self, from: &Module<'a>, path: &[String]) -> Option<(&'a str, String)> {
        self.resolve_at_depth(from, path, 0)
    }

    fn resolve_at_depth(&self, from: &Module<'a>, path: &[String], depth: usize) -> Option<(&'a str, String)> {
        let mut at = from.path.clone();
        let mut rest = path;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => _ = at.pop(),
                name => {
                    let mut child = at.clone();
                    child.push(name.to_string());
                    if !self.by_path.contains_key(&child) {
                        break;
                    }
                    at = child;
                }
            }
            rest = after;
        }
        let module = self.by_path.get(&at)?;
        let Some(name) = rest.first() else { return Some((module.file, "the module".to_string())) };
        if module.defines.contains(name) || name == "*" {
            return Some((module.file, name.clone()));
        }
        let through = module.exports.get(name).filter(|_| depth < DEEPEST && module.file != from.file);
        match through {
            Some(path) if is_local(path, module, self) => self.resolve_at_depth(module, path, depth + 1),
            Some(_) => None,
            None => (module.file != from.file).then(|| (module.file, name.clone())),
        }
    }
}

/// Whether a path leads into this crate.
fn is_local(path: &[String], from: &Module<'_>, modules: &Modules<'_>) -> bool {
    path.first().is_some_and(|first| {
        let mut child = from.path.clone();
        child.push(first.clone());
        ["crate", "self", "super"].contains(&first.as_str()) || modules.by_path.contains_key(&child)
    })
}

fn read<'a>(file: &'a File, path: Vec<String>, children: &BTreeSet<&str>) -> Module<'a> {
    let end = file.text.find("\n#[cfg(test)]\nmod ").unwrap_or(file.text.len());
    let code = &file.text[..end];
    let mut module =
        Module { file: &file.path, path, defines: BTreeSet::new(), exports: BTreeMap::new(), paths: Vec::new() };
    let segments = |text: &str| text.split("::").map(str::to_string).collect::<Vec<_>>();
    for named in rust_uses(code) {
        let path = segments(&named.path);
        if let Some(last) = path.last().cloned() {
            module.exports.insert(last, path.clone());
        }
        // A re-export of a child's name is not a use of it.
        let first = path.first().map_or("", String::as_str);
        let is_reexport = named.is_public && (children.contains(first) || first == "self");
        if !is_reexport && (["crate", "super", "self"].contains(&first) || children.contains(first)) {
            module.paths.push(path);
        }
    }
    for line in code.lines().map(|line| without_strings(without_comment(line))) {
        let trimmed = line.trim_start();
        if !(trimmed.starts_with("use ") || trimmed.starts_with("pub use ") || trimmed.starts_with("pub(")) {
            module.paths.extend(inline_paths(&line, children).iter().map(|path| segments(path)));
        }
        module.defines.extend(defined_name(trimmed).map(str::to_string));
    }
    module
}

/// The line without the content of its string literals, which may look like paths.
fn without_strings(line: &str) -> String {
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// The name that a line defines: `pub(crate) struct Ring {` defines `Ring`.
fn defined_name(line: &str) -> Option<&str> {
    const KEYWORDS: [&str; 9] = ["struct", "enum", "trait", "fn", "const", "static", "type", "union", "macro_rules!"];
    let mut words = line.split_whitespace().peekable();
    while words
        .next_if(|word| word.starts_with("pub") || ["unsafe", "async", "extern", "\"C\""].contains(word))
        .is_some()
    {}
    let keyword = words.next()?;
    let name = match keyword {
        "const" if words.peek() == Some(&"fn") => words.nth(1)?,
        _ if KEYWORDS.contains(&keyword) => words.next()?,
        _ => return None,
    };
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}

/// Paths written out in an expression: `crate::book::Side`, `super::find(`, `child::open(`.
fn inline_paths(line: &str, children: &BTreeSet<&str>) -> Vec<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    line.split(|letter: char| !is_word(letter))
        .filter(|word| {
            let first = word.split("::").next().unwrap_or("");
            word.contains("::") && (["crate", "super", "self"].contains(&first) || children.contains(first))
        })
        .map(|word| word.trim_end_matches(':').to_string())
        .collect()
}

/// `["book", "ladder"]` for `crates/engine/src/book/ladder.rs`; empty for the crate's root.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    let inside = inside.trim_end_matches(".rs");
    let mut parts: Vec<String> = inside.split('/').map(str::to_string).collect();
    let last = parts.last().map_or("", String::as_str);
    if last == "mod" || (parts.len() == 1 && (last == "lib" || last == "main")) {
        parts.pop();
    }
    parts
}

/// Strongly connected groups of two or more nodes, in the order of their first member.
fn connected_groups<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let reach = |from: &'a str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(node) = open.pop() {
            for next in edges.get(node).into_iter().flatten() {
                if seen.insert(*next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|node| (*node, reach(node))).collect();
    let (mut groups, mut placed) = (Vec::new(), BTreeSet::new());
    for (node, others) in &reached {
        if placed.contains(node) || !others.contains(node) {
            continue;
        }
        let group: BTreeSet<&str> =
            others.iter().copied().filter(|other| reached.get(other).is_some_and(|back| back.contains(node))).collect();
        placed.extend(group.iter().copied());
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::planted;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        check(&planted(files))
    }

    #[test]
    fn two_files_that_import_each_other_are_a_circle() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod book;\nmod order;"),
            ("crates/a/src/book.rs", "use crate::order::Order;\npub struct Book;"),
            ("crates/a/src/order.rs", "pub struct Order;\nfn f() { crate::book::Book; }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("crates/a/src/book.rs -> crates/a/src/order.rs: Order"), "{found:?}");
        assert!(found[0].contains("crates/a/src/order.rs -> crates/a/src/book.rs: Book"), "{found:?}");
    }

    #[test]
    fn a_parent_and_its_child_that_use_each_other_are_a_circle() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod child;\npub struct Parent;\nfn f() { child::g() }"),
            ("crates/a/src/child.rs", "use super::Parent;\npub fn g() {}"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn parent_that_only_names_its_children_is_not_a_circle() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod left;\nmod right;\npub use left::Left;\npub use right::Right;"),
            ("crates/a/src/left.rs", "use crate::Right;\npub struct Left;"),
            ("crates/a/src/right.rs", "pub struct Right;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_circle_through_a_reexport_is_found() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod left;\nmod right;\npub use left::Left;\npub use right::Right;"),
            ("crates/a/src/left.rs", "use crate::Right;\npub struct Left;"),
            ("crates/a/src/right.rs", "use crate::Left;\npub struct Right;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod b;\npub struct A;\nuse b::B;"),
            ("crates/a/src/b.rs", "pub struct B;\n\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}"),
            ("crates/a/src/b/tests.rs", "use crate::A;"),
            ("crates/c/src/lib.rs", "use a::A;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn names_are_found_behind_modifiers() {
        assert_eq!(defined_name("pub(crate) const fn reach(x: u8) {"), Some("reach"));
        assert_eq!(defined_name("pub struct Ring<T> {"), Some("Ring"));
        assert_eq!(defined_name("const MOST: usize = 4;"), Some("MOST"));
        assert_eq!(defined_name("let fn_name = 1;"), None);
    }
}
