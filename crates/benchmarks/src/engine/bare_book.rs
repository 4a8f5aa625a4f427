//! The bare book: price-time matching without accounts or rules.
//!
//! Does        run operations on one book, or on many books that share one index of orders.
//! Start at    [`BareBook`].

use pitwire_engine::look_ahead::{LookAhead, UpcomingCommand};
use pitwire_engine::{Book, OrderIndex, Owner, RestingOrder, Slot, SweepSink};
use pitwire_model::{AccountId, InstrumentId, OrderId, Side, Ticks};

use super::matcher::Matcher;
use super::operations::{Operation, OperationKind};
use super::reports::{ReportType, Reports};

const ONLY_INSTRUMENT: InstrumentId = InstrumentId(0);

/// Finds the book of an instrument.
pub trait Books {
    /// Whether the books do not fit into a cache.
    const MANY: bool;
    /// Returns the book of an instrument.
    fn of(&mut self, instrument: InstrumentId) -> &mut Book;
    /// Returns the book of an instrument, if it exists.
    fn peek(&self, instrument: InstrumentId) -> Option<&Book>;
}

/// One book for every instrument, without a lookup.
pub struct OneBook(Book);

impl Books for OneBook {
    const MANY: bool = false;

    #[inline]
    /// Returns the book of an instrument.
    fn of(&mut self, _: InstrumentId) -> &mut Book {
        &mut self.0
    }

    #[inline]
    fn peek(&self, _: InstrumentId) -> Option<&Book> {
        Some(&self.0)
    }
}

/// A book for each instrument. Instruments are numbered from 0.
pub struct ManyBooks(Vec<Book>);

impl Books for ManyBooks {
    const MANY: bool = true;

    #[inline]
    /// Returns the book of an instrument.
    fn of(&mut self, instrument: InstrumentId) -> &mut Book {
        &mut self.0[instrument.0 as usize]
    }

    #[inline]
    fn peek(&self, instrument: InstrumentId) -> Option<&Book> {
        self.0.get(instrument.0 as usize)
    }
}

/// Books with an index of live orders.
pub struct IndexedBooks<B> {
    books: B,
    index: OrderIndex,
    ahead: LookAhead,
}

/// One book with its index.
pub type BareBook = IndexedBooks<OneBook>;

/// Converts a price back to 32 bits. Prices come from 32-bit fields, so nothing is lost.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn narrow(price: Ticks) -> u32 {
    price.0 as u32
}

/// Returns the instrument and order of an operation, so that the engine can prefetch their memory.
#[inline]
pub fn expected(instrument: InstrumentId, op: &Operation) -> UpcomingCommand {
    // The book of a cancel is known to the index only.
    const NAMED: u32 =
        1 << OperationKind::Limit as u32 | 1 << OperationKind::Market as u32 | 1 << OperationKind::Immediate as u32;
    // Arithmetic, because a branch on the kind would be mispredicted about every second time.
    let instrument = InstrumentId((NAMED >> op.kind as u32 & 1).wrapping_neg() & instrument.0);
    UpcomingCommand { order: OrderId(op.id), instrument, side: op.side, price: Ticks(i64::from(op.price)) }
}

impl BareBook {
    /// Creates an empty book with memory for at most 32,768 orders.
    pub fn new(operations: usize) -> Self {
        let mut book = Book::new();
        let capacity = operations.min(1 << 15);
        book.reserve(capacity);
        IndexedBooks { books: OneBook(book), index: OrderIndex::with_capacity(capacity), ahead: LookAhead::default() }
    }
}

impl IndexedBooks<ManyBooks> {
    /// Creates one empty book per instrument.
    pub fn with_instruments(instruments: usize) -> Self {
        let books = (0..instruments).map(|_| Book::new()).collect();
        IndexedBooks { books: ManyBooks(books), index: OrderIndex::with_capacity(1 << 15), ahead: LookAhead::default() }
    }
}

impl<B: Books> IndexedBooks<B> {
    /// Returns whether an order with this id rests on a book.
    pub fn is_live(&self, id: u64) -> bool {
        self.index.contains(OrderId(id))
    }

    /// Returns the number of resting orders.
    pub fn live_orders(&self) -> usize {
        self.index.len()
    }

    /// HOT. Prefetches for later operations. `coming(n)` is the operation `n` places behind the
    /// next one.
    #[inline]
    pub fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<(InstrumentId, &'a Operation)>) {
        let IndexedBooks { ahead, index, books } = self;
        let books = &*books;
        ahead.prefetch(index, move |at| books.peek(at), B::MANY, move |n| coming(n).map(|(at, op)| expected(at, op)));
    }

