//! Books and tickers (wire objects 5.6, 6 and 7).

use pitwire_model::{Decimal, InstrumentSpec, Lots, Ticks, VenueNanos};
use pitwire_projections::{MarketFacts, Stats};

use super::session::ticker_fields as session_fields;
use super::{amount, base_volume, contracts, phase_state, price, ratio, turnover};
use crate::codec::json::Json;

pub fn ticker(j: &mut Json<'_>, facts: &MarketFacts<'_>) {
    j.object(|j| ticker_fields(j, facts));
}

fn ticker_fields(j: &mut Json<'_>, facts: &MarketFacts<'_>) {
    let spec = facts.spec;
    j.key("instrument_name").string(&spec.name);
    j.key("timestamp").uint(facts.at.as_millis());
    j.key("state").string(phase_state(facts.phase));
    j.key("session").string(facts.phase.name());
    if let Some(view) = facts.session {
        session_fields(j, spec, view);
    }
    for (price_key, amount_key, best) in
        [("best_bid_price", "best_bid_amount", facts.best_bid), ("best_ask_price", "best_ask_amount", facts.best_ask)]
    {
        let (best_price, best_lots) = best.unwrap_or_default();
        price(j, price_key, spec, best_price);
        amount(j, amount_key, spec, best_lots);
    }
    price(j, "last_price", spec, facts.last);
    price(j, "mark_price", spec, facts.mark);
    price(j, "index_price", spec, facts.index);
    price(j, "settlement_price", spec, facts.index);
    price(j, "estimated_delivery_price", spec, facts.index);
    price(j, "min_price", spec, facts.lowest_sell);
    price(j, "max_price", spec, facts.highest_buy.unwrap_or_else(|| far_above(facts.mark)));
    amount(j, "open_interest", spec, facts.open_interest);
    if !spec.is_spot() {
        // This version has no funding: the rate is zero rather than absent.
        j.key("current_funding").raw(b"0.0").key("funding_8h").raw(b"0.0").key("interest_value").raw(b"0.0");
    }
    j.key("stats").object(|j| stats(j, spec, facts.stats));
}

/// The `max_price` of a market without an upper limit. Clients that check the dialect's schema
/// demand a number. The largest price of the engine would not look like a price of this market.
fn far_above(mark: Ticks) -> Ticks {
    const MULTIPLE: i64 = 1_000;
    Ticks(mark.0.saturating_mul(MULTIPLE).clamp(1, Ticks::MAX_PRICE.0))
}

fn stats(j: &mut Json<'_>, spec: &InstrumentSpec, stats: Option<Stats>) {
    let Some(stats) = stats else {
        // Nothing has traded, so high, low and change are absent rather than null.
        j.key("volume").raw(b"0.0").key("volume_usd").raw(b"0.0").key("volume_notional").raw(b"0.0");
        return;
    };
    price(j, "high", spec, stats.high);
    price(j, "low", spec, stats.low);
    price(j, "open", spec, stats.open);
    j.key("price_change").decimal(price_change(&stats));
    j.key("volume").decimal(base_volume(spec, stats.lots, stats.lots_per_tick));
    let notional = turnover(spec, stats.lots, stats.tick_lots);
    j.key("volume_usd").decimal(notional).key("volume_notional").decimal(notional);
    j.key("contracts").decimal(contracts(spec, Lots(stats.lots)));
}

/// The change from the first to the last price, in per cent with four decimals.
pub(crate) fn price_change(stats: &Stats) -> Decimal {
    let change = (i128::from(stats.last.0) - i128::from(stats.open.0)) * 100;
    ratio(change, i128::from(stats.open.0), 4)
}

/// Writes `public/get_order_book`: a ticker with levels and the change id of the book.
pub fn order_book(
    j: &mut Json<'_>,
    facts: &MarketFacts<'_>,
    change_id: u64,
    bids: &[(Ticks, Lots)],
    asks: &[(Ticks, Lots)],
) {
    j.object(|j| {
        ticker_fields(j, facts);
        j.key("change_id").uint(change_id);
        for (key, levels) in [("bids", bids), ("asks", asks)] {
            j.key(key).array(|j| {
                for (level_price, lots) in levels {
                    j.array(|j| {
                        j.decimal(facts.spec.price(*level_price)).decimal(facts.spec.amount(*lots));
                    });
                }
            });
        }
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelAction {
    New,
    Change,
    Delete,
}

/// The changes of one side in a book message.
pub type BookChange = [(LevelAction, Ticks, Lots)];

/// Writes the whole book as the first message of a channel, without `prev_change_id`.
pub fn book_snapshot(
    j: &mut Json<'_>,
    spec: &InstrumentSpec,
    at: VenueNanos,
    change_id: u64,
    bids: &BookChange,
    asks: &BookChange,
) {
    book_message(j, spec, at, "snapshot", None, change_id, bids, asks);
}

pub fn book_change(
    j: &mut Json<'_>,
    spec: &InstrumentSpec,
    at: VenueNanos,
    ids: (u64, u64),
    bids: &BookChange,
    asks: &BookChange,
) {
    let (previous, change_id) = ids;
    book_message(j, spec, at, "change", Some(previous), change_id, bids, asks);
}

#[allow(clippy::too_many_arguments)]
fn book_message(
    j: &mut Json<'_>,
    spec: &InstrumentSpec,
    at: VenueNanos,
    kind: &str,
    previous: Option<u64>,
    change_id: u64,
    bids: &BookChange,
    asks: &BookChange,
) {
    j.object(|j| {
        j.key("type").string(kind);
        j.key("timestamp").uint(at.as_millis());
        j.key("instrument_name").string(&spec.name);
        if let Some(previous) = previous {
            j.key("prev_change_id").uint(previous);
        }
        j.key("change_id").uint(change_id);
        for (key, levels) in [("bids", bids), ("asks", asks)] {
            j.key(key).array(|j| {
                for (action, level_price, lots) in levels {
                    j.array(|j| {
                        j.string(match action {
                            LevelAction::New => "new",
                            LevelAction::Change => "change",
                            LevelAction::Delete => "delete",
                        });
                        j.decimal(spec.price(*level_price)).decimal(spec.amount(*lots));
                    });
                }
            });
        }
    });
}
