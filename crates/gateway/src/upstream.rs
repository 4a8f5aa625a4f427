//! The gateway's HTTP connections to the venue, on separate threads.
//!
//! Does        Signs and asks the gateway's own questions, one after another. Forwards clients'
//!             calls, a few at a time.
//! Holds       1. The event loop never waits: questions and answers are queued, and `wake` is
//!                called for each answer.
//!             2. An answer to the gateway's own question is valid only with a MAC for that
//!                question.
//!             3. An answer is bounded in size and in time.
//! Start at    [`Upstream::open`], [`Upstream::ask`], [`Upstream::call`].

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::protocol::{BusKey, Question, Reply};
use pitwire_deribit::codec::Token;
use pitwire_failure::Failure;

use crate::reminder::Reminder;

const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES: usize = 64 << 20;
const HEAD_BYTES: usize = 16 << 10;
/// Most calls under way at a time, and most waiting calls.
const CALLERS: usize = 4;
const CALLS_WAITING: usize = 1_024;

/// A question of the gateway to its venue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VenueQuestion {
    Status,
    /// Batches from a sequence on.
    From {
        epoch: u64,
        seq: u64,
    },
    /// A channel with its snapshot.
    Join {
        name: String,
    },
    /// Channels that are still needed. The answer lists the missing ones.
    Keep {
        names: Vec<String>,
    },
    /// Everything that a book's reader missed since a change, as one change.
    Merged {
        name: String,
        change_id: u64,
    },
    /// The missed messages of the channels that the client of a request resumes.
    Resume {
        number: u64,
        wishes: Vec<(String, Option<Token>)>,
    },
    /// The names of all instruments.
    Instruments,
}

/// A client's call as it is forwarded.
#[derive(Clone, Debug)]
pub struct WebRequest {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct WebAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// The result of a question or a call.
pub type Answer<T> = Result<T, String>;

#[derive(Debug)]
pub enum VenueAnswer {
    Bus(VenueQuestion, Answer<Reply>),
    /// Contains the number under which the call was given.
    Call(u64, Answer<WebAnswer>),
}

type Wake = Arc<dyn Fn() + Send + Sync>;

pub struct Upstream {
    /// `HOST:PORT`. Empty until the venue has announced its address.
    venue: Arc<Mutex<String>>,
    asks: Sender<VenueQuestion>,
    calls: SyncSender<(u64, WebRequest)>,
    answers: Receiver<VenueAnswer>,
}

impl Upstream {
    /// Starts the threads that send questions to the venue.
    ///
    /// # Errors
    ///
    /// Returns a failure if a thread cannot be started.
    pub fn open(key: &BusKey, wake: &Wake) -> Result<Upstream, Failure> {
        let venue = Arc::new(Mutex::new(String::new()));
        let (send_answer, answers) = channel();
        let (asks, to_ask) = channel();
        let (calls, to_call) = sync_channel(CALLS_WAITING);
        let to_call = Arc::new(Mutex::new(to_call));
        let line = |name: &'static str| VenueConnection {
            venue: Arc::clone(&venue),
            stream: None,
            answers: send_answer.clone(),
            wake: Arc::clone(wake),
            name,
        };
        let (asker, key) = (line("ask"), key.clone());
        start("ask", move || ask_all(asker, &key, &to_ask))?;
        for _ in 0..CALLERS {
            let (caller, to_call) = (line("call"), Arc::clone(&to_call));
            start("call", move || call_all(caller, &to_call))?;
        }
        Ok(Upstream { venue, asks, calls, answers })
    }

    /// Sets the venue's address, `http://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// The address is invalid, or uses https.
    pub fn set_venue(&self, url: &str) -> Result<(), Failure> {
        let authority = authority(url)?;
        *self.venue.lock().unwrap_or_else(PoisonError::into_inner) = authority;
        Ok(())
    }

    pub fn ask(&self, ask: VenueQuestion) {
        // The thread outlives this sender only during shutdown.
        drop(self.asks.send(ask));
    }

    /// Forwards a call. Returns false if too many calls wait.
    pub fn call(&self, number: u64, request: WebRequest) -> bool {
        self.calls.try_send((number, request)).is_ok()
    }

