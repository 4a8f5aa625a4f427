//! One offence of each kind is planted and must be found; its innocent neighbour must not.

use super::*;
use crate::tree::planted;

const REGISTRY: (&str, &str) =
    ("contracts/errors.toml", "[[error]]\nname = \"a\"\ncode = 1\nwire = 1\nmeaning = \"m\"\nremedy = \"r\"");

const CRATES: (&str, &str) = (
    "docs/dependencies.toml",
    r#"
[[crate]]
path = "crates/engine"
purpose = "Pure."
pure = true
depends_on = []
[[crate]]
path = "crates/journal"
purpose = "Pure, with an I/O trait."
pure = true
depends_on = []
allows = ["std::io"]
[[crate]]
path = "crates/net"
purpose = "Not pure."
depends_on = []
"#,
);

fn offences(path: &str, text: &str) -> Vec<String> {
    check(&planted(&[REGISTRY, CRATES, (path, text)])).unwrap()
}

#[track_caller]
fn assert_found(path: &str, code: &str, part: &str) {
    let found = offences(path, &format!("//! Header.\n{code}\n"));
    assert!(matches!(&found[..], [only] if only.contains(part)), "{code:?} in {path}: {found:?}");
}

#[track_caller]
fn assert_clean(path: &str, code: &str) {
    assert_eq!(offences(path, &format!("//! Header.\n{code}\n")), Vec::<String>::new(), "{code:?} in {path}");
}

#[test]
fn a_pure_crate_may_not_reach_the_outside_world() {
    let table = [
        ("crates/engine/src/lib.rs", "use std::fs;", "std::fs in crates/engine"),
        ("crates/engine/src/a/b.rs", "use std::{cmp, net::TcpStream};", "std::net in crates/engine"),
        ("crates/engine/src/lib.rs", "fn f() { std::thread::yield_now() }", ":2: std::thread in crates/engine"),
        ("crates/engine/src/lib.rs", "use std::env;", "std::env"),
        ("crates/engine/src/lib.rs", "use std::io::Read;", "only crates that define an I/O trait"),
        ("crates/engine/src/lib.rs", "use std::time::Instant;", "std::time::Instant"),
        ("crates/engine/src/lib.rs", "use std::time::{Duration, SystemTime};", "std::time::SystemTime"),
        ("crates/engine/src/lib.rs", "use std::collections::{BTreeMap, HashMap};", "std::collections::HashMap"),
        ("crates/engine/src/lib.rs", "let a = std::collections::HashSet::new();", "std::collections::HashSet"),
        ("crates/engine/src/lib.rs", "fn f() { println!(\"x\"); }", "println!"),
        ("crates/engine/src/lib.rs", "fn f() { eprintln!(\"x\"); }", ":2: eprintln!"),
        ("crates/engine/src/lib.rs", "use rand::Rng;", "rand"),
        ("crates/engine/src/lib.rs", "fn f() { tokio::spawn(g()); }", "tokio"),
        ("crates/journal/src/lib.rs", "use std::fs::File;", "std::fs in crates/journal"),
    ];
    for (path, code, part) in table {
        assert_found(path, code, part);
    }
}

#[test]
fn names_that_only_look_impure_pass() {
    assert_clean("crates/engine/src/lib.rs", "use std::time::Duration;\nuse hashbrown::HashMap;");
    assert_clean("crates/engine/src/lib.rs", "// std::fs is for crates/net\n/// see println! there");
    assert_clean("crates/engine/src/lib.rs", "let operand = 1; let rand_word = 2;");
    assert_clean("crates/engine/src/lib.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use std::env;\n}");
    assert_clean("crates/engine/src/book/tests.rs", "use std::collections::HashMap;");
    assert_clean("crates/engine/tests/table.rs", "use std::collections::HashMap;");
}

#[test]
fn an_allowed_name_and_an_impure_crate_pass() {
    assert_clean("crates/journal/src/lib.rs", "use std::io;");
    assert_clean("crates/net/src/lib.rs", "use std::{fs, net, time::Instant};\nfn f() { println!(); }");
}

#[test]
fn a_module_starts_with_a_header() {
    let found = offences("crates/order-flow/src/lib.rs", "pub fn f() {}\n");
    assert!(found[0].contains("crates/order-flow/src/lib.rs:1: no header"), "{found:?}");
    assert_eq!(offences("crates/order-flow/tests/a.rs", "fn f() {}\n"), Vec::<String>::new());
}

#[test]
fn a_long_file_is_found() {
    let long = "x = 1\n".repeat(LONGEST_FILE + 1);
    assert!(offences("tests/a.py", &long)[0].contains("801 lines"));
    assert_eq!(offences("tests/a.py", &long[6..]), Vec::<String>::new());
    assert_eq!(offences("contracts/long.md", &long), Vec::<String>::new());
}

#[test]
fn a_wide_comment_is_found() {
    let wide = format!("// {}", "ä ".repeat(50).trim_end());
    assert_eq!(wide.chars().count(), 102);
    assert_found("crates/engine/src/lib.rs", &wide, "a comment above 100 columns");
    assert_found("tests/a.py", &wide.replace("//", "#"), ":2:");
    assert_clean("crates/engine/src/lib.rs", &wide.replace("ä ä ", ""));
    assert_clean("crates/engine/src/lib.rs", &format!("// https://example.org/{}", "x".repeat(90)));
    assert_clean("crates/engine/src/lib.rs", &format!("let x = \"{}\";", "x ".repeat(60)));
}

#[test]
fn unfinished_work_is_found() {
    assert_found("crates/pitwire/src/main.rs", concat!("fn f() { to", "do!() }"), "unfinished work");
    assert_found("web/src/a.ts", concat!("// FIX", "ME later"), ":2:");
}

#[test]
fn paths_of_one_machine_are_found() {
    assert_found("docs/guide.md", concat!("see /wo", "rk/main"), "path of one machine");
    assert_found("tests/a.py", concat!("open('/ho", "me/me/x')"), ":2:");
    assert_clean("docs/guide.md", concat!("https://host/ho", "me/x and web/ho", "me/"));
}

#[test]
fn every_error_has_a_remedy() {
    let empty = "[[error]]\nname = \"a\"\nmeaning = \"m\"\nremedy = \" \"";
    let twice = "[[error]]\nname = \"a\"\nmeaning = \"m\"\nremedy = \"r\"\n".repeat(2);
    let judged = |text: &str| check(&planted(&[CRATES, ("contracts/errors.toml", text)])).unwrap();
    assert!(judged(empty)[0].contains("has an empty remedy"));
    assert!(judged(&twice)[0].contains("is there twice"));
    assert!(check(&planted(&[CRATES])).unwrap()[0].contains("is missing"));
}
