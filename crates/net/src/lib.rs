//! The network layer: event loops, listeners, TLS, HTTP requests, WebSockets and origin policy.
//!
//! Does        accepts connections and serves an [`Application`] over them.
//! Leaves out  the application: the loop knows an [`Application`], not a venue.
//! Start at    [`Server::run`] or [`ServerThread::start`]; for a thread with its own connections,
//!             [`event_loop::EventLoop`]; for a client of one feed, [`dial`]; for connections that
//!             an application opens, [`Notices::connect`].

mod accept_queue;
mod admission;
mod application;
mod client_socket;
mod clock;
mod connection;
mod connection_id;
mod connection_table;
mod context;
mod dial;
pub mod event_loop;
mod handoff;
mod http;
mod idle;
mod limits;
pub mod listen_options;
pub mod local_addresses;
mod loop_thread;
mod notices;
mod origin;
mod outbox_budget;
mod outgoing;
mod quota;
pub mod ready_file;
mod server;
mod server_loop;
mod server_thread;
mod signals;
mod stream;
mod tls_acceptor;
mod transport;
mod turn;
mod waker;
mod write_lists;

pub use application::{Application, CloseReason, Refusal, ServerLatency};
pub use client_socket::{ClientSocket, ClientSocketError, ReadOutcome, WaitOutcome, wait};
pub use clock::{SystemClock, monotonic_ns};
pub use connection_id::ConnectionId;
pub use dial::{ConnectError, DialOptions, OpenConnection, dial};
pub use handoff::Handoff;
pub use http::{Headers, HttpRequest, HttpResponse};
pub use idle::IdleStrategy;
pub use limits::Limits;
pub use loop_thread::start_loop_thread;
pub use notices::Notices;
pub use origin::{OriginPolicy, PageOrigin, UnknownHost};
pub use pitwire_tls::{ServerConfig, Session};
pub use pitwire_websocket::CloseCode;
pub use server::Server;
pub use server_thread::ServerThread;
pub use signals::{report_file_size_limit, stop_flag, stop_signals};
pub use stream::{Receipt, Stream};
pub use transport::{MessageTransport, TRANSPORT_LISTENER};
pub use waker::Waker;
