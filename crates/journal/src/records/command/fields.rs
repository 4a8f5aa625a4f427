//! Fields that the bodies of several commands share. The layout is at the head of the parent
//! module.

use pitwire_model::{Decimal, Label, Phase, SelfMatch, SessionReason, Side};

use crate::records::bytes::{DecodeError, Reader, Writer};

pub(crate) fn put_decimal(w: &mut Writer<'_>, value: Decimal) {
    w.put_i128(value.mantissa);
    w.put_u8(value.scale);
}

pub(crate) fn take_decimal(r: &mut Reader<'_>) -> Result<Decimal, DecodeError> {
    Ok(Decimal { mantissa: r.take_i128()?, scale: r.take_u8()? })
}

/// Writes a side in the lowest bit, and above it a mark for which the record has no other field.
pub(crate) fn put_marked_side(w: &mut Writer<'_>, side: Side, is_marked: bool) {
    w.put_u8(side as u8 | if is_marked { 2 } else { 0 });
}

pub(crate) fn take_marked_side(r: &mut Reader<'_>) -> Result<(Side, bool), DecodeError> {
    take_code(r, "side", |code| match code {
        0 | 2 => Some((Side::Buy, code == 2)),
        1 | 3 => Some((Side::Sell, code == 3)),
        _ => None,
    })
}

pub(crate) fn take_side(r: &mut Reader<'_>) -> Result<Side, DecodeError> {
    take_code(r, "side", |code| match code {
        0 => Some(Side::Buy),
        1 => Some(Side::Sell),
        _ => None,
    })
}

pub(crate) fn take_phase(r: &mut Reader<'_>) -> Result<Phase, DecodeError> {
    take_code(r, "phase", |code| Phase::ALL.into_iter().find(|phase| *phase as u8 == code))
}

pub(crate) fn take_label(r: &mut Reader<'_>) -> Result<Label, DecodeError> {
    let at = r.position();
    Label::new(r.take_text()?).ok_or(DecodeError::BadValue { what: "label", at })
}

/// Reads one byte that stands for a variant.
pub(crate) fn take_code<T>(
    r: &mut Reader<'_>,
    what: &'static str,
    known: impl Fn(u8) -> Option<T>,
) -> Result<T, DecodeError> {
    let at = r.position();
    let code = r.take_u8()?;
    known(code).ok_or(DecodeError::UnknownTag { what, tag: u32::from(code), at })
}

/// Writes a flag and, if it is set, the value.
pub(crate) fn put_option_with<T>(w: &mut Writer<'_>, value: Option<T>, put: impl FnOnce(&mut Writer<'_>, T)) {
    w.put_bool(value.is_some());
    if let Some(value) = value {
        put(w, value);
    }
}

pub(crate) fn take_option_with<'a, T>(
    r: &mut Reader<'a>,
    take: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    if r.take_bool()? { take(r).map(Some) } else { Ok(None) }
}

pub(crate) fn take_reason(r: &mut Reader<'_>) -> Result<SessionReason, DecodeError> {
    take_code(r, "session reason", |code| SessionReason::ALL.into_iter().find(|reason| *reason as u8 == code))
}

pub(crate) fn take_self_match(r: &mut Reader<'_>) -> Result<SelfMatch, DecodeError> {
    take_code(r, "self-match", |code| SelfMatch::ALL.into_iter().find(|mode| *mode as u8 == code))
}
