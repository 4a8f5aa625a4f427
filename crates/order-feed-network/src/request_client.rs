//! A reader's requests for missed packets of MoldUDP64, and the session that it reads.
//!
//! Start at    [`RequestClient::request`].

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use pitwire_order_feed::{MAX_UNIT_BYTES, MOLD_SESSION_BYTES, MoldHeader, MoldKind, MoldPacket};

/// Longest wait for an answer. The venue does not answer a request above its limits.
const PATIENCE: Duration = Duration::from_millis(50);
/// Most messages that a request names.
const MAX_MESSAGES: u64 = 60_000;
const MAX_LATE_ANSWERS: usize = 16;

/// Session of a packet, compared with that of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketSession {
    /// The session of the reader, or no packet at all.
    Current,
    /// The venue has started, or started again.
    New,
    /// The session before the current one.
    Past,
}

pub(crate) struct RequestClient {
    socket: UdpSocket,
    session: Option<[u8; MOLD_SESSION_BYTES]>,
    past: Option<[u8; MOLD_SESSION_BYTES]>,
    /// Requests without an answer since the last answer.
    pub unanswered: u32,
}

impl RequestClient {
    pub fn open(address: SocketAddr) -> io::Result<RequestClient> {
        let own: SocketAddr =
            if address.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(own)?;
        // Only datagrams of the venue's port are received.
        socket.connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(RequestClient { socket, session: None, past: None, unanswered: 0 })
    }

    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Compares the session of a packet with that of the reader.
    pub fn session_of(&self, packet: &[u8]) -> PacketSession {
        let Some(MoldHeader { session, .. }) = MoldHeader::read(packet) else { return PacketSession::Current };
        if Some(session) == self.session {
            return PacketSession::Current;
        }
        match MoldPacket::read(packet) {
            Some(_) if Some(session) == self.past => PacketSession::Past,
            Some(packet) if packet.kind != MoldKind::Request => PacketSession::New,
            _ => PacketSession::Current,
        }
    }

    /// Begins to read the session of a packet.
    pub fn follow(&mut self, packet: &[u8]) {
        self.past = self.session.take().or(self.past);
        self.session = MoldHeader::read(packet).map(|header| header.session);
        self.unanswered = 0;
    }

    /// Forgets the session, so that the next packet of it starts the reader anew.
    pub fn leave(&mut self) {
        self.session = None;
    }

    /// Requests messages, and waits for the packet that begins with the first one. `None` if no
    /// valid answer comes.
    pub fn request(&mut self, first: u64, count: u64) -> Option<Vec<u8>> {
        let message_count = u16::try_from(count.min(MAX_MESSAGES)).unwrap_or(1);
        let header = MoldHeader { session: self.session?, sequence_number: first, message_count };
        self.unanswered += 1;
        // A venue that has stopped is an error here, as a lost datagram is none.
        self.socket.send(&header.bytes()).ok()?;
        let mut packet = vec![0; MAX_UNIT_BYTES];
        // Late answers to earlier requests may come first.
        for _ in 0..MAX_LATE_ANSWERS {
            let length = self.socket.recv(&mut packet).ok()?;
            let answer = packet.get(..length).and_then(MoldPacket::read);
            if answer.is_some_and(|answer| answer.kind == MoldKind::Messages && is_start(&answer.header, &header)) {
                self.unanswered = 0;
                packet.truncate(length);
                return Some(packet);
            }
        }
        None
    }
}

/// Returns whether an answer begins with the first requested message.
fn is_start(answer: &MoldHeader, request: &MoldHeader) -> bool {
    (answer.session, answer.sequence_number) == (request.session, request.sequence_number)
}
