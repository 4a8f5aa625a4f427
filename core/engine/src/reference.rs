//! The slow engine: the market's rules written a second time, for nothing but to disagree with the fast one.
//!
//! Does        what [`crate::Engine`] does, command by command, and images to the same [`EngineImage`].
//! Holds       1. written from the rules and never from the fast code: a mistake has to be made twice to pass;
//!             2. nothing derived is stored: queues are sorted, levels and reserves summed, whenever one is asked for.
//! Leaves out  speed. A question costs all the orders of an instrument, some questions those of all of them.
//! Start at    [`ReferenceEngine::apply`], then `trading`, then `money`.

mod money;
mod trading;

use std::collections::BTreeMap;

use pitwire_model::{
    AccountId, AccountSpec, Command, Currency, CurrencyId, Decimal, Epoch, Event, InstrumentId, InstrumentKind,
    InstrumentSpec, OrderId, Phase, Reject, Side, Stamped, Ticks, TradeSeq,
};

use crate::{AccountImage, Balance, EngineImage, MarketImage, OrderImage, Position};

/// More than this in one balance is refused, so that no sum of them leaves 128 bits.
const MOST_UNITS: i128 = 1 << 100;

#[derive(Debug, Default)]
pub struct ReferenceEngine {
    epoch: Epoch,
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
    price: Ticks,
    open: u64,
    ordered: u64,
    arrival: u64,
}

#[derive(Debug)]
struct Account {
    spec: AccountSpec,
    totals: Vec<i128>,
    /// By perpetual; there is one from the first order that rested or traded.
    holdings: BTreeMap<InstrumentId, Holding>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    lots: i64,
    entry_value: i128,
    realized: i128,
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

