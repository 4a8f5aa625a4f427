//! Message forms of venues: trades and books of synthetic markets from a seed.
//!
//! Does        writes the messages of three venues field by field (`binance`, `bithumb`, `gemini`),
//!             and their first messages to a client. The target of a connection selects markets and
//!             message kind, as at the venue. With a law of sizes, books and Gemini's updates grow
//!             by levels and events.
//! Leaves out  REST, and the venues' limits on clients.
//! Start at    [`VenueFeed::new`].

use std::fmt::Write as _;

use crate::payload_sizes::{PayloadSizes, SizeDraws};
use crate::symbols;
use crate::trades::MessageSource;
use pitwire_random::SplitMix64;
use pitwire_websocket::head::split_target;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedDialect {
    Binance,
    Bithumb,
    Gemini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarketEventKind {
    Trade,
    AggTrade,
    Depth,
}

struct SimulatedMarket {
    /// Base currency: `BTC` of BTC-USDT.
    base: String,
    cents: u64,
    trades: u64,
    /// Number of the last book update.
    updates: u64,
}

pub struct VenueFeed {
    venue: FeedDialect,
    random: SplitMix64,
    markets: Vec<SimulatedMarket>,
    /// Messages that this connection receives: markets by index, and the kind.
    wanted: Vec<(usize, MarketEventKind)>,
    /// Wrapped in a combined stream (Binance), or with the symbol in each event (Gemini).
    is_combined: bool,
    events: u64,
    on_socket: u64,
    /// Sizes to which books and Gemini's updates grow.
    sizes: Option<SizeDraws>,
}

const MOST_MARKETS: usize = 2_048;
const FIRST_BASES: [&str; 8] = ["BTC", "ETH", "XRP", "LTC", "ADA", "SOL", "DOGE", "DOT"];

impl VenueFeed {
    pub fn new(venue: FeedDialect, markets: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let made = symbols::names(markets + 200, seed).into_iter().skip(100);
        let made = made.filter(|name| !name.contains('.') && !FIRST_BASES.contains(&name.as_str()));
        let bases = FIRST_BASES.iter().map(|base| (*base).to_owned()).chain(made).take(markets);
        let markets: Vec<SimulatedMarket> = bases.map(|base| SimulatedMarket::new(base, &mut random)).collect();
        let kind = if venue == FeedDialect::Bithumb { MarketEventKind::Depth } else { MarketEventKind::Trade };
        let wanted = (0..markets.len()).map(|index| (index, kind)).collect();
        VenueFeed { venue, random, markets, wanted, is_combined: true, events: 0, on_socket: 0, sizes: None }
    }

    /// Lets books and Gemini's updates grow to sizes of this law. Binance's trades keep their size.
    #[must_use]
    pub fn with_sizes(mut self, sizes: PayloadSizes, seed: u64) -> Self {
        self.sizes = Some(sizes.draws(seed));
        self
    }

    fn market(&mut self, base: &str) -> Option<usize> {
        let base = base.to_ascii_uppercase();
        let is_name = !base.is_empty() && base.len() <= 12 && base.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if let Some(index) = self.markets.iter().position(|market| market.base == base) {
            return Some(index);
        }
        if !is_name || self.markets.len() >= MOST_MARKETS {
            return None;
        }
        self.markets.push(SimulatedMarket::new(base, &mut self.random));
        Some(self.markets.len() - 1)
    }

    /// Selects markets and kinds by name. Invalid names are ignored.
    fn want(&mut self, names: &[(String, MarketEventKind)]) {
        let found: Vec<(usize, MarketEventKind)> =
            names.iter().filter_map(|(base, kind)| Some((self.market(base)?, *kind))).collect();
        if !found.is_empty() {
            self.wanted = found;
        }
    }

    fn draw(&mut self) -> (usize, MarketEventKind) {
        let index = usize::try_from(self.random.below(self.wanted.len().max(1) as u64)).unwrap_or(0);
        let (market, kind) = self.wanted.get(index).copied().unwrap_or((0, MarketEventKind::Trade));
        self.markets[market].walk(&mut self.random);
        (market, kind)
    }

    fn binance(&mut self, ms: u64) -> String {
        let (index, kind) = self.draw();
        let quantity = quantity(&mut self.random, 8);
        let is_maker = self.random.one_in(2);
        let removes = self.random.one_in(4);
        let market = &mut self.markets[index];
        let symbol = format!("{}USDT", market.base);
        let price = decimal(market.cents, 8);
        let (name, text) = match kind {
            MarketEventKind::Trade | MarketEventKind::AggTrade => {
                market.trades += 1;
                let id = market.trades;
                let (name, key, range) = match kind {
                    MarketEventKind::AggTrade => ("aggTrade", "a", format!("\"f\":{id},\"l\":{id},")),
                    _ => ("trade", "t", String::new()),
                };
                let text = format!(
                    "{{\"e\":\"{name}\",\"E\":{},\"s\":\"{symbol}\",\"{key}\":{id},\"p\":\"{price}\",\"q\":\"{quantity}\",{range}\"T\":{ms},\"m\":{is_maker},\"M\":true}}",
                    ms + 1
                );
                (name, text)
            }
            MarketEventKind::Depth => {
                let first = market.updates + 1;
                market.updates += 2;
                let gone = if removes { "0.00000000" } else { quantity.as_str() };
                let (bid, ask) = (decimal(market.cents - 1, 8), decimal(market.cents + 1, 8));
                let text = format!(
                    "{{\"e\":\"depthUpdate\",\"E\":{ms},\"s\":\"{symbol}\",\"U\":{first},\"u\":{},\"b\":[[\"{bid}\",\"{quantity}\"]],\"a\":[[\"{ask}\",\"{gone}\"]]}}",
                    market.updates
                );
                ("depth", text)
            }
        };
        if self.is_combined {
            format!("{{\"stream\":\"{}@{name}\",\"data\":{text}}}", symbol.to_ascii_lowercase())
        } else {
            text
        }
    }

    fn bithumb(&mut self, ms: u64) -> String {
        let (index, kind) = self.draw();
        let quantity = quantity(&mut self.random, 6);
        let side = if self.random.one_in(2) { "buy" } else { "sell" };
        let removes = self.random.one_in(4);
        let market = &mut self.markets[index];
        let number = if kind == MarketEventKind::Depth { &mut market.updates } else { &mut market.trades };
        *number += 1;
        let ver = *number;
        let base = &market.base;
        let data = if kind == MarketEventKind::Depth {
            let rest = format!("\"symbol\":\"{base}-USDT\",\"ver\":\"{ver}\"");
            let (bids, asks) = match &mut self.sizes {
                Some(sizes) => {
                    let around =
                        format!("{{\"b\":[],\"s\":[],{rest}}}").len() + bithumb_envelope("", ms, "ORDERBOOK").len();
                    levels_within(market.cents, sizes.draw().saturating_sub(around), &mut self.random)
                }
                None => {
                    let gone = if removes { "0" } else { quantity.as_str() };
                    (level(market.cents - 1, &quantity), level(market.cents + 1, gone))
                }
            };
            format!("{{\"b\":[{bids}],\"s\":[{asks}],{rest}}}")
        } else {
            let price = decimal(market.cents, 2);
            let seconds = ms / 1_000;
            format!(
                "{{\"p\":\"{price}\",\"s\":\"{side}\",\"symbol\":\"{base}-USDT\",\"t\":\"{seconds}\",\"v\":\"{quantity}\",\"ver\":\"{ver}\"}}"
            )
        };
        bithumb_envelope(&data, ms, if kind == MarketEventKind::Depth { "ORDERBOOK" } else { "TRADE" })
    }

    fn gemini(&mut self, ms: u64) -> String {
        let (index, kind) = self.draw();
        let mut events = self.gemini_event(index, kind);
        let most = self.sizes.as_mut().map_or(0, SizeDraws::draw);
        let mut left = most.saturating_sub(GEMINI_UPDATE_BYTES + events.len());
        while left > 0 {
            let event = self.gemini_event(index, kind);
            left = left.saturating_sub(event.len() + 1);
            if left > 0 {
                events.push(',');
                events.push_str(&event);
            }
        }
        self.gemini_update(ms, &events)
    }

    fn gemini_event(&mut self, index: usize, kind: MarketEventKind) -> String {
        let amount = quantity(&mut self.random, 8);
        let side = if self.random.one_in(2) { "bid" } else { "ask" };
        let reason = if self.random.one_in(3) { "cancel" } else { "place" };
        self.events += 1 + self.random.below(5);
        let market = &mut self.markets[index];
        let symbol = if self.is_combined { format!(",\"symbol\":\"{}USD\"", market.base) } else { String::new() };
        let price = decimal(market.cents, 2);
        if kind == MarketEventKind::Depth {
            let (remaining, delta) =
                if reason == "cancel" { ("0", format!("-{amount}")) } else { (amount.as_str(), amount.clone()) };
            format!(
                "{{\"type\":\"change\",\"side\":\"{side}\",\"price\":\"{price}\",\"remaining\":\"{remaining}\",\"delta\":\"{delta}\",\"reason\":\"{reason}\"{symbol}}}"
            )
        } else {
            format!(
                "{{\"type\":\"trade\",\"tid\":{},\"price\":\"{price}\",\"amount\":\"{amount}\",\"makerSide\":\"{side}\"{symbol}}}",
                self.events
            )
        }
    }

    fn gemini_update(&mut self, ms: u64, events: &str) -> String {
        let (id, seconds, sequence) = (self.events, ms / 1_000, self.on_socket);
        self.on_socket += 1;
        format!(
            "{{\"type\":\"update\",\"eventId\":{id},\"timestamp\":{seconds},\"timestampms\":{ms},\"socket_sequence\":{sequence},\"events\":[{events}]}}"
        )
    }

    /// Writes ten levels of one side, `[[price, quantity], …]`.
    fn levels(&mut self, index: usize, is_bid: bool, places: usize) -> String {
        let cents = self.markets[index].cents;
        let mut text = String::new();
        for step in 1..=10 {
            let price = if is_bid { cents - step } else { cents + step };
            let comma = if step > 1 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}[\"{}\",\"{}\"]", decimal(price, 2), quantity(&mut self.random, places));
        }
        format!("[{text}]")
    }
}

