//! The parameters of a run.
//!
//! Does        holds them; splits connections between threads and processes; parses `--arrivals`
//!             and `--expect`.
//! Start at    [`LoadPlan`].

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pitwire_tls::ClientConfig;
use pitwire_websocket::Address;

/// A message that arrives more than this many nanoseconds after it was due is late.
pub const LATE_NS: i64 = 1_000_000_000;
/// Most connections of one run. The ports and the memory of one machine are exhausted before.
pub const MOST_CONNECTIONS: u32 = 4_000_000;
const MOST_PER_S: f64 = 100_000_000.0;
const MOST_BYTES: u32 = 16 << 20;

#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub address: Address,
    pub server: SocketAddr,
    pub tls: Option<Arc<ClientConfig>>,
    pub share: ConnectionShare,
    /// How long to measure, once every connection is open.
    pub duration: Duration,
    pub traffic: Traffic,
    pub arrivals: Option<Arrivals>,
    /// Text sent once on each connection when it opens.
    pub subscribe: Option<String>,
    pub subprotocol: Option<String>,
    pub deflate: bool,
    pub faulty_readers: FaultyReaders,
    /// When all connections are cut and opened again, counted from the start of measuring.
    pub storm: Option<Duration>,
    pub threads: usize,
    /// Source addresses in 127.0.0.0/8; 0 uses as many as the ports require.
    pub sources: u32,
    /// Time limit for connecting and the handshakes together.
    pub open_timeout: Duration,
    /// Connections that may be opening at a time, over the whole run.
    pub max_opening: u32,
    pub sequence_field: String,
    pub seed: u64,
}

impl LoadPlan {
    /// Returns a plan in which one thread only listens, over plain TCP and without faulty readers.
    pub fn listening(address: Address, server: SocketAddr, connections: u32, duration: Duration) -> Self {
        LoadPlan {
            address,
            server,
            tls: None,
            share: ConnectionShare::whole(connections),
            duration,
            traffic: Traffic::Listen,
            arrivals: None,
            subscribe: None,
            subprotocol: None,
            deflate: false,
            faulty_readers: FaultyReaders::default(),
            storm: None,
            threads: 1,
            sources: 0,
            open_timeout: Duration::from_secs(20),
            max_opening: 1_000,
            sequence_field: "seq".into(),
            seed: 1,
        }
    }
}

/// Messages that the load client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Nothing. The server publishes.
    Listen,
    /// A short message each period. The server answers with `expect`.
    Heartbeat { period: Duration, expect: ExpectedReplies },
    /// A message of this many bytes each second. The server returns it.
    Echo { bytes: u32 },
}

/// The answers to one heartbeat, written as `MESSAGESxBYTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedReplies {
    pub messages: u32,
    pub bytes: u32,
}

impl FromStr for ExpectedReplies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (messages, bytes) = text.split_once('x')?;
            let expect = ExpectedReplies { messages: messages.parse().ok()?, bytes: bytes.parse().ok()? };
            ((1..=10_000).contains(&expect.messages) && expect.bytes <= MOST_BYTES).then_some(expect)
        };
        parse().ok_or_else(|| format!("give messages x bytes of each, as in 10x10000 (at most 10000x{MOST_BYTES})"))
    }
}

/// The arrival process: of messages if we send, of connections if we listen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    pub per_s: f64,
    /// Evenly spaced rather than Poisson.
    pub is_even: bool,
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (is_even, rate) = match text.strip_prefix("even:") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("poisson:").unwrap_or(text)),
        };
        let per_s = rate.strip_suffix("/s").unwrap_or(rate).parse::<f64>().ok();
        let per_s = per_s.filter(|rate| rate.is_finite() && *rate > 0.0 && *rate <= MOST_PER_S);
        let per_s = per_s.ok_or("give a rate above 0, as in 1000/s (Poisson) or even:1000/s")?;
        Ok(Arrivals { per_s, is_even })
    }
}

