//! The record of one command.
//!
//! Layout      0  u32  bytes of the whole record, these four included
//!             4  u8   kind (table below)
//!             5  u8   version of the kind, 1
//!             6  u64  seq
//!             14 u64  at, venue nanoseconds
//!             22      body
//!             Bodies by kind:
//!             1  StartEpoch        epoch u64
//!             2  AddCurrency       currency u32, name text, decimals u8
//!             3  AddInstrument     instrument u32, name text, kind (0 spot: base u32, quote u32; 1
//!                inverse perpetual:
//!                                  base u32, quote u32, index instrument u32, max leverage u32),
//!                                  tick decimal, lot decimal, start price i64, most resting orders
//!                                  u32, limits
//!             4  AddAccount        account u32, name text, credit u8, settings
//!             5  Deposit           account u32, currency u32, units i128
//!             6  SetPhase          instrument u32, phase u8
//!             7  Enter             order u64, account u32, instrument u32, side u8 (2 more:
//!                                  reduce-only), type (0 limit: price i64; 1 market; 2 hidden:
//!                                  price i64, minimum execution u64; 3 stop: stop i64; 4 stop
//!                                  limit: stop i64, price i64), lots u64, time in force u8 (4
//!                                  then: day u32; 5 then: time u64), session u32, label text,
//!                                  terms
//!             8  Amend             account u32, order u64, price i64, lots u64, priority u8,
//!                                  post-only u8, display option u64
//!             9  Cancel            account u32, order u64
//!             10 CancelAll         account u32, reason u8, filter (0 all; 1 instrument u32; 2
//!             session u32;
//!                                  3 count u32 and that many orders u64)
//!             11 CloseWindow  12 SampleIndex  13 EndDay   nothing
//!             14 SetInstrumentLimits  instrument u32, limits
//!             15 DeleteInstrument  instrument u32
//!             16 SetAccount        account u32, settings
//!             17 SetCreditLine     account u32, currency u32, units i128
//!             18 CloseAccount      account u32
//!             19 Kill              scope (0 order u64; 1 session u32; 2 account u32; 3 venue),
//!                                  reason text
//!             20 Lift              scope
//!             21 BustTrade         instrument u32, trade u64, price i64, lots u64, buyer u32,
//!             seller u32, reason text
//!             22 SetFlow           running u8, percent u32
//!             23 Quarantine        seq u64, instrument option u32
//!             24 AddInstrument     as 3, then rules; 3 is for instruments without
//!             25 Amend             as 8, then stop option i64, minimum execution option u64,
//!                                  expiry option (0 day u32; 1 time u64); 8 is for amends without
//!             26 ChangeSession     instrument u32, to u8, reason u8, due u64, ends option u64
//!             27 ExtendSession     instrument u32, ends u64
//!             28 SetRemaining      instrument u32, sixteen counts u8
//!             29 BeginDay          day u32, closes u64
//!             30 PassTime          nothing
//!             31 FilterHidden  32 RunBatch    instrument u32
//!             33 SetTradingRules   instrument u32, rules
//!             34 SetClosingPrice   instrument u32, price i64
//!             35 SetReporting      instrument u32, open u8, reason u8, due u64, ends option u64
//!             36 ReportTrade       instrument u32, account u32, counterparty u32, side u8, price
//!             i64, lots u64, label text 37 AnswerReport      account u32, report u64, confirm u8
//!             38 SpendSignature    digest 32 bytes, account u32, used u64 in milliseconds of wall
//!                                  time, purpose u8 (0 order; 1 login; 2 login from 4 bytes of
//!                                  address; 3 login from 16 bytes)
//!             39 DefineFlow        text
//!             Terms are a u8 of bits and the fields that they announce, in this order: 1 reprice 2
//!             reject (post-only), 4 display u64, 8 self-match u8, 16 separate group, 32 group key
//!             u32, 64 goes with its session, 128 client order id text. Limits: lots option u64,
//!             units option i128, collar option u32. Settings: self-match u8, open orders option
//!             u32, throttle option (executions u32, window u64). Rules: segment text, reserve
//!             option u64, improvement i64, band option u32, seven tolerances (static option u32,
//!             dynamic option u32), allocation u8, volatility call u64, batch interval u64. If the
//!             top bit of the allocation is set, the smallest display in percent follows it as u32;
//!             otherwise it is 1. A decimal is a mantissa i128 and a scale u8; an option is a flag
//!             and, when it is set, the value. Codes of enums are those of `crates/model`.
//! Holds       a text of more than 255 bytes contains no NUL, so that no sector of a group can be
//!             all zeros.

