//! Balances and positions.

use crate::codec::{Json, RpcError, objects};
use pitwire_engine::Engine;
use pitwire_model::AccountId;

use crate::account_objects::{summary_facts, write_position};
use crate::call::{Call, MethodResult};

/// Answers with the balance of one currency.
///
/// # Errors
/// A refusal without a login, or if `currency` is missing or unknown.
pub fn summary(call: &mut Call<'_>) -> MethodResult {
    let account = call.account()?;
    let name = call.params.required("currency")?;
    let currency = call.venue.engine().currencies().iter().find(|currency| currency.name.eq_ignore_ascii_case(&name));
    let currency =
        currency.ok_or_else(|| RpcError::param("unknown_currency", "currency", format!("no currency {name:?}")))?;
    let facts = summary_facts(call.venue.engine(), account, currency);
    let mut out = Vec::new();
    objects::summary(&mut Json::new(&mut out), currency, &facts);
    if call.params.boolean("extended")?.unwrap_or(false) {
        extend(call, account, &mut out);
    }
    call.out = out;
    Ok(())
}

/// Adds identity and limits of the account to a finished summary object.
fn extend(call: &Call<'_>, account: AccountId, out: &mut Vec<u8>) {
    let mut more = Vec::new();
    Json::new(&mut more).object(|j| {
        identity(j, call.venue.engine(), account);
        // The dialect has `fees` only for accounts with a discount. Clients disagree on its form.
        j.key("limits");
        let (limits, is_enforced) = call.state.rates.of_account(account, &*call.venue);
        limits.write(j, is_enforced);
    });
    // Joins two objects: the first loses its closing brace, the second its opening one.
    out.pop();
    out.push(b',');
    out.extend_from_slice(&more[1..]);
}

fn identity(j: &mut Json<'_>, engine: &Engine, account: AccountId) {
    let name = engine.account(account).map_or("", |holder| holder.spec.name.as_str());
    j.key("id").uint(u64::from(account.0) + 1);
    j.key("username").string(name).key("system_name").string(name);
    j.key("email").string(&format!("{name}@pitwire.invalid"));
    j.key("type").string("main");
    j.key("creation_timestamp").uint(1_767_225_600_000);
}

/// Answers with the balances of all currencies.
///
/// # Errors
/// A refusal without a login.
pub fn summaries(call: &mut Call<'_>) -> MethodResult {
    let account = call.account()?;
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).object(|j| {
        identity(j, engine, account);
        j.key("summaries").array(|j| {
            for currency in engine.currencies() {
                objects::summary(j, currency, &summary_facts(engine, account, currency));
            }
        });
    });
    Ok(())
}

/// Answers with the position in one instrument.
///
/// # Errors
/// A refusal without a login, or if the instrument is missing or unknown.
pub fn position(call: &mut Call<'_>) -> MethodResult {
    let (account, id) = (call.account()?, call.instrument_id()?);
    let Call { venue, out, .. } = call;
    write_position(&mut Json::new(out), venue.engine(), account, id);
    Ok(())
}

/// Lists perpetual positions that are not flat. Holdings of spot instruments are balances.
///
/// # Errors
/// A refusal without a login, or if `currency` is not a single value.
pub fn positions(call: &mut Call<'_>) -> MethodResult {
    let account = call.account()?;
    let wanted = call.currency()?;
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).array(|j| {
        let Some(holder) = engine.account(account) else { return };
        for (id, _) in holder.positions().filter(|(_, held)| held.lots != 0) {
            let Some(market) = engine.market(id).filter(|market| !market.spec.is_spot()) else { continue };
            let settled = objects::settlement_name(&market.spec, engine.currencies());
            if wanted.eq_ignore_ascii_case("any") || wanted.eq_ignore_ascii_case(settled) {
                write_position(j, engine, account, id);
            }
        }
    });
    Ok(())
}

/// Lists the account itself, because accounts have no subaccounts.
///
/// # Errors
/// A refusal without a login.
pub fn subaccounts(call: &mut Call<'_>) -> MethodResult {
    let account = call.account()?;
    let Call { venue, out, .. } = call;
    let engine = venue.engine();
    Json::new(out).array(|j| {
        j.object(|j| {
            identity(j, engine, account);
            j.key("is_password").bool(false).key("login_enabled").bool(false);
            j.key("receive_notifications").bool(false);
        });
    });
    Ok(())
}
