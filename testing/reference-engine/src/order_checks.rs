//! Checks of one order that entries and amends share.

use pitwire_model::{AccountId, InstrumentId, Lots, Phase, PostOnly, Reject, SessionId, Side, Ticks, TimeInForce};

use crate::market::ReferenceMarket;
use crate::order::{ReferenceOrder, ReferenceOrderKind};
use crate::rule_tables::{EntryAnswer, answer_to_tif, answer_to_type, column};
use crate::state::VenueState;
use crate::validity::is_valid_price;

const MAX_EXPIRY_DAYS: u32 = 90;

/// 2149-06-06, the last venue day.
const LAST_VENUE_DAY: u32 = 65_535;

/// Whether an order of this kind may rest with a display.
pub fn may_rest(kind: ReferenceOrderKind, tif: TimeInForce) -> bool {
    let acts_at_once = matches!(tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill);
    matches!(kind, ReferenceOrderKind::Limit | ReferenceOrderKind::StopLimit) && !acts_at_once
}

impl ReferenceMarket {
    /// Returns the price collar of a side.
    pub fn collar(&self, side: Side) -> Option<Ticks> {
        let bps = i64::from(self.spec.limits.collar_bps?);
        let reference = self.prices.last.unwrap_or(self.spec.start_price).0;
        Some(match side {
            Side::Buy => Ticks(reference * (10_000 + bps) / 10_000),
            Side::Sell => Ticks(((reference * (10_000 - bps) + 9_999) / 10_000).max(1)),
        })
    }

    /// Returns the price at which a post-only order rests.
    ///
    /// # Errors
    /// `PostOnlyWouldTrade` if the order would trade and must not be repriced, `PostOnlyNoPlace` if
    /// the next price is not a valid one.
    pub fn post_only_price(&self, side: Side, price: Ticks, post_only: PostOnly) -> Result<Ticks, Reject> {
        let best = self.best(side.opposite());
        let would_trade = best.is_some_and(|best| match side {
            Side::Buy => price >= best,
            Side::Sell => price <= best,
        });
        match (post_only, best) {
            (PostOnly::Reject, Some(_)) if would_trade => Err(Reject::PostOnlyWouldTrade),
            (PostOnly::Reprice, Some(best)) if would_trade => {
                let short = if side == Side::Buy { Ticks(best.0 - 1) } else { Ticks(best.0 + 1) };
                if is_valid_price(short) { Ok(short) } else { Err(Reject::PostOnlyNoPlace) }
            }
            _ => Ok(price),
        }
    }

    pub fn allows_post_only(&self, kind: ReferenceOrderKind, tif: TimeInForce) -> bool {
        self.trades_on_entry() && kind == ReferenceOrderKind::Limit && may_rest(kind, tif)
    }

    /// Whether a price lies inside the band around the static reference.
    pub fn is_in_band(&self, price: Ticks) -> bool {
        let (Some(band), Some(fixed)) = (self.rules().band_pct, self.prices.static_reference) else { return true };
        i128::from((price.0 - fixed.0).abs()) * 100 <= i128::from(band) * i128::from(fixed.0)
    }

    /// Whether the session of a time in force is running or still scheduled today.
    pub fn is_session_ahead(&self, tif: TimeInForce) -> bool {
        let any = |phases: &[Phase]| {
            phases.iter().any(|phase| self.session.phase == *phase || self.session.remaining.holds(*phase))
        };
        match tif {
            TimeInForce::OpeningCall => any(&[Phase::OpeningCall]),
            TimeInForce::ClosingCall => any(&[Phase::ClosingCall]),
            TimeInForce::IntradayCall => any(&[Phase::IntradayCall]),
            TimeInForce::ClosingCross => any(&[Phase::ClosingPriceCross]),
            TimeInForce::AnyCall => {
                let scheduled = [Phase::OpeningCall, Phase::FcoCall, Phase::IntradayCall, Phase::ClosingCall];
                self.session.phase.is_call() || any(&scheduled)
            }
            _ => true,
        }
    }

    /// Answers an order by its session, from both rule tables.
    ///
    /// # Errors
    /// `TifNotAllowedInSession` or `TypeNotAllowedInSession`.
    pub fn table_answer(
        &self,
        kind: ReferenceOrderKind,
        tif: TimeInForce,
        has_display: bool,
    ) -> Result<EntryAnswer, Reject> {
        let of_tif = answer_to_tif(self.session.phase, tif);
        if of_tif == EntryAnswer::Reject || (self.is_batching() && tif == TimeInForce::FillOrKill) {
            return Err(Reject::TifNotAllowedInSession);
        }
        let of_type = answer_to_type(self.session.phase, column(kind, has_display));
        if of_type == EntryAnswer::Reject || (self.is_batching() && kind == ReferenceOrderKind::Hidden) {
            return Err(Reject::TypeNotAllowedInSession);
        }
        if self.session.phase == Phase::ClosingPriceCross
            && kind == ReferenceOrderKind::Market
            && tif == TimeInForce::ClosingCross
        {
            return Ok(EntryAnswer::Active);
        }
        let both = [of_tif, of_type];
        let first = [EntryAnswer::Park, EntryAnswer::Immediate].into_iter().find(|answer| both.contains(answer));
        Ok(first.unwrap_or(EntryAnswer::Active))
    }
}

