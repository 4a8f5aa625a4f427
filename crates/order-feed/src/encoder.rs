//! Encodes the events of a command as messages.
//!
//! Does        send an execution for each trade of a displayed order, and a trade message for each
//!             other trade; at the end of the command compare the orders that it touched with
//!             the messages sent so far, and send the difference.
//! Holds       1. an order that enters and ends in the same command causes no message but its
//!                trades;
//!             2. a queue of the rebuilt book has the order of the engine's: an order that joins it
//!                before others is added, and then the others are moved behind it.
//! Costs       the events, and a lookup for each order that they name. An order that joins a queue
//!             in the middle costs the orders behind it.
//! Start at    [`OrderFeedEncoder::observe`].

use hashbrown::HashMap;
use pitwire_engine::{Engine, Market, OrderView, UndisplayedState};
use pitwire_model::{
    Bust, Event, InstrumentId, InstrumentSpec, Lots, OffBookTrade, OrderId, Phase, SessionReason, Side, Ticks,
    TradeKind, TradeSeq, VenueNanos,
};

use crate::fields::{Alpha, Letter, MitchPrice};
use crate::itch::ItchPrice;
use crate::messages::{
    AuctionInfo, AuctionTrade, BookClear, HiddenTrade, MitchEncode, MitchSink, OffBookReport, OrderAdd, OrderDelete,
    OrderExecution, OrderModify, PriceStatistic, PricedExecution, RecoveryTrade, SymbolDirectory, SymbolStatus,
    SystemEvent, TimeMark,
};
use crate::trading_status::{
    auction_type, date_text, derivation, end_time, second_of_day, session_change_reason, side_letter, time_text,
    trading_status,
};

/// Sub-book and book type of the order book.
const ORDER_BOOK: u8 = 1;
/// Sub-book and book type of reported trades.
const OFF_BOOK: u8 = 2;
/// Type of a reported trade: "generic reported trade".
const REPORTED_TRADE: &str = "4001";
/// Sub-type of a trade in the book: "regular".
const REGULAR_TRADE: &str = "0001";

/// A displayed order as readers of the feed know it.
#[derive(Clone, Copy, Debug)]
struct DisplayedOrder {
    price: Ticks,
    shown: u32,
    /// Time priority. `None` for an iceberg that was refreshed in the current command: it is the
    /// last of its queue.
    time: Option<u64>,
}

/// Units of an instrument, and the newest time priority in its book.
#[derive(Clone, Copy, Debug, Default)]
struct InstrumentScale {
    /// Price of one tick in units of 1e-8.
    tick: i64,
    /// Highest time priority that a displayed order has had.
    newest: u64,
}

impl InstrumentScale {
    fn price(self, ticks: Ticks) -> MitchPrice {
        MitchPrice(self.tick.saturating_mul(ticks.0))
    }
}

/// The format in which readers get the feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedEncoding {
    /// MITCH 4.07: prices with eight decimals.
    #[default]
    Mitch,
    /// ITCH 5.0: prices with four decimals, and ids of instruments with 16 bits.
    Itch,
}

impl FeedEncoding {
    /// Whether the tick, the start price and the id of an instrument fit the format. Otherwise the
    /// feed leaves the instrument out.
    pub fn includes(self, spec: &InstrumentSpec) -> bool {
        let Some(MitchPrice(tick)) = MitchPrice::of(spec.tick) else { return false };
        match self {
            FeedEncoding::Mitch => true,
            FeedEncoding::Itch => {
                let prices = [tick, tick.saturating_mul(spec.start_price.0)].map(MitchPrice);
                prices.into_iter().all(|price| ItchPrice::of(price).is_some()) && spec.id.0 <= u16::MAX.into()
            }
        }
    }
}

/// Turns events into messages, and remembers what readers know.
#[derive(Debug, Default)]
pub struct OrderFeedEncoder {
    encoding: FeedEncoding,
    displayed: HashMap<OrderId, DisplayedOrder>,
    /// By instrument id. `None`: the feed leaves the instrument out.
    instruments: Vec<Option<InstrumentScale>>,
    /// Second of the last time mark.
    second: Option<u32>,
    /// Orders that the current command has named.
    touched: Vec<OrderId>,
    /// Icebergs that were refreshed in the current command, in the order of their queues.
    refreshed: Vec<OrderId>,
    /// Elected stops that have not been executed. Each command checks them again.
    elected: Vec<OrderId>,
    /// Displayed orders among `touched`; kept for its memory.
    shown: Vec<OrderView>,
    /// Whether the engine was replaced, so that the places of orders are new.
    is_replaced: bool,
}

