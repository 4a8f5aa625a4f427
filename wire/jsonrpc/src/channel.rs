//! Channel names of the dialect.

/// How often a channel speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interval {
    Raw,
    Ms100,
    /// About once a second.
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
    Book { instrument: String, interval: Interval },
    Trades { instrument: String, interval: Interval },
    Ticker { instrument: String, interval: Interval },
    UserOrders { scope: Scope, interval: Interval },
    UserTrades { scope: Scope, interval: Interval },
}

impl Channel {
    /// `None` when the name is not of a form this venue serves.
    pub fn parse(name: &str) -> Option<Channel> {
        let parts: Vec<&str> = name.split('.').collect();
        if parts.iter().any(|part| part.is_empty()) {
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
            ["user", "orders", ref scope @ .., interval] => {
                Some(Channel::UserOrders { scope: Scope::parse(scope)?, interval: Interval::parse(interval)? })
            }
            ["user", "trades", ref scope @ .., interval] => {
                Some(Channel::UserTrades { scope: Scope::parse(scope)?, interval: Interval::parse(interval)? })
            }
            _ => None,
        }
    }

    /// Whether a name is of a family that the dialect has and this version does not serve: to be left out of an
    /// answer, where an error would end some clients.
    pub fn is_known_family(name: &str) -> bool {
        const FAMILIES: &[&str] = &[
            "quote.",
            "chart.trades.",
            "incremental_ticker.",
            "perpetual.",
            "deribit_price_index.",
            "instrument.state.",
            "user.changes.",
            "user.portfolio.",
            "user.mmp_trigger.",
            "trades.spot.",
            "trades.future.",
            "trades.any.",
        ];
        let whole = matches!(name, "platform_state" | "announcements" | "user.lock");
        whole || (FAMILIES.iter().any(|family| name.starts_with(family)) && !name.ends_with('.'))
    }

    pub fn is_private(&self) -> bool {
        matches!(self, Channel::UserOrders { .. } | Channel::UserTrades { .. })
    }

    pub fn interval(&self) -> Interval {
        match self {
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
        for malformed in ["", "book", "book.X", "book.X.50ms", "book..raw", "user.orders.raw", "user.orders.a.b.c.raw"]
        {
            assert_eq!(Channel::parse(malformed), None, "{malformed}");
        }
    }
}
