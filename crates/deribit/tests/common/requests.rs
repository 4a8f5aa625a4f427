//! One good request to every method, with the shape of its answer.
//!
//! `$OPEN`, `$FILLED` and `$REFRESH` stand for ids and a token of the fixture.

use super::World;
use super::shape::{
    CURRENCY, FILL, INSTRUMENT, ORDER, POSITION, PUBLIC_TRADE, SUMMARY, Shape,
    Shape::{Int, Is, Nothing, Num, Of, Some, Text},
    TICKER,
};
use pitwire_deribit::Session;
use serde_json::Value;

const TOKENS: Shape = Of(&[
    ("access_token", Text),
    ("refresh_token", Text),
    ("expires_in", Int),
    ("scope", Text),
    ("token_type", Is("bearer")),
]);
const VERSION: Shape = Of(&[("version", Text)]);
const OUTCOME: Shape = Of(&[("order", ORDER), ("trades", Some(&FILL))]);
const RESTED: Shape = Of(&[("order", ORDER), ("trades", Nothing)]);
const TRADES: Shape = Of(&[("trades", Some(&PUBLIC_TRADE)), ("has_more", Shape::Bool)]);
const FILLS: Shape = Of(&[("trades", Some(&FILL)), ("has_more", Shape::Bool)]);
const BOOK: Shape = Of(&[("change_id", Int), ("bids", Some(&LEVEL)), ("asks", Some(&LEVEL)), ("timestamp", Int)]);
const LEVEL: Shape = Some(&Num);
const SUMMARIES: Shape = Some(&Of(&[("instrument_name", Text), ("mark_price", Num), ("volume", Num)]));
const INDEX: Shape = Of(&[("index_price", Num), ("estimated_delivery_price", Num)]);
const CHART: Shape = Of(&[
    ("ticks", Some(&Int)),
    ("open", Some(&Num)),
    ("high", Some(&Num)),
    ("low", Some(&Num)),
    ("close", Some(&Num)),
    ("volume", Some(&Num)),
    ("cost", Some(&Num)),
    ("status", Is("ok")),
]);
const IDENTITY: Shape = Of(&[
    ("id", Int),
    ("email", Text),
    ("username", Text),
    ("system_name", Text),
    ("type", Is("main")),
    ("creation_timestamp", Int),
    ("summaries", Some(&SUMMARY)),
]);
const SUBACCOUNT: Shape =
    Of(&[("id", Int), ("username", Text), ("type", Is("main")), ("receive_notifications", Shape::Bool)]);

const SESSION: Shape = Of(&[
    ("timestamp", Int),
    ("instrument_name", Text),
    ("session", Is("continuous")),
    ("state", Is("open")),
    ("reason", Text),
    ("begins", Int),
    ("enter", Shape::Bool),
    ("match", Is("continuous")),
]);
const AUCTION: Shape = Of(&[("timestamp", Int), ("instrument_name", Text), ("type", Is("result"))]);
const STATISTICS: Shape = Of(&[
    ("timestamp", Int),
    ("session", Text),
    ("open", Num),
    ("open_derivation", Is("first_trade")),
    ("high", Num),
    ("low", Num),
    ("last", Num),
    ("vwap", Num),
    ("volume", Num),
    ("turnover", Num),
    ("trades", Int),
    ("bid_vwap", Num),
]);
const OFF_BOOK: Shape = Of(&[
    ("timestamp", Int),
    ("instrument_name", Text),
    ("trade_reporting", Is("closed")),
    ("day", Of(&[("volume", Num), ("turnover", Num), ("trades", Int)])),
    ("trades", Nothing),
]);
const RULES: Shape = Of(&[
    ("order_types", Some(&Of(&[("type", Text), ("time_in_force", Text), ("answer", Text), ("rule", Text)]))),
    (
        "sessions",
        Some(&Of(&[
            ("session", Text),
            ("enter", Shape::Bool),
            ("order_types", Of(&[("market", Text)])),
            ("match", Text),
        ])),
    ),
    ("rules", Some(&Of(&[("id", Text), ("text", Text), ("source", Text)]))),
]);

