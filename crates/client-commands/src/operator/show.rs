//! Results as text: an object as lines, a list of objects as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::value::RawValue;

use pitwire_terminal::output::printable;
use pitwire_terminal::text_table::TextTable;

type Row = Vec<(String, String)>;

/// Columns in the order that an operator reads them. Others follow by name.
const FIRST_COLUMNS: [&str; 15] = [
    "order_id",
    "account",
    "name",
    "instrument_name",
    "direction",
    "amount",
    "price",
    "session",
    "open_orders",
    "credit",
    "killed",
    "throttled",
    "closed",
    "client_id",
    "client_secret",
];

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
    let width = row.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    Ok(row.iter().fold(String::new(), |mut out, (key, value)| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{key:width$}  {value}");
        out
    }))
}

/// Formats a value: texts without quotes, others as the venue wrote them. Control characters are
/// replaced, so that a name cannot steer the terminal.
pub fn plain(json: &str) -> String {
    let text = serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned());
    printable(&text)
}

/// Flattens an object. The key of a nested value follows a dot.
///
/// # Errors
///
/// Returns an error if the text is not a JSON object.
pub fn flat(object: &str) -> Result<Row, serde_json::Error> {
    // The map sorts the keys, so the order is always the same.
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object)?;
    let mut row = Vec::new();
    for (key, value) in fields {
        let key = printable(&key);
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
    if names.is_empty() {
        return "none".into();
    }
    let place = |name: &str| FIRST_COLUMNS.iter().position(|first| *first == name).unwrap_or(FIRST_COLUMNS.len());
    names.sort_unstable_by_key(|name| (place(name), *name));
    names.dedup();
    let cell = |row: &Row, name: &str| {
        row.iter().find(|(key, _)| key == name).map_or(String::new(), |(_, value)| value.clone())
    };
    let mut table = TextTable::new(&names);
    for row in rows {
        table.row(names.iter().map(|name| cell(row, name)));
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(result: &str) -> String {
        anstream::adapter::strip_str(&table(result).unwrap()).to_string()
    }

    #[test]
    fn a_list_is_a_table_and_an_object_is_lines() {
        assert_eq!(
            shown(r#"[{"name":"a","limits":{"most":2}},{"name":"long","x":1.50}]"#),
            "name  limits.most     x\na               2\nlong               1.50\n"
        );
        assert_eq!(shown(r#"{"b":"x","aa":1}"#), "aa  1\nb   x\n");
        assert_eq!((shown("\"ok\""), shown("[]")), ("ok".into(), "none".into()));
        assert!(table("[1]").is_err());
    }

    #[test]
    fn orders_have_their_columns_in_an_operators_order() {
        let order = r#"[{"amount":2,"direction":"sell","name":"a","order_id":"17","price":9.50,"session":3}]"#;
        assert_eq!(
            shown(order),
            "order_id  name  direction  amount  price  session\n      17  a     sell            2   9.50        3\n"
        );
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(shown(r#"[{"name":"a\u001b[2J"}]"#), "name\na?[2J\n");
    }
}
