//! Encodes the payloads of Binance streams, field by field in the order of the exchange's
//! documentation.
//!
//! Holds       Prices and quantities are strings with eight decimals, more if an instrument needs
//!             them. Times are whole milliseconds, or microseconds if the connection asked for
//!             them.
//! Start at    [`trade`], [`depth`].

use pitwire_model::{Decimal, Lots, Side, Ticks, VenueNanos};
use pitwire_projections::{Candle, PublicTrade};

use crate::bars::{Bar, DAY_MS};
use crate::key::KlineInterval;
use crate::market::{Day, Level, Market, Touch, stamp};
use crate::text::{EightPlaces, fixed_bare, list, put, uint};

/// A time, and the unit in which it is written.
#[derive(Clone, Copy, Debug)]
pub struct EventTime {
    pub at: VenueNanos,
    pub in_micros: bool,
}

impl EventTime {
    pub(crate) fn event(self) -> u64 {
        stamp(self.at, self.in_micros)
    }
}

/// Trades of one command at one price and taker side. The dialect reports them as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregate {
    pub first: u64,
    pub last: u64,
    pub price: Ticks,
    pub lots: Lots,
    pub taker_side: Side,
    pub at: VenueNanos,
}

impl Aggregate {
    pub fn of(trade: &PublicTrade) -> Aggregate {
        Aggregate {
            first: trade.seq.0,
            last: trade.seq.0,
            price: trade.price,
            lots: trade.lots,
            taker_side: trade.taker_side,
            at: trade.at,
        }
    }

    /// Adds the next trade of the same command. Returns false if it belongs to another aggregate.
    pub fn absorb(&mut self, trade: &PublicTrade) -> bool {
        let belongs = (trade.price, trade.taker_side, trade.at) == (self.price, self.taker_side, self.at);
        if belongs {
            self.last = trade.seq.0;
            self.lots = Lots(self.lots.0.saturating_add(trade.lots.0));
        }
        belongs
    }
}

pub fn trade(out: &mut Vec<u8>, market: Market<'_>, when: EventTime, trade: &PublicTrade) {
    put!(out, "{\"e\":\"trade\",\"E\":", when.event(), ",\"s\":\"", &market.names.joined, "\",\"t\":", trade.seq.0);
    put!(out, ",\"p\":", EightPlaces(market.price(trade.price)), ",\"q\":", EightPlaces(market.amount(trade.lots)));
    put!(out, ",\"T\":", stamp(trade.at, when.in_micros), ",\"m\":", trade.taker_side == Side::Sell, ",\"M\":true}");
}

/// Writes an aggregate trade. Its id is that of its first trade, so ids increase and are the same
/// for every reader.
pub fn agg_trade(out: &mut Vec<u8>, market: Market<'_>, when: EventTime, sum: &Aggregate) {
    put!(out, "{\"e\":\"aggTrade\",\"E\":", when.event(), ",\"s\":\"", &market.names.joined, "\",\"a\":", sum.first);
    put!(out, ",\"p\":", EightPlaces(market.price(sum.price)), ",\"q\":", EightPlaces(market.amount(sum.lots)));
    put!(out, ",\"f\":", sum.first, ",\"l\":", sum.last, ",\"T\":", stamp(sum.at, when.in_micros));
    put!(out, ",\"m\":", sum.taker_side == Side::Sell, ",\"M\":true}");
}

/// Writes a depth update. `ids` are the first and the last update in it.
pub fn depth(out: &mut Vec<u8>, market: Market<'_>, when: EventTime, ids: (u64, u64), bids: &[Level], asks: &[Level]) {
    put!(out, "{\"e\":\"depthUpdate\",\"E\":", when.event(), ",\"s\":\"", &market.names.joined);
    put!(out, "\",\"U\":", ids.0, ",\"u\":", ids.1, ",\"b\":");
    levels(out, market, bids);
    put!(out, ",\"a\":");
    levels(out, market, asks);
    put!(out, "}");
}

/// Writes a book for REST and for the partial book stream.
pub fn book(out: &mut Vec<u8>, market: Market<'_>, update: u64, bids: &[Level], asks: &[Level]) {
    put!(out, "{\"lastUpdateId\":", update, ",\"bids\":");
    levels(out, market, bids);
    put!(out, ",\"asks\":");
    levels(out, market, asks);
    put!(out, "}");
}

fn levels(out: &mut Vec<u8>, market: Market<'_>, levels: &[Level]) {
    put!(out, "[");
    list(out, levels, |out, (price, lots)| {
        put!(out, "[", EightPlaces(market.price(*price)), ",", EightPlaces(market.amount(*lots)), "]");
    });
    put!(out, "]");
}

