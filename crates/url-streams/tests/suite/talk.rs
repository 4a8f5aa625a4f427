//! Requests of clients in each dialect, and their answers.

use crate::fixture::{StreamFixture, json};
use pitwire_model::{Command, Side, VenueNanos};
use pitwire_url_streams::{
    Cadence, Kind, MessageForm, StreamSession, VenueMoment, is_rest_path, is_stream_path, unserved,
};

/// Returns the answers to one message, and the number of streams that it joins and leaves.
fn outcome(session: &mut StreamSession, fixture: &StreamFixture, text: &str) -> (String, usize, usize) {
    let outcome = session.handle_message(text, fixture.streams.directory());
    let answers: Vec<String> =
        outcome.answers.into_iter().map(|answer| String::from_utf8(answer).expect("text")).collect();
    (answers.join("\n"), outcome.join.len(), outcome.leave.len())
}

#[test]
fn binance_answer_has_the_id_as_written() {
    let fixture = StreamFixture::new();
    let mut session = {
        let mut fixture = StreamFixture::new();
        fixture.open("/ws").session
    };
    for (text, answer, joined, left) in [
        (
            r#"{"method":"SUBSCRIBE","params":["npnzar@trade","npnzar@depth@100ms"],"id":1}"#,
            r#"{"result":null,"id":1}"#,
            2,
            0,
        ),
        (r#"{"method":"SUBSCRIBE","params":["NPNZAR@trade"],"id":1}"#, r#"{"result":null,"id":1}"#, 0, 0),
        (
            r#"{"method":"LIST_SUBSCRIPTIONS","id":"abc"}"#,
            r#"{"result":["npnzar@trade","npnzar@depth@100ms"],"id":"abc"}"#,
            0,
            0,
        ),
        (r#"{"method":"GET_PROPERTY","params":["combined"],"id":null}"#, r#"{"result":false,"id":null}"#, 0, 0),
        (r#"{"method":"SET_PROPERTY","params":["combined",true]}"#, r#"{"result":null,"id":null}"#, 2, 2),
        (r#"{"method":"SET_PROPERTY","params":["combined",true],"id":7}"#, r#"{"result":null,"id":7}"#, 0, 0),
        (r#"{"method":"UNSUBSCRIBE","params":["npnzar@trade"],"id":2}"#, r#"{"result":null,"id":2}"#, 0, 1),
        (r#"{"method":"UNSUBSCRIBE","params":["npnzar@trade"],"id":3}"#, r#"{"result":null,"id":3}"#, 0, 0),
    ] {
        assert_eq!(outcome(&mut session, &fixture, text), (answer.to_owned(), joined, left), "{text}");
    }
    for (text, part) in [
        ("", "send {"),
        ("[]", "the methods are"),
        (r#"{"method":"SUBSCRIBE","params":["npnzar@trade","unknown@trade"],"id":4}"#, "Invalid symbol"),
        (r#"{"method":"SUBSCRIBE","params":["npnzar@depth7"],"id":4}"#, "depth5|10|20"),
        (r#"{"method":"SUBSCRIBE","params":"npnzar@trade","id":4}"#, "array of stream names"),
        (r#"{"method":"SUBSCRIBE","params":[1],"id":4}"#, "array of stream names"),
        (r#"{"method":"SUBSCRIBE","params":[],"id":{"a":1}}"#, "the id is a number"),
        (r#"{"method":"LOGON","id":5}"#, "the methods are SUBSCRIBE"),
    ] {
        let (answer, joined, left) = outcome(&mut session, &fixture, text);
        assert_eq!((json(&answer)["code"].as_i64(), joined, left), (Some(2), 0, 0), "{text}");
        assert!(answer.contains(part), "{text}: {answer}");
    }
    let many: Vec<String> = (0..1_025).map(|_| "\"npnzar@trade\"".to_owned()).collect();
    let text = format!(r#"{{"method":"SUBSCRIBE","params":[{}],"id":6}}"#, many.join(","));
    assert!(outcome(&mut session, &fixture, &text).0.contains("at most 1024"), "counted before they are looked at");
}

#[test]
fn bithumb_and_gemini_answer_in_their_form() {
    let mut fixture = StreamFixture::new();
    let opened = fixture.open("/message/realtime?subscribe=TRADE:NPN-ZAR,TRADE:UN-KNOWN&ts=ns");
    assert_eq!((opened.join.len(), opened.unknown, opened.join[0].form.with_ns), (1, 1, true));
    assert_eq!(opened.words, [br#"{"code":"00002","msg":"connected"}"#.to_vec()]);
    let mut session = opened.session;
    for (text, code, joined, left) in [
        (r#"{"cmd":"ping"}"#, "0", 0, 0),
        (r#"{"cmd":"subscribe","args":["ORDERBOOK:NPN-ZAR","TICKER:NPN-ZAR"]}"#, "00001", 2, 0),
        (r#"{"cmd":"unSubscribe","args":["TICKER:NPN-ZAR"]}"#, "00003", 0, 1),
        (r#"{"cmd":"subscribe","args":["DEPTH:NPN-ZAR"]}"#, "10005", 0, 0),
        (r#"{"cmd":"authKey","args":[]}"#, "10002", 0, 0),
        (r#"{"cmd":"dance"}"#, "10000", 0, 0),
        ("{", "10000", 0, 0),
    ] {
        let (answer, join, leave) = outcome(&mut session, &fixture, text);
        assert_eq!((json(&answer)["code"].as_str(), join, leave), (Some(code), joined, left), "{text}");
    }
    let mut session = fixture.open("/v2/marketdata").session;
    let subscribe = |what: &str, name: &str, symbol: &str| {
        format!(r#"{{"type":"{what}","subscriptions":[{{"name":"{name}","symbols":["{symbol}"]}}]}}"#)
    };
    for (text, reason, joined, left) in [
        (subscribe("subscribe", "l2", "NPNZAR"), "", 1, 0),
        (subscribe("subscribe", "candles_1m", "npnzar"), "", 1, 0),
        (subscribe("unsubscribe", "l2", "NPNZAR"), "", 0, 1),
        (subscribe("subscribe", "l3", "NPNZAR"), "InvalidSubscription", 0, 0),
        (subscribe("subscribe", "l2", "UNKNOWN"), "InvalidSymbol", 0, 0),
        (subscribe("dance", "l2", "NPNZAR"), "InvalidType", 0, 0),
        ("null".into(), "InvalidJson", 0, 0),
    ] {
        let (answer, join, leave) = outcome(&mut session, &fixture, &text);
        let messages =
            if answer.is_empty() { String::new() } else { json(&answer)["reason"].as_str().unwrap_or("").into() };
        assert_eq!((messages.as_str(), join, leave), (reason, joined, left), "{text}");
    }
}

#[test]
fn unknown_names_are_refused_only_without_a_known_one() {
    let mut fixture = StreamFixture::new();
    for target in [
        "/ws/unknown@trade",
        "/message/realtime?subscribe=TRADE:UN-KNOWN",
        "/v1/marketdata/unknown",
        "/ws/npnzar@dance",
    ] {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let refused = StreamSession::open(path, query, fixture.streams.directory()).expect("a stream's path");
        assert_eq!(refused.expect_err("refused").status, 400, "{target}");
    }
    let names: Vec<String> = (0..627).map(|n| format!("s{n}@trade")).chain(["npnzar@trade".to_owned()]).collect();
    let opened = fixture.open(&format!("/stream?streams={}", names.join("/")));
    assert_eq!((opened.join.len(), opened.unknown), (1, 627));
    assert!(opened.join[0].form.is_combined);
    assert!(fixture.open("/v1/marketdata/NPNZAR?study=1").by_stream);
    for (path, is_stream, is_rest) in [
        ("/ws/npnzar@trade", true, false),
        ("/ws/api/v2", false, false),
        ("/v1/marketdata/npnzar", true, false),
        ("/v2/marketdata", true, false),
        ("/message/realtime", true, false),
        ("/api/v2/public/test", false, false),
        ("/api/v3/depth", false, true),
        ("/v1/symbols", false, true),
        ("/openapi/v1/serverTime", false, true),
        ("/sapi/v2/anything", false, true),
        ("/fapi/v1/exchangeInfo", false, true),
        ("/v1/order/new", false, true),
        ("/v1x", false, false),
        ("/", false, false),
    ] {
        assert_eq!((is_stream_path(path), is_rest_path(path)), (is_stream, is_rest), "{path}");
    }
}

#[test]
fn invalid_request_is_refused_with_the_existing_names() {
    let mut fixture = StreamFixture::new();
    for (target, part) in [
        ("/ws/npnzar@trade?timeUnit=NANOSECOND", "no timeUnit NANOSECOND: there are MILLISECOND and MICROSECOND"),
        ("/stream?streams=npnzar@trade&timeunit=us", "no timeUnit us"),
        ("/ws/npnzar@kline_1s", "kline_<1m"),
        ("/ws/npnzar@kline_1M", "kline_<1m"),
    ] {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let refused = StreamSession::open(path, query, fixture.streams.directory()).expect("a stream's path");
        let refused = refused.expect_err(target);
        assert!(refused.status == 400 && refused.body.contains(part), "{target}: {}", refused.body);
    }
    for target in ["/ws/npnzar@trade?timeUnit=MILLISECOND", "/ws/npnzar@trade?timeUnit="] {
        assert!(!fixture.open(target).join[0].form.in_micros, "{target}");
    }
    let here = VenueMoment { engine: &fixture.engine, views: &fixture.views, at: VenueNanos(fixture.at) };
    for (query, expected) in [
        ("depth?symbol=NPNZAR&limit=x", Some("'limit'")),
        ("depth?symbol=NPNZAR&limit=-1", Some("'limit'")),
        ("depth?symbol=NPNZAR&limit=%2B5", Some("'limit'")),
        ("trades?symbol=NPNZAR&limit=1.5", Some("'limit'")),
        ("aggTrades?symbol=NPNZAR&fromId=99999999999999999999", Some("'fromId'")),
        ("klines?symbol=NPNZAR&interval=1m&startTime=now", Some("'startTime'")),
        ("klines?symbol=NPNZAR&interval=1m&endTime=0x5", Some("'endTime'")),
        ("depth?symbol=NPNZAR&limit=", None),
        ("depth?symbol=NPNZAR&limit=5", None),
    ] {
        let (path, query) = query.split_once('?').expect("a query");
        let answer = fixture.streams.rest(&format!("/api/v3/{path}"), query, here).expect("it is there");
        let body = String::from_utf8(answer.body).expect("text");
        match expected {
            None => assert_eq!(answer.status, 200, "{query}: {body}"),
            Some(name) => {
                assert_eq!((answer.status, &json(&body)["code"]), (400, &(-1100).into()), "{query}: {body}");
                assert!(body.contains(name), "{body}");
            }
        }
    }
}

#[test]
fn an_unserved_path_is_refused_in_the_form_of_its_exchange() {
    let fixture = StreamFixture::new();
    let here = VenueMoment { engine: &fixture.engine, views: &fixture.views, at: VenueNanos(fixture.at) };
    for (path, key, code, reason) in [
        ("/api/v3/nothing", "code", "-1020", "ticker/bookTicker"),
        ("/api/v3/order", "code", "-1020", "/api/v2"),
        ("/api/v3/account", "code", "-1020", "/api/v2"),
        ("/api/v3", "code", "-1020", "exchangeInfo"),
        ("/sapi/v1/asset/tradeFee", "code", "-1020", "no wallet"),
        ("/fapi/v1/exchangeInfo", "code", "-1020", "BTC-PERPETUAL"),
        ("/dapi/v1/ping", "code", "-1020", "BTC-PERPETUAL"),
        ("/openapi/v1/spot/placeOrder", "code", "\"10000\"", "spot/orderBook"),
        ("/v1/nothing", "reason", "\"EndpointNotFound\"", "/v1/pricefeed"),
        ("/v1/order/new", "reason", "\"EndpointNotFound\"", "/api/v2"),
        ("/v2/nothing", "reason", "\"EndpointNotFound\"", "/v2/candles"),
    ] {
        let answer = fixture.streams.rest(path, "", here).expect("an answer");
        let body = String::from_utf8(answer.body).expect("text");
        let message = json(&body);
        let text = message["msg"].as_str().or(message["message"].as_str()).expect("a reason");
        assert_eq!((answer.status, message[key].to_string().as_str()), (404, code), "{path}: {body}");
        assert!(text.starts_with(&format!("GET {path} is not served: ")) && text.contains(reason), "{body}");
    }
    assert_eq!(fixture.streams.rest("/elsewhere", "", here), None);
    let posted = unserved("POST", "/api/v3/order").expect("an answer");
    assert!(String::from_utf8(posted.body).expect("text").contains("POST /api/v3/order is not served"));
}

#[test]
fn average_price_is_weighted_over_five_minutes() {
    let mut fixture = StreamFixture::new();
    let trade = |fixture: &mut StreamFixture, at_ms: u64, price: i64, lots: u64| {
        fixture.at = at_ms * 1_000_000;
        fixture.enter(Side::Sell, price, lots);
        fixture.enter(Side::Buy, price, lots);
    };
    trade(&mut fixture, 10_000, 900, 50);
    trade(&mut fixture, 400_000, 100, 2);
    trade(&mut fixture, 500_000, 103, 1);
    // (2 × 1.00 + 1 × 1.03) / 3; the trade at 10 s is older than five minutes.
    let average = fixture.rest("/api/v3/avgPrice?symbol=NPNZAR");
    assert_eq!(average.to_string(), r#"{"closeTime":500000,"mins":5,"price":"1.01000000"}"#);
    // Without trades in five minutes it is the last price.
    fixture.at = 2_000_000 * 1_000_000;
    assert_eq!(fixture.rest("/api/v3/avgPrice?symbol=NPNZAR")["price"], "1.03000000");
}

#[test]
fn price_feed_has_each_spot_instrument_and_its_change_in_a_day() {
    let mut fixture = StreamFixture::new();
    for (at_ms, price) in [(10_000, 200), (20_000, 206)] {
        fixture.at = at_ms * 1_000_000;
        fixture.enter(Side::Sell, price, 1);
        fixture.enter(Side::Buy, price, 1);
    }
    let feed = fixture.rest("/v1/pricefeed");
    let symbols = fixture.rest("/v1/symbols");
    assert_eq!(feed.as_array().map(Vec::len), symbols.as_array().map(Vec::len));
    let pair = feed.as_array().unwrap().iter().find(|pair| pair["pair"] == "NPNZAR").expect("NPNZAR");
    // 2.06 is 3 % above 2.00.
    assert_eq!((&pair["price"], &pair["percentChange24h"]), (&"2.06".into(), &"3.0000".into()), "{pair}");
}

#[test]
fn messages_of_one_command_are_in_order_in_each_form() {
    let mut fixture = StreamFixture::new();
    fixture.enter(Side::Sell, 101, 3);
    fixture.enter(Side::Sell, 101, 1);
    fixture.enter(Side::Sell, 102, 4);
    let targets = [
        "/ws/npnzar@bookTicker",
        "/ws/npnzar@aggTrade",
        "/stream?streams=npnzar@trade&ts=ns",
        "/ws/npnzar@trade?timeUnit=MICROSECOND",
    ];
    let streams = targets.map(|target| fixture.join(target));
    let [touch, sums, wrapped, micros] = streams;
    fixture.at = 5_000_001_000;
    fixture.sent.order.clear();
    fixture.enter(Side::Buy, 102, 6);
    let first_of = |stream| fixture.sent.order.iter().position(|messages| *messages == stream);
    assert!(first_of(micros) < first_of(sums) && first_of(sums) < first_of(touch));
    let prices: Vec<String> =
        fixture.received(sums).iter().map(|text| json(text)["p"].as_str().expect("text").to_owned()).collect();
    assert_eq!(prices, ["1.01000000", "1.02000000"], "two makers at one price are one aggregate");
    let messages = fixture.received(wrapped);
    assert_eq!(
        messages[2],
        r#"{"stream":"npnzar@trade","data":{"e":"trade","E":5000,"s":"NPNZAR","t":3,"p":"1.02000000","q":"2.00000000","T":5000,"m":false,"M":true},"due_ns":5000001000,"mono_ns":5000001001,"ts_ns":5000001002}"#
    );
    assert_eq!(json(&fixture.received(micros)[0])["T"], 5_000_001);
    assert_eq!(json(&fixture.received(touch)[0])["a"], "1.02000000");
    let sums = fixture.rest("/api/v3/aggTrades?symbol=NPNZAR");
    assert_eq!(sums[0]["q"], "4.00000000");
    assert_eq!((&sums[0]["f"], &sums[0]["l"], &sums[1]["a"]), (&1.into(), &2.into(), &3.into()));
}

#[test]
fn candles_end_once_and_day_totals_match() {
    let mut fixture = StreamFixture::new();
    let (kline, day) = (fixture.join("/ws/npnzar@kline_1m"), fixture.join("/ws/!ticker@arr"));
    let trade = |fixture: &mut StreamFixture, at_ms: u64, price: i64, lots: u64| {
        fixture.at = at_ms * 1_000_000;
        fixture.enter(Side::Sell, price, lots);
        fixture.enter(Side::Buy, price, lots);
    };
    trade(&mut fixture, 60_500, 100, 2);
    fixture.window(61_000);
    trade(&mut fixture, 61_500, 103, 1);
    fixture.window(62_000);
    fixture.window(120_000);
    fixture.window(121_000);
    let messages: Vec<_> = fixture.received(kline).iter().map(|text| json(text)["k"].clone()).collect();
    let brief: Vec<_> =
        messages.iter().map(|k| (k["t"].as_u64(), k["c"].as_str(), k["n"].as_u64(), k["x"].as_bool())).collect();
    let minute = Some(60_000);
    assert_eq!(
        brief,
        [
            (minute, Some("1.00000000"), Some(1), Some(false)),
            (minute, Some("1.03000000"), Some(2), Some(false)),
            (minute, Some("1.03000000"), Some(2), Some(true)),
        ]
    );
    let days = fixture.received(day);
    assert_eq!(days.len(), 2, "only when something has changed");
    assert_eq!(json(&days[1])[0]["q"], "3.03000000");
    let rest = fixture.rest("/api/v3/ticker/24hr?symbol=NPNZAR");
    assert_eq!((&rest["volume"], &rest["count"], &rest["lastId"]), (&"3.00000000".into(), &2.into(), &2.into()));
    let lines = fixture.rest("/api/v3/klines?symbol=NPNZAR&interval=1m");
    assert_eq!(
        (lines.as_array().map(Vec::len), &lines[0][5], &lines[1][5]),
        (Some(2), &"3.00000000".into(), &"0.00000000".into())
    );
}

/// The clock triggers it: an idle market has no commands.
#[test]
fn idle_candles_end_with_the_clock() {
    let mut fixture = StreamFixture::new();
    assert!(!fixture.streams.has_candles());
    let (kline, other) = (fixture.join("/ws/npnzar@kline_1m"), fixture.join("/ws/npnzar@kline_3m"));
    assert!(fixture.streams.has_candles());
    fixture.at = 60_500_000_000;
    fixture.enter(Side::Sell, 100, 2);
    fixture.enter(Side::Buy, 100, 2);
    fixture.window(61_000);
    for at_ms in [120_000, 180_000, 240_000] {
        fixture.minute(at_ms);
    }
    let brief = |fixture: &mut StreamFixture, stream| -> Vec<_> {
        let messages: Vec<_> = fixture.received(stream).iter().map(|text| json(text)).collect();
        let of = |line: &serde_json::Value, key: &str| line["k"][key].as_u64();
        messages
            .iter()
            .map(|line| (line["E"].as_u64(), of(line, "t"), of(line, "n"), line["k"]["x"].as_bool()))
            .collect()
    };
    // Each candle ends once, when the next begins. A candle without trades is written only when it
    // ends.
    assert_eq!(
        brief(&mut fixture, kline),
        [
            (Some(61_000), Some(60_000), Some(1), Some(false)),
            (Some(120_000), Some(60_000), Some(1), Some(true)),
            (Some(180_000), Some(120_000), Some(0), Some(true)),
            (Some(240_000), Some(180_000), Some(0), Some(true)),
        ]
    );
    assert_eq!(
        brief(&mut fixture, other),
        [(Some(61_000), Some(0), Some(1), Some(false)), (Some(180_000), Some(0), Some(1), Some(true))]
    );
    fixture.window(240_000);
    assert!(brief(&mut fixture, kline).is_empty(), "the first trade of a minute finds it sent");
    for stream in [kline, other] {
        assert!(fixture.streams.has_candles());
        fixture.streams.unlisten(stream);
    }
    assert!(!fixture.streams.has_candles());
}

#[test]
fn streams_without_readers_are_not_written() {
    let mut fixture = StreamFixture::new();
    let one = fixture.join("/ws/npnzar@trade");
    assert_eq!(fixture.join("/ws/NPN_ZAR@trade"), one);
    let key = fixture.streams.key(one).expect("known");
    assert_eq!((key.kind, key.form), (Kind::Trade, MessageForm::default()));
    assert_ne!(fixture.join("/ws/npnzar@depth"), fixture.join("/ws/npnzar@depth@1000ms"));
    assert_eq!(Cadence::Second.is_tenth(), Cadence::SecondSpelt.is_tenth());
    fixture.streams.unlisten(one);
    assert_eq!(fixture.streams.readers(one), 1);
    fixture.streams.unlisten(one);
    fixture.enter(Side::Sell, 101, 3);
    fixture.enter(Side::Buy, 101, 3);
    assert_eq!(fixture.received(one), [""; 0]);
    fixture.apply(Command::CloseWindow);
}
