//! An engine restored from an image behaves like the original, now and after any further commands.

use crate::common;
use crate::common::flow::Flow;
use crate::common::world::{NPN_ZAR, Stamper, ZAR, apply, opening_commands};
use crate::common::{SplitMix64, test_seed};
use pitwire_auditor::Auditor;
use pitwire_auditor_snapshot::audit_snapshot;
use pitwire_engine::rule_tables::TifSet;
use pitwire_engine::{Engine, EngineImage, UndisplayedState};
use pitwire_model::{
    AccountId, Command, CurrencyId, Epoch, FlowSetting, KillScope, Label, Lots, NewOrder, OrderId, OrderType, Phase,
    SelfMatch, Seq, SessionId, Side, Ticks, TimeInForce, TradeReport, TradeSeq, TradingRules, VenueDay, VenueNanos,
};

const ROUNDS: u64 = 200;
const BEFORE: u64 = 3_000;
const AFTER: u64 = 1_500;

#[test]
fn restored_engine_behaves_like_the_original() {
    let seed = test_seed();
    println!("TEST_SEED={seed}");
    let mut seeds = SplitMix64::new(seed);
    let mut resting = 0;
    for round in 0..ROUNDS {
        let mut flow = Flow::new(seeds.next());
        flow.lies = false; // the auditor would say so
        let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
        for command in opening_commands(flow.most_resting, flow.wealth) {
            apply(&mut engine, &stamper.stamp(command));
        }
        let length = seeds.below(BEFORE);
        for _ in 0..length {
            let command = flow.command(stamper.seq.next(), stamper.at);
            flow.learn(&apply(&mut engine, &stamper.stamp(command)));
        }
        let image = engine.image();
        resting += image.markets.iter().map(|market| market.orders.len()).sum::<usize>();
        let mut restored = Engine::from_image(image.clone()).expect("its own image");
        assert_eq!(restored.image(), image, "TEST_SEED={seed} round={round}");
        assert_eq!(restored.live_orders(), engine.live_orders());
        let opening = audit_snapshot(&image, stamper.seq, stamper.at);
        let mut auditor = Auditor::resume(opening).expect("an honest snapshot");
        for step in 0..AFTER {
            let command = flow.command(stamper.seq.next(), stamper.at);
            let stamped = stamper.stamp(command);
            let (events, again) = (apply(&mut engine, &stamped), apply(&mut restored, &stamped));
            assert_eq!(events, again, "TEST_SEED={seed} round={round} step={step} command={:?}", stamped.command);
            if let Err(offence) = auditor.observe(&stamped, &events) {
                panic!("TEST_SEED={seed} round={round} step={step}: {offence}");
            }
            flow.learn(&events);
        }
        assert_eq!(restored.image(), engine.image(), "TEST_SEED={seed} round={round}");
    }
    assert!(resting > 500, "TEST_SEED={seed}: books too thin to prove anything, {resting} orders in all");
}

fn busy_engine(seed: u64) -> Engine {
    let (mut engine, mut stamper, mut flow) = (Engine::new(), Stamper::default(), Flow::new(seed));
    for command in opening_commands(400, 1_000_000) {
        apply(&mut engine, &stamper.stamp(command));
    }
    for _ in 0..200 {
        let command = flow.command(stamper.seq.next(), stamper.at);
        flow.learn(&apply(&mut engine, &stamper.stamp(command)));
    }
    engine
}

#[test]
fn later_reserve_loses_no_order() {
    // Not every flow fills a book: the first that does.
    let mut engine = (7..).map(busy_engine).find(|engine| engine.live_orders() >= 20).expect("one of many");
    let before = (engine.image(), engine.live_orders());
    for market in 0..3 {
        engine.reserve(pitwire_model::InstrumentId(market), 10_000);
    }
    assert_eq!((engine.image(), engine.live_orders()), before);
}