    pub fn next(&self) -> Option<VenueAnswer> {
        self.answers.try_recv().ok()
    }
}

fn invalid_address(what: String) -> Failure {
    Failure::usage(what).remedy("give it like http://127.0.0.1:8080")
}

/// Returns host and port of a plain HTTP address.
pub(crate) fn authority(url: &str) -> Result<String, Failure> {
    if url.starts_with("https://") {
        return Err(invalid_address(format!("{url}: a gateway asks its venue over plain http")));
    }
    let rest = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    let authority = rest.filter(|rest| !rest.is_empty() && !rest.contains(['/', '@', '?', '#', ' ']));
    let authority = authority.ok_or_else(|| invalid_address(format!("invalid venue address {url:?}")))?;
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map(drop).map_err(|error| {
        Failure::new(format!("cannot start a thread to ask the venue: {error}")).remedy("allow more threads")
    })
}

fn ask_all(mut line: VenueConnection, key: &BusKey, asks: &Receiver<VenueQuestion>) {
    let mut of_trouble = Reminder::default();
    while let Ok(ask) = asks.recv() {
        let answer = line.ask(key, &ask);
        match &answer {
            Ok(_) => of_trouble = Reminder::default(),
            Err(why) if line.is_addressed() && of_trouble.is_due() => {
                let venue = line.address();
                tracing::warn!(venue, why, "the venue does not answer; is it up, and is that its HTTP address?");
            }
            Err(_) => {}
        }
        line.report(VenueAnswer::Bus(ask, answer));
    }
}

fn call_all(mut line: VenueConnection, calls: &Mutex<Receiver<(u64, WebRequest)>>) {
    loop {
        let next = calls.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, request)) = next else { return };
        let head = [("Content-Type", "application/json".to_owned())];
        let answer = line.exchange(&request, &head).map_err(|error| error.to_string());
        line.report(VenueAnswer::Call(number, answer));
    }
}

/// One connection to the venue, reused from request to request.
struct VenueConnection {
    venue: Arc<Mutex<String>>,
    stream: Option<(String, TcpStream)>,
    answers: Sender<VenueAnswer>,
    wake: Wake,
    name: &'static str,
}

impl VenueConnection {
    fn report(&self, answer: VenueAnswer) {
        drop(self.answers.send(answer));
        (self.wake)();
    }

