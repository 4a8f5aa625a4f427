//! A test application, a server of it on a thread, and a client, all over loopback sockets.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pitwire_net::event_loop::{LoopKind, LoopOptions};
use pitwire_net::{
    Application, CloseCode, CloseReason, ConnectionId, HttpRequest, HttpResponse, Limits, Notices, Server, SystemClock,
};

/// Longer than anything here takes on a machine that is busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Counters of the test application, for the test to read while it runs.
#[derive(Default)]
pub struct LoopCounters {
    pub turns: AtomicUsize,
    pub requests: AtomicUsize,
    pub texts: AtomicUsize,
    pub most_texts_in_a_turn: AtomicUsize,
    /// Connections that asked for admission, accepted or not.
    pub came: AtomicUsize,
    pub came_in_this_turn: AtomicUsize,
    pub most_came_in_a_turn: AtomicUsize,
    pub connected: AtomicUsize,
    pub disconnected: Mutex<Vec<ConnectionId>>,
    /// Claims to have work that has long been due, as a venue does that may no longer do it.
    pub always_due_when_stopping: AtomicBool,
}

pub struct Toy {
    seen: Arc<LoopCounters>,
    cursors: BTreeMap<ConnectionId, usize>,
    watchers: Vec<ConnectionId>,
    texts_in_turn: usize,
    tape: Vec<Vec<u8>>,
    released: usize,
    /// Publications do not wait for the commit.
    is_early: bool,
    is_holding: bool,
    is_failing: bool,
    is_stopping: bool,
    entered: Sender<()>,
    release: Receiver<()>,
}

impl Application for Toy {
    const STOPPING: &'static str = "the toy is stopping";

    /// `/<n>` is `n` bytes long and begins with the target.
    fn request(&mut self, request: &HttpRequest<'_>, notices: &mut Notices) -> HttpResponse {
        self.seen.requests.fetch_add(1, SeqCst);
        let target = request.target.trim_start_matches('/');
        let (command, mark) = target.split_once('?').unwrap_or((target, ""));
        self.act(None, command, notices);
        let mut body = format!("{mark};").into_bytes();
        body.resize(body.len().max(command.parse().unwrap_or(0)), b'.');
        HttpResponse::new(200, "text/plain", body)
    }

    fn answers_anybody(&self, request: &HttpRequest<'_>) -> bool {
        request.path() == "/7"
    }

    fn accepts_websocket(&self, path: &str) -> bool {
        path == "/ws"
    }

    /// Called once for each connection that asks for admission.
    fn handed_off(&self) -> usize {
        self.seen.came.fetch_add(1, SeqCst);
        self.seen.came_in_this_turn.fetch_add(1, SeqCst);
        0
    }

