//! The closing price cross: orders meet at one price that is given, by time alone (rulebook 12).
//!
//! Holds       1. everything trades at the closing price; the earlier order is the maker;
//!             2. whoever takes part and has something left waits, by time; nobody waits on both sides at once.
//! Leaves out  hidden orders: they take no part.
//! Costs       the start: the orders that take part, sorted by time; an order: those that it meets.
//! Start at    [`Engine::open_cross`], then [`Engine::cross`].

use std::collections::{BTreeSet, VecDeque};

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, MatchGroup, OrderId, SelfMatch, Side, Ticks, TradeKind,
};

use super::SIDES;
use super::trade::{PartyTrade, TradeParty};
use crate::book::{MakerAction, Slot, key_of, price_of};
use crate::engine::{Engine, EventSink};
use crate::market::Market;
use crate::matching::{IncomingOrder, meeting};
use crate::rule_tables::Tif;
use crate::special::UndisplayedState;

/// Who waits at the closing price, by time. Some have gone since, or changed their time: looked up when their turn comes.
#[derive(Debug, Default)]
pub(crate) struct CrossQueues {
    waiting: [VecDeque<(u64, OrderId)>; 2],
}

/// Prices at which the book has changed, bids before offers, best first.
type Touched = BTreeSet<(Side, u32)>;

/// An order whose turn it is to meet those that wait.
struct CrossOrder {
    party: TradeParty,
    group: MatchGroup,
    mode: SelfMatch,
}

impl CrossOrder {
    fn meeting(&self, account: AccountId, group: MatchGroup) -> MakerAction {
        meeting(self.mode, (self.party.account, self.group), (account, group))
    }
}

impl Engine {
    /// The cross begins: those who take part arrive one after another, by time.
    pub(crate) fn open_cross(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let market = &mut self.markets[instrument.0 as usize];
        market.special.cross = Some(CrossQueues::default());
        let Some(price) = market.cross_price() else { return };
        let mut touched = Touched::new();
        for (time, id) in market.cross_parties(price) {
            let Some(arrival) = self.arrival(instrument, id, time) else { continue };
            let (slot, side) = (arrival.party.slot, arrival.party.side);
            let (party, stopped) = self.meet_waiting(instrument, price, arrival, &mut touched, out);
            if party.open == 0 {
                continue;
            }
            if stopped {
                self.take_out(instrument, slot, &mut touched, out);
            } else {
                self.wait_in_cross(instrument, side, time, id);
            }
        }
        self.tell_touched(instrument, &touched, out);
    }

    /// An order comes into the cross, or comes back into it changed: trades at the closing price what it can; waits,
    /// rests or expires with the remainder.
    pub(crate) fn cross(&mut self, order: &IncomingOrder, out: &mut impl EventSink) {
        let instrument = order.instrument;
        let price = self.cross_ready(instrument).filter(|price| order.takes_part_at(*price));
        if order.whole && self.cross_reach(order) < order.open {
            out.emit(order.cancelled(order.open, CancelReason::FillOrKill));
            return;
        }
        let mut left = *order;
        if let Some(price) = price {
            let arrival = CrossOrder { party: order.party(), group: order.origin.group, mode: order.mode };
            let mut touched = Touched::new();
            let (party, stopped) = self.meet_waiting(instrument, price, arrival, &mut touched, out);
            self.tell_touched(instrument, &touched, out);
            left.open = party.open;
            if left.open > 0 && stopped {
                out.emit(order.cancelled(left.open, CancelReason::SelfMatch));
                return;
            }
        }
        let stays = order.rests || (order.is_market() && order.origin.tif == Tif::ClosingCross);
        if left.open == 0 {
            return;
        }
        if !stays {
            out.emit(order.cancelled(left.open, CancelReason::ImmediateRemainder));
            return;
        }
        self.join(&left, out);
        if price.is_some() {
            self.wait_in_cross(instrument, order.side, order.origin.time, order.id);
        }
    }

    /// The closing price, with everybody who waits at it known: after a restart they are looked up.
    fn cross_ready(&mut self, instrument: InstrumentId) -> Option<Ticks> {
        let market = &mut self.markets[instrument.0 as usize];
        let price = market.cross_price()?;
        if market.special.cross.is_none() {
            let mut cross = CrossQueues::default();
            for (time, id) in market.cross_parties(price) {
                if let Some((_, slot)) = self.orders.get(id) {
                    cross.waiting[market.side_at(slot) as usize & 1].push_back((time, id));
                }
            }
            market.special.cross = Some(cross);
        }
        Some(price)
    }

