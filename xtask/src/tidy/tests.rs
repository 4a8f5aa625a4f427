//! One offence of each kind is planted and must be found; its innocent neighbour must not.

use super::*;
use crate::tree::planted;

const REGISTRY: (&str, &str) =
    ("contracts/errors.toml", "[[error]]\nname = \"a\"\ncode = 1\nwire = 1\nmeaning = \"m\"\nremedy = \"r\"");

fn offences(path: &str, text: &str) -> Vec<String> {
    check(&planted(&[REGISTRY, (path, text)])).unwrap()
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
fn core_and_wire_know_no_world() {
    let table = [
        ("core/engine/src/lib.rs", "use std::fs;", "std::fs in core/engine"),
        ("core/engine/src/a/b.rs", "use std::{cmp, net::TcpStream};", "std::net in core/engine"),
        ("wire/log/src/lib.rs", "fn f() { std::thread::yield_now() }", ":2: std::thread in wire/log"),
        ("wire/log/src/lib.rs", "use std::env;", "std::env"),
        ("wire/log/src/lib.rs", "use std::io::Read;", "only core/ports may name std::io"),
        ("core/engine/src/lib.rs", "use std::time::Instant;", "std::time::Instant"),
        ("core/engine/src/lib.rs", "use std::time::{Duration, SystemTime};", "std::time::SystemTime"),
        ("core/engine/src/lib.rs", "use std::collections::{BTreeMap, HashMap};", "std::collections::HashMap"),
        ("core/engine/src/lib.rs", "let a = std::collections::HashSet::new();", "std::collections::HashSet"),
        ("core/engine/src/lib.rs", "fn f() { println!(\"x\"); }", "println!"),
        ("core/engine/src/lib.rs", "fn f() { eprintln!(\"x\"); }", ":2: eprintln!"),
        ("wire/log/src/lib.rs", "use rand::Rng;", "rand"),
        ("wire/log/src/lib.rs", "fn f() { tokio::spawn(g()); }", "tokio"),
        ("core/model/src/lib.rs", "use serde::Serialize;", "serde"),
    ];
    for (path, code, part) in table {
        assert_found(path, code, part);
    }
}

#[test]
fn what_only_looks_like_the_world_is_left_alone() {
    assert_clean("core/engine/src/lib.rs", "use std::time::Duration;\nuse hashbrown::HashMap;");
    assert_clean("core/engine/src/lib.rs", "// std::fs is for edge/host\n/// see println! there");
    assert_clean("core/engine/src/lib.rs", "let operand = 1; let rand_word = 2;");
    assert_clean("core/ports/src/storage.rs", "use std::io;");
    assert_clean("wire/jsonrpc/src/lib.rs", "use serde::Deserialize;");
    assert_clean("core/engine/src/lib.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use std::env;\n}");
    assert_clean("core/engine/src/book/tests.rs", "use std::collections::HashMap;");
    assert_clean("core/engine/tests/table.rs", "use std::collections::HashMap;");
}

#[test]
fn only_the_host_touches_clock_disk_and_sockets_at_the_edge() {
    assert_found(
        "edge/journal/src/lib.rs",
        "use std::fs::File;",
        "std::fs in edge/journal; of the venue, only edge/host",
    );
    assert_found("edge/order-entry/src/lib.rs", "use std::time::Instant;", "only edge/host reads a clock");
    assert_clean("edge/splitter/src/lib.rs", "use std::fs::File;\nuse std::time::Instant;\nuse rustix::net;");
    assert_found("edge/market-data/src/lib.rs", "use mio::Poll;", "mio in edge/market-data");
    assert_found("sim/flow/src/lib.rs", "fn f() { std::time::SystemTime::now() }", "std::time::SystemTime");
    assert_clean("edge/host/src/lib.rs", "use std::{fs, net, time::Instant};");
    assert_clean("apps/pitwire/src/main.rs", "use std::{fs, time::Instant};\nfn f() { println!(); }");
}

#[test]
fn a_module_starts_with_a_header() {
    let found = offences("sim/flow/src/lib.rs", "pub fn f() {}\n");
    assert!(found[0].contains("sim/flow/src/lib.rs:1: no header"), "{found:?}");
    assert_eq!(offences("sim/flow/tests/a.rs", "fn f() {}\n"), Vec::<String>::new());
}

#[test]
fn a_long_file_is_found() {
    let long = "x = 1\n".repeat(LONGEST_FILE + 1);
    assert!(offences("tests/a.py", &long)[0].contains("801 lines"));
    assert_eq!(offences("tests/a.py", &long[6..]), Vec::<String>::new());
    assert_eq!(offences("contracts/long.md", &long), Vec::<String>::new());
}

#[test]
fn unfinished_work_is_found() {
    assert_found("apps/pitwire/src/main.rs", concat!("fn f() { to", "do!() }"), "unfinished work");
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
    let judged = |text: &str| check(&planted(&[("contracts/errors.toml", text)])).unwrap();
    assert!(judged(empty)[0].contains("has an empty remedy"));
    assert!(judged(&twice)[0].contains("is there twice"));
    assert!(check(&planted(&[])).unwrap()[0].contains("is missing"));
}
