//! The bare book: price-time matching and nothing else. One of them, or many behind one index of orders.

use pitwire_engine::look_ahead::{LookAhead, UpcomingCommand};
use pitwire_engine::{Book, OrderIndex, Owner, RestingOrder, Slot, SweepSink};
use pitwire_model::{AccountId, InstrumentId, OrderId, Side, Ticks};

use super::Matcher;
use super::operations::{Kind, Operation};
use super::reports::{Reports, Type};

const HERE: InstrumentId = InstrumentId(0);

/// Where the book of an instrument is.
pub trait Books {
    /// More than fit into a cache.
    const MANY: bool;
    fn of(&mut self, instrument: InstrumentId) -> &mut Book;
    fn peek(&self, instrument: InstrumentId) -> Option<&Book>;
}

/// One book, whatever the instrument: nothing is looked up.
pub struct One(Book);

impl Books for One {
    const MANY: bool = false;

    #[inline]
    fn of(&mut self, _: InstrumentId) -> &mut Book {
        &mut self.0
    }

    #[inline]
    fn peek(&self, _: InstrumentId) -> Option<&Book> {
        Some(&self.0)
    }
}

/// A book for each instrument, numbered from 0.
pub struct Many(Vec<Book>);

impl Books for Many {
    const MANY: bool = true;

    #[inline]
    fn of(&mut self, instrument: InstrumentId) -> &mut Book {
        &mut self.0[instrument.0 as usize]
    }

    #[inline]
    fn peek(&self, instrument: InstrumentId) -> Option<&Book> {
        self.0.get(instrument.0 as usize)
    }
}

pub struct Bare<B> {
    books: B,
    index: OrderIndex,
    ahead: LookAhead,
}

pub type BareBook = Bare<One>;

/// Prices come from 32-bit fields, so this never cuts.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn narrow(price: Ticks) -> u32 {
    price.0 as u32
}

/// What of an operation tells where it is going to touch memory.
#[inline]
pub fn expected(instrument: InstrumentId, op: &Operation) -> UpcomingCommand {
    // Which book a cancel concerns, the index has to say.
    const NAMED: u32 = 1 << Kind::Limit as u32 | 1 << Kind::Market as u32 | 1 << Kind::Immediate as u32;
    // By arithmetic: a branch on the kind would be guessed wrong as often as not, here and again nearer to its turn.
    let instrument = InstrumentId((NAMED >> op.kind as u32 & 1).wrapping_neg() & instrument.0);
    UpcomingCommand { order: OrderId(op.id), instrument, side: op.side, price: Ticks(i64::from(op.price)) }
}

impl BareBook {
    pub fn new(operations: usize) -> Self {
        let mut book = Book::new();
        let room = operations.min(1 << 15);
        book.reserve(room);
        Bare { books: One(book), index: OrderIndex::with_capacity(room), ahead: LookAhead::default() }
    }
}

impl Bare<Many> {
    pub fn with_instruments(instruments: usize) -> Self {
        let books = (0..instruments).map(|_| Book::new()).collect();
        Bare { books: Many(books), index: OrderIndex::with_capacity(1 << 15), ahead: LookAhead::default() }
    }
}

impl<B: Books> Bare<B> {
    pub fn is_live(&self, id: u64) -> bool {
        self.index.contains(OrderId(id))
    }

    pub fn live_orders(&self) -> usize {
        self.index.len()
    }

    /// HOT. `coming(n)` is the operation `n` places behind the one whose turn it is.
    #[inline]
    pub fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<(InstrumentId, &'a Operation)>) {
        let Bare { ahead, index, books } = self;
        let books = &*books;
        ahead.look(index, move |at| books.peek(at), B::MANY, move |n| coming(n).map(|(at, op)| expected(at, op)));
    }

    /// An order that meets others, or that does not rest.
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
            None => reports.order(Type::Cancelled, seq, op.side, op.id, limit.map_or(0, narrow), 0),
        }
    }

    /// HOT. Puts an order on its book; the index is the caller's business.
    #[inline(always)]
    fn rest(&mut self, at: InstrumentId, op: &Operation, price: Ticks, open: u32) -> Slot {
        let owner = Owner::new(AccountId(0), op.side, false);
        let id = OrderId(op.id);
        let order = RestingOrder { id, price, open, ordered: op.quantity, owner, hidden: 0, display: 0 };
        self.books.of(at).rest(order, ()).0
    }

    /// An order that does not rest.
    #[inline(never)]
    fn aggress(&mut self, seq: u32, at: InstrumentId, op: &Operation, reports: &mut Reports) {
        if self.index.contains(OrderId(op.id)) {
            reports.duplicate.get_or_insert(seq);
            return;
        }
        let is_market = op.kind == Kind::Market;
        let (shown, limit) = if is_market { (0, None) } else { (op.price, Some(Ticks(i64::from(op.price)))) };
        reports.order(Type::Accepted, seq, op.side, op.id, shown, op.quantity);
        self.enter((seq, at), op, limit, false, reports);
    }

    #[inline(never)]
    fn replace(&mut self, seq: u32, op: &Operation, reports: &mut Reports) {
        let id = OrderId(op.id);
        let known = if op.quantity > 0 && op.price > 0 { self.index.remove(id) } else { None };
        let Some((at, slot)) = known else { return reports.refused(Type::ReplaceRefused, seq, op.id) };
        let (order, _) = self.books.of(at).remove(slot);
        let side: Side = order.owner.side();
        reports.order(Type::Replaced, seq, side, op.id, op.price, op.quantity);
        self.enter((seq, at), &Operation { side, ..*op }, Some(Ticks(i64::from(op.price))), true, reports);
    }

    /// HOT. Enters into the book of instrument `at`; a cancel or replace finds its own. Inlined into the loop with the
    /// two operations that are nearly all others, an order that rests and a cancel; whatever trades is a call.
    #[inline(always)]
    pub fn apply_at(&mut self, seq: u32, at: InstrumentId, op: &Operation, reports: &mut Reports) {
        let id = OrderId(op.id);
        match op.kind {
            Kind::Limit => {
                let Some(vacancy) = self.index.vacancy_for(id) else {
                    reports.duplicate.get_or_insert(seq);
                    return;
                };
                let price = Ticks(i64::from(op.price));
                reports.order(Type::Accepted, seq, op.side, op.id, op.price, op.quantity);
                if self.books.of(at).meets(op.side, Some(price)) {
                    return self.enter((seq, at), op, Some(price), true, reports);
                }
                let slot = self.rest(at, op, price, op.quantity);
                self.index.insert_at(vacancy, id, at, slot);
            }
            Kind::Immediate | Kind::Market => self.aggress(seq, at, op, reports),
            Kind::Cancel => match self.index.remove(id) {
                Some((at, slot)) => {
                    let (order, _) = self.books.of(at).remove(slot);
                    reports.order(Type::Cancelled, seq, order.owner.side(), op.id, narrow(order.price), 0);
                }
                None => reports.refused(Type::CancelRefused, seq, op.id),
            },
            Kind::Replace => self.replace(seq, op, reports),
        }
    }
}

impl Matcher for BareBook {
    #[inline]
    fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<&'a Operation>) {
        self.look_ahead(move |n| coming(n).map(|operation| (HERE, operation)));
    }

    #[inline(always)]
    fn apply(&mut self, seq: u32, op: &Operation, reports: &mut Reports) {
        self.apply_at(seq, HERE, op, reports);
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
