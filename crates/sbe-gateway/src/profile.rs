//! What differs between the message schemas of the gateway. The session logic is the same for all.

use pitwire_projections::OrderRecord;

use crate::codec::FixedDecimal;
use crate::messages::{Logon, Logout, SbeMessage};
use crate::requests::Rejection;

/// A message of a client, as the session logic sees it.
pub(crate) enum ClientMessage {
    Message(Box<SbeMessage>),
    /// A message that the profile answers itself, with frames that have no number.
    Answer(Vec<u8>),
    /// Starts or ends the public data of an instrument.
    Public {
        instrument_id: u32,
        is_wanted: bool,
        answer: Vec<u8>,
    },
}

impl ClientMessage {
    pub fn of(message: impl Into<SbeMessage>) -> Self {
        ClientMessage::Message(Box::new(message.into()))
    }
}

/// Frames of one message to the client.
pub(crate) enum ClientFrames {
    /// Frames that are kept for a client that returns.
    Numbered(Vec<u8>),
    /// Frames for the connected client only.
    Unnumbered(Vec<u8>),
    /// The schema has no such message.
    Nothing,
}

/// A message that is refused before it is executed.
#[derive(Debug)]
pub(crate) struct EntryRefusal {
    pub request_id: u64,
    pub template_id: u16,
    pub rejection: Rejection,
}

/// Reason of the logout of a second connection of a client.
pub(crate) const ALREADY_LOGGED_ON: &str = "this client id is logged on already";

/// A message schema.
pub(crate) trait Profile: Send {
    /// Decodes the first message of a connection.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the message is not a valid logon.
    fn decode_logon(&self, frame: &[u8]) -> Result<Logon, String>;

    /// Encodes the refusal of a logon.
    fn refuse_logon(&self, logout: Logout) -> Vec<u8>;

    /// Returns the state of a new session.
    fn open(&self, client_id: &str) -> Box<dyn SessionProfile>;
}

/// The messages of one session.
pub(crate) trait SessionProfile: Send {
    /// Decodes a message after the logon. `next` is the number of the next message to the client.
    ///
    /// # Errors
    ///
    /// Fails if the message is malformed, or if it is none of a client.
    fn decode(&self, frame: &[u8], next: u64) -> Result<ClientMessage, EntryRefusal>;

    /// Encodes a message to the client. `sequence` is its number if it gets one.
    fn encode(&self, message: SbeMessage, sequence: u64) -> ClientFrames;

    /// Returns the frames that precede the messages of a retransmission.
    fn acknowledge_retransmit(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Returns whether the profile must learn the orders that were open before the session.
    fn wants_open_orders(&self) -> bool {
        false
    }

    /// Learns an order that was open before the session.
    fn observe_open_order(&self, _order: &OrderRecord) {}

    /// Checks whether the schema can express the prices and quantities of an instrument.
    ///
    /// # Errors
    ///
    /// Fails if its tick or its smallest quantity does not fit.
    fn check_instrument(&self, _tick: Option<FixedDecimal>, _lot: Option<FixedDecimal>) -> Result<(), Rejection> {
        Ok(())
    }

    /// Returns the request that undoes an answer which the schema cannot express.
    fn undo(&self, _answer: &SbeMessage) -> Option<SbeMessage> {
        None
    }

    /// Returns the requests to execute when the connection has ended.
    fn end_connection(&self) -> Vec<SbeMessage> {
        Vec::new()
    }
}

/// The schema `contracts/pitwire-order-entry.xml`.
pub(crate) struct PitwireProfile;

impl Profile for PitwireProfile {
    fn decode_logon(&self, frame: &[u8]) -> Result<Logon, String> {
        match SbeMessage::decode(frame) {
            Ok(SbeMessage::Logon(logon)) if (1..=60).contains(&logon.heartbeat_s) => Ok(logon),
            Ok(SbeMessage::Logon(logon)) => Err(format!("heartbeat_s {}: expected 1 to 60", logon.heartbeat_s)),
            Ok(other) => Err(format!("template id {} before the logon", other.template_id())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn refuse_logon(&self, logout: Logout) -> Vec<u8> {
        frame_of(&logout.into())
    }

    fn open(&self, _client_id: &str) -> Box<dyn SessionProfile> {
        Box::new(PitwireProfile)
    }
}

fn frame_of(message: &SbeMessage) -> Vec<u8> {
    let mut frame = Vec::with_capacity(256);
    message.encode(&mut frame);
    frame
}

impl SessionProfile for PitwireProfile {
    fn decode(&self, frame: &[u8], _next: u64) -> Result<ClientMessage, EntryRefusal> {
        SbeMessage::decode(frame).map(ClientMessage::of).map_err(|error| {
            let remedy = "Encode messages by contracts/pitwire-order-entry.xml.";
            EntryRefusal { request_id: 0, template_id: 0, rejection: Rejection::invalid(error.to_string(), remedy) }
        })
    }

    fn encode(&self, mut message: SbeMessage, sequence: u64) -> ClientFrames {
        message.set_sequence(sequence);
        ClientFrames::Numbered(frame_of(&message))
    }
}
