//! The end of a command that has changed a market: hidden orders that can now trade, stops, the
//! indicative price.
//!
//! Does        uncross hidden orders until nothing more trades; elect and execute stops until none
//!             is elected; emit the indicative price of a call and the new change number.
//! Holds       1. nothing executes after a breach;
//!             2. every loop ends: each turn trades lots, elects a stop or is the last, and a stop
//!                is elected once;
//!             3. `BookChanged` is the last event of a command on an instrument exactly when
//!                another event of it was public.
//! Costs       without hidden orders: a look at the stops; a filter: the prices that it looks at;
//!             an election: the logarithm of the stops, for each elected stop.
//! Start at    [`MarketCommand::begin`], then [`MarketCommand::finish`].

use pitwire_model::{CancelReason, Event, Lots, OrderId, OrderType, Phase};

use crate::auction::CrossExecution;
use crate::book::Slot;
use crate::controls::Breach;
use crate::event_sink::{EventSink, PublicEventTracker};
use crate::incoming::IncomingOrder;
use crate::market::Touch;
use crate::market_context::MarketContext;
use crate::reduce_only::ReduceOnlyLimiter;
use crate::rule_tables::{MatchingMode, session_permissions};
use crate::session_state::IndicativeUncross;
use crate::undisplayed::UndisplayedState;

/// A command on one market, from its first change to its change number.
pub(crate) struct MarketCommand<'c, 'a, 's, S> {
    pub context: &'c mut MarketContext<'a>,
    pub out: PublicEventTracker<'s, S>,
    /// The best prices before the command. A filter runs only if they have changed; `None` makes it
    /// run in any case.
    touch: Option<Touch>,
}

impl<'c, 'a, 's, S: EventSink> MarketCommand<'c, 'a, 's, S> {
    /// Begins a command whose end runs filters if the best prices have changed.
    pub fn begin(context: &'c mut MarketContext<'a>, out: &'s mut S) -> Self {
        let touch = Some(context.market.touch());
        MarketCommand { context, out: PublicEventTracker::new(out), touch }
    }

    /// Begins a command whose end runs filters in any case.
    pub fn begin_with_filter(context: &'c mut MarketContext<'a>, out: &'s mut S) -> Self {
        MarketCommand { context, out: PublicEventTracker::new(out), touch: None }
    }

    /// Cancels a live order, displayed or not.
    pub fn cancel(&mut self, slot: Slot, reason: CancelReason) {
        self.context.cancel_live(slot, reason, &mut self.out);
    }

    /// Ends the command's work on the instrument.
    pub fn finish(mut self) {
        if !self.context.market.plain {
            self.finish_special();
        }
        if self.out.saw_public_event() {
            self.context.emit_book_changed(&mut self.out);
        }
    }

    #[cold]
    fn finish_special(&mut self) {
        follow_positions(self.context, &mut self.out);
        if self.context.market.phase == Phase::Continuous {
            self.finish_continuous();
        }
        if self.context.market.collects_orders() && !self.context.market.session.missed {
            self.update_indicative();
        }
        self.context.market.undisplayed.arrivals.clear();
        self.context.market.update_plain();
    }

    /// Emits the indicative price of a call or batch if it has changed.
    fn update_indicative(&mut self) {
        let now = self.context.market.indicative_uncross();
        if self.context.market.session.indicative != now {
            self.context.emit_indicative(now, &mut self.out);
        }
    }

    fn finish_continuous(&mut self) {
        let finished = if self.context.market.trades_in_batches() {
            self.elect_into_batch();
            Ok(())
        } else {
            self.filter_and_elect()
        };
        if let Err(breach) = finished {
            self.out.emit(breach.event(self.context.instrument()));
            self.context.start_volatility_call(&mut self.out);
        }
        self.context.market.undisplayed.arrivals.clear();
    }

    /// Elected stops join the next batch.
    fn elect_into_batch(&mut self) {
        while self.context.elect_stops(&mut self.out) {
            self.context.execute_elected_stops(&mut self.out);
        }
    }

    fn filter_and_elect(&mut self) -> Result<(), Breach> {
        let MarketCommand { context, out, touch: last_touch } = self;
        filter_arrivals(context, out)?;
        loop {
            let touch_changed = Some(context.market.touch()) != *last_touch;
            if context.market.undisplayed.has_hidden() && touch_changed {
                while context.filter(None, out)? {
                    follow_positions(context, out);
                }
            }
            *last_touch = Some(context.market.touch());
            if !context.elect_stops(out) {
                return Ok(());
            }
            context.execute_elected_stops(out);
            if context.market.phase != Phase::Continuous {
                return Ok(());
            }
            follow_positions(context, out);
        }
    }
}

