//! The venue's one state machine: dispatches each command to what it concerns.

use pitwire_model::{
    AccountId, AccountSpec, Command, Currency, CurrencyId, Epoch, Event, FlowSetting, InstrumentId, InstrumentKind,
    InstrumentSpec, Lots, OrderId, Phase, Reject, SessionId, Side, Stamped, Ticks, TimeInForce,
};

use crate::account::Account;
use crate::book::Owner;
use crate::index::OrderIndex;
use crate::market::{Market, Money};

/// Where events go. A `Vec<Event>` is one.
pub trait EventSink {
    fn emit(&mut self, event: Event);
}

impl EventSink for Vec<Event> {
    #[inline]
    fn emit(&mut self, event: Event) {
        self.push(event);
    }
}

/// A live order as anyone inside the venue may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderView {
    pub id: OrderId,
    pub account: AccountId,
    pub instrument: InstrumentId,
    pub side: Side,
    pub price: Ticks,
    pub open: Lots,
    pub ordered: Lots,
    pub tif: TimeInForce,
    /// The peak of an iceberg; `None` for an order that shows all.
    pub display: Option<Lots>,
    /// What the public sees of it now.
    pub shown: Lots,
    pub session: SessionId,
}

#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) epoch: Epoch,
    pub(crate) currencies: Vec<Currency>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) markets: Vec<Market>,
    pub(crate) orders: OrderIndex,
    pub(crate) flow: FlowSetting,
    /// The highest number an order has come from.
    pub(crate) last_session: SessionId,
}

impl Engine {
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for so many live orders ahead of time.
    pub fn reserve(&mut self, instrument: InstrumentId, orders: usize) {
        self.orders.reserve(orders);
        if let Some(market) = self.markets.get_mut(instrument.0 as usize) {
            market.book.reserve(orders);
        }
    }

    /// Applies one command. All branching on the kind of command happens here.
    #[inline]
    pub fn apply(&mut self, stamped: &Stamped, out: &mut impl EventSink) {
        match &stamped.command {
            Command::Enter(order) => self.enter(order, out),
            Command::Cancel { account, order } => self.cancel(*account, *order, out),
            Command::Amend(amend) => self.amend(*amend, out),
            Command::CloseWindow => out.emit(Event::WindowClosed),
            other => self.apply_rare(other, out),
        }
    }

    #[cold]
    fn apply_rare(&mut self, command: &Command, out: &mut impl EventSink) {
        let done = match command {
            Command::CancelAll { account, which, reason } => {
                self.cancel_all(*account, which, *reason, out);
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
                self.epoch = *epoch;
                out.emit(Event::EpochStarted { epoch: *epoch });
                Ok(())
            }
            Command::AddCurrency(currency) => self.add_currency(currency, out),
            Command::AddInstrument(spec) => self.add_instrument(spec, out),
            Command::AddAccount(spec) => self.add_account(spec, out),
            Command::Deposit { account, currency, units } => self.deposit(*account, *currency, *units, out),
            Command::SetPhase { instrument, phase } => self.set_phase(*instrument, *phase, out),
            Command::SetFlow(flow) => {
                self.flow = *flow;
                out.emit(Event::FlowSet(*flow));
                Ok(())
            }
            // Being built: see the order rules.
            Command::SetInstrumentLimits { .. }
            | Command::DeleteInstrument { .. }
            | Command::SetAccount { .. }
            | Command::SetCreditLine { .. }
            | Command::CloseAccount { .. }
            | Command::Kill { .. }
            | Command::Lift { .. }
            | Command::BustTrade(_)
            | Command::Quarantine { .. } => Err(Reject::BadDefinition),
            Command::Enter(_) | Command::Cancel { .. } | Command::Amend(_) | Command::CloseWindow => Ok(()),
        };
        if let Err(reason) = done {
            out.emit(Event::CommandRefused { reason });
        }
    }

