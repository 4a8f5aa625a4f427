//! The project's own checks: dependencies, rules of CONTRIBUTING.md, generated tables.
//!
//! Does        compare the manifests with `docs/dependencies.toml`, and the sources with the rules
//!             of CONTRIBUTING.md.
//! Holds       each check is a function from a [`Tree`] to offences, so its tests plant an offence
//!             and see it found.
//! Leaves out  what rustfmt, clippy, ruff and the web's own checks already keep.
//! Start at    [`main`], then `dependencies`, `circles`, `tidy`, `table`.

mod circles;
mod commits;
mod dependencies;
mod imports;
mod mutants;
mod table;
mod tidy;
mod tree;
mod type_names;
mod unrun_tests;
mod words;

use std::process::ExitCode;

use tree::Tree;

const USAGE: &str = "\
xtask - the project's own checks

Usage
  scripts/xtask dependencies    manifests, web and lab against docs/dependencies.toml
  scripts/xtask circles         source files that import each other in a loop
  scripts/xtask mutants         run the mutation tests of the engine (options for cargo test follow)
  scripts/xtask mutants --check    say whether every fault still applies to the engine's sources
  scripts/xtask tidy            sources against the rules of CONTRIBUTING.md, retired words and type names
  scripts/xtask tidy --commits BASE    subjects of the commits since BASE
  scripts/xtask table           write the table of crates into ARCHITECTURE.md
  scripts/xtask table --check   say whether that table is up to date

Exit status  0 nothing to say, 1 offences (one line each, with the cure), 2 could not run";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args[..] {
        ["dependencies"] => Tree::of_checkout().and_then(|tree| dependencies::check(&tree)),
        ["circles"] => Tree::of_checkout().map(|tree| circles::check(&tree)),
        ["mutants", "--check"] => mutants::check(&tree::top()),
        ["mutants", ref arguments @ ..] => mutants::run(&tree::top(), arguments),
        ["tidy"] => Tree::of_checkout().and_then(|tree| {
            let mut offences = tidy::check(&tree)?;
            offences.extend(words::check(&tree));
            offences.extend(type_names::check(&tree));
            offences.extend(unrun_tests::check(&tree));
            Ok(offences)
        }),
        ["tidy", "--commits", base] => commits::check(&tree::top(), base),
        ["table"] => Tree::of_checkout().and_then(|tree| table::write(&tree)),
        ["table", "--check"] => Tree::of_checkout().and_then(|tree| table::check(&tree)),
        _ => Err(USAGE.to_string()),
    };
    match outcome {
        Ok(offences) if offences.is_empty() => ExitCode::SUCCESS,
        Ok(offences) => {
            for offence in &offences {
                println!("{offence}");
            }
            println!("{}: {} to mend", args.join(" "), offences.len());
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
