//! Explains why an entry, an amend or a cancel was refused, with the compared numbers.

use pitwire_model::{
    Allocation, Amend, Lots, NewOrder, OrderType, Phase, Reject, Seq, Side, Ticks, TimeInForce, VenueNanos,
};
use pitwire_scenario::{Contracts, date_text, type_word};

use crate::note::Note;
use crate::text_style::counted;
use crate::venue_view::{InstrumentView, VenueView, ViewedOrder};

/// Days ahead that the date of a GTD order may lie.
const MOST_DAYS: u32 = 90;
/// 2149-06-06, the last venue day.
const LAST_DAY: u32 = 65_535;

/// The terms that an entry or an amend requested.
struct RequestTerms {
    side: Side,
    price: Option<Ticks>,
    stop: Option<Ticks>,
    lots: Lots,
    /// Lots that would be open.
    open: Lots,
    minimum_execution: Lots,
    display: Option<Lots>,
    tif: TimeInForce,
}

pub(crate) fn entry(venue: &VenueView, seq: Seq, order: &NewOrder, reason: Reject) -> Note {
    let name = reason.name();
    let market = venue.market(order.instrument);
    let session = market.map_or(Phase::Closed, |market| market.phase).name();
    let (tif, kind) = (order.tif.name(), type_word(order.order_type, order.display.is_some()));
    let contracts = Contracts::get();
    let rule = contracts.cited(name, session, tif, kind);
    if let Some(cell) = contracts.refusing_cell(name, session, tif, kind) {
        let text = format!("{name}: {kind} {tif} in {session}: {}", cell.text);
        let note = Note::new(seq, venue, "rejected", rule, text).with("reason", name).with("session", session);
        return note.with("type", kind).with("tif", tif).with("answer", cell.answer.as_str());
    }
    let price = order.order_type.limit_price();
    let asked = RequestTerms {
        side: order.side,
        price,
        stop: order.order_type.stop_price(),
        lots: order.lots,
        open: order.lots,
        minimum_execution: match order.order_type {
            OrderType::Hidden { minimum_execution, .. } => minimum_execution,
            _ => Lots::ZERO,
        },
        display: order.display,
        tif: order.tif,
    };
    compared(Note::new(seq, venue, "rejected", rule, ""), venue, market, &asked, reason, session)
}

pub(crate) fn amend(venue: &VenueView, seq: Seq, amend: &Amend, reason: Reject) -> Note {
    let note = Note::new(seq, venue, "amend refused", Contracts::get().rule_of(reason.name()), "");
    let Some(order) = venue.orders.get(&amend.order) else {
        let text = format!("{}: no live order has number {}", reason.name(), amend.order);
        return Note { text, ..note }.with("reason", reason.name());
    };
    let market = venue.market(order.instrument);
    let session = market.map_or(Phase::Closed, |market| market.phase).name();
    let executed = order.lots.saturating_sub(order.open);
    let open = match amend.priority {
        pitwire_model::Priority::KeepWhenReduced => amend.lots.saturating_sub(executed),
        pitwire_model::Priority::AlwaysLose => amend.lots,
    };
    let asked = RequestTerms {
        side: order.side,
        price: order.price().map(|_| amend.price),
        stop: amend.stop.or(order.stop()),
        lots: amend.lots,
        open,
        minimum_execution: amend.minimum_execution.unwrap_or(order.minimum_execution()),
        display: amend.display.or(order.display),
        tif: expiring(order, amend),
    };
    compared(note, venue, market, &asked, reason, session).with("executed", executed.0)
}

pub(crate) fn cancel(venue: &VenueView, seq: Seq, order: pitwire_model::OrderId, reason: Reject) -> Note {
    let text = match reason {
        Reject::UnknownOrder => format!("unknown_order: no live order has number {order}"),
        _ => format!("{}: {}", reason.name(), Contracts::get().meaning(reason.name())),
    };
    let rule = Contracts::get().rule_of(reason.name());
    Note::new(seq, venue, "cancel refused", rule, text).with("reason", reason.name())
}

