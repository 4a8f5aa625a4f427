//! One instrument: its session, prices, closing inputs and live orders.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use pitwire_model::{
    Allocation, CancelReason, Event, InstrumentSpec, Lots, OrderId, Phase, RemainingSessions, Side, Ticks, TradeSeq,
    TradingRules, VenueNanos,
};

use crate::closing::ClosingInputs;
use crate::order::{ReferenceOrder, ReferenceOrderKind, ReferenceOrderState, cancelled};

/// One instrument with all its live orders.
#[derive(Debug)]
pub struct ReferenceMarket {
    pub spec: InstrumentSpec,
    pub session: ReferenceSession,
    pub prices: ReferencePrices,
    pub closing: ClosingInputs,
    pub call: CallPublication,
    pub change_id: u64,
    pub trade_count: u64,
    pub busted: BTreeSet<TradeSeq>,
    /// The best levels after which nothing was left to filter. `None` forces a filter.
    pub filtered_touch: Option<VisibleTouch>,
    /// The hours of trade reporting, while they run.
    pub reporting_hours: Option<ReportingHours>,
    /// Number of off-book trades.
    pub off_book_trades: u64,
    /// Every live order, in no particular order.
    pub orders: Vec<ReferenceOrder>,
}

/// The session of an instrument and what earlier sessions left to do.
#[derive(Debug)]
pub struct ReferenceSession {
    pub phase: Phase,
    /// The end of the session, if it was announced.
    pub ends: Option<VenueNanos>,
    /// The session is a call whose whole time passed while the venue was down. It does not uncross.
    pub missed: bool,
    pub remaining: RemainingSessions,
    /// Interrupted calls whose orders have not expired or been parked yet.
    pub unfinished: BTreeSet<u8>,
    /// The call whose price breached a tolerance and that this volatility call continues.
    pub continues: Option<Phase>,
}

/// The last price, the references of the price controls, index and mark.
#[derive(Debug)]
pub struct ReferencePrices {
    pub last: Option<Ticks>,
    pub static_reference: Option<Ticks>,
    pub dynamic: Option<Ticks>,
    pub index: Ticks,
    pub mark: Ticks,
    pub uncross_price: Option<Ticks>,
}

/// Figures that calls and batches have published.
#[derive(Debug, Default)]
pub struct CallPublication {
    pub published: IndicativeValues,
    /// Publish the values even if they have not changed.
    pub must_publish: bool,
    /// The last priority number at the end of each frequent batch.
    pub batch_ends: Vec<u64>,
}

/// The hours of trade reporting.
#[derive(Clone, Copy, Debug)]
pub struct ReportingHours {
    pub ends: Option<VenueNanos>,
}

/// Price, volume and surplus that a call would have now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndicativeValues {
    pub price: Option<Ticks>,
    pub volume: u64,
    pub imbalance: i64,
}

/// Best visible price of each side and the quantity displayed there.
type VisibleTouch = [Option<(Ticks, u64)>; 2];

impl ReferenceMarket {
    /// A closed instrument without orders.
    pub fn new(spec: &InstrumentSpec) -> ReferenceMarket {
        ReferenceMarket {
            spec: spec.clone(),
            session: ReferenceSession {
                phase: Phase::Closed,
                ends: None,
                missed: false,
                remaining: RemainingSessions::default(),
                unfinished: BTreeSet::new(),
                continues: None,
            },
            prices: ReferencePrices {
                last: None,
                static_reference: Some(spec.start_price),
                dynamic: None,
                index: spec.start_price,
                mark: spec.start_price,
                uncross_price: None,
            },
            closing: ClosingInputs::default(),
            call: CallPublication::default(),
            change_id: 0,
            trade_count: 0,
            busted: BTreeSet::new(),
            filtered_touch: None,
            reporting_hours: None,
            off_book_trades: 0,
            orders: Vec::new(),
        }
    }

