//! rust-websocket: the synchronous server. It accepts one handshake at a time, and each connection
//! has a thread. In the test fan-out a second thread per connection writes.

use std::env;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use websocket::sync::{Client, Server, Writer};
use websocket::{Message, OwnedMessage, WebSocketResult};

/// Number of messages that may wait for one subscriber. It misses further ones.
const MAX_QUEUED: usize = 256;
/// Stack of a thread in bytes. 10,000 threads with the default of 2 MiB would reserve 20 GiB.
const STACK_BYTES: usize = 128 * 1024;

type Socket = Client<std::net::TcpStream>;
type Subscribers = Arc<Mutex<Vec<SyncSender<Arc<str>>>>>;

#[derive(Clone)]
enum Test {
    Echo,
    Heartbeat { messages: usize, reply: Arc<str> },
    FanOut(Subscribers),
}

fn number(name: &str) -> usize {
    let text = env::var(name).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("invalid {name} {text:?}: expected a whole number"))
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().stack_size(STACK_BYTES).spawn(work) {
        eprintln!("cannot start a thread: {error}");
    }
}

fn answer(socket: &mut Socket, test: &Test) -> WebSocketResult<()> {
    loop {
        match (socket.recv_message()?, test) {
            (OwnedMessage::Close(_), _) => return Ok(()),
            (OwnedMessage::Ping(data), _) => socket.send_message(&OwnedMessage::Pong(data))?,
            (OwnedMessage::Text(text), Test::Echo) => socket.send_message(&OwnedMessage::Text(text))?,
            (OwnedMessage::Text(_), Test::Heartbeat { messages, reply }) => {
                for _ in 0..*messages {
                    socket.send_message(&Message::text(&**reply))?;
                }
            }
            _ => {}
        }
    }
}

fn write(writer: &mut Writer<std::net::TcpStream>, messages: &Receiver<Arc<str>>) {
    while let Ok(text) = messages.recv() {
        if writer.send_message(&Message::text(&*text)).is_err() {
            return;
        }
    }
}

fn subscribe(socket: Socket, subscribers: &Subscribers) -> io::Result<()> {
    let (mut reader, mut writer) = socket.split()?;
    let (sender, messages) = sync_channel(MAX_QUEUED);
    subscribers.lock().unwrap().push(sender);
    // The writer ends when the generator has dropped the sender of a closed connection, or with the
    // first failed write.
    spawn(move || write(&mut writer, &messages));
    while let Ok(message) = reader.recv_message() {
        if message.is_close() {
            break;
        }
    }
    reader.shutdown_all()
}

fn serve(mut socket: Socket, test: &Test) {
    let _ = socket.set_nodelay(true);
    match test {
        Test::FanOut(subscribers) => drop(subscribe(socket, subscribers)),
        // The end of a connection is not an error of the server.
        _ => drop(answer(&mut socket, test)),
    }
}

fn generate(rate: f64, bytes: usize, subscribers: &Subscribers) {
    let start = Instant::now();
    let start_realtime = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for sequence in 1_u64.. {
        #[allow(clippy::cast_precision_loss)]
        let due = Duration::from_secs_f64(sequence as f64 / rate);
        thread::sleep((start + due).saturating_duration_since(Instant::now()));
        let due_ns = (start_realtime + due).as_nanos();
        let head = format!(r#"{{"seq":{sequence},"ts_ns":{due_ns},"pad":""#);
        let pad = bytes.saturating_sub(head.len() + 2);
        let text: Arc<str> = format!("{head}{:x<pad$}\"}}", "").into();
        let is_open = |sender: &SyncSender<Arc<str>>| {
            !matches!(sender.try_send(Arc::clone(&text)), Err(TrySendError::Disconnected(_)))
        };
        subscribers.lock().unwrap().retain(is_open);
    }
}

fn write_ready_file(address: impl std::fmt::Display) -> io::Result<()> {
    let path = env::var("LAB_READY_FILE").unwrap_or_default();
    let unfinished = format!("{path}.unfinished");
    std::fs::write(&unfinished, format!(r#"{{"http":"{address}"}}"#))?;
    std::fs::rename(unfinished, path)
}

fn main() -> io::Result<()> {
    let name = env::var("LAB_TEST").unwrap_or_default();
    let test = match name.as_str() {
        "echo" => Test::Echo,
        "heartbeat" => {
            Test::Heartbeat { messages: number("LAB_MESSAGES"), reply: "x".repeat(number("LAB_BYTES")).into() }
        }
        "fan-out" => Test::FanOut(Subscribers::default()),
        _ => {
            eprintln!("invalid LAB_TEST {name:?}: expected echo, heartbeat or fan-out");
            std::process::exit(2);
        }
    };
    let host = env::var("LAB_HOST").unwrap_or_default();
    let server = Server::bind(format!("{host}:{}", number("LAB_PORT")))?;
    write_ready_file(server.local_addr()?)?;
    if let Test::FanOut(subscribers) = &test {
        #[allow(clippy::cast_precision_loss)]
        let (rate, bytes, subscribers) = (number("LAB_RATE") as f64, number("LAB_BYTES"), Arc::clone(subscribers));
        spawn(move || generate(rate, bytes, &subscribers));
    }
    for request in server.filter_map(Result::ok) {
        let test = test.clone();
        spawn(move || {
            if let Ok(socket) = request.accept() {
                serve(socket, &test);
            }
        });
    }
    Ok(())
}
