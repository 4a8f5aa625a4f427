//! The checks that a new or amended order has to pass. Nothing here changes anything.
//!
//! Holds       the first check that fails is the answer, in the order of the rulebook (4); no check
//!             reads the hidden orders of others.
//! Start at    [`Admission::check_plain_entry`] for an order on a plain market,
//!             [`Admission::check_special_entry`] for every other.

use pitwire_model::{
    AccountId, Allocation, InstrumentId, Lots, NewOrder, OrderType, Phase, PostOnly, Reject, RemainingSessions,
    SessionId, Side, Ticks, TimeInForce,
};

use crate::account::Account;
use crate::book::{OrderFlags, OrderOrigin};
use crate::controls::within_band;
use crate::engine::Engine;
use crate::incoming::IncomingOrder;
use crate::market::Market;
use crate::order_checks::{check_price, lots_u32, peak_of};
use crate::rule_tables::{OrderKind, TableAnswer, Tif, kind_cell, session_permissions, tif_cell, type_cell};

/// The first action of an accepted order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmittedAction {
    /// It waits for its session.
    Park,
    /// It is a stop and waits for its stop price.
    WaitForElection,
    /// It is matched as its session does.
    Match,
}

/// The checks of one order, with what they read.
#[derive(Clone, Copy)]
pub(crate) struct Admission<'a> {
    pub engine: &'a Engine,
    pub market: &'a Market,
    pub account: &'a Account,
}

impl<'a> Admission<'a> {
    /// # Errors
    /// `UnknownInstrument` or `UnknownAccount`.
    #[inline(always)]
    pub fn new(engine: &'a Engine, instrument: InstrumentId, account: AccountId) -> Result<Self, Reject> {
        let market = engine.market(instrument).ok_or(Reject::UnknownInstrument)?;
        let account = engine.account(account).ok_or(Reject::UnknownAccount)?;
        Ok(Admission { engine, market, account })
    }

    /// HOT. Checks an order on a plain market and completes `incoming`.
    ///
    /// # Errors
    ///
    /// Returns the reason of the first check that fails.
    #[inline(always)]
    pub fn check_plain_entry(
        &self,
        order: &NewOrder,
        price: Option<Ticks>,
        incoming: &mut IncomingOrder,
    ) -> Result<(), Reject> {
        let Admission { engine, market, account } = *self;
        if account.blocked || engine.blocks.any() {
            self.check_may_enter(order.session)?;
        }
        lots_u32(order.lots)?;
        check_price(price)?;
        if engine.orders.contains(order.id) {
            return Err(Reject::DuplicateOrderId);
        }
        incoming.self_match = order.self_match.unwrap_or(account.spec.settings.self_match);
        incoming.origin.time = engine.clock.last_priority + 1;
        incoming.origin.day = engine.clock.entry_day;
        if order.display.is_some() || order.post_only != PostOnly::No {
            self.check_plain_terms(order, incoming)?;
        }
        if market.limited {
            incoming.limit = market.check_limits(incoming)?;
        }
        if incoming.may_rest {
            self.check_capacity()?;
        }
        if account.is_limited() {
            engine.funds().check_order(market, incoming)?;
        }
        Ok(())
    }

    #[cold]
    fn check_plain_terms(&self, order: &NewOrder, incoming: &mut IncomingOrder) -> Result<(), Reject> {
        if !self.engine.rules.is_first() && order.display.is_some() && !incoming.is_market() && !incoming.may_rest {
            return Err(Reject::DisplayOutOfRange);
        }
        if order.post_only != PostOnly::No && !incoming.may_rest {
            return Err(Reject::PostOnlyNotAllowed);
        }
        if order.display.is_some() && !incoming.may_rest {
            return Err(Reject::DisplayOutOfRange);
        }
        incoming.peak = peak_of(order.display, incoming.ordered)?;
        self.check_min_display(incoming.peak, incoming.ordered)?;
        incoming.price = self.market.post_only_price(order.side, incoming.price, order.post_only)?;
        incoming.limit = incoming.price;
        Ok(())
    }

