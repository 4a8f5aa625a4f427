//! Every method of the dialect that this venue serves, by name.

mod account;
mod connection;
mod history;
mod market;
mod trading;

use std::borrow::Cow;

use pitwire_engine::Market;
use pitwire_jsonrpc::{Json, RpcError};
use pitwire_model::{InstrumentId, InstrumentSpec};

use crate::desk::{Call, Entrance};

type Done = Result<(), RpcError>;

/// Runs a method. Private ones are refused here when nobody is logged in, so none can forget to ask.
pub(crate) fn run(method: &str, call: &mut Call<'_>) -> Done {
    if method.starts_with("private/") {
        login_from_params(call)?;
        call.account()?;
    }
    let name = method.split_once('/').map_or("", |(_, name)| name);
    match method {
        "public/auth" => connection::auth(call),
        "public/test" => connection::test(call),
        "public/hello" => connection::version(call),
        "public/get_time" => connection::get_time(call),
        "public/status" => connection::status(call),
        "public/subscribe" | "private/subscribe" => connection::subscribe(call),
        "public/unsubscribe" | "private/unsubscribe" => connection::unsubscribe(call),
        "public/unsubscribe_all" | "private/unsubscribe_all" => connection::unsubscribe_all(call),
        "private/logout" => connection::logout(call),

        "public/get_currencies" => market::get_currencies(call),
        "public/get_instruments" => market::get_instruments(call),
        "public/get_instrument" => market::get_instrument(call),
        "public/ticker" => market::ticker(call),
        "public/get_order_book" => market::get_order_book(call),
        "public/get_last_trades_by_instrument" | "public/get_last_trades_by_instrument_and_time" => {
            market::last_trades_by_instrument(call)
        }
        "public/get_last_trades_by_currency" | "public/get_last_trades_by_currency_and_time" => {
            market::last_trades_by_currency(call)
        }
        "public/get_tradingview_chart_data" => market::chart(call),
        "public/get_book_summary_by_currency" => market::summaries_by_currency(call),
        "public/get_book_summary_by_instrument" => market::summary_by_instrument(call),
        "public/get_index_price" => market::index_price(call),
        "public/get_index_price_names" => market::index_names(call),
        "public/get_combos" | "public/get_expirations" | "public/get_funding_rate_history" => {
            call.json().array(|_| {});
            Ok(())
        }
        "public/get_funding_rate_value" => {
            call.json().raw(b"0.0");
            Ok(())
        }

        "private/buy" | "private/sell" => trading::enter(call, name == "buy"),
        "private/edit" => trading::edit(call),
        "private/edit_by_label" => trading::edit_by_label(call),
        "private/cancel" => trading::cancel(call),
        "private/cancel_all" => trading::cancel_where(call, trading::Which::All),
        "private/cancel_all_by_instrument" => trading::cancel_where(call, trading::Which::Instrument),
        "private/cancel_all_by_currency" => trading::cancel_where(call, trading::Which::Currency),
        "private/cancel_all_by_kind_or_type" => trading::cancel_where(call, trading::Which::Kind),
        "private/cancel_by_label" => trading::cancel_where(call, trading::Which::Label),
        "private/close_position" => trading::close_position(call),

        "private/get_order_state" => history::order_state(call),
        "private/get_order_state_by_label" => history::order_state_by_label(call),
        "private/get_open_orders"
        | "private/get_open_orders_by_currency"
        | "private/get_open_orders_by_instrument"
        | "private/get_open_orders_by_label" => history::open_orders(call, name),
        "private/get_order_history_by_instrument" | "private/get_order_history_by_currency" => {
            history::order_history(call, name)
        }
        "private/get_user_trades_by_instrument"
        | "private/get_user_trades_by_instrument_and_time"
        | "private/get_user_trades_by_currency"
        | "private/get_user_trades_by_currency_and_time" => history::user_trades(call, name),
        "private/get_user_trades_by_order" => history::user_trades_by_order(call),

        "private/get_account_summary" => account::summary(call),
        "private/get_account_summaries" => account::summaries(call),
        "private/get_position" => account::position(call),
        "private/get_positions" => account::positions(call),
        "private/get_subaccounts" => account::subaccounts(call),
        _ => Err(unknown(method, call.entrance)),
    }
}

