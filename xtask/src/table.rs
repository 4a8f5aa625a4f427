//! The table of arrows inside ARCHITECTURE.md, generated from `docs/arrows.toml`.

use crate::arrows::{self, Room};
use crate::tree::{Tree, top};

const PAGE: &str = "ARCHITECTURE.md";
const OPEN: &str = "<!-- arrows -->";
const CLOSE: &str = "<!-- /arrows -->";

pub fn write(tree: &Tree) -> Result<Vec<String>, String> {
    let page = regenerated(tree)?;
    if Some(page.as_str()) != tree.get(PAGE) {
        std::fs::write(top().join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))?;
    }
    Ok(Vec::new())
}

pub fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let same = Some(regenerated(tree)?.as_str()) == tree.get(PAGE);
    let offence = format!("{PAGE}: its table is not what docs/arrows.toml says; run `cargo run -q -p xtask -- table`");
    Ok(if same { Vec::new() } else { vec![offence] })
}

fn regenerated(tree: &Tree) -> Result<String, String> {
    let arrows = arrows::read(tree)?;
    let page =
        tree.get(PAGE).ok_or(format!("{PAGE} is missing; write it, with {OPEN} and {CLOSE} where the table goes"))?;
    let marks = page.split_once(OPEN).and_then(|(before, rest)| Some((before, rest.split_once(CLOSE)?.1)));
    let (before, after) = marks.ok_or(format!("{PAGE} lacks {OPEN} … {CLOSE}; put both where the table goes"))?;
    Ok(format!("{before}{OPEN}\n{}{CLOSE}{after}", table(&arrows.room)))
}

fn table(rooms: &[Room]) -> String {
    let mut text = String::from("| room | purpose | may import |\n|---|---|---|\n");
    for room in rooms {
        let imports: Vec<String> = room.may_import.iter().map(|path| format!("`{path}`")).collect();
        let imports = if imports.is_empty() { "nothing".to_string() } else { imports.join(", ") };
        text.push_str(&format!("| `{}` | {} | {imports} |\n", room.path, room.purpose));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::planted;

    const WRITTEN: (&str, &str) = (
        "docs/arrows.toml",
        "tests_may_also_import = []\n[[room]]\npath = \"core/a\"\npurpose = \"P.\"\nmay_import = [\"core/b\"]\n",
    );

    #[test]
    fn the_table_is_written_between_the_marks_and_kept() {
        let stale = planted(&[WRITTEN, (PAGE, "Map\n<!-- arrows -->\nold\n<!-- /arrows -->\nEnd\n")]);
        assert!(check(&stale).unwrap()[0].contains("is not what docs/arrows.toml says"));
        let page = regenerated(&stale).unwrap();
        assert_eq!(
            page,
            "Map\n<!-- arrows -->\n| room | purpose | may import |\n|---|---|---|\n| `core/a` | P. | `core/b` |\n<!-- /arrows -->\nEnd\n"
        );
        assert_eq!(check(&planted(&[WRITTEN, (PAGE, &page)])).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_page_without_marks_is_an_error() {
        assert!(check(&planted(&[WRITTEN, (PAGE, "Map\n")])).is_err());
    }
}
