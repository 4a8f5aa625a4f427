//! Definitions of order flows, by the names that the golden vectors use.

use pitwire_model::{Command, Event, Seq, SequencedCommand, VenueNanos};

pub fn commands() -> Vec<(&'static str, SequencedCommand)> {
    let file = format!("[[flow]]\n{}", "#".repeat(300));
    let texts = [("built_in_flow", "market"), ("flow_file", &file)];
    let stamped = |(seq, (name, text)): (u64, (_, &str))| {
        let command = Command::DefineFlow { text: text.into() };
        (name, SequencedCommand { seq: Seq(seq), at: VenueNanos(1000 + seq), command })
    };
    (1..).zip(texts).map(stamped).collect()
}

pub fn events() -> Vec<(&'static str, Event)> {
    vec![("flow_defined", Event::FlowDefined)]
}
