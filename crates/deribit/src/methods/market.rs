//! Public queries: instruments, books, trades and charts.

use crate::codec::{Json, Resolution, RpcError, objects};
use pitwire_model::{InstrumentId, InstrumentSpec, Lots, Side, Ticks};
use pitwire_projections::{MarketFacts, PublicTrade};

use super::filters;
use crate::call::{Call, MethodResult};

pub fn get_currencies(call: &mut Call<'_>) -> MethodResult {
    let Call { venue, out, .. } = call;
    Json::new(out).array(|j| {
        for currency in venue.engine().currencies() {
            objects::currency(j, currency);
        }
    });
    Ok(())
}

fn instruments_in(call: &Call<'_>, currency: &str) -> Result<Vec<InstrumentId>, RpcError> {
    let (engine, kind) = (call.venue.engine(), filters::kind(call)?);
    let wanted = |spec: &InstrumentSpec| {
        objects::is_of_currency(spec, engine.currencies(), currency)
            && kind.as_deref().is_none_or(|kind| kind == objects::instrument_kind(spec))
    };
    Ok(engine.markets().iter().map(|market| &market.spec).filter(|spec| wanted(spec)).map(|spec| spec.id).collect())
}

/// Lists the instruments of a currency.
///
/// # Errors
/// A refusal if `currency` or `kind` is malformed.
pub fn get_instruments(call: &mut Call<'_>) -> MethodResult {
    let wanted = instruments_in(call, &call.currency()?)?;
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).array(|j| {
        for market in wanted.into_iter().filter_map(|id| engine.market(id)) {
            objects::instrument(j, &market.spec, market.phase(), engine.currencies());
        }
    });
    Ok(())
}

/// Answers with one instrument.
///
/// # Errors
/// A refusal if the instrument is missing or unknown.
pub fn get_instrument(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    if let Some(market) = engine.market(id) {
        objects::instrument(&mut Json::new(out), &market.spec, market.phase(), engine.currencies());
    }
    Ok(())
}

fn with_facts(call: &mut Call<'_>, id: InstrumentId, write: impl FnOnce(&mut Json<'_>, &MarketFacts<'_>)) {
    let Call { venue, out, .. } = call;
    if let Some(facts) = MarketFacts::of(venue.engine(), venue.views(), id, venue.now()) {
        write(&mut Json::new(out), &facts);
    }
}

/// Answers with the ticker of an instrument.
///
/// # Errors
/// A refusal if the instrument is missing or unknown.
pub fn ticker(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    with_facts(call, id, objects::ticker);
    Ok(())
}

/// Answers with the book of an instrument.
///
/// # Errors
/// A refusal if the instrument is missing or unknown, or if `depth` is not a whole number.
pub fn get_order_book(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    write_order_book(call, id)
}

/// Finds the instrument by the number in `public/get_instruments`.
///
/// # Errors
/// A refusal if the number is missing or unknown, or if `depth` is not a whole number.
pub fn get_order_book_by_id(call: &mut Call<'_>) -> MethodResult {
    call.params.required("instrument_id")?;
    let number = call.params.integer("instrument_id")?.and_then(|number| u32::try_from(number).ok());
    let id = number.and_then(|number| number.checked_sub(1)).map(InstrumentId);
    let known = id.filter(|id| call.venue.engine().market(*id).is_some());
    let id = known.ok_or_else(|| RpcError::param("unknown_instrument", "instrument_id", "no such instrument"))?;
    write_order_book(call, id)
}

/// Returns the number of levels per side that an answer has. Zero means the default; any other
/// number is rounded up to the next one on the list.
pub fn book_depth(asked: usize) -> usize {
    const DEPTHS: [usize; 8] = [1, 5, 10, 20, 50, 100, 1_000, 10_000];
    let asked = if asked == 0 { 20 } else { asked };
    DEPTHS.into_iter().find(|depth| *depth >= asked).unwrap_or(10_000)
}

