//! REST paths of the three dialects that this venue does not serve. They are refused in the error
//! form of their exchange, so that a client shows the reason.
//!
//! Start at    [`unserved`].

use crate::rest_request::RestAnswer;
use crate::session::is_stream_path;
use crate::{binance, bithumb, gemini};

const TRADE: &str = "orders and accounts are not served in this form; use the JSON-RPC API at /api/v2";
const BINANCE: &str = "served below /api/v3 are ping, time, exchangeInfo, depth, trades, historicalTrades, aggTrades, \
                       klines, uiKlines, avgPrice, ticker, ticker/24hr, ticker/price and ticker/bookTicker";
const WALLET: &str = "this venue has no wallet, margin or savings API; served are empty lists at \
                      /sapi/v1/capital/config/getall, margin/allPairs and margin/isolated/allPairs";
const FUTURES: &str = "derivatives are not served in this form; trade BTC-PERPETUAL by the JSON-RPC API at /api/v2, \
                       and read its streams at /ws/btcperpetual@trade";
const BITHUMB: &str =
    "served below /openapi/v1 are serverTime, spot/config, spot/orderBook, spot/trades and spot/ticker";
const GEMINI: &str = "served are /v1/symbols, /v1/symbols/details/S, /v1/book/S, /v1/trades/S, /v1/pubticker/S, \
                      /v1/pricefeed, /v2/ticker/S and /v2/candles/S/T";

/// Names of endpoints for orders and accounts, below `/api/v3` and `/v1`.
const TRADING: [&str; 20] = [
    "order",
    "orders",
    "orderList",
    "openOrders",
    "openOrderList",
    "allOrders",
    "allOrderList",
    "account",
    "myTrades",
    "myPreventedMatches",
    "myAllocations",
    "userDataStream",
    "sor",
    "mytrades",
    "balances",
    "notionalbalances",
    "tradevolume",
    "notionalvolume",
    "deposit",
    "withdraw",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum RestDialect {
    Binance,
    BinanceWallet,
    BinanceFutures,
    Bithumb,
    Gemini,
}

/// Roots of the paths of each dialect. The JSON-RPC API at `/api/v2` is not among them.
const ROOTS: [(&str, RestDialect); 10] = [
    ("/api/v3", RestDialect::Binance),
    ("/api/v1", RestDialect::Binance),
    ("/sapi", RestDialect::BinanceWallet),
    ("/fapi", RestDialect::BinanceFutures),
    ("/dapi", RestDialect::BinanceFutures),
    ("/eapi", RestDialect::BinanceFutures),
    ("/papi", RestDialect::BinanceFutures),
    ("/openapi", RestDialect::Bithumb),
    ("/v1", RestDialect::Gemini),
    ("/v2", RestDialect::Gemini),
];

/// Returns the dialect of a path, and the rest of the path.
fn dialect(path: &str) -> Option<(RestDialect, &str)> {
    ROOTS.iter().find_map(|(root, dialect)| {
        let rest = path.strip_prefix(root)?;
        (rest.is_empty() || rest.starts_with('/')).then_some((*dialect, rest.trim_matches('/')))
    })
}

/// Whether a path belongs to the REST form of an exchange, served or not.
pub fn is_rest_path(path: &str) -> bool {
    dialect(path).is_some() && !is_stream_path(path)
}

/// Refuses a request with status 404, in the form of the exchange to which its path belongs.
/// Returns `None` if it belongs to none.
pub fn unserved(method: &str, path: &str) -> Option<RestAnswer> {
    let (dialect, rest) = dialect(path)?;
    let is_trading = rest.split('/').next().is_some_and(|first| TRADING.contains(&first));
    let shown: String = path.chars().take(80).collect();
    let why = match dialect {
        RestDialect::Binance | RestDialect::Gemini if is_trading => TRADE,
        RestDialect::Binance => BINANCE,
        RestDialect::BinanceWallet => WALLET,
        RestDialect::BinanceFutures => FUTURES,
        RestDialect::Bithumb => BITHUMB,
        RestDialect::Gemini => GEMINI,
    };
    let message = format!("{method} {shown} is not served: {why}");
    let body = match dialect {
        RestDialect::Binance | RestDialect::BinanceWallet | RestDialect::BinanceFutures => {
            binance::talk::error(UNSUPPORTED, &message)
        }
        RestDialect::Bithumb => {
            let mut out = Vec::new();
            bithumb::word(&mut out, UNKNOWN_COMMAND, &message);
            String::from_utf8_lossy(&out).into_owned()
        }
        RestDialect::Gemini => gemini::refusal("EndpointNotFound", &message),
    };
    Some(RestAnswer::not_served(body))
}

/// The code of Binance for an operation that is not supported.
const UNSUPPORTED: i32 = -1020;
/// The code of Bithumb Global for an unknown command.
const UNKNOWN_COMMAND: &str = "10000";