    fn best(&self, side: Side) -> Option<Ticks> {
        let prices = self.orders.iter().filter(|order| order.side == side).map(|order| order.price);
        match side {
            Side::Buy => prices.max(),
            Side::Sell => prices.min(),
        }
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
        let done = match &stamped.command {
            Command::StartEpoch { epoch } => {
                self.epoch = *epoch;
                out.push(Event::EpochStarted { epoch: *epoch });
                Ok(())
            }
            Command::AddCurrency(currency) => self.add_currency(currency, out),
            Command::AddInstrument(spec) => self.add_instrument(spec, out),
            Command::AddAccount(spec) => self.add_account(spec, out),
            Command::Deposit { account, currency, units } => self.deposit(*account, *currency, *units, out),
            Command::SetPhase { instrument, phase } => self.set_phase(*instrument, *phase, out),
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
            _ => Err(Reject::BadDefinition),
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

    fn add_currency(&mut self, currency: &Currency, out: &mut Vec<Event>) -> Result<(), Reject> {
        let known = self.currencies.iter().any(|known| known.name == currency.name);
        if known || currency.id.0 as usize != self.currencies.len() {
            return Err(Reject::AlreadyExists);
        }
        if currency.decimals > 18 || currency.name.is_empty() {
            return Err(Reject::BadDefinition);
        }
        self.currencies.push(currency.clone());
        for account in &mut self.accounts {
            account.totals.push(0);
        }
        out.push(Event::CurrencyAdded(currency.clone()));
        Ok(())
    }

    fn add_account(&mut self, spec: &AccountSpec, out: &mut Vec<Event>) -> Result<(), Reject> {
        let known = self.accounts.iter().any(|known| known.spec.name == spec.name);
        if known || spec.id.0 as usize != self.accounts.len() {
            return Err(Reject::AlreadyExists);
        }
        if spec.name.is_empty() {
            return Err(Reject::BadDefinition);
        }
        let totals = vec![0; self.currencies.len()];
        self.accounts.push(Account { spec: spec.clone(), totals, holdings: BTreeMap::new() });
        out.push(Event::AccountAdded(spec.clone()));
        Ok(())
    }

    fn add_instrument(&mut self, spec: &InstrumentSpec, out: &mut Vec<Event>) -> Result<(), Reject> {
        let known = self.markets.iter().any(|known| known.spec.name == spec.name);
        if known || spec.id.0 as usize != self.markets.len() {
            return Err(Reject::AlreadyExists);
        }
        if !self.makes_sense(spec) {
            return Err(Reject::BadDefinition);
        }
        self.markets.push(Market {
            spec: spec.clone(),
            phase: Phase::Closed,
            change_id: 0,
            trades: 0,
            last: None,
            index: spec.start_price,
            mark: spec.start_price,
            orders: Vec::new(),
        });
        out.push(Event::InstrumentAdded(Box::new(spec.clone())));
        Ok(())
    }

    fn makes_sense(&self, spec: &InstrumentSpec) -> bool {
        let known = |currency: CurrencyId| (currency.0 as usize) < self.currencies.len();
        let named = !spec.name.is_empty();
        let steps = spec.tick.mantissa > 0 && spec.lot.mantissa > 0;
        let start = (1..=Ticks::MAX_PRICE.0).contains(&spec.start_price.0);
        if !named || !known(spec.base()) || !known(spec.quote()) || spec.base() == spec.quote() || !steps || !start {
            return false;
        }
        match spec.kind {
            InstrumentKind::Spot { .. } => {
                self.base_units_per_lot(spec).is_some() && self.quote_units_per_tick_lot(spec).is_some()
            }
            InstrumentKind::InversePerpetual { index, max_leverage, .. } => {
                let index_is_spot = self.market(index).is_some_and(|market| market.spec.is_spot());
                index_is_spot && max_leverage > 0 && self.contract_constant(spec).is_some()
            }
        }
    }

    fn deposit(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        out: &mut Vec<Event>,
    ) -> Result<(), Reject> {
        let holder = self.account(account).ok_or(Reject::UnknownAccount)?;
        let total = *holder.totals.get(currency.0 as usize).ok_or(Reject::UnknownCurrency)?;
        let after = total.checked_add(units).filter(|after| (-MOST_UNITS..=MOST_UNITS).contains(after));
        let after = after.ok_or(Reject::AmountOverflow)?;
        if units < 0 && self.is_limited(account) && -units > self.available(account, currency) {
            return Err(Reject::NotEnoughFunds);
        }
        self.accounts[account.0 as usize].totals[currency.0 as usize] = after;
        out.push(Event::Deposited { account, currency, units });
        Ok(())
    }

    fn set_phase(&mut self, instrument: InstrumentId, phase: Phase, out: &mut Vec<Event>) -> Result<(), Reject> {
        self.market(instrument).ok_or(Reject::UnknownInstrument)?;
        self.markets[instrument.0 as usize].phase = phase;
        out.push(Event::PhaseChanged { instrument, phase });
        Ok(())
    }

    fn sample_index(&mut self, out: &mut Vec<Event>) {
        for at in 0..self.markets.len() {
            let InstrumentKind::InversePerpetual { index: source, .. } = self.markets[at].spec.kind else { continue };
            let source = &self.markets[source.0 as usize];
            let own = &self.markets[at];
            let index = in_steps(source.spec.price(source.middle()), own.spec.tick).max(1);
            let band = index / 200;
            let mark = own.middle().0.clamp(index - band, index + band).max(1);
            let own = &mut self.markets[at];
            (own.index, own.mark) = (Ticks(index), Ticks(mark));
            out.push(Event::IndexSampled { instrument: own.spec.id, index: own.index, mark: own.mark });
        }
    }

    pub fn image(&self) -> EngineImage {
        EngineImage {
            epoch: self.epoch,
            flow: pitwire_model::FlowSetting::default(),
            last_session: pitwire_model::SessionId::ZERO,
            venue_killed: false,
            killed_sessions: Vec::new(),
            currencies: self.currencies.clone(),
            markets: self.markets.iter().map(market_image).collect(),
            accounts: self.accounts.iter().map(|account| self.account_image(account)).collect(),
        }
    }

    fn account_image(&self, account: &Account) -> AccountImage {
        let id = account.spec.id;
        let balance = |(at, total): (usize, &i128)| Balance {
            total: *total,
            reserved: self.reserved(id, self.currencies[at].id),
        };
        let position = |(&instrument, holding): (&InstrumentId, &Holding)| {
            let position = Position {
                lots: holding.lots,
                entry_value: holding.entry_value,
                realized: holding.realized,
                open_buy_lots: self.open_lots(id, instrument, Side::Buy),
                open_sell_lots: self.open_lots(id, instrument, Side::Sell),
            };
            (instrument, position)
        };
        AccountImage {
            spec: account.spec.clone(),
            balances: account.totals.iter().enumerate().map(balance).collect(),
            positions: account.holdings.iter().map(position).collect(),
            standing: crate::Standing::default(),
        }
    }
}

/// How many whole steps fit into a positive value.
fn in_steps(value: Decimal, step: Decimal) -> i64 {
    let scale = value.scale.max(step.scale);
    let at_scale = |decimal: Decimal| decimal.mantissa * 10_i128.pow(u32::from(scale - decimal.scale));
    i64::try_from(at_scale(value) / at_scale(step)).expect("prices fit 64 bits in any tick the tests use")
}

fn market_image(market: &Market) -> MarketImage {
    let lots = |lots: u64| u32::try_from(lots).expect("no order is larger");
    let image = |order: Order| OrderImage {
        id: order.id,
        account: order.account,
        side: order.side,
        day: order.day,
        price: order.price,
        open: lots(order.open),
        ordered: lots(order.ordered),
        shown: lots(order.open),
        display: 0,
        origin: crate::Origin::default(),
    };
    let orders = [Side::Buy, Side::Sell].into_iter().flat_map(|side| market.queue(side));
    MarketImage {
        spec: market.spec.clone(),
        phase: market.phase,
        change_id: market.change_id,
        trades: TradeSeq(market.trades),
        last: market.last,
        index: market.index,
        mark: market.mark,
        busted: Vec::new(),
        orders: orders.map(image).collect(),
    }
}
