//! The methods and channels that real clients need, from a survey of clients (wire-compat 4.1, 4.2
//! and 6). The lists are the survey's, not the venue's table.

use crate::common::World;
use pitwire_deribit::method_names;
use serde_json::json;

const MUST: &[&str] = &[
    "public/auth",
    "public/test",
    "public/hello",
    "public/get_time",
    "public/status",
    "public/set_heartbeat",
    "public/disable_heartbeat",
    "public/subscribe",
    "public/unsubscribe",
    "public/get_currencies",
    "public/get_instruments",
    "public/get_instrument",
    "public/ticker",
    "public/get_order_book",
    "public/get_last_trades_by_instrument",
    "public/get_last_trades_by_instrument_and_time",
    "public/get_tradingview_chart_data",
    "private/buy",
    "private/sell",
    "private/edit",
    "private/cancel",
    "private/cancel_all",
    "private/cancel_all_by_instrument",
    "private/get_order_state",
    "private/get_open_orders",
    "private/get_open_orders_by_instrument",
    "private/get_open_orders_by_currency",
    "private/get_order_history_by_instrument",
    "private/get_order_history_by_currency",
    "private/get_user_trades_by_instrument",
    "private/get_user_trades_by_instrument_and_time",
    "private/get_user_trades_by_currency",
    "private/get_user_trades_by_currency_and_time",
    "private/get_user_trades_by_order",
    "private/get_account_summary",
    "private/get_account_summaries",
    "private/get_position",
    "private/get_positions",
    "private/subscribe",
    "private/unsubscribe",
    "private/unsubscribe_all",
    "private/enable_cancel_on_disconnect",
    "private/disable_cancel_on_disconnect",
    "private/get_cancel_on_disconnect",
];

const SHOULD: &[&str] = &[
    "public/unsubscribe_all",
    "public/get_last_trades_by_currency",
    "public/get_last_trades_by_currency_and_time",
    "public/get_book_summary_by_currency",
    "public/get_book_summary_by_instrument",
    "public/get_index_price",
    "public/get_index_price_names",
    "public/get_funding_rate_value",
    "public/get_funding_rate_history",
    "public/get_funding_chart_data",
    "private/edit_by_label",
    "private/cancel_all_by_currency",
    "private/cancel_all_by_kind_or_type",
    "private/cancel_by_label",
    "private/close_position",
    "private/get_order_state_by_label",
    "private/logout",
    "private/get_subaccounts",
];

/// `$I` stands for each interval.
const CHANNELS: &[&str] = &[
    "book.BTC-PERPETUAL.$I",
    "trades.BTC-PERPETUAL.$I",
    "ticker.BTC-PERPETUAL.$I",
    "quote.BTC-PERPETUAL",
    "user.orders.BTC-PERPETUAL.$I",
    "user.orders.any.any.$I",
    "user.orders.future.BTC.$I",
    "user.orders.spot.ZAR.$I",
    "user.trades.BTC-PERPETUAL.$I",
    "user.trades.any.any.$I",
    "user.changes.BTC-PERPETUAL.$I",
    "user.changes.any.any.$I",
    "user.portfolio.BTC",
    "user.portfolio.btc",
    "user.portfolio.SOL",
    "user.portfolio.any",
    "trades.future.BTC.$I",
    "trades.any.any.$I",
    "perpetual.BTC-PERPETUAL.$I",
    "instrument.state.any.any",
    "deribit_price_index.btc_usd",
];

#[test]
fn every_method_that_real_clients_need_is_served() {
    let served: Vec<&str> = method_names().collect();
    for method in MUST.iter().chain(SHOULD) {
        assert!(served.contains(method), "{method}");
    }
    assert_eq!((MUST.len(), SHOULD.len()), (44, 18), "as many as the survey names");
}

#[test]
fn every_channel_that_real_clients_need_is_served() {
    let mut names: Vec<String> = Vec::new();
    for channel in CHANNELS {
        let intervals: &[&str] = if channel.contains("$I") { &["raw", "100ms", "agg2"] } else { &[""] };
        names.extend(intervals.iter().map(|interval| channel.replace("$I", interval)));
    }
    let resolutions = ["1", "3", "5", "10", "15", "30", "60", "120", "180", "360", "720", "1D"];
    names.extend(resolutions.map(|resolution| format!("chart.trades.BTC-PERPETUAL.{resolution}")));
    for depth in [1, 10, 20] {
        names.extend(["none", "1", "2", "5", "10", "25", "100", "250"].iter().flat_map(|group| {
            ["100ms", "agg2"].map(|interval| format!("book.BTC-PERPETUAL.{group}.{depth}.{interval}"))
        }));
    }
    // Real clients subscribe private channels with the public method and the other way round.
    for method in ["public/subscribe", "private/subscribe"] {
        let mut world = World::new();
        let mut alice = world.login("alice");
        for name in &names {
            let reply = world.ok(&mut alice, method, json!({"channels": [name]}));
            assert_eq!(*reply.result(), json!([name]), "{method}");
        }
    }
}
