//! The Gemini dialects: v1 by URL (`/v1/marketdata/<symbol>`, `/v1/multimarketdata`), v2 by message
//! (`/v2/marketdata`).
//!
//! Does        v1: one update per command with a trade or a book change, filtered as the URL asks.
//!             v2: level changes, trades and candles.
//! Holds       1. `remaining` and the quantities of v2 are absolute, "0" removes a level. `delta`
//!                is the command's change.
//!             2. `eventId` is the instrument's public update number, `tid` and `event_id` the
//!                venue-wide trade id. They reveal nothing hidden.
//! Leaves out  Auction events. Which number a v1 message gets: see [`NumberPosition`] for its
//!             position.
//! Start at    [`read_target`], [`Update`].

use pitwire_model::{Decimal, InstrumentId, Lots, Side, Ticks, VenueNanos};
use pitwire_projections::{Candle, PublicTrade};
use serde::Deserialize;

use crate::bars::Bar;
use crate::key::{Entries, Kind, KlineInterval};
use crate::market::{Level, Market};
use crate::names::Directory;
use crate::stream_set::{MessageOutcome, StreamSession, instrument_key};
use crate::text::{ShortestDecimal, fixed_bare, list, put, string};
use crate::url::{decoded, parameter};

/// Precedes the number in each v1 message. No earlier field can contain it.
const NUMBER: &[u8] = b",\"socket_sequence\":";

pub const V2_PATH: &str = "/v2/marketdata";

/// Symbols, and the subscriptions for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedQuery {
    pub symbols: Vec<String>,
    pub entries: Entries,
}

pub fn is_v2_path(path: &str) -> bool {
    path.trim_end_matches('/') == V2_PATH
}

pub fn is_v1_path(path: &str) -> bool {
    path.starts_with("/v1/marketdata/") || path.trim_end_matches('/') == "/v1/multimarketdata"
}

/// Parses a target. Returns `None` if it belongs to another dialect.
pub fn read_target(path: &str, query: &str) -> Option<FeedQuery> {
    let one = path.strip_prefix("/v1/marketdata/").map(|symbol| symbol.trim_end_matches('/'));
    let symbols: Vec<String> = match one {
        Some(symbol) => vec![decoded(symbol)],
        None if path.trim_end_matches('/') == "/v1/multimarketdata" => {
            let list = parameter(query, "symbols").unwrap_or_default();
            list.split(',').filter(|symbol| !symbol.is_empty()).map(str::to_owned).collect()
        }
        None => return None,
    };
    let flag = |name: &str| parameter(query, name).map(|value| value.eq_ignore_ascii_case("true") || value == "1");
    let types = ["bids", "offers", "trades", "auctions"].map(flag);
    // Without any of the four filters everything is selected. With one, only the filters that are
    // true.
    let is_filtered = types.iter().any(Option::is_some);
    let [bids, offers, trades, auctions] = types.map(|wanted| wanted.unwrap_or(!is_filtered));
    let entries = Entries {
        bids,
        offers,
        trades,
        auctions,
        top_of_book: flag("top_of_book").unwrap_or(false),
        heartbeat: flag("heartbeat").unwrap_or(false),
        with_symbol: one.is_none(),
        by_stream: flag("study").unwrap_or(false),
    };
    Some(FeedQuery { symbols, entries })
}

/// Returns the venue-wide id of a trade (docs/decisions/0003), unique over all instruments.
pub fn trade_id(instrument: InstrumentId, seq: u64) -> u64 {
    (u64::from(instrument.0) + 1).saturating_mul(1_000_000_000_000).saturating_add(seq)
}

/// Why a level changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Place,
    Trade,
    Cancel,
    Initial,
    Top,
}

impl Reason {
    const fn name(self) -> &'static str {
        match self {
            Reason::Place => "place",
            Reason::Trade => "trade",
            Reason::Cancel => "cancel",
            Reason::Initial => "initial",
            Reason::Top => "top-of-book",
        }
    }
}

/// One level as a command left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub side: Side,
    pub price: Ticks,
    pub before: Lots,
    pub now: Lots,
    pub reason: Reason,
}

impl Change {
    /// Returns the change that sets a side's best level.
    pub fn top(side: Side, level: Level) -> Change {
        Change { side, price: level.0, before: Lots::ZERO, now: level.1, reason: Reason::Top }
    }

