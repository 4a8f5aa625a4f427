//! Objects of public channels (wire section 6): quotes, grouped depth, candles, index prices,
//! instrument states.

use pitwire_model::{Currency, Decimal, InstrumentSpec, Lots, Ticks, VenueNanos};
use pitwire_projections::{Candle, MarketFacts};

use super::{amount, base_volume, price};
use crate::codec::json::Json;

/// Writes all five numbers always. A side without orders has price zero and amount zero.
pub fn quote(j: &mut Json<'_>, facts: &MarketFacts<'_>) {
    let spec = facts.spec;
    j.object(|j| {
        j.key("timestamp").uint(facts.at.as_millis());
        j.key("instrument_name").string(&spec.name);
        for (price_key, amount_key, best) in [
            ("best_bid_price", "best_bid_amount", facts.best_bid),
            ("best_ask_price", "best_ask_amount", facts.best_ask),
        ] {
            let (best_price, best_lots) = best.unwrap_or_default();
            price(j, price_key, spec, best_price);
            amount(j, amount_key, spec, best_lots);
        }
    });
}

/// Writes a complete grouped book of a few levels, without `type`.
pub fn depth(
    j: &mut Json<'_>,
    spec: &InstrumentSpec,
    at: VenueNanos,
    change_id: u64,
    bids: &[(Ticks, Lots)],
    asks: &[(Ticks, Lots)],
) {
    j.object(|j| {
        j.key("timestamp").uint(at.as_millis());
        j.key("instrument_name").string(&spec.name);
        j.key("change_id").uint(change_id);
        for (key, levels) in [("bids", bids), ("asks", asks)] {
            j.key(key).array(|j| {
                for (level_price, lots) in levels {
                    j.array(|j| {
                        j.decimal(spec.price(*level_price)).decimal(spec.amount(*lots));
                    });
                }
            });
        }
    });
}

pub fn candle(j: &mut Json<'_>, spec: &InstrumentSpec, candle: &Candle) {
    j.object(|j| {
        j.key("tick").uint(candle.start_ms);
        for (key, at) in [("open", candle.open), ("high", candle.high), ("low", candle.low), ("close", candle.close)] {
            price(j, key, spec, at);
        }
        j.key("volume").decimal(candle_volume(spec, candle));
        j.key("cost").decimal(candle_cost(spec, candle));
    });
}

/// The volume of a candle in base currency. See [`base_volume`] for inverse contracts.
pub fn candle_volume(spec: &InstrumentSpec, candle: &Candle) -> Decimal {
    base_volume(spec, candle.lots, candle.lots_per_tick)
}

/// The cost of a candle in quote currency: the sum of price × amount of all trades. The amount of
/// an inverse contract is in quote currency itself.
pub fn candle_cost(spec: &InstrumentSpec, candle: &Candle) -> Decimal {
    if !spec.is_spot() {
        return spec.amount(Lots(candle.lots));
    }
    let value = spec.tick.times(i128::try_from(candle.tick_lots).unwrap_or(i128::MAX));
    Decimal::new(value.mantissa.saturating_mul(spec.lot.mantissa), value.scale + spec.lot.scale)
}

pub fn perpetual(j: &mut Json<'_>, facts: &MarketFacts<'_>) {
    j.object(|j| {
        j.key("timestamp").uint(facts.at.as_millis());
        price(j, "index_price", facts.spec, facts.index);
        // This version has no funding: zero.
        j.key("interest").raw(b"0.0");
    });
}

pub fn price_index(j: &mut Json<'_>, name: &str, facts: &MarketFacts<'_>) {
    j.object(|j| {
        j.key("timestamp").uint(facts.at.as_millis());
        price(j, "price", facts.spec, facts.index);
        j.key("index_name").string(name);
    });
}

/// Writes a state: created, started, settled, closed or terminated. Strict clients know no other
/// word.
pub fn instrument_state(j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos, state: &str) {
    j.object(|j| {
        j.key("timestamp").uint(at.as_millis());
        j.key("instrument_name").string(&spec.name);
        j.key("state").string(state);
    });
}

/// The name of an instrument's index in lower case: `btc_usd`.
pub fn index_name(spec: &InstrumentSpec, currencies: &[Currency]) -> String {
    let name = |id: pitwire_model::CurrencyId| currencies.get(id.0 as usize).map_or("", |currency| &currency.name);
    format!("{}_{}", name(spec.base()), name(spec.quote())).to_lowercase()
}
