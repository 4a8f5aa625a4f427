//! The slow engine: the market's rules written a second time, for nothing but to disagree with the fast one.
//!
//! Does        what [`crate::Engine`] does, command by command, and images to the same [`EngineImage`].
//! Holds       1. written from the rules and never from the fast code: a mistake has to be made twice to pass;
//!             2. nothing derived is stored: queues are sorted, levels, reserves and open orders counted, whenever one
//!                is asked for.
//! Leaves out  speed. A question costs all the orders of an instrument, some questions those of all of them.
//! Start at    [`ReferenceEngine::apply`], then `entering` and `amending`, then `matching`, then `money`.

mod amending;
mod define;
mod entering;
mod image;
mod leaving;
mod matching;
mod money;
mod operator;

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    AccountId, AccountSpec, Command, Currency, CurrencyId, Epoch, Event, FlowSetting, InstrumentId, InstrumentSpec,
    Lots, MatchGroup, OrderId, Phase, SessionId, Side, Stamped, Ticks, TradeSeq, VenueNanos,
};

/// More than this in one balance is refused, so that no sum of them leaves 128 bits.
const MOST_UNITS: i128 = 1 << 100;

#[derive(Debug, Default)]
pub struct ReferenceEngine {
    epoch: Epoch,
    /// Venue time of the command being applied.
    now: VenueNanos,
    flow: FlowSetting,
    last_session: SessionId,
    venue_killed: bool,
    killed_sessions: BTreeSet<SessionId>,
    currencies: Vec<Currency>,
    markets: Vec<Market>,
    accounts: Vec<Account>,
    /// Counts every order that joins the end of a queue. Its only use is to tell who came first.
    arrivals: u64,
}

#[derive(Debug)]
struct Market {
    spec: InstrumentSpec,
    phase: Phase,
    change_id: u64,
    trades: u64,
    busted: BTreeSet<TradeSeq>,
    last: Option<Ticks>,
    index: Ticks,
    mark: Ticks,
    /// In no order at all.
    orders: Vec<Order>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    id: OrderId,
    account: AccountId,
    side: Side,
    day: bool,
    /// Zero for a market order.
    price: Ticks,
    /// Shown and hidden together.
    open: u64,
    shown: u64,
    peak: Option<Lots>,
    ordered: u64,
    arrival: u64,
    group: MatchGroup,
    session: SessionId,
    cancel_on_disconnect: bool,
}

#[derive(Debug)]
struct Account {
    spec: AccountSpec,
    totals: Vec<i128>,
    credit_lines: BTreeMap<CurrencyId, i128>,
    /// By perpetual; there is one from the first order that rested or traded.
    holdings: BTreeMap<InstrumentId, Holding>,
    closed: bool,
    killed: bool,
    throttled: bool,
    /// The throttle's window in which a fill was counted last, and how many were.
    window: u64,
    executions: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    lots: i64,
    entry_value: i128,
    realized: i128,
}

impl Order {
    /// Whether self-match prevention takes the two for one member's.
    fn is_own(&self, other: &Order) -> bool {
        match (self.group, other.group) {
            (MatchGroup::Key(mine), MatchGroup::Key(theirs)) => mine == theirs,
            (MatchGroup::Account, MatchGroup::Account) => self.account == other.account,
            _ => false,
        }
    }
}

impl Market {
    /// Best first, oldest first within a price.
    fn queue(&self, side: Side) -> Vec<Order> {
        let mut queue: Vec<Order> = self.orders.iter().filter(|order| order.side == side).copied().collect();
        queue.sort_by_key(|order| match side {
            Side::Buy => (-order.price.0, order.arrival),
            Side::Sell => (order.price.0, order.arrival),
        });
        queue
    }

    /// The queue price by price.
    fn levels(&self, side: Side) -> Vec<(Ticks, Vec<Order>)> {
        let mut levels: Vec<(Ticks, Vec<Order>)> = Vec::new();
        for order in self.queue(side) {
            match levels.last_mut() {
                Some((price, orders)) if *price == order.price => orders.push(order),
                _ => levels.push((order.price, vec![order])),
            }
        }
        levels
    }

    fn best(&self, side: Side) -> Option<Ticks> {
        let prices = self.orders.iter().filter(|order| order.side == side).map(|order| order.price);
        match side {
            Side::Buy => prices.max(),
            Side::Sell => prices.min(),
        }
    }

    /// The order at a price that trades next.
    fn first_at(&self, side: Side, price: Ticks) -> Option<Order> {
        let there = self.orders.iter().filter(|order| order.side == side && order.price == price);
        there.min_by_key(|order| order.arrival).copied()
    }

    /// Halfway between the best prices; without both of them the last trade, and before any trade the start.
    fn middle(&self) -> Ticks {
        match (self.best(Side::Buy), self.best(Side::Sell)) {
            (Some(bid), Some(ask)) => Ticks((bid.0 + ask.0) / 2),
            _ => self.last.unwrap_or(self.spec.start_price),
        }
    }
}

impl ReferenceEngine {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn apply(&mut self, stamped: &Stamped, out: &mut Vec<Event>) {
        self.now = stamped.at;
        let done = match &stamped.command {
            Command::Enter(order) => {
                self.enter(order, out);
                Ok(())
            }
            Command::Amend(amend) => {
                self.amend(amend, out);
                Ok(())
            }
            Command::Cancel { account, order } => {
                self.cancel(*account, *order, out);
                Ok(())
            }
            Command::CancelAll { account, which, reason } => {
                self.cancel_all(*account, which, *reason, out);
                Ok(())
            }
            Command::CloseWindow => {
                out.push(Event::WindowClosed);
                Ok(())
            }
            Command::SampleIndex => {
                self.sample_index(out);
                Ok(())
            }
            Command::EndDay => {
                self.end_day(out);
                Ok(())
            }
            Command::StartEpoch { epoch } => {
                self.start_epoch(*epoch, out);
                Ok(())
            }
            Command::AddCurrency(currency) => self.add_currency(currency, out),
            Command::AddInstrument(spec) => self.add_instrument(spec, out),
            Command::AddAccount(spec) => self.add_account(spec, out),
            Command::Deposit { account, currency, units } => self.deposit(*account, *currency, *units, out),
            Command::SetPhase { instrument, phase } => self.set_phase(*instrument, *phase, out),
            other => self.operate(other, out),
        };
        if let Err(reason) = done {
            out.push(Event::CommandRefused { reason });
        }
    }

    fn market(&self, id: InstrumentId) -> Option<&Market> {
        self.markets.get(id.0 as usize)
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.0 as usize)
    }

    fn find(&self, id: OrderId) -> Option<(InstrumentId, Order)> {
        self.markets.iter().find_map(|market| {
            let order = market.orders.iter().find(|order| order.id == id)?;
            Some((market.spec.id, *order))
        })
    }
}
