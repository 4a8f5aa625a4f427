//! What is served: made from a seed, or read from a file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pitwire_recorder::dialect::{Dialect, Venue};
use pitwire_recorder::framing::Sizes;
use pitwire_recorder::recording::{Ending, Reader, Recording};
use pitwire_recorder::rows::Rows;
use pitwire_recorder::stream::{Moment, Next, Source, Stream, Terms};
use pitwire_recorder::synthetic::Synthetic;

use super::values::Rate;
use pitwire_failure::Failure;

#[derive(Clone)]
pub enum What {
    Synthetic { symbols: usize },
    Dialect { venue: Venue, markets: usize },
    Recording(PathBuf),
    Rows(Rows),
}

impl What {
    /// By what the file begins with; `cut_up` takes a recording's messages apart into trades.
    pub fn of_file(path: &Path, cut_up: bool) -> Result<Self, Failure> {
        let bad = |what: String| {
            Failure::new(format!("{}: {what}", path.display()))
                .remedy("give a recording of `pitwire tape record`, a Parquet file, or a .csv (docs/tape.md)")
        };
        let mut start = [0; 4];
        let begins =
            File::open(path).and_then(|mut file| file.read(&mut start)).map_err(|error| bad(error.to_string()))?;
        if start[..begins] == *b"PAR1" {
            return Rows::from_parquet(path).map_err(bad).and_then(|rows| some(rows, path));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
            return Rows::from_csv(path).map_err(bad).and_then(|rows| some(rows, path));
        }
        let mut reader = Reader::open(path).map_err(|error| bad(error.to_string()))?;
        if let Ending::Cut { at } = reader.ending {
            eprintln!("pitwire: {}: its writer was ended; what is whole ends at byte {at}", path.display());
        }
        if cut_up {
            return Rows::from_recording(&mut reader).map_err(bad).and_then(|rows| some(rows, path));
        }
        Ok(What::Recording(path.to_owned()))
    }

    /// Whether it comes with times of its own.
    pub fn has_times(&self) -> bool {
        match self {
            What::Synthetic { .. } | What::Dialect { .. } => false,
            What::Recording(_) => true,
            What::Rows(rows) => rows.has_times(),
        }
    }

    fn source(&self, seed: u64) -> Result<Source, String> {
        Ok(match self {
            What::Synthetic { symbols } => Source::Trades(Box::new(Synthetic::new(*symbols, seed))),
            What::Dialect { venue, markets } => Source::Messages(Box::new(Dialect::new(*venue, *markets, seed))),
            What::Rows(rows) => Source::Trades(Box::new(rows.clone())),
            What::Recording(path) => {
                let reader = Reader::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
                Source::Messages(Box::new(Recording::new(reader)))
            }
        })
    }
}

fn some(rows: Rows, path: &Path) -> Result<What, Failure> {
    if rows.is_empty() {
        return Err(Failure::new(format!("{}: there is no trade in it", path.display())).remedy("give another file"));
    }
    Ok(What::Rows(rows))
}

/// All that makes a stream.
#[derive(Clone)]
pub struct Plan {
    pub what: What,
    pub rate: Rate,
    pub sizes: Sizes,
    pub fragment: Option<usize>,
    pub trades: Option<u64>,
    pub disconnect_every: Option<u64>,
    pub content: bool,
    pub seed: u64,
}

impl Plan {
    pub fn stream(&self) -> Result<Stream, String> {
        self.stream_at(self.rate, self.trades, self.disconnect_every)
    }

    fn stream_at(&self, rate: Rate, trades: Option<u64>, disconnect_every: Option<u64>) -> Result<Stream, String> {
        let terms = Terms {
            pace: rate.pace(),
            sizes: self.sizes,
            fragment: self.fragment,
            trades,
            disconnect_every,
            content: self.content,
            seed: self.seed,
        };
        Ok(Stream::new(self.what.source(self.seed)?, terms))
    }

    /// Trades (or messages) a second that the same stream makes when nobody has to take them.
    pub fn ceiling_per_s(&self) -> f64 {
        const MEASURED: Duration = Duration::from_millis(100);
        let Ok(mut stream) = self.stream_at(Rate::Max, None, None) else { return 0.0 };
        let mut out = Vec::new();
        let started = Instant::now();
        while started.elapsed() < MEASURED {
            out.clear();
            if stream.fill(Moment::default(), &mut out) != Next::Send {
                break;
            }
        }
        super::figures::per(stream.tally.trades, started.elapsed().as_secs_f64())
    }
}
