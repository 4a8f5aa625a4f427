//! Cancel on disconnect: what a connection's orders are worth without it.
//!
//! Holds       1. it fires on every end of a connection but a logout, for the orders of that connection alone;
//!             2. each account on a connection decides for its own orders.

use crate::codec::RpcError;
use pitwire_model::{AccountId, SessionId};

use crate::call::{Call, MethodResult, Transport};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Connection,
    /// How future connections of the account begin.
    Account,
}

fn scope(call: &Call<'_>) -> Result<Scope, RpcError> {
    // A connection without a number has no orders of its own to cancel.
    if call.transport != Transport::WebSocket || call.session.id == SessionId::ZERO {
        return Err(RpcError::new("must_be_websocket", "this belongs to a connection"));
    }
    match call.params.text("scope")?.as_deref() {
        None | Some("" | "connection") => Ok(Scope::Connection),
        Some("account") => Ok(Scope::Account),
        Some(_) => Err(RpcError::invalid("scope", "scope is connection or account")),
    }
}

pub fn set(call: &mut Call<'_>, enabled: bool) -> MethodResult {
    let account = call.account()?;
    match scope(call)? {
        Scope::Connection => {
            call.session.on_disconnect.cancels.insert(account, enabled);
        }
        Scope::Account if enabled => {
            call.state.cancels_by_default.insert(account);
        }
        Scope::Account => {
            call.state.cancels_by_default.remove(&account);
        }
    }
    call.json().string("ok");
    Ok(())
}

pub fn get(call: &mut Call<'_>) -> MethodResult {
    let account = call.account()?;
    let (name, enabled) = match scope(call)? {
        Scope::Connection => ("connection", settled(call, account)),
        Scope::Account => ("account", call.state.cancels_by_default.contains(&account)),
    };
    call.json().object(|j| {
        j.key("scope").string(name).key("enabled").bool(enabled);
    });
    Ok(())
}

/// Whether this connection's orders of an account go with it. The account's default is taken over here, once.
pub fn settled(call: &mut Call<'_>, account: AccountId) -> bool {
    let default = call.state.cancels_by_default.contains(&account);
    call.session.id != SessionId::ZERO && *call.session.on_disconnect.cancels.entry(account).or_insert(default)
}
