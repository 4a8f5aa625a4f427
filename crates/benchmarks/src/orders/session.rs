//! The client side of a session. Frames are made in advance, and replies are parsed no further than
//! needed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use pitwire_failure::Failure;

/// Timeout of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Open orders that a member of a load may have.
const MAX_OPEN_ORDERS: u32 = 100_000_000;
/// Size of the receive buffer in bytes.
const BUFFER: usize = 256 * 1024;

/// The venue under test, with the logins of its two demo accounts.
#[derive(Clone, Debug)]
pub struct BenchTarget {
    pub address: SocketAddr,
    /// Client id and secret of each account.
    pub logins: Vec<(String, String)>,
}

/// Returns a masked text frame. All frames have the same mask: only the cost of unmasking matters
/// here.
pub fn frame(text: &str) -> Vec<u8> {
    const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
    let mut out = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(len @ 0..=125) => out.push(0x80 | len),
        _ => {
            out.push(0x80 | 126);
            // Requests of this benchmark are below 64 KiB.
            out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Returns the frame of a JSON-RPC request. Every request has the id 7.
pub fn request(method: &str, params: &str) -> Vec<u8> {
    frame(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#))
}

/// An endless sequence of order frames over 500 prices. Request ids repeat, which the protocol
/// allows because replies come in order.
pub struct OrderFrames {
    frames: Vec<Vec<u8>>,
    next: usize,
}

impl OrderFrames {
    /// Makes the 500 frames.
    pub fn new() -> Self {
        let order = |level: usize| {
            // Prices from 100.00 in steps of 0.05 are far below the market, so the orders rest.
            let (whole, cents) = (100 + level / 20, level % 20 * 5);
            request(
                "private/buy",
                &format!(
                    r#"{{"instrument_name":"ETH_USDC","amount":0.001,"type":"limit","price":{whole}.{cents:02},"label":"bench"}}"#
                ),
            )
        };
        // 211 and 500 have no common divisor: consecutive orders have distant prices.
        OrderFrames { frames: (0..500).map(|n| order(n * 211 % 500)).collect(), next: 0 }
    }

    /// Returns the next frame.
    pub fn next(&mut self) -> &[u8] {
        self.next = (self.next + 1) % self.frames.len();
        &self.frames[self.next]
    }
}

/// A connection that is logged in.
pub struct BenchSession {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl BenchSession {
    /// Connects and logs in. An even `number` takes the first demo account, an odd one the second.
    ///
    /// # Errors
    ///
    /// Returns a failure if the venue cannot be reached or refuses the login.
    pub fn open(venue: &BenchTarget, number: usize) -> Result<BenchSession, Failure> {
        let stream = TcpStream::connect(venue.address).map_err(|error| {
            Failure::new(format!("cannot reach {}: {error}", venue.address)).remedy("start a venue there")
        })?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let mut session = BenchSession { stream, buffer: vec![0; BUFFER], start: 0, end: 0 };
        session.stream.write_all(
            format!(
                "GET /ws/api/v2 HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                venue.address
            )
            .as_bytes(),
        )?;
        while !session.buffer[..session.end].ends_with(b"\r\n\r\n") {
            session.fill()?;
        }
        session.end = 0;
        let Some((id, secret)) = venue.logins.get(number % venue.logins.len().max(1)) else {
            return Err(Failure::new("the benchmark has no login for the venue"));
        };
        session.ask(&request(
            "public/auth",
            &format!(r#"{{"grant_type":"client_credentials","client_id":"{id}","client_secret":"{secret}"}}"#),
        ))?;
        Ok(session)
    }

    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    ///
    /// Returns a failure if the reply is an error.
    pub fn ask(&mut self, frame: &[u8]) -> Result<String, Failure> {
        self.stream.write_all(frame)?;
        let reply = String::from_utf8_lossy(self.reply()?).into_owned();
        if reply.contains("\"result\"") { Ok(reply) } else { Err(Failure::new(format!("the venue refused: {reply}"))) }
    }

    /// Waits for one reply and returns its text.
    ///
    /// # Errors
    ///
    /// Returns a failure if the connection is broken or ended.
    pub fn reply(&mut self) -> Result<&[u8], Failure> {
        loop {
            if let Some((from, to)) = self.take()? {
                return Ok(&self.buffer[from..to]);
            }
            self.fill()?;
        }
    }

    /// Reads once and calls `visit` for each complete reply, with whether it is a result. Returns
    /// false if the socket had nothing to read.
    ///
    /// # Errors
    ///
    /// Returns a failure if the connection is broken or ended.
    pub fn drain(&mut self, mut visit: impl FnMut(bool)) -> Result<bool, Failure> {
        let is_more = match self.fill() {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => return Err(error.into()),
        };
        while let Some((from, to)) = self.take()? {
            visit(is_result(&self.buffer[from..to]));
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

    /// Returns the range of the payload of the next complete text frame.
    fn take(&mut self) -> Result<Option<(usize, usize)>, Failure> {
        let bytes = &self.buffer[self.start..self.end];
        let (header, len) = match *bytes {
            [_, 126, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
            [_, len @ 0..=125, ..] => (2, usize::from(len)),
            [_, 127, ..] => return Err(Failure::new("the venue sent a reply above 64 KiB, which no order causes")),
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

/// Returns whether a reply is a result.
pub fn is_result(reply: &[u8]) -> bool {
    reply.starts_with(br#"{"jsonrpc":"2.0","id":7,"result":"#)
}

/// Raises the limits of open orders of the members, because the orders of a load rest: an account
/// has at most 10,000 by default.
///
/// # Errors
///
/// Returns a failure if the venue cannot be reached, or refuses the operator or the change.
pub fn raise_limits(venue: &BenchTarget, operator: (String, String)) -> Result<(), Failure> {
    let operator = BenchTarget { address: venue.address, logins: vec![operator] };
    let mut session = BenchSession::open(&operator, 0)?;
    for (name, _) in &venue.logins {
        let params = format!(r#"{{"name":"{name}","max_open_orders":{MAX_OPEN_ORDERS}}}"#);
        session.ask(&request("private/pitwire_change_account", &params))?;
    }
    Ok(())
}

/// Cancels all orders of both demo accounts.
///
/// # Errors
///
/// Returns a failure if the venue cannot be reached or refuses the request.
pub fn cancel_all(venue: &BenchTarget) -> Result<(), Failure> {
    for account in 0..2 {
        BenchSession::open(venue, account)?.ask(&request("private/cancel_all", "{}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_with_an_error_is_not_a_result() {
        assert!(is_result(br#"{"jsonrpc":"2.0","id":7,"result":{"order":{}}}"#));
        assert!(!is_result(br#"{"jsonrpc":"2.0","id":7,"error":{"code":10009}}"#));
        assert!(!is_result(b"{}"));
    }

    #[test]
    fn a_frame_is_masked_and_has_its_length() {
        assert_eq!(frame("a"), [0x81, 0x81, 0x12, 0x34, 0x56, 0x78, b'a' ^ 0x12]);
        let long = frame(&"x".repeat(300));
        assert_eq!((&long[..4], long.len()), (&[0x81, 0xFE, 1, 44][..], 308));
    }

    #[test]
    fn five_hundred_orders_have_distinct_prices() {
        let mut orders = OrderFrames::new();
        let all: std::collections::BTreeSet<Vec<u8>> = (0..500).map(|_| orders.next().to_vec()).collect();
        assert_eq!(all.len(), 500);
    }
}
