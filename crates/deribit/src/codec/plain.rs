//! The quick reader: requests of the form in which nearly all come, in one pass.
//!
//! Does        one object of `id`, `method`, and `params` that are single values; nothing escaped, no exponent, no name
//!             twice.
//! Holds       what it reads means what the general reader makes of the same text; anything else it leaves to that one,
//!             which also says what is wrong with it.
//! Costs       a look at each byte: a third of the general reader's time.
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
    /// As written; absent when null.
    pub id: Option<&'a str>,
    pub method: Option<&'a str>,
    /// Names, and values as written; without those that are null.
    pub params: Vec<(&'a str, &'a str)>,
}

/// More than any method knows; beyond it looking for a name twice would cost too much.
const MOST_FIELDS: usize = 24;

/// `None` when it must be read by the general reader.
pub(crate) fn read(text: &str) -> Option<Plain<'_>> {
    let mut cursor = Cursor { text, at: 0 };
    let (mut id, mut method, mut params) = (None, None, None);
    cursor.fields(|cursor, name| {
        match name {
            "id" if id.is_none() => id = Some(cursor.value()?),
            "method" if method.is_none() => method = Some(cursor.string()?),
            "params" if params.is_none() => params = Some(cursor.params()?),
            "id" | "method" | "params" => return None,
            _ => drop(cursor.value()?),
        }
        Some(())
    })?;
    cursor.space();
    let is_whole = cursor.at == text.len();
    is_whole.then(|| Plain { id: id.filter(|id| *id != "null"), method, params: params.unwrap_or_default() })
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
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

    /// `{"name":…,…}`; `value` reads what follows a name.
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
            // A null might hide the same name with a value; a list spelt as `name[]` has an order of its own.
            if value == "null" || name.ends_with("[]") {
                return None;
            }
            found.push((name, value));
            Some(())
        })?;
        Some(found)
    }

    /// A string, number, or word, as written.
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

    /// What stands between the quotes.
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
        // An exponent, or a second digit after a leading zero, is for the other reader to judge.
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
