//! Bodies of commands by members: entering and amending. The layout is at the head of the parent
//! module.

use pitwire_model::{
    AccountId, Amend, Expiry, InstrumentId, Label, Lots, MatchGroup, NewOrder, OrderId, OrderType, PostOnly, Priority,
    SessionId, Ticks, TimeInForce, VenueDay, VenueNanos,
};

use super::fields::{
    put_marked_side, put_option_with, take_code, take_label, take_marked_side, take_option_with, take_self_match,
};
use crate::records::bytes::{DecodeError, Reader, Writer};

const REPRICE: u8 = 1;
const REJECT: u8 = 2;
const DISPLAY: u8 = 4;
const SELF_MATCH: u8 = 8;
const OWN_GROUP: u8 = 16;
const GROUP_KEY: u8 = 32;
const WITH_SESSION: u8 = 64;
const CLIENT_ORDER_ID: u8 = 128;

pub(super) fn put_order(w: &mut Writer<'_>, order: &NewOrder) {
    w.put_u64(order.id.0);
    w.put_u32(order.account.0);
    w.put_u32(order.instrument.0);
    put_marked_side(w, order.side, order.reduce_only);
    put_order_type(w, order.order_type);
    w.put_u64(order.lots.0);
    put_tif(w, order.tif);
    w.put_u32(order.session.0);
    w.put_text(order.label.as_str());
    put_terms(w, order);
}

/// Writes the optional terms. They cost bytes only in orders that have them.
fn put_terms(w: &mut Writer<'_>, order: &NewOrder) {
    w.put_u8(terms_of(order));
    if let Some(display) = order.display {
        w.put_u64(display.0);
    }
    if let Some(self_match) = order.self_match {
        w.put_u8(self_match as u8);
    }
    if let MatchGroup::Key(key) = order.match_group {
        w.put_u32(key);
    }
    if !order.client_order_id.as_str().is_empty() {
        w.put_text(order.client_order_id.as_str());
    }
}

fn terms_of(order: &NewOrder) -> u8 {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    flag(order.post_only == PostOnly::Reprice, REPRICE)
        | flag(order.post_only == PostOnly::Reject, REJECT)
        | flag(order.display.is_some(), DISPLAY)
        | flag(order.self_match.is_some(), SELF_MATCH)
        | flag(order.match_group == MatchGroup::Order, OWN_GROUP)
        | flag(matches!(order.match_group, MatchGroup::Key(_)), GROUP_KEY)
        | flag(order.cancel_on_disconnect, WITH_SESSION)
        | flag(!order.client_order_id.as_str().is_empty(), CLIENT_ORDER_ID)
}

pub(super) fn take_order(r: &mut Reader<'_>) -> Result<NewOrder, DecodeError> {
    let (id, account, instrument) = (OrderId(r.take_u64()?), AccountId(r.take_u32()?), InstrumentId(r.take_u32()?));
    let (side, reduce_only) = take_marked_side(r)?;
    let mut order = NewOrder {
        id,
        account,
        instrument,
        side,
        reduce_only,
        order_type: take_order_type(r)?,
        lots: Lots(r.take_u64()?),
        tif: take_tif(r)?,
        display: None,
        post_only: PostOnly::No,
        self_match: None,
        match_group: MatchGroup::Account,
        session: SessionId(r.take_u32()?),
        cancel_on_disconnect: false,
        label: take_label(r)?,
        client_order_id: Label::default(),
    };
    take_terms(r, &mut order)?;
    Ok(order)
}

fn take_terms(r: &mut Reader<'_>, order: &mut NewOrder) -> Result<(), DecodeError> {
    let at = r.position();
    let terms = r.take_u8()?;
    let has = |bit: u8| terms & bit != 0;
    order.post_only = match (has(REPRICE), has(REJECT)) {
        (false, false) => PostOnly::No,
        (true, false) => PostOnly::Reprice,
        (false, true) => PostOnly::Reject,
        (true, true) => return Err(DecodeError::BadValue { what: "post-only", at }),
    };
    if has(DISPLAY) {
        order.display = Some(Lots(r.take_u64()?));
    }
    if has(SELF_MATCH) {
        order.self_match = Some(take_self_match(r)?);
    }
    order.match_group = match (has(OWN_GROUP), has(GROUP_KEY)) {
        (false, false) => MatchGroup::Account,
        (true, false) => MatchGroup::Order,
        (false, true) => MatchGroup::Key(r.take_u32()?),
        (true, true) => return Err(DecodeError::BadValue { what: "match group", at }),
    };
    order.cancel_on_disconnect = has(WITH_SESSION);
    if has(CLIENT_ORDER_ID) {
        order.client_order_id = take_label(r)?;
    }
    Ok(())
}

pub(super) fn put_amend(w: &mut Writer<'_>, amend: &Amend) {
    w.put_u32(amend.account.0);
    w.put_u64(amend.order.0);
    w.put_i64(amend.price.0);
    w.put_u64(amend.lots.0);
    w.put_u8(amend.priority as u8);
    w.put_u8(amend.post_only as u8);
    put_option_with(w, amend.display, |w, display| w.put_u64(display.0));
    if has_terms(amend) {
        put_option_with(w, amend.stop, |w, stop| w.put_i64(stop.0));
        put_option_with(w, amend.minimum_execution, |w, lots| w.put_u64(lots.0));
        put_option_with(w, amend.expiry, put_expiry);
    }
}

