//! Where the flow of a venue or a run comes from: a built-in one, or a file.
//!
//! Holds       `parse` reads what `text` returns: the text of a flow in the journal is enough to
//!             create it again.
//! Start at    [`FlowSource::parse`].

use std::fs::File;

use pitwire_engine::Engine;
use pitwire_failure::{Failure, read_text};
use pitwire_model::{AccountId, InstrumentId};
use pitwire_order_flow::{FlowConfig, ParameterSet};

use crate::flow_file::{FlowFile, in_part};

/// The flow of a venue or a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum FlowSource {
    /// Busy and quiet times, sides with a long memory, news, cancels by events.
    #[default]
    Market,
    /// Symmetric, with lifetimes and a market maker. It can run for days.
    Demo,
    /// The published set of eight event types, on the first instrument, without cancels.
    Paper,
    /// The published set as the original program loaded it.
    PaperAsLoaded,
    File(Box<FlowFile>),
}

/// A file with a published set of parameters.
pub struct PublishedFile {
    pub name: &'static str,
    pub text: &'static str,
}

/// The published sets.
pub const PUBLISHED_FILES: [PublishedFile; 3] = [
    PublishedFile { name: "published", text: include_str!("../../../contracts/flows/published.toml") },
    PublishedFile { name: "bacry-muzy", text: include_str!("../../../contracts/flows/bacry-muzy.toml") },
    PublishedFile { name: "constrained", text: include_str!("../../../contracts/flows/constrained.toml") },
];

impl FlowSource {
    /// The flow of a journal without a definition. Its definition is not journaled, so that
    /// journals from before `DefineFlow` keep their meaning.
    pub const WITHOUT_DEFINITION: FlowSource = FlowSource::Demo;

    /// The built-in flows.
    pub const BUILT_IN: [FlowSource; 4] =
        [FlowSource::Market, FlowSource::Demo, FlowSource::Paper, FlowSource::PaperAsLoaded];

    /// Returns the flow of a name on the command line: a built-in flow, a published set, or a file.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file cannot be read or its flow cannot be used.
    pub fn named(name: &str) -> Result<FlowSource, Failure> {
        if let Some(source) = FlowSource::built_in(name) {
            return Ok(source);
        }
        if let Some(file) = PUBLISHED_FILES.iter().find(|file| file.name == name) {
            return FlowSource::parse(file.text);
        }
        let text = File::open(name).and_then(read_text).map_err(|error| {
            Failure::new(format!("{name:?} is no flow, and cannot be read as a file: {error}"))
                .remedy("`pitwire flow list` prints the names; docs/flow.md describes a file")
        })?;
        FlowSource::parse(&text).map_err(|failure| in_part(name, failure))
    }

    /// Returns the flow of a text in the journal: the name of a built-in flow, or a file.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the fault of the file.
    pub fn parse(text: &str) -> Result<FlowSource, Failure> {
        match FlowSource::built_in(text) {
            Some(source) => Ok(source),
            None => Ok(FlowSource::File(Box::new(FlowFile::parse(text)?))),
        }
    }

    fn built_in(name: &str) -> Option<FlowSource> {
        FlowSource::BUILT_IN.into_iter().find(|source| source.name() == name)
    }

    /// Returns the name of a built-in flow.
    pub fn name(&self) -> &'static str {
        match self {
            FlowSource::Market => "market",
            FlowSource::Demo => "demo",
            FlowSource::Paper => "paper",
            FlowSource::PaperAsLoaded => "paper-as-loaded",
            FlowSource::File(_) => "a file",
        }
    }

    /// Describes the flow in one sentence.
    pub fn description(&self) -> &str {
        match self {
            FlowSource::Market => "Seven types with the properties of real markets: can run for days.",
            FlowSource::Demo => "Eight types, symmetric, with lifetimes and a market maker: can run for days.",
            FlowSource::Paper => "The published set of eight types, on the first instrument, without cancels.",
            FlowSource::PaperAsLoaded => "The published set as the original program loaded it.",
            FlowSource::File(file) => &file.description,
        }
    }

    /// Returns the text for the journal.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file has no TOML form.
    pub fn text(&self) -> Result<String, Failure> {
        match self {
            FlowSource::File(file) => file.to_text(),
            built_in => Ok(built_in.name().to_owned()),
        }
    }

    /// Returns the configuration for the instruments of `engine`, at its full rate.
    ///
    /// # Errors
    ///
    /// Returns a failure if a file does not fit the instruments.
    pub fn config(&self, engine: &Engine, house: Vec<AccountId>) -> Result<FlowConfig, Failure> {
        const FIRST: InstrumentId = InstrumentId(0);
        Ok(match self {
            FlowSource::Market => FlowConfig::market(engine, house),
            FlowSource::Demo => FlowConfig::demo(engine, house),
            FlowSource::Paper => FlowConfig::paper(FIRST, house, ParameterSet::File),
            FlowSource::PaperAsLoaded => FlowConfig::paper(FIRST, house, ParameterSet::AsLoaded),
            FlowSource::File(file) => return file.config(engine, house),
        })
    }

    /// Returns the rate in percent at which a venue runs this flow if its preset runs built-in
    /// flows at `preset_percent`. The rates of a file are those of the file.
    pub fn percent(&self, preset_percent: u32) -> u32 {
        match self {
            FlowSource::File(_) => 100,
            _ => preset_percent,
        }
    }
}
