//! Public data of one instrument for a member: orders, trades, best prices and sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use pitwire_client::{Error, Subscription, SubscriptionEvent, VenueConnection};
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::warn;

use super::member_session::frames;
use super::messages::*;
use super::reports::{best_bid_offer, public_price, symbol_status, whole};
use crate::codec::FixedDecimal;
use crate::profile::{PublicSink, Refusal};

type RawNumber = Option<Box<RawValue>>;

fn decimal(number: &RawNumber) -> Option<FixedDecimal> {
    FixedDecimal::parse(number.as_ref()?.get())
}

/// The data of `orders.{instrument}.raw`.
#[derive(Deserialize)]
struct OrderNotice {
    r#type: String,
    timestamp: u64,
    #[serde(default)]
    bids: Vec<(String, Box<RawValue>, Box<RawValue>)>,
    #[serde(default)]
    asks: Vec<(String, Box<RawValue>, Box<RawValue>)>,
    #[serde(default)]
    events: Vec<OrderEvent>,
}

#[derive(Deserialize)]
struct OrderEvent {
    action: String,
    order_id: Option<String>,
    direction: Option<String>,
    price: RawNumber,
    amount: RawNumber,
    #[serde(default)]
    keeps_place: bool,
    trade_id: Option<String>,
    traded: RawNumber,
}

/// The data of `quote.{instrument}`.
#[derive(Deserialize)]
struct QuoteNotice {
    best_bid_price: RawNumber,
    best_bid_amount: RawNumber,
    best_ask_price: RawNumber,
    best_ask_amount: RawNumber,
}

/// The data of `session.{instrument}`.
#[derive(Deserialize)]
struct SessionNotice {
    session: String,
    #[serde(default)]
    reason: String,
}

/// The public data of an instrument as messages.
struct PublicData {
    instrument_id: u32,
    /// The displayed orders and their prices.
    displayed: BTreeMap<u64, CtxPrice>,
    is_call: bool,
}

/// Returns the number of a trade in its instrument. A trade id also has the number of the
/// instrument.
fn trade_number(id: Option<&str>) -> Option<u64> {
    const PER_INSTRUMENT: u64 = 1_000_000_000_000;
    id?.parse::<u64>().ok().map(|id| id % PER_INSTRUMENT)
}

impl PublicData {
    /// Returns messages that delete all displayed orders.
    fn clear(&mut self) -> Vec<CtxMessage> {
        let orders = std::mem::take(&mut self.displayed);
        let delete = |order_id| CtxOrderDeleted { message_type: b'D', nanosecond: 0, order_id }.into();
        orders.into_keys().map(delete).collect()
    }

    fn add(
        &mut self,
        nanosecond: u32,
        order_id: u64,
        side: CtxPublicSide,
        price: CtxPrice,
        quantity: u32,
    ) -> CtxMessage {
        self.displayed.insert(order_id, price);
        let instrument_id = self.instrument_id;
        CtxAddOrder { message_type: b'A', nanosecond, order_id, side, quantity, instrument_id, price, flags: 0 }.into()
    }

