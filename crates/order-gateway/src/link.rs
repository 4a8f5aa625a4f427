//! One WebSocket to the venue, plain or through TLS, without its socket.
//!
//! Does        performs the handshakes, finds the texts in received bytes, and writes frames.
//! Start at    [`VenueLink::open`] and [`VenueLink::receive`].

use std::sync::Arc;

use pitwire_tls::{ClientConfig, ClientSession};
use pitwire_websocket::{
    Address, ClientHandshake, Decoder, IncomingMessage, MessageLimits, Opcode, ProtocolError, write_masked,
};

/// Largest answer of the venue. Lists of orders and trades can be long, because the venue sets no
/// limit for them.
const LIMITS: MessageLimits = MessageLimits { message_bytes: 1 << 30, fragments: u32::MAX };
/// Bytes of texts that wait for the handshake.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// A connection to the venue. All its methods append the bytes that have to be sent to `out`.
#[derive(Debug)]
pub(crate) struct VenueLink {
    tls: Option<Box<ClientSession>>,
    stage: LinkStage,
}

#[derive(Debug)]
enum LinkStage {
    Opening(Box<Opening>),
    Open(Box<Decoder>),
}

/// The handshake of a WebSocket.
#[derive(Debug)]
struct Opening {
    handshake: ClientHandshake,
    /// The request was written. With TLS it waits for the handshake of TLS.
    is_asked: bool,
    /// Bytes of the response.
    received: Vec<u8>,
    /// Texts that are sent after the handshake.
    waiting: Vec<String>,
}

impl VenueLink {
    /// Starts the handshake with the venue at `address`.
    ///
    /// # Errors
    /// The host cannot stand in a certificate, or the machine has no random numbers.
    pub fn open(address: &Address, tls: Option<&Arc<ClientConfig>>, out: &mut Vec<u8>) -> Result<Self, String> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let handshake = ClientHandshake::new(address, nonce, None, None);
        let session = tls.map(|config| ClientSession::open(config, &address.host)).transpose();
        let mut tls = session.map_err(no_tls)?.map(Box::new);
        match &mut tls {
            Some(session) => session.receive(&mut [], &mut Vec::new(), out).map_err(no_tls)?,
            None => out.extend_from_slice(handshake.request()),
        }
        let opening = Opening { handshake, is_asked: tls.is_none(), received: Vec::new(), waiting: Vec::new() };
        Ok(VenueLink { tls, stage: LinkStage::Opening(Box::new(opening)) })
    }

    /// Says whether the handshakes are done.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, LinkStage::Open(_))
    }

    /// Sends a text. It waits until the link is open.
    ///
    /// # Errors
    /// Too many texts wait, or the machine has no random numbers.
    pub fn send(&mut self, text: String, out: &mut Vec<u8>) -> Result<(), String> {
        let LinkStage::Opening(opening) = &mut self.stage else {
            return write(self.tls.as_deref_mut(), Opcode::Text, text.as_bytes(), out);
        };
        opening.waiting.push(text);
        if opening.waiting.iter().map(String::len).sum::<usize>() > WAITING_BYTES_MAX {
            return Err("too many requests wait for the venue's handshake".into());
        }
        Ok(())
    }

    /// Sends a ping, which counts as activity.
    ///
    /// # Errors
    /// The machine has no random numbers.
    pub fn ping(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        if self.is_open() { write(self.tls.as_deref_mut(), Opcode::Ping, b"", out) } else { Ok(()) }
    }

    /// Acts on received bytes, and passes each text to `take`.
    ///
    /// # Errors
    /// Why the connection ends.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, mut take: impl FnMut(&str)) -> Result<(), String> {
        let Some(session) = &mut self.tls else { return self.receive_plain(bytes, out, &mut take) };
        let mut plain = Vec::new();
        session.receive(&mut bytes.to_vec(), &mut plain, out).map_err(no_tls)?;
        let is_ended = session.is_ended();
        if let LinkStage::Opening(opening) = &mut self.stage
            && !opening.is_asked
            && session.is_open()
        {
            opening.is_asked = true;
            session.seal(opening.handshake.request(), out).map_err(no_tls)?;
        }
        self.receive_plain(&plain, out, &mut take)?;
        if is_ended { Err("the venue closed the connection".into()) } else { Ok(()) }
    }

    fn receive_plain(&mut self, bytes: &[u8], out: &mut Vec<u8>, take: &mut impl FnMut(&str)) -> Result<(), String> {
        let LinkStage::Opening(opening) = &mut self.stage else { return self.decode(bytes, out, take) };
        opening.received.extend_from_slice(bytes);
        let opened = opening.handshake.judge(&opening.received);
        let opened = opened.map_err(|refusal| format!("the venue opens no WebSocket: {refusal}"))?;
        let Some(opened) = opened else { return Ok(()) };
        let frames = opening.received.split_off(opened.head_bytes);
        let waiting = std::mem::take(&mut opening.waiting);
        self.stage = LinkStage::Open(Box::new(Decoder::of_server(LIMITS)));
        waiting.into_iter().try_for_each(|text| self.send(text, out))?;
        self.decode(&frames, out, take)
    }

    fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>, take: &mut impl FnMut(&str)) -> Result<(), String> {
        let VenueLink { tls, stage: LinkStage::Open(decoder) } = self else { return Ok(()) };
        let broken = |error: ProtocolError| format!("the venue breaks the WebSocket protocol: {error}");
        let mut at = 0;
        while at < bytes.len() {
            let (used, message) = decoder.decode(&bytes[at..]).map_err(broken)?;
            at += used;
            match message {
                Some(IncomingMessage::Text(text)) => take(text),
                Some(IncomingMessage::Ping(body)) => write(tls.as_deref_mut(), Opcode::Pong, body, out)?,
                Some(IncomingMessage::Close(_)) => return Err("the venue closed the connection".into()),
                Some(IncomingMessage::Binary(_) | IncomingMessage::Pong) => {}
                None => break,
            }
        }
        decoder.forget();
        Ok(())
    }
}