    /// Meets those who wait on the other side, by time, until nothing is left of it or self-match prevention stops it.
    fn meet_waiting(
        &mut self,
        instrument: InstrumentId,
        price: Ticks,
        mut arrival: CrossOrder,
        touched: &mut Touched,
        out: &mut impl EventSink,
    ) -> (TradeParty, bool) {
        let other = arrival.party.side.opposite();
        while arrival.party.open > 0
            && let Some((time, id)) = self.first_waiting(instrument, other)
        {
            let Some(mut maker) = self.arrival(instrument, id, time) else {
                self.stop_waiting(instrument, other);
                continue;
            };
            match arrival.meeting(maker.party.account, maker.group) {
                MakerAction::Trade => {
                    self.cross_trade(instrument, price, &mut maker.party, &mut arrival.party, touched, out);
                    if maker.party.open == 0 {
                        self.stop_waiting(instrument, other);
                    }
                }
                MakerAction::Stop => return (arrival.party, true),
                away => {
                    self.stop_waiting(instrument, other);
                    self.take_out(instrument, maker.party.slot, touched, out);
                    if away == MakerAction::CancelBoth {
                        return (arrival.party, true);
                    }
                }
            }
        }
        (arrival.party, false)
    }

    fn cross_trade(
        &mut self,
        instrument: InstrumentId,
        price: Ticks,
        maker: &mut TradeParty,
        taker: &mut TradeParty,
        touched: &mut Touched,
        out: &mut impl EventSink,
    ) {
        let lots = maker.open.min(taker.open);
        self.trade(PartyTrade { instrument, kind: TradeKind::Cross, price, lots, maker, taker }, out);
        for party in [&*maker, &*taker] {
            if party.reserves {
                self.shrink(instrument, party, lots, touched, out);
            }
        }
        self.count_trade(maker.account, taker.account, out);
    }

    /// An order that stands has traded: it keeps its time, and an iceberg shows as much as it may.
    fn shrink(
        &mut self,
        instrument: InstrumentId,
        party: &TradeParty,
        lots: u32,
        touched: &mut Touched,
        out: &mut impl EventSink,
    ) {
        let TradeParty { slot, id: order, account, side, limit: price, .. } = *party;
        let market = &mut self.markets[instrument.0 as usize];
        if slot.is_kept() {
            if market.special.fill(slot, lots) == 0 {
                self.drop_kept(instrument, slot);
            }
            return;
        }
        touched.insert((side, key_of(side, price)));
        let after = market.book.deduct_in_place(slot, lots);
        if after.left == 0 {
            self.orders.remove(order);
            self.accounts[account.0 as usize].open_orders -= 1;
        } else if after.refreshed > 0 {
            let shown = Lots(u64::from(after.refreshed));
            out.emit(Event::Refreshed { order, account, instrument, side, price, shown });
        }
    }

    /// Self-match prevention takes an order that stands; its level is told with the others.
    fn take_out(&mut self, instrument: InstrumentId, slot: Slot, touched: &mut Touched, out: &mut impl EventSink) {
        let Some(party) = self.party(instrument, slot) else { return };
        let mut level = None;
        let mut without_level = |event: Event| match event {
            Event::Level { side, price, .. } => level = Some((side, key_of(side, price))),
            other => out.emit(other),
        };
        self.take_off(instrument, party.slot, CancelReason::SelfMatch, &mut SinkFn(&mut without_level));
        touched.extend(level);
    }

    fn tell_touched(&self, instrument: InstrumentId, touched: &Touched, out: &mut impl EventSink) {
        let book = &self.markets[instrument.0 as usize].book;
        for (side, key) in touched {
            let price = price_of(*side, *key);
            out.emit(Event::Level { instrument, side: *side, price, lots: book.lots_at(*side, price) });
        }
    }

    /// What an order that comes in would trade in the cross, as far as self-match prevention lets it.
    pub(crate) fn cross_reach(&self, order: &IncomingOrder) -> u32 {
        let arrival = CrossOrder { party: order.party(), group: order.origin.group, mode: order.mode };
        let price = self.market(order.instrument).and_then(Market::cross_price);
        if !price.is_some_and(|price| order.takes_part_at(price)) {
            return 0;
        }
        let mut reach = 0_u32;
        for (time, id) in self.who_waits(order.instrument, order.side.opposite()) {
            let Some(maker) = self.arrival(order.instrument, id, time) else { continue };
            match arrival.meeting(maker.party.account, maker.group) {
                MakerAction::Trade => reach = reach.saturating_add(maker.party.open),
                MakerAction::CancelMaker => {}
                MakerAction::Stop | MakerAction::CancelBoth => break,
            }
            if reach >= order.open {
                break;
            }
        }
        reach.min(order.open)
    }

