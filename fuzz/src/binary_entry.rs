//! libFuzzer at the codecs of binary order entry.
#![no_main]

mod seeds;

use pitwire_hostile_input::binary_entry as target;

libfuzzer_sys::fuzz_target!(init: seeds::write(&target::seeds()), |input: &[u8]| target::run(input));
