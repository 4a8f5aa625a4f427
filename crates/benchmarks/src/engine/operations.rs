//! The operations file: 24-byte records. The whole file is checked before the first operation runs.

use std::fs;
use std::path::Path;

use pitwire_model::Side;

use pitwire_failure::Failure;

/// Length of one record in bytes.
pub const RECORD: usize = 24;

/// The kind of an operation. The variant's number is its code in the operations file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    Limit,
    Cancel,
    Market,
    Immediate,
    Replace,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub kind: OperationKind,
    pub side: Side,
    /// In ticks; 0 for market orders and cancels.
    pub price: u32,
    /// Any number that no other live order has.
    pub id: u64,
    pub quantity: u32,
}

/// Reads a file of operations.
///
/// # Errors
///
/// Returns a usage failure that names the first record that is not valid.
pub fn load(path: &Path) -> Result<Vec<Operation>, Failure> {
    let bytes = fs::read(path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    if u32::try_from(bytes.len() / RECORD).is_err() {
        return Err(Failure::usage("more than 4,294,967,295 operations; split the file"));
    }
    let (records, rest) = bytes.as_chunks::<RECORD>();
    if !rest.is_empty() {
        return Err(Failure::usage(format!(
            "{} is truncated: operation {} has {} of {RECORD} bytes",
            path.display(),
            records.len(),
            rest.len()
        )));
    }
    records.iter().enumerate().map(|(at, record)| parse(at, record)).collect()
}

fn parse(at: usize, record: &[u8; RECORD]) -> Result<Operation, Failure> {
    let refuse = |what: String| Failure::usage(format!("operation {at} {what}"));
    let word = |from: usize| u32::from_le_bytes([record[from], record[from + 1], record[from + 2], record[from + 3]]);
    let kind = match record[0] {
        0 => OperationKind::Limit,
        1 => OperationKind::Cancel,
        2 => OperationKind::Market,
        3 => OperationKind::Immediate,
        4 => OperationKind::Replace,
        other => return Err(refuse(format!("has unknown kind {other}; kinds are 0 to 4"))),
    };
    let side = match record[1] {
        0 => Side::Buy,
        1 => Side::Sell,
        other => return Err(refuse(format!("has unknown side {other}; 0 is buy, 1 is sell"))),
    };
    if record[2] != 0 || record[3] != 0 || word(20) != 0 {
        return Err(refuse("has bytes set that must be zero".into()));
    }
    let (price, quantity) = (word(4), word(16));
    if matches!(kind, OperationKind::Limit | OperationKind::Market | OperationKind::Immediate) && quantity == 0 {
        return Err(refuse("enters an order of quantity 0".into()));
    }
    if matches!(kind, OperationKind::Limit | OperationKind::Immediate) && price == 0 {
        return Err(refuse("enters a limit order at price 0; the lowest price is 1 tick".into()));
    }
    let id = u64::from(word(8)) | u64::from(word(12)) << 32;
    Ok(Operation { kind, side, price, id, quantity })
}