    pub fn initial(side: Side, level: Level) -> Change {
        Change { side, price: level.0, before: Lots::ZERO, now: level.1, reason: Reason::Initial }
    }
}

/// The position at which a message's number is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberPosition {
    /// Bytes before the number.
    pub before: usize,
}

impl NumberPosition {
    /// Appends the message with its number to `out`.
    pub fn fill(self, payload: &[u8], number: u64, out: &mut Vec<u8>) {
        let (before, after) = payload.split_at(self.before.min(payload.len()));
        out.extend_from_slice(before);
        put!(out, number);
        out.extend_from_slice(after);
    }
}

/// Replaces the number in a v1 message. A gateway has messages with the stream's numbers and needs
/// the socket's.
pub fn renumber(payload: &[u8], number: u64, out: &mut Vec<u8>) {
    let before = payload.windows(NUMBER.len()).position(|window| window == NUMBER).map(|at| at + NUMBER.len());
    // Every v1 message has a number.
    let Some(before) = before else { return out.extend_from_slice(payload) };
    let digits = payload.iter().skip(before).take_while(|byte| byte.is_ascii_digit()).count();
    out.extend_from_slice(&payload[..before]);
    put!(out, number);
    out.extend_from_slice(&payload[before + digits..]);
}

/// One v1 message, from which each kind of reader gets its part.
#[derive(Clone, Copy)]
pub struct Update<'a> {
    pub market: Market<'a>,
    pub event_id: u64,
    pub at: VenueNanos,
    pub trades: &'a [PublicTrade],
    pub changes: &'a [Change],
    /// The best levels that this command changed, with their present quantities.
    pub tops: &'a [Change],
}

impl Update<'_> {
    /// Writes the parts for these readers. Returns `None` if there are none; the initial message is
    /// written even if it is empty.
    pub fn write(&self, out: &mut Vec<u8>, entries: Entries, is_initial: bool) -> Option<NumberPosition> {
        let trades = self.trades.iter().filter(|_| entries.trades);
        let changes = if entries.top_of_book { self.tops } else { self.changes };
        let wanted = |change: &&Change| if change.side == Side::Buy { entries.bids } else { entries.offers };
        if !is_initial && trades.clone().next().is_none() && !changes.iter().any(|change| wanted(&change)) {
            return None;
        }
        put!(out, "{\"type\":\"update\",\"eventId\":", self.event_id, ",\"timestamp\":", self.at.as_millis() / 1_000);
        put!(out, ",\"timestampms\":", self.at.as_millis());
        out.extend_from_slice(NUMBER);
        let before = out.len();
        put!(out, ",\"events\":[");
        let symbol = entries.with_symbol.then_some(self.market.names.joined.as_str());
        let had_trades = trades.clone().next().is_some();
        list(out, trades, |out, trade| write_trade(out, self.market, trade, symbol));
        let mut changes = changes.iter().filter(wanted).peekable();
        if had_trades && changes.peek().is_some() {
            put!(out, ",");
        }
        list(out, changes, |out, change| write_change(out, self.market, change, symbol));
        put!(out, "]}");
        Some(NumberPosition { before })
    }
}

/// Writes the price of a trade, and its amount under this key.
fn price_fields(out: &mut Vec<u8>, market: Market<'_>, trade: &PublicTrade, amount_key: &str) {
    put!(out, ",\"price\":", ShortestDecimal(market.price(trade.price)));
    put!(out, ",\"", amount_key, "\":", ShortestDecimal(market.amount(trade.lots)));
}

fn write_trade(out: &mut Vec<u8>, market: Market<'_>, trade: &PublicTrade, symbol: Option<&str>) {
    put!(out, "{\"type\":\"trade\",\"tid\":", trade_id(market.spec.id, trade.seq.0));
    price_fields(out, market, trade, "amount");
    let maker = match trade.kind {
        pitwire_model::TradeKind::Call(_) => "auction",
        _ if trade.taker_side == Side::Sell => "bid",
        _ => "ask",
    };
    put!(out, ",\"makerSide\":\"", maker, "\"");
    end_event(out, symbol);
}

