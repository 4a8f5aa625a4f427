//! Events as columns. NumPy takes their memory over without a copy.

use std::sync::LazyLock;

use numpy::{IntoPyArray, PyArray1};
use pitwire_model::{CancelReason, Event, Reject, Side};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Names of the kinds, by the number in the column `kind`.
pub const KINDS: [&str; 19] = [
    "accepted",
    "rejected",
    "trade",
    "cancelled",
    "amended",
    "refreshed",
    "amend_refused",
    "cancel_refused",
    "command_refused",
    "level",
    "session_changed",
    "parked",
    "injected",
    "triggered",
    "indicative",
    "uncrossed",
    "breached",
    "closing_price_set",
    "index_sampled",
];

/// The words of reasons, and the number of each reason of a cancel.
///
/// The number of a refusal is its code, and 0 is no reason. The words that only cancels have
/// follow.
struct Reasons {
    words: Vec<String>,
    of_cancel: [u8; CancelReason::ALL.len()],
}

static REASONS: LazyLock<Reasons> = LazyLock::new(|| {
    let most = Reject::ALL.iter().map(|reason| *reason as usize).max().unwrap_or(0);
    let mut words: Vec<String> = (0..=most).map(|code| format!("unused_{code}")).collect();
    words[0].clear();
    for reason in Reject::ALL {
        words[reason as usize] = reason.name().into();
    }
    let of_cancel = CancelReason::ALL.map(|reason| {
        let word = snake_case(&format!("{reason:?}"));
        let known = words.iter().position(|known| *known == word).unwrap_or_else(|| {
            words.push(word);
            words.len() - 1
        });
        // There are fewer than 100 reasons.
        u8::try_from(known).unwrap_or(u8::MAX)
    });
    Reasons { words, of_cancel }
});

