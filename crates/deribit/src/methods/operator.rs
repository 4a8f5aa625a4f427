//! Methods for operators: `private/pitwire_…`. Every change of the venue is a journaled command.

mod accounts;
mod instruments;
mod kills;
mod sessions;
mod simulations;

use crate::codec::{Json, RpcError};
use pitwire_model::{AccountId, Command, Event, FlowSetting, KillScope, Label, OrderId};

use crate::Venue;
use crate::call::{Call, Method, MethodResult};

pub const METHODS: &[(&str, Method)] = &[
    ("private/pitwire_status", status),
    ("private/pitwire_flow", flow),
    ("private/pitwire_halt", sessions::halt),
    ("private/pitwire_halt_and_close", sessions::halt_and_close),
    ("private/pitwire_pause", sessions::pause),
    ("private/pitwire_resume", sessions::resume),
    ("private/pitwire_reopen", sessions::reopen),
    ("private/pitwire_volatility_call", sessions::volatility_call),
    ("private/pitwire_extend", sessions::extend),
    ("private/pitwire_closing_price", sessions::closing_price),
    ("private/pitwire_create_instrument", instruments::create),
    ("private/pitwire_change_instrument", instruments::change),
    ("private/pitwire_delete_instrument", instruments::delete),
    ("private/pitwire_get_accounts", accounts::list),
    ("private/pitwire_create_account", accounts::create),
    ("private/pitwire_create_credential", accounts::create_credential),
    ("private/pitwire_get_credentials", accounts::credentials),
    ("private/pitwire_rotate_credential", accounts::rotate_credential),
    ("private/pitwire_remove_credential", accounts::remove_credential),
    ("private/pitwire_change_account", accounts::change),
    ("private/pitwire_delete_account", accounts::delete),
    ("private/pitwire_deposit", accounts::deposit),
    ("private/pitwire_set_credit_line", accounts::set_credit_line),
    ("private/pitwire_get_orders", kills::orders),
    ("private/pitwire_kill", kills::kill),
    ("private/pitwire_lift", kills::lift),
    ("private/pitwire_bust", kills::bust),
    ("private/pitwire_start_simulation", simulations::start),
    ("private/pitwire_stop_simulation", simulations::stop),
    ("private/pitwire_delete_simulation", simulations::delete),
    ("private/pitwire_export_simulation", simulations::export),
    ("private/pitwire_get_simulations", simulations::list),
    ("private/pitwire_get_simulation_file", simulations::file),
];

/// Methods of this venue that every member may call. Those of simulations are refused unless the
/// venue runs them for members.
const OF_MEMBERS: [&str; 12] = [
    "private/pitwire_advance",
    "private/pitwire_explain",
    "private/pitwire_report_trade",
    "private/pitwire_confirm_report",
    "private/pitwire_decline_report",
    "private/pitwire_get_reports",
    "private/pitwire_start_simulation",
    "private/pitwire_stop_simulation",
    "private/pitwire_delete_simulation",
    "private/pitwire_export_simulation",
    "private/pitwire_get_simulations",
    "private/pitwire_get_simulation_file",
];

/// Whether a method is for operators only.
pub fn is_operator_only(method: &str) -> bool {
    method.starts_with("private/pitwire_") && !OF_MEMBERS.contains(&method)
}

impl Call<'_> {
    /// Submits an operator's command.
    ///
    /// # Errors
    ///
    /// Returns the engine's refusal.
    fn command(&mut self, command: Command) -> Result<OrderId, RpcError> {
        let seq = self.submit(command)?;
        match self.venue.events().last() {
            Some(Event::CommandRefused { reason }) => Err(RpcError::from(*reason)),
            _ => Ok(seq),
        }
    }

    fn done(&mut self) -> MethodResult {
        self.json().string("ok");
        Ok(())
    }

    /// Reads `name`: the account with that name.
    fn named_account(&self) -> Result<AccountId, RpcError> {
        let name = self.params.required("name")?;
        let found = self.venue.engine().account_named(&name).map(|account| account.spec.id);
        found.ok_or_else(|| {
            RpcError::invalid("name", format!("no account {name:?}: private/pitwire_get_accounts lists them"))
        })
    }

    /// Reads `reason`, which is required, for the journal.
    fn reason(&self) -> Result<Label, RpcError> {
        let text = self.params.required("reason")?;
        Label::new(&text).ok_or_else(|| RpcError::invalid("reason", "a reason is at most 64 bytes"))
    }

    /// Reads a limit: `None` if absent, `Some(None)` for zero, which removes the limit.
    fn limit(&self, name: &'static str) -> Result<Option<Option<u64>>, RpcError> {
        let Some(value) = self.params.integer(name)? else { return Ok(None) };
        let value = u64::try_from(value).map_err(|_| RpcError::invalid(name, "a limit is zero (none) or more"))?;
        Ok(Some((value > 0).then_some(value)))
    }
}

