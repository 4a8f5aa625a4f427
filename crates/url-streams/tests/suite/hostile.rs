//! Arbitrary input from clients, in the URL or afterwards, always gets an answer and never exceeds
//! a limit.

use crate::fixture::StreamFixture;
use pitwire_model::VenueNanos;
use pitwire_random::SplitMix64;
use pitwire_url_streams::{StreamSession, VenueMoment};

const TARGETS: [&str; 9] = [
    "/ws/npnzar@trade/npnzar@depth20@100ms?timeUnit=MICROSECOND",
    "/stream?streams=npnzar@kline_1m/!ticker@arr&ts=ns",
    "/message/realtime?subscribe=ORDERBOOK:NPN-ZAR,TICKER:NPN-ZAR",
    "/v1/marketdata/npnzar?heartbeat=true&bids=false&study=1",
    "/v1/multimarketdata?symbols=NPNZAR,%4EPNZAR",
    "/v2/marketdata",
    "/api/v3/aggTrades?symbol=NPNZAR&fromId=1&limit=99999999999999999999",
    "/api/v3/klines?symbol=NPNZAR&interval=1w&startTime=18446744073709551615&endTime=0",
    "/v2/candles/npnzar/1day?since=18446744073709551615",
];
const MESSAGES: [&str; 6] = [
    r#"{"method":"SUBSCRIBE","params":["npnzar@trade","npnzar@depth@100ms"],"id":1}"#,
    r#"{"method":"SET_PROPERTY","params":["combined",true],"id":"x"}"#,
    r#"{"method":"UNSUBSCRIBE","params":["npnzar@trade"],"id":null}"#,
    r#"{"cmd":"subscribe","args":["ORDERBOOK:NPN-ZAR"]}"#,
    r#"{"type":"subscribe","subscriptions":[{"name":"candles_1m","symbols":["NPNZAR"]}]}"#,
    r#"{"type":"unsubscribe","subscriptions":[{"name":"l2","symbols":["NPNZAR"]}]}"#,
];

/// Cuts, repeats or splices texts, or changes a byte.
fn mutated(texts: &[&str], chance: &mut SplitMix64) -> String {
    let pick = |chance: &mut SplitMix64, bound: usize| usize::try_from(chance.below(bound as u64)).unwrap_or(0);
    let mut bytes = texts[pick(chance, texts.len())].as_bytes().to_vec();
    for _ in 0..chance.below(4) {
        let at = pick(chance, bytes.len() + 1);
        match chance.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(texts[pick(chance, texts.len())].as_bytes()),
            2 => bytes.insert(at, u8::try_from(chance.below(256)).unwrap_or(0)),
            3 => bytes.splice(at..at, *b"%40").for_each(drop),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << chance.below(8);
                }
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn mutated_requests_never_panic_or_exceed_limits() {
    let runs = std::env::var("STREAM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(100_000_u64);
    let (mut fixture, mut chance) = (StreamFixture::new(), SplitMix64::new(99));
    fixture.at = 1_795_219_360_000_000_000;
    fixture.enter(pitwire_model::Side::Buy, 100, 5);
    fixture.enter(pitwire_model::Side::Sell, 100, 3);
    fixture.window(1_795_219_361_000);
    let mut sessions: Vec<StreamSession> =
        ["/ws", "/message/realtime", "/v2/marketdata"].iter().map(|target| fixture.open(target).session).collect();
    let (mut opened, mut answered) = (0, 0);
    for run in 0..runs {
        let target = mutated(&TARGETS, &mut chance);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        if let Some(Ok(open)) = StreamSession::open(path, query, fixture.streams.directory()) {
            opened += 1;
            assert!(open.join.len() <= 1_024, "{target}");
        }
        let here = VenueMoment { engine: &fixture.engine, views: &fixture.views, at: VenueNanos(fixture.at) };
        if let Some(answer) = fixture.streams.rest(path, query, here) {
            assert!(answer.body.len() < 1 << 20, "{target}");
            let body: Result<serde_json::Value, _> = serde_json::from_slice(&answer.body);
            assert!(body.is_ok(), "{target}: {}", String::from_utf8_lossy(&answer.body));
        }
        let message = mutated(&MESSAGES, &mut chance);
        let session = usize::try_from(run % 3).unwrap_or(0);
        let outcome = sessions[session].handle_message(&message, fixture.streams.directory());
        for answer in &outcome.answers {
            answered += 1;
            let answer: Result<serde_json::Value, _> = serde_json::from_slice(answer);
            assert!(answer.is_ok(), "{message}");
        }
        assert!(sessions[session].streams().len() <= 1_024);
    }
    assert!(opened > runs / 20 && answered > runs / 20, "{opened} opened, {answered} answered");
}