mod fields;
mod operator;
mod order;
mod reporting;
mod session;
mod signature;

use pitwire_model::{
    AccountId, AccountSpec, CancelFilter, CancelReason, Command, Credit, Currency, CurrencyId, Epoch, InstrumentId,
    InstrumentKind, InstrumentSpec, OrderId, Seq, SequencedCommand, SessionId, Ticks, VenueNanos,
};

use crate::records::bytes::{DecodeError, Reader, Writer};
pub(crate) use fields::{
    put_decimal, put_marked_side, put_option_with, take_code, take_decimal, take_label, take_marked_side,
    take_option_with, take_phase, take_side,
};
pub use operator::{put_limits, put_scope, put_settings, take_limits, take_settings};
pub use order::{put_expiry, put_order_type, put_tif, take_expiry, take_order_type, take_post_only, take_tif};
pub use reporting::{put_report, take_report};
pub use session::{put_rules, take_remaining, take_rules};
pub use signature::{SMALLEST_BYTES as SMALLEST_SIGNATURE_BYTES, put_signature, take_signature};

const KIND_VERSION: u8 = 1;
/// Length, kind, version, seq and time.
const HEAD_BYTES: usize = 22;
/// A text up to this length may hold any bytes, because it cannot fill a sector.
const FREE_TEXT_BYTES: usize = 255;

/// Whether the command has an encoding: its texts are short enough, and long ones hold no NUL. The
/// journal checks it before it writes a record; only names and flows given by operators can fail.
pub fn fits(command: &Command) -> bool {
    let text = match command {
        Command::AddCurrency(currency) => currency.name.as_str(),
        Command::AddInstrument(spec) => spec.name.as_str(),
        Command::AddAccount(spec) => spec.name.as_str(),
        Command::DefineFlow { text } => &**text,
        // Labels are too short to fill a sector.
        _ => "",
    };
    text_fits(text)
}

fn text_fits(text: &str) -> bool {
    text.len() <= FREE_TEXT_BYTES || (text.len() <= usize::from(u16::MAX) && !text.as_bytes().contains(&0))
}

/// Appends the record of a command for which [`fits`] holds.
pub fn encode_command(stamped: &SequencedCommand, out: &mut Vec<u8>) {
    let start = out.len();
    let mut w = Writer::new(out);
    w.put_u32(0);
    w.put_u8(kind_of(&stamped.command));
    w.put_u8(KIND_VERSION);
    w.put_u64(stamped.seq.0);
    w.put_u64(stamped.at.0);
    put_body(&mut w, &stamped.command);
    let length = w.position() - start;
    w.set_u32(start, u32::try_from(length).unwrap_or(u32::MAX));
}

/// Reads the record at the front of `bytes` and returns it with its length.
///
/// # Errors
///
/// Returns the position and the kind of the fault: a truncated record, a bad value, or bytes after
/// the last field.
pub fn decode_command(bytes: &[u8]) -> Result<(SequencedCommand, usize), DecodeError> {
    let length = Reader::new(bytes).take_u32()?;
    let length = usize::try_from(length).map_err(|_| DecodeError::BadValue { what: "record length", at: 0 })?;
    if length < HEAD_BYTES {
        return Err(DecodeError::BadValue { what: "record length", at: 0 });
    }
    let record = bytes.get(..length).ok_or(DecodeError::Truncated { at: bytes.len() })?;
    let mut r = Reader::new(record);
    r.take_u32()?;
    let kind = r.take_u8()?;
    let version = r.take_u8()?;
    if version != KIND_VERSION {
        return Err(DecodeError::UnknownTag { what: "record version", tag: u32::from(version), at: 5 });
    }
    let seq = Seq(r.take_u64()?);
    let at = VenueNanos(r.take_u64()?);
    let command = take_body(&mut r, kind)?;
    r.finish()?;
    Ok((SequencedCommand { seq, at, command }, length))
}

