//! What a venue and its gateways say to one another: numbered batches, questions, answers, each under a MAC.
//!
//! Does        lay out batches of public messages as bytes and read them back; sign questions and check them; seal answers.
//! Holds       1. nothing that is read here was written without the key: a MAC covers purpose and content, and is compared in
//!                constant time;
//!             2. a batch that parses is whole: as many messages as it says, and nothing behind them;
//!             3. an answer belongs to one question: its purpose is the question's nonce.
//! Leaves out  sockets; what a gap means: see `crates/gateway`.
//! Start at    [`Key`], then [`Batch`].

mod batch;
mod bytes;
mod key;
mod question;
mod reply;

pub use batch::{Batch, Message, Writer, mark};
pub use key::{Key, MAC_BYTES};
pub use question::{Question, Refused, SKEW_MS};
pub use reply::{Outcome, Reply};
