//! The rows of each table.

use std::collections::HashMap;
use std::path::Path;

use pitwire_deribit::codec::objects::trade_id;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{
    AccountId, Command, Decimal, Event, InstrumentId, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, Seq,
    SequencedCommand, Side, Ticks, VenueNanos,
};
use pitwire_tables::Cell;

use crate::columns;
use crate::event_table::EventTable;
use crate::event_type::event_type;
use crate::format::TableFormat;
use crate::instrument_state::{InstrumentState, Level, Quote};
use crate::table::{Table, TableSummary};

/// Entry data of a live order, for later rows about it.
struct OrderEntry {
    at: VenueNanos,
    client_order_id: Box<str>,
}

/// The tables, and what later rows need to know about live orders and instruments.
pub struct RunTables {
    orders: Table,
    trades: Table,
    book: Table,
    levels: Table,
    quotes: Table,
    auctions: Table,
    events: EventTable,
    instruments: Table,
    /// Rows of `orders` that were accepted.
    orders_placed: u64,
    entered: HashMap<OrderId, OrderEntry>,
    /// By instrument id, which is dense.
    states: Vec<Option<InstrumentState>>,
}

/// A resting order at the end of the range.
pub struct RestingOrder {
    instrument: InstrumentId,
    order: OrderId,
    account: Option<AccountId>,
    side: Side,
    price: Ticks,
    open: Lots,
}

/// Returns all resting orders: bids, then asks, best price first, in priority order.
pub fn resting_orders(engine: &Engine) -> Vec<RestingOrder> {
    let mut resting = Vec::new();
    for market in engine.markets() {
        for side in [Side::Buy, Side::Sell] {
            resting.extend(market.book().orders(side).map(|order| RestingOrder {
                instrument: market.spec.id,
                order: order.id,
                account: engine.order(order.id).map(|order| order.account),
                side,
                price: order.price,
                open: Lots(u64::from(order.open)),
            }));
        }
    }
    resting
}

const fn side_name(side: Side) -> &'static str {
    match side {
        Side::Buy => "Buy",
        Side::Sell => "Sell",
    }
}

/// Returns null for an empty text.
fn text(text: &str) -> Cell<'_> {
    if text.is_empty() { Cell::Null } else { Cell::Text(text) }
}

/// The instrument of a row, if it exists.
#[derive(Clone, Copy)]
struct RowInstrument<'a>(Option<&'a InstrumentSpec>);

impl<'a> RowInstrument<'a> {
    fn of(states: &'a [Option<InstrumentState>], id: InstrumentId) -> Self {
        RowInstrument(state_of(states, id).map(|state| &state.spec))
    }

    fn name(self) -> Cell<'a> {
        Cell::maybe(self.0, |spec| Cell::Text(&spec.name))
    }

    fn price(self, ticks: Ticks) -> Cell<'a> {
        Cell::maybe(self.0, |spec| Cell::Number(spec.price(ticks)))
    }

    fn amount(self, lots: Lots) -> Cell<'a> {
        Cell::maybe(self.0, |spec| Cell::Number(spec.amount(lots)))
    }

    /// Returns price, volume, price in ticks and volume in lots of the best level of a side.
    fn level(self, level: Option<Level>) -> [Cell<'a>; 4] {
        level.map_or([Cell::Null; 4], |(price, lots)| {
            [self.price(price), self.amount(lots), Cell::I64(price.0), Cell::U64(lots.0)]
        })
    }
}

fn state_of(states: &[Option<InstrumentState>], id: InstrumentId) -> Option<&InstrumentState> {
    states.get(id.0 as usize)?.as_ref()
}

impl RunTables {
    /// Creates the files of all tables.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file cannot be created.
    pub fn create(directory: &Path, format: TableFormat) -> Result<Self, Failure> {
        let table = |name, columns| Table::create(directory, format, name, columns);
        Ok(RunTables {
            orders: table("orders", columns::ORDERS)?,
            trades: table("trades", columns::TRADES)?,
            book: table("book", columns::BOOK)?,
            levels: table("levels", columns::LEVELS)?,
            quotes: table("quotes", columns::QUOTES)?,
            auctions: table("auctions", columns::AUCTIONS)?,
            events: EventTable::start(table("events", columns::EVENTS)?),
            instruments: table("instruments", columns::INSTRUMENTS)?,
            orders_placed: 0,
            entered: HashMap::new(),
            states: Vec::new(),
        })
    }

    /// Takes the instruments before the first command.
    pub fn start(&mut self, engine: &Engine) {
        for market in engine.markets() {
            self.insert_state(InstrumentState::of(market));
        }
    }

