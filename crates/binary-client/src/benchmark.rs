//! Measures the time from an order to its acknowledgement, beside a TCP ping-pong of the same
//! sizes.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use pitwire_failure::Failure;
use pitwire_sbe_gateway::*;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::session::{EntryEvent, Login, OrderEntrySession, is_readable, limit_order};

const ONE_LOT: FixedDecimal = FixedDecimal(100_000_000);
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];
/// A quantile is printed only if this many values lie above it.
const LEAST_VALUES_ABOVE: f64 = 100.0;
/// Longest wait for an answer that is not due at a fixed time.
const IDLE_WAIT: Duration = Duration::from_secs(1);
/// How long a server of a ping-pong polls: the venue's time with `--idle spin`.
const POLLING_TIME: Duration = Duration::from_micros(50);
/// Largest latency of a histogram in nanoseconds.
const MAX_LATENCY_NS: u64 = 60_000_000_000;

/// Parameters of a benchmark.
pub struct BenchmarkOptions {
    pub address: SocketAddr,
    pub instrument: u32,
    /// A price at which a buy order rests.
    pub price: FixedDecimal,
    /// Orders a second in the open loop, over all clients.
    pub rate: u32,
    /// Orders of each measurement, over all clients.
    pub orders: u32,
    pub rounds: u32,
    /// On which cores the threads run. Without it the scheduler chooses.
    pub cores: Option<Cores>,
    /// One client each.
    pub logins: Vec<Login>,
}

/// Numbers of the cores on which the threads of a benchmark run.
///
/// A message between two sleeping threads takes several times as long if they run on two cores as
/// if they share one, and the scheduler may choose either. Only with both set do the ping-pong and
/// the venue have the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Core of the threads that send orders.
    pub client: u32,
    /// Core of the servers of the ping-pongs. The venue must be started on it, too.
    pub venue: u32,
}

/// How the server of a ping-pong waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PingPongWait {
    /// Its thread sleeps, like that of a venue with `--idle block`.
    Sleep,
    /// Its thread polls for as long as that of a venue with `--idle spin`, and then sleeps.
    Poll,
}

/// An answer on a measured connection.
enum BenchmarkAnswer {
    Acknowledged(usize),
    Cancelled,
}

/// A connection that is measured. It cancels each order after its acknowledgement.
trait MeasuredConnection: Send {
    fn enter(&mut self, number: usize) -> Result<(), Failure>;
    /// Takes what arrives within the timeout.
    fn poll(&mut self, timeout: Duration) -> Result<Option<BenchmarkAnswer>, Failure>;
}

struct SbeConnection {
    session: OrderEntrySession,
    instrument: u32,
    price: FixedDecimal,
    /// Numbers of the orders by their requests.
    entered: HashMap<u64, usize>,
}

impl MeasuredConnection for SbeConnection {
    fn enter(&mut self, number: usize) -> Result<(), Failure> {
        let (instrument, price) = (self.instrument, self.price);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let order =
            |request| limit_order(request, &format!("{now}-{number}"), instrument, OrderSide::Buy, ONE_LOT, price);
        self.entered.insert(self.session.request(order), number);
        Ok(())
    }

    fn poll(&mut self, timeout: Duration) -> Result<Option<BenchmarkAnswer>, Failure> {
        if !self.session.has_input(timeout) {
            return Ok(None);
        }
        match self.session.poll()? {
            Some(EntryEvent::Message(SbeMessage::OrderAccepted(accepted))) => {
                let Some(number) = self.entered.remove(&accepted.request_id) else {
                    return Ok(Some(BenchmarkAnswer::Cancelled));
                };
                self.session.request(|request_id| CancelOrder { request_id, order_id: accepted.order_id });
                Ok(Some(BenchmarkAnswer::Acknowledged(number)))
            }
            Some(EntryEvent::Message(SbeMessage::Reject(reject))) => {
                Err(Failure::new(format!("an order failed: {}", reject.name))
                    .remedy("the venue must have no order flow, and the price must not trade"))
            }
            _ => Ok(None),
        }
    }
}

