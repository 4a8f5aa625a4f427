//! Methods of the dialect that this venue does not serve. They are refused by name, with an
//! alternative.

use crate::codec::RpcError;

/// Method names, and what to use instead.
const FAMILIES: &[(&[&str], &str)] = &[
    (
        &[
            "private/mass_quote",
            "private/cancel_quotes",
            "private/set_mmp_config",
            "private/get_mmp_config",
            "private/get_mmp_status",
            "private/reset_mmp",
        ],
        "quote with private/buy, private/sell and private/edit",
    ),
    (
        &[
            "private/get_margins",
            "private/get_order_margin_by_ids",
            "private/get_portfolio_margins",
            "private/get_leg_prices",
            "private/change_margin_model",
            "private/pme/simulate",
            "private/simulate_portfolio",
            "public/get_portfolio_margins",
        ],
        "private/get_position and private/get_account_summary tell the margin",
    ),
    (
        &["private/get_transaction_log", "private/get_settlement_history_by_currency"],
        "private/get_user_trades_by_currency tells what has traded",
    ),
    (&["private/get_settlement_history_by_instrument"], "private/get_user_trades_by_instrument tells what has traded"),
    (
        &["private/get_trigger_order_history", "private/get_stop_order_history", "private/create_trigger_order"],
        "private/get_open_orders tells stops that wait, private/get_order_history_by_currency those that were elected",
    ),
    (
        &[
            "private/withdraw",
            "private/cancel_withdrawal",
            "private/get_withdrawals",
            "private/get_deposits",
            "private/get_transfers",
            "private/submit_transfer_to_subaccount",
            "private/submit_transfer_to_user",
            "private/submit_transfer_between_subaccounts",
            "private/cancel_transfer_by_id",
            "private/get_current_deposit_address",
            "private/create_deposit_address",
            "private/add_to_address_book",
            "private/get_address_book",
            "private/remove_from_address_book",
            "private/update_in_address_book",
            "private/set_clearance_originator",
            "private/save_address_beneficiary",
            "private/get_address_beneficiary",
            "private/list_address_beneficiaries",
            "private/delete_address_beneficiary",
            "private/list_custody_accounts",
            "private/get_reward_eligibility",
        ],
        "money comes and goes by the venue's operator here",
    ),
    (
        &[
            "private/create_subaccount",
            "private/remove_subaccount",
            "private/change_subaccount_name",
            "private/toggle_subaccount_login",
            "private/get_subaccounts_details",
            "private/create_api_key",
            "private/list_api_keys",
            "private/edit_api_key",
            "private/remove_api_key",
            "private/reset_api_key",
            "private/enable_api_key",
            "private/disable_api_key",
            "private/change_api_key_name",
            "private/change_scope_in_api_key",
            "private/set_api_key_as_default",
            "private/set_disabled_trading_products",
            "private/disable_tfa_for_subaccount",
            "private/set_email_for_subaccount",
            "private/set_password_for_subaccount",
            "private/toggle_notifications_from_subaccount",
            "private/enable_affiliate_program",
            "private/get_affiliate_program_info",
            "private/get_access_log",
            "private/get_user_locks",
            "private/get_members",
            "private/set_member",
            "private/delete_member",
            "private/set_self_trading_config",
            "private/get_email_language",
            "private/set_email_language",
        ],
        "accounts and keys are the venue operator's",
    ),
    (
        &[
            "private/execute_block_trade",
            "private/verify_block_trade",
            "private/get_block_trade",
            "private/get_block_trades",
            "private/get_block_trade_requests",
            "private/get_last_block_trades_by_currency",
            "private/approve_block_trade",
            "private/reject_block_trade",
            "private/simulate_block_trade",
            "private/invalidate_block_trade_signature",
            "private/create_combo",
            "private/move_positions",
            "public/get_combo_ids",
            "public/get_combo_details",
            "public/get_block_rfq_trades",
            "public/get_rfqs",
            "private/send_rfq",
            "private/get_broker_trades",
            "private/get_broker_trade_requests",
            "private/create_block_rfq",
            "private/accept_block_rfq",
            "private/cancel_block_rfq",
            "private/get_block_rfqs",
            "private/get_block_rfq_quotes",
            "private/get_block_rfq_user_info",
            "private/add_block_rfq_quote",
            "private/edit_block_rfq_quote",
            "private/cancel_block_rfq_quote",
            "private/cancel_all_block_rfq_quotes",
            "private/cancel_block_rfq_trigger",
            "private/get_block_rfq_makers",
            "private/get_broker_clients",
        ],
        "trade the instruments of public/get_instruments one by one",
    ),
    (&["public/fork_token", "public/exchange_token"], "log in again with public/auth and session:NAME"),
    (&["private/get_currencies"], "public/get_currencies lists them"),
    (
        &["private/get_new_announcements", "private/set_announcement_as_read"],
        "public/get_announcements answers with an empty list",
    ),
    (&["public/get_apr_history"], "the venue has no yield-bearing currency"),
    (&["public/get_index"], "public/get_index_price tells the price of an index"),
    (
        &["public/get_index_chart_data", "public/get_mark_price_history"],
        "public/get_tradingview_chart_data has candles, and the ticker the mark price and the index price",
    ),
    (&["public/validate_field"], "a wrong value is refused by the method itself, with its name"),
    (&["public/get_trade_volumes"], "public/get_book_summary_by_currency tells volumes"),
];

pub fn refusal(method: &str) -> RpcError {
    match FAMILIES.iter().find(|(names, _)| names.contains(&method)) {
        Some((_, instead)) => {
            RpcError::new("not_implemented", format!("{method} is not served by this version; {instead}"))
        }
        None => {
            let shown: String = method.chars().take(80).collect();
            RpcError::new("method_not_found", format!("no method {shown:?}"))
        }
    }
}
