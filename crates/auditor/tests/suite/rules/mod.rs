//! Short correct runs after the examples of the rulebook. Each promise is broken in them once and
//! must be found.

mod calls;
mod stage;
mod times;
mod trading;

use pitwire_auditor::{Auditor, Offence, Promise};
use pitwire_model::{
    Allocation, CancelReason, Command, Derivation, Event, Lots, NewOrder, OrderId, Phase, Reference, Reject,
    SessionReason, Side, Ticks, TimeInForce, Tolerance, TradeKind, TradingRules, VenueDay, VenueNanos,
};
use stage::*;

use Promise::{F1, F2, M1, M2, M3, M4, M5, M6, M7, M8, M11, S1};
use Side::{Buy, Sell};

const PLAIN: TradeKind = TradeKind::Continuous;
const VOLATILITY: TradeKind = TradeKind::Call(Phase::VolatilityCall);

fn audit(run: &[Step]) -> Result<(), Offence> {
    let mut auditor = Auditor::new();
    for (_, stamped, events) in run {
        auditor.observe(stamped, events)?;
    }
    auditor.check_balances()
}

/// A fault: its name, its step, how it is planted, the broken promise and words of the finding.
type PlantedFault = (&'static str, &'static str, fn(&mut Vec<Event>), Promise, &'static str);

fn judge(run: fn() -> Stage, planted: &[PlantedFault]) {
    assert_eq!(audit(&run().steps), Ok(()), "an honest run");
    let mut missed = Vec::new();
    for (what, step, plant, promise, words) in planted {
        let mut steps = run().steps;
        let at = steps.iter().position(|(name, ..)| name == step).unwrap_or_else(|| panic!("no step is called {step}"));
        plant(&mut steps[at].2);
        match audit(&steps) {
            Err(offence) if offence.promise == *promise && offence.sentence.contains(words) => {}
            other => missed.push(format!("{what}: {other:?}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Returns the nth trade of a step.
fn nth(events: &mut [Event], number: usize) -> &mut Event {
    let mut trades = events.iter_mut().filter(|event| matches!(event, Event::Trade { .. }));
    trades.nth(number).expect("a trade")
}

fn at_price(event: &mut Event, to: i64) {
    if let Event::Trade { price, .. } | Event::ClosingPriceSet { price, .. } | Event::Breached { price, .. } = event {
        *price = Ticks(to);
    }
}

fn of_kind(event: &mut Event, to: TradeKind) {
    if let Event::Trade { kind, .. } = event {
        *kind = to;
    }
}

fn of_lots(event: &mut Event, to: u64) {
    if let Event::Trade { lots, .. } | Event::Uncrossed { volume: lots, .. } = event {
        *lots = Lots(to);
    }
}

fn for_reason(event: &mut Event, to: CancelReason) {
    if let Event::Cancelled { reason, .. } = event {
        *reason = to;
    }
}

fn drop_cancel(events: &mut Vec<Event>, id: u64) {
    events.retain(|event| !matches!(event, Event::Cancelled { order, .. } if order.0 == id));
}

fn refused(events: &mut [Event], to: Reject) {
    if let Event::Rejected { reason, .. } = &mut events[0] {
        *reason = to;
    }
}
