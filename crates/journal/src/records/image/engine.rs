//! Instruments, books and accounts: the complete state of the engine.

use std::collections::BTreeMap;

use pitwire_engine::{
    AccountImage, AccountStatus, Balance, EngineImage, MarketImage, OrderImage, Position, Reporting, UndisplayedState,
};
use pitwire_model::{
    AccountId, CurrencyId, Epoch, FlowSetting, InstrumentId, MatchGroup, OrderId, Phase, SelfMatch, Seq, SessionId,
    Ticks, TradeSeq, VenueDay, VenueNanos,
};

use super::fields::{put_all, put_option, take_all, take_option};
use super::session::{put_session, take_session};
use crate::records::bytes::{DecodeError, Reader, Writer};
use crate::records::command::{
    put_account, put_currency, put_instrument, put_option_with, put_order_type, put_report, put_rules, put_tif,
    take_account, take_code, take_currency, take_instrument, take_option_with, take_order_type, take_report,
    take_rules, take_side, take_tif,
};

pub(super) fn put(w: &mut Writer<'_>, image: &EngineImage) {
    w.put_u64(image.epoch.0);
    w.put_bool(image.flow.running);
    w.put_u32(image.flow.rate_percent);
    w.put_u32(image.last_session.0);
    w.put_bool(image.venue_killed);
    put_all(w, &image.killed_sessions, |w, session| w.put_u32(session.0));
    w.put_u32(image.day.0);
    w.put_u64(image.closes.0);
    put_all(w, &image.currencies, put_currency);
    put_all(w, &image.markets, put_market);
    put_all(w, &image.accounts, put_holder);
}

pub(super) fn take(r: &mut Reader<'_>) -> Result<EngineImage, DecodeError> {
    Ok(EngineImage {
        epoch: Epoch(r.take_u64()?),
        flow: FlowSetting { running: r.take_bool()?, rate_percent: r.take_u32()? },
        last_session: SessionId(r.take_u32()?),
        venue_killed: r.take_bool()?,
        killed_sessions: take_all(r, 4, |r| r.take_u32().map(SessionId))?,
        day: VenueDay(r.take_u32()?),
        closes: VenueNanos(r.take_u64()?),
        currencies: take_all(r, 7, take_currency)?,
        markets: take_all(r, 60, take_market)?,
        accounts: take_all(r, 15, take_holder)?,
    })
}

fn put_market(w: &mut Writer<'_>, market: &MarketImage) {
    put_instrument(w, &market.spec);
    put_option_with(w, market.spec.rules.as_deref(), put_rules);
    let reports = market.reporting != Reporting::default();
    w.put_u8(market.phase as u8 | if reports { REPORTS } else { 0 });
    w.put_u64(market.change_id);
    w.put_u64(market.trades.0);
    put_option(w, market.last.map(|last| last.0));
    w.put_i64(market.index.0);
    w.put_i64(market.mark.0);
    put_all(w, &market.busted, |w, trade| w.put_u64(trade.0));
    put_session(w, &market.session);
    put_all(w, &market.orders, put_order);
    if reports {
        put_reporting(w, &market.reporting);
    }
}

fn take_market(r: &mut Reader<'_>) -> Result<MarketImage, DecodeError> {
    let mut spec = take_instrument(r)?;
    spec.rules = take_option_with(r, |r| take_rules(r).map(Box::new))?;
    let (phase, reports) = take_code(r, "phase", |code| {
        let phase = Phase::ALL.into_iter().find(|phase| *phase as u8 == code & !REPORTS)?;
        Some((phase, code & REPORTS != 0))
    })?;
    Ok(MarketImage {
        spec,
        phase,
        change_id: r.take_u64()?,
        trades: TradeSeq(r.take_u64()?),
        last: take_option(r)?.map(Ticks),
        index: Ticks(r.take_i64()?),
        mark: Ticks(r.take_i64()?),
        busted: take_all(r, 8, |r| r.take_u64().map(TradeSeq))?,
        session: take_session(r)?,
        orders: take_all(r, SMALLEST_ORDER, take_order)?,
        reporting: if reports { take_reporting(r)? } else { Reporting::default() },
    })
}

