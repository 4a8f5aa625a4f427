//! Signatures that have entered an order: each may do so once. And those that have logged in: each from one address.
//!
//! Holds       1. a signature is remembered for longer than its timestamp passes;
//!             2. where that would take too much memory, order entry by signed request waits; of logins the oldest is let go.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::codec::RpcError;

/// Both ways of the window in which a timestamp passes.
const REMEMBERED_NS: u64 = 2 * 60_000_000_000;
const REMEMBERED_MS: u64 = REMEMBERED_NS / 1_000_000;
const MOST: usize = 500_000;
const MOST_LOGINS: usize = 100_000;

/// What tells one signed request from another.
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

    /// Uses a signature up.
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

/// Who signs a login takes its time for a nonce, often: two connections of one program may sign alike in one millisecond, and
/// both are let in. Whoever has read the signature on its way, or in a log, is elsewhere.
#[derive(Default)]
pub(crate) struct Logins {
    seen: BTreeMap<Digest, Option<IpAddr>>,
    /// Oldest first.
    queue: VecDeque<(u64, Digest)>,
}

impl Logins {
    /// Binds a login's signature to where it first came from.
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
    fn a_login_comes_from_one_address_for_as_long_as_its_signature_passes() {
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
            // By then its timestamp has long been too old.
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
    fn a_signature_works_once_and_is_forgotten_after_its_time() {
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
