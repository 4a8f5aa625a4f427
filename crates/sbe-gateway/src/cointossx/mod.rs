//! The CoinTossX profile: its messages in front of the same sessions.
//!
//! Does        translates the messages of CoinTossX's clients to requests of the sessions, and the
//!             answers and reports to messages of CoinTossX; sends public data on request.
//! Holds       1. every message of a client has an answer: a report, an acknowledgement or a
//!                reject with a name;
//!             2. a number has the width of its field; what does not fit is refused by name, or
//!                counts as a lost report.
//! Leaves out  the rules of orders, which are those of the dialect.
//! Start at    `CoinTossXProfile`; `docs/cointossx-profile.md` describes the protocol.

mod member_session;
mod members;
mod messages;
mod profile;
mod public_data;
mod reports;
mod requests;

pub use members::{CtxMembers, MemberFileError};
pub use messages::*;
pub(crate) use profile::CoinTossXProfile;
pub use public_data::CtxPublicData;
