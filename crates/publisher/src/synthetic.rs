//! A synthetic stream: evenly spaced messages with the time at which each was due.
//!
//! Holds       `ts_ns` is the time at which a message was due, not when it was sent, so that a late
//!             sender shows in measured latency.
//! Start at    [`SyntheticSource::next`].

use std::io::Write as _;

/// A source of messages of about `bytes` bytes, at `rate_per_s` messages per second.
#[derive(Clone, Debug)]
pub struct SyntheticSource {
    rate_per_s: f64,
    bytes: usize,
    /// Monotonic and real time of the start.
    start_ns: u64,
    start_epoch_ns: u64,
    sent: u64,
}

impl SyntheticSource {
    pub fn new(rate_per_s: f64, bytes: usize, start_ns: u64, start_epoch_ns: u64) -> Self {
        SyntheticSource { rate_per_s, bytes, start_ns, start_epoch_ns, sent: 0 }
    }

    /// Returns the time at which the next message is due, on the monotonic clock.
    pub fn due_ns(&self) -> u64 {
        self.start_ns + self.after_ns()
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn after_ns(&self) -> u64 {
        // Computed from the count, so errors do not accumulate. Exact enough for a year at a
        // million messages per second.
        (self.sent as f64 * 1e9 / self.rate_per_s) as u64
    }

    /// Writes the next message to `out` and returns its number, which starts at 1.
    pub fn next(&mut self, out: &mut Vec<u8>) -> u64 {
        let ts_ns = self.start_epoch_ns + self.after_ns();
        self.sent += 1;
        let start = out.len();
        // Writing to memory does not fail.
        let _ = write!(out, r#"{{"seq":{},"ts_ns":{ts_ns},"pad":""#, self.sent);
        let end = (start + self.bytes).saturating_sub(2).max(out.len());
        out.resize(end, b'x');
        out.extend_from_slice(b"\"}");
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_size_number_and_due_time() {
        let mut stream = SyntheticSource::new(3.0, 64, 1_000, 1_700_000_000_000_000_000);
        let mut out = Vec::new();
        let mut due = Vec::new();
        for expected in 1..=3 {
            out.clear();
            due.push(stream.due_ns());
            assert_eq!(stream.next(&mut out), expected);
            assert_eq!(out.len(), 64);
        }
        // The interval is a third of a second.
        assert_eq!(due, [1_000, 333_334_333, 666_667_666]);
        assert_eq!(&out[..54], br#"{"seq":3,"ts_ns":1700000000666666666,"pad":"xxxxxxxxxx"#);
        let mut tiny = SyntheticSource::new(1.0, 10, 0, 5);
        out.clear();
        tiny.next(&mut out);
        assert_eq!(out, br#"{"seq":1,"ts_ns":5,"pad":""}"#);
    }
}
