//! An instrument's trading rules, as a configuration file spells them.

use std::collections::BTreeMap;

use pitwire_failure::Failure;
use pitwire_model::{Allocation, Decimal, Label, Lots, Phase, Ticks, Tolerance, TradingRules};
use pitwire_schedule::duration_ns;
use serde::{Deserialize, Serialize};

/// The tables `[segment.rules]` and `[instrument.rules]`. An instrument's own rules take
/// precedence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesDef {
    /// Minimum reserve size: the least amount of a hidden order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_reserve: Option<String>,
    /// Price improvement of a hidden order over the best price, as a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub improvement: Option<String>,
    /// Largest distance of a limit price from the static reference, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_percent: Option<u32>,
    /// Smallest display of an iceberg, in percent of its quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_display_percent: Option<u32>,
    /// Price tolerances by session: static and dynamic, in percent. An empty text sets none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tolerances: BTreeMap<String, (String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationDef>,
    /// Length of the call after a breach, such as `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volatility_call: Option<String>,
    /// Interval between two batches, such as `100ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_interval: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocationDef {
    PriceTime,
    ProRata,
    FrequentBatch,
}

fn wrong<T>(of: &str, what: &str, remedy: &str) -> Result<T, Failure> {
    Err(Failure::new(format!("{of}, rules: {what}")).remedy(remedy))
}

impl RulesDef {
    /// Returns these rules with every value that `over` sets replaced.
    #[must_use]
    pub fn under(&self, over: &RulesDef) -> RulesDef {
        let mut tolerances = self.tolerances.clone();
        tolerances.extend(over.tolerances.clone());
        RulesDef {
            minimum_reserve: over.minimum_reserve.clone().or_else(|| self.minimum_reserve.clone()),
            improvement: over.improvement.clone().or_else(|| self.improvement.clone()),
            band_percent: over.band_percent.or(self.band_percent),
            min_display_percent: over.min_display_percent.or(self.min_display_percent),
            tolerances,
            allocation: over.allocation.or(self.allocation),
            volatility_call: over.volatility_call.clone().or_else(|| self.volatility_call.clone()),
            batch_interval: over.batch_interval.clone().or_else(|| self.batch_interval.clone()),
        }
    }

    /// Compiles the rules for an instrument with this tick and lot.
    ///
    /// # Errors
    ///
    /// Returns a failure that names the instrument and the key if a value is malformed.
    pub fn compile(&self, of: &str, segment: &str, tick: Decimal, lot: Decimal) -> Result<TradingRules, Failure> {
        let mut rules = TradingRules::default();
        let Some(label) = Label::new(segment) else {
            return wrong(of, "the name of its segment is too long", "at most 64 bytes");
        };
        rules.segment = label;
        rules.band_pct = self.band_percent;
        if let Some(percent) = self.min_display_percent {
            if !(1..=100).contains(&percent) {
                return wrong(of, &format!("min_display_percent is {percent}, expected 1 to 100"), "correct it");
            }
            rules.min_display_pct = percent;
        }
        let steps = |text: &Option<String>, step: Decimal, key: &str| -> Result<Option<i128>, Failure> {
            let Some(text) = text else { return Ok(None) };
            let count = Decimal::parse(text).ok().and_then(|value| value.in_steps_of(step)).filter(|count| *count > 0);
            count.map_or_else(
                || wrong(of, &format!("{key} {text:?} is no whole number of steps of {step}"), "correct it"),
                |count| Ok(Some(count)),
            )
        };
        if let Some(lots) = steps(&self.minimum_reserve, lot, "minimum_reserve")? {
            rules.minimum_reserve = Some(Lots(u64::try_from(lots).unwrap_or(u64::MAX)));
        }
        if let Some(ticks) = steps(&self.improvement, tick, "improvement")? {
            rules.improvement = Ticks(i64::try_from(ticks).unwrap_or(i64::MAX));
        }
        for (session, (fixed, moving)) in &self.tolerances {
            let Some(at) = Phase::named(session).and_then(TradingRules::session_index) else {
                return wrong(of, &format!("tolerances: {session:?} has none"), "name continuous or a call");
            };
            let bps = |text: &str| -> Result<Option<u32>, Failure> {
                let text = (!text.is_empty()).then(|| text.to_owned());
                let bps = steps(&text, Decimal::new(1, 2), "a tolerance")?;
                Ok(bps.map(|bps| u32::try_from(bps).unwrap_or(u32::MAX)))
            };
            rules.tolerances[at] = Tolerance { static_bps: bps(fixed)?, dynamic_bps: bps(moving)? };
        }
        rules.allocation = match self.allocation {
            None | Some(AllocationDef::PriceTime) => Allocation::PriceTime,
            Some(AllocationDef::ProRata) => Allocation::ProRata,
            Some(AllocationDef::FrequentBatch) => Allocation::FrequentBatch,
        };
        let time = |text: &Option<String>, unset: u64, key: &str| match text
            .as_deref()
            .map(|text| (text, duration_ns(text)))
        {
            None => Ok(unset),
            Some((_, Some(ns))) => Ok(ns),
            Some((text, None)) => wrong(of, &format!("{key} {text:?} is no length of time"), "write 100ms, 30s or 5m"),
        };
        rules.volatility_call_ns = time(&self.volatility_call, rules.volatility_call_ns, "volatility_call")?;
        rules.batch_interval_ns = time(&self.batch_interval, rules.batch_interval_ns, "batch_interval")?;
        Ok(rules)
    }
}
