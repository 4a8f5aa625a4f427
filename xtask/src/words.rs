//! Words that the project no longer uses.
//!
//! Does        find each retired word of `xtask/words.toml` in sources, tables and Markdown files:
//!             in comments, in text and as a part of an identifier.
//! Holds       an exception names words, one path and a reason.
//! Leaves out  a call of a method: `x.floor()` rounds down.
//! Start at    [`check`].

use serde::Deserialize;

use crate::tree::{File, Tree};

pub const LIST: &str = "xtask/words.toml";
const SEARCHED: &[&str] = &[
    ".rs", ".py", ".ts", ".svelte", ".md", ".mjs", ".js", ".css", ".html", ".toml", ".go", ".java", ".cpp", ".hpp",
    ".c", ".h", ".php", "Makefile", ".ci/run",
];

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    word: Vec<RetiredWord>,
    #[serde(default)]
    exception: Vec<Exception>,
}

/// A retired word in lower case. Its plural with `s` is retired too.
#[derive(Deserialize)]
struct RetiredWord {
    word: String,
    instead: String,
}

/// A place where a retired word may stand.
#[derive(Deserialize)]
struct Exception {
    words: Vec<String>,
    /// A file, or the beginning of the paths of several.
    path: String,
    reason: String,
}

pub fn check(tree: &Tree) -> Vec<String> {
    let Some(text) = tree.get(LIST) else {
        return vec![format!("{LIST} is missing; it lists the retired words")];
    };
    let list: List = match toml::from_str(text) {
        Ok(list) => list,
        Err(error) => return vec![format!("{LIST}: {error}")],
    };
    let mut offences = Vec::new();
    let is_searched = |path: &str| path != LIST && SEARCHED.iter().any(|end| path.ends_with(end));
    for file in tree.files.iter().filter(|file| is_searched(&file.path)) {
        for (line, retired) in retired_words(file, &list.word) {
            let is_exception = |exception: &Exception| {
                file.path.starts_with(&exception.path) && exception.words.contains(&retired.word)
            };
            if !list.exception.iter().any(is_exception) {
                let RetiredWord { word, instead } = retired;
                offences.push(format!("{}:{line}: {word:?} is a retired word; write {instead}", file.path));
            }
        }
    }
    for Exception { path, .. } in list.exception.iter().filter(|exception| exception.reason.trim().is_empty()) {
        offences.push(format!("{LIST}: the exception for {path} has no reason; write one line"));
    }
    offences
}

/// Returns the retired words of a file with their line numbers, each word once per line.
fn retired_words<'a>(file: &File, retired: &'a [RetiredWord]) -> Vec<(usize, &'a RetiredWord)> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut on_line: Vec<&str> = Vec::new();
        for (word, is_method) in words(line) {
            let known = retired.iter().find(|retired| is_form_of(&word, &retired.word));
            if let Some(known) = known.filter(|known| !is_method && !on_line.contains(&known.word.as_str())) {
                on_line.push(&known.word);
                found.push((index + 1, known));
            }
        }
    }
    found
}

fn is_form_of(word: &str, retired: &str) -> bool {
    word == retired || word.strip_suffix('s') == Some(retired)
}

/// Splits a line into lower-case words: at every character that is not a letter, and inside
/// `CamelCase`. The flag says that the word is the name of a method that is called.
fn words(line: &str) -> Vec<(String, bool)> {
    let mut words = Vec::new();
    let letters: Vec<char> = line.chars().collect();
    let mut at = 0;
    while at < letters.len() {
        if !letters[at].is_ascii_alphabetic() {
            at += 1;
            continue;
        }
        let start = at;
        at += 1;
        let is_capital = |at: usize| letters.get(at).is_some_and(char::is_ascii_uppercase);
        let is_small = |at: usize| letters.get(at).is_some_and(char::is_ascii_lowercase);
        if is_capital(start) && is_capital(at) {
            // An abbreviation or a constant: it ends before the capital of the next word.
            while is_capital(at) && !is_small(at + 1) {
                at += 1;
            }
        } else {
            while is_small(at) {
                at += 1;
            }
        }
        let is_method = start > 0 && letters[start - 1] == '.' && letters.get(at) == Some(&'(');
        words.push((letters[start..at].iter().collect::<String>().to_lowercase(), is_method));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::planted;

    const WORDS: &str = "[[word]]\nword = \"hall\"\ninstead = \"delivery thread\"\n\
                         [[word]]\nword = \"floor\"\ninstead = \"delivery core\"\n";

    fn offences(list: &str, path: &str, text: &str) -> Vec<String> {
        check(&planted(&[(LIST, list), (path, text)]))
    }

    #[test]
    fn planted_words_are_found_in_comments_identifiers_and_prose() {
        let table = [
            ("crates/a/src/lib.rs", "// The halls serve readers."),
            ("crates/a/src/lib.rs", "struct HallStatistics;"),
            ("crates/a/src/lib.rs", "const MOST_HALLS: u32 = 4;"),
            ("crates/a/src/lib.rs", "let x = idle_hall;"),
            ("crates/a/src/lib.rs", "let x = \"the hall\";"),
            ("tests/test_a.py", "# a hall"),
            ("web/src/a.ts", "const hallNames = 1;"),
            ("web/src/a.svelte", "<!-- hall -->"),
            ("docs/a.md", "A Hall of readers."),
            ("Makefile", "hall:"),
        ];
        for (path, text) in table {
            let found = offences(WORDS, path, &format!("\n{text}\n"));
            assert_eq!(found, [format!("{path}:2: \"hall\" is a retired word; write delivery thread")], "{text}");
        }
    }

    #[test]
    fn other_words_files_and_rounding_are_not_offences() {
        let table = [
            ("crates/a/src/lib.rs", "// A shallow challenge to Marshall."),
            ("crates/a/src/lib.rs", "let x = price.floor();"),
            ("web/src/a.ts", "const x = Math.floor(y);"),
            ("contracts/vectors/a.json", "hall"),
        ];
        for (path, text) in table {
            assert_eq!(offences(WORDS, path, text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(offences(WORDS, "crates/a/src/lib.rs", "fn floor() {}").len(), 1);
    }

    #[test]
    fn an_exception_covers_its_words_below_its_path() {
        let list = format!("{WORDS}[[exception]]\nwords = [\"hall\"]\npath = \"docs/\"\nreason = \"a name\"\n");
        assert_eq!(offences(&list, "docs/a.md", "hall"), Vec::<String>::new());
        assert_eq!(offences(&list, "docs/a.md", "hall and floor").len(), 1);
        assert_eq!(offences(&list, "tests/a.py", "hall").len(), 1);
    }

    #[test]
    fn an_exception_without_a_reason_is_an_offence() {
        let list = format!("{WORDS}[[exception]]\nwords = [\"hall\"]\npath = \"docs/\"\nreason = \" \"\n");
        assert!(offences(&list, "docs/a.md", "hall")[0].contains("has no reason"));
    }

    #[test]
    fn a_missing_or_broken_list_is_an_offence() {
        assert!(check(&planted(&[]))[0].contains("is missing"));
        assert!(offences("[[word]]\nword = 1", "docs/a.md", "")[0].starts_with(LIST));
    }
}