    /// Those who wait on a side, by time; some may have gone. Right after a restart they are looked up.
    fn who_waits(&self, instrument: InstrumentId, side: Side) -> impl Iterator<Item = (u64, OrderId)> {
        let market = &self.markets[instrument.0 as usize];
        let known = market.special.cross.as_ref();
        let unknown = market.cross_price().filter(|_| known.is_none()).map(|price| market.cross_parties(price));
        let of_side =
            move |(_, id): &(u64, OrderId)| self.orders.get(*id).is_some_and(|(_, slot)| market.side_at(slot) == side);
        let known = known.into_iter().flat_map(move |cross| cross.waiting[side as usize & 1].iter().copied());
        known.chain(unknown.into_iter().flatten().filter(of_side))
    }

    /// A live order as it was when it came to wait; none when it has gone, was set aside or has another time now.
    fn arrival(&self, instrument: InstrumentId, id: OrderId, time: u64) -> Option<CrossOrder> {
        let (_, slot) = self.orders.get(id).filter(|(of, _)| *of == instrument)?;
        let place = self.market(instrument)?.special.get(slot).map(|order| order.place);
        if place.is_some_and(|place| place != UndisplayedState::Unpriced) {
            return None;
        }
        let party = self.party(instrument, slot).filter(|party| party.time == time)?;
        let market = &self.markets[instrument.0 as usize];
        let kept = market.special.get(slot).map(|order| order.origin);
        let group = kept.unwrap_or_else(|| market.book.origin(slot)).group;
        let mode = self.account(party.account)?.spec.settings.self_match;
        Some(CrossOrder { party, group, mode })
    }

    fn waiting(&mut self, instrument: InstrumentId, side: Side) -> Option<&mut VecDeque<(u64, OrderId)>> {
        let cross = self.markets[instrument.0 as usize].special.cross.as_mut()?;
        Some(&mut cross.waiting[side as usize & 1])
    }

    fn first_waiting(&mut self, instrument: InstrumentId, side: Side) -> Option<(u64, OrderId)> {
        self.waiting(instrument, side)?.front().copied()
    }

    fn stop_waiting(&mut self, instrument: InstrumentId, side: Side) {
        self.waiting(instrument, side).and_then(VecDeque::pop_front);
    }

    fn wait_in_cross(&mut self, instrument: InstrumentId, side: Side, time: u64, id: OrderId) {
        if let Some(waiting) = self.waiting(instrument, side) {
            // Nearly always last: but a stop that was elected before others came acts after they have arrived.
            let at = waiting.partition_point(|(other, _)| *other < time);
            waiting.insert(at, (time, id));
        }
    }
}

/// Hands events to a function.
struct SinkFn<'a, F>(&'a mut F);

impl<F: FnMut(Event)> EventSink for SinkFn<'_, F> {
    fn emit(&mut self, event: Event) {
        (self.0)(event);
    }
}

fn accepts(side: Side, limit: Ticks, price: Ticks) -> bool {
    match side {
        Side::Buy => limit >= price,
        Side::Sell => limit <= price,
    }
}

impl IncomingOrder {
    fn takes_part_at(&self, price: Ticks) -> bool {
        self.minimum == 0 && accepts(self.side, self.limit, price)
    }

    fn party(&self) -> TradeParty {
        let IncomingOrder { id, account, side, open, limit, origin, .. } = *self;
        TradeParty { slot: Slot::default(), id, account, side, limit, open, time: origin.time, reserves: false }
    }
}

impl Market {
    /// The orders that take part in a cross at `price`, by time.
    fn cross_parties(&self, price: Ticks) -> Vec<(u64, OrderId)> {
        let mut found = Vec::new();
        for side in SIDES {
            let within = self.book.queues(side).take_while(|(limit, _)| accepts(side, *limit, price));
            let slots = within.flat_map(|(_, queue)| queue);
            found.extend(slots.map(|slot| (self.book.origin(slot).time, self.book.get(slot).id)));
            let unpriced = self.special.unpriced(side).filter_map(|slot| self.special.get(slot));
            let bound_allows = |bound: Option<Ticks>| bound.is_none_or(|bound| accepts(side, bound, price));
            let unpriced = unpriced.filter(|order| bound_allows(order.bounded_price()));
            found.extend(unpriced.map(|order| (order.origin.time, order.id)));
        }
        found.sort_unstable();
        found
    }

    fn side_at(&self, slot: Slot) -> Side {
        self.special.get(slot).map_or_else(|| self.book.get(slot).owner.side(), |order| order.side)
    }
}
