//! The lower bound: the cost of a program that only sends each message to each socket, with one
//! call each.
//!
//! Does        accept, answer the handshake, then `send` every message to every connection in turn,
//!             without a copy, on one thread, as a loop in C would; with `--respond`, one call for
//!             the whole answer.
//! Leaves out  everything a server needs beside: checks of the handshake and of frames, pings,
//!             time-outs, fairness. A connection whose socket is full misses messages until the
//!             rest of the last one has gone.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use base64::Engine as _;
use clap::Parser;
use pitwire_publication_peers::{Options, Pace, listen, say_ready};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use sha1::{Digest, Sha1};

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    is_open: bool,
    /// What of the last message did not fit.
    rest: Vec<u8>,
}

struct Bare {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    answer: Vec<u8>,
    scratch: Vec<u8>,
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

fn accept_value(key: &[u8]) -> String {
    let digest = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    base64::engine::general_purpose::STANDARD.encode(digest)
}

/// The 101 for a request that is complete.
fn handshake(input: &[u8]) -> Option<Vec<u8>> {
    let end = input.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&input[..end]);
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
    })?;
    let accept = accept_value(key.as_bytes());
    Some(
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        )
        .into_bytes(),
    )
}

/// Bytes of the masked frame at the front, if it is whole, and its opcode. Longer ones than 64 KiB
/// do not occur.
fn whole_frame(input: &[u8]) -> Option<(usize, u8)> {
    let [first, second, ..] = *input else { return None };
    let (header, len) = match second & 0x7F {
        126 => (8, usize::from(u16::from_be_bytes([*input.get(2)?, *input.get(3)?]))),
        short => (6, usize::from(short)),
    };
    (input.len() >= header + len).then_some((header + len, first & 0x0F))
}

impl Connection {
    /// Whether it lives on.
    fn write(&mut self, bytes: &[u8]) -> bool {
        if !self.rest.is_empty() {
            return true;
        }
        match send(&self.stream, bytes, SEND) {
            Ok(sent) if sent == bytes.len() => true,
            Ok(sent) => {
                self.rest.extend(&bytes[sent..]);
                true
            }
            Err(Errno::AGAIN) => true,
            Err(_) => false,
        }
    }

    fn write_rest(&mut self) -> bool {
        match send(&self.stream, &self.rest, SEND) {
            Ok(sent) => {
                self.rest.drain(..sent);
                true
            }
            Err(Errno::AGAIN) => true,
            Err(_) => false,
        }
    }
}

impl Bare {
    fn watch(&self, stream: &TcpStream, flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(stream.as_raw_fd() as u64);
        Ok(epoll::modify(&self.epoll, stream, data, flags)?)
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            let at = stream.as_raw_fd() as usize;
            epoll::add(&self.epoll, &stream, EventData::new_u64(at as u64), EventFlags::IN)?;
            if self.connections.len() <= at {
                self.connections.resize_with(at + 1, || None);
            }
            self.connections[at] = Some(Connection { stream, input: Vec::new(), is_open: false, rest: Vec::new() });
        }
        Ok(())
    }

    /// Whether it lives on.
    fn read(&mut self, at: usize) -> bool {
        let Some(connection) = self.connections[at].as_mut() else { return true };
        match recv(&connection.stream, &mut self.scratch[..], RecvFlags::empty()) {
            Ok((_, 0)) => return false,
            Ok((_, received)) => connection.input.extend(&self.scratch[..received]),
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
        if !connection.is_open {
            let Some(reply) = handshake(&connection.input) else { return true };
            connection.is_open = true;
            connection.input.clear();
            return connection.write(&reply);
        }
        while let Some((bytes, opcode)) = whole_frame(&connection.input) {
            connection.input.drain(..bytes);
            if opcode == 8 || (opcode == 1 && !connection.write(&self.answer)) {
                return false;
            }
        }
        if !connection.rest.is_empty() {
            let connection = self.connections[at].as_ref();
            let _ = connection.map(|connection| self.watch(&connection.stream, EventFlags::IN | EventFlags::OUT));
        }
        true
    }

    fn write_rest(&mut self, at: usize) -> bool {
        let Some(connection) = self.connections[at].as_mut() else { return true };
        let lives = connection.write_rest();
        if connection.rest.is_empty() {
            let _ = self.connections[at].as_ref().map(|connection| self.watch(&connection.stream, EventFlags::IN));
        }
        lives
    }

    fn fan_out(&mut self, bytes: &[u8]) {
        for at in 0..self.connections.len() {
            let Some(connection) = self.connections[at].as_mut() else { continue };
            if !connection.is_open {
                continue;
            }
            let had_rest = !connection.rest.is_empty();
            if !connection.write(bytes) {
                self.connections[at] = None;
            } else if !had_rest && !connection.rest.is_empty() {
                let connection = self.connections[at].as_ref();
                let _ = connection.map(|connection| self.watch(&connection.stream, EventFlags::IN | EventFlags::OUT));
            }
        }
    }

    fn handle(&mut self, token: u64, flags: EventFlags) -> io::Result<()> {
        if token == LISTENER {
            return self.accept();
        }
        let at = token as usize;
        let readable = flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR);
        let lives = (!readable || self.read(at)) && (!flags.contains(EventFlags::OUT) || self.write_rest(at));
        if !lives {
            self.connections[at] = None;
        }
        Ok(())
    }
}

fn after(now: Instant, due: Instant) -> Itimerspec {
    // Zero would disarm it.
    let wait = due.saturating_duration_since(now).max(Duration::from_nanos(1));
    let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value }
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let listener = listen(options.listen)?;
    let address = listener.local_addr()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
    let answer =
        options.respond.map_or_else(Vec::new, |answer| frame(&vec![b'x'; answer.bytes]).repeat(answer.messages));
    let mut bare = Bare { epoll, listener, connections: Vec::new(), answer, scratch: vec![0; 16 * 1024] };
    let mut pace = options.synthetic.map(|rate| Pace::new(rate, options.bytes));
    say_ready(options.ready_file.as_deref(), address)?;
    let mut events = Vec::with_capacity(1024);
    loop {
        if let Some(pace) = &mut pace {
            while pace.due() <= Instant::now() {
                let message = frame(pace.next_message().as_bytes());
                bare.fan_out(&message);
            }
            rustix::time::timerfd_settime(&timer, TimerfdTimerFlags::empty(), &after(Instant::now(), pace.due()))?;
        }
        events.clear();
        epoll::wait(&bare.epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            if event.data.u64() != TIMER {
                bare.handle(event.data.u64(), event.flags)?;
            }
        }
    }
}
