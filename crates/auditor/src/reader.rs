//! Reads the events of one command in order.
//!
//! Does        return one event after another, and check level events, which may stand between any
//!             two other events.
//! Holds       1. a level event states a level that changed, as it is at that moment, and every
//!                changed level is published;
//!             2. events that a trade requires (an iceberg refill, a tripped throttle, a remainder
//!                below its minimum) come before any other event.
//! Start at    [`EventReader::peek`].

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{AccountId, Event, InstrumentId, Lots, OrderId, Side, Ticks, TradeKind};

use crate::model::VenueModel;
use crate::orders::{LiveOrder, LiveOrderState};
use crate::violation::{BrokenPromise, CheckResult, Promise, fail};

/// A cursor over the events of one command.
#[derive(Debug)]
pub struct EventReader<'a> {
    events: &'a [Event],
    next: usize,
    /// Levels that changed since they were last published, with the quantity published then.
    unpublished: BTreeMap<(InstrumentId, Side, Ticks), u64>,
    /// The instrument that has had a public event since its last change number.
    changed: Option<InstrumentId>,
    /// Accounts whose throttle a fill has tripped, in the order in which the events must come.
    pub trips: VecDeque<AccountId>,
}

impl<'a> EventReader<'a> {
    pub fn new(events: &'a [Event]) -> Self {
        EventReader { events, next: 0, unpublished: BTreeMap::new(), changed: None, trips: VecDeque::new() }
    }

    /// Notes that a level changes. `before` is the quantity before the change. It is ignored if an
    /// earlier change of the level is still unpublished.
    pub fn note_level(&mut self, level: (InstrumentId, Side, Ticks), before: u64) {
        self.unpublished.entry(level).or_insert(before);
    }

    /// Returns the next event, including level events.
    pub fn next_event(&self) -> Option<&'a Event> {
        self.events.get(self.next)
    }

    /// Consumes the next event.
    pub fn advance(&mut self) {
        let Some(event) = self.events.get(self.next) else { return };
        self.next += 1;
        if let (true, Some(instrument)) = (event.is_public(), instrument_with_change_number(event)) {
            self.changed = Some(instrument);
        }
    }

    /// Whether a public event of this instrument requires a change number.
    pub fn needs_change_number(&self, instrument: InstrumentId) -> bool {
        self.changed == Some(instrument)
    }

    /// Forgets the level changes and the change number of the instrument that was just checked.
    pub fn finish_instrument(&mut self) {
        self.unpublished.clear();
        self.changed = None;
    }

    /// Returns the next event that is not a level event. Checks level events before it against the
    /// book as it is now, and consumes them.
    ///
    /// # Errors
    /// F2 if a level event names an unknown instrument.
    pub fn peek(&mut self, model: &VenueModel) -> CheckResult<Option<&'a Event>> {
        while let Some(event) = self.events.get(self.next) {
            let Event::Level { instrument, side, price, lots } = *event else { return Ok(Some(event)) };
            let Some(market) = model.markets.get(instrument.0 as usize) else {
                fail!(F2, "a level of unknown instrument {instrument} was published");
            };
            let shows = market.book.level(side, price);
            // The level may still change before this event is due.
            if lots.0 != shows || self.unpublished.remove(&(instrument, side, price)).is_none() {
                return Ok(Some(event));
            }
            self.advance();
        }
        Ok(None)
    }

    /// Consumes the level event of an order that leaves its level before it returns. The event is
    /// optional.
    pub fn allow_level_left(&mut self, model: &VenueModel, order: &LiveOrder) {
        let shows = model.market(order.instrument).book.level(order.side, order.price);
        let left =
            Event::Level { instrument: order.instrument, side: order.side, price: order.price, lots: Lots(shows) };
        if order.is_visible() && self.next_event() == Some(&left) {
            self.unpublished.insert((order.instrument, order.side, order.price), shows);
            self.advance();
        }
    }

    /// Consumes the next event, which must be `expected`.
    ///
    /// # Errors
    /// S1 if another event comes, or none.
    pub fn expect_event(&mut self, model: &VenueModel, expected: &Event) -> CheckResult {
        match self.peek(model)? {
            Some(actual) if actual == expected => self.advance(),
            Some(actual) => fail!(S1, "expected {expected:?}, found {actual:?}"),
            None => fail!(S1, "expected {expected:?}, found no further event"),
        }
        Ok(())
    }

    /// Checks that the command has no further event.
    ///
    /// # Errors
    /// The promise that the next event breaks, or F2 for a level change that was not published.
    pub fn expect_end(&mut self, model: &VenueModel) -> CheckResult {
        if let Some(event) = self.peek(model)? {
            return Err(unexpected_event(model, event));
        }
        self.check_levels(model)
    }

    /// # Errors
    /// F2 if a level changed and no event published it.
    pub fn check_levels(&self, model: &VenueModel) -> CheckResult {
        for ((instrument, side, price), before) in &self.unpublished {
            let shows = model.market(*instrument).book.level(*side, *price);
            if shows != *before {
                fail!(F2, "the {side:?} level {price} of instrument {instrument} changed and was not published");
            }
        }
        Ok(())
    }

    /// Replaces a finding by the wrong level event that caused it, if there is one.
    pub fn prefer_level_violation(&self, model: &VenueModel, finding: BrokenPromise) -> BrokenPromise {
        match self.next_event() {
            Some(event @ Event::Level { instrument, side, price, lots })
                if self.unpublished.contains_key(&(*instrument, *side, *price))
                    && lots.0 != model.market(*instrument).book.level(*side, *price) =>
            {
                unexpected_event(model, event)
            }
            _ => finding,
        }
    }
}