    /// Checks an order with special terms or on a market that is not plain.
    ///
    /// # Errors
    ///
    /// Returns the reason of the first check that fails.
    pub fn check_special_entry(&self, order: &NewOrder) -> Result<(IncomingOrder, AdmittedAction), Reject> {
        let Admission { engine, market, account } = *self;
        self.check_may_enter(order.session)?;
        lots_u32(order.lots)?;
        check_price(order.order_type.limit_price())?;
        check_price(order.order_type.stop_price())?;
        if engine.orders.contains(order.id) {
            return Err(Reject::DuplicateOrderId);
        }
        let answer = self.check_tables(order)?;
        let mut incoming = self.incoming(order);
        self.check_schedule(incoming.origin.tif)?;
        self.check_special_terms(order, &mut incoming)?;
        self.check_reduce_only(order, answer, &mut incoming)?;
        self.check_hidden(order, &mut incoming)?;
        engine.clock.check_expiry(order.tif)?;
        self.check_band(order.order_type.limit_price())?;
        if order.post_only != PostOnly::No {
            incoming.price = market.post_only_price(order.side, incoming.price, order.post_only)?;
            incoming.limit = incoming.price;
        }
        let action = match answer {
            TableAnswer::Park if order.order_type.stop_price().is_some() => AdmittedAction::WaitForElection,
            TableAnswer::Park => AdmittedAction::Park,
            TableAnswer::Reject | TableAnswer::Immediate | TableAnswer::Active => AdmittedAction::Match,
        };
        let waits = answer != TableAnswer::Immediate || market.trades_in_batches();
        if waits && order.order_type.limit_price().is_none() {
            self.set_bound(&mut incoming);
        }
        market.check_special_limits(&mut incoming, waits)?;
        if waits {
            self.check_capacity()?;
        }
        if account.is_limited() {
            let trades_in_cross = !waits && incoming.is_market() && market.phase != Phase::Continuous;
            let cross_lots = if trades_in_cross { engine.cross_view(market).reachable_lots(&incoming) } else { 0 };
            engine.funds().check_special_order(market, &incoming, waits, cross_lots)?;
        }
        Ok((incoming, action))
    }

    fn incoming(&self, order: &NewOrder) -> IncomingOrder {
        let (price, tif) = (order.order_type.limit_price(), Tif::of(order.tif));
        let day = match order.tif {
            // The expiry check refuses dates beyond 16 bits.
            TimeInForce::GoodTillDate { day } => u16::try_from(day.0).unwrap_or(u16::MAX),
            _ => self.engine.clock.entry_day,
        };
        let plain = IncomingOrder::of(order, price, tif);
        IncomingOrder {
            self_match: order.self_match.unwrap_or(self.account.spec.settings.self_match),
            origin: OrderOrigin {
                time: self.engine.clock.last_priority + 1,
                day,
                flags: OrderFlags::new(order.cancel_on_disconnect, self.is_reduce_only(order)),
                ..plain.origin
            },
            ..plain
        }
    }

    /// Checks that the instrument, the account and the session allow a new order.
    ///
    /// # Errors
    ///
    /// Returns the reason of the first check that fails.
    #[cold]
    pub fn check_may_enter(&self, session: SessionId) -> Result<(), Reject> {
        if self.market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        self.check_blocks(session)?;
        if session_permissions(self.market.phase).enter { Ok(()) } else { Err(Reject::NotOpen) }
    }

    /// Checks that the account is not closed, killed or throttled, and that neither the venue nor
    /// the session is killed.
    ///
    /// # Errors
    ///
    /// Returns the reason of the first check that fails.
    #[cold]
    pub fn check_blocks(&self, session: SessionId) -> Result<(), Reject> {
        let Admission { engine, account, .. } = *self;
        match () {
            () if account.is_closed() => Err(Reject::AccountClosed),
            () if engine.blocks.blocks_session(session) || account.is_killed() => Err(Reject::Killed),
            () if account.is_throttled() => Err(Reject::ExecutionThrottle),
            () => Ok(()),
        }
    }

