//! The fields of each venue, in order.

use serde_json::Value;

use super::*;

const MS: u64 = 1_795_219_360_583;

fn next(dialect: &mut VenueFeed) -> Value {
    let mut out = Vec::new();
    assert_eq!(dialect.take(MS, &mut out), Ok(Some(false)));
    serde_json::from_slice(&out).unwrap()
}

/// Returns the names of an object's fields in the order in which they are written.
fn names(dialect: &mut VenueFeed) -> String {
    let mut out = Vec::new();
    dialect.take(MS, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let fields = text.split('"').enumerate().filter(|(at, _)| at % 2 == 1).map(|(_, word)| word);
    let rest: Vec<&str> = text.split('"').collect();
    let named: Vec<&str> =
        fields.zip((2..).step_by(2)).filter(|(_, at)| rest[*at].starts_with(':')).map(|(word, _)| word).collect();
    named.join(" ")
}

#[test]
fn binance_trades_match_their_documentation() {
    let mut dialect = VenueFeed::new(FeedDialect::Binance, 628, 7);
    assert_eq!(dialect.markets.len(), 628);
    assert_eq!(dialect.greeting("/ws/btcusdt@trade", MS), Vec::<Vec<u8>>::new());
    assert_eq!(names(&mut dialect), "e E s t p q T m M");
    let (first, second) = (next(&mut dialect), next(&mut dialect));
    assert_eq!(first["s"], "BTCUSDT");
    assert_eq!(second["t"].as_u64().unwrap(), first["t"].as_u64().unwrap() + 1);
    assert_eq!(first["T"], MS);
    for field in ["p", "q"] {
        let (_, places) = first[field].as_str().unwrap().split_once('.').unwrap();
        assert_eq!(places.len(), 8, "{field}");
    }
}

#[test]
fn binance_streams_are_wrapped_and_depth_is_contiguous() {
    let mut dialect = VenueFeed::new(FeedDialect::Binance, 2, 7);
    dialect.greeting("/stream?streams=ethusdt@depth@100ms", MS);
    let mut last = None;
    for _ in 0..50 {
        let message = next(&mut dialect);
        assert_eq!(message["stream"], "ethusdt@depth");
        let (first, end) = (message["data"]["U"].as_u64().unwrap(), message["data"]["u"].as_u64().unwrap());
        assert!(last.is_none_or(|last| first == last + 1));
        last = Some(end);
    }
    assert_eq!(names(&mut dialect), "stream data e E s U u b a");
    dialect.greeting("/ws/unknown@nothing/ETHUSDT@aggTrade", MS);
    assert_eq!(names(&mut dialect), "e E s a p q f l T m M");
    assert_eq!(dialect.answer(r#"{"method":"SUBSCRIBE","params":[],"id":3}"#).unwrap(), br#"{"result":null,"id":3}"#);
}

#[test]
fn bithumb_starts_with_books_and_numbers_updates() {
    let mut dialect = VenueFeed::new(FeedDialect::Bithumb, 157, 7);
    let greeting = dialect.greeting("/message/realtime", MS);
    assert_eq!(greeting.len(), 157);
    let greeting = dialect.greeting("/message/realtime?subscribe=ORDERBOOK:BTC-USDT,TRADE:ETH-USDT", MS);
    assert_eq!(greeting.len(), 1);
    let book: Value = serde_json::from_slice(&greeting[0]).unwrap();
    assert_eq!(
        (&book["code"], &book["topic"], &book["data"]["symbol"]),
        (&"00006".into(), &"ORDERBOOK".into(), &"BTC-USDT".into())
    );
    let mut ver: u64 = book["data"]["ver"].as_str().unwrap().parse().unwrap();
    let (mut trades, mut updates) = (0, 0);
    for _ in 0..100 {
        let message = next(&mut dialect);
        assert_eq!((&message["code"], &message["timestamp"]), (&"00007".into(), &MS.into()));
        if message["topic"] == "TRADE" {
            assert_eq!(message["data"]["t"], "1795219360");
            trades += 1;
        } else {
            ver += 1;
            assert_eq!(message["data"]["ver"], ver.to_string());
            updates += 1;
        }
    }
    assert!(trades > 20 && updates > 20);
    assert_eq!(dialect.answer(r#"{"cmd":"ping"}"#).unwrap(), br#"{"code":"0","msg":"pong"}"#);
}

fn message(dialect: &mut VenueFeed) -> String {
    let mut out = Vec::new();
    dialect.take(MS, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn books_and_updates_grow_to_the_sizes_of_the_study() {
    for (venue, markets, target) in [
        (FeedDialect::Bithumb, 157, "/"),
        (FeedDialect::Gemini, 1, "/v1/marketdata/btcusd?bids=true"),
        (FeedDialect::Gemini, 1, "/v1/marketdata/btcusd"),
    ] {
        let mut dialect = VenueFeed::new(venue, markets, 7).with_sizes(PayloadSizes::Study, 7);
        dialect.greeting(target, MS);
        let messages: Vec<String> = (0..1_000).map(|_| message(&mut dialect)).collect();
        let mut wanted = PayloadSizes::Study.draws(7);
        let mut above_natural = 0;
        for text in &messages {
            serde_json::from_str::<Value>(text).unwrap();
            let want = wanted.draw();
            // A message has at least its fixed part and one event, and lacks at most one more.
            if want > 400 {
                above_natural += 1;
                assert!((want.saturating_sub(200)..=want + 20).contains(&text.len()), "{want} {}", text.len());
            }
        }
        assert!(above_natural > 30);
        assert!(messages.iter().map(String::len).min().unwrap() < 260);
        assert!(messages[999].len() > 804_800);
    }
}

#[test]
fn a_grown_book_has_each_price_once_and_no_price_of_zero() {
    let mut dialect = VenueFeed::new(FeedDialect::Bithumb, 157, 7).with_sizes(PayloadSizes::Study, 7);
    dialect.greeting("/", MS);
    let texts: Vec<String> = (0..1_000).map(|_| message(&mut dialect)).collect();
    for text in &texts {
        let data = serde_json::from_str::<Value>(text).unwrap()["data"].clone();
        for side in ["b", "s"] {
            let prices: Vec<&str> =
                data[side].as_array().unwrap().iter().map(|level| level[0].as_str().unwrap()).collect();
            let distinct: std::collections::BTreeSet<&str> = prices.iter().copied().collect();
            assert_eq!(distinct.len(), prices.len());
            assert!(!distinct.contains("0.00"));
        }
    }
    // The smallest message of the study had 124 bytes.
    assert!(texts.iter().any(|text| text.len() < 160));
}

#[test]
fn gemini_numbers_each_socket_from_zero() {
    let mut dialect = VenueFeed::new(FeedDialect::Gemini, 1, 7);
    for _ in 0..2 {
        let greeting = dialect.greeting("/v1/marketdata/btcusd?bids=true", MS);
        let initial: Value = serde_json::from_slice(&greeting[0]).unwrap();
        assert_eq!(initial["socket_sequence"], 0);
        assert_eq!(initial["events"].as_array().unwrap().len(), 20);
        assert!(initial["events"].as_array().unwrap().iter().all(|event| event["reason"] == "initial"));
        let mut before = 0;
        for sequence in 1..20 {
            let message = next(&mut dialect);
            assert_eq!(message["socket_sequence"], sequence);
            assert!(message["eventId"].as_u64().unwrap() > before);
            before = message["eventId"].as_u64().unwrap();
            assert_eq!(message["timestampms"], MS);
        }
    }
    assert_eq!(
        names(&mut dialect),
        "type eventId timestamp timestampms socket_sequence events type side price remaining delta reason"
    );
    dialect.greeting("/v1/marketdata/BTCUSD", MS);
    assert_eq!(
        names(&mut dialect),
        "type eventId timestamp timestampms socket_sequence events type tid price amount makerSide"
    );
    dialect.greeting("/v1/multimarketdata?symbols=BTCUSD,ETHUSD", MS);
    assert!(names(&mut dialect).ends_with("makerSide symbol"));
}
