//! REST bodies of the Gemini dialects.
//!
//! Start at    [`answer`].

use pitwire_engine::Market as Place;
use pitwire_model::{Decimal, InstrumentId, Lots, Phase, Side, VenueNanos};

use crate::gemini::{candle, candle_interval, refusal, trade_id};
use crate::market::{Level, Market, Touch};
use crate::rest_request::{RestAnswer, RestRequest};
use crate::text::{ShortestDecimal, fixed_bare, list, put};

const MOST_LEVELS: usize = 5_000;
const MOST_TRADES: usize = 500;
const MOST_CANDLES: usize = 1_500;
const HOUR_NS: u64 = 3_600_000_000_000;

pub(crate) fn answer(path: &str, ask: RestRequest<'_>) -> Option<RestAnswer> {
    if path == "/v1/symbols" {
        return Some(RestAnswer::ok(|out| symbols(out, ask)));
    }
    if path == "/v1/pricefeed" {
        return Some(RestAnswer::ok(|out| price_feed(out, ask)));
    }
    let of = |prefix: &str| path.strip_prefix(prefix);
    if let Some(symbol) = of("/v1/symbols/details/") {
        return Some(with_one(ask, symbol, details));
    }
    if let Some(symbol) = of("/v1/book/") {
        return Some(with_one(ask, symbol, book));
    }
    if let Some(symbol) = of("/v1/trades/") {
        return Some(with_one(ask, symbol, trades));
    }
    if let Some(symbol) = of("/v1/pubticker/") {
        return Some(with_one(ask, symbol, pubticker));
    }
    if let Some(symbol) = of("/v2/ticker/") {
        return Some(with_one(ask, symbol, ticker));
    }
    let (symbol, interval) = of("/v2/candles/")?.split_once('/')?;
    Some(match candle_interval(interval) {
        Some(interval) => with_one(ask, symbol, |out, one| {
            let bars = one.ask.streams.instrument(one.id).map(|instrument| {
                instrument.bars.buckets(interval, 0, one.ask.here.at.as_millis(), MOST_CANDLES, true)
            });
            put!(out, "[");
            list(out, bars.iter().flatten().rev(), |out, bar| candle(out, one.market, &bar.candle));
            put!(out, "]");
        }),
        None => RestAnswer::refused(refusal("InvalidTimeFrame", "there are 1m, 5m, 15m, 30m, 1hr, 6hr and 1day")),
    })
}

struct InstrumentQuery<'a> {
    ask: RestRequest<'a>,
    id: InstrumentId,
    market: Market<'a>,
    place: &'a Place,
}

fn with_one<'a>(
    ask: RestRequest<'a>,
    symbol: &str,
    write: impl FnOnce(&mut Vec<u8>, &InstrumentQuery<'a>),
) -> RestAnswer {
    let engine = ask.here.engine;
    let found = ask.streams.directory().find(symbol).and_then(|id| {
        Some(InstrumentQuery { ask, id, market: ask.streams.market(engine, id)?, place: engine.market(id)? })
    });
    match found {
        Some(one) => RestAnswer::ok(|out| write(out, &one)),
        None => {
            RestAnswer::refused(refusal("InvalidSymbol", &format!("no instrument {symbol:?}; /v1/symbols lists them")))
        }
    }
}

fn symbols(out: &mut Vec<u8>, ask: RestRequest<'_>) {
    let places =
        ask.here.engine.markets().iter().filter(|place| place.spec.is_spot() && place.phase() != Phase::Deleted);
    let names = places.filter_map(|place| ask.streams.directory().names(place.spec.id));
    put!(out, "[");
    list(out, names, |out, names| put!(out, "\"", &names.lower, "\""));
    put!(out, "]");
}

/// Writes the last price of each spot instrument, and its change in 24 hours in per cent.
fn price_feed(out: &mut Vec<u8>, ask: RestRequest<'_>) {
    let engine = ask.here.engine;
    let places = engine.markets().iter().filter(|place| place.spec.is_spot() && place.phase() != Phase::Deleted);
    let found = places.filter_map(|place| Some((place, ask.streams.market(engine, place.spec.id)?)));
    put!(out, "[");
    list(out, found, |out, (place, market)| {
        let last = place.last().unwrap_or(place.spec.start_price);
        let day = ask.streams.instrument(place.spec.id).and_then(|instrument| instrument.day(place, ask.here.at));
        let open = day.map_or(last, |day| day.bar.candle.open);
        let change = i128::from(last.0) - i128::from(open.0);
        // Twice the change in units of 0.0001 %, so that a half is rounded away from zero.
        let doubled = (change * 2_000_000).checked_div(i128::from(open.0)).unwrap_or(0);
        put!(out, "{\"pair\":\"", &market.names.joined, "\",\"price\":", ShortestDecimal(market.price(last)));
        put!(out, ",\"percentChange24h\":\"");
        fixed_bare(out, Decimal::new((doubled + doubled.signum()) / 2, 4), 4);
        put!(out, "\"}");
    });
    put!(out, "]");
}

/// Writes an instrument's details. Increments are numbers without quotes.
fn details(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let Market { spec, names } = one.market;
    let is_open = !matches!(one.place.phase(), Phase::Closed | Phase::Halted | Phase::Deleted | Phase::HaltAndClose);
    put!(out, "{\"symbol\":\"", &names.joined, "\",\"base_currency\":\"", &names.base, "\",\"quote_currency\":\"");
    put!(
        out,
        &names.quote,
        "\",\"tick_size\":",
        &spec.lot.to_string(),
        ",\"quote_increment\":",
        &spec.tick.to_string()
    );
    put!(
        out,
        ",\"min_order_size\":",
        ShortestDecimal(spec.lot),
        ",\"status\":\"",
        if is_open { "open" } else { "closed" }
    );
    // With a contract currency, clients would take it for a perpetual.
    put!(out, "\",\"wrap_enabled\":false,\"product_type\":\"spot\",\"contract_type\":\"vanilla\"}");
}

