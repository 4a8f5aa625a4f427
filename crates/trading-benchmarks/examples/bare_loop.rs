//! The trading loop of a client with nothing but blocking sockets: no event loop, no tasks, no JSON
//! parser. It shows how much of the loop any client can save. Uses the standard library only:
//!
//! ```text
//! rustc --edition 2024 -O -o bare_loop crates/trading-benchmarks/examples/bare_loop.rs
//! ./bare_loop 127.0.0.1:8080 3000
//! ```
//!
//! The venue runs as for `pitwire bench loop`. Each row has a TCP ping-pong of about the same sizes
//! in another process beside it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of the order that takes, and of its answer.
const SIZES: (usize, usize) = (182, 1116);
const BOOK: &str = r#"{"channels":["book.ETH_USDC.raw"]}"#;

/// A WebSocket without a mask: its masking key is zero.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    /// Polls the socket without end instead of sleeping.
    polls: bool,
}

impl Client {
    fn open(address: &str, name: &str, polls: bool) -> Client {
        let mut stream = TcpStream::connect(address).expect("the venue listens");
        stream.set_nodelay(true).expect("a socket has this option");
        let request = format!(
            "GET /ws/api/v2 HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("the venue reads");
        let mut client = Client { stream, received: Vec::new(), polls: false };
        let end = loop {
            if let Some(end) = client.received.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            client.read();
        };
        client.received.drain(..end);
        let login =
            format!(r#"{{"grant_type":"client_credentials","client_id":"{name}","client_secret":"{name}-secret"}}"#);
        assert!(client.call(1, "public/auth", &login).contains("access_token"), "the login of {name} is refused");
        client.stream.set_nonblocking(polls).expect("a socket has this option");
        client.polls = polls;
        client
    }

    fn send(&mut self, id: usize, method: &str, params: &str) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let length = u16::try_from(text.len()).expect("a call is short");
        let mut frame = vec![0x81];
        match u8::try_from(length) {
            Ok(short) if short < 126 => frame.push(0x80 | short),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.write_all(&frame).expect("the venue reads");
    }

    fn read(&mut self) {
        let mut part = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => panic!("the venue closed the connection"),
                Ok(count) => return self.received.extend(&part[..count]),
                Err(error) if self.polls && error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns the next message.
    fn receive(&mut self) -> String {
        loop {
            let frame = match self.received[..] {
                [_, 126, high, low, ..] => Some((4, usize::from(u16::from_be_bytes([high, low])))),
                [_, length, ..] if length < 126 => Some((2, usize::from(length))),
                _ => None,
            };
            if let Some((head, length)) = frame
                && self.received.len() >= head + length
            {
                let text = String::from_utf8_lossy(&self.received[head..head + length]).into_owned();
                self.received.drain(..head + length);
                return text;
            }
            self.read();
        }
    }

    /// Returns the answer to a call. Discards other messages.
    fn answer(&mut self, id: usize) -> String {
        let number = format!(r#""id":{id},"#);
        loop {
            let text = self.receive();
            if text.contains(&number) {
                return text;
            }
        }
    }

    fn call(&mut self, id: usize, method: &str, params: &str) -> String {
        self.send(id, method, params);
        self.answer(id)
    }
}

fn quantile_us(latencies: &mut [Duration], percent: usize) -> f64 {
    latencies.sort_unstable();
    latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1e6
}

/// Answers the requests of one ping-pong.
fn echo() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    println!("{}", listener.local_addr().expect("it is bound"));
    let (mut stream, _) = listener.accept().expect("the parent connects");
    stream.set_nodelay(true).expect("a socket has this option");
    let (mut request, answer) = (vec![0; SIZES.0], vec![0; SIZES.1]);
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&answer).is_ok() {}
}

fn ping_pong(count: usize) -> Vec<Duration> {
    let program = std::env::current_exe().expect("it runs");
    let mut child = Command::new(program).arg("echo").stdout(Stdio::piped()).spawn().expect("it starts again");
    let mut address = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut address).expect("it prints");
    let mut stream = TcpStream::connect(address.trim()).expect("it listens");
    stream.set_nodelay(true).expect("a socket has this option");
    let (request, mut answer) = (vec![0; SIZES.0], vec![0; SIZES.1]);
    let once = |_| {
        let begun = Instant::now();
        stream.write_all(&request).expect("it reads");
        stream.read_exact(&mut answer).expect("it answers");
        begun.elapsed()
    };
    let latencies = (0..count).map(once).collect();
    drop(stream);
    child.wait().expect("it ends");
    latencies
}

/// Trades `count` times. Returns the times from the receipt of a book change to the fill.
fn trade(address: &str, has_one_connection: bool, polls: bool, count: usize) -> Vec<Duration> {
    // The answer to an offer is read after the fill.
    let mut maker = Client::open(address, "demo-b", false);
    let mut taker = Client::open(address, "demo-a", polls);
    let mut data = (!has_one_connection).then(|| Client::open(address, "demo-a", polls));
    let instrument = taker.call(2, "public/get_instrument", r#"{"instrument_name":"ETH_USDC"}"#);
    let amount = instrument.split(r#""min_trade_amount":"#).nth(1).and_then(|rest| rest.split([',', '}']).next());
    let order = format!(
        r#"{{"instrument_name":"ETH_USDC","amount":{},"type":"limit","price":1500"#,
        amount.expect("an instrument has a smallest amount")
    );
    let reader = data.as_mut().unwrap_or(&mut taker);
    reader.call(3, "public/subscribe", BOOK);
    reader.receive();
    let mut latencies = Vec::new();
    for id in 10..10 + count {
        maker.send(id, "private/sell", &format!("{order}}}"));
        data.as_mut().unwrap_or(&mut taker).receive();
        let changed = Instant::now();
        let buy = format!(r#"{order},"time_in_force":"immediate_or_cancel"}}"#);
        let answer = taker.call(id, "private/buy", &buy);
        latencies.push(changed.elapsed());
        assert!(answer.contains("trade_id"), "the order did not trade: {answer}");
        data.as_mut().unwrap_or(&mut taker).receive();
        maker.answer(id);
    }
    latencies
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (address, count) = match &arguments[..] {
        [mode] if mode == "echo" => return echo(),
        [address, count] => (address, count.parse().expect("the number of loops")),
        _ => panic!("usage: bare_loop ADDRESS LOOPS"),
    };
    println!("| connections | waits | p50, µs | TCP p50 | ratio | p99, µs | TCP p99 | ratio |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (has_one_connection, polls) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut tcp = ping_pong(count);
        let mut latencies = trade(address, has_one_connection, polls, count);
        let connections = if has_one_connection { "one" } else { "two" };
        print!("| {connections} | {} |", if polls { "polls" } else { "sleeps" });
        for percent in [50, 99] {
            let (ours, theirs) = (quantile_us(&mut latencies, percent), quantile_us(&mut tcp, percent));
            print!(" {ours:.1} | {theirs:.1} | {:.2} |", ours / theirs);
        }
        println!();
    }
}
