//! The layout of help texts: prose and examples are wrapped at the width of the terminal.
//!
//! clap wraps the text of options. It prints the text after the options as it is written, so a
//! narrow terminal would break its lines in the middle of a word of an example.

use clap::Command;
use ratatui::crossterm::terminal;

/// Widest line of help, in columns.
const WIDEST: usize = 100;
/// Narrowest layout, in columns. A narrower terminal breaks the lines by itself.
const NARROWEST: usize = 40;
/// Indentation of further lines of an example, and of its description.
const CONTINUED: &str = "      ";

/// Lays out the help of a command and of its subcommands for the width of the terminal. `COLUMNS`
/// stands for the width where standard output is no terminal.
pub fn for_terminal(command: Command) -> Command {
    let columns = terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    for_width(command, columns.or_else(named).unwrap_or(WIDEST))
}

/// Lays out the help of a command and of its subcommands for lines of at most `width` columns.
pub fn for_width(command: Command, width: usize) -> Command {
    let width = width.clamp(NARROWEST, WIDEST);
    let command = match command.get_after_help().map(|text| wrap(&text.to_string(), width)) {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.term_width(width).mut_subcommands(|subcommand| for_width(subcommand, width))
}

/// Wraps a text. Lines without indentation are prose. A line that is indented by two spaces is an
/// example, which continues after a backslash. A line that is indented by six describes it.
fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut prose = String::new();
    for line in text.lines() {
        // A colon ends a line: the heading of the examples, or the introduction of a list.
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if is_prose {
            prose = if prose.is_empty() { line.to_owned() } else { format!("{prose} {line}") };
        }
        if !prose.is_empty() && (!is_prose || line.ends_with(':')) {
            lines.extend(broken(&std::mem::take(&mut prose), "", "", "", width));
        }
        match line {
            _ if is_prose => {}
            "" => lines.push(String::new()),
            _ if line.starts_with(CONTINUED) => {
                lines.extend(broken(line.trim_start(), CONTINUED, CONTINUED, "", width));
            }
            _ => lines.extend(broken(line.trim_start(), "  ", CONTINUED, " \\", width)),
        }
    }
    if !prose.is_empty() {
        lines.extend(broken(&prose, "", "", "", width));
    }
    lines.join("\n")
}

/// Breaks a text between words. `end` stands at the end of each line but the last.
fn broken(text: &str, first: &str, next: &str, end: &str, width: usize) -> Vec<String> {
    let columns = |text: &str| text.chars().count();
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in words(text) {
        if !is_empty && columns(&line) + 1 + columns(word) + columns(end) > width {
            lines.push(format!("{line}{end}"));
            (line, is_empty) = (next.to_owned(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Splits at spaces outside quotes, so that a quoted argument stays whole.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut quote) = (0, None);
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '\'' | '"') && matches!(before, ' ' | '=') => quote = Some(letter),
            None if letter == ' ' => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        before = letter;
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_filled_and_a_heading_keeps_its_line() {
        let text = "Some prose that was\nwritten on two lines.\n\nExamples:\n  pitwire up";
        assert_eq!(wrap(text, 100), "Some prose that was written on two lines.\n\nExamples:\n  pitwire up");
        assert_eq!(wrap(text, 24), "Some prose that was\nwritten on two lines.\n\nExamples:\n  pitwire up");
    }

    #[test]
    fn a_long_example_continues_after_a_backslash() {
        let text = "Examples:\n  pitwire operator kill account demo-a --reason 'runaway strategy'\n      cancels all orders of the account";
        assert_eq!(
            wrap(text, 44),
            "Examples:\n  pitwire operator kill account demo-a \\\n      --reason 'runaway strategy'\n      cancels all orders of the account"
        );
    }

    #[test]
    fn apostrophe_is_not_a_quote() {
        assert_eq!(words("the venue's day isn't over"), ["the", "venue's", "day", "isn't", "over"]);
        assert_eq!(words("--reason 'a b' x"), ["--reason", "'a b'", "x"]);
    }
}
