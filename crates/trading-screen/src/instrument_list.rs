//! The list from which the user chooses an instrument, with a filter that the user types.

use crate::instrument::Instrument;

const LONGEST_FILTER: usize = 40;

#[derive(Clone, Debug, Default)]
pub struct InstrumentList {
    pub filter: String,
    /// Index of the chosen line among the matching ones.
    pub chosen: usize,
}

impl InstrumentList {
    /// Returns the indices of the instruments whose name contains the filter, in any case.
    pub fn matching(&self, instruments: &[Instrument]) -> Vec<usize> {
        let filter = self.filter.to_uppercase();
        let matches = |(_, instrument): &(usize, &Instrument)| instrument.name.to_uppercase().contains(&filter);
        instruments.iter().enumerate().filter(matches).map(|(index, _)| index).collect()
    }

    pub fn type_character(&mut self, character: char) {
        if self.filter.len() < LONGEST_FILTER {
            self.filter.push(character);
        }
        self.chosen = 0;
    }

    pub fn erase(&mut self) {
        self.filter.pop();
        self.chosen = 0;
    }

    pub fn move_choice(&mut self, lines: isize, instruments: &[Instrument]) {
        let last = self.matching(instruments).len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(lines).min(last);
    }

    /// Returns the index of the chosen instrument. `None` if no name matches.
    pub fn choice(&self, instruments: &[Instrument]) -> Option<usize> {
        self.matching(instruments).get(self.chosen).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::tests::share;

    #[test]
    fn filter_finds_names_in_any_case() {
        let named = |name: &str| Instrument { name: name.into(), ..share() };
        let instruments = [named("BTC_USDC"), named("ETH_USDC"), named("NPN_ZAR")];
        let mut list = InstrumentList::default();
        list.move_choice(9, &instruments);
        assert_eq!(list.choice(&instruments), Some(2));
        "usd".chars().for_each(|character| list.type_character(character));
        assert_eq!(list.matching(&instruments), [0, 1]);
        list.move_choice(1, &instruments);
        assert_eq!(list.choice(&instruments), Some(1));
        list.type_character('x');
        assert_eq!(list.choice(&instruments), None);
        list.erase();
        assert_eq!(list.choice(&instruments), Some(0));
    }
}
