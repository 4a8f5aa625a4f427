//! libFuzzer at the JSON-RPC entrance.
#![no_main]

mod seeds;

use pitwire_hostile_input::entrance as target;

libfuzzer_sys::fuzz_target!(init: seeds::write(&target::seeds()), |input: &[u8]| target::run(input));
