//! Lists and optional numbers, as all parts of an image write them.

use crate::records::bytes::{DecodeError, Reader, Writer};

pub(super) fn put_all<T>(w: &mut Writer<'_>, items: &[T], put: impl Fn(&mut Writer<'_>, &T)) {
    w.put_count(items.len());
    for item in items {
        put(w, item);
    }
}

/// Reads a list. `smallest` is the size of the smallest item, which bounds the reserved memory by
/// the input.
pub(super) fn take_all<T>(
    r: &mut Reader<'_>,
    smallest: usize,
    take: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = r.take_count(smallest)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(take(r)?);
    }
    Ok(items)
}

pub(super) fn put_option(w: &mut Writer<'_>, value: Option<i64>) {
    w.put_bool(value.is_some());
    w.put_i64(value.unwrap_or(0));
}

pub(super) fn take_option(r: &mut Reader<'_>) -> Result<Option<i64>, DecodeError> {
    let at = r.position();
    match (r.take_bool()?, r.take_i64()?) {
        (true, value) => Ok(Some(value)),
        (false, 0) => Ok(None),
        (false, _) => Err(DecodeError::BadValue { what: "value of nothing", at }),
    }
}
