//! A correct run, written by hand, and faults in it that the auditor must find.

use crate::planted::{PlantedFault, expect_offences};
use crate::script;
use crate::script::{WindowRun, run, snapshot};
use pitwire_auditor::{Auditor, Offence};
use pitwire_model::{
    CancelReason, Command, Event, Lots, OrderId, Phase, Reject, Seq, Ticks, TimeInForce, TradeSeq, VenueNanos,
};

fn audit(run: &WindowRun) -> Result<Auditor, Offence> {
    let mut auditor = Auditor::new();
    for (stamped, events) in run {
        auditor.observe(stamped, events)?;
    }
    auditor.check_balances()?;
    Ok(auditor)
}

/// Returns the events of a named command of the script.
fn events<'a>(run: &'a mut WindowRun, name: &str) -> &'a mut Vec<Event> {
    let at = script::step(name);
    &mut run[at].1
}

#[test]
fn correct_run_has_no_offence() {
    let auditor = audit(&run()).expect("nothing is wrong with it");
    assert_eq!(auditor.live_orders(), 1);
    auditor.compare(&snapshot()).expect("and this is where it ends");
}

#[test]
fn audit_resumes_from_a_snapshot() {
    let mut resumed = Auditor::resume(snapshot()).expect("an honest snapshot");
    let tail = script::tail();
    for (stamped, events) in &tail {
        resumed.observe(stamped, events).expect("an honest tail");
    }
    resumed.check_balances().expect("sums begin at the snapshot");

    let mut lost = tail;
    lost[0].0.seq = Seq(900);
    let offence = Auditor::resume(snapshot()).expect("honest").observe(&lost[0].0, &lost[0].1).expect_err("a hole");
    assert!(offence.sentence.contains("follows command"), "{offence}");
}

#[test]
fn wrong_snapshot_is_an_offence() {
    let changes: [fn(&mut pitwire_auditor::AuditSnapshot); 7] = [
        |reported| reported.accounts[1].reserved[1] -= 1,
        |reported| reported.markets[0].change_id += 1,
        |reported| reported.markets[0].orders.clear(),
        |reported| reported.markets[0].orders[0].open = Lots(1),
        |reported| reported.accounts[1].totals[0] += 1,
        |reported| reported.markets[0].phase = Phase::Halted,
        |reported| reported.seq = Seq(3),
    ];
    let auditor = audit(&run()).expect("an honest run");
    for (at, change) in changes.into_iter().enumerate() {
        let mut reported = snapshot();
        change(&mut reported);
        assert!(auditor.compare(&reported).is_err(), "change {at}");
    }
}

