//! The rows of each table. `docs/export.md` describes columns, units and types; change both
//! together.

use std::collections::HashMap;
use std::path::Path;

use pitwire_deribit::codec::objects::trade_id;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{
    AccountId, Command, Decimal, Event, InstrumentId, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Seq, Side,
    Stamped, Ticks, VenueNanos,
};
use pitwire_tables::ColumnType;

use crate::event_json::describe;
use crate::format::TableFormat;
use crate::table::{Cell, Column, DECIMAL, Table, TableSummary};

/// The first seven columns are those of CoinTossX.
const ORDERS: &[Column] = &[
    ("SecurityId", ColumnType::U32),
    ("OrderId", ColumnType::U64),
    ("ClientOrderId", ColumnType::Text),
    ("DateTime", ColumnType::Time),
    ("Price", DECIMAL),
    ("Volume", DECIMAL),
    ("Side", ColumnType::Text),
    ("Instrument", ColumnType::Text),
    ("Type", ColumnType::Text),
    ("TimeInForce", ColumnType::Text),
    ("Display", DECIMAL),
    ("AccountId", ColumnType::U32),
    ("Label", ColumnType::Text),
    ("Outcome", ColumnType::Text),
    ("TimeNs", ColumnType::U64),
    ("Seq", ColumnType::U64),
];

/// The first six columns are those of CoinTossX. Its order ids are those of the resting order.
const TRADES: &[Column] = &[
    ("SecurityId", ColumnType::U32),
    ("OrderId", ColumnType::U64),
    ("ClientOrderId", ColumnType::Text),
    ("Price", DECIMAL),
    ("Volume", DECIMAL),
    ("DateTime", ColumnType::Time),
    ("Instrument", ColumnType::Text),
    ("TradeId", ColumnType::Text),
    ("TradeSeq", ColumnType::U64),
    ("AggressorSide", ColumnType::Text),
    ("AggressorOrderId", ColumnType::U64),
    ("AggressorClientOrderId", ColumnType::Text),
    ("AccountId", ColumnType::U32),
    ("AggressorAccountId", ColumnType::U32),
    ("TimeNs", ColumnType::U64),
    ("Seq", ColumnType::U64),
];

/// The first seven columns are those of CoinTossX.
const BOOK: &[Column] = &[
    ("SecurityId", ColumnType::U32),
    ("OrderId", ColumnType::U64),
    ("ClientOrderId", ColumnType::Text),
    ("DateTime", ColumnType::Time),
    ("Price", DECIMAL),
    ("Volume", DECIMAL),
    ("Side", ColumnType::Text),
    ("Instrument", ColumnType::Text),
    ("AccountId", ColumnType::U32),
    ("TimeNs", ColumnType::U64),
];

const LEVELS: &[Column] = &[
    ("SecurityId", ColumnType::U32),
    ("DateTime", ColumnType::Time),
    ("Side", ColumnType::Text),
    ("Price", DECIMAL),
    ("Volume", DECIMAL),
    ("Instrument", ColumnType::Text),
    ("ChangeId", ColumnType::U64),
    ("TimeNs", ColumnType::U64),
    ("Seq", ColumnType::U64),
];

const EVENTS: &[Column] = &[
    ("Seq", ColumnType::U64),
    ("Index", ColumnType::U32),
    ("TimeNs", ColumnType::U64),
    ("DateTime", ColumnType::Time),
    ("Type", ColumnType::Text),
    ("Public", ColumnType::Bool),
    ("SecurityId", ColumnType::U32),
    ("OrderId", ColumnType::U64),
    ("AccountId", ColumnType::U32),
    ("Fields", ColumnType::Text),
];

const INSTRUMENTS: &[Column] = &[
    ("SecurityId", ColumnType::U32),
    ("Name", ColumnType::Text),
    ("Kind", ColumnType::Text),
    ("Base", ColumnType::Text),
    ("Quote", ColumnType::Text),
    ("Tick", DECIMAL),
    ("Lot", DECIMAL),
];

/// Entry data of a live order, for later rows about it.
struct OrderEntry {
    at: VenueNanos,
    client_order_id: Box<str>,
}