/// How many readers are slow or stopped, in ten-thousandths of all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultyReaders {
    pub slow: u32,
    pub stopped: u32,
}

/// How a connection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderKind {
    Healthy,
    /// Reads a little, at long intervals.
    Slow,
    /// Never reads.
    Stopped,
}

impl FaultyReaders {
    /// Returns the kind of reader `number` of `total`. Faulty readers are spread evenly; slow ones
    /// count from the end.
    pub fn of(self, number: u32, total: u32) -> ReaderKind {
        let falls_on = |number: u32, share: u32| {
            let (number, share) = (u64::from(number), u64::from(share));
            (number + 1) * share / 10_000 != number * share / 10_000
        };
        if falls_on(number, self.stopped) {
            ReaderKind::Stopped
        } else if falls_on(total.saturating_sub(number + 1), self.slow) {
            ReaderKind::Slow
        } else {
            ReaderKind::Healthy
        }
    }
}

/// Connections `first..first + count` of `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionShare {
    pub first: u32,
    pub count: u32,
    pub total: u32,
}

impl ConnectionShare {
    pub fn whole(total: u32) -> Self {
        ConnectionShare { first: 0, count: total, total }
    }

    /// Returns part `index` of `parts` nearly equal parts.
    pub fn part(self, index: usize, parts: usize) -> Self {
        let border = |index: usize| {
            let at = u64::from(self.count) * index as u64 / parts.max(1) as u64;
            u32::try_from(at).unwrap_or(self.count)
        };
        let (from, to) = (border(index), border(index + 1));
        ConnectionShare { first: self.first + from, count: to - from, total: self.total }
    }

    /// Returns this share of the whole, from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.count) / f64::from(self.total.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_and_expect_are_parsed_and_bounded() {
        for (text, per_s, is_even) in
            [("1000/s", 1000.0, false), ("2.5", 2.5, false), ("even:10/s", 10.0, true), ("poisson:7/s", 7.0, false)]
        {
            assert_eq!(text.parse(), Ok(Arrivals { per_s, is_even }), "{text}");
        }
        for text in ["", "0", "-1/s", "inf", "NaN", "1/m", "even:", "1e9/s", "odd:1/s"] {
            assert!(text.parse::<Arrivals>().is_err(), "{text}");
        }
        assert_eq!("10x10000".parse(), Ok(ExpectedReplies { messages: 10, bytes: 10_000 }));
        assert_eq!("1x0".parse(), Ok(ExpectedReplies { messages: 1, bytes: 0 }));
        for text in ["", "10", "x", "0x5", "10x", "-1x5", "1x99999999", "1x2x3", "10001x1"] {
            assert!(text.parse::<ExpectedReplies>().is_err(), "{text}");
        }
    }

    #[test]
    fn parts_cover_the_whole_without_overlap() {
        for (count, parts) in [(10, 3), (1, 4), (100_000, 7), (0, 2), (4_000_000, 64)] {
            let whole = ConnectionShare { first: 5, count, total: 5 + count };
            let mut next = 5;
            for index in 0..parts {
                let part = whole.part(index, parts);
                assert_eq!((part.first, part.total), (next, whole.total));
                next += part.count;
            }
            assert_eq!(next, 5 + count);
        }
    }

    #[test]
    fn faulty_readers_match_the_requested_share() {
        let count = |faulty_readers: FaultyReaders, reader| {
            (0..5_000).filter(|n| faulty_readers.of(*n, 5_000) == reader).count()
        };
        let faulty_readers = FaultyReaders { slow: 1_000, stopped: 100 };
        assert_eq!(count(faulty_readers, ReaderKind::Stopped), 50);
        // Where both fall on one connection, it is a stopped one.
        assert!((450..=500).contains(&count(faulty_readers, ReaderKind::Slow)));
        assert_eq!(count(FaultyReaders::default(), ReaderKind::Healthy), 5_000);
        assert_eq!(count(FaultyReaders { slow: 0, stopped: 10_000 }, ReaderKind::Stopped), 5_000);
    }
}
