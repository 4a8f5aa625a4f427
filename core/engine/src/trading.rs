//! Entering, amending, cancelling: what a member's command does to a book and to the accounts it touches.
//!
//! Start at    `Engine::enter`.

use pitwire_model::{
    AccountId, Amend, CancelFilter, CancelReason, CurrencyId, Event, InstrumentId, Lots, NewOrder, OrderId, Phase,
    Priority, Reject, Side, Ticks, TimeInForce, TradeSeq,
};

use crate::account::Account;
use crate::book::{Origin, Owner, Resting, Slot, SweepSink};
use crate::engine::{Engine, EventSink};
use crate::index::OrderIndex;
use crate::market::{Market, Money};

/// An order on its way into a book: checked, not yet matched.
#[derive(Clone, Copy)]
struct Incoming {
    id: OrderId,
    account: AccountId,
    instrument: InstrumentId,
    side: Side,
    limit: Option<Ticks>,
    open: u32,
    ordered: u32,
    day: bool,
    rests: bool,
}

impl Engine {
    pub(crate) fn enter(&mut self, order: &NewOrder, out: &mut impl EventSink) {
        match self.check_entry(order) {
            Err(reason) => out.emit(Event::Rejected { order: order.id, account: order.account, reason }),
            Ok(incoming) => {
                out.emit(Event::Accepted {
                    order: order.id,
                    account: order.account,
                    instrument: order.instrument,
                    side: order.side,
                    order_type: order.order_type,
                    lots: order.lots,
                    tif: order.tif,
                    display: order.display,
                });
                if self.match_and_rest(incoming, out) {
                    self.book_changed(order.instrument, out);
                }
            }
        }
    }

    fn check_entry(&self, order: &NewOrder) -> Result<Incoming, Reject> {
        let market = self.market(order.instrument).ok_or(Reject::UnknownInstrument)?;
        let account = self.account(order.account).ok_or(Reject::UnknownAccount)?;
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        let lots = whole_lots(order.lots)?;
        let limit = order.order_type.limit_price();
        check_price(limit)?;
        if self.orders.contains(order.id) {
            return Err(Reject::DuplicateOrderId);
        }
        let rests = limit.is_some() && order.tif.rests();
        if rests && market.book.resting_orders() >= market.spec.max_resting_orders {
            return Err(Reject::BookFull);
        }
        if account.is_limited() {
            self.check_funds(market, order.account, order.side, limit, u64::from(lots), 0)?;
        }
        Ok(Incoming {
            id: order.id,
            account: order.account,
            instrument: order.instrument,
            side: order.side,
            limit,
            open: lots,
            ordered: lots,
            day: order.tif == TimeInForce::Day,
            rests,
        })
    }

    /// HOT. Trades what can be traded; rests or expires the remainder. Says whether the public book changed: an order
    /// that neither trades nor rests leaves no trace.
    #[inline]
    fn match_and_rest(&mut self, order: Incoming, out: &mut impl EventSink) -> bool {
        let Engine { accounts, markets, orders, .. } = self;
        let market = &mut markets[order.instrument.0 as usize];
        let Market { book, money, trades, last, .. } = market;
        let mut matching = Matching { order, open: order.open, money: *money, trades, last, accounts, orders, out };
        let open = book.sweep(order.side, order.limit, order.open, &mut matching);
        if open == 0 {
            return true;
        }
        match order.limit.filter(|_| order.rests) {
            Some(price) => {
                let owner = Owner::new(order.account, order.side, order.day);
                let Incoming { id, ordered, .. } = order;
                let resting = Resting { id, price, open, ordered, owner, hidden: 0, display: 0 };
                let (slot, lots) = book.rest(resting, Origin::default());
                orders.insert(order.id, order.instrument, slot);
                set_aside(accounts, market, order.account, order.side, price, i128::from(open));
                out.emit(Event::Level { instrument: order.instrument, side: order.side, price, lots: Lots(lots) });
                true
            }
            None => {
                out.emit(Event::Cancelled {
                    order: order.id,
                    account: order.account,
                    instrument: order.instrument,
                    side: order.side,
                    price: order.limit.unwrap_or(Ticks::ZERO),
                    open: Lots(u64::from(open)),
                    reason: CancelReason::ImmediateRemainder,
                });
                open < order.open
            }
        }
    }

