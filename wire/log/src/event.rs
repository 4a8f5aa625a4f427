//! Canonical bytes of events: what the hash chains are made of.
//!
//! Does        encode every event, and for the tape only what the public sees of it. Nothing reads these bytes
//!             back: events are made again by replay.
//! Holds       a public encoding names no order, no account and no remaining quantity of an order.
//!
//! Layout      u8 tag, then (public encoding only) u64 venue time, then the fields in the order in which
//!             `core/model` declares them, in the forms that `command` uses. The public Trade stops after the
//!             taker's side. Tags:
//!             1 EpochStarted  2 CurrencyAdded  3 InstrumentAdded  4 AccountAdded  5 Deposited  6 PhaseChanged
//!             7 Accepted  8 Rejected  9 Trade  10 Cancelled  11 Amended  12 AmendRefused  13 CancelRefused
//!             14 CommandRefused  15 Level  16 BookChanged  17 WindowClosed  18 IndexSampled  19 DayEnded
//!             20 Refreshed  21 InstrumentLimitsSet  22 AccountSet  23 CreditLineSet  24 AccountClosed  25 Killed
//!             26 Lifted  27 ThrottleTripped  28 TradeBusted (public: instrument, trade, price, lots; then buyer,
//!             seller, reason)  29 FlowSet  30 Quarantined

use pitwire_model::{Event, VenueNanos};

use crate::{
    bytes::Writer,
    command::{
        put_account, put_currency, put_instrument, put_limits, put_option_with, put_order_type, put_scope, put_settings,
    },
};

/// Appends the whole event.
pub fn encode_event(event: &Event, out: &mut Vec<u8>) {
    let mut w = Writer::new(out);
    w.put_u8(tag_of(event));
    if event.is_public() {
        put_public_fields(&mut w, event);
    }
    put_private_fields(&mut w, event);
}

/// Appends what the public sees of the event, and says whether that is anything.
pub fn encode_public_event(at: VenueNanos, event: &Event, out: &mut Vec<u8>) -> bool {
    if !event.is_public() {
        return false;
    }
    let mut w = Writer::new(out);
    w.put_u8(tag_of(event));
    w.put_u64(at.0);
    put_public_fields(&mut w, event);
    true
}

fn tag_of(event: &Event) -> u8 {
    match event {
        Event::EpochStarted { .. } => 1,
        Event::CurrencyAdded(_) => 2,
        Event::InstrumentAdded(_) => 3,
        Event::AccountAdded(_) => 4,
        Event::Deposited { .. } => 5,
        Event::PhaseChanged { .. } => 6,
        Event::Accepted { .. } => 7,
        Event::Rejected { .. } => 8,
        Event::Trade { .. } => 9,
        Event::Cancelled { .. } => 10,
        Event::Amended { .. } => 11,
        Event::AmendRefused { .. } => 12,
        Event::CancelRefused { .. } => 13,
        Event::CommandRefused { .. } => 14,
        Event::Level { .. } => 15,
        Event::BookChanged { .. } => 16,
        Event::WindowClosed => 17,
        Event::IndexSampled { .. } => 18,
        Event::DayEnded => 19,
        Event::Refreshed { .. } => 20,
        Event::InstrumentLimitsSet { .. } => 21,
        Event::AccountSet { .. } => 22,
        Event::CreditLineSet { .. } => 23,
        Event::AccountClosed { .. } => 24,
        Event::Killed { .. } => 25,
        Event::Lifted { .. } => 26,
        Event::ThrottleTripped { .. } => 27,
        Event::TradeBusted(_) => 28,
        Event::FlowSet(_) => 29,
        Event::Quarantined { .. } => 30,
    }
}

fn put_public_fields(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::PhaseChanged { instrument, phase } => {
            w.put_u32(instrument.0);
            w.put_u8(*phase as u8);
        }
        Event::Trade { instrument, trade_seq, price, lots, taker_side, .. } => {
            w.put_u32(instrument.0);
            w.put_u64(trade_seq.0);
            w.put_i64(price.0);
            w.put_u64(lots.0);
            w.put_u8(*taker_side as u8);
        }
        Event::Level { instrument, side, price, lots } => {
            w.put_u32(instrument.0);
            w.put_u8(*side as u8);
            w.put_i64(price.0);
            w.put_u64(lots.0);
        }
        Event::BookChanged { instrument, change_id } => {
            w.put_u32(instrument.0);
            w.put_u64(*change_id);
        }
        Event::IndexSampled { instrument, index, mark } => {
            w.put_u32(instrument.0);
            w.put_i64(index.0);
            w.put_i64(mark.0);
        }
        Event::TradeBusted(bust) => {
            w.put_u32(bust.instrument.0);
            w.put_u64(bust.trade_seq.0);
            w.put_i64(bust.price.0);
            w.put_u64(bust.lots.0);
        }
        _ => {}
    }
}