fn write_change(out: &mut Vec<u8>, market: Market<'_>, change: &Change, symbol: Option<&str>) {
    let side = if change.side == Side::Buy { "bid" } else { "ask" };
    put!(out, "{\"type\":\"change\",\"side\":\"", side, "\",\"price\":", ShortestDecimal(market.price(change.price)));
    put!(out, ",\"remaining\":", ShortestDecimal(market.amount(change.now)));
    if change.reason != Reason::Top {
        let delta = i128::from(change.now.0) - i128::from(change.before.0);
        put!(out, ",\"delta\":", ShortestDecimal(market.spec.lot.times(delta)));
    }
    put!(out, ",\"reason\":\"", change.reason.name(), "\"");
    end_event(out, symbol);
}

fn end_event(out: &mut Vec<u8>, symbol: Option<&str>) {
    if let Some(symbol) = symbol {
        put!(out, ",\"symbol\":\"", symbol, "\"");
    }
    put!(out, "}");
}

/// Writes the heartbeat that subscribers of heartbeats get every five seconds. `beat` counts them.
pub fn heartbeat(out: &mut Vec<u8>, at: VenueNanos, beat: u64) -> NumberPosition {
    put!(out, "{\"type\":\"heartbeat\",\"timestampms\":", at.as_millis(), ",\"sequence\":", beat);
    put!(out, ",\"trace_id\":\"pitwire-", beat, "\"");
    out.extend_from_slice(NUMBER);
    let before = out.len();
    put!(out, "}");
    NumberPosition { before }
}

/// v2: writes the levels of a whole book, or the changed ones.
pub fn l2_updates(out: &mut Vec<u8>, market: Market<'_>, changes: impl Iterator<Item = (Side, Level)>) {
    put!(out, "{\"type\":\"l2_updates\",\"symbol\":\"", &market.names.joined, "\",\"changes\":[");
    list(out, changes, |out, (side, (price, lots))| {
        let side = if side == Side::Buy { "buy" } else { "sell" };
        put!(
            out,
            "[\"",
            side,
            "\",",
            ShortestDecimal(market.price(price)),
            ",",
            ShortestDecimal(market.amount(lots)),
            "]"
        );
    });
    put!(out, "]}");
}

/// v2: writes the first message: the whole book, and the newest trades, newest first.
pub fn l2_first<'a>(
    out: &mut Vec<u8>,
    market: Market<'_>,
    levels: impl Iterator<Item = (Side, Level)>,
    trades: impl Iterator<Item = &'a PublicTrade>,
) {
    l2_updates(out, market, levels);
    // Removes the closing brace that was written last.
    out.pop();
    put!(out, ",\"trades\":[");
    list(out, trades, |out, trade| trade2(out, market, trade));
    put!(out, "],\"auction_events\":[]}");
}

pub fn trade2(out: &mut Vec<u8>, market: Market<'_>, trade: &PublicTrade) {
    let side = if trade.taker_side == Side::Buy { "buy" } else { "sell" };
    put!(out, "{\"type\":\"trade\",\"symbol\":\"", &market.names.joined, "\",\"event_id\":");
    put!(out, trade_id(market.spec.id, trade.seq.0), ",\"timestamp\":", trade.at.as_millis());
    price_fields(out, market, trade, "quantity");
    put!(out, ",\"side\":\"", side, "\"}");
}

/// v2: writes candles, newest first, as numbers without quotes.
pub(crate) fn candles<'a>(
    out: &mut Vec<u8>,
    market: Market<'_>,
    interval: KlineInterval,
    bars: impl Iterator<Item = &'a Bar>,
) {
    put!(out, "{\"type\":\"candles_", candle_name(interval), "_updates\",\"symbol\":\"", &market.names.joined);
    put!(out, "\",\"changes\":[");
    list(out, bars, |out, bar| candle(out, market, &bar.candle));
    put!(out, "]}");
}

/// Writes `[time, open, high, low, close, volume]`.
pub(crate) fn candle(out: &mut Vec<u8>, market: Market<'_>, candle: &Candle) {
    put!(out, "[", candle.start_ms);
    let prices = [candle.open, candle.high, candle.low, candle.close].map(|price| market.price(price));
    for value in prices.into_iter().chain([market.amount(Lots(candle.lots))]) {
        put!(out, ",");
        bare(out, value);
    }
    put!(out, "]");
}

