//! BLAKE3 over an endless stream whose state can be stored and restored.
//!
//! Does        return the hash of all pushed bytes, as `b3sum` computes it for a file of
//!             those bytes.
//! Holds       the state consists of whole subtrees of the hash and less than two units of bytes,
//!             never of the stream.
//! Layout      u64 whole units; one hash of 32 bytes for each bit set in it, the largest subtree
//!             first; u32 count and
//!             the bytes after them: 1 to 16384, or none before the first byte.
//! Costs       hashing by units, sixteen lanes wide where the machine can, after one copy of each
//!             byte.

use blake3::{
    Hasher,
    hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root},
};

use crate::records::{
    Hash,
    bytes::{DecodeError, Reader, Writer},
};

/// A power of two in bytes, and a multiple of BLAKE3's chunks, so that whole units are whole
/// subtrees.
const UNIT_BYTES: usize = 16 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamHash {
    units: u64,
    /// Hashes of whole subtrees, the largest first: one for each bit of `units`.
    subtrees: Vec<ChainingValue>,
    /// Bytes held back, because the last unit may be the root of the hash.
    rest: Vec<u8>,
}

impl StreamHash {
    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        self.digest();
    }

    /// Buffer for the next bytes; [`Self::digest`] takes them in.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.rest
    }

    /// Hashes the units that have become whole.
    #[inline]
    pub(crate) fn digest(&mut self) {
        if self.rest.len() > UNIT_BYTES {
            self.digest_units();
        }
    }

    fn digest_units(&mut self) {
        let mut from = 0;
        while let Some(unit) = self.rest.get(from..).filter(|rest| rest.len() > UNIT_BYTES) {
            let value = subtree(self.units, unit.get(..UNIT_BYTES).unwrap_or_default());
            self.add_unit(value);
            from += UNIT_BYTES;
        }
        self.rest.drain(..from);
    }

    /// Works like a carry in a binary counter: two subtrees of one size become one of the next.
    fn add_unit(&mut self, mut value: ChainingValue) {
        self.units += 1;
        for _ in 0..self.units.trailing_zeros() {
            let Some(left) = self.subtrees.pop() else { break };
            value = merge_subtrees_non_root(&left, &value, Mode::Hash);
        }
        self.subtrees.push(value);
    }

    /// Hash of all pushed bytes.
    pub fn hash(&self) -> Hash {
        let Some((root, inner)) = self.subtrees.split_first() else { return *blake3::hash(&self.rest).as_bytes() };
        let last = subtree(self.units, &self.rest);
        let right = inner.iter().rev().fold(last, |right, left| merge_subtrees_non_root(left, &right, Mode::Hash));
        *merge_subtrees_root(root, &right, Mode::Hash).as_bytes()
    }

    pub fn put(&self, w: &mut Writer<'_>) {
        w.put_u64(self.units);
        for value in &self.subtrees {
            w.put_raw(value);
        }
        w.put_count(self.rest.len());
        w.put_raw(&self.rest);
    }

    /// Reads the state of the hash.
    ///
    /// # Errors
    ///
    /// Returns the position of a truncated or invalid value.
    pub fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = r.position();
        let units = r.take_u64()?;
        let subtrees = (0..units.count_ones()).map(|_| r.take_array()).collect::<Result<_, _>>()?;
        let count = r.take_count(1)?;
        let rest = r.take_raw(count)?.to_vec();
        // Beyond 2^50 units a position does not fit the hash; no stream gets there.
        if units >> 50 != 0 || count > UNIT_BYTES || (count == 0 && units != 0) {
            return Err(DecodeError::BadValue { what: "hash stream", at });
        }
        Ok(StreamHash { units, subtrees, rest })
    }
}

/// Hash of one unit, or of the shorter last one.
fn subtree(units_before: u64, bytes: &[u8]) -> ChainingValue {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(units_before * UNIT_BYTES as u64);
    hasher.update(bytes);
    hasher.finalize_non_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length around the edges of units and subtrees, stored and restored at every step.
    #[test]
    fn state_hash_equals_the_hash_of_the_whole_stream() {
        let bytes: Vec<u8> = (0..147_533_u32).map(|n| (n ^ (n >> 7)).to_le_bytes()[0]).collect();
        for step in [1_023, 1_024, 4_097, UNIT_BYTES - 1, UNIT_BYTES, UNIT_BYTES + 1, 5 * UNIT_BYTES] {
            let mut stream = StreamHash::default();
            let mut pushed = 0;
            for part in bytes.chunks(step) {
                stream.push(part);
                pushed += part.len();
                let mut kept = Vec::new();
                stream.put(&mut Writer::new(&mut kept));
                let mut r = Reader::new(&kept);
                let again = StreamHash::take(&mut r).unwrap();
                r.finish().unwrap();
                assert_eq!(again, stream);
                stream = again;
                assert_eq!(stream.hash(), *blake3::hash(&bytes[..pushed]).as_bytes(), "{step} {pushed}");
            }
        }
        assert_eq!(StreamHash::default().hash(), *blake3::hash(b"").as_bytes());
    }

    #[test]
    fn state_that_no_stream_wrote_is_refused() {
        let refused = |units: u64, subtrees: u32, rest: usize| {
            let mut bytes = Vec::new();
            let mut w = Writer::new(&mut bytes);
            w.put_u64(units);
            (0..subtrees).for_each(|_| w.put_raw(&[1; 32]));
            w.put_count(rest);
            w.put_raw(&vec![0; rest]);
            StreamHash::take(&mut Reader::new(&bytes)).is_err()
        };
        assert!(!refused(3, 2, 1) && !refused(0, 0, 0));
        assert!(refused(3, 2, 0) && refused(0, 0, UNIT_BYTES + 1) && refused(1 << 50, 1, 1) && refused(7, 1, 0));
    }
}
