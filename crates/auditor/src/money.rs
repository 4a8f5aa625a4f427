//! The balances of all accounts and the money that open spot orders reserve.
//!
//! Holds       a trade moves equal value between two accounts, so that the sum over all accounts
//!             changes by deposits only.
//! Leaves out  margin requirements of perpetuals.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    AccountId, AccountSpec, Credit, Currency, CurrencyId, Decimal, InstrumentId, InstrumentKind, InstrumentSpec,
    OrderId, Side, Ticks,
};

use crate::violation::{CheckResult, fail};

#[derive(Debug, Default)]
pub struct MoneyLedger {
    currencies: Vec<CurrencyTotal>,
    pub accounts: Vec<AccountLedger>,
    /// The perpetuals, each with its settlement currency.
    perpetuals: Vec<(InstrumentId, CurrencyId)>,
}

#[derive(Debug)]
struct CurrencyTotal {
    decimals: u8,
    deposited: i128,
}

#[derive(Debug)]
pub struct AccountLedger {
    pub limited: bool,
    pub totals: Vec<i128>,
    /// Money that open spot orders may cost. It is tracked for unlimited accounts too, but not
    /// enforced there.
    pub reserved: Vec<i128>,
    /// Credit line: how far free money may fall below zero.
    pub credit: Vec<i128>,
    pub positions: BTreeMap<InstrumentId, PerpetualPosition>,
    pub live_orders: BTreeSet<(InstrumentId, OrderId)>,
    pub restrictions: AccountRestrictions,
}

/// Restrictions that an operator or the execution throttle has set on an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountRestrictions {
    pub closed: bool,
    pub killed: bool,
    pub throttled: bool,
    /// The throttle window of the last fill, and the number of fills in it.
    pub window: u64,
    pub executions: u32,
}

/// A perpetual position: signed lots and their value when they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerpetualPosition {
    pub lots: i64,
    pub entry_value: i128,
}

/// How ticks and lots of an instrument convert to units of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettlementTerms {
    Spot { base: CurrencyId, quote: CurrencyId, base_per_lot: i128, quote_per_tick_lot: i128 },
    Perpetual { settles: CurrencyId, contract: i128 },
}

impl SettlementTerms {
    /// Returns the cost of a spot order and its currency. A perpetual order spends nothing in
    /// advance.
    pub fn cost(&self, side: Side, price: Ticks, lots: u64) -> Option<(CurrencyId, i128)> {
        match (*self, side) {
            (SettlementTerms::Spot { quote, quote_per_tick_lot, .. }, Side::Buy) => {
                Some((quote, quote_per_tick_lot * i128::from(price.0) * i128::from(lots)))
            }
            (SettlementTerms::Spot { base, base_per_lot, .. }, Side::Sell) => {
                Some((base, base_per_lot * i128::from(lots)))
            }
            (SettlementTerms::Perpetual { .. }, _) => None,
        }
    }

    /// Returns the notional: in quote currency for spot, in the settlement currency and rounded
    /// down for a perpetual.
    pub fn notional(&self, price: Ticks, lots: u64) -> i128 {
        match *self {
            SettlementTerms::Spot { quote_per_tick_lot, .. } => {
                quote_per_tick_lot * i128::from(price.0) * i128::from(lots)
            }
            SettlementTerms::Perpetual { contract, .. } => contract * i128::from(lots) / i128::from(price.0),
        }
    }
}

impl MoneyLedger {
    pub fn add_currency(&mut self, currency: &Currency) {
        self.currencies.push(CurrencyTotal { decimals: currency.decimals, deposited: 0 });
        for account in &mut self.accounts {
            account.totals.push(0);
            account.reserved.push(0);
            account.credit.push(0);
        }
    }

    pub fn add_account(&mut self, spec: &AccountSpec) {
        let zeros = vec![0; self.currencies.len()];
        self.accounts.push(AccountLedger {
            limited: spec.credit == Credit::Limited,
            totals: zeros.clone(),
            reserved: zeros.clone(),
            credit: zeros,
            positions: BTreeMap::new(),
            live_orders: BTreeSet::new(),
            restrictions: AccountRestrictions::default(),
        });
    }

    pub fn has_account(&self, account: AccountId) -> bool {
        (account.0 as usize) < self.accounts.len()
    }

