//! The events of one command, read in order.
//!
//! Does        hand out one event after another; see to what may stand between any two of them: levels.
//! Holds       1. a level is told when it changed, as it is at that moment, and every level that changed is told;
//!             2. a book's last word is its own change number, said when something public was and not else;
//!             3. what a trade makes due (a refreshed iceberg, a tripped throttle, a remainder below its minimum) comes
//!                before anything else.
//! Start at    [`Auditor::peek`], [`Auditor::conclude`].

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{
    AccountId, CancelReason, CurrencyId, Event, InstrumentId, Lots, OrderId, Phase, Side, Ticks, TimeInForce, TradeKind,
};

use crate::book::{Kind, Live, Place};
use crate::fault::{Fault, Judged, Promise, offence};
use crate::prices::{Curves, Found, call_price};
use crate::{Auditor, settling};

#[derive(Debug)]
pub struct Turn<'a> {
    events: &'a [Event],
    next: usize,
    /// Levels that changed since they were last told, with what was told then.
    untold: BTreeMap<(InstrumentId, Side, Ticks), u64>,
    /// An instrument of which something public was said since its last change number.
    spoken: Option<InstrumentId>,
    /// Accounts whose throttle a fill has tripped.
    pub trips: VecDeque<AccountId>,
}

impl<'a> Turn<'a> {
    pub fn new(events: &'a [Event]) -> Self {
        let nobody = VecDeque::new();
        Turn { events, next: 0, untold: BTreeMap::new(), spoken: None, trips: nobody }
    }

    /// A level changes: what it showed before counts when nothing else was told meanwhile.
    pub fn touch(&mut self, level: (InstrumentId, Side, Ticks), before: u64) {
        self.untold.entry(level).or_insert(before);
    }

    /// The very next event, levels included.
    pub fn upcoming(&self) -> Option<&'a Event> {
        self.events.get(self.next)
    }

    /// Passes over the event that was peeked at.
    pub fn pass(&mut self) {
        let Some(event) = self.events.get(self.next) else { return };
        self.next += 1;
        if let (true, Some(instrument)) = (event.is_public(), instrument_of(event)) {
            self.spoken = Some(instrument);
        }
    }
}

