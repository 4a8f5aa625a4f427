//! A venue in a separate process.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Bound of every wait. A test that passes does not come near it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A venue in a directory that is removed at the end.
pub struct Venue {
    process: Child,
    directory: PathBuf,
    pub address: String,
}

impl Venue {
    pub fn start(test: &str) -> Venue {
        let directory = std::env::temp_dir().join(format!("pitwire-client-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let ready = directory.join("ready");
        let mut process = Command::new(env!("CARGO_BIN_EXE_pitwire"))
            .args(["up", "--no-flow", "--warm-up", "0", "--http", "127.0.0.1:0", "--durability", "memory"])
            .arg("--data")
            .arg(directory.join("data"))
            .arg("--ready-file")
            .arg(&ready)
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !ready.exists() {
            assert_eq!(process.try_wait().unwrap(), None, "the venue ended before it served");
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
        }
        let fields: Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
        let address = fields["http"].as_str().unwrap().to_owned();
        Venue { process, directory, address }
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