/// Names of the reasons, by the number in the column `reason`.
pub fn reasons() -> Vec<String> {
    REASONS.words.clone()
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// One event. A number that the kind does not have is 0; an instrument or account is -1.
#[derive(Clone, Copy)]
struct EventRow {
    kind: u8,
    reason: u8,
    side: i8,
    instrument: i32,
    account: i32,
    order: u64,
    other_account: i32,
    other_order: u64,
    price_ticks: i64,
    lots: u64,
    open_lots: u64,
}

impl EventRow {
    fn new(kind: u8) -> Self {
        EventRow {
            kind,
            reason: 0,
            side: 0,
            instrument: -1,
            account: -1,
            order: 0,
            other_account: -1,
            other_order: 0,
            price_ticks: 0,
            lots: 0,
            open_lots: 0,
        }
    }

    fn of_order(kind: u8, order: u64, account: u32) -> Self {
        EventRow { order, account: id(account), ..EventRow::new(kind) }
    }
}

fn id(number: u32) -> i32 {
    // Ids are dense from 0, so none comes near this bound.
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn sign(side: Side) -> i8 {
    match side {
        Side::Buy => 1,
        Side::Sell => -1,
    }
}

fn row(event: &Event) -> Option<EventRow> {
    Some(match *event {
        Event::Accepted { order, account, instrument, side, order_type, lots, .. } => EventRow {
            instrument: id(instrument.0),
            side: sign(side),
            price_ticks: order_type.limit_price().map_or(0, |price| price.0),
            lots: lots.0,
            open_lots: lots.0,
            ..EventRow::of_order(0, order.0, account.0)
        },
        Event::Rejected { order, account, reason } => {
            EventRow { reason: reason as u8, ..EventRow::of_order(1, order.0, account.0) }
        }
        Event::Trade {
            instrument,
            price,
            lots,
            taker_side,
            maker,
            maker_account,
            taker,
            taker_account,
            taker_open,
            ..
        } => EventRow {
            instrument: id(instrument.0),
            side: sign(taker_side),
            other_account: id(maker_account.0),
            other_order: maker.0,
            price_ticks: price.0,
            lots: lots.0,
            open_lots: taker_open.0,
            ..EventRow::of_order(2, taker.0, taker_account.0)
        },
        Event::Cancelled { order, account, instrument, side, price, open, reason } => EventRow {
            reason: REASONS.of_cancel[reason as usize],
            instrument: id(instrument.0),
            side: sign(side),
            price_ticks: price.0,
            lots: open.0,
            ..EventRow::of_order(3, order.0, account.0)
        },
        Event::Amended { order, account, instrument, side, price, lots, open, .. } => EventRow {
            instrument: id(instrument.0),
            side: sign(side),
            price_ticks: price.0,
            lots: lots.0,
            open_lots: open.0,
            ..EventRow::of_order(4, order.0, account.0)
        },
        Event::Refreshed { order, account, instrument, side, price, shown } => EventRow {
            instrument: id(instrument.0),
            side: sign(side),
            price_ticks: price.0,
            lots: shown.0,
            ..EventRow::of_order(5, order.0, account.0)
        },
        Event::AmendRefused { order, account, reason } => {
            EventRow { reason: reason as u8, ..EventRow::of_order(6, order.0, account.0) }
        }
        Event::CancelRefused { order, account, reason } => {
            EventRow { reason: reason as u8, ..EventRow::of_order(7, order.0, account.0) }
        }
        Event::CommandRefused { reason } => EventRow { reason: reason as u8, ..EventRow::new(8) },
        Event::Level { instrument, side, price, lots } => EventRow {
            instrument: id(instrument.0),
            side: sign(side),
            price_ticks: price.0,
            lots: lots.0,
            ..EventRow::new(9)
        },
        Event::SessionChanged { instrument, .. } => EventRow { instrument: id(instrument.0), ..EventRow::new(10) },
        Event::Parked { order, account, instrument, open } => {
            EventRow { instrument: id(instrument.0), open_lots: open.0, ..EventRow::of_order(11, order.0, account.0) }
        }
        Event::Injected { order, account, instrument } => {
            EventRow { instrument: id(instrument.0), ..EventRow::of_order(12, order.0, account.0) }
        }
        Event::Triggered { order, account, instrument, last } => {
            EventRow { instrument: id(instrument.0), price_ticks: last.0, ..EventRow::of_order(13, order.0, account.0) }
        }
        Event::Indicative { instrument, price, volume, .. } => EventRow {
            instrument: id(instrument.0),
            price_ticks: price.map_or(0, |price| price.0),
            lots: volume.0,
            ..EventRow::new(14)
        },
        Event::Uncrossed { instrument, price, volume, .. } => {
            EventRow { instrument: id(instrument.0), price_ticks: price.0, lots: volume.0, ..EventRow::new(15) }
        }
        Event::Breached { instrument, price, .. } => {
            EventRow { instrument: id(instrument.0), price_ticks: price.0, ..EventRow::new(16) }
        }
        Event::ClosingPriceSet { instrument, price, .. } => {
            EventRow { instrument: id(instrument.0), price_ticks: price.0, ..EventRow::new(17) }
        }
        Event::IndexSampled { instrument, mark, .. } => {
            EventRow { instrument: id(instrument.0), price_ticks: mark.0, ..EventRow::new(18) }
        }
        _ => return None,
    })
}

macro_rules! columns {
    ($($name:ident: $type:ty),* $(,)?) => {
        /// Events since they were last taken.
        #[derive(Default)]
        pub struct EventColumns {
            sequence: Vec<u64>,
            time_ns: Vec<u64>,
            $($name: Vec<$type>,)*
        }

        impl EventColumns {
            fn push(&mut self, sequence: u64, time_ns: u64, row: &EventRow) {
                self.sequence.push(sequence);
                self.time_ns.push(time_ns);
                $(self.$name.push(row.$name);)*
            }

            /// Moves the columns to NumPy arrays, by name.
            ///
            /// # Errors
            /// If Python has no memory for the arrays.
            pub fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                let taken = std::mem::take(self);
                let arrays = PyDict::new(py);
                arrays.set_item("sequence", taken.sequence.into_pyarray(py))?;
                arrays.set_item("time_ns", taken.time_ns.into_pyarray(py))?;
                $({
                    let array: Bound<'py, PyArray1<$type>> = taken.$name.into_pyarray(py);
                    arrays.set_item(stringify!($name), array)?;
                })*
                Ok(arrays)
            }
        }
    };
}

columns! {
    kind: u8,
    instrument: i32,
    account: i32,
    order: u64,
    side: i8,
    price_ticks: i64,
    lots: u64,
    open_lots: u64,
    other_account: i32,
    other_order: u64,
    reason: u8,
}

impl EventColumns {
    pub fn len(&self) -> usize {
        self.sequence.len()
    }

    /// Appends the events of one command.
    pub fn record(&mut self, sequence: u64, time_ns: u64, events: &[Event]) {
        for row in events.iter().filter_map(row) {
            self.push(sequence, time_ns, &row);
        }
    }
}
