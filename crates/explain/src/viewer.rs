//! The reader of the explanations. Only an operator learns non-public facts about other members.

use pitwire_model::{AccountId, Lots};

use crate::venue_view::ViewedOrder;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Viewer {
    /// Sees everything.
    Operator,
    /// Sees everything about this account, and the public facts about others.
    Member(AccountId),
}

impl Viewer {
    pub(crate) fn owns(self, account: AccountId) -> bool {
        match self {
            Viewer::Operator => true,
            Viewer::Member(own) => own == account,
        }
    }

    /// Whether the viewer may know that the order exists.
    pub(crate) fn knows_of(self, order: &ViewedOrder) -> bool {
        self.owns(order.account) || !order.is_hidden()
    }

    /// Returns the open lots of an order that the viewer may know.
    pub(crate) fn lots_of(self, order: &ViewedOrder) -> Lots {
        if self.owns(order.account) { order.open } else { order.seen() }
    }
}
