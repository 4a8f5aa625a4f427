//! The Bithumb Global dialect: topics by URL or by message, first a snapshot (code 00006), then
//! updates (00007).
//!
//! Does        Serves ORDERBOOK, TRADE and TICKER of a symbol with a dash. Prices and quantities
//!             are the shortest strings.
//! Holds       `ver` of a book increases by 1 with each update, starting from the snapshot's. `ver`
//!             of a trade is its number, of a ticker that of the latest trade.
//! Leaves out  Private topics and authentication.
//! Start at    [`read_target`], [`book`].

use pitwire_model::{Lots, Side, VenueNanos};
use pitwire_projections::PublicTrade;
use serde::Deserialize;

use crate::binance::encode::change;
use crate::key::Kind;
use crate::market::{Day, Level, Market};
use crate::names::Directory;
use crate::stream_set::{MessageOutcome, StreamSession, instrument_key};
use crate::text::{ShortestDecimal, list, put, string};
use crate::url::parameter;

pub const PATH: &str = "/message/realtime";

const INITIAL: &str = "00006";
const UPDATE: &str = "00007";

/// Kind of a message: the snapshot on which later messages build, or an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Initial,
    Update,
}

impl Part {
    const fn code(self) -> &'static str {
        match self {
            Part::Initial => INITIAL,
            Part::Update => UPDATE,
        }
    }
}

pub fn is_path(path: &str) -> bool {
    path.trim_end_matches('/') == PATH
}

/// Returns the topics in a target's query, as written.
pub fn read_target(query: &str) -> Vec<String> {
    let list = parameter(query, "subscribe").unwrap_or_default();
    list.split(',').filter(|topic| !topic.is_empty()).map(str::to_owned).collect()
}

/// Splits a topic into kind and symbol.
pub fn read_topic(topic: &str) -> Option<(&str, Kind)> {
    let (name, symbol) = topic.split_once(':')?;
    let kind = match name {
        "ORDERBOOK" => Kind::BithumbBook,
        "TRADE" => Kind::BithumbTrade,
        "TICKER" => Kind::BithumbTicker,
        _ => return None,
    };
    Some((symbol, kind))
}

fn open(out: &mut Vec<u8>, part: Part) {
    put!(out, "{\"code\":\"", part.code(), "\",\"data\":");
}

fn close(out: &mut Vec<u8>, at: VenueNanos, topic: &str) {
    put!(out, ",\"timestamp\":", at.as_millis(), ",\"topic\":\"", topic, "\"}");
}

pub fn book(
    out: &mut Vec<u8>,
    part: Part,
    market: Market<'_>,
    at: VenueNanos,
    ver: u64,
    bids: &[Level],
    asks: &[Level],
) {
    open(out, part);
    book_data(out, market, ver, bids, asks);
    close(out, at, "ORDERBOOK");
}

pub(crate) fn book_data(out: &mut Vec<u8>, market: Market<'_>, ver: u64, bids: &[Level], asks: &[Level]) {
    put!(out, "{\"b\":");
    levels(out, market, bids);
    put!(out, ",\"s\":");
    levels(out, market, asks);
    put!(out, ",\"symbol\":\"", &market.names.dashed, "\",\"ver\":\"", ver, "\"}");
}

fn levels(out: &mut Vec<u8>, market: Market<'_>, levels: &[Level]) {
    put!(out, "[");
    list(out, levels, |out, (price, lots)| {
        put!(out, "[", ShortestDecimal(market.price(*price)), ",", ShortestDecimal(market.amount(*lots)), "]");
    });
    put!(out, "]");
}

pub fn trade(out: &mut Vec<u8>, market: Market<'_>, trade: &PublicTrade) {
    open(out, Part::Update);
    trade_data(out, market, trade);
    close(out, trade.at, "TRADE");
}

/// Writes the newest trades, oldest first.
pub fn trades<'a>(
    out: &mut Vec<u8>,
    market: Market<'_>,
    at: VenueNanos,
    trades: impl Iterator<Item = &'a PublicTrade>,
) {
    open(out, Part::Initial);
    put!(out, "[");
    list(out, trades, |out, trade| trade_data(out, market, trade));
    put!(out, "]");
    close(out, at, "TRADE");
}

pub(crate) fn trade_data(out: &mut Vec<u8>, market: Market<'_>, trade: &PublicTrade) {
    let side = if trade.taker_side == Side::Buy { "buy" } else { "sell" };
    put!(
        out,
        "{\"p\":",
        ShortestDecimal(market.price(trade.price)),
        ",\"s\":\"",
        side,
        "\",\"symbol\":\"",
        &market.names.dashed
    );
    put!(out, "\",\"t\":\"", trade.at.as_millis() / 1_000, "\",\"v\":", ShortestDecimal(market.amount(trade.lots)));
    put!(out, ",\"ver\":\"", trade.seq.0, "\"}");
}

pub(crate) fn ticker(out: &mut Vec<u8>, part: Part, market: Market<'_>, day: &Day, ver: u64) {
    open(out, part);
    ticker_data(out, market, day, "symbol");
    // Removes the closing brace that was written last.
    out.pop();
    put!(out, ",\"ver\":\"", ver, "\"}");
    close(out, day.now, "TICKER");
}

