//! The state of one instrument: definition, session, book, counters and prices.
//!
//! Does        hold what one instrument owns; keep [`Market::plain`] and the auction curve up to
//!             date.
//! Holds       `plain` is true only while an order without special terms can be matched by looking
//!             at the displayed book alone.
//! Leaves out  what commands do: `continuous`, `session_change`, `auction`. Live orders:
//!             `live_orders`.
//! Start at    [`Market`].

use std::collections::BTreeSet;

use pitwire_model::{
    Allocation, Bust, Derivation, InstrumentLimits, InstrumentSpec, Lots, OrderId, Phase, Reject, RemainingSessions,
    Side, Ticks, Tolerance, TradeSeq, TradingRules, VenueNanos,
};

use crate::auction::{AuctionCurve, AuctionState};
use crate::book::{Book, OrderOrigin};
use crate::closing_price::ClosingPriceInputs;
use crate::controls::{BestPrices, Breach, ReferencePrices};
use crate::definition_checks::check_rules;
use crate::expiry_times::ExpiryTimes;
use crate::order_checks::check_price;
use crate::position_room::ReduceOnlyOrders;
use crate::reporting::Reporting;
use crate::rule_tables::{MatchingMode, session_permissions};
use crate::session_state::{IndicativeUncross, SessionState, StoredPrices};
use crate::settlement_terms::SettlementTerms;
use crate::undisplayed::UndisplayedOrders;

/// Best displayed price of each side and the displayed quantity there.
pub(crate) type Touch = [Option<(Ticks, u64)>; 2];

#[derive(Debug)]
pub struct Market {
    pub spec: InstrumentSpec,
    pub(crate) settlement: SettlementTerms,
    pub(crate) phase: Phase,
    /// Whether the instrument trades continuously by price and time, with no hidden orders, stops,
    /// displayed reduce-only orders, price band or tolerances. An order without special terms then
    /// meets the displayed book and nothing else.
    pub(crate) plain: bool,
    /// Whether any limit is set, so that an order has to be checked against the limits.
    pub(crate) limited: bool,
    pub(crate) book: Book<OrderOrigin>,
    /// Number of the last change of public state.
    pub(crate) change_id: u64,
    pub(crate) trades: TradeSeq,
    pub(crate) last: Option<Ticks>,
    pub(crate) index: Ticks,
    pub(crate) mark: Ticks,
    /// Trades that an operator has busted.
    pub(crate) busted: BTreeSet<TradeSeq>,
    pub(crate) closing_inputs: ClosingPriceInputs,
    /// Number of orders in `undisplayed`, stored here for the checks of new orders.
    pub(crate) undisplayed_count: u32,
    pub(crate) rules: Box<TradingRules>,
    // What follows is boxed: orders of a plain market read none of it.
    pub(crate) undisplayed: Box<UndisplayedOrders>,
    pub(crate) reduce_only: Box<ReduceOnlyOrders>,
    pub(crate) expiries: Box<ExpiryTimes>,
    pub(crate) session: Box<SessionState>,
    pub(crate) prices: Box<StoredPrices>,
    pub(crate) auction: Box<AuctionState>,
    pub(crate) reporting: Box<Reporting>,
}

impl Market {
    pub(crate) fn new(spec: InstrumentSpec, settlement: SettlementTerms) -> Self {
        let start = spec.start_price;
        let rules = spec.rules.clone().unwrap_or_default();
        Market {
            limited: spec.limits != InstrumentLimits::default(),
            spec,
            settlement,
            phase: Phase::Closed,
            plain: false,
            book: Book::new(),
            change_id: 0,
            trades: TradeSeq::ZERO,
            last: None,
            index: start,
            mark: start,
            busted: BTreeSet::new(),
            closing_inputs: ClosingPriceInputs::default(),
            undisplayed_count: 0,
            rules,
            undisplayed: Box::default(),
            reduce_only: Box::default(),
            expiries: Box::default(),
            session: Box::default(),
            prices: Box::new(StoredPrices { static_reference: Some(start), ..StoredPrices::default() }),
            auction: Box::default(),
            reporting: Box::default(),
        }
    }

