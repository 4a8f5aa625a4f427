//! Commands that define currencies, instruments and accounts, and deposits.
//!
//! Holds       every instrument can be settled: one tick times one lot is a whole number of money
//!             units.

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, Event, InstrumentKind, InstrumentSpec, Phase, Reject, Ticks,
};

use crate::account::{Account, Balance};
use crate::book::Owner;
use crate::definition_checks::{MOST_UNITS, check_limits, check_rules, check_settings};
use crate::engine::Engine;
use crate::event_sink::EventSink;
use crate::market::Market;
use crate::settlement_terms::SettlementTerms;

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
        let terms = self.settlement_terms(spec).ok_or(Reject::BadDefinition)?;
        check_limits(spec.limits)?;
        if let Some(rules) = &spec.rules {
            check_rules(rules)?;
        }
        if let InstrumentKind::InversePerpetual { index, .. } = spec.kind
            && self.market(index).is_some_and(|market| market.phase == Phase::Deleted)
        {
            return Err(Reject::BadDefinition);
        }
        self.markets.push(Market::new(spec.clone(), terms));
        out.emit(Event::InstrumentAdded(Box::new(spec.clone())));
        Ok(())
    }

    /// Computes the settlement terms of an instrument. Returns `None` if its definition is not
    /// valid.
    pub(crate) fn settlement_terms(&self, spec: &InstrumentSpec) -> Option<SettlementTerms> {
        let decimals = |id: CurrencyId| self.currencies.get(id.0 as usize).map(|currency| currency.decimals);
        let has_valid_kind = match spec.kind {
            InstrumentKind::Spot { base, quote } => base != quote,
            InstrumentKind::InversePerpetual { index, .. } => {
                self.market(index).is_some_and(|market| market.spec.is_spot())
            }
        };
        let is_valid = has_valid_kind
            && !spec.name.is_empty()
            && spec.tick.mantissa > 0
            && spec.lot.mantissa > 0
            && (1..=Ticks::MAX_PRICE.0).contains(&spec.start_price.0);
        is_valid.then(|| SettlementTerms::of(spec, decimals(spec.base())?, decimals(spec.quote())?))?
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

    /// Changes a balance by `units`. Negative units withdraw.
    pub(crate) fn deposit(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        out: &mut impl EventSink,
    ) -> Result<(), Reject> {
        let is_limited = self.account(account).ok_or(Reject::UnknownAccount)?.is_limited();
        if self.currencies.get(currency.0 as usize).is_none() {
            return Err(Reject::UnknownCurrency);
        }
        let available = self.available(account, currency);
        let balance = self.accounts[account.0 as usize].balance_mut(currency);
        let total = balance.total.checked_add(units).filter(|total| (-MOST_UNITS..=MOST_UNITS).contains(total));
        let total = total.ok_or(Reject::AmountOverflow)?;
        if is_limited && units < 0 && available + units < 0 {
            return Err(Reject::NotEnoughFunds);
        }
        balance.total = total;
        out.emit(Event::Deposited { account, currency, units });
        Ok(())
    }
}
