//! Trading client of the JSON-RPC dialect: asynchronous, typed, and able to resume after a cut.
//!
//! Does        opens a WebSocket to any venue of the dialect, logs in by signature, sends calls,
//!             follows channels and books, and reconnects.
//! Holds       1. A price or an amount stays the text that the user wrote, up to the wire. Received
//!                numbers are exact decimals and never floats.
//!             2. A secret comes from the environment or from a file that only its owner can read.
//!                It signs the login and is never sent, and no message contains it.
//!             3. A missing answer is never reported as a refusal, because the order may have been
//!                accepted.
//!             4. Memory is bounded: a full subscription discards its oldest messages and reports
//!                how many.
//! Leaves out  repeating an order after a lost answer: only a query can tell whether it exists.
//! Start at    [`VenueConnection::open`], then [`BookSubscription::open`] and [`Trader::open`].
//!
//! A [`Trader`] has a connection for its orders alone. Use another connection for market data, so
//! that a flood of data delays no order. An [`OrderPool`] divides orders among several connections.
//! A [`CallPipeline`] sends many calls without waiting for their answers.
//!
//! ```no_run
//! use pitwire_client::{BookEvent, BookSubscription, Settings, VenueConnection};
//!
//! # async fn example() -> Result<(), pitwire_client::Error> {
//! let data = VenueConnection::open(Settings::new("ws://127.0.0.1:8080/ws/api/v2")).await?;
//! let mut book = BookSubscription::open(&data, "book.BTC_USDC.100ms").await?;
//! while let BookEvent::Snapshot | BookEvent::Changed = book.next().await? {
//!     println!("{:?} {:?}", book.book().bids().next(), book.book().asks().next());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! An order whose answer is lost is unknown until the trader has found out:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use pitwire_client::{Credentials, EntryState, OrderRequest, OrderType, Settings, Side, Trader};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let credentials = Some(Credentials::find()?);
//! let settings = Settings { credentials, ..Settings::new("ws://127.0.0.1:8080/ws/api/v2") };
//! let trader = Trader::open(settings, Duration::from_secs(5)).await?;
//! let limit = OrderType::Limit { price: "59000".parse()? };
//! let mut order = OrderRequest::new(Side::Buy, "BTC_USDC", "0.25".parse()?, limit);
//! match trader.enter(&mut order).await {
//!     Ok(outcome) => println!("{} is {}", outcome.order.order_id, outcome.order.order_state),
//!     Err(error) if error.had_no_effect() => println!("not entered: {error}"),
//!     Err(_) => match trader.resolve(&order.label.unwrap_or_default()).await {
//!         Some(EntryState::Entered { order_id }) => println!("{order_id} was entered"),
//!         _ => println!("not entered"),
//!     },
//! }
//! # Ok(())
//! # }
//! ```

mod book;
mod book_subscription;
mod command;
mod connection;
mod credentials;
mod decimal;
mod driver;
mod error;
mod message;
mod number;
mod objects;
mod order_pool;
mod order_tracker;
mod orders;
mod pause;
mod pipeline;
mod queue;
mod settings;
mod trader;
mod transport;

pub use book::{BookFault, BookUpdate, OrderBook};
pub use book_subscription::{BookEvent, BookSubscription};
pub use command::PipelinedAnswer;
pub use connection::{Subscription, VenueConnection};
pub use credentials::{CredentialError, Credentials};
pub use decimal::Value;
pub use driver::ConnectionState;
pub use error::{Error, VenueError};
pub use number::Number;
pub use objects::{Fill, Order, OrderOutcome, Position};
pub use order_pool::{OrderPool, Routing};
pub use order_tracker::EntryState;
pub use orders::{
    Cancel, EditRequest, OrderParams, OrderRequest, OrderType, PostOnly, Side, TimeInForce, TriggerPrice,
};
pub use pipeline::CallPipeline;
pub use queue::{Notice, SubscriptionEvent};
pub use settings::{Reconnect, Settings};
pub use trader::Trader;
pub use transport::Traffic;
