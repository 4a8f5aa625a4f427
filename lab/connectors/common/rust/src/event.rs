//! Messages on their way from the receive path to the writer.

const ENVELOPE_BYTES: usize = 108;

/// What the receive path tells the writer, in order.
pub enum Item {
    Event(Event),
    Open { connection_id: i64, at_ns: i64 },
    Gap { connection_id: i64, reason: &'static str, close_code: Option<u16>, at_ns: i64 },
}

pub struct Event {
    pub connection_id: i64,
    pub envelope: Option<Envelope>,
    pub received_ns: i64,
    pub length_bytes: usize,
    pub is_binary: bool,
    pub body: Option<Vec<u8>>,
}

pub struct Envelope {
    pub sequence: i64,
    pub due_ns: i64,
    pub sent_ns: i64,
    pub feed_connection: i64,
}

impl Envelope {
    /// Reads the numbers in front of a message, or returns `None` if there are none.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let has_envelope = payload.len() >= ENVELOPE_BYTES && payload.starts_with(b"{\"seq\":\"");
        has_envelope.then(|| Envelope {
            sequence: number(&payload[8..27]),
            due_ns: number(&payload[39..58]),
            sent_ns: number(&payload[71..90]),
            feed_connection: number(&payload[100..106]),
        })
    }
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |value: i64, digit| value.wrapping_mul(10).wrapping_add(i64::from(digit.wrapping_sub(b'0'))))
}

/// Totals at the end of the receive path.
#[derive(Clone, Copy)]
pub struct Counts {
    pub received: u64,
    pub ring_waits: u64,
    pub ended_ns: i64,
}