    pub fn rules(&self) -> &TradingRules {
        static ABSENT: LazyLock<TradingRules> = LazyLock::new(TradingRules::default);
        self.spec.rules.as_deref().unwrap_or(&ABSENT)
    }

    pub fn allocation(&self) -> Allocation {
        self.rules().allocation
    }

    /// Whether orders trade on entry: in continuous trading without frequent batches.
    pub fn trades_on_entry(&self) -> bool {
        self.session.phase == Phase::Continuous && self.allocation() != Allocation::FrequentBatch
    }

    pub fn is_batching(&self) -> bool {
        self.session.phase == Phase::Continuous && self.allocation() == Allocation::FrequentBatch
    }

    /// Returns the priced orders of a side in priority order: price, visible before hidden, time.
    pub fn queue(&self, side: Side) -> Vec<ReferenceOrder> {
        let here = |order: &&ReferenceOrder| order.side == side && order.is_active() && order.has_price();
        let mut queue: Vec<ReferenceOrder> = self.orders.iter().filter(here).copied().collect();
        queue.sort_by_key(|order| match side {
            Side::Buy => (-order.price.0, order.is_hidden(), order.time),
            Side::Sell => (order.price.0, order.is_hidden(), order.time),
        });
        queue
    }

    /// Returns the visible orders of a side in priority order.
    pub fn visible_queue(&self, side: Side) -> Vec<ReferenceOrder> {
        self.queue(side).into_iter().filter(ReferenceOrder::is_visible).collect()
    }

    /// Returns the priced orders of a side, grouped by price.
    pub fn levels(&self, side: Side) -> Vec<(Ticks, Vec<ReferenceOrder>)> {
        let mut levels: Vec<(Ticks, Vec<ReferenceOrder>)> = Vec::new();
        for order in self.queue(side) {
            match levels.last_mut() {
                Some((price, orders)) if *price == order.price => orders.push(order),
                _ => levels.push((order.price, vec![order])),
            }
        }
        levels
    }

    /// Returns the best visible price of a side.
    pub fn best(&self, side: Side) -> Option<Ticks> {
        self.visible_queue(side).first().map(|order| order.price)
    }

    /// Returns the midpoint of the best prices. If a side is empty, returns the last price or else
    /// the start price.
    pub fn mid_price(&self) -> Ticks {
        match (self.best(Side::Buy), self.best(Side::Sell)) {
            (Some(bid), Some(ask)) => Ticks((bid.0 + ask.0) / 2),
            _ => self.prices.last.unwrap_or(self.spec.start_price),
        }
    }

    /// Returns the reference price of calls and filters.
    pub fn reference(&self) -> Option<Ticks> {
        self.prices.last.or(self.prices.static_reference)
    }

    pub fn get(&self, id: OrderId) -> Option<&ReferenceOrder> {
        self.orders.iter().find(|order| order.id == id)
    }

    pub fn get_mut(&mut self, id: OrderId) -> &mut ReferenceOrder {
        self.orders.iter_mut().find(|order| order.id == id).expect("the caller has seen it")
    }

    /// Returns the ids of the orders that qualify, in order of entry.
    pub fn order_ids(&self, qualifies: impl Fn(&ReferenceOrder) -> bool) -> Vec<OrderId> {
        let mut ids: Vec<OrderId> = self.orders.iter().filter(|order| qualifies(order)).map(|order| order.id).collect();
        ids.sort();
        ids
    }

    pub fn publish_level(&self, side: Side, price: Ticks, out: &mut Vec<Event>) {
        let at_price = self.orders.iter().filter(|o| o.side == side && o.price == price && o.is_visible());
        let lots = Lots(at_price.map(|order| order.shown).sum());
        out.push(Event::Level { instrument: self.spec.id, side, price, lots });
    }

