//! A correct run that uses every order term and operator command, and a planted fault for each.

use crate::correct_run;
use crate::correct_run::{HOUSE, MARKET, MEMBER, Run, step};
use crate::planted::{PlantedFault, expect_offences};
use pitwire_auditor::{Auditor, Offence};
use pitwire_model::{
    Bust, CancelReason, Command, Event, InstrumentId, Lots, NewOrder, OrderId, OrderType, Phase, Reject, Side, Ticks,
    TradeSeq,
};

fn audit(run: &Run) -> Result<Auditor, Offence> {
    let mut auditor = Auditor::new();
    for (_, stamped, events) in run {
        auditor.observe(stamped, events)?;
    }
    auditor.check_balances()?;
    Ok(auditor)
}

#[test]
fn correct_run_with_all_order_terms_has_no_offence() {
    assert_eq!(audit(&correct_run::run()).map(|auditor| auditor.live_orders()), Ok(0));
}

fn events<'a>(run: &'a mut Run, name: &str) -> &'a mut Vec<Event> {
    let at = step(run, name);
    &mut run[at].2
}

fn entered<'a>(run: &'a mut Run, name: &str) -> &'a mut NewOrder {
    let at = step(run, name);
    match &mut run[at].1.command {
        Command::Enter(new) => new,
        other => panic!("{other:?} enters nothing"),
    }
}

fn rejected(run: &mut Run, name: &str, reason: Reject) {
    let new = entered(run, name).clone();
    *events(run, name) = vec![Event::Rejected { order: new.id, account: new.account, reason }];
}

/// Replaces the refusal of an order by events in which it is accepted and rests.
fn accepted(run: &mut Run, name: &str, level: u64, change: u64) {
    let new = entered(run, name).clone();
    let price = new.order_type.limit_price().unwrap_or_default();
    *events(run, name) =
        vec![correct_run::accepted(&new), correct_run::level(new.side, price.0, level), correct_run::changed(change)];
}

