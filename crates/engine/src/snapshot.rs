//! Captures the engine's state as an image and restores it.
//!
//! Holds       a restore checks everything that an image could violate; an engine never panics on
//!             what it has restored.
//! Start at    [`Engine::image`], then [`Engine::from_image`].

use std::collections::BTreeSet;

use pitwire_model::{AccountId, OrderId, OrderType, Phase, SessionId, Side, Ticks, TimeInForce, VenueDay, VenueNanos};

use crate::account::Account;
use crate::account_table::AccountTable;
use crate::blocks::TradingBlocks;
use crate::book::{OrderFlags, OrderOrigin, Owner, RestingOrder, Slot};
use crate::engine::Engine;
use crate::image::{EngineImage, ImageError, MarketImage, OrderImage, SessionImage};
use crate::index::OrderIndex;
use crate::market::Market;
use crate::rule_tables::{Tif, TifSet};
use crate::session_state::DeferredCallEnd;
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

fn is_price(ticks: Ticks) -> bool {
    (1..=Ticks::MAX_PRICE.0).contains(&ticks.0)
}

impl Engine {
    /// Captures the whole state.
    pub fn image(&self) -> EngineImage {
        EngineImage {
            epoch: self.epoch,
            flow: self.flow,
            last_session: self.last_session,
            venue_killed: self.blocks.venue(),
            killed_sessions: self.blocks.sessions().collect(),
            day: self.clock.day,
            closes: self.clock.closes,
            currencies: self.accounts.currencies().to_vec(),
            markets: self.markets.as_slice().iter().map(market_image).collect(),
            accounts: self.accounts.images(),
        }
    }

    /// Restores an engine.
    ///
    /// # Errors
    /// `ImageError` if no engine can have written the image.
    pub fn from_image(image: EngineImage) -> Result<Engine, ImageError> {
        let mut engine = Engine {
            epoch: image.epoch,
            flow: image.flow,
            last_session: image.last_session,
            blocks: TradingBlocks::new(image.venue_killed, ascending_set(image.killed_sessions)?),
            accounts: AccountTable::with_currencies(image.currencies),
            ..Engine::default()
        };
        engine.clock.set_day(image.day, image.closes);
        for account in image.accounts {
            engine.accounts.restore(account)?;
        }
        for market in image.markets {
            engine.restore_market(market)?;
        }
        Ok(engine)
    }

    fn restore_market(&mut self, image: MarketImage) -> Result<(), ImageError> {
        let mut market = self.markets.restored(image.spec, self.accounts.currencies())?;
        // An index price counts in this market's ticks, so it may exceed the highest price of an
        // order.
        let has_values = [image.index, image.mark].into_iter().all(|ticks| ticks.0 >= 1);
        if !has_values || !image.last.is_none_or(is_price) {
            return Err(ImageError("an index, mark or last price is out of range"));
        }
        market.phase = image.phase;
        market.change_id = image.change_id;
        market.trades = image.trades;
        market.last = image.last;
        market.index = image.index;
        market.mark = image.mark;
        market.busted = ascending_set(image.busted)?;
        if market.busted.iter().any(|trade| !(1..=market.trades.0).contains(&trade.0)) {
            return Err(ImageError("a busted trade does not exist"));
        }
        self.clock.last_priority = self.clock.last_priority.max(image.orders.len() as u64);
        OrderRestorer {
            market: &mut market,
            accounts: self.accounts.as_mut_slice(),
            index: &mut self.orders,
            last_session: self.last_session,
            taken_ranks: vec![false; image.orders.len()],
        }
        .restore(&image.orders)?;
        market.restore_session(image.session)?;
        let is_open_though_deleted = market.phase == Phase::Deleted && image.reporting.open;
        if is_open_though_deleted || !image.reporting.is_valid(market.spec.id, self.accounts.as_slice().len()) {
            return Err(ImageError("the state of trade reporting is not valid"));
        }
        *market.reporting = image.reporting;
        market.update_plain();
        self.markets.push(market);
        Ok(())
    }
}

/// Restores the live orders of one instrument. Each time rank belongs to one order, and the ranks
/// of a queue ascend.
struct OrderRestorer<'a> {
    market: &'a mut Market,
    accounts: &'a mut [Account],
    index: &'a mut OrderIndex,
    /// Highest session number that an order may have.
    last_session: SessionId,
    taken_ranks: Vec<bool>,
}

