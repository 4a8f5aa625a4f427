//! The trade tapes and account books of the projections.

use pitwire_model::{AccountId, CancelReason, InstrumentId, Lots, OrderId, SessionId, Ticks, TradeSeq, VenueNanos};
use pitwire_projections::{
    AccountBookImage, Candle, Liquidity, OrderRecord, OrderState, Place, PublicTrade, TapeImage, TickDirection,
    UserTrade, ViewsImage,
};

use super::fields::{put_all, put_option, take_all, take_option};
use super::{reports, sessions, signatures};
use crate::records::bytes::{DecodeError, Reader, Writer};
use crate::records::command::{
    put_marked_side, put_option_with, put_order_type, put_tif, take_code, take_label, take_marked_side,
    take_option_with, take_order_type, take_post_only, take_side, take_tif,
};

pub(super) fn put(w: &mut Writer<'_>, image: &ViewsImage) {
    put_all(w, &image.tapes, put_tape);
    put_all(w, &image.sessions, sessions::put);
    put_all(w, &image.accounts, put_book);
    reports::put(w, &image.reports, image.signatures.is_empty());
    signatures::put(w, &image.signatures);
}

pub(super) fn take(r: &mut Reader<'_>) -> Result<ViewsImage, DecodeError> {
    Ok(ViewsImage {
        tapes: take_all(r, 30, take_tape)?,
        sessions: take_all(r, sessions::SMALLEST, sessions::take)?,
        accounts: take_all(r, 16, take_book)?,
        reports: reports::take(r)?,
        signatures: signatures::take(r)?,
    })
}

fn put_tape(w: &mut Writer<'_>, tape: &TapeImage) {
    w.put_u8(tape.direction as u8);
    w.put_i64(tape.index.0);
    put_option(w, tape.mark.map(|mark| mark.0));
    put_all(w, &tape.trades, put_trade);
    put_all(w, &tape.parties, |w, (buyer, seller)| {
        w.put_u32(buyer.0);
        w.put_u32(seller.0);
    });
    put_all(w, &tape.candles, |w, candle| {
        w.put_u64(candle.start_ms);
        for price in [candle.open, candle.high, candle.low, candle.close] {
            w.put_i64(price.0);
        }
        w.put_u64(candle.lots);
        w.put_u128(candle.tick_lots);
        w.put_u128(candle.lots_per_tick);
    });
}

fn take_tape(r: &mut Reader<'_>) -> Result<TapeImage, DecodeError> {
    Ok(TapeImage {
        direction: take_direction(r)?,
        index: Ticks(r.take_i64()?),
        mark: take_option(r)?.map(Ticks),
        trades: take_all(r, 52, take_trade)?,
        parties: take_all(r, 8, |r| Ok((AccountId(r.take_u32()?), AccountId(r.take_u32()?))))?,
        candles: take_all(r, 80, |r| {
            Ok(Candle {
                start_ms: r.take_u64()?,
                open: Ticks(r.take_i64()?),
                high: Ticks(r.take_i64()?),
                low: Ticks(r.take_i64()?),
                close: Ticks(r.take_i64()?),
                lots: r.take_u64()?,
                tick_lots: r.take_u128()?,
                lots_per_tick: r.take_u128()?,
            })
        })?,
    })
}

fn take_direction(r: &mut Reader<'_>) -> Result<TickDirection, DecodeError> {
    take_code(r, "tick direction", |code| TickDirection::ALL.get(usize::from(code)).copied())
}

fn put_trade(w: &mut Writer<'_>, trade: &PublicTrade) {
    w.put_u64(trade.seq.0);
    w.put_i64(trade.price.0);
    w.put_u64(trade.lots.0);
    w.put_u8(trade.taker_side as u8);
    sessions::put_trade_kind(w, trade.kind);
    w.put_u64(trade.at.0);
    w.put_u8(trade.direction as u8);
    w.put_i64(trade.index.0);
    w.put_i64(trade.mark.0);
    w.put_bool(trade.busted);
}

fn take_trade(r: &mut Reader<'_>) -> Result<PublicTrade, DecodeError> {
    Ok(PublicTrade {
        seq: TradeSeq(r.take_u64()?),
        price: Ticks(r.take_i64()?),
        lots: Lots(r.take_u64()?),
        taker_side: take_side(r)?,
        kind: sessions::take_trade_kind(r)?,
        at: VenueNanos(r.take_u64()?),
        direction: take_direction(r)?,
        index: Ticks(r.take_i64()?),
        mark: Ticks(r.take_i64()?),
        busted: r.take_bool()?,
    })
}

