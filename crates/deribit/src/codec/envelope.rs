//! What stands around every result, error and notification.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::codec::error::RpcError;
use crate::codec::json::Json;
use crate::codec::request::RequestId;
use crate::codec::resume::Token;

#[derive(Deserialize)]
struct Answer {
    result: Option<Login>,
}

#[derive(Deserialize)]
struct Login {
    access_token: Option<IgnoredAny>,
}

/// Whether an answer to `public/auth` lets its caller in. What else it has, the caller may have chosen: its id is any JSON.
pub fn is_login(answer: &[u8]) -> bool {
    let result = serde_json::from_slice::<Answer>(answer).ok().and_then(|answer| answer.result);
    result.is_some_and(|login| login.access_token.is_some())
}

/// `result` is JSON already. Times are microseconds since 1970, from the wall clock.
pub fn write_result(out: &mut Vec<u8>, id: &RequestId, result: &[u8], us_in: u64, us_out: u64) {
    Json::new(out).object(|j| {
        opening(j, id);
        j.key("result").raw(result);
        closing(j, us_in, us_out);
    });
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
                if let Some(entry) = entry {
                    j.key("remedy").string(&entry.remedy);
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

/// One subscription message; `fill` writes the value of `data`.
pub fn write_notification(out: &mut Vec<u8>, channel: &str, fill: impl FnOnce(&mut Json<'_>)) {
    write_numbered(out, channel, None, fill);
}

/// The same, and where its reader stands behind it: a resume token, if it has one.
pub fn write_numbered(out: &mut Vec<u8>, channel: &str, token: Option<Token>, fill: impl FnOnce(&mut Json<'_>)) {
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

/// What a heartbeat says: `heartbeat`, or `test_request` when an answer is due.
pub fn write_heartbeat(out: &mut Vec<u8>, kind: &str) {
    Json::new(out).object(|j| {
        j.key("jsonrpc").string("2.0").key("method").string("heartbeat");
        j.key("params").object(|j| {
            j.key("type").string(kind);
        });
    });
}

/// The last thing a session is told before the venue closes it; ours, no part of the dialect.
pub fn write_logout(out: &mut Vec<u8>, reason: &str) {
    Json::new(out).object(|j| {
        j.key("jsonrpc").string("2.0").key("method").string("logout");
        j.key("params").object(|j| {
            j.key("reason").string(reason);
        });
    });
}
