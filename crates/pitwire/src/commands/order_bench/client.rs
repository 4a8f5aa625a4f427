//! The client's side of a session: frames made beforehand, replies looked at no further than needed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::venue::preset;
use pitwire_failure::Failure;

const PATIENCE: Duration = Duration::from_secs(30);
const BUFFER: usize = 256 * 1024;

/// A text frame as a client must send it. The mask is the same for all: its cost is what matters here.
pub fn frame(text: &str) -> Vec<u8> {
    const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
    let mut out = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(len @ 0..=125) => out.push(0x80 | len),
        _ => {
            out.push(0x80 | 126);
            // Requests of this bench are below 64 KiB.
            out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

pub fn request(method: &str, params: &str) -> Vec<u8> {
    frame(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#))
}

/// Orders over five hundred prices, endlessly. Ids repeat, as the dialect allows: replies come in order.
pub struct Orders {
    frames: Vec<Vec<u8>>,
    next: usize,
}

impl Orders {
    pub fn new() -> Self {
        let order = |level: usize| {
            // 100.00 and up, in steps of 0.05: far from where anything trades, and cheap to keep at rest.
            let (whole, cents) = (100 + level / 20, level % 20 * 5);
            request(
                "private/buy",
                &format!(
                    r#"{{"instrument_name":"ETH_USDC","amount":0.001,"type":"limit","price":{whole}.{cents:02},"label":"bench"}}"#
                ),
            )
        };
        // 211 has no divisor in common with 500: neighbours in time are not neighbours in price.
        Orders { frames: (0..500).map(|n| order(n * 211 % 500)).collect(), next: 0 }
    }

    pub fn next(&mut self) -> &[u8] {
        self.next = (self.next + 1) % self.frames.len();
        &self.frames[self.next]
    }
}

/// One connection, logged in.
pub struct Session {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Session {
    /// `number` decides between the demo accounts.
    pub fn open(venue: SocketAddr, number: usize) -> Result<Session, Failure> {
        let stream = TcpStream::connect(venue)
            .map_err(|error| Failure::new(format!("cannot reach {venue}: {error}")).remedy("start a venue there"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut session = Session { stream, buffer: vec![0; BUFFER], start: 0, end: 0 };
        session.stream.write_all(
            format!(
                "GET /ws/api/v2 HTTP/1.1\r\nHost: {venue}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            .as_bytes(),
        )?;
        while !session.buffer[..session.end].ends_with(b"\r\n\r\n") {
            session.fill()?;
        }
        session.end = 0;
        let (id, secret) = &preset::demo().logins[number % 2];
        session.ask(&request(
            "public/auth",
            &format!(r#"{{"grant_type":"client_credentials","client_id":"{id}","client_secret":"{secret}"}}"#),
        ))?;
        Ok(session)
    }

    /// Sends one request and waits for its reply, which must be a result.
    pub fn ask(&mut self, frame: &[u8]) -> Result<String, Failure> {
        self.stream.write_all(frame)?;
        let reply = String::from_utf8_lossy(self.reply()?).into_owned();
        if reply.contains("\"result\"") { Ok(reply) } else { Err(Failure::new(format!("the venue refused: {reply}"))) }
    }

    /// Waits for one reply.
    pub fn reply(&mut self) -> Result<&[u8], Failure> {
        loop {
            if let Some((from, to)) = self.take()? {
                return Ok(&self.buffer[from..to]);
            }
            self.fill()?;
        }
    }

    /// Takes what has arrived: `seen` learns of each reply whether it was a result. `false` when nothing is there.
    pub fn drain(&mut self, mut seen: impl FnMut(bool)) -> Result<bool, Failure> {
        let is_more = match self.fill() {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => return Err(error.into()),
        };
        while let Some((from, to)) = self.take()? {
            seen(is_result(&self.buffer[from..to]));
        }
        Ok(is_more)
    }

    fn fill(&mut self) -> std::io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.stream.read(&mut self.buffer[self.end..])? {
            0 => Err(std::io::Error::new(ErrorKind::UnexpectedEof, "the venue closed the connection")),
            read => {
                self.end += read;
                Ok(())
            }
        }
    }

    /// The place of the next whole text frame's payload.
    fn take(&mut self) -> Result<Option<(usize, usize)>, Failure> {
        let bytes = &self.buffer[self.start..self.end];
        let (header, len) = match *bytes {
            [_, 126, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
            [_, len @ 0..=125, ..] => (2, usize::from(len)),
            [_, 127, ..] => return Err(Failure::new("a reply larger than an order's")),
            _ => return Ok(None),
        };
        if bytes.len() < header + len {
            return Ok(None);
        }
        if bytes[0] != 0x81 {
            return Err(Failure::new(format!("the venue closed: {}", String::from_utf8_lossy(&bytes[header..]))));
        }
        let from = self.start + header;
        self.start = from + len;
        Ok(Some((from, from + len)))
    }
}

pub fn is_result(reply: &[u8]) -> bool {
    reply.starts_with(br#"{"jsonrpc":"2.0","id":7,"result":"#)
}

/// Takes all orders of both demo accounts out again.
pub fn cancel_all(venue: SocketAddr) -> Result<(), Failure> {
    for account in 0..2 {
        Session::open(venue, account)?.ask(&request("private/cancel_all", "{}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_from_errors() {
        assert!(is_result(br#"{"jsonrpc":"2.0","id":7,"result":{"order":{}}}"#));
        assert!(!is_result(br#"{"jsonrpc":"2.0","id":7,"error":{"code":10009}}"#));
        assert!(!is_result(b"{}"));
    }

    #[test]
    fn a_frame_is_masked_and_says_its_length() {
        assert_eq!(frame("a"), [0x81, 0x81, 0x12, 0x34, 0x56, 0x78, b'a' ^ 0x12]);
        let long = frame(&"x".repeat(300));
        assert_eq!((&long[..4], long.len()), (&[0x81, 0xFE, 1, 44][..], 308));
    }

    #[test]
    fn orders_differ_in_price_and_come_round() {
        let mut orders = Orders::new();
        let all: std::collections::BTreeSet<Vec<u8>> = (0..500).map(|_| orders.next().to_vec()).collect();
        assert_eq!(all.len(), 500);
    }
}
