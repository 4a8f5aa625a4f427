//! Puts the segments of TCP streams in order.
//!
//! Holds       1. bytes are delivered once and in order; a repeated segment is dropped and counted;
//!             2. segments that wait for an earlier one have at most [`MAX_WAITING_BYTES`]. Beyond
//!                it, and at the end of the capture, the missing bytes are a gap;
//!             3. a stream whose start is not in the capture begins at its first segment.
//! Start at    [`TcpStream::take`].

use std::collections::BTreeMap;

/// Most bytes of one direction that wait for a missing segment.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// Output of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamEvent<'a> {
    /// The next bytes. A message may begin or end within them.
    Bytes(&'a [u8]),
    /// Number of bytes that are not in the capture.
    Gap(u64),
}

/// One direction of a connection.
#[derive(Default)]
pub(crate) struct TcpStream {
    /// Position of the next byte. The lowest 32 bits are its sequence number. `None` before the
    /// first segment.
    next: Option<u64>,
    /// Sequence number of the first segment of the connection, if it is in the capture.
    start: Option<u32>,
    waiting: BTreeMap<u64, Box<[u8]>>,
    waiting_bytes: usize,
}

impl TcpStream {
    /// Takes a segment. Returns true if it brought nothing: its bytes were delivered, wait already,
    /// precede the start of the stream, or belong to a gap that was reported.
    pub fn take(
        &mut self,
        sequence: u32,
        is_first: bool,
        bytes: &[u8],
        deliver: &mut dyn FnMut(StreamEvent<'_>),
    ) -> bool {
        if is_first {
            if self.start.replace(sequence) == Some(sequence) {
                return true;
            }
            // A new connection may have the ports of an old one.
            self.finish(deliver);
            self.next = Some((1 << 32) + u64::from(sequence.wrapping_add(1)));
            return false;
        }
        if bytes.is_empty() {
            return false;
        }
        let next = *self.next.get_or_insert((1 << 32) + u64::from(sequence));
        let position = position_near(sequence, next);
        let end = position + bytes.len() as u64;
        if end <= next {
            return true;
        }
        if position > next {
            if self.waiting.get(&position).is_some_and(|waiting| waiting.len() >= bytes.len()) {
                return true;
            }
            self.waiting_bytes += bytes.len();
            let shorter = self.waiting.insert(position, bytes.into());
            self.waiting_bytes -= shorter.map_or(0, |shorter| shorter.len());
            while self.waiting_bytes > MAX_WAITING_BYTES {
                self.skip_gap(deliver);
            }
            return false;
        }
        let known = usize::try_from(next - position).unwrap_or(usize::MAX);
        deliver(StreamEvent::Bytes(bytes.get(known..).unwrap_or_default()));
        self.next = Some(end);
        self.deliver_waiting(deliver);
        false
    }

    /// Delivers what still waits, at the end of the capture or of the connection.
    pub fn finish(&mut self, deliver: &mut dyn FnMut(StreamEvent<'_>)) {
        while !self.waiting.is_empty() {
            self.skip_gap(deliver);
        }
    }

    fn skip_gap(&mut self, deliver: &mut dyn FnMut(StreamEvent<'_>)) {
        if let (Some(next), Some((&first, _))) = (self.next, self.waiting.first_key_value()) {
            deliver(StreamEvent::Gap(first.saturating_sub(next)));
            self.next = Some(first);
            self.deliver_waiting(deliver);
        }
    }

    fn deliver_waiting(&mut self, deliver: &mut dyn FnMut(StreamEvent<'_>)) {
        while let Some(next) = self.next
            && let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= next)
        {
            let (position, bytes) = entry.remove_entry();
            self.waiting_bytes -= bytes.len();
            let known = usize::try_from(next - position).unwrap_or(usize::MAX);
            if let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) {
                deliver(StreamEvent::Bytes(new));
                self.next = Some(position + bytes.len() as u64);
            }
        }
    }
}

/// Returns the position nearest to `next` whose lowest 32 bits are `sequence`. Positions begin
/// above 32 bits, so that an earlier segment has one too.
#[expect(clippy::cast_possible_truncation, reason = "the lowest 32 bits are meant")]
fn position_near(sequence: u32, next: u64) -> u64 {
    let ahead = sequence.wrapping_sub(next as u32);
    match i32::try_from(ahead) {
        Ok(_) => next.saturating_add(u64::from(ahead)),
        Err(_) => next.saturating_sub(u64::from(ahead.wrapping_neg())),
    }
}

#[cfg(test)]
mod tests {
    use pitwire_random::SplitMix64;

    use super::*;

    /// Takes segments, and returns the bytes, the gaps and the number of repeated segments.
    fn play(segments: &[(u32, bool, &[u8])]) -> (Vec<u8>, Vec<u64>, usize) {
        let (mut stream, mut bytes, mut gaps, mut repeated) = (TcpStream::default(), Vec::new(), Vec::new(), 0);
        let mut deliver = |event: StreamEvent<'_>| match event {
            StreamEvent::Bytes(new) => bytes.extend_from_slice(new),
            StreamEvent::Gap(missing) => gaps.push(missing),
        };
        for (sequence, is_first, bytes) in segments {
            repeated += usize::from(stream.take(*sequence, *is_first, bytes, &mut deliver));
        }
        stream.finish(&mut deliver);
        (bytes, gaps, repeated)
    }

    #[test]
    fn segments_in_any_order_and_repeated_give_the_bytes_once() {
        let mut random = SplitMix64::new(7);
        for start in [5_u32, u32::MAX - 40] {
            let text: Vec<u8> = (0..120).collect();
            let first = start.wrapping_add(1);
            let mut segments: Vec<(u32, bool, &[u8])> = text
                .chunks(7)
                .enumerate()
                .map(|(at, part)| (first.wrapping_add(u32::try_from(at * 7).unwrap()), false, part))
                .collect();
            segments.extend_from_within(3..9);
            segments.push((first.wrapping_add(10), false, &text[10..30]));
            random.shuffle(&mut segments);
            segments.insert(0, (start, true, b""));
            let (bytes, gaps, repeated) = play(&segments);
            assert_eq!((bytes, gaps), (text, vec![]), "start {start}");
            assert!(repeated > 0);
        }
    }

    #[test]
    fn missing_bytes_are_a_gap() {
        let (bytes, gaps, _) = play(&[(0, true, b""), (1, false, b"ab"), (6, false, b"ef"), (8, false, b"g")]);
        assert_eq!((bytes.as_slice(), gaps), (&b"abefg"[..], vec![3]));
    }

    #[test]
    fn a_stream_without_its_start_begins_at_the_first_segment() {
        let (bytes, gaps, repeated) = play(&[(900, false, b"ab"), (902, false, b"c"), (880, false, b"old")]);
        assert_eq!((bytes.as_slice(), gaps, repeated), (&b"abc"[..], vec![], 1));
    }

    #[test]
    fn waiting_bytes_have_a_bound() {
        let part = vec![7; 60_000];
        let mut stream = TcpStream::default();
        let (mut gaps, mut delivered) = (0, 0);
        stream.take(0, true, b"", &mut |_| {});
        for at in 0..40_u32 {
            stream.take(100 + at * 60_000, false, &part, &mut |event| match event {
                StreamEvent::Gap(missing) => gaps += missing,
                StreamEvent::Bytes(bytes) => delivered += bytes.len(),
            });
            assert!(stream.waiting_bytes <= MAX_WAITING_BYTES);
        }
        assert_eq!((gaps, delivered), (99, 40 * 60_000));
    }
    #[test]
    fn many_small_segments_do_not_lift_the_bound() {
        let mut stream = TcpStream::default();
        stream.take(0, true, b"", &mut |_| {});
        for at in 0..1_000_000 {
            stream.take(100 + 2 * at, false, b"x", &mut |_| {});
        }
        for at in 0..3 {
            stream.take(3_000_000 + 70_000 * at, false, &vec![7; 60_000], &mut |_| {});
            assert!(stream.waiting_bytes <= MAX_WAITING_BYTES);
        }
    }

    #[test]
    fn a_repeated_start_changes_nothing_and_a_longer_segment_replaces_a_shorter_one() {
        let (bytes, gaps, repeated) = play(&[
            (0, true, b""),
            (1, false, b"ab"),
            (0, true, b""),
            (5, false, b"e"),
            (5, false, b"ef"),
            (3, false, b"cd"),
        ]);
        assert_eq!((bytes.as_slice(), gaps, repeated), (&b"abcdef"[..], vec![], 1));
    }
}
