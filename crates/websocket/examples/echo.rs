//! Echoes messages over plain sockets, for third-party conformance suites.
//!
//!     cargo run -p pitwire-websocket --example echo -- serve 127.0.0.1:9001
//!     cargo run -p pitwire-websocket --example echo -- cases 127.0.0.1:9001 AGENT
//!
//! `serve` answers until it is killed. `cases` plays the client of an Autobahn fuzzing server, case
//! after case. Both accept compression. Each connection has a thread: the example tests the
//! protocol, not a server.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use pitwire_websocket::head::{HeadLimits, HeadParseResult, parse};
use pitwire_websocket::{
    CloseCode, Decoder, DeflateAgreement, Deflater, IncomingMessage, MessageLimits, Offer, Opcode, Peer, Policy,
    write_close, write_frame,
};

const LIMITS: MessageLimits = MessageLimits { message_bytes: 32 << 20, fragments: 1 << 20 };
/// The key is constant, so the response is known in advance.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const OFFER: Offer = Offer { keeps_context: true };

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address),
        ["cases", address, agent] => cases(address, agent),
        _ => Err(io::Error::other("echo serve ADDR:PORT | echo cases ADDR:PORT AGENT")),
    }
}

fn serve(address: &str) -> io::Result<()> {
    for stream in TcpListener::bind(address)?.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || {
            // A peer that disconnects early is done.
            let _ = shake_hands(&mut stream);
        });
    }
    Ok(())
}

fn shake_hands(stream: &mut TcpStream) -> io::Result<()> {
    let mut received = Vec::new();
    loop {
        if read(stream, &mut received)? == 0 {
            return Ok(());
        }
        match parse(&received, &HeadLimits::default()) {
            HeadParseResult::NeedMore => {}
            HeadParseResult::Refuse(refusal) => return Err(io::Error::other(refusal.reason)),
            HeadParseResult::Head(head) => {
                let answer = head.upgrade(Some(Policy::default())).map_err(|it| io::Error::other(it.reason))?;
                let mut out = Vec::new();
                answer.write(&mut out);
                stream.write_all(&out)?;
                let rest = received[head.head_bytes..].to_vec();
                let decoder = Decoder::new(LIMITS).with_deflate(answer.deflate.as_ref());
                let window = answer.deflate.map(|agreed| agreed.server_class());
                return Echo { stream, decoder, deflater: window.map(|bits| Deflater::new(6, bits)), masks: false }
                    .run(rest);
            }
        }
    }
}

fn cases(address: &str, agent: &str) -> io::Result<()> {
    let mut count = 0;
    visit(address, "/getCaseCount", |text| count = text.parse().unwrap_or(0))?;
    for case in 1..=count {
        // A case may end in an error: the suite judges that.
        let _ = visit(address, &format!("/runCase?case={case}&agent={agent}"), |_| {});
    }
    println!("{count} cases");
    visit(address, &format!("/updateReports?agent={agent}"), |_| {})
}

fn visit(address: &str, resource: &str, mut on_text: impl FnMut(&str)) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!(
        "GET {resource} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: {OFFER}\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut received = Vec::new();
    let (rest, agreed) = loop {
        if let Some((bytes, agreed)) = answered(&received)? {
            break (received[bytes..].to_vec(), agreed);
        }
        if read(&mut stream, &mut received)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let decoder = Decoder::of_server(LIMITS).with_deflate(agreed.as_ref());
    let deflater = agreed.map(|agreed| Deflater::new(6, agreed.of(Peer::Client).0));
    let mut echo = Echo { stream: &mut stream, decoder, deflater, masks: true };
    if resource.starts_with("/runCase") {
        return echo.run(rest);
    }
    echo.listen(rest, &mut on_text)
}

fn answered(received: &[u8]) -> io::Result<Option<(usize, Option<DeflateAgreement>)>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(bytes)) = head.parse(received) else { return Ok(None) };
    let of_name = head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("sec-websocket-extensions"));
    let values: Vec<&str> = of_name.map(|header| std::str::from_utf8(header.value).unwrap_or("?")).collect();
    Ok(Some((bytes, OFFER.judge(values).map_err(io::Error::other)?)))
}

