//! TLS sessions for servers and clients without sockets, and their certificates.
//!
//! Does        Handshakes, decrypts received records, encrypts sent data, and resumes
//!             sessions with tickets. Reads certificates from PEM files or issues them.
//! Holds       1. Less than one record of received bytes is kept between two calls.
//!             2. Nothing to be sent is kept: the caller gets the records and writes them.
//!             3. A certificate that is out of date, or does not match its key, is refused by name
//!                before a client is served.
//! Leaves out  Sockets. Kernel TLS: [`TlsSession`] is the place to pass the secrets to the kernel.
//! Costs       About two kilobytes per connection. A full handshake costs about as much CPU time as
//!             30 MB of sent data.
//! Start at    [`ServerSession`] and [`ClientSession`], then [`server_config`], [`client_config`].

mod blocking;
mod certificate;
mod client;
mod provider;
mod regular_file;
pub mod server_certificate;
mod session;

pub use blocking::TlsStream;
pub use certificate::{Authority, CertificateError, issue_server_config, server_config};
pub use client::{Tickets, Trust, client_config};
pub use regular_file::open_regular;
pub use rustls::{ClientConfig, Error as TlsError, ServerConfig};
/// The session of a server.
pub type Session = ServerSession;
pub use session::{ClientSession, ProcessError, ServerSession, TlsSession, TlsSide};