/// The six tables, and what later rows need to know about live orders.
pub struct RunTables {
    orders: Table,
    trades: Table,
    book: Table,
    levels: Table,
    events: Table,
    instruments: Table,
    entered: HashMap<OrderId, OrderEntry>,
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
    fn of(engine: &'a Engine, id: InstrumentId) -> Self {
        RowInstrument(engine.market(id).map(|market| &market.spec))
    }

    fn name(self) -> Cell<'a> {
        Cell::maybe(self.0, |spec| Cell::Text(&spec.name))
    }

    fn price(self, ticks: Ticks) -> Cell<'a> {
        Cell::maybe(self.0, |spec| Cell::Decimal(spec.price(ticks)))
    }

    fn amount(self, lots: Lots) -> Cell<'a> {
        Cell::maybe(self.0, |spec| Cell::Decimal(spec.amount(lots)))
    }
}

impl RunTables {
    pub fn create(directory: &Path, format: TableFormat) -> Result<Self, Failure> {
        let table = |name, columns| Table::create(directory, format, name, columns);
        Ok(RunTables {
            orders: table("orders", ORDERS)?,
            trades: table("trades", TRADES)?,
            book: table("book", BOOK)?,
            levels: table("levels", LEVELS)?,
            events: table("events", EVENTS)?,
            instruments: table("instruments", INSTRUMENTS)?,
            entered: HashMap::new(),
        })
    }

