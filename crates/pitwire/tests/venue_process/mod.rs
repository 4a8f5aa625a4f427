//! A venue in a separate process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Bound of every wait. A test that passes does not come near it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A venue in a directory that is removed at the end.
pub struct Venue {
    process: Child,
    directory: PathBuf,
    durability: &'static str,
    pub address: String,
}

impl Venue {
    /// Starts a venue. Only with the durability `disk` it can be started again.
    pub fn start(test: &str, durability: &'static str) -> Venue {
        let directory = std::env::temp_dir().join(format!("pitwire-client-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let process = launch(&directory, durability);
        let mut venue = Venue { process, directory, durability, address: String::new() };
        venue.wait();
        venue
    }

    /// Kills the process with SIGKILL.
    #[allow(dead_code)] // Not every test that has this module kills its venue.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts a killed venue over the same data, at another address.
    #[allow(dead_code)]
    pub fn start_again(&mut self) {
        self.process = launch(&self.directory, self.durability);
        self.wait();
    }

    fn wait(&mut self) {
        let ready = self.directory.join("ready");
        let deadline = Instant::now() + PATIENCE;
        while !ready.exists() {
            assert_eq!(self.process.try_wait().unwrap(), None, "the venue ended before it served");
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
        }
        let fields: Value = serde_json::from_slice(&std::fs::read(&ready).unwrap()).unwrap();
        fields["http"].as_str().unwrap().clone_into(&mut self.address);
    }
}

fn launch(directory: &Path, durability: &str) -> Child {
    let ready = directory.join("ready");
    let _ = std::fs::remove_file(&ready);
    Command::new(env!("CARGO_BIN_EXE_pitwire"))
        .args(["up", "--no-flow", "--warm-up", "0", "--http", "127.0.0.1:0", "--durability", durability])
        .arg("--data")
        .arg(directory.join("data"))
        .arg("--ready-file")
        .arg(&ready)
        .spawn()
        .unwrap()
}

impl Drop for Venue {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
