//! The real clock, sockets and event loop.
//!
//! Does        everything that touches the machine, so that nothing else has to.
//! Leaves out  what is served: the loop knows an [`Application`], not a venue.
//! Start at    [`Server::run`].

mod application;
mod clock;
mod connection;
mod crowd;
mod doorkeeper;
mod doors;
pub mod event_loop;
mod http;
mod idle;
mod limits;
mod link;
mod notices;
mod server;
mod signals;
mod turn;
mod waker;

pub use application::{Application, Closing, ConnectionId, Refusal, Residence, Taken};
pub use clock::SystemClock;
pub use http::{Headers, HttpRequest, HttpResponse};
pub use idle::IdleStrategy;
pub use limits::Limits;
pub use notices::Notices;
pub use pitwire_tls::{ServerConfig, Session};
pub use pitwire_websocket::CloseCode;
pub use server::Server;
pub use signals::stop_signals;
pub use waker::Waker;
