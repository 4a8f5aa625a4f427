//! `pitwire bars`: a worker of `pitwire split` that makes bars and indicators. The work is in
//! `crates/bars`.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pitwire_bars::worker::{self, BarJob, BarSummary, WorkerError};
use pitwire_bars::{BarRules, check_buckets};
use serde_json::json;

use pitwire_failure::{Failure, read_text};
use pitwire_net::ready_file::{ReadyFile, ServedAt};
use pitwire_net::{listen_options, stop_flag};
use pitwire_terminal::output::say;

const EXAMPLES: &str = "Rules, formulas, columns and the messages of the WebSocket: docs/bars.md.

Examples:
  pitwire split ws://feed:8080/ --workers 4 -- pitwire bars --out bars
      pipes: split appends four descriptors
  pitwire bars --out bars --buckets 60,300 --rules mine.toml 3 3<shard.records
      recorded data, with bars of one and five minutes";

/// Make bars and indicators for every symbol, as a worker of `pitwire split`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Bars {
    /// Directory for finished bars, as Parquet files.
    #[arg(long, value_name = "DIR", required_unless_present = "listen")]
    out: Option<PathBuf>,
    /// Serve the latest bars over WebSocket at this address.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_options::address)]
    listen: Option<SocketAddr>,
    /// File to write as soon as readers can connect.
    #[arg(long, value_name = "PATH", requires = "listen")]
    ready_file: Option<PathBuf>,
    /// Lengths of bars in seconds.
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', default_value = "30,90,180")]
    buckets: Vec<u32>,
    /// File with custom bar conditions (TOML).
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Start a new file after this many seconds.
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    rotate: u32,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
    /// Pipe descriptors or ring names, one per shard; `pitwire split` appends them.
    #[arg(value_name = "SHARD", required = true)]
    shards: Vec<String>,
}

impl Bars {
    /// Makes bars until every shard has ended.
    ///
    /// # Errors
    /// If an option or the rules are wrong, or a shard, a file or the address cannot be opened or
    /// ends with an error.
    pub fn run(self) -> Result<(), Failure> {
        let rules = self.rules.as_deref().map_or_else(|| Ok(BarRules::default()), read_rules)?;
        check_buckets(&self.buckets, &rules).map_err(Failure::usage)?;
        let ready_file = ReadyFile::prepare(self.ready_file)?;
        let stop = stop_flag()?;
        let job = BarJob {
            shards: self.shards,
            buckets_s: self.buckets,
            rules,
            out: self.out,
            rotate: Duration::from_secs(u64::from(self.rotate)),
            listen: self.listen,
            stop,
        };
        let running = worker::start(job).map_err(failure)?;
        if let Some(address) = running.address() {
            ready_file.write(ServedAt { http: address, tls: None }.fields())?;
            tracing::info!("bars: serving the latest bars at ws://{address}/");
        }
        let (summary, ended) = running.wait();
        ready_file.remove()?;
        say(&if self.json { as_json(&summary) } else { in_words(&summary) });
        ended.map_err(failure)
    }
}

fn read_rules(path: &Path) -> Result<BarRules, Failure> {
    let text = File::open(path)
        .and_then(read_text)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())).remedy("check --rules"))?;
    BarRules::parse(&text, &path.display().to_string())
        .map_err(|error| Failure::usage(error.to_string()).remedy("docs/bars.md has every key"))
}

fn failure(error: WorkerError) -> Failure {
    let remedy = error.remedy();
    Failure::new(error.to_string()).remedy(remedy)
}

fn as_json(summary: &BarSummary) -> String {
    let totals = &summary.totals;
    json!({
        "trades": totals.trades, "records": totals.records, "bars": totals.bars, "symbols": totals.symbols,
        "late": totals.late, "strays": totals.strays, "merged": totals.merged, "gaps": totals.gaps,
        "other": totals.other, "unreadable": totals.unreadable, "refused": totals.refused,
        "files": summary.files, "rows": summary.rows, "seconds": summary.seconds,
    })
    .to_string()
}

fn in_words(summary: &BarSummary) -> String {
    let totals = &summary.totals;
    format!(
        "{} trades of {} symbols, {} bars, {} rows in {} files; late {}, strays {}, merged {}, gaps {}, unreadable {}, refused {}",
        totals.trades,
        totals.symbols,
        totals.bars,
        summary.rows,
        summary.files,
        totals.late,
        totals.strays,
        totals.merged,
        totals.gaps,
        totals.unreadable,
        totals.refused
    )
}