    /// Sets new trading rules. Resting orders stay as they are. The allocation can only change
    /// while the market is quiet.
    ///
    /// # Errors
    /// `BadDefinition` or `SessionNotAllowed`.
    pub(crate) fn set_trading_rules(&mut self, rules: &TradingRules) -> Result<(), Reject> {
        check_rules(rules)?;
        if rules.allocation != self.rules.allocation && !self.phase.is_quiet() {
            return Err(Reject::SessionNotAllowed);
        }
        (*self.rules).clone_from(rules);
        self.spec.rules = Some(self.rules.clone());
        self.update_plain();
        Ok(())
    }

    /// Sets an operator's closing price. Refused once the closing price cross has begun.
    ///
    /// # Errors
    /// `SessionNotAllowed` or `PriceOutOfRange`.
    pub(crate) fn set_closing_price(&mut self, price: Ticks) -> Result<Derivation, Reject> {
        if matches!(self.phase, Phase::ClosingPriceCross | Phase::PostClose | Phase::Closed) {
            return Err(Reject::SessionNotAllowed);
        }
        check_price(Some(price))?;
        self.prices.closing = Some((price, Derivation::Manual));
        Ok(Derivation::Manual)
    }

    /// Moves the expected end of the current call. Returns the call.
    ///
    /// # Errors
    /// `SessionNotAllowed` if no call is running, or if `ends` is in the past.
    pub(crate) fn extend_call(&mut self, ends: VenueNanos, now: VenueNanos) -> Result<Phase, Reject> {
        if !self.phase.is_call() || ends < now {
            return Err(Reject::SessionNotAllowed);
        }
        self.session.ends = Some(ends);
        Ok(self.phase)
    }

    /// Records that a trade was busted. A trade can be busted once. Returns its lots.
    ///
    /// # Errors
    /// `UnknownTrade`, `AlreadyBusted` or `BadDefinition`.
    pub(crate) fn record_bust(&mut self, bust: &Bust) -> Result<u32, Reject> {
        if !(1..=self.trades.0).contains(&bust.trade_seq.0) {
            return Err(Reject::UnknownTrade);
        }
        if self.busted.contains(&bust.trade_seq) {
            return Err(Reject::AlreadyBusted);
        }
        let has_price = (1..=Ticks::MAX_PRICE.0).contains(&bust.price.0);
        let lots = u32::try_from(bust.lots.0).ok().filter(|_| has_price && bust.lots > Lots::ZERO);
        let lots = lots.ok_or(Reject::BadDefinition)?;
        self.busted.insert(bust.trade_seq);
        self.closing_inputs.remove_busted(bust);
        Ok(lots)
    }

    /// Recomputes [`Market::plain`]. Called after every change of anything that it depends on.
    pub(crate) fn update_plain(&mut self) {
        self.plain = self.phase == Phase::Continuous
            && self.rules.allocation == Allocation::PriceTime
            && self.rules.tolerance(Phase::Continuous) == Tolerance::default()
            && self.rules.band_pct.is_none()
            && self.prices.dynamic_reference.is_none()
            && !self.undisplayed.has_hidden()
            && self.reduce_only.is_empty()
            && !self.undisplayed.has_stops();
    }

    /// Returns whether the instrument currently trades in frequent batches.
    pub(crate) fn trades_in_batches(&self) -> bool {
        self.phase == Phase::Continuous && self.is_batch_market()
    }

    /// Returns whether continuous trading of the instrument takes place in frequent batches.
    pub(crate) fn is_batch_market(&self) -> bool {
        self.rules.allocation == Allocation::FrequentBatch
    }

