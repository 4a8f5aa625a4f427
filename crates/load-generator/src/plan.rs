//! What is asked of a run.
//!
//! Does        hold the parameters; deal connections to threads and processes; read `--arrivals` and `--expect`.
//! Start at    [`Plan`].

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pitwire_websocket::Address;
use rustls::ClientConfig;

/// A message is late when it comes more than this after it should have been sent.
pub const LATE_NS: i64 = 1_000_000_000;
/// Most connections of one run: ports and memory of any one machine end before.
pub const MOST_CONNECTIONS: u32 = 4_000_000;
const MOST_PER_S: f64 = 100_000_000.0;
const MOST_BYTES: u32 = 16 << 20;

#[derive(Clone, Debug)]
pub struct Plan {
    pub address: Address,
    pub server: SocketAddr,
    pub tls: Option<Arc<ClientConfig>>,
    pub share: Share,
    /// From when every connection is open.
    pub lasts: Duration,
    pub traffic: Traffic,
    pub arrivals: Option<Arrivals>,
    /// Sent once on each connection, as soon as it is open.
    pub subscribe: Option<String>,
    pub subprotocol: Option<String>,
    pub deflate: bool,
    pub faults: Faults,
    /// So long after the beginning every connection is cut and opened again.
    pub storm: Option<Duration>,
    pub threads: usize,
    /// Addresses of 127.0.0.0/8 to connect from; 0: as many as ports make necessary.
    pub sources: u32,
    /// For connecting and handshakes together.
    pub patience: Duration,
    /// Connections that may be opening at a time, of the whole run.
    pub wave: u32,
    pub sequence_field: String,
    pub seed: u64,
}

/// What goes from us to the server while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Nothing: the server publishes.
    Listen,
    /// A short message each period, answered by so many messages of so many bytes.
    Heartbeat { period: Duration, expect: Expect },
    /// A message of so many bytes each second, which comes back.
    Echo { bytes: u32 },
}

/// `KxBYTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expect {
    pub messages: u32,
    pub bytes: u32,
}

impl FromStr for Expect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (messages, bytes) = text.split_once('x')?;
            let expect = Expect { messages: messages.parse().ok()?, bytes: bytes.parse().ok()? };
            ((1..=10_000).contains(&expect.messages) && expect.bytes <= MOST_BYTES).then_some(expect)
        };
        parse().ok_or_else(|| format!("give messages x bytes of each, as in 10x10000 (at most 10000x{MOST_BYTES})"))
    }
}

/// The process by which load arrives: messages where we send, connections where we listen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    pub per_s: f64,
    /// Evenly spaced instead of independent of one another (Poisson).
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

/// Readers that do not keep up, in ten-thousandths of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub slow: u32,
    pub stopped: u32,
}

/// How a connection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Healthy,
    /// Little at a time, and late.
    Slow,
    /// Never.
    Stopped,
}

impl Faults {
    /// Faulty ones are spread evenly over the connections: slow ones counted from the other end.
    pub fn of(self, number: u32, total: u32) -> Reader {
        let falls_on = |number: u32, share: u32| {
            let (number, share) = (u64::from(number), u64::from(share));
            (number + 1) * share / 10_000 != number * share / 10_000
        };
        if falls_on(number, self.stopped) {
            Reader::Stopped
        } else if falls_on(total.saturating_sub(number + 1), self.slow) {
            Reader::Slow
        } else {
            Reader::Healthy
        }
    }
}

/// Connections `first..first + count` of `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub first: u32,
    pub count: u32,
    pub total: u32,
}

impl Share {
    pub fn whole(total: u32) -> Self {
        Share { first: 0, count: total, total }
    }

    /// The `index`th of `parts` nearly equal parts.
    pub fn part(self, index: usize, parts: usize) -> Self {
        let border = |index: usize| {
            let at = u64::from(self.count) * index as u64 / parts.max(1) as u64;
            u32::try_from(at).unwrap_or(self.count)
        };
        let (from, to) = (border(index), border(index + 1));
        Share { first: self.first + from, count: to - from, total: self.total }
    }

    /// What part of the whole this is, from 0 to 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.count) / f64::from(self.total.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_flags_can_say() {
        for (text, per_s, is_even) in
            [("1000/s", 1000.0, false), ("2.5", 2.5, false), ("even:10/s", 10.0, true), ("poisson:7/s", 7.0, false)]
        {
            assert_eq!(text.parse(), Ok(Arrivals { per_s, is_even }), "{text}");
        }
        for text in ["", "0", "-1/s", "inf", "NaN", "1/m", "even:", "1e9/s", "odd:1/s"] {
            assert!(text.parse::<Arrivals>().is_err(), "{text}");
        }
        assert_eq!("10x10000".parse(), Ok(Expect { messages: 10, bytes: 10_000 }));
        assert_eq!("1x0".parse(), Ok(Expect { messages: 1, bytes: 0 }));
        for text in ["", "10", "x", "0x5", "10x", "-1x5", "1x99999999", "1x2x3", "10001x1"] {
            assert!(text.parse::<Expect>().is_err(), "{text}");
        }
    }

    #[test]
    fn parts_make_the_whole() {
        for (count, parts) in [(10, 3), (1, 4), (100_000, 7), (0, 2), (4_000_000, 64)] {
            let whole = Share { first: 5, count, total: 5 + count };
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
    fn faults_fall_on_the_share_that_was_asked_for() {
        let count = |faults: Faults, reader| (0..5_000).filter(|n| faults.of(*n, 5_000) == reader).count();
        let faults = Faults { slow: 1_000, stopped: 100 };
        assert_eq!(count(faults, Reader::Stopped), 50);
        // A connection that both fall on is a stopped one.
        assert!((450..=500).contains(&count(faults, Reader::Slow)));
        assert_eq!(count(Faults::default(), Reader::Healthy), 5_000);
        assert_eq!(count(Faults { slow: 0, stopped: 10_000 }, Reader::Stopped), 5_000);
    }
}
