//! The state of the venue as commands and events describe it: sessions, references and live orders.

use std::collections::BTreeMap;

use pitwire_model::{
    AccountId, CancelReason, Command, CurrencyId, Event, InstrumentId, InstrumentSpec, Lots, MatchGroup, OrderId,
    OrderType, Phase, RemainingSessions, SelfMatch, Seq, SequencedCommand, Side, Ticks, TimeInForce, TradeKind,
    TradeReport, TradingRules, VenueNanos,
};

use crate::text_style::TextStyle;

#[derive(Debug, Default)]
pub(crate) struct VenueView {
    pub now: VenueNanos,
    /// The venue day in days since 1970, and its closing time.
    pub day: Option<(u32, VenueNanos)>,
    pub markets: Vec<InstrumentView>,
    pub orders: BTreeMap<OrderId, ViewedOrder>,
    /// Trade reports that wait for the other party.
    pub reports: BTreeMap<Seq, TradeReport>,
    pub names: BTreeMap<AccountId, String>,
    pub currencies: BTreeMap<CurrencyId, String>,
    /// Self-match prevention of each account.
    pub self_match: BTreeMap<AccountId, SelfMatch>,
    pub style: TextStyle,
    /// The order that self-match prevention cancelled last.
    last_self_match: Option<ViewedOrder>,
    times: u64,
    /// Orders that the current command entered or elected.
    arriving: Vec<OrderId>,
}

#[derive(Clone, Debug)]
pub(crate) struct InstrumentView {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub last: Option<Ticks>,
    pub static_reference: Option<Ticks>,
    pub dynamic_reference: Option<Ticks>,
    pub closing: Option<Ticks>,
    pub previous_close: Option<Ticks>,
    pub remaining: RemainingSessions,
    /// Whether the reporting hours are open, and their end if it is known.
    pub reporting: bool,
    pub reporting_ends: Option<VenueNanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewedState {
    /// Still being matched, or not yet known to wait.
    Arriving,
    Active,
    Parked,
    Unelected,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewedOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub order_type: OrderType,
    pub tif: TimeInForce,
    pub lots: Lots,
    pub open: Lots,
    pub display: Option<Lots>,
    /// The displayed part of `open` for an iceberg. Unused for other orders.
    pub shown: Lots,
    /// Time priority: a lower number came first.
    pub time: u64,
    pub place: ViewedState,
    /// Self-match prevention that the order itself asked for.
    pub self_match: Option<SelfMatch>,
    pub group: MatchGroup,
}

impl InstrumentView {
    pub fn new(spec: InstrumentSpec) -> InstrumentView {
        InstrumentView {
            static_reference: Some(spec.start_price),
            spec,
            phase: Phase::Closed,
            last: None,
            dynamic_reference: None,
            closing: None,
            previous_close: None,
            remaining: RemainingSessions::default(),
            reporting: false,
            reporting_ends: None,
        }
    }

    pub fn rules(&self) -> TradingRules {
        self.spec.rules.as_deref().cloned().unwrap_or_default()
    }

    /// Returns the reference of calls and filters.
    pub fn reference(&self) -> Option<Ticks> {
        self.last.or(self.static_reference)
    }

    pub fn still_to_come(&self, phase: Phase) -> u8 {
        self.remaining.counts[phase as usize]
    }
}

impl ViewedOrder {
    pub fn price(&self) -> Option<Ticks> {
        self.order_type.limit_price()
    }

    pub fn stop(&self) -> Option<Ticks> {
        self.order_type.stop_price()
    }

    /// Returns zero for orders that are not hidden.
    pub fn minimum_execution(&self) -> Lots {
        match self.order_type {
            OrderType::Hidden { minimum_execution, .. } => minimum_execution,
            _ => Lots::ZERO,
        }
    }

    pub fn is_hidden(&self) -> bool {
        matches!(self.order_type, OrderType::Hidden { .. })
    }

    /// Returns the lots that the public book displays for the order.
    pub fn seen(&self) -> Lots {
        match self.display {
            _ if self.is_hidden() => Lots::ZERO,
            Some(_) => self.shown.min(self.open),
            None => self.open,
        }
    }

    pub fn accepts(&self, price: Ticks) -> bool {
        self.price().is_none_or(|limit| match self.side {
            Side::Buy => price <= limit,
            Side::Sell => price >= limit,
        })
    }