fn status(call: &mut Call<'_>) -> MethodResult {
    let Call { venue, out, .. } = call;
    let (engine, standing) = (venue.engine(), venue.standing());
    Json::new(out).object(|j| {
        j.key("epoch").uint(engine.epoch().0);
        j.key("sequence").uint(standing.last.0);
        j.key("venue_time").uint(venue.now().as_millis());
        j.key("venue_time_ns").string(&venue.now().to_string());
        j.key("durability").string(if standing.is_durable { "disk" } else { "memory" });
        j.key("live_orders").uint(engine.live_orders() as u64);
        j.key("instruments").uint(engine.markets().len() as u64);
        j.key("accounts").uint(engine.accounts().len() as u64);
        j.key("takes_orders").bool(venue.takes_orders());
        j.key("venue_killed").bool(engine.is_killed(KillScope::Venue));
        j.key("killed_accounts").array(|j| {
            for account in engine.accounts().iter().filter(|account| account.is_killed()) {
                j.string(&account.spec.name);
            }
        });
        j.key("killed_sessions").array(|j| {
            for session in engine.killed_sessions() {
                j.uint(u64::from(session.0));
            }
        });
        j.key("tape_hash").string(&hex::encode(standing.tape_hash));
        j.key("flow").object(|j| write_venue_flow(j, engine.flow(), &**venue));
    });
    Ok(())
}

fn write_flow(j: &mut Json<'_>, flow: FlowSetting) {
    j.key("running").bool(flow.running);
    j.key("rate_percent").uint(u64::from(flow.rate_percent));
}

/// Writes the setting of the whole flow, and those of instruments that differ from the default.
fn write_venue_flow(j: &mut Json<'_>, flow: FlowSetting, venue: &dyn Venue) {
    write_flow(j, flow);
    if venue.instrument_flows().is_empty() {
        return;
    }
    j.key("instruments").array(|j| {
        for (instrument, setting) in venue.instrument_flows() {
            if let Some(market) = venue.engine().market(*instrument) {
                j.object(|j| {
                    j.key("instrument_name").string(&market.spec.name);
                    write_flow(j, *setting);
                });
            }
        }
    });
}

/// Starts, stops or reports the resident order flow. `rate_percent` scales its events per second.
/// With `instrument_name` it does so for one instrument, whose rate is in percent of the whole
/// flow's rate.
fn flow(call: &mut Call<'_>) -> MethodResult {
    if call.params.has("instrument_name") {
        return instrument_flow(call);
    }
    let before = call.venue.engine().flow();
    let wanted = wanted_flow(call, before)?;
    if wanted != before {
        call.command(Command::SetFlow(wanted))?;
    }
    let Call { venue, out, .. } = call;
    Json::new(out).object(|j| write_venue_flow(j, wanted, &**venue));
    Ok(())
}

/// Starts, stops or reports the flow of one instrument. The setting is not journaled: like the
/// options of a start, it ends with the process.
fn instrument_flow(call: &mut Call<'_>) -> MethodResult {
    let instrument = call.instrument_id()?;
    let name = call.spec(instrument)?.name.clone();
    let before = call.venue.instrument_flows().get(&instrument).copied().unwrap_or_default();
    let wanted = wanted_flow(call, before)?;
    if wanted != before {
        call.venue.set_instrument_flow(instrument, wanted);
    }
    call.json().object(|j| {
        j.key("instrument_name").string(&name);
        write_flow(j, wanted);
    });
    Ok(())
}

/// Reads `action` and `rate_percent`. What is absent stays as it was.
fn wanted_flow(call: &Call<'_>, before: FlowSetting) -> Result<FlowSetting, RpcError> {
    let running = match call.params.text("action")?.as_deref() {
        None | Some("" | "status") => before.running,
        Some("start") => true,
        Some("stop") => false,
        Some(_) => return Err(RpcError::invalid("action", "action is start, stop or status")),
    };
    let rate = call.params.integer("rate_percent")?.unwrap_or(i64::from(before.rate_percent));
    let most = i64::from(FlowSetting::MOST_RATE_PERCENT);
    let rate_percent = u32::try_from(rate).ok().filter(|_| (1..=most).contains(&rate));
    let rate_percent = rate_percent.ok_or_else(|| RpcError::invalid("rate_percent", format!("1 to {most}")))?;
    Ok(FlowSetting { running, rate_percent })
}
