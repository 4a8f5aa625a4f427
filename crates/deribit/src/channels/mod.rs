//! Public channels: each message is encoded once, stored in a ring, and read through cursors.
//!
//! Does        turns events into the messages of public channels and of the drop copy, once for all
//!             subscribers.
//! Holds       1. a book message's `prev_change_id` is the `change_id` of the message before it;
//!             2. appended messages are invisible until [`PublicChannels::release`], which the host
//!                calls after the commit;
//!             3. a slow reader costs nothing while it lags: its cursor is overrun, see
//!                [`LagPolicy`]. The work to catch up when it reads again is bounded per turn.
//! Leaves out  sockets, private channels.
//! Costs       one encoding per message of a channel with subscribers; nothing for other channels.
//! Start at    [`PublicChannels::observe`], then `ring`.

mod copies;
mod cross_instrument;
mod feed;
mod level_history;
mod levels;
mod missed;
mod order_events;
mod publisher;
mod state_channels;
mod subscribe;

pub use copies::ChannelMessage;
pub use feed::{ChannelCursor, MissedChange, Overrun};
pub use pitwire_delivery::{ChannelId, LagPolicy};
pub use publisher::PublicChannels;
pub use subscribe::SubscriptionStart;
