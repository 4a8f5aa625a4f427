//! Currencies, instruments, accounts and money come into being.
//!
//! Holds       what is defined here can be settled: every tick of every lot is a whole number of money units.

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, Event, InstrumentKind, InstrumentSpec, Phase, Reject, Ticks,
};

use crate::account::{Account, Balance};
use crate::book::Owner;
use crate::engine::{Engine, EventSink};
use crate::market::{Market, SettlementTerms};
use crate::operator::{check_limits, check_settings};
use crate::schedule::check_rules;

/// Keeps every later product of prices, quantities and balances inside 128 bits.
pub(crate) const MOST_UNITS: i128 = 1 << 100;

impl Engine {
    pub(crate) fn add_currency(&mut self, currency: &Currency, out: &mut impl EventSink) -> Result<(), Reject> {
        if currency.id.0 as usize != self.currencies.len() || self.currency_named(&currency.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        if currency.decimals > 18 || currency.name.is_empty() {
            return Err(Reject::BadDefinition);
        }
        self.currencies.push(currency.clone());
        for account in &mut self.accounts {
            account.balances.resize(self.currencies.len(), Balance::default());
        }
        out.emit(Event::CurrencyAdded(currency.clone()));
        Ok(())
    }

    pub(crate) fn add_instrument(&mut self, spec: &InstrumentSpec, out: &mut impl EventSink) -> Result<(), Reject> {
        if spec.id.0 as usize != self.markets.len() || self.instrument_named(&spec.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        let money = self.money_of(spec).ok_or(Reject::BadDefinition)?;
        check_limits(spec.limits)?;
        if let Some(rules) = &spec.rules {
            check_rules(rules)?;
        }
        if let InstrumentKind::InversePerpetual { index, .. } = spec.kind
            && self.market(index).is_some_and(|market| market.phase == Phase::Deleted)
        {
            return Err(Reject::BadDefinition);
        }
        self.markets.push(Market::new(spec.clone(), money));
        out.emit(Event::InstrumentAdded(Box::new(spec.clone())));
        Ok(())
    }

    pub(crate) fn money_of(&self, spec: &InstrumentSpec) -> Option<SettlementTerms> {
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
        sane.then(|| SettlementTerms::of(spec, decimals(spec.base())?, decimals(spec.quote())?))?
    }

    pub(crate) fn add_account(&mut self, spec: &AccountSpec, out: &mut impl EventSink) -> Result<(), Reject> {
        if spec.id.0 as usize != self.accounts.len() || self.account_named(&spec.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        if spec.name.is_empty() || spec.id.0 > Owner::MAX_ACCOUNT {
            return Err(Reject::BadDefinition);
        }
        check_settings(spec.settings)?;
        self.accounts.push(Account::new(spec.clone(), self.currencies.len()));
        out.emit(Event::AccountAdded(spec.clone()));
        Ok(())
    }

    pub(crate) fn deposit(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
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
}