fn expiring(order: &ViewedOrder, amend: &Amend) -> TimeInForce {
    match amend.expiry {
        Some(pitwire_model::Expiry::Day(day)) => TimeInForce::GoodTillDate { day },
        Some(pitwire_model::Expiry::Time(at)) => TimeInForce::GoodTillTime { at },
        None => order.tif,
    }
}

/// Adds the numbers that the failed check compared.
fn compared(
    note: Note,
    venue: &VenueView,
    market: Option<&InstrumentView>,
    asked: &RequestTerms,
    reason: Reject,
    session: &str,
) -> Note {
    let name = reason.name();
    let note = note.with("reason", name).with("session", session);
    let with_text = |note: Note, text: String| Note { text: format!("{name}: {text}"), ..note };
    let Some(market) = market else { return with_text(note, Contracts::get().meaning(name).to_owned()) };
    let rules = market.rules();
    let (id, price) = (market.spec.id, asked.price.unwrap_or(Ticks::ZERO).0);
    let at = |price: i64| venue.price(id, Ticks(price));
    let amount = |lots: u64| venue.amount(id, Lots(lots));
    match reason {
        Reject::PostOnlyNotAllowed => {
            let trades_in_batches = rules.allocation == Allocation::FrequentBatch;
            let text = if session != Phase::Continuous.name() {
                format!("{session} takes no post-only orders; continuous trading does")
            } else if trades_in_batches {
                "the instrument trades in batches, in which no order trades on entry".to_owned()
            } else {
                "only a displayed limit order that may rest can be post-only".to_owned()
            };
            with_text(note, text)
        }
        Reject::NotOpen => with_text(note, format!("{session} takes no such request")),
        Reject::NoAuctionScheduled => {
            let (wanted, left) = waits_for(market, asked.tif);
            let note = note.with("waits_for", wanted).with("remaining", left);
            with_text(note, format!("{} waits for {wanted}, which {}", asked.tif.name(), comes_again(left)))
        }
        Reject::QuantityBelowReserve => {
            let mrs = rules.minimum_reserve.unwrap_or_default().0;
            let note = note.with("lots", asked.lots.0).with("mrs", mrs);
            with_text(note, format!("{} is below the minimum reserve size of {}", amount(asked.lots.0), amount(mrs)))
        }
        Reject::MinimumExecutionOutOfRange => {
            let (mes, mrs) = (asked.minimum_execution.0, rules.minimum_reserve.unwrap_or(Lots(1)).0.max(1));
            let note = note.with("mes", mes).with("open", asked.open.0).with("mrs", mrs);
            with_text(
                note,
                format!(
                    "a minimum execution size of {} does not lie between the minimum reserve size, {}, and the open \
                     quantity, {}",
                    amount(mes),
                    amount(mrs),
                    amount(asked.open.0)
                ),
            )
        }
        Reject::ExpiryPassed | Reject::ExpiryTooFar => expiry(note, venue, asked.tif, name),
        Reject::PriceOutsideBand => {
            let (reference, band) = (market.static_reference.unwrap_or_default().0, rules.band_pct.unwrap_or_default());
            let distance = (price - reference).abs();
            let note = note.with("price", price).with("static_reference", reference).with("band_pct", band);
            with_text(
                note,
                format!(
                    "{} lies {} from the static reference {}, of which {band} % are allowed",
                    at(price),
                    at(distance),
                    at(reference)
                ),
            )
        }
        Reject::PriceAboveCollar | Reject::PriceBelowCollar => {
            let reference = market.last.unwrap_or(market.spec.start_price).0;
            let collar = market.spec.limits.collar_bps.unwrap_or_default();
            let note = note.with("price", price).with("reference", reference).with("collar_bps", collar);
            with_text(
                note,
                format!("{} against the reference {}, of which {collar}/10000 are allowed", at(price), at(reference)),
            )
        }
        Reject::QuantityAboveLimit => {
            let most = market.spec.limits.max_lots.unwrap_or_default().0;
            with_text(
                note.with("lots", asked.lots.0).with("most", most),
                format!("{}, at most {}", amount(asked.lots.0), amount(most)),
            )
        }
        Reject::QuantityOutOfRange => {
            let note = note.with("lots", asked.lots.0).with("most", Lots::MAX_ORDER.0);
            with_text(
                note,
                format!("{} does not lie in {} to {}", amount(asked.lots.0), amount(1), amount(Lots::MAX_ORDER.0)),
            )
        }
        Reject::PriceOutOfRange => {
            let stop = asked.stop.map_or(price, Ticks::get);
            let note = note.with("price", price).with("stop", stop).with("most", Ticks::MAX_PRICE.0);
            with_text(
                note,
                format!(
                    "price {}, stop price {}: each has to lie in {} to {}",
                    at(price),
                    at(stop),
                    at(1),
                    at(Ticks::MAX_PRICE.0)
                ),
            )
        }
        Reject::DisplayOutOfRange => {
            let display = asked.display.unwrap_or_default().0;
            let least = rules.min_display(asked.lots).0;
            let note = note.with("display", display).with("least", least).with("lots", asked.lots.0);
            with_text(
                note,
                format!(
                    "a display of {} for {}: it has to be {} to the quantity, on an order that may rest",
                    amount(display),
                    amount(asked.lots.0),
                    amount(least)
                ),
            )
        }
        Reject::AmountAlreadyFilled => {
            let note = note.with("lots", asked.lots.0);
            with_text(note, format!("a new total of {} is not above what has traded", amount(asked.lots.0)))
        }
        Reject::PostOnlyWouldTrade | Reject::PostOnlyNoPlace => {
            let best = venue.best_visible(market.spec.id, asked.side.opposite()).unwrap_or_default().0;
            let note = note.with("price", price).with("best", best);
            with_text(note, format!("{} against the visible best {} of the other side", at(price), at(best)))
        }
        Reject::NotEnoughFunds => with_text(
            note.with("price", price).with("lots", asked.lots.0),
            format!("{} at {}", amount(asked.lots.0), at(price)),
        ),
        Reject::BookFull => {
            let most = market.spec.max_resting_orders;
            with_text(note.with("most", most), format!("{} rest already", counted(u64::from(most), "order")))
        }
        _ => with_text(note, Contracts::get().meaning(name).to_owned()),
    }
}

