//! Source of a served feed: generated from a seed or read from a file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pitwire_recorder::dialect::{FeedDialect, VenueFeed};
use pitwire_recorder::payload_sizes::PayloadSizes;
use pitwire_recorder::rate::Rate;
use pitwire_recorder::recording::{FileEnding, Recording, RecordingReader};
use pitwire_recorder::rows::TradeRows;
use pitwire_recorder::serve_summary::per_second;
use pitwire_recorder::stream::{FillResult, StreamConfig, StreamSource, StreamTime, TapeStream};
use pitwire_recorder::synthetic::SyntheticFeed;
use pitwire_recorder::trades::MessageSource;

use pitwire_failure::Failure;

#[derive(Clone)]
pub enum FeedSource {
    SyntheticFeed { symbols: usize },
    VenueFeed { venue: FeedDialect, markets: usize, sizes: Option<PayloadSizes> },
    Recording(PathBuf),
    TradeRows(TradeRows),
}

impl FeedSource {
    /// Detects the type of a file by its first bytes and its extension. `cut_up` splits a
    /// recording's messages into trades.
    ///
    /// # Errors
    ///
    /// The file cannot be read, has an unknown format or has no trades.
    pub fn of_file(path: &Path, cut_up: bool) -> Result<Self, Failure> {
        let bad = |what: String| {
            Failure::new(format!("{}: {what}", path.display()))
                .remedy("give a recording of `pitwire tape record`, a Parquet file, or a .csv (docs/tape.md)")
        };
        let mut start = [0; 4];
        let begins =
            File::open(path).and_then(|mut file| file.read(&mut start)).map_err(|error| bad(error.to_string()))?;
        if start[..begins] == *b"PAR1" {
            return TradeRows::from_parquet(path).map_err(bad).and_then(|rows| some(rows, path));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
            return TradeRows::from_csv(path).map_err(bad).and_then(|rows| some(rows, path));
        }
        let mut reader = RecordingReader::open(path).map_err(|error| bad(error.to_string()))?;
        if let FileEnding::Cut { at } = reader.ending {
            eprintln!("pitwire: {}: its writer was ended; what is whole ends at byte {at}", path.display());
        }
        if cut_up {
            return TradeRows::from_recording(&mut reader).map_err(bad).and_then(|rows| some(rows, path));
        }
        Ok(FeedSource::Recording(path.to_owned()))
    }

    /// Returns whether the source has its own times.
    pub fn has_times(&self) -> bool {
        match self {
            FeedSource::SyntheticFeed { .. } | FeedSource::VenueFeed { .. } => false,
            FeedSource::Recording(_) => true,
            FeedSource::TradeRows(rows) => rows.has_times(),
        }
    }

    /// Returns the source of a live feed, which takes whole messages.
    ///
    /// # Errors
    /// The source consists of trades, or cannot be read.
    pub fn messages(&self, seed: u64) -> Result<Box<dyn MessageSource>, Failure> {
        match self.source(seed).map_err(Failure::new)? {
            StreamSource::Messages(messages) => Ok(messages),
            StreamSource::Trades(_) => Err(Failure::usage("--live serves messages, and this source has trades")
                .remedy("give --dialect binance, bithumb, gemini or plain, or a recording with --file")),
        }
    }

    fn source(&self, seed: u64) -> Result<StreamSource, String> {
        Ok(match self {
            FeedSource::SyntheticFeed { symbols } => StreamSource::Trades(Box::new(SyntheticFeed::new(*symbols, seed))),
            FeedSource::VenueFeed { venue, markets, sizes } => {
                let feed = VenueFeed::new(*venue, *markets, seed);
                StreamSource::Messages(Box::new(match sizes {
                    Some(sizes) => feed.with_sizes(*sizes, seed),
                    None => feed,
                }))
            }
            FeedSource::TradeRows(rows) => StreamSource::Trades(Box::new(rows.clone())),
            FeedSource::Recording(path) => {
                let reader = RecordingReader::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
                StreamSource::Messages(Box::new(Recording::new(reader)))
            }
        })
    }
}

fn some(rows: TradeRows, path: &Path) -> Result<FeedSource, Failure> {
    if rows.is_empty() {
        return Err(Failure::new(format!("{}: the file has no trades", path.display())).remedy("give another file"));
    }
    Ok(FeedSource::TradeRows(rows))
}

/// A source and how to serve it.
#[derive(Clone)]
pub struct Plan {
    pub what: FeedSource,
    pub config: StreamConfig,
}

impl Plan {
    /// Opens the stream of messages.
    ///
    /// # Errors
    /// If the file cannot be read or the settings are impossible.
    pub fn stream(&self) -> Result<TapeStream, String> {
        self.stream_with(self.config.clone())
    }

    fn stream_with(&self, config: StreamConfig) -> Result<TapeStream, String> {
        Ok(TapeStream::new(self.what.source(config.seed)?, config))
    }

    /// Measures how many trades (or messages) per second the stream generates when it is not sent.
    /// Takes 0.1 seconds.
    pub fn ceiling_per_s(&self) -> f64 {
        const MEASURED: Duration = Duration::from_millis(100);
        let unlimited =
            StreamConfig { pace: Rate::Max.pace(), trades: None, disconnect_every: None, ..self.config.clone() };
        let Ok(mut stream) = self.stream_with(unlimited) else { return 0.0 };
        let mut out = Vec::new();
        let started = Instant::now();
        while started.elapsed() < MEASURED {
            out.clear();
            if stream.fill(StreamTime::default(), &mut out) != FillResult::Send {
                break;
            }
        }
        per_second(stream.tally.trades, started.elapsed().as_secs_f64())
    }
}
