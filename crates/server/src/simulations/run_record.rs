//! The record of a simulation: its options, its state and its files.

use pitwire_deribit::SimulationOptions;
use pitwire_venue::FlowSource;
use serde::{Deserialize, Serialize};

use pitwire_net::SystemClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Starting,
    Running,
    /// The run is done, and its tables are being written.
    Exporting,
    Done,
    Stopped,
    Failed,
}

/// Figures of a finished run, as `pitwire sim --json` prints them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    pub events: u64,
    pub orders: u64,
    pub trades: u64,
    pub wall_s: f64,
    pub events_per_s: f64,
    pub tape_hash: String,
    /// Times of commands in the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// Path in the directory of the run.
    pub name: String,
    pub bytes: u64,
}

/// One simulation. Its JSON form is the answer to operators and the file `run.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    pub simulation_id: u64,
    /// Name of the member that started the run; `None` for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    pub state: RunState,
    pub preset: String,
    pub seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Name of the flow, or `flow.toml` for one from a file.
    pub flow: String,
    #[serde(default)]
    pub instruments: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<u64>,
    /// Command line that makes the same run.
    pub command: String,
    /// Wall time in milliseconds since 1970.
    pub started_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Progress, in nanoseconds of venue time or in commands of the flow.
    pub done: u64,
    pub total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default)]
    pub files: Vec<RunFile>,
    /// Size on disk.
    #[serde(default)]
    pub bytes: u64,
}

/// Returns the wall time in milliseconds since 1970.
pub fn wall_ms() -> u64 {
    SystemClock::wall_us() / 1_000
}

/// File of the flow in the directory of a run.
pub const FLOW_FILE: &str = "flow.toml";

/// Returns the arguments of `pitwire sim` that describe a run.
pub fn arguments(options: &SimulationOptions) -> Vec<String> {
    let mut arguments = vec!["sim".into(), format!("--preset={}", options.preset), format!("--seed={}", options.seed)];
    arguments.extend(options.seconds.map(|seconds| format!("--horizon={seconds}")));
    arguments.extend(options.events.map(|events| format!("--events={events}")));
    arguments.extend(options.flow.as_ref().map(|flow| format!("--flow={flow}")));
    arguments.extend(options.flow_file.as_ref().map(|_| format!("--flow={FLOW_FILE}")));
    if !options.instruments.is_empty() {
        arguments.push(format!("--instruments={}", options.instruments.join(",")));
    }
    arguments.extend(options.clients.map(|clients| format!("--clients={clients}")));
    arguments.extend(options.speed.map(|speed| format!("--speed={speed}")));
    arguments
}

impl RunRecord {
    pub fn new(simulation_id: u64, options: &SimulationOptions, member: Option<&str>) -> RunRecord {
        let file = options.flow_file.as_ref().map(|_| FLOW_FILE);
        RunRecord {
            simulation_id,
            member: member.map(str::to_owned),
            state: RunState::Starting,
            preset: options.preset.clone(),
            seed: options.seed,
            seconds: options.seconds,
            events: options.events,
            flow: options.flow.as_deref().or(file).unwrap_or(FlowSource::default().name()).to_owned(),
            instruments: options.instruments.clone(),
            clients: options.clients,
            speed: options.speed,
            command: format!("pitwire {} --report", arguments(options).join(" ")),
            started_ms: wall_ms(),
            ended_ms: None,
            done: 0,
            total: 0,
            result: None,
            error: None,
            files: Vec::new(),
            bytes: 0,
        }
    }

    /// Returns the record of a directory whose own record cannot be read. It can be deleted as any
    /// finished run.
    pub fn unreadable(simulation_id: u64, started_ms: u64, error: String) -> RunRecord {
        let mut record = RunRecord::new(simulation_id, &SimulationOptions::default(), None);
        (record.command, record.flow, record.started_ms) = (String::new(), String::new(), started_ms);
        record.end(RunState::Failed, Some(error));
        record
    }

    /// Whether a member may see the run. `None` is an operator.
    pub fn is_visible_to(&self, member: Option<&str>) -> bool {
        member.is_none() || member == self.member.as_deref()
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.state, RunState::Done | RunState::Stopped | RunState::Failed)
    }

    pub fn end(&mut self, state: RunState, error: Option<String>) {
        (self.state, self.error, self.ended_ms) = (state, error, Some(wall_ms()));
    }

    pub fn begin_export(&mut self) {
        (self.state, self.error) = (RunState::Exporting, None);
    }
}
