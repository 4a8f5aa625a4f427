//! Defines currencies, accounts and instruments, and applies deposits and index samples.

use std::collections::BTreeMap;

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, Decimal, Event, InstrumentKind, InstrumentSpec, Phase, Reject, Ticks,
};

use crate::account::ReferenceAccount;
use crate::market::ReferenceMarket;
use crate::state::{MAX_UNITS, VenueState};
use crate::validity::{are_valid_limits, are_valid_rules, are_valid_settings};

/// Largest quantity and price of one order, in lots and ticks.
const MOST_LOTS: i128 = u32::MAX as i128;

const MOST_TICKS: i128 = u32::MAX as i128;

/// Adds a currency.
///
/// # Errors
/// `AlreadyExists` if the name is taken or the id is not the next one, `BadDefinition` if the name
/// is empty or it has more than 18 decimals.
pub fn add_currency(venue: &mut VenueState, currency: &Currency, out: &mut Vec<Event>) -> Result<(), Reject> {
    let known = venue.currencies.iter().any(|known| known.name == currency.name);
    if known || currency.id.0 as usize != venue.currencies.len() {
        return Err(Reject::AlreadyExists);
    }
    if currency.decimals > 18 || currency.name.is_empty() {
        return Err(Reject::BadDefinition);
    }
    venue.currencies.push(currency.clone());
    for account in &mut venue.accounts {
        account.totals.push(0);
    }
    out.push(Event::CurrencyAdded(currency.clone()));
    Ok(())
}

/// Adds an account.
///
/// # Errors
/// `AlreadyExists` if the name is taken or the id is not the next one, `BadDefinition` if the name
/// is empty or a setting is out of range.
pub fn add_account(venue: &mut VenueState, spec: &AccountSpec, out: &mut Vec<Event>) -> Result<(), Reject> {
    let known = venue.accounts.iter().any(|known| known.spec.name == spec.name);
    if known || spec.id.0 as usize != venue.accounts.len() {
        return Err(Reject::AlreadyExists);
    }
    if spec.name.is_empty() || !are_valid_settings(&spec.settings) {
        return Err(Reject::BadDefinition);
    }
    venue.accounts.push(ReferenceAccount {
        spec: spec.clone(),
        totals: vec![0; venue.currencies.len()],
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

/// Adds an instrument.
///
/// # Errors
/// `AlreadyExists` if the name is taken or the id is not the next one, `BadDefinition` if the
/// definition is not valid.
pub fn add_instrument(venue: &mut VenueState, spec: &InstrumentSpec, out: &mut Vec<Event>) -> Result<(), Reject> {
    let known = venue.markets.iter().any(|known| known.spec.name == spec.name);
    if known || spec.id.0 as usize != venue.markets.len() {
        return Err(Reject::AlreadyExists);
    }
    if !is_valid_instrument(venue, spec) {
        return Err(Reject::BadDefinition);
    }
    venue.markets.push(ReferenceMarket::new(spec));
    out.push(Event::InstrumentAdded(Box::new(spec.clone())));
    Ok(())
}

fn is_valid_instrument(venue: &VenueState, spec: &InstrumentSpec) -> bool {
    let known = |currency: CurrencyId| (currency.0 as usize) < venue.currencies.len();
    let named = !spec.name.is_empty();
    let steps = spec.tick.mantissa > 0 && spec.lot.mantissa > 0;
    let start = (1..=Ticks::MAX_PRICE.0).contains(&spec.start_price.0);
    if !named || !known(spec.base()) || !known(spec.quote()) || spec.base() == spec.quote() || !steps || !start {
        return false;
    }
    if !are_valid_limits(&spec.limits) || !spec.rules.as_deref().is_none_or(are_valid_rules) {
        return false;
    }
    match spec.kind {
        InstrumentKind::Spot { .. } => {
            let (base, quote) = (venue.base_units_per_lot(spec), venue.quote_units_per_tick_lot(spec));
            base.is_some_and(|units| units <= (1 << 120) / MOST_LOTS)
                && quote.is_some_and(|units| units <= (1 << 120) / (MOST_LOTS * MOST_TICKS))
        }
        InstrumentKind::InversePerpetual { index, max_leverage, .. } => {
            let source = venue.market(index);
            let index_trades =
                source.is_some_and(|source| source.spec.is_spot() && source.session.phase != Phase::Deleted);
            index_trades
                && max_leverage > 0
                && venue.contract_constant(spec).is_some_and(|units| units <= (1 << 80) / MOST_LOTS)
        }
    }
}

/// Adds `units` to a balance; a negative number withdraws.
///
/// # Errors
/// `UnknownAccount`, `UnknownCurrency`, `AmountOverflow` if the balance would leave its range,
/// `NotEnoughFunds` if a limited account withdraws more than it has free.
pub fn deposit(
    venue: &mut VenueState,
    account: AccountId,
    currency: CurrencyId,
    units: i128,
    out: &mut Vec<Event>,
) -> Result<(), Reject> {
    let holder = venue.account(account).ok_or(Reject::UnknownAccount)?;
    let total = *holder.totals.get(currency.0 as usize).ok_or(Reject::UnknownCurrency)?;
    let after = total.checked_add(units).filter(|after| (-MAX_UNITS..=MAX_UNITS).contains(after));
    let after = after.ok_or(Reject::AmountOverflow)?;
    if units < 0 && venue.is_limited(account) && -units > venue.available(account, currency) {
        return Err(Reject::NotEnoughFunds);
    }
    venue.accounts[account.0 as usize].totals[currency.0 as usize] = after;
    out.push(Event::Deposited { account, currency, units });
    Ok(())
}

pub fn sample_index(venue: &mut VenueState, out: &mut Vec<Event>) {
    for at in 0..venue.markets.len() {
        let InstrumentKind::InversePerpetual { index: source, .. } = venue.markets[at].spec.kind else { continue };
        let source = &venue.markets[source.0 as usize];
        let own = &venue.markets[at];
        let index = in_steps(source.spec.price(source.mid_price()), own.spec.tick).max(1);
        let band = index / 200;
        let mark = own.mid_price().0.clamp(index - band, index + band).max(1);
        let own = &mut venue.markets[at];
        (own.prices.index, own.prices.mark) = (Ticks(index), Ticks(mark));
        out.push(Event::IndexSampled { instrument: own.spec.id, index: own.prices.index, mark: own.prices.mark });
    }
}

/// Returns the number of whole steps in a positive value.
fn in_steps(value: Decimal, step: Decimal) -> i64 {
    let scale = value.scale.max(step.scale);
    let at_scale = |decimal: Decimal| decimal.mantissa * 10_i128.pow(u32::from(scale - decimal.scale));
    i64::try_from(at_scale(value) / at_scale(step)).expect("prices fit 64 bits in any tick the tests use")
}
