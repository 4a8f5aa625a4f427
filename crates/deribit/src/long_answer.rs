//! Answers that take more work than one turn of the venue thread may spend on one request.
//!
//! Does        begins such an answer within its request, and continues it in parts.
//! Holds       1. a list of orders or fills describes the moment of its request, whatever happens
//!                between the parts; a record that the venue forgets meanwhile is left out;
//!             2. a mass cancel covers the orders that were open at its request;
//!             3. a part costs about as many records as its caller says.
//! Leaves out  when the parts run, and the order of the messages of a connection.
//! Start at    [`LongAnswer::advance`].

mod fills;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use pitwire_engine::Engine;
use pitwire_journal::LogError;
use pitwire_model::{AccountId, CancelFilter, CancelReason, Command, Event, InstrumentId, Label, OrderId, SessionId};
use pitwire_projections::{AccountBook, OrderRecord, Views};

use crate::Venue;
use crate::account_objects::order_moment;
use crate::codec::objects::OrderMoment;
use crate::codec::{Json, RequestId, RpcError, begin_result, end_result, objects, write_error};
use crate::order_filter::{InstrumentFilter, OrderTypeFilter};

pub(crate) use fills::{FillFilter, FillList};

/// Records that a request may cost before its answer is continued in later turns.
pub(crate) const RECORDS_AT_ONCE: usize = 256;
/// Orders of a list that get their queue position. Each costs one step per order ahead of it.
const MOST_PLACED: usize = 200;
/// Visited records that cost as much as a written one.
const VISITS_PER_RECORD: usize = 16;
/// Most orders of one cancel command of a long answer.
const ORDERS_PER_COMMAND: usize = 64;

/// The work of a request that is not finished.
#[derive(Debug)]
pub(crate) enum LongWork {
    Orders(OrderList),
    Fills(FillList),
    Cancel(CancelList),
}

impl LongWork {
    /// Writes the part of a list that a request may write at once. Returns whether that is all.
    pub fn write_at_once(&mut self, venue: &dyn Venue, account: AccountId, out: &mut Vec<u8>) -> bool {
        let (engine, mut placed, mut budget) = (venue.engine(), MOST_PLACED, RECORDS_AT_ONCE);
        match self {
            LongWork::Orders(list) => list.write((venue, account), &mut budget, out, |order| {
                let moment = if placed > 0 { order_moment(engine, order) } else { OrderMoment::default() };
                placed = placed.saturating_sub(1);
                moment
            }),
            LongWork::Fills(list) => list.write((venue, account), &mut budget, out),
            LongWork::Cancel(_) => false,
        }
    }
}

/// Charges a record to the budget of a part. `visited` counts the records that were not written
/// since the last charge.
fn charge(budget: &mut usize, visited: &mut usize, is_written: bool) {
    *visited += 1;
    if is_written || *visited >= VISITS_PER_RECORD {
        *visited = 0;
        *budget -= 1;
    }
}

/// An answer that is continued.
#[derive(Debug)]
pub struct LongAnswer {
    account: AccountId,
    id: RequestId,
    received_us: u64,
    work: LongWork,
    /// The answer as far as it is written.
    text: Vec<u8>,
}

/// How far a long answer has got.
#[derive(Debug)]
pub enum AnswerProgress {
    Unfinished,
    /// The whole answer.
    Finished {
        text: Vec<u8>,
        /// Why the answer is an error.
        error: Option<RpcError>,
    },
}

impl LongAnswer {
    pub(crate) fn new(account: AccountId, id: RequestId, received_us: u64, work: LongWork, result: &[u8]) -> Self {
        let mut text = Vec::with_capacity(2 * result.len());
        begin_result(&mut text, &id);
        text.extend_from_slice(result);
        LongAnswer { account, id, received_us, work, text }
    }