/// The messages of one command.
struct CommandOutput<'a, S> {
    sink: &'a mut S,
    at: VenueNanos,
    nanosecond: u32,
    second: &'a mut Option<u32>,
}

impl<S: MitchSink> CommandOutput<'_, S> {
    #[inline]
    fn send<M: MitchEncode>(&mut self, message: &M) {
        let (seconds, _) = second_of_day(self.at);
        if *self.second != Some(seconds) {
            *self.second = Some(seconds);
            self.sink.send(&TimeMark { seconds });
        }
        self.sink.send(message);
    }
}

/// A trade as far as the public sees it, and its parties.
struct TradeEvent {
    instrument: InstrumentId,
    number: TradeSeq,
    price: Ticks,
    lots: u32,
    kind: TradeKind,
    /// Maker and taker, with their open lots after the trade.
    parties: [(OrderId, Lots); 2],
}

impl OrderFeedEncoder {
    /// Starts a feed: sends the definition, the status and the displayed orders of all instruments.
    pub fn start(engine: &Engine, at: VenueNanos, sink: &mut impl MitchSink) -> OrderFeedEncoder {
        Self::start_for(FeedEncoding::Mitch, engine, at, sink)
    }

    /// Starts a feed that leaves out what does not fit `encoding`. The messages are MITCH.
    pub fn start_for(
        encoding: FeedEncoding,
        engine: &Engine,
        at: VenueNanos,
        sink: &mut impl MitchSink,
    ) -> OrderFeedEncoder {
        let mut encoder = OrderFeedEncoder { encoding, ..OrderFeedEncoder::default() };
        encoder.restart(engine, at, sink);
        encoder
    }

    /// Sends the state of all instruments again, after their books have been cleared. Readers that
    /// have missed messages then have the correct books.
    pub fn restart(&mut self, engine: &Engine, at: VenueNanos, sink: &mut impl MitchSink) {
        self.displayed.clear();
        self.instruments.clear();
        self.elected.clear();
        let (_, nanosecond) = second_of_day(at);
        let mut second = None;
        let mut out = CommandOutput { sink, at, nanosecond, second: &mut second };
        for market in engine.markets() {
            self.define(&market.spec, Some(market), &mut out);
            if !self.encoding.includes(&market.spec) {
                continue;
            }
            self.send_status(market.spec.id, market.phase(), None, &mut out);
            let instrument_id = market.spec.id.0;
            out.send(&BookClear { nanosecond, instrument_id, sub_book: ORDER_BOOK, book_type: ORDER_BOOK });
            self.elected.extend(market.elected_stops());
            let orders = market.book().unordered().filter_map(|(_, order)| engine.order(order.id));
            let mut orders: Vec<OrderView> = orders.collect();
            orders.sort_unstable_by_key(|view| view.time);
            for order in orders {
                self.show(&order, false, engine, &mut out);
            }
        }
        self.second = second;
    }

    /// Takes the events of one command. `engine` is the state after the command.
    pub fn observe(&mut self, at: VenueNanos, events: &[Event], engine: &Engine, sink: &mut impl MitchSink) {
        let (_, nanosecond) = second_of_day(at);
        let mut second = self.second;
        let mut out = CommandOutput { sink, at, nanosecond, second: &mut second };
        self.touched.append(&mut self.elected);
        for event in events {
            self.take(event, engine, &mut out);
        }
        self.send_differences(engine, &mut out);
        self.second = second;
        if std::mem::take(&mut self.is_replaced) {
            self.restart(engine, at, sink);
        }
    }

