//! The definitions of a venue: currencies, instruments and accounts, by name.
//!
//! Start at    [`Setup`].

use pitwire_failure::Failure;
use pitwire_schedule::{
    CalendarDef, InstrumentMember, LineNumber, RandomEnds, ScheduleDef, ScheduleInput, SegmentMember, VenueCalendar,
    compile,
};
use serde::{Deserialize, Serialize};

use crate::rules::RulesDef;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    #[serde(default, rename = "currency")]
    pub currencies: Vec<CurrencyDef>,
    #[serde(default, rename = "instrument")]
    pub instruments: Vec<InstrumentDef>,
    #[serde(default, rename = "account")]
    pub accounts: Vec<AccountDef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarDef>,
    #[serde(default, rename = "schedule", skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleDef>,
    #[serde(default, rename = "segment", skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentDef>,
    /// The file that the setup was read from, for error messages.
    #[serde(skip)]
    pub file: Option<String>,
    /// Limits belong to the process, not to the venue: they are never journaled and may change at
    /// each start.
    #[serde(default, skip_serializing)]
    pub limits: Option<LimitsDef>,
}

/// The table `[limits]`. Its presence enables the limits, with the dialect's defaults for missing
/// keys.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsDef {
    pub connections_per_address: Option<u32>,
    /// Host names under which clients reach the venue, besides loopback and the bound address.
    #[serde(default)]
    pub hosts: Vec<String>,
    pub orders_per_second: Option<u32>,
    pub orders_burst: Option<u32>,
    pub requests_per_second: Option<u32>,
    pub requests_burst: Option<u32>,
    /// Most open orders of an account, unless an operator has set a limit for it.
    pub open_orders_per_account: Option<u32>,
    /// Most waiting stop orders of an account, unless an operator has set its open orders.
    pub stop_orders_per_account: Option<u32>,
}

/// Instruments that share a schedule and trading rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentDef {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesDef>,
    #[serde(skip)]
    pub line: LineNumber,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurrencyDef {
    pub name: String,
    pub decimals: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstrumentKindName {
    #[default]
    Spot,
    InversePerpetual,
}

/// An instrument. Prices and sizes are texts such as `"0.05"`, because binary fractions are not
/// exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentDef {
    pub name: String,
    #[serde(default)]
    pub kind: InstrumentKindName,
    pub base: String,
    pub quote: String,
    /// For perpetuals: the spot instrument whose mid price is the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_leverage: Option<u32>,
    pub tick: String,
    pub lot: String,
    pub start_price: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_resting_orders: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_amount: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_notional: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collar_percent: Option<String>,
    /// The segment whose schedule and rules apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// Replaces the segment's schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesDef>,
    #[serde(skip)]
    pub line: LineNumber,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfMatchDef {
    #[default]
    CancelResting,
    CancelIncoming,
    CancelBoth,
    None,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountDef {
    pub name: String,
    /// A house account has unlimited credit. The resident flow trades from it.
    #[serde(default)]
    pub house: bool,
    #[serde(default)]
    pub operator: bool,
    #[serde(default)]
    pub self_match: SelfMatchDef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_open_orders: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_executions: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_window_ms: Option<u64>,
    /// Initial balances: currency and amount.
    #[serde(default)]
    pub balances: Vec<(String, String)>,
}

impl Setup {
    /// Returns this setup with the definitions of `other`. Definitions with the same name are
    /// replaced.
    #[must_use]
    pub fn with(mut self, other: Setup) -> Setup {
        for currency in other.currencies {
            self.currencies.retain(|known| known.name != currency.name);
            self.currencies.push(currency);
        }
        for instrument in other.instruments {
            match self.instruments.iter_mut().find(|known| known.name == instrument.name) {
                Some(known) => *known = instrument,
                None => self.instruments.push(instrument),
            }
        }
        self.limits = other.limits.or(self.limits);
        self.calendar = other.calendar.or(self.calendar);
        self.file = other.file.or(self.file);
        for schedule in other.schedules {
            match self.schedules.iter_mut().find(|known| known.name == schedule.name && known.line.0 == 0) {
                Some(known) => *known = schedule,
                None => self.schedules.push(schedule),
            }
        }
        for segment in other.segments {
            match self.segments.iter_mut().find(|known| known.name == segment.name && known.line.0 == 0) {
                Some(known) => *known = segment,
                None => self.segments.push(segment),
            }
        }
        for account in other.accounts {
            match self.accounts.iter_mut().find(|known| known.name == account.name) {
                Some(known) => *known = account,
                None => self.accounts.push(account),
            }
        }
        self
    }

    /// Returns the setup as the data directory remembers it.
    ///
    /// # Errors
    ///
    /// Returns a failure if the setup cannot be written as JSON.
    pub fn canonical(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self).map_err(|error| Failure::new(error.to_string()))
    }
}

impl Setup {
    pub(crate) fn segment_of(&self, def: &InstrumentDef) -> Option<&SegmentDef> {
        self.segments.iter().find(|segment| Some(&segment.name) == def.segment.as_ref())
    }

    /// Returns whether a schedule leads the instrument through its day.
    pub fn is_scheduled(&self, def: &InstrumentDef) -> bool {
        def.schedule.is_some() || self.segment_of(def).is_some_and(|segment| segment.schedule.is_some())
    }

    /// Compiles the trading calendar. Random session ends are drawn from `random_ends`.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the file, the line and the broken rule.
    pub fn calendar(&self, random_ends: RandomEnds) -> Result<VenueCalendar, Failure> {
        let segments = self.segments.iter().map(|def| SegmentMember {
            name: &def.name,
            schedule: def.schedule.as_deref(),
            line: def.line,
        });
        let instruments = self.instruments.iter().map(|def| InstrumentMember {
            name: &def.name,
            segment: def.segment.as_deref(),
            schedule: def.schedule.as_deref(),
            line: def.line,
        });
        let input = ScheduleInput {
            file: self.file.as_deref(),
            calendar: self.calendar.as_ref(),
            schedules: &self.schedules,
            segments: segments.collect(),
            instruments: instruments.collect(),
        };
        compile(&input, random_ends)
    }

    /// Returns everything that the calendar depends on as one text, to detect changes of schedules.
    ///
    /// # Errors
    ///
    /// Returns a failure if the text cannot be written as JSON.
    pub fn timing(&self) -> Result<String, Failure> {
        let followed = self.instruments.iter().filter(|def| self.is_scheduled(def));
        let followed: Vec<_> = followed.map(|def| (&def.name, &def.schedule, &def.segment)).collect();
        let segments: Vec<_> = self.segments.iter().map(|segment| (&segment.name, &segment.schedule)).collect();
        let whole = (&self.calendar, &self.schedules, segments, followed);
        serde_json::to_string(&whole).map_err(|error| Failure::new(error.to_string()))
    }
}