impl MessageSource for VenueFeed {
    fn take(&mut self, wall_ms: u64, out: &mut Vec<u8>) -> Result<Option<bool>, String> {
        let text = match self.venue {
            FeedDialect::Binance => self.binance(wall_ms),
            FeedDialect::Bithumb => self.bithumb(wall_ms),
            FeedDialect::Gemini => self.gemini(wall_ms),
        };
        out.extend_from_slice(text.as_bytes());
        Ok(Some(false))
    }

    fn greeting(&mut self, target: &str, wall_ms: u64) -> Vec<Vec<u8>> {
        self.on_socket = 0;
        let (path, query) = split_target(target);
        let parameter = |name: &str| {
            let found = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
            found.map_or("", |(_, value)| value).to_owned()
        };
        match self.venue {
            FeedDialect::Binance => {
                self.is_combined = path.starts_with("/stream");
                let streams =
                    if self.is_combined { parameter("streams") } else { path.trim_start_matches("/ws").to_owned() };
                let names: Vec<(String, MarketEventKind)> = streams.split('/').filter_map(binance_stream).collect();
                self.want(&names);
                Vec::new()
            }
            FeedDialect::Bithumb => {
                let names: Vec<(String, MarketEventKind)> =
                    parameter("subscribe").split(',').filter_map(bithumb_topic).collect();
                self.want(&names);
                let books: Vec<usize> = self
                    .wanted
                    .iter()
                    .filter(|(_, kind)| *kind == MarketEventKind::Depth)
                    .map(|(index, _)| *index)
                    .collect();
                let book = |index: usize| {
                    let (bids, asks) = (self.levels(index, true, 6), self.levels(index, false, 6));
                    let market = &self.markets[index];
                    format!(
                        "{{\"code\":\"00006\",\"data\":{{\"b\":{bids},\"s\":{asks},\"symbol\":\"{}-USDT\",\"ver\":\"{}\"}},\"timestamp\":{wall_ms},\"topic\":\"ORDERBOOK\"}}",
                        market.base, market.updates
                    )
                };
                books.into_iter().map(book).map(String::into_bytes).collect()
            }
            FeedDialect::Gemini => {
                let one = path.strip_prefix("/v1/marketdata/").map(str::to_owned);
                let list = one.clone().unwrap_or_else(|| parameter("symbols"));
                self.is_combined = one.is_none();
                let kind = if parameter("bids") == "true" || parameter("offers") == "true" {
                    MarketEventKind::Depth
                } else {
                    MarketEventKind::Trade
                };
                let names: Vec<(String, MarketEventKind)> =
                    list.split(',').filter_map(|name| Some((without(name, "USD")?, kind))).collect();
                self.want(&names);
                let events = if kind == MarketEventKind::Depth { self.gemini_initial() } else { String::new() };
                vec![self.gemini_update(wall_ms, &events).into_bytes()]
            }
        }
    }

