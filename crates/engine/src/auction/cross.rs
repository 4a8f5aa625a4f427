//! The closing price cross: orders trade at the closing price, by time alone (rulebook 12).
//!
//! Holds       1. every trade is at the closing price; the earlier order is the maker;
//!             2. an order that can take part and has lots left waits, by time; orders never wait
//!                on both sides.
//! Leaves out  hidden orders, which take no part.
//! Costs       the start: the participating orders, sorted by time; an order: the orders that it
//!             meets.
//! Start at    [`CrossExecution::open`], then [`CrossExecution::enter`].

use std::collections::BTreeSet;

use pitwire_model::{CancelReason, Event, Lots, MatchGroup, OrderId, SelfMatch, Side, Ticks, TradeKind};

use super::state::CrossQueues;
use crate::account::Account;
use crate::book::{MakerAction, Slot, key_of, price_of};
use crate::event_sink::{EventSink, SinkFn};
use crate::incoming::{IncomingOrder, accepts_price, maker_action};
use crate::index::OrderIndex;
use crate::live_orders::TradeParty;
use crate::market::Market;
use crate::market_context::{MarketContext, PartyTrade};
use crate::rule_tables::Tif;
use crate::undisplayed::UndisplayedState;

/// Ladder keys of prices at which the displayed book has changed: bids before offers, best first.
type ChangedPrices = BTreeSet<(Side, u32)>;

/// An order of the cross with what self-match prevention needs.
struct CrossOrder {
    party: TradeParty,
    group: MatchGroup,
    self_match: SelfMatch,
}

impl CrossOrder {
    fn incoming(order: &IncomingOrder) -> CrossOrder {
        CrossOrder { party: order.party(), group: order.origin.group, self_match: order.self_match }
    }

    /// Returns what happens when this order meets a waiting one.
    fn maker_action(&self, maker: &CrossOrder) -> MakerAction {
        let (taker, maker) = ((self.party.account, self.group), (maker.party.account, maker.group));
        maker_action(self.self_match, taker, maker)
    }
}

/// The state that reading the cross needs.
pub(crate) struct CrossView<'a> {
    pub market: &'a Market,
    pub accounts: &'a [Account],
    pub orders: &'a OrderIndex,
}

impl CrossView<'_> {
    /// Returns the lots that an incoming order would trade in the cross, as far as self-match
    /// prevention allows.
    pub fn reachable_lots(&self, order: &IncomingOrder) -> u32 {
        let taker = CrossOrder::incoming(order);
        if !self.market.cross_price().is_some_and(|price| order.takes_part_at(price)) {
            return 0;
        }
        let mut lots = 0_u32;
        for (time, id) in self.waiting(order.side.opposite()) {
            let Some(maker) = self.order(id, time) else { continue };
            match taker.maker_action(&maker) {
                MakerAction::Trade => lots = lots.saturating_add(maker.party.open),
                MakerAction::CancelMaker => {}
                MakerAction::Stop | MakerAction::CancelBoth => break,
            }
            if lots >= order.open {
                break;
            }
        }
        lots.min(order.open)
    }

    /// The entries that wait on a side, by time. Some may be stale. Right after a restart they are
    /// computed.
    fn waiting(&self, side: Side) -> impl Iterator<Item = (u64, OrderId)> {
        let queues = self.market.auction.cross.as_ref();
        let price = self.market.cross_price().filter(|_| queues.is_none());
        let computed = price.map(|price| self.market.cross_participants(price));
        let is_of_side = move |(_, id): &(u64, OrderId)| {
            self.orders.get(*id).is_some_and(|(_, slot)| self.market.side_at(slot) == side)
        };
        let known = queues.into_iter().flat_map(move |queues| queues.entries(side));
        known.chain(computed.into_iter().flatten().filter(is_of_side))
    }

    /// Returns a waiting order. Returns `None` if its entry is stale: the order has left, was
    /// parked, or has another time now.
    fn order(&self, id: OrderId, time: u64) -> Option<CrossOrder> {
        let (_, slot) = self.orders.get(id).filter(|(instrument, _)| *instrument == self.market.spec.id)?;
        let state = self.market.undisplayed.get(slot).map(|order| order.state);
        if state.is_some_and(|state| state != UndisplayedState::Unpriced) {
            return None;
        }
        let party = self.market.party_at(slot).filter(|party| party.time == time)?;
        let group = self.market.origin_at(slot).group;
        let self_match = self.accounts.get(party.account.0 as usize)?.spec.settings.self_match;
        Some(CrossOrder { party, group, self_match })
    }
}

