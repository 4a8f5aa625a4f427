//! Looking ahead changes no result, whether or not the announced commands follow.

use crate::common::flow::Flow;
use crate::common::world::{HOUSE, INSTRUMENTS, NPN_ZAR, Stamper, apply, instrument, opening_commands};
use crate::common::{SplitMix64, test_seed};
use pitwire_engine::Engine;
use pitwire_engine::look_ahead::{UpcomingCommand, WINDOW};
use pitwire_model::{
    Command, InstrumentId, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, SequencedCommand, Side, Ticks,
};

const ROUNDS: u64 = 60;
const COMMANDS: u64 = 3_000;
/// Number of extra instruments, so that books are prefetched too.
const MORE_INSTRUMENTS: u32 = 80;

/// Returns the commands of a random world, and the engine that has applied them.
fn world(seed: u64) -> (Vec<SequencedCommand>, Engine) {
    let (mut random, mut flow) = (SplitMix64::new(seed), Flow::new(seed));
    let (mut engine, mut stamper, mut commands) = (Engine::new(), Stamper::default(), Vec::new());
    let mut opening = opening_commands(flow.most_resting, flow.wealth);
    let more = if random.one_in(2) { MORE_INSTRUMENTS } else { 0 };
    for id in (INSTRUMENTS..INSTRUMENTS + more).map(InstrumentId) {
        let spec = InstrumentSpec { id, name: format!("MORE-{}", id.0), ..instrument(NPN_ZAR, 1_000) };
        opening.push(Command::AddInstrument(Box::new(spec)));
        opening.push(Command::SetPhase { instrument: id, phase: Phase::Continuous });
    }
    for command in opening {
        commands.push(stamper.stamp(command));
        apply(&mut engine, commands.last().unwrap());
    }
    for _ in 0..COMMANDS {
        let id = OrderId(stamper.seq.next().0);
        let elsewhere = more > 0 && random.one_in(2);
        let command = match (elsewhere, random.one_in(3)) {
            (true, false) => Command::Enter(NewOrder {
                id,
                account: HOUSE[0],
                instrument: InstrumentId(INSTRUMENTS + random.below_u32(more)),
                side: random.pick(&[Side::Buy, Side::Sell]),
                order_type: OrderType::Limit { price: Ticks(1_000 + random.between_signed(-200, 200)) },
                lots: Lots(1 + random.below(9)),
                ..NewOrder::PLAIN
            }),
            (true, true) => Command::Cancel { account: HOUSE[0], order: OrderId(1 + random.below(id.0)) },
            (false, _) => flow.command(stamper.seq.next(), stamper.at),
        };
        commands.push(stamper.stamp(command));
        flow.learn(&apply(&mut engine, commands.last().unwrap()));
    }
    (commands, engine)
}

#[test]
fn look_ahead_changes_neither_events_nor_state() {
    let seed = test_seed();
    println!("TEST_SEED={seed}");
    let mut seeds = SplitMix64::new(seed);
    for round in 0..ROUNDS {
        let (commands, whole) = world(seeds.next());
        let (mut plain, mut looking, mut misled) = (Engine::new(), Engine::new(), Engine::new());
        for (at, stamped) in commands.iter().enumerate() {
            looking.look_ahead(|n| commands.get(at + n).and_then(|behind| UpcomingCommand::of(&behind.command)));
            // Announces commands that do not follow. Their orders may not exist.
            let shift = seeds.below(1 << 20);
            misled.look_ahead(|n| {
                assert!(n <= WINDOW);
                let from = SplitMix64::new(shift + n as u64).below_u32(u32::try_from(commands.len()).unwrap()) as usize;
                let coming = UpcomingCommand::of(&commands[from].command)?;
                let instrument = if from.is_multiple_of(5) { InstrumentId(u32::MAX - 3) } else { coming.instrument };
                Some(UpcomingCommand {
                    instrument,
                    price: Ticks(coming.price.0.wrapping_mul(i64::try_from(at).unwrap() - 9)),
                    ..coming
                })
            });
            let events = apply(&mut plain, stamped);
            assert_eq!(apply(&mut looking, stamped), events, "TEST_SEED={seed} round={round} {stamped:?}");
            assert_eq!(apply(&mut misled, stamped), events, "TEST_SEED={seed} round={round} {stamped:?}");
        }
        for engine in [plain, looking, misled] {
            assert!(engine.image() == whole.image(), "TEST_SEED={seed} round={round}");
        }
    }
}
