//! The trading client: the JSON-RPC dialect from the other side, one blocking call at a time.
//!
//! Does        open a WebSocket to any venue of the dialect, log in by signature, ask, and wait for the answer.
//! Holds       1. a price or an amount is the text that was given, from the command line to the wire: no floats;
//!             2. a secret is read from the environment or from a file that nobody else can read, is never sent (it
//!                only signs) and never appears in a message;
//!             3. an answer that did not come is never told as a refusal: the order may stand.
//! Leaves out  reconnecting and resending: after a lost answer only a question can tell what happened.
//! Start at    [`Connection::open`].

mod connection;
mod credentials;
mod error;
mod number;
mod orders;
mod stream;

pub use connection::{Connection, Notice, Target};
pub use credentials::{CredentialError, Credentials};
pub use error::{Error, VenueError};
pub use number::Number;
pub use orders::{Cancel, NewOrder, Side};
