//! Login and liveness.

use pitwire_jsonrpc::RpcError;

use super::Done;
use crate::auth::TOKEN_LIFE_S;
use crate::desk::{Call, Effect, Entrance};

/// The dialect's version, as its clients expect to read it.
const VERSION: &str = "1.2.26";

pub fn auth(call: &mut Call<'_>) -> Done {
    // Read before anything is granted: a call that fails must leave nothing behind.
    let asked = call.params.text("scope")?.unwrap_or_default();
    let session = asked.split_whitespace().find(|scope| scope.starts_with("session:")).unwrap_or("connection");
    let keys = &mut call.desk.keys;
    let number = match call.entrance {
        Entrance::WebSocket => Some(*call.session.number.get_or_insert_with(|| keys.tokens.number_session())),
        Entrance::Http => None,
    };
    let grant = keys.grant(call.params, number, call.wall_ms)?;
    call.session.log_in(grant.login);
    let operator = if grant.login.operator { " operator:read_write" } else { "" };
    let scope = format!("{session} account:read_write trade:read_write wallet:read{operator}");
    call.json().object(|j| {
        j.key("access_token").string(&grant.access);
        j.key("refresh_token").string(&grant.refresh);
        j.key("expires_in").uint(TOKEN_LIFE_S);
        j.key("scope").string(&scope);
        j.key("token_type").string("bearer");
        j.key("enabled_features").array(|_| {});
    });
    Ok(())
}

pub fn test(call: &mut Call<'_>) -> Done {
    if call.params.text("expected_result")?.as_deref() == Some("exception") {
        return Err(RpcError::new("internal_error", "the exception that was asked for"));
    }
    version(call)
}

pub fn version(call: &mut Call<'_>) -> Done {
    call.json().object(|j| {
        j.key("version").string(VERSION);
    });
    Ok(())
}

pub fn get_time(call: &mut Call<'_>) -> Done {
    let now = call.wall_ms;
    call.json().uint(now);
    Ok(())
}

/// Moves the time of a venue whose clock is manual; what is due on the way happens before the answer.
pub fn advance(call: &mut Call<'_>) -> Done {
    /// An hour: a request must not hold the others for long.
    const MOST_NS: i64 = 3_600_000_000_000;
    let ns = call.params.integer("ns")?.ok_or_else(|| RpcError::invalid("ns", "ns is required, in nanoseconds"))?;
    let ns = u64::try_from(ns).ok().filter(|_| ns <= MOST_NS);
    let ns = ns.ok_or_else(|| RpcError::invalid("ns", format!("0 to {MOST_NS}; advance in steps")))?;
    match call.venue.advance(ns) {
        None => Err(RpcError::named("time_moves_by_itself")),
        Some(Err(error)) => {
            call.log_failed = true;
            Err(RpcError::new("internal_error", error.to_string()))
        }
        Some(Ok(now)) => {
            let standing = call.venue.standing();
            call.json().object(|j| {
                // As text: nanoseconds since 1970 are more than a double holds.
                j.key("venue_time_ns").string(&now.to_string());
                j.key("sequence").uint(standing.last.0);
                j.key("tape_hash").string(&hex(&standing.tape_hash));
            });
            Ok(())
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn status(call: &mut Call<'_>) -> Done {
    let locked = if call.venue.takes_orders() { "false" } else { "true" };
    call.json().object(|j| {
        j.key("locked").string(locked).key("locked_indices").array(|_| {});
    });
    Ok(())
}

/// Takes the connection's tokens back unless `invalidate_token` says not to, and closes it.
pub fn logout(call: &mut Call<'_>) -> Done {
    if call.entrance != Entrance::WebSocket {
        return Err(RpcError::new("must_be_websocket", "only a connection can be logged out"));
    }
    let invalidate = call.params.boolean("invalidate_token")?.unwrap_or(true);
    if let Some(number) = call.session.number.filter(|_| invalidate) {
        call.desk.keys.tokens.forget_session(number);
    }
    call.session.log_out();
    call.effects.push(Effect::Close);
    call.json().string("ok");
    Ok(())
}
