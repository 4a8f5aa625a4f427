//! Captures the engine's state as an image and restores it.
//!
//! Holds       a restore checks everything that an image could violate; an engine never panics on
//!             what it has restored.
//! Start at    [`Engine::image`], then [`Engine::from_image`].

use std::collections::BTreeSet;

use pitwire_model::{
    AccountId, InstrumentId, OrderId, OrderType, Phase, Side, Ticks, TimeInForce, TradeReport, VenueDay, VenueNanos,
};

use crate::account::{Account, Balance, Position};
use crate::blocks::TradingBlocks;
use crate::book::{OrderOrigin, Owner, RestingOrder, Slot};
use crate::definition_checks::check_rules;
use crate::engine::Engine;
use crate::image::{AccountImage, EngineImage, ImageError, MarketImage, OrderImage, SessionImage};
use crate::market::Market;
use crate::order_checks::{check_price, lots_u32};
use crate::reporting::Reporting;
use crate::rule_tables::{Tif, TifSet};
use crate::session_state::DeferredCallEnd;
use crate::undisplayed::{UndisplayedOrder, UndisplayedState};

/// Largest balance of an image in units. Trading cannot reach it, and sums and products of it fit
/// into 128 bits.
const MOST_BALANCE: i128 = 1 << 120;
/// Largest entry value of a position in units.
const MOST_ENTRY_VALUE: i128 = 1 << 94;
/// Largest position in lots.
const MOST_POSITION_LOTS: i128 = 1 << 62;

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
            currencies: self.currencies.clone(),
            markets: self.markets.iter().map(market_image).collect(),
            accounts: self.accounts.iter().map(account_image).collect(),
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
            currencies: image.currencies,
            ..Engine::default()
        };
        engine.clock.set_day(image.day, image.closes);
        for account in image.accounts {
            engine.restore_account(account)?;
        }
        for market in image.markets {
            engine.restore_market(market)?;
        }
        Ok(engine)
    }

    fn restore_account(&mut self, image: AccountImage) -> Result<(), ImageError> {
        if image.balances.len() != self.currencies.len() {
            return Err(ImageError("an account does not have one balance per currency"));
        }
        let lines = &image.standing.credit_lines;
        if lines.iter().any(|(currency, units)| self.currency(*currency).is_none() || *units <= 0) {
            return Err(ImageError("a credit line is not positive or has an unknown currency"));
        }
        let is_within = |units: i128, most: i128| (-most..=most).contains(&units);
        let is_valid_balance =
            |balance: &Balance| is_within(balance.total, MOST_BALANCE) && is_within(balance.reserved, MOST_BALANCE);
        let is_valid_position = |position: &Position| {
            (0..=MOST_ENTRY_VALUE).contains(&position.entry_value)
                && is_within(position.realized, MOST_BALANCE)
                && is_within(i128::from(position.lots), MOST_POSITION_LOTS)
        };
        let positions_are_valid = image.positions.iter().all(|(_, position)| is_valid_position(position));
        if !image.balances.iter().all(is_valid_balance) || !positions_are_valid {
            return Err(ImageError("a balance or position is out of range"));
        }
        let mut account = Account::new(image.spec, 0);
        account.balances = image.balances;
        account.positions = image.positions.into_iter().collect();
        account.status = image.standing;
        account.update_flags();
        self.accounts.push(account);
        Ok(())
    }

    fn restore_market(&mut self, image: MarketImage) -> Result<(), ImageError> {
        let terms = self.settlement_terms(&image.spec).ok_or(ImageError("an instrument cannot be settled"))?;
        let instrument = image.spec.id;
        if instrument.0 as usize != self.markets.len() {
            return Err(ImageError("instruments are out of order"));
        }
        // An index price counts in this market's ticks, so it may exceed the highest price of an
        // order.
        let has_values = [image.index, image.mark].into_iter().all(|ticks| ticks.0 >= 1);
        if !has_values || !image.last.is_none_or(is_price) {
            return Err(ImageError("an index, mark or last price is out of range"));
        }
        if image.spec.rules.as_deref().is_some_and(|rules| check_rules(rules).is_err()) {
            return Err(ImageError("trading rules are not valid"));
        }
        let mut market = Market::new(image.spec, terms);
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
        self.restore_orders(&mut market, &image.orders)?;
        market.restore_session(image.session)?;
        self.check_reporting(&market, &image.reporting)?;
        *market.reporting = image.reporting;
        market.update_plain();
        self.markets.push(market);
        Ok(())
    }

    fn restore_orders(&mut self, market: &mut Market, orders: &[OrderImage]) -> Result<(), ImageError> {
        self.clock.last_priority = self.clock.last_priority.max(orders.len() as u64);
        let mut ranks = vec![false; orders.len()];
        let mut before: Option<&OrderImage> = None;
        for order in orders {
            let rank = (order.rank as usize).checked_sub(1).and_then(|rank| ranks.get_mut(rank));
            let is_new = rank.is_some_and(|taken| !std::mem::replace(taken, true));
            let is_later = before.is_none_or(|before| !before.is_in_queue_of(order) || before.rank < order.rank);
            if !is_new || !is_later {
                return Err(ImageError("time ranks of orders are not unique or not in queue order"));
            }
            let slot = self.restore_order(market, order).ok_or(ImageError("an order is not valid"))?;
            self.orders.insert(order.id, market.spec.id, slot);
            before = Some(order);
        }
        Ok(())
    }

    fn restore_order(&mut self, market: &mut Market, image: &OrderImage) -> Option<Slot> {
        let account = self.accounts.get_mut(image.account.0 as usize)?;
        let is_valid = image.account.0 <= Owner::MAX_ACCOUNT
            && (1..=image.ordered).contains(&image.open)
            && image.has_valid_prices()
            && image.session <= self.last_session
            && market.phase != Phase::Deleted
            && !account.is_closed();
        if !is_valid || self.orders.contains(image.id) {
            return None;
        }
        account.open_orders += 1;
        let origin = image.origin()?;
        if let TimeInForce::GoodTillTime { at } = image.tif {
            market.expiries.set(image.id, at, |_| true);
        }
        match image.place {
            None => image.resting().map(|resting| market.book.rest(resting, origin).0),
            Some(state) => image.undisplayed(state, origin).map(|order| market.insert_undisplayed(order)),
        }
    }

    fn check_reporting(&self, market: &Market, reporting: &Reporting) -> Result<(), ImageError> {
        let is_valid = |report: &TradeReport| {
            report.instrument == market.spec.id
                && report.account != report.counterparty
                && report.parties().into_iter().all(|party| self.account(party).is_some())
                && lots_u32(report.lots).is_ok()
                && check_price(Some(report.price)).is_ok()
        };
        let has_rest_of_hours = !reporting.open && (!reporting.waiting.is_empty() || reporting.ends.is_some());
        let is_open_though_deleted = market.phase == Phase::Deleted && reporting.open;
        if has_rest_of_hours || is_open_though_deleted || !reporting.waiting.values().all(is_valid) {
            return Err(ImageError("the state of trade reporting is not valid"));
        }
        Ok(())
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
        let (session, group, cancel_on_disconnect) = (self.session, self.group, self.cancel_on_disconnect);
        let (time, tif) = (u64::from(self.rank), Tif::of(self.tif));
        Some(OrderOrigin { time, session, group, day, tif, cancel_on_disconnect })
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
        cancel_on_disconnect: origin.cancel_on_disconnect,
    }
}

fn account_image(account: &Account) -> AccountImage {
    AccountImage {
        spec: account.spec.clone(),
        balances: account.balances.clone(),
        positions: account.positions().map(|(id, position): (InstrumentId, &Position)| (id, *position)).collect(),
        standing: account.status.clone(),
    }
}
