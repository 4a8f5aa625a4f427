//! What goes wrong, in the shape in which the shared modules say it.

use std::fmt;

#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub fn new(what: impl Into<String>) -> Self {
        Failure(what.into())
    }

    pub fn usage(what: impl Into<String>) -> Self {
        Failure(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
