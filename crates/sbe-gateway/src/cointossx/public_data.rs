//! Public data of instruments for members: sessions, orders, trades and best prices.
//!
//! Holds       frames are made once per command and instrument, for all members that follow it.

use std::collections::BTreeMap;

use pitwire_engine::{Engine, Market};
use pitwire_model::{Event, InstrumentId, InstrumentSpec, Lots, Phase, SessionReason, Side, Ticks, VenueNanos};
use pitwire_order_feed::{MitchMessage, MitchPrice, OrderModify, VisibleChange, VisibleChanges};
use pitwire_projections::Views;
use tracing::warn;

use super::member_session::frames;
use super::messages::*;
use super::reports::{best_bid_offer, symbol_status, whole};
use crate::codec::FixedDecimal;
use crate::requests::number_of;

type Level = Option<(Ticks, Lots)>;

/// The followed instruments, and what their followers know.
#[derive(Debug)]
pub struct CtxPublicData {
    displayed: VisibleChanges,
    followed: BTreeMap<InstrumentId, FollowedInstrument>,
    /// Frames of the last commands.
    frames: Vec<(InstrumentId, Vec<u8>)>,
}

/// The state that the last messages have shown.
#[derive(Debug)]
struct FollowedInstrument {
    /// The displayed orders and their prices.
    orders: BTreeMap<u64, CtxPrice>,
    best: [Level; 2],
    session: (Phase, SessionReason, VenueNanos),
}

/// A number does not fit into its field.
#[derive(Debug)]
struct DoesNotFit;

fn price(price: MitchPrice) -> Result<CtxPrice, DoesNotFit> {
    CtxPrice::of(Some(FixedDecimal(price.0))).ok_or(DoesNotFit)
}

fn quantity(spec: &InstrumentSpec, lots: u32) -> Result<u32, DoesNotFit> {
    let amount = FixedDecimal::of(spec.amount(Lots(lots.into())));
    amount.and_then(|amount| whole(Some(amount))).ok_or(DoesNotFit)
}

fn best_prices(market: &Market) -> [Level; 2] {
    Side::BOTH.map(|side| market.best(side))
}

fn best_message(spec: &InstrumentSpec, best: [Level; 2]) -> Result<CtxMessage, DoesNotFit> {
    let [bid, offer] = best.map(|level| {
        let price = level.and_then(|(price, _)| FixedDecimal::of(spec.price(price)));
        (price, level.and_then(|(_, lots)| FixedDecimal::of(spec.amount(lots))))
    });
    best_bid_offer(number_of(spec.id), bid, offer).ok_or(DoesNotFit)
}

fn nanosecond(at: VenueNanos) -> u32 {
    u32::try_from(at.as_millis() % 1000).unwrap_or_default() * 1_000_000
}

fn session_of(views: &Views, instrument: InstrumentId) -> Option<(Phase, SessionReason, VenueNanos)> {
    views.session(instrument).map(|view| (view.phase, view.reason, view.since))
}

fn session_message(instrument: InstrumentId, (phase, reason, _): (Phase, SessionReason, VenueNanos)) -> CtxMessage {
    symbol_status(number_of(instrument), phase.name(), reason.name())
}

impl CtxPublicData {
    /// Starts with the displayed orders of all instruments.
    pub fn start(engine: &Engine, at: VenueNanos) -> Self {
        CtxPublicData { displayed: VisibleChanges::start(engine, at), followed: BTreeMap::new(), frames: Vec::new() }
    }

    /// Begins to follow an instrument. Returns the frames of its state.
    pub fn follow(&mut self, instrument: InstrumentId, engine: &Engine, views: &Views, at: VenueNanos) -> Vec<u8> {
        let (Some(market), Some(session)) = (engine.market(instrument), session_of(views, instrument)) else {
            return Vec::new();
        };
        let best = best_prices(market);
        let mut followed = FollowedInstrument { orders: BTreeMap::new(), best, session };
        let mut messages = vec![session_message(instrument, session)];
        for side in Side::BOTH {
            for order in self.displayed.orders(instrument, side) {
                let added = (order.id, side, price(order.price), quantity(&market.spec, order.quantity));
                match followed.add(added, instrument, nanosecond(at)) {
                    Ok(message) => messages.push(message),
                    Err(DoesNotFit) => warn_about(&market.spec),
                }
            }
        }
        messages.extend(best_message(&market.spec, best).ok());
        self.followed.insert(instrument, followed);
        frames(0, messages)
    }

    /// Takes the events of one command.
    pub fn observe(&mut self, at: VenueNanos, events: &[Event], engine: &Engine, views: &Views) {
        self.displayed.observe(at, events, engine);
        for (&instrument, followed) in &mut self.followed {
            let Some(market) = engine.market(instrument) else { continue };
            let mut messages = Vec::new();
            if let Some(session) = session_of(views, instrument).filter(|session| *session != followed.session) {
                followed.session = session;
                messages.push(session_message(instrument, session));
            }
            for change in self.displayed.of(instrument) {
                if followed.change(change, &market.spec, at, &mut messages).is_err() {
                    warn_about(&market.spec);
                }
            }
            let best = best_prices(market);
            if best != followed.best {
                followed.best = best;
                match best_message(&market.spec, best) {
                    Ok(message) => messages.push(message),
                    Err(DoesNotFit) => warn_about(&market.spec),
                }
            }
            if !messages.is_empty() {
                self.frames.push((instrument, frames(0, messages)));
            }
        }
    }

