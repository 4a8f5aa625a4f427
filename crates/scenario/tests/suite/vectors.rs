//! Plays the published vectors and the worked examples of the rulebook on the engine and on the
//! reference engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::common::vectors;
use pitwire_engine::Engine;
use pitwire_reference_engine::ReferenceEngine;
use pitwire_scenario::{Machine, Scenario, play, read};

/// Returns the worked examples of the rule pages and of the format: their `json` blocks.
fn examples() -> Vec<Scenario> {
    let read_page = |name: &str| {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let text = std::fs::read_to_string(&page).expect("a page");
        let blocks: Vec<&str> =
            text.split("\n```json\n").skip(1).filter_map(|rest| rest.split("\n```").next()).collect();
        read(&page.display().to_string(), &blocks.join("\n")).unwrap_or_else(|malformed| panic!("{malformed}"))
    };
    ["rulebook.md", "order-rules.md", "scenarios.md"].into_iter().flat_map(read_page).collect()
}

/// Plays every scenario on a fresh engine. Returns one line per difference from the expectation.
fn failures<M: Machine>(scenarios: &[Scenario], fresh: impl Fn() -> M) -> Vec<String> {
    let judge = |scenario: &Scenario| {
        // A panic counts as one failure, so that the other scenarios still run.
        match catch_unwind(AssertUnwindSafe(|| play(&mut fresh(), scenario))) {
            Ok(Ok(outcome)) => scenario.differences(&outcome),
            Ok(Err(what)) => vec![what],
            Err(_) => vec!["the engine panics".to_owned()],
        }
    };
    scenarios
        .iter()
        .flat_map(|scenario| judge(scenario).into_iter().map(|what| format!("{}: {what}", scenario.name)))
        .collect()
}

/// The total includes our own 15 vectors for trade reporting, 16 for reduce-only orders
/// and 4 for the smallest display.
#[test]
fn vector_count_matches_the_published_set() {
    assert_eq!(vectors().len(), 363 + 15 + 16 + 4);
}

#[test]
fn engine_passes_every_vector() {
    let failures = failures(&vectors(), Engine::new);
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn reference_engine_passes_every_vector() {
    let failures = failures(&vectors(), ReferenceEngine::new);
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn worked_examples_hold_on_both_engines() {
    let examples = examples();
    assert_eq!(examples.len(), 43 + 12 + 1, "worked examples of the three pages");
    let mut failures_of_both = failures(&examples, Engine::new);
    failures_of_both.extend(failures(&examples, ReferenceEngine::new));
    assert!(failures_of_both.is_empty(), "{}", failures_of_both.join("\n"));
}