impl OrderRestorer<'_> {
    fn restore(mut self, orders: &[OrderImage]) -> Result<(), ImageError> {
        let mut before: Option<&OrderImage> = None;
        for order in orders {
            let is_later = before.is_none_or(|before| !before.is_in_queue_of(order) || before.rank < order.rank);
            if !self.take_rank(order.rank) || !is_later {
                return Err(ImageError("time ranks of orders are not unique or not in queue order"));
            }
            let slot = self.insert(order).ok_or(ImageError("an order is not valid"))?;
            self.index.insert(order.id, self.market.spec.id, slot);
            before = Some(order);
        }
        Ok(())
    }

    /// Returns whether the rank exists and was free.
    fn take_rank(&mut self, rank: u32) -> bool {
        let taken = (rank as usize).checked_sub(1).and_then(|rank| self.taken_ranks.get_mut(rank));
        taken.is_some_and(|taken| !std::mem::replace(taken, true))
    }

    /// Inserts an order into the market. Returns `None` if the order is not valid.
    fn insert(&mut self, image: &OrderImage) -> Option<Slot> {
        let market = &mut *self.market;
        let account = self.accounts.get_mut(image.account.0 as usize)?;
        let is_valid = image.account.0 <= Owner::MAX_ACCOUNT
            && (1..=image.ordered).contains(&image.open)
            && image.has_valid_prices()
            && image.session <= self.last_session
            && market.phase != Phase::Deleted
            && !account.is_closed();
        if !is_valid || self.index.contains(image.id) {
            return None;
        }
        account.open_orders += 1;
        let origin = image.origin()?;
        if let TimeInForce::GoodTillTime { at } = image.tif {
            market.expiries.set(image.id, at, |_| true);
        }
        match image.place {
            None => {
                if image.reduce_only {
                    market.reduce_only.insert(image.account, image.id);
                }
                image.resting().map(|resting| market.book.rest(resting, origin).0)
            }
            Some(state) => image.undisplayed(state, origin).map(|order| market.insert_undisplayed(order)),
        }
    }
}

impl OrderImage {
    fn has_valid_prices(&self) -> bool {
        let prices = [self.order_type.limit_price(), self.order_type.stop_price()];
        prices.into_iter().flatten().all(is_price) && (self.bound == Ticks::ZERO || is_price(self.bound))
    }

    /// Returns whether both orders rest in the queue of the same price.
    fn is_in_queue_of(&self, other: &OrderImage) -> bool {
        self.place.is_none() && other.place.is_none() && self.side == other.side && self.order_type == other.order_type
    }

    fn origin(&self) -> Option<OrderOrigin> {
        let day = match self.tif {
            TimeInForce::GoodTillDate { day } => u16::try_from(day.0).ok()?,
            TimeInForce::GoodTillCancel => u16::try_from(self.entered.0).ok()?,
            // An expiry time is later than the entry of its order.
            TimeInForce::GoodTillTime { at: VenueNanos(0) } => return None,
            _ if self.entered != VenueDay::ZERO => return None,
            _ => 0,
        };
        let (session, group) = (self.session, self.group);
        let flags = OrderFlags::new(self.cancel_on_disconnect, self.reduce_only);
        let (time, tif) = (u64::from(self.rank), Tif::of(self.tif));
        Some(OrderOrigin { time, session, group, day, tif, flags })
    }

    fn resting(&self) -> Option<RestingOrder> {
        let OrderImage { id, open, ordered, shown, display, .. } = *self;
        let OrderType::Limit { price } = self.order_type else { return None };
        let is_valid = (1..=open).contains(&shown)
            && (if display == 0 { shown == open } else { shown <= display })
            && self.bound == Ticks::ZERO
            && self.mode.is_none();
        let owner = Owner::new(self.account, self.side, self.tif == TimeInForce::Day);
        let hidden = open.checked_sub(shown).filter(|_| is_valid)?;
        Some(RestingOrder { id, price, open: shown, ordered, owner, hidden, display })
    }

    fn undisplayed(&self, state: UndisplayedState, origin: OrderOrigin) -> Option<UndisplayedOrder> {
        let OrderImage { id, account, side, order_type, open, ordered, display, bound, mode, .. } = *self;
        let order = UndisplayedOrder {
            id,
            account,
            side,
            state,
            order_type,
            open,
            ordered,
            display,
            bound,
            self_match: mode,
            origin,
        };
        use UndisplayedState::{Elected, Hidden, Parked, Unelected, Unpriced};
        let fits_type = match order_type {
            OrderType::Market => matches!(state, Parked | Elected | Unpriced),
            OrderType::Limit { .. } => matches!(state, Parked | Elected),
            OrderType::Hidden { .. } => state == Hidden && (1..=open).contains(&order.minimum_execution()),
            OrderType::Stop { .. } | OrderType::StopLimit { .. } => state == Unelected,
        };
        let fits_mode = mode.is_none() || matches!(state, Parked | Unelected | Elected);
        (fits_type && fits_mode && self.shown == 0).then_some(order)
    }
}

