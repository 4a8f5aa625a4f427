//! Subscriptions to channels.
//!
//! Holds       a request takes effect as a whole or not at all.

use std::collections::BTreeSet;

use crate::codec::{Channel, Interval, RpcError, in_right_case, objects, resumed, shown, why_ignored};
use pitwire_engine::Engine;
use pitwire_model::AccountId;

use super::filters;
use crate::access::{AccessLevel, Area};
use crate::call::{Call, Effect, MethodResult, Transport};
use crate::resume;
use crate::session::Session;

fn names(call: &Call<'_>) -> Result<Vec<String>, RpcError> {
    must_stay(call)?;
    let names = call.params.list("channels")?.ok_or_else(|| RpcError::invalid("channels", "channels is required"))?;
    // A name that stands twice in one request counts once.
    let mut seen = BTreeSet::new();
    Ok(names.iter().filter(|name| seen.insert(name.as_str())).cloned().collect())
}

fn must_stay(call: &Call<'_>) -> MethodResult {
    if call.transport == Transport::WebSocket {
        return Ok(());
    }
    Err(RpcError::new("must_be_websocket", "subscriptions belong to a connection"))
}

/// Answers with the channels that are now subscribed. Leaves out well-formed names of unknown
/// instruments and channels that this version does not serve, and names them in `data.ignored`.
/// Malformed names are an error only if nothing else was requested.
///
/// # Errors
/// A refusal if `channels` or `resume` is malformed, if only malformed names were requested, if a
/// private channel lacks its login, or above [`Session::MAX_CHANNELS`].
pub fn subscribe(call: &mut Call<'_>) -> MethodResult {
    let mut accepted = Vec::new();
    let (mut malformed, mut fresh) = (None, 0);
    let names = names(call)?;
    let mut resumed = resumed(call.params, &names)?;
    for name in names {
        match channel_named(call.venue.engine(), &name) {
            ChannelName::Malformed => {
                ignore(call, &name);
                malformed = Some(name);
            }
            ChannelName::Unavailable => ignore(call, &name),
            ChannelName::Served(channel) => {
                let account = listener(call, &name, &channel)?;
                fresh += usize::from(!call.session.is_subscribed(&name, account));
                accepted.push((name, channel, account));
            }
        }
    }
    if let Some(name) = malformed.filter(|_| accepted.is_empty()) {
        let why = call.ignored.reason_of(&name).unwrap_or("docs/dialect.md lists the channels");
        return Err(RpcError::invalid("channels", format!("no channel is named {:?}: {why}", shown(&name))));
    }
    if call.session.channels() + fresh > Session::MAX_CHANNELS {
        let reason = format!("a connection subscribes to at most {} channels; open another", Session::MAX_CHANNELS);
        return Err(RpcError::param("too_many_requests", "channels", reason));
    }
    write_names(call, accepted.iter().map(|(name, ..)| name));
    if let Ok(Some(login)) = call.login {
        call.session.note_login(login);
    }
    let mut budget_bytes = resume::RESUMED_BYTES;
    for (name, channel, account) in accepted {
        let resumed = resumed.remove(&name);
        match (account, resumed) {
            (Some(account), Some(token)) => {
                resume::resume_private(call, account, (name, channel), token, &mut budget_bytes)
            }
            (Some(account), None) => call.session.subscribe_private(account, &name, channel),
            (None, Some(token)) => {
                call.session.subscribe_public(&name);
                call.effects.push(Effect::Resume(name, channel, token));
            }
            (None, None) if call.session.subscribe_public(&name) => call.effects.push(Effect::Subscribe(name, channel)),
            (None, None) => {}
        }
    }
    Ok(())
}

/// Notes a channel that is left out, with the reason.
fn ignore(call: &mut Call<'_>, name: &str) {
    let engine = call.venue.engine();
    call.ignored.add(name, || {
        let instruments = engine.markets().iter().map(|market| market.spec.name.as_str());
        let words = instruments.chain(engine.currencies().iter().map(|currency| currency.name.as_str()));
        let is_served = |name: &str| matches!(channel_named(engine, name), ChannelName::Served(_));
        let corrected = in_right_case(name, words, is_served);
        why_ignored(name, corrected, |instrument| engine.instrument_named(instrument).is_some())
    });
}