fn write_order_book(call: &mut Call<'_>, id: InstrumentId) -> MethodResult {
    let depth = book_depth(usize::try_from(call.params.integer("depth")?.unwrap_or(0).max(0)).unwrap_or(0));
    let market = call.market(id)?;
    let levels = |side| market.book().levels(side).take(depth).collect::<Vec<(Ticks, Lots)>>();
    let (bids, asks, change_id) = (levels(Side::Buy), levels(Side::Sell), market.change_id());
    with_facts(call, id, |j, facts| objects::order_book(j, facts, change_id, &bids, &asks));
    Ok(())
}

/// Returns the trades that a request selects, newest first by default, and whether there are more.
fn select_trades(call: &Call<'_>, id: InstrumentId) -> Result<(Vec<PublicTrade>, bool), RpcError> {
    let count = call.count(10)?;
    let (from_ms, to_ms) = call.time_range()?;
    let seq = |name| Ok::<_, RpcError>(call.params.integer(name)?.and_then(|value| u64::try_from(value).ok()));
    let (start_seq, end_seq) = (seq("start_seq")?.unwrap_or(0), seq("end_seq")?.unwrap_or(u64::MAX));
    let ascending = call.is_ascending()?;
    let Some(tape) = call.venue.views().tape(id) else { return Ok((Vec::new(), false)) };
    let wanted = |trade: &&PublicTrade| {
        (from_ms..=to_ms).contains(&trade.at.as_millis()) && (start_seq..=end_seq).contains(&trade.seq.0)
    };
    let mut found: Vec<PublicTrade> = if ascending {
        tape.trades().iter().filter(wanted).take(count + 1).copied().collect()
    } else {
        tape.trades().iter().rev().filter(wanted).take(count + 1).copied().collect()
    };
    let has_more = found.len() > count;
    found.truncate(count);
    Ok((found, has_more))
}

fn write_trades(call: &mut Call<'_>, trades: &[(InstrumentId, PublicTrade)], has_more: bool) {
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).object(|j| {
        j.key("trades").array(|j| {
            for (id, trade) in trades {
                if let Some(market) = engine.market(*id) {
                    objects::public_trade(j, &market.spec, trade);
                }
            }
        });
        j.key("has_more").bool(has_more);
    });
}

/// Lists the newest trades of an instrument.
///
/// # Errors
/// A refusal if the instrument is missing or unknown, or if another parameter is wrong.
pub fn last_trades_by_instrument(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    let (trades, has_more) = select_trades(call, id)?;
    let trades: Vec<_> = trades.into_iter().map(|trade| (id, trade)).collect();
    write_trades(call, &trades, has_more);
    Ok(())
}

/// Lists the newest trades of all instruments of a currency.
///
/// # Errors
/// A refusal if `currency`, `kind` or another parameter is malformed.
pub fn last_trades_by_currency(call: &mut Call<'_>) -> MethodResult {
    let count = call.count(10)?;
    let ascending = call.is_ascending()?;
    let (mut all, mut has_more) = (Vec::new(), false);
    for id in instruments_in(call, &call.currency()?)? {
        let (trades, more) = select_trades(call, id)?;
        all.extend(trades.into_iter().map(|trade| (id, trade)));
        has_more |= more;
    }
    all.sort_by_key(|(id, trade)| (trade.at, *id, trade.seq));
    if !ascending {
        all.reverse();
    }
    has_more |= all.len() > count;
    all.truncate(count);
    write_trades(call, &all, has_more);
    Ok(())
}

