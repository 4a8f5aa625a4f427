//! A test fixture that runs commands written as text, for tables that a trader can read.
//!
//! A row is `given | when | then | bids | asks`. Given and when are commands, separated by commas:
//!
//! ```text
//! a buy 5@100            order a, 5 lots at 100, good till cancelled; then any of:
//!   day, ioc, fok          another time in force
//!   post, reprice          post-only: refused, or moved, where it would trade
//!   show 2                 an iceberg
//!   by 3, in 7, cod        its account, its session, cancel on disconnect
//!   guarded, group 4       self-match group: its account, or a key; without it none
//!   takes resting          its self-match mode: resting, incoming, both or none
//! a sell 5 market        at any price
//! amend a 7@101          the new total is 7, executed lots included; `show`, `post`, `reprice`
//! replace a 7@101        7 lots open, at the end of the queue
//! cancel a, cancel all, cancel all here, cancel all in 7, cancel list a c
//! end day, halt, close, open, delete, start epoch 2
//! limit lots 9 notional 900 collar 500           of the instrument; in basis points
//! set account 0 executions 3 in 1000000 open 4   its throttle, its most open orders; `takes both`
//! kill a, kill session 7, kill account 2, kill venue, lift ..., close account 2
//! ```
//!
//! `then` lists the results of the commands under `when`: `a 5@100` order a traded as maker; `x 3
//! expires`, `a 5 cancelled`, `a 5 ends` and so on an unfilled remainder and its reason; `a shows
//! 2` an iceberg refill; `a keeps 5` or `a requeues 5` an amend; `2 stopped` a kill; or `refused
//! name`. Bids and asks list the remaining orders in priority order, icebergs as `a 3+7@100`,
//! displayed and hidden. Every row runs on both engines, and the auditor checks it.

use pitwire_auditor::Auditor;
use pitwire_auditor_snapshot::audit_snapshot;
use pitwire_engine::{Engine, EngineImage, OrderImage};
use pitwire_model::{
    AccountId, AccountSettings, Amend, CancelFilter, CancelReason, Command, Epoch, Event, InstrumentLimits, KillScope,
    Label, Lots, MatchGroup, NewOrder, OrderId, OrderType, Phase, PostOnly, Priority, SelfMatch, SessionId, Side,
    Throttle, Ticks, TimeInForce,
};
use pitwire_reference_engine::ReferenceEngine;

use super::world::{NPN_ZAR, Stamper, opening_commands};

/// Whether the reference engine and the auditor check the tables.
const JUDGES_KNOW_THE_TERMS: bool = true;

/// The engine, the reference engine and the auditor.
pub struct EnginePair {
    fast: Engine,
    judges: Option<(ReferenceEngine, Auditor)>,
    stamper: Stamper,
}

impl EnginePair {
    /// Builds the default world. Each member has the default balance times `wealth` percent.
    pub fn new(most_resting: u32, wealth: i128) -> Self {
        let judges = JUDGES_KNOW_THE_TERMS.then(|| (ReferenceEngine::new(), Auditor::new()));
        let mut engines = EnginePair { fast: Engine::new(), judges, stamper: Stamper::default() };
        for command in opening_commands(most_resting, wealth) {
            engines.apply(command);
        }
        engines
    }

    pub fn apply(&mut self, command: Command) -> Vec<Event> {
        let stamped = self.stamper.stamp(command);
        let (mut events, mut slow) = (Vec::new(), Vec::new());
        self.fast.apply(&stamped, &mut events);
        if let Some((reference, auditor)) = &mut self.judges {
            reference.apply(&stamped, &mut slow);
            assert_eq!(events, slow, "the engines differ at {:?}", stamped.command);
            if let Err(offence) = auditor.observe(&stamped, &events) {
                panic!("{offence}\n{:?}\n{events:#?}", stamped.command);
            }
        }
        events
    }

    /// Advances venue time.
    pub fn wait(&mut self, nanos: u64) {
        self.stamper.at.0 += nanos;
    }

    pub fn now(&self) -> u64 {
        self.stamper.at.0
    }

    pub fn image(&self) -> EngineImage {
        let image = self.fast.image();
        if let Some((reference, auditor)) = &self.judges {
            assert_eq!(image, reference.image(), "the engines' states differ");
            let reported = audit_snapshot(&image, self.stamper.seq, self.stamper.at);
            auditor.compare(&reported).expect("the auditor saw the same");
        }
        let again = Engine::from_image(image.clone()).expect("its own image");
        assert_eq!(again.image(), image, "what an image keeps");
        image
    }

    pub fn engine(&self) -> &Engine {
        &self.fast
    }

    /// Runs commands and returns their results, both as text.
    pub fn run(&mut self, commands: &str) -> String {
        let mut reported = Vec::new();
        for words in commands.split(',').map(str::trim).filter(|words| !words.is_empty() && *words != "-") {
            reported.extend(self.apply(command(words)).iter().filter_map(describe));
        }
        if reported.is_empty() { "-".to_owned() } else { reported.join(", ") }
    }