    /// Matches an order and rests what remains if `rests` is set.
    #[inline(never)]
    fn enter(
        &mut self,
        (seq, at): (u32, InstrumentId),
        op: &Operation,
        limit: Option<Ticks>,
        rests: bool,
        reports: &mut Reports,
    ) {
        let mut fills = Fills { seq, taker: op.id, index: &mut self.index, reports };
        let open = self.books.of(at).sweep(op.side, limit, op.quantity, &mut fills);
        if open == 0 {
            return;
        }
        match limit.filter(|_| rests) {
            Some(price) => {
                let slot = self.rest(at, op, price, open);
                self.index.insert(OrderId(op.id), at, slot);
            }
            None => reports.order(ReportType::Cancelled, seq, op.side, op.id, limit.map_or(0, narrow), 0),
        }
    }

    /// HOT. Puts an order on its book. The caller updates the index.
    #[inline(always)]
    fn rest(&mut self, at: InstrumentId, op: &Operation, price: Ticks, open: u32) -> Slot {
        let owner = Owner::new(AccountId(0), op.side, false);
        let id = OrderId(op.id);
        let order = RestingOrder { id, price, open, ordered: op.quantity, owner, hidden: 0, display: 0 };
        self.books.of(at).rest(order, ()).0
    }

    /// Applies a market or an immediate-or-cancel order.
    #[inline(never)]
    fn aggress(&mut self, seq: u32, at: InstrumentId, op: &Operation, reports: &mut Reports) {
        if self.index.contains(OrderId(op.id)) {
            reports.duplicate.get_or_insert(seq);
            return;
        }
        let is_market = op.kind == OperationKind::Market;
        let (shown, limit) = if is_market { (0, None) } else { (op.price, Some(Ticks(i64::from(op.price)))) };
        reports.order(ReportType::Accepted, seq, op.side, op.id, shown, op.quantity);
        self.enter((seq, at), op, limit, false, reports);
    }

    #[inline(never)]
    fn replace(&mut self, seq: u32, op: &Operation, reports: &mut Reports) {
        let id = OrderId(op.id);
        let known = if op.quantity > 0 && op.price > 0 { self.index.remove(id) } else { None };
        let Some((at, slot)) = known else { return reports.refused(ReportType::ReplaceRefused, seq, op.id) };
        let (order, _) = self.books.of(at).remove(slot);
        let side: Side = order.owner.side();
        reports.order(ReportType::Replaced, seq, side, op.id, op.price, op.quantity);
        self.enter((seq, at), &Operation { side, ..*op }, Some(Ticks(i64::from(op.price))), true, reports);
    }

    /// HOT. Applies one operation. `at` is the instrument of a new order; a cancel or replace finds
    /// its own.
    ///
    /// Resting orders and cancels, the most frequent operations, are inlined into the loop of the
    /// caller. Operations that trade are function calls.
    #[inline(always)]
    pub fn apply_at(&mut self, seq: u32, at: InstrumentId, op: &Operation, reports: &mut Reports) {
        let id = OrderId(op.id);
        match op.kind {
            OperationKind::Limit => {
                let Some(vacancy) = self.index.vacancy_for(id) else {
                    reports.duplicate.get_or_insert(seq);
                    return;
                };
                let price = Ticks(i64::from(op.price));
                reports.order(ReportType::Accepted, seq, op.side, op.id, op.price, op.quantity);
                if self.books.of(at).would_trade(op.side, Some(price)) {
                    return self.enter((seq, at), op, Some(price), true, reports);
                }
                let slot = self.rest(at, op, price, op.quantity);
                self.index.insert_at(vacancy, id, at, slot);
            }
            OperationKind::Immediate | OperationKind::Market => self.aggress(seq, at, op, reports),
            OperationKind::Cancel => match self.index.remove(id) {
                Some((at, slot)) => {
                    let (order, _) = self.books.of(at).remove(slot);
                    reports.order(ReportType::Cancelled, seq, order.owner.side(), op.id, narrow(order.price), 0);
                }
                None => reports.refused(ReportType::CancelRefused, seq, op.id),
            },
            OperationKind::Replace => self.replace(seq, op, reports),
        }
    }
}

impl Matcher for BareBook {
    #[inline]
    fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<&'a Operation>) {
        self.look_ahead(move |n| coming(n).map(|operation| (ONLY_INSTRUMENT, operation)));
    }

    #[inline(always)]
    fn apply(&mut self, seq: u32, op: &Operation, reports: &mut Reports) {
        self.apply_at(seq, ONLY_INSTRUMENT, op, reports);
    }

    fn live(&self) -> usize {
        self.live_orders()
    }
}

struct Fills<'a> {
    seq: u32,
    taker: u64,
    index: &'a mut OrderIndex,
    reports: &'a mut Reports,
}

impl SweepSink for Fills<'_> {
    #[inline]
    fn fill(&mut self, maker: OrderId, _: Owner, price: Ticks, lots: u32, maker_open: u32, _: u32) {
        if maker_open == 0 {
            self.index.remove(maker);
        }
        self.reports.trade(self.seq, narrow(price), lots, maker.0, self.taker);
    }

    #[inline]
    fn level(&mut self, _: Ticks, _: u64) {}
}
