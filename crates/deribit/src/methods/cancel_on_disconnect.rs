//! Cancel on disconnect.
//!
//! Holds       1. it fires whenever a connection ends without a logout, for the orders of that
//!                connection only;
//!             2. each account on a connection decides for its own orders.

use crate::codec::RpcError;
use pitwire_model::{AccountId, SessionId};

use crate::call::{Call, MethodResult, Transport};
use crate::session::Session;
use crate::state::SharedState;

#[derive(Clone, Copy, PartialEq, Eq)]
enum CancelScope {
    Connection,
    /// The default for future connections of the account.
    Account,
}

fn scope(call: &Call<'_>) -> Result<CancelScope, RpcError> {
    // Orders are cancelled by connection number, so a connection needs one.
    if call.transport != Transport::WebSocket || call.session.id == SessionId::ZERO {
        return Err(RpcError::new("must_be_websocket", "this belongs to a connection"));
    }
    match call.params.text("scope")?.as_deref() {
        None | Some("" | "connection") => Ok(CancelScope::Connection),
        Some("account") => Ok(CancelScope::Account),
        Some(_) => Err(RpcError::invalid("scope", "scope is connection or account")),
    }
}

/// Enables or disables cancel on disconnect, for the connection or for the account.
///
/// # Errors
/// A refusal without a login, over HTTP, or if `scope` is neither `connection` nor `account`.
pub fn set(call: &mut Call<'_>, enabled: bool) -> MethodResult {
    let account = call.account()?;
    match scope(call)? {
        CancelScope::Connection => {
            call.session.on_disconnect.cancels.insert(account, enabled);
        }
        CancelScope::Account if enabled => {
            call.state.cancels_by_default.insert(account);
        }
        CancelScope::Account => {
            call.state.cancels_by_default.remove(&account);
        }
    }
    call.json().string("ok");
    Ok(())
}

/// Answers whether cancel on disconnect is enabled.
///
/// # Errors
/// A refusal without a login, over HTTP, or if `scope` is neither `connection` nor `account`.
pub fn get(call: &mut Call<'_>) -> MethodResult {
    let account = call.account()?;
    let (name, enabled) = match scope(call)? {
        CancelScope::Connection => ("connection", settled(call.state, call.session, account)),
        CancelScope::Account => ("account", call.state.cancels_by_default.contains(&account)),
    };
    call.json().object(|j| {
        j.key("scope").string(name).key("enabled").bool(enabled);
    });
    Ok(())
}

/// Whether this connection's orders of an account are cancelled when it ends. The first call adopts
/// the account's default.
pub fn settled(state: &SharedState, session: &mut Session, account: AccountId) -> bool {
    let default = state.cancels_by_default.contains(&account);
    session.id != SessionId::ZERO && *session.on_disconnect.cancels.entry(account).or_insert(default)
}
