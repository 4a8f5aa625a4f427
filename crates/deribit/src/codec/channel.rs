//! Channel names of the dialect.

/// Interval between the messages of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interval {
    Raw,
    Ms100,
    /// About one second.
    Agg2,
}

impl Interval {
    pub const ALL: [Interval; 3] = [Interval::Raw, Interval::Ms100, Interval::Agg2];

    pub const fn name(self) -> &'static str {
        match self {
            Interval::Raw => "raw",
            Interval::Ms100 => "100ms",
            Interval::Agg2 => "agg2",
        }
    }

    fn parse(text: &str) -> Option<Interval> {
        Interval::ALL.into_iter().find(|interval| interval.name() == text)
    }
}

/// Which instruments a private channel covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Instrument(String),
    /// A kind (`any`, `spot`, `future`, …) and a currency (`any`, `BTC`, …).
    Kind {
        kind: String,
        currency: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    Book {
        instrument: String,
        interval: Interval,
    },
    Trades {
        instrument: String,
        interval: Interval,
    },
    Ticker {
        instrument: String,
        interval: Interval,
    },
    /// The best levels of each side, grouped by price. Each message is complete.
    Depth {
        instrument: String,
        group: PriceGroup,
        levels: usize,
        interval: Interval,
    },
    /// Trades of every instrument of a kind and a currency.
    TradesOf {
        kind: String,
        currency: String,
        interval: Interval,
    },
    Quote {
        instrument: String,
    },
    Chart {
        instrument: String,
        resolution: Resolution,
    },
    Perpetual {
        instrument: String,
        interval: Interval,
    },
    PriceIndex {
        index: String,
    },
    InstrumentState {
        kind: String,
        currency: String,
    },
    /// The running session and its end. The dialect does not have this channel.
    Session {
        instrument: String,
    },
    /// The result of a call if it ended now, or its final result; with an interval also its two
    /// curves. The dialect does not have this channel.
    Auction {
        instrument: String,
        interval: Option<Interval>,
    },
    /// Each displayed order and each change of it. The dialect does not have this channel.
    Orders {
        instrument: String,
    },
    /// Hours of trade reporting, and off-book trades. The dialect does not have this channel.
    OffBook {
        instrument: String,
    },
    /// Events of the orders of one account, or of all. For operators only.
    DropCopy {
        account: Option<String>,
    },
    UserOrders {
        scope: Scope,
        interval: Interval,
    },
    UserTrades {
        scope: Scope,
        interval: Interval,
    },
    /// Orders, fills and position of one instrument in one message.
    UserChanges {
        scope: Scope,
        interval: Interval,
    },
    UserPortfolio {
        currency: String,
    },
    /// Reports that an account made or may confirm. The dialect does not have this channel.
    UserReports {
        scope: Scope,
    },
}

/// Width of a price group, in units of the price. `none` shows every price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriceGroup(u16);

impl PriceGroup {
    const WIDTHS: [u16; 7] = [1, 2, 5, 10, 25, 100, 250];

    fn parse(text: &str) -> Option<PriceGroup> {
        if text == "none" {
            return Some(PriceGroup(0));
        }
        Self::WIDTHS.into_iter().find(|width| width.to_string() == text).map(PriceGroup)
    }

    /// Returns the width, or `None` without grouping.
    pub const fn width(self) -> Option<u16> {
        match self.0 {
            0 => None,
            width => Some(width),
        }
    }
}

/// The length of a candle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resolution {
    pub minutes: u64,
}

impl Resolution {
    const MINUTES: [u64; 11] = [1, 3, 5, 10, 15, 30, 60, 120, 180, 360, 720];

    /// Parses a number of minutes from the dialect's list, or `1D`.
    pub fn parse(text: &str) -> Option<Resolution> {
        let minutes =
            if text == "1D" { 1_440 } else { Self::MINUTES.into_iter().find(|minutes| minutes.to_string() == text)? };
        Some(Resolution { minutes })
    }
}

