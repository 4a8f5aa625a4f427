//! The tests of `tls.rs` with the io_uring loop. They fail on a machine that does not allow
//! io_uring, which `pitwire doctor` reports.

#[path = "tls.rs"]
mod tls;
