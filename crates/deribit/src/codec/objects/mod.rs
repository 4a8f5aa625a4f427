//! The objects of the dialect, one writer each.
//!
//! The shapes follow real clients field by field: they refuse to work with less.

mod account;
mod book;
mod drop_copy;
mod feeds;
mod instrument;
mod off_book;
mod order;
mod session;
mod trade;
mod trading_rules;

pub use account::{PositionFacts, SummaryFacts, position, summary};
pub(crate) use book::price_change;
pub use book::{BookChange, LevelAction, book_change, book_snapshot, order_book, ticker};
pub use drop_copy::{Copy as DropCopy, drop_copy};
pub use feeds::{
    candle, candle_cost, candle_volume, depth, index_name, instrument_state, perpetual, price_index, quote,
};
pub use instrument::{
    currency, instrument, instrument_kind, is_of_currency, is_of_family, phase_state, settlement_name,
};
pub use off_book::{OffBookFacts, ReportFacts, off_book, off_book_trades, trade_report};
pub use order::{OrderMoment, cancel_reason_name, order, order_type_name};
use pitwire_model::{Decimal, InstrumentId, InstrumentSpec, Lots, Side, Ticks, TimeInForce, TradeSeq};
use pitwire_projections::LOTS_PER_TICK_ONE;
pub use session::{AuctionFacts, Curve, Curves, SessionFacts, StatisticsFacts, auction, session, statistics};
pub use trade::{public_trade, user_trade};

use crate::codec::json::Json;

pub(crate) const fn side_name(side: Side) -> &'static str {
    match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
    }
}

/// The dialect's word for a time in force, or the nearest one.
pub const fn tif_name(tif: TimeInForce) -> &'static str {
    match tif {
        TimeInForce::Day => "good_til_day",
        TimeInForce::GoodTillCancel => "good_til_cancelled",
        TimeInForce::ImmediateOrCancel => "immediate_or_cancel",
        TimeInForce::FillOrKill => "fill_or_kill",
        // Strict clients know only these four words. Another field has the exact word.
        TimeInForce::GoodTillDate { .. } | TimeInForce::AnyCall => "good_til_cancelled",
        TimeInForce::GoodTillTime { .. }
        | TimeInForce::OpeningCall
        | TimeInForce::IntradayCall
        | TimeInForce::ClosingCall
        | TimeInForce::ClosingCross => "good_til_day",
    }
}

/// A trade id that is unique over the venue: digits of the instrument and of its trade number. Ids
/// of one instrument have equal length, for clients that sort them as text.
pub fn trade_id(instrument: InstrumentId, seq: TradeSeq) -> String {
    ((u128::from(instrument.0) + 1) * 1_000_000_000_000 + u128::from(seq.0)).to_string()
}

/// Returns the instrument and number of a [`trade_id`].
pub fn parse_trade_id(text: &str) -> Option<(InstrumentId, TradeSeq)> {
    let id: u128 = text.parse().ok()?;
    let instrument = u32::try_from((id / 1_000_000_000_000).checked_sub(1)?).ok()?;
    Some((InstrumentId(instrument), TradeSeq(u64::try_from(id % 1_000_000_000_000).ok()?)))
}

/// Converts lots to contracts: one each for an inverse contract, the amount itself for spot.
pub(crate) fn contracts(spec: &InstrumentSpec, lots: Lots) -> Decimal {
    if spec.is_spot() { spec.amount(lots) } else { Decimal::new(i128::from(lots.0), 0) }
}

/// `numerator / denominator` with `scale` decimals, rounded half away from zero.
pub(crate) fn ratio(numerator: i128, denominator: i128, scale: u8) -> Decimal {
    if denominator == 0 {
        return Decimal::new(0, scale);
    }
    let scaled = numerator.saturating_mul(10_i128.pow(u32::from(scale)));
    let half = denominator.abs() / 2;
    let nudged = if (scaled < 0) == (denominator < 0) { scaled.abs() + half } else { -(scaled.abs() + half) };
    Decimal::new(nudged / denominator.abs(), scale)
}

/// Volume in base currency of trades with `lots` in sum. `lots_per_tick` is their sum of lots /
/// price ([`Candle::lots_per_tick`](pitwire_projections::Candle::lots_per_tick)).
///
/// The amount of an inverse contract is in quote currency. Its volume is the sum of amount / price
/// over all trades, with eight decimals.
pub(crate) fn base_volume(spec: &InstrumentSpec, lots: u64, lots_per_tick: u128) -> Decimal {
    if spec.is_spot() {
        return spec.amount(Lots(lots));
    }
    let (lot, tick) = (spec.lot, spec.tick);
    let ten = |exponent: u8| 10_i128.saturating_pow(u32::from(exponent));
    let sum = i128::try_from(lots_per_tick).unwrap_or(i128::MAX);
    let numerator = sum.saturating_mul(lot.mantissa).saturating_mul(ten(tick.scale));
    let one = i128::try_from(LOTS_PER_TICK_ONE).unwrap_or(i128::MAX);
    let denominator = one.saturating_mul(tick.mantissa).saturating_mul(ten(lot.scale));
    ratio(numerator, denominator, 8)
}

/// Turnover in quote currency, rounded to the decimals of the tick. The amount of an inverse
/// contract is in quote currency itself.
pub(crate) fn turnover(spec: &InstrumentSpec, lots: u64, tick_lots: u128) -> Decimal {
    if !spec.is_spot() {
        return spec.amount(Lots(lots));
    }
    let sum = spec.tick.times(i128::try_from(tick_lots).unwrap_or(i128::MAX));
    let mantissa = sum.mantissa.saturating_mul(spec.lot.mantissa);
    ratio(mantissa, 10_i128.pow(u32::from(sum.scale + spec.lot.scale)), spec.tick.scale)
}

/// Average price with six more decimals than the tick, from the sum of price × lots.
pub fn average_price(spec: &InstrumentSpec, tick_lots: u128, lots: Lots) -> Decimal {
    let sum = i128::try_from(tick_lots).unwrap_or(i128::MAX).saturating_mul(spec.tick.mantissa);
    let places = spec.tick.scale + 6;
    let shifted = i128::from(lots.0).saturating_mul(10_i128.pow(u32::from(spec.tick.scale)));
    ratio(sum, shifted, places)
}

pub(crate) fn price(j: &mut Json<'_>, key: &str, spec: &InstrumentSpec, ticks: Ticks) {
    j.key(key).decimal(spec.price(ticks));
}

pub(crate) fn amount(j: &mut Json<'_>, key: &str, spec: &InstrumentSpec, lots: Lots) {
    j.key(key).decimal(spec.amount(lots));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_round_half_away_from_zero() {
        for (n, d, scale, expected) in
            [(1, 3, 4, 3333), (2, 3, 4, 6667), (-2, 3, 4, -6667), (1, 2, 0, 1), (-1, 2, 0, -1), (5, 0, 2, 0)]
        {
            assert_eq!(ratio(n, d, scale).mantissa, expected, "{n}/{d}");
        }
    }

    #[test]
    fn trade_ids_never_meet() {
        assert_eq!(trade_id(InstrumentId(0), TradeSeq(5)), "1000000000005");
        assert_eq!(trade_id(InstrumentId(7), TradeSeq(512)), "8000000000512");
        assert_eq!(parse_trade_id("8000000000512"), Some((InstrumentId(7), TradeSeq(512))));
        for bad in ["", "512", "-8000000000512", "8000000000512x", "99999999999999999999999999999999999999999"] {
            assert_eq!(parse_trade_id(bad), None, "{bad}");
        }
    }
}
