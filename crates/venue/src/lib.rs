//! Engine, schedule, projections and journal behind one API: submit, step, commit, query.
//!
//! Does        number, time, log and apply commands; run what is due by itself; recover a data
//!             directory; keep its snapshots and segments; look up explanations in the log.
//! Holds       1. nothing may leave the process before the commit of the command that caused it;
//!             2. a replay of the log produces the same events, to the byte;
//!             3. a command that makes the engine panic is quarantined and the venue goes on.
//! Leaves out  clients, connections and market data: `crates/server`.
//! Start at    [`recover`], [`Venue::submit`], [`Venue::step`], [`Venue::commit`].

mod backup;
mod clock;
mod clock_check;
mod disk_space;
mod event_queue;
mod explain_service;
mod guard;
mod log_backend;
mod maintenance;
mod observer;
mod quarantine;
mod read_ahead;
mod recovery;
mod replay;
mod replay_pipeline;
mod sequencer;
mod startup;
mod venue;

pub use backup::{Manifest, back_up, restore};
pub use clock::VenueClock;
pub use clock_check::{ClockRelation, check_clock};
pub use event_queue::{DueEvent, EventQueue};
pub use explain_service::{ExplainAnswer, ExplainService, LogExplanation, explain};
#[cfg(debug_assertions)]
pub use guard::POISON;
pub use guard::{EnginePanic, refusal};
pub use log_backend::LogBackend;
pub use maintenance::{Maintenance, Retention, capture_snapshot, replicate_snapshot};
pub use observer::EventObserver;
pub use pitwire_disk::DiskUsage;
pub use pitwire_flow_models::FlowSource;
pub use recovery::{RecoveredVenue, inspect_settled, journal_config, recover, recover_with_progress};
pub use replay::{Replay, ReplayError, ReplayProgress, report_progress};
pub use sequencer::Sequencer;
pub use startup::{StartOptions, start_epoch, warm_up};
pub use venue::Venue;
