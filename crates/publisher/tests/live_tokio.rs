//! All that holds of the loop on epoll, on tokio.

#[path = "live.rs"]
mod live;
