//! The pitwire binary: thin subcommands that choose and connect.

mod bus_key;
mod certificate;
mod commands;
mod gateway;
mod memory;
mod output;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use pitwire_failure::Failure;

#[derive(Parser)]
#[command(name = "pitwire", version, about = "An exchange you run on your own machine.", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(commands::up::Up),
    Sim(commands::sim::Sim),
    Scenario(commands::scenario::Play),
    Verify(commands::verify::Verify),
    Explain(commands::explain::Explain),
    Export(commands::export::Export),
    Trade(commands::trade::Trade),
    Operator(commands::operator::Operator),
    EngineBench(commands::engine_bench::EngineBench),
    JournalBench(commands::journal_bench::JournalBench),
    OrderBench(commands::order_bench::OrderBench),
    Split(Box<commands::split::Split>),
    Tape(commands::tape::Tape),
    Publish(Box<commands::publish::Publish>),
    Bars(commands::bars::Bars),
    Load(Box<commands::load::Load>),
    Gateway(Box<commands::gateway::Gateway>),
    Doctor(commands::doctor::Doctor),
}

impl Command {
    /// Whether it is there for others; what it prints is by the way.
    fn serves(&self) -> bool {
        matches!(
            self,
            Command::Up(_) | Command::Split(_) | Command::Tape(_) | Command::Publish(_) | Command::Gateway(_)
        )
    }
}

/// Unless PITWIRE_LOG says otherwise. What the NATS client meets we say ourselves.
const LOGGED: &str = "info,async_nats=warn";

/// 0 ok, 1 failed, 2 used wrongly.
fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_env("PITWIRE_LOG").unwrap_or_else(|_| LOGGED.into()))
        .init();
    let serves = arguments.command.serves();
    let done = match arguments.command {
        Command::Up(up) => up.run(),
        Command::Sim(sim) => sim.run(),
        Command::Scenario(play) => play.run(),
        Command::Verify(verify) => verify.run(),
        Command::Explain(explain) => explain.run(),
        Command::Export(export) => export.run(),
        Command::Trade(trade) => trade.run(),
        Command::Operator(operator) => operator.run(),
        Command::EngineBench(bench) => bench.run(),
        Command::JournalBench(bench) => bench.run(),
        Command::OrderBench(bench) => bench.run(),
        Command::Split(split) => split.run(),
        Command::Tape(tape) => tape.run(),
        Command::Publish(publish) => publish.run(),
        Command::Bars(bars) => bars.run(),
        Command::Load(load) => load.run(),
        Command::Gateway(gateway) => gateway.run(),
        Command::Doctor(doctor) => doctor.run(),
    };
    let done =
        done.and_then(|()| match output::unsaid() {
            Some(error) if !serves => Err(Failure::new(format!("the output could not be written: {error}"))
                .remedy("make room, or send it elsewhere")),
            _ => Ok(()),
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("pitwire: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help goes to standard output; a mistake is one line that says what to do.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed standard output is nobody's loss.
        drop(error.print());
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprintln!("pitwire: a subcommand is missing; see pitwire --help");
        return ExitCode::from(2);
    }
    let text = error.render().to_string();
    let said: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .collect();
    // What is missing stands on lines below the one that says so.
    let said = said.join("; ").replace(":; ", ": ");
    eprintln!("pitwire: {}; see --help", said.strip_prefix("error: ").unwrap_or(&said));
    ExitCode::from(2)
}
