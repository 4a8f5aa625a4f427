//! A message of a capture, in a form for output.

use std::fmt;
use std::net::SocketAddr;

use jiff::Timestamp;
use pitwire_order_feed::FieldValue;
use pitwire_sbe_gateway::SbeMessage;
use serde_json::{Map, Value, json};

/// The format of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireProtocol {
    /// The order-by-order feed: `docs/order-feed.md`.
    Mitch,
    /// The order-by-order feed with the encoding ITCH.
    Itch,
    /// Binary order entry: `docs/sbe.md`.
    Sbe,
}

impl fmt::Display for WireProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WireProtocol::Mitch => "mitch",
            WireProtocol::Itch => "itch",
            WireProtocol::Sbe => "sbe",
        })
    }
}

/// A message of a capture with its packet's addresses and time.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedMessage {
    /// Capture time in nanoseconds since 1970.
    pub at_ns: u64,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub protocol: WireProtocol,
    /// Number of the message in the feed. Answers and snapshots have none.
    pub number: Option<u64>,
    /// Letter or template id in the format. Empty for heartbeats and gaps.
    pub message_type: String,
    pub name: &'static str,
    /// Instrument, if the message or its order names one.
    pub instrument_id: Option<u32>,
    /// Name of the instrument, if an earlier message of the capture defined it.
    pub instrument_name: Option<String>,
    /// Fields by their names. Prices are texts, so that each digit is kept.
    pub fields: Map<String, Value>,
}

impl CapturedMessage {
    /// Writes the message as one JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "time": self.time_text(), "source": self.source.to_string(), "destination": self.destination.to_string(),
            "protocol": self.protocol.to_string(), "number": self.number, "type": self.message_type,
            "name": self.name, "instrument_id": self.instrument_id, "instrument_name": self.instrument_name,
            "fields": self.fields,
        })
    }

    /// Capture time in UTC, with nanoseconds.
    fn time_text(&self) -> String {
        Timestamp::from_nanosecond(i128::from(self.at_ns)).map(|at| format!("{at:.9}")).unwrap_or_default()
    }
}

impl fmt::Display for CapturedMessage {
    /// Writes the message as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} > {} {}", self.time_text(), self.source, self.destination, self.protocol)?;
        if let Some(number) = self.number {
            write!(f, " #{number}")?;
        }
        write!(f, " {}", self.name)?;
        if let Some(name) = &self.instrument_name {
            write!(f, " {name}")?;
        }
        for (field, value) in &self.fields {
            match value {
                Value::String(text) if text.is_empty() => {}
                Value::String(text) => write!(f, " {field}={text}")?,
                value => write!(f, " {field}={value}")?,
            }
        }
        Ok(())
    }
}

pub(crate) fn feed_fields(fields: Vec<(&'static str, FieldValue)>) -> Map<String, Value> {
    let value = |value| match value {
        FieldValue::Unsigned(number) => Value::from(number),
        FieldValue::Decimal(decimal) => Value::from(format!("{decimal:#}")),
        FieldValue::Text(text) => Value::from(text),
    };
    fields.into_iter().map(|(name, content)| (name.to_owned(), value(content))).collect()
}

/// Returns the fields of a message. The secret of a logon is left out.
pub(crate) fn sbe_fields(message: &SbeMessage) -> Map<String, Value> {
    let mut fields = match serde_json::to_value(message) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    if matches!(message, SbeMessage::Logon(_)) {
        fields.insert("secret".into(), "***".into());
    }
    fields
}
