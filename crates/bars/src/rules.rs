//! The user's bar rules: which trades count for what. `docs/bars.md` describes the file and the
//! defaults.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// Condition codes below this are in a table; others in a list.
const TABLE: usize = 256;
const MOST_BARS: u32 = 1_000;
const MOST_BUCKETS: usize = 8;
const MOST_BUCKET_S: u32 = 86_400;

/// The values of a bar that a trade may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TradeEffects {
    /// Open and close.
    pub last: bool,
    pub high_low: bool,
    /// Volume, notional, VWAP and the number of trades.
    pub volume: bool,
}

impl Default for TradeEffects {
    fn default() -> Self {
        TradeEffects { last: true, high_low: true, volume: true }
    }
}

impl TradeEffects {
    /// Combines two conditions: the stricter one decides.
    #[must_use]
    pub fn and(self, other: TradeEffects) -> TradeEffects {
        TradeEffects {
            last: self.last && other.last,
            high_low: self.high_low && other.high_low,
            volume: self.volume && other.volume,
        }
    }
}

/// The kind of a record, from its `ev` field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordKind {
    Trade,
    Gap,
    #[default]
    Other,
}

/// The checked content of a rules file.
#[derive(Debug, Clone)]
pub struct BarRules {
    events: Vec<Vec<u8>>,
    pub time_unit_ns: i64,
    table: [TradeEffects; TABLE],
    /// Codes from [`TABLE`] on, sorted.
    rare: Vec<(u64, TradeEffects)>,
    exchanges: Vec<u64>,
    tapes: Vec<u64>,
    trfs: Vec<u64>,
    /// How long a bucket stays open after its end, in the time of trades.
    pub grace_ns: i64,
    /// A trade further ahead than this is accepted only if the next one confirms it.
    pub ahead_ns: i64,
    pub indicators: IndicatorSettings,
}

/// The parameters of the indicators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndicatorSettings {
    pub rsi_bars: u32,
    pub atr_bars: u32,
    pub sar_step: f64,
    pub sar_most: f64,
}

impl BarRules {
    /// Parses a rules file. `name` appears in error texts.
    ///
    /// # Errors
    /// The text is not valid TOML, or a value is out of range; the error names line and key.
    pub fn parse(text: &str, name: &str) -> Result<BarRules, RulesError> {
        let at = |span: Option<Range<usize>>, what: String| RulesError::at(text, name, span, what);
        let file: RulesFile = toml::from_str(text).map_err(|error| at(error.span(), error.message().to_string()))?;
        file.check().map_err(|(span, what)| at(Some(span), what))?;
        Ok(file.rules())
    }

    /// HOT. Returns the effects that a sale condition leaves a trade. An unlisted condition
    /// restricts nothing.
    pub fn counts(&self, code: u64) -> TradeEffects {
        match usize::try_from(code) {
            Ok(index) if index < TABLE => self.table[index],
            _ => self
                .rare
                .binary_search_by_key(&code, |(code, _)| *code)
                .map_or_else(|_| TradeEffects::default(), |found| self.rare[found].1),
        }
    }

    /// HOT. Returns the kind of a record from its `ev` field.
    pub fn kind(&self, event: &[u8]) -> RecordKind {
        if self.events.iter().any(|known| known == event) {
            RecordKind::Trade
        } else if event == b"gap" {
            RecordKind::Gap
        } else {
            RecordKind::Other
        }
    }

    /// HOT. Returns whether a trade happened off exchange.
    pub fn is_off_exchange(&self, exchange: Option<u64>, tape: Option<u64>, trf: Option<u64>) -> bool {
        let within = |list: &[u64], value: Option<u64>| value.is_some_and(|value| list.contains(&value));
        within(&self.exchanges, exchange) || within(&self.tapes, tape) || within(&self.trfs, trf)
    }
}

impl Default for BarRules {
    fn default() -> Self {
        RulesFile::default().rules()
    }
}

