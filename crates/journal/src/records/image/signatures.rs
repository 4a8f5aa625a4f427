//! Used signatures in the projections: the last part of a snapshot, present only if there are any.

use pitwire_model::SpentSignature;

use super::fields::{put_all, take_all};
use crate::records::bytes::{DecodeError, Reader, Writer};
use crate::records::command::{SMALLEST_SIGNATURE_BYTES, put_signature, take_signature};

/// Writes nothing without signatures, so that such snapshots keep their older bytes.
pub(super) fn put(w: &mut Writer<'_>, signatures: &[SpentSignature]) {
    if !signatures.is_empty() {
        put_all(w, signatures, put_signature);
    }
}

pub(super) fn take(r: &mut Reader<'_>) -> Result<Vec<SpentSignature>, DecodeError> {
    if r.remaining() == 0 {
        return Ok(Vec::new());
    }
    let at = r.position();
    let signatures = take_all(r, SMALLEST_SIGNATURE_BYTES, take_signature)?;
    if signatures.is_empty() {
        return Err(DecodeError::BadValue { what: "number of signatures", at });
    }
    Ok(signatures)
}
