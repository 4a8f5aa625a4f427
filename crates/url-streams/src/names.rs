//! Names of instruments in the three forms.
//!
//! Does        `NPN_ZAR` is `NPNZAR` to Binance and Gemini and `NPN-ZAR` to Bithumb; whatever a client writes is found by
//!             its letters and digits alone, in either case.
//! Holds       two instruments whose letters and digits are the same: the one that was there first.
//! Leaves out  the venue's own name, which the JSON-RPC dialect keeps.

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, InstrumentSpec};

/// One instrument's names, made once.
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

    /// What its own name says.
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

/// Letters and digits in upper case: what every form agrees on.
fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect()
}

/// All instruments by what clients call them.
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

    /// Of a venue of which nothing is known but the names, for who only reads what clients ask for.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Directory {
        let mut directory = Directory::default();
        for (id, name) in (0..).map(InstrumentId).zip(names) {
            let names = Names::plain(name);
            directory.by_letters.entry(names.joined.clone()).or_insert(id);
            directory.names.push(names);
        }
        directory
    }

    /// Takes in instruments that have come since.
    pub fn learn(&mut self, engine: &Engine) {
        for market in engine.markets().iter().skip(self.names.len()) {
            let names = Names::of(&market.spec, engine);
            self.by_letters.entry(names.joined.clone()).or_insert(market.spec.id);
            self.names.push(names);
        }
    }

    pub fn find(&self, symbol: &str) -> Option<InstrumentId> {
        // Nobody's name is longer, and a stranger's should not be copied.
        (symbol.len() <= 64).then(|| self.by_letters.get(&letters(symbol)).copied())?
    }

    pub fn names(&self, id: InstrumentId) -> Option<&Names> {
        self.names.get(id.0 as usize)
    }

    pub fn all(&self) -> impl Iterator<Item = InstrumentId> {
        (0..).map(InstrumentId).take(self.names.len())
    }
}