    fn take<S: MitchSink>(&mut self, event: &Event, engine: &Engine, out: &mut CommandOutput<'_, S>) {
        match event {
            Event::Accepted { order, .. }
            | Event::Amended { order, .. }
            | Event::Injected { order, .. }
            | Event::Triggered { order, .. } => self.touched.push(*order),
            Event::Cancelled { order, .. } | Event::Parked { order, .. } => self.delete(*order, out),
            Event::Refreshed { order, instrument, side, price, shown, .. } => {
                self.refresh(*order, (*instrument, *side), *price, *shown, engine, out);
            }
            Event::Trade { instrument, trade_seq, price, lots, kind, maker, maker_open, taker, taker_open, .. } => {
                let trade = TradeEvent {
                    instrument: *instrument,
                    number: *trade_seq,
                    price: *price,
                    lots: quantity(*lots),
                    kind: *kind,
                    parties: [(*maker, *maker_open), (*taker, *taker_open)],
                };
                self.trade(&trade, engine, out);
            }
            // Frequent events that the feed does not send.
            Event::Level { .. } | Event::BookChanged { .. } | Event::WindowClosed => {}
            _ => self.take_rare(event, engine, out),
        }
    }

    #[cold]
    fn take_rare<S: MitchSink>(&mut self, event: &Event, engine: &Engine, out: &mut CommandOutput<'_, S>) {
        let nanosecond = out.nanosecond;
        match event {
            Event::InstrumentAdded(spec) => {
                self.define(spec, None, out);
                self.send_status(spec.id, Phase::Closed, None, out);
            }
            Event::PhaseChanged { instrument, phase } => {
                if *phase == Phase::Deleted
                    && let Some(market) = engine.market(*instrument)
                {
                    self.define(&market.spec, Some(market), out);
                }
                self.send_status(*instrument, *phase, None, out);
            }
            Event::SessionChanged { instrument, to, reason, ends, .. } => {
                self.send_status(*instrument, *to, Some((*reason, *ends)), out);
            }
            Event::ReportingChanged { instrument, .. } if self.scale(*instrument).is_none() => {}
            Event::ReportingChanged { instrument, open, reason, ends } => out.send(&SymbolStatus {
                nanosecond,
                instrument_id: instrument.0,
                trading_status: Letter(if *open { b'T' } else { b'v' }),
                session_change_reason: session_change_reason(*reason),
                new_end_time: ends.map(end_time).unwrap_or_default(),
                book_type: OFF_BOOK,
                ..SymbolStatus::default()
            }),
            Event::Indicative { instrument, price, volume, imbalance } => {
                let Some(scale) = self.scale(*instrument) else { return };
                out.send(&AuctionInfo {
                    nanosecond,
                    paired_quantity: quantity(*volume),
                    imbalance_direction: Letter(match (price, *imbalance) {
                        (None, _) => b'O',
                        (Some(_), 0) => b'N',
                        (Some(_), 1..) => b'B',
                        _ => b'S',
                    }),
                    instrument_id: instrument.0,
                    price: price.map(|price| scale.price(price)).unwrap_or_default(),
                    auction_type: engine
                        .market(*instrument)
                        .and_then(|market| auction_type(market.phase()))
                        .unwrap_or_default(),
                    ..AuctionInfo::default()
                });
            }
            Event::Uncrossed { instrument, call: Phase::OpeningCall, price, .. } => {
                self.send_statistic(*instrument, b'O', *price, Letter(b'A'), out);
            }
            Event::ClosingPriceSet { instrument, price, derivation: by } => {
                self.send_statistic(*instrument, b'C', *price, derivation(*by), out);
            }
            Event::TradeBusted(bust) => self.send_bust(bust, out),
            Event::OffBookTrade(trade) => self.send_reported_trade(trade, out),
            Event::DayBegun { .. } => out.send(&SystemEvent { nanosecond, event_code: Letter(b'O') }),
            Event::DayEnded => out.send(&SystemEvent { nanosecond, event_code: Letter(b'C') }),
            Event::Quarantined { .. } => self.is_replaced = true,
            _ => {}
        }
    }

    /// Whether an instrument fits MITCH.
    pub fn includes(spec: &InstrumentSpec) -> bool {
        FeedEncoding::Mitch.includes(spec)
    }

    fn scale(&self, instrument: InstrumentId) -> Option<InstrumentScale> {
        self.instruments.get(instrument.0 as usize).copied().flatten()
    }

