//! `pitwire operator simulation`: the simulations of a venue.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use clap::{Args, Subcommand, ValueEnum};
use pitwire_client::Error;
use pitwire_failure::{Failure, read_text};
use pitwire_terminal::output::printable;
use pitwire_terminal::text_table::TextTable;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::reach::VenueSession;

/// Pause before a repeated request for a part of a file.
const PART_PAUSE: Duration = Duration::from_millis(15);

#[derive(Subcommand)]
pub enum SimulationVerb {
    /// Show the simulations, newest first.
    #[command(after_help = "Examples:\n  pitwire operator simulation list\n  pitwire operator simulation list --json")]
    List,
    Start(StartArguments),
    /// End a simulation that is not finished.
    #[command(
        after_help = "Examples:\n  pitwire operator simulation stop 3\n  pitwire operator simulation stop 3 --json"
    )]
    Stop {
        /// Number of the simulation.
        id: u64,
    },
    /// Delete a finished simulation with its files.
    #[command(
        after_help = "Examples:\n  pitwire operator simulation delete 3\n  pitwire operator simulation delete 3 --json"
    )]
    Delete {
        /// Number of the simulation.
        id: u64,
    },
    /// Write the tables of a finished simulation, which `file` then saves.
    #[command(
        after_help = "Examples:\n  pitwire operator simulation export 3\n  pitwire operator simulation export 3 --format parquet"
    )]
    Export {
        /// Number of the simulation.
        id: u64,
        /// Format of the tables.
        #[arg(long, value_enum, default_value = "csv")]
        format: TableFormat,
    },
    /// Save a file of a finished simulation: its report or a table.
    #[command(
        after_help = "Examples:\n  pitwire operator simulation file 3\n  pitwire operator simulation file 3 csv/trades.csv --out trades.csv"
    )]
    File {
        /// Number of the simulation.
        id: u64,
        /// Name of the file, as `list --json` shows it.
        #[arg(default_value = "report.html")]
        name: String,
        /// File to create. Default: simulation-ID-NAME.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum TableFormat {
    Csv,
    Parquet,
}

/// Start a simulation on the venue, in a separate process.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pitwire operator simulation start --seconds 3600 --seed 7\n  pitwire operator simulation start --preset jse --events 100000 --flow mine.toml"
)]
pub struct StartArguments {
    /// The market: demo, jse or crypto24x7.
    #[arg(long, value_name = "NAME", default_value = "demo")]
    preset: String,
    /// The seed. Equal seeds give equal tapes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Stop after this many seconds of venue time.
    #[arg(long, value_name = "N", required_unless_present = "events", conflicts_with = "events")]
    seconds: Option<u64>,
    /// Stop after this many commands of the flow.
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    /// The order flow: a name that `pitwire flow list` prints, or a file.
    #[arg(long, value_name = "NAME|FILE")]
    flow: Option<String>,
    /// Only these instruments of the preset.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    instruments: Vec<String>,
    /// Accounts that trade each instrument, 8 to 1,000.
    #[arg(long, value_name = "N")]
    clients: Option<u64>,
    /// Most seconds of venue time in a second. Default: as fast as it goes.
    #[arg(long, value_name = "N")]
    speed: Option<u64>,
}

impl StartArguments {
    fn params(&self) -> Result<Value, Failure> {
        let mut params = json!({"preset": self.preset, "seed": self.seed});
        let mut set = |name: &str, value: Option<Value>| {
            if let (Value::Object(params), Some(value)) = (&mut params, value) {
                params.insert(name.into(), value);
            }
        };
        set("seconds", self.seconds.map(Value::from));
        set("events", self.events.map(Value::from));
        set("clients", self.clients.map(Value::from));
        set("speed", self.speed.map(Value::from));
        set("instruments", (!self.instruments.is_empty()).then(|| json!(self.instruments)));
        if let Some(flow) = &self.flow {
            let is_file = Path::new(flow).is_file();
            let text = || {
                File::open(flow).and_then(read_text).map_err(|error| {
                    Failure::new(format!("cannot read {flow}: {error}")).remedy("give a flow file, or a name of a flow")
                })
            };
            match is_file {
                true => set("flow_file", Some(text()?.into())),
                false => set("flow", Some(flow.as_str().into())),
            }
        }
        Ok(params)
    }
}

