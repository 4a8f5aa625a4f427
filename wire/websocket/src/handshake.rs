//! The opening handshake's one computation (RFC 6455 section 4.2.2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// `Sec-WebSocket-Accept` for a client's `Sec-WebSocket-Key`, or `None` when the key is not 16 bytes of base64.
pub fn accept_key(key: &str) -> Option<String> {
    let nonce = STANDARD.decode(key.trim()).ok().filter(|nonce| nonce.len() == 16)?;
    debug_assert_eq!(nonce.len(), 16);
    let digest = Sha1::new().chain_update(key.trim().as_bytes()).chain_update(GUID).finalize();
    Some(STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use super::accept_key;

    #[test]
    fn agrees_with_the_example_in_the_rfc() {
        // RFC 6455 section 1.3.
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ==").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn refuses_keys_of_another_size() {
        for key in ["", "abc", "dGhlIHNhbXBsZSBub25jZQ", "AAAA", "dGhlIHNhbXBsZSBub25jZTEyMzQ="] {
            assert_eq!(accept_key(key), None, "{key:?}");
        }
    }
}