    /// Stores the entry data of an accepted order, whether or not the command is in range.
    pub fn remember(&mut self, stamped: &Stamped, events: &[Event]) {
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

    /// Writes the rows of a command.
    pub fn write(&mut self, engine: &Engine, stamped: &Stamped, events: &[Event]) -> Result<(), Failure> {
        if let Command::Enter(order) = &stamped.command {
            self.write_order(engine, stamped, order, events)?;
        }
        for (index, event) in (0..).zip(events) {
            self.write_event(stamped, index, event)?;
            match event {
                Event::Trade { .. } => self.write_trade(engine, stamped, event)?,
                Event::Level { instrument, side, price, lots } => {
                    let change_id = events.iter().find_map(|later| match later {
                        Event::BookChanged { instrument: of, change_id } if of == instrument => Some(*change_id),
                        _ => None,
                    });
                    let subject = RowInstrument::of(engine, *instrument);
                    let row = LevelRow { instrument: *instrument, side: *side, price: *price, lots: *lots, change_id };
                    self.write_level(subject, stamped.seq, stamped.at, &row)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn write_order(
        &mut self,
        engine: &Engine,
        stamped: &Stamped,
        order: &NewOrder,
        events: &[Event],
    ) -> Result<(), Failure> {
        let subject = RowInstrument::of(engine, order.instrument);
        // The accepted order may differ from the request: a post-only price may have moved.
        let (order_type, lots, outcome) = match events.first() {
            Some(Event::Accepted { order_type, lots, .. }) => (*order_type, *lots, "accepted"),
            Some(Event::Rejected { reason, .. }) => (order.order_type, order.lots, reason.name()),
            _ => (order.order_type, order.lots, "unknown"),
        };
        let (type_name, price) = match order_type {
            OrderType::Limit { price } if order.display.is_some() => ("iceberg", subject.price(price)),
            OrderType::Limit { price } => ("limit", subject.price(price)),
            OrderType::Market => ("market", Cell::Decimal(Decimal::ZERO)),
            OrderType::Hidden { price, .. } => ("hidden", subject.price(price)),
            OrderType::Stop { .. } => ("stop", Cell::Decimal(Decimal::ZERO)),
            OrderType::StopLimit { price, .. } => ("stop_limit", subject.price(price)),
        };
        self.orders.write(&[
            Cell::U32(order.instrument.0),
            Cell::U64(order.id.0),
            text(order.client_order_id.as_str()),
            Cell::Time(stamped.at),
            price,
            subject.amount(lots),
            Cell::Text(side_name(order.side)),
            subject.name(),
            Cell::Text(type_name),
            Cell::Text(order.tif.name()),
            Cell::maybe(order.display, |shown| subject.amount(shown)),
            Cell::U32(order.account.0),
            text(order.label.as_str()),
            Cell::Text(outcome),
            Cell::U64(stamped.at.0),
            Cell::U64(stamped.seq.0),
        ])
    }

    fn write_trade(&mut self, engine: &Engine, stamped: &Stamped, event: &Event) -> Result<(), Failure> {
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
        let subject = RowInstrument::of(engine, *instrument);
        let client_order_id =
            |order| self.entered.get(order).map_or(Cell::Null, |entered: &OrderEntry| text(&entered.client_order_id));
        self.trades.write(&[
            Cell::U32(instrument.0),
            Cell::U64(maker.0),
            client_order_id(maker),
            subject.price(*price),
            subject.amount(*lots),
            Cell::Time(stamped.at),
            subject.name(),
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

    fn write_event(&mut self, stamped: &Stamped, index: u32, event: &Event) -> Result<(), Failure> {
        let description = describe(event)
            .ok_or_else(|| Failure::new(format!("event {index} of command {} cannot be described", stamped.seq)))?;
        self.events.write(&[
            Cell::U64(stamped.seq.0),
            Cell::U32(index),
            Cell::U64(stamped.at.0),
            Cell::Time(stamped.at),
            Cell::Text(&description.name),
            Cell::Bool(event.is_public()),
            Cell::maybe(description.instrument, Cell::U32),
            Cell::maybe(description.order, Cell::U64),
            Cell::maybe(description.account, Cell::U32),
            Cell::Text(&description.fields),
        ])
    }

    fn write_level(
        &mut self,
        subject: RowInstrument<'_>,
        seq: Seq,
        at: VenueNanos,
        row: &LevelRow,
    ) -> Result<(), Failure> {
        self.levels.write(&[
            Cell::U32(row.instrument.0),
            Cell::Time(at),
            Cell::Text(side_name(row.side)),
            subject.price(row.price),
            subject.amount(row.lots),
            subject.name(),
            Cell::maybe(row.change_id, Cell::U64),
            Cell::U64(at.0),
            Cell::U64(seq.0),
        ])
    }

    /// Writes the levels before the first change, so that the changes give the whole book.
    pub fn write_opening_levels(&mut self, engine: &Engine, seq: Seq, at: VenueNanos) -> Result<(), Failure> {
        for market in engine.markets() {
            let instrument = market.spec.id;
            for side in [Side::Buy, Side::Sell] {
                for (price, lots) in market.book().levels(side) {
                    let row = LevelRow { instrument, side, price, lots, change_id: Some(market.change_id()) };
                    self.write_level(RowInstrument(Some(&market.spec)), seq, at, &row)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the resting orders at the end, in priority order.
    pub fn write_closing_books(&mut self, engine: &Engine) -> Result<(), Failure> {
        for market in engine.markets() {
            let spec = &market.spec;
            for side in [Side::Buy, Side::Sell] {
                for order in market.book().orders(side) {
                    let entered = self.entered.get(&order.id);
                    self.book.write(&[
                        Cell::U32(spec.id.0),
                        Cell::U64(order.id.0),
                        entered.map_or(Cell::Null, |entered| text(&entered.client_order_id)),
                        Cell::maybe(entered, |entered| Cell::Time(entered.at)),
                        Cell::Decimal(spec.price(order.price)),
                        Cell::Decimal(spec.amount(Lots(u64::from(order.open)))),
                        Cell::Text(side_name(side)),
                        Cell::Text(&spec.name),
                        Cell::maybe(account_of(engine, order.id), |account| Cell::U32(account.0)),
                        Cell::maybe(entered, |entered| Cell::U64(entered.at.0)),
                    ])?;
                }
            }
        }
        Ok(())
    }

    /// Writes all instruments.
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
                Cell::Decimal(spec.tick),
                Cell::Decimal(spec.lot),
            ])?;
        }
        Ok(())
    }

    /// Closes all tables.
    pub fn finish(self) -> Result<Vec<TableSummary>, Failure> {
        let tables = [self.orders, self.trades, self.book, self.levels, self.events, self.instruments];
        tables.into_iter().map(Table::close).collect()
    }
}

struct LevelRow {
    instrument: InstrumentId,
    side: Side,
    price: Ticks,
    lots: Lots,
    change_id: Option<u64>,
}

fn account_of(engine: &Engine, order: OrderId) -> Option<AccountId> {
    engine.order(order).map(|order| order.account)
}