/// The meaning of a channel name at this venue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelName {
    Served(Channel),
    /// Well-formed, but the venue does not have it.
    Unavailable,
    Malformed,
}

/// Parses a channel name. Access is checked elsewhere.
pub fn channel_named(engine: &Engine, name: &str) -> ChannelName {
    let Some(channel) = Channel::parse(name) else {
        return if Channel::is_known_family(name) { ChannelName::Unavailable } else { ChannelName::Malformed };
    };
    let is_here = match &channel {
        Channel::DropCopy { account } => account.as_deref().is_none_or(|name| engine.account_named(name).is_some()),
        Channel::PriceIndex { index } => {
            engine.markets().iter().any(|market| objects::index_name(&market.spec, engine.currencies()) == *index)
        }
        Channel::TradesOf { currency, .. } | Channel::InstrumentState { currency, .. } => {
            // The venue keeps a ring per channel, so it accepts only what exists.
            currency == "any" || engine.currency_named(currency).is_some()
        }
        _ => channel.instrument().is_none_or(|name| engine.instrument_named(name).is_some()),
    };
    match has_known_words(&channel) {
        false => ChannelName::Malformed,
        true if is_here => ChannelName::Served(channel),
        true => ChannelName::Unavailable,
    }
}

/// Whether kind and currency are well-formed. The currency need not exist.
fn has_known_words(channel: &Channel) -> bool {
    let Some((kind, currency)) = channel.kind_and_currency() else { return true };
    let looks_right = (1..=16).contains(&currency.len()) && currency.bytes().all(|byte| byte.is_ascii_alphanumeric());
    filters::is_kind(kind) && looks_right
}

/// Returns the owner of a private channel; `None` for a public one.
///
/// # Errors
///
/// Refuses private and raw channels without a login, and the drop copy for non-operators.
fn listener(call: &Call<'_>, name: &str, channel: &Channel) -> Result<Option<AccountId>, RpcError> {
    if matches!(channel, Channel::DropCopy { .. }) {
        return call.operator().map(|_| None);
    }
    let (is_private, is_raw) = (channel.is_private(), channel.interval() == Interval::Raw);
    if !is_private && !is_raw {
        return Ok(None);
    }
    let refusal = if is_private { "authorization_required" } else { "raw_requires_login" };
    let login = call.login.as_ref().map_err(Clone::clone)?;
    let login = login.ok_or_else(|| RpcError::param(refusal, "channels", format!("{name} needs a login")))?;
    if is_private {
        let area = if matches!(channel, Channel::UserPortfolio { .. }) { Area::Account } else { Area::Trade };
        call.require_scope(area, AccessLevel::Read)?;
    }
    Ok(is_private.then_some(login.account))
}

/// Ends subscriptions and answers with the names.
///
/// # Errors
/// A refusal if `channels` is malformed, or over HTTP.
pub fn unsubscribe(call: &mut Call<'_>) -> MethodResult {
    let names = names(call)?;
    write_names(call, names.iter());
    for name in names {
        call.session.unsubscribe(&name);
        call.effects.push(Effect::Unsubscribe(name));
    }
    Ok(())
}

/// Ends all subscriptions of the connection.
///
/// # Errors
/// A refusal over HTTP.
pub fn unsubscribe_all(call: &mut Call<'_>) -> MethodResult {
    must_stay(call)?;
    call.session.unsubscribe_all();
    call.effects.push(Effect::UnsubscribeAll);
    call.json().string("ok");
    Ok(())
}

fn write_names<'n>(call: &mut Call<'_>, names: impl Iterator<Item = &'n String>) {
    call.json().array(|j| {
        for name in names {
            j.string(name);
        }
    });
}
