//! Limits on a peer: sizes, times, and the number of its connections.
//!
//! Start at    [`Limits`].

use pitwire_websocket::MessageLimits;

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
    /// Time in nanoseconds in which a peer has to read 64 KiB of its answers, or all of them if
    /// they are shorter. A connection that takes longer is closed.
    pub unread_ns: u64,
    /// Most bytes that wait in the outboxes of one payer, such as an account. Its connections with
    /// unread bytes then wait with their requests, and above twice as many all of them.
    pub outbox_bytes_per_payer: usize,
    /// Most bytes that wait in all outboxes. Above it, the connections with the most unread bytes
    /// are closed.
    pub outbox_bytes: usize,
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
            unread_ns: 30_000_000_000,
            outbox_bytes_per_payer: 8 * 1024 * 1024,
            outbox_bytes: 128 * 1024 * 1024,
            connections: None,
            connections_per_address: None,
            // Clients with built-in hosts reach a venue under these through a hosts file.
            hosts: ["test.deribit.com", "www.deribit.com", "pitwire.local"].map(String::from).into(),
        }
    }
}