/// Answers with candles of one resolution, at most 5,000.
///
/// # Errors
/// A refusal if the instrument is missing or unknown, or if the resolution or a time is wrong.
pub fn chart(call: &mut Call<'_>) -> MethodResult {
    const MOST: usize = 5_000;
    let id = call.instrument_id()?;
    let Resolution { minutes } = Resolution::parse(&call.params.required("resolution")?)
        .ok_or_else(|| RpcError::invalid("resolution", "one of 1 3 5 10 15 30 60 120 180 360 720 1D"))?;
    let (from_ms, to_ms) = call.time_range()?;
    let now_ms = call.venue.now().as_millis();
    let candles = match call.venue.views().tape(id) {
        Some(tape) => tape.candles(from_ms, to_ms.min(now_ms), minutes, MOST),
        None => Vec::new(),
    };
    let spec = call.spec(id)?.clone();
    call.json().object(|j| {
        j.key("ticks").array(|j| candles.iter().for_each(|candle| j.uint(candle.start_ms).end()));
        for (key, price) in [
            ("open", (|candle| candle.open) as fn(&pitwire_projections::Candle) -> Ticks),
            ("high", |candle| candle.high),
            ("low", |candle| candle.low),
            ("close", |candle| candle.close),
        ] {
            j.key(key).array(|j| candles.iter().for_each(|candle| j.decimal(spec.price(price(candle))).end()));
        }
        j.key("volume").array(|j| {
            candles.iter().for_each(|candle| j.decimal(objects::candle_volume(&spec, candle)).end());
        });
        j.key("cost").array(|j| {
            candles.iter().for_each(|candle| j.decimal(objects::candle_cost(&spec, candle)).end());
        });
        j.key("status").string(if candles.is_empty() { "no_data" } else { "ok" });
    });
    Ok(())
}

fn write_summary(j: &mut Json<'_>, facts: &MarketFacts<'_>, call_names: (&str, &str)) {
    let spec = facts.spec;
    j.object(|j| {
        j.key("instrument_name").string(&spec.name);
        j.key("base_currency").string(call_names.0).key("quote_currency").string(call_names.1);
        j.key("creation_timestamp").uint(facts.at.as_millis());
        for (key, best) in [("bid_price", facts.best_bid), ("ask_price", facts.best_ask)] {
            // The fields of an empty side are absent rather than null.
            if let Some((price, _)) = best {
                j.key(key).decimal(spec.price(price));
            }
        }
        if let (Some((bid, _)), Some((ask, _))) = (facts.best_bid, facts.best_ask) {
            let twice = spec.tick.times(i128::from(bid.0 + ask.0));
            j.key("mid_price").decimal(pitwire_model::Decimal::new(twice.mantissa * 5, twice.scale + 1));
        }
        j.key("last").decimal(spec.price(facts.last));
        j.key("mark_price").decimal(spec.price(facts.mark));
        j.key("open_interest").decimal(spec.amount(facts.open_interest));
        let stats = facts.stats.unwrap_or_default();
        j.key("volume").decimal(objects::base_volume(spec, stats.lots, stats.lots_per_tick));
        let notional = objects::turnover(spec, stats.lots, stats.tick_lots);
        j.key("volume_usd").decimal(notional).key("volume_notional").decimal(notional);
        j.key("estimated_delivery_price").decimal(spec.price(facts.index));
        if !spec.is_spot() {
            // This version has no funding: the rates are zero rather than absent.
            j.key("current_funding").raw(b"0.0").key("funding_8h").raw(b"0.0");
        }
        if facts.stats.is_some() {
            j.key("high").decimal(spec.price(stats.high)).key("low").decimal(spec.price(stats.low));
            j.key("price_change").decimal(objects::price_change(&stats));
        }
    });
}

fn summaries(call: &mut Call<'_>, wanted: &[InstrumentId]) {
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).array(|j| {
        for id in wanted {
            let Some(facts) = MarketFacts::of(engine, venue.views(), *id, venue.now()) else { continue };
            let name = |currency| engine.currency(currency).map_or("", |currency| currency.name.as_str());
            write_summary(j, &facts, (name(facts.spec.base()), name(facts.spec.quote())));
        }
    });
}