    /// Publishes the level of an order that is or was visible.
    pub fn publish_level_of(&self, order: &ReferenceOrder, out: &mut Vec<Event>) {
        if order.is_visible() {
            self.publish_level(order.side, order.price, out);
        }
    }

    /// Publishes the levels of these orders once each, bids first, best prices first.
    pub fn publish_levels<'a>(&self, orders: impl Iterator<Item = &'a ReferenceOrder>, out: &mut Vec<Event>) {
        let on_show = orders.filter(|order| order.kind == ReferenceOrderKind::Limit);
        let mut levels: Vec<(Side, i64)> = on_show
            .map(|order| (order.side, if order.side == Side::Buy { -order.price.0 } else { order.price.0 }))
            .collect();
        levels.sort();
        levels.dedup();
        for (side, price) in levels {
            self.publish_level(side, Ticks(price.abs()), out);
        }
    }

    pub fn remove(&mut self, id: OrderId) -> ReferenceOrder {
        let at = self.orders.iter().position(|order| order.id == id).expect("the caller has seen it");
        self.orders.remove(at)
    }

    /// Cancels an order and publishes its level.
    pub fn cancel(&mut self, id: OrderId, reason: CancelReason, out: &mut Vec<Event>) {
        let order = self.remove(id);
        out.push(cancelled(self.spec.id, &order, reason));
        self.publish_level_of(&order, out);
    }

    /// Parks an order until its session.
    pub fn park(&mut self, id: OrderId, out: &mut Vec<Event>) {
        let instrument = self.spec.id;
        let order = self.get_mut(id);
        let before = *order;
        order.place = ReferenceOrderState::Parked;
        order.shown = 0;
        out.push(Event::Parked { order: id, account: before.account, instrument, open: Lots(before.open) });
        self.publish_level_of(&before, out);
    }

    pub fn is_crossed(&self) -> bool {
        use pitwire_model::Side::{Buy, Sell};
        matches!((self.best(Buy), self.best(Sell)), (Some(bid), Some(offer)) if bid >= offer)
    }

    /// Halts the instrument after a failure of the engine. Nothing else changes.
    pub fn halt(&mut self, now: VenueNanos) {
        if self.session.phase == Phase::Halted {
            return;
        }
        if self.session.phase.is_call() && !self.session.missed {
            self.session.unfinished.insert(self.session.phase as u8);
        }
        if self.session.phase == Phase::Continuous {
            self.closing.continuous_ended = Some(now);
        }
        (self.session.phase, self.session.ends, self.session.missed) = (Phase::Halted, None, false);
        (self.session.continues, self.filtered_touch, self.call.published) = (None, None, IndicativeValues::default());
    }

    pub fn touch(&self) -> VisibleTouch {
        [Side::Buy, Side::Sell].map(|side| {
            let best = self.best(side)?;
            let there = self.visible_queue(side).into_iter().filter(|order| order.price == best);
            Some((best, there.map(|order| order.shown).sum()))
        })
    }

    /// Whether the last price has reached the stop price.
    pub fn has_reached_stop(&self, order: &ReferenceOrder) -> bool {
        self.prices.last.is_some_and(|last| match order.side {
            Side::Buy => last >= order.stop,
            Side::Sell => last <= order.stop,
        })
    }

    pub fn elected(&self) -> Vec<ReferenceOrder> {
        let mut elected: Vec<ReferenceOrder> =
            self.orders.iter().filter(|order| order.place == ReferenceOrderState::Elected).copied().collect();
        elected.sort_by_key(|order| order.time);
        elected
    }

    /// Whether the instrument publishes indicative values.
    pub fn publishes_indicative(&self) -> bool {
        self.is_batching() || (self.session.phase.is_call() && !self.session.missed)
    }

    /// Stores the price of a trade outside the closing price cross.
    pub fn set_last_price(&mut self, price: Ticks) {
        self.prices.last = Some(price);
        self.prices.dynamic = Some(price);
        self.closing.last_trade = Some(price);
    }
}
