//! Times and types of events, read from an export.
//!
//! Start at    [`EventTape::read`].

use std::collections::BTreeMap;
use std::io::Read;

use pitwire_failure::Failure;

/// The column of an export that has the type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeColumn {
    /// The effect of the order on the best prices. Every order has one.
    EventType,
    /// The label of the order: the name of its type in a run with a flow from a file.
    Label,
}

impl TypeColumn {
    fn name(self) -> &'static str {
        match self {
            TypeColumn::EventType => "EventType",
            TypeColumn::Label => "Label",
        }
    }
}

/// The events of one instrument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventTape {
    /// Names of the types, sorted.
    pub types: Vec<String>,
    /// Times of the events of each type, in seconds since the start of the tape.
    pub times: Vec<Vec<f64>>,
    /// Length of the tape in seconds.
    pub seconds: f64,
}

impl EventTape {
    /// Reads the accepted orders of an instrument from the table `orders` of an export in CSV. The
    /// tape begins and ends with the first and the last row of any instrument.
    ///
    /// # Errors
    ///
    /// Returns a failure if a column is missing, a time is wrong or goes back, or the instrument
    /// has no typed order.
    pub fn read(input: impl Read, instrument: &str, column: TypeColumn) -> Result<EventTape, Failure> {
        let failed = |what: String| {
            Failure::new(format!("cannot read the orders: {what}")).remedy("give orders.csv of `pitwire export`")
        };
        let mut reader = csv::Reader::from_reader(input);
        let header = reader.headers().map_err(|error| failed(error.to_string()))?.clone();
        let place = |name: &str| {
            header.iter().position(|known| known == name).ok_or_else(|| failed(format!("there is no column {name}")))
        };
        let (time, name, outcome) = (place("TimeNs")?, place("Instrument")?, place("Outcome")?);
        let kind = place(column.name())?;
        let mut by_type: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut range: Option<(u64, u64)> = None;
        for (line, record) in (2_u64..).zip(reader.records()) {
            let record = record.map_err(|error| failed(error.to_string()))?;
            let field = |at: usize| record.get(at).unwrap_or_default();
            let at: u64 =
                field(time).parse().map_err(|_| failed(format!("line {line}: TimeNs is {:?}", field(time))))?;
            match &mut range {
                Some((_, last)) if at < *last => {
                    return Err(failed(format!("line {line}: TimeNs {at} is before {last}")));
                }
                Some((_, last)) => *last = at,
                None => range = Some((at, at)),
            }
            if field(name) == instrument && !field(kind).is_empty() && field(outcome) == "accepted" {
                by_type.entry(field(kind).to_owned()).or_default().push(at);
            }
        }
        let Some((first, last)) = range.filter(|_| !by_type.is_empty()) else {
            return Err(Failure::new(format!("no order of {instrument:?} has a value in column {}", column.name()))
                .remedy("name an instrument of the export; --by label needs a run with a flow from a file"));
        };
        let seconds = |ns: u64| (ns - first) as f64 / 1e9;
        let (types, times) =
            by_type.into_iter().map(|(name, times)| (name, times.into_iter().map(seconds).collect())).unzip();
        Ok(EventTape { types, times, seconds: seconds(last) })
    }

    /// Returns the number of events.
    pub fn events(&self) -> usize {
        self.times.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: &str = "Instrument,TimeNs,Outcome,EventType,Label\n\
        A,1000000000,accepted,x,one\n\
        B,1500000000,accepted,x,one\n\
        A,2000000000,rejected,x,one\n\
        A,3000000000,accepted,y,\n\
        A,3000000000,accepted,x,two\n\
        A,5000000000,accepted,,one\n";

    #[test]
    fn a_tape_has_the_accepted_orders_of_one_instrument() {
        let tape = EventTape::read(ORDERS.as_bytes(), "A", TypeColumn::EventType).unwrap();
        assert_eq!(tape.types, ["x", "y"]);
        assert_eq!((tape.times, tape.seconds), (vec![vec![0.0, 2.0], vec![2.0]], 4.0));
        let tape = EventTape::read(ORDERS.as_bytes(), "A", TypeColumn::Label).unwrap();
        assert_eq!((tape.types, tape.times), (vec!["one".into(), "two".into()], vec![vec![0.0, 4.0], vec![2.0]]));
    }

    #[test]
    fn a_table_that_cannot_be_used_is_refused_with_its_fault() {
        for (text, instrument, expected) in [
            ("Instrument,TimeNs\n", "A", "no column Outcome"),
            (ORDERS, "C", "no order of \"C\""),
            ("Instrument,TimeNs,Outcome,EventType\nA,soon,accepted,x\n", "A", "line 2: TimeNs is \"soon\""),
            ("Instrument,TimeNs,Outcome,EventType\nA,5,accepted,x\nA,4,accepted,x\n", "A", "line 3: TimeNs 4"),
        ] {
            let failure = EventTape::read(text.as_bytes(), instrument, TypeColumn::EventType).unwrap_err();
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }
}
