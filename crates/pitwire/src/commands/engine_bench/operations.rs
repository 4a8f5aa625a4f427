//! The operations file: 24-byte records, checked whole before anything runs.

use std::fs;
use std::path::Path;

use pitwire_model::Side;

use pitwire_failure::Failure;

pub const RECORD: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Limit,
    Cancel,
    Market,
    Immediate,
    Replace,
}

#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub kind: Kind,
    pub side: Side,
    pub price: u32,
    pub id: u64,
    pub quantity: u32,
}

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
        0 => Kind::Limit,
        1 => Kind::Cancel,
        2 => Kind::Market,
        3 => Kind::Immediate,
        4 => Kind::Replace,
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
    if matches!(kind, Kind::Limit | Kind::Market | Kind::Immediate) && quantity == 0 {
        return Err(refuse("enters an order of quantity 0".into()));
    }
    if matches!(kind, Kind::Limit | Kind::Immediate) && price == 0 {
        return Err(refuse("enters a limit order at price 0; the lowest price is 1 tick".into()));
    }
    let id = u64::from(word(8)) | u64::from(word(12)) << 32;
    Ok(Operation { kind, side, price, id, quantity })
}