#[test]
fn every_planted_offence_is_found() {
    let table: &[PlantedFault<WindowRun>] = &[
        ("a command is missing", |run| _ = run.remove(3), "follows command"),
        ("time goes back", |run| run[5].0.at = VenueNanos(1), "venue time went back"),
        ("an entry unanswered", |run| events(run, "sweep").clear(), "neither accepted nor refused"),
        (
            "an entry answered twice",
            |run| {
                let twice = events(run, "refused")[0].clone();
                events(run, "refused").push(twice);
            },
            "neither accepted nor refused",
        ),
        (
            "accepted as a larger order",
            |run| {
                if let Event::Accepted { lots, .. } = &mut events(run, "sweep")[0] {
                    *lots = Lots(80);
                }
            },
            "accepted with other terms",
        ),
        (
            "refused for a reason that is not so",
            |run| {
                if let Event::Rejected { reason, .. } = &mut events(run, "refused")[0] {
                    *reason = Reject::BookFull;
                }
            },
            "first broken rule is quantity_out_of_range",
        ),
        (
            "refused though nothing forbids it",
            |run| {
                let Command::Enter(new) = run[script::step("sweep")].0.command.clone() else { return };
                *events(run, "sweep") =
                    vec![Event::Rejected { order: new.id, account: new.account, reason: Reject::NotOpen }];
            },
            "refused as not_open, but that reason does not apply",
        ),
        (
            "refused for want of money that is there",
            |run| {
                let Command::Enter(new) = run[script::step("sweep")].0.command.clone() else { return };
                *events(run, "sweep") =
                    vec![Event::Rejected { order: new.id, account: new.account, reason: Reject::NotEnoughFunds }];
            },
            "was refused for lack of 816 of currency 1, but has it",
        ),
        (
            "trading while halted",
            |run| {
                let (instrument, phase) = (pitwire_model::InstrumentId(0), Phase::Halted);
                let at = script::step("refused");
                run[at].0.command = Command::SetPhase { instrument, phase };
                run[at].1 = vec![Event::PhaseChanged { instrument, phase }];
            },
            "must be refused: not_open",
        ),
        ("a fill at the taker's price", |run| trade(run, 1, |trade| trade.price(Ticks(102))), "its maker rests at 100"),
        (
            "a fill worse than the limit",
            |run| {
                let Command::Enter(new) = &mut run[script::step("sweep")].0.command else { return };
                new.order_type = pitwire_model::OrderType::Limit { price: Ticks(100) };
                if let Event::Accepted { order_type, .. } = &mut events(run, "sweep")[0] {
                    *order_type = pitwire_model::OrderType::Limit { price: Ticks(100) };
                }
            },
            "worse than the limit of order",
        ),
        (
            "the younger order first",
            |run| trade(run, 1, |trade| trade.maker(OrderId(12))),
            "passes over an older order",
        ),
        (
            "a worse price first",
            |run| {
                trade(run, 1, |trade| trade.maker(OrderId(13)));
                trade(run, 1, |trade| trade.price(Ticks(101)));
            },
            "passes over a better price",
        ),
        ("lots from nowhere", |run| trade(run, 1, |trade| trade.maker_open(Lots(1))), "does not leave"),
        ("fewer lots than there were", |run| trade(run, 1, |trade| trade.lots(Lots(2))), "were available"),
        (
            "a trade number skipped",
            |run| trade(run, 2, |trade| trade.trade_seq(TradeSeq(9))),
            "trade 9 follows trade 1",
        ),
        (
            "a wrong level published",
            |run| {
                if let Event::Level { lots, .. } = &mut events(run, "sweep")[3] {
                    *lots = Lots(7);
                }
            },
            "was published as 7 and shows 0",
        ),
        ("a level not published", |run| _ = events(run, "sweep").remove(3), "changed and was not published"),
        (
            "a level published that did not change",
            |run| {
                let level = events(run, "sweep")[3].clone();
                events(run, "sweep").insert(4, level);
            },
            "was published without a change",
        ),
        ("no change number", |run| _ = events(run, "sweep").pop(), "without a change number"),
        (
            "a change number skipped",
            |run| {
                if let Some(Event::BookChanged { change_id, .. }) = events(run, "sweep").last_mut() {
                    *change_id += 1;
                }
            },
            "follows change",
        ),
        (
            "an order lost after a partial fill",
            |run| {
                let events = events(run, "ioc");
                events.retain(|event| !matches!(event, Event::Cancelled { .. }));
            },
            "neither traded, rested nor expired",
        ),
        (
            "an immediate order rests",
            |run| {
                let events = events(run, "ioc");
                let Some(at) = events.iter().position(|event| matches!(event, Event::Cancelled { .. })) else { return };
                events[at] = script::level(pitwire_model::Side::Buy, 101, 2);
            },
            "may not rest",
        ),
        (
            "a resting order expires",
            |run| {
                let Command::Enter(new) = &mut run[script::step("ioc")].0.command else { return };
                new.tif = TimeInForce::GoodTillCancel;
                if let Event::Accepted { tif, .. } = &mut events(run, "ioc")[0] {
                    *tif = TimeInForce::GoodTillCancel;
                }
            },
            "should rest or be filled",
        ),
        (
            "a book left crossed",
            |run| {
                let events = events(run, "sweep");
                let end = events.len() - 1;
                events.drain(1..end);
                events.insert(1, script::level(pitwire_model::Side::Buy, 102, 8));
            },
            "left with a bid of 102 and an offer of 100",
        ),
        (
            "an immediate order gives up early",
            |run| {
                let Command::Enter(new) = &mut run[script::step("sweep")].0.command else { return };
                new.tif = TimeInForce::ImmediateOrCancel;
                let (order, account) = (new.id, new.account);
                let events = events(run, "sweep");
                if let Event::Accepted { tif, .. } = &mut events[0] {
                    *tif = TimeInForce::ImmediateOrCancel;
                }
                let end = events.len() - 1;
                events.drain(1..end);
                events.insert(1, script::cancelled(order, account, 102, 8, CancelReason::ImmediateRemainder));
            },
            "expired while it could still trade",
        ),
        (
            "a larger order keeps its place",
            |run| {
                if let Event::Amended { kept_priority, .. } = &mut events(run, "grow")[0] {
                    *kept_priority = true;
                }
            },
            "an amend was published as",
        ),
        ("an amend unanswered", |run| events(run, "grow").clear(), "neither done nor refused"),
        (
            "another's order cancelled",
            |run| {
                if let Command::Cancel { account, .. } = &mut run[script::step("cancel")].0.command {
                    account.0 = 1;
                }
            },
            "must be refused (not_owner)",
        ),
        ("a cancel that cancels nothing", |run| events(run, "cancel").clear(), "must be cancelled, but is still live"),
        (
            "an order cancelled without a cause",
            |run| {
                let stolen = events(run, "cancel").clone();
                let at = script::step("cancel");
                run[at].0.command = Command::CloseWindow;
                run[at].1 = stolen;
            },
            "does not answer",
        ),
        (
            "a day order that stays",
            |run| {
                let events = events(run, "end day");
                events.drain(..events.len() - 1);
            },
            "order 20 must be cancelled, but is still live",
        ),
        (
            "spending what one has not",
            |run| {
                let poor = script::step("deposit");
                if let Command::Deposit { units, .. } = &mut run[poor].0.command {
                    *units = 700;
                }
                if let Event::Deposited { units, .. } = &mut run[poor].1[0] {
                    *units = 700;
                }
            },
            "spends 816 of currency 1, but had 700 free",
        ),
        (
            "a deposit of more than was paid in",
            |run| {
                if let Event::Deposited { units, .. } = &mut events(run, "deposit")[0] {
                    *units += 1;
                }
            },
            "does not answer",
        ),
        ("a window that is not closed", |run| events(run, "window").clear(), "no event answers"),
    ];
    expect_offences(run, audit, table);
}

/// Changes the nth trade of the sweep.
fn trade(run: &mut WindowRun, nth: usize, change: fn(&mut TradeOf<'_>)) {
    change(&mut TradeOf(&mut events(run, "sweep")[nth]));
}

struct TradeOf<'a>(&'a mut Event);

macro_rules! setters {
    ($($field:ident: $type:ty),*) => {
        impl TradeOf<'_> {
            $(fn $field(&mut self, value: $type) {
                let Event::Trade { $field, .. } = &mut *self.0 else { panic!("{:?} is no trade", self.0) };
                *$field = value;
            })*
        }
    };
}

setters!(price: Ticks, maker: OrderId, maker_open: Lots, lots: Lots, trade_seq: TradeSeq);
