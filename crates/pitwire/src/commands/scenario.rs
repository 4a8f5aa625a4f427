//! `pitwire scenario`: scripted markets in the engine, without sockets and disks.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use pitwire_engine::Engine;
use pitwire_scenario::{Outcome, Scenario, play, read};
use serde_json::{Value, json};

use pitwire_failure::{Failure, read_text};
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

const EXAMPLES: &str =
    "A file holds one scenario, an array of scenarios, or several in sequence. The format: docs/scenarios.md.
  {\"name\": \"first\", \"steps\": [
    {\"op\": \"enter\", \"id\": \"S1\", \"side\": \"sell\", \"type\": \"limit\", \"qty\": 10, \"price\": 100},
    {\"op\": \"enter\", \"id\": \"B1\", \"side\": \"buy\", \"type\": \"market\", \"qty\": 4}],
   \"expect\": {\"trades\": [{\"buy\": \"B1\", \"sell\": \"S1\", \"qty\": 4, \"price\": 100}]}}

Examples:
  pitwire scenario contracts/vectors/rules/*.json
      one line per scenario; exit code 1 if one differs from its expectation
  pitwire scenario my.json --json
      one result object per line: events, trades, book, price";

/// Run scripted markets through the engine and compare the results with the expected ones.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Play {
    /// Files with scenarios, or directories: every .json file in a directory is played, in the
    /// order of the names.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one result object per line.
    #[arg(long)]
    json: bool,
}

impl Play {
    /// Plays scenarios and compares them with their expectations.
    ///
    /// # Errors
    /// If a file cannot be read or is malformed, or if a scenario ends differently.
    pub fn run(self) -> Result<(), Failure> {
        // Read all files first, so that an error in the last one is found at once.
        let mut scenarios = Vec::new();
        for file in &self.files {
            for file in files_of(file)? {
                scenarios.extend(scenarios_of(&file)?);
            }
        }
        let mut differing = 0_usize;
        let progress = CommandProgress::new("playing");
        for (played, (file, scenario)) in (0..).zip(&scenarios) {
            progress.show(played, scenarios.len() as u64);
            let outcome = play(&mut Engine::new(), scenario).map_err(|what| {
                Failure::usage(format!("{}: scenario {}: {what} (rulebook: 19)", file.display(), scenario.name))
            })?;
            let differences = scenario.differences(&outcome);
            differing += usize::from(!differences.is_empty());
            progress.hide_for(|| self.report(&outcome, &differences))?;
        }
        drop(progress);
        match differing {
            0 => Ok(()),
            _ => Err(Failure::new(format!(
                "{differing} of {} scenarios differ from their expectations",
                scenarios.len()
            ))
            .remedy("the differences are listed above")),
        }
    }

    fn report(&self, outcome: &Outcome, differences: &[String]) -> Result<(), Failure> {
        if self.json {
            let mut object = serde_json::to_string(outcome).map_err(|error| Failure::new(error.to_string()))?;
            if !differences.is_empty() {
                let list: Value = json!(differences);
                object.pop();
                object.push_str(&format!(",\"differences\":{list}}}"));
            }
            say(&object);
        } else {
            say(&format!("{:<24} {}", outcome.name, if differences.is_empty() { "ok" } else { "differs" }));
        }
        for difference in differences {
            eprintln!("pitwire: {}: {difference}", outcome.name);
        }
        Ok(())
    }
}

/// Returns the path itself, or the `.json` files of a directory in the order of their names.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("cannot read {}: {error}", path.display())).remedy("name a directory of scenarios")
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(
            Failure::usage(format!("{} has no .json files", path.display())).remedy("name a directory of scenarios")
        );
    }
    files.sort_unstable();
    Ok(files)
}

fn scenarios_of(file: &Path) -> Result<Vec<(PathBuf, Scenario)>, Failure> {
    let text = File::open(file).and_then(read_text).map_err(|error| {
        Failure::usage(format!("cannot read {}: {error}", file.display())).remedy("name a file of scenarios")
    })?;
    let scenarios =
        read(&file.display().to_string(), &text).map_err(|malformed| Failure::usage(malformed.to_string()))?;
    Ok(scenarios.into_iter().map(|scenario| (file.to_owned(), scenario)).collect())
}
