//! Commands that are clients of a venue: their options, login and output.
//!
//! Does        parses the options of `pitwire trade`, calls the venue, and prints tables or JSON.
//! Holds       a number is printed as the venue wrote it.
//! Leaves out  the commands of operators, which the binary has.
//! Start at    [`trade::Trade::run`], [`reach::Reach::open`], and for other crates
//!             [`reach::VenueOptions`] and [`confirmation::ConfirmationBound`].

pub mod confirmation;
mod order_arguments;
pub mod reach;
mod show;
pub mod trade;
