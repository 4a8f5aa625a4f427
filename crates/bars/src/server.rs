//! Serves the latest bars over WebSocket.
//!
//! Does        runs one thread per reader: takes subscriptions, and sends changed bars several
//!             times a second.
//! Holds       1. a slow reader delays nothing else. While its socket accepts nothing, nothing is
//!                prepared for it, and then it receives the latest value of each symbol, not the
//!                history;
//!             2. the number of readers, message sizes, handshake time and idle time are limited;
//!             3. pages of other origins and unknown host names are refused.
//! Start at    [`serve`].

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pitwire_net::{OriginPolicy, PageOrigin, UnknownHost};
use serde::Deserialize;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::protocol::frame::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{WebSocket, WebSocketConfig};
use tungstenite::{Error, Message};

use crate::latest_bars::{BarSubscription, LatestBars, ReadPosition};
use crate::shard::LONGEST_SYMBOL;

/// Interval at which a reader receives changed bars.
const EVERY: Duration = Duration::from_millis(100);
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a reader's socket may accept nothing while something waits for it.
const STUCK: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Time for readers to receive the last bars and the close frame.
const FAREWELL: Duration = Duration::from_secs(2);
const MOST_READERS: usize = 256;
const MOST_SYMBOLS: usize = 20_000;
/// Longest message of a reader, in bytes: about two thousand symbols.
const LONGEST_MESSAGE: usize = 64 << 10;
/// Bars in one message.
const PIECE: usize = 256;

/// Accepts readers until `stop` is set. They then receive the last bars and a close frame.
pub fn serve(listener: &TcpListener, board: &Arc<LatestBars>, stop: &Arc<AtomicBool>) {
    let readers = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let Ok((socket, _)) = listener.accept() else {
            // No connection waits, or no descriptor is left. Both pass.
            thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let slot = ReaderSlot::take(&readers);
        let (board, stop) = (Arc::clone(board), Arc::clone(stop));
        let Ok(bound) = listener.local_addr() else { continue };
        // Without a thread the socket is dropped, and the reader tries again.
        let _ = thread::Builder::new().name("bars-reader".into()).spawn(move || {
            let is_full = slot.number > MOST_READERS;
            // An error ends this reader's connection only.
            let _ = BarReader::accept(socket, bound, is_full).and_then(|mut reader| reader.run(&board, &stop));
            drop(slot);
        });
    }
    let until = Instant::now() + FAREWELL;
    while readers.load(Ordering::Relaxed) > 0 && Instant::now() < until {
        thread::sleep(ACCEPT_PAUSE);
    }
}

/// A slot in the limited number of readers. Dropping it frees the slot.
struct ReaderSlot {
    readers: Arc<AtomicUsize>,
    number: usize,
}

impl ReaderSlot {
    fn take(readers: &Arc<AtomicUsize>) -> ReaderSlot {
        ReaderSlot { readers: Arc::clone(readers), number: readers.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

struct BarReader {
    socket: WebSocket<DeadlineSocket>,
    subscription: BarSubscription,
    /// Symbols subscribed since the last update: sent whether they changed or not.
    fresh: BarSubscription,
}

impl BarReader {
    fn accept(socket: TcpStream, bound: SocketAddr, is_full: bool) -> Result<BarReader, Box<Error>> {
        socket.set_nonblocking(false).map_err(boxed)?;
        socket.set_nodelay(true).map_err(boxed)?;
        socket.set_read_timeout(Some(HANDSHAKE)).map_err(boxed)?;
        socket.set_write_timeout(Some(STUCK)).map_err(boxed)?;
        let config = WebSocketConfig::default()
            .read_buffer_size(4 << 10)
            .max_message_size(Some(LONGEST_MESSAGE))
            .max_frame_size(Some(LONGEST_MESSAGE));
        let timed = DeadlineSocket { socket, until: Some(Instant::now() + HANDSHAKE) };
        let doors = HandshakePolicy { origins: OriginPolicy::new(bound.ip(), &[]), is_full };
        let accepted = tungstenite::accept_hdr_with_config(timed, doors, Some(config));
        let mut socket = accepted.map_err(|error| Box::new(Error::Io(io::Error::other(error.to_string()))))?;
        let timed = socket.get_mut();
        timed.until = None;
        timed.socket.set_read_timeout(Some(EVERY)).map_err(boxed)?;
        Ok(BarReader { socket, subscription: BarSubscription::default(), fresh: BarSubscription::default() })
    }

    fn run(&mut self, board: &LatestBars, stop: &AtomicBool) -> Result<(), Box<Error>> {
        let mut mark = board.mark();
        let mut look_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    let answer = self.hear(text.as_str());
                    self.socket.send(Message::text(answer)).map_err(Box::new)?;
                    look_at = Instant::now();
                }
                Ok(Message::Binary(_)) => {
                    let answer = r#"{"error":"send text: {\"subscribe\":[\"AAPL\"]} or {\"subscribe\":\"*\"}"}"#;
                    self.socket.send(Message::text(answer)).map_err(Box::new)?;
                }
                Ok(_) => {}
                Err(Error::Io(error)) if is_patience(&error) => {}
                Err(error) => return Err(Box::new(error)),
            }
            if Instant::now() >= look_at {
                self.show(board, &mut mark)?;
                look_at = Instant::now() + EVERY;
            }
        }
        self.show(board, &mut mark)?;
        let frame = CloseFrame { code: CloseCode::Away, reason: "pitwire bars has ended".into() };
        self.socket.close(Some(frame)).map_err(Box::new)?;
        self.socket.flush().map_err(Box::new)
    }

