//! Compressed messages of a live feed (permessage-deflate, RFC 7692).
//!
//! Does        compresses a message before it is due, although its envelope gets the sending time
//!             only then: the envelope is in a stored block, so its digits are in the payload as
//!             they are.
//! Holds       no message refers to an earlier one.
//! Start at    [`compress`].

use pitwire_websocket::{DeflateAgreement, Deflater, Peer};

/// Header of a stored block: its type, its length, and the complement of the length.
pub const STORED_HEADER_BYTES: usize = 5;
/// The header bit of a compressed message.
pub(super) const RSV1: u8 = 0x40;
/// The level that zlib uses by default.
const LEVEL: u32 = 6;

pub(super) fn deflater(agreed: &DeflateAgreement) -> Deflater {
    let (window_bits, _) = agreed.of(Peer::Server);
    Deflater::new(LEVEL, window_bits)
}

/// Returns the payload of a compressed message whose first `envelope` bytes are stored. `None`: it
/// would not be smaller.
pub(super) fn compress(deflater: &mut Deflater, payload: &[u8], envelope: usize) -> Option<Vec<u8>> {
    let (stored, rest) = payload.split_at_checked(envelope)?;
    let mut out = Vec::with_capacity(payload.len() + STORED_HEADER_BYTES);
    if !stored.is_empty() {
        let length = u16::try_from(stored.len()).ok()?;
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(stored);
    }
    (deflater.deflate(rest, &mut out) && out.len() < payload.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use pitwire_websocket::Inflater;

    use super::*;

    #[test]
    fn stored_envelope_can_change_after_compression() {
        let mut deflater = Deflater::new(LEVEL, 15);
        let payload = [b"{\"seq\":\"0\",".as_slice(), &[b'x'; 300], b"\"}"].concat();
        // The second message must not refer to the first one.
        for _ in 0..2 {
            let mut compressed = compress(&mut deflater, &payload, 11).unwrap();
            assert_eq!(&compressed[STORED_HEADER_BYTES..STORED_HEADER_BYTES + 11], &payload[..11]);
            assert!(compressed.len() < 60, "{} bytes", compressed.len());
            compressed[STORED_HEADER_BYTES + 8] = b'7';
            let mut found = Vec::new();
            Inflater::new(15).inflate_whole(&compressed, &mut found, 1_000).unwrap();
            assert_eq!(found[8], b'7');
            found[8] = b'0';
            assert_eq!(found, payload);
        }
    }

    #[test]
    fn message_that_does_not_shrink_is_sent_as_it_is() {
        let mut deflater = Deflater::new(LEVEL, 15);
        assert_eq!(compress(&mut deflater, b"{\"a\":1}", 0), None);
        assert_eq!(compress(&mut deflater, b"{}", 3), None);
    }
}