    /// Sends the definition of an instrument.
    fn define<S: MitchSink>(&mut self, spec: &InstrumentSpec, market: Option<&Market>, out: &mut CommandOutput<'_, S>) {
        let at = spec.id.0 as usize;
        if self.instruments.len() <= at {
            self.instruments.resize(at + 1, None);
        }
        let Some(MitchPrice(tick)) = MitchPrice::of(spec.tick).filter(|_| self.encoding.includes(spec)) else { return };
        if let Some(scale) = self.instruments.get_mut(at) {
            scale.get_or_insert_default().tick = tick;
        }
        let is_deleted = market.is_some_and(|market| market.phase() == Phase::Deleted);
        let segment = spec.rules.as_ref().map(|rules| Alpha::new(rules.segment.as_str()));
        out.send(&SymbolDirectory {
            nanosecond: out.nanosecond,
            instrument_id: spec.id.0,
            symbol_status: Letter(if is_deleted { b'a' } else { b' ' }),
            symbol: Alpha::new(&spec.name),
            segment: segment.unwrap_or_default(),
            sub_book_flags: ORDER_BOOK | OFF_BOOK,
            contract_multiplier: MitchPrice::of(spec.lot).unwrap_or_default(),
            ..SymbolDirectory::default()
        });
    }

    fn send_status<S: MitchSink>(
        &self,
        instrument: InstrumentId,
        phase: Phase,
        change: Option<(SessionReason, Option<VenueNanos>)>,
        out: &mut CommandOutput<'_, S>,
    ) {
        if self.scale(instrument).is_none() {
            return;
        }
        out.send(&SymbolStatus {
            nanosecond: out.nanosecond,
            instrument_id: instrument.0,
            trading_status: trading_status(phase),
            session_change_reason: change.map_or(0, |(reason, _)| session_change_reason(reason)),
            new_end_time: change.and_then(|(_, ends)| ends).map(end_time).unwrap_or_default(),
            book_type: ORDER_BOOK,
            ..SymbolStatus::default()
        });
    }

    fn send_statistic<S: MitchSink>(
        &self,
        instrument: InstrumentId,
        statistic: u8,
        price: Ticks,
        open_close_indicator: Letter,
        out: &mut CommandOutput<'_, S>,
    ) {
        let Some(scale) = self.scale(instrument) else { return };
        out.send(&PriceStatistic {
            nanosecond: out.nanosecond,
            instrument_id: instrument.0,
            statistic_type: Letter(statistic),
            price: scale.price(price),
            open_close_indicator,
            sub_book: ORDER_BOOK,
            ..PriceStatistic::default()
        });
    }

    fn send_bust<S: MitchSink>(&self, bust: &Bust, out: &mut CommandOutput<'_, S>) {
        let Some(scale) = self.scale(bust.instrument) else { return };
        out.send(&RecoveryTrade {
            nanosecond: out.nanosecond,
            executed_quantity: quantity(bust.lots),
            instrument_id: bust.instrument.0,
            price: scale.price(bust.price),
            trade_id: bust.trade_seq.0,
            trade_time: time_text(out.at),
            trade_date: date_text(out.at),
            action_type: Letter(b'C'),
            sub_book: ORDER_BOOK,
            ..RecoveryTrade::default()
        });
    }

    fn send_reported_trade<S: MitchSink>(&self, trade: &OffBookTrade, out: &mut CommandOutput<'_, S>) {
        let Some(scale) = self.scale(trade.instrument) else { return };
        out.send(&OffBookReport {
            nanosecond: out.nanosecond,
            executed_quantity: quantity(trade.lots),
            instrument_id: trade.instrument.0,
            price: scale.price(trade.price),
            trade_id: trade.number,
            off_book_trade_type: Alpha::new(REPORTED_TRADE),
            trade_time: time_text(out.at),
            trade_date: date_text(out.at),
            ..OffBookReport::default()
        });
    }

    fn delete<S: MitchSink>(&mut self, order: OrderId, out: &mut CommandOutput<'_, S>) {
        if self.displayed.remove(&order).is_some() {
            out.send(&OrderDelete { nanosecond: out.nanosecond, order_id: order.0 });
        }
    }

