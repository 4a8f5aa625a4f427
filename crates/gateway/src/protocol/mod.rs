//! The protocol between a venue and its gateways: numbered batches, questions and answers, each
//! with a MAC.
//!
//! Does        Encodes and parses batches of public messages. Signs and checks questions. Seals
//!             answers.
//! Holds       1. Everything parsed here was written with the key: a MAC covers purpose and content
//!                and is compared in constant time.
//!             2. A batch that parses is complete: it has as many messages as it says, and nothing
//!                after them.
//!             3. An answer belongs to one question, because its purpose contains the question's
//!                nonce.
//! Leaves out  Sockets, and what to do about a gap.
//! Start at    [`BusKey`], then [`Batch`].

mod batch;
mod bytes;
mod key;
mod question;
mod reply;

pub use batch::{Batch, BatchWriter, Message, mark};
pub use key::{BusKey, MAC_BYTES};
pub use question::{Question, QuestionRefusal, SKEW_MS};
pub use reply::{Reply, ReplyOutcome};
