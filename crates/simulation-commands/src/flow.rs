//! `pitwire flow`: order flows as files, and their fit to an exported tape.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use pitwire_failure::Failure;
use pitwire_flow_models::{
    DecayDef, Estimate, EventTape, Fit, FlowDef, FlowFile, FlowSource, KernelDef, PUBLISHED_FILES, TypeColumn, TypeDef,
};
use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;
use serde_json::{Value, json};

const EXAMPLES: &str = "Examples:
  pitwire flow show bacry-muzy > mine.toml
      a published set, to change
  pitwire flow fit tables/orders.csv --instrument NPN_ZAR --out fitted.toml
      the parameters that make the orders of an export most likely";

const LIST_EXAMPLES: &str = "Examples:
  pitwire flow list
      the names that --flow of up and sim accepts
  pitwire flow list && pitwire flow show bacry-muzy
      the names, and the file of one of them";

const SHOW_EXAMPLES: &str = "Examples:
  pitwire flow show published
      the parameters of the CoinTossX simulation
  pitwire flow show constrained > mine.toml
      a file to change";

const CHECK_EXAMPLES: &str = "Examples:
  pitwire flow check mine.toml
      whether a file is a stable flow, and its rates
  pitwire flow check bacry-muzy --json
      the same of a published set, as one JSON object";

const FIT_EXAMPLES: &str = "Examples:
  pitwire flow fit tables/orders.csv --instrument NPN_ZAR --out fitted.toml
      one exponential for each pair of effects on the best prices
  pitwire flow fit tables/orders.csv --instrument BTC_USDC --by label --decays 0.3,30
      the types of a flow from a file, with two exponentials whose decay rates are given";

/// Show, check and fit order flows.
///
/// docs/flow.md describes the files.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Flow {
    #[command(subcommand)]
    verb: FlowVerb,
}

#[derive(Subcommand)]
enum FlowVerb {
    /// List the built-in flows and the published sets.
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Print the file of a published set.
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Published set, by a name of `pitwire flow list`.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Check a file: its spectral radius, and the long-run rate of each type.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Published set, or a file (docs/flow.md).
        #[arg(value_name = "NAME|FILE")]
        flow: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    Fit(FitArguments),
}

/// Fit a Hawkes process to the orders of an export by maximum likelihood, with standard errors and
/// a time-rescaling test.
#[derive(Args)]
#[command(after_help = FIT_EXAMPLES)]
struct FitArguments {
    /// Table `orders` of `pitwire export`, in CSV.
    #[arg(value_name = "ORDERS.CSV")]
    orders: PathBuf,
    /// Instrument whose orders are fitted.
    #[arg(long, value_name = "NAME")]
    instrument: String,
    /// Column that has the type of an order: its effect on the best prices, or its label, which is
    /// the name of the type if the flow was a file.
    #[arg(long, value_enum, default_value = "event-type")]
    by: By,
    /// Decay rates per second of the exponentials. Without it: one exponential for each pair of
    /// types, whose decay is fitted.
    #[arg(long, value_name = "RATE,RATE…", value_delimiter = ',')]
    decays: Vec<f64>,
    /// Write the result as a flow file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Flow that says what each type does, for --out. Without it: the types of --by event-type.
    #[arg(long, value_name = "NAME|FILE", requires = "out")]
    like: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    EventType,
    Label,
}

impl Flow {
    /// Runs the subcommand.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file cannot be read or written, or a flow or a tape cannot be used.
    pub fn run(self) -> Result<(), Failure> {
        match self.verb {
            FlowVerb::List => {
                list();
                Ok(())
            }
            FlowVerb::Show { name } => show(&name),
            FlowVerb::Check { flow, json } => check(&flow, json),
            FlowVerb::Fit(arguments) => arguments.run(),
        }
    }
}

fn list() {
    for source in FlowSource::BUILT_IN {
        say(&format!("{:<16} {}", source.name(), source.description()));
    }
    for file in PUBLISHED_FILES {
        let description = FlowFile::parse(file.text).map_or_else(|_| String::new(), |file| file.description);
        say(&format!("{:<16} {description}", file.name));
    }
}

fn show(name: &str) -> Result<(), Failure> {
    let file = PUBLISHED_FILES.iter().find(|file| file.name == name).ok_or_else(|| {
        let names = PUBLISHED_FILES.map(|file| file.name).join(", ");
        Failure::usage(format!("{name:?} is no published set")).remedy(format!("give one of {names}"))
    })?;
    say(file.text.trim_end());
    Ok(())
}

fn file_named(name: &str) -> Result<FlowFile, Failure> {
    match FlowSource::named(name)? {
        FlowSource::File(file) => Ok(*file),
        built_in => Err(Failure::usage(format!("{} is built in and has no file", built_in.name()))
            .remedy("give a published set or a file")),
    }
}

