//! Order gateways: sessions, logins and throttles at the edge, the orders of a client id, or of all
//! clients, over one connection to the venue.
//!
//! Does        accepts clients of the JSON-RPC dialect, refuses malformed and excessive requests,
//!             and forwards the others, over one connection for all clients of a client id, or
//!             over one for all clients.
//! Holds       1. a private request reaches the venue only with a login, and only as the account of
//!                that login;
//!             2. the gateway never repeats a request, so it enters no order twice; a request whose
//!                answer it cannot deliver ends the client's connection;
//!             3. a gateway that has lost the venue closes its clients, and accepts none until the
//!                venue is back, so that a balancer sends them elsewhere;
//!             4. no request waits at the venue for one of another client id, unless all clients
//!                share a connection;
//!             5. memory per client is bounded: a client that does not read is closed;
//!             6. one thread serves all connections, and nothing in it blocks while clients are
//!                connected.
//! Leaves out  TLS towards clients, which the balancer adds; state of any kind that would have to
//!             outlive a gateway.
//! Start at    [`OrderGateway::run`]; `docs/order-gateways.md` describes the setup.

mod command;
mod edge;
mod gateway;
mod link;
mod links;
mod login_pace;
mod members;
mod request;
mod session;
mod throttle;
mod timers;

pub use command::OrderLimits;
pub use edge::GatewayFigures;
pub use gateway::{GatewayOptions, OrderGateway};
pub use members::SharedConnection;
pub use throttle::Rate;