    /// Returns the cancel of a session's open orders, because its connection has ended. Returns
    /// `None` if it has none.
    pub(crate) fn end_of_session(views: &Views, account: AccountId, session: SessionId) -> Option<Self> {
        let open = views.account(account)?.open_orders().filter(|order| order.session == session);
        let mut orders: Vec<(InstrumentId, OrderId)> = open.map(|order| (order.instrument, order.id)).collect();
        orders.sort_unstable();
        let orders: Vec<OrderId> = orders.into_iter().map(|(_, order)| order).collect();
        let list = CancelList { reason: CancelReason::Disconnected, ..CancelList::new(orders, false) };
        let is_empty = list.orders.is_empty();
        (!is_empty).then(|| Self::new(account, RequestId(None), 0, LongWork::Cancel(list), &[]))
    }

    /// The account that asked.
    pub fn account(&self) -> AccountId {
        self.account
    }

    /// Whether the work changes the market, so that it must be finished even if the client leaves.
    pub fn is_cancel(&self) -> bool {
        matches!(self.work, LongWork::Cancel(_))
    }

    /// Whether the work follows from something that has already happened, so that it can be neither
    /// refused nor delayed: a request has changed the market, or a connection has ended.
    pub fn is_outcome(&self) -> bool {
        match &self.work {
            LongWork::Orders(_) => false,
            LongWork::Fills(list) => list.is_outcome,
            LongWork::Cancel(list) => list.reason == CancelReason::Disconnected,
        }
    }

    /// Returns the error for an account that has too many of these answers.
    pub fn refusal(&self, now_us: fn() -> u64) -> (Vec<u8>, RpcError) {
        let error = RpcError::new("too_many_requests", "too many long answers of this account are waiting to be read");
        let mut text = Vec::new();
        write_error(&mut text, &self.id, &error, self.received_us, now_us());
        (text, error)
    }

    /// Returns how many orders a mass cancel has cancelled.
    pub fn cancelled(&self) -> usize {
        match &self.work {
            LongWork::Cancel(list) => count(&list.cancelled),
            LongWork::Orders(_) | LongWork::Fills(_) => 0,
        }
    }

    /// Continues for about `records` orders and fills. `now_us` reads the wall clock.
    ///
    /// # Errors
    ///
    /// Returns the error of the journal; the venue must then stop.
    pub fn advance(
        &mut self,
        venue: &mut dyn Venue,
        records: usize,
        now_us: fn() -> u64,
    ) -> Result<AnswerProgress, LogError> {
        let mut budget = records.max(1);
        let is_done = match &mut self.work {
            LongWork::Orders(list) => {
                list.write((&*venue, self.account), &mut budget, &mut self.text, |_| OrderMoment::default())
            }
            LongWork::Fills(list) => list.write((&*venue, self.account), &mut budget, &mut self.text),
            LongWork::Cancel(list) => match list.advance(venue, self.account, &mut budget, &mut self.text)? {
                Ok(is_done) => is_done,
                Err(error) => {
                    let mut text = Vec::new();
                    write_error(&mut text, &self.id, &error, self.received_us, now_us());
                    return Ok(AnswerProgress::Finished { text, error: Some(error) });
                }
            },
        };
        if !is_done {
            return Ok(AnswerProgress::Unfinished);
        }
        let mut text = std::mem::take(&mut self.text);
        end_result(&mut text, self.received_us, now_us());
        Ok(AnswerProgress::Finished { text, error: None })
    }
}

/// Which orders of an account a list has.
#[derive(Debug, Default)]
pub(crate) struct OrderListFilter {
    pub instruments: InstrumentFilter,
    /// `None` covers every type.
    pub types: Option<OrderTypeFilter>,
    pub label: Option<Label>,
    /// Leave out orders without a fill.
    pub has_fills: bool,
}

impl OrderListFilter {
    fn covers(&self, engine: &Engine, order: &OrderRecord) -> bool {
        !(self.has_fills && order.filled.is_zero())
            && self.types.is_none_or(|types| types.covers(order))
            && self.instruments.covers(engine, order.instrument)
            && self.label.as_ref().is_none_or(|label| order.label == *label)
    }
}