fn unknown(method: &str, entrance: Entrance) -> RpcError {
    const CONNECTIONS_ONLY: &[&str] = &[
        "public/set_heartbeat",
        "public/disable_heartbeat",
        "private/enable_cancel_on_disconnect",
        "private/disable_cancel_on_disconnect",
        "private/get_cancel_on_disconnect",
    ];
    const LATER: &[&str] = &[
        "private/mass_quote",
        "private/get_margins",
        "private/get_transaction_log",
        "private/get_trigger_order_history",
        "private/withdraw",
        "private/get_deposits",
        "private/get_withdrawals",
        "private/get_transfers",
        "private/get_current_deposit_address",
        "private/create_deposit_address",
    ];
    if CONNECTIONS_ONLY.contains(&method) && entrance != Entrance::WebSocket {
        RpcError::new("must_be_websocket", "this belongs to a connection")
    } else if LATER.contains(&method) || CONNECTIONS_ONLY.contains(&method) {
        RpcError::new("not_implemented", format!("{method} is not served by this version"))
    } else {
        let shown: String = method.chars().take(80).collect();
        RpcError::new("method_not_found", format!("no method {shown:?}"))
    }
}

/// A token inside `params` counts where the session has no login of its own.
fn login_from_params(call: &mut Call<'_>) -> Done {
    if call.session.login.is_none()
        && let Some(token) = call.params.text("access_token")?
    {
        call.session.login = Some(call.desk.keys.by_token(&token, call.wall_ms)?);
    }
    Ok(())
}

impl<'a> Call<'a> {
    /// The writer of this method's `result`.
    pub(crate) fn json(&mut self) -> Json<'_> {
        Json::new(&mut self.out)
    }

    pub(crate) fn instrument_id(&self) -> Result<InstrumentId, RpcError> {
        let name = self.params.required("instrument_name")?;
        well_formed(&name)?;
        let found = self.venue.engine().instrument_named(&name).map(|market| market.spec.id);
        found.ok_or_else(|| RpcError::param("unknown_instrument", "instrument_name", format!("no instrument {name:?}")))
    }

    pub(crate) fn market(&self, id: InstrumentId) -> Result<&Market, RpcError> {
        self.venue.engine().market(id).ok_or_else(|| RpcError::new("unknown_instrument", "no such instrument"))
    }

    pub(crate) fn spec(&self, id: InstrumentId) -> Result<&InstrumentSpec, RpcError> {
        self.market(id).map(|market| &market.spec)
    }

    /// `currency`, or `any` when it is not given.
    pub(crate) fn currency(&self) -> Result<String, RpcError> {
        Ok(self.params.text("currency")?.filter(|text| !text.is_empty()).map_or("any".into(), Cow::into_owned))
    }

    pub(crate) fn count(&self, default: usize) -> Result<usize, RpcError> {
        match self.params.integer("count")? {
            None => Ok(default),
            Some(count) => usize::try_from(count)
                .ok()
                .filter(|count| (1..=1000).contains(count))
                .ok_or_else(|| RpcError::invalid("count", "count is 1 to 1000")),
        }
    }

    /// A time range in milliseconds, both ends included; open where not given.
    pub(crate) fn time_range(&self) -> Result<(u64, u64), RpcError> {
        let at = |value: Option<i64>, absent: u64| value.map_or(absent, |value| u64::try_from(value).unwrap_or(0));
        let (from, to) = (self.params.integer("start_timestamp")?, self.params.integer("end_timestamp")?);
        Ok((at(from, 0), at(to, u64::MAX)))
    }

    pub(crate) fn is_ascending(&self) -> Result<bool, RpcError> {
        match self.params.text("sorting")?.as_deref() {
            Some("asc") => Ok(true),
            None | Some("desc" | "default" | "") => Ok(false),
            Some(_) => Err(RpcError::invalid("sorting", "sorting is asc, desc or default")),
        }
    }
}

/// Instrument names are letters, digits, underscores and dashes; anything else is a mistake of form.
fn well_formed(name: &str) -> Done {
    let fine = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fine { Ok(()) } else { Err(RpcError::invalid("instrument_name", "a name is letters, digits, _ and -")) }
}
