//! Responses that are put off, and a loop that another thread wakes, over real sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pitwire_net::{
    Application, ConnectionId, HttpRequest, HttpResponse, Notices, Server, SystemClock, Waker, stop_signals,
};

/// Bytes of a response that is not copied.
const LONG: usize = 300_000;

/// Another thread answers; its answers come back through a queue.
struct SlowApplication {
    asked: Sender<(ConnectionId, bool, String)>,
    answers: Receiver<(ConnectionId, bool, String)>,
    opened: Vec<String>,
}

impl Application for SlowApplication {
    const STOPPING: &'static str = "the toy is stopping";

    fn request(&mut self, request: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        if request.path() == "/now" {
            return HttpResponse::text(200, "now");
        }
        self.asked.send((request.connection, request.keep_alive, request.target.to_owned())).unwrap();
        HttpResponse::later()
    }
    fn accepts_websocket(&self, path: &str) -> bool {
        path == "/ws"
    }
    fn opened(&mut self, id: ConnectionId, target: &str, notices: &mut Notices) {
        self.opened.push(target.to_owned());
        notices.reply(id, target.as_bytes());
    }
    fn text(&mut self, id: ConnectionId, text: &str, notices: &mut Notices) {
        notices.put_off(id);
        notices.notify(id, format!("newer than {text}").as_bytes());
        self.asked.send((id, true, format!("text {text}"))).unwrap();
    }
    fn tick(&mut self, _: u64, notices: &mut Notices) {
        while let Ok((to, keep_alive, text)) = self.answers.try_recv() {
            if text.starts_with("late text") {
                let mut text = text.into_bytes();
                if text.ends_with(b"long") {
                    text.resize(LONG, b'.');
                }
                notices.reply_late(to, text);
                continue;
            }
            notices.respond(to, HttpResponse::text(200, &text), keep_alive, false);
        }
    }
}

fn serve() -> std::net::SocketAddr {
    let (asked, to_answer) = channel();
    let (answered, answers) = channel();
    let waker = Waker::default();
    let copy = waker.clone();
    thread::spawn(move || {
        while let Ok((id, keep_alive, target)) = to_answer.recv() {
            thread::sleep(Duration::from_millis(20));
            if answered.send((id, keep_alive, format!("late {target}"))).is_err() {
                return;
            }
            copy.wake();
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = SlowApplication { asked, answers, opened: Vec::new() };
    let server = Server::new(app, listener, stop_signals().unwrap(), SystemClock::start()).unwrap();
    let server = server.with_waker(&waker).unwrap();
    let address = server.local_address().unwrap();
    thread::spawn(move || server.run());
    address
}

fn all_of(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn request_behind_a_deferred_answer_waits_for_it() {
    let address = serve();
    let mut stream = TcpStream::connect(address).unwrap();
    let requests = "GET /a HTTP/1.1\r\n\r\nGET /now HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nConnection: close\r\n\r\n";
    stream.write_all(requests.as_bytes()).unwrap();
    let text = all_of(stream);
    let bodies: Vec<&str> = text.split("\r\n\r\n").skip(1).map(|part| part.lines().next().unwrap()).collect();
    assert_eq!(bodies, ["late /a", "now", "late /b"]);
}

#[test]
fn a_peer_that_ended_its_side_is_still_answered() {
    let address = serve();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /a HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(all_of(stream).ends_with("late /a\n"));
}

#[test]
fn application_gets_the_target_of_a_handshake() {
    let address = serve();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "GET /ws?x=1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    // A masked close frame without a code, so that the other side ends.
    stream.write_all(&[0x88, 0x80, 0, 0, 0, 0]).unwrap();
    let mut bytes = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_to_end(&mut bytes).unwrap();
    let is_sent = bytes.windows(9).any(|window| window == b"\x81\x07/ws?x=1");
    assert!(is_sent, "{}", String::from_utf8_lossy(&bytes));
}

/// Sends two texts and a close frame, and returns everything that comes back.
fn answers_to(texts: [&str; 2]) -> String {
    let address = serve();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    // Each has a mask of zeros.
    for text in texts {
        stream.write_all(&[0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0]).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
    }
    stream.write_all(&[0x88, 0x80, 0, 0, 0, 0]).unwrap();
    let mut bytes = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_late_answer_comes_before_newer_notices_and_before_the_next_message_is_acted_on() {
    let text = answers_to(["a", "b"]);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is missing in {text:?}"));
    let places = ["late text a", "newer than a", "late text b", "newer than b"].map(at);
    assert!(places.is_sorted(), "{text:?}");
}

#[test]
fn a_long_late_answer_is_sent_whole_and_in_its_place() {
    let text = answers_to(["long", "b"]);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is missing"));
    let places = ["late text long", "newer than long", "late text b", "newer than b"].map(at);
    assert!(places.is_sorted(), "{places:?}");
    let dots = "late text long".len()..LONG;
    let answer = &text[places[0]..places[0] + LONG];
    assert!(answer[dots].bytes().all(|byte| byte == b'.'));
    // Only the header of the notice stands between them.
    assert!((LONG..LONG + 5).contains(&(places[1] - places[0])), "{places:?}");
}
