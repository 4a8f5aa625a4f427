//! Signatures that have been used: an order signature works once, a login signature from one
//! address.
//!
//! Holds       1. a signature is remembered for longer than its timestamp is accepted;
//!             2. memory is bounded: when it is full, signed order entry is refused for a while,
//!                and the oldest login signature is dropped.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::codec::RpcError;

/// Twice the accepted clock difference, in nanoseconds.
const REMEMBERED_NS: u64 = 2 * 60_000_000_000;
const REMEMBERED_MS: u64 = REMEMBERED_NS / 1_000_000;
const MOST: usize = 500_000;
const MOST_LOGINS: usize = 100_000;

/// Identifies a signed request.
pub(crate) type Digest = [u8; 32];

#[derive(Default)]
pub(crate) struct SpentSignatures {
    seen: BTreeSet<Digest>,
    /// Oldest first.
    queue: VecDeque<(u64, Digest)>,
}

impl SpentSignatures {
    pub fn digest(client_id: &str, signature: &str) -> Digest {
        *blake3::hash(format!("{client_id}\n{}", signature.to_ascii_lowercase()).as_bytes()).as_bytes()
    }

    /// Records the use of a signature.
    ///
    /// # Errors
    ///
    /// `replayed_signature` if it was used before; `too_many_requests` if the memory is full.
    pub fn spend(&mut self, digest: Digest, now_ns: u64) -> Result<(), RpcError> {
        while let Some((_, old)) = self.queue.pop_front_if(|(since, _)| now_ns.saturating_sub(*since) > REMEMBERED_NS) {
            self.seen.remove(&old);
        }
        if self.seen.contains(&digest) {
            return Err(RpcError::new("replayed_signature", "this signature has entered an order already"));
        }
        if self.queue.len() >= MOST {
            let full = RpcError::new("too_many_requests", "too many signed orders in two minutes; use a connection");
            return Err(full.with_retry(1_000));
        }
        self.seen.insert(digest);
        self.queue.push_back((now_ns, digest));
        Ok(())
    }
}

/// Login signatures. Clients often sign the time as the nonce, so two connections of one program
/// may send the same signature within a millisecond, and both are accepted. An attacker that
/// intercepts a signature sends it from another address.
#[derive(Default)]
pub(crate) struct Logins {
    seen: BTreeMap<Digest, Option<IpAddr>>,
    /// Oldest first.
    queue: VecDeque<(u64, Digest)>,
}

impl Logins {
    /// Binds a login signature to the address of its first use.
    ///
    /// # Errors
    ///
    /// `replayed_signature` if it was used from another address before.
    pub fn bind(&mut self, digest: Digest, from: Option<IpAddr>, now_ms: u64) -> Result<(), RpcError> {
        let is_over = |since: u64| now_ms.saturating_sub(since) > REMEMBERED_MS;
        while let Some((since, oldest)) = self.queue.front().copied()
            && (is_over(since) || self.queue.len() >= MOST_LOGINS)
        {
            self.queue.pop_front();
            self.seen.remove(&oldest);
        }
        match self.seen.get(&digest) {
            Some(first) if *first == from => Ok(()),
            Some(_) => Err(RpcError::new("replayed_signature", "this signature has logged in from another address")),
            None => {
                self.seen.insert(digest, from);
                self.queue.push_back((now_ms, digest));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_signature_is_bound_to_one_address() {
        let (here, there) = ("10.0.0.1".parse().ok(), "10.0.0.2".parse().ok());
        let mut logins = Logins::default();
        let digest = SpentSignatures::digest("a", "ab");
        for (from, now_ms, passes) in [
            (here, 7, true),
            (here, 8, true),
            (there, 8, false),
            (None, 8, false),
            (there, 7 + REMEMBERED_MS, false),
            (here, 7 + REMEMBERED_MS, true),
            // By then its timestamp is too old to be accepted.
            (there, 8 + REMEMBERED_MS, true),
        ] {
            assert_eq!(logins.bind(digest, from, now_ms).is_ok(), passes, "{from:?} {now_ms}");
        }
        assert_eq!((logins.seen.len(), logins.queue.len()), (1, 1));
        for n in 0..MOST_LOGINS {
            logins.bind(SpentSignatures::digest("b", &n.to_string()), here, 8 + REMEMBERED_MS).unwrap();
        }
        assert_eq!((logins.seen.len(), logins.queue.len()), (MOST_LOGINS, MOST_LOGINS));
        assert!(logins.bind(digest, here, 8 + REMEMBERED_MS).is_ok(), "the oldest was let go");
    }

    #[test]
    fn order_signature_works_once() {
        let mut replays = SpentSignatures::default();
        let digest = SpentSignatures::digest("a", "AB");
        assert_eq!(digest, SpentSignatures::digest("a", "ab"), "hexadecimal digits have no case");
        assert_ne!(digest, SpentSignatures::digest("b", "ab"));
        assert!(replays.spend(digest, 5).is_ok());
        for now_ns in [5, REMEMBERED_NS, 5 + REMEMBERED_NS] {
            assert_eq!(replays.spend(digest, now_ns).unwrap_err().name, "replayed_signature", "{now_ns}");
        }
        assert!(replays.spend(digest, 6 + REMEMBERED_NS).is_ok());
        assert_eq!((replays.seen.len(), replays.queue.len()), (1, 1));
    }
}
