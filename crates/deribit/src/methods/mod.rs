//! The methods of the dialect that this venue serves, by name.

mod account;
mod cancel;
mod cancel_on_disconnect;
pub(crate) mod channels;
pub(crate) mod connection;
mod filters;
mod history;
pub(crate) mod market;
mod operator;
mod order_parameters;
mod reports;
mod required_scope;
mod sessions;
mod trading;
pub(crate) mod typed;
mod unserved;

use pitwire_model::Side;

use crate::call::{Call, Method, MethodResult};
use crate::codec::RpcError;
use cancel::MassCancel;
use history::OrderFilter;

const METHODS: &[(&str, Method)] = &[
    ("public/auth", connection::auth),
    ("public/test", connection::test),
    ("public/hello", connection::version),
    ("public/set_heartbeat", connection::set_heartbeat),
    ("public/disable_heartbeat", connection::disable_heartbeat),
    ("public/get_time", connection::get_time),
    ("public/status", connection::status),
    ("public/subscribe", channels::subscribe),
    ("public/unsubscribe", channels::unsubscribe),
    ("public/unsubscribe_all", channels::unsubscribe_all),
    ("private/subscribe", channels::subscribe),
    ("private/unsubscribe", channels::unsubscribe),
    ("private/unsubscribe_all", channels::unsubscribe_all),
    ("private/logout", connection::logout),
    ("private/pitwire_advance", connection::advance),
    ("private/enable_cancel_on_disconnect", |call| cancel_on_disconnect::set(call, true)),
    ("private/disable_cancel_on_disconnect", |call| cancel_on_disconnect::set(call, false)),
    ("private/get_cancel_on_disconnect", cancel_on_disconnect::get),
    ("public/get_currencies", market::get_currencies),
    ("public/get_instruments", market::get_instruments),
    ("public/get_instrument", market::get_instrument),
    ("public/ticker", market::ticker),
    ("public/get_order_book", market::get_order_book),
    ("public/get_last_trades_by_instrument", market::last_trades_by_instrument),
    ("public/get_last_trades_by_instrument_and_time", market::last_trades_by_instrument),
    ("public/get_last_trades_by_currency", market::last_trades_by_currency),
    ("public/get_last_trades_by_currency_and_time", market::last_trades_by_currency),
    ("public/get_tradingview_chart_data", market::chart),
    ("public/pitwire_get_rules", sessions::get_rules),
    ("public/pitwire_get_session", sessions::get_session),
    ("public/pitwire_get_auction", sessions::get_auction),
    ("public/pitwire_get_statistics", sessions::get_statistics),
    ("public/pitwire_get_off_book", reports::off_book),
    ("public/get_book_summary_by_currency", market::summaries_by_currency),
    ("public/get_book_summary_by_instrument", market::summary_by_instrument),
    ("public/get_index_price", market::index_price),
    ("public/get_index_price_names", market::index_names),
    ("public/get_supported_index_names", market::index_names),
    ("public/get_contract_size", market::contract_size),
    ("public/get_order_book_by_instrument_id", market::get_order_book_by_id),
    ("public/get_announcements", nothing),
    ("public/get_historical_volatility", nothing),
    ("public/get_last_settlements_by_currency", market::no_settlements),
    ("public/get_last_settlements_by_instrument", market::no_settlements),
    ("public/get_delivery_prices", market::no_deliveries),
    ("public/get_volatility_index_data", market::no_volatility),
    ("public/get_funding_chart_data", market::no_funding),
    ("public/get_combos", nothing),
    ("public/get_expirations", market::expirations),
    ("public/get_funding_rate_history", nothing),
    ("public/get_funding_rate_value", zero),
    ("private/buy", |call| trading::enter(call, Side::Buy)),
    ("private/sell", |call| trading::enter(call, Side::Sell)),
    ("private/edit", trading::edit),
    ("private/edit_by_label", trading::edit_by_label),
    ("private/close_position", trading::close_position),
    ("private/cancel", cancel::cancel),
    ("private/cancel_all", |call| cancel::cancel_where(call, MassCancel::All)),
    ("private/cancel_all_by_instrument", |call| cancel::cancel_where(call, MassCancel::Instrument)),
    ("private/cancel_all_by_segment", |call| cancel::cancel_where(call, MassCancel::Segment)),
    ("private/cancel_all_by_currency", |call| cancel::cancel_where(call, MassCancel::Currency)),
    ("private/cancel_all_by_currency_pair", |call| cancel::cancel_where(call, MassCancel::CurrencyPair)),
    ("private/cancel_all_by_kind_or_type", |call| cancel::cancel_where(call, MassCancel::KindOrType)),
    ("private/cancel_by_label", |call| cancel::cancel_where(call, MassCancel::Label)),
    ("private/get_order_state", history::order_state),
    ("private/pitwire_explain", history::explain),
    ("private/pitwire_report_trade", reports::report),
    ("private/pitwire_confirm_report", reports::confirm),
    ("private/pitwire_decline_report", reports::decline),
    ("private/pitwire_get_reports", reports::list),
    ("private/get_order_state_by_label", history::order_state_by_label),
    ("private/get_open_orders", |call| history::open_orders(call, OrderFilter::Currency)),
    ("private/get_open_orders_by_currency", |call| history::open_orders(call, OrderFilter::Currency)),
    ("private/get_open_orders_by_instrument", |call| history::open_orders(call, OrderFilter::Instrument)),
    ("private/get_open_orders_by_label", |call| history::open_orders(call, OrderFilter::Label)),
    ("private/get_order_history_by_instrument", |call| history::order_history(call, OrderFilter::Instrument)),
    ("private/get_order_history_by_currency", |call| history::order_history(call, OrderFilter::Currency)),
    ("private/get_user_trades_by_instrument", |call| history::user_trades(call, OrderFilter::Instrument)),
    ("private/get_user_trades_by_instrument_and_time", |call| history::user_trades(call, OrderFilter::Instrument)),
    ("private/get_user_trades_by_currency", |call| history::user_trades(call, OrderFilter::Currency)),
    ("private/get_user_trades_by_currency_and_time", |call| history::user_trades(call, OrderFilter::Currency)),
    ("private/get_user_trades_by_order", history::user_trades_by_order),
    ("private/get_account_summary", account::summary),
    ("private/get_account_summaries", account::summaries),
    ("private/get_position", account::position),
    ("private/get_positions", account::positions),
    ("private/get_subaccounts", account::subaccounts),
];

