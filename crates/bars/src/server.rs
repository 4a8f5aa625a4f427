//! Serves the latest bars over WebSocket, to all readers on one thread.
//!
//! Does        takes subscriptions, and sends changed bars several times a second.
//! Holds       1. a slow reader delays nothing else. While its socket accepts nothing, nothing is
//!                prepared for it, and then it receives the latest value of each symbol, not the
//!                history;
//!             2. the number of readers, message sizes, and the times for a handshake and for
//!                reading are limited;
//!             3. pages of other origins and unknown host names are refused.
//! Start at    [`serve`], then `BarApplication::pump`.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use pitwire_net::{
    Application, CloseCode, CloseReason, ConnectionId, HttpRequest, HttpResponse, Limits, Notices, Refusal,
    ServerThread,
};
use pitwire_websocket::{MessageLimits, Opcode, write_frame};
use serde::Deserialize;

use crate::latest_bars::{BarSubscription, LatestBars, ReadPosition};
use crate::shard::LONGEST_SYMBOL;

/// Interval at which a reader receives changed bars, in nanoseconds.
const UPDATE_NS: u64 = 100_000_000;
/// How long a reader's socket may accept nothing while something waits for it, in nanoseconds.
const STUCK_NS: u64 = 10_000_000_000;
/// A reader may stay silent for as long as it likes, in nanoseconds.
const UNLIMITED_NS: u64 = u64::MAX / 2;
const READERS_MAX: usize = 256;
/// Connections beyond the readers, so that a reader too many learns why it is refused.
const SPARE_CONNECTIONS: usize = 64;
const SYMBOLS_MAX: usize = 20_000;
/// Longest message of a reader, in bytes: about two thousand symbols.
const MESSAGE_BYTES: usize = 64 << 10;
/// Most fragments of one message of a reader.
const MESSAGE_FRAGMENTS: u32 = 64;
/// Bars in one message.
const BARS_PER_MESSAGE: usize = 256;
const EXPECTED_TEXT: &str = r#"{"error":"send text: {\"subscribe\":[\"AAPL\"]} or {\"subscribe\":\"*\"}"}"#;

/// Starts the server. When it is dropped, the readers receive the last bars and a close frame.
///
/// # Errors
/// Fails if the listener cannot be prepared or the thread cannot be started.
pub(crate) fn serve(listener: TcpListener, bars: Arc<LatestBars>) -> io::Result<ServerThread> {
    let application = BarApplication { bars, readers: BTreeMap::new(), now_ns: 0, next_update_ns: 0 };
    let limits = Limits {
        messages: MessageLimits { message_bytes: MESSAGE_BYTES, fragments: MESSAGE_FRAGMENTS },
        idle_ns: UNLIMITED_NS,
        connections: Some(READERS_MAX + SPARE_CONNECTIONS),
        hosts: Vec::new(),
        ..Limits::default()
    };
    ServerThread::start("bars-server", application, listener, limits, None)
}

/// The readers, and the bars that they read.
struct BarApplication {
    bars: Arc<LatestBars>,
    readers: BTreeMap<ConnectionId, BarReader>,
    /// When the turn began.
    now_ns: u64,
    next_update_ns: u64,
}

struct BarReader {
    subscription: BarSubscription,
    /// Symbols subscribed since the last update: sent whether they changed or not.
    fresh: BarSubscription,
    position: ReadPosition,
    /// It is time for an update.
    is_due: bool,
    /// Messages of the last update that the socket has not taken.
    messages: VecDeque<String>,
    /// When the socket last took everything that it was given.
    progress_ns: u64,
}

impl BarReader {
    /// Makes messages of the subscribed bars that have changed.
    fn update(&mut self, bars: &LatestBars) {
        self.is_due = false;
        let BarReader { subscription, fresh, position, messages, .. } = self;
        let mut in_message = BARS_PER_MESSAGE;
        bars.look(position, subscription, &std::mem::take(fresh), |bar| {
            if in_message == BARS_PER_MESSAGE {
                messages.push_back(String::from("["));
                in_message = 0;
            }
            if let Some(message) = messages.back_mut() {
                if in_message > 0 {
                    message.push(',');
                }
                message.push_str(bar);
            }
            in_message += 1;
            if in_message == BARS_PER_MESSAGE {
                end_message(messages);
            }
        });
        if in_message < BARS_PER_MESSAGE {
            end_message(messages);
        }
    }

