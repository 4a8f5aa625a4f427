//! The calls of a trader, under the dialect's method names. Every venue of the dialect supports
//! them.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Error, Number, VenueConnection};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Buy,
    Sell,
}

/// Parameters of a new order. An order without a `price` is a market order.
#[derive(Debug)]
pub struct NewOrder<'a> {
    pub instrument: &'a str,
    pub amount: &'a Number,
    pub price: Option<&'a Number>,
    /// Time in force in the dialect's spelling, such as `good_til_cancelled`.
    pub time_in_force: Option<&'a str>,
    pub post_only: bool,
    pub reduce_only: bool,
    pub label: Option<&'a str>,
}

#[derive(Serialize)]
struct OrderReply<'a> {
    instrument_name: &'a str,
    amount: &'a Number,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<&'a Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_in_force: Option<&'a str>,
    // Flags that are not set are omitted, because a venue may refuse a flag that it does not know.
    #[serde(skip_serializing_if = "is_unset")]
    post_only: bool,
    #[serde(skip_serializing_if = "is_unset")]
    reduce_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_unset(flag: &bool) -> bool {
    !flag
}

/// Selects the orders of a mass cancel.
#[derive(Clone, Copy, Debug)]
pub enum Cancel<'a> {
    All,
    Instrument(&'a str),
    Currency(&'a str),
    Label(&'a str),
}

#[derive(Serialize)]
struct InstrumentReply<'a> {
    instrument_name: &'a str,
}

#[derive(Serialize)]
struct Nothing {}

impl VenueConnection {
    /// Enters an order. Returns the venue's answer with the order and its trades.
    ///
    /// # Errors
    ///
    /// Fails as [`VenueConnection::call`] does.
    pub fn enter(&mut self, side: Side, order: &NewOrder<'_>) -> Result<Box<RawValue>, Error> {
        let entry = OrderReply {
            instrument_name: order.instrument,
            amount: order.amount,
            r#type: if order.price.is_some() { "limit" } else { "market" },
            price: order.price,
            time_in_force: order.time_in_force,
            post_only: order.post_only,
            reduce_only: order.reduce_only,
            label: order.label,
        };
        let method = match side {
            Side::Buy => "private/buy",
            Side::Sell => "private/sell",
        };
        self.call(method, &entry)
    }

    pub fn edit(&mut self, order_id: &str, amount: &Number, price: &Number) -> Result<Box<RawValue>, Error> {
        #[derive(Serialize)]
        struct Edit<'a> {
            order_id: &'a str,
            amount: &'a Number,
            price: &'a Number,
        }
        self.call("private/edit", &Edit { order_id, amount, price })
    }

    /// Cancels an order. Returns the cancelled order.
    ///
    /// # Errors
    ///
    /// Fails as [`VenueConnection::call`] does.
    pub fn cancel(&mut self, order_id: &str) -> Result<Box<RawValue>, Error> {
        #[derive(Serialize)]
        struct Order<'a> {
            order_id: &'a str,
        }
        self.call("private/cancel", &Order { order_id })
    }

    /// Cancels the selected orders. Returns the number of cancelled orders.
    ///
    /// # Errors
    ///
    /// Fails as [`VenueConnection::call`] does.
    pub fn cancel_all(&mut self, which: Cancel<'_>) -> Result<Box<RawValue>, Error> {
        match which {
            Cancel::All => self.call("private/cancel_all", &Nothing {}),
            Cancel::Instrument(instrument_name) => {
                self.call("private/cancel_all_by_instrument", &InstrumentReply { instrument_name })
            }
            Cancel::Currency(currency) => {
                #[derive(Serialize)]
                struct Currency<'a> {
                    currency: &'a str,
                }
                self.call("private/cancel_all_by_currency", &Currency { currency })
            }
            Cancel::Label(label) => {
                #[derive(Serialize)]
                struct Label<'a> {
                    label: &'a str,
                }
                self.call("private/cancel_by_label", &Label { label })
            }
        }
    }

    pub fn open_orders(&mut self, instrument: Option<&str>) -> Result<Box<RawValue>, Error> {
        match instrument {
            Some(instrument_name) => {
                self.call("private/get_open_orders_by_instrument", &InstrumentReply { instrument_name })
            }
            None => self.call("private/get_open_orders", &Nothing {}),
        }
    }

    pub fn book(&mut self, instrument_name: &str, depth: u32) -> Result<Box<RawValue>, Error> {
        #[derive(Serialize)]
        struct BookReply<'a> {
            instrument_name: &'a str,
            depth: u32,
        }
        self.call("public/get_order_book", &BookReply { instrument_name, depth })
    }

    pub fn positions(&mut self) -> Result<Box<RawValue>, Error> {
        self.call("private/get_positions", &Nothing {})
    }

    pub fn summaries(&mut self) -> Result<Box<RawValue>, Error> {
        self.call("private/get_account_summaries", &Nothing {})
    }

    /// Subscribes to channels. A channel that begins with `user.` requires a login.
    ///
    /// # Errors
    ///
    /// Fails as [`VenueConnection::call`] does.
    pub fn subscribe(&mut self, channels: &[String]) -> Result<Box<RawValue>, Error> {
        #[derive(Serialize)]
        struct Channels<'a> {
            channels: &'a [String],
        }
        let is_private = channels.iter().any(|channel| channel.starts_with("user."));
        self.call(if is_private { "private/subscribe" } else { "public/subscribe" }, &Channels { channels })
    }
}
