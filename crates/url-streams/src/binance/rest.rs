//! REST bodies of the Binance dialect.
//!
//! Does        Answers what clients need to find instruments and to join a depth stream to a
//!             snapshot.
//! Holds       `lastUpdateId` and the depth stream's `U` and `u` are one counter.
//! Start at    [`answer`].

use pitwire_engine::Market as Place;
use pitwire_model::{Decimal, InstrumentId, InstrumentKind, Lots, Phase, Side, Ticks};
use pitwire_projections::{Candle, PublicTrade};

use crate::bars::{Bar, DAY_MS};
use crate::binance::encode::{self, Aggregate, change, ids, percent, range_fields, weighted};
use crate::binance::talk::{error, unknown_symbol};
use crate::key::KlineInterval;
use crate::market::{Day, Market, Touch};
use crate::rest_request::{RestAnswer, RestRequest};
use crate::text::{EightPlaces, list, put};

/// Most levels per side.
const MOST_LEVELS: usize = 5_000;
const MOST_TRADES: usize = 1_000;

/// The `maxPrice` of a symbol, as a multiple of its start price. The largest price of the engine
/// would not look like a price of this market.
const MOST_PRICE_MULTIPLE: i64 = 1_000;

/// Length of the average price, in minutes.
const AVERAGED_MINUTES: u64 = 5;

/// Parameters that must be whole numbers on every path.
const NUMBERS: [&str; 4] = ["limit", "fromId", "startTime", "endTime"];

pub(crate) fn answer(path: &str, ask: RestRequest<'_>) -> Option<RestAnswer> {
    let is_wrong = |name: &&&str| ask.text(name).is_some_and(|text| !is_whole_number(&text));
    if let Some(name) = NUMBERS.iter().find(is_wrong) {
        return Some(RestAnswer::refused(error(-1100, &format!("'{name}' is a whole number below 2^64"))));
    }
    Some(match path {
        "ping" => RestAnswer::ok(|out| put!(out, "{}")),
        "time" => RestAnswer::ok(|out| put!(out, "{\"serverTime\":", ask.here.at.as_millis(), "}")),
        "exchangeInfo" => exchange_info(ask),
        "depth" => with_one(ask, |out, one| depth(out, one)),
        "trades" | "historicalTrades" => with_one(ask, |out, one| trades(out, one)),
        "aggTrades" => with_one(ask, |out, one| agg_trades(out, one)),
        "klines" | "uiKlines" => return Some(klines(ask)),
        "avgPrice" => with_one(ask, average_price),
        "ticker/24hr" | "ticker" => with_some(ask, day),
        "ticker/price" => with_some(ask, price),
        "ticker/bookTicker" => with_some(ask, book_ticker),
        _ => return None,
    })
}

fn is_whole_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

/// Answers the first request of clients with keys with an empty wallet.
pub(crate) fn wallet(path: &str) -> Option<RestAnswer> {
    const EMPTY: [&str; 3] =
        ["/sapi/v1/capital/config/getall", "/sapi/v1/margin/allPairs", "/sapi/v1/margin/isolated/allPairs"];
    EMPTY.contains(&path).then(|| RestAnswer::ok(|out| put!(out, "[]")))
}

/// One instrument and the request about it.
struct InstrumentQuery<'a> {
    ask: RestRequest<'a>,
    id: InstrumentId,
    market: Market<'a>,
    place: &'a Place,
}

fn one<'a>(ask: RestRequest<'a>, id: InstrumentId) -> Option<InstrumentQuery<'a>> {
    Some(InstrumentQuery {
        ask,
        id,
        market: ask.streams.market(ask.here.engine, id)?,
        place: ask.here.engine.market(id)?,
    })
}

fn find(ask: RestRequest<'_>) -> Result<InstrumentId, RestAnswer> {
    let symbol = ask.text("symbol").ok_or_else(|| {
        RestAnswer::refused(error(-1102, "Mandatory parameter 'symbol' was not sent; say ?symbol=NPNZAR"))
    })?;
    ask.streams.directory().find(&symbol).ok_or_else(|| RestAnswer::refused(error(-1121, &unknown_symbol(&symbol))))
}

fn with_one<'a>(ask: RestRequest<'a>, write: impl FnOnce(&mut Vec<u8>, &InstrumentQuery<'a>)) -> RestAnswer {
    match find(ask).map(|id| one(ask, id)) {
        Ok(Some(one)) => RestAnswer::ok(|out| write(out, &one)),
        Ok(None) => RestAnswer::refused(error(-1121, "Invalid symbol")),
        Err(refusal) => refusal,
    }
}

