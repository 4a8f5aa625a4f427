//! The currencies and accounts of a venue.
//!
//! Holds       1. ids have no gaps: a currency or account stands at the index of its id; names are
//!                unique;
//!             2. every account has one balance for each currency.
//! Leaves out  funds and margin: `funds`. Orders of an account: `market_context`.
//! Start at    [`AccountTable`].

use pitwire_model::{AccountId, AccountSettings, AccountSpec, Currency, CurrencyId, Reject};

use crate::account::{Account, Balance, Position};
use crate::book::Owner;
use crate::definition_checks::{MOST_UNITS, check_settings};
use crate::image::{AccountImage, ImageError};

/// Largest balance of an image in units. Trading cannot reach it, and sums and products of it fit
/// into 128 bits.
const MOST_BALANCE: i128 = 1 << 120;
/// Largest entry value of a position in units.
const MOST_ENTRY_VALUE: i128 = 1 << 94;
/// Largest position in lots.
const MOST_POSITION_LOTS: i128 = 1 << 62;

/// All currencies and accounts of a venue.
#[derive(Debug, Default)]
pub(crate) struct AccountTable {
    currencies: Vec<Currency>,
    accounts: Vec<Account>,
}

impl AccountTable {
    /// Creates a table without accounts.
    pub fn with_currencies(currencies: Vec<Currency>) -> Self {
        AccountTable { currencies, accounts: Vec::new() }
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

    /// All accounts, by id.
    #[inline]
    pub fn as_slice(&self) -> &[Account] {
        &self.accounts
    }

    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Account] {
        &mut self.accounts
    }

