//! Trading client for the JSON-RPC dialect. Calls are blocking and run one at a time.
//!
//! Does        opens a WebSocket to any venue of the dialect, logs in by signature, sends calls and
//!             waits for answers.
//! Holds       1. A price or an amount stays the text that the user wrote, from the command line to
//!                the wire. It never
//!                becomes a float.
//!             2. A secret comes from the environment or from a file that only its owner can read.
//!                It signs the login
//!                and is never sent, and no message contains it.
//!             3. A missing answer is never reported as a refusal, because the order may have been
//!                accepted.
//! Leaves out  reconnecting and resending: after a lost answer only a query can tell whether the
//!             order exists.
//! Start at    [`VenueConnection::open`].

mod connection;
mod credentials;
mod error;
mod number;
mod orders;
mod stream;

pub use connection::{Notice, Target, VenueConnection};
pub use credentials::{CredentialError, Credentials};
pub use error::{Error, VenueError};
pub use number::Number;
pub use orders::{Cancel, NewOrder, Side};
