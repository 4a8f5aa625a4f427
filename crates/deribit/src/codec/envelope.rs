//! Envelopes of results, errors and notifications.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::codec::error::RpcError;
use crate::codec::ignored::IgnoredChannel;
use crate::codec::json::Json;
use crate::codec::request::RequestId;
use crate::codec::resume::Token;

#[derive(Deserialize)]
struct AuthAnswer {
    result: Option<GrantedToken>,
}

#[derive(Deserialize)]
struct GrantedToken {
    access_token: Option<IgnoredAny>,
}

/// Whether an answer to `public/auth` is a login. The rest of the answer may contain anything,
/// because the caller chooses the id.
pub fn is_login(answer: &[u8]) -> bool {
    let result = serde_json::from_slice::<AuthAnswer>(answer).ok().and_then(|answer| answer.result);
    result.is_some_and(|login| login.access_token.is_some())
}

/// Writes a result. `result` is JSON; times are microseconds of wall time since 1970.
pub fn write_result(out: &mut Vec<u8>, id: &RequestId, result: &[u8], us_in: u64, us_out: u64) {
    write_result_with(out, id, result, &[], us_in, us_out);
}

/// Writes a result and, as `data.ignored` beside it, the channels that a subscription left out.
pub fn write_result_with(
    out: &mut Vec<u8>,
    id: &RequestId,
    result: &[u8],
    ignored: &[IgnoredChannel],
    us_in: u64,
    us_out: u64,
) {
    Json::new(out).object(|j| {
        opening(j, id);
        j.key("result").raw(result);
        if !ignored.is_empty() {
            j.key("data").object(|j| {
                j.key("ignored").array(|j| {
                    for IgnoredChannel { name, reason } in ignored {
                        j.object(|j| {
                            j.key("channel").string(name).key("reason").string(reason);
                        });
                    }
                });
            });
        }
        closing(j, us_in, us_out);
    });
}

/// Writes a result up to its value. The value and [`end_result`] must follow.
pub(crate) fn begin_result(out: &mut Vec<u8>, id: &RequestId) {
    Json::new(out).object(|j| {
        opening(j, id);
        j.key("result");
    });
    // The value follows before the end of the object.
    out.pop();
}

/// Writes the rest of a result behind its value.
pub(crate) fn end_result(out: &mut Vec<u8>, us_in: u64, us_out: u64) {
    let begin = out.len();
    Json::new(out).object(|j| closing(j, us_in, us_out));
    // It continues the object of the result.
    out[begin] = b',';
}

pub fn write_error(out: &mut Vec<u8>, id: &RequestId, error: &RpcError, us_in: u64, us_out: u64) {
    let entry = error.entry();
    Json::new(out).object(|j| {
        opening(j, id);
        j.key("error").object(|j| {
            j.key("code").int(entry.map_or(11094, |entry| i64::from(entry.code)));
            j.key("message").string(entry.map_or("internal_server_error", |entry| &entry.wire));
            j.key("data").object(|j| {
                j.key("reason").string(&error.reason);
                if let Some(param) = error.param {
                    j.key("param").string(param);
                }
                j.key("name").string(error.name);
                if let Some(rule) = entry.and_then(|entry| entry.rule.as_deref()) {
                    j.key("rule").string(rule);
                }
                if let Some(id) = error.rule_id() {
                    j.key("rule_id").string(id);
                }
                if let Some(limit) = error.limit() {
                    j.key("limit").decimal(limit);
                }
                if let Some(retry_after_ms) = error.retry_after_ms() {
                    j.key("retry_after_ms").uint(retry_after_ms);
                }
                if let Some(remedy) = error.remedy() {
                    j.key("remedy").string(&remedy);
                }
            });
        });
        closing(j, us_in, us_out);
    });
}

fn opening(j: &mut Json<'_>, id: &RequestId) {
    j.raw(br#""jsonrpc":"2.0""#);
    if let Some(id) = &id.0 {
        j.key("id").raw(id.as_bytes());
    }
}

fn closing(j: &mut Json<'_>, us_in: u64, us_out: u64) {
    j.key("usIn").uint(us_in).key("usOut").uint(us_out).key("usDiff").uint(us_out.saturating_sub(us_in));
    j.key("testnet").bool(true);
}

/// Writes a notification; `fill` writes the value of `data`.
pub fn write_notification(out: &mut Vec<u8>, channel: &str, fill: impl FnOnce(&mut Json<'_>)) {
    write_numbered(out, channel, None, fill);
}

/// Returns a notification as text.
pub fn notification(channel: &str, fill: impl FnOnce(&mut Json<'_>)) -> Vec<u8> {
    numbered_notification(channel, None, fill)
}

/// Returns a notification as text, with the resume token of the position behind it, if there is
/// one.
pub fn numbered_notification(channel: &str, token: Option<Token>, fill: impl FnOnce(&mut Json<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write_numbered(&mut out, channel, token, fill);
    out
}

fn write_numbered(out: &mut Vec<u8>, channel: &str, token: Option<Token>, fill: impl FnOnce(&mut Json<'_>)) {
    Json::new(out).object(|j| {
        j.key("jsonrpc").string("2.0").key("method").string("subscription");
        j.key("params").object(|j| {
            j.key("channel").string(channel).key("data");
            fill(j);
            if let Some(token) = token {
                j.key("token").string(&token.to_string());
            }
        });
    });
}

/// Writes a heartbeat of kind `heartbeat`, or `test_request` if the client must answer.
pub fn write_heartbeat(out: &mut Vec<u8>, kind: &str) {
    Json::new(out).object(|j| {
        j.key("jsonrpc").string("2.0").key("method").string("heartbeat");
        j.key("params").object(|j| {
            j.key("type").string(kind);
        });
    });
}

/// Writes the last message before the venue closes a session. The dialect does not have it.
pub fn write_logout(out: &mut Vec<u8>, reason: &str) {
    Json::new(out).object(|j| {
        j.key("jsonrpc").string("2.0").key("method").string("logout");
        j.key("params").object(|j| {
            j.key("reason").string(reason);
        });
    });
}
