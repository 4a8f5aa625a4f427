//! Trades from a table (CSV or Parquet) or from a recording's messages, kept in memory.
//!
//! Does        reads the columns of docs/tape.md into trade objects with their times, and returns
//!             them again.
//! Start at    [`TradeRows::from_csv`], [`TradeRows::from_parquet`], [`TradeRows::from_recording`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use parquet::file::reader::SerializedFileReader;
use parquet::record::{Field, Row};

use crate::objects::objects;
use crate::recording::RecordingReader;
use crate::trades::TradeSource;

/// One reader's position in the table.
#[derive(Clone)]
pub struct TradeRows {
    table: Arc<RowTable>,
    at: usize,
}

#[derive(Default)]
struct RowTable {
    /// The objects, each followed by a comma.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// Times since the first one.
    due_ns: Vec<u64>,
    has_times: bool,
}

/// The cells of one row as text; missing ones are empty.
#[derive(Default)]
struct Cells {
    sym: String,
    i: String,
    x: String,
    p: String,
    s: String,
    c: String,
    t: String,
    z: String,
}

impl Cells {
    fn cell(&mut self, column: &str) -> Option<&mut String> {
        match column {
            "sym" => Some(&mut self.sym),
            "i" => Some(&mut self.i),
            "x" => Some(&mut self.x),
            "p" => Some(&mut self.p),
            "s" => Some(&mut self.s),
            "c" => Some(&mut self.c),
            "t" => Some(&mut self.t),
            "z" => Some(&mut self.z),
            _ => None,
        }
    }
}

const NEEDED: [&str; 3] = ["sym", "p", "s"];

impl TradeRows {
    /// Reads all rows of a CSV file with a header line.
    ///
    /// # Errors
    ///
    /// Returns a text with the cause: an I/O error, a missing column, or a bad value with its row.
    pub fn from_csv(path: &Path) -> Result<Self, String> {
        let mut table = csv::Reader::from_path(path).map_err(|error| error.to_string())?;
        let columns = table.headers().map_err(|error| error.to_string())?.clone();
        needs(columns.iter())?;
        let mut filling = ObjectBuilder::default();
        for row in table.records() {
            let row = row.map_err(|error| error.to_string())?;
            let mut cells = Cells::default();
            for (column, value) in columns.iter().zip(&row) {
                if let Some(cell) = cells.cell(column.trim()) {
                    value.trim().clone_into(cell);
                }
            }
            let line = row.position().map_or(0, csv::Position::line);
            filling.add(cells).map_err(|what| format!("line {line}: {what}"))?;
        }
        Ok(filling.done())
    }

    /// Reads all rows of a Parquet file.
    ///
    /// # Errors
    ///
    /// Returns a text with the cause: an I/O error, a missing column, or a bad value with its row.
    pub fn from_parquet(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
        let mut filling = ObjectBuilder::default();
        let mut has_looked = false;
        for (number, row) in (1_u64..).zip(reader) {
            let row: Row = row.map_err(|error| format!("row {number}: {error}"))?;
            if !has_looked {
                needs(row.get_column_iter().map(|(name, _)| name.as_str()))?;
                has_looked = true;
            }
            let mut cells = Cells::default();
            for (name, field) in row.get_column_iter() {
                if let Some(cell) = cells.cell(name) {
                    *cell = spelled(field);
                }
            }
            filling.add(cells).map_err(|what| format!("row {number}: {what}"))?;
        }
        Ok(filling.done())
    }

    /// Takes every object of every message, with the time of its message.
    ///
    /// # Errors
    ///
    /// Returns a text with the cause: a damaged recording, or a message that is not an array of
    /// trades.
    pub fn from_recording<R: Read + Seek>(reader: &mut RecordingReader<R>) -> Result<Self, String> {
        let mut table = RowTable { has_times: true, ..RowTable::default() };
        while let Some((ns, _, payload)) = reader.next_message().map_err(|error| error.to_string())? {
            for range in objects(payload) {
                table.push(&payload[range], ns);
            }
        }
        Ok(table.into())
    }

