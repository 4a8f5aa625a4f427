//! On which line of its file each definition begins.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Line;
use crate::venue::setup::Setup;

/// Marks what was read from `text` with its lines. Text that cannot be read marks nothing: that has been told already.
pub fn mark(setup: &mut Setup, text: &str) {
    let Ok(table) = DeTable::parse(text) else { return };
    let table = table.get_ref();
    let line = |value: &Spanned<DeValue<'_>>| {
        let before = text.get(..value.span().start).unwrap_or_default();
        Line(u32::try_from(before.matches('\n').count() + 1).unwrap_or(u32::MAX))
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
