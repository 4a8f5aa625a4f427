//! Used signatures, which the venue refuses when they come again.
//!
//! Holds       1. a signature is remembered for longer than its timestamp is accepted;
//!             2. memory is bounded, for each account and in total.

use std::collections::{BTreeMap, VecDeque};

use pitwire_model::{AccountId, SignatureDigest, SpentSignature};

/// The signatures that were used in the last two minutes of wall time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpentSignatures {
    by_digest: BTreeMap<SignatureDigest, SpentSignature>,
    /// Oldest use first.
    queue: VecDeque<SignatureDigest>,
    by_account: BTreeMap<AccountId, usize>,
}

impl SpentSignatures {
    /// Life of a used signature in milliseconds of wall time. It is twice the largest difference
    /// between an accepted timestamp and the venue's clock.
    pub const LIFE_MS: u64 = 120_000;
    /// Most signatures of one account within [`Self::LIFE_MS`].
    pub const MAX_OF_ACCOUNT: usize = 100_000;
    /// Most signatures. Beyond it the oldest one is forgotten.
    const MAX: usize = 500_000;

    /// Returns the use of a signature, or `None` if it is new.
    pub fn get(&self, digest: &SignatureDigest) -> Option<&SpentSignature> {
        self.by_digest.get(digest)
    }

    /// Returns whether an account may use one more signature at this wall time.
    pub fn has_room(&self, account: AccountId, now_ms: u64) -> bool {
        if self.by_digest.len() < Self::MAX && self.count(account) < Self::MAX_OF_ACCOUNT {
            return true;
        }
        let live = self.iter().filter(|spent| !is_over(spent, now_ms));
        let (all, own) = live.fold((0, 0), |(all, own), spent| (all + 1, own + usize::from(spent.account == account)));
        all < Self::MAX && own < Self::MAX_OF_ACCOUNT
    }

    fn count(&self, account: AccountId) -> usize {
        self.by_account.get(&account).copied().unwrap_or(0)
    }

    /// Returns the signatures by their use, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &SpentSignature> {
        self.queue.iter().filter_map(|digest| self.by_digest.get(digest))
    }

    /// Records a use, and forgets the signatures whose life is over. The first use of a signature
    /// stays as it is.
    pub(crate) fn spend(&mut self, spent: SpentSignature) {
        while let Some(oldest) = self.oldest()
            && (is_over(oldest, spent.used_ms) || self.queue.len() >= Self::MAX)
        {
            self.forget_oldest();
        }
        if self.by_digest.contains_key(&spent.digest) {
            return;
        }
        self.by_digest.insert(spent.digest, spent);
        self.queue.push_back(spent.digest);
        *self.by_account.entry(spent.account).or_default() += 1;
    }

    fn oldest(&self) -> Option<&SpentSignature> {
        self.by_digest.get(self.queue.front()?)
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.queue.pop_front().and_then(|digest| self.by_digest.remove(&digest)) else { return };
        if let Some(count) = self.by_account.get_mut(&oldest.account) {
            *count -= 1;
            if *count == 0 {
                self.by_account.remove(&oldest.account);
            }
        }
    }
}

impl FromIterator<SpentSignature> for SpentSignatures {
    fn from_iter<I: IntoIterator<Item = SpentSignature>>(items: I) -> Self {
        let mut signatures = SpentSignatures::default();
        items.into_iter().for_each(|spent| signatures.spend(spent));
        signatures
    }
}

fn is_over(spent: &SpentSignature, now_ms: u64) -> bool {
    now_ms.saturating_sub(spent.used_ms) > SpentSignatures::LIFE_MS
}

#[cfg(test)]
mod tests {
    use pitwire_model::SignaturePurpose;

    use super::*;

    fn spent(number: u32, account: u32, used_ms: u64) -> SpentSignature {
        let mut digest = [7; 32];
        digest[..4].copy_from_slice(&number.to_le_bytes());
        SpentSignature { digest, account: AccountId(account), used_ms, purpose: SignaturePurpose::Order }
    }

    #[test]
    fn used_signature_lives_two_minutes() {
        let first = spent(1, 5, 1_000);
        let mut signatures = SpentSignatures::from_iter([first]);
        signatures.spend(SpentSignature { used_ms: 9_000, ..first });
        assert_eq!(signatures.get(&first.digest), Some(&first), "the first use counts");
        signatures.spend(spent(2, 5, 1_000 + SpentSignatures::LIFE_MS));
        assert_eq!(signatures.iter().count(), 2);
        signatures.spend(spent(3, 6, 1_001 + SpentSignatures::LIFE_MS));
        assert_eq!(signatures.get(&first.digest), None);
        let copy: SpentSignatures = signatures.iter().copied().collect();
        assert_eq!(copy, signatures, "a snapshot restores the state");
    }

    #[test]
    fn one_account_cannot_use_up_the_memory_of_the_others() {
        let max = u32::try_from(SpentSignatures::MAX_OF_ACCOUNT).unwrap();
        let mut signatures: SpentSignatures = (1..max).map(|number| spent(number, 5, 1_000)).collect();
        assert!(signatures.has_room(AccountId(5), 1_000));
        signatures.spend(spent(max, 5, 1_000));
        assert!(!signatures.has_room(AccountId(5), 1_000));
        assert!(signatures.has_room(AccountId(6), 1_000));
        assert!(signatures.has_room(AccountId(5), 1_001 + SpentSignatures::LIFE_MS), "their life is over");
    }
}