    /// Returns whether orders currently collect for one price, in a call or a batch.
    pub(crate) fn collects_orders(&self) -> bool {
        session_permissions(self.phase).matching == MatchingMode::Uncross || self.trades_in_batches()
    }

    /// Returns whether the best displayed bid is at or above the best displayed offer.
    pub(crate) fn is_crossed(&self) -> bool {
        let (bid, offer) = (self.book.best_price(Side::Buy), self.book.best_price(Side::Sell));
        bid.zip(offer).is_some_and(|(bid, offer)| bid >= offer)
    }

    /// Records the price of a trade. The closing price cross does not change the last price.
    pub(crate) fn set_last_price(&mut self, price: Ticks) {
        self.last = Some(price);
        self.prices.dynamic_reference = None;
    }

    /// Records the price of a finished call. A volatility call that continued the closing call
    /// counts as one.
    pub(crate) fn record_call_price(&mut self, call: Phase, price: Option<Ticks>) {
        if call == Phase::ClosingCall || self.session.continues == Some(Phase::ClosingCall) {
            self.closing_inputs.closing_call = price.or(self.closing_inputs.closing_call);
        }
    }

    /// Updates the auction curve after a change of `lots` in the open quantity of an active
    /// displayed or market order. `price` is `None` for an unbounded market order.
    pub(crate) fn change_curve(&mut self, side: Side, price: Option<Ticks>, lots: i64) {
        if let Some(curve) = &mut self.auction.curve {
            curve.change(side, price, lots);
        }
    }

    /// Rebuilds the auction state after a change of session or a restore.
    pub(crate) fn restart_auction_state(&mut self) {
        self.auction.curve = self.collects_orders().then(|| self.collected_orders());
        self.auction.cross = None;
    }

    /// Builds the auction curve from all active displayed and market orders. Costs all of them.
    pub(crate) fn collected_orders(&self) -> AuctionCurve {
        let mut curve = AuctionCurve::default();
        for side in Side::BOTH {
            for (price, lots) in self.book.total_levels(side) {
                curve.change(side, Some(price), i64::try_from(lots).unwrap_or(i64::MAX));
            }
            for slot in self.undisplayed.unpriced(side) {
                if let Some(order) = self.undisplayed.get(slot) {
                    curve.change(side, order.ranking_price(), i64::from(order.open));
                }
            }
        }
        curve
    }

    /// Halts the instrument with the least possible effect: nothing executes, expires or is
    /// announced. The end of a running call is deferred.
    pub(crate) fn halt_immediately(&mut self) {
        if self.phase == Phase::Halted {
            return;
        }
        if self.phase.is_call() && !self.session.missed {
            self.session.defer_call_end(self.phase);
        }
        self.phase = Phase::Halted;
        self.session.ends = None;
        self.session.missed = false;
        self.session.continues = None;
        self.session.indicative = IndicativeUncross::default();
        self.restart_auction_state();
        self.update_plain();
    }

    /// Returns the tolerance for the uncross of the current call. The volatility call has none.
    pub(crate) fn call_tolerance(&self) -> Tolerance {
        if self.phase == Phase::VolatilityCall { Tolerance::default() } else { self.rules.tolerance(self.phase) }
    }

    /// Returns the best displayed prices.
    pub(crate) fn best_prices(&self) -> BestPrices {
        BestPrices { bid: self.book.best_price(Side::Buy), offer: self.book.best_price(Side::Sell) }
    }

    pub(crate) fn touch(&self) -> Touch {
        let best = |side: Side| self.best(side).map(|(price, lots)| (price, lots.0));
        [best(Side::Buy), best(Side::Sell)]
    }

    /// Returns the reference prices against which execution prices are tested.
    pub(crate) fn reference_prices(&self) -> ReferencePrices {
        ReferencePrices { fixed: self.prices.static_reference, dynamic: self.dynamic_reference() }
    }

