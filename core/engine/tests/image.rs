//! A state, its image, and the state made from the image: the same, now and after whatever follows.

mod common;

use common::flow::Flow;
use common::world::{Stamper, apply, opening, opening_commands};
use common::{SplitMix64, test_seed};
use pitwire_audit::Auditor;
use pitwire_engine::Engine;

const ROUNDS: u64 = 60;
const BEFORE: u64 = 3_000;
const AFTER: u64 = 1_500;

#[test]
fn an_engine_from_an_image_has_the_same_future() {
    let seed = test_seed();
    println!("TEST_SEED={seed}");
    let mut seeds = SplitMix64::new(seed);
    let mut resting = 0;
    for round in 0..ROUNDS {
        let mut flow = Flow::new(seeds.next());
        let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
        for command in opening_commands(flow.most_resting, flow.wealth) {
            apply(&mut engine, &stamper.stamp(command));
        }
        let length = seeds.below(BEFORE);
        for _ in 0..length {
            let command = flow.command(stamper.seq.next());
            flow.learn(&apply(&mut engine, &stamper.stamp(command)));
        }
        let image = engine.image();
        resting += image.markets.iter().map(|market| market.orders.len()).sum::<usize>();
        let mut restored = Engine::from_image(image.clone()).expect("its own image");
        assert_eq!(restored.image(), image, "TEST_SEED={seed} round={round}");
        assert_eq!(restored.live_orders(), engine.live_orders());
        let opening = opening(image, stamper.seq, stamper.at);
        let mut auditor = Auditor::resume(opening).expect("an honest snapshot");
        for step in 0..AFTER {
            let command = flow.command(stamper.seq.next());
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

#[test]
fn room_made_later_loses_nothing() {
    let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
    let mut flow = Flow::new(7);
    for command in opening_commands(400, 1_000_000) {
        apply(&mut engine, &stamper.stamp(command));
    }
    while engine.live_orders() < 20 {
        let command = flow.command(stamper.seq.next());
        flow.learn(&apply(&mut engine, &stamper.stamp(command)));
    }
    let before = (engine.image(), engine.live_orders());
    for market in 0..3 {
        engine.reserve(pitwire_model::InstrumentId(market), 10_000);
    }
    assert_eq!((engine.image(), engine.live_orders()), before);
}

#[test]
fn an_image_that_cannot_be_is_refused() {
    let mut floor = common::floor::Floor::new(10, 100);
    floor.run("a buy 5@100, b buy 6@100");
    let good = floor.image();
    assert!(Engine::from_image(good.clone()).is_ok());
    let changes: [fn(&mut pitwire_engine::EngineImage); 8] = [
        |image| image.markets[1].orders[0].open = 0,
        |image| image.markets[1].orders[0].open = 99,
        |image| image.markets[1].orders[0].price.0 = 0,
        |image| image.markets[1].orders[0].account.0 = 77,
        |image| image.markets[1].orders[1].id = image.markets[1].orders[0].id,
        |image| image.markets.swap(0, 1),
        |image| image.accounts[0].balances.truncate(1),
        |image| image.currencies.truncate(1),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut image = good.clone();
        change(&mut image);
        assert!(Engine::from_image(image).is_err(), "change {at}");
    }
}
