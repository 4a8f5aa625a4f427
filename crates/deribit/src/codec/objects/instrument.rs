//! Instruments and currencies (wire objects 5.5 and 5.8).

use pitwire_model::{Currency, CurrencyId, Decimal, InstrumentKind, InstrumentSpec, Lots, Phase};

use super::trading_rules::trading_rules;
use crate::codec::json::Json;

/// The dialect's timestamp for "never", in milliseconds since 1970.
const NEVER_EXPIRES_MS: u64 = 32_503_708_800_000;
/// Creation time of every instrument in milliseconds since 1970, because the dialect wants one.
const CREATED_MS: u64 = 1_767_225_600_000;

pub fn instrument_kind(spec: &InstrumentSpec) -> &'static str {
    match spec.kind {
        InstrumentKind::Spot { .. } => "spot",
        InstrumentKind::InversePerpetual { .. } => "future",
    }
}

fn name(currencies: &[Currency], id: CurrencyId) -> &str {
    currencies.get(id.0 as usize).map_or("", |currency| &currency.name)
}

/// Whether a public list or channel by currency covers this instrument: by its base or its quote
/// currency.
pub fn is_of_currency(spec: &InstrumentSpec, currencies: &[Currency], wanted: &str) -> bool {
    let is = |id| name(currencies, id).eq_ignore_ascii_case(wanted);
    wanted.eq_ignore_ascii_case("any") || is(spec.base()) || is(spec.quote())
}

/// Whether a public list or channel by kind and currency covers this instrument.
pub fn is_of_family(spec: &InstrumentSpec, currencies: &[Currency], kind: &str, currency: &str) -> bool {
    (kind == "any" || kind == instrument_kind(spec)) && is_of_currency(spec, currencies, currency)
}

/// The currency under which a member's requests find this instrument: its settlement currency, else
/// its quote currency.
pub fn settlement_name<'a>(spec: &InstrumentSpec, currencies: &'a [Currency]) -> &'a str {
    name(currencies, if spec.is_spot() { spec.quote() } else { spec.base() })
}

/// The dialect's word for a session.
pub fn phase_state(phase: Phase) -> &'static str {
    match phase {
        Phase::Deleted => "archivized",
        Phase::Halted | Phase::HaltAndClose => "halted",
        Phase::Closed | Phase::StartOfTrading | Phase::ClosingPricePublication | Phase::PostClose => "inactive",
        // The session accepts orders, whether they trade at once or not.
        _ => "open",
    }
}

/// The dialect's word for the kind of asset. Assets without decimals are shares.
fn underlying_type(currencies: &[Currency], base: CurrencyId) -> &'static str {
    match currencies.get(base.0 as usize) {
        Some(Currency { decimals: 0, .. }) => "equity",
        _ => "crypto",
    }
}

pub fn instrument(j: &mut Json<'_>, spec: &InstrumentSpec, phase: Phase, currencies: &[Currency]) {
    let (base, quote) = (name(currencies, spec.base()), name(currencies, spec.quote()));
    j.object(|j| {
        j.key("instrument_name").string(&spec.name);
        j.key("instrument_id").uint(u64::from(spec.id.0) + 1);
        j.key("kind").string(instrument_kind(spec));
        j.key("base_currency").string(base);
        j.key("quote_currency").string(quote);
        j.key("counter_currency").string(quote);
        j.key("underlying_type").string(underlying_type(currencies, spec.base()));
        let leverage = match spec.kind {
            InstrumentKind::Spot { .. } => {
                j.key("instrument_type").string("linear");
                j.key("contract_size").decimal(Decimal::new(1, 0));
                j.key("price_index").string(&format!("{}_{}", base.to_lowercase(), quote.to_lowercase()));
                1
            }
            InstrumentKind::InversePerpetual { max_leverage, .. } => {
                j.key("instrument_type").string("reversed");
                j.key("future_type").string("reversed");
                j.key("settlement_currency").string(base);
                j.key("settlement_period").string("perpetual");
                j.key("contract_size").decimal(spec.lot);
                j.key("price_index").string(&format!("{}_{}", base.to_lowercase(), quote.to_lowercase()));
                max_leverage
            }
        };
        j.key("expiration_timestamp").uint(NEVER_EXPIRES_MS);
        j.key("creation_timestamp").uint(CREATED_MS);
        j.key("is_active").bool(phase_state(phase) == "open");
        j.key("state").string(phase_state(phase));
        j.key("session").string(phase.name());
        j.key("tick_size").decimal(spec.tick);
        j.key("tick_size_steps").array(|_| {});
        j.key("min_trade_amount").decimal(spec.amount(Lots(1)));
        limits(j, spec, currencies);
        if let Some(rules) = &spec.rules {
            trading_rules(j, spec, rules);
        }
        j.key("maker_commission").decimal(Decimal::ZERO);
        j.key("taker_commission").decimal(Decimal::ZERO);
        j.key("max_leverage").uint(u64::from(leverage));
        j.key("block_trade_commission").decimal(Decimal::ZERO);
        j.key("block_trade_min_trade_amount").decimal(spec.amount(Lots(1)));
        j.key("block_trade_tick_size").decimal(spec.tick);
        j.key("rfq").bool(false);
    });
}

/// Writes the operator's limits for one order; nothing if none is set. The dialect does not have
/// them.
fn limits(j: &mut Json<'_>, spec: &InstrumentSpec, currencies: &[Currency]) {
    if let Some(lots) = spec.limits.max_lots {
        j.key("max_amount").decimal(spec.amount(lots));
    }
    if let Some(units) = spec.limits.max_notional_units {
        let valued_in = if spec.is_spot() { spec.quote() } else { spec.base() };
        let scale = currencies.get(valued_in.0 as usize).map_or(0, |currency| currency.decimals);
        j.key("max_notional").decimal(Decimal::new(units, scale));
    }
    if let Some(bps) = spec.limits.collar_bps {
        j.key("collar_percent").decimal(Decimal::new(i128::from(bps), 2));
    }
}

pub fn currency(j: &mut Json<'_>, currency: &Currency) {
    j.object(|j| {
        j.key("currency").string(&currency.name);
        j.key("currency_long").string(&currency.name);
        j.key("coin_type").string(&currency.name);
        j.key("fee_precision").uint(u64::from(currency.decimals));
        j.key("decimals").uint(u64::from(currency.decimals));
        j.key("min_confirmations").uint(1);
        j.key("min_withdrawal_fee").decimal(Decimal::ZERO);
        j.key("withdrawal_fee").decimal(Decimal::ZERO);
        j.key("withdrawal_priorities").array(|_| {});
        j.key("network_currency").string(&currency.name);
        j.key("network_fee").decimal(Decimal::ZERO);
        j.key("in_cross_collateral_pool").bool(false);
    });
}