    /// Checks the rule tables (4.4 and 4.5). Returns what an accepted order does next.
    fn check_tables(&self, order: &NewOrder) -> Result<TableAnswer, Reject> {
        let (market, kind, tif) = (self.market, OrderKind::of(order), Tif::of(order.tif));
        if type_cell(kind, tif).answer == TableAnswer::Reject {
            let is_iceberg = kind == OrderKind::Iceberg;
            return Err(if is_iceberg { Reject::DisplayOutOfRange } else { Reject::TifNotAllowedForType });
        }
        let (by_tif, by_kind) = (tif_cell(market.phase, tif).answer, kind_cell(market.phase, kind).answer);
        if by_tif == TableAnswer::Reject || (market.trades_in_batches() && tif == Tif::FillOrKill) {
            return Err(Reject::TifNotAllowedInSession);
        }
        if by_kind == TableAnswer::Reject || (market.trades_in_batches() && kind == OrderKind::Hidden) {
            return Err(Reject::TypeNotAllowedInSession);
        }
        // A CPX market order waits in the closing price cross.
        let waits_in_cross =
            market.phase == Phase::ClosingPriceCross && kind == OrderKind::Market && tif == Tif::ClosingCross;
        Ok(if waits_in_cross { TableAnswer::Active } else { by_tif.min(by_kind) })
    }

    /// Checks that the session of an auction order is still to come (4.6).
    fn check_schedule(&self, tif: Tif) -> Result<(), Reject> {
        let (phase, remaining) = (self.market.phase, self.market.session.remaining);
        let comes = |wanted: Phase| phase == wanted || remaining.holds(wanted);
        let has_session = match tif {
            Tif::OpeningCall => comes(Phase::OpeningCall),
            Tif::ClosingCall => comes(Phase::ClosingCall),
            Tif::IntradayCall => comes(Phase::IntradayCall),
            Tif::ClosingCross => comes(Phase::ClosingPriceCross),
            Tif::AnyCall => phase.is_call() || has_remaining_call(remaining),
            _ => true,
        };
        if has_session { Ok(()) } else { Err(Reject::NoAuctionScheduled) }
    }

    /// Checks post-only and the peak of an iceberg (4.7).
    fn check_special_terms(&self, order: &NewOrder, incoming: &mut IncomingOrder) -> Result<(), Reject> {
        let is_limit = matches!(order.order_type, OrderType::Limit { .. });
        let may_be_displayed = incoming.may_rest && !matches!(order.order_type, OrderType::Hidden { .. });
        let takes_post_only = is_limit && may_be_displayed && self.allows_post_only();
        if order.post_only != PostOnly::No && !takes_post_only {
            return Err(Reject::PostOnlyNotAllowed);
        }
        if order.display.is_some() && !may_be_displayed {
            return Err(Reject::DisplayOutOfRange);
        }
        incoming.peak = peak_of(order.display, incoming.ordered)?;
        self.check_min_display(incoming.peak, incoming.ordered)?;
        Ok(())
    }

    /// Checks the peak of an order of `lots`. An order with a peak of zero is not an iceberg.
    ///
    /// # Errors
    ///
    /// Returns `DisplayOutOfRange`.
    pub fn check_min_display(&self, peak: u32, lots: u32) -> Result<(), Reject> {
        let least = self.market.rules.min_display(Lots(u64::from(lots)));
        let is_small = peak > 0 && Lots(u64::from(peak)) < least && self.engine.rules.has_min_display();
        if is_small { Err(Reject::DisplayOutOfRange) } else { Ok(()) }
    }

    /// Returns whether the order is reduce-only under the rules that the engine follows.
    fn is_reduce_only(&self, order: &NewOrder) -> bool {
        order.reduce_only && self.engine.rules.reads_reduce_only()
    }

    /// Checks a reduce-only order (24.3) and reduces it to its room. A stop is reduced when it
    /// acts.
    fn check_reduce_only(
        &self,
        order: &NewOrder,
        answer: TableAnswer,
        incoming: &mut IncomingOrder,
    ) -> Result<(), Reject> {
        if !self.is_reduce_only(order) {
            return Ok(());
        }
        let Admission { market, account, .. } = *self;
        let is_stop = order.order_type.stop_price().is_some();
        let acts = market.matches_reduce_only(market.phase) && answer != TableAnswer::Park;
        let is_hidden = matches!(order.order_type, OrderType::Hidden { .. });
        let follows_position = !market.spec.is_spot() && market.rules.allocation == Allocation::PriceTime;
        if !follows_position || order.display.is_some() || is_hidden || !(is_stop || acts) {
            return Err(Reject::ReduceOnlyNotAllowed);
        }
        if is_stop {
            return Ok(());
        }
        let room = account.room(market.spec.id, order.side);
        let lots = u32::try_from(room).unwrap_or(u32::MAX).min(incoming.open);
        if lots == 0 {
            return Err(Reject::NothingToReduce);
        }
        (incoming.open, incoming.ordered) = (lots, lots);
        Ok(())
    }