fn put_private_fields(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::EpochStarted { epoch } => w.put_u64(epoch.0),
        Event::CurrencyAdded(currency) => put_currency(w, currency),
        Event::InstrumentAdded(spec) => put_instrument(w, spec),
        Event::AccountAdded(spec) => put_account(w, spec),
        Event::Deposited { account, currency, units } => {
            w.put_u32(account.0);
            w.put_u32(currency.0);
            w.put_i128(*units);
        }
        Event::Trade { maker, maker_account, maker_open, taker, taker_account, taker_open, .. } => {
            w.put_u64(maker.0);
            w.put_u32(maker_account.0);
            w.put_u64(maker_open.0);
            w.put_u64(taker.0);
            w.put_u32(taker_account.0);
            w.put_u64(taker_open.0);
        }
        Event::Rejected { order, account, reason }
        | Event::AmendRefused { order, account, reason }
        | Event::CancelRefused { order, account, reason } => {
            w.put_u64(order.0);
            w.put_u32(account.0);
            w.put_u8(*reason as u8);
        }
        Event::CommandRefused { reason } => w.put_u8(*reason as u8),
        Event::Accepted { .. } | Event::Cancelled { .. } | Event::Amended { .. } | Event::Refreshed { .. } => {
            put_order_event(w, event);
        }
        Event::PhaseChanged { .. }
        | Event::Level { .. }
        | Event::BookChanged { .. }
        | Event::WindowClosed
        | Event::IndexSampled { .. }
        | Event::DayEnded => {}
        other => put_operator_fields(w, other),
    }
}

/// What operators do.
fn put_operator_fields(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::InstrumentLimitsSet { instrument, limits } => {
            w.put_u32(instrument.0);
            put_limits(w, limits);
        }
        Event::AccountSet { account, settings } => {
            w.put_u32(account.0);
            put_settings(w, settings);
        }
        Event::CreditLineSet { account, currency, units } => {
            w.put_u32(account.0);
            w.put_u32(currency.0);
            w.put_i128(*units);
        }
        Event::AccountClosed { account } | Event::ThrottleTripped { account } => w.put_u32(account.0),
        Event::Killed { scope, cancelled, reason } => {
            put_scope(w, *scope);
            w.put_u32(*cancelled);
            w.put_text(reason.as_str());
        }
        Event::Lifted { scope } => put_scope(w, *scope),
        Event::TradeBusted(bust) => {
            w.put_u32(bust.buyer.0);
            w.put_u32(bust.seller.0);
            w.put_text(bust.reason.as_str());
        }
        Event::FlowSet(flow) => {
            w.put_bool(flow.running);
            w.put_u32(flow.rate_percent);
        }
        Event::Quarantined { seq } => w.put_u64(seq.0),
        _ => {}
    }
}

/// The life of one order.
fn put_order_event(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::Accepted { order, account, instrument, side, order_type, lots, tif, display } => {
            w.put_u64(order.0);
            w.put_u32(account.0);
            w.put_u32(instrument.0);
            w.put_u8(*side as u8);
            put_order_type(w, *order_type);
            w.put_u64(lots.0);
            w.put_u8(*tif as u8);
            put_option_with(w, *display, |w, display| w.put_u64(display.0));
        }
        Event::Cancelled { order, account, instrument, side, price, open, reason } => {
            w.put_u64(order.0);
            w.put_u32(account.0);
            w.put_u32(instrument.0);
            w.put_u8(*side as u8);
            w.put_i64(price.0);
            w.put_u64(open.0);
            w.put_u8(*reason as u8);
        }
        Event::Amended { order, account, instrument, side, price, lots, open, kept_priority, display } => {
            w.put_u64(order.0);
            w.put_u32(account.0);
            w.put_u32(instrument.0);
            w.put_u8(*side as u8);
            w.put_i64(price.0);
            w.put_u64(lots.0);
            w.put_u64(open.0);
            w.put_bool(*kept_priority);
            put_option_with(w, *display, |w, display| w.put_u64(display.0));
        }
        Event::Refreshed { order, account, instrument, side, price, shown } => {
            w.put_u64(order.0);
            w.put_u32(account.0);
            w.put_u32(instrument.0);
            w.put_u8(*side as u8);
            w.put_i64(price.0);
            w.put_u64(shown.0);
        }
        _ => {}
    }
}
