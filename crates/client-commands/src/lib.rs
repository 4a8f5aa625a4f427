//! Commands that are clients of a venue: their options, login and output.
//!
//! Does        parses the options of `pitwire trade` and `pitwire operator`, calls the venue, and
//!             prints tables or JSON.
//! Holds       a number is printed as the venue wrote it.
//! Start at    [`trade::Trade::run`], [`operator::Operator::run`], [`reach::Reach::open`], and for
//!             other crates [`reach::VenueOptions`] and [`confirmation::ConfirmationBound`].

pub mod confirmation;
pub mod operator;
mod order_arguments;
pub mod reach;
mod show;
pub mod trade;