    fn side(&self, side: Side) -> String {
        let image = self.image();
        let orders = image.markets[NPN_ZAR.0 as usize].orders.iter().filter(|order| order.side == side);
        let reported: Vec<String> =
            orders.map(|order| format!("{} {}@{}", letter(order.id), size(order), order.price())).collect();
        if reported.is_empty() { "-".to_owned() } else { reported.join(", ") }
    }
}

/// Formats the open lots of an order. An iceberg is displayed+hidden.
fn size(order: &OrderImage) -> String {
    match order.open - order.shown {
        0 => order.open.to_string(),
        hidden => format!("{}+{hidden}", order.shown),
    }
}

/// Runs each row on a new fixture.
pub fn check(table: &str) {
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [given, when, then, bids, asks] = cells[..] else { panic!("a row of {} cells: {row}", cells.len()) };
        let mut engines = EnginePair::new(1000, 1_000_000);
        engines.run(given);
        let got = (engines.run(when), engines.side(Side::Buy), engines.side(Side::Sell));
        assert_eq!((got.0.as_str(), got.1.as_str(), got.2.as_str()), (then, bids, asks), "{row}");
    }
}

fn letter(id: OrderId) -> char {
    char::from(b'a' + u8::try_from(id.0 - 1).expect("orders are named by letters"))
}

fn order_id(word: &str) -> OrderId {
    OrderId(u64::from(word.as_bytes()[0] - b'a') + 1)
}

fn size_at(word: &str) -> (Lots, Ticks) {
    let (lots, price) = word.split_once('@').unwrap_or_else(|| panic!("{word} is not lots@price"));
    (Lots(lots.parse().expect("lots")), Ticks(price.parse().expect("a price")))
}

/// Returns the number after a word, if the word is present.
fn after<T: std::str::FromStr>(words: &[&str], word: &str) -> Option<T> {
    let at = words.iter().position(|each| *each == word)?;
    words.get(at + 1).and_then(|number| number.parse().ok())
}

fn scope(words: &[&str]) -> KillScope {
    match words[..] {
        ["venue"] => KillScope::Venue,
        ["account", account] => KillScope::Account(AccountId(account.parse().expect("an account"))),
        ["session", session] => KillScope::Session(SessionId(session.parse().expect("a session"))),
        [order] => KillScope::Order(order_id(order)),
        _ => panic!("not a scope of a kill or lift: {words:?}"),
    }
}

fn limits(words: &[&str]) -> Command {
    let limits = InstrumentLimits {
        max_lots: after(words, "lots").map(Lots),
        max_notional_units: after(words, "notional"),
        collar_bps: after(words, "collar"),
    };
    Command::SetInstrumentLimits { instrument: NPN_ZAR, limits }
}

fn post_only(words: &[&str]) -> PostOnly {
    match () {
        () if words.contains(&"post") => PostOnly::Reject,
        () if words.contains(&"reprice") => PostOnly::Reprice,
        () => PostOnly::No,
    }
}

fn cancel_all(account: AccountId, which: CancelFilter) -> Command {
    Command::CancelAll { account, which, reason: CancelReason::Requested }
}

fn command(text: &str) -> Command {
    let words: Vec<&str> = text.split_whitespace().collect();
    let account = AccountId(after(&words, "by").unwrap_or(0));
    let phase = |phase| Command::SetPhase { instrument: NPN_ZAR, phase };
    match words[..] {
        ["halt"] => phase(Phase::Halted),
        ["close"] => phase(Phase::Closed),
        ["open"] => phase(Phase::Continuous),
        ["end", "day"] => Command::EndDay,
        ["start", "epoch", epoch] => Command::StartEpoch { epoch: Epoch(epoch.parse().expect("an epoch")) },
        ["delete"] => Command::DeleteInstrument { instrument: NPN_ZAR },
        ["close", "account", account] => {
            Command::CloseAccount { account: AccountId(account.parse().expect("an account")) }
        }
        ["limit", ref rest @ ..] => limits(rest),
        ["kill", ref rest @ ..] => Command::Kill { scope: scope(rest), reason: Label::NONE },
        ["lift", ref rest @ ..] => Command::Lift { scope: scope(rest) },
        ["set", "account", of, ref rest @ ..] => {
            let throttle = after(rest, "executions")
                .map(|executions| Throttle { executions, window_ns: after(rest, "in").expect("a window") });
            let settings = AccountSettings {
                self_match: self_match(rest).unwrap_or_default(),
                max_open_orders: after(rest, "open"),
                throttle,
            };
            Command::SetAccount { account: AccountId(of.parse().expect("an account")), settings }
        }
        ["cancel", "all", "in", session, ..] => {
            cancel_all(account, CancelFilter::Session(SessionId(session.parse().expect("a session"))))
        }
        ["cancel", "all", "here", ..] => cancel_all(account, CancelFilter::Instrument(NPN_ZAR)),
        ["cancel", "all", ..] => cancel_all(account, CancelFilter::All),
        ["cancel", "list", ref rest @ ..] => {
            let listed = rest.iter().take_while(|word| **word != "by").map(|word| order_id(word));
            cancel_all(account, CancelFilter::Listed(listed.collect()))
        }
        ["cancel", order, ..] => Command::Cancel { account, order: order_id(order) },
        [kind @ ("amend" | "replace"), order, size, ref rest @ ..] => {
            let (lots, price) = size_at(size);
            let priority = if kind == "amend" { Priority::KeepWhenReduced } else { Priority::AlwaysLose };
            let (display, post_only) = (after(rest, "show").map(Lots), post_only(rest));
            Command::Amend(Amend {
                account,
                order: order_id(order),
                price,
                lots,
                priority,
                display,
                post_only,
                ..Amend::PLAIN
            })
        }
        [order, side @ ("buy" | "sell"), size, ref rest @ ..] => {
            Command::Enter(new_order(order_id(order), account, side, size, rest))
        }
        _ => panic!("unknown command `{text}`"),
    }
}

