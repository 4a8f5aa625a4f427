//! `pitwire publish`: serves one feed to many WebSocket clients.

mod source;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use pitwire_nats::{FirstConnection, NatsOptions, NatsSubscription, Wildcards, check_address, check_subject};
use pitwire_net::{listen_options, stop_signals};
use pitwire_publisher::{
    BatchingPolicy, Channels, IncomingMessages, Ingest, LagPolicy, LoopKind, Options, Publisher, StreamId, StreamSpec,
    SubscriberLimits, counted,
};
use pitwire_recorder::recording::RecordingReader;
use rustix::event::{PollFd, PollFlags, poll};

use self::source::{NATS_CAPACITY, Source};
use pitwire_failure::{Failure, more_files, read_text};
use pitwire_net::ready_file::{ReadyFile, ServedAt};
use pitwire_terminal::output::say;
use pitwire_tls::server_certificate::{self, ServerCertificate};

const EXAMPLES: &str =
    "Readers connect to ws://ADDR:PORT/?symbols=A,B&from=EPOCH:SEQ&envelope=1. /metrics and /healthz are
on the same port. See docs/publish.md.

Examples:
  my-feed | pitwire publish --listen 127.0.0.1:9000 --stdin --key sym
      one message per line; a slow reader gets a gap notice and the latest message of each sym
  pitwire publish --listen 0.0.0.0:9000 --nats nats://bus:4222 --subject 'trades.>' --lag close
      from NATS; a slow reader is closed with 1013 and can resume with ?from=EPOCH:SEQ";

/// Sources that answer requests. Options that concern a stream conflict with them.
const ANSWERING: [&str; 2] = ["echo", "respond"];

