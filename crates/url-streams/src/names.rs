//! Instrument names in the three dialects.
//!
//! Does        Names `NPN_ZAR` `NPNZAR` for Binance and Gemini and `NPN-ZAR` for Bithumb. Finds an
//!             instrument by the letters and digits that a client writes, in either case.
//! Holds       If two instruments have the same letters and digits, the older one is found.
//! Leaves out  The venue's own name, which the JSON-RPC dialect uses.

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, InstrumentSpec};

/// One instrument's names, built once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `NPNZAR`.
    pub joined: String,
    /// `npnzar`.
    pub lower: String,
    /// `NPN-ZAR`.
    pub dashed: String,
    pub base: String,
    pub quote: String,
}

impl Names {
    pub fn of(spec: &InstrumentSpec, engine: &Engine) -> Names {
        let currency = |id| engine.currency(id).map_or_else(String::new, |currency| currency.name.clone());
        Names { base: currency(spec.base()), quote: currency(spec.quote()), ..Names::plain(&spec.name) }
    }

    /// Derives the names from the venue's own name.
    fn plain(name: &str) -> Names {
        let joined = letters(name);
        let dashed = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
        Names {
            lower: joined.to_ascii_lowercase(),
            joined,
            dashed: dashed.to_ascii_uppercase(),
            base: String::new(),
            quote: String::new(),
        }
    }
}

/// Returns the letters and digits in upper case: what all dialects have in common.
fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect()
}

/// All instruments by the names that clients use.
#[derive(Debug, Default)]
pub struct Directory {
    names: Vec<Names>,
    by_letters: BTreeMap<String, InstrumentId>,
}

impl Directory {
    pub fn of(engine: &Engine) -> Directory {
        let mut directory = Directory::default();
        directory.learn(engine);
        directory
    }

    /// Builds a directory from names alone, for a gateway.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Directory {
        let mut directory = Directory::default();
        for (id, name) in (0..).map(InstrumentId).zip(names) {
            let names = Names::plain(name);
            directory.by_letters.entry(names.joined.clone()).or_insert(id);
            directory.names.push(names);
        }
        directory
    }

    /// Adds instruments that were listed since the last call.
    pub fn learn(&mut self, engine: &Engine) {
        for market in engine.markets().iter().skip(self.names.len()) {
            let names = Names::of(&market.spec, engine);
            self.by_letters.entry(names.joined.clone()).or_insert(market.spec.id);
            self.names.push(names);
        }
    }

    pub fn find(&self, symbol: &str) -> Option<InstrumentId> {
        // No name is longer. The limit avoids copying long input.
        (symbol.len() <= 64).then(|| self.by_letters.get(&letters(symbol)).copied())?
    }

    pub fn names(&self, id: InstrumentId) -> Option<&Names> {
        self.names.get(id.0 as usize)
    }

    pub fn all(&self) -> impl Iterator<Item = InstrumentId> {
        (0..).map(InstrumentId).take(self.names.len())
    }
}
