//! Lets the reference engine play scenarios.

use pitwire_engine::EngineImage;
use pitwire_model::{Event, SequencedCommand};
use pitwire_scenario::{Machine, References};

use crate::engine::ReferenceEngine;

impl Machine for ReferenceEngine {
    fn apply(&mut self, stamped: &SequencedCommand, out: &mut Vec<Event>) {
        ReferenceEngine::apply(self, stamped, out);
    }

    fn image(&self) -> EngineImage {
        ReferenceEngine::image(self)
    }

    fn prime(&mut self, references: References) -> Result<(), String> {
        let References { instrument, last, static_reference, dynamic_reference, previous_close } = references;
        ReferenceEngine::prime(self, instrument, last, static_reference, dynamic_reference, previous_close);
        Ok(())
    }
}
