//! Applying a setup and beginning a new epoch.
//!
//! Holds       1. a directory whose setup has changed is opened only if the change was requested
//!                explicitly;
//!             2. every change is a journaled command; the file only remembers the setup that was
//!                applied last.

use pitwire_configuration::{Setup, house_accounts, setup_commands};
use pitwire_disk::DirectoryStorage;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_flow_models::FlowSource;
use pitwire_model::{AccountId, Command, Epoch, Event, FlowSetting, InstrumentId, VenueNanos};
use tracing::info;

use crate::replay::ReplayProgress;
use crate::venue::Venue;

/// The setup that was applied last, as JSON.
const APPLIED: &str = "configuration.json";

/// The options of a start.
pub struct StartOptions<'a> {
    pub setup: &'a Setup,
    /// The data directory, or `None` for a venue in memory.
    pub directory: Option<&'a DirectoryStorage>,
    pub apply_config: bool,
    pub with_flow: bool,
    pub flow: &'a FlowSource,
    /// Event rate of the flow, in percent of its default.
    pub flow_percent: u32,
    /// Settings of the flow by instrument name.
    pub instrument_flows: &'a [(String, FlowSetting)],
}

/// Applies the setup if it is new or if that was requested, and begins the next epoch at `now`.
///
/// # Errors
///
/// Returns a failure if the setup has changed and `apply_config` is not set, if the engine refuses
/// a definition, or if the log or the directory cannot be written.
pub fn start_epoch(venue: &mut Venue, options: &StartOptions<'_>, now: VenueNanos) -> Result<(), Failure> {
    bring(venue, options, now)?;
    let epoch = Epoch(venue.engine().epoch().0 + 1);
    venue.submit(now, Command::StartEpoch { epoch }, &mut ())?;
    // Run what came due while the venue was down, before any client is served.
    while venue.step(now, &mut ())? {}
    // The options of each start decide whether the flow runs. Operators may change that until the
    // next start.
    for (name, setting) in options.instrument_flows {
        let found = venue.engine().instrument_named(name).map(|market| market.spec.id);
        let instrument = found.ok_or_else(|| {
            Failure::usage(format!("--flow-rate {name}: no instrument is named {name:?}"))
                .remedy("public/get_instruments and the page list the names")
        })?;
        venue.set_instrument_flow(instrument, *setting);
    }
    if options.with_flow {
        define_flow(venue, options.flow, now)?;
    }
    let flow = FlowSetting { running: options.with_flow, rate_percent: options.flow_percent };
    venue.submit(now, Command::SetFlow(flow), &mut ())?;
    venue.commit()?;
    venue.clear_changes();
    Ok(())
}

/// Journals the definition of the flow, if it needs one.
fn define_flow(venue: &mut Venue, flow: &FlowSource, now: VenueNanos) -> Result<(), Failure> {
    if *flow == FlowSource::WITHOUT_DEFINITION {
        return Ok(());
    }
    // A flow from the command line that does not fit the venue stops the start.
    let config = flow.config(venue.engine(), house_accounts(venue.engine()))?;
    config.check(venue.engine()).map_err(|error| Failure::new(error.to_string()).remedy(error.remedy()))?;
    venue.submit(now, Command::DefineFlow { text: flow.text()?.into() }, &mut ())?;
    Ok(())
}

/// Most events of the order flow that a warm-up is planned to have. An event leads to two or three
/// commands and the journal allocates ahead, so the directory has about 50 MB.
const WARM_UP_EVENTS: f64 = 40_000.0;
/// Commands between two commits of a warm-up. No client waits for them.
const WARM_UP_COMMIT: usize = 8_192;
/// Commands between two reports of the progress of a warm-up.
const WARM_UP_REPORT: usize = 1_024;

/// Simulates trading from the venue's present time to `until`, before any client is served.
///
/// The resident flow has fewer events if its own rate would give more than [`WARM_UP_EVENTS`], and
/// the rate of `options` afterwards. Prices move as far as at that rate, so that the chart does not
/// change its character where the warm-up ends. Every command is journaled, so the warm-up replays
/// like the rest of the run. `progress` gets the simulated and the whole venue time, in
/// nanoseconds.
///
/// # Errors
///
/// Returns a failure if the log cannot be written.
pub fn warm_up(
    venue: &mut Venue,
    options: &StartOptions<'_>,
    until: VenueNanos,
    progress: ReplayProgress<'_>,
) -> Result<(), Failure> {
    let from = venue.now();
    #[allow(clippy::cast_precision_loss)]
    let seconds = until.0.saturating_sub(from.0) as f64 / 1e9;
    let planned = venue.flow_events_per_second() * seconds;
    if planned <= 0.0 {
        return Ok(());
    }
    // At least one percent; the rate is never higher than that of the preset.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let percent = (f64::from(options.flow_percent) * (WARM_UP_EVENTS / planned).min(1.0)) as u32;
    venue.set_flow_price_percent(Some(options.flow_percent));
    set_flow(venue, from, percent.max(1))?;
    let first = venue.last();
    let mut steps = 0_usize;
    while venue.step(until, &mut ())? {
        steps += 1;
        if steps.is_multiple_of(WARM_UP_REPORT) {
            progress(venue.now().0.saturating_sub(from.0), until.0.saturating_sub(from.0));
        }
        if steps.is_multiple_of(WARM_UP_COMMIT) {
            venue.commit()?;
            venue.clear_changes();
        }
    }
    venue.advance_to(until);
    venue.set_flow_price_percent(None);
    set_flow(venue, until, options.flow_percent)?;
    info!(commands = venue.last().0 - first.0, seconds, percent = percent.max(1), "simulated the past of a new venue");
    Ok(())
}

