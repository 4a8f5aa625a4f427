//! Names of types.
//!
//! Does        find type names in Rust that are a participle or a question word instead of a noun.
//! Holds       the names come from the table `type_names` of `xtask/words.toml`.
//! Leaves out  variants of an enum: they name a state, such as `Outcome::Sent`.
//! Start at    [`check`].

use serde::Deserialize;

use crate::tree::Tree;
use crate::words::LIST;

#[derive(Deserialize)]
struct List {
    type_names: TypeNames,
}

#[derive(Deserialize)]
struct TypeNames {
    /// Names that end in "ed" and are nouns.
    nouns: Vec<String>,
    refused: Vec<String>,
}

pub fn check(tree: &Tree) -> Vec<String> {
    let Some(text) = tree.get(LIST) else { return Vec::new() };
    let names = match toml::from_str(text) {
        Ok(List { type_names }) => type_names,
        Err(error) => return vec![format!("{LIST}: {error}")],
    };
    let mut offences = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(name) = declared_type(line).filter(|name| names.refuse(name)) {
                offences.push(format!(
                    "{}:{}: the type `{name}` is not named by a noun; write for example `ReceiveOutcome` for `Received`",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    offences
}

impl TypeNames {
    fn refuse(&self, name: &str) -> bool {
        let is_one_word = name.chars().skip(1).all(|letter| letter.is_ascii_lowercase());
        let is_participle = is_one_word && name.ends_with("ed") && !self.nouns.iter().any(|noun| noun == name);
        is_participle || self.refused.iter().any(|refused| refused == name)
    }
}

/// Returns the name of the type that a line declares.
fn declared_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let (keyword, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "union", "trait", "type"].contains(&keyword);
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    is_type.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::planted;

    const NAMES: &str = "[type_names]\nnouns = [\"Feed\"]\nrefused = [\"Kept\", \"When\"]\n";

    fn offences(text: &str) -> Vec<String> {
        check(&planted(&[(LIST, NAMES), ("crates/a/src/lib.rs", text)]))
    }

    #[test]
    fn participles_and_question_words_are_refused() {
        for line in [
            "struct Received;",
            "pub enum Kept {",
            "    pub(super) struct Appended<'a> {",
            "pub(crate) type When = u64;",
            "trait Watched {}",
        ] {
            assert_eq!(offences(line).len(), 1, "{line}");
        }
    }

    #[test]
    fn nouns_variants_and_functions_are_accepted() {
        for line in [
            "struct Feed;",
            "struct ReceivedMessage;",
            "    Received,",
            "fn received() {}",
            "let x = Outcome::Kept;",
            "// struct Received",
        ] {
            assert_eq!(offences(line), Vec::<String>::new(), "{line}");
        }
    }
}
