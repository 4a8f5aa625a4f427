//! A market and its recorded events.

use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use pitwire_model::{Command, InstrumentId, Lots, Side, VenueNanos};
use pitwire_simulation::{MarketStep, SteppedMarket};
use pyo3::prelude::*;

use crate::errors::{ErrorType, check_signals, error, failed, invalid};
use crate::event_columns::EventColumns;

/// Commands between two checks for signals. A check takes the interpreter's lock.
pub const COMMANDS_PER_SLICE: usize = 4096;

/// Prices and lots, best price first.
pub type LevelArray<'py> = Bound<'py, PyArray2<i64>>;

/// A market and the events that its caller has not taken yet.
pub struct RunningMarket {
    pub market: SteppedMarket,
    /// `None` if events are not recorded.
    pub events: Option<EventColumns>,
    pub max_events: usize,
}

impl RunningMarket {
    /// Executes a command at the current time.
    ///
    /// # Errors
    ///
    /// Raises `EventBufferFull` before the command, or `VenueFailed` if the journal cannot be
    /// written.
    pub fn submit(&mut self, py: Python<'_>, command: Command) -> PyResult<u64> {
        self.check_buffer(py)?;
        let sequence = self.market.submit(command).map_err(|failure| failed(py, ErrorType::VenueFailed, failure))?;
        self.record();
        Ok(sequence.0)
    }

    /// Records the events of the last command.
    pub fn record(&mut self) {
        if let Some(columns) = &mut self.events {
            columns.record(self.market.last().0, self.market.now().0, self.market.events());
        }
    }

    pub fn is_full(&self) -> bool {
        self.events.as_ref().is_some_and(|columns| columns.len() >= self.max_events)
    }

    /// # Errors
    ///
    /// Raises `EventBufferFull`.
    pub fn check_buffer(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_full() {
            return Ok(());
        }
        let what = format!("the event buffer has reached max_events, {}", self.max_events);
        let remedy = "take the events by Venue.events(), or create the venue with record=False";
        Err(error(py, ErrorType::EventBufferFull, what, remedy))
    }

    /// Executes due commands until nothing is due by `until`, or the flow has executed
    /// `flow_commands`. Returns the number of executed commands.
    ///
    /// # Errors
    ///
    /// As [`RunningMarket::submit`], and `Interrupted` after Ctrl-C.
    pub fn run_until(&mut self, py: Python<'_>, until: VenueNanos, flow_commands: u64) -> PyResult<u64> {
        let mut commands = 0;
        loop {
            self.check_buffer(py)?;
            let slice = py.detach(|| self.run_slice(until, flow_commands, &mut commands));
            if slice.map_err(|failure| failed(py, ErrorType::VenueFailed, failure))? {
                return Ok(commands);
            }
            check_signals(py, || format!("advance was interrupted after {commands} commands"))?;
        }
    }

    /// Executes some due commands. Returns whether the run is complete.
    fn run_slice(
        &mut self,
        until: VenueNanos,
        flow_commands: u64,
        commands: &mut u64,
    ) -> Result<bool, pitwire_failure::Failure> {
        for _ in 0..COMMANDS_PER_SLICE {
            if self.market.flow_commands() >= flow_commands {
                return Ok(true);
            }
            if self.is_full() {
                return Ok(false);
            }
            match self.market.step(until)? {
                MarketStep::Command => {
                    *commands += 1;
                    self.record();
                }
                MarketStep::Idle => {}
                MarketStep::Done => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Returns the levels of one side of a book.
    ///
    /// # Errors
    ///
    /// Raises `InvalidValue` for an unknown instrument.
    pub fn levels<'py>(
        &self,
        py: Python<'py>,
        instrument: InstrumentId,
        side: Side,
        depth: usize,
    ) -> PyResult<LevelArray<'py>> {
        let Some(market) = self.market.engine().market(instrument) else {
            return Err(invalid(py, "the instrument is unknown", "use an instrument of Venue.instruments"));
        };
        let lots = |lots: Lots| i64::try_from(lots.0).unwrap_or(i64::MAX);
        let levels = market.book().levels(side).take(depth);
        let flat: Vec<i64> = levels.flat_map(|(price, quantity)| [price.0, lots(quantity)]).collect();
        let rows = flat.len() / 2;
        flat.into_pyarray(py).reshape([rows, 2])
    }
}
