//! A reader's request for a snapshot of ITCH, by GLIMPSE.
//!
//! Start at    [`fetch`].

use std::io::{self, BufReader, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use pitwire_order_feed::{
    BookBuilder, GlimpseLogin, GlimpsePacket, MOLD_SESSION_BYTES, SESSION_NOT_AVAILABLE, SOUP_HEADER_BYTES,
};

use crate::recovery_client::{ANSWER_PATIENCE, connect, invalid, late, refused};

/// Books of a session of MoldUDP64.
pub(crate) struct GlimpseSnapshot {
    pub session: [u8; MOLD_SESSION_BYTES],
    /// Number of the first message that is not in the books.
    pub next_number: u64,
    pub books: BookBuilder,
}

/// Requests a snapshot. `None` if there were too many requests.
pub(crate) fn fetch(address: SocketAddr) -> io::Result<Option<GlimpseSnapshot>> {
    read(connect(address)?)
}

/// Logs in at `socket` and reads a snapshot.
pub(crate) fn read(mut socket: impl Read + Write) -> io::Result<Option<GlimpseSnapshot>> {
    let deadline = Instant::now() + ANSWER_PATIENCE;
    socket.write_all(&GlimpseLogin::default().packet())?;
    let (mut input, mut content) = (BufReader::new(socket), Vec::new());
    let (mut session, mut books) = (None, BookBuilder::default());
    while Instant::now() <= deadline {
        let mut header = [0; SOUP_HEADER_BYTES];
        input.read_exact(&mut header)?;
        let [high, low, packet_type] = header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        content.resize(length.checked_sub(1).ok_or_else(|| invalid("a packet states a length of 0 bytes"))?, 0);
        input.read_exact(&mut content)?;
        let packet = GlimpsePacket::decode(packet_type, &content).map_err(|error| invalid(&error.to_string()))?;
        match (packet, session) {
            (GlimpsePacket::LoginAccepted { session: accepted }, None) => session = Some(accepted),
            (GlimpsePacket::LoginRejected { reason: SESSION_NOT_AVAILABLE }, None) => return Ok(None),
            (GlimpsePacket::LoginRejected { reason }, None) => return Err(refused("login", reason)),
            (GlimpsePacket::Message(message), Some(_)) => {
                books.apply_itch(&message).map_err(|error| invalid(&error.to_string()))?;
            }
            (GlimpsePacket::Snapshot { next_number }, Some(session)) => {
                return Ok(Some(GlimpseSnapshot { session, next_number, books }));
            }
            (GlimpsePacket::Unknown, _) => {}
            (packet, _) => return Err(invalid(&format!("unexpected {packet:?} in a snapshot"))),
        }
    }
    Err(late())
}
