//! The command line of the reference client. `tests/test_sbe_clients.py` runs it against a venue.

use std::process::Command;

#[test]
fn wrong_words_are_a_usage_error() {
    let bench = ["bench", "127.0.0.1:1", "1", "3200", "9", "9", "9"];
    let cores = ["bench", "--cores", "0", "127.0.0.1:1", "1", "3200", "9", "9", "9", "a:b"];
    let wrong: [(&[&str], &str); 7] = [
        (&[], "no command"),
        (&["dance"], "command dance with 1 words"),
        (&["orders", "nowhere", "1", "2", "a:b", "a:b"], "invalid address nowhere"),
        (&["orders", "127.0.0.1:1", "-1", "2", "a:b", "a:b"], "invalid number -1"),
        (&["orders", "127.0.0.1:1", "1", "2.123456789", "a:b", "a:b"], "invalid number 2.123456789"),
        (&bench, "command bench with 7 words"),
        (&cores, "invalid cores 0"),
    ];
    for (words, expected) in wrong {
        let ended = Command::new(env!("CARGO_BIN_EXE_pitwire-sbe")).args(words).output().unwrap();
        let text = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.starts_with("error: ") && text.contains(expected) && text.contains("usage:"), "{text}");
    }
}

#[test]
fn a_core_that_the_machine_lacks_is_named_before_anything_is_measured() {
    let words = ["bench", "--cores", "0,5000", "127.0.0.1:1", "1", "3200", "9", "9", "9", "a:b"];
    let ended = Command::new(env!("CARGO_BIN_EXE_pitwire-sbe")).args(words).output().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot run on the core of --cores") && text.contains("nproc"), "{text}");
}