/// Writes a frame.
fn write(tls: Option<&mut ClientSession>, opcode: Opcode, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut mask = [0; 4];
    getrandom::fill(&mut mask).map_err(|error| error.to_string())?;
    let Some(session) = tls else {
        write_masked(out, opcode, body, mask);
        return Ok(());
    };
    let mut frame = Vec::new();
    write_masked(&mut frame, opcode, body, mask);
    session.seal(&frame, out).map_err(no_tls)
}

fn no_tls(error: impl std::fmt::Display) -> String {
    format!("no TLS with the venue: {error}")
}

#[cfg(test)]
mod tests {
    use pitwire_tls::{Authority, ServerSession, Tickets, Trust, client_config, issue_server_config};
    use pitwire_websocket::head::{self, HeadLimits, HeadParseResult};
    use pitwire_websocket::{CloseCode, write_close, write_frame};

    use super::*;

    /// The venue's end of a link.
    struct TestVenue {
        tls: Option<ServerSession>,
        plain: Vec<u8>,
    }

    impl TestVenue {
        /// Takes bytes that the link has sent, and returns the answer of the TLS handshake to them.
        fn take(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
            let mut reply = Vec::new();
            match &mut self.tls {
                Some(session) => session.receive(bytes, &mut self.plain, &mut reply).unwrap(),
                None => self.plain.append(bytes),
            }
            bytes.clear();
            reply
        }

        fn sealed(&mut self, plain: Vec<u8>) -> Vec<u8> {
            let Some(session) = &mut self.tls else { return plain };
            let mut sealed = Vec::new();
            session.seal(&plain, &mut sealed).unwrap();
            sealed
        }
    }

    fn exchange(url: &str, tls: Option<(Arc<ClientConfig>, ServerSession)>) {
        let (client, server) = tls.unzip();
        let mut venue = TestVenue { tls: server, plain: Vec::new() };
        let mut out = Vec::new();
        let mut link = VenueLink::open(&Address::parse(url).unwrap(), client.as_ref(), &mut out).unwrap();
        link.send("first".into(), &mut out).unwrap();
        while !venue.plain.ends_with(b"\r\n\r\n") {
            let reply = venue.take(&mut out);
            link.receive(&reply, &mut out, |_| panic!("no text was sent")).unwrap();
        }
        assert!(!link.is_open());
        let HeadParseResult::Head(head) = head::parse(&venue.plain, &HeadLimits::default()) else {
            panic!("no request: {:?}", venue.plain)
        };
        let mut response = Vec::new();
        head.upgrade(None).unwrap().write(&mut response);
        venue.plain.clear();
        write_frame(&mut response, Opcode::Text, b"one");
        write_frame(&mut response, Opcode::Ping, b"p");
        write_frame(&mut response, Opcode::Text, b"two");
        let mut texts = Vec::new();
        for byte in venue.sealed(response) {
            link.receive(&[byte], &mut out, |text| texts.push(text.to_owned())).unwrap();
        }
        assert!(link.is_open());
        assert_eq!(texts, ["one", "two"]);
        link.send("second".into(), &mut out).unwrap();
        link.ping(&mut out).unwrap();
        venue.take(&mut out);
        // What waited leaves first. A client's frames are masked.
        let mut decoder = Decoder::new(MessageLimits::default());
        let mut at = 0;
        for expected in [
            IncomingMessage::Text("first"),
            IncomingMessage::Pong,
            IncomingMessage::Text("second"),
            IncomingMessage::Ping(b""),
        ] {
            let (used, message) = decoder.decode(&venue.plain[at..]).unwrap();
            assert_eq!(message, Some(expected));
            at += used;
        }
        assert_eq!(at, venue.plain.len());
        let mut close_frame = Vec::new();
        write_close(&mut close_frame, CloseCode::GoingAway, "");
        let close_frame = venue.sealed(close_frame);
        assert!(link.receive(&close_frame, &mut out, |_| {}).unwrap_err().contains("closed the connection"));
    }

    #[test]
    fn texts_pass_in_order_however_the_bytes_are_cut() {
        exchange("ws://127.0.0.1:80/", None);
    }

    #[test]
    fn texts_pass_through_tls() {
        let authority = Authority::generate().unwrap();
        let server = issue_server_config(&authority.key, &["127.0.0.1".into()], 1_700_000_000).unwrap();
        let client = client_config(Trust::Anybody, Tickets::Few).unwrap();
        exchange("wss://127.0.0.1:443/", Some((client, ServerSession::new(&server).unwrap())));
    }

    #[test]
    fn answer_that_opens_no_websocket_is_named() {
        let mut out = Vec::new();
        let mut link = VenueLink::open(&Address::parse("ws://127.0.0.1:80/").unwrap(), None, &mut out).unwrap();
        let refused = link.receive(b"HTTP/1.1 404 Not Found\r\n\r\n", &mut out, |_| {}).unwrap_err();
        assert!(refused.contains("404"), "{refused}");
    }

    #[test]
    fn texts_that_wait_for_the_handshake_are_bounded() {
        let mut out = Vec::new();
        let mut link = VenueLink::open(&Address::parse("ws://127.0.0.1:80/").unwrap(), None, &mut out).unwrap();
        link.send("x".repeat(WAITING_BYTES_MAX), &mut out).unwrap();
        assert!(link.send("x".into(), &mut out).is_err());
    }
}
