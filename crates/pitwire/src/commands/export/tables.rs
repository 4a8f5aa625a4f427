//! What stands in which table. Columns, units and types are told in docs/export.md; change both.

use std::collections::HashMap;
use std::path::Path;

use pitwire_deribit::codec::objects::trade_id;
use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, Command, Decimal, Event, InstrumentId, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Seq, Side,
    Stamped, Ticks, VenueNanos,
};

use super::Format;
use super::sink::{Cell, Column, Kind, Table};
use super::spelling::{spell, word};
use pitwire_failure::Failure;

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

/// The first seven are CoinTossX's.
const ORDERS: &[Column] = &[
    column("SecurityId", Kind::U32),
    column("OrderId", Kind::U64),
    column("ClientOrderId", Kind::Text),
    column("DateTime", Kind::Time),
    column("Price", Kind::Decimal),
    column("Volume", Kind::Decimal),
    column("Side", Kind::Text),
    column("Instrument", Kind::Text),
    column("Type", Kind::Text),
    column("TimeInForce", Kind::Text),
    column("Display", Kind::Decimal),
    column("AccountId", Kind::U32),
    column("Label", Kind::Text),
    column("Outcome", Kind::Text),
    column("TimeNs", Kind::U64),
    column("Seq", Kind::U64),
];

/// The first six are CoinTossX's: order and client order id are the resting order's.
const TRADES: &[Column] = &[
    column("SecurityId", Kind::U32),
    column("OrderId", Kind::U64),
    column("ClientOrderId", Kind::Text),
    column("Price", Kind::Decimal),
    column("Volume", Kind::Decimal),
    column("DateTime", Kind::Time),
    column("Instrument", Kind::Text),
    column("TradeId", Kind::Text),
    column("TradeSeq", Kind::U64),
    column("AggressorSide", Kind::Text),
    column("AggressorOrderId", Kind::U64),
    column("AggressorClientOrderId", Kind::Text),
    column("AccountId", Kind::U32),
    column("AggressorAccountId", Kind::U32),
    column("TimeNs", Kind::U64),
    column("Seq", Kind::U64),
];

/// The first seven are CoinTossX's.
const BOOK: &[Column] = &[
    column("SecurityId", Kind::U32),
    column("OrderId", Kind::U64),
    column("ClientOrderId", Kind::Text),
    column("DateTime", Kind::Time),
    column("Price", Kind::Decimal),
    column("Volume", Kind::Decimal),
    column("Side", Kind::Text),
    column("Instrument", Kind::Text),
    column("AccountId", Kind::U32),
    column("TimeNs", Kind::U64),
];

const LEVELS: &[Column] = &[
    column("SecurityId", Kind::U32),
    column("DateTime", Kind::Time),
    column("Side", Kind::Text),
    column("Price", Kind::Decimal),
    column("Volume", Kind::Decimal),
    column("Instrument", Kind::Text),
    column("ChangeId", Kind::U64),
    column("TimeNs", Kind::U64),
    column("Seq", Kind::U64),
];

const EVENTS: &[Column] = &[
    column("Seq", Kind::U64),
    column("Index", Kind::U32),
    column("TimeNs", Kind::U64),
    column("DateTime", Kind::Time),
    column("Type", Kind::Text),
    column("Public", Kind::Bool),
    column("SecurityId", Kind::U32),
    column("OrderId", Kind::U64),
    column("AccountId", Kind::U32),
    column("Fields", Kind::Text),
];

const INSTRUMENTS: &[Column] = &[
    column("SecurityId", Kind::U32),
    column("Name", Kind::Text),
    column("Kind", Kind::Text),
    column("Base", Kind::Text),
    column("Quote", Kind::Text),
    column("Tick", Kind::Decimal),
    column("Lot", Kind::Decimal),
];

/// What a live order's entry said, for the rows in which the order meets others later.
struct Entered {
    at: VenueNanos,
    client_order_id: Box<str>,
}

pub struct Tables {
    orders: Table,
    trades: Table,
    book: Table,
    levels: Table,
    events: Table,
    instruments: Table,
    entered: HashMap<OrderId, Entered>,
}

