//! `pitwire feed-check`: reads both lines of an order-by-order feed and reports their quality.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pitwire_failure::Failure;
use pitwire_model::Side;
use pitwire_net::{listen_options, stop_flag};
use pitwire_order_feed_network::{FeedEncoding, FeedReader, ReaderError, ReaderOptions};
use pitwire_terminal::output::say;
use serde_json::{Value, json};

const EXAMPLES: &str = "What each figure means: docs/order-feed.md.

Examples:
  pitwire feed-check --lines 127.0.0.1:9100,127.0.0.1:9101 --recovery 127.0.0.1:9102
      the feed of `pitwire up --order-feed` with the same addresses, for ten seconds
  pitwire feed-check --lines 239.1.1.1:9100 --recovery 10.0.0.5:9102 --encoding itch --json
      one multicast line of `pitwire up --order-feed-encoding itch`, as one JSON object";

/// Interval in which the check looks at the clock and at Ctrl-C.
const POLL: Duration = Duration::from_millis(100);
const LINE_NAMES: [&str; 2] = ["A", "B"];

/// Encoding of an order-by-order feed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OrderFeedEncoding {
    /// MITCH 4.07, with replays and snapshots over TCP
    Mitch,
    /// ITCH 5.0 in packets of MoldUDP64, with snapshots of GLIMPSE
    Itch,
}

impl From<OrderFeedEncoding> for FeedEncoding {
    fn from(encoding: OrderFeedEncoding) -> Self {
        match encoding {
            OrderFeedEncoding::Mitch => FeedEncoding::Mitch,
            OrderFeedEncoding::Itch => FeedEncoding::Itch,
        }
    }
}