/// A list of orders, as they were at one moment: open ones, then closed ones from the newest.
#[derive(Debug)]
pub(crate) struct OrderList {
    open: VecDeque<Arc<OrderRecord>>,
    /// Numbers of the closed orders that are not visited. A closed order does not change.
    closed: Range<u64>,
    filter: OrderListFilter,
    /// Orders to leave out, and then the most to write.
    skipped: usize,
    left: usize,
    has_begun: bool,
    has_written: bool,
    /// Orders visited since the budget was last charged.
    visited: usize,
}

impl OrderList {
    fn new(open: VecDeque<Arc<OrderRecord>>, closed: Range<u64>, filter: OrderListFilter) -> Self {
        let (skipped, left) = (0, usize::MAX);
        OrderList { open, closed, filter, skipped, left, has_begun: false, has_written: false, visited: 0 }
    }

    pub fn of_open(book: Option<&AccountBook>, filter: OrderListFilter) -> Self {
        let open = book.into_iter().flat_map(AccountBook::shared_open_orders).collect();
        Self::new(open, 0..0, filter)
    }

    pub fn of_all(book: Option<&AccountBook>, filter: OrderListFilter) -> Self {
        let closed = book.map_or(0..0, AccountBook::closed_numbers);
        OrderList { closed, ..Self::of_open(book, filter) }
    }

    /// A list of at most `count` closed orders, behind `skipped` newer ones.
    pub fn of_closed(book: Option<&AccountBook>, filter: OrderListFilter, (skipped, count): (usize, usize)) -> Self {
        let closed = book.map_or(0..0, AccountBook::closed_numbers);
        OrderList { skipped, left: count, ..Self::new(VecDeque::new(), closed, filter) }
    }

    /// Writes the next orders with what `moment` knows of each. Returns whether the list is
    /// complete.
    fn write(
        &mut self,
        (venue, account): (&dyn Venue, AccountId),
        budget: &mut usize,
        out: &mut Vec<u8>,
        mut moment: impl FnMut(&OrderRecord) -> OrderMoment,
    ) -> bool {
        let (engine, book) = (venue.engine(), venue.views().account(account));
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(b'[');
        }
        while *budget > 0 {
            let open = self.open.pop_front();
            let closed = if open.is_none() { self.closed.next_back() } else { None };
            if self.left == 0 || (open.is_none() && closed.is_none()) {
                out.push(b']');
                return true;
            }
            let order = open.as_ref().or_else(|| book?.closed_order(closed?));
            let order = order.filter(|order| self.filter.covers(engine, order));
            let found = order.and_then(|order| Some((order, engine.market(order.instrument)?)));
            let is_skipped = found.is_some() && self.skipped > 0;
            self.skipped -= usize::from(is_skipped);
            let found = found.filter(|_| !is_skipped);
            if let Some((order, market)) = found {
                if std::mem::replace(&mut self.has_written, true) {
                    out.push(b',');
                }
                objects::order(&mut Json::new(out), &market.spec, order, moment(order));
                self.left -= 1;
            }
            charge(budget, &mut self.visited, found.is_some());
        }
        false
    }
}

/// Orders that were cancelled, by instrument.
pub(crate) type CancelledOrders = BTreeMap<InstrumentId, VecDeque<OrderId>>;

/// A mass cancel of many orders.
#[derive(Debug)]
pub(crate) struct CancelList {
    orders: VecDeque<OrderId>,
    reason: CancelReason,
    cancelled: CancelledOrders,
    /// The answer has the orders, and not only their number.
    is_detailed: bool,
    details: Details,
}

/// How far the list of cancelled orders is written.
#[derive(Debug, Default)]
struct Details {
    has_begun: bool,
    instrument: Option<InstrumentId>,
    /// The list of this instrument has an order.
    has_order: bool,
}

impl CancelList {
    pub fn new(orders: Vec<OrderId>, is_detailed: bool) -> Self {
        CancelList {
            orders: orders.into(),
            reason: CancelReason::Requested,
            cancelled: CancelledOrders::new(),
            is_detailed,
            details: Details::default(),
        }
    }