impl MarketContext<'_> {
    fn cross_view(&self) -> CrossView<'_> {
        CrossView { market: self.market, accounts: self.accounts, orders: self.orders }
    }
}

/// The cross while orders trade in it.
pub(crate) struct CrossExecution<'c, 'a> {
    context: &'c mut MarketContext<'a>,
    /// The closing price.
    price: Ticks,
    changed: ChangedPrices,
}

impl CrossExecution<'_, '_> {
    /// Begins the cross: the participating orders arrive one after another, by time.
    pub fn open(context: &mut MarketContext<'_>, out: &mut impl EventSink) {
        context.market.auction.cross = Some(CrossQueues::default());
        let Some(price) = context.market.cross_price() else { return };
        let participants = context.market.cross_participants(price);
        let mut execution = CrossExecution { context, price, changed: ChangedPrices::new() };
        for (time, id) in participants {
            let Some(order) = execution.context.cross_view().order(id, time) else { continue };
            let (slot, side) = (order.party.slot, order.party.side);
            let (party, stopped) = execution.match_waiting(order, out);
            if party.open == 0 {
                continue;
            }
            if stopped {
                execution.cancel(slot, out);
            } else {
                execution.context.market.auction.wait_in_cross(side, time, id);
            }
        }
        execution.emit_levels(out);
    }

    /// Trades an order that is new or amended in the cross, then adds or cancels the remainder.
    pub fn enter(context: &mut MarketContext<'_>, order: &IncomingOrder, out: &mut impl EventSink) {
        let price = Self::prepare(context).filter(|price| order.takes_part_at(*price));
        if order.fill_or_kill && context.cross_view().reachable_lots(order) < order.open {
            out.emit(order.cancelled(order.open, CancelReason::FillOrKill));
            return;
        }
        let mut open = order.open;
        if let Some(price) = price {
            let mut execution = CrossExecution { context, price, changed: ChangedPrices::new() };
            let (party, stopped) = execution.match_waiting(CrossOrder::incoming(order), out);
            execution.emit_levels(out);
            open = party.open;
            if open > 0 && stopped {
                out.emit(order.cancelled(open, CancelReason::SelfMatch));
                return;
            }
        }
        let stays = order.may_rest || (order.is_market() && order.origin.tif == Tif::ClosingCross);
        if open == 0 {
            return;
        }
        if !stays {
            out.emit(order.cancelled(open, CancelReason::ImmediateRemainder));
            return;
        }
        context.add_unmatched(&IncomingOrder { open, ..*order }, out);
        if price.is_some() {
            context.market.auction.wait_in_cross(order.side, order.origin.time, order.id);
        }
    }

    /// Returns the closing price. After a restart, rebuilds the queues of waiting orders.
    fn prepare(context: &mut MarketContext<'_>) -> Option<Ticks> {
        let price = context.market.cross_price()?;
        if context.market.auction.cross.is_none() {
            let mut queues = CrossQueues::default();
            for (time, id) in context.market.cross_participants(price) {
                if let Some((_, slot)) = context.orders.get(id) {
                    queues.push(context.market.side_at(slot), time, id);
                }
            }
            context.market.auction.cross = Some(queues);
        }
        Some(price)
    }

    /// Trades an order with the orders that wait on the other side, by time. Returns the order as a
    /// party, and whether self-match prevention has stopped it.
    fn match_waiting(&mut self, mut taker: CrossOrder, out: &mut impl EventSink) -> (TradeParty, bool) {
        let other = taker.party.side.opposite();
        while taker.party.open > 0
            && let Some((time, id)) = self.first_waiting(other)
        {
            let Some(mut maker) = self.context.cross_view().order(id, time) else {
                self.remove_first(other);
                continue;
            };
            match taker.maker_action(&maker) {
                MakerAction::Trade => {
                    self.trade(&mut maker.party, &mut taker.party, out);
                    if maker.party.open == 0 {
                        self.remove_first(other);
                    }
                }
                MakerAction::Stop => return (taker.party, true),
                cancel => {
                    self.remove_first(other);
                    self.cancel(maker.party.slot, out);
                    if cancel == MakerAction::CancelBoth {
                        return (taker.party, true);
                    }
                }
            }
        }
        (taker.party, false)
    }