pub fn book_ticker(out: &mut Vec<u8>, market: Market<'_>, update: u64, touch: Touch) {
    put!(out, "{\"u\":", update, ",\"s\":\"", &market.names.joined, "\"");
    touch_fields(out, market, touch);
    put!(out, "}");
}

/// Writes `b`, `B`, `a` and `A`. An empty side is zero.
fn touch_fields(out: &mut Vec<u8>, market: Market<'_>, touch: Touch) {
    for ([price_key, lots_key], level) in [(["b", "B"], touch.bid), (["a", "A"], touch.ask)] {
        let (price, lots) = level.unwrap_or_default();
        put!(out, ",\"", price_key, "\":", EightPlaces(market.price(price)));
        put!(out, ",\"", lots_key, "\":", EightPlaces(market.amount(lots)));
    }
}

pub(crate) fn kline(
    out: &mut Vec<u8>,
    market: Market<'_>,
    when: EventTime,
    interval: KlineInterval,
    bar: &Bar,
    is_closed: bool,
) {
    let symbol = &market.names.joined;
    let factor = if when.in_micros { 1_000 } else { 1 };
    let candle = &bar.candle;
    let (start, end) = (candle.start_ms * factor, (candle.start_ms + interval.width_ms()) * factor - 1);
    put!(out, "{\"e\":\"kline\",\"E\":", when.event(), ",\"s\":\"", symbol, "\",\"k\":{\"t\":", start, ",\"T\":", end);
    put!(out, ",\"s\":\"", symbol, "\",\"i\":\"", interval.name(), "\",\"f\":");
    ids(out, bar.ids, ",\"L\":");
    for (key, price) in [("o", candle.open), ("c", candle.close), ("h", candle.high), ("l", candle.low)] {
        put!(out, ",\"", key, "\":", EightPlaces(market.price(price)));
    }
    put!(out, ",\"v\":", EightPlaces(market.amount(Lots(candle.lots))), ",\"n\":", bar.trades, ",\"x\":", is_closed);
    put!(
        out,
        ",\"q\":",
        EightPlaces(market.value(candle.tick_lots)),
        ",\"V\":",
        EightPlaces(market.amount(Lots(bar.bought_lots)))
    );
    put!(out, ",\"Q\":", EightPlaces(market.value(bar.bought_tick_lots)), ",\"B\":\"0\"}}");
}

/// Writes the ids of the first and the last trade, or -1 if there is none or they are unknown.
pub(crate) fn ids(out: &mut Vec<u8>, ids: Option<(u64, u64)>, between: &str) {
    let write = |out: &mut Vec<u8>, id: Option<u64>| match id {
        Some(id) => uint(out, id),
        None => put!(out, "-1"),
    };
    write(out, ids.map(|(first, _)| first));
    put!(out, between);
    write(out, ids.map(|(_, last)| last));
}

pub(crate) fn mini_ticker(out: &mut Vec<u8>, market: Market<'_>, when: EventTime, day: &Day) {
    put!(out, "{\"e\":\"24hrMiniTicker\",\"E\":", when.event(), ",\"s\":\"", &market.names.joined, "\"");
    put!(out, ",\"c\":", EightPlaces(market.price(day.bar.candle.close)));
    range_fields(out, market, &day.bar.candle, ["o", "h", "l", "v", "q"]);
    put!(out, "}");
}

/// Writes the open, high and low price, the volume and the value of a candle under these keys.
pub(crate) fn range_fields(out: &mut Vec<u8>, market: Market<'_>, candle: &Candle, keys: [&str; 5]) {
    let [open, high, low] = [candle.open, candle.high, candle.low].map(|price| market.price(price));
    let numbers = [open, high, low, market.amount(Lots(candle.lots)), market.value(candle.tick_lots)];
    for (key, number) in keys.into_iter().zip(numbers) {
        put!(out, ",\"", key, "\":", EightPlaces(number));
    }
}