impl Market {
    fn restore_session(&mut self, image: SessionImage) -> Result<(), ImageError> {
        let prices = [image.static_reference, image.dynamic_reference, image.previous_close, image.uncross_price];
        let closing = image.closing.map(|(price, _)| price);
        if !prices.into_iter().flatten().chain(closing).all(is_price) {
            return Err(ImageError("a reference or closing price is out of range"));
        }
        if !image.unfinished.is_none_or(TifSet::is_valid) {
            return Err(ImageError("a deferred end of a call names unknown orders"));
        }
        self.session.ends = image.ends;
        self.session.remaining = image.remaining;
        self.session.missed = image.missed;
        self.session.continues = image.continues;
        let deferred = image.unfinished.map(|expire| DeferredCallEnd { expire, waits: true });
        self.session.deferred = deferred.unwrap_or_default();
        self.session.indicative = image.indicated;
        self.prices.static_reference = image.static_reference;
        self.prices.dynamic_reference = image.dynamic_reference.filter(|price| Some(*price) != self.last);
        self.prices.closing = image.closing;
        self.prices.previous_close = image.previous_close;
        self.prices.uncross_price = image.uncross_price;
        let live = self.book.resting_orders() as usize + self.undisplayed.len();
        let counts = image.older_than_batches;
        let is_within = |count: &u32| (1..=live).contains(&(*count as usize));
        if !counts.is_sorted_by(|a, b| a < b) || !counts.iter().all(is_within) {
            return Err(ImageError("batch ends do not separate live orders"));
        }
        self.set_batch_counts(&counts);
        if !image.day.is_valid(self.trades) {
            return Err(ImageError("the inputs of the closing price are not valid"));
        }
        self.closing_inputs = image.day;
        self.restart_auction_state();
        Ok(())
    }
}

/// Converts a strictly ascending list to a set.
fn ascending_set<T: Ord>(list: Vec<T>) -> Result<BTreeSet<T>, ImageError> {
    if list.is_sorted_by(|a, b| a < b) {
        Ok(list.into_iter().collect())
    } else {
        Err(ImageError("a list is not strictly ascending"))
    }
}

fn market_image(market: &Market) -> MarketImage {
    let in_book = Side::BOTH.into_iter().flat_map(|side| market.book.slots(side));
    let mut orders: Vec<(u64, OrderImage)> = in_book.map(|slot| resting_image(market, slot)).collect();
    let mut undisplayed: Vec<&UndisplayedOrder> = market.undisplayed.unordered().map(|(_, order)| order).collect();
    undisplayed.sort_unstable_by_key(|order| (order.state, order.id));
    orders.extend(undisplayed.into_iter().map(|order| (order.origin.time, undisplayed_image(market, order))));
    let mut times: Vec<u64> = orders.iter().map(|(time, _)| *time).collect();
    times.sort_unstable();
    let rank_of = |time: u64| u32::try_from(times.partition_point(|other| *other <= time)).unwrap_or(u32::MAX);
    for (time, order) in &mut orders {
        order.rank = rank_of(*time);
    }
    MarketImage {
        spec: market.spec.clone(),
        phase: market.phase,
        change_id: market.change_id,
        trades: market.trades,
        last: market.last,
        index: market.index,
        mark: market.mark,
        busted: market.busted.iter().copied().collect(),
        session: session_image(market),
        reporting: market.reporting().clone(),
        orders: orders.into_iter().map(|(_, order)| order).collect(),
    }
}

fn session_image(market: &Market) -> SessionImage {
    let Market { session, prices, .. } = market;
    SessionImage {
        ends: session.ends,
        remaining: session.remaining,
        missed: session.missed,
        continues: session.continues,
        unfinished: session.deferred.waits.then_some(session.deferred.expire),
        static_reference: prices.static_reference,
        dynamic_reference: prices.dynamic_reference,
        closing: prices.closing,
        previous_close: prices.previous_close,
        uncross_price: prices.uncross_price,
        indicated: session.indicative,
        older_than_batches: market.batch_counts(),
        day: market.closing_inputs.clone(),
    }
}

/// Returns a displayed order with its time priority, from which its rank follows.
fn resting_image(market: &Market, slot: Slot) -> (u64, OrderImage) {
    let (order, origin) = (market.book.get(slot), market.book.origin(slot));
    let image = OrderImage {
        place: None,
        order_type: OrderType::Limit { price: order.price },
        open: order.total_open(),
        ordered: order.ordered,
        shown: order.open,
        display: order.display,
        bound: Ticks::ZERO,
        mode: None,
        ..origin_image(market, order.id, order.owner.account(), order.owner.side(), origin)
    };
    (origin.time, image)
}

fn undisplayed_image(market: &Market, order: &UndisplayedOrder) -> OrderImage {
    OrderImage {
        place: Some(order.state),
        order_type: order.order_type,
        open: order.open,
        ordered: order.ordered,
        shown: 0,
        display: order.display,
        bound: order.bound,
        mode: order.self_match,
        ..origin_image(market, order.id, order.account, order.side, order.origin)
    }
}

/// Returns the fields that every order has, displayed or not. The others are placeholders.
fn origin_image(market: &Market, id: OrderId, account: AccountId, side: Side, origin: OrderOrigin) -> OrderImage {
    OrderImage {
        id,
        account,
        side,
        place: None,
        order_type: OrderType::Market,
        tif: market.time_in_force(id, origin),
        entered: if origin.tif == Tif::GoodTillCancel { VenueDay(u32::from(origin.day)) } else { VenueDay::ZERO },
        open: 0,
        ordered: 0,
        shown: 0,
        display: 0,
        bound: Ticks::ZERO,
        rank: 0,
        mode: None,
        session: origin.session,
        group: origin.group,
        cancel_on_disconnect: origin.flags.cancel_on_disconnect(),
        reduce_only: origin.flags.reduce_only(),
    }
}