    pub(crate) fn cancel(&mut self, account: AccountId, order: OrderId, out: &mut impl EventSink) {
        match self.owned(account, order) {
            Err(reason) => out.emit(Event::CancelRefused { order, account, reason }),
            Ok((instrument, slot)) => {
                self.take_off(instrument, slot, CancelReason::Requested, out);
                self.book_changed(instrument, out);
            }
        }
    }

    #[inline]
    fn owned(&self, account: AccountId, order: OrderId) -> Result<(InstrumentId, Slot), Reject> {
        let (instrument, slot) = self.orders.get(order).ok_or(Reject::UnknownOrder)?;
        let owner = self.markets[instrument.0 as usize].book.account_of(slot);
        if owner == account { Ok((instrument, slot)) } else { Err(Reject::NotOwner) }
    }

    #[inline]
    fn take_off(&mut self, instrument: InstrumentId, slot: Slot, reason: CancelReason, out: &mut impl EventSink) {
        let market = &mut self.markets[instrument.0 as usize];
        let (order, lots) = market.book.remove(slot);
        self.orders.remove(order.id);
        let (account, side) = (order.owner.account(), order.owner.side());
        set_aside(&mut self.accounts, market, account, side, order.price, -i128::from(order.open));
        let open = Lots(u64::from(order.open));
        out.emit(Event::Cancelled { order: order.id, account, instrument, side, price: order.price, open, reason });
        out.emit(Event::Level { instrument, side, price: order.price, lots: Lots(lots) });
    }

    pub(crate) fn cancel_all(
        &mut self,
        account: AccountId,
        which: &CancelFilter,
        reason: CancelReason,
        out: &mut impl EventSink,
    ) {
        let only = match which {
            CancelFilter::Instrument(instrument) => Some(*instrument),
            CancelFilter::All | CancelFilter::Session(_) | CancelFilter::Listed(_) => None,
        };
        let wanted = |order: &Resting| {
            order.owner.account() == account
                && match which {
                    CancelFilter::All | CancelFilter::Instrument(_) => true,
                    CancelFilter::Session(_) => false,
                    CancelFilter::Listed(orders) => orders.contains(&order.id),
                }
        };
        self.take_off_where(only, reason, wanted, out);
    }

    pub(crate) fn end_day(&mut self, out: &mut impl EventSink) {
        self.take_off_where(None, CancelReason::DayEnded, |order| order.owner.is_day(), out);
        out.emit(Event::DayEnded);
    }

    /// Instrument by instrument; within one, in the order of entry.
    fn take_off_where(
        &mut self,
        only: Option<InstrumentId>,
        reason: CancelReason,
        wanted: impl Fn(&Resting) -> bool,
        out: &mut impl EventSink,
    ) {
        for at in 0..self.markets.len() {
            let instrument = self.markets[at].spec.id;
            if only.is_some_and(|only| only != instrument) {
                continue;
            }
            let found = self.markets[at].book.slots_of(|order, _| wanted(order));
            for (_, slot) in &found {
                self.take_off(instrument, *slot, reason, out);
            }
            if !found.is_empty() {
                self.book_changed(instrument, out);
            }
        }
    }

    pub(crate) fn amend(&mut self, amend: Amend, out: &mut impl EventSink) {
        match self.check_amend(amend) {
            Err(reason) => out.emit(Event::AmendRefused { order: amend.order, account: amend.account, reason }),
            Ok((slot, change)) => {
                self.change(amend, slot, change, out);
                self.book_changed(change.instrument, out);
            }
        }
    }

