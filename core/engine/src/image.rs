//! The engine's whole state as plain data: what a snapshot keeps and what a state hash is taken over.
//!
//! Holds       orders stand in priority order, so a restored book has the same queues; slots and hash maps, which
//!             nobody can observe, are built anew.

use std::collections::BTreeSet;

use pitwire_model::{
    AccountId, AccountSpec, Currency, Epoch, FlowSetting, InstrumentId, InstrumentSpec, OrderId, Phase, SessionId,
    Side, Ticks, TradeSeq,
};

use crate::account::{Account, Balance, Position, Standing};
use crate::book::{Origin, Owner, Resting, Slot};
use crate::engine::Engine;
use crate::kill::Blocks;
use crate::market::Market;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineImage {
    pub epoch: Epoch,
    pub flow: FlowSetting,
    /// The highest number an accepted order has come from.
    pub last_session: SessionId,
    pub venue_killed: bool,
    /// Ascending.
    pub killed_sessions: Vec<SessionId>,
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
    /// Bids, then asks, each in priority order.
    pub orders: Vec<OrderImage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderImage {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    pub day: bool,
    pub price: Ticks,
    /// Shown and hidden together.
    pub open: u32,
    pub ordered: u32,
    /// What the public sees of it: `open` but for icebergs.
    pub shown: u32,
    /// The peak of an iceberg; zero for every other order.
    pub display: u32,
    pub origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountImage {
    pub spec: AccountSpec,
    pub balances: Vec<Balance>,
    pub positions: Vec<(InstrumentId, Position)>,
    pub standing: Standing,
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
            blocks: Blocks::new(image.venue_killed, ascending(image.killed_sessions)?),
            currencies: image.currencies,
            ..Engine::default()
        };
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
        let is_price = |ticks: Ticks| ticks.0 >= 1;
        let prices = [image.spec.start_price, image.index, image.mark];
        if !prices.into_iter().chain(image.last).all(is_price) {
            return Err(ImageError("a market valued at what is no price"));
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
        for order in image.orders {
            let slot = self.restore_order(&mut market, order).ok_or(ImageError("an order that cannot rest"))?;
            self.orders.insert(order.id, instrument, slot);
        }
        market.judge();
        self.markets.push(market);
        Ok(())
    }

    fn restore_order(&mut self, market: &mut Market, image: OrderImage) -> Option<Slot> {
        let OrderImage { id, price, open, ordered, shown, display, origin, .. } = image;
        let account = self.accounts.get_mut(image.account.0 as usize)?;
        let sane = image.account.0 <= Owner::MAX_ACCOUNT
            && (1..=Ticks::MAX_PRICE.0).contains(&price.0)
            && (1..=ordered).contains(&open)
            && (1..=open).contains(&shown)
            && (if display == 0 { shown == open } else { shown <= display })
            && origin.session <= self.last_session
            && market.phase != Phase::Deleted
            && !account.is_closed();
        if !sane || self.orders.contains(id) {
            return None;
        }
        account.open_orders += 1;
        let owner = Owner::new(image.account, image.side, image.day);
        let resting = Resting { id, price, open: shown, ordered, owner, hidden: open - shown, display };
        Some(market.book.rest(resting, origin).0)
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
    let slots = [Side::Buy, Side::Sell].into_iter().flat_map(|side| market.book.slots(side));
    MarketImage {
        spec: market.spec.clone(),
        phase: market.phase,
        change_id: market.change_id,
        trades: market.trades,
        last: market.last,
        index: market.index,
        mark: market.mark,
        busted: market.busted.iter().copied().collect(),
        orders: slots.map(|slot| order_image(market, slot)).collect(),
    }
}

fn order_image(market: &Market, slot: Slot) -> OrderImage {
    let order = market.book.get(slot);
    OrderImage {
        id: order.id,
        account: order.owner.account(),
        side: order.owner.side(),
        day: order.owner.is_day(),
        price: order.price,
        open: order.total_open(),
        ordered: order.ordered,
        shown: order.open,
        display: order.display,
        origin: market.book.origin(slot),
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
