//! Subjects of commits: `area: effect`, in the imperative, short.
//!
//! Does        judge the subject of each commit since a given one.
//! Leaves out  merges; what the body says; an effect that is a noun but looks like a verb.
//! Start at    [`check`], then [`fault`].

use std::path::Path;
use std::process::Command;

const LONGEST_SUBJECT: usize = 60;

/// Imperatives that end like another form of a verb.
const IMPERATIVES: [&str; 21] = [
    "address", "bring", "bypass", "compress", "discuss", "embed", "exceed", "express", "feed", "focus", "need", "pass",
    "ping", "press", "proceed", "process", "ring", "seed", "shed", "speed", "suppress",
];

/// Judges the subjects after `base`, oldest first. A checkout without git, such as an unpacked
/// archive, and one without `base`, such as a shallow clone, have no commits to judge.
///
/// # Errors
/// If git cannot run.
pub fn check(top: &Path, base: &str) -> Result<Vec<String>, String> {
    if !top.join(".git").exists() {
        return Ok(Vec::new());
    }
    let known = Command::new("git")
        .args(["merge-base", "--is-ancestor", base, "HEAD"])
        .current_dir(top)
        .output()
        .map_err(|error| format!("cannot run git: {error}; install git"))?;
    if !known.status.success() {
        println!("tidy: commit {base} is not in this history; the subjects of commits were not checked");
        return Ok(Vec::new());
    }
    let log = Command::new("git")
        .args(["log", "--reverse", "--no-merges", "--format=%h%x09%s", &format!("{base}..HEAD")])
        .current_dir(top)
        .output()
        .map_err(|error| format!("cannot run git: {error}; install git"))?;
    if !log.status.success() {
        let message = String::from_utf8_lossy(&log.stderr);
        return Err(format!("git log {base}..HEAD failed: {}; fetch the whole history", message.trim()));
    }
    let judge = |line: &str| {
        let (commit, subject) = line.split_once('\t')?;
        fault(subject).map(|fault| format!("{commit}: {subject:?}: {fault}"))
    };
    Ok(String::from_utf8_lossy(&log.stdout).lines().filter_map(judge).collect())
}

/// Returns the first rule that a subject breaks, with the cure.
fn fault(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > LONGEST_SUBJECT {
        return Some(format!("{length} characters, more than {LONGEST_SUBJECT}; say less, the body has room"));
    }
    let is_area = |area: &&str| !area.is_empty() && !area.contains(char::is_whitespace) || area.split(", ").count() > 1;
    let Some((_, effect)) = subject.split_once(": ").filter(|(area, _)| is_area(area)) else {
        return Some("expected \"area: effect\", such as \"engine: keep the place of a reduced order\"".to_owned());
    };
    let first = effect.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    if !first.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        return Some(format!("the effect begins with {first:?}; begin with a lower-case verb"));
    }
    let is_other_form = ["ed", "ing", "s"].iter().any(|end| first.ends_with(end));
    (is_other_form && !IMPERATIVES.contains(&first))
        .then(|| format!("{first:?} is not an imperative; write \"keep\", not \"keeps\", \"kept\" or \"keeping\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imperative_subjects_pass() {
        let subjects = [
            "engine: keep the place of a reduced order",
            "publisher, gateway: share the subscriber table",
            "web: pass the venue time to the chart",
            "net: feed the parser from one buffer",
            "tests: use one random generator and one hex codec",
            "model: re-export the units",
        ];
        for subject in subjects {
            assert_eq!(fault(subject), None, "{subject}");
        }
    }

    #[test]
    fn planted_subjects_are_refused() {
        let table = [
            ("keep the place of a reduced order", "expected \"area: effect\""),
            ("a word: keep it", "expected \"area: effect\""),
            ("engine: keeps the place of a reduced order", "\"keeps\" is not an imperative"),
            ("engine: fixed the order of stops", "\"fixed\" is not an imperative"),
            ("docs: figures after the first part", "\"figures\" is not an imperative"),
            ("engine: moving the stops", "\"moving\" is not an imperative"),
            ("engine: Keep the place", "begin with a lower-case verb"),
            ("engine: ", "begin with a lower-case verb"),
            ("engine: keep the place of a reduced order and of all that stand behind", "70 characters"),
        ];
        for (subject, part) in table {
            let found = fault(subject).unwrap_or_default();
            assert!(found.contains(part), "{subject:?}: {found:?}");
        }
    }

    #[test]
    fn an_unknown_base_judges_nothing() {
        assert_eq!(check(&crate::tree::top(), "no-such-commit"), Ok(Vec::new()));
    }
}
