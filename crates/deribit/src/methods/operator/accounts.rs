//! Accounts and their credentials: create, limit, fund, delete.

use std::io;

use crate::codec::{Json, RpcError};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, Decimal, KillScope, SelfMatch, Throttle,
};

use crate::call::{Call, MethodResult};

pub fn list(call: &mut Call<'_>) -> MethodResult {
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).array(|j| {
        for account in engine.accounts() {
            let (spec, settings) = (&account.spec, account.spec.settings);
            j.object(|j| {
                j.key("account").uint(u64::from(spec.id.0));
                j.key("name").string(&spec.name);
                j.key("credit").string(match spec.credit {
                    Credit::Limited => "limited",
                    Credit::Unlimited => "unlimited",
                });
                j.key("killed").bool(engine.is_killed(KillScope::Account(spec.id)));
                j.key("throttled").bool(account.is_throttled());
                j.key("closed").bool(account.is_closed());
                j.key("open_orders").uint(u64::from(account.open_orders()));
                j.key("limits").object(|j| write_settings(j, settings));
            });
        }
    });
    Ok(())
}

/// Writes the settings. A limit that is not set is absent.
fn write_settings(j: &mut Json<'_>, settings: AccountSettings) {
    j.key("self_match").string(self_match_name(settings.self_match));
    if let Some(most) = settings.max_open_orders {
        j.key("max_open_orders").uint(u64::from(most));
    }
    if let Some(throttle) = settings.throttle {
        j.key("max_executions").uint(u64::from(throttle.executions));
        j.key("execution_window_ms").uint(throttle.window_ns / 1_000_000);
    }
}

const fn self_match_name(mode: SelfMatch) -> &'static str {
    match mode {
        SelfMatch::CancelResting => "cancel_resting",
        SelfMatch::CancelIncoming => "cancel_incoming",
        SelfMatch::CancelBoth => "cancel_both",
        SelfMatch::Allow => "none",
    }
}

/// Creates a member's account, without funds, and its first credential. Only this answer shows the
/// secret.
///
/// The credential is stored before the command that creates the account. At its next start the
/// venue discards a stored credential without an account, so a crash leaves both or neither.
///
/// # Errors
/// A refusal if the name is malformed or a limit is out of range, `already_exists` if the name is
/// taken, `internal_error` if the credential cannot be stored. After an error the account
/// does not exist.
pub fn create(call: &mut Call<'_>) -> MethodResult {
    let name = call.params.required("name")?.into_owned();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.len() > 32 || !name.bytes().all(plain) || name == "any" {
        return Err(RpcError::invalid("name", "expected 1 to 32 letters, digits, _, - and ., other than `any`"));
    }
    if call.venue.engine().account_named(&name).is_some() || call.state.keys.knows(&name) {
        return Err(RpcError::param("already_exists", "name", format!("{name} exists already")));
    }
    let id = AccountId(u32::try_from(call.venue.engine().accounts().len()).unwrap_or(u32::MAX));
    let settings = settings(call, AccountSettings::default())?;
    let secret = call.state.add_credential(&name, (id, &name)).map_err(|error| not_stored(&error))?;
    let spec = AccountSpec { id, name: name.clone(), credit: Credit::Limited, settings };
    if let Err(refusal) = call.command(Command::AddAccount(spec)) {
        call.state.withdraw_credential(&name);
        return Err(refusal);
    }
    show_credential(call, (id, &name), &name, &secret);
    Ok(())
}

/// Creates another credential for an existing account, for example when a secret is lost.
///
/// # Errors
/// A refusal if the account is unknown, `internal_error` if the credential cannot be stored.
pub fn create_credential(call: &mut Call<'_>) -> MethodResult {
    let account = call.named_account()?;
    let name = call.params.required("name")?.into_owned();
    let client_id = call.state.keys.free_client_id(&name);
    let secret = call.state.add_credential(&client_id, (account, &name)).map_err(|error| not_stored(&error))?;
    show_credential(call, (account, &name), &client_id, &secret);
    Ok(())
}