pub const ROWS: &[(&str, &str, Shape)] = &[
    ("public/auth", r#"{"grant_type":"refresh_token","refresh_token":"$REFRESH"}"#, TOKENS),
    ("public/test", "{}", VERSION),
    ("public/hello", r#"{"client_name":"x","client_version":"1"}"#, VERSION),
    ("public/set_heartbeat", r#"{"interval":30}"#, Is("ok")),
    ("public/disable_heartbeat", "{}", Is("ok")),
    ("public/pitwire_get_rules", "{}", RULES),
    ("public/pitwire_get_session", r#"{"instrument_name":"NPN_ZAR"}"#, SESSION),
    ("public/pitwire_get_auction", r#"{"instrument_name":"NPN_ZAR"}"#, AUCTION),
    ("public/pitwire_get_statistics", r#"{"instrument_name":"NPN_ZAR"}"#, STATISTICS),
    ("public/pitwire_get_off_book", r#"{"instrument_name":"NPN_ZAR"}"#, OFF_BOOK),
    ("public/get_time", "null", Int),
    ("public/status", "{}", Of(&[("locked", Is("false")), ("locked_indices", Nothing)])),
    ("public/subscribe", r#"{"channels":["ticker.NPN_ZAR.100ms"]}"#, Some(&Is("ticker.NPN_ZAR.100ms"))),
    ("public/unsubscribe", r#"{"channels":["ticker.NPN_ZAR.100ms"]}"#, Some(&Is("ticker.NPN_ZAR.100ms"))),
    ("public/unsubscribe_all", "{}", Is("ok")),
    ("private/subscribe", r#"{"channels":["user.orders.any.any.raw"]}"#, Some(&Is("user.orders.any.any.raw"))),
    ("private/unsubscribe", r#"{"channels":["user.orders.any.any.raw"]}"#, Some(&Is("user.orders.any.any.raw"))),
    ("private/unsubscribe_all", "{}", Is("ok")),
    ("private/logout", "{}", Is("ok")),
    ("private/enable_cancel_on_disconnect", r#"{"scope":"account"}"#, Is("ok")),
    ("private/disable_cancel_on_disconnect", "{}", Is("ok")),
    ("private/get_cancel_on_disconnect", "{}", Of(&[("scope", Is("connection")), ("enabled", Shape::Bool)])),
    ("public/get_currencies", "{}", Some(&CURRENCY)),
    ("public/get_instruments", r#"{"currency":"any"}"#, Some(&INSTRUMENT)),
    ("public/get_instrument", r#"{"instrument_name":"BTC-PERPETUAL"}"#, INSTRUMENT),
    ("public/ticker", r#"{"instrument_name":"NPN_ZAR"}"#, TICKER),
    ("public/get_order_book", r#"{"instrument_name":"NPN_ZAR","depth":5}"#, BOOK),
    ("public/get_last_trades_by_instrument", r#"{"instrument_name":"NPN_ZAR"}"#, TRADES),
    (
        "public/get_last_trades_by_instrument_and_time",
        r#"{"instrument_name":"NPN_ZAR","start_timestamp":1795219359707}"#,
        TRADES,
    ),
    ("public/get_last_trades_by_currency", r#"{"currency":"ZAR"}"#, TRADES),
    ("public/get_last_trades_by_currency_and_time", r#"{"currency":"NPN","start_timestamp":0}"#, TRADES),
    (
        "public/get_tradingview_chart_data",
        r#"{"instrument_name":"NPN_ZAR","start_timestamp":1795219000000,"end_timestamp":1795219400000,"resolution":"1"}"#,
        CHART,
    ),
    ("public/get_book_summary_by_currency", r#"{"currency":"ZAR"}"#, SUMMARIES),
    ("public/get_book_summary_by_instrument", r#"{"instrument_name":"NPN_ZAR"}"#, SUMMARIES),
    ("public/get_index_price", r#"{"index_name":"btc_usd"}"#, INDEX),
    ("public/get_index_price_names", "{}", Some(&Text)),
    ("public/get_supported_index_names", "{}", Some(&Text)),
    ("public/get_contract_size", r#"{"instrument_name":"BTC-PERPETUAL"}"#, Of(&[("contract_size", Int)])),
    ("public/get_order_book_by_instrument_id", r#"{"instrument_id":1}"#, BOOK),
    ("public/get_announcements", "{}", Nothing),
    ("public/get_historical_volatility", r#"{"currency":"BTC"}"#, Nothing),
    (
        "public/get_last_settlements_by_currency",
        r#"{"currency":"BTC"}"#,
        Of(&[("settlements", Nothing), ("continuation", Text)]),
    ),
    (
        "public/get_last_settlements_by_instrument",
        r#"{"instrument_name":"BTC-PERPETUAL"}"#,
        Of(&[("settlements", Nothing), ("continuation", Text)]),
    ),
    ("public/get_delivery_prices", r#"{"index_name":"btc_usd"}"#, Of(&[("data", Nothing), ("records_total", Int)])),
    ("public/get_volatility_index_data", r#"{"currency":"BTC"}"#, Of(&[("data", Nothing)])),
    (
        "public/get_funding_chart_data",
        r#"{"instrument_name":"BTC-PERPETUAL","length":"8h"}"#,
        Of(&[("current_interest", Num), ("interest_8h", Num), ("index_price", Num), ("data", Nothing)]),
    ),
    ("public/get_combos", "{}", Nothing),
    ("public/get_expirations", r#"{"currency":"BTC"}"#, Of(&[("future", Some(&Text)), ("option", Nothing)])),
    ("public/get_funding_rate_history", r#"{"instrument_name":"BTC-PERPETUAL"}"#, Nothing),
    ("public/get_funding_rate_value", r#"{"instrument_name":"BTC-PERPETUAL"}"#, Num),
    ("private/buy", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"market","label":"m"}"#, OUTCOME),
    ("private/sell", r#"{"instrument_name":"NPN_ZAR","amount":1,"type":"limit","price":3300}"#, RESTED),
    ("private/edit", r#"{"order_id":"$OPEN","amount":3,"price":3190.00}"#, RESTED),
    ("private/edit_by_label", r#"{"label":"rest","instrument_name":"NPN_ZAR","amount":2,"price":3190}"#, RESTED),
    ("private/close_position", r#"{"instrument_name":"BTC-PERPETUAL","type":"limit","price":70000}"#, RESTED),
    ("private/cancel", r#"{"order_id":"$OPEN"}"#, ORDER),
    ("private/cancel_all", "{}", Int),
    ("private/cancel_all_by_instrument", r#"{"instrument_name":"NPN_ZAR","type":"all"}"#, Int),
    ("private/cancel_all_by_segment", r#"{"segment":"ZA01"}"#, Int),
    ("private/cancel_all_by_currency", r#"{"currency":"ZAR"}"#, Int),
    ("private/cancel_all_by_currency_pair", r#"{"currency_pair":"npn_zar"}"#, Int),
    ("private/cancel_all_by_kind_or_type", r#"{"currency":"any","type":"limit"}"#, Int),
    ("private/cancel_by_label", r#"{"label":"rest"}"#, Int),
    ("private/get_order_state", r#"{"order_id":"$FILLED"}"#, ORDER),
    ("private/get_order_state_by_label", r#"{"label":"rest","currency":"ZAR"}"#, Some(&ORDER)),
    ("private/get_open_orders", "{}", Some(&ORDER)),
    ("private/get_open_orders_by_currency", r#"{"currency":"ZAR"}"#, Some(&ORDER)),
    ("private/get_open_orders_by_instrument", r#"{"instrument_name":"NPN_ZAR"}"#, Some(&ORDER)),
    ("private/get_open_orders_by_label", r#"{"label":"rest"}"#, Some(&ORDER)),
    ("private/get_order_history_by_instrument", r#"{"instrument_name":"NPN_ZAR"}"#, Some(&ORDER)),
    ("private/get_order_history_by_currency", r#"{"currency":"ZAR","count":1}"#, Some(&ORDER)),
    ("private/get_user_trades_by_instrument", r#"{"instrument_name":"NPN_ZAR"}"#, FILLS),
    ("private/get_user_trades_by_instrument_and_time", r#"{"instrument_name":"NPN_ZAR","start_timestamp":0}"#, FILLS),
    ("private/get_user_trades_by_currency", r#"{"currency":"ZAR"}"#, FILLS),
    ("private/get_user_trades_by_currency_and_time", r#"{"currency":"BTC","start_timestamp":0}"#, FILLS),
    ("private/get_user_trades_by_order", r#"{"order_id":"$FILLED"}"#, Some(&FILL)),
    ("private/get_account_summary", r#"{"currency":"ZAR","extended":true}"#, SUMMARY),
    ("private/get_account_summaries", "{}", IDENTITY),
    ("private/get_position", r#"{"instrument_name":"BTC-PERPETUAL"}"#, POSITION),
    ("private/get_positions", "{}", Some(&POSITION)),
    ("private/get_subaccounts", "{}", Some(&SUBACCOUNT)),
];

/// The fixture: Alice has a resting order in NPN_ZAR labelled `rest`, a filled order and a
/// perpetual position; Bob offers more of each.
pub struct Stage {
    pub world: World,
    pub alice: Session,
    pub open: String,
    pub filled: String,
    pub refresh: String,
}

impl Stage {
    pub fn set() -> Stage {
        let mut world = World::new();
        let mut bob = world.login("bob");
        let mut alice = world.connect();
        let refresh = world.grant(&mut alice, "alice")["refresh_token"].as_str().expect("a token").into();
        world.limit(&mut bob, "sell", "NPN_ZAR", 10.0, 3200.01);
        world.limit(&mut bob, "sell", "BTC-PERPETUAL", 1000.0, 60_000.5);
        let filled = world.limit(&mut alice, "buy", "NPN_ZAR", 4.0, 3200.01);
        world.limit(&mut alice, "buy", "BTC-PERPETUAL", 100.0, 60_000.5);
        let rest = serde_json::json!({"instrument_name": "NPN_ZAR", "amount": 5, "price": 3199.99, "label": "rest"});
        let open = world.ok(&mut alice, "private/buy", rest).result()["order"]["order_id"].as_str().unwrap().into();
        Stage { world, alice, open, filled, refresh }
    }

    pub fn params(&self, row: &str) -> Value {
        let filled_in =
            row.replace("$OPEN", &self.open).replace("$FILLED", &self.filled).replace("$REFRESH", &self.refresh);
        serde_json::from_str(&filled_in).expect("the row is JSON")
    }
}
