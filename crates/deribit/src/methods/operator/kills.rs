//! Kills, lifts and busts.

use crate::codec::{Json, RpcError, objects};
use pitwire_model::{Bust, Command, Event, KillScope, SessionId, Side};

use super::super::trading::order_id;
use crate::call::{Call, MethodResult};

/// Lists live orders with their owners and sessions, oldest first, of one account or of all. At
/// most `count`, default 100.
///
/// # Errors
/// A refusal if the account is unknown or `count` is out of range.
pub fn orders(call: &mut Call<'_>) -> MethodResult {
    let only = if call.params.has("name") { Some(call.named_account()?) } else { None };
    let count = call.count(100)?;
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    let accounts = engine.accounts().iter().map(|account| account.spec.id);
    let mut found: Vec<_> =
        accounts.filter(|id| only.is_none_or(|only| only == *id)).flat_map(|id| engine.orders_of(id)).collect();
    found.sort_unstable_by_key(|order| order.id);
    Json::new(out).array(|j| {
        for order in found.into_iter().take(count) {
            let Some(market) = engine.market(order.instrument) else { continue };
            j.object(|j| {
                j.key("order_id").string(&order.id.to_string());
                j.key("name").string(engine.account(order.account).map_or("", |holder| &holder.spec.name));
                j.key("session").uint(u64::from(order.session.0));
                j.key("instrument_name").string(&market.spec.name);
                j.key("direction").string(if order.side == Side::Buy { "buy" } else { "sell" });
                j.key("price").decimal(market.spec.price(order.price));
                j.key("amount").decimal(market.spec.amount(order.open));
            });
        }
    });
    Ok(())
}

fn scope(call: &Call<'_>) -> Result<KillScope, RpcError> {
    Ok(match call.params.required("scope")?.as_ref() {
        "venue" => KillScope::Venue,
        "account" => KillScope::Account(call.named_account()?),
        "session" => {
            let session = call.params.integer("session")?.and_then(|session| u32::try_from(session).ok());
            let session = session.filter(|session| *session > 0);
            KillScope::Session(SessionId(session.ok_or_else(|| {
                RpcError::invalid("session", "a session number from pitwire_get_orders; 0 belongs to no connection")
            })?))
        }
        "order" => KillScope::Order(order_id(call)?),
        _ => return Err(RpcError::invalid("scope", "scope is venue, account, session or order")),
    })
}

/// Blocks an account, a session or the venue, and cancels its orders.
///
/// # Errors
/// A refusal if the scope or the reason is missing or wrong, or if an operator names its own
/// account.
pub fn kill(call: &mut Call<'_>) -> MethodResult {
    let (scope, reason) = (scope(call)?, call.reason()?);
    let account = if let KillScope::Account(account) = scope { Some(account) } else { None };
    if account.is_some() && account == call.account().ok() {
        return Err(RpcError::invalid("name", "an operator cannot kill the account it is logged in with"));
    }
    call.command(Command::Kill { scope, reason })?;
    let cancelled = call.venue.events().iter().find_map(|event| match event {
        Event::Killed { cancelled, .. } => Some(*cancelled),
        _ => None,
    });
    if let Some(account) = account {
        call.state.keys.end_account(account);
    }
    call.json().object(|j| {
        j.key("cancelled").uint(u64::from(cancelled.unwrap_or(0)));
    });
    Ok(())
}

/// Lifts a kill.
///
/// # Errors
/// A refusal if the scope is missing, wrong or an order.
pub fn lift(call: &mut Call<'_>) -> MethodResult {
    let scope = scope(call)?;
    call.command(Command::Lift { scope })?;
    call.done()
}

/// Busts a trade that is still on the tape.
///
/// # Errors
/// A refusal if the reason is missing, `unknown_trade` if the trade is not on the tape, and the
/// reason of the engine if the bust is impossible.
pub fn bust(call: &mut Call<'_>) -> MethodResult {
    let reason = call.reason()?;
    let text = call.params.required("trade_id")?;
    let unknown = || RpcError::param("unknown_trade", "trade_id", format!("no trade {:?} on the tape", clip(&text)));
    let (instrument, trade_seq) = objects::parse_trade_id(&text).ok_or_else(unknown)?;
    let tape = call.venue.views().tape(instrument).ok_or_else(unknown)?;
    let trade = tape.trade(trade_seq).ok_or_else(unknown)?;
    let (price, lots) = (trade.price, trade.lots);
    let (buyer, seller) = tape.parties(trade_seq).ok_or_else(unknown)?;
    call.command(Command::BustTrade(Box::new(Bust { instrument, trade_seq, price, lots, buyer, seller, reason })))?;
    call.done()
}

fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}