impl SimulationVerb {
    /// Returns the method, without `private/pitwire_`, and its parameters.
    ///
    /// # Errors
    ///
    /// Returns a failure if a flow file cannot be read.
    pub fn request(&self) -> Result<(&'static str, Value), Failure> {
        let run = |id: &u64| json!({"simulation_id": id});
        Ok(match self {
            SimulationVerb::List => ("get_simulations", json!({})),
            SimulationVerb::Start(arguments) => ("start_simulation", arguments.params()?),
            SimulationVerb::Stop { id } => ("stop_simulation", run(id)),
            SimulationVerb::Delete { id } => ("delete_simulation", run(id)),
            SimulationVerb::Export { id, format } => {
                let format = match format {
                    TableFormat::Csv => "csv",
                    TableFormat::Parquet => "parquet",
                };
                ("export_simulation", json!({"simulation_id": id, "format": format}))
            }
            // Saving takes several calls: see `save`.
            SimulationVerb::File { .. } => ("get_simulations", json!({})),
        })
    }

    /// Returns the text for a result.
    ///
    /// # Errors
    ///
    /// Returns an error if the result is not the JSON that the method promises.
    pub fn text(&self, result: &str) -> Result<String, serde_json::Error> {
        Ok(match self {
            SimulationVerb::List | SimulationVerb::File { .. } => table(&serde_json::from_str::<Vec<Run>>(result)?),
            SimulationVerb::Start(_) => {
                let Run { simulation_id, .. } = serde_json::from_str(result)?;
                format!("simulation {simulation_id} has started; `pitwire operator simulation list` shows its progress")
            }
            SimulationVerb::Stop { id } => format!("simulation {id} is being stopped"),
            SimulationVerb::Delete { id } => format!("simulation {id} is deleted with its files"),
            SimulationVerb::Export { id, .. } => {
                format!(
                    "the tables of simulation {id} are being written; `pitwire operator simulation file` saves them"
                )
            }
        })
    }
}

/// The parts of a run that a terminal shows.
#[derive(Deserialize)]
struct Run {
    simulation_id: u64,
    state: String,
    preset: String,
    seed: u64,
    seconds: Option<u64>,
    events: Option<u64>,
    flow: String,
    member: Option<String>,
    done: u64,
    total: u64,
    result: Option<RunResult>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct RunResult {
    trades: u64,
}

fn table(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "none".into();
    }
    let mut table = TextTable::new(&["run", "state", "done", "preset", "seed", "length", "flow", "trades", "member"]);
    let mut errors = String::new();
    for run in runs {
        let length = match (run.seconds, run.events) {
            (Some(seconds), _) => format!("{seconds} s"),
            (None, Some(events)) => format!("{events} commands"),
            (None, None) => String::new(),
        };
        // The last report of the progress precedes the end of the run.
        let percent = match run.state.as_str() {
            "done" | "exporting" => 100,
            _ => (u128::from(run.done) * 100).checked_div(u128::from(run.total)).unwrap_or(0).min(100),
        };
        table.row([
            run.simulation_id.to_string(),
            printable(&run.state),
            format!("{percent} %"),
            printable(&run.preset),
            run.seed.to_string(),
            length,
            printable(&run.flow),
            run.result.as_ref().map_or_else(String::new, |result| result.trades.to_string()),
            printable(run.member.as_deref().unwrap_or_default()),
        ]);
        if let Some(error) = &run.error {
            // Writing to a String cannot fail.
            let _ = writeln!(errors, "{}: {}", run.simulation_id, printable(error));
        }
    }
    format!("{}{errors}", table.text())
}

/// One part of a file.
#[derive(Deserialize)]
struct FilePart {
    state: String,
    #[serde(default)]
    data: String,
    next_offset: Option<u64>,
}

/// Saves a file of a run. Returns a sentence about it.
///
/// # Errors
///
/// Returns a failure if the venue refuses, or if the file exists or cannot be written.
pub fn save(session: &VenueSession, id: u64, name: &str, out: Option<&Path>) -> Result<String, Failure> {
    let garbled = |what: String| Failure::from(Error::Garbled { what });
    let mut content = Vec::new();
    let mut next = Some(0);
    while let Some(offset) = next {
        let params = json!({"simulation_id": id, "name": name, "offset": offset});
        let part = session.call("private/pitwire_get_simulation_file", &params)?;
        let part: FilePart = serde_json::from_str(part.get()).map_err(|error| garbled(error.to_string()))?;
        if part.state == "working" {
            std::thread::sleep(PART_PAUSE);
            continue;
        }
        let bytes = base64::engine::general_purpose::STANDARD.decode(&part.data);
        content.extend(bytes.map_err(|error| garbled(error.to_string()))?);
        next = part.next_offset;
    }
    let default = || PathBuf::from(format!("simulation-{id}-{}", name.replace(['/', '\\'], "-")));
    let path = out.map_or_else(default, Path::to_path_buf);
    let written = OpenOptions::new().write(true).create_new(true).open(&path);
    written.and_then(|mut file| file.write_all(&content)).map_err(|error| {
        Failure::new(format!("cannot write {}: {error}", path.display())).remedy("name another file with --out")
    })?;
    Ok(format!("{name} of simulation {id} is saved in {}", path.display()))
}
