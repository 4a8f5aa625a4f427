//! All that holds of the loop on epoll, on io_uring. A machine that does not allow it fails these:
//! `pitwire doctor` says so.

#[path = "live.rs"]
mod live;
