//! Instruments, books, accounts: everything the engine needs to go on.

use pitwire_engine::{AccountImage, Balance, EngineImage, MarketImage, OrderImage, Position};
use pitwire_model::{AccountId, Epoch, InstrumentId, OrderId, Ticks, TradeSeq};

use super::{put_all, put_option, take_all, take_option};
use crate::bytes::{DecodeError, Reader, Writer};
use crate::command::{
    put_account, put_currency, put_instrument, take_account, take_currency, take_instrument, take_phase, take_side,
};

pub(super) fn put(w: &mut Writer<'_>, image: &EngineImage) {
    w.put_u64(image.epoch.0);
    put_all(w, &image.currencies, put_currency);
    put_all(w, &image.markets, put_market);
    put_all(w, &image.accounts, put_holder);
}

pub(super) fn take(r: &mut Reader<'_>) -> Result<EngineImage, DecodeError> {
    Ok(EngineImage {
        epoch: Epoch(r.take_u64()?),
        currencies: take_all(r, 7, take_currency)?,
        markets: take_all(r, 60, take_market)?,
        accounts: take_all(r, 15, take_holder)?,
    })
}

fn put_market(w: &mut Writer<'_>, market: &MarketImage) {
    put_instrument(w, &market.spec);
    w.put_u8(market.phase as u8);
    w.put_u64(market.change_id);
    w.put_u64(market.trades.0);
    put_option(w, market.last.map(|last| last.0));
    w.put_i64(market.index.0);
    w.put_i64(market.mark.0);
    put_all(w, &market.orders, put_order);
}

fn take_market(r: &mut Reader<'_>) -> Result<MarketImage, DecodeError> {
    Ok(MarketImage {
        spec: take_instrument(r)?,
        phase: take_phase(r)?,
        change_id: r.take_u64()?,
        trades: TradeSeq(r.take_u64()?),
        last: take_option(r)?.map(Ticks),
        index: Ticks(r.take_i64()?),
        mark: Ticks(r.take_i64()?),
        orders: take_all(r, 30, take_order)?,
    })
}

fn put_order(w: &mut Writer<'_>, order: &OrderImage) {
    w.put_u64(order.id.0);
    w.put_u32(order.account.0);
    w.put_u8(order.side as u8);
    w.put_bool(order.day);
    w.put_i64(order.price.0);
    w.put_u32(order.open);
    w.put_u32(order.ordered);
}

fn take_order(r: &mut Reader<'_>) -> Result<OrderImage, DecodeError> {
    Ok(OrderImage {
        id: OrderId(r.take_u64()?),
        account: AccountId(r.take_u32()?),
        side: take_side(r)?,
        day: r.take_bool()?,
        price: Ticks(r.take_i64()?),
        open: r.take_u32()?,
        ordered: r.take_u32()?,
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
    })
}
