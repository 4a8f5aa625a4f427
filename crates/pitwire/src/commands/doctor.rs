//! `pitwire doctor`: what this machine offers to a venue.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use pitwire_disk::disk_usage;
use pitwire_failure::Failure;
use pitwire_terminal::output::say;

const EXAMPLES: &str = "Examples:
  pitwire doctor
      cores, open files, kernel features and disk, with remedies
  pitwire doctor --data /mnt/fast
      measures the disk of that directory; of a venue's data directory it also prints the bytes in
      use and how many seconds the disk lasts at this rate";

/// Check whether this machine suits a venue: cores, open files, kernel features, sync latency of
/// the disk.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Doctor {
    /// Directory for the measurement of the sync latency. A small file is written there and
    /// removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// One line of the output.
struct Finding {
    name: &'static str,
    /// The value as JSON. The text output shows it without quotes.
    value: String,
    /// The remedy, if there is something to improve.
    remedy: Option<&'static str>,
}

impl Doctor {
    /// Prints the capabilities of the machine.
    ///
    /// # Errors
    /// If the disk under `--data` cannot be measured.
    pub fn run(self) -> Result<(), Failure> {
        let findings = self.examine()?;
        if self.json {
            let field = |(name, value): (&str, &str)| format!("\"{name}\":{value}");
            let mut fields: Vec<String> =
                findings.iter().map(|finding| field((finding.name, &finding.value))).collect();
            let remedies = findings.iter().filter_map(|finding| Some((finding.name, quoted(finding.remedy?))));
            let remedies: Vec<String> = remedies.map(|(name, remedy)| field((name, &remedy))).collect();
            fields.push(format!("\"remedies\":{{{}}}", remedies.join(",")));
            say(&format!("{{{}}}", fields.join(",")));
            return Ok(());
        }
        for finding in &findings {
            say(&format!("{:<22} {}", finding.name, finding.value.trim_matches('"')));
            if let Some(remedy) = finding.remedy {
                say(&format!("{:<22} remedy: {remedy}", ""));
            }
        }
        Ok(())
    }

    fn examine(&self) -> Result<Vec<Finding>, Failure> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let (soft, hard) = (files.current.unwrap_or(u64::MAX), files.maximum.unwrap_or(u64::MAX));
        let congestion = read("/proc/sys/net/ipv4/tcp_congestion_control");
        let available = read("/proc/sys/net/ipv4/tcp_available_ulp");
        let huge = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let sync = sync_latency(&self.data).map_err(|error| {
            Failure::new(format!("cannot measure the disk under {}: {error}", self.data.display()))
                .remedy("name a writable directory with --data")
        })?;
        let pipe_max = read("/proc/sys/fs/pipe-max-size");
        let shared = shared_memory_bytes();
        let clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let ktls = available.split_whitespace().any(|name| name == "tls");
        let finding = |name, value: String, remedy: Option<&'static str>| Finding { name, value, remedy };
        let mut findings = vec![
            finding("cores", cores.to_string(), (cores < 2).then_some("a venue and its clients want two cores")),
            finding("open_files", soft.to_string(), (soft < 8192).then_some("raise it: ulimit -n 20000")),
            finding("open_files_hard", hard.to_string(), None),
            finding("io_uring", has_io_uring().to_string(), None),
            // For information: no command uses kernel TLS.
            finding("kernel_tls", ktls.to_string(), None),
            finding(
                "congestion_control",
                quoted(&congestion),
                (congestion != "cubic").then_some("for benchmarks on loopback set cubic on the sockets"),
            ),
            finding("pipe_max_bytes", number(&pipe_max), (bytes(&pipe_max) < PIPE_BYTES).then_some(PIPE_REMEDY)),
            finding("shared_memory_bytes", shared.to_string(), (shared < SHARED_BYTES).then_some(SHARED_REMEDY)),
            finding("huge_pages", quoted(&huge), None),
            finding("clock_source", quoted(&clock), (clock != "tsc").then_some(CLOCK_REMEDY)),
            finding("sync_p50_us", format!("{:.1}", sync.p50_us), slow_disk(sync.p50_us)),
            finding("sync_p99_us", format!("{:.1}", sync.p99_us), None),
        ];
        if let Some(usage) = disk_usage(&self.data)? {
            let is_short = usage.lasts_s.is_some_and(|seconds| seconds < SHORT_OF_DISK_S);
            findings.push(finding("data_bytes", usage.bytes.to_string(), None));
            findings.push(finding("data_free_bytes", usage.free_bytes.to_string(), None));
            let lasts = usage.lasts_s.map_or_else(|| "null".into(), |seconds| seconds.to_string());
            findings.push(finding("data_lasts_s", lasts, is_short.then_some(DISK_REMEDY)));
        }
        Ok(findings)
    }
}