/// Writes one object for `symbol`, an array for `symbols` or for neither.
fn with_some<'a>(ask: RestRequest<'a>, write: impl Fn(&mut Vec<u8>, &InstrumentQuery<'a>)) -> RestAnswer {
    if ask.text("symbol").is_some() {
        return with_one(ask, write);
    }
    match several(ask) {
        Ok(ids) => RestAnswer::ok(|out| {
            put!(out, "[");
            list(out, ids.into_iter().filter_map(|id| one(ask, id)), |out, one| write(out, &one));
            put!(out, "]");
        }),
        Err(refusal) => refusal,
    }
}

/// Returns the instruments in `symbols`, a JSON array, or else all spot instruments.
fn several(ask: RestRequest<'_>) -> Result<Vec<InstrumentId>, RestAnswer> {
    let directory = ask.streams.directory();
    let Some(text) = ask.text("symbols") else { return Ok(spot(ask).collect()) };
    let names: Vec<String> = serde_json::from_str(&text)
        .map_err(|_| RestAnswer::refused(error(-1100, "symbols is a JSON array, say [\"NPNZAR\",\"SOLZAR\"]")))?;
    let find =
        |name: &String| directory.find(name).ok_or_else(|| RestAnswer::refused(error(-1121, &unknown_symbol(name))));
    names.iter().map(find).collect()
}

/// Returns the spot instruments. In this dialect perpetuals belong to another market: they have
/// streams and books but are in no list.
fn spot(ask: RestRequest<'_>) -> impl Iterator<Item = InstrumentId> {
    ask.here
        .engine
        .markets()
        .iter()
        .filter(|place| place.spec.is_spot() && place.phase() != Phase::Deleted)
        .map(|place| place.spec.id)
}

fn exchange_info(ask: RestRequest<'_>) -> RestAnswer {
    let ids = match ask.text("symbol") {
        Some(_) => find(ask).map(|id| vec![id]),
        None => several(ask),
    };
    match ids {
        Ok(ids) => RestAnswer::ok(|out| {
            put!(out, "{\"timezone\":\"UTC\",\"serverTime\":", ask.here.at.as_millis());
            put!(out, ",\"rateLimits\":[],\"exchangeFilters\":[],\"symbols\":[");
            list(out, ids.into_iter().filter_map(|id| one(ask, id)), |out, one| symbol_info(out, &one));
            put!(out, "]}");
        }),
        Err(refusal) => refusal,
    }
}

fn symbol_info(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let Market { spec, names } = one.market;
    let is_open = !matches!(one.place.phase(), Phase::Closed | Phase::Halted | Phase::Deleted | Phase::HaltAndClose);
    let status = if is_open { "TRADING" } else { "HALT" };
    put!(out, "{\"symbol\":\"", &names.joined, "\",\"status\":\"", status, "\",\"baseAsset\":\"", &names.base);
    put!(out, "\",\"baseAssetPrecision\":8,\"quoteAsset\":\"", &names.quote, "\",\"quotePrecision\":8");
    put!(out, ",\"quoteAssetPrecision\":8,\"baseCommissionPrecision\":8,\"quoteCommissionPrecision\":8");
    put!(
        out,
        ",\"orderTypes\":[\"LIMIT\",\"MARKET\"],\"icebergAllowed\":true,\"ocoAllowed\":false,\"otoAllowed\":false"
    );
    put!(out, ",\"quoteOrderQtyMarketAllowed\":false,\"allowTrailingStop\":false,\"cancelReplaceAllowed\":false");
    put!(out, ",\"isSpotTradingAllowed\":", matches!(spec.kind, InstrumentKind::Spot { .. }));
    put!(out, ",\"isMarginTradingAllowed\":false,\"filters\":[{\"filterType\":\"PRICE_FILTER\",\"minPrice\":");
    let most_lots = spec.limits.max_lots.unwrap_or(Lots::MAX_ORDER);
    let most_price = Ticks(spec.start_price.0.saturating_mul(MOST_PRICE_MULTIPLE).clamp(1, Ticks::MAX_PRICE.0));
    put!(out, EightPlaces(one.market.price(Ticks(1))), ",\"maxPrice\":", EightPlaces(one.market.price(most_price)));
    put!(
        out,
        ",\"tickSize\":",
        EightPlaces(spec.tick),
        "},{\"filterType\":\"LOT_SIZE\",\"minQty\":",
        EightPlaces(spec.lot)
    );
    put!(out, ",\"maxQty\":", EightPlaces(one.market.amount(most_lots)), ",\"stepSize\":", EightPlaces(spec.lot), "}");
    put!(out, ",{\"filterType\":\"NOTIONAL\",\"minNotional\":\"0.00000000\",\"applyMinToMarket\":false");
    put!(out, ",\"maxNotional\":\"9000000000.00000000\",\"applyMaxToMarket\":false,\"avgPriceMins\":0}]");
    put!(
        out,
        ",\"permissions\":[\"SPOT\"],\"permissionSets\":[[\"SPOT\"]],\"defaultSelfTradePreventionMode\":\"NONE\""
    );
    put!(out, ",\"allowedSelfTradePreventionModes\":[\"NONE\"]}");
}

