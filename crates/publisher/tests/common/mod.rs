//! Test fixture: a subscriber on a raw socket, and a publisher of one stream.

#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use pitwire_net::HttpResponse;
use pitwire_publisher::{
    ClientMessage, DeliveryHandler, LagPolicy, LoopKind, MessageBatch, Options, Publisher, Reply, Request, StreamId,
    StreamSpec, SubscriberId, SubscriberSetup,
};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A handler that maps every path to the one stream and echoes messages.
#[derive(Default)]
pub struct OneStreamHandler {
    pub stream: OnceLock<StreamId>,
    /// Messages that wait to be handled, with their senders.
    pub waiting: Mutex<Vec<(SubscriberId, String)>>,
    /// Slow subscribers, each with the last message that it received.
    pub behind: Mutex<Vec<(SubscriberId, u64)>>,
}

impl DeliveryHandler for OneStreamHandler {
    fn open(&self, request: &Request<'_>) -> Result<SubscriberSetup, HttpResponse> {
        if request.path() == "/nowhere" {
            return Err(HttpResponse::text(404, "no such stream"));
        }
        let keys = request.parameter("symbols");
        let from = request.parameter("from").and_then(|text| text.split_once(':'));
        Ok(SubscriberSetup {
            streams: self.stream.get().copied().into_iter().collect(),
            keys: keys.map(|keys| keys.split(',').map(|key| key.as_bytes().to_vec()).collect()),
            from: from.and_then(|(epoch, seq)| Some((epoch.parse().ok()?, seq.parse().ok()?))),
            enveloped: request.parameter("envelope").is_some(),
            ..SubscriberSetup::default()
        })
    }

    fn http(&self, request: &Request<'_>) -> HttpResponse {
        let is_asked = request.path() == "/healthz";
        HttpResponse::text(
            if is_asked { 200 } else { 426 },
            if is_asked { "well" } else { "a WebSocket is served here" },
        )
    }

    fn behind(&self, who: SubscriberId, _: StreamId, read: u64) {
        self.behind.lock().unwrap().push((who, read));
    }

    fn received(&self, from: SubscriberId, message: ClientMessage<'_>, reply: &mut Reply) {
        match message {
            ClientMessage::Text(text) if text.starts_with("later") => {
                self.waiting.lock().unwrap().push((from, text.to_owned()));
                reply.wait();
            }
            ClientMessage::Text("respond") => reply.respond(),
            ClientMessage::Text(text) => reply.text(text.as_bytes()),
            ClientMessage::Binary(bytes) => reply.binary(bytes),
        }
    }
}

/// Returns the event loop to test. The tests are built once for each: see `live_uring.rs`.
fn kind() -> LoopKind {
    match env!("CARGO_CRATE_NAME") {
        "live_uring" | "tls_uring" => LoopKind::Uring,
        _ => LoopKind::Epoll,
    }
}

pub struct Stage {
    pub handler: Arc<OneStreamHandler>,
    pub publisher: Publisher,
    pub stream: StreamId,
    pub address: SocketAddr,
    pub batch: MessageBatch,
    pub seq: u64,
}

pub fn spec(lag: LagPolicy) -> StreamSpec {
    StreamSpec { name: "test".into(), lag, ring_bytes: 64 * 1024, snapshot: false, keep: true }
}

