//! The server's messages, from received bytes to the meter.
//!
//! Does        cuts frames, collects fragments, inflates; reports each message to the [`Meter`],
//!             and what must be answered.
//! Start at    [`MessageReader::read`].

use pitwire_websocket::{Inflater, Violation, close_body};

use crate::connection::GeneratorConnection;
use crate::frame_scanner::{FramePiece, LONG_BYTES, LOOK_BYTES};
use crate::meter::Meter;

/// Largest fragmented or compressed message, in bytes after inflation.
const MOST_MESSAGE_BYTES: usize = 16 << 20;
/// Reported close code for a close frame without a code.
const NO_CODE: u16 = 1005;
/// The largest deflate window, in bits. It accepts what any server compresses.
const WINDOW_BITS: u8 = 15;

/// Frames that the received frames require in answer.
#[derive(Debug, Default)]
pub struct Replies {
    pub pongs: Vec<Vec<u8>>,
    /// The server's close code, if it sent a close frame.
    pub close: Option<u16>,
}

/// Servers keep no deflate context between messages, so one inflater serves all connections of a
/// worker.
#[derive(Debug)]
struct Inflation {
    state: Inflater,
    message: Vec<u8>,
}

#[derive(Debug)]
pub struct MessageReader {
    /// `None` if compression was not offered.
    inflation: Option<Inflation>,
}

impl MessageReader {
    pub fn new(deflate: bool) -> Self {
        let inflation = || Inflation { state: Inflater::new(WINDOW_BITS), message: Vec::new() };
        MessageReader { inflation: deflate.then(inflation) }
    }

    /// HOT. Reads every whole frame at the front of `bytes` and returns how many bytes it used.
    ///
    /// # Errors
    /// The server violated the protocol, or sent a message above a limit.
    pub fn read(
        &mut self,
        one: &mut GeneratorConnection,
        bytes: &[u8],
        meter: &mut Meter,
        now_ns: i64,
        replies: &mut Replies,
    ) -> Result<usize, Violation> {
        let mut at = 0;
        loop {
            let (used, piece) = one.frames.take(&bytes[at..])?;
            at += used;
            match piece {
                None if used == 0 => return Ok(at),
                None => {}
                Some(FramePiece::Message { payload, bytes, is_whole, is_compressed: false }) => {
                    start(one, meter, payload, bytes);
                    if is_whole {
                        meter.finish_message(one, now_ns);
                    }
                }
                Some(FramePiece::Ended) => meter.finish_message(one, now_ns),
                Some(FramePiece::Message { payload, .. }) => self.inflate(one, meter, payload, now_ns)?,
                Some(FramePiece::Fragment { payload, begins, ends, is_compressed }) => {
                    let extra = one.extra.get_or_insert_default();
                    if begins {
                        extra.message.clear();
                        extra.is_compressed = is_compressed;
                    }
                    if extra.message.len() + payload.len() > MOST_MESSAGE_BYTES {
                        return Err(Violation::MessageTooLong);
                    }
                    extra.message.extend_from_slice(payload);
                    if ends {
                        let message = std::mem::take(&mut extra.message);
                        if extra.is_compressed {
                            self.inflate(one, meter, &message, now_ns)?;
                        } else {
                            whole(one, meter, &message, now_ns);
                        }
                    }
                }
                Some(FramePiece::Ping(body)) => replies.pongs.push(body.to_vec()),
                Some(FramePiece::Pong) => {}
                Some(FramePiece::Close(body)) => {
                    replies.close = Some(close_body(body)?.0.unwrap_or(NO_CODE));
                    return Ok(bytes.len());
                }
            }
        }
    }

    fn inflate(
        &mut self,
        one: &mut GeneratorConnection,
        meter: &mut Meter,
        payload: &[u8],
        now_ns: i64,
    ) -> Result<(), Violation> {
        let Some(Inflation { state, message }) = &mut self.inflation else {
            return Err(Violation::ReservedBits);
        };
        message.clear();
        state.inflate_whole(payload, message, MOST_MESSAGE_BYTES)?;
        whole(one, meter, message, now_ns);
        Ok(())
    }
}

fn whole(one: &mut GeneratorConnection, meter: &mut Meter, message: &[u8], now_ns: i64) {
    start(one, meter, message, u32::try_from(message.len()).unwrap_or(u32::MAX));
    meter.finish_message(one, now_ns);
}

/// Shows the meter the start of a message. Of a long one always the same part, however much was
/// received.
#[inline]
fn start(one: &mut GeneratorConnection, meter: &mut Meter, payload: &[u8], bytes: u32) {
    let head = if bytes >= LONG_BYTES { payload.get(..LOOK_BYTES).unwrap_or(payload) } else { payload };
    meter.start_message(one, head, bytes);
}