#[test]
fn invalid_image_is_refused() {
    let mut engines = common::rows::EnginePair::new(10, 100);
    engines.run(
        "a buy 5@100 in 3, b buy 6@100, c sell 9@105 show 2, d sell 1@110, e buy 1@110, kill session 5, kill session 6",
    );
    let good = engines.image();
    assert!(Engine::from_image(good.clone()).is_ok());
    let changes: [fn(&mut EngineImage); 40] = [
        |image| image.markets[1].orders[0].open = 0,
        |image| image.markets[1].orders[0].open = 99,
        |image| image.markets[1].orders[0].order_type = OrderType::Limit { price: Ticks(0) },
        |image| image.markets[1].orders[0].account.0 = 77,
        |image| image.markets[1].orders[1].id = image.markets[1].orders[0].id,
        |image| image.markets.swap(0, 1),
        |image| image.accounts[0].balances.truncate(1),
        |image| image.currencies.truncate(1),
        // An order shows all of itself, or, an iceberg, a part that is not above its peak.
        |image| image.markets[1].orders[0].shown = 4,
        |image| image.markets[1].orders[0].shown = 0,
        |image| image.markets[1].orders[2].shown = 0,
        |image| image.markets[1].orders[2].shown = 3,
        |image| image.markets[1].orders[2].display = 0,
        // What stands for good keeps no orders; sessions grow.
        |image| image.accounts[0].standing.closed = true,
        |image| image.markets[1].phase = Phase::Deleted,
        |image| image.last_session = SessionId(2),
        |image| image.killed_sessions.swap(0, 1),
        |image| image.killed_sessions[1] = SessionId(5),
        |image| image.markets[1].busted = vec![TradeSeq(0)],
        |image| image.markets[1].busted = vec![TradeSeq(2)],
        |image| _ = image.accounts[0].standing.credit_lines.insert(ZAR, 0),
        |image| _ = image.accounts[0].standing.credit_lines.insert(CurrencyId(9), 5),
        // Each has its own rank in time, and queues stand by it.
        |image| image.markets[1].orders[0].rank = 0,
        |image| image.markets[1].orders[0].rank = 2,
        |image| image.markets[1].orders[0].rank = 6,
        |image| (image.markets[1].orders[1].rank, image.markets[1].orders[0].rank) = (1, 2),
        // What stands in the book is a limit order that nothing bounds; what does not shows
        // nothing.
        |image| image.markets[1].orders[0].order_type = OrderType::Market,
        |image| image.markets[1].orders[0].bound = Ticks(5),
        |image| image.markets[1].orders[0].mode = Some(SelfMatch::Allow),
        |image| image.markets[1].orders[0].place = Some(UndisplayedState::Parked),
        |image| image.markets[1].orders[0].entered = VenueDay(1 << 16),
        |image| image.markets[1].session.static_reference = Some(Ticks(0)),
        |image| image.markets[1].session.unfinished = Some(TifSet(1 << 12)),
        |image| image.markets[1].orders[0].tif = TimeInForce::GoodTillTime { at: VenueNanos(0) },
        // No price is above the highest, and no rules improve by nothing.
        |image| image.markets[1].last = Some(Ticks(Ticks::MAX_PRICE.0 + 1)),
        |image| image.markets[1].session.uncross_price = Some(Ticks(Ticks::MAX_PRICE.0 + 1)),
        |image| {
            image.markets[1].spec.rules = Some(Box::new(TradingRules { improvement: Ticks(0), ..Default::default() }))
        },
        // Outside the hours nothing waits and nothing ends; what waits is of two accounts that are
        // there.
        |image| image.markets[1].reporting.ends = Some(VenueNanos(1)),
        |image| _ = image.markets[1].reporting.waiting.insert(Seq(1), report(3)),
        |image| {
            image.markets[1].reporting.open = true;
            image.markets[1].reporting.waiting.insert(Seq(1), report(77));
        },
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut image = good.clone();
        change(&mut image);
        assert!(Engine::from_image(image).is_err(), "change {at}");
    }
}