    /// Returns `None` if trades would not settle in whole units, or if one order could be worth
    /// more than 2¹²⁰ units (2⁸⁰ for contracts).
    fn terms(&self, spec: &InstrumentSpec) -> Option<SettlementTerms> {
        let below = |units: i128, orders: u128| (units.unsigned_abs() <= (1 << 120) / orders).then_some(units);
        let (lots, tick_lots) = (u128::from(u32::MAX), u128::from(u32::MAX).pow(2));
        let decimals = |id: CurrencyId| self.currencies.get(id.0 as usize).map(|sum| u32::from(sum.decimals));
        let (base, quote) = (decimals(spec.base())?, decimals(spec.quote())?);
        let Decimal { mantissa: tick, scale: tick_scale } = spec.tick;
        let Decimal { mantissa: lot, scale: lot_scale } = spec.lot;
        let (tick_scale, lot_scale) = (u32::from(tick_scale), u32::from(lot_scale));
        match spec.kind {
            InstrumentKind::Spot { .. } => Some(SettlementTerms::Spot {
                base: spec.base(),
                quote: spec.quote(),
                base_per_lot: below(whole(lot.checked_mul(ten_to(base)?)?, ten_to(lot_scale)?)?, lots)?,
                quote_per_tick_lot: below(
                    whole(tick.checked_mul(lot)?.checked_mul(ten_to(quote)?)?, ten_to(tick_scale + lot_scale)?)?,
                    tick_lots,
                )?,
            }),
            InstrumentKind::InversePerpetual { .. } => Some(SettlementTerms::Perpetual {
                settles: spec.base(),
                contract: below(
                    whole(lot.checked_mul(ten_to(base + tick_scale)?)?, tick.checked_mul(ten_to(lot_scale)?)?)?,
                    lots << 40,
                )?,
            }),
        }
    }

    /// Adds `units` to a balance; a negative number withdraws.
    ///
    /// # Errors
    /// M4 if the account or the currency does not exist, or if a limited account withdraws more
    /// than it has free.
    pub fn deposit(&mut self, account: AccountId, currency: CurrencyId, units: i128) -> CheckResult {
        let Some(holder) = self.accounts.get_mut(account.0 as usize) else {
            fail!(M4, "account {account} does not exist, but got a deposit");
        };
        let Some(total) = holder.totals.get_mut(currency.0 as usize) else {
            fail!(M4, "currency {currency} does not exist, but was deposited");
        };
        *total += units;
        let bound = holder.reserved[currency.0 as usize] - holder.credit[currency.0 as usize];
        if units < 0 && holder.limited && *total < bound {
            fail!(M4, "account {account} withdrew {} of currency {currency}, more than it had free", -units);
        }
        self.currencies[currency.0 as usize].deposited += units;
        Ok(())
    }

    /// Returns the balance plus credit, minus the reserve of open spot orders.
    fn free(&self, account: AccountId, currency: CurrencyId) -> i128 {
        let holder = &self.accounts[account.0 as usize];
        let at = currency.0 as usize;
        holder.totals[at] + holder.credit[at] - holder.reserved[at]
    }

    /// Reserves the cost of an order. A limited account must have it free.
    ///
    /// # Errors
    /// M4 if it has less free.
    pub fn reserve_checked(&mut self, account: AccountId, cost: Option<(CurrencyId, i128)>) -> CheckResult {
        self.check_can_spend(account, cost)?;
        self.reserve(account, cost);
        Ok(())
    }

    pub fn reserve(&mut self, account: AccountId, cost: Option<(CurrencyId, i128)>) {
        self.release(account, cost.map(|(currency, units)| (currency, -units)));
    }

    pub fn release(&mut self, account: AccountId, cost: Option<(CurrencyId, i128)>) {
        if let Some((currency, units)) = cost {
            self.accounts[account.0 as usize].reserved[currency.0 as usize] -= units;
        }
    }

    /// Checks that a limited account has the cost free.
    ///
    /// # Errors
    /// M4 if it has less free.
    pub fn check_can_spend(&self, account: AccountId, cost: Option<(CurrencyId, i128)>) -> CheckResult {
        let Some((currency, units)) = cost.filter(|_| self.accounts[account.0 as usize].limited) else {
            return Ok(());
        };
        let free = self.free(account, currency);
        if units > free {
            fail!(M4, "account {account} spends {units} of currency {currency}, but had {free} free");
        }
        Ok(())
    }