fn set_flow(venue: &mut Venue, at: VenueNanos, rate_percent: u32) -> Result<(), Failure> {
    venue.submit(at, Command::SetFlow(FlowSetting { running: true, rate_percent }), &mut ())?;
    venue.commit()?;
    venue.clear_changes();
    Ok(())
}

fn bring(venue: &mut Venue, options: &StartOptions<'_>, now: VenueNanos) -> Result<(), Failure> {
    let wanted = options.setup.canonical()?;
    let is_fresh = venue.last().0 == 0;
    let applied = if is_fresh { None } else { applied(options.directory)? };
    if applied.as_deref() == Some(&wanted) {
        return Ok(());
    }
    let commands = setup_commands(options.setup, venue.engine())?;
    let other_times = applied.as_deref().is_some_and(|applied| has_other_times(applied, options.setup));
    if !(is_fresh || options.apply_config || commands.is_empty() && !other_times) {
        let engine = venue.engine();
        let mut first: Vec<String> = commands.iter().take(3).map(|command| describe(command, engine)).collect();
        if other_times {
            first.insert(0, "other schedules".into());
        }
        let text = format!("the configuration has changed since this directory was last opened: {}", first.join(", "));
        let more = (commands.len() + usize::from(other_times)).saturating_sub(first.len());
        let text = if more > 0 { format!("{text} and {more} more") } else { text };
        return Err(Failure::new(text).remedy(
            "start with --apply-config to journal the changes, with the old configuration, or with another --data",
        ));
    }
    // At the end of the log: what came due since then follows the start of the epoch, which is now.
    let at = if is_fresh { now } else { venue.last_command_time() };
    for command in &commands {
        venue.submit(at, command.clone(), &mut ())?;
        if let Some(Event::CommandRefused { reason }) = venue.events().last() {
            let what = describe(command, venue.engine());
            return Err(Failure::new(format!("the engine refuses {what}: {}", reason.name()))
                .remedy("correct it in the configuration"));
        }
    }
    if !is_fresh && !commands.is_empty() {
        info!(commands = commands.len(), "configuration applied");
    }
    venue.commit()?;
    remember(options.directory, &wanted)
}

/// Returns whether schedules have changed since the directory was last opened.
///
/// The timer queue journals the consequences: the remaining sessions, and the session that now
/// runs. A directory that is older than schedules had none.
fn has_other_times(applied: &str, wanted: &Setup) -> bool {
    let Ok(applied) = serde_json::from_str::<Setup>(applied) else { return false };
    let had_none = applied.schedules.is_empty() && applied.calendar.is_none();
    !had_none && applied.timing().ok() != wanted.timing().ok()
}

/// Describes a command in a few words.
fn describe(command: &Command, engine: &Engine) -> String {
    let instrument = |id: InstrumentId| engine.market(id).map_or_else(|| id.to_string(), |it| it.spec.name.clone());
    let account = |id: AccountId| engine.account(id).map_or_else(|| id.to_string(), |it| it.spec.name.clone());
    match command {
        Command::AddCurrency(currency) => format!("new currency {}", currency.name),
        Command::AddInstrument(spec) => format!("new instrument {}", spec.name),
        Command::AddAccount(spec) => format!("new account {}", spec.name),
        Command::SetInstrumentLimits { instrument: id, .. } => format!("other limits of {}", instrument(*id)),
        Command::SetTradingRules { instrument: id, .. } => format!("other trading rules of {}", instrument(*id)),
        Command::SetAccount { account: id, .. } => format!("other settings of {}", account(*id)),
        Command::Deposit { account: id, .. } => format!("a deposit for {}", account(*id)),
        Command::SetPhase { instrument: id, .. } => format!("{} opens", instrument(*id)),
        _ => "another command".into(),
    }
}

/// Returns the time zone of the setup that was applied last, if the directory has one.
pub(crate) fn applied_time_zone(directory: &DirectoryStorage) -> Option<String> {
    let applied = applied(Some(directory)).ok()??;
    let setup: Setup = serde_json::from_str(&applied).ok()?;
    setup.calendar.map(|calendar| calendar.time_zone)
}

fn applied(directory: Option<&DirectoryStorage>) -> Result<Option<String>, Failure> {
    let Some(directory) = directory else { return Ok(None) };
    match directory.read_file(APPLIED) {
        // A file that is not UTF-8 differs from every setup.
        Ok(bytes) => Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) => {
            let path = directory.path().join(APPLIED);
            Err(Failure::new(format!("cannot read {}: {error}", path.display()))
                .remedy("make it a regular file that you can read"))
        }
    }
}

fn remember(directory: Option<&DirectoryStorage>, text: &str) -> Result<(), Failure> {
    let Some(directory) = directory else { return Ok(()) };
    directory.replace_file(APPLIED, text.as_bytes()).map_err(|error| {
        Failure::new(format!("cannot write {APPLIED} in {}: {error}", directory.path().display()))
            .remedy("make the data directory writable, with some space left")
    })
}