fn read(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 64 * 1024];
    let bytes = stream.read(&mut buffer)?;
    received.extend_from_slice(&buffer[..bytes]);
    Ok(bytes)
}

struct Echo<'a> {
    stream: &'a mut TcpStream,
    decoder: Decoder,
    deflater: Option<Deflater>,
    masks: bool,
}

impl Echo<'_> {
    fn run(&mut self, received: Vec<u8>) -> io::Result<()> {
        self.go(received, &mut |_| {}, true)
    }

    fn listen(&mut self, received: Vec<u8>, on_text: &mut impl FnMut(&str)) -> io::Result<()> {
        self.go(received, on_text, false)
    }

    fn go(&mut self, mut received: Vec<u8>, on_text: &mut impl FnMut(&str), says: bool) -> io::Result<()> {
        loop {
            let (mut used, mut out, mut is_over) = (0, Vec::new(), false);
            while used < received.len() && !is_over {
                let decoded = self.decoder.decode(&received[used..]);
                let mut say = |opcode, payload: &[u8]| match &mut self.deflater {
                    Some(deflater) => deflater.write_frame(&mut out, opcode, payload),
                    None => write_frame(&mut out, opcode, payload),
                };
                match decoded {
                    Ok((bytes, incoming)) => {
                        used += bytes;
                        match incoming {
                            Some(IncomingMessage::Text(text)) if says => say(Opcode::Text, text.as_bytes()),
                            Some(IncomingMessage::Text(text)) => on_text(text),
                            Some(IncomingMessage::Binary(payload)) => say(Opcode::Binary, payload),
                            Some(IncomingMessage::Ping(body)) => write_frame(&mut out, Opcode::Pong, body),
                            Some(IncomingMessage::Pong) | None => {}
                            Some(IncomingMessage::Close(code)) => {
                                let body = code.map(u16::to_be_bytes);
                                write_frame(&mut out, Opcode::Close, body.as_ref().map_or(&[][..], |body| body));
                                is_over = true;
                            }
                        }
                    }
                    Err(error) => {
                        write_close(&mut out, error.code, error.reason);
                        is_over = true;
                    }
                }
            }
            self.stream.write_all(&if self.masks { masked(&out) } else { out })?;
            if is_over {
                // The peer may have closed first.
                let _ = self.stream.shutdown(std::net::Shutdown::Write);
                // Discards later input: closing the socket with unread bytes would lose
                // our last frames.
                while read(self.stream, &mut received).is_ok_and(|bytes| bytes > 0) {
                    received.clear();
                }
                return Ok(());
            }
            received.clear();
            if read(self.stream, &mut received)? == 0 {
                let mut last = Vec::new();
                write_close(&mut last, CloseCode::GoingAway, "");
                return self.stream.write_all(&if self.masks { masked(&last) } else { last });
            }
        }
    }
}

/// Returns our own frames as a client sends them.
fn masked(frames: &[u8]) -> Vec<u8> {
    let (mask, mut out, mut at) = ([0x37, 0xfa, 0x21, 0x3d], Vec::new(), 0);
    while at < frames.len() {
        let (header, length) = match frames[at + 1] {
            126 => (4, usize::from(u16::from_be_bytes([frames[at + 2], frames[at + 3]]))),
            127 => (10, frames[at + 2..at + 10].iter().fold(0, |length, byte| length << 8 | usize::from(*byte))),
            short => (2, usize::from(short)),
        };
        out.extend_from_slice(&frames[at..at + header]);
        let second = out.len() - header + 1;
        out[second] |= 0x80;
        out.extend(mask);
        let payload = &frames[at + header..at + header + length];
        out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
        at += header + length;
    }
    out
}