fn check(name: &str, as_json: bool) -> Result<(), Failure> {
    let mut flows = Vec::new();
    for (number, flow) in (1..).zip(&file_named(name)?.flows) {
        let model = flow.model()?;
        let kernel = match flow.events_per_s {
            Some(rate) => model.kernel.at_rate(rate),
            None => model.kernel.clone(),
        };
        let (radius, rates) = (kernel.radius(), kernel.stationary_rates());
        if as_json {
            let types: Vec<Value> = model
                .types
                .iter()
                .zip(&rates)
                .map(|(kind, rate)| json!({"type": kind.name.as_str(), "per_s": rate}))
                .collect();
            flows.push(json!({"radius": radius, "constrained": model.is_constrained(), "types": types}));
            continue;
        }
        say(&format!("flow {number}: spectral radius {radius:.3}, {:.3} events a second", rates.iter().sum::<f64>()));
        for (kind, rate) in model.types.iter().zip(rates) {
            say(&format!("  {:<32} {rate:>10.3} a second", kind.name.as_str()));
        }
        if model.is_constrained() {
            say("  these are the rates without the constraint of the spread; the flow has fewer events");
        }
    }
    if as_json {
        say(&json!({ "flows": flows }).to_string());
    }
    Ok(())
}

impl FitArguments {
    fn run(self) -> Result<(), Failure> {
        let file = File::open(&self.orders).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", self.orders.display()))
                .remedy("give orders.csv of `pitwire export`")
        })?;
        let column = match self.by {
            By::EventType => TypeColumn::EventType,
            By::Label => TypeColumn::Label,
        };
        let tape = EventTape::read(BufReader::new(file), &self.instrument, column)?;
        let progress = CommandProgress::new("fitting");
        let fit = Fit::of(&tape, &self.decays, &mut |done, total| progress.show(done, total))?;
        drop(progress);
        let radius = fit.kernel().radius();
        if let Some(out) = &self.out {
            self.write(out, &fit, radius)?;
        }
        if self.json {
            say(&as_json(&fit, radius).to_string())
        } else {
            print(&fit, radius)
        }
        Ok(())
    }

    fn write(&self, out: &Path, fit: &Fit, radius: f64) -> Result<(), Failure> {
        if radius >= 1.0 {
            return Err(Failure::new(format!("the fitted process is unstable: spectral radius {radius:.3}"))
                .remedy("fit a longer run, or give fewer exponentials; without --out the fit is only printed"));
        }
        let like = match (&self.like, self.by) {
            (Some(name), _) => file_named(name)?,
            (None, By::EventType) => file_named("published")?,
            (None, By::Label) => {
                return Err(Failure::usage("--out with --by label needs --like")
                    .remedy("name the flow of the run, which says what each type does"));
            }
        };
        let known: Vec<&TypeDef> = like.flows.iter().flat_map(|flow| &flow.types).collect();
        let types = fit.types.iter().map(|one| {
            let known = known.iter().find(|known| known.name == one.name);
            let known = known.ok_or_else(|| {
                Failure::new(format!("no type of --like is named {:?}", one.name)).remedy("name the flow of the run")
            })?;
            Ok(TypeDef { base_per_s: one.base.value, ..(*known).clone() })
        });
        let flow = FlowDef {
            types: types.collect::<Result<_, Failure>>()?,
            kernels: fit
                .kernel()
                .parts
                .into_iter()
                .map(|part| KernelDef { jump_per_s: part.jump, decay_per_s: DecayDef::Pairs(part.decay) })
                .collect(),
            maker_levels: 6,
            ..FlowDef::default()
        };
        let file = FlowFile {
            description: format!("Fitted to {} of {}.", self.instrument, self.orders.display()),
            source: "pitwire flow fit".into(),
            flows: vec![flow],
        };
        std::fs::write(out, file.to_text()?)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", out.display())).remedy("look at --out"))
    }
}

fn shown(estimate: Estimate) -> String {
    match estimate.standard_error {
        Some(error) => format!("{:.4} ± {error:.4}", estimate.value),
        None => format!("{:.4}", estimate.value),
    }
}

fn print(fit: &Fit, radius: f64) {
    let events: usize = fit.types.iter().map(|one| one.events).sum();
    say(&format!("{events} events in {:.1} s, log-likelihood {:.2}", fit.seconds, fit.log_likelihood()));
    say(&format!("spectral radius {radius:.3}{}", if radius < 1.0 { "" } else { ": unstable" }));
    for one in &fit.types {
        let note = if one.has_converged { "" } else { ", the search did not converge" };
        say("");
        say(&format!("{}: {} events{note}", one.name, one.events));
        say(&format!("  base            {} per second", shown(one.base)));
        for (part, (jumps, decays)) in one.jumps.iter().zip(&one.decays).enumerate() {
            for ((cause, jump), decay) in fit.types.iter().zip(jumps).zip(decays) {
                say(&format!("  {part} after {:<32} jump {:<20} decay {}", cause.name, shown(*jump), shown(*decay)));
            }
        }
        say(&format!("  time rescaling  distance {:.4}, p {:.3}", one.distance, one.p_value));
    }
}

fn as_json(fit: &Fit, radius: f64) -> Value {
    let estimate = |one: &Estimate| json!({"value": one.value, "standard_error": one.standard_error});
    let matrix =
        |of: &[Vec<Estimate>]| of.iter().map(|part| part.iter().map(estimate).collect::<Vec<_>>()).collect::<Vec<_>>();
    let types: Vec<Value> = fit
        .types
        .iter()
        .map(|one| {
            json!({
                "type": one.name, "events": one.events, "converged": one.has_converged,
                "base_per_s": estimate(&one.base), "jump_per_s": matrix(&one.jumps), "decay_per_s": matrix(&one.decays),
                "log_likelihood": one.log_likelihood, "distance": one.distance, "p_value": one.p_value,
            })
        })
        .collect();
    json!({"seconds": fit.seconds, "radius": radius, "log_likelihood": fit.log_likelihood(), "types": types})
}
