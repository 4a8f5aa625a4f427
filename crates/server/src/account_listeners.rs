//! Which connections receive the private notices of which accounts.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::AccountId;
use pitwire_net::ConnectionId;
use pitwire_projections::Change;

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

    /// Returns the connections that get changes, each once, in order of connection.
    pub fn affected_by(&self, changes: &[Change]) -> BTreeSet<ConnectionId> {
        let mut affected = BTreeSet::new();
        for change in changes {
            match account_of(change) {
                Some(account) => affected.extend(self.by_account.get(&account).into_iter().flatten().copied()),
                None => affected.extend(self.by_connection.keys().copied()),
            }
        }
        affected
    }
}

/// Returns the account that a change concerns, or `None` if it may concern every account.
fn account_of(change: &Change) -> Option<AccountId> {
    match change {
        Change::Order { account, .. }
        | Change::Elected { account, .. }
        | Change::Trade { account, .. }
        | Change::Balance { account }
        | Change::Report { account, .. } => Some(*account),
        Change::Revalued { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::InstrumentId;

    use super::*;

    #[test]
    fn changes_reach_the_connections_of_their_account() {
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        let (first, second) = (AccountId(1), AccountId(2));
        let mut listeners = AccountListeners::default();
        listeners.set(one, [first].into_iter());
        listeners.set(two, [first, second].into_iter());
        let affected = |listeners: &AccountListeners, change| Vec::from_iter(listeners.affected_by(&[change]));
        assert_eq!(affected(&listeners, Change::Balance { account: first }), [one, two]);
        assert_eq!(affected(&listeners, Change::Balance { account: second }), [two]);
        listeners.set(two, [second].into_iter());
        assert_eq!(affected(&listeners, Change::Balance { account: first }), [one]);
        assert_eq!(affected(&listeners, Change::Revalued { instrument: InstrumentId(0) }), [one, two]);
        listeners.set(one, [].into_iter());
        listeners.remove(two);
        assert!(listeners.by_account.is_empty() && listeners.by_connection.is_empty());
    }
}