    /// Returns the frames of the commands since the last call.
    pub fn take_frames(&mut self) -> Vec<(InstrumentId, Vec<u8>)> {
        std::mem::take(&mut self.frames)
    }
}

fn warn_about(spec: &InstrumentSpec) {
    warn!(instrument = %spec.name, "public data does not fit into the schema of CoinTossX");
}

/// A displayed order: its id, side, price and quantity.
type AddedOrder = (u64, Side, Result<CtxPrice, DoesNotFit>, Result<u32, DoesNotFit>);

impl FollowedInstrument {
    fn add(
        &mut self,
        (order_id, side, price, quantity): AddedOrder,
        instrument: InstrumentId,
        nanosecond: u32,
    ) -> Result<CtxMessage, DoesNotFit> {
        let (price, quantity) = (price?, quantity?);
        self.orders.insert(order_id, price);
        let side = if side == Side::Buy { CtxPublicSide::Buy } else { CtxPublicSide::Sell };
        let instrument_id = number_of(instrument);
        let message_type = b'A';
        Ok(CtxAddOrder { message_type, nanosecond, order_id, side, quantity, instrument_id, price, flags: 0 }.into())
    }

    /// Appends the messages of one change.
    fn change(
        &mut self,
        change: &VisibleChange,
        spec: &InstrumentSpec,
        at: VenueNanos,
        messages: &mut Vec<CtxMessage>,
    ) -> Result<(), DoesNotFit> {
        let (nanosecond, instrument_id) = (nanosecond(at), number_of(spec.id));
        let message = match &change.message {
            MitchMessage::OrderAdd(add) => {
                let side = if add.side.0 == b'B' { Side::Buy } else { Side::Sell };
                let added = (add.order_id, side, price(add.price), quantity(spec, change.displayed));
                self.add(added, spec.id, nanosecond)?
            }
            MitchMessage::OrderModify(modify) => {
                let (order_id, new_price) = (modify.order_id, price(modify.new_price)?);
                self.orders.insert(order_id, new_price);
                CtxOrderModified {
                    message_type: b'U',
                    nanosecond,
                    order_id,
                    new_quantity: quantity(spec, change.displayed)?,
                    new_price,
                    flags: modify.flags & OrderModify::KEEPS_PLACE,
                }
                .into()
            }
            MitchMessage::OrderDelete(delete) => {
                self.orders.remove(&delete.order_id);
                CtxOrderDeleted { message_type: b'D', nanosecond, order_id: delete.order_id }.into()
            }
            MitchMessage::OrderExecution(execution) => {
                let at_price = self.orders.get(&execution.order_id).copied().ok_or(DoesNotFit)?;
                let executed = (execution.order_id, execution.executed_quantity, execution.trade_id);
                self.execution(executed, at_price, change.displayed, (spec, at))?
            }
            MitchMessage::PricedExecution(execution) => {
                let executed = (execution.order_id, execution.executed_quantity, execution.trade_id);
                self.execution(executed, price(execution.price)?, change.displayed, (spec, at))?
            }
            MitchMessage::HiddenTrade(trade) => CtxTrade {
                message_type: b'P',
                nanosecond,
                executed_quantity: quantity(spec, trade.executed_quantity)?,
                instrument_id,
                price: price(trade.price)?,
                trade_id: trade.trade_id,
            }
            .into(),
            MitchMessage::AuctionTrade(trade) => CtxAuctionTrade {
                message_type: b'Q',
                nanosecond,
                executed_quantity: quantity(spec, trade.quantity)?,
                instrument_id,
                price: price(trade.price)?,
                trade_id: trade.trade_id,
            }
            .into(),
            // The engine was replaced, and its orders follow.
            MitchMessage::BookClear(_) => {
                let delete = |order_id| CtxOrderDeleted { message_type: b'D', nanosecond: 0, order_id }.into();
                messages.extend(std::mem::take(&mut self.orders).into_keys().map(delete));
                return Ok(());
            }
            _ => return Ok(()),
        };
        messages.push(message);
        Ok(())
    }

    fn execution(
        &mut self,
        (order_id, executed, trade_id): (u64, u32, u64),
        price: CtxPrice,
        displayed: u32,
        (spec, at): (&InstrumentSpec, VenueNanos),
    ) -> Result<CtxMessage, DoesNotFit> {
        if displayed == 0 {
            self.orders.remove(&order_id);
        }
        let execution = CtxOrderExecutedWithPriceSize {
            message_type: b'C',
            nanosecond: nanosecond(at),
            order_id,
            executed_quantity: quantity(spec, executed)?,
            display_quantity: quantity(spec, displayed)?,
            trade_id: u32::try_from(trade_id).map_err(|_| DoesNotFit)?,
            printable: b'Y',
            price,
            instrument_id: number_of(spec.id),
            client_order_id: 0,
            executed_time: at.as_millis(),
        };
        Ok(execution.into())
    }
}
