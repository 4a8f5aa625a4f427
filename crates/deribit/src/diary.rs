//! What accounts' own channels have told, for those who come back to them.
//!
//! Does        keep the newest order and fill messages of accounts that have asked for it, each with its place.
//! Holds       1. places only grow, and one never lies behind the venue time of what follows: whatever has happened since is
//!                found in the venue's history by the time of the last place heard;
//!             2. memory is bounded: [`MOST_BYTES`] an account, of accounts that somebody has come to resume;
//!             3. an account that nobody has heard for [`RESUMABLE_NS`] is let go.
//! Leaves out  who hears what: see `resume`.
//! Costs       one encoding of each change of such an account.
//! Start at    [`Diary::record`], [`Pages::after`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::codec::{Json, Token, objects};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, InstrumentId, OrderId, VenueNanos};
use pitwire_projections::{AccountBook, Change, Views};

use crate::methods::trading::moment_of;
use crate::resume::RESUMABLE_NS;

/// What is kept of one account: some thousand messages.
const MOST_BYTES: usize = 512 * 1024;
/// Beside its text, of each entry.
const ENTRY_BYTES: usize = 64;

/// Between two messages of an account: venue time, and how many the account has been told at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub at: u64,
    pub part: u32,
}

impl Place {
    pub fn of(token: Token) -> Place {
        Place { at: token.number, part: token.part }
    }

    pub fn token(self, epoch: u64) -> Token {
        Token { epoch, number: self.at, part: self.part }
    }

    fn next(self, at: u64) -> Place {
        if at > self.at { Place { at, part: 0 } } else { Place { at: self.at, part: self.part.saturating_add(1) } }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Fill,
    Order { id: OrderId, triggers: bool },
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub place: Place,
    pub instrument: InstrumentId,
    pub what: What,
    /// The object of the fill or the order.
    pub object: Vec<u8>,
}

/// One account's.
#[derive(Debug)]
pub(crate) struct Pages {
    kept: VecDeque<Entry>,
    bytes: usize,
    /// Whoever stands before this has missed what is gone.
    pub first: Place,
    pub last: Place,
    heard_at: VenueNanos,
}

impl Pages {
    fn new(now: VenueNanos) -> Pages {
        let place = Place { at: now.0, part: 0 };
        Pages { kept: VecDeque::new(), bytes: 0, first: place, last: place, heard_at: now }
    }

    /// What was told after a place, oldest first.
    pub fn after(&self, place: Place) -> impl Iterator<Item = &Entry> {
        let told = self.kept.partition_point(|entry| entry.place <= place);
        self.kept.range(told..)
    }

    fn push(&mut self, at: u64, instrument: InstrumentId, what: What, object: Vec<u8>) {
        self.last = self.last.next(at);
        self.bytes += object.len() + ENTRY_BYTES;
        self.kept.push_back(Entry { place: self.last, instrument, what, object });
    }

    /// What has been told to all who are here need not be kept beyond the limit.
    fn trim(&mut self) {
        while self.bytes > MOST_BYTES
            && let Some(gone) = self.kept.pop_front()
        {
            self.bytes -= gone.object.len() + ENTRY_BYTES;
            self.first = gone.place;
        }
    }
}

/// Of every account that somebody wants to be able to come back to.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    pub epoch: u64,
    /// Whether what earlier epochs have told is in the venue's history.
    pub remembers: bool,
    accounts: BTreeMap<AccountId, Pages>,
}

impl Diary {
    /// An account's, from now on if it has none.
    pub fn open(&mut self, account: AccountId, now: VenueNanos) -> &Pages {
        let pages = self.accounts.entry(account).or_insert_with(|| Pages::new(now));
        pages.heard_at = pages.heard_at.max(now);
        pages
    }

    pub fn of(&self, account: AccountId) -> Option<&Pages> {
        self.accounts.get(&account)
    }

    /// Takes in what the last commands changed, before anybody is told.
    pub fn record(&mut self, engine: &Engine, views: &Views, changes: &[Change]) {
        if self.accounts.is_empty() {
            return;
        }
        let touched: BTreeSet<AccountId> = changes.iter().filter_map(account_told).collect();
        for account in touched {
            let (Some(pages), Some(book)) = (self.accounts.get_mut(&account), views.account(account)) else { continue };
            // Not what this call brings: whoever is here is told that from these pages.
            pages.trim();
            let mut entries = entries_of(account, book, engine, changes);
            // What comes later in this turn may carry an earlier time than an order that is told as it now stands.
            let mut earliest = u64::MAX;
            for (at, ..) in entries.iter_mut().rev() {
                earliest = earliest.min(*at);
                *at = earliest;
            }
            for (at, instrument, what, object) in entries {
                pages.push(at, instrument, what, object);
            }
        }
    }