/// The word of the first release on a phase came without a change number.
const fn instrument_of(event: &Event) -> Option<InstrumentId> {
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

/// Where an event of one order, or of two, was.
const fn order_of(event: &Event) -> Option<InstrumentId> {
    match event {
        Event::Trade { instrument, .. }
        | Event::Cancelled { instrument, .. }
        | Event::Parked { instrument, .. }
        | Event::Injected { instrument, .. }
        | Event::Triggered { instrument, .. } => Some(*instrument),
        _ => None,
    }
}

impl Auditor {
    /// A level that is told wrong stands in the way of what follows it, and is the offence.
    pub(crate) fn level_first(&self, turn: &Turn<'_>, fault: Fault) -> Fault {
        match turn.upcoming() {
            Some(event @ Event::Level { instrument, side, price, lots })
                if turn.untold.contains_key(&(*instrument, *side, *price))
                    && lots.0 != self.market_of(*instrument).book.level(*side, *price) =>
            {
                self.out_of_place(event)
            }
            _ => fault,
        }
    }

    /// The next event that is no level that has changed; those on the way are judged against the book as it is now.
    pub(crate) fn peek<'a>(&self, turn: &mut Turn<'a>) -> Judged<Option<&'a Event>> {
        while let Some(event) = turn.events.get(turn.next) {
            let Event::Level { instrument, side, price, lots } = *event else { return Ok(Some(event)) };
            let Some(market) = self.markets.get(instrument.0 as usize) else {
                offence!(F2, "a level of instrument {instrument} was told, which does not exist");
            };
            let shows = market.book.level(side, price);
            // It may be about to change, or to change again.
            if lots.0 != shows || turn.untold.remove(&(instrument, side, price)).is_none() {
                return Ok(Some(event));
            }
            turn.pass();
        }
        Ok(None)
    }

    /// An order that goes to the back may leave its level before it comes back: that may be told, or not.
    pub(crate) fn see_level_left(&self, turn: &mut Turn<'_>, order: &Live) -> Judged {
        let shows = self.market_of(order.instrument).book.level(order.side, order.price);
        let left =
            Event::Level { instrument: order.instrument, side: order.side, price: order.price, lots: Lots(shows) };
        if order.is_on_show() && turn.events.get(turn.next) == Some(&left) {
            turn.untold.insert((order.instrument, order.side, order.price), shows);
            turn.pass();
        }
        Ok(())
    }

    /// The next event must be this one.
    pub(crate) fn expect(&self, turn: &mut Turn<'_>, due: &Event) -> Judged {
        match self.peek(turn)? {
            Some(told) if told == due => turn.pass(),
            Some(told) => offence!(S1, "{told:?} was said and {due:?} was due"),
            None => offence!(S1, "nothing more was said and {due:?} was due"),
        }
        Ok(())
    }

    /// Nothing may follow.
    pub(crate) fn nothing_follows(&self, turn: &mut Turn<'_>) -> Judged {
        if let Some(event) = self.peek(turn)? {
            return Err(self.out_of_place(event));
        }
        self.all_told(turn)
    }

    /// What nothing called for.
    pub(crate) fn out_of_place(&self, event: &Event) -> Fault {
        if let Event::Level { instrument, side, price, lots } = *event {
            let shows = self.market_of(instrument).book.level(side, price);
            let level = format!("the {side:?} level {price} of instrument {instrument}");
            let sentence = match lots.0 == shows {
                true => format!("{level} was told and had not changed"),
                false => format!("{level} was told as {lots} and shows {shows}"),
            };
            return Fault { promise: Promise::F2, sentence };
        }
        let waits = |order: &OrderId| self.orders.get(order).is_some_and(|live| live.place == Place::Unelected);
        let promise = match event {
            Event::Trade { kind: TradeKind::Continuous | TradeKind::Filter, .. } => Promise::M8,
            Event::Trade { .. } | Event::Uncrossed { .. } => Promise::M6,
            // Each stop elects once: more would never end.
            Event::Triggered { order, .. } if !waits(order) => Promise::M7,
            Event::Triggered { .. } | Event::Parked { .. } | Event::Injected { .. } => Promise::M5,
            Event::Cancelled { .. } => Promise::M4,
            Event::SessionChanged { .. } | Event::Breached { .. } => Promise::M8,
            Event::BookChanged { .. } => Promise::F1,
            _ => Promise::S1,
        };
        Fault { promise, sentence: format!("{event:?} does not belong to this command") }
    }

    fn all_told(&self, turn: &Turn<'_>) -> Judged {
        for ((instrument, side, price), before) in &turn.untold {
            let shows = self.markets[instrument.0 as usize].book.level(*side, *price);
            if shows != *before {
                offence!(F2, "the {side:?} level {price} of instrument {instrument} changed and was not told");
            }
        }
        Ok(())
    }

    /// The end of what a command does to one instrument: the call's outlook if it moved, the change number if one is due.
    pub(crate) fn conclude(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId) -> Judged {
        self.judge_outlook(turn, instrument, false)?;
        let next = self.peek(turn)?;
        if let Some(event @ Event::Level { .. }) = next {
            return Err(self.out_of_place(event));
        }
        self.all_told(turn)?;
        turn.untold.clear();
        let told = match next {
            Some(Event::BookChanged { instrument: told, change_id }) if *told == instrument => Some(*change_id),
            _ => None,
        };
        let market = &mut self.markets[instrument.0 as usize];
        match (told, turn.spoken == Some(instrument)) {
            (Some(change), true) if change == market.change_id + 1 => {
                turn.pass();
                market.change_id = change;
            }
            (Some(change), true) => {
                offence!(F1, "change {change} of instrument {instrument} follows change {}", market.change_id)
            }
            (Some(change), false) => {
                offence!(F1, "instrument {instrument} was given change {change} and had not changed")
            }
            (None, true) => match next {
                Some(event) if order_of(event) == Some(instrument) => return Err(self.out_of_place(event)),
                _ => offence!(F1, "instrument {instrument} changed and was given no change number"),
            },
            (None, false) => {}
        }
        turn.spoken = None;
        self.is_left_in_order(instrument)
    }

    /// Continuous trading is never left crossed, and nothing that could be filtered is left.
    fn is_left_in_order(&self, instrument: InstrumentId) -> Judged {
        let market = &self.markets[instrument.0 as usize];
        if market.phase == Phase::Continuous
            && !market.is_batched()
            && let Some((bid, ask)) = market.book.is_crossed()
        {
            offence!(M3, "instrument {instrument} is left with a bid of {bid} and an offer of {ask}");
        }
        Ok(())
    }

    /// What a call would do by its visible orders.
    pub(crate) fn outlook(&self, instrument: InstrumentId) -> Option<Found> {
        let market = &self.markets[instrument.0 as usize];
        let [bids, offers] = [Side::Buy, Side::Sell].map(|side| market.book.wholes(side));
        let unpriced = [Side::Buy, Side::Sell].map(|side| market.book.unpriced(side));
        call_price(&Curves::new(bids, offers, unpriced), market.reference())
    }

    /// `Indicative` is told when it differs from what was told last, and after a breach in any case.
    pub(crate) fn judge_outlook(&mut self, turn: &mut Turn<'_>, instrument: InstrumentId, in_any_case: bool) -> Judged {
        let market = &self.markets[instrument.0 as usize];
        let is_told = market.phase.is_call() || (market.phase == Phase::Continuous && market.is_batched());
        if !is_told || market.missed {
            return Ok(());
        }
        let found = self.outlook(instrument);
        let (price, volume, imbalance) = match found {
            Some(found) => (Some(found.price), Lots(found.volume), found.surplus),
            None => (None, Lots::ZERO, 0),
        };
        let now = (price, volume, imbalance);
        let told = match self.peek(turn)? {
            Some(Event::Indicative { instrument: told, price, volume, imbalance }) if *told == instrument => {
                Some((*price, *volume, *imbalance))
            }
            _ => None,
        };
        let before = self.markets[instrument.0 as usize].indicated;
        match told {
            Some(told) if told != now => {
                offence!(M6, "the call's outlook was told as {told:?} and is {now:?}");
            }
            Some(_) if now == before && !in_any_case => {
                offence!(F1, "the call's outlook {now:?} was told again and had not changed")
            }
            Some(_) => turn.pass(),
            None if now != before || in_any_case => offence!(M6, "the call's outlook is {now:?} and was not told"),
            None => {}
        }
        self.markets[instrument.0 as usize].indicated = now;
        Ok(())
    }

    /// An order leaves without having filled: the event that says so is next.
    pub(crate) fn see_cancelled(&mut self, turn: &mut Turn<'_>, order: &Live, reason: CancelReason) -> Judged {
        let due = cancelled(order, reason);
        match self.peek(turn)? {
            Some(told) if *told == due => turn.pass(),
            told => return Err(settling::instead_of_leaving(order, reason, told)),
        }
        Ok(())
    }

    /// A live order leaves: judged, and taken out of everything.
    pub(crate) fn see_leaving(&mut self, turn: &mut Turn<'_>, order: OrderId, reason: CancelReason) -> Judged {
        let Some(live) = self.orders.get(&order).copied() else {
            offence!(M4, "order {order} was to leave and is not live");
        };
        self.see_cancelled(turn, &live, reason)?;
        self.forget(turn, &live);
        Ok(())
    }

    /// What an order would spend at its limit or bound.
    pub(crate) fn cost(&self, order: &Live, lots: u64) -> Option<(CurrencyId, i128)> {
        let price = order.reach().unwrap_or(Ticks::ZERO);
        self.markets[order.instrument.0 as usize].terms.cost(order.side, price, lots)
    }

    /// The next priority number.
    pub(crate) fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Takes in an order that stays: in its place of the book, or aside.
    pub(crate) fn keep(&mut self, turn: &mut Turn<'_>, order: Live) {
        let market = &mut self.markets[order.instrument.0 as usize];
        market.book.live += 1;
        market.book.await_price(&order);
        self.place(turn, &order);
        self.ledger.accounts[order.account.0 as usize].live_orders.insert((order.instrument, order.id));
        if let TimeInForce::GoodTillTime { at } = order.tif {
            self.timed.insert((order.instrument, at, order.id));
        }
        self.orders.insert(order.id, order);
    }

    /// Takes an order, given as it was before it left, out of everything.
    pub(crate) fn forget(&mut self, turn: &mut Turn<'_>, order: &Live) {
        self.displace(turn, order);
        let market = &mut self.markets[order.instrument.0 as usize];
        market.book.live -= 1;
        market.book.await_no_more(order);
        self.ledger.release(order.account, self.cost(order, order.open));
        self.ledger.accounts[order.account.0 as usize].live_orders.remove(&(order.instrument, order.id));
        if let TimeInForce::GoodTillTime { at } = order.tif {
            self.timed.remove(&(order.instrument, at, order.id));
        }
        self.orders.remove(&order.id);
    }

    /// An active order comes into the book.
    pub(crate) fn place(&mut self, turn: &mut Turn<'_>, order: &Live) {
        if order.is_active() {
            self.level_changes(turn, order);
            self.markets[order.instrument.0 as usize].book.insert(order);
        }
    }

    /// An active order goes out of the book.
    pub(crate) fn displace(&mut self, turn: &mut Turn<'_>, order: &Live) {
        if order.is_active() {
            self.level_changes(turn, order);
            self.markets[order.instrument.0 as usize].book.remove(order);
        }
    }

    pub(crate) fn level_changes(&self, turn: &mut Turn<'_>, order: &Live) {
        if order.is_on_show() {
            let before = self.markets[order.instrument.0 as usize].book.level(order.side, order.price);
            turn.touch((order.instrument, order.side, order.price), before);
        }
    }

    /// An order becomes another, perhaps elsewhere: what it was is given.
    pub(crate) fn become_other(&mut self, turn: &mut Turn<'_>, before: &Live, after: Live) {
        self.displace(turn, before);
        let book = &mut self.markets[before.instrument.0 as usize].book;
        book.await_no_more(before);
        book.await_price(&after);
        self.place(turn, &after);
        self.orders.insert(after.id, after);
    }
}

/// The end of an order without a fill. A market order, and a stop, has no price.
pub fn cancelled(order: &Live, reason: CancelReason) -> Event {
    let has_price = !matches!(order.kind, Kind::Market | Kind::Stop);
    Event::Cancelled {
        order: order.id,
        account: order.account,
        instrument: order.instrument,
        side: order.side,
        price: if has_price { order.price } else { Ticks::ZERO },
        open: Lots(order.open),
        reason,
    }
}