    pub fn len(&self) -> usize {
        self.table.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.ends.is_empty()
    }

    /// Returns whether each row has a time.
    pub fn has_times(&self) -> bool {
        self.table.has_times
    }
}

impl From<RowTable> for TradeRows {
    fn from(table: RowTable) -> Self {
        TradeRows { table: Arc::new(table), at: 0 }
    }
}

impl RowTable {
    fn push(&mut self, object: &[u8], due_ns: u64) {
        self.text.extend_from_slice(object);
        self.ends.push(self.text.len());
        self.text.push(b',');
        self.due_ns.push(due_ns);
    }
}

impl TradeSource for TradeRows {
    fn take(&mut self, trades: usize, _wall_ms: u64, out: &mut Vec<u8>, ends: Option<&mut Vec<usize>>) -> usize {
        let table = &self.table;
        let taken = trades.min(table.ends.len() - self.at);
        if taken == 0 {
            return 0;
        }
        let start = if self.at == 0 { 0 } else { table.ends[self.at - 1] + 1 };
        let run = &table.ends[self.at..self.at + taken];
        let base = out.len();
        out.extend_from_slice(&table.text[start..=run[taken - 1]]);
        if let Some(ends) = ends {
            ends.extend(run.iter().map(|end| base + end - start));
        }
        self.at += taken;
        taken
    }

    fn checksum(&self) -> Option<u64> {
        None
    }

    fn remaining(&self) -> u64 {
        (self.table.ends.len() - self.at) as u64
    }

    fn due_ns(&self, ahead: u64) -> Option<u64> {
        self.table.due_ns.get(self.at + usize::try_from(ahead).ok()?).copied()
    }
}

fn needs<'a>(columns: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let columns: Vec<&str> = columns.map(str::trim).collect();
    match NEEDED.iter().find(|needed| !columns.contains(needed)) {
        None => Ok(()),
        Some(missing) => {
            Err(format!("there is no column {missing}; sym, p and s are needed, i, x, c, t and z are taken too"))
        }
    }
}

/// Builds objects from rows. Numbers the trades of symbols without ids.
#[derive(Default)]
struct ObjectBuilder {
    table: RowTable,
    numbers: BTreeMap<String, u64>,
    first_ms: Option<u64>,
    last_ns: u64,
    lacks_time: bool,
}

impl ObjectBuilder {
    fn add(&mut self, cells: Cells) -> Result<(), String> {
        if cells.sym.is_empty() {
            return Err("sym is empty".into());
        }
        let price = decimal(&cells.p).ok_or_else(|| format!("p is no decimal: {:?}", cells.p))?;
        let size = whole("s", &cells.s)?.ok_or("s is empty")?;
        let time_ms = whole("t", &cells.t)?;
        let (venue, tape) = (whole("x", &cells.x)?.unwrap_or(0), whole("z", &cells.z)?.unwrap_or(0));
        let conditions = conditions(&cells.c)?;
        let id = if cells.i.is_empty() {
            let number = self.numbers.entry(cells.sym.clone()).or_default();
            *number += 1;
            format!("{number:012}")
        } else {
            cells.i
        };
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let object = format!(
            "{{\"ev\":\"T\",\"sym\":{},\"i\":{},\"x\":{venue},\"p\":{price},\"s\":{size},\"c\":{conditions},\"t\":{},\"z\":{tape}}}",
            quoted(&cells.sym),
            quoted(&id),
            time_ms.unwrap_or(0)
        );
        self.lacks_time |= time_ms.is_none();
        let first_ms = *self.first_ms.get_or_insert(time_ms.unwrap_or(0));
        // Late prints keep their position: time does not go back.
        let since_ns = time_ms.unwrap_or(0).saturating_sub(first_ms).saturating_mul(1_000_000);
        self.last_ns = self.last_ns.max(since_ns);
        self.table.push(object.as_bytes(), self.last_ns);
        Ok(())
    }