    fn connected(&mut self, id: ConnectionId, _: Option<std::net::IpAddr>) {
        self.seen.connected.fetch_add(1, SeqCst);
        self.cursors.insert(id, self.tape.len());
    }

    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        self.seen.texts.fetch_add(1, SeqCst);
        self.texts_in_turn += 1;
        self.act(Some(id), text, notices);
    }

    /// The messages of a stream are lines, which are echoed.
    fn stream_message(&mut self, id: ConnectionId, bytes: &[u8], notices: &mut Notices) -> Option<usize> {
        let length = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let line = &bytes[..length];
        match line {
            b"end\n" => notices.end(id),
            b"later\n" => {
                notices.put_off(id);
                notices.reply_bytes_late(id, line);
            }
            _ => {
                self.act(None, std::str::from_utf8(line).unwrap().trim_end(), notices);
                notices.reply_bytes(id, line);
            }
        }
        Some(length)
    }

    fn disconnected(&mut self, id: ConnectionId, notices: &mut Notices) {
        self.seen.disconnected.lock().unwrap().push(id);
        self.cursors.remove(&id);
        for watcher in &self.watchers {
            notices.notify(*watcher, b"a client left");
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        (self.is_stopping && self.seen.always_due_when_stopping.load(SeqCst)).then_some(0)
    }

    fn release_early(&mut self) -> bool {
        let fresh = self.is_early && self.released < self.tape.len();
        if fresh {
            self.released = self.tape.len();
        }
        fresh
    }

    fn commit(&mut self) -> io::Result<bool> {
        self.seen.turns.fetch_add(1, SeqCst);
        let most = &self.seen.most_texts_in_a_turn;
        most.fetch_max(std::mem::take(&mut self.texts_in_turn), SeqCst);
        self.seen.most_came_in_a_turn.fetch_max(self.seen.came_in_this_turn.swap(0, SeqCst), SeqCst);
        if std::mem::take(&mut self.is_holding) {
            self.entered.send(()).unwrap();
            self.release.recv_timeout(PATIENCE).unwrap();
        }
        if self.is_failing {
            return Err(io::Error::other("the disk said no"));
        }
        let fresh = self.released < self.tape.len();
        self.released = self.tape.len();
        Ok(fresh)
    }

    fn for_each_subscriber(&self, visit: impl FnMut(ConnectionId)) {
        self.cursors.keys().copied().for_each(visit);
    }

    fn pump(&mut self, id: ConnectionId, out: &mut Vec<u8>, enough: usize) -> Result<(), CloseReason> {
        let Some(cursor) = self.cursors.get_mut(&id) else { return Ok(()) };
        while *cursor < self.released && out.len() < enough {
            let text = &self.tape[*cursor];
            *cursor += 1;
            if text == b"overrun" {
                return Err(CloseReason { code: CloseCode::TryAgainLater, reason: "overrun".into() });
            }
            out.extend_from_slice(&[0x81, u8::try_from(text.len()).unwrap()]);
            out.extend_from_slice(text);
        }
        Ok(())
    }

    fn stopping(&mut self, _: &mut Notices) {
        self.is_stopping = true;
    }
}

impl Toy {
    /// Commands are words with colons. Every other text is echoed.
    fn act(&mut self, from: Option<ConnectionId>, text: &str, notices: &mut Notices) {
        let words: Vec<&str> = text.split(':').collect();
        let number = |at: usize| words[at].parse::<usize>().unwrap();
        match (words[0], from) {
            ("hold", _) => self.is_holding = true,
            ("early", _) => self.is_early = true,
            ("fail", _) => self.is_failing = true,
            // Gets a notice when a connection ends.
            ("watch", Some(id)) => self.watchers.push(id),
            ("forget", _) => self.watchers.clear(),
            // To all others, or to the watchers.
            ("tell" | "feed", _) => {
                let body = vec![b'n'; number(1)];
                let to: Vec<_> =
                    if words[0] == "feed" { self.watchers.clone() } else { self.cursors.keys().copied().collect() };
                for id in to.into_iter().filter(|id| Some(*id) != from) {
                    notices.notify(id, &body);
                }
            }
            // `dial:<port>`: opens a byte stream.
            ("dial", _) => {
                let port = u16::try_from(number(1)).unwrap();
                let id = notices.connect(([127, 0, 0, 1], port).into());
                notices.reply_bytes(id, b"hello\n");
            }
            ("publish", _) => self.tape.push(words[1].as_bytes().to_vec()),
            // `burst:<count>:<bytes>`: to itself.
            ("burst", Some(id)) => {
                for _ in 0..number(1) {
                    notices.notify(id, &vec![b'n'; number(2)]);
                }
            }
            ("mix", Some(id)) => {
                notices.notify(id, b"notice 1");
                notices.reply(id, b"reply 1");
                notices.notify(id, b"notice 2");
            }
            ("big", Some(id)) => return notices.reply(id, &vec![b'b'; number(1)]),
            ("logout", Some(id)) => {
                notices.reply(id, b"logout");
                notices.close(id, CloseCode::Normal, "logged out");
                return;
            }
            _ => {}
        }
        if let Some(id) = from {
            notices.reply(id, text.as_bytes());
        }
    }
}

pub struct Venue {
    pub address: SocketAddr,
    /// Where byte streams are accepted.
    #[allow(dead_code, reason = "one test file uses it")]
    pub streams: SocketAddr,
    pub seen: Arc<LoopCounters>,
    /// Says that a held commit has begun.
    entered: Receiver<()>,
    release: Sender<()>,
    stop: UnixStream,
    thread: Option<JoinHandle<io::Result<()>>>,
    id: rustix::thread::Pid,
}

impl Venue {
    pub fn up() -> Self {
        Self::up_with(Limits::default())
    }

