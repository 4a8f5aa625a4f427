//! Instruments: create, limit, delete.

use crate::codec::{RpcError, objects};
use pitwire_model::{
    Command, Currency, CurrencyId, Decimal, InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec, Lots,
    Phase, Ticks,
};

use crate::call::{Call, MethodResult};

const MAX_RESTING_ORDERS: u32 = 2_000_000;

/// Deletes an instrument.
///
/// # Errors
/// A refusal if the instrument is unknown, deleted or in use.
pub fn delete(call: &mut Call<'_>) -> MethodResult {
    let instrument = call.instrument_id()?;
    call.command(Command::DeleteInstrument { instrument })?;
    call.done()
}

/// Creates a spot instrument that is open for trading. An unknown base currency is created with it,
/// with enough decimals for one lot.
///
/// # Errors
/// A refusal if a name, a step, the start price or a limit is missing or wrong, if the quote
/// currency is unknown, or if the name is taken.
pub fn create(call: &mut Call<'_>) -> MethodResult {
    let (base, quote) = (call.params.required("base_currency")?, call.params.required("quote_currency")?);
    let name = match call.params.text("instrument_name")? {
        Some(name) if !name.is_empty() => name.into_owned(),
        _ => format!("{base}_{quote}"),
    };
    check_name("instrument_name", &name)?;
    check_name("base_currency", &base)?;
    let (tick, lot) = (positive(call, "tick_size")?, positive(call, "lot_size")?);
    let start = positive(call, "start_price")?;
    let start = start.in_steps_of(tick).and_then(|ticks| i64::try_from(ticks).ok()).map(Ticks);
    let start_price =
        start.ok_or_else(|| RpcError::param("price_wrong_tick", "start_price", "not a whole number of ticks"))?;
    let engine = call.venue.engine();
    let quote_currency = engine.currency_named(&quote).map(|currency| (currency.id, currency.decimals));
    let (quote_id, quote_decimals) =
        quote_currency.ok_or_else(|| RpcError::param("unknown_currency", "quote_currency", "no such currency"))?;
    if engine.instrument_named(&name).is_some() {
        return Err(RpcError::param("already_exists", "instrument_name", format!("{name} exists already")));
    }
    let known = engine.currency_named(&base).map(|currency| currency.id);
    let base_id = known.unwrap_or(CurrencyId(u32::try_from(engine.currencies().len()).unwrap_or(u32::MAX)));
    let id = InstrumentId(u32::try_from(engine.markets().len()).unwrap_or(u32::MAX));
    let kind = InstrumentKind::Spot { base: base_id, quote: quote_id };
    let limits = limits(call, InstrumentLimits::default(), lot, quote_decimals)?;
    let spec = InstrumentSpec {
        id,
        name,
        kind,
        tick,
        lot,
        start_price,
        max_resting_orders: MAX_RESTING_ORDERS,
        limits,
        rules: None,
    };
    if known.is_none() {
        let currency = Currency { id: base_id, name: base.into_owned(), decimals: lot.scale.min(18) };
        call.command(Command::AddCurrency(currency))?;
    }
    call.command(Command::AddInstrument(Box::new(spec)))?;
    call.command(Command::SetPhase { instrument: id, phase: Phase::Continuous })?;
    write(call, id)
}

/// Changes the limits of an instrument.
///
/// # Errors
/// A refusal if the instrument is unknown or deleted, or a limit is out of range.
pub fn change(call: &mut Call<'_>) -> MethodResult {
    let instrument = call.instrument_id()?;
    let spec = call.spec(instrument)?;
    let (held, lot, money) = (spec.limits, spec.lot, if spec.is_spot() { spec.quote() } else { spec.base() });
    let decimals = call.venue.engine().currency(money).map_or(0, |currency| currency.decimals);
    let limits = limits(call, held, lot, decimals)?;
    call.command(Command::SetInstrumentLimits { instrument, limits })?;
    write(call, instrument)
}

/// Reads `max_amount`, `max_notional` and `collar_percent` over the current limits; zero removes a
/// limit.
fn limits(call: &Call<'_>, held: InstrumentLimits, lot: Decimal, decimals: u8) -> Result<InstrumentLimits, RpcError> {
    let steps = |name: &'static str, step: Decimal| -> Result<Option<Option<i128>>, RpcError> {
        let Some(value) = call.params.decimal(name)? else { return Ok(None) };
        let count = value.in_steps_of(step).filter(|count| *count >= 0);
        let count = count.ok_or_else(|| RpcError::invalid(name, format!("a multiple of {step}, or 0 for none")))?;
        Ok(Some((count > 0).then_some(count)))
    };
    let narrow = |name: &'static str, value: Option<i128>| -> Result<Option<u64>, RpcError> {
        let narrowed = value.map(u64::try_from).transpose();
        narrowed.map_err(|_| RpcError::invalid(name, "too large"))
    };
    let mut limits = held;
    if let Some(lots) = steps("max_amount", lot)? {
        limits.max_lots = narrow("max_amount", lots)?.map(Lots);
    }
    if let Some(units) = steps("max_notional", Decimal::new(1, decimals))? {
        limits.max_notional_units = units;
    }
    if let Some(bps) = steps("collar_percent", Decimal::new(1, 2))? {
        let bps = narrow("collar_percent", bps)?.map(u32::try_from).transpose();
        limits.collar_bps = bps.map_err(|_| RpcError::invalid("collar_percent", "below 100"))?;
    }
    Ok(limits)
}

fn positive(call: &Call<'_>, name: &'static str) -> Result<Decimal, RpcError> {
    let value = call.params.decimal(name)?.filter(|value| value.mantissa > 0);
    value.ok_or_else(|| RpcError::invalid(name, format!("{name} is required, above zero")))
}

fn check_name(param: &'static str, name: &str) -> MethodResult {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=32).contains(&name.len()) && name.bytes().all(fine) {
        return Ok(());
    }
    Err(RpcError::invalid(param, "1 to 32 letters, digits, _ and -"))
}

fn write(call: &mut Call<'_>, id: InstrumentId) -> MethodResult {
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    if let Some(market) = engine.market(id) {
        objects::instrument(&mut crate::codec::Json::new(out), &market.spec, market.phase(), engine.currencies());
    }
    Ok(())
}
