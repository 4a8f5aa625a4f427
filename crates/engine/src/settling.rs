//! What a command leaves behind in continuous trading: hidden orders that can now trade, stops that are elected.
//!
//! Does        filter and uncross until nothing more trades; elect stops, let each act, and so on until none is elected.
//! Holds       1. nothing executes after a breach;
//!             2. nothing recurses: each turn of a loop trades, elects or ends; a stop is elected once, a trade takes lots
//!                away, so that there are at most as many turns as lots and stops.
//! Costs       a market without hidden orders: a look at the stops; a filter costs the region it looks at; an election the
//!             logarithm of the stops for each elected.
//! Start at    `Engine::settle`.

use pitwire_model::{Event, InstrumentId, OrderId, OrderType, Phase};

use crate::book::Slot;
use crate::controls::Breach;
use crate::engine::{Engine, EventSink};
use crate::live::Touch;
use crate::special::UndisplayedState;

impl Engine {
    /// Ends every command that has acted on an instrument in continuous trading; `remembered` is the touch before it did,
    /// `None` where there is none to remember.
    pub(crate) fn settle(&mut self, instrument: InstrumentId, remembered: Option<Touch>, out: &mut impl EventSink) {
        let market = &self.markets[instrument.0 as usize];
        if market.phase == Phase::Continuous {
            let settled = if market.batches() {
                self.settle_batch(instrument, out)
            } else {
                self.settle_book(instrument, remembered, out)
            };
            if let Err(breach) = settled {
                out.emit(breach.event(instrument));
                self.breaker_call(instrument, out);
            }
        }
        self.markets[instrument.0 as usize].special.arrivals.clear();
    }

    /// Elected stops join the next batch.
    fn settle_batch(&mut self, instrument: InstrumentId, out: &mut impl EventSink) -> Result<(), Breach> {
        while self.elect(instrument, out) {
            self.act_elected(instrument, out);
        }
        Ok(())
    }

    fn settle_book(
        &mut self,
        instrument: InstrumentId,
        mut remembered: Option<Touch>,
        out: &mut impl EventSink,
    ) -> Result<(), Breach> {
        self.uncross_arrivals(instrument, out)?;
        loop {
            let market = &self.markets[instrument.0 as usize];
            let touched = Some(market.touch()) != remembered;
            if market.special.has_hidden() && touched {
                while self.filter(instrument, None, out)? {}
            }
            remembered = Some(self.markets[instrument.0 as usize].touch());
            if !self.elect(instrument, out) {
                return Ok(());
            }
            self.act_elected(instrument, out);
            if self.markets[instrument.0 as usize].phase != Phase::Continuous {
                return Ok(());
            }
        }
    }

    /// Hidden orders that this command brought in trade as long as each gets something itself.
    fn uncross_arrivals(&mut self, instrument: InstrumentId, out: &mut impl EventSink) -> Result<(), Breach> {
        while let Some(order) = self.markets[instrument.0 as usize].special.arrivals.pop() {
            while self.hides(instrument, order) && self.filter(instrument, Some(order), out)? {}
        }
        Ok(())
    }

    /// Whether an order rests here, unseen.
    fn hides(&self, instrument: InstrumentId, order: OrderId) -> bool {
        let special = &self.markets[instrument.0 as usize].special;
        let kept = self.orders.get(order).and_then(|(_, slot)| special.get(slot));
        kept.is_some_and(|kept| kept.place == UndisplayedState::Hidden)
    }

    /// Elects all stops whose condition holds, as one batch: each says so and gets a new time. They wait, in the order of
    /// election, for `act_elected`. Says whether there was any.
    pub(crate) fn elect(&mut self, instrument: InstrumentId, out: &mut impl EventSink) -> bool {
        let market = &self.markets[instrument.0 as usize];
        let Some(last) = market.last else { return false };
        let due: Vec<Slot> = market.special.unelected_due(last).collect();
        for slot in &due {
            let time = self.next_time();
            let special = &mut self.markets[instrument.0 as usize].special;
            let elected = special.relocate(*slot, |stop| {
                stop.place = UndisplayedState::Elected;
                stop.origin.time = time;
                stop.kind = match stop.kind {
                    OrderType::StopLimit { price, .. } => OrderType::Limit { price },
                    OrderType::Stop { .. } => OrderType::Market,
                    other => other,
                };
            });
            if let Some(stop) = elected {
                out.emit(Event::Triggered { order: stop.id, account: stop.account, instrument, last });
            }
        }
        !due.is_empty()
    }
}