    fn done(mut self) -> TradeRows {
        self.table.has_times = !self.lacks_time;
        self.table.into()
    }
}

/// Copies a JSON number without exponent as it was written.
fn decimal(text: &str) -> Option<&str> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(part) && (whole == "0" || !whole.starts_with('0'))).then_some(text)
}

fn whole(column: &str, text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("{column} is no whole number: {text:?}"))
}

/// Parses numbers with any separators: `[14,37]`, `14 37`, `14;37`.
fn conditions(text: &str) -> Result<String, String> {
    let mut codes: Vec<u16> = Vec::new();
    for word in text.split(|letter: char| "[], ;|".contains(letter)).filter(|word| !word.is_empty()) {
        codes.push(word.parse().map_err(|_| format!("c holds no condition codes: {text:?}"))?);
    }
    let words: Vec<String> = codes.iter().map(u16::to_string).collect();
    Ok(format!("[{}]", words.join(",")))
}

/// Formats a Parquet value as in CSV.
fn spelled(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::TimestampMillis(ms) => ms.to_string(),
        Field::TimestampMicros(us) => (us / 1_000).to_string(),
        Field::Double(number) => number.to_string(),
        Field::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Result<TradeRows, String> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pitwire-rows-{}-{number}.csv", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let rows = TradeRows::from_csv(&path);
        std::fs::remove_file(&path).unwrap();
        rows
    }

    #[test]
    fn table_rows_become_trades() {
        let mut rows = csv("sym,p,s,t,c,extra\nAAPL,114.125,100,1536036818784,14 37,x\n\"B\"\"R\",3,1,1536036818786,,y\nAAPL,115,7,1536036818785,[2],z\n").unwrap();
        let mut out = Vec::new();
        let mut ends = Vec::new();
        assert_eq!(rows.take(9, 0, &mut out, Some(&mut ends)), 3);
        let expected = [
            r#"{"ev":"T","sym":"AAPL","i":"000000000001","x":0,"p":114.125,"s":100,"c":[14,37],"t":1536036818784,"z":0}"#,
            r#"{"ev":"T","sym":"B\"R","i":"000000000001","x":0,"p":3,"s":1,"c":[],"t":1536036818786,"z":0}"#,
            r#"{"ev":"T","sym":"AAPL","i":"000000000002","x":0,"p":115,"s":7,"c":[2],"t":1536036818785,"z":0}"#,
        ];
        assert_eq!(String::from_utf8(out).unwrap(), expected.join(",") + ",");
        assert_eq!(ends.len(), 3);
        let again = TradeRows { at: 0, ..rows.clone() };
        let due: Vec<Option<u64>> = (0..4).map(|ahead| again.due_ns(ahead)).collect();
        assert_eq!(due, [Some(0), Some(2_000_000), Some(2_000_000), None]);
        assert!(rows.has_times());
    }

    #[test]
    fn invalid_rows_are_reported_with_line_and_column() {
        for (text, expected) in [
            ("sym,p\nA,1\n", "no column s"),
            ("sym,p,s\nA,1e5,1\n", "line 2: p is no decimal"),
            ("sym,p,s\nA,-1,1\n", "line 2: p is no decimal"),
            ("sym,p,s\nA,NaN,1\n", "line 2: p is no decimal"),
            ("sym,p,s\nA,01,1\n", "line 2: p is no decimal"),
            ("sym,p,s\nA,1,1\n,1,1\n", "line 3: sym is empty"),
            ("sym,p,s\nA,1,1.5\n", "line 2: s is no whole number"),
            ("sym,p,s,c\nA,1,1,x\n", "line 2: c holds no condition codes"),
            ("sym,p,s\nA,1\n", "found record with 2 fields"),
        ] {
            let error = csv(text).err().unwrap();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
