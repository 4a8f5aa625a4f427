//! The messages of `contracts/vectors/streams`, written by hand from the reference, are matched
//! byte for byte.

use std::collections::BTreeMap;

use crate::fixture::StreamFixture;
use pitwire_model::{OrderId, Side};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    target: String,
    steps: Vec<Step>,
    messages: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Step {
    Order { at_ms: u64, side: String, price_ticks: i64, lots: u64 },
    Cancel { at_ms: u64, cancel: u64 },
    Window { window_ms: u64 },
    Join { join: bool },
}

#[test]
fn messages_match_the_vectors_byte_for_byte() {
    let text = include_str!("../../../../contracts/vectors/streams/messages.json");
    let vectors: Vectors = serde_json::from_str(text).expect("vectors");
    assert!(vectors.cases.len() >= 11);
    for case in vectors.cases {
        let (mut fixture, mut orders, mut messages) =
            (StreamFixture::new(), BTreeMap::<u64, OrderId>::new(), Vec::new());
        let mut stream = None;
        for step in case.steps {
            match step {
                Step::Order { at_ms, side, price_ticks, lots } => {
                    fixture.at = at_ms * 1_000_000;
                    let side = if side == "buy" { Side::Buy } else { Side::Sell };
                    let order = fixture.enter(side, price_ticks, lots);
                    orders.insert(orders.len() as u64 + 1, order);
                }
                Step::Cancel { at_ms, cancel } => {
                    fixture.at = at_ms * 1_000_000;
                    fixture.cancel(orders[&cancel]);
                }
                Step::Window { window_ms } => fixture.window(window_ms),
                Step::Join { join } => {
                    assert!(join);
                    let joined = fixture.join(&case.target);
                    messages.extend(fixture.first(joined));
                    stream = Some(joined);
                }
            }
        }
        messages.extend(fixture.received(stream.expect("a subscriber joins")));
        assert_eq!(messages, case.messages, "{}", case.name);
    }
}
