//! The client's end of a connection: opening handshake and frames to the server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use pitwire_websocket::{Address, Opcode, ClientHandshake, write_masked};

use crate::{Settings, monotonic_ns};

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Longest wait before the stop flag is checked.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Returns the open connection and the bytes that came with the handshake.
pub fn open(settings: &Settings) -> io::Result<(TcpStream, Vec<u8>)> {
    let invalid = |reason: String| io::Error::new(ErrorKind::InvalidData, reason);
    let address = Address::parse(&settings.url).map_err(|error| invalid(error.to_string()))?;
    let mut socket = TcpStream::connect((address.host.as_str(), address.port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(CONNECT_PATIENCE))?;
    let nonce = u128::from(std::process::id()) << 64 | u128::from(monotonic_ns().unsigned_abs());
    let opening = ClientHandshake::new(&address, nonce.to_be_bytes(), None, None);
    socket.write_all(opening.request())?;
    let mut received = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let bytes = socket.read(&mut buffer)?;
        received.extend_from_slice(&buffer[..bytes]);
        if let Some(opened) = opening.judge(&received).map_err(|error| invalid(error.to_string()))? {
            received.drain(..opened.head_bytes);
            break;
        }
        if bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    if !settings.subscribe.is_empty() {
        send(&mut socket, Opcode::Text, settings.subscribe.as_bytes())?;
    }
    socket.set_read_timeout(Some(STOP_CHECK))?;
    Ok((socket, received))
}

/// Sends one masked frame.
pub fn send(socket: &mut TcpStream, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
    let mut frame = Vec::new();
    write_masked(&mut frame, opcode, payload, monotonic_ns().to_le_bytes()[..4].try_into().unwrap_or_default());
    socket.write_all(&frame)
}