/// Serve one feed to many WebSocket clients, each at its own speed.
///
/// Each message is encoded once and sent to all readers from one ring. A slow reader gets a notice
/// that names the missed messages, or is closed. It does not slow down other readers. SOURCE is one
/// of --stdin, --tape, --nats, --synthetic, --respond and --echo.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "pitwire publish --listen <ADDR:PORT> <SOURCE> [OPTIONS]")]
#[command(group = clap::ArgGroup::new("from").required(true).args(["stdin", "tape", "nats", "synthetic", "respond", "echo"]))]
pub struct Publish {
    /// Address to listen on. Port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    listen: SocketAddr,
    /// Name of a channel, read at /NAME; repeatable. Without this option every path reads one
    /// channel. With several channels, each message names its channel in the field "channel" (or,
    /// from NATS, by its subject).
    #[arg(long, value_name = "NAME", value_parser = channel_name, conflicts_with_all = ANSWERING)]
    channel: Vec<String>,
    /// Read one message per line from standard input until it ends.
    #[arg(long)]
    stdin: bool,
    /// Play back a recording (pitwire tape record) until it ends.
    #[arg(long, value_name = "FILE")]
    tape: Option<PathBuf>,
    /// Playback speed as a multiple of the recorded speed. 0 plays as fast as the delivery threads
    /// accept messages.
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "tape", conflicts_with_all = ["stdin", "nats", "synthetic", "respond", "echo"], value_parser = speed)]
    tape_speed: f64,
    /// NATS server to read messages from.
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// NATS subject to subscribe to. Wildcards are allowed.
    #[arg(long, value_name = "SUBJECT", default_value = ">", requires = "nats", conflicts_with_all = ["stdin", "tape", "synthetic", "respond", "echo"])]
    subject: String,
    /// Generate this many messages per second, evenly spaced. Each has "seq" and "ts_ns" (its due
    /// time).
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "bytes")]
    synthetic: Option<f64>,
    /// Approximate size of each generated message, in bytes.
    #[arg(long, value_name = "N", conflicts_with_all = ["stdin", "tape", "nats", "respond", "echo"], value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    bytes: Option<u32>,
    /// Answer each text message with this many messages of this size, for example 10x10000.
    #[arg(long, value_name = "KxBYTES", value_parser = answer_size)]
    respond: Option<(usize, usize)>,
    /// Send each message back to its sender.
    #[arg(long)]
    echo: bool,
    /// Message field that holds the key. ?symbols= selects keys, and a slow reader gets the latest
    /// message of each key.
    #[arg(long, value_name = "FIELD", conflicts_with_all = ANSWERING)]
    key: Option<String>,
    /// Wrap each message: {"channel":…,"epoch":…,"seq":…,"data":MESSAGE}. Messages must be JSON.
    #[arg(long, conflicts_with_all = ANSWERING)]
    envelope: bool,
    /// Policy for slow readers: conflate sends a notice of what was missed and the latest message
    /// of each key; close closes the connection.
    #[arg(long, value_enum, default_value = "conflate", conflicts_with_all = ANSWERING)]
    lag: LagName,
    /// Lag threshold in milliseconds. A reader whose oldest unsent message is older is slow too. 0
    /// disables the time check.
    #[arg(long, value_name = "MS", default_value_t = 0, conflicts_with_all = ANSWERING)]
    lag_ms: u32,
    /// Ring capacity in bytes: how far back a reader can resume, and twice the lag at which a
    /// reader is slow. At least eight times the largest message.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = ring_bytes, conflicts_with_all = ANSWERING)]
    ring: u64,
    /// Send each new reader the latest message of each key first.
    #[arg(long, conflicts_with_all = ANSWERING)]
    snapshot: bool,
    /// Token that every reader must send (Authorization: Bearer, or ?token=). @FILE reads it from a
    /// file, which keeps it out of the process list.
    #[arg(long, value_name = "TOKEN")]
    auth: Option<String>,
    /// Additional origin whose pages may connect (https://app.example; * for all). Other foreign
    /// origins are refused.
    #[arg(long, value_name = "ORIGIN", value_parser = listen_options::origin)]
    origin: Vec<String>,
    /// Additional host name under which readers may connect, besides localhost and the address.
    #[arg(long, value_name = "NAME", value_parser = listen_options::host_name)]
    host: Vec<String>,
    /// Maximum number of connections. Further ones get a 503. Default: what the open files limit
    /// allows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Maximum number of connections per client address. Further ones get a 429.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_address: Option<u32>,
    /// Ping interval in seconds. A client that sends nothing for three intervals, not even a pong,
    /// is closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    ping: u32,
    /// Compress messages (permessage-deflate) for readers that offer it. Each delivery thread
    /// compresses a message once for all of them, from its first such reader on.
    #[arg(long)]
    deflate: bool,
    /// Maximum size of a message from a reader, in bytes. A larger one closes the connection with
    /// 1009. Above 32 KiB, the fragments of a message must have at least 64 bytes on average.
    #[arg(long, value_name = "BYTES", default_value_t = 32 * 1024, value_parser = clap::value_parser!(u32).range(125..=67_108_864))]
    message_bytes: u32,
    /// Delivery threads, each with its own connections. Default: one for every two cores, or as
    /// many as hold --connections.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Option<u32>,
    /// Event loop of the delivery threads. Default: epoll, or uring where the kernel allows it and
    /// --connections exceeds the open files of the process. With uring each thread holds as many
    /// connections as the process may open files; with epoll all threads together hold that many.
    #[arg(long = "loop", value_enum)]
    kind: Option<LoopName>,
    /// When messages are sent. latency sends each message at the next opportunity. throughput sends
    /// at most once every 10 ms to each reader: less CPU at more than 100 messages per second, and
    /// up to 10 ms more delay per message.
    #[arg(long, value_enum, default_value = "latency")]
    batching: BatchingName,
    /// Serve TLS (wss). Without --tls-cert, a certificate authority is created once under
    /// --tls-dir, and the output says how to trust it.
    #[arg(long)]
    tls: bool,
    /// The server's certificate chain, PEM.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Directory of the certificate authority that is created without --tls-cert.
    #[arg(long, value_name = "DIR", requires = "tls", default_value = "pitwire-tls")]
    tls_dir: PathBuf,
    /// File written atomically once the server is ready: {"http":"ADDR:PORT","pid":N,"epoch":E};
    /// with --tls also "tls" and, if the authority was created here, "ca".
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LagName {
    Conflate,
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LoopName {
    Uring,
    Epoll,
    /// No longer available.
    #[value(hide = true)]
    Tokio,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BatchingName {
    Latency,
    Throughput,
}

impl BatchingName {
    fn policy(self) -> BatchingPolicy {
        match self {
            BatchingName::Latency => BatchingPolicy::Latency,
            BatchingName::Throughput => BatchingPolicy::Throughput,
        }
    }
}

impl Publish {
    /// Publishes one source to WebSocket subscribers until it ends or a signal comes.
    ///
    /// # Errors
    /// If an option, the source, a certificate, the ready file or the address cannot be used, or
    /// the source fails.
    pub fn run(self) -> Result<(), Failure> {
        // Remove an old file first, so that nothing takes it for ours if the start fails.
        let ready_file = ReadyFile::prepare(self.ready_file.clone())?;
        let source = open_source(&self)?;
        let signals = stop_signals()?;
        let channels = Arc::new(self.channels(&source)?);
        let shown = self.certificate()?;
        let mut options = self.options()?;
        options.tls = shown.as_ref().map(|shown| Arc::clone(&shown.config));
        let epoch = options.epoch;
        let publisher = Publisher::start(options, Arc::clone(&channels) as _).map_err(|error| {
            Failure::new(format!("cannot listen on {}: {error}", self.listen))
                .remedy(more_files(&error).unwrap_or("stop what uses the port, or give another with --listen"))
        })?;
        let publisher = Arc::new(publisher);
        let streams = self.create(&publisher);
        let names: BTreeMap<String, StreamId> =
            self.channel.iter().cloned().zip(streams.iter().map(|(_, id)| *id)).collect();
        let only = if names.is_empty() { streams.first().map(|(_, id)| *id) } else { None };
        channels.set_channels(Arc::clone(publisher.statistics()), names, only);
        let ingest = Ingest::new(Arc::clone(&publisher), streams, self.key.clone());
        let address = publisher.address().unwrap_or(self.listen);
        if !self.json {
            let scheme = if self.tls { "wss" } else { "ws" };
            say(&format!("Serving {scheme}://{address}/; Ctrl-C stops it and says what was sent."));
            if let Some(authority) = shown.as_ref().and_then(|shown| shown.authority.as_deref()) {
                say(&format!("Readers trust {}, for example by SSL_CERT_FILE.", authority.display()));
            }
        }
        let tls = shown.as_ref().map(|shown| (address, shown.authority.clone()));
        let mut ready = ServedAt { http: address, tls }.fields();
        ready["epoch"] = epoch.into();
        ready_file.write(ready)?;
        let began = Instant::now();
        let ended = serve(source, ingest, &signals);
        publisher.stop(if ended.is_ok() { "that is all" } else { "its source failed" })?;
        ready_file.remove()?;
        self.report(&publisher, began.elapsed().as_secs_f64(), ended.as_ref().ok());
        ended.map(|_| ())
    }

    fn certificate(&self) -> Result<Option<ServerCertificate>, Failure> {
        if !self.tls {
            return Ok(None);
        }
        let files = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        server_certificate::server_certificate(files, &self.tls_dir, self.listen).map(Some)
    }

    fn kind(&self) -> Result<LoopKind, Failure> {
        if self.tls {
            // Encrypted sends do not share a submission, so io_uring would gain nothing.
            return match self.kind {
                Some(LoopName::Uring | LoopName::Tokio) => {
                    Err(Failure::usage("--tls is served by --loop epoll alone").remedy("leave --loop out"))
                }
                _ => Ok(LoopKind::Epoll),
            };
        }
        let (best, why_not) = Publisher::best_loop();
        match (self.kind, why_not) {
            (Some(LoopName::Tokio), _) => {
                Err(Failure::usage("--loop tokio is no longer available").remedy("use --loop epoll or --loop uring"))
            }
            (Some(LoopName::Uring), Some(error)) => Err(Failure::new(format!(
                "--loop uring: this machine refuses it: {error}"
            ))
            .remedy("use --loop epoll, or allow io_uring (sysctl kernel.io_uring_disabled=0; containers forbid it)")),
            (Some(LoopName::Uring), None) => Ok(LoopKind::Uring),
            (Some(LoopName::Epoll), _) => Ok(LoopKind::Epoll),
            // Under load a send costs io_uring more here than epoll, so it serves only the
            // connections that files cannot: see docs/decisions/0006.
            (None, _) if self.connections.is_some_and(|most| most as usize > usable_files()) => Ok(best),
            (None, _) => Ok(LoopKind::Epoll),
        }
    }

    fn channels(&self, source: &Source) -> Result<Channels, Failure> {
        let is_again = |(at, name): &(usize, &String)| self.channel[..*at].contains(name);
        if let Some((_, name)) = self.channel.iter().enumerate().find(is_again) {
            return Err(Failure::usage(format!("--channel {name} is given twice")).remedy("name each channel once"));
        }
        let incoming = match (self.echo, self.respond.is_some()) {
            (true, _) => IncomingMessages::Echo,
            (_, true) => IncomingMessages::Respond,
            _ => IncomingMessages::Ignore,
        };
        let token = self.auth.as_deref().map(token).transpose()?;
        Ok(Channels::new(incoming, self.envelope, token, source.is_away()))
    }

    fn options(&self) -> Result<Options, Failure> {
        let ping_ms = self.ping * 1_000;
        let (lag_ms, deflate) = (self.lag_ms, self.deflate);
        let mut limits =
            SubscriberLimits { ping_ms, idle_ms: 3 * ping_ms, lag_ms, deflate, ..SubscriberLimits::default() };
        if self.message_bytes > 32 * 1024 {
            limits.messages.fragments = self.message_bytes / 64;
        }
        limits.messages.message_bytes = usize::try_from(self.message_bytes).unwrap_or(usize::MAX);
        let (count, bytes) = self.respond.unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| {
            Failure::new("the clock of this machine is before 1970").remedy("set the clock: resume tokens depend on it")
        })?;
        let seed = now.subsec_nanos();
        let files = usable_files();
        let kind = self.kind()?;
        // io_uring sockets do not count as open files of the process. A full thread reports that
        // itself.
        let files = if kind == LoopKind::Uring { usize::MAX } else { files };
        if let Some(most) = self.connections.filter(|most| *most as usize > files) {
            let remedy = if self.tls { "raise that (ulimit -n)" } else { "raise that (ulimit -n) or use --loop uring" };
            eprintln!(
                "pitwire publish: note: {files} connections instead of {most}: so many files may be open here; {remedy}"
            );
        }
        Ok(Options {
            listen: Some(self.listen),
            threads: self.threads.map_or_else(|| threads(kind, self.connections), |threads| threads as usize),
            kind,
            limits,
            connections_most: self.connections.map_or(files, |most| files.min(most as usize)),
            per_address: self.per_address,
            hosts: self.host.clone(),
            origins: self.origin.clone(),
            epoch: u64::try_from(now.as_millis()).unwrap_or(0),
            answer: (1..=count).map(|seq| answer(seq, bytes)).collect(),
            seed: u64::from(seed),
            enveloped: self.envelope,
            batching: self.batching.policy(),
            ..Options::default()
        })
    }

    fn create(&self, publisher: &Publisher) -> Vec<(String, StreamId)> {
        let names = if self.channel.is_empty() { vec!["stream".to_owned()] } else { self.channel.clone() };
        let lag = match self.lag {
            LagName::Conflate => LagPolicy::Conflate,
            LagName::Close => LagPolicy::Close,
        };
        let ring_bytes = usize::try_from(self.ring).unwrap_or(1 << 20);
        let create = |name: String| {
            let spec = StreamSpec { name: name.clone(), lag, ring_bytes, snapshot: self.snapshot, keep: true };
            (name, publisher.create(&spec))
        };
        names.into_iter().map(create).collect()
    }

    fn report(&self, publisher: &Publisher, seconds: f64, ingest: Option<&Ingest>) {
        let total = |name: &str| counted(publisher.statistics(), name);
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu_s = std::time::Duration::try_from(cpu).map_or(0.0, |time| time.as_secs_f64());
        let messages = ingest.map_or(0, Ingest::messages);
        if self.json {
            let figures = serde_json::json!({
                "seconds": seconds, "cpu_s": cpu_s, "messages": messages, "unrouted": ingest.map_or(0, Ingest::unrouted),
                "connections": total("opened_total"), "refused": total("refused_total"),
                "sent_bytes": total("sent_bytes_total"), "sends": total("sends_total"), "sweeps": total("sweeps_total"),
                "gaps": total("gaps_total"), "closed_slow": total("closed_slow_total"),
                "closed_idle": total("closed_idle_total"), "violations": total("violations_total"),
                "shed": total("shed_total"), "too_large": ingest.map_or(0, Ingest::too_large),
            });
            say(&figures.to_string());
            return;
        }
        say(&format!(
            "{messages} messages in {seconds:.1} s to {} readers: {} bytes in {} sends, {cpu_s:.2} s of CPU; {} fell behind, {} closed for it",
            total("opened_total"),
            total("sent_bytes_total"),
            total("sends_total"),
            total("gaps_total"),
            total("closed_slow_total"),
        ));
    }
}

/// Files that connections may use. The rest is for files that the process itself opens, and for
/// connections being refused.
fn usable_files() -> usize {
    open_files().saturating_sub(64).max(1)
}

/// Opens the source that the options select.
fn open_source(publish: &Publish) -> Result<Source, Failure> {
    if let Some(path) = &publish.tape {
        let reader = RecordingReader::open(path).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", path.display()))
                .remedy("give a file that pitwire tape record has written")
        })?;
        return Ok(Source::Tape { reader: Box::new(reader), speed: publish.tape_speed });
    }
    if let Some(url) = &publish.nats {
        check_address(url)?;
        check_subject(&publish.subject, Wildcards::Allowed)?;
        let options = NatsOptions {
            name: "pitwire publish",
            first_connection: FirstConnection::Required,
            subscription_capacity: NATS_CAPACITY,
        };
        let subscription = NatsSubscription::open(url, &publish.subject, &options)?;
        return Ok(Source::Nats { subscription: Box::new(subscription) });
    }
    Ok(match (publish.synthetic, publish.bytes) {
        (Some(rate), Some(bytes)) => Source::Synthetic { rate, bytes: bytes as usize },
        _ if publish.stdin => Source::Lines,
        _ => Source::Nothing,
    })
}