pub(super) fn take_amend(r: &mut Reader<'_>) -> Result<Amend, DecodeError> {
    Ok(Amend {
        account: AccountId(r.take_u32()?),
        order: OrderId(r.take_u64()?),
        price: Ticks(r.take_i64()?),
        lots: Lots(r.take_u64()?),
        priority: take_code(r, "priority", |code| match code {
            0 => Some(Priority::KeepWhenReduced),
            1 => Some(Priority::AlwaysLose),
            _ => None,
        })?,
        post_only: take_post_only(r)?,
        display: take_option_with(r, |r| r.take_u64().map(Lots))?,
        ..Amend::PLAIN
    })
}

/// Whether the amend needs the longer record.
pub(super) fn has_terms(amend: &Amend) -> bool {
    amend.stop.is_some() || amend.minimum_execution.is_some() || amend.expiry.is_some()
}

pub(super) fn take_amend_with_terms(r: &mut Reader<'_>) -> Result<Amend, DecodeError> {
    let plain = take_amend(r)?;
    let at = r.position();
    let amend = Amend {
        stop: take_option_with(r, |r| r.take_i64().map(Ticks))?,
        minimum_execution: take_option_with(r, |r| r.take_u64().map(Lots))?,
        expiry: take_option_with(r, take_expiry)?,
        ..plain
    };
    // Each command has one encoding.
    if has_terms(&amend) { Ok(amend) } else { Err(DecodeError::BadValue { what: "amend without terms", at }) }
}

pub fn put_expiry(w: &mut Writer<'_>, expiry: Expiry) {
    match expiry {
        Expiry::Day(day) => {
            w.put_u8(0);
            w.put_u32(day.0);
        }
        Expiry::Time(at) => {
            w.put_u8(1);
            w.put_u64(at.0);
        }
    }
}

/// Reads the expiry of an order.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_expiry(r: &mut Reader<'_>) -> Result<Expiry, DecodeError> {
    let at = r.position();
    match r.take_u8()? {
        0 => r.take_u32().map(|day| Expiry::Day(VenueDay(day))),
        1 => r.take_u64().map(|time| Expiry::Time(VenueNanos(time))),
        tag => Err(DecodeError::UnknownTag { what: "expiry", tag: u32::from(tag), at }),
    }
}

pub fn put_order_type(w: &mut Writer<'_>, order_type: OrderType) {
    match order_type {
        OrderType::Limit { price } => {
            w.put_u8(0);
            w.put_i64(price.0);
        }
        OrderType::Market => w.put_u8(1),
        OrderType::Hidden { price, minimum_execution } => {
            w.put_u8(2);
            w.put_i64(price.0);
            w.put_u64(minimum_execution.0);
        }
        OrderType::Stop { stop } => {
            w.put_u8(3);
            w.put_i64(stop.0);
        }
        OrderType::StopLimit { stop, price } => {
            w.put_u8(4);
            w.put_i64(stop.0);
            w.put_i64(price.0);
        }
    }
}

/// Reads an order type with its prices.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_order_type(r: &mut Reader<'_>) -> Result<OrderType, DecodeError> {
    let at = r.position();
    match r.take_u8()? {
        0 => Ok(OrderType::Limit { price: Ticks(r.take_i64()?) }),
        1 => Ok(OrderType::Market),
        2 => Ok(OrderType::Hidden { price: Ticks(r.take_i64()?), minimum_execution: Lots(r.take_u64()?) }),
        3 => Ok(OrderType::Stop { stop: Ticks(r.take_i64()?) }),
        4 => Ok(OrderType::StopLimit { stop: Ticks(r.take_i64()?), price: Ticks(r.take_i64()?) }),
        tag => Err(DecodeError::UnknownTag { what: "order type", tag: u32::from(tag), at }),
    }
}

pub fn put_tif(w: &mut Writer<'_>, tif: TimeInForce) {
    w.put_u8(tif.code());
    match tif {
        TimeInForce::GoodTillDate { day } => w.put_u32(day.0),
        TimeInForce::GoodTillTime { at } => w.put_u64(at.0),
        _ => {}
    }
}

/// Reads a time in force.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_tif(r: &mut Reader<'_>) -> Result<TimeInForce, DecodeError> {
    let at = r.position();
    Ok(match r.take_u8()? {
        0 => TimeInForce::Day,
        1 => TimeInForce::GoodTillCancel,
        2 => TimeInForce::ImmediateOrCancel,
        3 => TimeInForce::FillOrKill,
        4 => TimeInForce::GoodTillDate { day: VenueDay(r.take_u32()?) },
        5 => TimeInForce::GoodTillTime { at: VenueNanos(r.take_u64()?) },
        6 => TimeInForce::OpeningCall,
        7 => TimeInForce::AnyCall,
        8 => TimeInForce::IntradayCall,
        9 => TimeInForce::ClosingCall,
        10 => TimeInForce::ClosingCross,
        tag => return Err(DecodeError::UnknownTag { what: "time in force", tag: u32::from(tag), at }),
    })
}

/// Reads the post-only term of an order.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_post_only(r: &mut Reader<'_>) -> Result<PostOnly, DecodeError> {
    take_code(r, "post-only", |code| match code {
        0 => Some(PostOnly::No),
        1 => Some(PostOnly::Reprice),
        2 => Some(PostOnly::Reject),
        _ => None,
    })
}
