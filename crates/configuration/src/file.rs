//! Reading a configuration file.
//!
//! Does        parse the file and remember the line of each definition for error messages.
//! Start at    [`read_setup`].

use std::fs::File;
use std::path::Path;

use pitwire_failure::{Failure, read_text};
use pitwire_schedule::LineNumber;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::setup::Setup;

/// Reads a configuration file.
///
/// # Errors
///
/// Returns a failure that names the line and the key if the file cannot be read or parsed.
pub fn read_setup(path: &Path) -> Result<Setup, Failure> {
    let failed = |what: String| {
        Failure::new(format!("cannot use the configuration {}: {what}", path.display()))
            .remedy("docs/configuration.md lists every key")
    };
    let text = File::open(path).and_then(read_text).map_err(|error| failed(error.to_string()))?;
    let mut setup = parse_setup(&text).map_err(|error| failed(error.to_string().trim_end().to_owned()))?;
    setup.file = Some(path.display().to_string());
    Ok(setup)
}

/// Parses the text of a configuration file.
pub(crate) fn parse_setup(text: &str) -> Result<Setup, Error> {
    let mut setup: Setup = toml::from_str(text)?;
    set_lines(&mut setup, text);
    Ok(setup)
}

/// Sets the line on which each definition begins.
fn set_lines(setup: &mut Setup, text: &str) {
    let Ok(table) = DeTable::parse(text) else { return };
    let table = table.get_ref();
    let line = |value: &Spanned<DeValue<'_>>| {
        let before = text.get(..value.span().start).unwrap_or_default();
        LineNumber(u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX))
    };
    if let (Some(calendar), Some(value)) = (&mut setup.calendar, table.get("calendar")) {
        calendar.line = line(value);
    }
    for (segment, value) in setup.segments.iter_mut().zip(array(table, "segment")) {
        segment.line = line(value);
    }
    for (instrument, value) in setup.instruments.iter_mut().zip(array(table, "instrument")) {
        instrument.line = line(value);
    }
    for (schedule, value) in setup.schedules.iter_mut().zip(array(table, "schedule")) {
        schedule.line = line(value);
        let Some(inner) = value.get_ref().as_table() else { continue };
        for (session, value) in schedule.sessions.iter_mut().zip(array(inner, "sessions")) {
            session.line = line(value);
        }
        for (session, value) in schedule.half_day.iter_mut().flatten().zip(array(inner, "half_day")) {
            session.line = line(value);
        }
    }
}

fn array<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> impl Iterator<Item = &'t Spanned<DeValue<'i>>> {
    table.get(key).and_then(|value| value.get_ref().as_array()).into_iter().flatten()
}
