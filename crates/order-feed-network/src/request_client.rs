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

type MoldSession = [u8; MOLD_SESSION_BYTES];

/// Session of a packet, compared with that of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketSession {
    /// The session of the reader, or not a packet of a venue.
    Current,
    /// The venue may have started again.
    New,
    /// A session that a snapshot has shown not to be the venue's: the one before, or a forged one.
    Past,
}

pub(crate) struct RequestClient {
    socket: UdpSocket,
    session: Option<MoldSession>,
    past: Option<MoldSession>,
    /// Sessions since the last snapshot: that of the reader, and that of the packet that ended it.
    left: [Option<MoldSession>; 2],
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
        Ok(RequestClient { socket, session: None, past: None, left: [None; 2], unanswered: 0 })
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

    /// Reads the session of a snapshot from now on.
    pub fn follow(&mut self, session: MoldSession) {
        let left = std::mem::take(&mut self.left);
        self.past = left.into_iter().flatten().rfind(|left| *left != session).or(self.past);
        self.session = Some(session);
        self.unanswered = 0;
    }

    /// Forgets the session until the next snapshot. `packet` has the session that ends it.
    pub fn leave(&mut self, packet: Option<&[u8]>) {
        let before = self.session.take().or(self.left[0]);
        let new = packet.and_then(MoldHeader::read).map(|header| header.session);
        // Packets of the session before may still come until the snapshot.
        self.left = [before, new.filter(|new| Some(*new) != before).or(self.left[1])];
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

#[cfg(test)]
mod tests {
    use pitwire_order_feed::MoldWriter;

    use super::PacketSession::{Current, New, Past};
    use super::*;

    #[test]
    fn a_snapshot_decides_which_session_is_the_venues() {
        let mut client = RequestClient::open((Ipv4Addr::LOCALHOST, 9).into()).unwrap();
        let [first, second, forged] = [*b"0000000001", *b"0000000002", *b"9999999999"];
        let kinds = |client: &RequestClient| {
            [first, second, forged].map(|session| client.session_of(&MoldWriter::new(session).heartbeat()))
        };
        assert_eq!(kinds(&client), [New, New, New]);
        client.follow(first);
        assert_eq!(kinds(&client), [Current, New, New]);
        // The venue has not started again.
        client.leave(Some(&MoldWriter::new(forged).heartbeat()));
        assert!(!client.has_session());
        client.leave(Some(&MoldWriter::new(first).heartbeat()));
        client.follow(first);
        assert_eq!(kinds(&client), [Current, New, Past]);
        // It has.
        client.leave(Some(&MoldWriter::new(second).heartbeat()));
        client.follow(second);
        assert_eq!(kinds(&client), [Past, Current, New]);
        // A message did not fit.
        client.leave(None);
        client.follow(second);
        assert_eq!(kinds(&client), [Past, Current, New]);
    }
}