    /// Sends the subscribed bars that have changed.
    fn show(&mut self, board: &LatestBars, mark: &mut ReadPosition) -> Result<(), Box<Error>> {
        let mut pieces: Vec<String> = Vec::new();
        let mut in_piece = PIECE;
        board.look(mark, &self.subscription, &std::mem::take(&mut self.fresh), |bar| {
            if in_piece == PIECE {
                pieces.push(String::from("["));
                in_piece = 0;
            }
            if let Some(piece) = pieces.last_mut() {
                if in_piece > 0 {
                    piece.push(',');
                }
                piece.push_str(bar);
            }
            in_piece += 1;
        });
        for mut piece in pieces {
            piece.push(']');
            self.socket.send(Message::text(piece)).map_err(Box::new)?;
        }
        Ok(())
    }

    /// Handles one message of the reader and returns the answer.
    fn hear(&mut self, text: &str) -> String {
        let asked = match serde_json::from_str::<ReaderRequest>(text) {
            Ok(asked) => asked,
            Err(error) => {
                let told = serde_json::Value::from(format!(
                    "{error}; send {{\"subscribe\":[\"AAPL\"]}}, {{\"subscribe\":\"*\"}} or the same with unsubscribe"
                ));
                return format!("{{\"error\":{told}}}");
            }
        };
        match asked {
            ReaderRequest::Subscribe(SymbolSelection::All(Wildcard::Wildcard)) => {
                self.subscription.everything = true;
                self.fresh.everything = true;
            }
            ReaderRequest::Subscribe(SymbolSelection::These(symbols)) => {
                if symbols.iter().any(|symbol| symbol.len() > LONGEST_SYMBOL) {
                    return format!("{{\"error\":\"no symbol is longer than {LONGEST_SYMBOL} bytes\"}}");
                }
                if self.subscription.symbols.len() + symbols.len() > MOST_SYMBOLS {
                    return format!(
                        "{{\"error\":\"more than {MOST_SYMBOLS} symbols; subscribe to \\\"*\\\" instead\"}}"
                    );
                }
                self.fresh.symbols.extend(symbols.iter().cloned());
                self.subscription.symbols.extend(symbols);
            }
            ReaderRequest::Unsubscribe(SymbolSelection::All(Wildcard::Wildcard)) => {
                self.subscription = BarSubscription::default();
                self.fresh = BarSubscription::default();
            }
            ReaderRequest::Unsubscribe(SymbolSelection::These(symbols)) => {
                for symbol in &symbols {
                    self.subscription.symbols.remove(symbol);
                    self.fresh.symbols.remove(symbol);
                }
            }
        }
        format!("{{\"symbols\":{},\"everything\":{}}}", self.subscription.symbols.len(), self.subscription.everything)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ReaderRequest {
    Subscribe(SymbolSelection),
    Unsubscribe(SymbolSelection),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SymbolSelection {
    All(Wildcard),
    These(Vec<String>),
}

#[derive(Deserialize)]
enum Wildcard {
    #[serde(rename = "*")]
    Wildcard,
}

fn boxed(error: io::Error) -> Box<Error> {
    Box::new(Error::Io(error))
}

fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A socket with a deadline for the handshake, however slowly its bytes arrive.
struct DeadlineSocket {
    socket: TcpStream,
    until: Option<Instant>,
}

impl DeadlineSocket {
    fn check(&self) -> io::Result<()> {
        match self.until {
            Some(until) if Instant::now() > until => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

impl io::Read for DeadlineSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.socket.read(into)
    }
}

impl io::Write for DeadlineSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Decides which clients may connect, by the venue's rules: a known `Host`, and no page of another
/// origin.
struct HandshakePolicy {
    origins: OriginPolicy,
    is_full: bool,
}

impl HandshakePolicy {
    fn check(&self, request: &Request) -> Result<(), (u16, &'static str)> {
        let headers = request.headers();
        let texts = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
        match self.origins.judge_values(texts("host").next(), texts("origin"), texts("sec-fetch-site")) {
            Err(UnknownHost) => Err((421, "this host name is not ours; connect by address or as localhost")),
            Ok(PageOrigin::Foreign) => Err((403, "pages from elsewhere are refused")),
            Ok(PageOrigin::Own) if self.is_full => Err((503, "all places are taken; try again later")),
            Ok(PageOrigin::Own) => Ok(()),
        }
    }
}

impl Callback for HandshakePolicy {
    #[allow(clippy::result_large_err)] // the trait's signature
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let Err((status, why)) = self.check(request) else { return Ok(response) };
        let mut refusal = ErrorResponse::new(Some(why.to_string()));
        if let Ok(status) = tungstenite::http::StatusCode::from_u16(status) {
            *refusal.status_mut() = status;
        }
        Err(refusal)
    }
}
