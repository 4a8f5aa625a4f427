//! Parses a stream's label. Gateways name streams to their venue by label.
//!
//! Holds       [`StreamKey::of_label`] is the inverse of [`StreamKey::label`] for every stream.

use crate::binance::grammar;
use crate::bithumb;
use crate::key::{Entries, Kind, KlineInterval, MessageForm, StreamKey};
use crate::names::Directory;
use crate::stream_set::instrument_key;

impl StreamKey {
    /// Returns the stream with this label, or `None` if there is none.
    pub fn of_label(label: &str, directory: &Directory) -> Option<StreamKey> {
        let mut parts = label.split('+');
        let base = parts.next()?;
        let mut form = MessageForm::default();
        for mark in parts {
            match mark {
                "combined" => form.is_combined = true,
                "us" => form.in_micros = true,
                "ns" => form.with_ns = true,
                _ => return None,
            }
        }
        let (symbol, kind) = read_base(base)?;
        instrument_key(symbol, kind, form, directory)
    }
}

fn read_base(base: &str) -> Option<(&str, Kind)> {
    if let Some(topic) = base.strip_prefix("bithumb/") {
        return bithumb::read_topic(topic);
    }
    if let Some(rest) = base.strip_prefix("gemini/v1/") {
        let (symbol, letters) = rest.split_once('?')?;
        return Some((symbol, Kind::Market(read_entries(letters)?)));
    }
    if let Some(rest) = base.strip_prefix("gemini/v2/") {
        let (name, symbol) = rest.split_once(':')?;
        if name == "l2" {
            return Some((symbol, Kind::Level2));
        }
        let interval = KlineInterval::named(name.strip_prefix("candles_")?)?;
        return Some((symbol, Kind::Candles2(interval)));
    }
    grammar::read_name(base).ok()
}

fn read_entries(letters: &str) -> Option<Entries> {
    let has = |letter: char| letters.contains(letter);
    let entries = Entries {
        bids: has('b'),
        offers: has('o'),
        trades: has('t'),
        auctions: has('a'),
        top_of_book: has('1'),
        heartbeat: has('h'),
        with_symbol: has('s'),
        by_stream: has('n'),
    };
    letters.chars().all(|letter| "bota1hsn".contains(letter)).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamSession;

    #[test]
    fn label_round_trips_for_every_url() {
        let directory = Directory::named(["NPN_ZAR", "BTC-PERPETUAL"]);
        let elsewhere = Directory::named(["AGL_ZAR", "BTC-PERPETUAL", "NPN_ZAR"]);
        let mut labels = Vec::new();
        for target in [
            "/ws/npnzar@trade/npnzar@aggTrade/btcperpetual@depth/npnzar@depth@1000ms/npnzar@depth@100ms?ts=ns",
            "/stream?streams=npnzar@depth5/npnzar@depth10@100ms/npnzar@bookTicker/npnzar@ticker&timeUnit=MICROSECOND",
            "/ws/npnzar@miniTicker/npnzar@kline_1m/!ticker@arr/!miniTicker@arr",
            "/message/realtime?subscribe=ORDERBOOK:NPN-ZAR,TRADE:BTC-PERPETUAL,TICKER:NPN-ZAR",
            "/v1/marketdata/npnzar?study=1&top_of_book=true&bids=true&heartbeat=true",
            "/v1/multimarketdata?symbols=npnzar,btcperpetual&study=1",
        ] {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let opened = StreamSession::open(path, query, &directory).unwrap().unwrap();
            assert!(!opened.join.is_empty(), "{target}");
            for key in opened.join {
                let label = key.label(key.instrument.and_then(|of| directory.names(of)));
                assert_eq!(StreamKey::of_label(&label, &directory), Some(key), "{label}");
                // The label is the same if instruments have other ids.
                let there = StreamKey::of_label(&label, &elsewhere).unwrap();
                assert_eq!(there.label(there.instrument.and_then(|of| elsewhere.names(of))), label);
                labels.push(label);
            }
        }
        assert_eq!(labels.len(), 19);
        for wrong in ["", "npnzar", "nothere@trade", "npnzar@trade+x", "gemini/v1/npnzar?bx", "gemini/v2/l3:npnzar"] {
            assert_eq!(StreamKey::of_label(wrong, &directory), None, "{wrong}");
        }
    }
}