/// `symbol` is the key of the name: REST calls it `s`.
pub(crate) fn ticker_data(out: &mut Vec<u8>, market: Market<'_>, day: &Day, symbol: &str) {
    let candle = &day.bar.candle;
    put!(
        out,
        "{\"c\":",
        ShortestDecimal(market.price(candle.close)),
        ",\"h\":",
        ShortestDecimal(market.price(candle.high))
    );
    put!(out, ",\"l\":", ShortestDecimal(market.price(candle.low)), ",\"p\":", ShortestDecimal(change(market, candle)));
    put!(
        out,
        ",\"",
        symbol,
        "\":\"",
        &market.names.dashed,
        "\",\"v\":",
        ShortestDecimal(market.amount(Lots(candle.lots)))
    );
    put!(out, ",\"vol\":", ShortestDecimal(market.value(candle.tick_lots)), "}");
}

/// Writes a message about the connection: `{"code":"00001","msg":"…"}`.
pub fn word(out: &mut Vec<u8>, code: &str, msg: &str) {
    put!(out, "{\"code\":\"", code, "\",\"msg\":");
    string(out, msg);
    put!(out, "}");
}

pub(crate) fn connected() -> Vec<u8> {
    let mut out = Vec::new();
    word(&mut out, "00002", "connected");
    out
}

pub(crate) fn refusal(code: &str, topic: &str) -> String {
    let mut out = Vec::new();
    let why = format!("no such topic: {topic}; topics are ORDERBOOK, TRADE and TICKER, say ORDERBOOK:NPN-ZAR");
    word(&mut out, code, &why);
    String::from_utf8_lossy(&out).into_owned()
}

#[derive(Deserialize)]
struct BithumbCommand {
    #[serde(default)]
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
}

/// Handles a text message.
pub(crate) fn handle_message(session: &mut StreamSession, text: &str, directory: &Directory) -> MessageOutcome {
    let answer = |code: &str, msg: &str| {
        let mut out = Vec::new();
        word(&mut out, code, msg);
        MessageOutcome { answers: vec![out], ..MessageOutcome::default() }
    };
    let Ok(BithumbCommand { cmd, args }) = serde_json::from_str(text) else {
        return answer("10000", "send {\"cmd\":\"subscribe\",\"args\":[\"ORDERBOOK:NPN-ZAR\"]}");
    };
    let key = |topic: &String| {
        let key = read_topic(topic).and_then(|(symbol, kind)| instrument_key(symbol, kind, session.form, directory));
        key.filter(|key| key.instrument.is_some()).ok_or_else(|| topic.clone())
    };
    let keys: Result<Vec<_>, String> = args.iter().map(key).collect();
    match (cmd.as_str(), keys) {
        ("ping", _) => answer("0", "pong"),
        ("subscribe" | "unSubscribe", Err(topic)) => {
            MessageOutcome { answers: vec![refusal("10005", &topic).into_bytes()], ..MessageOutcome::default() }
        }
        ("subscribe", Ok(keys)) if session.is_full(keys.len()) => answer("99999", "too many topics on one connection"),
        ("subscribe", Ok(keys)) => MessageOutcome { join: session.add(keys), ..answer("00001", "subscribed") },
        ("unSubscribe", Ok(keys)) => MessageOutcome { leave: session.remove(&keys), ..answer("00003", "unsubscribed") },
        ("authKey", _) => answer("10002", "there is nothing private here: trade over /ws/api/v2"),
        _ => answer("10000", "cmd is subscribe, unSubscribe or ping"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::tests::{fixture, level, text, trade_of};

    const AT: VenueNanos = VenueNanos(1_622_446_974_153_000_000);

    #[test]
    fn messages_match_the_reference() {
        let fixture = fixture();
        let market = fixture.market();
        assert_eq!(
            text(|out| book(out, Part::Initial, market, AT, 509_670_288, &[level(3_461_344, 15)], &[])),
            r#"{"code":"00006","data":{"b":[["34613.44","15"]],"s":[],"symbol":"NPN-ZAR","ver":"509670288"},"timestamp":1622446974153,"topic":"ORDERBOOK"}"#
        );
        assert_eq!(
            text(|out| book(out, Part::Update, market, AT, 509_670_289, &[], &[level(3_461_350, 0)])),
            r#"{"code":"00007","data":{"b":[],"s":[["34613.5","0"]],"symbol":"NPN-ZAR","ver":"509670289"},"timestamp":1622446974153,"topic":"ORDERBOOK"}"#
        );
        let bought = trade_of(7, AT, 10_000, 3, Side::Buy);
        let data = r#"{"p":"100","s":"buy","symbol":"NPN-ZAR","t":"1622446974","v":"3","ver":"7"}"#;
        assert_eq!(
            text(|out| trade(out, market, &bought)),
            format!(r#"{{"code":"00007","data":{data},"timestamp":1622446974153,"topic":"TRADE"}}"#)
        );
        assert_eq!(
            text(|out| trades(out, market, AT, [bought].iter())),
            format!(r#"{{"code":"00006","data":[{data}],"timestamp":1622446974153,"topic":"TRADE"}}"#)
        );
        assert_eq!(text(|out| word(out, "0", "pong")), r#"{"code":"0","msg":"pong"}"#);
    }

    #[test]
    fn topics_are_parsed_from_the_url() {
        assert_eq!(
            read_target("subscribe=ORDERBOOK:BTC-USDT,TICKER%3ABTC-USDT,"),
            ["ORDERBOOK:BTC-USDT", "TICKER:BTC-USDT"]
        );
        assert_eq!(read_topic("TRADE:NPN-ZAR"), Some(("NPN-ZAR", Kind::BithumbTrade)));
        assert_eq!((read_topic("TRADES:NPN-ZAR"), read_topic("TRADE")), (None, None));
        assert!(is_path("/message/realtime") && is_path("/message/realtime/") && !is_path("/message"));
    }
}