    /// Sends the executions of a trade, and the trade itself if no execution shows it.
    fn trade<S: MitchSink>(&mut self, trade: &TradeEvent, engine: &Engine, out: &mut CommandOutput<'_, S>) {
        let Some(scale) = self.scale(trade.instrument) else { return };
        let price = scale.price(trade.price);
        let [maker, taker] = trade.parties;
        let is_shown = trade.kind == TradeKind::Continuous && self.displayed.contains_key(&maker.0);
        self.execute(trade, maker, is_shown, engine, out);
        if trade.kind == TradeKind::Continuous {
            // The incoming order was displayed before, and this command amended it.
            self.delete(taker.0, out);
        } else {
            self.execute(trade, taker, false, engine, out);
        }
        let (nanosecond, instrument_id) = (out.nanosecond, trade.instrument.0);
        let auction = match trade.kind {
            TradeKind::Call(call) => auction_type(call),
            _ => None,
        };
        match auction {
            _ if is_shown => {}
            Some(auction_type) => out.send(&AuctionTrade {
                nanosecond,
                quantity: trade.lots,
                instrument_id,
                price,
                trade_id: trade.number.0,
                auction_type,
                ..AuctionTrade::default()
            }),
            None => out.send(&HiddenTrade {
                nanosecond,
                executed_quantity: trade.lots,
                instrument_id,
                price,
                trade_id: trade.number.0,
                sub_book: ORDER_BOOK,
                trade_sub_type: Alpha::new(REGULAR_TRADE),
                ..HiddenTrade::default()
            }),
        }
    }

    /// Sends the execution of one party, if it is displayed.
    fn execute<S: MitchSink>(
        &mut self,
        trade: &TradeEvent,
        (id, open): (OrderId, Lots),
        is_printable: bool,
        engine: &Engine,
        out: &mut CommandOutput<'_, S>,
    ) {
        let Some(order) = self.displayed.get_mut(&id) else { return };
        let TradeEvent { price, lots, number, .. } = *trade;
        let mut left = order.shown.saturating_sub(lots);
        // An iceberg whose displayed part is used up goes to the end of its queue, except in the
        // closing price cross.
        if left == 0
            && !open.is_zero()
            && let Some(view) = displayed_view(engine, id).filter(|view| order.time == Some(view.time))
        {
            left = quantity(view.shown);
        }
        let is_plain =
            is_printable && price == order.price && u64::from(order.shown) == u64::from(left) + u64::from(lots);
        order.shown = left;
        self.touched.push(id);
        if left == 0 {
            self.displayed.remove(&id);
        }
        let (nanosecond, order_id, trade_id) = (out.nanosecond, id.0, number.0);
        if is_plain {
            let executed_quantity = lots;
            let message = OrderExecution { nanosecond, order_id, executed_quantity, trade_id, ..Default::default() };
            return out.send(&message);
        }
        out.send(&PricedExecution {
            nanosecond,
            order_id,
            executed_quantity: lots,
            display_quantity: left,
            trade_id,
            printable: Letter(if is_printable { b'Y' } else { b'N' }),
            price: self.scale(trade.instrument).unwrap_or_default().price(price),
            ..PricedExecution::default()
        });
    }

    /// Shows the next part of an iceberg, last at its price, unless the order has kept its place.
    fn refresh<S: MitchSink>(
        &mut self,
        id: OrderId,
        (instrument, side): (InstrumentId, Side),
        price: Ticks,
        shown: Lots,
        engine: &Engine,
        out: &mut CommandOutput<'_, S>,
    ) {
        self.touched.push(id);
        if self.displayed.contains_key(&id) || self.scale(instrument).is_none() {
            return;
        }
        let order = DisplayedOrder { price, shown: quantity(shown), time: None };
        self.displayed.insert(id, order);
        self.refreshed.retain(|other| *other != id);
        self.refreshed.push(id);
        if let Some(view) = displayed_view(engine, id) {
            self.note_time(instrument, view.time);
        }
        self.send_add(id, (instrument, side), &order, out);
    }

    fn note_time(&mut self, instrument: InstrumentId, time: u64) {
        if let Some(Some(scale)) = self.instruments.get_mut(instrument.0 as usize) {
            scale.newest = scale.newest.max(time);
        }
    }