    /// Returns the breach if an execution at `price` would reach `tolerance`.
    pub(crate) fn breach(&self, tolerance: Tolerance, price: Ticks) -> Option<Breach> {
        self.reference_prices().test(tolerance, price)
    }

    /// Returns the price at which the closing price cross trades.
    pub(crate) fn cross_price(&self) -> Option<Ticks> {
        self.prices.closing.map(|(price, _)| price).or(self.prices.previous_close)
    }

    /// Returns the price of the latest uncross of a call; the start price before the first one.
    pub fn static_reference(&self) -> Option<Ticks> {
        self.prices.static_reference
    }

    /// Returns the last price; before the first trade, the price that was set up.
    pub fn dynamic_reference(&self) -> Option<Ticks> {
        self.prices.dynamic_reference.or(self.last)
    }

    /// Returns the price that calls and filters use to choose between equally good prices.
    pub fn reference(&self) -> Option<Ticks> {
        self.last.or(self.prices.static_reference)
    }

    pub fn rules(&self) -> &TradingRules {
        &self.rules
    }

    /// Returns when the current session is expected to end.
    pub fn ends(&self) -> Option<VenueNanos> {
        self.session.ends
    }

    pub fn remaining(&self) -> RemainingSessions {
        self.session.remaining
    }

    /// Returns the closing price of the day and how it was derived.
    pub fn closing(&self) -> Option<(Ticks, Derivation)> {
        self.prices.closing
    }

    pub fn previous_close(&self) -> Option<Ticks> {
        self.prices.previous_close
    }

    /// Returns the price of the latest uncross of a call or batch.
    pub fn uncross_price(&self) -> Option<Ticks> {
        self.prices.uncross_price
    }

    pub fn reporting(&self) -> &Reporting {
        &self.reporting
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn book(&self) -> &Book<OrderOrigin> {
        &self.book
    }

    /// Stops that have been elected and not executed, in order of election.
    pub fn elected_stops(&self) -> impl Iterator<Item = OrderId> {
        self.undisplayed.elected().filter_map(|slot| self.undisplayed.get(slot)).map(|order| order.id)
    }

    pub fn change_id(&self) -> u64 {
        self.change_id
    }

    pub fn trades(&self) -> TradeSeq {
        self.trades
    }

    pub fn last(&self) -> Option<Ticks> {
        self.last
    }

    /// Returns the last sampled index price of a perpetual; the start price of any other
    /// instrument.
    pub fn index(&self) -> Ticks {
        self.index
    }

    /// Returns the last sampled mark price of a perpetual.
    pub fn mark(&self) -> Ticks {
        self.mark
    }

    /// Returns the best displayed price of a side and the displayed quantity there.
    pub fn best(&self, side: Side) -> Option<(Ticks, Lots)> {
        self.book.best_price(side).map(|price| (price, self.book.lots_at(side, price)))
    }

    /// Returns the midpoint in ticks, rounded down. If a side is empty, returns the last price or
    /// the start price.
    pub fn mid(&self) -> Ticks {
        match (self.book.best_price(Side::Buy), self.book.best_price(Side::Sell)) {
            (Some(bid), Some(ask)) => Ticks((bid.0 + ask.0).div_euclid(2)),
            _ => self.last.unwrap_or(self.spec.start_price),
        }
    }

    /// Returns the volume-weighted average price of the displayed orders of a side, rounded down.
    pub fn book_vwap(&self, side: Side) -> Option<Ticks> {
        let (lots, tick_lots) = self.book.levels(side).fold((0_i128, 0_i128), |sums, (price, lots)| {
            let lots = i128::from(lots.0);
            (sums.0 + lots, sums.1 + lots * i128::from(price.0))
        });
        i64::try_from(tick_lots.checked_div(lots)?).ok().map(Ticks)
    }

    /// Returns whether hidden orders can trade here. The session scheduler then runs filters from
    /// time to time.
    pub fn has_hidden_orders(&self) -> bool {
        self.undisplayed.has_hidden()
    }
}
