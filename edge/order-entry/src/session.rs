//! One connection's memory: who it is and which private channels it hears.

use pitwire_jsonrpc::{Channel, Interval};
use pitwire_model::OrderId;

pub use crate::auth::Login;

#[derive(Debug)]
pub struct PrivateSubscription {
    /// As the client wrote it; notifications carry it back.
    pub name: String,
    pub channel: Channel,
    /// What a merged channel will tell at the next window: orders by id, or ready trade objects.
    pub(crate) orders: Vec<OrderId>,
    pub(crate) trades: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Session {
    pub login: Option<Login>,
    pub(crate) private: Vec<PrivateSubscription>,
}

impl Session {
    pub fn new() -> Self {
        Self::default()
    }

    /// For an HTTP request, which is a session of one call.
    pub fn logged_in(login: Login) -> Self {
        Session { login: Some(login), private: Vec::new() }
    }

    /// Whether any private channel is open: most sessions need not be looked at after a command.
    pub fn listens(&self) -> bool {
        !self.private.is_empty()
    }

    pub(crate) fn subscribe_private(&mut self, name: &str, channel: Channel) {
        if self.private.iter().all(|sub| sub.name != name) {
            self.private.push(PrivateSubscription {
                name: name.to_owned(),
                channel,
                orders: Vec::new(),
                trades: Vec::new(),
            });
        }
    }

    pub(crate) fn unsubscribe_private(&mut self, name: &str) {
        self.private.retain(|sub| sub.name != name);
    }

    /// Whether a merged private channel waits for the end of its window.
    pub(crate) fn waits_for(&self, interval: Interval) -> bool {
        self.private
            .iter()
            .any(|sub| sub.channel.interval() == interval && !(sub.orders.is_empty() && sub.trades.is_empty()))
    }
}