pub(crate) fn ticker(out: &mut Vec<u8>, market: Market<'_>, when: EventTime, day: &Day) {
    let Day { bar, before, last_lots, now, touch } = day;
    let candle = &bar.candle;
    put!(out, "{\"e\":\"24hrTicker\",\"E\":", when.event(), ",\"s\":\"", &market.names.joined, "\",\"p\":");
    put!(out, EightPlaces(change(market, candle)), ",\"P\":\"");
    percent(out, candle);
    put!(
        out,
        "\",\"w\":",
        EightPlaces(weighted(market, candle)),
        ",\"x\":",
        EightPlaces(market.price(before.unwrap_or(candle.open)))
    );
    put!(out, ",\"c\":", EightPlaces(market.price(candle.close)), ",\"Q\":", EightPlaces(market.amount(*last_lots)));
    touch_fields(out, market, *touch);
    range_fields(out, market, candle, ["o", "h", "l", "v", "q"]);
    let opened = VenueNanos(now.0.saturating_sub(DAY_MS * 1_000_000));
    put!(out, ",\"O\":", stamp(opened, when.in_micros), ",\"C\":", stamp(*now, when.in_micros), ",\"F\":");
    ids(out, bar.ids, ",\"L\":");
    put!(out, ",\"n\":", bar.trades, "}");
}

pub(crate) fn change(market: Market<'_>, candle: &Candle) -> Decimal {
    market.price(Ticks(candle.close.0 - candle.open.0))
}

/// Writes the change in percent with three decimals, rounded half away from zero, without quotes.
pub(crate) fn percent(out: &mut Vec<u8>, candle: &Candle) {
    let (change, open) = (i128::from(candle.close.0) - i128::from(candle.open.0), i128::from(candle.open.0));
    let doubled = (change * 200_000).checked_div(open).unwrap_or(0);
    fixed_bare(out, Decimal::new((doubled + doubled.signum()) / 2, 3), 3);
}

pub(crate) fn weighted(market: Market<'_>, candle: &Candle) -> Decimal {
    let places = crate::text::PLACES.saturating_sub(market.spec.tick.scale);
    market.average(candle.tick_lots, candle.lots, places).unwrap_or(Decimal::ZERO)
}

/// Values of the `?ts=ns` fields: when a message was due and when it was encoded, monotonic, and
/// the wall clock's time then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    pub due_ns: u64,
    pub mono_ns: u64,
    pub ts_ns: u64,
}

/// Appends the `?ts=ns` fields to an object. An array has no fields and stays unchanged.
pub fn append_ns(payload: &mut Vec<u8>, stamps: Stamps) {
    if payload.last() == Some(&b'}') {
        payload.pop();
        let Stamps { due_ns, mono_ns, ts_ns } = stamps;
        put!(payload, ",\"due_ns\":", due_ns, ",\"mono_ns\":", mono_ns, ",\"ts_ns\":", ts_ns, "}");
    }
}