/// Checks the expiry of an order.
///
/// # Errors
/// `ExpiryPassed` if the expiry is not in the future, `ExpiryTooFar` if it is after the end of the
/// venue day or after the last day that a date may name.
pub fn check_expiry(venue: &VenueState, tif: TimeInForce) -> Result<(), Reject> {
    match tif {
        TimeInForce::GoodTillTime { at } if at <= venue.now => Err(Reject::ExpiryPassed),
        TimeInForce::GoodTillTime { at } if at > venue.closes => Err(Reject::ExpiryTooFar),
        TimeInForce::GoodTillDate { day } if day < venue.day => Err(Reject::ExpiryPassed),
        TimeInForce::GoodTillDate { day }
            if day.0 > LAST_VENUE_DAY.min(venue.day.0.saturating_add(MAX_EXPIRY_DAYS)) =>
        {
            Err(Reject::ExpiryTooFar)
        }
        _ => Ok(()),
    }
}

/// Checks kills first, then the execution throttle of the account.
///
/// # Errors
/// `Killed` or `ExecutionThrottle`.
pub fn check_not_blocked(venue: &VenueState, account: AccountId, session: SessionId) -> Result<(), Reject> {
    let account = &venue.accounts[account.0 as usize];
    if venue.venue_killed || account.killed || venue.killed_sessions.contains(&session) {
        return Err(Reject::Killed);
    }
    if account.throttled { Err(Reject::ExecutionThrottle) } else { Ok(()) }
}

pub fn count_open_orders(venue: &VenueState, account: AccountId) -> usize {
    let all = venue.markets.iter().flat_map(|market| &market.orders);
    all.filter(|order| order.account == account).count()
}

/// Checks the operator's limits for one order.
///
/// # Errors
/// `QuantityAboveLimit`, `NotionalAboveLimit`, `PriceAboveCollar` or `PriceBelowCollar`: the first
/// limit that the order exceeds.
pub fn check_limits(
    venue: &VenueState,
    instrument: InstrumentId,
    order: &ReferenceOrder,
    at_once: bool,
) -> Result<(), Reject> {
    let market = &venue.markets[instrument.0 as usize];
    let limits = market.spec.limits;
    if limits.max_lots.is_some_and(|most| order.open > most.0) {
        return Err(Reject::QuantityAboveLimit);
    }
    if limits.max_notional_units.is_some_and(|most| venue.notional(instrument, order, at_once) > most) {
        return Err(Reject::NotionalAboveLimit);
    }
    match (market.collar(order.side), order.side) {
        (Some(edge), Side::Buy) if order.has_price() && order.price > edge => Err(Reject::PriceAboveCollar),
        (Some(edge), Side::Sell) if order.has_price() && order.price < edge => Err(Reject::PriceBelowCollar),
        _ => Ok(()),
    }
}

impl ReferenceMarket {
    /// Whether an iceberg of `lots` may display `display` lots at a time.
    pub fn fits_display(&self, display: Lots, lots: Lots) -> bool {
        let share = u64::from(self.rules().min_display_pct);
        (1..=lots.0).contains(&display.0) && display.0 * 100 >= share * lots.0
    }

    /// Checks the total quantity and the minimum execution of a hidden order.
    ///
    /// # Errors
    /// `QuantityBelowReserve` if the quantity is below the minimum reserve size,
    /// `MinimumExecutionOutOfRange` if the minimum is zero, above the open quantity or below the
    /// reserve.
    pub fn check_hidden_sizes(&self, total: u64, open: u64, minimum: u64) -> Result<(), Reject> {
        let reserve = self.rules().minimum_reserve.map_or(0, |reserve| reserve.0);
        if total < reserve {
            return Err(Reject::QuantityBelowReserve);
        }
        if !(1..=open).contains(&minimum) || minimum < reserve {
            return Err(Reject::MinimumExecutionOutOfRange);
        }
        Ok(())
    }

    /// Returns the protection price of a buy order of a limited account without a collar.
    pub fn buy_protection_price(&self) -> Option<Ticks> {
        let band = self.rules().band_pct.zip(self.prices.static_reference);
        let edge = band.map(|(band, fixed)| fixed.0.saturating_mul(100 + i64::from(band)) / 100);
        let twice = self.reference().map(|reference| reference.0 * 2);
        edge.or(twice).map(|price| Ticks(price.min(Ticks::MAX_PRICE.0)))
    }
}
