//! Signatures that have entered an order: each may do so once.
//!
//! Holds       a signature is remembered for longer than its timestamp passes; where that would take too much memory, order
//!             entry by signed request waits.

use std::collections::{BTreeSet, VecDeque};

use pitwire_jsonrpc::RpcError;

/// Both ways of the window in which a timestamp passes.
const REMEMBERED_NS: u64 = 2 * 60_000_000_000;
const MOST: usize = 500_000;

/// What tells one signed request from another.
pub(crate) type Digest = [u8; 32];

#[derive(Default)]
pub(crate) struct Replays {
    seen: BTreeSet<Digest>,
    /// Oldest first.
    queue: VecDeque<(u64, Digest)>,
}

impl Replays {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_works_once_and_is_forgotten_after_its_time() {
        let mut replays = Replays::default();
        let digest = Replays::digest("a", "AB");
        assert_eq!(digest, Replays::digest("a", "ab"), "hexadecimal digits have no case");
        assert_ne!(digest, Replays::digest("b", "ab"));
        assert!(replays.spend(digest, 5).is_ok());
        for now_ns in [5, REMEMBERED_NS, 5 + REMEMBERED_NS] {
            assert_eq!(replays.spend(digest, now_ns).unwrap_err().name, "replayed_signature", "{now_ns}");
        }
        assert!(replays.spend(digest, 6 + REMEMBERED_NS).is_ok());
        assert_eq!((replays.seen.len(), replays.queue.len()), (1, 1));
    }
}