    /// Returns whether the current session allows post-only orders.
    pub fn allows_post_only(&self) -> bool {
        self.market.phase == Phase::Continuous && !self.market.is_batch_market()
    }

    /// Checks the size and minimum execution size of a hidden order (4.8).
    fn check_hidden(&self, order: &NewOrder, incoming: &mut IncomingOrder) -> Result<(), Reject> {
        let OrderType::Hidden { minimum_execution, .. } = order.order_type else { return Ok(()) };
        let minimum_reserve = self.market.rules.minimum_reserve.unwrap_or(Lots::ZERO);
        if order.lots < minimum_reserve {
            return Err(Reject::QuantityBelowReserve);
        }
        incoming.minimum_execution = self.check_minimum_execution(minimum_execution, incoming.open)?;
        Ok(())
    }

    /// Checks the minimum execution size of a hidden order with `open` lots and returns it.
    ///
    /// # Errors
    ///
    /// Returns `MinimumExecutionOutOfRange`.
    pub fn check_minimum_execution(&self, minimum: Lots, open: u32) -> Result<u32, Reject> {
        let least = self.market.rules.minimum_reserve.unwrap_or(Lots::ZERO).max(Lots(1));
        let fits = minimum >= least && minimum <= Lots(u64::from(open));
        u32::try_from(minimum.0).ok().filter(|_| fits).ok_or(Reject::MinimumExecutionOutOfRange)
    }

    /// Checks a limit price against the price band (4.10).
    ///
    /// # Errors
    ///
    /// Returns `PriceOutsideBand`.
    pub fn check_band(&self, price: Option<Ticks>) -> Result<(), Reject> {
        let (band_pct, reference) = (self.market.rules.band_pct, self.market.prices.static_reference);
        let (Some(price), Some(pct), Some(reference)) = (price, band_pct, reference) else { return Ok(()) };
        if within_band(price, reference, pct) { Ok(()) } else { Err(Reject::PriceOutsideBand) }
    }

    /// Bounds an order without a price that will wait. The bound is the edge of the collar; without
    /// a collar, a buy of a limited account gets [`Admission::default_bound`], so that it can
    /// reserve money.
    fn set_bound(&self, order: &mut IncomingOrder) {
        let needs_bound = self.account.is_limited() && order.side == Side::Buy;
        let default = if needs_bound { self.default_bound() } else { None };
        let collar = self.market.spec.limits.collar_bps.map(|bps| self.market.collar_edge(order.side, bps));
        if let Some(bound) = collar.or(default) {
            (order.bound, order.limit) = (bound, bound);
        }
    }

    /// Returns the highest price of a buy without a price and without a collar: the edge of the
    /// price band, or twice the reference.
    fn default_bound(&self) -> Option<Ticks> {
        let band = self.market.rules.band_pct.zip(self.market.prices.static_reference);
        let edge = band.map(|(pct, reference)| {
            let reference = i128::from(reference.0);
            reference + reference * i128::from(pct) / 100
        });
        let bound = edge.or_else(|| self.market.reference().map(|reference| 2 * i128::from(reference.0)))?;
        Some(Ticks(i64::try_from(bound).unwrap_or(i64::MAX).clamp(1, Ticks::MAX_PRICE.0)))
    }

    /// HOT. Checks that the instrument and the account may have one more open order.
    #[inline]
    fn check_capacity(&self) -> Result<(), Reject> {
        if self.market.live_orders() >= self.market.spec.max_resting_orders {
            return Err(Reject::BookFull);
        }
        if self.account.open_orders >= self.account.most_open_orders {
            return Err(Reject::TooManyOpenOrders);
        }
        Ok(())
    }
}

fn has_remaining_call(remaining: RemainingSessions) -> bool {
    Phase::ALL.into_iter().any(|phase| phase.is_scheduled_call() && remaining.holds(phase))
}
