//! Bodies of operators' commands and their parts. The layout is at the head of the parent module.

use pitwire_model::{
    AccountId, AccountSettings, Bust, Command, CurrencyId, FlowSetting, InstrumentId, InstrumentLimits, KillScope,
    Lots, OrderId, Seq, SessionId, Throttle, Ticks, TradeSeq,
};

use super::fields::{put_option_with, take_label, take_option_with, take_self_match};
use crate::records::bytes::{DecodeError, Reader, Writer};

pub(super) fn put_body(w: &mut Writer<'_>, command: &Command) {
    match command {
        Command::SetInstrumentLimits { instrument, limits } => {
            w.put_u32(instrument.0);
            put_limits(w, limits);
        }
        Command::DeleteInstrument { instrument } => w.put_u32(instrument.0),
        Command::SetAccount { account, settings } => {
            w.put_u32(account.0);
            put_settings(w, settings);
        }
        Command::SetCreditLine { account, currency, units } => {
            w.put_u32(account.0);
            w.put_u32(currency.0);
            w.put_i128(*units);
        }
        Command::CloseAccount { account } => w.put_u32(account.0),
        Command::Kill { scope, reason } => {
            put_scope(w, *scope);
            w.put_text(reason.as_str());
        }
        Command::Lift { scope } => put_scope(w, *scope),
        Command::BustTrade(bust) => put_bust(w, bust),
        Command::SetFlow(flow) => {
            w.put_bool(flow.running);
            w.put_u32(flow.rate_percent);
        }
        Command::DefineFlow { text } => w.put_text(text),
        Command::Quarantine { seq, instrument } => {
            w.put_u64(seq.0);
            put_option_with(w, *instrument, |w, instrument| w.put_u32(instrument.0));
        }
        _ => {}
    }
}

pub(super) fn take_body(r: &mut Reader<'_>, kind: u8) -> Result<Command, DecodeError> {
    Ok(match kind {
        14 => Command::SetInstrumentLimits { instrument: InstrumentId(r.take_u32()?), limits: take_limits(r)? },
        15 => Command::DeleteInstrument { instrument: InstrumentId(r.take_u32()?) },
        16 => Command::SetAccount { account: AccountId(r.take_u32()?), settings: take_settings(r)? },
        17 => Command::SetCreditLine {
            account: AccountId(r.take_u32()?),
            currency: CurrencyId(r.take_u32()?),
            units: r.take_i128()?,
        },
        18 => Command::CloseAccount { account: AccountId(r.take_u32()?) },
        19 => Command::Kill { scope: take_scope(r)?, reason: take_label(r)? },
        20 => Command::Lift { scope: take_scope(r)? },
        21 => Command::BustTrade(Box::new(take_bust(r)?)),
        22 => Command::SetFlow(FlowSetting { running: r.take_bool()?, rate_percent: r.take_u32()? }),
        23 => Command::Quarantine {
            seq: Seq(r.take_u64()?),
            instrument: take_option_with(r, |r| r.take_u32().map(InstrumentId))?,
        },
        _ => return Err(DecodeError::UnknownTag { what: "command kind", tag: u32::from(kind), at: 4 }),
    })
}

pub fn put_limits(w: &mut Writer<'_>, limits: &InstrumentLimits) {
    put_option_with(w, limits.max_lots, |w, lots| w.put_u64(lots.0));
    put_option_with(w, limits.max_notional_units, |w, units| w.put_i128(units));
    put_option_with(w, limits.collar_bps, |w, bps| w.put_u32(bps));
}

/// Reads the limits of an instrument.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_limits(r: &mut Reader<'_>) -> Result<InstrumentLimits, DecodeError> {
    Ok(InstrumentLimits {
        max_lots: take_option_with(r, |r| r.take_u64().map(Lots))?,
        max_notional_units: take_option_with(r, Reader::take_i128)?,
        collar_bps: take_option_with(r, Reader::take_u32)?,
    })
}

pub fn put_settings(w: &mut Writer<'_>, settings: &AccountSettings) {
    w.put_u8(settings.self_match as u8);
    put_option_with(w, settings.max_open_orders, |w, orders| w.put_u32(orders));
    put_option_with(w, settings.throttle, |w, throttle| {
        w.put_u32(throttle.executions);
        w.put_u64(throttle.window_ns);
    });
}

/// Reads the settings of an account.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_settings(r: &mut Reader<'_>) -> Result<AccountSettings, DecodeError> {
    Ok(AccountSettings {
        self_match: take_self_match(r)?,
        max_open_orders: take_option_with(r, Reader::take_u32)?,
        throttle: take_option_with(r, |r| Ok(Throttle { executions: r.take_u32()?, window_ns: r.take_u64()? }))?,
    })
}

pub fn put_scope(w: &mut Writer<'_>, scope: KillScope) {
    match scope {
        KillScope::Order(order) => {
            w.put_u8(0);
            w.put_u64(order.0);
        }
        KillScope::Session(session) => {
            w.put_u8(1);
            w.put_u32(session.0);
        }
        KillScope::Account(account) => {
            w.put_u8(2);
            w.put_u32(account.0);
        }
        KillScope::Venue => w.put_u8(3),
    }
}

pub(crate) fn take_scope(r: &mut Reader<'_>) -> Result<KillScope, DecodeError> {
    let at = r.position();
    Ok(match r.take_u8()? {
        0 => KillScope::Order(OrderId(r.take_u64()?)),
        1 => KillScope::Session(SessionId(r.take_u32()?)),
        2 => KillScope::Account(AccountId(r.take_u32()?)),
        3 => KillScope::Venue,
        tag => return Err(DecodeError::UnknownTag { what: "kill scope", tag: u32::from(tag), at }),
    })
}

fn put_bust(w: &mut Writer<'_>, bust: &Bust) {
    w.put_u32(bust.instrument.0);
    w.put_u64(bust.trade_seq.0);
    w.put_i64(bust.price.0);
    w.put_u64(bust.lots.0);
    w.put_u32(bust.buyer.0);
    w.put_u32(bust.seller.0);
    w.put_text(bust.reason.as_str());
}

fn take_bust(r: &mut Reader<'_>) -> Result<Bust, DecodeError> {
    Ok(Bust {
        instrument: InstrumentId(r.take_u32()?),
        trade_seq: TradeSeq(r.take_u64()?),
        price: Ticks(r.take_i64()?),
        lots: Lots(r.take_u64()?),
        buyer: AccountId(r.take_u32()?),
        seller: AccountId(r.take_u32()?),
        reason: take_label(r)?,
    })
}