    /// Returns the messages of a notice, or `None` if a number does not fit into its field.
    fn orders(&mut self, notice: &OrderNotice) -> Option<Vec<CtxMessage>> {
        let nanosecond = u32::try_from(notice.timestamp % 1000).ok()? * 1_000_000;
        let mut messages = Vec::new();
        if notice.r#type == "snapshot" {
            messages = self.clear();
            for (side, orders) in [(CtxPublicSide::Buy, &notice.bids), (CtxPublicSide::Sell, &notice.asks)] {
                for (order_id, price, amount) in orders {
                    let price = CtxPrice::of(Some(FixedDecimal::parse(price.get())?))?;
                    let quantity = whole(FixedDecimal::parse(amount.get()))?;
                    messages.push(self.add(nanosecond, order_id.parse().ok()?, side, price, quantity));
                }
            }
        }
        for event in &notice.events {
            messages.extend(self.event(event, notice, nanosecond)?);
        }
        Some(messages)
    }

    fn event(&mut self, event: &OrderEvent, notice: &OrderNotice, nanosecond: u32) -> Option<Vec<CtxMessage>> {
        let order_id: Option<u64> = event.order_id.as_ref().and_then(|id| id.parse().ok());
        let price = match &event.price {
            Some(_) => Some(public_price(decimal(&event.price))?),
            None => None,
        };
        let message = match event.action.as_str() {
            "new" => {
                let is_buy = event.direction.as_deref() == Some("buy");
                let side = if is_buy { CtxPublicSide::Buy } else { CtxPublicSide::Sell };
                self.add(nanosecond, order_id?, side, price?, whole(decimal(&event.amount))?)
            }
            "change" => {
                self.displayed.insert(order_id?, price?);
                CtxOrderModified {
                    message_type: b'U',
                    nanosecond,
                    order_id: order_id?,
                    new_quantity: whole(decimal(&event.amount))?,
                    new_price: price?,
                    flags: u8::from(event.keeps_place),
                }
                .into()
            }
            "delete" => {
                self.displayed.remove(&order_id?);
                CtxOrderDeleted { message_type: b'D', nanosecond, order_id: order_id? }.into()
            }
            "clear" => return Some(self.clear()),
            "trade" => self.trade(event, notice, nanosecond, order_id, price)?,
            _ => return Some(Vec::new()),
        };
        Some(vec![message])
    }

    fn trade(
        &mut self,
        event: &OrderEvent,
        notice: &OrderNotice,
        nanosecond: u32,
        order_id: Option<u64>,
        price: Option<CtxPrice>,
    ) -> Option<CtxMessage> {
        let instrument_id = self.instrument_id;
        let trade_id = trade_number(event.trade_id.as_deref())?;
        let executed_quantity = whole(decimal(&event.traded))?;
        let Some(order_id) = order_id else {
            let price = price?;
            // A call's trade also has an event for each of its displayed orders.
            let of_same_trade = |other: &&OrderEvent| other.trade_id == event.trade_id;
            let is_auction = self.is_call || notice.events.iter().filter(of_same_trade).count() > 1;
            return Some(if is_auction {
                CtxAuctionTrade { message_type: b'Q', nanosecond, executed_quantity, instrument_id, price, trade_id }
                    .into()
            } else {
                CtxTrade { message_type: b'P', nanosecond, executed_quantity, instrument_id, price, trade_id }.into()
            });
        };
        let display_quantity: u32 = whole(decimal(&event.amount))?;
        let of_order = self.displayed.get(&order_id).copied();
        if display_quantity == 0 {
            self.displayed.remove(&order_id);
        }
        let execution = CtxOrderExecutedWithPriceSize {
            message_type: b'C',
            nanosecond,
            order_id,
            executed_quantity,
            display_quantity,
            trade_id: u32::try_from(trade_id).ok()?,
            printable: b'Y',
            price: price.or(of_order)?,
            instrument_id,
            client_order_id: 0,
            executed_time: notice.timestamp,
        };
        Some(execution.into())
    }

    fn quote(&self, quote: &QuoteNotice) -> Option<Vec<CtxMessage>> {
        let bid = (decimal(&quote.best_bid_price), decimal(&quote.best_bid_amount));
        let offer = (decimal(&quote.best_ask_price), decimal(&quote.best_ask_amount));
        Some(vec![best_bid_offer(self.instrument_id, bid, offer)?])
    }

    fn session(&mut self, notice: &SessionNotice) -> Vec<CtxMessage> {
        self.is_call = notice.session.ends_with("_auction");
        vec![symbol_status(self.instrument_id, &notice.session, &notice.reason)]
    }
}

/// Channel of a message about an instrument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Orders,
    Quotes,
    Sessions,
}

async fn subscribe(venue: &VenueConnection, name: &str) -> Result<[Subscription; 3], Error> {
    Ok([
        venue.subscribe(&format!("session.{name}")).await?,
        venue.subscribe(&format!("orders.{name}.raw")).await?,
        venue.subscribe(&format!("quote.{name}")).await?,
    ])
}

/// Sends the public data of an instrument to the connected member until the task is aborted.
pub(super) async fn follow_market(sink: Arc<dyn PublicSink>, name: String, instrument_id: u32) {
    let [mut sessions, mut orders, mut quotes] = match subscribe(sink.venue(), &name).await {
        Ok(subscriptions) => subscriptions,
        Err(error) => {
            let rejection = error.into();
            return sink.refuse(Refusal { request_id: 0, template_id: 0, rejection });
        }
    };
    let mut public = PublicData { instrument_id, displayed: BTreeMap::new(), is_call: false };
    loop {
        let (channel, event) = tokio::select! {
            event = sessions.next() => (Channel::Sessions, event),
            event = orders.next() => (Channel::Orders, event),
            event = quotes.next() => (Channel::Quotes, event),
        };
        let messages = match event {
            SubscriptionEvent::Notice(notice) => public_messages(&mut public, channel, notice.data.get()),
            // A new snapshot of the orders replaces the displayed ones.
            SubscriptionEvent::Lost { .. } => {
                if channel == Channel::Orders && orders.refresh().await.is_err() {
                    return;
                }
                continue;
            }
            SubscriptionEvent::Restarted => continue,
            SubscriptionEvent::Ended { .. } => return,
        };
        match messages {
            Ok(messages) => sink.push(frames(0, messages)),
            Err(error) => warn!(name, error, "cannot send public data to a member of CoinTossX"),
        }
    }
}

fn public_messages(public: &mut PublicData, channel: Channel, json: &str) -> Result<Vec<CtxMessage>, String> {
    let garbled = |error: serde_json::Error| error.to_string();
    let messages = match channel {
        Channel::Orders => public.orders(&serde_json::from_str(json).map_err(garbled)?),
        Channel::Quotes => public.quote(&serde_json::from_str(json).map_err(garbled)?),
        Channel::Sessions => Some(public.session(&serde_json::from_str(json).map_err(garbled)?)),
    };
    messages.ok_or_else(|| format!("a number does not fit: {json}"))
}
