//! Limits on a peer: sizes, times, and the number of its connections.
//!
//! Start at    [`Limits`].

use pitwire_websocket::Limits as MessageLimits;

/// The limits of a server. The defaults bound what one peer can do; how many peers there are is
/// the operator's choice.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sizes of one frame and one message of a WebSocket.
    pub messages: MessageLimits,
    /// Time in nanoseconds to finish a handshake, a request or a fragmented message.
    pub unfinished_ns: u64,
    /// Idle timeout of a WebSocket in nanoseconds. Every frame counts as activity, a ping too.
    pub idle_ns: u64,
    /// Idle timeout of an HTTP connection that is kept alive, in nanoseconds.
    pub keep_alive_ns: u64,
    /// Most connections of the server; `None` leaves only the limit of open files.
    pub connections: Option<usize>,
    /// Most connections from one address; `None` disables the limit.
    pub connections_per_address: Option<u32>,
    /// Names besides loopback and the bound address under which clients reach this server.
    pub hosts: Vec<String>,
}

impl Limits {
    /// The default of `connections_per_address` where a configuration enables it.
    pub const CONNECTIONS_PER_ADDRESS: u32 = 32;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            messages: MessageLimits::default(),
            unfinished_ns: 5_000_000_000,
            idle_ns: 600_000_000_000,
            keep_alive_ns: 900_000_000_000,
            connections: None,
            connections_per_address: None,
            // Clients with built-in hosts reach a venue under these through a hosts file.
            hosts: ["test.deribit.com", "www.deribit.com", "pitwire.local"].map(String::from).into(),
        }
    }
}