    pub fn up_with(limits: Limits) -> Self {
        Self::up_behind(limits, None).0
    }

    #[allow(dead_code, reason = "one test file uses it")]
    pub fn up_on(kind: LoopKind) -> Self {
        Self::start(Limits::default(), None, kind).0
    }

    /// Starts a venue, and returns the address of its TLS listener if it has one.
    pub fn up_behind(limits: Limits, tls: Option<Arc<pitwire_tls::ServerConfig>>) -> (Self, Option<SocketAddr>) {
        let options = LoopOptions { receive_bytes: 4096, detaches: true };
        // A test file that includes another one as a module named after epoll runs it on epoll.
        let kind = if module_path!().contains("epoll") { LoopKind::Epoll } else { LoopKind::best(options).0 };
        Self::start(limits, tls, kind)
    }

    fn start(
        limits: Limits,
        tls: Option<Arc<pitwire_tls::ServerConfig>>,
        kind: LoopKind,
    ) -> (Self, Option<SocketAddr>) {
        let seen = Arc::new(LoopCounters::default());
        let ((entered, has_entered), (release, released)) = (channel(), channel());
        let toy = Toy {
            seen: seen.clone(),
            cursors: BTreeMap::new(),
            watchers: Vec::new(),
            texts_in_turn: 0,
            tape: Vec::new(),
            released: 0,
            is_early: false,
            is_holding: false,
            is_failing: false,
            is_stopping: false,
            entered,
            release: released,
        };
        let (signals, stop) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server::new(toy, listener, signals, SystemClock::start()).unwrap().with_limits(limits).unwrap();
        let stream_listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let streams = stream_listener.local_addr().unwrap();
        let server = server.with_loop(kind).with_streams(stream_listener).unwrap();
        let address = server.local_address().unwrap();
        let (mut server, mut secure) = (server, None);
        if let Some(config) = tls {
            let tls_listener = TcpListener::bind("127.0.0.1:0").unwrap();
            secure = Some(tls_listener.local_addr().unwrap());
            server = server.with_tls(tls_listener, config).unwrap();
        }
        let (tell, news) = channel();
        let thread = Some(std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            server.run().map(|_| ())
        }));
        let id = news.recv().unwrap();
        (Venue { address, streams, seen, entered: has_entered, release, stop, thread, id }, secure)
    }

    pub fn client(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    pub fn websocket(&self) -> Client {
        let mut client = self.client();
        client.upgrade();
        client
    }

    pub fn turns(&self) -> usize {
        self.seen.turns.load(SeqCst)
    }

    /// Until the loop has nothing to do: its thread sleeps whenever it is looked at, and no turn is
    /// taken in between.
    pub fn settles(&self) {
        let stat = format!("/proc/self/task/{}/stat", self.id);
        let sleeps = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
        let (mut quiet, mut last) = (0, self.turns());
        eventually("the loop waits", || {
            let turns = self.turns();
            quiet = if sleeps() && turns == last { quiet + 1 } else { 0 };
            last = turns;
            quiet == 50
        });
    }

    pub fn disconnections(&self) -> usize {
        self.seen.disconnected.lock().unwrap().len()
    }

    /// Blocks the loop inside a commit; `meanwhile` runs while nothing can be read or written by
    /// it.
    pub fn held<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let mut holder = self.client();
        holder.get("/hold");
        self.is_held();
        let result = meanwhile();
        self.release();
        holder.response();
        result
    }

    pub fn is_held(&self) {
        self.entered.recv_timeout(PATIENCE).unwrap();
    }

    pub fn release(&self) {
        self.release.send(()).unwrap();
    }

    pub fn ask_to_stop(&mut self) {
        self.stop.write_all(&[1]).unwrap();
    }

    pub fn ended(&mut self) -> io::Result<()> {
        let thread = self.thread.take().unwrap();
        eventually("the loop ends", || thread.is_finished());
        thread.join().unwrap()
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        drop(self.stop.write_all(&[1]));
        if let (Some(thread), false) = (self.thread.take(), std::thread::panicking()) {
            drop(thread.join());
        }
    }
}

pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum ServerFrame {
    Text(String),
    Pong(Vec<u8>),
    Close(u16, String),
    End,
}