/// Lists the credentials of an account, or of all accounts, without their secrets.
///
/// # Errors
/// A refusal if the account is unknown.
pub fn credentials(call: &mut Call<'_>) -> MethodResult {
    let only = if call.params.has("name") { Some(call.named_account()?) } else { None };
    let Call { state, venue, out, .. } = call;
    Json::new(out).array(|j| {
        for credential in state.keys.list(only) {
            let holder = venue.engine().account(credential.account);
            j.object(|j| {
                j.key("client_id").string(&credential.client_id);
                j.key("name").string(holder.map_or("", |holder| &holder.spec.name));
                j.key("operator").bool(credential.access.is_operator());
            });
        }
    });
    Ok(())
}

/// Replaces the secret of a credential, shows the new one and ends the logins with the old one.
///
/// # Errors
/// A refusal if the client id is unknown, `internal_error` if the secret cannot be stored.
pub fn rotate_credential(call: &mut Call<'_>) -> MethodResult {
    let client_id = call.params.required("client_id")?.into_owned();
    let secret = call.state.rotate_credential(&client_id).map_err(|error| not_stored(&error))?;
    let secret = secret.ok_or_else(|| unknown_client_id(&client_id))?;
    call.json().object(|j| {
        j.key("client_id").string(&client_id);
        j.key("client_secret").string(&secret);
    });
    Ok(())
}

/// Removes a credential and ends its logins. The client id is never used again.
///
/// # Errors
/// A refusal if the client id is unknown, or is the last one of the operator's own account;
/// `internal_error` if the change cannot be stored.
pub fn remove_credential(call: &mut Call<'_>) -> MethodResult {
    let client_id = call.params.required("client_id")?.into_owned();
    let own = call.account()?;
    let is_last = {
        let mut others = call.state.keys.list(Some(own)).filter(|credential| credential.client_id != client_id);
        others.next().is_none() && call.state.keys.list(Some(own)).next().is_some()
    };
    if is_last {
        return Err(RpcError::invalid("client_id", "an operator cannot remove the last credential of its own account"));
    }
    if !call.state.remove_credential(&client_id).map_err(|error| not_stored(&error))? {
        return Err(unknown_client_id(&client_id));
    }
    call.done()
}

fn unknown_client_id(client_id: &str) -> RpcError {
    let shown: String = client_id.chars().take(80).collect();
    RpcError::invalid(
        "client_id",
        format!("no credential {shown:?}: private/pitwire_get_credentials lists the credentials"),
    )
}

fn not_stored(error: &io::Error) -> RpcError {
    RpcError::new("internal_error", format!("the credentials could not be stored: {error}; nothing has changed"))
}

fn show_credential(call: &mut Call<'_>, (account, name): (AccountId, &str), client_id: &str, secret: &str) {
    call.json().object(|j| {
        j.key("account").uint(u64::from(account.0));
        j.key("name").string(name);
        j.key("client_id").string(client_id);
        j.key("client_secret").string(secret);
    });
}

/// Changes the limits of an account.
///
/// # Errors
/// A refusal if the account is unknown or a limit is out of range.
pub fn change(call: &mut Call<'_>) -> MethodResult {
    let account = call.named_account()?;
    let held = call.venue.engine().account(account).map(|holder| holder.spec.settings).unwrap_or_default();
    let settings = settings(call, held)?;
    call.command(Command::SetAccount { account, settings })?;
    call.json().object(|j| write_settings(j, settings));
    Ok(())
}