fn bare(out: &mut Vec<u8>, value: Decimal) {
    fixed_bare(out, value, 0);
}

/// Parses an interval by this dialect's name.
pub fn candle_interval(name: &str) -> Option<KlineInterval> {
    let name = match name {
        "1m" | "5m" | "15m" | "30m" => name,
        "1h" | "1hr" => "1h",
        "6h" | "6hr" => "6h",
        "1d" | "1day" => "1d",
        _ => return None,
    };
    KlineInterval::named(name)
}

/// Returns the interval's name in messages.
fn candle_name(interval: KlineInterval) -> &'static str {
    interval.name()
}

/// Returns `{"result":"error","reason":"InvalidSymbol","message":"…"}`.
pub(crate) fn refusal(reason: &str, message: &str) -> String {
    let mut out = Vec::new();
    put!(&mut out, "{\"result\":\"error\",\"reason\":\"", reason, "\",\"message\":");
    string(&mut out, message);
    put!(&mut out, "}");
    String::from_utf8_lossy(&out).into_owned()
}

#[derive(Deserialize)]
struct GeminiRequest {
    #[serde(rename = "type", default)]
    what: String,
    #[serde(default)]
    subscriptions: Vec<GeminiSubscription>,
}

#[derive(Deserialize)]
struct GeminiSubscription {
    name: String,
    symbols: Vec<String>,
}

