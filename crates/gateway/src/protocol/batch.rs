//! Public messages on their way to gateways, as many as one commit released.
//!
//! Layout      Little-endian. "PWB1", epoch u64, first u64, count u32, about (u16 length, text).
//! Then `count` messages: prev u64, channel (u16 length, text), frame (u32 length, bytes).
//!             Message n of a batch has the sequence first + n. `prev` is the sequence of the
//!             previous message on the same channel, 0 for the first since the channel joined the
//!             bus.
//!             A message without a frame is a removal: the channel has left the bus, and its later
//!             messages are missing.
//!             A batch without messages is a position message: `first` is the sequence of the next
//!             message.

use crate::protocol::bytes::{Reader, length, put_text};

const MAGIC: &[u8; 4] = b"PWB1";
/// Offset of the count.
const COUNT_AT: usize = 4 + 8 + 8;

/// One public message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub seq: u64,
    pub prev: u64,
    pub channel: &'a str,
    /// A complete WebSocket frame, as the venue's own subscribers get it.
    pub frame: &'a [u8],
    /// Offset of the frame in the batch.
    pub at: usize,
}

impl Message<'_> {
    /// Whether the channel has left the bus.
    pub fn is_removal(&self) -> bool {
        self.frame.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub epoch: u64,
    pub first: u64,
    pub count: u32,
    /// HTTP address of the venue. Set in position messages only.
    pub about: &'a str,
    body: Reader<'a>,
}

impl<'a> Batch<'a> {
    /// Parses a batch. Returns `None` if the bytes are not exactly one batch.
    pub fn parse(bytes: &'a [u8]) -> Option<Batch<'a>> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let (epoch, first, count) = (reader.u64()?, reader.u64()?, reader.u32()?);
        first.checked_add(u64::from(count))?;
        let about = reader.text()?;
        let batch = Batch { epoch, first, count, about, body: reader };
        let mut rest = reader;
        for _ in 0..count {
            message(&mut rest, 0)?;
        }
        rest.is_at_end().then_some(batch)
    }

    /// Returns the sequence after the last message.
    pub fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub fn messages(&self) -> impl Iterator<Item = Message<'a>> + use<'a> {
        let mut reader = self.body;
        (self.first..self.next()).map_while(move |seq| message(&mut reader, seq))
    }
}

fn message<'a>(reader: &mut Reader<'a>, seq: u64) -> Option<Message<'a>> {
    let (prev, channel) = (reader.u64()?, reader.text()?);
    let frame = reader.blob()?;
    Some(Message { seq, prev, channel, frame, at: reader.at() - frame.len() })
}

/// Builds a batch.
#[derive(Debug)]
pub struct BatchWriter {
    bytes: Vec<u8>,
    first: u64,
    count: u32,
}

impl BatchWriter {
    pub fn new(epoch: u64, first: u64) -> Self {
        BatchWriter { bytes: header(epoch, first, ""), first, count: 0 }
    }

    /// Adds the next message. `write` appends its frame.
    ///
    /// # Errors
    ///
    /// The error of `write`. The batch is then unchanged.
    pub fn push<E>(
        &mut self,
        prev: u64,
        channel: &str,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&prev.to_le_bytes());
        put_text(&mut self.bytes, channel);
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        let frame_at = self.bytes.len();
        if let Err(error) = write(&mut self.bytes) {
            self.bytes.truncate(before);
            return Err(error);
        }
        let len = length(self.bytes.len() - frame_at);
        self.bytes[length_at..frame_at].copy_from_slice(&len.to_le_bytes());
        self.count += 1;
        Ok(())
    }

    /// Adds the message that a channel has left the bus.
    pub fn push_removal(&mut self, prev: u64, channel: &str) {
        // This writes no frame, so it cannot fail.
        let _ = self.push(prev, channel, |_| Ok::<(), std::convert::Infallible>(()));
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the sequence of the next message.
    pub fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.bytes[COUNT_AT..COUNT_AT + 4].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }
}

/// Builds a position message: how far the venue is, and its HTTP address.
pub fn mark(epoch: u64, next: u64, about: &str) -> Vec<u8> {
    header(epoch, next, about)
}

fn header(epoch: u64, first: u64, about: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&epoch.to_le_bytes());
    bytes.extend_from_slice(&first.to_le_bytes());
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    put_text(&mut bytes, about);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<u8> {
        let mut writer = BatchWriter::new(5, 40);
        let put = |frame: &'static [u8]| {
            move |out: &mut Vec<u8>| {
                out.extend_from_slice(frame);
                Ok::<(), ()>(())
            }
        };
        writer.push(7, "a", put(b"xyz")).unwrap();
        assert!(
            writer
                .push(0, "lost", |out| {
                    out.extend_from_slice(b"half");
                    Err(())
                })
                .is_err()
        );
        writer.push_removal(40, "bé");
        assert_eq!(writer.next(), 42);
        writer.finish()
    }

    #[test]
    fn layout_matches_its_description() {
        let mut expected = b"PWB1".to_vec();
        expected.extend([5, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]);
        expected.extend([7, 0, 0, 0, 0, 0, 0, 0, 1, 0, b'a', 3, 0, 0, 0, b'x', b'y', b'z']);
        expected.extend([40, 0, 0, 0, 0, 0, 0, 0, 3, 0, b'b', 0xC3, 0xA9, 0, 0, 0, 0]);
        assert_eq!(two(), expected);
    }

    #[test]
    fn batch_round_trips_and_other_bytes_are_refused() {
        let bytes = two();
        let batch = Batch::parse(&bytes).unwrap();
        assert_eq!((batch.epoch, batch.first, batch.count, batch.next(), batch.about), (5, 40, 2, 42, ""));
        let read: Vec<_> = batch.messages().map(|m| (m.seq, m.prev, m.channel, m.frame)).collect();
        assert_eq!(read, [(40, 7, "a", &b"xyz"[..]), (41, 40, "bé", &b""[..])]);
        assert_eq!(batch.messages().map(|m| m.is_removal()).collect::<Vec<_>>(), [false, true]);
        for message in batch.messages() {
            assert_eq!(&bytes[message.at..message.at + message.frame.len()], message.frame);
        }
        for cut in 0..bytes.len() {
            assert!(Batch::parse(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        assert!(Batch::parse(&[bytes.as_slice(), b"!"].concat()).is_none());
        let mut many = bytes.clone();
        many[COUNT_AT] = 3;
        assert!(Batch::parse(&many).is_none(), "three are said and two are there");
        let mut late = bytes;
        late[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Batch::parse(&late).is_none(), "the sequence would wrap");
    }

    #[test]
    fn position_message_is_an_empty_batch() {
        let bytes = mark(9, 1_000, "http://127.0.0.1:8080");
        let mark = Batch::parse(&bytes).unwrap();
        assert_eq!((mark.epoch, mark.first, mark.next(), mark.count), (9, 1_000, 1_000, 0));
        assert_eq!((mark.about, mark.messages().count()), ("http://127.0.0.1:8080", 0));
    }
}
