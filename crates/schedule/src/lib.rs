//! Trading calendars, sessions, cron rules and the session scheduler.
//!
//! Does        compile schedule definitions into a calendar, and turn the calendar into timed
//!             commands.
//! Holds       1. an accepted schedule orders the sessions of each day without gaps or overlaps;
//!             2. times of day are local to the venue's time zone, also on days when clocks change;
//!             3. an idle market has no timer except those of its schedule, so an idle venue writes
//!                no log.
//! Leaves out  what a session permits: `contracts/rules`. The session that runs: the engine knows
//!             it.
//! Start at    [`TimerQueue::take`], then [`compile`].

mod calendar;
mod compiler;
mod definitions;
mod instrument_schedule;
mod instrument_view;
mod reporting_hours;
mod session_scheduler;
mod timer_queue;
mod venue_calendar;

pub use calendar::{Boundary, Calendar, ContinuousCalendar};
pub use compiler::{InstrumentMember, ScheduleInput, SegmentMember, compile, duration_ns};
pub use definitions::{CalendarDef, HoursDef, LineNumber, ScheduleDef, SessionDef};
pub use timer_queue::TimerQueue;
pub use venue_calendar::{RandomEnds, VenueCalendar, utc_offset_of};
