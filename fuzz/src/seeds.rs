//! Writes the first inputs where libFuzzer looks for them next: into the folder `FUZZ_SEEDS`.

use std::path::PathBuf;
use std::{env, fs};

pub fn write(seeds: &[Vec<u8>]) {
    let Some(folder) = env::var_os("FUZZ_SEEDS").map(PathBuf::from) else { return };
    for (number, seed) in seeds.iter().enumerate() {
        let file = folder.join(format!("seed-{number:04}"));
        fs::write(&file, seed).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}