    fn add_currency(&mut self, currency: &Currency, out: &mut impl EventSink) -> Result<(), Reject> {
        if currency.id.0 as usize != self.currencies.len() || self.currency_named(&currency.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        if currency.decimals > 18 || currency.name.is_empty() {
            return Err(Reject::BadDefinition);
        }
        self.currencies.push(currency.clone());
        for account in &mut self.accounts {
            account.balances.resize(self.currencies.len(), crate::Balance::default());
        }
        out.emit(Event::CurrencyAdded(currency.clone()));
        Ok(())
    }

    fn add_instrument(&mut self, spec: &InstrumentSpec, out: &mut impl EventSink) -> Result<(), Reject> {
        if spec.id.0 as usize != self.markets.len() || self.instrument_named(&spec.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        let money = self.money_of(spec).ok_or(Reject::BadDefinition)?;
        self.markets.push(Market::new(spec.clone(), money));
        out.emit(Event::InstrumentAdded(Box::new(spec.clone())));
        Ok(())
    }

    pub(crate) fn money_of(&self, spec: &InstrumentSpec) -> Option<Money> {
        let decimals = |id: CurrencyId| self.currencies.get(id.0 as usize).map(|currency| currency.decimals);
        let index_known = match spec.kind {
            InstrumentKind::Spot { base, quote } => base != quote,
            InstrumentKind::InversePerpetual { index, .. } => {
                self.market(index).is_some_and(|market| market.spec.is_spot())
            }
        };
        let sane = index_known
            && !spec.name.is_empty()
            && spec.tick.mantissa > 0
            && spec.lot.mantissa > 0
            && (1..=Ticks::MAX_PRICE.0).contains(&spec.start_price.0);
        sane.then(|| Money::of(spec, decimals(spec.base())?, decimals(spec.quote())?))?
    }

    fn add_account(&mut self, spec: &AccountSpec, out: &mut impl EventSink) -> Result<(), Reject> {
        if spec.id.0 as usize != self.accounts.len() || self.account_named(&spec.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        if spec.name.is_empty() || spec.id.0 > Owner::MAX_ACCOUNT {
            return Err(Reject::BadDefinition);
        }
        self.accounts.push(Account::new(spec.clone(), self.currencies.len()));
        out.emit(Event::AccountAdded(spec.clone()));
        Ok(())
    }

    fn deposit(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        /// Keeps every later product of prices, quantities and balances inside 128 bits.
        const MOST_UNITS: i128 = 1 << 100;
        let limited = self.account(account).ok_or(Reject::UnknownAccount)?.is_limited();
        if self.currencies.get(currency.0 as usize).is_none() {
            return Err(Reject::UnknownCurrency);
        }
        let free = self.available(account, currency);
        let balance = self.accounts[account.0 as usize].balance_mut(currency);
        let total = balance.total.checked_add(units).filter(|total| (-MOST_UNITS..=MOST_UNITS).contains(total));
        let total = total.ok_or(Reject::AmountOverflow)?;
        if limited && units < 0 && free + units < 0 {
            return Err(Reject::NotEnoughFunds);
        }
        balance.total = total;
        out.emit(Event::Deposited { account, currency, units });
        Ok(())
    }

    fn set_phase(&mut self, id: InstrumentId, phase: Phase, out: &mut impl EventSink) -> Result<(), Reject> {
        let market = self.markets.get_mut(id.0 as usize).ok_or(Reject::UnknownInstrument)?;
        market.phase = phase;
        out.emit(Event::PhaseChanged { instrument: id, phase });
        Ok(())
    }

    /// Index: the mid of the index instrument, in this contract's ticks. Mark: the contract's own mid, held within
    /// half a percent of the index.
    fn sample_index(&mut self, out: &mut impl EventSink) {
        for at in 0..self.markets.len() {
            let InstrumentKind::InversePerpetual { index, .. } = self.markets[at].spec.kind else { continue };
            let Some(source) = self.markets.get(index.0 as usize) else { continue };
            let price = source.spec.price(source.mid());
            let market = &mut self.markets[at];
            // Ticks of two instruments may differ: whole ticks, rounded down.
            let scale = price.scale.max(market.spec.tick.scale);
            let (Some(value), Some(tick)) = (price.rescaled(scale), market.spec.tick.rescaled(scale)) else { continue };
            let Ok(index) = i64::try_from(value / tick) else { continue };
            let band = index / 200;
            market.index = Ticks(index.max(1));
            market.mark = Ticks(market.mid().0.clamp(index - band, index + band).max(1));
            out.emit(Event::IndexSampled { instrument: market.spec.id, index: market.index, mark: market.mark });
        }
    }

    // What anyone may ask.

    pub fn flow(&self) -> FlowSetting {
        self.flow
    }

    /// The highest session number that any order has carried: the next connection's is above it.
    pub fn last_session(&self) -> SessionId {
        self.last_session
    }

    /// Visible quantity that trades before an order of a member's own; `None` when no live order has this id.
    /// Costs the orders before it.
    pub fn queue_ahead(&self, id: OrderId) -> Option<Lots> {
        let (instrument, slot) = self.orders.get(id)?;
        let book = &self.market(instrument)?.book;
        let order = book.get(slot);
        let side = order.owner.side();
        let ahead = book.orders(side).filter(|other| other.price == order.price).take_while(|other| other.id != id);
        Some(Lots(ahead.map(|other| u64::from(other.open)).sum()))
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn currencies(&self) -> &[Currency] {
        &self.currencies
    }

    pub fn currency(&self, id: CurrencyId) -> Option<&Currency> {
        self.currencies.get(id.0 as usize)
    }

    pub fn currency_named(&self, name: &str) -> Option<&Currency> {
        self.currencies.iter().find(|currency| currency.name == name)
    }

    pub fn markets(&self) -> &[Market] {
        &self.markets
    }

    pub fn market(&self, id: InstrumentId) -> Option<&Market> {
        self.markets.get(id.0 as usize)
    }

    pub fn instrument_named(&self, name: &str) -> Option<&Market> {
        self.markets.iter().find(|market| market.spec.name == name)
    }

    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.0 as usize)
    }

    pub fn account_named(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.spec.name == name)
    }

    pub fn live_orders(&self) -> usize {
        self.orders.len()
    }

    pub fn order(&self, id: OrderId) -> Option<OrderView> {
        let (instrument, slot) = self.orders.get(id)?;
        let order = self.market(instrument)?.book.get(slot);
        Some(OrderView {
            id: order.id,
            account: order.owner.account(),
            instrument,
            side: order.owner.side(),
            price: order.price,
            open: Lots(u64::from(order.open)),
            ordered: Lots(u64::from(order.ordered)),
            tif: if order.owner.is_day() { TimeInForce::Day } else { TimeInForce::GoodTillCancel },
            display: None,
            shown: Lots(u64::from(order.open)),
            session: SessionId::ZERO,
        })
    }

    /// Live orders of an account in the order in which they were entered. Costs the whole book: not for hot paths.
    pub fn orders_of(&self, account: AccountId) -> Vec<OrderView> {
        let mut ids: Vec<OrderId> = self
            .markets
            .iter()
            .flat_map(|market| market.book.slots_of(|order, _| order.owner.account() == account))
            .map(|(id, _)| id)
            .collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.order(id)).collect()
    }
}