fn report(counterparty: u32) -> TradeReport {
    TradeReport {
        instrument: NPN_ZAR,
        account: AccountId(2),
        counterparty: AccountId(counterparty),
        side: Side::Buy,
        price: Ticks(1),
        lots: Lots(1),
        label: Label::NONE,
    }
}

/// New rules leave resting orders as they are, so an image may well hold an order that could not
/// enter any more.
#[test]
fn hidden_order_below_a_raised_reserve_size_is_restored() {
    let mut engines = common::rows::EnginePair::new(10, 100);
    let order_type = OrderType::Hidden { price: Ticks(100), minimum_execution: Lots(2) };
    let (account, instrument, lots) = (AccountId(2), NPN_ZAR, Lots(5));
    let hidden = NewOrder { id: OrderId(1), account, instrument, order_type, lots, ..NewOrder::PLAIN };
    engines.apply(Command::Enter(hidden));
    let rules = Box::new(TradingRules { minimum_reserve: Some(Lots(50)), ..Default::default() });
    engines.apply(Command::SetTradingRules { instrument, rules });
    let image = engines.image();
    assert_eq!(image.markets[1].orders.len(), 1);
    assert_eq!(Engine::from_image(image.clone()).map(|engine| engine.image()), Ok(image));
}

/// Whatever members and operators may set stands in the image, and the engine made from it behaves
/// as the first one.
#[test]
fn image_keeps_every_order_term_and_operator_setting() {
    let mut engines = common::rows::EnginePair::new(10, 100);
    engines.run(
        "a buy 5@100 in 3 cod, b buy 6@100 group 7 by 2, c sell 9@105 show 2, d sell 1@110 by 1, e buy 1@110 day by 2",
    );
    engines.run("set account 1 executions 2 in 1000000000 open 3 takes both, f sell 2@100 by 1, kill session 5, close account 3");
    engines.run(
        "limit lots 9 notional 900 collar 500, kill account 4, start epoch 4, x buy 1@99 in 9 cod, kill session 8",
    );
    for command in [
        Command::SetCreditLine { account: AccountId(2), currency: ZAR, units: 77 },
        Command::SetFlow(FlowSetting { running: false, rate_percent: 250 }),
    ] {
        engines.apply(command);
    }
    let image = engines.image();
    let mut again = Engine::from_image(image.clone()).expect("its own image");
    let mut first = Engine::from_image(image).expect("its own image");
    let account = again.account(AccountId(1)).expect("defined");
    assert_eq!((account.spec.settings.max_open_orders, account.open_orders()), (Some(3), 1));
    assert!(again.is_killed(KillScope::Account(AccountId(4))) && again.is_killed(KillScope::Session(SessionId(8))));
    assert!(!again.is_killed(KillScope::Session(SessionId(5))), "the epoch has forgotten it");
    assert_eq!((again.last_session(), again.flow().rate_percent), (SessionId(9), 250));
    // The engine that never stopped, gives the same events for the same commands.
    let mut stamper = Stamper::default();
    for command in [
        Command::Enter(NewOrder {
            id: OrderId(90),
            account: AccountId(1),
            instrument: NPN_ZAR,
            lots: Lots(1),
            ..NewOrder::PLAIN
        }),
        Command::Enter(NewOrder {
            id: OrderId(91),
            account: AccountId(4),
            instrument: NPN_ZAR,
            lots: Lots(1),
            ..NewOrder::PLAIN
        }),
        Command::StartEpoch { epoch: Epoch(5) },
        Command::EndDay,
    ] {
        let stamped = stamper.stamp(command);
        assert_eq!(apply(&mut again, &stamped), apply(&mut first, &stamped));
    }
    assert_eq!(again.image(), first.image());
    assert_eq!(again.order(OrderId(24)), None, "gone with its session");
}