fn book(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    put!(out, "{");
    for (key, limit, side) in [("bids", "limit_bids", Side::Buy), (",asks", "limit_asks", Side::Sell)] {
        let asked = one.ask.number(limit).and_then(|most| usize::try_from(most).ok());
        // Zero means all, as at the exchange.
        let most = asked.map_or(50, |most| if most == 0 { MOST_LEVELS } else { most.min(MOST_LEVELS) });
        let (comma, key) = key.strip_prefix(',').map_or(("", key), |key| (",", key));
        put!(out, comma, "\"", key, "\":[");
        list(out, one.place.book().levels(side).take(most), |out, level| write_level(out, one, level));
        put!(out, "]");
    }
    put!(out, "}");
}

fn write_level(out: &mut Vec<u8>, one: &InstrumentQuery<'_>, (price, lots): Level) {
    let seconds = one.ask.here.at.as_millis() / 1_000;
    put!(
        out,
        "{\"price\":",
        ShortestDecimal(one.market.price(price)),
        ",\"amount\":",
        ShortestDecimal(one.market.amount(lots))
    );
    put!(out, ",\"timestamp\":\"", seconds, "\"}");
}

/// Writes trades, newest first.
fn trades(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let asked = one.ask.number("limit_trades").and_then(|most| usize::try_from(most).ok());
    let most = asked.filter(|most| *most > 0).unwrap_or(50).min(MOST_TRADES);
    // Clients send seconds or milliseconds.
    let since = one.ask.number("timestamp").or_else(|| one.ask.number("since"));
    let since = since.map_or(0, |since| if since < 100_000_000_000 { since.saturating_mul(1_000) } else { since });
    put!(out, "[");
    if let Some(tape) = one.ask.here.views.tape(one.id) {
        let fresh = tape.trades().iter().rev().take_while(|trade| trade.at.as_millis() >= since);
        list(out, fresh.take(most), |out, trade| {
            let side = if trade.taker_side == Side::Buy { "buy" } else { "sell" };
            put!(out, "{\"timestamp\":", trade.at.as_millis() / 1_000, ",\"timestampms\":", trade.at.as_millis());
            put!(
                out,
                ",\"tid\":",
                trade_id(one.id, trade.seq.0),
                ",\"price\":",
                ShortestDecimal(one.market.price(trade.price))
            );
            put!(
                out,
                ",\"amount\":",
                ShortestDecimal(one.market.amount(trade.lots)),
                ",\"exchange\":\"gemini\",\"type\":\"",
                side
            );
            put!(out, "\"}");
        });
    }
    put!(out, "]");
}

fn pubticker(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let Touch { bid, ask } = Touch::of(one.place);
    put!(out, "{");
    for (key, level) in [("bid", bid), ("ask", ask)] {
        if let Some((price, _)) = level {
            put!(out, "\"", key, "\":", ShortestDecimal(one.market.price(price)), ",");
        }
    }
    let last = one.place.last().unwrap_or(one.place.spec.start_price);
    put!(out, "\"last\":", ShortestDecimal(one.market.price(last)), ",\"volume\":{\"");
    let day = one.ask.streams.instrument(one.id).and_then(|instrument| instrument.day(one.place, one.ask.here.at));
    let (lots, value) = day.map_or((0, 0), |day| (day.bar.candle.lots, day.bar.candle.tick_lots));
    put!(
        out,
        &one.market.names.base,
        "\":",
        ShortestDecimal(one.market.amount(Lots(lots))),
        ",\"",
        &one.market.names.quote
    );
    put!(out, "\":", ShortestDecimal(one.market.value(value)), ",\"timestamp\":", one.ask.here.at.as_millis(), "}}");
}

/// Writes the ticker. `changes` are the closes of the last 24 hours, newest first.
fn ticker(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let at = one.ask.here.at;
    let instrument = one.ask.streams.instrument(one.id);
    let last = one.place.last().unwrap_or(one.place.spec.start_price);
    let day = instrument.and_then(|instrument| instrument.day(one.place, at)).map(|day| day.bar.candle);
    let prices = day.map_or([last; 4], |candle| [candle.open, candle.high, candle.low, candle.close]);
    put!(out, "{\"symbol\":\"", &one.market.names.joined, "\"");
    for (key, price) in ["open", "high", "low", "close"].into_iter().zip(prices) {
        put!(out, ",\"", key, "\":", ShortestDecimal(one.market.price(price)));
    }
    put!(out, ",\"changes\":[");
    let hours = candle_interval("1h").zip(instrument).map(|(hour, instrument)| {
        let since = VenueNanos(at.0.saturating_sub(24 * HOUR_NS)).as_millis();
        instrument.bars.buckets(hour, since, at.as_millis(), 24, true)
    });
    list(out, hours.iter().flatten().rev(), |out, bar| put!(out, ShortestDecimal(one.market.price(bar.candle.close))));
    put!(out, "]");
    let touch = Touch::of(one.place);
    for (key, level) in [("bid", touch.bid), ("ask", touch.ask)] {
        if let Some((price, _)) = level {
            put!(out, ",\"", key, "\":", ShortestDecimal(one.market.price(price)));
        }
    }
    put!(out, "}");
}