    fn address(&self) -> String {
        self.venue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the venue's address is known.
    fn is_addressed(&self) -> bool {
        !self.address().is_empty()
    }

    fn ask(&mut self, key: &BusKey, ask: &VenueQuestion) -> Answer<Reply> {
        let request = request_of(ask);
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let question = Question { method: &request.method, target: &request.target, body: &request.body };
        let (header, purpose) = question.sign(key, wall_ms(), nonce);
        let answer = self.exchange(&request, &[("Authorization", header)]).map_err(|error| error.to_string())?;
        if answer.status != 200 {
            let body = String::from_utf8_lossy(&answer.body);
            let why = body.trim().chars().take(200).collect::<String>();
            tracing::warn!(status = answer.status, why, "the venue refuses what the bus asks");
            return Err(format!("the venue answers {}", answer.status));
        }
        let content = key.open(&purpose, &answer.body).ok_or("the venue's answer is not sealed with the bus key")?;
        Reply::parse(content).ok_or_else(|| "the venue's answer cannot be read".to_owned())
    }

    /// Sends a request and reads its answer. If a reused connection turns out to be closed,
    /// connects once more.
    fn exchange(&mut self, request: &WebRequest, headers: &[(&str, String)]) -> io::Result<WebAnswer> {
        let venue = self.address();
        if venue.is_empty() {
            return Err(io::Error::other("it is not known yet where the venue is"));
        }
        if let Some((_, mut stream)) = self.stream.take().filter(|(to, _)| *to == venue)
            && let Ok((answer, keeps)) = exchange(&mut stream, &venue, request, headers)
        {
            self.stream = keeps.then_some((venue, stream));
            return Ok(answer);
        }
        let mut stream = connect(&venue)?;
        let (answer, keeps) = exchange(&mut stream, &venue, request, headers)?;
        tracing::trace!(line = self.name, target = request.target, "asked the venue");
        self.stream = keeps.then_some((venue, stream));
        Ok(answer)
    }
}

fn request_of(ask: &VenueQuestion) -> WebRequest {
    let get = |target: String| WebRequest { method: "GET".into(), target, body: Vec::new() };
    match ask {
        VenueQuestion::Status => get("/bus/status".into()),
        VenueQuestion::Instruments => get("/bus/instruments".into()),
        VenueQuestion::From { epoch, seq } => get(format!("/bus/from?epoch={epoch}&seq={seq}")),
        VenueQuestion::Join { name } => {
            WebRequest { method: "POST".into(), target: "/bus/join".into(), body: name.as_bytes().to_vec() }
        }
        VenueQuestion::Merged { name, change_id } => {
            let body = format!("{name}\n{change_id}").into_bytes();
            WebRequest { method: "POST".into(), target: "/bus/merged".into(), body }
        }
        VenueQuestion::Resume { wishes, .. } => {
            let line = |(name, token): &(String, Option<Token>)| match token {
                Some(token) => format!("{name} {token}"),
                None => format!("{name} -"),
            };
            let body = wishes.iter().map(line).collect::<Vec<_>>().join("\n").into_bytes();
            WebRequest { method: "POST".into(), target: "/bus/resume".into(), body }
        }
        VenueQuestion::Keep { names } => {
            WebRequest { method: "POST".into(), target: "/bus/keep".into(), body: names.join("\n").into_bytes() }
        }
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn connect(venue: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the venue's name means no address");
    for address in venue.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sends one request and reads its answer. Returns whether the connection can be reused.
fn exchange(
    stream: &mut TcpStream,
    venue: &str,
    request: &WebRequest,
    headers: &[(&str, String)],
) -> io::Result<(WebAnswer, bool)> {
    let WebRequest { method, target, body } = request;
    let mut out = format!("{method} {target} HTTP/1.1\r\nHost: {venue}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(body);
    stream.write_all(&out)?;
    let mut input = Vec::with_capacity(4096);
    loop {
        if let Some(head) = parse(&input)? {
            let whole = head.bytes + head.length;
            while input.len() < whole {
                more(stream, &mut input)?;
            }
            let body = input.get(head.bytes..whole).unwrap_or_default().to_vec();
            let keeps = head.keeps && input.len() == whole;
            return Ok((WebAnswer { status: head.status, body }, keeps));
        }
        more(stream, &mut input)?;
    }
}

fn more(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    match stream.read(&mut buffer)? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the venue closed the connection")),
        n => {
            input.extend_from_slice(buffer.get(..n).unwrap_or_default());
            Ok(())
        }
    }
}

struct ReplyHead {
    status: u16,
    bytes: usize,
    length: usize,
    keeps: bool,
}

fn parse(input: &[u8]) -> io::Result<Option<ReplyHead>> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let bytes = match response.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() > HEAD_BYTES => {
            return Err(broken("the answer's head is too long"));
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(broken(&format!("invalid HTTP: {error}"))),
    };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    };
    let status = response.code.unwrap_or(0);
    let length = match header("content-length").map(str::parse::<usize>) {
        Some(Ok(length)) if length <= ANSWER_BYTES => length,
        None if status == 204 => 0,
        _ => return Err(broken("the answer does not say its length, or too much of it")),
    };
    let keeps = !header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(Some(ReplyHead { status, bytes, length, keeps }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn venue_address_needs_plain_http() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("http://venue.example/", Some("venue.example:80")),
            ("http://[::1]:80", Some("[::1]:80")),
            ("https://venue.example", None),
            ("http://", None),
            ("http://me@venue", None),
            ("http://venue/path", None),
            ("venue:80", None),
        ] {
            assert_eq!(authority(url).ok().as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn answer_without_a_valid_length_is_refused() {
        let read =
            |text: &str| parse(text.as_bytes()).map(|head| head.map(|head| (head.status, head.length, head.keeps)));
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap(), Some((200, 5, true)));
        assert_eq!(
            read("HTTP/1.1 404 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap(),
            Some((404, 0, false))
        );
        assert_eq!(read("HTTP/1.1 200 OK\r\nContent-Le").unwrap(), None);
        for broken in
            ["nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"]
        {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
