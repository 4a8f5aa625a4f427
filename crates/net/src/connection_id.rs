//! The name of a connection.

/// Names one connection for as long as it lives. A later connection never gets the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);