/// Builds a message of about `bytes` bytes.
pub fn message(seq: u64, key: &str, bytes: usize) -> String {
    let mut text = format!(r#"{{"seq":{seq},"key":"{key}","pad":""#);
    while text.len() + 2 < bytes {
        text.push('x');
    }
    text.push_str("\"}");
    text
}

impl Stage {
    pub fn new(options: Options, spec: &StreamSpec) -> Self {
        let options = Options { kind: kind(), ..options };
        let handler = Arc::new(OneStreamHandler::default());
        let listen = Some("127.0.0.1:0".parse().unwrap());
        let publisher = Publisher::start(Options { listen, epoch: 7, ..options }, Arc::clone(&handler) as _).unwrap();
        let stream = publisher.create(spec);
        handler.stream.set(stream).unwrap();
        let address = publisher.address().unwrap();
        Stage { handler, publisher, stream, address, batch: MessageBatch::default(), seq: 0 }
    }

    /// Adds a message with the next number to the batch.
    pub fn say(&mut self, key: &str, bytes: usize) {
        self.seq += 1;
        let text = message(self.seq, key, bytes);
        self.batch.text(self.stream, key.as_bytes(), self.seq, text.as_bytes());
    }

    pub fn send(&mut self) {
        self.publisher.send(&mut self.batch);
    }

    pub fn wait_for_listeners(&self, count: u32) {
        let began = std::time::Instant::now();
        while self.publisher.listeners(self.stream) != count {
            assert!(began.elapsed() < PATIENCE, "{} listeners", self.publisher.listeners(self.stream));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

pub struct Reader {
    pub socket: TcpStream,
    pub head: String,
    buffer: Vec<u8>,
}

impl Reader {
    /// Connects and sends a handshake. Its response is in `head`.
    pub fn ask(address: SocketAddr, target: &str, receive_bytes: Option<usize>) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        if let Some(bytes) = receive_bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        socket.connect(&address.into()).unwrap();
        let mut socket: TcpStream = socket.into();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut reader = Reader { socket, head: String::new(), buffer: Vec::new() };
        while reader.head.is_empty() {
            assert!(reader.more(), "an answer");
            if let Some(end) = reader.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                reader.head = String::from_utf8(reader.buffer.drain(..end + 4).collect()).unwrap();
            }
        }
        reader
    }

    pub fn join(address: SocketAddr, target: &str) -> Self {
        let reader = Self::ask(address, target, None);
        assert!(reader.head.starts_with("HTTP/1.1 101"), "{}", reader.head);
        reader
    }

    fn more(&mut self) -> bool {
        let mut bytes = [0; 65536];
        match self.socket.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            // A stopped and resumed process gets this on a socket with a timeout.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => true,
            Err(error) => panic!("nothing came: {error}"),
        }
    }

    /// Returns the opcode and payload of the next frame, or None at the end.
    pub fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            if let [first, second, ..] = self.buffer[..] {
                assert_eq!(first & 0x70, 0, "no reserved bits");
                assert_eq!(second & 0x80, 0, "a server does not mask");
                let (len, header) = match second {
                    126 if self.buffer.len() >= 4 => (u16::from_be_bytes([self.buffer[2], self.buffer[3]]) as usize, 4),
                    127 if self.buffer.len() >= 10 => {
                        let len = u64::from_be_bytes(self.buffer[2..10].try_into().unwrap());
                        (usize::try_from(len).unwrap(), 10)
                    }
                    126 | 127 => (usize::MAX - 100, 10),
                    len => (usize::from(len), 2),
                };
                if self.buffer.len() >= header + len {
                    let payload = self.buffer[header..header + len].to_vec();
                    self.buffer.drain(..header + len);
                    return Some((first & 0x0F, payload));
                }
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// Returns the next text message.
    pub fn text(&mut self) -> String {
        loop {
            match self.frame() {
                Some((1, payload)) => return String::from_utf8(payload).unwrap(),
                Some((9, _)) => {}
                other => panic!("no text but {other:?}"),
            }
        }
    }

    /// Returns the number of the next message.
    pub fn seq(&mut self) -> u64 {
        number(&self.text(), "seq").unwrap()
    }

    /// Reads up to the close frame and returns its code.
    pub fn close_code(&mut self) -> Option<u16> {
        loop {
            match self.frame()? {
                (8, payload) => return Some(u16::from_be_bytes(payload.get(..2)?.try_into().ok()?)),
                _ => continue,
            }
        }
    }

    pub fn say(&mut self, opcode: u8, payload: &[u8]) {
        self.socket.write_all(&masked(0x80 | opcode, payload)).unwrap();
    }
}

/// Encodes one frame as a client does.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut out = vec![first];
    match payload.len() {
        len @ 0..=125 => out.push(0x80 | u8::try_from(len).unwrap()),
        len => {
            out.push(0x80 | 126);
            out.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
    }
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    out
}

/// Returns the number after a field name.
pub fn number(text: &str, name: &str) -> Option<u64> {
    let at = text.find(&format!("\"{name}\":"))? + name.len() + 3;
    let digits: String = text[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
