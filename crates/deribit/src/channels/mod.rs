//! Public channels: each event encoded once, rings of ready frames, cursors.
//!
//! Does        turn events into the messages of public channels and of the drop copy, once for all subscribers.
//! Holds       1. a book channel's `prev_change_id` is the `change_id` of its message before;
//!             2. what is appended is invisible until [`PublicChannels::release`], which the host calls once it is durable;
//!             3. a reader who falls behind costs nobody anything while it does: its cursor is overrun, see [`LagPolicy`]. StateKind
//!                it is told once it reads again is made in bounded parts of a turn.
//! Leaves out  sockets, private channels.
//! Costs       one encoding per message of a channel that somebody subscribes to; none otherwise.
//! Start at    [`PublicChannels::observe`], then `ring`.

mod copies;
mod cross_instrument;
mod feed;
mod level_history;
mod levels;
mod missed;
mod publisher;
mod state_channels;
mod subscribe;

pub use copies::ChannelMessage;
pub use feed::{ChannelCursor, FeedId, MissedChange, Overrun};
pub use pitwire_delivery::LagPolicy;
pub use publisher::PublicChannels;
pub use subscribe::Subscribed;