/// Runs filters for the hidden orders that this command has brought in, as long as each order
/// trades in its filter.
fn filter_arrivals<S: EventSink>(
    context: &mut MarketContext<'_>,
    out: &mut PublicEventTracker<'_, S>,
) -> Result<(), Breach> {
    while let Some(order) = context.market.undisplayed.arrivals.pop() {
        while context.is_hidden_order(order) && context.filter(Some(order), out)? {
            follow_positions(context, out);
        }
    }
    Ok(())
}

/// Reduces the reduce-only orders of the accounts that have traded since the last call.
fn follow_positions<S: EventSink>(context: &mut MarketContext<'_>, out: &mut PublicEventTracker<'_, S>) {
    let traded = out.take_traded();
    ReduceOnlyLimiter { context }.follow_positions(traded, out);
}

impl MarketContext<'_> {
    pub fn emit_indicative(&mut self, now: IndicativeUncross, out: &mut impl EventSink) {
        self.market.session.indicative = now;
        let (instrument, price, volume) = (self.instrument(), now.price, Lots(now.volume));
        out.emit(Event::Indicative { instrument, price, volume, imbalance: now.imbalance });
    }

    /// Returns whether the order is an active hidden order.
    fn is_hidden_order(&self, order: OrderId) -> bool {
        let order = self.orders.get(order).and_then(|(_, slot)| self.market.undisplayed.get(slot));
        order.is_some_and(|order| order.state == UndisplayedState::Hidden)
    }

    /// Elects all stops whose condition holds, as one group. Each gets a new time, and waits in
    /// order of election for [`MarketContext::execute_elected_stops`]. Returns whether there was
    /// any.
    pub fn elect_stops(&mut self, out: &mut impl EventSink) -> bool {
        let (instrument, Some(last)) = (self.instrument(), self.market.last) else { return false };
        let triggered: Vec<Slot> = self.market.undisplayed.triggered_stops(last).collect();
        for slot in &triggered {
            let time = self.clock.next_priority();
            let elected = self.market.undisplayed.update(*slot, |stop| {
                stop.state = UndisplayedState::Elected;
                stop.origin.time = time;
                stop.order_type = match stop.order_type {
                    OrderType::StopLimit { price, .. } => OrderType::Limit { price },
                    OrderType::Stop { .. } => OrderType::Market,
                    other => other,
                };
            });
            if let Some(stop) = elected {
                out.emit(Event::Triggered { order: stop.id, account: stop.account, instrument, last });
            }
        }
        !triggered.is_empty()
    }

    /// Executes elected stops in order of election (rulebook 5.2, step 10). After a breach, the
    /// others join the call.
    pub fn execute_elected_stops(&mut self, out: &mut impl EventSink) {
        while let Some(order) = self.take_elected_stop(out) {
            if self.market.phase == Phase::Continuous && !self.market.trades_in_batches() {
                self.match_with_controls(&order, out);
            } else {
                self.add_elected_stop(&order, out);
            }
        }
    }

    /// Removes the first elected stop and returns it as an incoming order. Cancels reduce-only
    /// stops that come before it and have nothing to reduce.
    pub fn take_elected_stop(&mut self, out: &mut impl EventSink) -> Option<IncomingOrder> {
        loop {
            let slot = self.market.undisplayed.elected().next()?;
            let order = self.remove_undisplayed(slot)?;
            let order = self.as_incoming(&order);
            if let Some(order) = (ReduceOnlyLimiter { context: self }).reduce_elected(order, out) {
                return Some(order);
            }
        }
    }

    /// Adds an elected stop to a session that does not match it on entry. The stop waits or rests,
    /// or is cancelled if it can do neither.
    pub fn add_elected_stop(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let may_rest = order.origin.tif.may_rest();
        match session_permissions(self.market.phase).matching {
            MatchingMode::Continuous if !order.fill_or_kill => self.add_unmatched(order, out),
            MatchingMode::ClosingPrice => CrossExecution::enter(self, order, out),
            MatchingMode::Uncross if may_rest => self.add_unmatched(order, out),
            MatchingMode::Nothing if may_rest && !order.is_market() => self.add_unmatched(order, out),
            _ => out.emit(order.cancelled(order.open, CancelReason::NothingExecutes)),
        }
    }

    /// Matches an order as the current session does, or adds it unmatched.
    pub fn match_in_session(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        match session_permissions(self.market.phase).matching {
            MatchingMode::Continuous if !self.market.trades_in_batches() => self.match_with_controls(order, out),
            MatchingMode::ClosingPrice => CrossExecution::enter(self, order, out),
            MatchingMode::Continuous | MatchingMode::Uncross | MatchingMode::Nothing => self.add_unmatched(order, out),
        }
    }
}
