//! The secret that a venue and its gateways share.

use std::fmt;

use blake3::{Hash, Hasher};
use zeroize::Zeroizing;

pub const MAC_BYTES: usize = 32;

/// 256 random bits. `Debug` does not show them.
#[derive(Clone)]
pub struct BusKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for BusKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BusKey(…)")
    }
}

impl BusKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        BusKey(Zeroizing::new(bytes))
    }

    /// Parses 64 hexadecimal digits, the content of a key file.
    pub fn parse(text: &str) -> Option<BusKey> {
        let bytes = Zeroizing::new(hex::decode(text.trim()).ok()?);
        Some(BusKey(Zeroizing::new(bytes.as_slice().try_into().ok()?)))
    }

    /// Returns the content of a key file.
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(hex::encode(self.0.as_slice()))
    }

    /// The purpose is prefixed with its length, so that two different pairs of purpose and content
    /// never give the same bytes.
    pub(crate) fn mac(&self, purpose: &str, content: &[u8]) -> Hash {
        let mut hasher = Hasher::new_keyed(&self.0);
        hasher.update(&(purpose.len() as u64).to_le_bytes());
        hasher.update(purpose.as_bytes());
        hasher.update(content);
        hasher.finalize()
    }

    /// Appends the MAC to the content.
    pub fn seal(&self, purpose: &str, content: &mut Vec<u8>) {
        let mac = self.mac(purpose, content);
        content.extend_from_slice(mac.as_bytes());
    }

    /// Returns the content if it was sealed for this purpose with this key.
    pub fn open<'a>(&self, purpose: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (content, mac) = sealed.split_at_checked(sealed.len().checked_sub(MAC_BYTES)?)?;
        let mac: [u8; MAC_BYTES] = mac.try_into().ok()?;
        // The comparison of two hashes takes constant time.
        (self.mac(purpose, content) == Hash::from_bytes(mac)).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_content_opens_only_unchanged_with_its_key_and_purpose() {
        let (key, other) = (BusKey::new([7; 32]), BusKey::new([8; 32]));
        let mut sealed = b"content".to_vec();
        key.seal("a subject", &mut sealed);
        assert_eq!(sealed.len(), 7 + MAC_BYTES);
        assert_eq!(key.open("a subject", &sealed), Some(&b"content"[..]));
        assert_eq!(other.open("a subject", &sealed), None);
        assert_eq!(key.open("a subjec", &sealed), None);
        for cut in 0..sealed.len() {
            assert_eq!(key.open("a subject", &sealed[..cut]), None, "cut at {cut}");
        }
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert_eq!(key.open("a subject", &flipped), None, "flipped at {at}");
        }
    }

    #[test]
    fn purpose_and_content_cannot_be_shifted() {
        let key = BusKey::new([7; 32]);
        assert_ne!(key.mac("ab", b"c"), key.mac("a", b"bc"));
    }

    #[test]
    fn mac_is_keyed_blake3_of_length_purpose_and_content() {
        // Computes the same with the library's one-shot function, from the documented layout.
        let key = [0x42; 32];
        let expected = blake3::keyed_hash(&key, b"\x03\0\0\0\0\0\0\0abcxyz");
        assert_eq!(BusKey::new(key).mac("abc", b"xyz"), expected);
    }

    #[test]
    fn key_file_round_trips() {
        let key = BusKey::new([0xAB; 32]);
        let text = format!("{}\n", key.to_hex().as_str());
        assert_eq!(text.trim(), "ab".repeat(32));
        assert_eq!(BusKey::parse(&text).unwrap().mac("", b""), key.mac("", b""));
        for wrong in ["", "ab", &"ab".repeat(31), &"ab".repeat(33), &"ag".repeat(32), &format!("{}a", "ab".repeat(31))]
        {
            assert!(BusKey::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "BusKey(…)");
    }
}