pub fn text(text: &str) -> ServerFrame {
    ServerFrame::Text(text.into())
}

pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    used: usize,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new(), used: 0 }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Waits until the kernel of the other side has acknowledged everything that was sent, so that
    /// the server finds it at its next look. A busy machine delivers later than `write` returns.
    pub fn wait_until_delivered(&self) {
        eventually("what was sent is delivered", || {
            let mut unacknowledged: libc::c_int = 0;
            // SAFETY: `TIOCOUTQ` writes one integer, to a variable that outlives the call.
            let result = unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut unacknowledged) };
            assert_eq!(result, 0, "{}", io::Error::last_os_error());
            unacknowledged == 0
        });
    }

    /// As much as the other side takes before it stalls; how much that was.
    pub fn send_until_stuck(&mut self, bytes: &[u8]) -> usize {
        self.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(n) => sent += n,
                Err(_) => break,
            }
        }
        self.stream.set_write_timeout(Some(PATIENCE)).unwrap();
        sent
    }

    pub fn say(&mut self, text: &str) {
        self.send(&frame(0x81, text.as_bytes()));
    }

    pub fn get(&mut self, target: &str) {
        self.send(request(target).as_bytes());
    }

    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    pub fn upgrade(&mut self) {
        self.send(UPGRADE);
        let (status, _) = self.response();
        assert_eq!(status, 101);
    }

    pub fn ask(&mut self, question: &str) {
        self.say(question);
        assert_eq!(self.got(), text(question));
    }

    /// Whether anything at all has arrived, the end included.
    pub fn has_news(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        self.used < self.buffer.len() || peeked.is_ok()
    }

    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.buffer.len() - self.used < bytes {
            if !self.fill() {
                return None;
            }
        }
        self.used += bytes;
        Some(self.buffer[self.used - bytes..self.used].to_vec())
    }

    fn fill(&mut self) -> bool {
        self.buffer.drain(..self.used);
        self.used = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + 256 * 1024, 0);
        let read = match self.stream.read(&mut self.buffer[old..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("nothing more arrives: {error}"),
        };
        self.buffer.truncate(old + read);
        read > 0
    }

    pub fn got(&mut self) -> ServerFrame {
        let Some(head) = self.take(2) else { return ServerFrame::End };
        let long = |bytes: Vec<u8>| bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let len = match head[1] {
            126 => long(self.take(2).expect("a whole frame")),
            127 => long(self.take(8).expect("a whole frame")),
            len => usize::from(len),
        };
        let body = self.take(len).expect("a whole frame");
        match head[0] {
            0x81 => ServerFrame::Text(String::from_utf8(body).unwrap()),
            0x8A => ServerFrame::Pong(body),
            0x88 => ServerFrame::Close(
                u16::from_be_bytes([body[0], body[1]]),
                String::from_utf8(body[2..].to_vec()).unwrap(),
            ),
            other => panic!("frame {other:#x}"),
        }
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<ServerFrame> {
        let mut all = Vec::new();
        loop {
            match self.got() {
                ServerFrame::End => return all,
                got => all.push(got),
            }
        }
    }

    pub fn response(&mut self) -> (u16, Vec<u8>) {
        self.maybe_response().expect("a response")
    }

    /// `None` at the end of the connection.
    pub fn maybe_response(&mut self) -> Option<(u16, Vec<u8>)> {
        let head_bytes = loop {
            let rest = &self.buffer[self.used..];
            if let Some(at) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.fill() {
                assert_eq!(self.buffer.len(), 0, "cut inside a response");
                return None;
            }
        };
        let head = String::from_utf8(self.take(head_bytes)?).unwrap();
        let status = head[9..12].parse().unwrap();
        let length =
            head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |n| n.parse().unwrap());
        Some((status, self.take(length).expect("a whole body")))
    }
}

pub const UPGRADE: &[u8] = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

pub fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// A frame as a client must send it.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut out = vec![first];
    match u8::try_from(payload.len()) {
        Ok(len @ 0..=125) => out.push(0x80 | len),
        _ => {
            out.push(0x80 | 126);
            out.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

pub fn texts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    texts.into_iter().flat_map(|text| frame(0x81, text.as_ref().as_bytes())).collect()
}
