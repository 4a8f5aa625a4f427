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
//! Start at    [`MarketContext::finish_command`].

use pitwire_model::{CancelReason, Event, Lots, OrderId, OrderType, Phase};

use crate::book::Slot;
use crate::controls::Breach;
use crate::event_sink::{EventSink, PublicEventTracker};
use crate::incoming::IncomingOrder;
use crate::market::Touch;
use crate::market_context::MarketContext;
use crate::rule_tables::{MatchingMode, session_permissions};
use crate::session_state::IndicativeUncross;
use crate::undisplayed::UndisplayedState;

impl MarketContext<'_> {
    /// Ends a command's work on the instrument. `touch` holds the best prices before the command;
    /// `None` makes a filter run whether or not they have changed.
    pub fn finish_command<S: EventSink>(&mut self, touch: Option<Touch>, out: &mut PublicEventTracker<'_, S>) {
        if !self.market.plain {
            self.finish_special_command(touch, out);
        }
        if out.saw_public_event() {
            self.emit_book_changed(out);
        }
    }

    #[cold]
    fn finish_special_command<S: EventSink>(&mut self, touch: Option<Touch>, out: &mut PublicEventTracker<'_, S>) {
        if self.market.phase == Phase::Continuous {
            self.finish_continuous(touch, out);
        }
        if self.market.collects_orders() && !self.market.session.missed {
            self.update_indicative(out);
        }
        self.market.undisplayed.arrivals.clear();
        self.market.update_plain();
    }

    /// Emits the indicative price of a call or batch if it has changed.
    fn update_indicative(&mut self, out: &mut impl EventSink) {
        let now = self.market.indicative_uncross();
        if self.market.session.indicative != now {
            self.emit_indicative(now, out);
        }
    }

    pub fn emit_indicative(&mut self, now: IndicativeUncross, out: &mut impl EventSink) {
        self.market.session.indicative = now;
        let (instrument, price, volume) = (self.instrument(), now.price, Lots(now.volume));
        out.emit(Event::Indicative { instrument, price, volume, imbalance: now.imbalance });
    }

    fn finish_continuous(&mut self, touch: Option<Touch>, out: &mut impl EventSink) {
        let finished = if self.market.trades_in_batches() {
            self.elect_into_batch(out);
            Ok(())
        } else {
            self.filter_and_elect(touch, out)
        };
        if let Err(breach) = finished {
            out.emit(breach.event(self.instrument()));
            self.start_volatility_call(out);
        }
        self.market.undisplayed.arrivals.clear();
    }

    /// Elected stops join the next batch.
    fn elect_into_batch(&mut self, out: &mut impl EventSink) {
        while self.elect_stops(out) {
            self.execute_elected_stops(out);
        }
    }

    fn filter_and_elect(&mut self, mut last_touch: Option<Touch>, out: &mut impl EventSink) -> Result<(), Breach> {
        self.filter_arrivals(out)?;
        loop {
            let touch_changed = Some(self.market.touch()) != last_touch;
            if self.market.undisplayed.has_hidden() && touch_changed {
                while self.filter(None, out)? {}
            }
            last_touch = Some(self.market.touch());
            if !self.elect_stops(out) {
                return Ok(());
            }
            self.execute_elected_stops(out);
            if self.market.phase != Phase::Continuous {
                return Ok(());
            }
        }
    }

    /// Runs filters for the hidden orders that this command has brought in, as long as each order
    /// trades in its filter.
    fn filter_arrivals(&mut self, out: &mut impl EventSink) -> Result<(), Breach> {
        while let Some(order) = self.market.undisplayed.arrivals.pop() {
            while self.is_hidden_order(order) && self.filter(Some(order), out)? {}
        }
        Ok(())
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
        while let Some(order) = self.take_elected_stop() {
            if self.market.phase == Phase::Continuous && !self.market.trades_in_batches() {
                self.match_with_controls(&order, out);
            } else {
                self.add_elected_stop(&order, out);
            }
        }
    }

    /// Removes the first elected stop and returns it as an incoming order.
    pub fn take_elected_stop(&mut self) -> Option<IncomingOrder> {
        let slot = self.market.undisplayed.elected().next()?;
        let order = self.remove_undisplayed(slot)?;
        Some(self.as_incoming(&order))
    }

    /// Adds an elected stop to a session that does not match it on entry. The stop waits or rests,
    /// or is cancelled if it can do neither.
    pub fn add_elected_stop(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let may_rest = order.origin.tif.may_rest();
        match session_permissions(self.market.phase).matching {
            MatchingMode::Continuous if !order.fill_or_kill => self.add_unmatched(order, out),
            MatchingMode::ClosingPrice => self.enter_cross(order, out),
            MatchingMode::Uncross if may_rest => self.add_unmatched(order, out),
            MatchingMode::Nothing if may_rest && !order.is_market() => self.add_unmatched(order, out),
            _ => out.emit(order.cancelled(order.open, CancelReason::NothingExecutes)),
        }
    }

    /// Matches an order as the current session does, or adds it unmatched.
    pub fn match_in_session(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        match session_permissions(self.market.phase).matching {
            MatchingMode::Continuous if !self.market.trades_in_batches() => self.match_with_controls(order, out),
            MatchingMode::ClosingPrice => self.enter_cross(order, out),
            MatchingMode::Continuous | MatchingMode::Uncross | MatchingMode::Nothing => self.add_unmatched(order, out),
        }
    }
}
