//! The table of crates in ARCHITECTURE.md, generated from `docs/dependencies.toml`.

use crate::dependencies::{self, CrateEntry, short};
use crate::tree::{Tree, top};

const PAGE: &str = "ARCHITECTURE.md";
const OPEN: &str = "<!-- crates -->";
const CLOSE: &str = "<!-- /crates -->";

/// Writes the table of crates into ARCHITECTURE.md.
///
/// # Errors
/// If the list of dependencies cannot be read or the page cannot be written.
pub fn write(tree: &Tree) -> Result<Vec<String>, String> {
    let page = regenerated(tree)?;
    if Some(page.as_str()) != tree.get(PAGE) {
        std::fs::write(top().join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))?;
    }
    Ok(Vec::new())
}

/// Checks that the table of crates is up to date.
///
/// # Errors
/// If the list of dependencies cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let same = Some(regenerated(tree)?.as_str()) == tree.get(PAGE);
    let offence = format!("{PAGE}: its table is not what docs/dependencies.toml says; run `scripts/xtask table`");
    Ok(if same { Vec::new() } else { vec![offence] })
}

fn regenerated(tree: &Tree) -> Result<String, String> {
    let dependencies = dependencies::read(tree)?;
    let page =
        tree.get(PAGE).ok_or(format!("{PAGE} is missing; write it, with {OPEN} and {CLOSE} where the table goes"))?;
    let marks = page.split_once(OPEN).and_then(|(before, rest)| Some((before, rest.split_once(CLOSE)?.1)));
    let (before, after) = marks.ok_or(format!("{PAGE} lacks {OPEN} … {CLOSE}; put both where the table goes"))?;
    Ok(format!("{before}{OPEN}\n{}{CLOSE}{after}", table(&dependencies.crates)))
}

fn table(crates: &[CrateEntry]) -> String {
    let mut text = String::from("| crate | purpose | depends on |\n|---|---|---|\n");
    for entry in crates {
        let on: Vec<String> = entry.depends_on.iter().map(|name| format!("`{name}`")).collect();
        let on = if on.is_empty() { "nothing".to_string() } else { on.join(", ") };
        let mark = if entry.pure { " (pure)" } else { "" };
        text.push_str(&format!("| `{}`{mark} | {} | {on} |\n", short(&entry.path), entry.purpose));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::planted;

    const WRITTEN: (&str, &str) = (
        "docs/dependencies.toml",
        "[[crate]]\npath = \"crates/a\"\npurpose = \"P.\"\npure = true\ndepends_on = [\"b\"]\n",
    );

    #[test]
    fn the_table_is_written_between_the_marks() {
        let stale = planted(&[WRITTEN, (PAGE, "Map\n<!-- crates -->\nold\n<!-- /crates -->\nEnd\n")]);
        assert!(check(&stale).unwrap()[0].contains("is not what docs/dependencies.toml says"));
        let page = regenerated(&stale).unwrap();
        assert_eq!(
            page,
            "Map\n<!-- crates -->\n| crate | purpose | depends on |\n|---|---|---|\n| `a` (pure) | P. | `b` |\n<!-- /crates -->\nEnd\n"
        );
        assert_eq!(check(&planted(&[WRITTEN, (PAGE, &page)])).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_page_without_marks_is_an_error() {
        assert!(check(&planted(&[WRITTEN, (PAGE, "Map\n")])).is_err());
    }
}