/// Runs the source until it ends or a stop signal arrives.
fn serve(source: Source, mut ingest: Ingest, signals: &std::os::unix::net::UnixStream) -> Result<Ingest, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let (finished, outcome) = mpsc::channel();
    let source_stop = Arc::clone(&stop);
    let run = move || {
        let ended = source.run(&mut ingest, &source_stop);
        ingest.flush();
        // The receiver may have given up waiting after a stop signal.
        let _ = finished.send(ended.map(|()| ingest));
        drop(theirs);
    };
    std::thread::Builder::new().name("source".into()).spawn(run)?;
    let mut polled = [PollFd::new(signals, PollFlags::IN), PollFd::new(&ours, PollFlags::IN)];
    while matches!(poll(&mut polled, None), Err(rustix::io::Errno::INTR)) {}
    stop.store(true, Ordering::Relaxed);
    // Bound the wait, because a read from standard input may block forever.
    match outcome.recv_timeout(std::time::Duration::from_millis(500)) {
        Ok(ended) => ended,
        Err(_) => Err(Failure::new("the source did not end in time").remedy("its last messages may be missing")),
    }
}

/// Returns the default number of delivery threads: one for every two cores. With io_uring, where
/// each thread holds at most as many connections as the process may open files, enough to hold the
/// expected connections, at most 64.
fn threads(kind: LoopKind, connections: Option<u32>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let expected = connections.filter(|_| kind == LoopKind::Uring).map_or(0, |most| most as usize);
    // The kernel spreads connections over the listening sockets unevenly, by one or two per cent.
    let each = (open_files() / 20 * 19).max(1);
    cores.div_ceil(2).max(expected.div_ceil(each)).min(64)
}

fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1 << 20)
}

/// Returns message `seq` of an answer. It contains its number, if that fits into `bytes`.
fn answer(seq: usize, bytes: usize) -> Vec<u8> {
    let mut text = format!(r#"{{"seq":{seq},"pad":""#).into_bytes();
    if text.len() + 2 > bytes {
        return vec![b'x'; bytes];
    }
    text.resize(bytes - 2, b'x');
    text.extend_from_slice(b"\"}");
    text
}

fn channel_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@/:".contains(&byte);
    if text.is_empty() || text.starts_with('/') || !text.bytes().all(is_plain) {
        return Err("a channel's name has letters, digits and -_.@/: and does not begin with /".into());
    }
    Ok(text.to_owned())
}

fn speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|x: &f64| x.is_finite() && *x >= 0.0)
        .ok_or_else(|| "give a number, or 0 for no pauses".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (0.001..=10_000_000.0).contains(rate));
    rate.ok_or_else(|| "give messages a second, from 0.001 to 10000000".into())
}

fn ring_bytes(text: &str) -> Result<u64, String> {
    let (number, shift) = match text {
        _ if text.ends_with("KiB") => (&text[..text.len() - 3], 10),
        _ if text.ends_with("MiB") => (&text[..text.len() - 3], 20),
        _ => (text, 0),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (4096..=1 << 30).contains(bytes))
        .ok_or_else(|| "give bytes, or 64KiB, 4MiB: from 4KiB to 1024MiB".into())
}

fn answer_size(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('x').and_then(|(count, bytes)| Some((count.parse().ok()?, bytes.parse().ok()?)));
    parts
        .filter(|(count, bytes)| {
            (1..=1_000).contains(count) && (1..=16 << 20).contains(bytes) && count * bytes <= 64 << 20
        })
        .ok_or_else(|| "write how many and how large, for example 10x10000 (64 MiB together at most)".into())
}

/// Returns the token: the text itself, or for `@FILE` the file's content without the final line
/// break.
fn token(text: &str) -> Result<String, Failure> {
    if text.is_empty() {
        return Err(
            Failure::usage("the token of --auth is empty").remedy("give one, or leave --auth out to serve everybody")
        );
    }
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let read = File::open(path).and_then(read_text).map_err(|error| {
        Failure::usage(format!("cannot read {path}: {error}")).remedy("name a readable text file after @")
    })?;
    let token = read.trim_end_matches(['\r', '\n']).to_owned();
    if token.is_empty() {
        return Err(Failure::usage(format!("{path} is empty")).remedy("write the token into it"));
    }
    Ok(token)
}
