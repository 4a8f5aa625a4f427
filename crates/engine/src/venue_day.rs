//! The venue day of all instruments: its begin, the passing of time and its end.
//!
//! Costs       passing time: the orders that expire; the end of a day: the live orders of all
//!             books.
//! Start at    [`Engine::begin_day`].

use pitwire_model::{CancelReason, Event, OrderId, RemainingSessions, SessionReason, VenueDay, VenueNanos};

use crate::closing_price::ClosingPriceInputs;
use crate::command_end::MarketCommand;
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::market_context::MarketContext;
use crate::rule_tables::Tif;

impl Engine {
    pub(crate) fn begin_day(&mut self, day: VenueDay, closes: VenueNanos, out: &mut impl EventSink) {
        self.clock.set_day(day, closes);
        out.emit(Event::DayBegun { day });
    }

    /// Cancels GTT orders whose time has come. Orders of a call stay until its uncross.
    pub(crate) fn pass_time(&mut self, out: &mut impl EventSink) {
        for instrument in self.markets.ids() {
            let mut context = self.context(instrument);
            let next = context.market.expiries.next();
            if !context.market.phase.is_call() && next.is_some_and(|next| next <= context.clock.now) {
                context.cancel_expired(out);
            }
        }
    }

    pub(crate) fn end_day(&mut self, out: &mut impl EventSink) {
        for instrument in self.markets.ids() {
            let mut context = self.context(instrument);
            context.market.reporting.close(instrument, SessionReason::Scheduled, out);
            context.end_day(out);
        }
        out.emit(Event::DayEnded);
    }
}

impl MarketContext<'_> {
    fn cancel_expired(&mut self, out: &mut impl EventSink) {
        let instrument = self.instrument();
        let due: Vec<OrderId> = self.market.expiries.due(self.clock.now).collect();
        let mut command = MarketCommand::begin(self, out);
        for order in due {
            let MarketContext { market, orders, .. } = &*command.context;
            let slot = orders.get(order).filter(|(of, _)| *of == instrument).map(|(_, slot)| slot);
            if let Some(slot) = slot.filter(|slot| market.tif_at(*slot) == Tif::GoodTillTime) {
                command.cancel(slot, CancelReason::TimeReached);
            }
            command.context.market.expiries.remove(order);
        }
        command.finish();
    }

    /// Ends the venue day of one instrument: parks active GFA orders and cancels those that do not
    /// outlive the day.
    fn end_day(&mut self, out: &mut impl EventSink) {
        let mut command = MarketCommand::begin(self, out);
        let mut has_acted = false;
        for (_, slot) in command.context.market.live_slots(|_, _| true) {
            let MarketContext { market, clock, .. } = &*command.context;
            if market.is_active_gfa(slot) {
                command.context.park(slot, &mut command.out);
            } else if let Some(reason) = market.day_end_reason(slot, clock.day) {
                command.cancel(slot, reason);
            } else {
                continue;
            }
            has_acted = true;
        }
        if has_acted {
            command.finish();
        }
        let prices = &mut self.market.prices;
        prices.previous_close = prices.closing.take().map(|(price, _)| price).or(prices.previous_close);
        self.market.session.remaining = RemainingSessions::default();
        self.market.closing_inputs = ClosingPriceInputs::default();
    }
}
