//! The subcommands: one module each, with its arguments and its output.

mod arguments;
pub mod backup;
pub mod bars;
mod data_directory;
pub mod decode;
pub mod doctor;
pub mod engine_bench;
pub mod explain;
pub mod export;
pub mod feed_bench;
pub mod feed_check;
pub mod gateway;
mod idle;
pub mod journal_bench;
pub mod load;
pub mod order_bench;
pub mod publish;
pub mod scenario;
pub mod shell;
pub mod split;
pub mod tape;
pub mod up;
pub mod verify;
