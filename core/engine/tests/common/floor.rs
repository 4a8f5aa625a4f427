//! A trading floor in words, for tables that a trader can read.
//!
//! A row is `given | when | then | bids | asks`. Given and when are commands, separated by commas:
//!
//! ```text
//! a buy 5@100            order a, 5 lots at 100, until cancelled; `day` or `ioc` may follow, `by 3` names an account
//! a sell 5 market        at any price
//! amend a 7@101          the new total is 7, what has traded included
//! replace a 7@101        7 are to be open, at the end of the queue
//! cancel a, cancel all, end day, halt, close, open
//! ```
//!
//! Then is what the commands under `when` led to: `a 5@100` order a traded as maker; `x 3 expires`, `a 5 cancelled`,
//! `a 5 ends` what left unfilled, and why; `a keeps 5` or `a requeues 5` an amend; or `refused name`. Bids and asks
//! list the orders left, first to trade first. Every row runs on both engines, under the auditor's eyes.

use pitwire_audit::Auditor;
use pitwire_engine::reference::ReferenceEngine;
use pitwire_engine::{Engine, EngineImage};
use pitwire_model::{
    AccountId, Amend, CancelFilter, CancelReason, Command, Event, Label, Lots, NewOrder, OrderId, OrderType, Phase,
    Priority, Side, Ticks, TimeInForce,
};

use super::world::{NPN_ZAR, Stamper, opening, opening_commands};

/// Both engines, which have to agree, and the auditor, who has to approve.
pub struct Floor {
    fast: Engine,
    slow: ReferenceEngine,
    auditor: Auditor,
    stamper: Stamper,
}

impl Floor {
    /// Every member has what the world gives it, in percent of `wealth`.
    pub fn new(most_resting: u32, wealth: i128) -> Self {
        let mut floor = Floor {
            fast: Engine::new(),
            slow: ReferenceEngine::new(),
            auditor: Auditor::new(),
            stamper: Stamper::default(),
        };
        for command in opening_commands(most_resting, wealth) {
            floor.apply(command);
        }
        floor
    }

    pub fn apply(&mut self, command: Command) -> Vec<Event> {
        let stamped = self.stamper.stamp(command);
        let (mut events, mut slow) = (Vec::new(), Vec::new());
        self.fast.apply(&stamped, &mut events);
        self.slow.apply(&stamped, &mut slow);
        assert_eq!(events, slow, "the engines differ at {:?}", stamped.command);
        if let Err(offence) = self.auditor.observe(&stamped, &events) {
            panic!("{offence}\n{:?}\n{events:#?}", stamped.command);
        }
        events
    }

    pub fn image(&self) -> EngineImage {
        let (image, slow) = (self.fast.image(), self.slow.image());
        assert_eq!(image, slow, "the engines' states differ");
        let told = opening(image.clone(), self.stamper.seq, self.stamper.at);
        self.auditor.compare(&told).expect("the auditor saw the same");
        image
    }

    pub fn engine(&self) -> &Engine {
        &self.fast
    }

    /// Runs commands in words; returns what they led to, in words.
    pub fn run(&mut self, commands: &str) -> String {
        let mut told = Vec::new();
        for words in commands.split(',').map(str::trim).filter(|words| !words.is_empty() && *words != "-") {
            told.extend(self.apply(command(words)).iter().filter_map(tell));
        }
        if told.is_empty() { "-".to_owned() } else { told.join(", ") }
    }

    fn side(&self, side: Side) -> String {
        let image = self.image();
        let orders = image.markets[NPN_ZAR.0 as usize].orders.iter().filter(|order| order.side == side);
        let told: Vec<String> =
            orders.map(|order| format!("{} {}@{}", letter(order.id), order.open, order.price)).collect();
        if told.is_empty() { "-".to_owned() } else { told.join(", ") }
    }
}

/// Runs each row on a floor of its own.
pub fn check(table: &str) {
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [given, when, then, bids, asks] = cells[..] else { panic!("a row of {} cells: {row}", cells.len()) };
        let mut floor = Floor::new(1000, 1_000_000);
        floor.run(given);
        let got = (floor.run(when), floor.side(Side::Buy), floor.side(Side::Sell));
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

fn command(text: &str) -> Command {
    let words: Vec<&str> = text.split_whitespace().collect();
    let account = words.iter().position(|word| *word == "by").map_or(0, |at| words[at + 1].parse().expect("account"));
    let account = AccountId(account);
    let phase = |phase| Command::SetPhase { instrument: NPN_ZAR, phase };
    match words[..] {
        ["halt"] => phase(Phase::Halted),
        ["close"] => phase(Phase::Closed),
        ["open"] => phase(Phase::Continuous),
        ["end", "day"] => Command::EndDay,
        ["cancel", "all", ..] => {
            Command::CancelAll { account, which: CancelFilter::All, reason: CancelReason::Requested }
        }
        ["cancel", order, ..] => Command::Cancel { account, order: order_id(order) },
        [kind @ ("amend" | "replace"), order, size, ..] => {
            let (lots, price) = size_at(size);
            let priority = if kind == "amend" { Priority::KeepWhenReduced } else { Priority::AlwaysLose };
            Command::Amend(Amend { account, order: order_id(order), price, lots, priority, ..Amend::PLAIN })
        }
        [order, side @ ("buy" | "sell"), size, ref rest @ ..] => {
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
                () => TimeInForce::GoodTillCancel,
            };
            Command::Enter(NewOrder {
                id: order_id(order),
                account,
                instrument: NPN_ZAR,
                side: if side == "buy" { Side::Buy } else { Side::Sell },
                order_type,
                lots,
                tif,
                label: Label::default(),
                ..NewOrder::PLAIN
            })
        }
        _ => panic!("nobody on this floor understands `{text}`"),
    }
}

fn tell(event: &Event) -> Option<String> {
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
            };
            Some(format!("{} {open} {how}", letter(*order)))
        }
        Event::Amended { order, open, kept_priority, .. } => {
            Some(format!("{} {} {open}", letter(*order), if *kept_priority { "keeps" } else { "requeues" }))
        }
        Event::Rejected { reason, .. }
        | Event::AmendRefused { reason, .. }
        | Event::CancelRefused { reason, .. }
        | Event::CommandRefused { reason } => Some(format!("refused {}", reason.name())),
        _ => None,
    }
}
