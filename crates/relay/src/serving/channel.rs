//! One served channel: its numbers, and the latest state for clients that join.
//!
//! Does        numbers the messages, and keeps a book or the latest message.
//! Start at    [`ServedChannel::update`] and [`ServedChannel::state`].

use std::fmt::Write as _;

use pitwire_client::OrderBook;
use pitwire_publisher::StreamId;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::serving::form::Form;

/// What a client that joins gets.
#[derive(Debug)]
enum State {
    /// Nothing: the messages are changes of a state that the relay does not have.
    None,
    Latest(Option<Box<RawValue>>),
    Book {
        book: OrderBook,
        instrument: String,
        timestamp_ms: Option<u64>,
    },
}

#[derive(Debug)]
pub(crate) struct ServedChannel {
    pub stream: StreamId,
    /// The name as JSON text.
    name: String,
    epoch: u64,
    /// Number of the last message.
    seq: u64,
    state: State,
}

#[derive(Deserialize)]
struct Stamp {
    timestamp: Option<u64>,
}

/// Returns whether a channel of the JSON-RPC dialect is a book whose messages are changes.
pub(crate) fn is_book_of_changes(name: &str) -> bool {
    // A channel with a depth or a grouping has more parts, and sends whole books.
    name.starts_with("book.") && name.split('.').count() == 3
}

impl ServedChannel {
    pub fn new(form: Form, name: &str, stream: StreamId, epoch: u64) -> Self {
        let state = match form {
            Form::Deribit if is_book_of_changes(name) => {
                let instrument = name.split('.').nth(1).unwrap_or_default().to_owned();
                State::Book { book: OrderBook::default(), instrument, timestamp_ms: None }
            }
            Form::Binance if name.ends_with("@depth") || name.contains("@depth@") => State::None,
            Form::Deribit | Form::Binance => State::Latest(None),
        };
        ServedChannel { stream, name: Value::from(name).to_string(), epoch, seq: 0, state }
    }

    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Takes a message of the venue, and returns the one for the clients.
    pub fn update(&mut self, data: Box<RawValue>) -> String {
        self.seq += 1;
        let text = self.numbered("update", "data", data.get());
        match &mut self.state {
            State::None => {}
            State::Latest(latest) => *latest = Some(data),
            State::Book { book, timestamp_ms, .. } => {
                *timestamp_ms = serde_json::from_str(data.get()).ok().and_then(|Stamp { timestamp }| timestamp);
                // The feed has checked the change, and asks for a new snapshot after a fault.
                drop(book.apply(&data));
            }
        }
        text
    }

    /// Marks that messages may be missing, and returns the mark for the clients.
    pub fn gap(&mut self, reason: &str) -> String {
        self.seq += 1;
        if let State::Book { book, .. } = &mut self.state {
            book.clear();
        }
        self.numbered("gap", "reason", &Value::from(reason).to_string())
    }

    /// Returns the state after the last message, if there is one.
    pub fn state(&self) -> Option<String> {
        match &self.state {
            State::None | State::Latest(None) => None,
            State::Latest(Some(latest)) => Some(self.numbered("state", "data", latest.get())),
            State::Book { book, instrument, timestamp_ms } => {
                let change_id = book.change_id()?;
                let instrument = Value::from(instrument.as_str());
                let mut data =
                    format!("{{\"type\":\"snapshot\",\"instrument_name\":{instrument},\"change_id\":{change_id}");
                // Writing to memory cannot fail.
                if let Some(timestamp_ms) = timestamp_ms {
                    let _ = write!(data, ",\"timestamp\":{timestamp_ms}");
                }
                write_levels(&mut data, "bids", book.bids());
                write_levels(&mut data, "asks", book.asks());
                data.push('}');
                Some(self.numbered("state", "data", &data))
            }
        }
    }

    /// Returns the notice that a client was too slow for the messages after number `read`.
    pub fn missed(&self, read: u64) -> String {
        let ServedChannel { name, epoch, seq, .. } = self;
        format!("{{\"channel\":{name},\"epoch\":{epoch},\"type\":\"gap\",\"from\":{},\"to\":{seq}}}", read + 1)
    }

    fn numbered(&self, kind: &str, field: &str, json: &str) -> String {
        let ServedChannel { name, epoch, seq, .. } = self;
        format!("{{\"channel\":{name},\"epoch\":{epoch},\"seq\":{seq},\"type\":\"{kind}\",\"{field}\":{json}}}")
    }
}

fn write_levels(
    out: &mut String,
    side: &str,
    levels: impl Iterator<Item = (pitwire_client::Value, pitwire_client::Value)>,
) {
    let _ = write!(out, ",\"{side}\":[");
    for (at, (price, amount)) in levels.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}[\"new\",{price},{amount}]");
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn state_of_a_book_holds_all_changes_and_is_gone_after_a_gap() {
        let mut channel = ServedChannel::new(Form::Deribit, "book.X.100ms", StreamId(0), 7);
        assert_eq!(channel.state(), None);
        channel.update(raw(r#"{"type":"snapshot","change_id":5,"timestamp":1,"bids":[["new",10.5,3]],"asks":[]}"#));
        let change = raw(
            r#"{"type":"change","prev_change_id":5,"change_id":6,"timestamp":2,"bids":[["change",10.5,4]],"asks":[["new",11,1]]}"#,
        );
        let update = channel.update(change.clone());
        let expected = format!(r#"{{"channel":"book.X.100ms","epoch":7,"seq":2,"type":"update","data":{change}}}"#);
        assert_eq!(update, expected);
        let state = r#"{"channel":"book.X.100ms","epoch":7,"seq":2,"type":"state","data":{"type":"snapshot","instrument_name":"X","change_id":6,"timestamp":2,"bids":[["new",10.5,4]],"asks":[["new",11,1]]}}"#;
        assert_eq!(channel.state().as_deref(), Some(state));
        let gap = channel.gap("a \"cut\"");
        assert_eq!(gap, r#"{"channel":"book.X.100ms","epoch":7,"seq":3,"type":"gap","reason":"a \"cut\""}"#);
        assert_eq!(channel.state(), None);
        assert_eq!(channel.missed(1), r#"{"channel":"book.X.100ms","epoch":7,"type":"gap","from":2,"to":3}"#);
    }

    #[test]
    fn latest_message_is_the_state_unless_messages_are_changes() {
        for (form, name, has_state) in [
            (Form::Deribit, "ticker.X.100ms", true),
            (Form::Deribit, "book.X.none.10.100ms", true),
            (Form::Binance, "x@bookTicker", true),
            (Form::Binance, "x@depth5@100ms", true),
            (Form::Binance, "x@depth", false),
            (Form::Binance, "x@depth@100ms", false),
        ] {
            let mut channel = ServedChannel::new(form, name, StreamId(0), 7);
            channel.update(raw("{\"a\":1}"));
            channel.update(raw("{\"a\":2}"));
            let state = channel.state();
            assert_eq!(state.is_some_and(|state| state.contains("\"a\":2")), has_state, "{name}");
        }
    }
}