/// Flag beside the phase: the state of trade reporting follows at the end of the market. Images of
/// instruments without reporting keep their older bytes.
const REPORTS: u8 = 0x80;

fn put_reporting(w: &mut Writer<'_>, reporting: &Reporting) {
    w.put_bool(reporting.open);
    put_option_with(w, reporting.ends, |w, ends| w.put_u64(ends.0));
    w.put_u64(reporting.trades);
    w.put_count(reporting.waiting.len());
    for (number, report) in &reporting.waiting {
        w.put_u64(number.0);
        put_report(w, report);
    }
}

fn take_reporting(r: &mut Reader<'_>) -> Result<Reporting, DecodeError> {
    let at = r.position();
    let mut reporting = Reporting {
        open: r.take_bool()?,
        ends: take_option_with(r, |r| r.take_u64().map(VenueNanos))?,
        trades: r.take_u64()?,
        waiting: BTreeMap::new(),
    };
    for _ in 0..r.take_count(SMALLEST_REPORT)? {
        let at = r.position();
        let number = Seq(r.take_u64()?);
        if reporting.waiting.last_key_value().is_some_and(|(last, _)| *last >= number) {
            return Err(DecodeError::BadValue { what: "order of reports", at });
        }
        reporting.waiting.insert(number, take_report(r)?);
    }
    // Each state has one encoding: an empty one is not written.
    if reporting == Reporting::default() {
        return Err(DecodeError::BadValue { what: "trade reporting of nothing", at });
    }
    Ok(reporting)
}

/// With its number, and without a label.
const SMALLEST_REPORT: usize = 39;

/// Flags of an order. Images of older releases contain only the first one.
const CANCEL_ON_DISCONNECT: u8 = 1;
const REDUCE_ONLY: u8 = 2;

/// A day order without a price that is not in the book.
const SMALLEST_ORDER: usize = 55;

fn put_order(w: &mut Writer<'_>, order: &OrderImage) {
    w.put_u64(order.id.0);
    w.put_u32(order.account.0);
    w.put_u8(order.side as u8);
    put_option_with(w, order.place, |w, place| w.put_u8(place as u8));
    put_order_type(w, order.order_type);
    put_tif(w, order.tif);
    w.put_u32(order.entered.0);
    w.put_u32(order.open);
    w.put_u32(order.ordered);
    w.put_u32(order.shown);
    w.put_u32(order.display);
    w.put_i64(order.bound.0);
    w.put_u32(order.rank);
    put_option_with(w, order.mode, |w, mode| w.put_u8(mode as u8));
    w.put_u32(order.session.0);
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    w.put_u8(flag(order.cancel_on_disconnect, CANCEL_ON_DISCONNECT) | flag(order.reduce_only, REDUCE_ONLY));
    put_group(w, order.group);
}

fn take_order(r: &mut Reader<'_>) -> Result<OrderImage, DecodeError> {
    let mut order = OrderImage {
        id: OrderId(r.take_u64()?),
        account: AccountId(r.take_u32()?),
        side: take_side(r)?,
        place: take_option_with(r, take_place)?,
        order_type: take_order_type(r)?,
        tif: take_tif(r)?,
        entered: VenueDay(r.take_u32()?),
        open: r.take_u32()?,
        ordered: r.take_u32()?,
        shown: r.take_u32()?,
        display: r.take_u32()?,
        bound: Ticks(r.take_i64()?),
        rank: r.take_u32()?,
        mode: take_option_with(r, take_mode)?,
        session: SessionId(r.take_u32()?),
        cancel_on_disconnect: false,
        reduce_only: false,
        group: MatchGroup::Account,
    };
    let at = r.position();
    let flags = r.take_u8()?;
    if flags & !(CANCEL_ON_DISCONNECT | REDUCE_ONLY) != 0 {
        return Err(DecodeError::BadValue { what: "flags of an order", at });
    }
    order.cancel_on_disconnect = flags & CANCEL_ON_DISCONNECT != 0;
    order.reduce_only = flags & REDUCE_ONLY != 0;
    order.group = take_group(r)?;
    Ok(order)
}