/// The kind of quarantine records: readers find them without decoding everything.
pub const QUARANTINE_KIND: u8 = 23;

/// Iterates over the undecoded records of a payload, as far as their lengths are valid.
pub fn records(mut payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = Reader::new(payload).take_u32().ok()?;
        let length = usize::try_from(length).ok().filter(|length| *length >= HEAD_BYTES)?;
        let (record, rest) = payload.split_at_checked(length)?;
        payload = rest;
        Some(record)
    })
}

/// The kind of a record, or `None` if it is too short.
pub fn kind_of_record(record: &[u8]) -> Option<u8> {
    record.get(4).copied()
}

fn kind_of(command: &Command) -> u8 {
    match command {
        Command::StartEpoch { .. } => 1,
        Command::AddCurrency(_) => 2,
        Command::AddInstrument(spec) if spec.rules.is_some() => 24,
        Command::AddInstrument(_) => 3,
        Command::AddAccount(_) => 4,
        Command::Deposit { .. } => 5,
        Command::SetPhase { .. } => 6,
        Command::Enter(_) => 7,
        Command::Amend(amend) if order::has_terms(amend) => 25,
        Command::Amend(_) => 8,
        Command::Cancel { .. } => 9,
        Command::CancelAll { .. } => 10,
        Command::CloseWindow => 11,
        Command::SampleIndex => 12,
        Command::EndDay => 13,
        Command::SetInstrumentLimits { .. } => 14,
        Command::DeleteInstrument { .. } => 15,
        Command::SetAccount { .. } => 16,
        Command::SetCreditLine { .. } => 17,
        Command::CloseAccount { .. } => 18,
        Command::Kill { .. } => 19,
        Command::Lift { .. } => 20,
        Command::BustTrade(_) => 21,
        Command::SetFlow(_) => 22,
        Command::Quarantine { .. } => QUARANTINE_KIND,
        Command::ChangeSession { .. } => 26,
        Command::ExtendSession { .. } => 27,
        Command::SetRemaining { .. } => 28,
        Command::BeginDay { .. } => 29,
        Command::PassTime => 30,
        Command::FilterHidden { .. } => 31,
        Command::RunBatch { .. } => 32,
        Command::SetTradingRules { .. } => 33,
        Command::SetClosingPrice { .. } => 34,
        Command::SetReporting { .. } => 35,
        Command::ReportTrade(_) => 36,
        Command::AnswerReport { .. } => 37,
        Command::SpendSignature(_) => 38,
        Command::DefineFlow { .. } => 39,
    }
}

