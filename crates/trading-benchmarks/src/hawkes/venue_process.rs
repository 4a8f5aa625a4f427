//! A venue that the benchmark starts and stops.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pitwire_failure::Failure;
use serde::Deserialize;

/// Longest time until the venue serves.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running venue. It ends when this value is dropped.
pub struct VenueProcess {
    process: Child,
    url: String,
}

#[derive(Deserialize)]
struct ReadyFields {
    http: String,
}

impl VenueProcess {
    /// Starts a venue without order flow on a free port of loopback, and waits until it serves.
    ///
    /// # Errors
    ///
    /// Fails if the venue does not start within a minute.
    pub fn start(program: &Path, durability: &str, directory: &Path) -> Result<VenueProcess, Failure> {
        std::fs::create_dir_all(directory)?;
        let ready = directory.join("ready");
        let process = Command::new(program)
            .args(["up", "--no-flow", "--http", "127.0.0.1:0", "--durability", durability])
            .arg("--data")
            .arg(directory.join("data"))
            .arg("--key-file")
            .arg(directory.join("key"))
            .arg("--ready-file")
            .arg(&ready)
            .env("PITWIRE_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let mut venue = VenueProcess { process, url: String::new() };
        let deadline = Instant::now() + START_TIMEOUT;
        while !ready.exists() {
            let has_ended = venue.process.try_wait()?.is_some();
            if has_ended || Instant::now() > deadline {
                return Err(Failure::new("the venue of the benchmark did not start")
                    .remedy("start it yourself to see why: pitwire up --no-flow"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        let text = std::fs::read(&ready)?;
        let fields: ReadyFields = serde_json::from_slice(&text)
            .map_err(|error| Failure::new(format!("the venue of the benchmark wrote no address: {error}")))?;
        venue.url = format!("ws://{}/ws/api/v2", fields.http);
        Ok(venue)
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for VenueProcess {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
