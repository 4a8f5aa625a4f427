//! To whom it is told: nobody but an operator learns of others what no public channel shows.

use pitwire_model::{AccountId, Lots};

use crate::venue_view::ViewedOrder;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Viewer {
    /// Everything, of everybody.
    Operator,
    /// Everything of this account; of others what the visible book and the public events tell.
    Member(AccountId),
}

impl Viewer {
    pub(crate) fn owns(self, account: AccountId) -> bool {
        match self {
            Viewer::Operator => true,
            Viewer::Member(own) => own == account,
        }
    }

    /// Whether this order is there at all.
    pub(crate) fn knows_of(self, order: &ViewedOrder) -> bool {
        self.owns(order.account) || !order.is_hidden()
    }

    /// How much of it is there, of an order that is.
    pub(crate) fn lots_of(self, order: &ViewedOrder) -> Lots {
        if self.owns(order.account) { order.open } else { order.seen() }
    }
}