    /// Cancels the next orders or, after the last one, writes the answer. Returns whether it is
    /// complete, or why the venue takes no cancels any more.
    fn advance(
        &mut self,
        venue: &mut dyn Venue,
        account: AccountId,
        budget: &mut usize,
        out: &mut Vec<u8>,
    ) -> Result<Result<bool, RpcError>, LogError> {
        while *budget > 0 && !self.orders.is_empty() {
            let count = self.orders.len().min(ORDERS_PER_COMMAND).min(*budget);
            let which = CancelFilter::Listed(self.orders.drain(..count).collect());
            let command = Command::CancelAll { account, which, reason: self.reason };
            if let Some(name) = venue.refuses(&command).filter(|_| self.reason == CancelReason::Requested) {
                return Ok(Err(RpcError::named(name)));
            }
            venue.submit(command)?;
            collect_cancelled(venue.events(), &mut self.cancelled);
            *budget -= count;
        }
        if !self.orders.is_empty() {
            return Ok(Ok(false));
        }
        if !self.is_detailed {
            write_count(&mut Json::new(out), &self.cancelled);
            return Ok(Ok(true));
        }
        let book = venue.views().account(account);
        Ok(Ok(self.details.write(venue.engine(), book, &mut self.cancelled, budget, out)))
    }
}

impl Details {
    fn write(
        &mut self,
        engine: &Engine,
        book: Option<&AccountBook>,
        cancelled: &mut CancelledOrders,
        budget: &mut usize,
        out: &mut Vec<u8>,
    ) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(b'[');
        }
        while let Some(mut entry) = cancelled.first_entry() {
            let (id, orders) = (*entry.key(), entry.get_mut());
            let Some(market) = engine.market(id) else {
                entry.remove();
                continue;
            };
            if self.instrument != Some(id) {
                if self.instrument.replace(id).is_some() {
                    out.push(b',');
                }
                self.has_order = false;
                begin_details(market, engine, out);
            }
            while let Some(order) = orders.pop_front() {
                if *budget == 0 {
                    orders.push_front(order);
                    return false;
                }
                *budget -= 1;
                if let Some(record) = book.and_then(|book| book.order(order)) {
                    if std::mem::replace(&mut self.has_order, true) {
                        out.push(b',');
                    }
                    objects::order(&mut Json::new(out), &market.spec, record, OrderMoment::default());
                }
            }
            out.extend_from_slice(b"]}");
            entry.remove();
        }
        out.push(b']');
        true
    }
}

/// Writes the cancelled orders by instrument.
pub(crate) fn write_details(
    engine: &Engine,
    book: Option<&AccountBook>,
    mut cancelled: CancelledOrders,
    out: &mut Vec<u8>,
) {
    Details::default().write(engine, book, &mut cancelled, &mut { usize::MAX }, out);
}

/// Writes the object of one instrument up to the list of its orders, which follow.
fn begin_details(market: &pitwire_engine::Market, engine: &Engine, out: &mut Vec<u8>) {
    Json::new(out).object(|j| {
        j.key("type").string("limit");
        j.key("currency").string(objects::settlement_name(&market.spec, engine.currencies()));
        j.key("instrument_name").string(&market.spec.name);
        j.key("result").array(|_| {});
    });
    // The orders follow before the end of the list and of the object.
    out.truncate(out.len() - 2);
}

/// Writes the number of cancelled orders.
pub(crate) fn write_count(j: &mut Json<'_>, cancelled: &CancelledOrders) {
    j.uint(count(cancelled) as u64);
}

pub(crate) fn count(cancelled: &CancelledOrders) -> usize {
    cancelled.values().map(VecDeque::len).sum()
}

/// Adds the orders that the last command cancelled.
pub(crate) fn collect_cancelled(events: &[Event], cancelled: &mut CancelledOrders) {
    for event in events {
        if let Event::Cancelled { order, instrument, .. } = event {
            cancelled.entry(*instrument).or_default().push_back(*order);
        }
    }
}
