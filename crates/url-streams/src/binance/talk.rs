//! Requests of Binance clients on the socket, and their answers.
//!
//! Does        Handles SUBSCRIBE, UNSUBSCRIBE, LIST_SUBSCRIPTIONS, SET_PROPERTY and GET_PROPERTY of
//!             `combined`.
//! Holds       An answer has the request's id as it was written: a number, a string or null. Ids
//!             may repeat.
//! Start at    [`handle_message`].

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::binance::grammar;
use crate::key::StreamKey;
use crate::names::Directory;
use crate::stream_set::{MessageOutcome, StreamSession, instrument_key};
use crate::text::{list, put, string};

#[derive(Deserialize)]
struct MethodCall<'a> {
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Value,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

/// Returns `{"code":-1121,"msg":"…"}`.
pub fn error(code: i32, msg: &str) -> String {
    let mut out = format!("{{\"code\":{code},\"msg\":").into_bytes();
    string(&mut out, msg);
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) fn unknown_symbol(symbol: &str) -> String {
    format!("Invalid symbol {symbol:?}; /api/v3/exchangeInfo lists those that are traded here")
}

fn refusal(id: &str, msg: &str) -> MessageOutcome {
    let mut out = b"{\"code\":2,\"msg\":".to_vec();
    string(&mut out, &format!("Invalid request: {msg}"));
    put!(&mut out, ",\"id\":", id, "}");
    MessageOutcome { answers: vec![out], ..MessageOutcome::default() }
}

fn result(id: &str, result: &[u8]) -> Vec<u8> {
    let mut out = b"{\"result\":".to_vec();
    out.extend_from_slice(result);
    put!(&mut out, ",\"id\":", id, "}");
    out
}

pub(crate) fn handle_message(session: &mut StreamSession, text: &str, directory: &Directory) -> MessageOutcome {
    let Ok(MethodCall { method, params, id }) = serde_json::from_str(text) else {
        return refusal("null", "send {\"method\":\"SUBSCRIBE\",\"params\":[\"npnzar@trade\"],\"id\":1}");
    };
    let id = id.map_or("null", RawValue::get);
    // An id of another type is not echoed: it may be as large as the message.
    let id =
        if id.starts_with(['{', '[']) { return refusal("null", "the id is a number, a string or null") } else { id };
    let done = |join, leave| MessageOutcome { answers: vec![result(id, b"null")], join, leave };
    match method.as_str() {
        "SUBSCRIBE" => match keys(session, &params, directory) {
            Ok(keys) if session.is_full(keys.len()) => {
                refusal(id, &format!("at most {} streams on one connection", grammar::MOST_STREAMS))
            }
            Ok(keys) => done(session.add(keys), Vec::new()),
            Err(why) => refusal(id, &why),
        },
        "UNSUBSCRIBE" => match keys(session, &params, directory) {
            Ok(keys) => done(Vec::new(), session.remove(&keys)),
            Err(why) => refusal(id, &why),
        },
        "LIST_SUBSCRIPTIONS" => {
            let mut names = b"[".to_vec();
            let streams = session.streams().iter().filter_map(|key| name(key, directory));
            list(&mut names, streams, |out, name| string(out, &name));
            names.push(b']');
            MessageOutcome { answers: vec![result(id, &names)], ..MessageOutcome::default() }
        }
        "SET_PROPERTY" => match property(&params) {
            Some(Some(value)) => {
                let (join, leave) = dress_anew(session, value);
                done(join, leave)
            }
            _ => refusal(id, "the one property is combined, true or false"),
        },
        "GET_PROPERTY" if property(&params).is_some() => {
            let value: &[u8] = if session.form.is_combined { b"true" } else { b"false" };
            MessageOutcome { answers: vec![result(id, value)], ..MessageOutcome::default() }
        }
        "GET_PROPERTY" => refusal(id, "the one property is combined"),
        _ => refusal(id, "the methods are SUBSCRIBE, UNSUBSCRIBE, LIST_SUBSCRIPTIONS, SET_PROPERTY and GET_PROPERTY"),
    }
}

/// Returns the keys of all streams.
///
/// # Errors
///
/// One of the names is unknown: then none is used.
fn keys(session: &StreamSession, params: &Value, directory: &Directory) -> Result<Vec<StreamKey>, String> {
    let names = params.as_array().ok_or("params is an array of stream names")?;
    let key = |name: &Value| {
        let name = name.as_str().ok_or("params is an array of stream names")?;
        let (symbol, kind) = grammar::read_name(name)?;
        instrument_key(symbol, kind, session.form, directory).ok_or_else(|| unknown_symbol(symbol))
    };
    names.iter().map(key).collect()
}

fn name(key: &StreamKey, directory: &Directory) -> Option<String> {
    key.binance_name(key.instrument.and_then(|id| directory.names(id)))
}

/// Parses `["combined"]` or `["combined", true]`.
fn property(params: &Value) -> Option<Option<bool>> {
    let params = params.as_array()?;
    let is_known = params.first()?.as_str()? == "combined";
    is_known.then(|| params.get(1).and_then(Value::as_bool))
}

/// Wraps all messages from now on, or none. The bytes differ, so these are other streams.
fn dress_anew(session: &mut StreamSession, is_combined: bool) -> (Vec<StreamKey>, Vec<StreamKey>) {
    session.form.is_combined = is_combined;
    let old = std::mem::take(&mut session.keys);
    let form = session.form;
    session.keys = old.iter().map(|key| StreamKey { form, ..*key }).collect();
    if session.keys == old { (Vec::new(), Vec::new()) } else { (session.keys.clone(), old) }
}
