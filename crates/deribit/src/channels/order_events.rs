//! `orders.{instrument}.raw`: each displayed order, and each change of it.
//!
//! Does        while the channel has a subscriber, runs the encoder of the order-by-order feed and
//!             writes its messages about orders and trades as JSON, one notification per command
//!             and instrument.
//! Holds       1. a book that a subscriber rebuilds has the displayed orders of the venue's book in
//!                the order of their queues;
//!             2. an order that is not displayed leaves no trace.
//! Costs       about as much as the encoding of the feed and of one rebuilt book, for all
//!             subscribers together; nothing without a subscriber.
//! Start at    [`OrderEvents::observe`].

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_model::{Event, InstrumentId, InstrumentSpec, Lots, Side, Ticks, TradeSeq, VenueNanos};
use pitwire_order_feed::{Letter, MitchMessage, MitchPrice, OrderModify, VisibleChanges};

use crate::codec::{Json, objects};
use pitwire_delivery::ChannelId;

#[derive(Debug)]
pub(super) struct OrderEvents {
    visible: VisibleChanges,
    pub feeds: BTreeMap<InstrumentId, ChannelId>,
}

impl OrderEvents {
    /// Starts with the displayed orders of all instruments.
    pub fn start(engine: &Engine, at: VenueNanos) -> OrderEvents {
        OrderEvents { visible: VisibleChanges::start(engine, at), feeds: BTreeMap::new() }
    }

    /// HOT. Takes the events of one command.
    pub fn observe(&mut self, at: VenueNanos, events: &[Event], engine: &Engine) {
        self.visible.observe(at, events, engine);
    }

    /// Returns whether the last command changed an instrument's orders or traded.
    pub fn has_changes(&self, instrument: InstrumentId) -> bool {
        self.visible.of(instrument).next().is_some()
    }

    /// Writes all displayed orders of an instrument.
    pub fn write_snapshot(&self, j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos) {
        j.object(|j| {
            head(j, "snapshot", spec, at);
            for (key, side) in [("bids", Side::Buy), ("asks", Side::Sell)] {
                j.key(key).array(|j| {
                    for order in self.visible.orders(spec.id, side) {
                        j.array(|j| {
                            j.quoted_uint(order.id).decimal(spec.price(ticks(spec, order.price)));
                            j.decimal(spec.amount(Lots(u64::from(order.quantity))));
                        });
                    }
                });
            }
        });
    }

    /// Writes the changes that the last command made in an instrument.
    pub fn write_changes(&self, j: &mut Json<'_>, spec: &InstrumentSpec, at: VenueNanos) {
        j.object(|j| {
            head(j, "change", spec, at);
            j.key("events").array(|j| {
                for change in self.visible.of(spec.id) {
                    j.object(|j| write_change(j, spec, &change.message, change.displayed));
                }
            });
        });
    }
}

fn head(j: &mut Json<'_>, kind: &str, spec: &InstrumentSpec, at: VenueNanos) {
    j.key("type").string(kind).key("timestamp").uint(at.as_millis());
    j.key("instrument_name").string(&spec.name);
}

fn write_change(j: &mut Json<'_>, spec: &InstrumentSpec, message: &MitchMessage, displayed: u32) {
    let amount = |lots: u32| spec.amount(Lots(u64::from(lots)));
    let price = |price: MitchPrice| spec.price(ticks(spec, price));
    let trade_id = |number: u64| objects::trade_id(spec.id, TradeSeq(number));
    match message {
        MitchMessage::OrderAdd(add) => {
            j.key("action").string("new").key("order_id").quoted_uint(add.order_id);
            j.key("direction").string(if add.side == Letter(b'B') { "buy" } else { "sell" });
            j.key("price").decimal(price(add.price)).key("amount").decimal(amount(displayed));
        }
        MitchMessage::OrderModify(modify) => {
            let keeps_place = modify.flags & OrderModify::KEEPS_PLACE != 0;
            j.key("action").string("change").key("order_id").quoted_uint(modify.order_id);
            j.key("price").decimal(price(modify.new_price)).key("amount").decimal(amount(displayed));
            j.key("keeps_place").bool(keeps_place);
        }
        MitchMessage::OrderDelete(delete) => {
            j.key("action").string("delete").key("order_id").quoted_uint(delete.order_id);
        }
        MitchMessage::OrderExecution(execution) => {
            j.key("action").string("trade").key("order_id").quoted_uint(execution.order_id);
            j.key("trade_id").string(&trade_id(execution.trade_id));
            j.key("traded").decimal(amount(execution.executed_quantity)).key("amount").decimal(amount(displayed));
        }
        MitchMessage::PricedExecution(execution) => {
            j.key("action").string("trade").key("order_id").quoted_uint(execution.order_id);
            j.key("trade_id").string(&trade_id(execution.trade_id)).key("price").decimal(price(execution.price));
            j.key("traded").decimal(amount(execution.executed_quantity)).key("amount").decimal(amount(displayed));
        }
        MitchMessage::HiddenTrade(trade) => {
            j.key("action").string("trade").key("trade_id").string(&trade_id(trade.trade_id));
            j.key("price").decimal(price(trade.price)).key("traded").decimal(amount(trade.executed_quantity));
        }
        MitchMessage::AuctionTrade(trade) => {
            j.key("action").string("trade").key("trade_id").string(&trade_id(trade.trade_id));
            j.key("price").decimal(price(trade.price)).key("traded").decimal(amount(trade.quantity));
        }
        // A Book Clear: the engine was replaced, and its orders follow.
        _ => {
            j.key("action").string("clear");
        }
    }
}

fn ticks(spec: &InstrumentSpec, price: MitchPrice) -> Ticks {
    let tick = MitchPrice::of(spec.tick).map_or(0, |tick| tick.0);
    Ticks(price.0.checked_div(tick).unwrap_or(0))
}
