//! The key of a stream: which instrument, which messages, in which form.
//!
//! Holds       Streams with equal keys have equal bytes, so their readers share them.
//! Start at    [`StreamKey`].

use pitwire_model::InstrumentId;

use crate::names::Names;

/// Identifies a stream. All readers with this key share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    pub kind: Kind,
    /// `None` for all instruments (`!ticker@arr`).
    pub instrument: Option<InstrumentId>,
    pub form: MessageForm,
}

/// Optional forms of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageForm {
    /// `{"stream":"…","data":…}`.
    pub is_combined: bool,
    /// Times in microseconds instead of milliseconds.
    pub in_micros: bool,
    /// `?ts=ns`: due time and encoding time are appended.
    pub with_ns: bool,
}

/// Kinds of messages, in the order in which they are written for one command: trades, then the
/// book, then the states that follow from both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Trade,
    AggTrade,
    BithumbTrade,
    /// Gemini v1.
    Market(Entries),
    /// Gemini v2.
    Level2,
    BithumbBook,
    Depth(Cadence),
    /// The best 5, 10 or 20 levels, complete.
    Partial(u8, Cadence),
    BookTicker,
    Kline(KlineInterval),
    Candles2(KlineInterval),
    BithumbTicker,
    MiniTicker,
    Ticker,
}

/// How often a book is written, and whether the client spelled out the slow form: the name in
/// messages is the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cadence {
    Second,
    SecondSpelt,
    Tenth,
}

impl Cadence {
    pub const fn is_tenth(self) -> bool {
        matches!(self, Cadence::Tenth)
    }

    const fn suffix(self) -> &'static str {
        match self {
            Cadence::Second => "",
            Cadence::SecondSpelt => "@1000ms",
            Cadence::Tenth => "@100ms",
        }
    }

    pub(crate) fn of_suffix(text: &str) -> Option<Cadence> {
        [Cadence::Second, Cadence::SecondSpelt, Cadence::Tenth].into_iter().find(|cadence| cadence.suffix() == text)
    }
}

/// The filters in the URL of a Gemini v1 reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entries {
    pub bids: bool,
    pub offers: bool,
    pub trades: bool,
    /// Auction events. There are none yet.
    pub auctions: bool,
    pub top_of_book: bool,
    pub heartbeat: bool,
    /// `/v1/multimarketdata`: each event contains the symbol.
    pub with_symbol: bool,
    /// Messages have the stream's numbers instead of the socket's.
    pub by_stream: bool,
}

/// An interval of candles, `1m` to `1w`: an index into `KlineInterval::TABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KlineInterval(u8);

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// 1970-01-01 was a Thursday; weeks begin on Mondays.
const FIRST_MONDAY: u64 = 4 * DAY;

impl KlineInterval {
    /// Name and width in milliseconds. Months have no fixed width and are not offered.
    const TABLE: [(&'static str, u64); 14] = [
        ("1m", MINUTE),
        ("3m", 3 * MINUTE),
        ("5m", 5 * MINUTE),
        ("15m", 15 * MINUTE),
        ("30m", 30 * MINUTE),
        ("1h", HOUR),
        ("2h", 2 * HOUR),
        ("4h", 4 * HOUR),
        ("6h", 6 * HOUR),
        ("8h", 8 * HOUR),
        ("12h", 12 * HOUR),
        ("1d", DAY),
        ("3d", 3 * DAY),
        ("1w", 7 * DAY),
    ];

    pub fn named(name: &str) -> Option<KlineInterval> {
        let at = Self::TABLE.iter().position(|(known, _)| *known == name)?;
        u8::try_from(at).ok().map(KlineInterval)
    }

    /// Returns the existing names, for error messages.
    pub fn names() -> String {
        Self::TABLE.map(|(name, _)| name).join(", ")
    }

    pub fn name(self) -> &'static str {
        Self::TABLE[usize::from(self.0)].0
    }

    pub fn width_ms(self) -> u64 {
        Self::TABLE[usize::from(self.0)].1
    }

    /// Returns the start of the bucket that contains a time, both in milliseconds since 1970.
    pub fn start_ms(self, at_ms: u64) -> u64 {
        let width = self.width_ms();
        let shift = if self.name() == "1w" { FIRST_MONDAY } else { 0 };
        let since = at_ms.saturating_sub(shift);
        since / width * width + shift.min(at_ms)
    }
}

impl Kind {
    /// Whether a lagging reader needs only the latest message. On other streams it is closed with
    /// 1013.
    pub const fn is_state(self) -> bool {
        matches!(
            self,
            Kind::Partial(..)
                | Kind::BookTicker
                | Kind::Kline(_)
                | Kind::MiniTicker
                | Kind::Ticker
                | Kind::BithumbTicker
                | Kind::Candles2(_)
        )
    }