    /// Whether self-match prevention compares the two orders.
    pub fn is_in_group_of(&self, other: &ViewedOrder) -> bool {
        match (self.group, other.group) {
            (MatchGroup::Key(key), MatchGroup::Key(theirs)) => key == theirs,
            (MatchGroup::Account, MatchGroup::Account) => self.account == other.account,
            _ => false,
        }
    }

    /// Returns the priority key. A smaller key trades first: market orders, then price, visible
    /// before hidden, time.
    pub fn rank(&self) -> (bool, i64, bool, u64) {
        let price = self.price().map_or(0, |price| match self.side {
            Side::Buy => -price.0,
            Side::Sell => price.0,
        });
        (self.price().is_some(), price, self.is_hidden(), self.time)
    }
}

impl VenueView {
    pub fn market(&self, instrument: InstrumentId) -> Option<&InstrumentView> {
        self.markets.get(instrument.0 as usize)
    }

    pub fn market_mut(&mut self, instrument: InstrumentId) -> Option<&mut InstrumentView> {
        self.markets.get_mut(instrument.0 as usize)
    }

    /// Returns the active orders of a side in priority order.
    pub fn side(&self, instrument: InstrumentId, side: Side) -> Vec<ViewedOrder> {
        let stands = |order: &&ViewedOrder| {
            order.instrument == instrument && order.side == side && order.place == ViewedState::Active
        };
        let mut queue: Vec<ViewedOrder> = self.orders.values().filter(stands).copied().collect();
        queue.sort_by_key(ViewedOrder::rank);
        queue
    }

    pub fn best_visible(&self, instrument: InstrumentId, side: Side) -> Option<Ticks> {
        let mut prices = self.side(instrument, side).into_iter().filter(|order| !order.is_hidden());
        prices.find_map(|order| order.price())
    }

    /// Returns the contra order of the same group that self-match prevention cancelled last.
    pub fn cancelled_for_self_match(&self, order: &ViewedOrder) -> Option<ViewedOrder> {
        let is_contra = |other: &ViewedOrder| other.side != order.side && other.is_in_group_of(order);
        self.last_self_match.filter(is_contra)
    }

    /// Returns the self-match prevention with which an order arrives.
    pub fn self_match_of(&self, order: &ViewedOrder) -> SelfMatch {
        let default = || self.self_match.get(&order.account).copied().unwrap_or_default();
        order.self_match.unwrap_or_else(default)
    }

    fn next_time(&mut self) -> u64 {
        self.times += 1;
        self.times
    }

    /// Ends a command: an order that is still live rests or waits for its stop price.
    pub fn settle(&mut self) {
        for id in self.arriving.drain(..) {
            if let Some(order) = self.orders.get_mut(&id).filter(|order| order.place == ViewedState::Arriving) {
                order.place = if order.stop().is_some() { ViewedState::Unelected } else { ViewedState::Active };
                order.shown = order.display.unwrap_or_default().min(order.open);
            }
        }
    }

    /// Adds an order from a snapshot.
    pub fn restore(&mut self, order: ViewedOrder) {
        self.times = self.times.max(order.time);
        self.orders.insert(order.id, order);
    }

    pub fn follow(&mut self, stamped: &SequencedCommand, event: &Event) {
        match event {
            Event::CurrencyAdded(currency) => _ = self.currencies.insert(currency.id, currency.name.clone()),
            Event::AccountAdded(spec) => {
                self.names.insert(spec.id, spec.name.clone());
                self.self_match.insert(spec.id, spec.settings.self_match);
            }
            Event::AccountSet { account, settings } => _ = self.self_match.insert(*account, settings.self_match),
            Event::InstrumentAdded(spec) => self.markets.push(InstrumentView::new((**spec).clone())),
            Event::TradingRulesSet { instrument, rules } => {
                if let Some(market) = self.market_mut(*instrument) {
                    market.spec.rules = Some(rules.clone());
                }
            }
            Event::InstrumentLimitsSet { instrument, limits } => {
                if let Some(market) = self.market_mut(*instrument) {
                    market.spec.limits = *limits;
                }
            }
            Event::DayBegun { day } => {
                if let Command::BeginDay { closes, .. } = stamped.command {
                    self.day = Some((day.0, closes));
                }
            }
            Event::DayEnded => self.markets.iter_mut().for_each(|market| {
                market.previous_close = market.closing.take().or(market.previous_close);
            }),
            Event::RemainingSet { instrument } => {
                if let (Command::SetRemaining { remaining, .. }, Some(market)) =
                    (&stamped.command, self.markets.get_mut(instrument.0 as usize))
                {
                    market.remaining = *remaining;
                }
            }
            Event::PhaseChanged { instrument, phase } => {
                if let Some(market) = self.market_mut(*instrument) {
                    market.phase = *phase;
                }
            }
            Event::SessionChanged { instrument, from, to, .. } => {
                if let Some(market) = self.market_mut(*instrument) {
                    market.phase = *to;
                    if from != to {
                        market.remaining.take_one(*to);
                    }
                }
            }
            Event::Uncrossed { instrument, price, .. } => {
                if let Some(market) = self.market_mut(*instrument) {
                    market.static_reference = Some(*price);
                }
            }
            Event::ClosingPriceSet { instrument, price, .. } => {
                if let Some(market) = self.market_mut(*instrument) {
                    market.closing = Some(*price);
                }
            }
            Event::ReportingChanged { .. }
            | Event::TradeReported { .. }
            | Event::ReportEnded { .. }
            | Event::OffBookTrade(_) => self.follow_reporting(event),
            _ => self.follow_order(stamped, event),
        }
    }