    fn check_amend(&self, amend: Amend) -> Result<(Slot, Incoming), Reject> {
        let (instrument, slot) = self.owned(amend.account, amend.order)?;
        let market = &self.markets[instrument.0 as usize];
        if market.phase != Phase::Continuous {
            return Err(Reject::NotOpen);
        }
        let lots = whole_lots(amend.lots)?;
        let old = market.book.get(slot);
        let filled = old.ordered - old.open;
        let (ordered, open) = match amend.priority {
            Priority::KeepWhenReduced => (lots, lots.checked_sub(filled).filter(|open| *open > 0)),
            Priority::AlwaysLose => (filled.checked_add(lots).ok_or(Reject::QuantityOutOfRange)?, Some(lots)),
        };
        check_price(Some(amend.price))?;
        let open = open.ok_or(Reject::AmountAlreadyFilled)?;
        let side = old.owner.side();
        if self.account(amend.account).is_some_and(Account::is_limited) {
            self.check_amend_funds(market, &old, amend.price, open)?;
        }
        let day = old.owner.is_day();
        let limit = Some(amend.price);
        let (id, account) = (amend.order, amend.account);
        Ok((slot, Incoming { id, account, instrument, side, limit, open, ordered, day, rests: true }))
    }

    fn change(&mut self, amend: Amend, slot: Slot, change: Incoming, out: &mut impl EventSink) {
        let market = &mut self.markets[change.instrument.0 as usize];
        let old = market.book.get(slot);
        let kept_priority =
            amend.priority == Priority::KeepWhenReduced && amend.price == old.price && change.open <= old.open;
        let amended = Event::Amended {
            order: amend.order,
            account: amend.account,
            instrument: change.instrument,
            side: change.side,
            price: amend.price,
            lots: Lots(u64::from(change.ordered)),
            open: Lots(u64::from(change.open)),
            kept_priority,
            display: amend.display,
        };
        if kept_priority {
            let less = i128::from(old.open - change.open);
            let lots = Lots(market.book.reduce(slot, change.open, change.ordered));
            set_aside(&mut self.accounts, market, amend.account, change.side, old.price, -less);
            out.emit(amended);
            out.emit(Event::Level { instrument: change.instrument, side: change.side, price: old.price, lots });
            return;
        }
        let (_, lots) = market.book.remove(slot);
        self.orders.remove(amend.order);
        set_aside(&mut self.accounts, market, amend.account, change.side, old.price, -i128::from(old.open));
        out.emit(amended);
        let lots = Lots(lots);
        out.emit(Event::Level { instrument: change.instrument, side: change.side, price: old.price, lots });
        self.match_and_rest(change, out);
    }

    /// Ends a command's changes to one instrument's public state with its new number.
    #[inline]
    fn book_changed(&mut self, instrument: InstrumentId, out: &mut impl EventSink) {
        let market = &mut self.markets[instrument.0 as usize];
        market.change_id += 1;
        out.emit(Event::BookChanged { instrument, change_id: market.change_id });
    }
}

#[inline]
fn whole_lots(lots: Lots) -> Result<u32, Reject> {
    u32::try_from(lots.0).ok().filter(|lots| *lots > 0).ok_or(Reject::QuantityOutOfRange)
}

#[inline]
fn check_price(limit: Option<Ticks>) -> Result<(), Reject> {
    match limit {
        Some(price) if !(1..=Ticks::MAX_PRICE.0).contains(&price.0) => Err(Reject::PriceOutOfRange),
        _ => Ok(()),
    }
}

/// The currency a spot order sets aside, and how many units of it.
#[inline]
pub(crate) fn spot_reserve(money: Money, side: Side, price: Ticks, lots: i128) -> (CurrencyId, i128) {
    match (money, side) {
        (Money::Spot { base, base_units_per_lot, .. }, Side::Sell) => (base, lots * base_units_per_lot),
        (Money::Spot { quote, quote_units_per_tick_lot, .. }, Side::Buy) => {
            (quote, i128::from(price.0) * lots * quote_units_per_tick_lot)
        }
        (Money::Inverse { settle, .. }, _) => (settle, 0),
    }
}