    fn answer(&mut self, text: &str) -> Option<Vec<u8>> {
        let asked: serde_json::Value = serde_json::from_str(text).ok()?;
        let answer = match self.venue {
            FeedDialect::Binance => {
                asked["method"].as_str()?;
                format!("{{\"result\":null,\"id\":{}}}", asked["id"])
            }
            FeedDialect::Bithumb => match asked["cmd"].as_str()? {
                "ping" => "{\"code\":\"0\",\"msg\":\"pong\"}".to_owned(),
                "subscribe" => "{\"code\":\"00001\",\"msg\":\"subscribed\"}".to_owned(),
                _ => "{\"code\":\"10000\",\"msg\":\"no such cmd\"}".to_owned(),
            },
            FeedDialect::Gemini => return None,
        };
        Some(answer.into_bytes())
    }
}

impl VenueFeed {
    fn gemini_initial(&mut self) -> String {
        let mut events = Vec::new();
        for (index, _) in self.wanted.clone() {
            let cents = self.markets[index].cents;
            let symbol = if self.is_combined {
                format!(",\"symbol\":\"{}USD\"", self.markets[index].base)
            } else {
                String::new()
            };
            for (side, price) in (1..=10).flat_map(|step| [("bid", cents - step), ("ask", cents + step)]) {
                let amount = quantity(&mut self.random, 8);
                events.push(format!(
                    "{{\"type\":\"change\",\"side\":\"{side}\",\"price\":\"{}\",\"remaining\":\"{amount}\",\"delta\":\"{amount}\",\"reason\":\"initial\"{symbol}}}",
                    decimal(price, 2)
                ));
            }
        }
        events.join(",")
    }
}

