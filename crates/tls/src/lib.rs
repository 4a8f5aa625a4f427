//! TLS records to bytes and back for a server, and whose certificate it shows. No sockets, no files.
//!
//! Does        handshakes, decryption of what was read, encryption of what is to be sent; tickets, so that who has been here
//!             comes back cheaply; certificates from PEM texts, or made here for one venue.
//! Holds       1. of what a peer sent, less than one record is kept between two calls;
//!             2. nothing to be sent is kept at all: records go to whoever called, who writes them;
//!             3. a certificate that is out of date, or not the key's, is refused by name before anybody is served.
//! Leaves out  sockets and files, in edge; the time, an argument. Kernel TLS: where a kernel has it, [`Session`] is the place
//!             to hand it the secrets.
//! Costs       about two kilobytes a connection; a full handshake about as much as thirty megabytes sent.
//! Start at    [`Session`], then [`given`] and [`made_by`].

mod certificate;
mod der;
mod session;

pub use certificate::{Authority, Flaw, given, made_by};
pub use rustls::ServerConfig;
pub use session::{Fault, Session};