    /// Returns what follows the symbol in a Binance stream name, or `None` for the other dialects.
    pub fn binance_suffix(self) -> Option<String> {
        Some(match self {
            Kind::Trade => "trade".into(),
            Kind::AggTrade => "aggTrade".into(),
            Kind::Depth(cadence) => format!("depth{}", cadence.suffix()),
            Kind::Partial(levels, cadence) => format!("depth{levels}{}", cadence.suffix()),
            Kind::BookTicker => "bookTicker".into(),
            Kind::Kline(interval) => format!("kline_{}", interval.name()),
            Kind::MiniTicker => "miniTicker".into(),
            Kind::Ticker => "ticker".into(),
            _ => return None,
        })
    }
}

impl StreamKey {
    /// Whether every socket numbers the messages itself.
    pub const fn has_socket_numbers(&self) -> bool {
        matches!(self.kind, Kind::Market(entries) if !entries.by_stream)
    }

    /// Returns the stream of the same messages with the stream's own numbers.
    #[must_use]
    pub const fn under_its_own_numbers(self) -> StreamKey {
        match self.kind {
            Kind::Market(entries) => StreamKey { kind: Kind::Market(Entries { by_stream: true, ..entries }), ..self },
            _ => self,
        }
    }

    /// Returns the stream's name in the Binance dialect.
    pub fn binance_name(&self, names: Option<&Names>) -> Option<String> {
        let suffix = self.kind.binance_suffix()?;
        Some(match names {
            Some(names) => format!("{}@{suffix}", names.lower),
            None => format!("!{suffix}@arr"),
        })
    }

    /// Returns a name for any stream. Gateways and metrics use it.
    pub fn label(&self, names: Option<&Names>) -> String {
        let (dashed, lower) = names.map_or(("", ""), |names| (names.dashed.as_str(), names.lower.as_str()));
        let base = match self.kind {
            Kind::BithumbBook => format!("bithumb/ORDERBOOK:{dashed}"),
            Kind::BithumbTrade => format!("bithumb/TRADE:{dashed}"),
            Kind::BithumbTicker => format!("bithumb/TICKER:{dashed}"),
            Kind::Market(entries) => format!("gemini/v1/{lower}{}", entries.suffix()),
            Kind::Level2 => format!("gemini/v2/l2:{lower}"),
            Kind::Candles2(interval) => format!("gemini/v2/candles_{}:{lower}", interval.name()),
            _ => self.binance_name(names).unwrap_or_default(),
        };
        let MessageForm { is_combined, in_micros, with_ns } = self.form;
        let marks = [(is_combined, "+combined"), (in_micros, "+us"), (with_ns, "+ns")];
        marks.iter().filter(|(on, _)| *on).fold(base, |name, (_, mark)| name + mark)
    }
}

impl Entries {
    fn suffix(self) -> String {
        let marks = [
            (self.bids, "b"),
            (self.offers, "o"),
            (self.trades, "t"),
            (self.auctions, "a"),
            (self.top_of_book, "1"),
            (self.heartbeat, "h"),
            (self.with_symbol, "s"),
            (self.by_stream, "n"),
        ];
        let on: String = marks.iter().filter(|(on, _)| *on).map(|(_, mark)| *mark).collect();
        format!("?{on}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the decisions: lagging readers of deltas are closed, those of states get the
    /// latest.
    #[test]
    fn lagging_reader_gets_the_latest_only_on_state_streams() {
        let minute = KlineInterval::named("1m").unwrap();
        let entries = crate::gemini::read_target("/v1/marketdata/a", "").unwrap().entries;
        for kind in [
            Kind::Trade,
            Kind::AggTrade,
            Kind::Depth(Cadence::Tenth),
            Kind::BithumbBook,
            Kind::BithumbTrade,
            Kind::Market(entries),
            Kind::Level2,
        ] {
            assert!(!kind.is_state(), "{kind:?}");
        }
        for kind in [Kind::BookTicker, Kind::Ticker, Kind::MiniTicker, Kind::BithumbTicker, Kind::Kline(minute)] {
            assert!(kind.is_state(), "{kind:?}");
        }
    }

    #[test]
    fn buckets_begin_on_round_times_and_weeks_on_mondays() {
        // 2026-11-22 is a Sunday; 14:20:30 UTC is 1795357230 s.
        let at = 1_795_357_230_000;
        for (name, start) in [
            ("1m", 1_795_357_200_000),
            ("15m", 1_795_356_900_000),
            ("1h", 1_795_356_000_000),
            ("4h", 1_795_348_800_000),
            ("1d", 1_795_305_600_000),
            // The Monday before: 2026-11-16.
            ("1w", 1_794_787_200_000),
        ] {
            assert_eq!(KlineInterval::named(name).unwrap().start_ms(at), start, "{name}");
        }
        assert_eq!(KlineInterval::named("1w").unwrap().start_ms(5), 5_u64.min(FIRST_MONDAY));
        assert_eq!(KlineInterval::named("7m"), None);
    }
}
