//! Encodes messages as frames.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    Continuation = 0x0,
    Text = 0x1,
    Binary = 0x2,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xA,
}

/// Why a connection ends (RFC 6455 section 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum CloseCode {
    Normal = 1000,
    GoingAway = 1001,
    Protocol = 1002,
    Unsupported = 1003,
    BadText = 1007,
    Policy = 1008,
    TooBig = 1009,
    /// The service starts again or moves: reconnect, elsewhere if possible.
    Restart = 1012,
    TryAgainLater = 1013,
}

/// Writes the header of one complete, unmasked frame with `len` payload bytes.
#[allow(clippy::cast_possible_truncation)]
pub fn write_header(out: &mut Vec<u8>, opcode: Opcode, len: usize) {
    out.push(0x80 | opcode as u8);
    match len {
        0..=125 => out.push(len as u8),
        126..=0xFFFF => {
            out.push(126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

pub fn write_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    write_header(out, opcode, payload.len());
    out.extend_from_slice(payload);
}

/// Returns the payload of a frame written by [`write_frame`].
pub fn payload_of(frame: &[u8]) -> &[u8] {
    let header = match frame.get(1) {
        Some(126) => 4,
        Some(127) => 10,
        _ => 2,
    };
    frame.get(header..).unwrap_or_default()
}

/// Writes a complete frame of a client. `key` must be unpredictable and used once.
pub fn write_masked(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: [u8; 4]) {
    let header = out.len();
    write_header(out, opcode, payload.len());
    out[header + 1] |= 0x80;
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
}

/// Writes a close frame. The reason is cut to the size of a control frame.
pub fn write_close(out: &mut Vec<u8>, code: CloseCode, reason: &str) {
    let mut end = reason.len().min(123);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    write_header(out, Opcode::Close, 2 + end);
    out.extend_from_slice(&(code as u16).to_be_bytes());
    out.extend_from_slice(&reason.as_bytes()[..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_uses_the_shortest_of_three_forms() {
        for (len, header) in [
            (5_usize, vec![0x81, 5]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_535, vec![0x81, 126, 0xFF, 0xFF]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            write_header(&mut out, Opcode::Text, len);
            assert_eq!(out, header, "{len}");
        }
    }

    #[test]
    fn masked_frame_matches_the_rfc() {
        // RFC 6455 section 5.7: a single-frame masked text message.
        let mut out = vec![0xAA];
        write_masked(&mut out, Opcode::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d]);
        assert_eq!(out[1..], [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
        out.clear();
        write_masked(&mut out, Opcode::Text, &[0; 126], [1, 2, 3, 4]);
        assert_eq!(out[..10], [0x81, 0xFE, 0, 126, 1, 2, 3, 4, 1, 2]);
    }

    #[test]
    fn close_reason_is_cut_between_characters() {
        let mut out = Vec::new();
        write_close(&mut out, CloseCode::TooBig, &"é".repeat(100));
        assert_eq!(out.len(), 2 + 2 + 122);
        assert_eq!(&out[2..4], 1009_u16.to_be_bytes());
        assert!(std::str::from_utf8(&out[4..]).is_ok());
    }

    #[test]
    fn payload_of_skips_each_header_length() {
        for len in [0, 1, 125, 126, 65_535, 65_536] {
            let (mut frame, text) = (Vec::new(), vec![b'x'; len]);
            write_frame(&mut frame, Opcode::Text, &text);
            assert_eq!(payload_of(&frame), text, "{len}");
        }
        assert_eq!(payload_of(b""), b"");
    }
}
