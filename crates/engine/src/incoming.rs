//! An order that has passed validation and has not been matched yet.

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, MatchGroup, NewOrder, OrderId, SelfMatch, Side, Ticks,
};

use crate::book::{MakerAction, OrderFlags, OrderOrigin, Slot};
use crate::live_orders::TradeParty;
use crate::rule_tables::Tif;

/// Returns the worst price that an order without a limit may reach.
#[inline]
pub(crate) fn worst_price(side: Side) -> Ticks {
    match side {
        Side::Buy => Ticks::MAX_PRICE,
        Side::Sell => Ticks(1),
    }
}

/// An order that has passed validation and has not been matched yet.
#[derive(Clone, Copy)]
pub(crate) struct IncomingOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    /// Limit price; zero for a market order.
    pub price: Ticks,
    /// Worst price that the order may reach: its limit price, or the collar's edge or
    /// [`worst_price`] for a market order.
    pub limit: Ticks,
    pub open: u32,
    pub ordered: u32,
    /// Lots that an iceberg displays at a time; zero displays all.
    pub peak: u32,
    pub is_day: bool,
    /// Whether a remainder may rest.
    pub may_rest: bool,
    /// Minimum execution size in lots; zero unless the order is hidden.
    pub minimum_execution: u32,
    /// Bound of a market order that waits; zero if it has none.
    pub bound: Ticks,
    pub fill_or_kill: bool,
    pub self_match: SelfMatch,
    pub origin: OrderOrigin,
}

impl IncomingOrder {
    /// Converts an order as a plain market takes it: without a time, without a day, and without
    /// self-match prevention. The checks refuse a quantity beyond 32 bits.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    pub fn of(order: &NewOrder, price: Option<Ticks>, tif: Tif) -> IncomingOrder {
        let lots = order.lots.0 as u32;
        IncomingOrder {
            id: order.id,
            account: order.account,
            instrument: order.instrument,
            side: order.side,
            price: price.unwrap_or(Ticks::ZERO),
            limit: price.unwrap_or(worst_price(order.side)),
            open: lots,
            ordered: lots,
            peak: 0,
            is_day: tif == Tif::Day,
            may_rest: price.is_some() && tif.may_rest(),
            minimum_execution: 0,
            bound: Ticks::ZERO,
            fill_or_kill: tif == Tif::FillOrKill,
            self_match: SelfMatch::Allow,
            origin: OrderOrigin {
                time: 0,
                session: order.session,
                group: order.match_group,
                day: 0,
                tif,
                flags: OrderFlags::new(order.cancel_on_disconnect, false),
            },
        }
    }

    pub fn is_market(&self) -> bool {
        self.price == Ticks::ZERO
    }

    /// Returns whether the order may trade at `price`.
    pub fn accepts(&self, price: Ticks) -> bool {
        accepts_price(self.side, self.limit, price)
    }

    /// Returns the self-match prevention group; `MatchGroup::Order` disables the check.
    #[inline]
    pub fn guarded_group(&self) -> MatchGroup {
        if self.self_match == SelfMatch::Allow { MatchGroup::Order } else { self.origin.group }
    }

    /// Returns what happens when the order meets a resting order of `account` and `group`.
    pub fn maker_action(&self, account: AccountId, group: MatchGroup) -> MakerAction {
        maker_action(self.self_match, (self.account, self.origin.group), (account, group))
    }

    /// Returns the order as a party to a trade. It has no slot and no reserve yet.
    pub fn party(&self) -> TradeParty {
        let IncomingOrder { id, account, side, open, limit, origin, .. } = *self;
        TradeParty { slot: Slot::default(), id, account, side, limit, open, time: origin.time, has_reserve: false }
    }

    /// Returns the event that cancels `open` lots of the order.
    pub fn cancelled(&self, open: u32, reason: CancelReason) -> Event {
        Event::Cancelled {
            order: self.id,
            account: self.account,
            instrument: self.instrument,
            side: self.side,
            price: self.price,
            open: Lots(u64::from(open)),
            reason,
        }
    }
}

/// Returns whether an order on `side` with this limit may trade at `price`.
pub(crate) fn accepts_price(side: Side, limit: Ticks, price: Ticks) -> bool {
    match side {
        Side::Buy => price <= limit,
        Side::Sell => price >= limit,
    }
}

/// Returns what happens when an incoming order meets a resting one. The account and group of each
/// identify orders that must not trade with each other.
pub(crate) fn maker_action(
    mode: SelfMatch,
    taker: (AccountId, MatchGroup),
    maker: (AccountId, MatchGroup),
) -> MakerAction {
    let is_self_match = match (taker.1, maker.1) {
        (MatchGroup::Key(taker), MatchGroup::Key(maker)) => taker == maker,
        (MatchGroup::Account, MatchGroup::Account) => taker.0 == maker.0,
        _ => false,
    };
    match mode {
        _ if !is_self_match => MakerAction::Trade,
        SelfMatch::Allow => MakerAction::Trade,
        SelfMatch::CancelResting => MakerAction::CancelMaker,
        SelfMatch::CancelIncoming => MakerAction::Stop,
        SelfMatch::CancelBoth => MakerAction::CancelBoth,
    }
}