const fn side_name(side: Side) -> &'static str {
    match side {
        Side::Buy => "Buy",
        Side::Sell => "Sell",
    }
}

/// Nothing where nothing was said.
fn text(text: &str) -> Cell<'_> {
    if text.is_empty() { Cell::Null } else { Cell::Text(text) }
}

/// Whom a row is about, when the instrument exists.
#[derive(Clone, Copy)]
struct Subject<'a>(Option<&'a InstrumentSpec>);

impl<'a> Subject<'a> {
    fn of(engine: &'a Engine, id: InstrumentId) -> Self {
        Subject(engine.market(id).map(|market| &market.spec))
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

impl Tables {
    pub fn create(directory: &Path, format: Format) -> Result<Self, Failure> {
        let table = |name, columns| Table::create(directory, format, name, columns);
        Ok(Tables {
            orders: table("orders", ORDERS)?,
            trades: table("trades", TRADES)?,
            book: table("book", BOOK)?,
            levels: table("levels", LEVELS)?,
            events: table("events", EVENTS)?,
            instruments: table("instruments", INSTRUMENTS)?,
            entered: HashMap::new(),
        })
    }

    /// What later rows will want to know, in range or not.
    pub fn remember(&mut self, stamped: &Stamped, events: &[Event]) {
        let Command::Enter(order) = &stamped.command else { return };
        if matches!(events.first(), Some(Event::Accepted { .. })) {
            let client_order_id = order.client_order_id.as_str().into();
            self.entered.insert(order.id, Entered { at: stamped.at, client_order_id });
        }
    }

    /// Orders that are gone.
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
                    let subject = Subject::of(engine, *instrument);
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
        let subject = Subject::of(engine, order.instrument);
        // What was accepted may differ from what was sent: a post-only price moves out of the way.
        let (order_type, lots, outcome) = match events.first() {
            Some(Event::Accepted { order_type, lots, .. }) => (*order_type, *lots, "accepted"),
            Some(Event::Rejected { reason, .. }) => (order.order_type, order.lots, reason.name()),
            _ => (order.order_type, order.lots, "unknown"),
        };
        let (type_name, price) = match order_type {
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
            Cell::Text(&word(&order.tif)),
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
        let subject = Subject::of(engine, *instrument);
        let client_order_id =
            |order| self.entered.get(order).map_or(Cell::Null, |entered: &Entered| text(&entered.client_order_id));
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
        let spelled = spell(event)
            .ok_or_else(|| Failure::new(format!("event {index} of command {} cannot be spelled", stamped.seq)))?;
        self.events.write(&[
            Cell::U64(stamped.seq.0),
            Cell::U32(index),
            Cell::U64(stamped.at.0),
            Cell::Time(stamped.at),
            Cell::Text(&spelled.name),
            Cell::Bool(event.is_public()),
            Cell::maybe(spelled.instrument, Cell::U32),
            Cell::maybe(spelled.order, Cell::U64),
            Cell::maybe(spelled.account, Cell::U32),
            Cell::Text(&spelled.fields),
        ])
    }

    fn write_level(&mut self, subject: Subject<'_>, seq: Seq, at: VenueNanos, row: &LevelRow) -> Result<(), Failure> {
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

    /// What stands before the first change, so that the changes give the whole book.
    pub fn open_levels(&mut self, engine: &Engine, seq: Seq, at: VenueNanos) -> Result<(), Failure> {
        for market in engine.markets() {
            let instrument = market.spec.id;
            for side in [Side::Buy, Side::Sell] {
                for (price, lots) in market.book().levels(side) {
                    let row = LevelRow { instrument, side, price, lots, change_id: Some(market.change_id()) };
                    self.write_level(Subject(Some(&market.spec)), seq, at, &row)?;
                }
            }
        }
        Ok(())
    }

    /// What rests at the end, in priority order.
    pub fn close_books(&mut self, engine: &Engine) -> Result<(), Failure> {
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

    pub fn finish(mut self) -> Result<Vec<Table>, Failure> {
        let mut tables = vec![self.orders, self.trades, self.book, self.levels, self.events, self.instruments];
        self.entered.clear();
        tables.iter_mut().try_for_each(Table::close)?;
        Ok(tables)
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