    /// Handles one message of the reader and returns the answer.
    fn receive(&mut self, text: &str) -> String {
        let request = match serde_json::from_str::<ReaderRequest>(text) {
            Ok(request) => request,
            Err(error) => {
                let reason = serde_json::Value::from(format!(
                    "{error}; send {{\"subscribe\":[\"AAPL\"]}}, {{\"subscribe\":\"*\"}} or the same with unsubscribe"
                ));
                return format!("{{\"error\":{reason}}}");
            }
        };
        match request {
            ReaderRequest::Subscribe(SymbolSelection::All(Wildcard::Wildcard)) => {
                self.subscription.everything = true;
                self.fresh.everything = true;
            }
            ReaderRequest::Subscribe(SymbolSelection::These(symbols)) => {
                if symbols.iter().any(|symbol| symbol.len() > LONGEST_SYMBOL) {
                    return format!("{{\"error\":\"no symbol is longer than {LONGEST_SYMBOL} bytes\"}}");
                }
                if self.subscription.symbols.len() + symbols.len() > SYMBOLS_MAX {
                    return format!(
                        "{{\"error\":\"more than {SYMBOLS_MAX} symbols; subscribe to \\\"*\\\" instead\"}}"
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

fn end_message(messages: &mut VecDeque<String>) {
    if let Some(message) = messages.back_mut() {
        message.push(']');
    }
}

impl Application for BarApplication {
    const STOPPING: &'static str = "pitwire bars has ended";

    fn request(&mut self, request: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        if request.is_foreign {
            return self.refusal(Refusal::ForeignOrigin);
        }
        let mut response = HttpResponse::text(426, "bars are read over WebSocket: connect with ws://, version 13");
        response.headers.push(("Upgrade", "websocket".into()));
        response
    }

    fn accepts_websocket(&self, _: &str) -> bool {
        true
    }

    fn refuses_handshake(&self, _: &HttpRequest<'_>) -> Option<HttpResponse> {
        let is_full = self.readers.len() >= READERS_MAX;
        is_full.then(|| HttpResponse::text(503, "all places are taken; try again later"))
    }

    fn refusal(&mut self, refusal: Refusal) -> HttpResponse {
        match refusal {
            Refusal::UnknownHost => {
                HttpResponse::text(421, "this host name is not ours; connect by address or as localhost")
            }
            Refusal::ForeignOrigin => HttpResponse::text(403, "pages of other origins are refused"),
            Refusal::TooManyConnections => HttpResponse::text(503, "all places are taken; try again later"),
        }
    }

    fn connected(&mut self, id: ConnectionId, _: Option<IpAddr>) {
        let reader = BarReader {
            subscription: BarSubscription::default(),
            fresh: BarSubscription::default(),
            position: self.bars.mark(),
            is_due: false,
            messages: VecDeque::new(),
            progress_ns: self.now_ns,
        };
        self.readers.insert(id, reader);
    }

    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        let Some(reader) = self.readers.get_mut(&id) else { return };
        let answer = reader.receive(text);
        notices.reply(id, answer.as_bytes());
        reader.is_due = true;
    }

    fn binary(&mut self, id: ConnectionId, _: &[u8], notices: &mut Notices) {
        notices.reply(id, EXPECTED_TEXT.as_bytes());
    }

    fn disconnected(&mut self, id: ConnectionId, _: &mut Notices) {
        self.readers.remove(&id);
    }

    fn next_due_ns(&self) -> Option<u64> {
        (!self.readers.is_empty()).then_some(self.next_update_ns)
    }

    fn tick(&mut self, now_ns: u64, notices: &mut Notices) {
        self.now_ns = now_ns;
        if now_ns < self.next_update_ns {
            return;
        }
        self.next_update_ns = now_ns + UPDATE_NS;
        for (id, reader) in &mut self.readers {
            if !reader.is_due && reader.messages.is_empty() {
                reader.progress_ns = now_ns;
            } else if now_ns - reader.progress_ns > STUCK_NS {
                notices.close(*id, CloseCode::TryAgainLater, "too slow: nothing was read for 10 s");
            }
            reader.is_due = true;
        }
    }

    fn commit(&mut self) -> io::Result<bool> {
        Ok(self.readers.values().any(|reader| reader.is_due))
    }

    fn for_each_subscriber(&self, visit: impl FnMut(ConnectionId)) {
        self.readers.iter().filter(|(_, reader)| reader.is_due).map(|(id, _)| *id).for_each(visit);
    }

    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), CloseReason> {
        let Some(reader) = self.readers.get_mut(&id) else { return Ok(()) };
        reader.progress_ns = self.now_ns;
        if reader.messages.is_empty() && reader.is_due {
            reader.update(&self.bars);
        }
        while out.len() < enough
            && let Some(message) = reader.messages.pop_front()
        {
            write_frame(out, Opcode::Text, message.as_bytes());
        }
        Ok(())
    }

    fn stopping(&mut self, notices: &mut Notices) {
        for (id, reader) in &mut self.readers {
            reader.update(&self.bars);
            for message in reader.messages.drain(..) {
                notices.notify(*id, message.as_bytes());
            }
        }
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