fn take_place(r: &mut Reader<'_>) -> Result<UndisplayedState, DecodeError> {
    take_code(r, "place", |code| UndisplayedState::ALL.into_iter().find(|place| *place as u8 == code))
}

fn take_mode(r: &mut Reader<'_>) -> Result<SelfMatch, DecodeError> {
    take_code(r, "self-match mode", |code| SelfMatch::ALL.into_iter().find(|mode| *mode as u8 == code))
}

fn put_group(w: &mut Writer<'_>, group: MatchGroup) {
    match group {
        MatchGroup::Account => w.put_u8(0),
        MatchGroup::Order => w.put_u8(1),
        MatchGroup::Key(key) => {
            w.put_u8(2);
            w.put_u32(key);
        }
    }
}

fn take_group(r: &mut Reader<'_>) -> Result<MatchGroup, DecodeError> {
    let at = r.position();
    Ok(match r.take_u8()? {
        0 => MatchGroup::Account,
        1 => MatchGroup::Order,
        2 => MatchGroup::Key(r.take_u32()?),
        tag => return Err(DecodeError::UnknownTag { what: "match group", tag: u32::from(tag), at }),
    })
}

fn put_holder(w: &mut Writer<'_>, holder: &AccountImage) {
    put_account(w, &holder.spec);
    put_all(w, &holder.balances, |w, balance| {
        w.put_i128(balance.total);
        w.put_i128(balance.reserved);
    });
    put_all(w, &holder.positions, |w, (instrument, position)| {
        w.put_u32(instrument.0);
        w.put_i64(position.lots);
        w.put_i128(position.entry_value);
        w.put_i128(position.realized);
        w.put_u64(position.open_buy_lots);
        w.put_u64(position.open_sell_lots);
    });
    put_standing(w, &holder.standing);
}

fn take_holder(r: &mut Reader<'_>) -> Result<AccountImage, DecodeError> {
    Ok(AccountImage {
        spec: take_account(r)?,
        balances: take_all(r, 32, |r| Ok(Balance { total: r.take_i128()?, reserved: r.take_i128()? }))?,
        positions: take_all(r, 60, |r| {
            let instrument = InstrumentId(r.take_u32()?);
            let position = Position {
                lots: r.take_i64()?,
                entry_value: r.take_i128()?,
                realized: r.take_i128()?,
                open_buy_lots: r.take_u64()?,
                open_sell_lots: r.take_u64()?,
            };
            Ok((instrument, position))
        })?,
        standing: take_standing(r)?,
    })
}

fn put_standing(w: &mut Writer<'_>, standing: &AccountStatus) {
    w.put_bool(standing.closed);
    w.put_bool(standing.killed);
    w.put_bool(standing.throttled);
    w.put_u64(standing.window);
    w.put_u32(standing.executions);
    w.put_count(standing.credit_lines.len());
    for (currency, units) in &standing.credit_lines {
        w.put_u32(currency.0);
        w.put_i128(*units);
    }
}

fn take_standing(r: &mut Reader<'_>) -> Result<AccountStatus, DecodeError> {
    let mut standing = AccountStatus {
        closed: r.take_bool()?,
        killed: r.take_bool()?,
        throttled: r.take_bool()?,
        window: r.take_u64()?,
        executions: r.take_u32()?,
        credit_lines: BTreeMap::new(),
    };
    for _ in 0..r.take_count(20)? {
        let at = r.position();
        let (currency, units) = (CurrencyId(r.take_u32()?), r.take_i128()?);
        // Each state has one encoding: ascending, without repetition.
        if standing.credit_lines.last_key_value().is_some_and(|(last, _)| *last >= currency) {
            return Err(DecodeError::BadValue { what: "order of credit lines", at });
        }
        standing.credit_lines.insert(currency, units);
    }
    Ok(standing)
}
