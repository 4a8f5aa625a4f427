//! Canonical bytes of events, the input of the hash chains.
//!
//! Does        encode every event, and for the tape only its public part. These bytes are never
//!             decoded: a replay makes the events again.
//! Holds       a public encoding names no order, no account and no remaining quantity of an order.
//!
//! Layout      u8 tag, then (public encoding only) u64 venue time, then the fields in the order in
//!             which `crates/model` declares them, in the forms that `command` uses. The public
//!             Trade stops after the taker's side. Tags:
//!             1 EpochStarted  2 CurrencyAdded  3 InstrumentAdded  4 AccountAdded  5 Deposited  6
//!             PhaseChanged
//!             7 Accepted  8 Rejected  9 Trade  10 Cancelled  11 Amended  12 AmendRefused  13
//!                         CancelRefused
//!             14 CommandRefused  15 Level  16 BookChanged  17 WindowClosed  18 IndexSampled  19
//!             DayEnded 20 Refreshed  21 InstrumentLimitsSet  22 AccountSet  23 CreditLineSet  24
//!             AccountClosed  25 Killed
//!             26 Lifted  27 ThrottleTripped  28 TradeBusted (public: instrument, trade, price,
//!                        lots; then buyer,
//!             seller, reason)  29 FlowSet  30 Quarantined  31 Trade of another kind than
//!             continuous: the kind (1 filter; 2 call, phase u8; 3 cross) follows the taker's side
//!             32 SessionChanged  33 Parked  34 Injected 35 Triggered  36 Indicative  37 Uncrossed
//!             38 Breached  39 ClosingPriceSet  40 DayBegun  41 RemainingSet 42 TradingRulesSet  43
//!             Amended with a stop, a minimum execution or an expiry  44 InstrumentAdded with rules
//!             45 ReportingChanged  46 TradeReported  47 ReportEnded  48 OffBookTrade (public:
//!             instrument, number, price, lots; then report, buyer, seller)  49 FlowDefined

use pitwire_model::{AccountId, Event, InstrumentId, OrderId, TradeKind, VenueNanos};

use crate::records::{
    bytes::Writer,
    command::{
        put_account, put_currency, put_expiry, put_instrument, put_limits, put_option_with, put_order_type, put_report,
        put_rules, put_scope, put_settings, put_tif,
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

/// Appends the public part of the event. Returns whether it has one.
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
        Event::InstrumentAdded(spec) if spec.rules.is_some() => 44,
        Event::InstrumentAdded(_) => 3,
        Event::AccountAdded(_) => 4,
        Event::Deposited { .. } => 5,
        Event::PhaseChanged { .. } => 6,
        Event::Accepted { .. } => 7,
        Event::Rejected { .. } => 8,
        Event::Trade { kind: TradeKind::Continuous, .. } => 9,
        Event::Trade { .. } => 31,
        Event::Cancelled { .. } => 10,
        Event::Amended { stop: None, minimum_execution: None, expiry: None, .. } => 11,
        Event::Amended { .. } => 43,
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
        Event::SessionChanged { .. } => 32,
        Event::Parked { .. } => 33,
        Event::Injected { .. } => 34,
        Event::Triggered { .. } => 35,
        Event::Indicative { .. } => 36,
        Event::Uncrossed { .. } => 37,
        Event::Breached { .. } => 38,
        Event::ClosingPriceSet { .. } => 39,
        Event::DayBegun { .. } => 40,
        Event::RemainingSet { .. } => 41,
        Event::TradingRulesSet { .. } => 42,
        Event::ReportingChanged { .. } => 45,
        Event::TradeReported { .. } => 46,
        Event::ReportEnded { .. } => 47,
        Event::OffBookTrade(_) => 48,
        Event::FlowDefined => 49,
    }
}

fn put_public_fields(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::PhaseChanged { instrument, phase } => {
            w.put_u32(instrument.0);
            w.put_u8(*phase as u8);
        }
        Event::Trade { instrument, trade_seq, price, lots, taker_side, kind, .. } => {
            w.put_u32(instrument.0);
            w.put_u64(trade_seq.0);
            w.put_i64(price.0);
            w.put_u64(lots.0);
            w.put_u8(*taker_side as u8);
            put_trade_kind(w, *kind);
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
        other => put_session_fields(w, other),
    }
}

/// Continuous trading has its own tag and no further field.
fn put_trade_kind(w: &mut Writer<'_>, kind: TradeKind) {
    match kind {
        TradeKind::Continuous => {}
        TradeKind::Filter => w.put_u8(1),
        TradeKind::Call(call) => {
            w.put_u8(2);
            w.put_u8(call as u8);
        }
        TradeKind::Cross => w.put_u8(3),
    }
}

