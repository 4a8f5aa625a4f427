//! The rules of `loop.rs`, on epoll.

#[path = "loop.rs"]
mod on_epoll;