    #[inline]
    pub fn get(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.0 as usize)
    }

    pub fn named(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.spec.name == name)
    }

    /// # Errors
    /// `UnknownAccount`.
    fn existing(&mut self, id: AccountId) -> Result<&mut Account, Reject> {
        self.accounts.get_mut(id.0 as usize).ok_or(Reject::UnknownAccount)
    }

    /// Adds a currency, and a balance of zero to every account.
    ///
    /// # Errors
    /// `AlreadyExists` or `BadDefinition`.
    pub fn add_currency(&mut self, currency: &Currency) -> Result<(), Reject> {
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
        Ok(())
    }

    /// # Errors
    /// `AlreadyExists` or `BadDefinition`.
    pub fn add(&mut self, spec: &AccountSpec) -> Result<(), Reject> {
        if spec.id.0 as usize != self.accounts.len() || self.named(&spec.name).is_some() {
            return Err(Reject::AlreadyExists);
        }
        if spec.name.is_empty() || spec.id.0 > Owner::MAX_ACCOUNT {
            return Err(Reject::BadDefinition);
        }
        check_settings(spec.settings)?;
        self.accounts.push(Account::new(spec.clone(), self.currencies.len()));
        Ok(())
    }

    /// Changes a balance by `units`. Negative units withdraw, from a limited account at most
    /// `available`.
    ///
    /// # Errors
    /// `UnknownAccount`, `UnknownCurrency`, `AmountOverflow` or `NotEnoughFunds`.
    pub fn deposit(
        &mut self,
        account: AccountId,
        currency: CurrencyId,
        units: i128,
        available: i128,
    ) -> Result<(), Reject> {
        let is_limited = self.existing(account)?.is_limited();
        self.currency(currency).ok_or(Reject::UnknownCurrency)?;
        let balance = self.existing(account)?.balance_mut(currency);
        let total = balance.total.checked_add(units).filter(|total| (-MOST_UNITS..=MOST_UNITS).contains(total));
        let total = total.ok_or(Reject::AmountOverflow)?;
        if is_limited && units < 0 && available + units < 0 {
            return Err(Reject::NotEnoughFunds);
        }
        balance.total = total;
        Ok(())
    }

    /// Sets the settings of an account and resets its count of fills.
    ///
    /// # Errors
    /// `UnknownAccount` or `BadDefinition`.
    pub fn set_settings(&mut self, account: AccountId, settings: AccountSettings) -> Result<(), Reject> {
        let holder = self.existing(account)?;
        check_settings(settings)?;
        holder.spec.settings = settings;
        holder.reset_executions();
        holder.update_flags();
        Ok(())
    }

    /// # Errors
    /// `UnknownAccount`, `UnknownCurrency`, `BadDefinition` or `AmountOverflow`.
    pub fn set_credit_line(&mut self, account: AccountId, currency: CurrencyId, units: i128) -> Result<(), Reject> {
        self.existing(account)?;
        self.currency(currency).ok_or(Reject::UnknownCurrency)?;
        match units {
            ..0 => return Err(Reject::BadDefinition),
            0..=MOST_UNITS => {}
            _ => return Err(Reject::AmountOverflow),
        }
        let lines = &mut self.existing(account)?.status.credit_lines;
        if units == 0 {
            lines.remove(&currency)
        } else {
            lines.insert(currency, units)
        };
        Ok(())
    }

    /// Closes an account for good.
    ///
    /// # Errors
    /// `UnknownAccount` or `AccountClosed`.
    pub fn close(&mut self, account: AccountId) -> Result<(), Reject> {
        let holder = self.existing(account)?;
        if holder.is_closed() {
            return Err(Reject::AccountClosed);
        }
        holder.status.closed = true;
        holder.update_flags();
        Ok(())
    }

    /// # Errors
    /// `UnknownAccount`.
    pub fn kill(&mut self, account: AccountId) -> Result<(), Reject> {
        let holder = self.existing(account)?;
        holder.status.killed = true;
        holder.update_flags();
        Ok(())
    }

    /// Lifts the kill of an account and resets its throttle.
    ///
    /// # Errors
    /// `UnknownAccount`.
    pub fn lift(&mut self, account: AccountId) -> Result<(), Reject> {
        let holder = self.existing(account)?;
        (holder.status.killed, holder.status.throttled) = (false, false);
        holder.reset_executions();
        holder.update_flags();
        Ok(())
    }

    /// Captures all accounts, by id.
    pub fn images(&self) -> Vec<AccountImage> {
        let image = |account: &Account| AccountImage {
            spec: account.spec.clone(),
            balances: account.balances.clone(),
            positions: account.positions().map(|(id, position)| (id, *position)).collect(),
            standing: account.status.clone(),
        };
        self.accounts.iter().map(image).collect()
    }

    /// Restores the next account.
    ///
    /// # Errors
    /// `ImageError` if no engine can have written the image.
    pub fn restore(&mut self, image: AccountImage) -> Result<(), ImageError> {
        if image.balances.len() != self.currencies.len() {
            return Err(ImageError("an account does not have one balance per currency"));
        }
        let lines = &image.standing.credit_lines;
        if lines.iter().any(|(currency, units)| self.currency(*currency).is_none() || *units <= 0) {
            return Err(ImageError("a credit line is not positive or has an unknown currency"));
        }
        let is_within = |units: i128, most: i128| (-most..=most).contains(&units);
        let is_valid_balance =
            |balance: &Balance| is_within(balance.total, MOST_BALANCE) && is_within(balance.reserved, MOST_BALANCE);
        let is_valid_position = |position: &Position| {
            (0..=MOST_ENTRY_VALUE).contains(&position.entry_value)
                && is_within(position.realized, MOST_BALANCE)
                && is_within(i128::from(position.lots), MOST_POSITION_LOTS)
        };
        let positions_are_valid = image.positions.iter().all(|(_, position)| is_valid_position(position));
        if !image.balances.iter().all(is_valid_balance) || !positions_are_valid {
            return Err(ImageError("a balance or position is out of range"));
        }
        let mut account = Account::new(image.spec, 0);
        account.balances = image.balances;
        account.positions = image.positions.into_iter().collect();
        account.status = image.standing;
        account.update_flags();
        self.accounts.push(account);
        Ok(())
    }
}
