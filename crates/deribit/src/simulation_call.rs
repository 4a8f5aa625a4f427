//! Requests about simulations.

/// The login that sends a request. Operators see all runs. A member sees the runs that it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulationCaller {
    Operator,
    /// The account with this name.
    Member(String),
}

/// A request about the simulations of a venue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulationCall {
    /// Starts a run.
    Start(SimulationOptions),
    /// Ends a run that is not finished.
    Stop(u64),
    /// Deletes a finished run with its files.
    Delete(u64),
    /// Writes the tables of a finished run, in `csv` or `parquet`.
    Export(u64, String),
    /// Lists the runs that the caller sees, newest first.
    List,
    /// Reads a part of a file of a run.
    File { run: u64, name: String, offset: u64 },
}

/// The options of a run, with the meaning that they have for `pitwire sim`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationOptions {
    pub preset: String,
    pub seed: u64,
    /// Length in seconds of venue time.
    pub seconds: Option<u64>,
    /// Length in commands of the flow.
    pub events: Option<u64>,
    /// Name of a flow. Not with `flow_file`.
    pub flow: Option<String>,
    /// Text of a flow file.
    pub flow_file: Option<String>,
    /// Instruments of the preset; all if empty.
    pub instruments: Vec<String>,
    /// Accounts that trade each instrument. `None` has those of the preset.
    pub clients: Option<u64>,
    /// Most seconds of venue time in a second. `None` runs as fast as it goes.
    pub speed: Option<u64>,
}

/// The reason why a request about simulations is refused: a name in `contracts/errors.toml`, the
/// parameter that is wrong, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationRefusal {
    pub name: &'static str,
    pub param: Option<&'static str>,
    pub reason: String,
}
