//! The drop copy: events of orders for a third party.

use pitwire_model::{CancelReason, Event, InstrumentSpec, Lots, OrderId, OrderType, Seq, Side, Ticks, VenueNanos};

use super::order::{cancel_reason_name, order_type_name};
use super::{amount, price, side_name, tif_name, trade_id};
use crate::codec::json::Json;

/// One event, seen from one of its accounts.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// Number of the causing command. Together with `index` it makes gaps provable.
    pub seq: Seq,
    pub at: VenueNanos,
    /// Position among the copies of one command, from 0.
    pub index: u32,
    pub account: &'a str,
    pub spec: Option<&'a InstrumentSpec>,
    pub event: &'a Event,
    /// Whether the account is the taker of a trade, or the buyer of an off-book trade.
    pub is_taker: bool,
}

pub fn drop_copy(j: &mut Json<'_>, copy: &Copy<'_>) {
    j.object(|j| {
        j.key("sequence").uint(copy.seq.0);
        j.key("index").uint(u64::from(copy.index));
        j.key("timestamp").uint(copy.at.as_millis());
        j.key("account").string(copy.account);
        if let Some(spec) = copy.spec {
            j.key("instrument_name").string(&spec.name);
        }
        body(j, copy);
    });
}

fn body(j: &mut Json<'_>, copy: &Copy<'_>) {
    let spec = copy.spec;
    match copy.event {
        Event::Accepted { order, side, order_type, lots, tif, display, .. } => {
            head(j, "accepted", *order, Some(*side));
            j.key("order_type").string(order_type_name(*order_type));
            j.key("time_in_force").string(tif_name(*tif));
            j.key("tif_ext").string(tif.name());
            if let (Some(spec), Some(stop)) = (spec, order_type.stop_price()) {
                j.key("trigger_price").decimal(spec.price(stop));
            }
            if let (Some(spec), OrderType::Hidden { minimum_execution, .. }) = (spec, order_type) {
                j.key("hidden").bool(true).key("min_execution").decimal(spec.amount(*minimum_execution));
            }
            money(j, spec, order_type.limit_price(), &[("amount", Some(*lots)), ("display_amount", *display)]);
        }
        Event::Rejected { order, reason, .. } => {
            head(j, "rejected", *order, None);
            j.key("reason").string(reason.name());
        }
        Event::AmendRefused { order, reason, .. } => {
            head(j, "amend_refused", *order, None);
            j.key("reason").string(reason.name());
        }
        Event::CancelRefused { order, reason, .. } => {
            head(j, "cancel_refused", *order, None);
            j.key("reason").string(reason.name());
        }
        Event::Cancelled { order, side, price, open, reason, .. } => {
            cancelled(j, spec, *order, (*side, *price), *open, *reason)
        }
        Event::Amended { order, side, price, lots, open, .. } => {
            head(j, "amended", *order, Some(*side));
            money(j, spec, Some(*price), &[("amount", Some(*lots)), ("open_amount", Some(*open))]);
        }
        Event::Refreshed { order, side, price, shown, .. } => {
            head(j, "refreshed", *order, Some(*side));
            money(j, spec, Some(*price), &[("display_amount", Some(*shown))]);
        }
        Event::Parked { order, open, .. } => {
            head(j, "parked", *order, None);
            money(j, spec, None, &[("open_amount", Some(*open))]);
        }
        Event::Injected { order, .. } => head(j, "injected", *order, None),
        Event::Triggered { order, last, .. } => {
            head(j, "triggered", *order, None);
            if let Some(spec) = spec {
                j.key("trigger_reference_price").decimal(spec.price(*last));
            }
        }
        Event::Trade { .. } => trade(j, copy),
        Event::Killed { cancelled, reason, .. } => {
            j.key("type").string("killed");
            j.key("cancelled").uint(u64::from(*cancelled));
            j.key("reason").string(reason.as_str());
        }
        Event::Lifted { .. } => drop_key(j, "lifted"),
        Event::ThrottleTripped { .. } => drop_key(j, "execution_throttle"),
        Event::TradeBusted(bust) => {
            j.key("type").string("busted");
            j.key("trade_id").string(&trade_id(bust.instrument, bust.trade_seq));
            money(j, spec, Some(bust.price), &[("amount", Some(bust.lots))]);
            j.key("reason").string(bust.reason.as_str());
        }
        Event::TradeReported { report, trade } => {
            report_head(j, "trade_reported", *report);
            j.key("direction").string(side_name(trade.side));
            money(j, spec, Some(trade.price), &[("amount", Some(trade.lots))]);
        }
        Event::ReportEnded { report, end, .. } => report_head(j, end.name(), *report),
        Event::OffBookTrade(made) => {
            report_head(j, "off_book_trade", made.report);
            j.key("off_book_seq").uint(made.number);
            j.key("direction").string(side_name(if copy.is_taker { Side::Buy } else { Side::Sell }));
            money(j, spec, Some(made.price), &[("amount", Some(made.lots))]);
        }
        _ => drop_key(j, "other"),
    }
}

fn report_head(j: &mut Json<'_>, kind: &str, report: Seq) {
    j.key("type").string(kind);
    j.key("report_id").string(&report.to_string());
}

fn drop_key(j: &mut Json<'_>, kind: &str) {
    j.key("type").string(kind);
}

fn head(j: &mut Json<'_>, kind: &str, order: OrderId, side: Option<Side>) {
    j.key("type").string(kind);
    j.key("order_id").string(&order.to_string());
    if let Some(side) = side {
        j.key("direction").string(side_name(side));
    }
}

fn cancelled(
    j: &mut Json<'_>,
    spec: Option<&InstrumentSpec>,
    order: OrderId,
    (side, price): (Side, Ticks),
    open: Lots,
    reason: CancelReason,
) {
    head(j, "cancelled", order, Some(side));
    money(j, spec, (price.0 > 0).then_some(price), &[("open_amount", Some(open))]);
    j.key("cancel_reason").string(cancel_reason_name(reason));
}

fn trade(j: &mut Json<'_>, copy: &Copy<'_>) {
    let Event::Trade { instrument, trade_seq, price, lots, taker_side, maker, maker_open, taker, taker_open, .. } =
        copy.event
    else {
        return;
    };
    let (order, open, side) =
        if copy.is_taker { (*taker, *taker_open, *taker_side) } else { (*maker, *maker_open, taker_side.opposite()) };
    head(j, "trade", order, Some(side));
    j.key("trade_id").string(&trade_id(*instrument, *trade_seq));
    j.key("trade_seq").uint(trade_seq.0);
    j.key("liquidity").string(if copy.is_taker { "T" } else { "M" });
    money(j, copy.spec, Some(*price), &[("amount", Some(*lots)), ("open_amount", Some(open))]);
}

fn money(j: &mut Json<'_>, spec: Option<&InstrumentSpec>, at: Option<Ticks>, amounts: &[(&str, Option<Lots>)]) {
    let Some(spec) = spec else { return };
    if let Some(at) = at {
        price(j, "price", spec, at);
    }
    for (key, lots) in amounts {
        if let Some(lots) = lots {
            amount(j, key, spec, *lots);
        }
    }
}
