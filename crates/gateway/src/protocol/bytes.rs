//! Little-endian fields with length prefixes.

/// Reads fields from the front. Returns `None` once a field is incomplete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(all: &'a [u8]) -> Self {
        Reader { all, at: 0 }
    }

    /// Returns the offset of the next field.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.all.len()
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.all.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a text with a two-byte length.
    pub fn text(&mut self) -> Option<&'a str> {
        let len = self.u16()?;
        std::str::from_utf8(self.take(usize::from(len))?).ok()
    }

    /// Reads bytes with a four-byte length.
    pub fn blob(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }
}

/// Appends a text. Names are short; a longer text is cut at a character boundary.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&u16::try_from(end).unwrap_or(u16::MAX).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

pub(crate) fn put_blob(out: &mut Vec<u8>, blob: &[u8]) {
    out.extend_from_slice(&length(blob.len()).to_le_bytes());
    out.extend_from_slice(blob);
}

/// Returns a length as u32. Messages are far below 4 GiB.
pub(crate) fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
