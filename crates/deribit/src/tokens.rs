//! Access and refresh tokens.
//!
//! Does        keep the login of each token until the token expires, is spent or is revoked.
//! Holds       1. only hashes are kept, so a dump of this memory contains no usable token;
//!             2. a credential that requests too many tokens loses its own oldest, never another's;
//!             3. a refresh token works once. A second use ends its family: one of the two users
//!                has stolen it, and the venue cannot tell which.
//! Costs       logarithmic in the number of tokens, for a grant and for a look-up.
//! Start at    [`Tokens::issue`].

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::access::Access;

type Key = [u8; 32];

/// Most live tokens of one use per credential.
pub(crate) const MOST_TOKENS: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    Access,
    Refresh,
}

/// Number of a session for tokens: one connection, or a name that several connections share. The
/// end of the session revokes its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionNumber(u64);

/// Number of a family: the tokens of one login and of everything that was refreshed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FamilyNumber(u64);

/// Number of a credential. It is never used again, so no token outlives its credential.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CredentialNumber(pub u64);

/// The rights of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grantee {
    pub credential: CredentialNumber,
    pub access: Access,
    pub session: Option<SessionNumber>,
    pub family: FamilyNumber,
    /// The only address from which the token works.
    pub address: Option<IpAddr>,
}

struct TokenEntry {
    grantee: Grantee,
    of_use: Use,
    serial: u64,
    /// Steady time in milliseconds: a step of the wall clock revives no token.
    expires_ms: u64,
    /// A refresh token that has been used. It is kept until it expires, to notice a second use.
    is_spent: bool,
}

/// The state of a refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshToken {
    Unknown,
    Live(Grantee),
    Spent(FamilyNumber),
}

#[derive(Default)]
pub(crate) struct Tokens {
    held: BTreeMap<Key, TokenEntry>,
    /// Tokens by serial number; the oldest is dropped first.
    queues: BTreeMap<(CredentialNumber, Use), BTreeMap<u64, Key>>,
    by_session: BTreeSet<(SessionNumber, Key)>,
    by_family: BTreeSet<(FamilyNumber, Key)>,
    last_serial: u64,
    last_session: u64,
    last_family: u64,
}

fn key_of(text: &str) -> Key {
    *blake3::hash(text.as_bytes()).as_bytes()
}

impl Tokens {
    pub fn number_session(&mut self) -> SessionNumber {
        self.last_session += 1;
        SessionNumber(self.last_session)
    }

    pub fn number_family(&mut self) -> FamilyNumber {
        self.last_family += 1;
        FamilyNumber(self.last_family)
    }

    /// Stores a token from `now_ms` for `life_s` seconds.
    pub fn issue(&mut self, text: &str, (grantee, of_use): (Grantee, Use), (now_ms, life_s): (u64, u64)) {
        let Grantee { credential, session, family, .. } = grantee;
        self.make_room(credential, of_use, now_ms);
        let key = key_of(text);
        // Random texts do not repeat. If the generator fails, one text must still have one entry.
        self.remove(&key);
        self.last_serial += 1;
        let expires_ms = now_ms.saturating_add(life_s.saturating_mul(1_000));
        let token = TokenEntry { grantee, of_use, serial: self.last_serial, expires_ms, is_spent: false };
        self.queues.entry((credential, of_use)).or_default().insert(token.serial, key);
        if let Some(session) = session {
            self.by_session.insert((session, key));
        }
        self.by_family.insert((family, key));
        self.held.insert(key, token);
    }

    /// Returns the rights of a live token.
    pub fn find(&self, text: &str, of_use: Use, now_ms: u64) -> Option<Grantee> {
        let token = self.held.get(&key_of(text))?;
        (token.of_use == of_use && token.expires_ms > now_ms && !token.is_spent).then_some(token.grantee)
    }

    pub fn refresh_token(&self, text: &str, now_ms: u64) -> RefreshToken {
        match self.held.get(&key_of(text)) {
            Some(token) if token.of_use != Use::Refresh || token.expires_ms <= now_ms => RefreshToken::Unknown,
            Some(token) if token.is_spent => RefreshToken::Spent(token.grantee.family),
            Some(token) => RefreshToken::Live(token.grantee),
            None => RefreshToken::Unknown,
        }
    }

    /// Spends a refresh token.
    pub fn spend(&mut self, text: &str) {
        if let Some(token) = self.held.get_mut(&key_of(text)).filter(|token| token.of_use == Use::Refresh) {
            token.is_spent = true;
        }
    }

    /// Revokes all tokens of a family.
    pub fn forget_family(&mut self, family: FamilyNumber) {
        let granted: Vec<Key> =
            self.by_family.range((family, [0; 32])..=(family, [0xFF; 32])).map(|(_, key)| *key).collect();
        for key in granted {
            self.remove(&key);
        }
    }

    /// Revokes all tokens of a credential.
    pub fn forget_credential(&mut self, credential: CredentialNumber) {
        for of_use in [Use::Access, Use::Refresh] {
            for key in self.queues.remove(&(credential, of_use)).unwrap_or_default().into_values() {
                self.remove(&key);
            }
        }
    }

    /// Revokes all tokens of a session.
    pub fn forget_session(&mut self, session: SessionNumber) {
        let granted: Vec<Key> =
            self.by_session.range((session, [0; 32])..=(session, [0xFF; 32])).map(|(_, key)| *key).collect();
        for key in granted {
            self.remove(&key);
        }
    }