    fn first_waiting(&self, side: Side) -> Option<(u64, OrderId)> {
        self.context.market.auction.cross.as_ref()?.first(side)
    }

    fn remove_first(&mut self, side: Side) {
        if let Some(queues) = &mut self.context.market.auction.cross {
            queues.remove_first(side);
        }
    }

    fn trade(&mut self, maker: &mut TradeParty, taker: &mut TradeParty, out: &mut impl EventSink) {
        let (price, lots) = (self.price, maker.open.min(taker.open));
        self.context.trade(PartyTrade { kind: TradeKind::Cross, price, lots, maker, taker }, out);
        for party in [&*maker, &*taker] {
            if party.has_reserve {
                self.deduct(party, lots, out);
            }
        }
        self.context.count_trade(maker.account, taker.account, out);
    }

    /// Deducts executed lots from a live order. The order keeps its time, and an iceberg displays
    /// as much as it may.
    fn deduct(&mut self, party: &TradeParty, lots: u32, out: &mut impl EventSink) {
        let TradeParty { slot, id: order, account, side, limit: price, .. } = *party;
        let context = &mut *self.context;
        if slot.is_undisplayed() {
            if context.market.undisplayed.fill(slot, lots) == 0 {
                context.remove_undisplayed(slot);
            }
            return;
        }
        self.changed.insert((side, key_of(side, price)));
        let after = context.market.book.deduct_in_place(slot, lots);
        if after.left == 0 {
            context.orders.remove(order);
            context.accounts[account.0 as usize].open_orders -= 1;
        } else if after.refreshed > 0 {
            let (instrument, shown) = (context.instrument(), Lots(u64::from(after.refreshed)));
            out.emit(Event::Refreshed { order, account, instrument, side, price, shown });
        }
    }

    /// Cancels a live order because of self-match prevention. Its level is emitted later with the
    /// others.
    fn cancel(&mut self, slot: Slot, out: &mut impl EventSink) {
        if self.context.market.party_at(slot).is_none() {
            return;
        }
        let mut level = None;
        let mut hold_back_level = |event: Event| match event {
            Event::Level { side, price, .. } => level = Some((side, key_of(side, price))),
            other => out.emit(other),
        };
        self.context.cancel_live(slot, CancelReason::SelfMatch, &mut SinkFn(&mut hold_back_level));
        self.changed.extend(level);
    }

    fn emit_levels(&self, out: &mut impl EventSink) {
        let (instrument, book) = (self.context.instrument(), &self.context.market.book);
        for (side, key) in &self.changed {
            let price = price_of(*side, *key);
            out.emit(Event::Level { instrument, side: *side, price, lots: book.lots_at(*side, price) });
        }
    }
}

impl IncomingOrder {
    fn takes_part_at(&self, price: Ticks) -> bool {
        self.minimum_execution == 0 && self.accepts(price)
    }
}

impl Market {
    /// The orders that take part in a cross at `price`, by time.
    fn cross_participants(&self, price: Ticks) -> Vec<(u64, OrderId)> {
        let mut found = Vec::new();
        for side in Side::BOTH {
            let levels = self.book.queues(side).take_while(|(limit, _)| accepts_price(side, *limit, price));
            let slots = levels.flat_map(|(_, queue)| queue);
            found.extend(slots.map(|slot| (self.book.origin(slot).time, self.book.get(slot).id)));
            let unpriced = self.undisplayed.unpriced(side).filter_map(|slot| self.undisplayed.get(slot));
            let accepting =
                unpriced.filter(|order| order.ranking_price().is_none_or(|bound| accepts_price(side, bound, price)));
            found.extend(accepting.map(|order| (order.origin.time, order.id)));
        }
        found.sort_unstable();
        found
    }
}