/// A TCP ping-pong with the sizes of an order and its acknowledgement, without a venue.
struct PingPong {
    stream: Option<TcpStream>,
    server: Option<JoinHandle<io::Result<()>>>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl PingPong {
    fn start(wait: PingPongWait, core: Option<u32>) -> io::Result<PingPong> {
        let encoded = |message: SbeMessage| {
            let mut frame = Vec::new();
            message.encode(&mut frame);
            frame
        };
        let request = encoded(limit_order(0, "", 0, OrderSide::Buy, ONE_LOT, ONE_LOT).into());
        let accepted = OrderAccepted {
            sequence: 0,
            request_id: 0,
            order_id: 0,
            client_order_id: Text::new(""),
            status: OrderStatus::Open,
            quantity: None,
            filled_quantity: None,
        };
        let answer = encoded(accepted.into());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nodelay(true)?;
        let (mut socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let (mut received, answer_bytes) = (request.clone(), answer.len());
        socket.set_nonblocking(wait == PingPongWait::Poll)?;
        let serve = move || -> io::Result<()> {
            run_on(core)?;
            // The connection ends with the benchmark.
            loop {
                match wait {
                    PingPongWait::Sleep => socket.read_exact(&mut received)?,
                    PingPongWait::Poll => read_polling(&mut socket, &mut received)?,
                }
                socket.write_all(&received[..answer_bytes])?;
            }
        };
        Ok(PingPong { stream: Some(stream), server: Some(thread::spawn(serve)), request, answer })
    }

    /// The number travels in the first bytes, and comes back in those of the answer.
    fn send(&mut self, number: usize) -> io::Result<()> {
        self.request[..size_of::<usize>()].copy_from_slice(&number.to_le_bytes());
        self.stream.as_mut().map_or(Ok(()), |stream| stream.write_all(&self.request))
    }

    fn receive(&mut self, timeout: Duration) -> io::Result<Option<usize>> {
        let Some(stream) = self.stream.as_mut().filter(|stream| is_readable(stream, timeout)) else { return Ok(None) };
        stream.read_exact(&mut self.answer)?;
        Ok(self.answer.first_chunk().map(|number| usize::from_le_bytes(*number)))
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        self.stream = None;
        if let Some(server) = self.server.take() {
            drop(server.join());
        }
    }
}

/// Reads a whole message from a socket that does not block. Polls the socket for
/// [`POLLING_TIME`], and then sleeps.
fn read_polling(socket: &mut TcpStream, message: &mut [u8]) -> io::Result<()> {
    let (begin, mut read) = (Instant::now(), 0);
    while let Some(rest) = message.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match socket.read(rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if begin.elapsed() < POLLING_TIME => {}
            Err(_) => drop(is_readable(socket, IDLE_WAIT)),
        }
    }
    Ok(())
}

/// Lets the calling thread run on one core only.
fn run_on(core: Option<u32>) -> io::Result<()> {
    let Some(core) = core.and_then(|core| usize::try_from(core).ok()) else { return Ok(()) };
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

fn ping_pong_failure(error: io::Error) -> Failure {
    Failure::new(format!("the TCP ping-pong failed: {error}"))
}

fn core_failure(error: io::Error) -> Failure {
    Failure::new(format!("cannot run on the core of --cores: {error}"))
        .remedy("name cores that this process may use, see `nproc` and `taskset -p $$`")
}

impl MeasuredConnection for PingPong {
    fn enter(&mut self, number: usize) -> Result<(), Failure> {
        self.send(2 * number).map_err(ping_pong_failure)
    }

    fn poll(&mut self, timeout: Duration) -> Result<Option<BenchmarkAnswer>, Failure> {
        let Some(number) = self.receive(timeout).map_err(ping_pong_failure)? else { return Ok(None) };
        if number % 2 == 1 {
            return Ok(Some(BenchmarkAnswer::Cancelled));
        }
        self.send(number + 1).map_err(ping_pong_failure)?;
        Ok(Some(BenchmarkAnswer::Acknowledged(number / 2)))
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("constant bounds are valid")
}

/// Sends `orders` orders, at fixed times if there is an interval and otherwise one after the other.
/// Returns the latencies from the due times, in nanoseconds.
fn measure_one(
    connection: &mut dyn MeasuredConnection,
    orders: u32,
    interval: Option<Duration>,
) -> Result<Histogram<u64>, Failure> {
    let (begin, mut latencies) = (Instant::now(), histogram());
    let (mut due_times, mut cancelled) = (Vec::new(), 0);
    while cancelled < orders {
        let (now, entered) = (Instant::now(), u32::try_from(due_times.len()).unwrap_or(u32::MAX));
        let due = interval.map_or(now, |interval| begin + interval * entered);
        let is_next = entered < orders && (interval.is_some() || cancelled == entered);
        if is_next && now >= due {
            connection.enter(due_times.len())?;
            due_times.push(due);
            continue;
        }
        match connection.poll(if is_next { due - now } else { IDLE_WAIT })? {
            Some(BenchmarkAnswer::Acknowledged(number)) => {
                let latency = due_times.get(number).map_or(Duration::ZERO, Instant::elapsed);
                latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
            }
            Some(BenchmarkAnswer::Cancelled) => cancelled += 1,
            None => {}
        }
    }
    Ok(latencies)
}

/// Measures some connections at once, each on a thread.
fn measure(
    connections: &mut [Box<dyn MeasuredConnection>],
    orders: u32,
    rate: Option<u32>,
    core: Option<u32>,
) -> Result<Histogram<u64>, Failure> {
    let clients = u32::try_from(connections.len()).unwrap_or(u32::MAX);
    let interval = rate.map(|rate| Duration::from_secs(clients.into()) / rate.max(1));
    let measured = thread::scope(|scope| {
        let threads: Vec<_> = connections
            .iter_mut()
            .map(|connection| {
                scope.spawn(move || {
                    run_on(core).map_err(core_failure)?;
                    measure_one(connection.as_mut(), orders / clients, interval)
                })
            })
            .collect();
        let failed = || Err(Failure::new("a thread of the benchmark panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect::<Result<Vec<_>, _>>()
    })?;
    let mut all = histogram();
    for latencies in measured {
        all.add(latencies).expect("all histograms have the same bounds");
    }
    Ok(all)
}

/// Measures SBE and both kinds of ping-pongs, and prints a table in microseconds. Each value is the
/// median of the rounds.
///
/// # Errors
///
/// Fails if a core cannot be used, if a session fails, or if the venue rejects an order.
pub fn run(options: BenchmarkOptions) -> Result<(), Failure> {
    let BenchmarkOptions { address, instrument, price, rate, orders, rounds, cores, logins } = options;
    let (client_core, venue_core) = (cores.map(|cores| cores.client), cores.map(|cores| cores.venue));
    for core in [client_core, venue_core] {
        let checked = thread::spawn(move || run_on(core)).join();
        checked.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(core_failure)?;
    }
    let mut sleeping: Vec<Box<dyn MeasuredConnection>> = Vec::new();
    let mut polling: Vec<Box<dyn MeasuredConnection>> = Vec::new();
    let mut binary: Vec<Box<dyn MeasuredConnection>> = Vec::new();
    for login in logins {
        for (ping_pongs, wait) in [(&mut sleeping, PingPongWait::Sleep), (&mut polling, PingPongWait::Poll)] {
            ping_pongs.push(Box::new(PingPong::start(wait, venue_core).map_err(ping_pong_failure)?));
        }
        let session = OrderEntrySession::log_on(address, login)?;
        binary.push(Box::new(SbeConnection { session, instrument, price, entered: HashMap::new() }));
    }
    let mut kinds = [("TCP ping-pong", sleeping), ("TCP ping-pong, polling", polling), ("SBE", binary)];
    // Histograms of the rounds, by row of the table.
    let mut rows: BTreeMap<String, Vec<Histogram<u64>>> = BTreeMap::new();
    // The first round warms up.
    for round in 0..=rounds {
        for (name, connections) in &mut kinds {
            let mut counts = vec![1, connections.len()];
            counts.dedup();
            for clients in counts {
                for (title, at_rate) in [("closed", None), ("open", Some(rate))] {
                    let measured = measure(&mut connections[..clients], orders, at_rate, client_core)?;
                    if round > 0 {
                        rows.entry(format!("{title} | {clients} | {name}")).or_default().push(measured);
                    }
                }
            }
        }
    }
    println!("| loop | clients | transport | p50 | p90 | p99 | p99.9 | p99.99 |\n|---|---|---|---|---|---|---|---|");
    for (row, measured) in &rows {
        let cells = QUANTILES.map(|quantile| {
            let mut values: Vec<u64> = measured.iter().map(|round| round.value_at_quantile(quantile)).collect();
            values.sort_unstable();
            let is_known = (1.0 - quantile) * f64::from(orders) * f64::from(rounds) >= LEAST_VALUES_ABOVE;
            match values.get(values.len() / 2) {
                Some(ns) if is_known => format!("{:.1}", Duration::from_nanos(*ns).as_secs_f64() * 1e6),
                _ => "–".into(),
            }
        });
        println!("| {row} | {} |", cells.join(" | "));
    }
    Ok(())
}
