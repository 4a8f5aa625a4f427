//! Public channels: each event encoded once, rings of ready frames, cursors.
//!
//! Does        turn events into the messages of public channels and of the drop copy, once for all subscribers.
//! Holds       1. a book channel's `prev_change_id` is the `change_id` of its message before;
//!             2. what is appended is invisible until [`Publisher::release`], which the host calls once it is durable;
//!             3. a reader who falls behind costs nobody anything while it does: its cursor is overrun, see [`Lag`]. What
//!                it is told once it reads again is made in bounded parts of a turn.
//! Leaves out  sockets, private channels.
//! Costs       one encoding per message of a channel that somebody subscribes to; none otherwise.
//! Start at    [`Publisher::observe`], then `ring`.

mod across;
mod feed;
mod lent;
mod levels;
mod lines;
mod merge;
mod publisher;
mod resume;
mod ring;
mod subscribe;

pub use feed::{Lag, Merged};
pub use lent::Lent;
pub use publisher::{FeedId, Publisher};
pub use ring::{Cursor, Overrun, Ring};
pub use subscribe::Subscribed;
