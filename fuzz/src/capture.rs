//! libFuzzer at the decoder of captures.
#![no_main]

mod seeds;

use pitwire_hostile_input::capture as target;

libfuzzer_sys::fuzz_target!(init: seeds::write(&target::seeds()), |input: &[u8]| target::run(input));