fn depth(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let most = one.ask.limit(100, MOST_LEVELS);
    if let Some(instrument) = one.ask.streams.instrument(one.id) {
        let (update, bids, asks) = instrument.snapshot(one.place, most);
        encode::book(out, one.market, update, &bids, &asks);
    }
}

fn trades(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let most = one.ask.limit(500, MOST_TRADES);
    put!(out, "[");
    if let Some(tape) = one.ask.here.views.tape(one.id) {
        let all = tape.trades();
        let from = match one.ask.number("fromId") {
            Some(first) => all.partition_point(|trade| trade.seq.0 < first),
            None => all.len().saturating_sub(most),
        };
        list(out, all.range(from..).take(most), |out, trade| write_trade(out, one.market, trade));
    }
    put!(out, "]");
}

fn write_trade(out: &mut Vec<u8>, market: Market<'_>, trade: &PublicTrade) {
    let value = u128::from(trade.price.0.unsigned_abs()) * u128::from(trade.lots.0);
    put!(out, "{\"id\":", trade.seq.0, ",\"price\":", EightPlaces(market.price(trade.price)), ",\"qty\":");
    put!(out, EightPlaces(market.amount(trade.lots)), ",\"quoteQty\":", EightPlaces(market.value(value)), ",\"time\":");
    put!(out, trade.at.as_millis(), ",\"isBuyerMaker\":", trade.taker_side == Side::Sell, ",\"isBestMatch\":true}");
}

fn agg_trades(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let most = one.ask.limit(500, MOST_TRADES);
    put!(out, "[");
    if let Some(instrument) = one.ask.streams.instrument(one.id) {
        let all = &instrument.aggregates;
        let (since, until) = (one.ask.number("startTime"), one.ask.number("endTime"));
        let end = until.map_or(all.len(), |until| all.partition_point(|sum| sum.at.as_millis() <= until));
        let from = match (one.ask.number("fromId"), since) {
            (Some(first), _) => all.partition_point(|sum| sum.first < first),
            (None, Some(since)) => all.partition_point(|sum| sum.at.as_millis() < since),
            (None, None) => end.saturating_sub(most),
        };
        list(out, all.range(from.min(end)..end).take(most), |out, sum| write_aggregate(out, one.market, sum));
    }
    put!(out, "]");
}

fn write_aggregate(out: &mut Vec<u8>, market: Market<'_>, sum: &Aggregate) {
    put!(
        out,
        "{\"a\":",
        sum.first,
        ",\"p\":",
        EightPlaces(market.price(sum.price)),
        ",\"q\":",
        EightPlaces(market.amount(sum.lots))
    );
    put!(out, ",\"f\":", sum.first, ",\"l\":", sum.last, ",\"T\":", sum.at.as_millis());
    put!(out, ",\"m\":", sum.taker_side == Side::Sell, ",\"M\":true}");
}

fn klines(ask: RestRequest<'_>) -> RestAnswer {
    let Some(interval) = ask.text("interval").as_deref().and_then(KlineInterval::named) else {
        let why = format!("Invalid interval; there are {}", KlineInterval::names());
        return RestAnswer::refused(error(-1120, &why));
    };
    with_one(ask, |out, one| {
        let most = ask.limit(500, MOST_TRADES);
        let since = ask.number("startTime");
        let until = ask.number("endTime").unwrap_or(u64::MAX).min(ask.here.at.as_millis());
        put!(out, "[");
        if let Some(instrument) = ask.streams.instrument(one.id) {
            let bars = instrument.bars.buckets(interval, since.unwrap_or(0), until, most, since.is_none());
            list(out, &bars, |out, bar| write_kline(out, one.market, interval, bar));
        }
        put!(out, "]");
    })
}

