//! The order-by-order feed over a network: two UDP lines, recovery over TCP, and a reader.
//!
//! Does        send the feed of a venue on lines A and B; answer requests for missed messages and
//!             for snapshots; receive both lines, fill gaps and rebuild the books.
//! Holds       1. the venue thread never waits for a reader or a socket: when the feed thread is
//!                behind, messages are dropped, and the state of all books follows;
//!             2. queues, rings, snapshots and connections have bounds, and each drop is counted;
//!             3. a reader delivers every message once and in order, or joins again by a snapshot.
//! Leaves out  the messages: `order-feed`. Encryption and logins: the feed is public.
//! Start at    [`OrderFeed`] for the venue, [`FeedReader`] for readers; `docs/order-feed.md`.

#![warn(clippy::missing_errors_doc)]

mod arbiter;
mod counters;
mod feed_state;
mod feed_thread;
mod glimpse_client;
mod glimpse_server;
#[doc(hidden)]
pub mod hostile;
mod order_feed;
mod packet_encoder;
mod rate_limit;
mod reader;
mod recovery_client;
mod recovery_server;
mod request_client;
mod request_server;
mod served_client;
mod snapshot;

pub use arbiter::{FeedMessage, LineCounts, ReaderCounts};
pub use feed_thread::{FeedAddresses, RecoveryPort};
pub use order_feed::OrderFeed;
pub use pitwire_order_feed::FeedEncoding;
pub use reader::{FeedReader, ReaderError, ReaderOptions};