    fn follow_order(&mut self, stamped: &SequencedCommand, event: &Event) {
        match *event {
            Event::Accepted { order, account, instrument, side, order_type, lots, tif, display } => {
                let time = self.next_time();
                let place = ViewedState::Arriving;
                let (open, shown) = (lots, display.unwrap_or_default());
                let (self_match, group) = match &stamped.command {
                    Command::Enter(entered) => (entered.self_match, entered.match_group),
                    _ => (None, MatchGroup::default()),
                };
                self.arriving.push(order);
                self.orders.insert(
                    order,
                    ViewedOrder {
                        id: order,
                        account,
                        instrument,
                        side,
                        order_type,
                        tif,
                        lots,
                        open,
                        display,
                        shown,
                        time,
                        place,
                        self_match,
                        group,
                    },
                );
            }
            Event::Trade { instrument, price, lots, kind, maker, maker_open, taker, taker_open, .. } => {
                for (id, open) in [(maker, maker_open), (taker, taker_open)] {
                    match open.is_zero() {
                        true => _ = self.orders.remove(&id),
                        false => {
                            if let Some(order) = self.orders.get_mut(&id) {
                                (order.open, order.shown) = (open, order.shown.saturating_sub(lots));
                            }
                        }
                    }
                }
                if let Some(market) = self.market_mut(instrument).filter(|_| kind != TradeKind::Cross) {
                    (market.last, market.dynamic_reference) = (Some(price), Some(price));
                }
            }
            Event::Cancelled { order, reason, .. } => {
                let removed = self.orders.remove(&order);
                if reason == CancelReason::SelfMatch {
                    self.last_self_match = removed;
                }
            }
            Event::Parked { order, .. } => self.put(order, ViewedState::Parked),
            Event::Injected { order, .. } => self.put(order, ViewedState::Active),
            Event::Triggered { order, .. } => {
                let time = self.next_time();
                self.arriving.push(order);
                if let Some(order) = self.orders.get_mut(&order) {
                    (order.time, order.place) = (time, ViewedState::Arriving);
                    order.order_type = match order.order_type {
                        OrderType::StopLimit { price, .. } => OrderType::Limit { price },
                        _ => OrderType::Market,
                    };
                }
            }
            Event::Refreshed { order, shown, .. } => {
                let time = self.next_time();
                if let Some(order) = self.orders.get_mut(&order) {
                    (order.time, order.shown) = (time, shown);
                }
            }
            Event::Amended { order, .. } => self.amended(order, event),
            _ => {}
        }
    }

    fn put(&mut self, order: OrderId, place: ViewedState) {
        if let Some(order) = self.orders.get_mut(&order) {
            order.place = place;
        }
    }

    fn amended(&mut self, id: OrderId, event: &Event) {
        let Event::Amended { price, lots, open, kept_priority, display, stop, minimum_execution, expiry, .. } = *event
        else {
            return;
        };
        let time = (!kept_priority).then(|| self.next_time());
        let Some(order) = self.orders.get_mut(&id) else { return };
        (order.lots, order.open, order.display) = (lots, open, display);
        // A reduction in place takes hidden lots first.
        order.shown = if kept_priority { order.shown.min(open) } else { display.unwrap_or_default().min(open) };
        order.time = time.unwrap_or(order.time);
        order.order_type = order.order_type.amended(price, stop, minimum_execution);
        order.tif = order.tif.amended(expiry);
    }
}