    fn insert_state(&mut self, state: InstrumentState) {
        let at = state.spec.id.0 as usize;
        if self.states.len() <= at {
            self.states.resize_with(at + 1, || None);
        }
        self.states[at] = Some(state);
    }

    fn state_mut(&mut self, id: InstrumentId) -> Option<&mut InstrumentState> {
        self.states.get_mut(id.0 as usize)?.as_mut()
    }

    /// Applies the events of a command to the instruments, whether or not the command is in range.
    pub fn follow(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::InstrumentAdded(spec) => self.insert_state(InstrumentState::new((**spec).clone())),
                Event::Level { instrument, side, price, lots } => {
                    if let Some(state) = self.state_mut(*instrument) {
                        state.set_level(*side, *price, *lots);
                    }
                }
                Event::BookChanged { instrument, change_id } => {
                    if let Some(state) = self.state_mut(*instrument) {
                        state.change_id = *change_id;
                    }
                }
                Event::PhaseChanged { instrument, phase } | Event::SessionChanged { instrument, to: phase, .. } => {
                    if let Some(state) = self.state_mut(*instrument) {
                        state.phase = *phase;
                        state.imbalance = None;
                    }
                }
                Event::Indicative { instrument, imbalance, .. } => {
                    if let Some(state) = self.state_mut(*instrument) {
                        state.imbalance = Some(*imbalance);
                    }
                }
                _ => {}
            }
        }
    }

    /// Stores the entry data of an accepted order, whether or not the command is in range.
    pub fn remember(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        let Command::Enter(order) = &stamped.command else { return };
        if matches!(events.first(), Some(Event::Accepted { .. })) {
            let client_order_id = order.client_order_id.as_str().into();
            self.entered.insert(order.id, OrderEntry { at: stamped.at, client_order_id });
        }
    }

    /// Drops the entry data of orders that are no longer live.
    pub fn forget(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Trade { maker, maker_open, taker, taker_open, .. } => {
                    for (order, open) in [(maker, maker_open), (taker, taker_open)] {
                        if open.is_zero() {
                            self.entered.remove(order);
                        }
                    }
                }
                Event::Cancelled { order, .. } => _ = self.entered.remove(order),
                _ => {}
            }
        }
    }

    /// Writes the rows of a command and applies its events to the instruments.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file cannot be written.
    pub fn write(&mut self, stamped: &SequencedCommand, events: &[Event]) -> Result<(), Failure> {
        let before = self.order_context(stamped);
        // The row of an uncross needs the state before its session ended.
        self.write_auctions(stamped, events)?;
        self.follow(events);
        if let (Command::Enter(order), Some((phase, quote))) = (&stamped.command, before) {
            self.write_order(stamped, order, events, phase, quote)?;
        }
        self.events.write(stamped, events)?;
        for event in events {
            match event {
                Event::Trade { .. } => self.write_trade(stamped, event)?,
                Event::Level { instrument, side, price, lots } => {
                    let change_id = events.iter().find_map(|later| match later {
                        Event::BookChanged { instrument: of, change_id } if of == instrument => Some(*change_id),
                        _ => None,
                    });
                    let row = LevelRow { instrument: *instrument, side: *side, price: *price, lots: *lots, change_id };
                    self.write_level(stamped.seq, stamped.at, &row)?;
                }
                _ => {}
            }
        }
        for event in events {
            if let Event::BookChanged { instrument, .. }
            | Event::PhaseChanged { instrument, .. }
            | Event::SessionChanged { instrument, .. } = event
            {
                self.write_quote(*instrument, stamped.seq, stamped.at)?;
            }
        }
        Ok(())
    }

    /// Returns session and quote before an order entry.
    fn order_context(&self, stamped: &SequencedCommand) -> Option<(Phase, Quote)> {
        let Command::Enter(order) = &stamped.command else { return None };
        let state = state_of(&self.states, order.instrument);
        Some(state.map_or((Phase::Closed, Quote::default()), |state| (state.phase, state.quote())))
    }

    fn write_order(
        &mut self,
        stamped: &SequencedCommand,
        order: &NewOrder,
        events: &[Event],
        phase: Phase,
        before: Quote,
    ) -> Result<(), Failure> {
        let subject = RowInstrument::of(&self.states, order.instrument);
        let after = state_of(&self.states, order.instrument).map(InstrumentState::quote).unwrap_or_default();
        // The accepted order may differ from the request: a post-only price may have moved.
        let (order_type, lots, outcome) = match events.first() {
            Some(Event::Accepted { order_type, lots, .. }) => (*order_type, *lots, "accepted"),
            Some(Event::Rejected { reason, .. }) => (order.order_type, order.lots, reason.name()),
            _ => (order.order_type, order.lots, "unknown"),
        };
        self.orders_placed += u64::from(outcome == "accepted");
        let type_name = match order_type {
            OrderType::Limit { .. } if order.display.is_some() => "iceberg",
            OrderType::Limit { .. } => "limit",
            OrderType::Market => "market",
            OrderType::Hidden { .. } => "hidden",
            OrderType::Stop { .. } => "stop",
            OrderType::StopLimit { .. } => "stop_limit",
        };
        let limit = order_type.limit_price();
        self.orders.write(&[
            Cell::U32(order.instrument.0),
            Cell::U64(order.id.0),
            text(order.client_order_id.as_str()),
            Cell::Time(stamped.at.0.cast_signed()),
            limit.map_or(Cell::Number(Decimal::ZERO), |price| subject.price(price)),
            subject.amount(lots),
            Cell::Text(side_name(order.side)),
            subject.name(),
            Cell::maybe(limit, |price| Cell::I64(price.0)),
            Cell::U64(lots.0),
            Cell::Text(type_name),
            Cell::Text(order.tif.name()),
            Cell::maybe(order.display, |shown| subject.amount(shown)),
            Cell::maybe(order.display, |shown| Cell::U64(shown.0)),
            Cell::U32(order.account.0),
            text(order.label.as_str()),
            Cell::Text(outcome),
            Cell::maybe(event_type(phase, order, events, before, after), Cell::Text),
            Cell::U64(stamped.at.0),
            Cell::U64(stamped.seq.0),
        ])
    }

    fn write_trade(&mut self, stamped: &SequencedCommand, event: &Event) -> Result<(), Failure> {
        let Event::Trade {
            instrument,
            trade_seq,
            price,
            lots,
            taker_side,
            maker,
            maker_account,
            taker,
            taker_account,
            ..
        } = event
        else {
            return Ok(());
        };
        let subject = RowInstrument::of(&self.states, *instrument);
        let client_order_id =
            |order| self.entered.get(order).map_or(Cell::Null, |entered: &OrderEntry| text(&entered.client_order_id));
        self.trades.write(&[
            Cell::U32(instrument.0),
            Cell::U64(maker.0),
            client_order_id(maker),
            subject.price(*price),
            subject.amount(*lots),
            Cell::Time(stamped.at.0.cast_signed()),
            subject.name(),
            Cell::I64(price.0),
            Cell::U64(lots.0),
            Cell::Text(&trade_id(*instrument, *trade_seq)),
            Cell::U64(trade_seq.0),
            Cell::Text(side_name(*taker_side)),
            Cell::U64(taker.0),
            client_order_id(taker),
            Cell::U32(maker_account.0),
            Cell::U32(taker_account.0),
            Cell::U64(stamped.at.0),
            Cell::U64(stamped.seq.0),
        ])
    }

    fn write_level(&mut self, seq: Seq, at: VenueNanos, row: &LevelRow) -> Result<(), Failure> {
        let subject = RowInstrument::of(&self.states, row.instrument);
        self.levels.write(&[
            Cell::U32(row.instrument.0),
            Cell::Time(at.0.cast_signed()),
            Cell::Text(side_name(row.side)),
            subject.price(row.price),
            subject.amount(row.lots),
            subject.name(),
            Cell::I64(row.price.0),
            Cell::U64(row.lots.0),
            Cell::maybe(row.change_id, Cell::U64),
            Cell::U64(at.0),
            Cell::U64(seq.0),
        ])
    }

    /// Writes the quote of an instrument if it differs from the newest row.
    fn write_quote(&mut self, instrument: InstrumentId, seq: Seq, at: VenueNanos) -> Result<(), Failure> {
        let Some(state) = self.states.get_mut(instrument.0 as usize).and_then(Option::as_mut) else { return Ok(()) };
        let quoted = (state.quote(), state.phase);
        if quoted == state.quoted {
            return Ok(());
        }
        state.quoted = quoted;
        self.write_quote_row(instrument, seq, at)
    }

    fn write_quote_row(&mut self, instrument: InstrumentId, seq: Seq, at: VenueNanos) -> Result<(), Failure> {
        let Some(state) = state_of(&self.states, instrument) else { return Ok(()) };
        let subject = RowInstrument(Some(&state.spec));
        let quote = state.quote();
        let [bid_price, bid_volume, bid_ticks, bid_lots] = subject.level(quote.bid);
        let [ask_price, ask_volume, ask_ticks, ask_lots] = subject.level(quote.ask);
        self.quotes.write(&[
            Cell::U32(instrument.0),
            Cell::Time(at.0.cast_signed()),
            subject.name(),
            bid_price,
            bid_volume,
            ask_price,
            ask_volume,
            bid_ticks,
            bid_lots,
            ask_ticks,
            ask_lots,
            Cell::Text(state.phase.name()),
            Cell::U64(at.0),
            Cell::U64(seq.0),
        ])
    }

    /// Writes a row for each uncross among the events of a command.
    fn write_auctions(&mut self, stamped: &SequencedCommand, events: &[Event]) -> Result<(), Failure> {
        for event in events {
            let Event::Uncrossed { instrument, call, price, volume } = event else { continue };
            let state = state_of(&self.states, *instrument);
            let subject = RowInstrument(state.map(|state| &state.spec));
            let is_trade = |event: &&Event| matches!(event, Event::Trade { instrument: of, .. } if of == instrument);
            let trades = events.iter().filter(is_trade).count() as u64;
            let imbalance = state.and_then(|state| state.imbalance);
            let auction = if *call == Phase::Continuous { "batch" } else { call.name() };
            self.auctions.write(&[
                Cell::U32(instrument.0),
                Cell::Time(stamped.at.0.cast_signed()),
                subject.name(),
                Cell::Text(auction),
                subject.price(*price),
                subject.amount(*volume),
                Cell::I64(price.0),
                Cell::U64(volume.0),
                Cell::U64(trades),
                Cell::maybe(subject.0.zip(imbalance), |(spec, lots)| Cell::Number(spec.lot.times(i128::from(lots)))),
                Cell::maybe(imbalance, Cell::I64),
                Cell::U64(stamped.at.0),
                Cell::U64(stamped.seq.0),
            ])?;
        }
        Ok(())
    }

    /// Writes levels and quotes before the first change, so that the changes give the whole book.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file cannot be written.
    pub fn write_opening_state(&mut self, seq: Seq, at: VenueNanos) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for state in self.states.iter_mut().flatten() {
            let (instrument, change_id) = (state.spec.id, Some(state.change_id));
            state.quoted = (state.quote(), state.phase);
            rows.extend(state.levels().map(|(side, price, lots)| LevelRow {
                instrument,
                side,
                price,
                lots,
                change_id,
            }));
        }
        for row in rows {
            self.write_level(seq, at, &row)?;
        }
        let instruments: Vec<InstrumentId> = self.states.iter().flatten().map(|state| state.spec.id).collect();
        for instrument in instruments {
            self.write_quote_row(instrument, seq, at)?;
        }
        Ok(())
    }

    /// Writes the resting orders at the end, in priority order.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file cannot be written.
    pub fn write_closing_book(&mut self, resting: &[RestingOrder]) -> Result<(), Failure> {
        for order in resting {
            let subject = RowInstrument::of(&self.states, order.instrument);
            let entered = self.entered.get(&order.order);
            self.book.write(&[
                Cell::U32(order.instrument.0),
                Cell::U64(order.order.0),
                entered.map_or(Cell::Null, |entered| text(&entered.client_order_id)),
                Cell::maybe(entered, |entered| Cell::Time(entered.at.0.cast_signed())),
                subject.price(order.price),
                subject.amount(order.open),
                Cell::Text(side_name(order.side)),
                subject.name(),
                Cell::I64(order.price.0),
                Cell::U64(order.open.0),
                Cell::maybe(order.account, |account| Cell::U32(account.0)),
                Cell::maybe(entered, |entered| Cell::U64(entered.at.0)),
            ])?;
        }
        Ok(())
    }

    /// Writes all instruments.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file cannot be written.
    pub fn write_instruments(&mut self, engine: &Engine) -> Result<(), Failure> {
        for market in engine.markets() {
            let spec = &market.spec;
            let currency = |id| Cell::maybe(engine.currency(id), |currency| Cell::Text(&currency.name));
            self.instruments.write(&[
                Cell::U32(spec.id.0),
                Cell::Text(&spec.name),
                Cell::Text(if spec.is_spot() { "spot" } else { "inverse_perpetual" }),
                currency(spec.base()),
                currency(spec.quote()),
                Cell::Number(spec.tick),
                Cell::Number(spec.lot),
            ])?;
        }
        Ok(())
    }

    /// Closes all tables. Returns them and the number of accepted orders.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file cannot be written.
    pub fn finish(self) -> Result<(Vec<TableSummary>, u64), Failure> {
        let RunTables { orders, trades, book, levels, quotes, auctions, events, instruments, .. } = self;
        let before = [orders, trades, book, levels, quotes, auctions].map(Table::close);
        let after = [events.close(), instruments.close()];
        let tables: Result<Vec<TableSummary>, Failure> = before.into_iter().chain(after).collect();
        Ok((tables?, self.orders_placed))
    }
}

struct LevelRow {
    instrument: InstrumentId,
    side: Side,
    price: Ticks,
    lots: Lots,
    change_id: Option<u64>,
}
