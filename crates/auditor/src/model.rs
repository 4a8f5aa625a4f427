//! The state of the venue as its events describe it. Every check reads and updates this model.
//!
//! Start at    [`VenueModel`].

use std::collections::BTreeSet;

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, InstrumentId, InstrumentSpec, OrderId, Phase, Reject, Seq, SessionId,
    Ticks, VenueDay, VenueNanos,
};

use crate::market::MarketState;
use crate::money::{AccountLedger, MoneyLedger};
use crate::orders::{LiveOrder, OrderTable};
use crate::recent_trades::RecentTrades;
use crate::violation::{CheckResult, fail};

/// Days after entry at which a good-till-cancelled order expires, and the furthest expiry date.
pub const MAX_ORDER_DAYS: u32 = 90;
/// 2149-06-06, the last venue day.
const LAST_VENUE_DAY: u32 = 65_535;

/// The state of the venue, derived from its events.
#[derive(Debug, Default)]
pub struct VenueModel {
    pub seq: Seq,
    pub at: VenueNanos,
    pub definitions: Definitions,
    pub markets: Vec<MarketState>,
    pub orders: OrderTable,
    pub ledger: MoneyLedger,
    pub recent_trades: RecentTrades,
    /// The venue day and its closing time, once a day has begun.
    pub venue_day: Option<(VenueDay, VenueNanos)>,
    pub kills: KillSwitches,
    /// Whether the log was written under rule version 1.
    pub uses_version_1: bool,
    /// Whether the log was written under a rule version that does not read reduce-only.
    pub ignores_reduce_only: bool,
    /// Whether the log was written under a rule version without a smallest display.
    pub ignores_min_display: bool,
}

/// Currencies and accounts as they were defined.
#[derive(Debug, Default)]
pub struct Definitions {
    pub currencies: Vec<Currency>,
    pub accounts: Vec<AccountSpec>,
}

/// Kills that hold until an operator lifts them. Kills of accounts are part of the account.
#[derive(Debug, Default)]
pub struct KillSwitches {
    pub venue: bool,
    pub sessions: BTreeSet<SessionId>,
}

impl VenueModel {
    /// Returns an instrument that a command has already named.
    pub fn market(&self, instrument: InstrumentId) -> &MarketState {
        &self.markets[instrument.0 as usize]
    }

    pub fn market_mut(&mut self, instrument: InstrumentId) -> &mut MarketState {
        &mut self.markets[instrument.0 as usize]
    }

    /// # Errors
    /// `UnknownInstrument` if no such instrument was defined.
    pub fn known_market(&self, instrument: InstrumentId) -> Result<&MarketState, Reject> {
        self.markets.get(instrument.0 as usize).ok_or(Reject::UnknownInstrument)
    }

    /// # Errors
    /// `UnknownInstrument`, or `InstrumentDeleted`.
    pub fn existing_market(&self, instrument: InstrumentId) -> Result<&MarketState, Reject> {
        let market = self.known_market(instrument)?;
        if market.session.phase == Phase::Deleted { Err(Reject::InstrumentDeleted) } else { Ok(market) }
    }

    /// # Errors
    /// `UnknownAccount` if no such account was defined.
    pub fn known_account(&self, account: AccountId) -> Result<&AccountLedger, Reject> {
        self.ledger.accounts.get(account.0 as usize).ok_or(Reject::UnknownAccount)
    }

    /// Returns what `lots` of an order cost at its limit, or at its protection price.
    pub fn order_cost(&self, order: &LiveOrder, lots: u64) -> Option<(CurrencyId, i128)> {
        let price = order.reach().unwrap_or(Ticks::ZERO);
        self.market(order.instrument).terms.cost(order.side, price, lots)
    }

    /// Returns all live orders that match.
    pub fn orders_where(&self, matches: impl Fn(&LiveOrder) -> bool) -> Vec<(InstrumentId, OrderId)> {
        self.orders.values().filter(|order| matches(order)).map(|order| (order.instrument, order.id)).collect()
    }

    /// Returns the live orders of one account that match.
    pub fn orders_of_account(
        &self,
        account: AccountId,
        matches: impl Fn(&LiveOrder) -> bool,
    ) -> Vec<(InstrumentId, OrderId)> {
        let ledger = self.ledger.accounts.get(account.0 as usize);
        let all = ledger.into_iter().flat_map(|ledger| &ledger.live_orders);
        all.filter(|(_, id)| self.orders.get(id).is_some_and(&matches)).copied().collect()
    }

    /// Returns the venue day, or zero before the first day.
    pub fn today(&self) -> VenueDay {
        self.venue_day.map_or(VenueDay::ZERO, |(day, _)| day)
    }

    /// Returns the latest expiry date of a new order.
    pub fn last_expiry_day(&self) -> VenueDay {
        VenueDay(self.today().0.saturating_add(MAX_ORDER_DAYS).min(LAST_VENUE_DAY))
    }

    /// # Errors
    /// M9 if the id is not the next one.
    pub fn add_currency(&mut self, currency: &Currency) -> CheckResult {
        if currency.id.0 as usize != self.definitions.currencies.len() {
            fail!(M9, "currency {} is out of sequence", currency.id);
        }
        self.definitions.currencies.push(currency.clone());
        self.ledger.add_currency(currency);
        Ok(())
    }

    /// # Errors
    /// M9 if the id is not the next one.
    pub fn add_account(&mut self, spec: &AccountSpec) -> CheckResult {
        if spec.id.0 as usize != self.definitions.accounts.len() {
            fail!(M9, "account {} is out of sequence", spec.id);
        }
        self.definitions.accounts.push(spec.clone());
        self.ledger.add_account(spec);
        Ok(())
    }

    /// # Errors
    /// M9 if the id is not the next one, M10 if trades would not settle in whole units.
    pub fn add_market(&mut self, spec: &InstrumentSpec, phase: Phase) -> CheckResult {
        if spec.id.0 as usize != self.markets.len() {
            fail!(M9, "instrument {} is out of sequence", spec.id);
        }
        let Some(terms) = self.ledger.add_instrument(spec) else {
            fail!(M10, "instrument {} cannot be settled in whole units", spec.id);
        };
        self.markets.push(MarketState::new(spec, terms, phase));
        Ok(())
    }
}