fn put_body(w: &mut Writer<'_>, command: &Command) {
    match command {
        Command::StartEpoch { epoch } => w.put_u64(epoch.0),
        Command::AddCurrency(currency) => put_currency(w, currency),
        Command::AddInstrument(spec) => {
            put_instrument(w, spec);
            if let Some(rules) = &spec.rules {
                put_rules(w, rules);
            }
        }
        Command::AddAccount(spec) => put_account(w, spec),
        Command::Deposit { account, currency, units } => {
            w.put_u32(account.0);
            w.put_u32(currency.0);
            w.put_i128(*units);
        }
        Command::SetPhase { instrument, phase } => {
            w.put_u32(instrument.0);
            w.put_u8(*phase as u8);
        }
        Command::Enter(order) => order::put_order(w, order),
        Command::Amend(amend) => order::put_amend(w, amend),
        Command::Cancel { account, order } => {
            w.put_u32(account.0);
            w.put_u64(order.0);
        }
        Command::CancelAll { account, which, reason } => {
            w.put_u32(account.0);
            w.put_u8(*reason as u8);
            put_filter(w, which);
        }
        Command::CloseWindow | Command::SampleIndex | Command::EndDay | Command::PassTime => {}
        Command::ChangeSession { .. }
        | Command::ExtendSession { .. }
        | Command::SetRemaining { .. }
        | Command::BeginDay { .. }
        | Command::FilterHidden { .. }
        | Command::RunBatch { .. }
        | Command::SetTradingRules { .. }
        | Command::SetClosingPrice { .. } => session::put_body(w, command),
        Command::SetReporting { .. } | Command::ReportTrade(_) | Command::AnswerReport { .. } => {
            reporting::put_body(w, command);
        }
        Command::SpendSignature(spent) => signature::put_signature(w, spent),
        other => operator::put_body(w, other),
    }
}

fn take_body(r: &mut Reader<'_>, kind: u8) -> Result<Command, DecodeError> {
    Ok(match kind {
        1 => Command::StartEpoch { epoch: Epoch(r.take_u64()?) },
        2 => Command::AddCurrency(take_currency(r)?),
        3 => Command::AddInstrument(Box::new(take_instrument(r)?)),
        4 => Command::AddAccount(take_account(r)?),
        5 => Command::Deposit {
            account: AccountId(r.take_u32()?),
            currency: CurrencyId(r.take_u32()?),
            units: r.take_i128()?,
        },
        6 => Command::SetPhase { instrument: InstrumentId(r.take_u32()?), phase: take_phase(r)? },
        7 => Command::Enter(order::take_order(r)?),
        8 => Command::Amend(order::take_amend(r)?),
        24 => {
            let mut spec = take_instrument(r)?;
            spec.rules = Some(Box::new(take_rules(r)?));
            Command::AddInstrument(Box::new(spec))
        }
        25 => Command::Amend(order::take_amend_with_terms(r)?),
        26..=34 => return session::take_body(r, kind),
        35..=37 => return reporting::take_body(r, kind),
        38 => Command::SpendSignature(signature::take_signature(r)?),
        39 => Command::DefineFlow { text: take_long_text(r, "flow")?.into() },
        9 => Command::Cancel { account: AccountId(r.take_u32()?), order: OrderId(r.take_u64()?) },
        10 => {
            let account = AccountId(r.take_u32()?);
            let reason = take_code(r, "cancel reason", |code| {
                CancelReason::ALL.into_iter().find(|reason| *reason as u8 == code)
            })?;
            Command::CancelAll { account, which: take_filter(r)?, reason }
        }
        11 => Command::CloseWindow,
        12 => Command::SampleIndex,
        13 => Command::EndDay,
        _ => return operator::take_body(r, kind),
    })
}

fn put_filter(w: &mut Writer<'_>, which: &CancelFilter) {
    match which {
        CancelFilter::All => w.put_u8(0),
        CancelFilter::Instrument(instrument) => {
            w.put_u8(1);
            w.put_u32(instrument.0);
        }
        CancelFilter::Session(session) => {
            w.put_u8(2);
            w.put_u32(session.0);
        }
        CancelFilter::Listed(orders) => {
            w.put_u8(3);
            w.put_count(orders.len());
            orders.iter().for_each(|order| w.put_u64(order.0));
        }
    }
}

fn take_filter(r: &mut Reader<'_>) -> Result<CancelFilter, DecodeError> {
    let at = r.position();
    Ok(match r.take_u8()? {
        0 => CancelFilter::All,
        1 => CancelFilter::Instrument(InstrumentId(r.take_u32()?)),
        2 => CancelFilter::Session(SessionId(r.take_u32()?)),
        3 => {
            let orders: Result<Box<[OrderId]>, DecodeError> =
                (0..r.take_count(8)?).map(|_| r.take_u64().map(OrderId)).collect();
            CancelFilter::Listed(orders?)
        }
        tag => return Err(DecodeError::UnknownTag { what: "cancel filter", tag: u32::from(tag), at }),
    })
}