/// Checks bucket lengths in seconds: ascending, without duplicates.
///
/// # Errors
/// A length is out of range or out of order, or the grace is longer than the shortest one.
pub fn check_buckets(buckets: &[u32], rules: &BarRules) -> Result<(), String> {
    if buckets.is_empty() || buckets.len() > MOST_BUCKETS {
        return Err(format!("--buckets takes one to {MOST_BUCKETS} lengths, for example 30,90,180"));
    }
    if !buckets.is_sorted_by(|shorter, longer| shorter < longer) {
        return Err("--buckets must ascend, each length once, for example 30,90,180".into());
    }
    if let Some(wrong) = buckets.iter().find(|&&length| length == 0 || length > MOST_BUCKET_S) {
        return Err(format!("--buckets: {wrong} is no length; take 1 to {MOST_BUCKET_S} seconds"));
    }
    if rules.grace_ns > i64::from(buckets[0]) * NANOS_PER_SECOND {
        return Err(format!(
            "grace_ms is {}, longer than the shortest bucket of {} s; make it shorter, or the bucket longer",
            rules.grace_ns / NANOS_PER_MILLI,
            buckets[0]
        ));
    }
    Ok(())
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RulesFile {
    events: Option<Spanned<Vec<String>>>,
    time_unit: TimeUnit,
    conditions: Conditions,
    off_exchange: OffExchange,
    late: LateTable,
    indicators: IndicatorsFile,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum TimeUnit {
    S,
    #[default]
    Ms,
    Us,
    Ns,
}

/// Defaults: the consolidated columns of the CTA and UTP plans, in Polygon's codes. `docs/bars.md`
/// names them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Conditions {
    not_last: Vec<u64>,
    not_high_low: Vec<u64>,
    not_volume: Vec<u64>,
}

impl Default for Conditions {
    fn default() -> Self {
        Conditions {
            not_last: vec![2, 5, 7, 10, 12, 13, 15, 16, 17, 20, 21, 22, 29, 32, 33, 37, 52, 53],
            not_high_low: vec![2, 7, 12, 13, 15, 16, 20, 21, 29, 37, 52, 53],
            not_volume: vec![15, 16, 38],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OffExchange {
    exchanges: Vec<u64>,
    tapes: Vec<u64>,
    trfs: Vec<u64>,
}

impl Default for OffExchange {
    /// Exchange 4 stands for FINRA's trade reporting facilities.
    fn default() -> Self {
        OffExchange { exchanges: vec![4], tapes: Vec::new(), trfs: Vec::new() }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct LateTable {
    grace_ms: Option<Spanned<u32>>,
    ahead_ms: Option<Spanned<u32>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct IndicatorsFile {
    rsi_bars: Option<Spanned<u32>>,
    atr_bars: Option<Spanned<u32>>,
    sar_step: Option<Spanned<f64>>,
    sar_most: Option<Spanned<f64>>,
}

impl RulesFile {
    fn check(&self) -> Result<(), (Range<usize>, String)> {
        let events = self.events.as_ref().filter(|events| events.get_ref().is_empty());
        if let Some(events) = events {
            return Err((
                events.span(),
                "events is empty, so nothing would be a trade; name one, for example [\"T\"]".into(),
            ));
        }
        for (name, bars) in [("rsi_bars", &self.indicators.rsi_bars), ("atr_bars", &self.indicators.atr_bars)] {
            if let Some(bars) = bars.as_ref().filter(|bars| !(2..=MOST_BARS).contains(bars.get_ref())) {
                return Err((bars.span(), format!("{name} must be 2 to {MOST_BARS}")));
            }
        }
        for (name, step) in [("sar_step", &self.indicators.sar_step), ("sar_most", &self.indicators.sar_most)] {
            if let Some(step) = step.as_ref().filter(|step| !(*step.get_ref() > 0.0 && *step.get_ref() <= 1.0)) {
                return Err((step.span(), format!("{name} must be above 0 and at most 1")));
            }
        }
        Ok(())
    }

    fn rules(self) -> BarRules {
        let (table, rare) = self.conditions.table();
        let millis = |value: Option<Spanned<u32>>, default: u32| {
            i64::from(value.map_or(default, Spanned::into_inner)) * NANOS_PER_MILLI
        };
        let events = self.events.map_or_else(|| vec!["T".to_string()], Spanned::into_inner);
        let bars = |value: Option<Spanned<u32>>| value.map_or(14, Spanned::into_inner);
        BarRules {
            events: events.into_iter().map(String::into_bytes).collect(),
            time_unit_ns: match self.time_unit {
                TimeUnit::S => NANOS_PER_SECOND,
                TimeUnit::Ms => NANOS_PER_MILLI,
                TimeUnit::Us => 1_000,
                TimeUnit::Ns => 1,
            },
            table,
            rare,
            exchanges: self.off_exchange.exchanges,
            tapes: self.off_exchange.tapes,
            trfs: self.off_exchange.trfs,
            grace_ns: millis(self.late.grace_ms, 2_000),
            ahead_ns: millis(self.late.ahead_ms, 600_000),
            indicators: IndicatorSettings {
                rsi_bars: bars(self.indicators.rsi_bars),
                atr_bars: bars(self.indicators.atr_bars),
                sar_step: self.indicators.sar_step.map_or(0.02, Spanned::into_inner),
                sar_most: self.indicators.sar_most.map_or(0.2, Spanned::into_inner),
            },
        }
    }
}

impl Conditions {
    fn table(&self) -> ([TradeEffects; TABLE], Vec<(u64, TradeEffects)>) {
        // A trade that may not change high and low must not change the close, or the close would be
        // outside the range.
        let of = |code: u64| TradeEffects {
            last: !self.not_last.contains(&code) && !self.not_high_low.contains(&code),
            high_low: !self.not_high_low.contains(&code),
            volume: !self.not_volume.contains(&code),
        };
        let mut table = [TradeEffects::default(); TABLE];
        for (code, counts) in (0..).zip(&mut table) {
            *counts = of(code);
        }
        let mut rare: Vec<u64> =
            [&self.not_last, &self.not_high_low, &self.not_volume].into_iter().flatten().copied().collect();
        rare.retain(|&code| code >= TABLE as u64);
        rare.sort_unstable();
        rare.dedup();
        (table, rare.into_iter().map(|code| (code, of(code))).collect())
    }
}

/// The mistake in a rules file, with its line.
#[derive(Debug)]
pub struct RulesError(String);

impl RulesError {
    fn at(text: &str, name: &str, span: Option<Range<usize>>, what: String) -> Self {
        let what = what.lines().collect::<Vec<_>>().join("; ");
        let Some(span) = span else { return RulesError(format!("{name}: {what}")) };
        let start = span.start.min(text.len());
        let before = text.get(..start).unwrap_or(text);
        let line = before.matches('\n').count();
        let content = text.lines().nth(line).unwrap_or("").trim();
        RulesError(format!("{name}:{}: {what}; the line is `{content}`", line + 1))
    }
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RulesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_consolidated_rules() {
        let rules = BarRules::default();
        let outcome = |code| {
            let counts = rules.counts(code);
            (counts.last, counts.high_low, counts.volume)
        };
        // Rows of the plans' tables: regular, average price, bunched sold, derivatively priced,
        // form T, intermarket sweep, official close, opening trade, sold out of sequence, odd lot,
        // corrected close, qualified contingent.
        for (code, expected) in [
            (0, (true, true, true)),
            (2, (false, false, true)),
            (5, (false, true, true)),
            (10, (false, true, true)),
            (12, (false, false, true)),
            (14, (true, true, true)),
            (15, (false, false, false)),
            (17, (false, true, true)),
            (33, (false, true, true)),
            (37, (false, false, true)),
            (38, (true, true, false)),
            (53, (false, false, true)),
            (41, (true, true, true)),
            (9_999_999_999, (true, true, true)),
        ] {
            assert_eq!(outcome(code), expected, "condition {code}");
        }
    }

    #[test]
    fn custom_conditions_replace_the_defaults() {
        let text = "time_unit = \"ns\"\nevents = [\"T\", \"XT\"]\n[conditions]\nnot_high_low = [7, 5000]\nnot_last = []\n[late]\ngrace_ms = 0\n[off_exchange]\nexchanges = []\ntrfs = [201]\n";
        let rules = BarRules::parse(text, "mine.toml").unwrap();
        assert_eq!(rules.counts(37), TradeEffects::default());
        assert_eq!(rules.counts(5000), TradeEffects { last: false, high_low: false, volume: true });
        assert_eq!((rules.time_unit_ns, rules.grace_ns), (1, 0));
        assert_eq!(
            (rules.kind(b"XT"), rules.kind(b"gap"), rules.kind(b"Q")),
            (RecordKind::Trade, RecordKind::Gap, RecordKind::Other)
        );
        assert!(rules.is_off_exchange(Some(11), None, Some(201)));
        assert!(!rules.is_off_exchange(Some(4), Some(4), None));
    }

    #[test]
    fn mistakes_are_reported_with_line_and_key() {
        for (text, words) in [
            ("\n\n[conditions]\nnot_lats = [1]\n", "mine.toml:4: unknown field `not_lats`"),
            ("[late]\ngrace_ms = \"soon\"\n", "mine.toml:2: invalid type: string \"soon\""),
            ("[conditions]\nnot_volume = [-1]\n", "`not_volume = [-1]`"),
            ("[indicators]\nrsi_bars = 1\n", "mine.toml:2: rsi_bars must be 2 to 1000"),
            ("[indicators]\n\nsar_step = nan\n", "mine.toml:3: sar_step"),
            ("time_unit = \"hours\"\n", "mine.toml:1: unknown variant `hours`"),
            ("events = []\n", "mine.toml:1: events is empty"),
            ("[late\n", "mine.toml:1: "),
            ("[late]\ngrace_ms = 1\ngrace_ms = 2\n", "mine.toml:3: "),
        ] {
            let error = BarRules::parse(text, "mine.toml").unwrap_err().to_string();
            assert!(error.contains(words), "{text:?} gave {error:?}");
            assert_eq!(error.lines().count(), 1, "{error:?}");
        }
    }

    #[test]
    fn buckets_ascend_and_exceed_the_grace() {
        let rules = BarRules::default();
        assert_eq!(check_buckets(&[30, 90, 180], &rules), Ok(()));
        for (wrong, word) in [
            (&[][..], "one to 8"),
            (&[30, 30], "ascend"),
            (&[90, 30], "ascend"),
            (&[0, 30], "0 is no length"),
            (&[86_401], "86401"),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], "one to 8"),
            (&[1], "grace_ms is 2000"),
        ] {
            let outcome = check_buckets(wrong, &rules).unwrap_err();
            assert!(outcome.contains(word), "{wrong:?} gave {outcome:?}");
        }
    }
}
