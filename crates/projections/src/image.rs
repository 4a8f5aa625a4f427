//! The projections as plain data, for snapshots.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pitwire_model::{AccountId, OrderId, SpentSignature, Ticks};

use crate::Views;
use crate::account::{AccountBook, OrderRecord, OrderState, UserTrade};
use crate::off_book::Reports;
use crate::session::SessionView;
use crate::tape::{Candle, PublicTrade, Tape, TickDirection};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewsImage {
    pub tapes: Vec<TapeImage>,
    /// Same length as `tapes`.
    pub sessions: Vec<SessionView>,
    pub accounts: Vec<AccountBookImage>,
    pub reports: Reports,
    /// By their use, oldest first.
    pub signatures: Vec<SpentSignature>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeImage {
    pub direction: TickDirection,
    pub index: Ticks,
    pub mark: Option<Ticks>,
    pub trades: Vec<PublicTrade>,
    /// Same length as `trades`.
    pub parties: Vec<(AccountId, AccountId)>,
    pub candles: Vec<Candle>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountBookImage {
    pub account: AccountId,
    pub orders: Vec<OrderRecord>,
    pub closed: Vec<OrderId>,
    pub trades: Vec<UserTrade>,
}

impl Views {
    pub fn image(&self) -> ViewsImage {
        ViewsImage {
            tapes: self.tapes.iter().map(tape_image).collect(),
            sessions: self.sessions.clone(),
            accounts: self.accounts.iter().map(|(id, book)| book_image(*id, book)).collect(),
            reports: self.reports.clone(),
            signatures: self.signatures.iter().copied().collect(),
        }
    }

    pub fn from_image(image: ViewsImage) -> Views {
        Views {
            tapes: image.tapes.into_iter().map(tape_from).collect(),
            sessions: image.sessions,
            accounts: image.accounts.into_iter().map(book_from).collect(),
            reports: image.reports,
            signatures: image.signatures.into_iter().collect(),
        }
    }
}

fn tape_image(tape: &Tape) -> TapeImage {
    TapeImage {
        direction: tape.direction,
        index: tape.index,
        mark: tape.mark,
        trades: tape.trades.iter().copied().collect(),
        parties: tape.parties.iter().copied().collect(),
        candles: tape.candles.iter().copied().collect(),
    }
}

fn tape_from(image: TapeImage) -> Tape {
    Tape {
        trades: image.trades.into(),
        parties: image.parties.into(),
        candles: image.candles.into(),
        direction: image.direction,
        index: image.index,
        mark: image.mark,
    }
}

fn book_image(account: AccountId, book: &AccountBook) -> AccountBookImage {
    let orders = book.open.values().chain(book.closed_by_id.values());
    let mut orders: Vec<OrderRecord> = orders.map(|order| OrderRecord::clone(order)).collect();
    orders.sort_unstable_by_key(|order| order.id);
    AccountBookImage {
        account,
        orders,
        closed: book.closed.iter().copied().collect(),
        trades: book.trades.iter().cloned().collect(),
    }
}

fn book_from(image: AccountBookImage) -> (AccountId, AccountBook) {
    // In order of entry, so that the first order with a number keeps it.
    let numbers: Vec<_> = image.orders.iter().map(|order| (order.client_order_id.clone(), order.id)).collect();
    let records = image.orders.into_iter().map(|order| (order.id, Arc::new(order)));
    let (open, closed_by_id): (BTreeMap<_, _>, BTreeMap<_, _>) =
        records.partition(|(_, order)| order.state == OrderState::Open);
    let mut book = AccountBook {
        open_parts: open.values().fold(0, |sum, order| u64::saturating_add(sum, order.parts())),
        waiting_stops: open.values().filter(|order| order.is_waiting_stop()).count() as u64,
        open,
        closed_by_id,
        closed: VecDeque::from(image.closed),
        trades: VecDeque::from(image.trades),
        ..AccountBook::default()
    };
    numbers.iter().for_each(|(number, id)| book.remember_number(number.as_str(), *id));
    (image.account, book)
}