impl Channel {
    /// Parses a channel name. `None` if this venue does not serve a channel of that form.
    pub fn parse(name: &str) -> Option<Channel> {
        let parts: Vec<&str> = name.split('.').collect();
        // Lists of names on the bus and in logs have one name per line.
        if parts.iter().any(|part| part.is_empty()) || name.contains(char::is_control) {
            return None;
        }
        match parts[..] {
            ["book", instrument, interval] => {
                Some(Channel::Book { instrument: instrument.into(), interval: Interval::parse(interval)? })
            }
            ["trades", instrument, interval] => {
                Some(Channel::Trades { instrument: instrument.into(), interval: Interval::parse(interval)? })
            }
            ["ticker", instrument, interval] => {
                Some(Channel::Ticker { instrument: instrument.into(), interval: Interval::parse(interval)? })
            }
            ["book", instrument, group, levels, interval] => Some(Channel::Depth {
                instrument: instrument.into(),
                group: PriceGroup::parse(group)?,
                levels: [1, 10, 20].into_iter().find(|depth: &usize| depth.to_string() == levels)?,
                interval: Interval::parse(interval).filter(|interval| *interval != Interval::Raw)?,
            }),
            ["trades", kind, currency, interval] => Some(Channel::TradesOf {
                kind: kind.into(),
                currency: currency.into(),
                interval: Interval::parse(interval)?,
            }),
            ["quote", instrument] => Some(Channel::Quote { instrument: instrument.into() }),
            ["chart", "trades", instrument, resolution] => {
                Some(Channel::Chart { instrument: instrument.into(), resolution: Resolution::parse(resolution)? })
            }
            ["perpetual", instrument, interval] => {
                Some(Channel::Perpetual { instrument: instrument.into(), interval: Interval::parse(interval)? })
            }
            ["deribit_price_index", index] => Some(Channel::PriceIndex { index: index.to_lowercase() }),
            ["instrument", "state", kind, currency] => {
                Some(Channel::InstrumentState { kind: kind.into(), currency: currency.into() })
            }
            ["session", instrument] => Some(Channel::Session { instrument: instrument.into() }),
            ["orders", instrument, "raw"] => Some(Channel::Orders { instrument: instrument.into() }),
            ["off_book", instrument] => Some(Channel::OffBook { instrument: instrument.into() }),
            ["auction", instrument] => Some(Channel::Auction { instrument: instrument.into(), interval: None }),
            ["auction", instrument, interval] => Some(Channel::Auction {
                instrument: instrument.into(),
                interval: Some(Interval::parse(interval).filter(|interval| *interval != Interval::Raw)?),
            }),
            ["drop_copy", account] => {
                Some(Channel::DropCopy { account: (account != "any").then(|| account.to_owned()) })
            }
            ["user", "changes", ref scope @ .., interval] => {
                Some(Channel::UserChanges { scope: Scope::parse(scope)?, interval: Interval::parse(interval)? })
            }
            ["user", "reports", ref scope @ ..] => Some(Channel::UserReports { scope: Scope::parse(scope)? }),
            ["user", "portfolio", currency] => Some(Channel::UserPortfolio { currency: currency.into() }),
            ["user", "orders", ref scope @ .., interval] => {
                Some(Channel::UserOrders { scope: Scope::parse(scope)?, interval: Interval::parse(interval)? })
            }
            ["user", "trades", ref scope @ .., interval] => {
                Some(Channel::UserTrades { scope: Scope::parse(scope)?, interval: Interval::parse(interval)? })
            }
            _ => None,
        }
    }

    /// Whether a name belongs to a family that the dialect has and this version does not serve.
    /// Such a name is left out of the answer, because an error would stop some clients.
    pub fn is_known_family(name: &str) -> bool {
        const FAMILIES: &[&str] = &[
            "incremental_ticker.",
            "user.mmp_trigger.",
            "deribit_volatility_index.",
            "markprice.options.",
            "perpetual.",
            "chart.trades.",
            "instrument.state.",
            "instrument.creation.",
            "estimated_expiration_price.",
            "deribit_price_ranking.",
            "deribit_price_statistics.",
            "block_rfq.",
            "block_trade_confirmations.",
            "user.combo_trades.",
            "rfq.",
        ];
        if name.contains(char::is_control) {
            return false;
        }
        let whole = matches!(name, "platform_state" | "announcements" | "user.lock" | "user.access_log")
            || matches!(name, "platform_state.public_methods_state" | "block_trade_confirmations");
        whole || (FAMILIES.iter().any(|family| name.starts_with(family)) && !name.ends_with('.'))
    }

    pub fn is_private(&self) -> bool {
        matches!(
            self,
            Channel::UserOrders { .. }
                | Channel::UserTrades { .. }
                | Channel::UserChanges { .. }
                | Channel::UserPortfolio { .. }
                | Channel::UserReports { .. }
        )
    }