/// Returns the mode of `takes resting`, `takes incoming`, `takes both` or `takes none`.
fn self_match(words: &[&str]) -> Option<SelfMatch> {
    match after::<String>(words, "takes")?.as_str() {
        "resting" => Some(SelfMatch::CancelResting),
        "incoming" => Some(SelfMatch::CancelIncoming),
        "both" => Some(SelfMatch::CancelBoth),
        _ => Some(SelfMatch::Allow),
    }
}

fn new_order(id: OrderId, account: AccountId, side: &str, size: &str, rest: &[&str]) -> NewOrder {
    let (order_type, lots) = match (size.parse(), rest.first()) {
        (Ok(lots), Some(&"market")) => (OrderType::Market, Lots(lots)),
        _ => {
            let (lots, price) = size_at(size);
            (OrderType::Limit { price }, lots)
        }
    };
    let tif = match () {
        () if rest.contains(&"day") => TimeInForce::Day,
        () if rest.contains(&"ioc") => TimeInForce::ImmediateOrCancel,
        () if rest.contains(&"fok") => TimeInForce::FillOrKill,
        // An order without a price cannot rest, so it is a day order.
        () if order_type == OrderType::Market => TimeInForce::Day,
        () => TimeInForce::GoodTillCancel,
    };
    let match_group = match after(rest, "group") {
        Some(key) => MatchGroup::Key(key),
        None if rest.contains(&"guarded") => MatchGroup::Account,
        None => MatchGroup::Order,
    };
    NewOrder {
        id,
        account,
        instrument: NPN_ZAR,
        side: if side == "buy" { Side::Buy } else { Side::Sell },
        order_type,
        lots,
        tif,
        display: after(rest, "show").map(Lots),
        post_only: post_only(rest),
        self_match: self_match(rest),
        match_group,
        session: SessionId(after(rest, "in").unwrap_or(0)),
        cancel_on_disconnect: rest.contains(&"cod"),
        ..NewOrder::PLAIN
    }
}

fn describe(event: &Event) -> Option<String> {
    match event {
        Event::Trade { maker, price, lots, .. } => Some(format!("{} {lots}@{price}", letter(*maker))),
        Event::Cancelled { order, open, reason, .. } => {
            let how = match reason {
                CancelReason::Requested => "cancelled",
                CancelReason::ImmediateRemainder => "expires",
                CancelReason::DayEnded => "ends",
                CancelReason::FillOrKill => "killed",
                CancelReason::SelfMatch => "meets itself",
                CancelReason::Disconnected => "disconnected",
                CancelReason::Killed => "stopped",
                CancelReason::InstrumentDeleted | CancelReason::AccountClosed => "closed",
                _ => "expires by the rulebook",
            };
            Some(format!("{} {open} {how}", letter(*order)))
        }
        Event::Amended { order, open, kept_priority, .. } => {
            Some(format!("{} {} {open}", letter(*order), if *kept_priority { "keeps" } else { "requeues" }))
        }
        Event::Refreshed { order, shown, .. } => Some(format!("{} shows {shown}", letter(*order))),
        Event::ThrottleTripped { account } => Some(format!("account {account} trips")),
        Event::Killed { cancelled, .. } => Some(format!("{cancelled} stopped")),
        Event::Rejected { reason, .. }
        | Event::AmendRefused { reason, .. }
        | Event::CancelRefused { reason, .. }
        | Event::CommandRefused { reason } => Some(format!("refused {}", reason.name())),
        _ => None,
    }
}
