//! Every method of the dialect that this venue serves, by name.

pub(crate) mod account;
mod cancelling;
pub(crate) mod channels;
pub(crate) mod connection;
pub(crate) mod cover;
mod disconnect;
mod history;
mod known;
mod market;
mod operator;
mod reach;
pub(crate) mod reports;
mod sessions;
mod terms;
pub(crate) mod trading;

use std::borrow::Cow;

use crate::codec::{Json, RpcError};
use pitwire_engine::Market;
use pitwire_model::{InstrumentId, InstrumentSpec, Label, Phase, Side};

use crate::desk::Call;
use cancelling::Which;
use history::By;

type Done = Result<(), RpcError>;

type Method = fn(&mut Call<'_>) -> Done;

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
    ("private/enable_cancel_on_disconnect", |call| disconnect::set(call, true)),
    ("private/disable_cancel_on_disconnect", |call| disconnect::set(call, false)),
    ("private/get_cancel_on_disconnect", disconnect::get),
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
    ("public/get_expirations", nothing),
    ("public/get_funding_rate_history", nothing),
    ("public/get_funding_rate_value", zero),
    ("private/buy", |call| trading::enter(call, Side::Buy)),
    ("private/sell", |call| trading::enter(call, Side::Sell)),
    ("private/edit", trading::edit),
    ("private/edit_by_label", trading::edit_by_label),
    ("private/close_position", trading::close_position),
    ("private/cancel", cancelling::cancel),
    ("private/cancel_all", |call| cancelling::cancel_where(call, Which::All)),
    ("private/cancel_all_by_instrument", |call| cancelling::cancel_where(call, Which::Instrument)),
    ("private/cancel_all_by_segment", |call| cancelling::cancel_where(call, Which::Segment)),
    ("private/cancel_all_by_currency", |call| cancelling::cancel_where(call, Which::Currency)),
    ("private/cancel_all_by_kind_or_type", |call| cancelling::cancel_where(call, Which::KindOrType)),
    ("private/cancel_by_label", |call| cancelling::cancel_where(call, Which::Label)),
    ("private/get_order_state", history::order_state),
    ("private/pitwire_explain", history::explain),
    ("private/pitwire_report_trade", reports::report),
    ("private/pitwire_confirm_report", reports::confirm),
    ("private/pitwire_decline_report", reports::decline),
    ("private/pitwire_get_reports", reports::list),
    ("private/get_order_state_by_label", history::order_state_by_label),
    ("private/get_open_orders", |call| history::open_orders(call, By::Currency)),
    ("private/get_open_orders_by_currency", |call| history::open_orders(call, By::Currency)),
    ("private/get_open_orders_by_instrument", |call| history::open_orders(call, By::Instrument)),
    ("private/get_open_orders_by_label", |call| history::open_orders(call, By::Label)),
    ("private/get_order_history_by_instrument", |call| history::order_history(call, By::Instrument)),
    ("private/get_order_history_by_currency", |call| history::order_history(call, By::Currency)),
    ("private/get_user_trades_by_instrument", |call| history::user_trades(call, By::Instrument)),
    ("private/get_user_trades_by_instrument_and_time", |call| history::user_trades(call, By::Instrument)),
    ("private/get_user_trades_by_currency", |call| history::user_trades(call, By::Currency)),
    ("private/get_user_trades_by_currency_and_time", |call| history::user_trades(call, By::Currency)),
    ("private/get_user_trades_by_order", history::user_trades_by_order),
    ("private/get_account_summary", account::summary),
    ("private/get_account_summaries", account::summaries),
    ("private/get_position", account::position),
    ("private/get_positions", account::positions),
    ("private/get_subaccounts", account::subaccounts),
];

/// Every method that is served, as `scope/name`.
pub fn names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().chain(operator::METHODS).map(|(name, _)| *name)
}

/// Runs a method. Private ones are refused here when nobody is logged in or the login does not reach so far, so none can
/// forget to ask.
pub(crate) fn run(method: &str, call: &mut Call<'_>) -> Done {
    if method.starts_with("private/") {
        call.account()?;
        if let Some((area, level)) = reach::needed(method) {
            call.must_reach(area, level)?;
        }
    }
    if operator::is_operators(method) {
        call.operator()?;
    }
    match METHODS.iter().chain(operator::METHODS).find(|(name, _)| *name == method) {
        Some((_, run)) => run(call),
        None => Err(known::refusal(method)),
    }
}

/// For questions about things that this venue never has.
fn nothing(call: &mut Call<'_>) -> Done {
    call.json().array(|_| {});
    Ok(())
}

/// No funding in this version: a stated zero.
fn zero(call: &mut Call<'_>) -> Done {
    call.json().raw(b"0.0");
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

    /// The instruments of the segment that `segment` names, in order of number.
    pub(crate) fn segment(&self) -> Result<Vec<InstrumentId>, RpcError> {
        let name = self.params.required("segment")?;
        let of = |spec: &InstrumentSpec| spec.rules.as_ref().is_some_and(|rules| rules.segment.as_str() == name);
        let markets = self.venue.engine().markets().iter().filter(|market| market.phase() != Phase::Deleted);
        let found: Vec<InstrumentId> = markets.filter(|market| of(&market.spec)).map(|market| market.spec.id).collect();
        if found.is_empty() {
            let shown: String = name.chars().take(80).collect();
            return Err(RpcError::param(
                "unknown_segment",
                "segment",
                format!("no instrument is of segment {shown:?}"),
            ));
        }
        Ok(found)
    }

    /// `currency`, or `any` when it is not given.
    pub(crate) fn currency(&self) -> Result<String, RpcError> {
        Ok(self.params.text("currency")?.filter(|text| !text.is_empty()).map_or("any".into(), Cow::into_owned))
    }

    /// A member's own words. The dialect counts 64 characters; we keep 64 bytes of them, so letters beyond ASCII cost
    /// more than one, and the refusal says which limit was met.
    pub(crate) fn label(&self) -> Result<Label, RpcError> {
        let text = self.params.text("label")?.unwrap_or_default();
        Label::new(&text).ok_or_else(|| {
            let (characters, bytes, most) = (text.chars().count(), text.len(), Label::MAX_BYTES);
            RpcError::invalid(
                "label",
                format!("a label is at most {most} characters and {most} bytes of UTF-8; this one has {characters} and {bytes}"),
            )
        })
    }

    /// The label by which orders are meant.
    pub(crate) fn required_label(&self) -> Result<Label, RpcError> {
        self.params.required("label")?;
        self.label()
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
