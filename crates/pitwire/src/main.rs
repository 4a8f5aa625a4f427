//! The `pitwire` binary: it parses arguments, calls the crates, and prints.
//!
//! This is the front page of the API documentation. The crates to start at:
//!
//! - [`pitwire_engine`]: the matching engine, a command in and events out. Start at
//!   [`Engine::apply`](pitwire_engine::Engine::apply).
//! - [`pitwire_model`]: prices, quantities, instruments, commands, events and rejects.
//! - [`pitwire_venue`]: engine, schedule, projections and journal behind one API.
//! - [`pitwire_server`]: the venue with its dialects and sockets, as `pitwire up` runs it.
//! - [`pitwire_journal`]: records, group commit, snapshots and recovery.
//! - [`pitwire_delivery`](../pitwire_delivery/index.html) and [`pitwire_publisher`]: one message to
//!   many subscribers.
//! - [`pitwire_splitter`]: one feed dealt to workers.
//!
//! `ARCHITECTURE.md` has a diagram and a table of all crates.

// The doc comments of arguments are help texts for a terminal, which shows them as they are.
#![allow(rustdoc::bare_urls, rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

mod bus_key;
mod commands;
mod logging;
mod memory;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use pitwire_failure::Failure;
use pitwire_terminal::output::{printable_lines, report};

const EXAMPLES: &str = "`pitwire COMMAND --help` describes a command.

Examples:
  pitwire up
      the demo venue on 127.0.0.1:8080
  pitwire trade book BTC_USDC
      the best prices of that venue";

#[derive(Parser)]
#[command(name = "pitwire", version, about = "An exchange you run on your own machine.", max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(Box<commands::up::Up>),
    Sim(pitwire_simulation_commands::sim::Sim),
    Flow(pitwire_simulation_commands::flow::Flow),
    Scenario(commands::scenario::Play),
    Verify(commands::verify::Verify),
    Backup(commands::backup::Backup),
    Restore(commands::backup::Restore),
    Explain(commands::explain::Explain),
    Export(commands::export::Export),
    Trade(Box<pitwire_client_commands::trade::Trade>),
    Tui(pitwire_trading_screen::Tui),
    Operator(pitwire_client_commands::operator::Operator),
    EngineBench(commands::engine_bench::EngineBench),
    JournalBench(commands::journal_bench::JournalBench),
    OrderBench(commands::order_bench::OrderBench),
    FeedBench(commands::feed_bench::FeedBench),
    Bench(pitwire_trading_benchmarks::Bench),
    Split(Box<commands::split::Split>),
    Tape(commands::tape::Tape),
    Publish(Box<commands::publish::Publish>),
    Bars(commands::bars::Bars),
    Load(Box<commands::load::Load>),
    FeedCheck(commands::feed_check::FeedCheck),
    Decode(commands::decode::Decode),
    Gateway(Box<commands::gateway::Gateway>),
    Relay(Box<pitwire_relay::Relay>),
    Doctor(commands::doctor::Doctor),
    Completions(commands::shell::Completions),
    Man(commands::shell::Man),
}

impl Command {
    /// Returns whether the command is a server. A server does not fail because its output cannot be
    /// written.
    fn serves(&self) -> bool {
        matches!(
            self,
            Command::Up(_)
                | Command::Split(_)
                | Command::Tape(_)
                | Command::Publish(_)
                | Command::Gateway(_)
                | Command::Relay(_)
        )
    }
}

