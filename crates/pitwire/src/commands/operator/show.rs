//! Results as text: an object as lines, a list of objects as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::value::RawValue;

type Row = Vec<(String, String)>;

/// Formats a result. Numbers stay as the venue wrote them.
///
/// # Errors
///
/// Returns an error if the text is not JSON.
pub fn table(result: &str) -> Result<String, serde_json::Error> {
    if result.starts_with('[') {
        let rows: Vec<&RawValue> = serde_json::from_str(result)?;
        let rows = rows.into_iter().map(|row| flat(row.get())).collect::<Result<Vec<_>, _>>()?;
        return Ok(columns(&rows));
    }
    if !result.starts_with('{') {
        return Ok(plain(result));
    }
    let row = flat(result)?;
    let width = row.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    Ok(row.iter().fold(String::new(), |mut out, (key, value)| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{key:width$}  {value}");
        out
    }))
}

fn plain(json: &str) -> String {
    serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())
}

/// Flattens an object. The key of a nested value follows a dot.
fn flat(object: &str) -> Result<Row, serde_json::Error> {
    // The map sorts the keys, so the order is always the same.
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object)?;
    let mut row = Vec::new();
    for (key, value) in fields {
        if value.get().starts_with('{') {
            row.extend(flat(value.get())?.into_iter().map(|(inner, value)| (format!("{key}.{inner}"), value)));
        } else {
            row.push((key, plain(value.get())));
        }
    }
    Ok(row)
}

fn columns(rows: &[Row]) -> String {
    let mut names: Vec<&str> = rows.iter().flatten().map(|(key, _)| key.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let cell = |row: &Row, name: &str| {
        row.iter().find(|(key, _)| key == name).map_or(String::new(), |(_, value)| value.clone())
    };
    let width = |name: &str| rows.iter().map(|row| cell(row, name).len()).chain([name.len()]).max().unwrap_or(0);
    let line = |cells: Vec<String>| {
        let padded = names.iter().zip(cells).map(|(name, cell)| format!("{cell:width$}", width = width(name)));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(names.iter().map(|name| (*name).to_owned()).collect());
    let body = rows.iter().map(|row| line(names.iter().map(|name| cell(row, name)).collect()));
    [head].into_iter().chain(body).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_table_and_an_object_is_lines() {
        assert_eq!(
            table(r#"[{"name":"a","limits":{"most":2}},{"name":"long","x":1.50}]"#).unwrap(),
            "limits.most  name  x\n2            a\n             long  1.50"
        );
        assert_eq!(table(r#"{"b":"x","aa":1}"#).unwrap(), "aa  1\nb   x\n");
        assert_eq!(table("\"ok\"").unwrap(), "ok");
        assert!(table("[1]").is_err());
    }
}