    /// The one instrument that the channel names.
    pub fn instrument(&self) -> Option<&str> {
        match self {
            Channel::Book { instrument, .. }
            | Channel::Trades { instrument, .. }
            | Channel::Ticker { instrument, .. }
            | Channel::Depth { instrument, .. }
            | Channel::Quote { instrument }
            | Channel::Chart { instrument, .. }
            | Channel::Perpetual { instrument, .. }
            | Channel::Session { instrument }
            | Channel::Auction { instrument, .. }
            | Channel::OffBook { instrument }
            | Channel::Orders { instrument }
            | Channel::UserReports { scope: Scope::Instrument(instrument) }
            | Channel::UserOrders { scope: Scope::Instrument(instrument), .. }
            | Channel::UserTrades { scope: Scope::Instrument(instrument), .. }
            | Channel::UserChanges { scope: Scope::Instrument(instrument), .. } => Some(instrument),
            _ => None,
        }
    }

    /// Kind and currency of the channel, if its name has them.
    pub fn kind_and_currency(&self) -> Option<(&str, &str)> {
        match self {
            Channel::TradesOf { kind, currency, .. }
            | Channel::InstrumentState { kind, currency }
            | Channel::UserOrders { scope: Scope::Kind { kind, currency }, .. }
            | Channel::UserTrades { scope: Scope::Kind { kind, currency }, .. }
            | Channel::UserReports { scope: Scope::Kind { kind, currency } }
            | Channel::UserChanges { scope: Scope::Kind { kind, currency }, .. } => Some((kind, currency)),
            Channel::UserPortfolio { currency } => Some(("any", currency)),
            _ => None,
        }
    }

    /// Interval of the channel. Channels without one in their name send on every change, a
    /// portfolio at the end of a window.
    pub fn interval(&self) -> Interval {
        match self {
            Channel::Depth { interval, .. }
            | Channel::TradesOf { interval, .. }
            | Channel::Perpetual { interval, .. }
            | Channel::UserChanges { interval, .. } => *interval,
            Channel::Quote { .. }
            | Channel::Chart { .. }
            | Channel::PriceIndex { .. }
            | Channel::InstrumentState { .. }
            | Channel::Session { .. }
            | Channel::Auction { .. }
            | Channel::OffBook { .. }
            | Channel::UserReports { .. }
            | Channel::DropCopy { .. }
            | Channel::UserPortfolio { .. } => Interval::Ms100,
            Channel::Orders { .. } => Interval::Raw,
            Channel::Book { interval, .. }
            | Channel::Trades { interval, .. }
            | Channel::Ticker { interval, .. }
            | Channel::UserOrders { interval, .. }
            | Channel::UserTrades { interval, .. } => *interval,
        }
    }
}

impl Scope {
    fn parse(parts: &[&str]) -> Option<Scope> {
        match parts {
            [instrument] => Some(Scope::Instrument((*instrument).into())),
            [kind, currency] => Some(Scope::Kind { kind: (*kind).into(), currency: (*currency).into() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_names_that_clients_use() {
        let book = |instrument: &str, interval| Channel::Book { instrument: instrument.into(), interval };
        assert_eq!(Channel::parse("book.BTC-PERPETUAL.100ms"), Some(book("BTC-PERPETUAL", Interval::Ms100)));
        assert_eq!(Channel::parse("book.NPN_ZAR.raw"), Some(book("NPN_ZAR", Interval::Raw)));
        let any = Scope::Kind { kind: "any".into(), currency: "any".into() };
        assert_eq!(
            Channel::parse("user.trades.any.any.raw"),
            Some(Channel::UserTrades { scope: any, interval: Interval::Raw })
        );
        let one = Scope::Instrument("NPN_ZAR".into());
        assert_eq!(
            Channel::parse("user.orders.NPN_ZAR.100ms"),
            Some(Channel::UserOrders { scope: one, interval: Interval::Ms100 })
        );
        assert_eq!(
            Channel::parse("auction.AUC_ZAR.100ms"),
            Some(Channel::Auction { instrument: "AUC_ZAR".into(), interval: Some(Interval::Ms100) })
        );
        assert_eq!(Channel::parse("orders.AUC_ZAR.raw"), Some(Channel::Orders { instrument: "AUC_ZAR".into() }));
        assert_eq!(Channel::parse("session.AUC_ZAR"), Some(Channel::Session { instrument: "AUC_ZAR".into() }));
        for malformed in [
            "auction.X.raw",
            "session.X.raw",
            "session",
            "orders.X",
            "orders.X.100ms",
            "",
            "book",
            "book.X",
            "book.X.50ms",
            "book..raw",
            "user.orders.raw",
            "user.orders.a.b.c.raw",
            "trades.any -\nquote.any.100ms",
            "trades.any.a\u{85}b.100ms",
        ] {
            assert_eq!(Channel::parse(malformed), None, "{malformed}");
        }
    }
}
