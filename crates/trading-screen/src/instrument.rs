//! An instrument and its grid of prices and amounts.

use pitwire_client::Value;
use pitwire_terminal::output::printable;
use serde::Deserialize;

/// An instrument as `public/get_instruments` reports it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Instrument {
    #[serde(rename = "instrument_name")]
    pub name: String,
    #[serde(rename = "tick_size")]
    pub tick: Value,
    /// The smallest amount, which is also the step of the amount keys.
    #[serde(rename = "min_trade_amount")]
    pub lot: Value,
    #[serde(rename = "base_currency", default)]
    pub base: String,
    #[serde(rename = "quote_currency", default)]
    pub quote: String,
}

impl Instrument {
    /// Reads the answer of `public/get_instruments`. Returns the instruments in the order of their
    /// names.
    ///
    /// # Errors
    ///
    /// Fails if the answer has another form, if an instrument has no positive tick and lot, or if
    /// there is none.
    pub fn list(answer: &str) -> Result<Vec<Self>, String> {
        let mut instruments: Vec<Instrument> = serde_json::from_str(answer).map_err(|error| error.to_string())?;
        if instruments.is_empty() {
            return Err("the venue has no instruments".into());
        }
        let is_positive = |value: Value| value > Value::ZERO;
        if let Some(wrong) = instruments.iter().find(|one| !is_positive(one.tick) || !is_positive(one.lot)) {
            let Instrument { tick, lot, .. } = wrong;
            return Err(format!("{} has tick size {tick} and smallest amount {lot}", printable(&wrong.name)));
        }
        instruments.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(instruments)
    }

    /// Formats a price with the decimals of the tick.
    pub fn price_text(&self, price: Value) -> String {
        price.with_decimals(self.tick.decimals())
    }

    /// Returns the price of a number of ticks.
    pub fn price_at(&self, ticks: i64) -> Value {
        self.tick.times(ticks)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn share() -> Instrument {
        let value = |text| Value::parse(text).unwrap();
        Instrument {
            name: "NPN_ZAR".into(),
            tick: value("0.01"),
            lot: value("1"),
            base: "NPN".into(),
            quote: "ZAR".into(),
        }
    }

    #[test]
    fn instruments_are_listed_by_name_with_their_grid() {
        let answer = r#"[{"instrument_name":"NPN_ZAR","tick_size":0.01,"min_trade_amount":1,"base_currency":"NPN",
                          "quote_currency":"ZAR","kind":"spot"},
                         {"instrument_name":"A","tick_size":1e-1,"min_trade_amount":10}]"#;
        let instruments = Instrument::list(answer).unwrap();
        assert_eq!(instruments[1], share());
        assert_eq!((instruments[0].name.as_str(), instruments[0].tick), ("A", Value::parse("0.1").unwrap()));
        assert_eq!(share().price_text(share().price_at(325_010)), "3250.10");
    }

    #[test]
    fn unusable_list_is_refused_with_its_fault() {
        for (answer, fault) in [
            ("[]", "no instruments"),
            ("{}", "expected a sequence"),
            (r#"[{"instrument_name":"A\u001b","tick_size":0,"min_trade_amount":1}]"#, "A? has tick size 0"),
        ] {
            let error = Instrument::list(answer).unwrap_err();
            assert!(error.contains(fault), "{error}");
        }
    }
}