/// Writes `{"stream":"…","data":…}`.
pub fn combine(out: &mut Vec<u8>, name: &str, payload: &[u8]) {
    put!(out, "{\"stream\":\"", name, "\",\"data\":");
    out.extend_from_slice(payload);
    put!(out, "}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::tests::{fixture, level, text, trade_of};

    const AT: VenueNanos = VenueNanos(1_795_219_360_582_123_456);
    const MILLIS: EventTime = EventTime { at: AT, in_micros: false };
    const MICROS: EventTime = EventTime { at: AT, in_micros: true };

    /// A tick of a cent and a lot of one share. The expected texts were written by hand.
    #[test]
    fn messages_match_the_reference_byte_for_byte() {
        let fixture = fixture();
        let market = fixture.market();
        let sold = trade_of(5_095, AT, 319_999, 4, Side::Sell);
        assert_eq!(
            text(|out| trade(out, market, MILLIS, &sold)),
            r#"{"e":"trade","E":1795219360582,"s":"NPNZAR","t":5095,"p":"3199.99000000","q":"4.00000000","T":1795219360582,"m":true,"M":true}"#
        );
        assert_eq!(
            text(|out| trade(out, market, MICROS, &trade_of(5_096, AT, 1, 1, Side::Buy))),
            r#"{"e":"trade","E":1795219360582123,"s":"NPNZAR","t":5096,"p":"0.01000000","q":"1.00000000","T":1795219360582123,"m":false,"M":true}"#
        );
        let sum = Aggregate::of(&sold);
        let combined =
            text(|out| combine(out, "npnzar@aggTrade", text(|out| agg_trade(out, market, MILLIS, &sum)).as_bytes()));
        assert_eq!(
            combined,
            r#"{"stream":"npnzar@aggTrade","data":{"e":"aggTrade","E":1795219360582,"s":"NPNZAR","a":5095,"p":"3199.99000000","q":"4.00000000","f":5095,"l":5095,"T":1795219360582,"m":true,"M":true}}"#
        );
        let (bids, asks) = ([level(319_999, 6), level(319_998, 0)], [level(320_002, 5)]);
        assert_eq!(
            text(|out| depth(out, market, MILLIS, (1_042, 1_047), &bids, &asks)),
            r#"{"e":"depthUpdate","E":1795219360582,"s":"NPNZAR","U":1042,"u":1047,"b":[["3199.99000000","6.00000000"],["3199.98000000","0.00000000"]],"a":[["3200.02000000","5.00000000"]]}"#
        );
        let touch = Touch { bid: Some(level(319_999, 6)), ask: Some(level(320_001, 10)) };
        assert_eq!(
            text(|out| book_ticker(out, market, 1_047, touch)),
            r#"{"u":1047,"s":"NPNZAR","b":"3199.99000000","B":"6.00000000","a":"3200.01000000","A":"10.00000000"}"#
        );
        assert_eq!(
            text(|out| book(out, market, 7, &[], &asks)),
            r#"{"lastUpdateId":7,"bids":[],"asks":[["3200.02000000","5.00000000"]]}"#
        );
    }

    #[test]
    fn aggregate_needs_one_price_side_and_command() {
        let mut sum = Aggregate::of(&trade_of(7, AT, 100, 2, Side::Buy));
        assert!(sum.absorb(&trade_of(8, AT, 100, 3, Side::Buy)));
        for other in [
            trade_of(9, AT, 101, 1, Side::Buy),
            trade_of(9, AT, 100, 1, Side::Sell),
            trade_of(9, VenueNanos(AT.0 + 1), 100, 1, Side::Buy),
        ] {
            assert!(!sum.absorb(&other));
        }
        assert_eq!((sum.first, sum.last, sum.lots), (7, 8, Lots(5)));
    }

    #[test]
    fn day_and_candle_have_every_field() {
        let fixture = fixture();
        let market = fixture.market();
        // 2 at 100.00 and 1 at 103.00: 303.00 for 3, of which buyers took the last.
        let candle = Candle {
            high: Ticks(10_300),
            close: Ticks(10_300),
            lots: 3,
            tick_lots: 30_300,
            ..Candle::flat(1_795_219_320_000, Ticks(10_000))
        };
        let bar = Bar { candle, bought_lots: 1, bought_tick_lots: 10_300, trades: 2, ids: Some((41, 42)) };
        let minute = KlineInterval::named("1m").unwrap();
        assert_eq!(
            text(|out| kline(out, market, MILLIS, minute, &bar, false)),
            r#"{"e":"kline","E":1795219360582,"s":"NPNZAR","k":{"t":1795219320000,"T":1795219379999,"s":"NPNZAR","i":"1m","f":41,"L":42,"o":"100.00000000","c":"103.00000000","h":"103.00000000","l":"100.00000000","v":"3.00000000","n":2,"x":false,"q":"303.00000000","V":"1.00000000","Q":"103.00000000","B":"0"}}"#
        );
        let touch = Touch { bid: Some(level(10_290, 1)), ask: None };
        let day = Day { bar, before: Some(Ticks(9_900)), last_lots: Lots(1), now: AT, touch };
        assert_eq!(
            text(|out| ticker(out, market, MILLIS, &day)),
            r#"{"e":"24hrTicker","E":1795219360582,"s":"NPNZAR","p":"3.00000000","P":"3.000","w":"101.00000000","x":"99.00000000","c":"103.00000000","Q":"1.00000000","b":"102.90000000","B":"1.00000000","a":"0.00000000","A":"0.00000000","o":"100.00000000","h":"103.00000000","l":"100.00000000","v":"3.00000000","q":"303.00000000","O":1795132960582,"C":1795219360582,"F":41,"L":42,"n":2}"#
        );
        assert_eq!(
            text(|out| mini_ticker(out, market, MILLIS, &day)),
            r#"{"e":"24hrMiniTicker","E":1795219360582,"s":"NPNZAR","c":"103.00000000","o":"100.00000000","h":"103.00000000","l":"100.00000000","v":"3.00000000","q":"303.00000000"}"#
        );
        let fallen = Candle { open: Ticks(300), close: Ticks(299), ..candle };
        assert_eq!(text(|out| percent(out, &fallen)), "-0.333");
    }

    #[test]
    fn nanosecond_fields_come_last_and_outside_the_data() {
        let stamps = Stamps { due_ns: 1, mono_ns: 2, ts_ns: 3 };
        for (payload, expected) in
            [(r#"{"u":1}"#, r#"{"u":1,"due_ns":1,"mono_ns":2,"ts_ns":3}"#), (r#"[{"u":1}]"#, r#"[{"u":1}]"#)]
        {
            let mut out = payload.as_bytes().to_vec();
            append_ns(&mut out, stamps);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
