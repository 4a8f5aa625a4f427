//! The engine's whole state as plain data: what a snapshot keeps and what a state hash is taken over.
//!
//! Holds       orders stand in priority order, so a restored book has the same queues; slots and hash maps, which
//!             nobody can observe, are built anew.

use std::collections::BTreeSet;

use pitwire_model::{
    AccountId, AccountSpec, Currency, Derivation, Epoch, FlowSetting, InstrumentId, InstrumentSpec, MatchGroup,
    OrderId, OrderType, Phase, RemainingSessions, SelfMatch, SessionId, Side, Ticks, TimeInForce, TradeSeq, VenueDay,
    VenueNanos,
};

use crate::account::{Account, AccountStatus, Balance, Position};

use crate::book::{OrderOrigin, Owner, RestingOrder, Slot};
use crate::day::ClosingPriceInputs;
use crate::engine::Engine;
use crate::kill::TradingBlocks;
use crate::market::Market;
use crate::reporting::Reporting;
use crate::rule_tables::{Tif, TifSet};
use crate::schedule::check_rules;
use crate::special::{DeferredCallEnd, IndicativeUncross, UndisplayedOrder, UndisplayedState};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineImage {
    pub epoch: Epoch,
    pub flow: FlowSetting,
    /// The highest number an accepted order has come from.
    pub last_session: SessionId,
    pub venue_killed: bool,
    /// Ascending.
    pub killed_sessions: Vec<SessionId>,
    /// The venue day that is; zero before the first has begun.
    pub day: VenueDay,
    /// When it closes.
    pub closes: VenueNanos,
    pub currencies: Vec<Currency>,
    pub markets: Vec<MarketImage>,
    pub accounts: Vec<AccountImage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketImage {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    pub trades: TradeSeq,
    pub last: Option<Ticks>,
    pub index: Ticks,
    pub mark: Ticks,
    /// Trades taken back, ascending.
    pub busted: Vec<TradeSeq>,
    pub session: SessionImage,
    pub reporting: Reporting,
    /// Bids, then asks, each in priority order; then those beside the visible book, by place, then number.
    pub orders: Vec<OrderImage>,
}

/// Where an instrument is in its day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionImage {
    pub ends: Option<VenueNanos>,
    pub remaining: RemainingSessions,
    /// The call that runs is only told of, because the venue was down for the whole of it.
    pub missed: bool,
    /// The call that a volatility call goes on from.
    pub continues: Option<Phase>,
    /// What a call that was broken off would have ended; `None` when nothing was.
    pub unfinished: Option<TifSet>,
    pub static_reference: Option<Ticks>,
    /// Only where it was set up apart from the last price and nothing has traded since.
    pub dynamic_reference: Option<Ticks>,
    pub closing: Option<(Ticks, Derivation)>,
    pub previous_close: Option<Ticks>,
    /// Price of the last uncross of a call or batch.
    pub uncross_price: Option<Ticks>,
    /// What the public was told last of a call.
    pub indicated: IndicativeUncross,
    /// How many live orders are older than the end of each batch, where that parts live orders; ascending.
    pub older_than_batches: Vec<u32>,
    /// What the closing price is made from.
    pub day: ClosingPriceInputs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderImage {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    /// Where it waits beside the visible book; `None` for what stands in it.
    pub place: Option<UndisplayedState>,
    /// What it is by now: an elected stop is a market or limit order, an iceberg a limit order.
    pub order_type: OrderType,
    pub tif: TimeInForce,
    /// The day of a GTC order's entry; zero if none had begun, and for all others.
    pub entered: VenueDay,
    /// Shown and hidden together.
    pub open: u32,
    pub ordered: u32,
    /// What the public sees of it: `open` but for icebergs; zero beside the visible book.
    pub shown: u32,
    /// The peak of an iceberg; zero for every other order.
    pub display: u32,
    /// What bounds a market order or a stop; zero where nothing does.
    pub bound: Ticks,
    /// Its rank in time among the live orders of its instrument, from 1.
    pub rank: u32,
    /// Its own word on self-match prevention, as long as it is parked, unelected or elected.
    pub mode: Option<SelfMatch>,
    pub session: SessionId,
    pub group: MatchGroup,
    pub cancel_on_disconnect: bool,
}

impl OrderImage {
    /// Its limit; zero for market orders and stops.
    pub fn price(&self) -> Ticks {
        self.order_type.limit_price().unwrap_or(Ticks::ZERO)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountImage {
    pub spec: AccountSpec,
    pub balances: Vec<Balance>,
    pub positions: Vec<(InstrumentId, Position)>,
    pub standing: AccountStatus,
}

/// An image that no engine can have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError(pub &'static str);

/// Far beyond what trading can lead to, and sums and products of them still fit into 128 bits.
const MOST_HELD: i128 = 1 << 120;
const MOST_ENTRY: i128 = 1 << 94;
const MOST_POSITION_LOTS: i128 = 1 << 62;

impl Engine {
    pub fn image(&self) -> EngineImage {
        EngineImage {
            epoch: self.epoch,
            flow: self.flow,
            last_session: self.last_session,
            venue_killed: self.blocks.venue(),
            killed_sessions: self.blocks.sessions().collect(),
            day: self.day,
            closes: self.closes,
            currencies: self.currencies.clone(),
            markets: self.markets.iter().map(market_image).collect(),
            accounts: self.accounts.iter().map(account_image).collect(),
        }
    }

    pub fn from_image(image: EngineImage) -> Result<Engine, ImageError> {
        let mut engine = Engine {
            epoch: image.epoch,
            flow: image.flow,
            last_session: image.last_session,
            blocks: TradingBlocks::new(image.venue_killed, ascending(image.killed_sessions)?),
            currencies: image.currencies,
            ..Engine::default()
        };
        engine.set_day(image.day, image.closes);
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
            return Err(ImageError("an account without a balance for each currency"));
        }
        let lines = &image.standing.credit_lines;
        if lines.iter().any(|(currency, units)| self.currency(*currency).is_none() || *units <= 0) {
            return Err(ImageError("a credit line of nothing"));
        }
        let counts = |units: i128, most: i128| (-most..=most).contains(&units);
        let holds = |balance: &Balance| counts(balance.total, MOST_HELD) && counts(balance.reserved, MOST_HELD);
        let stands = |held: &Position| {
            (0..=MOST_ENTRY).contains(&held.entry_value)
                && counts(held.realized, MOST_HELD)
                && counts(i128::from(held.lots), MOST_POSITION_LOTS)
        };
        if !image.balances.iter().all(holds) || !image.positions.iter().all(|(_, held)| stands(held)) {
            return Err(ImageError("an account with more than there can be"));
        }
        let mut account = Account::new(image.spec, 0);
        account.balances = image.balances;
        account.positions = image.positions.into_iter().collect();
        account.standing = image.standing;
        account.judge();
        self.accounts.push(account);
        Ok(())
    }

    fn restore_market(&mut self, image: MarketImage) -> Result<(), ImageError> {
        let money = self.money_of(&image.spec).ok_or(ImageError("an instrument that cannot be settled"))?;
        let instrument = image.spec.id;
        if instrument.0 as usize != self.markets.len() {
            return Err(ImageError("instruments out of order"));
        }
        // An index is counted in this market's ticks, of which its source's price may be more than an order may name.
        let is_value = |ticks: Ticks| ticks.0 >= 1;
        let is_price = |ticks: Ticks| is_value(ticks) && ticks <= Ticks::MAX_PRICE;
        if ![image.index, image.mark].into_iter().all(is_value) || !image.last.is_none_or(is_price) {
            return Err(ImageError("a market valued at what is no price"));
        }
        if image.spec.rules.as_deref().is_some_and(|rules| check_rules(rules).is_err()) {
            return Err(ImageError("rules that no operator can have set"));
        }
        let mut market = Market::new(image.spec, money);
        market.phase = image.phase;
        market.change_id = image.change_id;
        market.trades = image.trades;
        market.last = image.last;
        market.index = image.index;
        market.mark = image.mark;
        market.busted = ascending(image.busted)?;
        if market.busted.iter().any(|trade| !(1..=market.trades.0).contains(&trade.0)) {
            return Err(ImageError("a bust of a trade that was not"));
        }
        let orders = image.orders.len();
        self.times = self.times.max(orders as u64);
        let mut ranks = vec![false; orders];
        let mut before: Option<&OrderImage> = None;
        for order in &image.orders {
            let rank = (order.rank as usize).checked_sub(1).and_then(|rank| ranks.get_mut(rank));
            let is_new = rank.is_some_and(|taken| !std::mem::replace(taken, true));
            let is_later = before.is_none_or(|before| !before.queues_with(order) || before.rank < order.rank);
            if !is_new || !is_later {
                return Err(ImageError("orders that came at no time"));
            }
            let slot = self.restore_order(&mut market, order).ok_or(ImageError("an order that cannot rest"))?;
            self.orders.insert(order.id, instrument, slot);
            before = Some(order);
        }
        market.restore_session(image.session)?;
        self.check_reporting(&market, &image.reporting)?;
        market.special.reporting = image.reporting;
        market.judge();
        self.markets.push(market);
        Ok(())
    }

    fn restore_order(&mut self, market: &mut Market, image: &OrderImage) -> Option<Slot> {
        let account = self.accounts.get_mut(image.account.0 as usize)?;
        let sane = image.account.0 <= Owner::MAX_ACCOUNT
            && (1..=image.ordered).contains(&image.open)
            && image.is_priced_soundly()
            && image.session <= self.last_session
            && market.phase != Phase::Deleted
            && !account.is_closed();
        if !sane || self.orders.contains(image.id) {
            return None;
        }
        account.open_orders += 1;
        let origin = image.origin()?;
        if let TimeInForce::GoodTillTime { at } = image.tif {
            market.special.times.set(image.id, at, |_| true);
        }
        match image.place {
            None => image.resting().map(|resting| market.book.rest(resting, origin).0),
            Some(place) => image.kept(place, origin).map(|kept| market.put_kept(kept)),
        }
    }
}

impl OrderImage {
    fn is_priced_soundly(&self) -> bool {
        let is_price = |ticks: Ticks| (1..=Ticks::MAX_PRICE.0).contains(&ticks.0);
        let prices = [self.order_type.limit_price(), self.order_type.stop_price()];
        prices.into_iter().flatten().all(is_price) && (self.bound == Ticks::ZERO || is_price(self.bound))
    }

    /// Whether both stand in the queue of one price.
    fn queues_with(&self, other: &OrderImage) -> bool {
        self.place.is_none() && other.place.is_none() && self.side == other.side && self.order_type == other.order_type
    }

    fn origin(&self) -> Option<OrderOrigin> {
        let day = match self.tif {
            TimeInForce::GoodTillDate { day } => u16::try_from(day.0).ok()?,
            TimeInForce::GoodTillCancel => u16::try_from(self.entered.0).ok()?,
            // It was later than some venue time once.
            TimeInForce::GoodTillTime { at: VenueNanos(0) } => return None,
            _ if self.entered != VenueDay::ZERO => return None,
            _ => 0,
        };
        let (session, group, cancel_on_disconnect) = (self.session, self.group, self.cancel_on_disconnect);
        Some(OrderOrigin {
            time: u64::from(self.rank),
            session,
            group,
            day,
            tif: Tif::of(self.tif),
            cancel_on_disconnect,
        })
    }

    fn resting(&self) -> Option<RestingOrder> {
        let OrderImage { id, open, ordered, shown, display, .. } = *self;
        let OrderType::Limit { price } = self.order_type else { return None };
        let sane = (1..=open).contains(&shown)
            && (if display == 0 { shown == open } else { shown <= display })
            && self.bound == Ticks::ZERO
            && self.mode.is_none();
        let owner = Owner::new(self.account, self.side, self.tif == TimeInForce::Day);
        let hidden = open.checked_sub(shown).filter(|_| sane)?;
        Some(RestingOrder { id, price, open: shown, ordered, owner, hidden, display })
    }

    fn kept(&self, place: UndisplayedState, origin: OrderOrigin) -> Option<UndisplayedOrder> {
        let OrderImage { id, account, side, order_type: kind, open, ordered, display, bound, mode, .. } = *self;
        let order = UndisplayedOrder { id, account, side, place, kind, open, ordered, display, bound, mode, origin };
        let fits = match kind {
            OrderType::Market => {
                matches!(place, UndisplayedState::Parked | UndisplayedState::Elected | UndisplayedState::Unpriced)
            }
            OrderType::Limit { .. } => matches!(place, UndisplayedState::Parked | UndisplayedState::Elected),
            OrderType::Hidden { .. } => place == UndisplayedState::Hidden && (1..=open).contains(&order.minimum()),
            OrderType::Stop { .. } | OrderType::StopLimit { .. } => place == UndisplayedState::Unelected,
        };
        let forgot = mode.is_none()
            || matches!(place, UndisplayedState::Parked | UndisplayedState::Unelected | UndisplayedState::Elected);
        (fits && forgot && self.shown == 0).then_some(order)
    }
}

impl Market {
    fn restore_session(&mut self, image: SessionImage) -> Result<(), ImageError> {
        let prices = [image.static_reference, image.dynamic_reference, image.previous_close, image.uncross_price];
        let closing = image.closing.map(|(price, _)| price);
        let is_price = |price: Ticks| (1..=Ticks::MAX_PRICE.0).contains(&price.0);
        if !prices.into_iter().flatten().chain(closing).all(is_price) {
            return Err(ImageError("a reference that is no price"));
        }
        if !image.unfinished.is_none_or(TifSet::is_sound) {
            return Err(ImageError("an end of what there is not"));
        }
        let special = &mut self.special;
        special.ends = image.ends;
        special.remaining = image.remaining;
        special.missed = image.missed;
        special.continues = image.continues;
        special.unfinished =
            image.unfinished.map_or(DeferredCallEnd::default(), |expire| DeferredCallEnd { expire, waits: true });
        special.static_reference = image.static_reference;
        special.dynamic_reference = image.dynamic_reference.filter(|price| Some(*price) != self.last);
        special.closing = image.closing;
        special.previous_close = image.previous_close;
        special.uncross_price = image.uncross_price;
        special.indicated = image.indicated;
        let live = self.book.resting_orders() as usize + self.special.len();
        let counts = image.older_than_batches;
        let is_sound = |count: &u32| (1..=live).contains(&(*count as usize));
        if !counts.is_sorted_by(|a, b| a < b) || !counts.iter().all(is_sound) {
            return Err(ImageError("batches that part no orders"));
        }
        self.set_batch_counts(&counts);
        if !image.day.is_sound(self.trades) {
            return Err(ImageError("a day that cannot have been"));
        }
        self.day = image.day;
        self.phase_changed();
        Ok(())
    }
}

/// A list as a set; nothing may stand in it twice or out of place.
fn ascending<T: Ord>(list: Vec<T>) -> Result<BTreeSet<T>, ImageError> {
    if list.is_sorted_by(|a, b| a < b) {
        Ok(list.into_iter().collect())
    } else {
        Err(ImageError("a list out of order"))
    }
}

fn market_image(market: &Market) -> MarketImage {
    let in_book = [Side::Buy, Side::Sell].into_iter().flat_map(|side| market.book.slots(side));
    let mut orders: Vec<(u64, OrderImage)> = in_book.map(|slot| resting_image(market, slot)).collect();
    let mut kept: Vec<&UndisplayedOrder> = market.special.unordered().map(|(_, order)| order).collect();
    kept.sort_unstable_by_key(|order| (order.place, order.id));
    orders.extend(kept.into_iter().map(|order| (order.origin.time, kept_image(market, order))));
    let mut times: Vec<u64> = orders.iter().map(|(time, _)| *time).collect();
    times.sort_unstable();
    let up_to = |time: u64| u32::try_from(times.partition_point(|other| *other <= time)).unwrap_or(u32::MAX);
    for (time, order) in &mut orders {
        order.rank = up_to(*time);
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
    let special = &market.special;
    SessionImage {
        ends: special.ends,
        remaining: special.remaining,
        missed: special.missed,
        continues: special.continues,
        unfinished: special.unfinished.waits.then_some(special.unfinished.expire),
        static_reference: special.static_reference,
        dynamic_reference: special.dynamic_reference,
        closing: special.closing,
        previous_close: special.previous_close,
        uncross_price: special.uncross_price,
        indicated: special.indicated,
        older_than_batches: market.batch_counts(),
        day: market.day.clone(),
    }
}

/// With its place in time, from which its rank follows.
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

fn kept_image(market: &Market, order: &UndisplayedOrder) -> OrderImage {
    OrderImage {
        place: Some(order.place),
        order_type: order.kind,
        open: order.open,
        ordered: order.ordered,
        shown: 0,
        display: order.display,
        bound: order.bound,
        mode: order.mode,
        ..origin_image(market, order.id, order.account, order.side, order.origin)
    }
}

/// What every order has, wherever it is.
fn origin_image(market: &Market, id: OrderId, account: AccountId, side: Side, origin: OrderOrigin) -> OrderImage {
    OrderImage {
        id,
        account,
        side,
        place: None,
        order_type: OrderType::Market,
        tif: market.tif_with_date(id, origin),
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
        positions: account.positions().map(|(id, position)| (id, *position)).collect(),
        standing: account.standing.clone(),
    }
}
