//! What a piece of source imports: Rust `use` trees spelled out, and the relative paths of scripts.

/// One path that a Rust file names, and the line (from 1) on which it starts.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportedPath {
    pub line: usize,
    pub path: String,
    /// Whether the statement is a re-export (`pub use`).
    pub is_public: bool,
}

/// Every `use` of the text, with braces spelled out: `use std::{fs, io::Read}` names two paths.
pub fn rust_uses(text: &str) -> Vec<ImportedPath> {
    let mut named = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let code = without_comment(line).trim();
        if open.is_none() {
            let Some(at) = code.find("use ").filter(|at| starts_use(&code[..*at])) else { continue };
            open = Some((index + 1, code.starts_with("pub"), code[at + 4..].to_string()));
        } else if let Some((.., statement)) = &mut open {
            statement.push_str(code);
        }
        if code.ends_with(';')
            && let Some((line, is_public, statement)) = open.take()
        {
            let paths = spelled_out(statement.trim_end_matches(';'));
            named.extend(paths.into_iter().map(|path| ImportedPath { line, path, is_public }));
        }
    }
    named
}

/// The text of a line up to its comment. A `//` inside a string is rare enough to be called a
/// comment.
pub fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// The relative specifiers that a script imports: `from './a'`, `import('../b')`, `require('./c')`.
pub fn script_imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for opening in
            ["from '", "from \"", "import '", "import \"", "import('", "import(\"", "require('", "require(\""]
        {
            for (at, _) in line.match_indices(opening) {
                let rest = &line[at + opening.len()..];
                let end = rest.find(['\'', '"']).unwrap_or(rest.len());
                if rest.starts_with('.') {
                    found.push((index + 1, rest[..end].to_string()));
                }
            }
        }
    }
    found
}

/// Where a relative specifier in `file` leads, from the top; `None` when it climbs out of the
/// checkout.
pub fn resolve(file: &str, specifier: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for step in specifier.split('/') {
        match step {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn starts_use(before: &str) -> bool {
    let before = before.trim();
    before.is_empty() || before == "pub" || (before.starts_with("pub(") && before.ends_with(')'))
}

fn spelled_out(tree: &str) -> Vec<String> {
    let tree = tree.split(" as ").next().unwrap_or(tree).trim();
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.replace(' ', "")] };
    let inside = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let mut paths = Vec::new();
    for branch in top_level_branches(inside) {
        for path in spelled_out(branch) {
            let whole = format!("{}{path}", prefix.trim());
            paths.push(whole.trim_end_matches("::self").to_string());
        }
    }
    paths
}

fn top_level_branches(inside: &str) -> Vec<&str> {
    let (mut depth, mut start, mut branches) = (0, 0, Vec::new());
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&inside[start..]);
    branches.retain(|branch| !branch.trim().is_empty());
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        rust_uses(text).into_iter().map(|named| named.path).collect()
    }

    #[test]
    fn use_trees_are_spelled_out() {
        assert_eq!(paths("use std::fs;"), ["std::fs"]);
        assert_eq!(paths("pub use std::{fs, io::Read};"), ["std::fs", "std::io::Read"]);
        assert_eq!(
            paths("use std::collections::{BTreeMap, HashMap as Map};"),
            ["std::collections::BTreeMap", "std::collections::HashMap"]
        );
        assert_eq!(
            paths("use std::{\n    time::{self, Instant},\n    env,\n};"),
            ["std::time", "std::time::Instant", "std::env"]
        );
    }

    #[test]
    fn comments_and_other_words_are_not_imports() {
        assert_eq!(paths("// use std::fs;\n//! use std::env;\nlet reuse = 1;"), Vec::<String>::new());
    }

    #[test]
    fn script_imports_are_found_and_resolved() {
        let text = "import { a } from './lib/a';\nconst b = await import('../../core/b');\nimport c from 'svelte';";
        assert_eq!(script_imports(text), [(1, "./lib/a".to_string()), (2, "../../core/b".to_string())]);
        assert_eq!(resolve("web/src/main.ts", "./lib/a").as_deref(), Some("web/src/lib/a"));
        assert_eq!(resolve("web/src/main.ts", "../../core/b").as_deref(), Some("core/b"));
        assert_eq!(resolve("web/main.ts", "../../x"), None);
    }
}
