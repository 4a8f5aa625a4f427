//! Changes of the displayed orders, one command at a time.
//!
//! Does        runs the encoder and rebuilds the books from its messages, for publishers that send
//!             the same changes in another format.
//! Start at    [`VisibleChanges::observe`].

use pitwire_engine::Engine;
use pitwire_model::{Event, InstrumentId, Side, VenueNanos};

use crate::book::{BookBuilder, RebuiltOrder};
use crate::encoder::OrderFeedEncoder;
use crate::messages::MitchMessage;
use crate::unit::UnitMessages;

/// A message about orders or trades of an instrument.
#[derive(Clone, Debug)]
pub struct VisibleChange {
    pub instrument: InstrumentId,
    pub message: MitchMessage,
    /// Displayed quantity of the message's order afterwards.
    pub displayed: u32,
}

/// The displayed orders of all instruments, and the changes by the last command.
#[derive(Debug)]
pub struct VisibleChanges {
    encoder: OrderFeedEncoder,
    books: BookBuilder,
    changes: Vec<VisibleChange>,
    /// Encoded messages of one command; kept for its memory.
    encoded: Vec<u8>,
}

impl VisibleChanges {
    /// Starts with the displayed orders of all instruments.
    pub fn start(engine: &Engine, at: VenueNanos) -> VisibleChanges {
        let mut encoded = Vec::new();
        let encoder = OrderFeedEncoder::start(engine, at, &mut encoded);
        let mut started = VisibleChanges { encoder, books: BookBuilder::default(), changes: Vec::new(), encoded };
        started.apply();
        started
    }

    /// HOT. Takes the events of one command.
    pub fn observe(&mut self, at: VenueNanos, events: &[Event], engine: &Engine) {
        self.encoded.clear();
        self.encoder.observe(at, events, engine, &mut self.encoded);
        self.apply();
    }

    fn apply(&mut self) {
        self.changes.clear();
        for message in UnitMessages::of(&self.encoded).flatten() {
            let order = order_of(&message);
            let before = order.and_then(|id| self.books.order(id));
            let is_applied = self.books.apply(&message).is_ok();
            debug_assert!(is_applied, "the encoder's own messages fit: {message:?}");
            let after = order.and_then(|id| self.books.order(id));
            let instrument = match &message {
                MitchMessage::HiddenTrade(trade) => Some(trade.instrument_id),
                MitchMessage::AuctionTrade(trade) => Some(trade.instrument_id),
                MitchMessage::BookClear(clear) => Some(clear.instrument_id),
                _ => before.or(after).map(|(instrument, _)| instrument),
            };
            if let Some(instrument) = instrument {
                let displayed = after.map_or(0, |(_, order)| order.quantity);
                self.changes.push(VisibleChange { instrument: InstrumentId(instrument), message, displayed });
            }
        }
    }

    /// Returns the changes that the last command made in an instrument.
    pub fn of(&self, instrument: InstrumentId) -> impl Iterator<Item = &VisibleChange> {
        self.changes.iter().filter(move |change| change.instrument == instrument)
    }

    /// Returns the displayed orders of one side of an instrument, in the order in which they trade.
    pub fn orders(&self, instrument: InstrumentId, side: Side) -> impl Iterator<Item = RebuiltOrder> {
        self.books.orders(instrument.0, side)
    }
}

fn order_of(message: &MitchMessage) -> Option<u64> {
    match message {
        MitchMessage::OrderAdd(add) => Some(add.order_id),
        MitchMessage::OrderDelete(delete) => Some(delete.order_id),
        MitchMessage::OrderModify(modify) => Some(modify.order_id),
        MitchMessage::OrderExecution(execution) => Some(execution.order_id),
        MitchMessage::PricedExecution(execution) => Some(execution.order_id),
        _ => None,
    }
}
