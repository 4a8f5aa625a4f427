//! Shapes of the dialect's objects from its documentation: the fields that clients require, with
//! their types.

use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Text,
    Is(&'static str),
    /// Without a decimal point.
    Int,
    /// With a decimal point: clients tell prices from counters by it.
    Num,
    Bool,
    Null,
    Nothing,
    /// A list with at least one element, all of this shape.
    Some(&'static Shape),
    Of(&'static [(&'static str, Shape)]),
}

use Shape::{Bool, Int, Is, Null, Num, Of, Text};

pub const ORDER: Shape = Of(&[
    ("order_id", Text),
    ("order_state", Text),
    ("order_type", Text),
    ("instrument_name", Text),
    ("direction", Text),
    ("price", Num),
    ("amount", Num),
    ("filled_amount", Num),
    ("average_price", Num),
    ("contracts", Num),
    ("time_in_force", Text),
    ("creation_timestamp", Int),
    ("last_update_timestamp", Int),
    ("label", Text),
    ("post_only", Bool),
    ("reduce_only", Bool),
    ("api", Bool),
    ("web", Bool),
    ("replaced", Bool),
    ("user_id", Int),
]);

pub const PUBLIC_TRADE: Shape = Of(&[
    ("trade_id", Text),
    ("instrument_name", Text),
    ("price", Num),
    ("amount", Num),
    ("direction", Text),
    ("timestamp", Int),
    ("trade_seq", Int),
    ("tick_direction", Int),
    ("index_price", Num),
    ("mark_price", Num),
]);

pub const FILL: Shape = Of(&[
    ("trade_id", Text),
    ("order_id", Text),
    ("instrument_name", Text),
    ("direction", Text),
    ("price", Num),
    ("amount", Num),
    ("fee", Num),
    ("fee_currency", Text),
    ("timestamp", Int),
    ("trade_seq", Int),
    ("liquidity", Text),
    ("order_type", Text),
    ("index_price", Num),
    ("mark_price", Num),
    ("tick_direction", Int),
    ("state", Text),
    ("label", Text),
    ("matching_id", Null),
    ("self_trade", Bool),
]);

pub const INSTRUMENT: Shape = Of(&[
    ("instrument_name", Text),
    ("kind", Text),
    ("base_currency", Text),
    ("quote_currency", Text),
    ("counter_currency", Text),
    ("instrument_type", Text),
    ("expiration_timestamp", Int),
    ("creation_timestamp", Int),
    ("instrument_id", Int),
    ("is_active", Bool),
    ("state", Is("open")),
    ("tick_size", Num),
    ("tick_size_steps", Shape::Nothing),
    ("contract_size", Num),
    ("min_trade_amount", Num),
    ("maker_commission", Num),
    ("taker_commission", Num),
    ("max_leverage", Int),
]);

pub const TICKER: Shape = Of(&[
    ("instrument_name", Text),
    ("timestamp", Int),
    ("mark_price", Num),
    ("index_price", Num),
    ("open_interest", Num),
    ("state", Is("open")),
    ("last_price", Num),
    ("best_bid_price", Num),
    ("best_bid_amount", Num),
    ("best_ask_price", Num),
    ("best_ask_amount", Num),
    ("stats", Of(&[("high", Num), ("low", Num), ("volume", Num), ("price_change", Num)])),
]);

pub const POSITION: Shape = Of(&[
    ("instrument_name", Text),
    ("direction", Text),
    ("size", Num),
    ("average_price", Num),
    ("mark_price", Num),
    ("initial_margin", Num),
    ("maintenance_margin", Num),
    ("floating_profit_loss", Num),
    ("realized_profit_loss", Num),
    ("total_profit_loss", Num),
    ("kind", Text),
    ("leverage", Int),
    ("estimated_liquidation_price", Num),
]);

pub const SUMMARY: Shape = Of(&[
    ("currency", Text),
    ("equity", Num),
    ("balance", Num),
    ("available_funds", Num),
    ("margin_balance", Num),
    ("initial_margin", Num),
    ("maintenance_margin", Num),
    ("delta_total", Num),
    ("options_value", Num),
    ("projected_maintenance_margin", Num),
]);

pub const CURRENCY: Shape = Of(&[
    ("currency", Text),
    ("currency_long", Text),
    ("coin_type", Text),
    ("fee_precision", Int),
    ("decimals", Int),
    ("min_confirmations", Int),
    ("withdrawal_fee", Num),
    ("withdrawal_priorities", Shape::Nothing),
]);

/// Returns the differences as `path: difference`.
pub fn misfits(value: &Value, shape: Shape) -> Vec<String> {
    let mut found = Vec::new();
    compare("result", value, shape, &mut found);
    look_for_nulls("result", value, &mut found);
    found
}

fn compare(path: &str, value: &Value, shape: Shape, found: &mut Vec<String>) {
    let fits = match shape {
        Shape::Text => value.is_string(),
        Shape::Is(text) => value == text,
        Shape::Int => value.is_u64(),
        Shape::Num => value.is_f64(),
        Shape::Bool => value.is_boolean(),
        Shape::Null => value.is_null(),
        Shape::Nothing => value.as_array().is_some_and(Vec::is_empty),
        Shape::Some(of) => {
            for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                compare(&format!("{path}[{at}]"), item, *of, found);
            }
            value.as_array().is_some_and(|items| !items.is_empty())
        }
        Shape::Of(fields) => {
            for (name, of) in fields {
                compare(&format!("{path}.{name}"), &value[name], *of, found);
            }
            value.is_object()
        }
    };
    if !fits {
        found.push(format!("{path}: {value} is not {shape:?}"));
    }
}

/// Fields are absent rather than null. Only `matching_id` may be null.
fn look_for_nulls(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Null if !path.ends_with(".matching_id") => found.push(format!("{path} is null")),
        Value::Array(items) => items.iter().for_each(|item| look_for_nulls(path, item, found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| look_for_nulls(&format!("{path}.{name}"), item, found));
        }
        _ => {}
    }
}