    /// Drops expired tokens, then the oldest, until one more fits. Each token is dropped once, so
    /// the amortised cost of a grant is constant.
    fn make_room(&mut self, credential: CredentialNumber, of_use: Use, now_ms: u64) {
        while let Some(queue) = self.queues.get(&(credential, of_use))
            && let Some((_, key)) = queue.first_key_value()
        {
            let expired = self.held.get(key).is_none_or(|token| token.expires_ms <= now_ms);
            if !expired && queue.len() < MOST_TOKENS {
                return;
            }
            let key = *key;
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(token) = self.held.remove(key) else { return };
        if let Some(queue) = self.queues.get_mut(&(token.grantee.credential, token.of_use)) {
            queue.remove(&token.serial);
        }
        if let Some(session) = token.grantee.session {
            self.by_session.remove(&(session, *key));
        }
        self.by_family.remove(&(token.grantee.family, *key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a moment in the middle of a second, for 900 seconds.
    const LIFE: (u64, u64) = (1_000_600, 900);
    const BORN_MS: u64 = LIFE.0;

    fn of(credential: u64) -> Grantee {
        let (credential, family) = (CredentialNumber(credential), FamilyNumber(0));
        Grantee { credential, access: Access::MEMBER, session: None, family, address: None }
    }

    fn sizes(tokens: &Tokens) -> (usize, usize, usize) {
        (tokens.held.len(), tokens.queues.values().map(BTreeMap::len).sum(), tokens.by_session.len())
    }

    #[test]
    fn a_greedy_credential_loses_only_its_own_oldest_tokens() {
        let mut tokens = Tokens::default();
        tokens.issue("modest", (of(1), Use::Access), LIFE);
        for n in 0..=MOST_TOKENS {
            tokens.issue(&format!("greedy-{n}"), (of(0), Use::Access), LIFE);
        }
        assert_eq!(tokens.find("modest", Use::Access, BORN_MS), Some(of(1)), "older than all of them, but not theirs");
        assert_eq!(tokens.find("greedy-0", Use::Access, BORN_MS), None);
        assert_eq!(tokens.find("greedy-1", Use::Access, BORN_MS), Some(of(0)));
        assert_eq!(tokens.find(&format!("greedy-{MOST_TOKENS}"), Use::Access, BORN_MS), Some(of(0)));
        assert_eq!(sizes(&tokens), (MOST_TOKENS + 1, MOST_TOKENS + 1, 0));
    }

    #[test]
    fn expired_tokens_are_dropped_by_the_next_grant() {
        let mut tokens = Tokens::default();
        for n in 0..50 {
            tokens.issue(&format!("old-{n}"), (of(0), Use::Access), LIFE);
        }
        assert_eq!(tokens.find("old-0", Use::Access, 1_900_599), Some(of(0)));
        assert_eq!(tokens.find("old-0", Use::Access, 1_900_600), None, "900 s are over");
        tokens.issue("new", (of(0), Use::Access), (1_900_600, 900));
        assert_eq!(sizes(&tokens), (1, 1, 0));
    }

    #[test]
    fn a_refresh_token_works_once_and_only_as_one() {
        let mut tokens = Tokens::default();
        tokens.issue("r", (of(0), Use::Refresh), LIFE);
        tokens.issue("a", (of(0), Use::Access), LIFE);
        assert_eq!(tokens.find("r", Use::Access, BORN_MS), None);
        tokens.spend("a");
        assert_eq!(tokens.find("a", Use::Access, BORN_MS), Some(of(0)), "not a refresh token");
        assert_eq!(tokens.refresh_token("r", BORN_MS), RefreshToken::Live(of(0)));
        tokens.spend("r");
        assert_eq!(tokens.find("r", Use::Refresh, BORN_MS), None);
        assert_eq!(tokens.refresh_token("r", BORN_MS), RefreshToken::Spent(of(0).family));
        let end_ms = BORN_MS + 900_000;
        assert_eq!(tokens.refresh_token("r", end_ms), RefreshToken::Unknown, "remembered while it would be valid");
        tokens.issue("next", (of(0), Use::Refresh), (end_ms, 900));
        assert_eq!(sizes(&tokens), (2, 2, 0), "an expired spent token leaves nothing behind");
    }

    #[test]
    fn a_family_and_a_credential_end_with_all_their_tokens() {
        let mut tokens = Tokens::default();
        let (one, two) = (tokens.number_family(), tokens.number_family());
        for (text, credential, family) in [("a", 0, one), ("b", 0, two), ("c", 1, one)] {
            tokens.issue(text, (Grantee { family, ..of(credential) }, Use::Access), LIFE);
        }
        let live = |tokens: &Tokens| ["a", "b", "c"].map(|text| tokens.find(text, Use::Access, BORN_MS).is_some());
        tokens.forget_credential(CredentialNumber(1));
        assert_eq!(live(&tokens), [true, true, false]);
        tokens.forget_family(one);
        assert_eq!((live(&tokens), sizes(&tokens)), ([false, true, false], (1, 1, 0)));
        assert_eq!(tokens.by_family.len(), 1);
    }

    #[test]
    fn a_session_takes_back_its_own() {
        let mut tokens = Tokens::default();
        let (one, two) = (tokens.number_session(), tokens.number_session());
        for (text, session) in [("a", Some(one)), ("b", Some(two)), ("c", None), ("d", Some(one))] {
            tokens.issue(text, (Grantee { session, ..of(0) }, Use::Access), LIFE);
        }
        tokens.forget_session(one);
        let live = ["a", "b", "c", "d"].map(|text| tokens.find(text, Use::Access, BORN_MS).is_some());
        assert_eq!(live, [false, true, true, false]);
        assert_eq!(sizes(&tokens), (2, 2, 1));
    }
}
