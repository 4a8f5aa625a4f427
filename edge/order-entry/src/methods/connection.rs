//! Login, liveness, subscriptions.

use pitwire_jsonrpc::{Channel, Interval, RpcError, Scope};

use super::Done;
use crate::auth::TOKEN_LIFE_S;
use crate::desk::{Call, Effect, Entrance};
use crate::session::Login;

/// The dialect's version, as its clients expect to read it.
const VERSION: &str = "1.2.26";

pub fn auth(call: &mut Call<'_>) -> Done {
    let wall_ms = call.wall_ms;
    let grant = call.desk.keys.grant(call.params, wall_ms)?;
    call.session.login = Some(Login { account: grant.account, operator: grant.operator });
    let asked = call.params.text("scope")?.unwrap_or_default();
    let session = asked.split_whitespace().find(|scope| scope.starts_with("session:")).unwrap_or("connection");
    let operator = if grant.operator { " operator:read_write" } else { "" };
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

pub fn status(call: &mut Call<'_>) -> Done {
    let locked = if call.venue.takes_orders() { "false" } else { "true" };
    call.json().object(|j| {
        j.key("locked").string(locked).key("locked_indices").array(|_| {});
    });
    Ok(())
}

fn channels(call: &Call<'_>) -> Result<Vec<String>, RpcError> {
    if call.entrance != Entrance::WebSocket {
        return Err(RpcError::new("must_be_websocket", "subscriptions belong to a connection"));
    }
    call.params.list("channels")?.ok_or_else(|| RpcError::invalid("channels", "channels is required"))
}

/// Answers with the channels that are now subscribed. Well-formed names of unknown instruments, and channels that this
/// version does not serve, are left out; an error is for malformed names only, and only when nothing else was asked for.
pub fn subscribe(call: &mut Call<'_>) -> Done {
    let names = channels(call)?;
    let mut accepted = Vec::new();
    let mut malformed = None;
    for name in names {
        let Some(channel) = Channel::parse(&name) else {
            if !Channel::is_known_family(&name) {
                malformed = Some(name);
            }
            continue;
        };
        if !exists(call, &channel) {
            continue;
        }
        if call.session.login.is_none() {
            if channel.is_private() {
                return Err(RpcError::param("authorization_required", "channels", format!("{name} needs a login")));
            }
            if channel.interval() == Interval::Raw {
                return Err(RpcError::param("raw_requires_login", "channels", format!("{name} needs a login")));
            }
        }
        if channel.is_private() {
            call.session.subscribe_private(&name, channel);
        } else {
            call.effects.push(Effect::Subscribe(name.clone(), channel));
        }
        accepted.push(name);
    }
    if let Some(name) = malformed.filter(|_| accepted.is_empty()) {
        let shown: String = name.chars().take(80).collect();
        return Err(RpcError::invalid("channels", format!("no channel is named {shown:?}")));
    }
    write_names(call, &accepted);
    Ok(())
}

fn exists(call: &Call<'_>, channel: &Channel) -> bool {
    let known = |name: &str| call.venue.engine().instrument_named(name).is_some();
    match channel {
        Channel::Book { instrument, .. } | Channel::Trades { instrument, .. } | Channel::Ticker { instrument, .. } => {
            known(instrument)
        }
        Channel::UserOrders { scope, .. } | Channel::UserTrades { scope, .. } => match scope {
            Scope::Instrument(name) => known(name),
            Scope::Kind { .. } => true,
        },
    }
}

pub fn unsubscribe(call: &mut Call<'_>) -> Done {
    let names = channels(call)?;
    for name in &names {
        call.session.unsubscribe_private(name);
        call.effects.push(Effect::Unsubscribe(name.clone()));
    }
    write_names(call, &names);
    Ok(())
}

pub fn unsubscribe_all(call: &mut Call<'_>) -> Done {
    if call.entrance != Entrance::WebSocket {
        return Err(RpcError::new("must_be_websocket", "subscriptions belong to a connection"));
    }
    call.session.private.clear();
    call.effects.push(Effect::UnsubscribeAll);
    call.json().string("ok");
    Ok(())
}

fn write_names(call: &mut Call<'_>, names: &[String]) {
    call.json().array(|j| {
        for name in names {
            j.string(name);
        }
    });
}

pub fn logout(call: &mut Call<'_>) -> Done {
    if call.entrance != Entrance::WebSocket {
        return Err(RpcError::new("must_be_websocket", "only a connection can be logged out"));
    }
    call.session.login = None;
    call.session.private.clear();
    call.effects.push(Effect::Close);
    call.json().string("ok");
    Ok(())
}
