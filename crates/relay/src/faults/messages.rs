//! Splits a stream of WebSocket frames into messages, without changing a byte.
//!
//! Does        finds where frames and messages end, by the frame headers alone.
//! Leaves out  the rules of the protocol: a malformed frame passes, and its receiver judges it.
//! Start at    [`MessageSplitter::next`].

use pitwire_websocket::Opcode;

/// A message with the frames that it was sent in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawMessage {
    pub bytes: Vec<u8>,
    /// A ping, a pong or a close frame.
    pub is_control: bool,
}

/// The message exceeds the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

#[derive(Debug)]
pub(crate) struct MessageSplitter {
    /// Received bytes; those from `start` on belong to no complete frame yet.
    unread: Vec<u8>,
    start: usize,
    /// Frames of a message that has not ended.
    begun: Vec<u8>,
    bytes_max: usize,
}

impl MessageSplitter {
    pub fn new(bytes_max: usize) -> Self {
        MessageSplitter { unread: Vec::new(), start: 0, begun: Vec::new(), bytes_max }
    }

    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.drain(..std::mem::take(&mut self.start));
        self.unread.extend_from_slice(bytes);
    }

    /// Returns the next complete message.
    ///
    /// # Errors
    /// The message is larger than the bound.
    pub fn next(&mut self) -> Result<Option<RawMessage>, TooLarge> {
        loop {
            let unread = &self.unread[self.start..];
            let Some(frame_bytes) = frame_bytes(unread) else { return Ok(None) };
            if frame_bytes.saturating_add(self.begun.len()) > self.bytes_max {
                return Err(TooLarge);
            }
            let Some(frame) = unread.get(..frame_bytes) else { return Ok(None) };
            self.start += frame_bytes;
            let (is_final, opcode) = (frame[0] & 0x80 != 0, frame[0] & 0x0F);
            if opcode >= Opcode::Close as u8 {
                return Ok(Some(RawMessage { bytes: frame.to_vec(), is_control: true }));
            }
            self.begun.extend_from_slice(frame);
            if is_final {
                return Ok(Some(RawMessage { bytes: std::mem::take(&mut self.begun), is_control: false }));
            }
        }
    }
}

/// Returns the length of the frame at the front, or `None` if its header is incomplete.
fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let second = *bytes.get(1)?;
    let (header_bytes, payload_bytes) = match second & 0x7F {
        126 => (4, u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        short => (2, u64::from(short)),
    };
    let mask_bytes = if second & 0x80 == 0 { 0 } else { 4 };
    Some(usize::try_from(payload_bytes).unwrap_or(usize::MAX).saturating_add(header_bytes + mask_bytes))
}

#[cfg(test)]
mod tests {
    use pitwire_websocket::{write_frame, write_masked};

    use super::*;

    fn split(stream: &[u8], step: usize) -> Vec<RawMessage> {
        let mut splitter = MessageSplitter::new(1 << 20);
        let mut found = Vec::new();
        for part in stream.chunks(step) {
            splitter.push(part);
            while let Some(message) = splitter.next().unwrap() {
                found.push(message);
            }
        }
        found
    }

    #[test]
    fn messages_keep_their_bytes_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for payload_bytes in [0, 1, 125, 126, 65_535, 65_536] {
            write_frame(&mut stream, Opcode::Text, &vec![b'a'; payload_bytes]);
            write_masked(&mut stream, Opcode::Binary, &vec![b'b'; payload_bytes], [1, 2, 3, 4]);
        }
        let whole = split(&stream, stream.len());
        assert_eq!(whole.len(), 12);
        assert_eq!(whole.iter().flat_map(|message| message.bytes.clone()).collect::<Vec<_>>(), stream);
        for step in [1, 7, 4096] {
            assert_eq!(split(&stream, step), whole, "{step}");
        }
    }

    #[test]
    fn control_frame_inside_a_message_comes_first() {
        let mut first = Vec::new();
        write_frame(&mut first, Opcode::Text, b"ab");
        first[0] &= 0x7F;
        let (mut ping, mut last) = (Vec::new(), Vec::new());
        write_frame(&mut ping, Opcode::Ping, b"p");
        write_frame(&mut last, Opcode::Continuation, b"c");
        let found = split(&[first.clone(), ping.clone(), last.clone()].concat(), 1);
        let expected = [
            RawMessage { bytes: ping, is_control: true },
            RawMessage { bytes: [first, last].concat(), is_control: false },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn message_above_the_bound_is_refused_by_its_header() {
        let mut splitter = MessageSplitter::new(100);
        splitter.push(&[0x82, 127, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(splitter.next(), Err(TooLarge));
        let mut splitter = MessageSplitter::new(100);
        // An endless message of small fragments.
        let mut fragment = vec![0x02, 60];
        fragment.extend_from_slice(&[0; 60]);
        splitter.push(&fragment);
        assert_eq!(splitter.next(), Ok(None));
        splitter.push(&fragment);
        assert_eq!(splitter.next(), Err(TooLarge));
    }
}
