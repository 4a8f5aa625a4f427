//! Output of commands on a terminal: lines, tables, help, live views and progress.
//!
//! Does        write lines without failing at a closed pipe, align and colour tables, lay out help
//!             texts, draw the statistics of a splitter and the progress of long commands.
//! Holds       colour codes are written to terminals only, and never with `NO_COLOR`.
//! Leaves out  what the lines say, which the commands and the crates of their domains decide.
//! Start at    [`output::say`] and [`text_table::TextTable`].

pub mod command_progress;
pub mod help_layout;
pub mod load_progress;
pub mod output;
pub mod rate_lines;
pub mod split_view;
pub mod text_table;
