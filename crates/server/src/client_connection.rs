//! A client of the venue thread: its session and its public channels.

use pitwire_deribit::Session;
use pitwire_deribit::channels::{ChannelCursor, ChannelId};
use pitwire_deribit::codec::{Channel, Interval};
use pitwire_model::AccountId;
use pitwire_net::ConnectionId;

use crate::service::MarketData;

/// Close reason of a slow subscriber, with code 1013.
pub(crate) const TOO_SLOW: &str = "too slow for this channel: reconnect and start from a snapshot";

pub(crate) struct ClientSubscription {
    pub name: String,
    pub feed: ChannelId,
    /// Read position while the connection is on the venue thread.
    pub cursor: ChannelCursor,
    /// The channel needs no login.
    pub is_open: bool,
    /// It is read on a delivery thread.
    pub is_away: bool,
    /// The subscriber may resume it.
    pub is_held: bool,
}

pub(crate) struct ClientConnection {
    pub session: Session,
    /// The account that its unread bytes count against.
    pub payer: Option<AccountId>,
    pub public: Vec<ClientSubscription>,
}

/// Ends a subscription. `others` are the remaining ones of the connection.
pub(crate) fn leave(
    id: ConnectionId,
    sub: &ClientSubscription,
    others: &[ClientSubscription],
    market_data: &mut MarketData,
) {
    let MarketData { publisher, public_connections, .. } = market_data;
    publisher.unsubscribe(sub.feed);
    if sub.is_away {
        // A channel may have several names.
        let is_last = others.iter().all(|other| other.feed != sub.feed || !other.is_away);
        public_connections.leave(id, sub.feed, is_last, publisher);
    }
}

pub(crate) fn leave_all(id: ConnectionId, public: &mut Vec<ClientSubscription>, market_data: &mut MarketData) {
    while let Some(sub) = public.pop() {
        leave(id, &sub, public, market_data);
    }
}

/// Returns whether a public channel is available without a login.
pub(crate) fn is_open(channel: &Channel) -> bool {
    channel.interval() != Interval::Raw && !matches!(channel, Channel::DropCopy { .. })
}

impl ClientConnection {
    /// Whether it only listens to public channels that need no login.
    pub fn is_listener(&self) -> bool {
        !self.public.is_empty() && self.public.iter().all(|sub| sub.is_open) && self.session.is_public_only()
    }
}