    /// Lets go of accounts that have been heard by nobody for a while; these are heard now.
    pub fn keep(&mut self, heard: impl Iterator<Item = AccountId>, now: VenueNanos) {
        for account in heard {
            if let Some(pages) = self.accounts.get_mut(&account) {
                pages.heard_at = now;
            }
        }
        self.accounts.values_mut().for_each(Pages::trim);
        self.accounts.retain(|_, pages| pages.heard_at.0.saturating_add(RESUMABLE_NS) > now.0);
    }
}

fn account_told(change: &Change) -> Option<AccountId> {
    match *change {
        Change::Trade { account, .. } | Change::Order { account, .. } | Change::Elected { account, .. } => {
            Some(account)
        }
        _ => None,
    }
}

type Told = (u64, InstrumentId, What, Vec<u8>);

fn entries_of(account: AccountId, book: &AccountBook, engine: &Engine, changes: &[Change]) -> Vec<Told> {
    // Fills are told oldest first, but the book keeps the newest last: count back.
    let is_fill = |change: &&Change| matches!(change, Change::Trade { account: of, .. } if *of == account);
    let mut fills = changes.iter().filter(is_fill).count();
    let mut entries = Vec::new();
    for change in changes {
        match *change {
            Change::Trade { account: of, instrument } if of == account => {
                let fill = book.trades().len().checked_sub(fills).and_then(|at| book.trades().get(at));
                fills -= 1;
                if let (Some(fill), Some(market)) = (fill, engine.market(instrument)) {
                    let mut object = Vec::new();
                    objects::user_trade(&mut Json::new(&mut object), &market.spec, fill, engine.currencies());
                    entries.push((fill.trade.at.0, instrument, What::Fill, object));
                }
            }
            Change::Order { account: of, order } if of == account => {
                entries.extend(order_entry(book, engine, order, false));
            }
            Change::Elected { account: of, order } if of == account => {
                entries.extend(order_entry(book, engine, order, true));
            }
            _ => {}
        }
    }
    entries
}

fn order_entry(book: &AccountBook, engine: &Engine, id: OrderId, triggers: bool) -> Option<Told> {
    let record = book.order(id)?;
    let market = engine.market(record.instrument)?;
    let mut object = Vec::new();
    let moment = objects::OrderMoment { triggers, ..moment_of(engine, record) };
    objects::order(&mut Json::new(&mut object), &market.spec, record, moment);
    Some((record.updated.0, record.instrument, What::Order { id, triggers }, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: u64, part: u32) -> Place {
        Place { at, part }
    }

    #[test]
    fn places_grow_and_what_does_not_fit_is_gone_from_the_oldest() {
        let mut pages = Pages::new(VenueNanos(5));
        let object = vec![b'x'; MOST_BYTES / 4 - ENTRY_BYTES];
        for at in [5, 5, 7, 6] {
            pages.push(at, InstrumentId(0), What::Fill, object.clone());
        }
        let places: Vec<Place> = pages.after(place(5, 0)).map(|entry| entry.place).collect();
        assert_eq!(places, [place(5, 1), place(5, 2), place(7, 0), place(7, 1)]);
        assert_eq!((pages.first, pages.last), (place(5, 0), place(7, 1)));
        assert_eq!(pages.after(place(7, 0)).count(), 1);
        assert_eq!(pages.after(place(7, 1)).count(), 0);
        pages.push(9, InstrumentId(0), What::Fill, object);
        assert_eq!(pages.after(place(5, 0)).count(), 5, "whoever is here has not been told yet");
        pages.trim();
        assert_eq!((pages.first, pages.after(pages.first).count()), (place(5, 1), 4));
    }

    #[test]
    fn an_account_is_let_go_when_nobody_has_heard_it_for_long_enough() {
        let (mut diary, now) = (Diary::default(), VenueNanos(1));
        diary.open(AccountId(3), now);
        diary.open(AccountId(4), now);
        diary.keep([AccountId(4)].into_iter(), VenueNanos(RESUMABLE_NS));
        diary.keep([].into_iter(), VenueNanos(RESUMABLE_NS + 1));
        assert!(diary.of(AccountId(3)).is_none() && diary.of(AccountId(4)).is_some());
    }
}
