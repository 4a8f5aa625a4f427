//! Order gateways: sessions, logins and throttles at the edge, orders over one connection to the
//! venue.
//!
//! Does        accepts clients of the JSON-RPC dialect, refuses malformed and excessive requests,
//!             and forwards the others, of all clients, over one connection.
//! Holds       1. a private request reaches the venue only with a login, and only as the account of
//!                that login;
//!             2. the gateway never repeats a request, so it enters no order twice; a request whose
//!                answer it cannot deliver ends the client's connection;
//!             3. a gateway that has lost the venue closes its clients, and accepts none until the
//!                venue is back, so that a balancer sends them elsewhere;
//!             4. memory per client is bounded: a client that does not read is closed.
//! Leaves out  TLS towards clients, which the balancer adds; state of any kind that would have to
//!             outlive a gateway.
//! Start at    [`OrderGateway::run`]; `docs/order-gateways.md` describes the setup.

mod command;
mod edge;
mod feed;
mod gateway;
mod login;
mod outbox;
mod request;
mod session;
mod throttle;
mod uplink;

pub use command::OrderLimits;
pub use gateway::{GatewayFigures, GatewayOptions, OrderGateway};
pub use throttle::Rate;