const CLOCK_REMEDY: &str = "reading the clock may be a system call; use a machine with a reliable time-stamp counter";
/// Pipe size that `pitwire split` requests for each worker.
const PIPE_BYTES: u64 = 1 << 20;
const PIPE_REMEDY: &str = "pipes of `pitwire split` stay smaller: sysctl fs.pipe-max-size=1048576";
/// Shared memory for the rings of 64 workers.
const SHARED_BYTES: u64 = 64 << 20;
const SHARED_REMEDY: &str =
    "`pitwire split --transport shm` needs 1 MiB per worker: mount -o remount,size=256M /dev/shm";

/// A disk that lasts less than a week has a remedy.
const SHORT_OF_DISK_S: u64 = 7 * 86_400;
const DISK_REMEDY: &str = "bound the history with `pitwire up --keep 7d` or `--keep 20GB`, or use a larger disk";

fn bytes(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Returns the free bytes in /dev/shm.
fn shared_memory_bytes() -> u64 {
    rustix::fs::statvfs("/dev/shm").map_or(0, |place| place.f_bavail.saturating_mul(place.f_frsize))
}

fn slow_disk(p50_us: f64) -> Option<&'static str> {
    (p50_us > 1_000.0)
        .then_some("every acknowledgement waits for this; use a faster disk, or --durability memory for play")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn number(text: &str) -> String {
    text.parse::<u64>().map_or_else(|_| "null".into(), |value| value.to_string())
}

/// Returns whether the kernel offers io_uring. Its sysctl has the value 2 if it is disabled.
fn has_io_uring() -> bool {
    match read("/proc/sys/kernel/io_uring_disabled").as_str() {
        "0" | "1" => true,
        _ => fs::read_to_string("/proc/kallsyms").is_ok_and(|symbols| symbols.contains("io_uring_setup")),
    }
}

struct SyncLatency {
    p50_us: f64,
    p99_us: f64,
}

/// Measures synced writes of 4 KiB into a preallocated file, as a commit does them.
fn sync_latency(directory: &std::path::Path) -> std::io::Result<SyncLatency> {
    use std::os::unix::fs::FileExt;
    const BLOCK: usize = 4096;
    const ROUNDS: u32 = 200;
    let path = directory.join(format!(".pitwire-doctor-{}", std::process::id()));
    let file = fs::OpenOptions::new().create_new(true).read(true).write(true).open(&path)?;
    // Remove the name at once, so that no file is left behind after an error.
    fs::remove_file(&path)?;
    let block = [0xA5_u8; BLOCK];
    file.write_all_at(&vec![0; BLOCK * ROUNDS as usize], 0)?;
    file.sync_all()?;
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let started = Instant::now();
        file.write_all_at(&block, u64::from(round) * BLOCK as u64)?;
        file.sync_data()?;
        took.push(started.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    Ok(SyncLatency { p50_us: took[took.len() / 2], p99_us: took[took.len() * 99 / 100] })
}