/// Handles a text message of v2. A valid request has no answer except the subscribed messages.
pub(crate) fn handle_message(session: &mut StreamSession, text: &str, directory: &Directory) -> MessageOutcome {
    let answer = |reason: &str, message: &str| MessageOutcome {
        answers: vec![refusal(reason, message).into_bytes()],
        ..MessageOutcome::default()
    };
    let Ok(GeminiRequest { what, subscriptions }) = serde_json::from_str(text) else {
        let example = "send {\"type\":\"subscribe\",\"subscriptions\":[{\"name\":\"l2\",\"symbols\":[\"NPNZAR\"]}]}";
        return answer("InvalidJson", example);
    };
    let mut keys = Vec::new();
    for GeminiSubscription { name, symbols } in &subscriptions {
        let candles = name.strip_prefix("candles_").and_then(candle_interval);
        let Some(kind) = candles.map(Kind::Candles2).or((name == "l2").then_some(Kind::Level2)) else {
            return answer(
                "InvalidSubscription",
                &format!("no subscription {name:?}: there are l2 and candles_1m, 5m, 15m, 30m, 1h, 6h, 1d"),
            );
        };
        for symbol in symbols {
            match instrument_key(symbol, kind, session.form, directory).filter(|key| key.instrument.is_some()) {
                Some(key) => keys.push(key),
                None => return answer("InvalidSymbol", &format!("no instrument {symbol:?}; /v1/symbols lists them")),
            }
        }
    }
    match what.as_str() {
        "subscribe" if session.is_full(keys.len()) => answer("TooMany", "too many subscriptions on one connection"),
        "subscribe" => MessageOutcome { join: session.add(keys), ..MessageOutcome::default() },
        "unsubscribe" => MessageOutcome { leave: session.remove(&keys), ..MessageOutcome::default() },
        _ => answer("InvalidType", "type is subscribe or unsubscribe"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::tests::{fixture, level, text, trade_of};

    const AT: VenueNanos = VenueNanos(1_547_759_964_051_000_000);

    fn entries(query: &str) -> Entries {
        read_target("/v1/marketdata/npnzar", query).unwrap().entries
    }

    fn numbered(update: &Update<'_>, entries: Entries, number: u64) -> Option<String> {
        let (mut payload, mut out) = (Vec::new(), Vec::new());
        update.write(&mut payload, entries, false)?.fill(&payload, number, &mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn url_without_a_filter_subscribes_to_everything() {
        let of = |query: &str| {
            let Entries { bids, offers, trades, auctions, .. } = entries(query);
            [bids, offers, trades, auctions]
        };
        for (query, expected) in [
            ("", [true; 4]),
            ("heartbeat=true", [true; 4]),
            ("trades=true", [false, false, true, false]),
            ("bids=false", [false; 4]),
            ("bids=true&offers=TRUE&trades=false", [true, true, false, false]),
        ] {
            assert_eq!(of(query), expected, "{query}");
        }
        let feed = read_target("/v1/multimarketdata", "symbols=NPNZAR,SOLZAR&top_of_book=true&study=1").unwrap();
        assert_eq!(feed.symbols, ["NPNZAR", "SOLZAR"]);
        assert!(feed.entries.with_symbol && feed.entries.top_of_book && feed.entries.by_stream);
        assert_eq!(read_target("/v1/trades/npnzar", ""), None);
    }

    #[test]
    fn update_contains_only_the_requested_events() {
        let fixture = fixture();
        let trades = [trade_of(5, AT, 363_266, 6, Side::Sell)];
        let hit =
            Change { side: Side::Buy, price: Ticks(363_266), before: Lots(10), now: Lots(4), reason: Reason::Trade };
        let put =
            Change { side: Side::Sell, price: Ticks(363_300), before: Lots(0), now: Lots(7), reason: Reason::Place };
        let update = Update {
            market: fixture.market(),
            event_id: 77,
            at: AT,
            trades: &trades,
            changes: &[hit, put],
            tops: &[Change::top(Side::Buy, level(363_266, 4))],
        };
        let head = |n: u64| {
            format!(
                r#"{{"type":"update","eventId":77,"timestamp":1547759964,"timestampms":1547759964051,"socket_sequence":{n},"events":["#
            )
        };
        let trade = r#"{"type":"trade","tid":1000000000005,"price":"3632.66","amount":"6","makerSide":"bid"}"#;
        let bid = r#"{"type":"change","side":"bid","price":"3632.66","remaining":"4","delta":"-6","reason":"trade"}"#;
        let ask = r#"{"type":"change","side":"ask","price":"3633","remaining":"7","delta":"7","reason":"place"}"#;
        for (query, number, events) in [
            ("", 1, format!("{trade},{bid},{ask}")),
            ("trades=true", 23, trade.to_owned()),
            ("offers=true", 9_999, ask.to_owned()),
            (
                "bids=true&top_of_book=true",
                0,
                r#"{"type":"change","side":"bid","price":"3632.66","remaining":"4","reason":"top-of-book"}"#.to_owned(),
            ),
        ] {
            assert_eq!(
                numbered(&update, entries(query), number),
                Some(format!("{}{events}]}}", head(number))),
                "{query}"
            );
        }
        assert_eq!(numbered(&update, entries("auctions=true"), 1), None);
        assert_eq!(numbered(&update, entries("offers=true&top_of_book=true"), 1), None);
        let with_symbol = Entries { with_symbol: true, ..entries("trades=true") };
        assert!(numbered(&update, with_symbol, 1).unwrap().contains(r#""makerSide":"bid","symbol":"NPNZAR"}"#));
    }

    #[test]
    fn heartbeats_are_numbered() {
        let mut payload = Vec::new();
        let numbered = heartbeat(&mut payload, AT, 30);
        assert_eq!(
            text(|out| numbered.fill(&payload, 42, out)),
            r#"{"type":"heartbeat","timestampms":1547759964051,"sequence":30,"trace_id":"pitwire-30","socket_sequence":42}"#
        );
    }

    #[test]
    fn v2_writes_levels_trades_and_candles() {
        let fixture = fixture();
        let market = fixture.market();
        let changes = [(Side::Buy, level(900_012, 0)), (Side::Sell, level(900_100, 3))];
        assert_eq!(
            text(|out| l2_updates(out, market, changes.into_iter())),
            r#"{"type":"l2_updates","symbol":"NPNZAR","changes":[["buy","9000.12","0"],["sell","9001","3"]]}"#
        );
        let trade = trade_of(5, AT, 900_012, 2, Side::Buy);
        let expected = r#"{"type":"trade","symbol":"NPNZAR","event_id":1000000000005,"timestamp":1547759964051,"price":"9000.12","quantity":"2","side":"buy"}"#;
        assert_eq!(text(|out| trade2(out, market, &trade)), expected);
        assert_eq!(
            text(|out| l2_first(out, market, changes[1..].iter().copied(), [trade].iter())),
            format!(
                r#"{{"type":"l2_updates","symbol":"NPNZAR","changes":[["sell","9001","3"]],"trades":[{expected}],"auction_events":[]}}"#
            )
        );
    }
}
