//! The venue's answer to a gateway. All questions share one form; fields that a question does not
//! need are empty.
//!
//! Layout      Little-endian. "PWR1", epoch u64, last u64, oldest u64, since u64, outcome u8,
//! conflates u8, channel (u16 length, text), first (u32 length, bytes), batches u32 and each (u32
//! length, bytes), names u32 and each (u16 length, text).

use crate::protocol::bytes::{Reader, length, put_blob, put_text};

const MAGIC: &[u8; 4] = b"PWR1";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyOutcome {
    #[default]
    Done,
    /// The name is valid, but no such channel exists.
    NotHere,
    /// No channel has a name of this form.
    Malformed,
    /// The bus has as many channels as it can have.
    Full,
}

impl ReplyOutcome {
    const ALL: [ReplyOutcome; 4] =
        [ReplyOutcome::Done, ReplyOutcome::NotHere, ReplyOutcome::Malformed, ReplyOutcome::Full];
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub epoch: u64,
    /// Sequence of the newest message. A snapshot is valid at this sequence.
    pub last: u64,
    /// Sequence of the oldest message that can still be asked for. `last + 1` if there is none.
    pub oldest: u64,
    /// The channel's messages after this sequence are on the bus without a gap.
    pub since: u64,
    pub outcome: ReplyOutcome,
    /// Only the channel's latest message matters.
    pub conflates: bool,
    /// The channel's name on the bus, under any name in the question.
    pub channel: String,
    /// The snapshot. Empty for a channel that has none.
    pub first: Vec<u8>,
    pub batches: Vec<Vec<u8>>,
    /// Those of the named channels that are not on the bus, or the venue's instruments.
    pub names: Vec<String>,
}

impl Reply {
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.first.len() + self.batches.iter().map(Vec::len).sum::<usize>());
        out.extend_from_slice(MAGIC);
        for number in [self.epoch, self.last, self.oldest, self.since] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(self.outcome as u8);
        out.push(u8::from(self.conflates));
        put_text(&mut out, &self.channel);
        put_blob(&mut out, &self.first);
        out.extend_from_slice(&length(self.batches.len()).to_le_bytes());
        self.batches.iter().for_each(|batch| put_blob(&mut out, batch));
        out.extend_from_slice(&length(self.names.len()).to_le_bytes());
        self.names.iter().for_each(|name| put_text(&mut out, name));
        out
    }

    pub fn parse(bytes: &[u8]) -> Option<Reply> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let (epoch, last, oldest, since) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let outcome = *ReplyOutcome::ALL.get(usize::from(reader.u8()?))?;
        let conflates = reader.u8()? != 0;
        let (channel, first) = (reader.text()?.to_owned(), reader.blob()?.to_vec());
        let mut batches = Vec::new();
        for _ in 0..reader.u32()? {
            batches.push(reader.blob()?.to_vec());
        }
        let mut names = Vec::new();
        for _ in 0..reader.u32()? {
            names.push(reader.text()?.to_owned());
        }
        let reply = Reply { epoch, last, oldest, since, outcome, conflates, channel, first, batches, names };
        reader.is_at_end().then_some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_round_trips_and_other_bytes_are_refused() {
        let full = Reply {
            epoch: 1,
            last: 2,
            oldest: 3,
            since: 4,
            outcome: ReplyOutcome::Malformed,
            conflates: true,
            channel: "ticker.X.raw".into(),
            first: b"{}".to_vec(),
            batches: vec![b"one".to_vec(), Vec::new()],
            names: vec!["a".into(), "b".into()],
        };
        for reply in [Reply::default(), full] {
            let bytes = reply.write();
            assert_eq!(Reply::parse(&bytes).as_ref(), Some(&reply));
            for cut in 0..bytes.len() {
                assert!(Reply::parse(&bytes[..cut]).is_none(), "cut at {cut}");
            }
            assert!(Reply::parse(&[bytes.as_slice(), b"!"].concat()).is_none());
        }
    }
}
