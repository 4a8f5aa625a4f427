//! A connector of the latency laboratory with our own receive path.

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use lab_connector::{End, Library, MESSAGE_MOST, Settings, Take, VenueSocket, connect, monotonic_ns, run};
use pitwire_websocket::{
    Address, ClientHandshake, CloseCode, Decoder, IncomingMessage, MessageLimits, Offer, Opcode, write_masked,
};

const LIMITS: MessageLimits = MessageLimits { message_bytes: MESSAGE_MOST, fragments: 1 << 20 };
/// Longest wait before the stop flag is checked.
const STOP_CHECK: Duration = Duration::from_millis(50);

struct Pitwire {
    /// Reads without sleeping, which occupies a core. The variant `spin` sets it.
    spins: bool,
}

/// An open connection, its decoder, and the bytes that came with the handshake.
struct Connection {
    stream: VenueSocket,
    decoder: Decoder,
    unread: Vec<u8>,
}

impl Library for Pitwire {
    const NAME: &'static str = "pitwire-websocket";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Connection = Connection;

    fn open(&mut self, settings: &Settings) -> Result<Connection, Box<dyn Error>> {
        let address = Address::parse(&settings.url)?;
        let mut stream = connect(settings, &address.host, address.port, address.is_secure)?;
        let nonce = u128::from(std::process::id()) << 64 | u128::from(monotonic_ns().unsigned_abs());
        let offer = settings.compresses.then_some(Offer { keeps_context: true });
        let opening = ClientHandshake::new(&address, nonce.to_be_bytes(), None, offer);
        stream.write_all(opening.request())?;
        let mut unread = Vec::new();
        let decoder = loop {
            let mut buffer = [0; 4096];
            let bytes = stream.read(&mut buffer)?;
            unread.extend_from_slice(&buffer[..bytes]);
            if let Some(opened) = opening.judge(&unread).map_err(|error| error.to_string())? {
                unread.drain(..opened.head_bytes);
                break Decoder::of_server(LIMITS).with_deflate(opened.deflate.as_ref());
            }
            if bytes == 0 {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
        };
        if !settings.subscribe.is_empty() {
            send(&mut stream, Opcode::Text, settings.subscribe.as_bytes())?;
        }
        stream.socket().set_read_timeout(Some(STOP_CHECK))?;
        stream.socket().set_nonblocking(self.spins)?;
        Ok(Connection { stream, decoder, unread })
    }

    fn receive(&mut self, connection: Connection, take: &mut Take<'_>) -> End {
        receive(connection, take).unwrap_or_else(|error| End::Lost(error.to_string()))
    }
}

fn receive(connection: Connection, take: &mut Take<'_>) -> io::Result<End> {
    let Connection { mut stream, mut decoder, unread: mut buffer } = connection;
    let mut end = buffer.len();
    buffer.resize(256 * 1024, 0);
    loop {
        let mut at = 0;
        while at < end {
            let (used, message) = match decoder.decode(&buffer[at..end]) {
                Ok(decoded) => decoded,
                Err(violation) => {
                    let _ = send(&mut stream, Opcode::Close, &(violation.code as u16).to_be_bytes());
                    return Ok(End::Protocol(violation.reason.to_owned()));
                }
            };
            match message {
                Some(IncomingMessage::Text(text)) => take.message(text.as_bytes(), false),
                Some(IncomingMessage::Binary(bytes)) => take.message(bytes, true),
                Some(IncomingMessage::Ping(body)) => send(&mut stream, Opcode::Pong, body)?,
                Some(IncomingMessage::Close(code)) => {
                    let answer = code.unwrap_or(CloseCode::Normal as u16);
                    let _ = send(&mut stream, Opcode::Close, &answer.to_be_bytes());
                    return Ok(End::Close(code));
                }
                Some(IncomingMessage::Pong) | None => {}
            }
            at += used;
        }
        end = match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        if take.is_stopped() {
            let _ = send(&mut stream, Opcode::Close, &(CloseCode::GoingAway as u16).to_be_bytes());
            return Ok(End::Stopped);
        }
    }
}

/// Sends one masked frame.
fn send(stream: &mut VenueSocket, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
    let mut frame = Vec::new();
    write_masked(&mut frame, opcode, payload, monotonic_ns().to_le_bytes()[..4].try_into().unwrap_or_default());
    stream.write_all(&frame)
}

fn main() -> ExitCode {
    run(Pitwire { spins: std::env::var_os("PITWIRE_SPIN").is_some() })
}
