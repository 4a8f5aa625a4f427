//! Simulations, which the venue runs in separate processes. They change nothing in the venue.
//!
//! Every login may ask. The venue decides whether members may, too.

use crate::access::{AccessLevel, Area};
use crate::call::{Call, MethodResult};
use crate::codec::RpcError;
use crate::simulation_call::{SimulationCall, SimulationCaller, SimulationOptions};

/// Bounds of the parameters.
const SECONDS_MAX: u64 = 86_400;
const EVENTS_MAX: u64 = 10_000_000;
const CLIENTS: (u64, u64) = (8, 1_000);
const SPEED: (u64, u64) = (1, 1_000_000);
const INSTRUMENTS_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 64;
const FLOW_FILE_BYTES_MAX: usize = 32_768;
const SEED_MAX: u64 = i64::MAX.unsigned_abs();

impl Call<'_> {
    fn whole_number(&self, name: &'static str, (least, most): (u64, u64)) -> Result<Option<u64>, RpcError> {
        let Some(value) = self.params.integer(name)? else { return Ok(None) };
        let fitting = u64::try_from(value).ok().filter(|value| (least..=most).contains(value));
        let refusal = || RpcError::invalid(name, format!("{value} is out of range: give {least} to {most}"));
        fitting.map(Some).ok_or_else(refusal)
    }

    fn simulation_caller(&self, asked: &SimulationCall) -> Result<SimulationCaller, RpcError> {
        let account = self.account()?;
        if self.operator().is_ok() {
            return Ok(SimulationCaller::Operator);
        }
        self.require_scope(Area::Trade, needed_level(asked))?;
        let name = self.venue.engine().account(account).map(|account| account.spec.name.to_string());
        Ok(SimulationCaller::Member(name.unwrap_or_default()))
    }

    fn simulation_id(&self) -> Result<u64, RpcError> {
        let id = self.whole_number("simulation_id", (1, SEED_MAX))?;
        id.ok_or_else(|| RpcError::invalid("simulation_id", "simulation_id is required"))
    }

    fn simulation(&mut self, asked: SimulationCall) -> MethodResult {
        let by = self.simulation_caller(&asked)?;
        let answer = self.venue.simulation(&by, asked);
        let answer = answer.map_err(|refusal| match refusal.param {
            Some(param) => RpcError::param(refusal.name, param, refusal.reason),
            None => RpcError::new(refusal.name, refusal.reason),
        })?;
        self.json().raw(answer.as_bytes());
        Ok(())
    }
}

/// Returns the scope that a request of a member needs.
fn needed_level(asked: &SimulationCall) -> AccessLevel {
    match asked {
        SimulationCall::List | SimulationCall::File { .. } => AccessLevel::Read,
        _ => AccessLevel::ReadWrite,
    }
}

/// Checks a name that becomes an argument of a command or a file name.
fn plain_name(name: &'static str, text: &str) -> Result<String, RpcError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.starts_with('-') || !text.bytes().all(is_plain) {
        let shown: String = text.chars().take(NAME_BYTES_MAX).collect();
        let rule = "expected letters, digits, - and _, not at the start -";
        return Err(RpcError::invalid(name, format!("{shown:?} is no name: {rule}")));
    }
    Ok(text.to_owned())
}

/// Starts a run. At most one runs at a time.
///
/// # Errors
/// A refusal if a parameter is wrong, if another run is not finished, or if the disk is nearly
/// full.
pub fn start(call: &mut Call<'_>) -> MethodResult {
    let flow = call.params.text("flow")?.map(|flow| plain_name("flow", &flow)).transpose()?;
    let flow_file = call.params.text("flow_file")?.map(std::borrow::Cow::into_owned);
    if flow.is_some() && flow_file.is_some() {
        return Err(RpcError::invalid("flow_file", "give a flow by name or as a file, not both"));
    }
    if flow_file.as_ref().is_some_and(|text| text.trim().is_empty() || text.len() > FLOW_FILE_BYTES_MAX) {
        let bound = format!("expected 1 to {FLOW_FILE_BYTES_MAX} bytes; `pitwire sim --flow FILE` takes longer ones");
        return Err(RpcError::invalid("flow_file", bound));
    }
    let seconds = call.whole_number("seconds", (1, SECONDS_MAX))?;
    let events = call.whole_number("events", (1, EVENTS_MAX))?;
    if seconds.is_some() == events.is_some() {
        return Err(RpcError::invalid("seconds", "give the length of the run: seconds or events, and not both"));
    }
    let instruments = call.params.list("instruments")?.unwrap_or_default();
    if instruments.len() > INSTRUMENTS_MAX {
        return Err(RpcError::invalid("instruments", format!("at most {INSTRUMENTS_MAX} instruments")));
    }
    let options = SimulationOptions {
        preset: plain_name("preset", &call.params.text("preset")?.unwrap_or("demo".into()))?,
        seed: call.whole_number("seed", (0, SEED_MAX))?.unwrap_or(1),
        seconds,
        events,
        flow,
        flow_file,
        instruments: instruments.iter().map(|name| plain_name("instruments", name)).collect::<Result<_, _>>()?,
        clients: call.whole_number("clients", CLIENTS)?,
        speed: call.whole_number("speed", SPEED)?,
    };
    call.simulation(SimulationCall::Start(options))
}

/// Ends a run that is not finished.
///
/// # Errors
/// `unknown_simulation`, or a refusal if the run has ended already.
pub fn stop(call: &mut Call<'_>) -> MethodResult {
    let run = call.simulation_id()?;
    call.simulation(SimulationCall::Stop(run))
}

/// Deletes a finished run with its files.
///
/// # Errors
/// `unknown_simulation`, or a refusal if the run is not finished.
pub fn delete(call: &mut Call<'_>) -> MethodResult {
    let run = call.simulation_id()?;
    call.simulation(SimulationCall::Delete(run))
}

/// Writes the tables of a finished run.
///
/// # Errors
/// `unknown_simulation`, or a refusal if the run has no journal or another process is at work.
pub fn export(call: &mut Call<'_>) -> MethodResult {
    let run = call.simulation_id()?;
    let format = call.params.required("format")?.into_owned();
    if !matches!(format.as_str(), "csv" | "parquet") {
        return Err(RpcError::invalid("format", "format is csv or parquet"));
    }
    call.simulation(SimulationCall::Export(run, format))
}

/// Lists all runs, newest first.
///
/// # Errors
/// A refusal if the venue runs no simulations.
pub fn list(call: &mut Call<'_>) -> MethodResult {
    call.simulation(SimulationCall::List)
}

/// Answers with a part of a file of a run, in Base64. `state` is `working` until it has been read.
///
/// # Errors
/// `unknown_simulation` if the run or the file does not exist.
pub fn file(call: &mut Call<'_>) -> MethodResult {
    let run = call.simulation_id()?;
    let name = call.params.required("name")?.into_owned();
    let offset = call.whole_number("offset", (0, SEED_MAX))?.unwrap_or(0);
    call.simulation(SimulationCall::File { run, name, offset })
}