    /// Whether an account could have paid for a spot order that was refused. Margin of perpetuals
    /// is not computed here, so an account with an order or a position in a perpetual that settles
    /// in this currency returns `false`.
    pub fn could_spend(&self, account: AccountId, (currency, units): (CurrencyId, i128)) -> bool {
        let ledger = &self.accounts[account.0 as usize];
        let has_margin = self.perpetuals.iter().filter(|(_, settles)| *settles == currency).any(|(perpetual, _)| {
            ledger.live_orders.iter().any(|(instrument, _)| instrument == perpetual)
                || ledger.positions.get(perpetual).is_some_and(|position| position.lots != 0)
        });
        !has_margin && units <= self.free(account, currency)
    }

    /// Adds an instrument and returns its settlement terms, or `None` if its trades would not
    /// settle in whole units.
    pub fn add_instrument(&mut self, spec: &InstrumentSpec) -> Option<SettlementTerms> {
        let terms = self.terms(spec)?;
        if let SettlementTerms::Perpetual { settles, .. } = terms {
            self.perpetuals.push((spec.id, settles));
        }
        Some(terms)
    }

    /// Settles a trade, the taker first. The sequence matters only if an account trades with
    /// itself.
    pub fn settle(
        &mut self,
        instrument: InstrumentId,
        terms: &SettlementTerms,
        parties: [(AccountId, Side); 2],
        price: Ticks,
        lots: u64,
    ) {
        for (account, side) in parties {
            let holder = &mut self.accounts[account.0 as usize];
            let sign = if side == Side::Buy { 1 } else { -1 };
            match *terms {
                SettlementTerms::Spot { base, quote, base_per_lot, quote_per_tick_lot } => {
                    let lots = i128::from(lots);
                    holder.totals[base.0 as usize] += sign * base_per_lot * lots;
                    holder.totals[quote.0 as usize] -= sign * quote_per_tick_lot * i128::from(price.0) * lots;
                }
                SettlementTerms::Perpetual { settles, contract } => {
                    let value = contract * i128::from(lots) / i128::from(price.0);
                    let holding = holder.positions.entry(instrument).or_default();
                    holder.totals[settles.0 as usize] += holding.fill(side, lots, value);
                }
            }
        }
    }

    /// # Errors
    /// M4 if a currency does not sum to its deposits.
    pub fn check_totals(&self) -> CheckResult {
        for (currency, total) in self.currencies.iter().enumerate() {
            let held = self.total_held(currency);
            if held != total.deposited {
                fail!(M4, "currency {currency} sums to {held}, but {} were deposited", total.deposited);
            }
        }
        Ok(())
    }

    /// Returns the sum of a currency over all accounts, plus the entry values of positions that
    /// settle in it.
    fn total_held(&self, currency: usize) -> i128 {
        let owned: i128 = self.accounts.iter().map(|ledger| ledger.totals[currency]).sum();
        let settled_here = self.perpetuals.iter().filter(|(_, settles)| settles.0 as usize == currency);
        owned + settled_here.map(|(instrument, _)| self.total_entry_value(*instrument)).sum::<i128>()
    }

    /// Returns the entry values of all positions in a perpetual. Shorts count as negative.
    fn total_entry_value(&self, instrument: InstrumentId) -> i128 {
        let positions = self.accounts.iter().filter_map(|ledger| ledger.positions.get(&instrument));
        positions.map(|position| position.entry_value * i128::from(position.lots.signum())).sum()
    }

    /// Takes the present sums as deposited. Later checks compare with them.
    pub fn accept_totals(&mut self) {
        for currency in 0..self.currencies.len() {
            self.currencies[currency].deposited = self.total_held(currency);
        }
    }
}

impl PerpetualPosition {
    /// Books a fill and returns the realized profit.
    fn fill(&mut self, side: Side, lots: u64, value: i128) -> i128 {
        let signed = if side == Side::Buy { lots.cast_signed() } else { -lots.cast_signed() };
        let before = self.lots;
        self.lots += signed;
        if before == 0 || before.signum() == signed.signum() {
            self.entry_value += value;
            return 0;
        }
        let closed = i128::from(lots.min(before.unsigned_abs()));
        let came = self.entry_value * closed / i128::from(before.unsigned_abs());
        let went = value * closed / i128::from(lots);
        self.entry_value = if lots > before.unsigned_abs() { value - went } else { self.entry_value - came };
        if before > 0 { came - went } else { went - came }
    }
}

fn ten_to(power: u32) -> Option<i128> {
    10_i128.checked_pow(power)
}

pub fn whole(value: i128, by: i128) -> Option<i128> {
    (value > 0 && by > 0 && value % by == 0).then(|| value / by)
}