#[test]
fn every_planted_offence_against_terms_is_found() {
    let table: &[PlantedFault<Run>] = &[
        // Icebergs.
        (
            "an iceberg shows itself whole",
            |run| events(run, "iceberg")[1] = correct_run::level(Side::Sell, 100, 10),
            "was published as 10 and shows 3",
        ),
        ("an iceberg is not refreshed", |run| _ = events(run, "sweep").remove(2), "and was not refilled"),
        ("a refresh comes late", |run| events(run, "sweep").swap(2, 3), "and was not refilled"),
        (
            "an iceberg shows more than its peak",
            |run| {
                if let Event::Refreshed { shown, .. } = &mut events(run, "sweep")[2] {
                    *shown = Lots(4);
                }
            },
            "was refilled as",
        ),
        (
            "a refresh that nothing called for",
            |run| {
                let refreshed = events(run, "sweep")[2].clone();
                events(run, "sweep").insert(4, refreshed);
            },
            "was refilled without need",
        ),
        (
            "hidden lots trade before shown ones behind them",
            |run| {
                let events = events(run, "sweep");
                *events = vec![events[0].clone(), correct_run::traded(1, 100, 6, ('i', HOUSE, 4), ('s', MEMBER, 0))];
            },
            "trade 1 of 6, but 3 were available",
        ),
        (
            "a reduction takes the shown part first",
            |run| events(run, "reduce")[1] = correct_run::level(Side::Sell, 100, 1),
            "was published as 1 and shows 2",
        ),
        (
            "a display larger than the order",
            |run| entered(run, "iceberg").display = Some(Lots(11)),
            "accepted with other terms than entered",
        ),
        (
            "an iceberg of nothing",
            |run| {
                entered(run, "iceberg").display = Some(Lots(0));
                if let Event::Accepted { display, .. } = &mut events(run, "iceberg")[0] {
                    *display = Some(Lots(0));
                }
            },
            "must be refused: display_out_of_range",
        ),
        // Fill or kill.
        (
            "a fill-or-kill order fills in part",
            |run| {
                let (accepted, change) = (events(run, "fok")[0].clone(), 5);
                *events(run, "fok") = vec![
                    accepted,
                    correct_run::traded(4, 100, 2, ('i', HOUSE, 2), ('f', MEMBER, 3)),
                    correct_run::refreshed('i', 100, 2),
                    correct_run::traded(5, 100, 2, ('i', HOUSE, 0), ('f', MEMBER, 1)),
                    correct_run::level(Side::Sell, 100, 0),
                    correct_run::cancelled('f', MEMBER, Side::Buy, 100, 1, CancelReason::FillOrKill),
                    correct_run::changed(change),
                ];
            },
            "finds 4 of 5 and must be cancelled",
        ),
        (
            "a fill-or-kill order that fits is killed",
            |run| {
                let accepted = events(run, "fok whole")[0].clone();
                let killed = correct_run::cancelled('g', MEMBER, Side::Buy, 100, 4, CancelReason::FillOrKill);
                *events(run, "fok whole") = vec![accepted, killed];
            },
            "expired while it could still trade",
        ),
        (
            "a killed order touches the book",
            |run| events(run, "fok").push(correct_run::changed(5)),
            "got change number 5 without a change",
        ),
        // Post-only.
        (
            "a post-only order is not moved",
            |run| {
                if let Event::Accepted { order_type, .. } = &mut events(run, "reprice")[0] {
                    *order_type = OrderType::Limit { price: Ticks(107) };
                }
            },
            "accepted with other terms than entered",
        ),
        ("a post-only order that would trade", |run| accepted(run, "post", 1, 8), "refused: post_only_would_trade"),
        (
            "a post-only order refused though it would not trade",
            |run| rejected(run, "reprice", Reject::PostOnlyWouldTrade),
            "but that reason does not apply",
        ),
        // Self-match prevention.
        (
            "a member trades with itself",
            |run| {
                let accepted = events(run, "self")[0].clone();
                let trade = correct_run::sold(6, 104, 1, ('r', MEMBER, 1), ('t', MEMBER, 0));
                *events(run, "self") =
                    vec![accepted, trade, correct_run::level(Side::Buy, 104, 1), correct_run::changed(8)];
            },
            "of the same member",
        ),
        (
            "an incoming order goes on after meeting its own",
            |run| {
                let new = entered(run, "self incoming").clone();
                *events(run, "self incoming") =
                    vec![correct_run::accepted(&new), correct_run::level(Side::Buy, 104, 3), correct_run::changed(9)];
            },
            "may not rest (SelfMatch)",
        ),
        (
            "cancelled as having met its own, and it had not",
            |run| {
                let (accepted, change) = (events(run, "plain")[0].clone(), 2);
                let met = correct_run::cancelled('i', HOUSE, Side::Sell, 100, 10, CancelReason::SelfMatch);
                *events(run, "plain") =
                    vec![accepted, met, correct_run::level(Side::Sell, 100, 0), correct_run::changed(change)];
            },
            "changed and was not published",
        ),
        (
            "met its own, with another reason",
            |run| {
                if let Event::Cancelled { reason, .. } = &mut events(run, "self incoming")[1] {
                    *reason = CancelReason::ImmediateRemainder;
                }
            },
            "but the reason is SelfMatch",
        ),
        (
            "the wrong mode",
            |run| entered(run, "self").self_match = Some(pitwire_model::SelfMatch::Allow),
            "it must trade 1 at 104",
        ),
        // The throttle.
        ("a throttle that does not trip", |run| _ = events(run, "trip").remove(2), "and was not stopped"),
        ("a throttle that trips too late", |run| events(run, "trip").swap(2, 3), "and was not stopped"),
        (
            "a throttle that trips twice",
            |run| {
                let tripped = events(run, "trip")[2].clone();
                events(run, "trip").insert(3, tripped);
            },
            "too early",
        ),
        ("a throttled account enters", |run| accepted(run, "throttled", 1, 10), "refused: execution_throttle"),
        // Busts.
        ("a bust at another price", |run| bust(run, |bust| bust.price = Ticks(104)), "was busted as"),
        ("a bust of another's trade", |run| bust(run, |bust| bust.seller = MEMBER), "was busted as"),
        ("a bust of no trade", |run| bust(run, |bust| bust.trade_seq = TradeSeq(8)), "must be refused: unknown_trade"),
        (
            "a trade busted twice",
            |run| {
                let at = step(run, "bust");
                run[at + 1].1.command = run[at].1.command.clone();
                run[at + 1].2 = run[at].2.clone();
            },
            "must be refused: already_busted",
        ),
        ("a bust unanswered", |run| events(run, "bust").clear(), "no event answers"),
        // Kills.
        (
            "a kill that leaves an order",
            |run| *events(run, "kill") = vec![correct_run::killed(0)],
            "must be cancelled, but is still live",
        ),
        (
            "a kill that counts wrong",
            |run| events(run, "kill")[3] = correct_run::killed(2),
            "cancelled 1 orders, but reports 2",
        ),
        ("a killed session enters again", |run| accepted(run, "killed", 1, 12), "must be refused: killed"),
        (
            "refused as killed without a kill",
            |run| rejected(run, "after epoch", Reject::Killed),
            "refused as killed, but that reason does not apply",
        ),
        (
            "a kill of an order that is not there",
            |run| {
                let at = step(run, "kill");
                run[at].1.command = Command::Kill {
                    scope: pitwire_model::KillScope::Order(OrderId(999)),
                    reason: pitwire_model::Label::NONE,
                };
            },
            "must be refused: unknown_order",
        ),
        // Sessions and epochs.
        (
            "an order outlives its session",
            |run| _ = events(run, "epoch").drain(..3),
            "must be cancelled, but is still live",
        ),
        (
            "an epoch ends an order that may stay",
            |run| entered(run, "with session").cancel_on_disconnect = false,
            "epoch 2 must start, but did not",
        ),
        (
            "gone with its session, for another reason",
            |run| {
                if let Event::Cancelled { reason, .. } = &mut events(run, "epoch")[0] {
                    *reason = CancelReason::Requested;
                }
            },
            "but the reason is Disconnected",
        ),
        // Limits.
        ("more lots than allowed", |run| accepted(run, "large", 7, 15), "must be refused: quantity_above_limit"),
        ("more money than allowed", |run| accepted(run, "dear", 6, 15), "must be refused: notional_above_limit"),
        ("a price beyond the collar", |run| accepted(run, "collar", 1, 15), "must be refused: price_above_collar"),
        (
            "a limit broken, with the reason of another",
            |run| rejected(run, "large", Reject::PriceAboveCollar),
            "first broken rule is quantity_above_limit",
        ),
        ("more open orders than allowed", |run| accepted(run, "too many", 1, 15), "refused: too_many_open_orders"),
        // Credit.
        (
            "spending beyond the credit line",
            |run| {
                let at = step(run, "credit");
                if let Command::SetCreditLine { units, .. } = &mut run[at].1.command {
                    *units = 1;
                }
                if let Event::CreditLineSet { units, .. } = &mut run[at].2[0] {
                    *units = 1;
                }
            },
            "account 1 spends",
        ),
        (
            "refused for want of funds within the credit line",
            |run| rejected(run, "on credit", Reject::NotEnoughFunds),
            "was refused for lack of",
        ),
        // Closing and deleting.
        (
            "a closed account keeps an order",
            |run| _ = events(run, "close").drain(..3),
            "must be cancelled, but is still live",
        ),
        ("a closed account enters", |run| accepted(run, "closed", 1, 18), "must be refused: account_closed"),
        (
            "a deletion that only halts",
            |run| events(run, "delete")[3] = Event::PhaseChanged { instrument: MARKET, phase: Phase::Halted },
            "phase: Deleted }, found",
        ),
        (
            "a deleted instrument keeps an order",
            |run| _ = events(run, "delete").drain(..3),
            "must be cancelled, but is still live",
        ),
        ("entered where nothing trades", |run| accepted(run, "deleted", 1, 19), "must be refused: instrument_deleted"),
        (
            "a deleted instrument opens",
            |run| {
                let at = step(run, "flow");
                let (instrument, phase) = (MARKET, Phase::Continuous);
                run[at].1.command = Command::SetPhase { instrument, phase };
                run[at].2 = vec![Event::PhaseChanged { instrument, phase }];
            },
            "must be refused: instrument_deleted",
        ),
        // Quarantine and flow.
        ("a quarantine that lets trading go on", |run| _ = events(run, "quarantine").pop(), "does not answer"),
        (
            "a flow beyond its bounds",
            |run| *events(run, "flow") = vec![Event::FlowSet(pitwire_model::FlowSetting::default())],
            "must be refused: bad_definition",
        ),
        (
            "a limit set elsewhere",
            |run| {
                if let Event::InstrumentLimitsSet { instrument, .. } = &mut events(run, "limits")[0] {
                    *instrument = InstrumentId(1);
                }
            },
            "does not answer",
        ),
    ];
    expect_offences(correct_run::run, audit, table);
}

/// Changes the bust in the command and in its event in the same way.
fn bust(run: &mut Run, lie: fn(&mut Bust)) {
    let at = step(run, "bust");
    if let Command::BustTrade(bust) = &mut run[at].1.command {
        lie(bust);
    }
    if let Event::TradeBusted(bust) = &mut run[at].2[0] {
        lie(bust);
    }
}
