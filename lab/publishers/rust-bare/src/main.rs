//! The lower bound: a loop that sends each message to each socket with one call, on one thread.
//!
//! It leaves out what a server needs: checks of handshakes and frames, pings, timeouts, fairness. A
//! connection whose socket is full misses messages until the rest of the last one has left.

use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use sha1::{Digest, Sha1};

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

enum Test {
    Echo,
    Heartbeat(Vec<u8>), // all answers to one heartbeat
    FanOut,
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    is_open: bool,
    /// The part of the last write that did not fit.
    rest: Vec<u8>,
}

fn number(name: &str) -> usize {
    let text = env::var(name).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("invalid {name} {text:?}: expected a whole number"))
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x81];
    match payload.len() {
        short @ 0..=125 => out.push(short as u8),
        medium @ 126..=65_535 => {
            out.push(126);
            out.extend((medium as u16).to_be_bytes());
        }
        long => {
            out.push(127);
            out.extend((long as u64).to_be_bytes());
        }
    }
    out.extend(payload);
    out
}

/// Returns the 101 response to a complete request.
fn handshake(input: &[u8]) -> Option<Vec<u8>> {
    let head = String::from_utf8_lossy(input);
    let head = head.strip_suffix("\r\n\r\n")?;
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
    })?;
    let digest = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    let accept = base64::engine::general_purpose::STANDARD.encode(digest);
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
    Some(format!("{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes())
}

/// Returns the opcode, the unmasked payload and the length of the frame at the front, if it is
/// complete. Messages from 64 KiB on do not occur.
fn next_frame(input: &[u8]) -> Option<(u8, Vec<u8>, usize)> {
    let [first, second, ..] = *input else { return None };
    let (header, len) = match second & 0x7F {
        126 => (8, usize::from(u16::from_be_bytes([*input.get(2)?, *input.get(3)?]))),
        short => (6, usize::from(short)),
    };
    let body = input.get(header..header + len)?;
    let mask = &input[header - 4..header];
    let payload = body.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Some((first & 0x0F, payload, header + len))
}

impl Connection {
    /// Sends `bytes`, or nothing if an earlier message is not complete.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.rest.is_empty() { self.send(bytes) } else { Ok(()) }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.stream.write(bytes) {
            Ok(sent) => self.rest.extend(&bytes[sent..]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.rest.extend(bytes),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads and writes until the socket has nothing more to do.
    fn advance(&mut self, test: &Test, buffer: &mut [u8]) -> io::Result<()> {
        while !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            self.send(&rest)?;
            if self.rest.len() == rest.len() {
                break;
            }
        }
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(received) => self.input.extend(&buffer[..received]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if !self.is_open {
                let Some(response) = handshake(&self.input) else { continue };
                self.is_open = true;
                self.input.clear();
                self.write(&response)?;
            }
            while let Some((opcode, payload, len)) = next_frame(&self.input) {
                self.input.drain(..len);
                match (opcode, test) {
                    (8, _) => return Err(ErrorKind::UnexpectedEof.into()),
                    (1, Test::Echo) => self.write(&frame(&payload))?,
                    (1, Test::Heartbeat(answers)) => self.write(answers)?,
                    _ => {}
                }
            }
        }
    }
}

fn generate(rate: f64, bytes: usize, frames: &mpsc::Sender<Vec<u8>>, waker: &Waker) -> io::Result<()> {
    let start = Instant::now();
    let start_realtime = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for sequence in 1_u64.. {
        let due = Duration::from_secs_f64(sequence as f64 / rate);
        std::thread::sleep((start + due).saturating_duration_since(Instant::now()));
        let due_ns = (start_realtime + due).as_nanos();
        let head = format!(r#"{{"seq":{sequence},"ts_ns":{due_ns},"pad":""#);
        let pad = bytes.saturating_sub(head.len() + 2);
        if frames.send(frame(format!("{head}{:x<pad$}\"}}", "").as_bytes())).is_err() {
            break;
        }
        waker.wake()?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let name = env::var("LAB_TEST").unwrap_or_default();
    let test = match name.as_str() {
        "echo" => Test::Echo,
        "heartbeat" => Test::Heartbeat(frame(&vec![b'x'; number("LAB_BYTES")]).repeat(number("LAB_MESSAGES"))),
        "fan-out" => Test::FanOut,
        _ => {
            eprintln!("invalid LAB_TEST {name:?}: expected echo, heartbeat or fan-out");
            std::process::exit(2);
        }
    };
    let host = env::var("LAB_HOST").unwrap_or_default();
    let listener = std::net::TcpListener::bind(format!("{host}:{}", number("LAB_PORT")))?;
    listener.set_nonblocking(true)?;
    let (path, address) = (env::var("LAB_READY_FILE").unwrap_or_default(), listener.local_addr()?);
    std::fs::write(format!("{path}.unfinished"), format!(r#"{{"http":"{address}"}}"#))?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
    let (sender, frames) = mpsc::channel();
    if matches!(test, Test::FanOut) {
        let (rate, bytes, waker) = (number("LAB_RATE") as f64, number("LAB_BYTES"), Arc::clone(&waker));
        std::thread::spawn(move || generate(rate, bytes, &sender, &waker));
    }
    std::fs::rename(format!("{path}.unfinished"), &path)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; 16 * 1024]);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let token = Token(connections.len());
                    poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                    connections.push(Some(Connection { stream, input: Vec::new(), is_open: false, rest: Vec::new() }));
                }
            } else if let Some(slot) = connections.get_mut(event.token().0) {
                let has_ended = slot.as_mut().is_some_and(|it| it.advance(&test, &mut buffer).is_err());
                slot.take_if(|_| has_ended);
            }
        }
        for frame in frames.try_iter() {
            for slot in &mut connections {
                slot.take_if(|it| it.is_open && it.write(&frame).is_err());
            }
        }
    }
}
