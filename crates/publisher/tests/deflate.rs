//! Compression: readers that negotiated it share the compressed bytes, and other readers get plain
//! messages.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::{PATIENCE, Stage, spec};
use pitwire_publisher::{LagPolicy, Options, SubscriberLimits};
use pitwire_websocket::{Decoder, Deflater, IncomingMessage, MessageLimits, Offer, Opcode};

struct InflatingClient {
    socket: TcpStream,
    head: String,
    received: Vec<u8>,
    decoder: Decoder,
}

impl InflatingClient {
    fn ask(stage: &Stage, target: &str, offer: &str) -> Self {
        let mut socket = TcpStream::connect(stage.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Extensions: {offer}\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(socket.read(&mut byte).unwrap(), 1);
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        let value = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Extensions: "));
        let agreed = Offer { keeps_context: true }.judge(value).unwrap();
        let limits = MessageLimits { message_bytes: 1 << 20, fragments: 1 };
        InflatingClient {
            socket,
            head,
            received: Vec::new(),
            decoder: Decoder::of_server(limits).with_deflate(agreed.as_ref()),
        }
    }

    /// Returns the next text message and its raw frame.
    fn text(&mut self) -> (String, Vec<u8>) {
        let mut frame = Vec::new();
        loop {
            while self.received.is_empty() {
                let mut buffer = [0; 4096];
                let bytes = self.socket.read(&mut buffer).unwrap();
                assert!(bytes > 0, "ended");
                self.received.extend_from_slice(&buffer[..bytes]);
            }
            let (used, incoming) = self.decoder.decode(&self.received).unwrap();
            let text = match incoming {
                Some(IncomingMessage::Text(text)) => Some(text.to_owned()),
                Some(IncomingMessage::Binary(_) | IncomingMessage::Close(_)) => panic!("no text"),
                _ => None,
            };
            frame.extend(self.received.drain(..used));
            if let Some(text) = text {
                return (text, frame);
            }
        }
    }

    fn say(&mut self, frame: &[u8]) {
        let mut out = frame[..2].to_vec();
        out[1] |= 0x80;
        out.extend([0; 4]);
        out.extend(&frame[2..]);
        self.socket.write_all(&out).unwrap();
    }
}

fn options(deflate: bool) -> Options {
    Options { limits: SubscriberLimits { deflate, ..SubscriberLimits::default() }, ..Options::default() }
}

const OFFER: &str = "permessage-deflate; client_max_window_bits";

#[test]
fn readers_that_negotiated_share_compressed_bytes() {
    let mut stage = Stage::new(options(true), &spec(LagPolicy::Conflate));
    let mut readers = [
        InflatingClient::ask(&stage, "/", OFFER),
        InflatingClient::ask(&stage, "/", "permessage-deflate; server_max_window_bits=12"),
        // The window is smaller than any compressor supports, so the offer is declined.
        InflatingClient::ask(&stage, "/", "permessage-deflate; server_max_window_bits=8"),
        InflatingClient::ask(&stage, "/?envelope=1", OFFER),
        InflatingClient::ask(&stage, "/", "permessage-deflate; server_max_window_bits=11"),
    ];
    for (reader, is_agreed) in readers.iter().zip([true, true, false, true, true]) {
        assert_eq!(reader.head.contains("permessage-deflate"), is_agreed, "{}", reader.head);
        assert_eq!(reader.head.contains("server_no_context_takeover; client_no_context_takeover"), is_agreed);
    }
    assert!(readers[4].head.contains("server_max_window_bits=9"));
    stage.wait_for_listeners(5);
    for seq in 1..=200 {
        stage.say("a", if seq % 7 == 0 { 3000 } else { 150 });
        stage.send();
    }
    for seq in 1..=200 {
        let [one, other, plain, enveloped, narrow] = readers.each_mut().map(InflatingClient::text);
        assert_eq!(one, other, "the same bytes");
        assert!(one.0.starts_with(&format!(r#"{{"seq":{seq},"#)), "{}", one.0);
        assert_eq!((&one.0, &one.0), (&plain.0, &narrow.0));
        assert_eq!(enveloped.0, format!(r#"{{"channel":"test","epoch":7,"seq":{seq},"data":{}}}"#, one.0));
        assert_eq!([one.1[0], plain.1[0], enveloped.1[0], narrow.1[0]], [0xC1, 0x81, 0xC1, 0xC1]);
        assert!(one.1.len() * 2 < plain.1.len(), "{} of {}", one.1.len(), plain.1.len());
    }
}

#[test]
fn compressed_input_is_handled_and_a_bomb_is_refused() {
    let stage = Stage::new(options(true), &spec(LagPolicy::Conflate));
    let mut reader = InflatingClient::ask(&stage, "/", OFFER);
    let mut frame = Vec::new();
    let text = "the same, the same, the same, the same";
    Deflater::new(6, 15).write_frame(&mut frame, Opcode::Text, text.as_bytes());
    assert_eq!(frame[0], 0xC1);
    for _ in 0..3 {
        reader.say(&frame);
        assert_eq!(reader.text().0, text);
    }
    // 100 kB of zeros in about a hundred bytes, which exceeds the message limit of 32 KiB.
    frame.clear();
    Deflater::new(9, 15).write_frame(&mut frame, Opcode::Binary, &[0; 100_000]);
    assert!(frame[1] < 126);
    reader.say(&frame);
    let mut rest = Vec::new();
    reader.socket.read_to_end(&mut rest).unwrap();
    assert_eq!(rest[..4], [0x88, rest[1], 0x03, 0xF1], "1009");
    // A client that did not negotiate compression must not send compressed frames.
    let mut plain = InflatingClient::ask(&stage, "/", "x-other");
    plain.say(&[0xC1, 0x01, 0x00]);
    rest.clear();
    plain.socket.read_to_end(&mut rest).unwrap();
    assert_eq!(rest[..4], [0x88, rest[1], 0x03, 0xEA], "1002");
}

#[test]
fn resumed_compressed_reader_gets_missed_messages_plain() {
    let mut stage = Stage::new(options(true), &spec(LagPolicy::Conflate));
    for _ in 0..10 {
        stage.say("a", 150);
    }
    stage.send();
    let mut first = InflatingClient::ask(&stage, "/?from=7:4", OFFER);
    for seq in 5..=10 {
        assert!(first.text().0.starts_with(&format!(r#"{{"seq":{seq},"#)));
    }
    stage.say("a", 150);
    stage.send();
    assert!(first.text().0.starts_with(r#"{"seq":11,"#));
}

#[test]
fn compression_is_declined_when_disabled() {
    let stage = Stage::new(options(false), &spec(LagPolicy::Conflate));
    assert!(!InflatingClient::ask(&stage, "/", OFFER).head.contains("permessage"));
}