/// Answers with one summary for each instrument of a currency.
///
/// # Errors
/// A refusal if `currency` or `kind` is malformed.
pub fn summaries_by_currency(call: &mut Call<'_>) -> MethodResult {
    let wanted = instruments_in(call, &call.currency()?)?;
    summaries(call, &wanted);
    Ok(())
}

/// Answers with the summary of an instrument.
///
/// # Errors
/// A refusal if the instrument is missing or unknown.
pub fn summary_by_instrument(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    summaries(call, &[id]);
    Ok(())
}

/// Answers with the index price of a pair.
///
/// # Errors
/// A refusal if `index_name` is missing or unknown.
pub fn index_price(call: &mut Call<'_>) -> MethodResult {
    let wanted = call.params.required("index_name")?.to_lowercase();
    let engine = call.venue.engine();
    let found = engine.markets().iter().find(|market| objects::index_name(&market.spec, engine.currencies()) == wanted);
    let price = found.map(|market| market.spec.price(market.index()));
    let price =
        price.ok_or_else(|| RpcError::invalid("index_name", "take a price_index from public/get_instruments"))?;
    call.json().object(|j| {
        j.key("index_price").decimal(price).key("estimated_delivery_price").decimal(price);
    });
    Ok(())
}

pub fn index_names(call: &mut Call<'_>) -> MethodResult {
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).array(|j| {
        for market in engine.markets() {
            j.string(&objects::index_name(&market.spec, engine.currencies()));
        }
    });
    Ok(())
}

/// Answers with the contract size of an instrument.
///
/// # Errors
/// A refusal if the instrument is missing or unknown.
pub fn contract_size(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    let spec = call.spec(id)?;
    // The dialect has a whole number. A lot of less than one unit counts as one.
    let one = 10_i128.pow(u32::from(spec.lot.scale));
    let whole = if spec.is_spot() { 1 } else { (spec.lot.mantissa / one).max(1) };
    let size = u64::try_from(whole).unwrap_or(u64::MAX);
    call.json().object(|j| {
        j.key("contract_size").uint(size);
    });
    Ok(())
}

/// Lists expirations by kind: perpetuals only, because nothing here expires.
///
/// # Errors
/// A refusal if `currency` or `kind` is malformed.
pub fn expirations(call: &mut Call<'_>) -> MethodResult {
    let wanted = instruments_in(call, &call.currency()?)?;
    let has_perpetual = wanted.iter().any(|id| call.spec(*id).is_ok_and(|spec| !spec.is_spot()));
    call.json().object(|j| {
        j.key("future").array(|j| {
            if has_perpetual {
                j.string("PERPETUAL");
            }
        });
        j.key("option").array(|_| {});
    });
    Ok(())
}

/// Answers with an empty list: nothing settles or is delivered here.
pub fn no_settlements(call: &mut Call<'_>) -> MethodResult {
    call.json().object(|j| {
        j.key("settlements").array(|_| {}).key("continuation").string("none");
    });
    Ok(())
}

pub fn no_deliveries(call: &mut Call<'_>) -> MethodResult {
    call.json().object(|j| {
        j.key("data").array(|_| {}).key("records_total").uint(0);
    });
    Ok(())
}

pub fn no_volatility(call: &mut Call<'_>) -> MethodResult {
    call.json().object(|j| {
        j.key("data").array(|_| {});
    });
    Ok(())
}

/// Answers with zero funding at the current index: this version has no funding.
///
/// # Errors
/// A refusal if the instrument is missing or unknown.
pub fn no_funding(call: &mut Call<'_>) -> MethodResult {
    let id = call.instrument_id()?;
    let market = call.market(id)?;
    let index = market.spec.price(market.index());
    call.json().object(|j| {
        j.key("current_interest").raw(b"0.0").key("interest_8h").raw(b"0.0");
        j.key("index_price").decimal(index).key("data").array(|_| {});
    });
    Ok(())
}