    fn send_add<S: MitchSink>(
        &self,
        id: OrderId,
        (instrument, side): (InstrumentId, Side),
        order: &DisplayedOrder,
        out: &mut CommandOutput<'_, S>,
    ) {
        out.send(&OrderAdd {
            nanosecond: out.nanosecond,
            order_id: id.0,
            side: side_letter(side),
            quantity: order.shown,
            instrument_id: instrument.0,
            price: self.scale(instrument).unwrap_or_default().price(order.price),
            ..OrderAdd::default()
        });
    }

    /// Sends what differs between the touched orders and what readers know of them.
    fn send_differences<S: MitchSink>(&mut self, engine: &Engine, out: &mut CommandOutput<'_, S>) {
        let (mut touched, mut shown) = (std::mem::take(&mut self.touched), std::mem::take(&mut self.shown));
        let times = self.refreshed.iter().filter_map(|id| displayed_view(engine, *id)).map(|view| view.time);
        let is_in_order = times.is_sorted();
        self.refreshed.clear();
        touched.sort_unstable();
        touched.dedup();
        for id in touched.drain(..) {
            let view = engine.order(id);
            match view.map(|view| view.place) {
                Some(None) => shown.extend(view),
                Some(Some(UndisplayedState::Elected)) => self.elected.push(id),
                _ => self.delete(id, out),
            }
        }
        // Orders join their queues by time.
        shown.sort_unstable_by_key(|view| view.time);
        for view in shown.drain(..) {
            self.show(&view, is_in_order, engine, out);
        }
        (self.touched, self.shown) = (touched, shown);
    }

    /// Sends the current state of an order. `is_in_order` states that refreshed icebergs have
    /// their places.
    fn show<S: MitchSink>(
        &mut self,
        view: &OrderView,
        is_in_order: bool,
        engine: &Engine,
        out: &mut CommandOutput<'_, S>,
    ) {
        let Some(scale) = self.scale(view.instrument) else { return };
        let now = DisplayedOrder { price: view.price, shown: quantity(view.shown), time: Some(view.time) };
        let has_place =
            |old: &DisplayedOrder| old.price == now.price && old.time.map_or(is_in_order, |time| time == view.time);
        match self.displayed.insert(view.id, now) {
            None => self.send_add(view.id, (view.instrument, view.side), &now, out),
            Some(old) if has_place(&old) => {
                if old.shown != now.shown {
                    self.send_modify(view.id, view.instrument, &now, OrderModify::KEEPS_PLACE, out);
                }
                return self.note_time(view.instrument, view.time);
            }
            Some(_) => self.send_modify(view.id, view.instrument, &now, 0, out),
        }
        if view.time < scale.newest {
            self.move_behind(view, engine, out);
        }
        self.note_time(view.instrument, view.time);
    }

    fn send_modify<S: MitchSink>(
        &self,
        id: OrderId,
        instrument: InstrumentId,
        order: &DisplayedOrder,
        flags: u8,
        out: &mut CommandOutput<'_, S>,
    ) {
        out.send(&OrderModify {
            nanosecond: out.nanosecond,
            order_id: id.0,
            new_quantity: order.shown,
            new_price: self.scale(instrument).unwrap_or_default().price(order.price),
            flags,
        });
    }

    /// Moves the orders that stand behind `view` in the engine's queue behind it. Readers have
    /// `view` at the end of the queue.
    #[cold]
    fn move_behind<S: MitchSink>(&mut self, view: &OrderView, engine: &Engine, out: &mut CommandOutput<'_, S>) {
        let Some(market) = engine.market(view.instrument) else { return };
        let queue = market.book().orders_at(view.side, view.price);
        for order in queue.skip_while(|order| order.id != view.id).skip(1) {
            // An order that readers do not know at this price joins the queue later.
            if let Some(known) = self.displayed.get(&order.id).filter(|known| known.price == view.price) {
                self.send_modify(order.id, view.instrument, known, 0, out);
            }
        }
    }
}

fn displayed_view(engine: &Engine, id: OrderId) -> Option<OrderView> {
    engine.order(id).filter(|view| view.place.is_none())
}

/// Converts a quantity. Volumes of auctions may exceed 32 bits.
fn quantity(lots: Lots) -> u32 {
    u32::try_from(lots.0).unwrap_or(u32::MAX)
}