fn settings(call: &Call<'_>, held: AccountSettings) -> Result<AccountSettings, RpcError> {
    let mut settings = held;
    if let Some(most) = call.limit("max_open_orders")? {
        let most = most.map(u32::try_from).transpose();
        settings.max_open_orders = most.map_err(|_| RpcError::invalid("max_open_orders", "too large"))?;
    }
    let (executions, window_ms) = (call.limit("max_executions")?, call.limit("execution_window_ms")?);
    if let Some(executions) = executions {
        settings.throttle = throttle(executions, window_ms.flatten(), held.throttle)?;
    } else if window_ms.is_some() {
        let executions = held.throttle.map(|throttle| u64::from(throttle.executions));
        settings.throttle = throttle(executions, window_ms.flatten(), held.throttle)?;
    }
    if let Some(word) = call.params.text("self_match")? {
        let found = SelfMatch::ALL.into_iter().find(|mode| self_match_name(*mode) == word);
        let known = "self_match is cancel_resting, cancel_incoming, cancel_both or none";
        settings.self_match = found.ok_or_else(|| RpcError::invalid("self_match", known))?;
    }
    Ok(settings)
}

fn throttle(
    executions: Option<u64>,
    window_ms: Option<u64>,
    held: Option<Throttle>,
) -> Result<Option<Throttle>, RpcError> {
    let Some(executions) = executions else { return Ok(None) };
    let executions = u32::try_from(executions).map_err(|_| RpcError::invalid("max_executions", "too large"))?;
    let window_ns = window_ms.map(|ms| ms.saturating_mul(1_000_000)).or(held.map(|throttle| throttle.window_ns));
    let window_ns = window_ns
        .ok_or_else(|| RpcError::invalid("execution_window_ms", "a throttle needs a window, in milliseconds"))?;
    Ok(Some(Throttle { executions, window_ns }))
}

/// Closes an account, ends its logins and removes its credentials.
///
/// The credentials are removed from storage after the commit, because a crash must not leave an
/// open account without credentials. At its next start the venue discards credentials of closed
/// accounts.
///
/// # Errors
/// A refusal if the account is unknown, closed or the operator's own.
pub fn delete(call: &mut Call<'_>) -> MethodResult {
    let account = call.named_account()?;
    if call.account()? == account {
        return Err(RpcError::invalid("name", "an operator cannot close the account it is logged in with"));
    }
    call.command(Command::CloseAccount { account })?;
    call.state.close_account(account);
    call.done()
}

/// Adds `amount` to a balance. A negative amount is a withdrawal.
///
/// # Errors
/// A refusal if the account, the currency or the amount is wrong, or if a withdrawal exceeds the
/// free balance.
pub fn deposit(call: &mut Call<'_>) -> MethodResult {
    let (account, currency) = (call.named_account()?, named_currency(call)?);
    let units = units(call, "amount", &currency)?;
    call.command(Command::Deposit { account, currency: currency.id, units })?;
    call.done()
}

/// Sets how far below zero the balance of a currency may fall.
///
/// # Errors
/// A refusal if the account or the currency is unknown or the amount is negative.
pub fn set_credit_line(call: &mut Call<'_>) -> MethodResult {
    let (account, currency) = (call.named_account()?, named_currency(call)?);
    let units = units(call, "amount", &currency)?;
    if units < 0 {
        return Err(RpcError::invalid("amount", "expected 0 or more: how far below zero the balance may fall"));
    }
    call.command(Command::SetCreditLine { account, currency: currency.id, units })?;
    call.done()
}

fn named_currency(call: &Call<'_>) -> Result<Currency, RpcError> {
    let name = call.params.required("currency")?;
    let found = call.venue.engine().currency_named(&name).cloned();
    found.ok_or_else(|| RpcError::param("unknown_currency", "currency", format!("no currency {name:?}")))
}

fn units(call: &Call<'_>, name: &'static str, currency: &Currency) -> Result<i128, RpcError> {
    let value = call.params.decimal(name)?.ok_or_else(|| RpcError::invalid(name, format!("{name} is required")))?;
    let units = value.in_steps_of(Decimal::new(1, currency.decimals));
    units.ok_or_else(|| RpcError::invalid(name, format!("{} has {} decimals", currency.name, currency.decimals)))
}
