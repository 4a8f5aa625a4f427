//! Two checksums of the sent trades, independent of the order in which symbols are read.
//!
//! Does        computes the checksum of sequence numbers (free for the sender, one multiplication
//!             for a reader) and the checksum of content (every byte of every object). Both are
//!             sums, so unsent trades can be subtracted.

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns FNV-1a with 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// Returns what one trade adds to the checksum of sequence numbers.
pub fn sequence_term(symbol: &[u8], sequence: u64) -> u64 {
    fnv1a(symbol).wrapping_mul(sequence)
}

/// Returns what trades 1 to `count` of a symbol add together.
pub fn sequence_sum(symbol_hash: u64, count: u64) -> u64 {
    let sum = u128::from(count) * (u128::from(count) + 1) / 2;
    #[allow(clippy::cast_possible_truncation)] // Modulo 2^64 is the definition.
    symbol_hash.wrapping_mul(sum as u64)
}

/// Returns what one object adds to the checksum of content: its little-endian 64-bit words, the
/// last one padded with zeros, each times an odd constant of its position.
pub fn content_term(object: &[u8]) -> u64 {
    let (words, rest) = object.as_chunks::<8>();
    let mut place = GOLDEN;
    let mut sum = 0_u64;
    for word in words {
        sum = sum.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(place));
        place = place.wrapping_add(GOLDEN.wrapping_mul(2));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    sum.wrapping_add(u64::from_le_bytes(last).wrapping_mul(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_matches_the_published_test_vectors() {
        // Test vectors of the authors of FNV.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_sum_of_a_range_equals_its_terms() {
        let config = (1..=1_000).fold(0_u64, |sum, n| sum.wrapping_add(sequence_term(b"AAPL", n)));
        assert_eq!(sequence_sum(fnv1a(b"AAPL"), 1_000), config);
    }

    #[test]
    fn content_terms_match_their_documentation() {
        // Computed in Python from docs/tape.md.
        assert_eq!(content_term(b""), 0);
        assert_eq!(content_term(b"a"), 0x61_u64.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        assert_ne!(content_term(b"abcdefgh12345678"), content_term(b"12345678abcdefgh"));
    }
}
