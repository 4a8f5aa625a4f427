//! A relay in front of a venue: faults on a script, and subscriptions served on to local clients.
//!
//! Does        stands between any client and a venue, and delays, drops, doubles, reorders and cuts
//!             their messages and connections; or subscribes to channels of a venue once and serves
//!             them on to local clients.
//! Holds       1. a fault depends only on the script, its seed, and the number of the connection
//!                and the message; never on time;
//!             2. a message without a fault passes unchanged, byte by byte;
//!             3. memory per connection is bounded: a reader that stops also stops its sender.
//! Leaves out  compression: the relay removes the offer of a client, because a dropped message
//!             would spoil those behind it.
//! Start at    [`Relay`], the command; [`FaultProxy::start`].

mod command;
mod faults;
mod front;
mod serving;
mod upstream;

pub use command::Relay;
pub use faults::{FaultCounts, FaultProxy};
pub use pitwire_fault_script::{FaultScript, Injector};
pub use upstream::{Upstream, UpstreamSocket};
