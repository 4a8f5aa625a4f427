//! The engine's whole state as plain data: what a snapshot keeps and what a state hash is taken over.
//!
//! Holds       orders stand in priority order, so a restored book has the same queues; slots and hash maps, which
//!             nobody can observe, are built anew.

use pitwire_model::{
    AccountId, AccountSpec, Currency, Epoch, InstrumentId, InstrumentSpec, OrderId, Phase, Side, Ticks, TradeSeq,
};

use crate::account::{Account, Balance, Position};
use crate::book::{Origin, Owner, Resting};
use crate::engine::Engine;
use crate::market::Market;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineImage {
    pub epoch: Epoch,
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
    pub open: u32,
    pub ordered: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountImage {
    pub spec: AccountSpec,
    pub balances: Vec<Balance>,
    pub positions: Vec<(InstrumentId, Position)>,
}

/// An image that no engine can have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageError(pub &'static str);

impl Engine {
    pub fn image(&self) -> EngineImage {
        EngineImage {
            epoch: self.epoch,
            currencies: self.currencies.clone(),
            markets: self.markets.iter().map(market_image).collect(),
            accounts: self.accounts.iter().map(account_image).collect(),
        }
    }

    pub fn from_image(image: EngineImage) -> Result<Engine, ImageError> {
        let mut engine = Engine { epoch: image.epoch, currencies: image.currencies, ..Engine::default() };
        for account in image.accounts {
            if account.balances.len() != engine.currencies.len() {
                return Err(ImageError("an account without a balance for each currency"));
            }
            let positions = account.positions.into_iter().collect();
            engine.accounts.push(Account { spec: account.spec, balances: account.balances, positions });
        }
        for market in image.markets {
            engine.restore_market(market)?;
        }
        Ok(engine)
    }

    fn restore_market(&mut self, image: MarketImage) -> Result<(), ImageError> {
        let money = self.money_of(&image.spec).ok_or(ImageError("an instrument that cannot be settled"))?;
        let instrument = image.spec.id;
        if instrument.0 as usize != self.markets.len() {
            return Err(ImageError("instruments out of order"));
        }
        let mut market = Market::new(image.spec, money);
        market.phase = image.phase;
        market.change_id = image.change_id;
        market.trades = image.trades;
        market.last = image.last;
        market.index = image.index;
        market.mark = image.mark;
        for order in image.orders {
            let known = (order.account.0 as usize) < self.accounts.len() && order.account.0 <= Owner::MAX_ACCOUNT;
            let sane = (1..=Ticks::MAX_PRICE.0).contains(&order.price.0) && (1..=order.ordered).contains(&order.open);
            if !known || !sane || self.orders.contains(order.id) {
                return Err(ImageError("an order that cannot rest"));
            }
            let owner = Owner::new(order.account, order.side, order.day);
            let OrderImage { id, price, open, ordered, .. } = order;
            let order = Resting { id, price, open, ordered, owner, hidden: 0, display: 0 };
            let (slot, _) = market.book.rest(order, Origin::default());
            self.orders.insert(id, instrument, slot);
        }
        self.markets.push(market);
        Ok(())
    }
}

fn market_image(market: &Market) -> MarketImage {
    let orders = [Side::Buy, Side::Sell].into_iter().flat_map(|side| market.book.orders(side));
    MarketImage {
        spec: market.spec.clone(),
        phase: market.phase,
        change_id: market.change_id,
        trades: market.trades,
        last: market.last,
        index: market.index,
        mark: market.mark,
        orders: orders
            .map(|order| OrderImage {
                id: order.id,
                account: order.owner.account(),
                side: order.owner.side(),
                day: order.owner.is_day(),
                price: order.price,
                open: order.open,
                ordered: order.ordered,
            })
            .collect(),
    }
}

fn account_image(account: &Account) -> AccountImage {
    AccountImage {
        spec: account.spec.clone(),
        balances: account.balances.clone(),
        positions: account.positions().map(|(id, position)| (id, *position)).collect(),
    }
}