/// Runs the subcommand. The exit code is 0 for success, 1 for a failure, 2 for wrong usage.
fn main() -> ExitCode {
    let command = pitwire_terminal::help_layout::for_terminal(Arguments::command());
    let parsed = command.try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    logging::start();
    let serves = arguments.command.serves();
    let done = pitwire_net::report_file_size_limit().map_err(Failure::from).and_then(|()| match arguments.command {
        Command::Up(up) => up.run(),
        Command::Sim(sim) => sim.run(),
        Command::Flow(flow) => flow.run(),
        Command::Scenario(play) => play.run(),
        Command::Verify(verify) => verify.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Explain(explain) => explain.run(),
        Command::Export(export) => export.run(),
        Command::Trade(trade) => trade.run(),
        Command::Tui(tui) => tui.run(),
        Command::Operator(operator) => operator.run(),
        Command::EngineBench(bench) => bench.run(),
        Command::JournalBench(bench) => bench.run(),
        Command::OrderBench(bench) => bench.run(),
        Command::FeedBench(bench) => bench.run(),
        Command::Bench(bench) => bench.run(memory::ALLOCATION_COUNTER),
        Command::Split(split) => split.run(),
        Command::Tape(tape) => tape.run(),
        Command::Publish(publish) => publish.run(),
        Command::Bars(bars) => bars.run(),
        Command::Load(load) => load.run(),
        Command::FeedCheck(check) => check.run(),
        Command::Decode(decode) => decode.run(),
        Command::Gateway(gateway) => gateway.run(),
        Command::Relay(relay) => relay.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Completions(completions) => completions.run(Arguments::command()),
        Command::Man(man) => man.run(Arguments::command()),
    });
    let done = done.and_then(|()| match pitwire_terminal::output::write_error() {
        Some(error) if !serves => Err(Failure::new(format!("the output could not be written: {error}"))
            .remedy("free disk space, or redirect the output")),
        _ => Ok(()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A server may have written parts of the text.
            report(&printable_lines(&failure.to_string()));
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints help to standard output, or a usage error as one line.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A failed write is ignored, because standard output may be closed.
        drop(error.print());
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        report("a subcommand is missing; see pitwire --help");
        return ExitCode::from(2);
    }
    let text = error.render().to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .collect();
    // clap lists each missing argument on its own line.
    let message = lines.join("; ").replace(":; ", ": ");
    report(&format!("{}; see --help", message.strip_prefix("error: ").unwrap_or(&message)));
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    /// Applies `visit` to a command and all its subcommands, with their names from `pitwire` on.
    fn for_each_command(command: &mut clap::Command, path: &str, visit: &mut impl FnMut(&str, &mut clap::Command)) {
        visit(path, command);
        for subcommand in command.get_subcommands_mut().filter(|subcommand| subcommand.get_name() != "help") {
            let path = format!("{path} {}", subcommand.get_name());
            for_each_command(subcommand, &path, visit);
        }
    }

    #[test]
    fn every_help_starts_with_one_sentence_and_ends_with_two_examples() {
        let mut pitwire = pitwire_terminal::help_layout::for_width(Arguments::command(), 100);
        pitwire.build();
        let mut visited = 0;
        for_each_command(&mut pitwire, "pitwire", &mut |path, command| {
            visited += 1;
            let help = command.render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "pitwire {path}: {line}");
            }
            let purpose = help.split("\n\n").next().unwrap().replace('\n', " ");
            let sentence = purpose.strip_suffix('.').unwrap_or(&purpose);
            assert!(sentence.starts_with(char::is_uppercase) && !sentence.contains(". "), "{path}: {purpose}");
            let (_, examples) = help.rsplit_once("Examples:\n").unwrap_or_else(|| panic!("{path} has no examples"));
            // An example is indented by two. Its description and its further lines are by six.
            let is_example = |line: &&str| !line.starts_with("      ");
            let commands: Vec<&str> = examples.trim_end().lines().filter(is_example).collect();
            assert_eq!(commands.len(), 2, "{path}: {commands:?}");
            assert!(commands.iter().all(|line| line.starts_with("  ") && line.contains("pitwire ")), "{path}");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{path}: {} has no description", argument.get_id());
            }
            // Each shows this command; the example of a group shows one of its subcommands.
            assert!(path == "pitwire" || commands.iter().any(|line| line.contains(path)));
        });
        assert!(visited > 50, "{visited} commands");
    }
}
