//! Parses URLs and stream names of the Binance dialect.
//!
//! Does        Reads `/ws/a/b`, `/ws` and `/stream?streams=a/b`, each also with the number that
//!             some clients append per connection; `timeUnit=MICROSECOND`; our own `ts=ns`.
//! Leaves out  Whether the instruments exist.
//! Start at    [`read_target`], [`read_name`].

use crate::key::{Cadence, Kind, KlineInterval, MessageForm};
use crate::url::{decoded, parameter};

/// Most streams on one connection, as at the exchange.
pub const MOST_STREAMS: usize = 1_024;

/// The subscriptions of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamQuery {
    pub names: Vec<String>,
    pub form: MessageForm,
    /// The requested unit of times, if it does not exist.
    pub unknown_unit: Option<String>,
}

/// Whether a path belongs to this dialect.
pub fn is_path(path: &str) -> bool {
    rest_of(path).is_some()
}

/// Returns what follows `/ws` or `/stream`, and whether it was `/stream`.
fn rest_of(path: &str) -> Option<(&str, bool)> {
    // Clients of the exchange's other markets prepend these.
    let path = ["/public", "/market"].iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
    let (rest, is_combined) = match path.strip_prefix("/stream") {
        // One client's URL must contain "/stream" to be a spot market's.
        Some(rest) => rest.strip_prefix("/ws").map_or((rest, true), |rest| (rest, false)),
        None => (path.strip_prefix("/ws")?, false),
    };
    let is_whole = rest.is_empty() || rest.starts_with('/');
    // The JSON-RPC endpoint is /ws/api/v2.
    (is_whole && !rest.starts_with("/api/")).then_some((rest, is_combined))
}

/// Parses a target. Returns `None` if it belongs to another dialect.
pub fn read_target(path: &str, query: &str) -> Option<StreamQuery> {
    let (rest, is_combined) = rest_of(path)?;
    let list = if is_combined { parameter(query, "streams").unwrap_or_default() } else { String::new() };
    let from_path = decoded(rest);
    let names = from_path.split('/').chain(list.split('/'));
    let names = names.filter(|name| !name.is_empty() && !is_number(name)).map(str::to_owned).collect();
    let unit = parameter(query, "timeunit").unwrap_or_default();
    let form = MessageForm {
        is_combined,
        in_micros: unit.eq_ignore_ascii_case("microsecond"),
        with_ns: parameter(query, "ts").is_some_and(|ts| ts == "ns"),
    };
    let is_known = ["", "microsecond", "millisecond"].iter().any(|known| unit.eq_ignore_ascii_case(known));
    Some(StreamQuery { names, form, unknown_unit: (!is_known).then_some(unit) })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a stream name into symbol and kind. The symbol is empty for all instruments.
///
/// # Errors
///
/// A text that says which names exist.
pub fn read_name(name: &str) -> Result<(&str, Kind), String> {
    if let Some(all) = name.strip_prefix('!') {
        return match all {
            "miniTicker@arr" => Ok(("", Kind::MiniTicker)),
            "ticker@arr" => Ok(("", Kind::Ticker)),
            _ => Err(format!("no stream {name}: of all instruments there are !miniTicker@arr and !ticker@arr")),
        };
    }
    let Some((symbol, kind)) = name.split_once('@').filter(|(symbol, _)| !symbol.is_empty()) else {
        return Err(format!("no stream {name}: write <symbol>@trade, say npnzar@trade"));
    };
    read_kind(kind).map(|kind| (symbol, kind)).ok_or_else(|| {
        format!(
            "no stream {name}: behind the @ stand trade, aggTrade, depth[@100ms], depth5|10|20[@100ms], bookTicker, \
             miniTicker, ticker or kline_<{}>",
            KlineInterval::names()
        )
    })
}

fn read_kind(text: &str) -> Option<Kind> {
    Some(match text {
        "trade" => Kind::Trade,
        "aggTrade" => Kind::AggTrade,
        "bookTicker" => Kind::BookTicker,
        "miniTicker" => Kind::MiniTicker,
        "ticker" => Kind::Ticker,
        _ => match text.strip_prefix("kline_") {
            Some(interval) => Kind::Kline(KlineInterval::named(interval)?),
            None => {
                let rest = text.strip_prefix("depth")?;
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let (levels, suffix) = rest.split_at(digits);
                let cadence = Cadence::of_suffix(suffix)?;
                match levels {
                    "" => Kind::Depth(cadence),
                    "5" => Kind::Partial(5, cadence),
                    "10" => Kind::Partial(10, cadence),
                    "20" => Kind::Partial(20, cadence),
                    _ => return None,
                }
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_known_clients_are_parsed() {
        let plain = MessageForm::default();
        let combined = MessageForm { is_combined: true, ..plain };
        type ExpectedTarget<'a> = Option<(&'a [&'a str], MessageForm)>;
        let table: [(&str, &str, ExpectedTarget<'_>); 14] = [
            ("/ws/npnzar@trade", "", Some((&["npnzar@trade"], plain))),
            ("/ws/npnzar@trade/solzar@depth@100ms", "", Some((&["npnzar@trade", "solzar@depth@100ms"], plain))),
            ("/ws", "", Some((&[], plain))),
            ("/ws/", "", Some((&[], plain))),
            ("/ws/17", "", Some((&[], plain))),
            ("/stream/ws/0", "", Some((&[], plain))),
            ("/public/ws/0", "", Some((&[], plain))),
            ("/stream", "", Some((&[], combined))),
            ("/stream", "streams=a@trade/b@trade", Some((&["a@trade", "b@trade"], combined))),
            ("/stream", "streams=a%40trade%2F%21ticker%40arr", Some((&["a@trade", "!ticker@arr"], combined))),
            (
                "/ws/a@trade",
                "timeUnit=microsecond&ts=ns",
                Some((&["a@trade"], MessageForm { in_micros: true, with_ns: true, ..plain })),
            ),
            ("/ws/api/v2", "", None),
            ("/wsx", "", None),
            ("/streams", "", None),
        ];
        for (path, query, expected) in table {
            let found = read_target(path, query).map(|wanted| (wanted.names, wanted.form));
            let expected =
                expected.map(|(names, form)| (names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), form));
            assert_eq!(found, expected, "{path}?{query}");
            assert_eq!(is_path(path), expected.is_some(), "{path}");
        }
    }

    #[test]
    fn unknown_stream_name_lists_the_known_ones() {
        for (name, expected) in [
            ("npnzar@trade", Ok(("npnzar", Kind::Trade))),
            ("npnzar@depth", Ok(("npnzar", Kind::Depth(Cadence::Second)))),
            ("npnzar@depth@1000ms", Ok(("npnzar", Kind::Depth(Cadence::SecondSpelt)))),
            ("npnzar@depth20@100ms", Ok(("npnzar", Kind::Partial(20, Cadence::Tenth)))),
            ("npnzar@kline_1m", Ok(("npnzar", Kind::Kline(KlineInterval::named("1m").unwrap())))),
            ("!miniTicker@arr", Ok(("", Kind::MiniTicker))),
            ("npnzar", Err("<symbol>@trade")),
            ("@trade", Err("<symbol>@trade")),
            ("npnzar@depth7", Err("depth5|10|20")),
            ("npnzar@depth@1ms", Err("depth[@100ms]")),
            ("npnzar@kline_7m", Err("kline_<1m, 3m")),
            ("!trade@arr", Err("!ticker@arr")),
        ] {
            match (read_name(name), expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{name}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{name}: {why}"),
                (read, _) => panic!("{name}: {read:?}"),
            }
        }
    }
}
