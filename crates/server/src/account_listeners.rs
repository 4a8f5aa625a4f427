//! Which connections receive the private notices of which accounts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use pitwire_model::AccountId;
use pitwire_net::ConnectionId;

/// An index of connections by account. Connections without a login are not in it.
#[derive(Debug, Default)]
pub struct AccountListeners {
    by_account: BTreeMap<AccountId, BTreeSet<ConnectionId>>,
    by_connection: BTreeMap<ConnectionId, Vec<AccountId>>,
}

impl AccountListeners {
    /// Sets the accounts whose notices a connection receives.
    pub fn set(&mut self, id: ConnectionId, accounts: impl Iterator<Item = AccountId> + Clone) {
        let known = self.by_connection.get(&id).map_or(&[][..], Vec::as_slice);
        if accounts.clone().eq(known.iter().copied()) {
            return;
        }
        self.remove(id);
        let accounts: Vec<AccountId> = accounts.collect();
        for account in &accounts {
            self.by_account.entry(*account).or_default().insert(id);
        }
        if !accounts.is_empty() {
            self.by_connection.insert(id, accounts);
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, id: ConnectionId) {
        for account in self.by_connection.remove(&id).unwrap_or_default() {
            if let Some(listeners) = self.by_account.get_mut(&account) {
                listeners.remove(&id);
                if listeners.is_empty() {
                    self.by_account.remove(&account);
                }
            }
        }
    }

    /// Returns how many connections receive the notices of an account.
    pub fn len_of(&self, account: AccountId) -> usize {
        self.by_account.get(&account).map_or(0, BTreeSet::len)
    }

    /// Returns the connections that receive the notices of an account, in order of connection.
    pub fn of(&self, account: AccountId) -> impl Iterator<Item = ConnectionId> {
        self.behind(account, None)
    }

    /// Returns the connections of [`Self::of`] behind `last`, or all of them without it.
    pub fn behind(&self, account: AccountId, last: Option<ConnectionId>) -> impl Iterator<Item = ConnectionId> {
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let of_account = self.by_account.get(&account).into_iter();
        of_account.flat_map(move |ids| ids.range((start, Bound::Unbounded))).copied()
    }

    /// Returns the accounts whose notices some connection receives.
    pub fn accounts(&self) -> impl Iterator<Item = AccountId> + Clone {
        self.by_account.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_receive_the_notices_of_their_accounts() {
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        let (first, second) = (AccountId(1), AccountId(2));
        let mut listeners = AccountListeners::default();
        listeners.set(one, [first].into_iter());
        listeners.set(two, [first, second].into_iter());
        assert_eq!(Vec::from_iter(listeners.of(first)), [one, two]);
        assert_eq!(Vec::from_iter(listeners.of(second)), [two]);
        assert_eq!(Vec::from_iter(listeners.accounts()), [first, second]);
        assert_eq!(Vec::from_iter(listeners.behind(first, Some(one))), [two]);
        listeners.set(two, [second].into_iter());
        assert_eq!((Vec::from_iter(listeners.of(first)), listeners.len_of(first)), (vec![one], 1));
        listeners.set(one, [].into_iter());
        listeners.remove(two);
        assert!(listeners.by_account.is_empty() && listeners.by_connection.is_empty());
    }
}
