//! Login, heartbeats and status.

use crate::codec::{Heartbeat, RpcError};
use pitwire_model::{Command, KillScope};

use super::cancel_on_disconnect;
use crate::auth::Origin;
use crate::call::{Call, Effect, MethodResult, Transport};
use crate::login::check_account;

/// Version of the dialect that clients expect.
pub const VERSION: &str = "1.2.26";

/// Logs in and answers with the tokens.
///
/// # Errors
/// A refusal if the grant is malformed, its secret, signature or token is wrong, its account is
/// closed, or failed logins have slowed it down.
pub fn auth(call: &mut Call<'_>) -> MethodResult {
    let keys = &mut call.state.keys;
    let connection = match call.transport {
        Transport::WebSocket => Some(*call.session.number.get_or_insert_with(|| keys.tokens.number_session())),
        Transport::Http => None,
    };
    let origin = Origin { connection, address: call.session.address };
    let engine = call.venue.engine();
    let known = call.venue.views().signatures();
    let grant = keys.grant(call.params, origin, call.clock, known, |account| check_account(engine, account))?;
    if let Some(spent) = grant.spent {
        call.submit(Command::SpendSignature(spent))?;
    }
    call.session.remember_grant(grant.session);
    call.session.log_in(grant.login);
    cancel_on_disconnect::settled(call.state, call.session, grant.login.account);
    call.json().object(|j| {
        j.key("access_token").string(&grant.access);
        j.key("refresh_token").string(&grant.refresh);
        j.key("expires_in").uint(grant.expires_s);
        j.key("scope").string(&grant.scope);
        j.key("token_type").string("bearer");
        j.key("enabled_features").array(|_| {});
    });
    Ok(())
}

/// Answers with the version, and counts as the answer to a test request of the heartbeat.
///
/// # Errors
/// `internal_error` if `expected_result` is `exception`, which tests the caller's error handling.
pub fn test(call: &mut Call<'_>) -> MethodResult {
    if let Some(heartbeat) = &mut call.session.heartbeat {
        heartbeat.tested();
    }
    if call.params.text("expected_result")?.as_deref() == Some("exception") {
        return Err(RpcError::new("internal_error", "the exception that was asked for"));
    }
    version(call)
}

pub fn version(call: &mut Call<'_>) -> MethodResult {
    call.json().object(|j| {
        j.key("version").string(VERSION);
    });
    Ok(())
}

pub fn get_time(call: &mut Call<'_>) -> MethodResult {
    let now = call.wall_ms;
    call.json().uint(now);
    Ok(())
}

/// Advances the time of a venue with a manual clock. Everything that falls due happens before the
/// answer.
///
/// # Errors
/// A refusal if `ns` is missing or out of range, `time_moves_by_itself` unless the clock is manual,
/// `internal_error` if the journal fails.
pub fn advance(call: &mut Call<'_>) -> MethodResult {
    /// One hour, because the request blocks all others meanwhile.
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
                // A text, because nanoseconds since 1970 exceed the precision of a double.
                j.key("venue_time_ns").string(&now.to_string());
                j.key("sequence").uint(standing.last.0);
                j.key("tape_hash").string(&hex::encode(standing.tape_hash));
            });
            Ok(())
        }
    }
}

pub fn status(call: &mut Call<'_>) -> MethodResult {
    let is_killed = call.venue.engine().is_killed(KillScope::Venue);
    let locked = if is_killed || !call.venue.takes_orders() { "true" } else { "false" };
    call.json().object(|j| {
        j.key("locked").string(locked).key("locked_indices").array(|_| {});
    });
    Ok(())
}

fn must_stay(call: &Call<'_>, why: &str) -> MethodResult {
    if call.transport == Transport::WebSocket { Ok(()) } else { Err(RpcError::new("must_be_websocket", why)) }
}

/// Starts a heartbeat with a test request in every interval.
///
/// # Errors
/// A refusal over HTTP, or if `interval` is out of range.
pub fn set_heartbeat(call: &mut Call<'_>) -> MethodResult {
    must_stay(call, "a heartbeat belongs to a connection")?;
    call.session.heartbeat = Some(Heartbeat::from_params(call.params, call.clock.steady_ns)?);
    call.json().string("ok");
    Ok(())
}

/// Ends the heartbeat.
///
/// # Errors
/// A refusal over HTTP.
pub fn disable_heartbeat(call: &mut Call<'_>) -> MethodResult {
    must_stay(call, "a heartbeat belongs to a connection")?;
    call.session.heartbeat = None;
    call.json().string("ok");
    Ok(())
}

/// Revokes the session's tokens and ends its other connections, unless `invalidate_token` is false,
/// and closes the connection.
/// Orders stay, whatever cancel on disconnect says.
///
/// # Errors
/// A refusal over HTTP, or if `invalidate_token` is not a boolean.
pub fn logout(call: &mut Call<'_>) -> MethodResult {
    must_stay(call, "only a connection can be logged out")?;
    let invalidate = call.params.boolean("invalidate_token")?.unwrap_or(true);
    // If the tokens stay valid, the end of the connection must not revoke them either.
    call.session.number = None;
    for session in std::mem::take(&mut call.session.granted) {
        if invalidate {
            call.state.keys.end_session(session);
        }
    }
    call.session.log_out();
    call.effects.push(Effect::Close);
    call.json().string("ok");
    Ok(())
}
