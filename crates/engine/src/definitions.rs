//! Commands that define currencies, instruments and accounts, and deposits.
//!
//! Leaves out  the checks of definitions: [`AccountTable`](crate::account_table) and
//!             [`MarketTable`](crate::market_table).

use pitwire_model::{AccountId, AccountSpec, Currency, CurrencyId, Event, InstrumentSpec, Reject};

use crate::engine::Engine;
use crate::event_sink::EventSink;

impl Engine {
    pub(crate) fn add_currency(&mut self, currency: &Currency, out: &mut impl EventSink) -> Result<(), Reject> {
        self.accounts.add_currency(currency)?;
        out.emit(Event::CurrencyAdded(currency.clone()));
        Ok(())
    }

    pub(crate) fn add_instrument(&mut self, spec: &InstrumentSpec, out: &mut impl EventSink) -> Result<(), Reject> {
        self.markets.add(spec, self.accounts.currencies())?;
        out.emit(Event::InstrumentAdded(Box::new(spec.clone())));
        Ok(())
    }

    pub(crate) fn add_account(&mut self, spec: &AccountSpec, out: &mut impl EventSink) -> Result<(), Reject> {
        self.accounts.add(spec)?;
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
        let available = self.available(account, currency);
        self.accounts.deposit(account, currency, units, available)?;
        out.emit(Event::Deposited { account, currency, units });
        Ok(())
    }
}
