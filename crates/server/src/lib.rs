//! The server of `pitwire up`: the venue, its dialects and its market data behind one event loop.
//!
//! Does        give requests to the dispatcher, venue time to the venue, and committed events to
//!             subscribers.
//! Holds       no answer, notice or public message leaves before the commit of what caused it,
//!             unless early market data was asked for.
//! Leaves out  sockets and the event loop itself: `crates/net`. Arguments and printing:
//!             `crates/pitwire`.
//! Start at    [`VenueApplication`], then [`VenueService`].

mod account_listeners;
mod answer_delivery;
pub mod api_route;
mod application;
mod bus;
mod client_connection;
mod delivery_context;
pub mod delivery_threads;
mod health;
mod heartbeats;
mod limits;
mod long_answers;
mod metrics;
mod page;
mod private_delivery;
mod private_events;
mod private_windows;
mod public_connections;
mod resume;
mod server_latency;
mod service;
mod simulations;
mod streams;
mod unread;
mod vault;
mod waiting_texts;
mod window_sends;

pub use application::{VenueApplication, venue_time};
pub use bus::Bus;
pub use limits::{connection_limits, request_limits};
pub use service::{MarketData, ServiceOptions, VenueService};
pub use simulations::{RunBounds, Simulations};
pub use streams::with_notes;
pub use vault::{SealedVault, StoredCredentials, VAULT_FILE, default_key_file};