fn put_book(w: &mut Writer<'_>, book: &AccountBookImage) {
    w.put_u32(book.account.0);
    put_all(w, &book.orders, put_order);
    put_all(w, &book.closed, |w, id| w.put_u64(id.0));
    put_all(w, &book.trades, put_fill);
}

fn take_book(r: &mut Reader<'_>) -> Result<AccountBookImage, DecodeError> {
    Ok(AccountBookImage {
        account: AccountId(r.take_u32()?),
        orders: take_all(r, 82, take_order)?,
        closed: take_all(r, 8, |r| r.take_u64().map(OrderId))?,
        trades: take_all(r, 72, take_fill)?,
    })
}

/// Writes 0 for no reason; reasons count from 1.
fn put_order(w: &mut Writer<'_>, order: &OrderRecord) {
    w.put_u64(order.id.0);
    w.put_u32(order.account.0);
    w.put_u32(order.instrument.0);
    put_marked_side(w, order.side, order.reduce_only);
    put_order_type(w, order.order_type);
    w.put_u8(order.place as u8);
    put_option_with(w, order.elected_at, |w, last| w.put_i64(last.0));
    w.put_u64(order.lots.0);
    w.put_u64(order.filled.0);
    w.put_u128(order.tick_lots);
    put_tif(w, order.tif);
    w.put_u8(order.state as u8);
    w.put_u8(order.cancel_reason.map_or(0, |reason| reason as u8 + 1));
    w.put_bool(order.replaced);
    w.put_u64(order.created.0);
    w.put_u64(order.updated.0);
    put_option_with(w, order.display, |w, display| w.put_u64(display.0));
    w.put_u8(order.post_only as u8);
    w.put_u32(order.session.0);
    w.put_text(order.label.as_str());
    w.put_text(order.client_order_id.as_str());
}

fn take_order(r: &mut Reader<'_>) -> Result<OrderRecord, DecodeError> {
    let (id, account, instrument) = (OrderId(r.take_u64()?), AccountId(r.take_u32()?), InstrumentId(r.take_u32()?));
    let (side, reduce_only) = take_marked_side(r)?;
    Ok(OrderRecord {
        id,
        account,
        instrument,
        side,
        reduce_only,
        order_type: take_order_type(r)?,
        place: take_code(r, "place", |code| Place::ALL.get(usize::from(code)).copied())?,
        elected_at: take_option_with(r, |r| r.take_i64().map(Ticks))?,
        lots: Lots(r.take_u64()?),
        filled: Lots(r.take_u64()?),
        tick_lots: r.take_u128()?,
        tif: take_tif(r)?,
        state: take_state(r)?,
        cancel_reason: take_code(r, "cancel reason", |code| match code {
            0 => Some(None),
            code => CancelReason::ALL.get(usize::from(code) - 1).copied().map(Some),
        })?,
        replaced: r.take_bool()?,
        created: VenueNanos(r.take_u64()?),
        updated: VenueNanos(r.take_u64()?),
        display: take_option_with(r, |r| r.take_u64().map(Lots))?,
        post_only: take_post_only(r)?,
        session: SessionId(r.take_u32()?),
        label: take_label(r)?,
        client_order_id: take_label(r)?,
    })
}

fn take_state(r: &mut Reader<'_>) -> Result<OrderState, DecodeError> {
    take_code(r, "order state", |code| match code {
        0 => Some(OrderState::Open),
        1 => Some(OrderState::Filled),
        2 => Some(OrderState::Cancelled),
        _ => None,
    })
}

fn put_fill(w: &mut Writer<'_>, fill: &UserTrade) {
    w.put_u32(fill.instrument.0);
    put_trade(w, &fill.trade);
    w.put_u64(fill.order.0);
    put_marked_side(w, fill.side, fill.reduce_only);
    w.put_u8(fill.liquidity as u8);
    w.put_bool(fill.is_market);
    w.put_u8(fill.state as u8);
    w.put_bool(fill.self_trade);
    w.put_bool(fill.busted);
    w.put_text(fill.label.as_str());
}

fn take_fill(r: &mut Reader<'_>) -> Result<UserTrade, DecodeError> {
    let (instrument, trade, order) = (InstrumentId(r.take_u32()?), take_trade(r)?, OrderId(r.take_u64()?));
    let (side, reduce_only) = take_marked_side(r)?;
    Ok(UserTrade {
        instrument,
        trade,
        order,
        side,
        reduce_only,
        liquidity: take_code(r, "liquidity", |code| match code {
            0 => Some(Liquidity::Maker),
            1 => Some(Liquidity::Taker),
            _ => None,
        })?,
        is_market: r.take_bool()?,
        state: take_state(r)?,
        self_trade: r.take_bool()?,
        busted: r.take_bool()?,
        label: take_label(r)?,
    })
}