/// Public events of sessions, calls and price controls.
fn put_session_fields(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::SessionChanged { instrument, from, to, reason, ends } => {
            w.put_u32(instrument.0);
            w.put_u8(*from as u8);
            w.put_u8(*to as u8);
            w.put_u8(*reason as u8);
            put_option_with(w, *ends, |w, ends| w.put_u64(ends.0));
        }
        Event::Indicative { instrument, price, volume, imbalance } => {
            w.put_u32(instrument.0);
            put_option_with(w, *price, |w, price| w.put_i64(price.0));
            w.put_u64(volume.0);
            w.put_i64(*imbalance);
        }
        Event::Uncrossed { instrument, call, price, volume } => {
            w.put_u32(instrument.0);
            w.put_u8(*call as u8);
            w.put_i64(price.0);
            w.put_u64(volume.0);
        }
        Event::Breached { instrument, price, reference, against, bps } => {
            w.put_u32(instrument.0);
            w.put_i64(price.0);
            w.put_i64(reference.0);
            w.put_u8(*against as u8);
            w.put_u32(*bps);
        }
        Event::ClosingPriceSet { instrument, price, derivation } => {
            w.put_u32(instrument.0);
            w.put_i64(price.0);
            w.put_u8(*derivation as u8);
        }
        Event::ReportingChanged { instrument, open, reason, ends } => {
            w.put_u32(instrument.0);
            w.put_bool(*open);
            w.put_u8(*reason as u8);
            put_option_with(w, *ends, |w, ends| w.put_u64(ends.0));
        }
        Event::OffBookTrade(trade) => {
            w.put_u32(trade.instrument.0);
            w.put_u64(trade.number);
            w.put_i64(trade.price.0);
            w.put_u64(trade.lots.0);
        }
        _ => {}
    }
}

fn put_private_fields(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::EpochStarted { epoch } => w.put_u64(epoch.0),
        Event::CurrencyAdded(currency) => put_currency(w, currency),
        Event::InstrumentAdded(spec) => {
            put_instrument(w, spec);
            if let Some(rules) = &spec.rules {
                put_rules(w, rules);
            }
        }
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
        Event::Accepted { .. }
        | Event::Cancelled { .. }
        | Event::Amended { .. }
        | Event::Refreshed { .. }
        | Event::Parked { .. }
        | Event::Injected { .. }
        | Event::Triggered { .. } => put_order_event(w, event),
        Event::PhaseChanged { .. }
        | Event::Level { .. }
        | Event::BookChanged { .. }
        | Event::WindowClosed
        | Event::IndexSampled { .. }
        | Event::DayEnded
        | Event::FlowDefined => {}
        other => put_operator_fields(w, other),
    }
}

/// Events of operators' commands.
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
        Event::DayBegun { day } => w.put_u32(day.0),
        Event::RemainingSet { instrument } => w.put_u32(instrument.0),
        Event::TradingRulesSet { instrument, rules } => {
            w.put_u32(instrument.0);
            put_rules(w, rules);
        }
        Event::TradeReported { report, trade } => {
            w.put_u64(report.0);
            put_report(w, trade);
        }
        Event::ReportEnded { report, instrument, account, counterparty, end } => {
            w.put_u64(report.0);
            w.put_u32(instrument.0);
            w.put_u32(account.0);
            w.put_u32(counterparty.0);
            w.put_u8(*end as u8);
        }
        Event::OffBookTrade(trade) => {
            w.put_u64(trade.report.0);
            w.put_u32(trade.buyer.0);
            w.put_u32(trade.seller.0);
        }
        _ => {}
    }
}

fn put_ids(w: &mut Writer<'_>, order: OrderId, account: AccountId, instrument: InstrumentId) {
    w.put_u64(order.0);
    w.put_u32(account.0);
    w.put_u32(instrument.0);
}

/// Events in the life of one order.
fn put_order_event(w: &mut Writer<'_>, event: &Event) {
    match event {
        Event::Accepted { order, account, instrument, side, order_type, lots, tif, display } => {
            put_ids(w, *order, *account, *instrument);
            w.put_u8(*side as u8);
            put_order_type(w, *order_type);
            w.put_u64(lots.0);
            put_tif(w, *tif);
            put_option_with(w, *display, |w, display| w.put_u64(display.0));
        }
        Event::Cancelled { order, account, instrument, side, price, open, reason } => {
            put_ids(w, *order, *account, *instrument);
            w.put_u8(*side as u8);
            w.put_i64(price.0);
            w.put_u64(open.0);
            w.put_u8(*reason as u8);
        }
        Event::Amended {
            order,
            account,
            instrument,
            side,
            price,
            lots,
            open,
            kept_priority,
            display,
            stop,
            minimum_execution,
            expiry,
        } => {
            put_ids(w, *order, *account, *instrument);
            w.put_u8(*side as u8);
            w.put_i64(price.0);
            w.put_u64(lots.0);
            w.put_u64(open.0);
            w.put_bool(*kept_priority);
            put_option_with(w, *display, |w, display| w.put_u64(display.0));
            if stop.is_some() || minimum_execution.is_some() || expiry.is_some() {
                put_option_with(w, *stop, |w, stop| w.put_i64(stop.0));
                put_option_with(w, *minimum_execution, |w, lots| w.put_u64(lots.0));
                put_option_with(w, *expiry, put_expiry);
            }
        }
        Event::Refreshed { order, account, instrument, side, price, shown } => {
            put_ids(w, *order, *account, *instrument);
            w.put_u8(*side as u8);
            w.put_i64(price.0);
            w.put_u64(shown.0);
        }
        Event::Parked { order, account, instrument, open } => {
            put_ids(w, *order, *account, *instrument);
            w.put_u64(open.0);
        }
        Event::Injected { order, account, instrument } => put_ids(w, *order, *account, *instrument),
        Event::Triggered { order, account, instrument, last } => {
            put_ids(w, *order, *account, *instrument);
            w.put_i64(last.0);
        }
        _ => {}
    }
}