pub fn put_currency(w: &mut Writer<'_>, currency: &Currency) {
    w.put_u32(currency.id.0);
    w.put_text(&currency.name);
    w.put_u8(currency.decimals);
}

/// Reads a currency.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_currency(r: &mut Reader<'_>) -> Result<Currency, DecodeError> {
    Ok(Currency { id: CurrencyId(r.take_u32()?), name: take_name(r)?, decimals: r.take_u8()? })
}

pub fn put_account(w: &mut Writer<'_>, spec: &AccountSpec) {
    w.put_u32(spec.id.0);
    w.put_text(&spec.name);
    w.put_u8(spec.credit as u8);
    put_settings(w, &spec.settings);
}

/// Reads the definition of an account.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_account(r: &mut Reader<'_>) -> Result<AccountSpec, DecodeError> {
    Ok(AccountSpec {
        id: AccountId(r.take_u32()?),
        name: take_name(r)?,
        credit: take_code(r, "credit", |code| match code {
            0 => Some(Credit::Limited),
            1 => Some(Credit::Unlimited),
            _ => None,
        })?,
        settings: take_settings(r)?,
    })
}

/// Writes an instrument without its trading rules, which each layout puts in its own place.
pub fn put_instrument(w: &mut Writer<'_>, spec: &InstrumentSpec) {
    w.put_u32(spec.id.0);
    w.put_text(&spec.name);
    match spec.kind {
        InstrumentKind::Spot { base, quote } => {
            w.put_u8(0);
            w.put_u32(base.0);
            w.put_u32(quote.0);
        }
        InstrumentKind::InversePerpetual { base, quote, index, max_leverage } => {
            w.put_u8(1);
            w.put_u32(base.0);
            w.put_u32(quote.0);
            w.put_u32(index.0);
            w.put_u32(max_leverage);
        }
    }
    put_decimal(w, spec.tick);
    put_decimal(w, spec.lot);
    w.put_i64(spec.start_price.0);
    w.put_u32(spec.max_resting_orders);
    put_limits(w, &spec.limits);
}

/// Reads the definition of an instrument.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_instrument(r: &mut Reader<'_>) -> Result<InstrumentSpec, DecodeError> {
    Ok(InstrumentSpec {
        id: InstrumentId(r.take_u32()?),
        name: take_name(r)?,
        kind: take_instrument_kind(r)?,
        tick: take_decimal(r)?,
        lot: take_decimal(r)?,
        start_price: Ticks(r.take_i64()?),
        max_resting_orders: r.take_u32()?,
        limits: take_limits(r)?,
        rules: None,
    })
}

fn take_instrument_kind(r: &mut Reader<'_>) -> Result<InstrumentKind, DecodeError> {
    let at = r.position();
    let tag = r.take_u8()?;
    let (base, quote) = (CurrencyId(r.take_u32()?), CurrencyId(r.take_u32()?));
    match tag {
        0 => Ok(InstrumentKind::Spot { base, quote }),
        1 => Ok(InstrumentKind::InversePerpetual {
            base,
            quote,
            index: InstrumentId(r.take_u32()?),
            max_leverage: r.take_u32()?,
        }),
        _ => Err(DecodeError::UnknownTag { what: "instrument kind", tag: u32::from(tag), at }),
    }
}

fn take_name(r: &mut Reader<'_>) -> Result<String, DecodeError> {
    take_long_text(r, "name")
}

/// Reads a text for which [`text_fits`] holds.
fn take_long_text(r: &mut Reader<'_>, what: &'static str) -> Result<String, DecodeError> {
    let at = r.position();
    let text = r.take_text()?;
    if text_fits(text) { Ok(text.to_owned()) } else { Err(DecodeError::BadValue { what, at }) }
}