/// Returns the instrument whose change number must follow the event. `PhaseChanged`, from the first
/// release, has no change number.
const fn instrument_with_change_number(event: &Event) -> Option<InstrumentId> {
    match event {
        Event::Trade { instrument, .. }
        | Event::Level { instrument, .. }
        | Event::SessionChanged { instrument, .. }
        | Event::Indicative { instrument, .. }
        | Event::Uncrossed { instrument, .. }
        | Event::Breached { instrument, .. }
        | Event::ClosingPriceSet { instrument, .. } => Some(*instrument),
        _ => None,
    }
}

/// Describes an event that the command does not call for, and names the promise that it breaks.
pub fn unexpected_event(model: &VenueModel, event: &Event) -> BrokenPromise {
    if let Event::Level { instrument, side, price, lots } = *event {
        let shows = model.market(instrument).book.level(side, price);
        let level = format!("the {side:?} level {price} of instrument {instrument}");
        let sentence = match lots.0 == shows {
            true => format!("{level} was published without a change"),
            false => format!("{level} was published as {lots} and shows {shows}"),
        };
        return BrokenPromise { promise: Promise::F2, sentence };
    }
    let is_waiting_stop =
        |order: &OrderId| model.orders.get(order).is_some_and(|live| live.place == LiveOrderState::Unelected);
    let promise = match event {
        Event::Trade { kind: TradeKind::Continuous | TradeKind::Filter, .. } => Promise::M8,
        Event::Trade { .. } | Event::Uncrossed { .. } => Promise::M6,
        // A stop is elected once. A second election could repeat without end.
        Event::Triggered { order, .. } if !is_waiting_stop(order) => Promise::M7,
        Event::Triggered { .. } | Event::Parked { .. } | Event::Injected { .. } => Promise::M5,
        Event::Cancelled { .. } => Promise::M4,
        Event::SessionChanged { .. } | Event::Breached { .. } => Promise::M8,
        Event::BookChanged { .. } => Promise::F1,
        _ => Promise::S1,
    };
    BrokenPromise { promise, sentence: format!("{event:?} does not belong to this command") }
}
