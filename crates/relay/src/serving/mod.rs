//! Subscriptions of a venue, served on to local clients.

mod binance;
mod channel;
mod deribit;
mod feed_event;
mod form;
mod handler;
mod server;

pub use form::Form;
pub use server::{RelayServer, ServeOptions};