/// Length of a Gemini update without its events, with numbers of the usual length.
const GEMINI_UPDATE_BYTES: usize = 120;

fn bithumb_envelope(data: &str, ms: u64, topic: &str) -> String {
    format!("{{\"code\":\"00007\",\"data\":{data},\"timestamp\":{ms},\"topic\":\"{topic}\"}}")
}

/// Writes one level of a Bithumb book.
fn level(cents: u64, quantity: &str) -> String {
    format!("[\"{}\",\"{quantity}\"]", decimal(cents, 2))
}

/// Writes as many bids and asks around a price as `room` bytes hold, best first.
fn levels_within(cents: u64, mut room: usize, random: &mut SplitMix64) -> (String, String) {
    let (mut bids, mut asks) = (String::new(), String::new());
    for step in 1.. {
        for is_bid in [true, false] {
            // A low price has few bids below it.
            let price = if is_bid { cents.saturating_sub(step) } else { cents + step };
            if price == 0 {
                continue;
            }
            let text = level(price, &quantity(random, 6));
            let side = if is_bid { &mut bids } else { &mut asks };
            let bytes = text.len() + usize::from(!side.is_empty());
            if bytes > room {
                return (bids, asks);
            }
            room -= bytes;
            if !side.is_empty() {
                side.push(',');
            }
            side.push_str(&text);
        }
    }
    (bids, asks)
}

impl SimulatedMarket {
    fn new(base: String, random: &mut SplitMix64) -> Self {
        // Prices from 1.00 to about 40,000, mostly low. Ids start high, like those of an old venue.
        let cents = 100 + random.below(2_000) * random.below(2_000);
        SimulatedMarket { base, cents, trades: random.below(1_000_000_000), updates: random.below(1_000_000_000) }
    }

    fn walk(&mut self, random: &mut SplitMix64) {
        let step = random.below(5);
        self.cents = (self.cents + step).saturating_sub(2).max(50);
    }
}

fn binance_stream(name: &str) -> Option<(String, MarketEventKind)> {
    let (symbol, kind) = name.split_once('@')?;
    let kind = match kind.split('@').next()? {
        "trade" => MarketEventKind::Trade,
        "aggTrade" => MarketEventKind::AggTrade,
        "depth" => MarketEventKind::Depth,
        _ => return None,
    };
    Some((without(symbol, "USDT")?, kind))
}

fn bithumb_topic(name: &str) -> Option<(String, MarketEventKind)> {
    let (topic, symbol) = name.split_once(':')?;
    let kind = match topic {
        "ORDERBOOK" => MarketEventKind::Depth,
        "TRADE" => MarketEventKind::Trade,
        _ => return None,
    };
    Some((without(symbol, "-USDT")?, kind))
}

fn without(symbol: &str, quote: &str) -> Option<String> {
    symbol.to_ascii_uppercase().strip_suffix(quote).map(str::to_owned)
}

/// Formats hundredths with `places` decimals, at least two.
fn decimal(cents: u64, places: usize) -> String {
    format!("{}.{:02}{}", cents / 100, cents % 100, "0".repeat(places - 2))
}

/// Draws a quantity from 0.0001 to 20, mostly small.
fn quantity(random: &mut SplitMix64, places: usize) -> String {
    let ten_thousandths = 1 + random.below(447) * random.below(447);
    format!("{}.{:04}{}", ten_thousandths / 10_000, ten_thousandths % 10_000, "0".repeat(places - 4))
}

#[cfg(test)]
mod tests;
