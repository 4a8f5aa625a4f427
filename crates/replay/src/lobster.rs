//! LOBSTER message files (lobsterdata.com): time, type, order id, size, price, direction.
//!
//! Types: 1 new limit order, 2 partial cancel, 3 delete, 4 trade of a visible order, 5 trade
//! of a hidden order, 6 cross, 7 halt. Time is in seconds after midnight with up to nine decimals.
//! A price is in ten-thousandths of a dollar. The direction is that of the limit order: 1 buy, -1
//! sell.
//!
//! Start at    [`read_lobster`].

use std::io::Read;

use pitwire_failure::Failure;
use pitwire_model::{Lots, Side, Ticks, VenueNanos};

use crate::tape::{RecordedTape, RecordedTrade, TapeAction, TapeStep};

/// Reads a message file. `tick` is the price of a tick in ten-thousandths of a dollar: 100 for a
/// cent.
///
/// # Errors
///
/// Returns a failure with the line of a malformed row, of a time that goes back, or of a price that
/// is not a multiple of the tick.
pub fn read_lobster(input: impl Read, tick: i64) -> Result<RecordedTape, Failure> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
    let mut tape = RecordedTape::default();
    let mut last = VenueNanos(0);
    for (line, record) in (1_u64..).zip(reader.records()) {
        let failed = |what: String| {
            Failure::new(format!("cannot read the LOBSTER messages: line {line}: {what}"))
                .remedy("give a message file: time, type, order id, size, price, direction")
        };
        let record = record.map_err(|error| failed(error.to_string()))?;
        // Some files have a seventh field with notes.
        if record.len() < 6 {
            return Err(failed(format!("the row has {} fields, expected 6", record.len())));
        }
        let field = |at: usize| record.get(at).unwrap_or_default().trim();
        let number = |at: usize, name: &str| {
            field(at).parse::<i64>().map_err(|_| failed(format!("{name} is {:?}, not a whole number", field(at))))
        };
        let at = nanos(field(0)).ok_or_else(|| failed(format!("the time is {:?}", field(0))))?;
        if at < last {
            return Err(failed(format!("the time {:?} is before that of the line above", field(0))));
        }
        last = at;
        let kind = number(1, "the type")?;
        if matches!(kind, 6 | 7) {
            tape.unsupported += 1;
            continue;
        }
        if kind == 5 {
            tape.hidden_trades += 1;
            continue;
        }
        let id = number(2, "the order id")?.unsigned_abs();
        let size = u64::try_from(number(3, "the size")?).ok().filter(|size| (1..=Lots::MAX_ORDER.0).contains(size));
        let lots = Lots(size.ok_or_else(|| failed(format!("the size is {:?}", field(3))))?);
        let price = number(4, "the price")?;
        if tick <= 0 || price % tick != 0 || !(1..=Ticks::MAX_PRICE.0).contains(&(price / tick)) {
            return Err(failed(format!("the price {price} is no multiple of the tick {tick}")));
        }
        let price = Ticks(price / tick);
        let side = match number(5, "the direction")? {
            1 => Side::Buy,
            -1 => Side::Sell,
            other => return Err(failed(format!("the direction is {other}, not 1 or -1"))),
        };
        let (action, trades) = match kind {
            1 => (TapeAction::Enter { id, side, price: Some(price), lots, rests: true }, Vec::new()),
            2 => (TapeAction::Reduce { id, lots }, Vec::new()),
            3 => (TapeAction::Delete { id }, Vec::new()),
            4 => (
                TapeAction::Take { maker: id, side: side.opposite(), price, lots },
                vec![RecordedTrade { maker: id, price, lots }],
            ),
            other => return Err(failed(format!("the type is {other}, not 1 to 7"))),
        };
        tape.steps.push(TapeStep { at, action, trades });
    }
    Ok(tape)
}

/// Parses seconds with up to nine decimals, without a float.
fn nanos(text: &str) -> Option<VenueNanos> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part: u64 = format!("{part:0<9}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(part).map(VenueNanos)
}