/// Writes how often a session still comes today.
pub(crate) fn comes_again(times: u32) -> String {
    match times {
        0 => "does not come again today".to_owned(),
        1 => "comes once more today".to_owned(),
        times => format!("comes {times} more times today"),
    }
}

/// Returns the session that an order waits for, and how often it is still scheduled today.
pub(crate) fn waits_for(market: &InstrumentView, tif: TimeInForce) -> (&'static str, u32) {
    let calls = [Phase::OpeningCall, Phase::FcoCall, Phase::IntradayCall, Phase::ClosingCall];
    let count = |phase: Phase| u32::from(market.still_to_come(phase));
    match tif {
        TimeInForce::OpeningCall => ("opening_auction", count(Phase::OpeningCall)),
        TimeInForce::ClosingCall => ("closing_auction", count(Phase::ClosingCall)),
        TimeInForce::IntradayCall => ("intraday_auction", count(Phase::IntradayCall)),
        TimeInForce::ClosingCross => ("closing_price_cross", count(Phase::ClosingPriceCross)),
        _ => ("a scheduled call", calls.into_iter().map(count).sum()),
    }
}

fn expiry(note: Note, venue: &VenueView, tif: TimeInForce, name: &str) -> Note {
    let (today, closes) = venue.day.unwrap_or((0, VenueNanos::ZERO));
    match tif {
        TimeInForce::GoodTillDate { day } => {
            let (expires, first, last) =
                (date_text(day.0), date_text(today), date_text(today.saturating_add(MOST_DAYS).min(LAST_DAY)));
            let text = format!("{name}: {expires} does not lie in {first} to {last}");
            let note = note.with("expires", expires).with("today", first).with("latest", last);
            Note { text, ..note }
        }
        TimeInForce::GoodTillTime { at } => {
            let (expires, now, close) = (venue.time(at), venue.time(venue.now), venue.time(closes));
            let text = format!("{name}: {expires} is not later than now, {now}, and at most the day's close, {close}");
            let note = note.with("expires_ns", at.0).with("now_ns", venue.now.0).with("closes_ns", closes.0);
            Note { text, ..note }
        }
        _ => note,
    }
}