/// Check the lines of an order-by-order feed: gaps, duplicates, delays and books.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FeedCheck {
    /// Addresses of lines A and B at this host, or multicast groups. One address checks line A
    /// only.
    #[arg(long, value_name = "ADDRS", value_parser = listen_options::address, value_delimiter = ',', required = true)]
    lines: Vec<SocketAddr>,
    /// Recovery port of the venue.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    recovery: SocketAddr,
    /// Encoding of the feed.
    #[arg(long, value_enum, value_name = "NAME", default_value = "mitch")]
    encoding: OrderFeedEncoding,
    /// Address from which the venue sends; the default is that of the recovery port.
    #[arg(long, value_name = "ADDR")]
    source: Option<IpAddr>,
    /// Own IPv4 address at which multicast groups are received.
    #[arg(long, value_name = "ADDR")]
    interface: Option<Ipv4Addr>,
    /// Length of the check; at least 2, because an idle line has one heartbeat each second.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=86_400))]
    seconds: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl FeedCheck {
    /// Reads the feed for the chosen time and prints the report.
    ///
    /// # Errors
    /// If an address cannot be used, the recovery port does not answer, a line is silent, or a
    /// message did not fit the books.
    pub fn run(self) -> Result<(), Failure> {
        check_lines(&self.lines, "--lines")?;
        let options = ReaderOptions {
            lines: self.lines.clone(),
            recovery: self.recovery,
            encoding: self.encoding.into(),
            source: self.source,
            interface: self.interface,
        };
        let stop = stop_flag()?;
        let mut reader = FeedReader::join(options).map_err(failure)?;
        let deadline = Instant::now() + Duration::from_secs(u64::from(self.seconds));
        let mut problem = None;
        while Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
            if let Err(error) = reader.poll(POLL, &mut |_, _| {}) {
                problem = Some(error);
                // The next poll joins again.
                std::thread::sleep(POLL);
            }
        }
        say(&if self.json { self.as_json(&reader).to_string() } else { self.as_text(&reader) });
        if let Some(error) = problem.filter(|_| !reader.is_joined()) {
            return Err(failure(error));
        }
        let silent = (0..self.lines.len()).find(|line| {
            let counts = reader.line_counts(*line);
            counts.units + counts.heartbeats == 0
        });
        if let Some((name, address)) = silent.and_then(|line| Some((LINE_NAMES.get(line)?, self.lines.get(line)?))) {
            return Err(Failure::new(format!("line {name} at {address} received nothing"))
                .remedy("compare --lines with --order-feed of the venue, and --source with its address"));
        }
        match reader.counts().misfits {
            0 => Ok(()),
            misfits => Err(Failure::new(format!("messages did not fit the books {misfits} times"))
                .remedy("check whether another sender uses these lines")),
        }
    }

    fn as_json(&self, reader: &FeedReader) -> Value {
        let lines: Vec<Value> = (self.lines.iter().enumerate())
            .map(|(line, address)| {
                let counts = reader.line_counts(line);
                json!({
                    "address": address.to_string(), "units": counts.units, "messages": counts.messages,
                    "heartbeats": counts.heartbeats, "gaps": counts.gaps,
                    "missing_messages": counts.missing_messages, "repeated": counts.repeated,
                    "first": counts.first, "invalid": counts.invalid, "foreign": counts.foreign,
                })
            })
            .collect();
        let books: Vec<Value> = book_rows(reader)
            .map(|book| json!({"instrument_name": book.name, "orders": book.orders, "checksum": book.checksum}))
            .collect();
        let (counts, delays) = (reader.counts(), reader.line_delays());
        json!({
            "next_message": reader.next_number(), "messages": counts.messages, "duplicates": counts.duplicates,
            "dropped": counts.dropped, "overflow": counts.overflow, "replays": counts.replays,
            "replayed_messages": counts.replayed_messages, "snapshots": counts.snapshots, "misfits": counts.misfits,
            "lines": lines, "books": books,
            "line_delay_ns": {
                "units": delays.len(), "p50": delays.value_at_quantile(0.5), "p99": delays.value_at_quantile(0.99),
                "max": delays.max(),
            },
        })
    }

    fn as_text(&self, reader: &FeedReader) -> String {
        let mut rows = Vec::new();
        for (line, (address, name)) in self.lines.iter().zip(LINE_NAMES).enumerate() {
            let counts = reader.line_counts(line);
            rows.push(format!(
                "line {name}  {address}: {} messages in {} units, {} first; {} gaps with {} messages, {} repeated, {} invalid, {} foreign",
                counts.messages,
                counts.units,
                counts.first,
                counts.gaps,
                counts.missing_messages,
                counts.repeated,
                counts.invalid,
                counts.foreign
            ));
        }
        let (counts, delays) = (reader.counts(), reader.line_delays());
        if self.lines.len() > 1 {
            let us = |quantile| delays.value_at_quantile(quantile) / 1_000;
            rows.push(format!("delay   p50 {} µs, p99 {} µs, max {} µs between the lines", us(0.5), us(0.99), us(1.0)));
        }
        rows.push(format!(
            "feed    {} messages up to number {}; {} duplicate units, {} replays, {} snapshots, {} dropped, {} overflowed",
            counts.messages,
            reader.next_number().saturating_sub(1),
            counts.duplicates,
            counts.replays,
            counts.snapshots,
            counts.dropped,
            counts.overflow
        ));
        rows.extend(
            book_rows(reader).map(|book| format!("book    {}: {} orders, {}", book.name, book.orders, book.checksum)),
        );
        rows.join("\n")
    }
}

struct BookRow {
    name: String,
    orders: usize,
    checksum: String,
}

fn book_rows(reader: &FeedReader) -> impl Iterator<Item = BookRow> {
    let books = reader.books();
    books.instruments().filter_map(|(id, state)| {
        let orders = Side::BOTH.iter().map(|side| books.orders(id, *side).count()).sum();
        let name = state.directory.as_ref()?.symbol.text();
        Some(BookRow { name, orders, checksum: format!("{:08x}", books.checksum(id)) })
    })
}

fn failure(error: ReaderError) -> Failure {
    let remedy = match error {
        ReaderError::Line { .. } => "give --lines addresses of this host that no other program uses",
        ReaderError::Recovery { .. } => {
            "compare --recovery with --order-feed-recovery of the venue, and --encoding with --order-feed-encoding"
        }
    };
    Failure::new(error.to_string()).remedy(remedy)
}

/// Refuses more than two lines, and one address for both.
///
/// # Errors
/// Names the wrong address and the option.
pub(super) fn check_lines(lines: &[SocketAddr], option: &str) -> Result<(), Failure> {
    match lines {
        [_, _, third, ..] => Err(Failure::usage(format!("{option} {third} is a third line"))
            .remedy("give one address for line A, or two for lines A and B")),
        [a, b] if a == b => {
            Err(Failure::usage(format!("{option} names {a} twice"))
                .remedy("give line B another address or another port"))
        }
        _ => Ok(()),
    }
}
