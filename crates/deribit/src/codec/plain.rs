//! The fast reader, for the form that nearly all requests have, in one pass.
//!
//! Does        read one object of `id`, `method`, and `params` that are single values, without
//!             escapes, exponents or repeated names.
//! Holds       it agrees with the general reader on every text that it accepts. It leaves every
//!             other text to the general reader, which also names the error.
//! Costs       one look at each byte: a third of the general reader's time.
//! Start at    [`read`].

/// Bytes that stand for themselves within a string.
const SPELT_OUT: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = false;
        byte += 1;
    }
    table[b'"' as usize] = false;
    table[b'\\' as usize] = false;
    table
};

/// A request as it stands in its text.
pub(crate) struct Plain<'a> {
    /// As written; absent if null.
    pub id: Option<&'a str>,
    pub method: Option<&'a str>,
    /// Names, and values as written, without nulls.
    pub params: Vec<(&'a str, &'a str)>,
}

/// More fields than any method has. Beyond that, the search for repeated names would cost too much.
const MOST_FIELDS: usize = 24;

/// Reads a request. `None` if the general reader must read it.
pub(crate) fn read(text: &str) -> Option<Plain<'_>> {
    let mut cursor = JsonCursor { text, at: 0 };
    let (mut id, mut method, mut params) = (None, None, None);
    let mut has_version = false;
    cursor.fields(|cursor, name| {
        match name {
            "id" if id.is_none() => id = Some(cursor.value()?),
            "method" if method.is_none() => method = Some(cursor.string()?),
            "params" if params.is_none() => params = Some(cursor.params()?),
            "jsonrpc" if !has_version => {
                cursor.value()?;
                has_version = true;
            }
            // A repeated name, or a name that only the general reader compares with the others.
            _ => return None,
        }
        Some(())
    })?;
    cursor.space();
    let is_whole = cursor.at == text.len();
    is_whole.then(|| Plain { id: id.filter(|id| *id != "null"), method, params: params.unwrap_or_default() })
}

struct JsonCursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonCursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads `{"name":…,…}`; `value` reads what follows a name.
    fn fields(&mut self, mut value: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.space();
        self.take(b'{')?;
        self.space();
        if self.peek()? == b'}' {
            return self.take(b'}');
        }
        loop {
            self.space();
            let name = self.string()?;
            self.space();
            self.take(b':')?;
            self.space();
            value(self, name)?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                _ => return self.take(b'}'),
            }
        }
    }

    fn params(&mut self) -> Option<Vec<(&'a str, &'a str)>> {
        let mut found: Vec<(&'a str, &'a str)> = Vec::with_capacity(8);
        let mut names = 0;
        self.fields(|cursor, name| {
            let value = cursor.value()?;
            names += 1;
            if names > MOST_FIELDS || found.iter().any(|(other, _)| *other == name) {
                return None;
            }
            // A null may hide a second field of the same name, and a list spelled as `name[]` has
            // an order.
            if value == "null" || name.ends_with("[]") {
                return None;
            }
            found.push((name, value));
            Some(())
        })?;
        Some(found)
    }

    /// Reads a string, number or word, as written.
    fn value(&mut self) -> Option<&'a str> {
        let from = self.at;
        match self.peek()? {
            b'"' => drop(self.string()?),
            b'-' | b'0'..=b'9' => self.number()?,
            _ => {
                let rest = &self.text[from..];
                let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word))?;
                self.at += word.len();
            }
        }
        Some(&self.text[from..self.at])
    }

    /// Reads the text between the quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let from = self.at;
        let bytes = self.text.as_bytes();
        let mut at = from;
        while SPELT_OUT[usize::from(*bytes.get(at)?)] {
            at += 1;
        }
        self.at = at;
        self.take(b'"')?;
        Some(&self.text[from..at])
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        // The general reader judges exponents and leading zeros.
        (!matches!(self.peek(), Some(b'e' | b'E' | b'0'..=b'9'))).then_some(())
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }
}
