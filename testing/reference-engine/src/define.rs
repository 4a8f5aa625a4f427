//! What there is: currencies, accounts, instruments, deposits, phases, samples of the index.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Currency, CurrencyId, Decimal, Event, InstrumentKind, InstrumentLimits,
    InstrumentSpec, Phase, Reject, RemainingSessions, Ticks,
};

use super::auction::Indicated;
use super::session::legal_rules;
use super::{Account, MOST_UNITS, Market, ReferenceEngine};

/// Of one order.
const MOST_LOTS: i128 = u32::MAX as i128;
const MOST_TICKS: i128 = u32::MAX as i128;

impl ReferenceEngine {
    pub(super) fn add_currency(&mut self, currency: &Currency, out: &mut Vec<Event>) -> Result<(), Reject> {
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

    pub(super) fn add_account(&mut self, spec: &AccountSpec, out: &mut Vec<Event>) -> Result<(), Reject> {
        let known = self.accounts.iter().any(|known| known.spec.name == spec.name);
        if known || spec.id.0 as usize != self.accounts.len() {
            return Err(Reject::AlreadyExists);
        }
        if spec.name.is_empty() || !legal_settings(&spec.settings) {
            return Err(Reject::BadDefinition);
        }
        self.accounts.push(Account {
            spec: spec.clone(),
            totals: vec![0; self.currencies.len()],
            credit_lines: BTreeMap::new(),
            holdings: BTreeMap::new(),
            closed: false,
            killed: false,
            throttled: false,
            window: 0,
            executions: 0,
        });
        out.push(Event::AccountAdded(spec.clone()));
        Ok(())
    }

    pub(super) fn add_instrument(&mut self, spec: &InstrumentSpec, out: &mut Vec<Event>) -> Result<(), Reject> {
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
            ends: None,
            missed: false,
            remaining: RemainingSessions::default(),
            unfinished: BTreeSet::new(),
            continues: None,
            change_id: 0,
            trades: 0,
            busted: BTreeSet::new(),
            last: None,
            fixed: Some(spec.start_price),
            dynamic: None,
            index: spec.start_price,
            mark: spec.start_price,
            uncross_price: None,
            closing: None,
            previous_close: None,
            day_last: None,
            closing_call: None,
            continuous_ended: None,
            prints: Vec::new(),
            touch: None,
            told: Indicated::default(),
            must_tell: false,
            batch_ends: Vec::new(),
            hours: None,
            off_book: 0,
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
        if !legal_limits(&spec.limits) || !spec.rules.as_deref().is_none_or(legal_rules) {
            return false;
        }
        match spec.kind {
            InstrumentKind::Spot { .. } => {
                let (base, quote) = (self.base_units_per_lot(spec), self.quote_units_per_tick_lot(spec));
                base.is_some_and(|units| units <= (1 << 120) / MOST_LOTS)
                    && quote.is_some_and(|units| units <= (1 << 120) / (MOST_LOTS * MOST_TICKS))
            }
            InstrumentKind::InversePerpetual { index, max_leverage, .. } => {
                let source = self.market(index);
                let index_trades = source.is_some_and(|source| source.spec.is_spot() && source.phase != Phase::Deleted);
                index_trades
                    && max_leverage > 0
                    && self.contract_constant(spec).is_some_and(|units| units <= (1 << 80) / MOST_LOTS)
            }
        }
    }

    pub(super) fn deposit(
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

    pub(super) fn sample_index(&mut self, out: &mut Vec<Event>) {
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
}

/// How many whole steps fit into a positive value.
fn in_steps(value: Decimal, step: Decimal) -> i64 {
    let scale = value.scale.max(step.scale);
    let at_scale = |decimal: Decimal| decimal.mantissa * 10_i128.pow(u32::from(scale - decimal.scale));
    i64::try_from(at_scale(value) / at_scale(step)).expect("prices fit 64 bits in any tick the tests use")
}

pub(super) fn legal_limits(limits: &InstrumentLimits) -> bool {
    limits.max_lots.is_none_or(|lots| lots.0 > 0)
        && limits.max_notional_units.is_none_or(|units| units > 0)
        && limits.collar_bps.is_none_or(|bps| bps < 10_000)
}

pub(super) fn legal_settings(settings: &AccountSettings) -> bool {
    settings.throttle.is_none_or(|throttle| throttle.executions > 0 && throttle.window_ns > 0)
}