/// Returns the name of every served method, as `scope/name`.
pub fn names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().chain(operator::METHODS).map(|(name, _)| *name)
}

/// Runs a method. Login and scope of private methods are checked here, so that no method can forget
/// the check.
///
/// # Errors
///
/// Returns the method's error, a missing login or scope, or why the method is not served.
pub(crate) fn run(method: &str, call: &mut Call<'_>) -> MethodResult {
    check_access(method, call)?;
    match METHODS.iter().chain(operator::METHODS).find(|(name, _)| *name == method) {
        Some((_, run)) => run(call),
        None => Err(unserved::refusal(method)),
    }
}

/// Checks that the caller may call a method.
fn check_access(method: &str, call: &Call<'_>) -> MethodResult {
    if method.starts_with("private/") {
        call.account()?;
        if call.params.is_in_query("access_token") && required_scope::changes_state(method) {
            return Err(RpcError::named("token_in_query"));
        }
        if let Some((area, level)) = required_scope::required(method) {
            call.require_scope(area, level)?;
        }
    }
    if operator::is_operator_only(method) {
        call.operator()?;
    }
    Ok(())
}

/// Answers with an empty list, for things that this venue never has.
fn nothing(call: &mut Call<'_>) -> MethodResult {
    call.json().array(|_| {});
    Ok(())
}

/// Answers with zero: this version has no funding.
fn zero(call: &mut Call<'_>) -> MethodResult {
    call.json().raw(b"0.0");
    Ok(())
}
