//! What commands changed for accounts, as it was then, so that the notices can be sent later.
//!
//! Start at    [`account_events`].

use std::collections::BTreeMap;
use std::sync::Arc;

use pitwire_engine::Engine;
use pitwire_model::{AccountId, Seq};
use pitwire_projections::{AccountBook, Change, OrderRecord, UserTrade, Views};

/// One change of one account.
#[derive(Clone, Debug)]
pub struct AccountEvent {
    account: AccountId,
    pub kind: AccountEventKind,
}

/// Kind of a change, with its data.
#[derive(Clone, Debug)]
pub enum AccountEventKind {
    Fill(Box<UserTrade>),
    Order {
        record: Arc<OrderRecord>,
        /// The order is a stop that was elected.
        triggers: bool,
    },
    Report(Seq),
    /// The balances or the value of the positions, and nothing else.
    Money,
}

impl AccountEvent {
    pub fn account(&self) -> AccountId {
        self.account
    }
}

/// Returns the changes of the last commands as they are now, of the accounts that `is_wanted`
/// names. `listening` are the accounts with subscribers.
pub fn account_events(
    engine: &Engine,
    views: &Views,
    changes: &[Change],
    is_wanted: impl Fn(AccountId) -> bool,
    listening: impl Iterator<Item = AccountId> + Clone,
) -> Vec<AccountEvent> {
    // Changes name fills oldest first, but the book of the account ends with the newest: count
    // back.
    let mut fills: BTreeMap<AccountId, usize> = BTreeMap::new();
    for change in changes {
        if let Change::Trade { account, .. } = change {
            *fills.entry(*account).or_default() += 1;
        }
    }
    let mut events = Vec::new();
    for change in changes {
        let (account, kind) = match *change {
            Change::Trade { account, .. } => {
                let left = fills.entry(account).or_default();
                let from_end = std::mem::replace(left, left.saturating_sub(1));
                let trades = views.account(account).filter(|_| is_wanted(account)).map(AccountBook::trades);
                let fill = trades.and_then(|trades| trades.get(trades.len().checked_sub(from_end)?));
                (account, fill.map(|fill| AccountEventKind::Fill(Box::new(fill.clone()))))
            }
            Change::Order { account, order } | Change::Elected { account, order } => {
                let triggers = matches!(change, Change::Elected { .. });
                let book = views.account(account).filter(|_| is_wanted(account));
                let record = book.and_then(|book| book.shared_order(order));
                (account, record.map(|record| AccountEventKind::Order { record, triggers }))
            }
            Change::Report { account, report } => (account, Some(AccountEventKind::Report(report))),
            Change::Balance { account } => (account, Some(AccountEventKind::Money)),
            Change::Revalued { instrument } => {
                let holds = |account: &AccountId| {
                    engine.account(*account).is_some_and(|holder| holder.position(instrument).lots != 0)
                };
                let holders = listening.clone().filter(holds);
                events.extend(holders.map(|account| AccountEvent { account, kind: AccountEventKind::Money }));
                continue;
            }
        };
        events.extend(kind.filter(|_| is_wanted(account)).map(|kind| AccountEvent { account, kind }));
    }
    events
}
