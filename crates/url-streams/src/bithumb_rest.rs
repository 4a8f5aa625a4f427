//! REST bodies of the Bithumb Global dialect.
//!
//! Holds       A book's `ver` is the stream's.
//! Start at    [`answer`].

use pitwire_model::Side;

use crate::bithumb::{book_data, refusal, ticker_data, trade_data};
use crate::market::Level;
use crate::rest_request::{RestAnswer, RestRequest};
use crate::text::{list, put};

/// Most levels per side, and most trades.
const MOST_LEVELS: usize = 5_000;
const MOST_TRADES: usize = 100;

pub(crate) fn answer(path: &str, ask: RestRequest<'_>) -> Option<RestAnswer> {
    Some(match path {
        "serverTime" => wrapped(ask, |out| put!(out, ask.here.at.as_millis())),
        "spot/config" => wrapped(ask, |out| config(out, ask)),
        "spot/orderBook" => return Some(of_symbol(ask, orders)),
        "spot/trades" => return Some(of_symbol(ask, trades)),
        "spot/ticker" => return Some(of_symbol(ask, ticker)),
        _ => return None,
    })
}

/// Wraps `data` as every answer is wrapped.
fn wrapped(ask: RestRequest<'_>, data: impl FnOnce(&mut Vec<u8>)) -> RestAnswer {
    RestAnswer::ok(|out| {
        put!(out, "{\"data\":");
        data(out);
        put!(out, ",\"code\":\"0\",\"msg\":\"success\",\"timestamp\":", ask.here.at.as_millis(), "}");
    })
}

fn of_symbol(
    ask: RestRequest<'_>,
    write: fn(&mut Vec<u8>, RestRequest<'_>, pitwire_model::InstrumentId) -> Option<()>,
) -> RestAnswer {
    let symbol = ask.text("symbol").unwrap_or_default();
    match ask.streams.directory().find(&symbol) {
        Some(id) => wrapped(ask, |out| write(out, ask, id).unwrap_or_else(|| put!(out, "[]"))),
        None => RestAnswer::refused(refusal("10005", &symbol)),
    }
}

fn orders(out: &mut Vec<u8>, ask: RestRequest<'_>, id: pitwire_model::InstrumentId) -> Option<()> {
    let (market, place) = (ask.streams.market(ask.here.engine, id)?, ask.here.engine.market(id)?);
    let most = ask.limit(MOST_LEVELS, MOST_LEVELS);
    let [bids, asks] = [Side::Buy, Side::Sell].map(|side| place.book().levels(side).take(most).collect::<Vec<Level>>());
    book_data(out, market, place.change_id(), &bids, &asks);
    Some(())
}

fn trades(out: &mut Vec<u8>, ask: RestRequest<'_>, id: pitwire_model::InstrumentId) -> Option<()> {
    let (market, tape) = (ask.streams.market(ask.here.engine, id)?, ask.here.views.tape(id)?);
    let newest = tape.trades().len().saturating_sub(MOST_TRADES);
    put!(out, "[");
    list(out, tape.trades().range(newest..), |out, trade| trade_data(out, market, trade));
    put!(out, "]");
    Some(())
}

fn ticker(out: &mut Vec<u8>, ask: RestRequest<'_>, id: pitwire_model::InstrumentId) -> Option<()> {
    let (market, place) = (ask.streams.market(ask.here.engine, id)?, ask.here.engine.market(id)?);
    let day = ask.streams.instrument(id)?.day(place, ask.here.at)?;
    put!(out, "[");
    ticker_data(out, market, &day, "s");
    put!(out, "]");
    Some(())
}

/// Writes the instruments. `accuracy` is the number of decimals of a price and of a quantity.
fn config(out: &mut Vec<u8>, ask: RestRequest<'_>) {
    let engine = ask.here.engine;
    let markets = engine.markets().iter().filter_map(|place| ask.streams.market(engine, place.spec.id));
    put!(out, "{\"spotConfig\":[");
    list(out, markets.filter(|market| market.spec.is_spot()), |out, market| {
        let (price, amount) = (u64::from(market.spec.tick.scale), u64::from(market.spec.lot.scale));
        put!(out, "{\"symbol\":\"", &market.names.dashed, "\",\"accuracy\":[\"", price, "\",\"", amount, "\"]}");
    });
    put!(out, "],\"coinConfig\":[");
    list(out, engine.currencies(), |out, currency| {
        put!(out, "{\"name\":\"", &currency.name, "\",\"depositStatus\":\"0\",\"withdrawStatus\":\"0\"}");
    });
    put!(out, "]}");
}