/// Sets aside (or, negative, releases) what `lots` of a resting order at `price` could cost.
#[inline]
fn set_aside(accounts: &mut [Account], market: &Market, account: AccountId, side: Side, price: Ticks, lots: i128) {
    let holder = &mut accounts[account.0 as usize];
    reserve(holder, market.money, market.spec.id, side, price, lots);
}

#[inline]
fn reserve(holder: &mut Account, money: Money, instrument: InstrumentId, side: Side, price: Ticks, lots: i128) {
    match money {
        Money::Spot { .. } => {
            let (currency, units) = spot_reserve(money, side, price, lots);
            holder.balance_mut(currency).reserved += units;
        }
        Money::Inverse { .. } => {
            let position = holder.positions.entry(instrument).or_default();
            let open = match side {
                Side::Buy => &mut position.open_buy_lots,
                Side::Sell => &mut position.open_sell_lots,
            };
            let changed = i128::from(*open) + lots;
            *open = u64::try_from(changed).unwrap_or(0);
        }
    }
}

/// What a sweep touches beside the book.
struct Matching<'a, S> {
    order: Incoming,
    open: u32,
    money: Money,
    trades: &'a mut TradeSeq,
    last: &'a mut Option<Ticks>,
    accounts: &'a mut [Account],
    orders: &'a mut OrderIndex,
    out: &'a mut S,
}

impl<S: EventSink> SweepSink<Origin> for Matching<'_, S> {
    #[inline]
    fn fill(&mut self, maker: OrderId, owner: Owner, price: Ticks, lots: u32, maker_open: u32) {
        if maker_open == 0 {
            self.orders.remove(maker);
        }
        self.open -= lots;
        self.trades.0 += 1;
        *self.last = Some(price);
        self.settle(owner, price, lots);
        self.out.emit(Event::Trade {
            instrument: self.order.instrument,
            trade_seq: *self.trades,
            price,
            lots: Lots(u64::from(lots)),
            taker_side: self.order.side,
            maker,
            maker_account: owner.account(),
            maker_open: Lots(u64::from(maker_open)),
            taker: self.order.id,
            taker_account: self.order.account,
            taker_open: Lots(u64::from(self.open)),
        });
    }

    #[inline]
    fn level(&mut self, price: Ticks, lots: u64) {
        let side = self.order.side.opposite();
        self.out.emit(Event::Level { instrument: self.order.instrument, side, price, lots: Lots(lots) });
    }
}

impl<S> Matching<'_, S> {
    /// Moves money between taker and maker and releases what the maker had set aside.
    #[inline]
    fn settle(&mut self, owner: Owner, price: Ticks, lots: u32) {
        let (taker, maker) = (self.order.account.0 as usize, owner.account().0 as usize);
        let instrument = self.order.instrument;
        reserve(&mut self.accounts[maker], self.money, instrument, owner.side(), price, -i128::from(lots));
        match self.money {
            Money::Spot { base, quote, base_units_per_lot, quote_units_per_tick_lot } => {
                let goods = i128::from(lots) * base_units_per_lot;
                let cash = i128::from(price.0) * i128::from(lots) * quote_units_per_tick_lot;
                let (buyer, seller) = match self.order.side {
                    Side::Buy => (taker, maker),
                    Side::Sell => (maker, taker),
                };
                self.accounts[buyer].balance_mut(base).total += goods;
                self.accounts[buyer].balance_mut(quote).total -= cash;
                self.accounts[seller].balance_mut(base).total -= goods;
                self.accounts[seller].balance_mut(quote).total += cash;
            }
            Money::Inverse { settle, value_numerator, .. } => {
                let value = i128::from(lots) * value_numerator / i128::from(price.0);
                for (account, side) in [(taker, self.order.side), (maker, owner.side())] {
                    let holder = &mut self.accounts[account];
                    let profit = holder.positions.entry(instrument).or_default().fill(side, lots, value);
                    holder.balance_mut(settle).total += profit;
                }
            }
        }
    }
}
