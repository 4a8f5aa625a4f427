//! The body of a used signature. The layout is at the head of the parent module.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pitwire_model::{AccountId, SignaturePurpose, SpentSignature};

use crate::records::bytes::{DecodeError, Reader, Writer};

/// Fewest bytes of a body.
pub const SMALLEST_BYTES: usize = 32 + 4 + 8 + 1;

pub fn put_signature(w: &mut Writer<'_>, spent: &SpentSignature) {
    w.put_raw(&spent.digest);
    w.put_u32(spent.account.0);
    w.put_u64(spent.used_ms);
    match spent.purpose {
        SignaturePurpose::Order => w.put_u8(0),
        SignaturePurpose::Login(None) => w.put_u8(1),
        SignaturePurpose::Login(Some(IpAddr::V4(address))) => {
            w.put_u8(2);
            w.put_raw(&address.octets());
        }
        SignaturePurpose::Login(Some(IpAddr::V6(address))) => {
            w.put_u8(3);
            w.put_raw(&address.octets());
        }
    }
}

/// Reads the use of a signature.
///
/// # Errors
///
/// Returns the position of a truncated or invalid value.
pub fn take_signature(r: &mut Reader<'_>) -> Result<SpentSignature, DecodeError> {
    let (digest, account, used_ms) = (r.take_array()?, AccountId(r.take_u32()?), r.take_u64()?);
    let at = r.position();
    let purpose = match r.take_u8()? {
        0 => SignaturePurpose::Order,
        1 => SignaturePurpose::Login(None),
        2 => SignaturePurpose::Login(Some(Ipv4Addr::from(r.take_array::<4>()?).into())),
        3 => SignaturePurpose::Login(Some(Ipv6Addr::from(r.take_array::<16>()?).into())),
        tag => return Err(DecodeError::UnknownTag { what: "use of a signature", tag: u32::from(tag), at }),
    };
    Ok(SpentSignature { digest, account, used_ms, purpose })
}