fn write_kline(out: &mut Vec<u8>, market: Market<'_>, interval: KlineInterval, bar: &Bar) {
    let candle = &bar.candle;
    put!(out, "[", candle.start_ms);
    for price in [candle.open, candle.high, candle.low, candle.close] {
        put!(out, ",", EightPlaces(market.price(price)));
    }
    put!(out, ",", EightPlaces(market.amount(Lots(candle.lots))), ",", candle.start_ms + interval.width_ms() - 1);
    put!(
        out,
        ",",
        EightPlaces(market.value(candle.tick_lots)),
        ",",
        bar.trades,
        ",",
        EightPlaces(market.amount(Lots(bar.bought_lots)))
    );
    put!(out, ",", EightPlaces(market.value(bar.bought_tick_lots)), ",\"0\"]");
}

fn day(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let (market, at) = (one.market, one.ask.here.at);
    let day = one.ask.streams.instrument(one.id).and_then(|instrument| instrument.day(one.place, at));
    let Day { bar, before, last_lots, touch, .. } = day.unwrap_or_else(|| Day {
        bar: Bar::new(Candle::flat(at.as_millis(), last_price(one.place))),
        before: None,
        last_lots: Lots::ZERO,
        now: at,
        touch: Touch::of(one.place),
    });
    let candle = &bar.candle;
    put!(out, "{\"symbol\":\"", &market.names.joined, "\",\"priceChange\":", EightPlaces(change(market, candle)));
    put!(out, ",\"priceChangePercent\":\"");
    percent(out, candle);
    put!(out, "\",\"weightedAvgPrice\":", EightPlaces(weighted(market, candle)));
    put!(out, ",\"prevClosePrice\":", EightPlaces(market.price(before.unwrap_or(candle.open))));
    put!(
        out,
        ",\"lastPrice\":",
        EightPlaces(market.price(candle.close)),
        ",\"lastQty\":",
        EightPlaces(market.amount(last_lots))
    );
    touch_fields(out, market, touch);
    range_fields(out, market, candle, ["openPrice", "highPrice", "lowPrice", "volume", "quoteVolume"]);
    let now = at.as_millis();
    put!(out, ",\"openTime\":", now.saturating_sub(DAY_MS), ",\"closeTime\":", now, ",\"firstId\":");
    ids(out, bar.ids, ",\"lastId\":");
    put!(out, ",\"count\":", bar.trades, "}");
}

fn touch_fields(out: &mut Vec<u8>, market: Market<'_>, touch: Touch) {
    for ([price_key, lots_key], level) in [(["bidPrice", "bidQty"], touch.bid), (["askPrice", "askQty"], touch.ask)] {
        let (price, lots) = level.unwrap_or_default();
        put!(out, ",\"", price_key, "\":", EightPlaces(market.price(price)));
        put!(out, ",\"", lots_key, "\":", EightPlaces(market.amount(lots)));
    }
}

/// Returns the price of the last trade, or the start price before the first trade.
fn last_price(place: &Place) -> Ticks {
    place.last().unwrap_or(place.spec.start_price)
}

fn price(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let last: Decimal = one.market.price(last_price(one.place));
    put!(out, "{\"symbol\":\"", &one.market.names.joined, "\",\"price\":", EightPlaces(last), "}");
}

/// Writes the volume-weighted average price of the last five minutes, and the time of the last
/// trade. Without trades it is the last price, as at the exchange.
fn average_price(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    let now_ms = one.ask.here.at.as_millis();
    let since_ms = now_ms.saturating_sub(AVERAGED_MINUTES * 60_000);
    let tape = one.ask.here.views.tape(one.id);
    let recent = || tape.iter().flat_map(|tape| tape.trades().iter().rev());
    let (lots, tick_lots) = recent()
        .take_while(|trade| trade.at.as_millis() > since_ms)
        .filter(|trade| !trade.busted)
        .fold((0_u64, 0_u128), |(lots, value), trade| {
            let price = u128::from(trade.price.0.unsigned_abs());
            (lots.saturating_add(trade.lots.0), value.saturating_add(price * u128::from(trade.lots.0)))
        });
    let average = weighted(one.market, &Candle { lots, tick_lots, ..Candle::flat(since_ms, Ticks(0)) });
    let price = if lots == 0 { one.market.price(last_price(one.place)) } else { average };
    let closed_ms = recent().next().map_or(now_ms, |trade| trade.at.as_millis());
    put!(out, "{\"mins\":", AVERAGED_MINUTES, ",\"price\":", EightPlaces(price), ",\"closeTime\":", closed_ms, "}");
}

fn book_ticker(out: &mut Vec<u8>, one: &InstrumentQuery<'_>) {
    put!(out, "{\"symbol\":\"", &one.market.names.joined, "\"");
    touch_fields(out, one.market, Touch::of(one.place));
    put!(out, "}");
}
