//! Mutation tests: the unmodified engine passes every check, and at least one check detects each
//! fault.
//!
//! Does        run the rule vectors, random worlds compared with the reference engine, the same
//!             worlds under the auditor, and pairs of runs with and without a hidden order that
//!             never trades; count the commands until a check fails.
//! To repeat   `scripts/xtask mutants -- --nocapture`; `MUTATION_WORLDS=2000` for more
//!             worlds, `TEST_SEED=N` for others.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use common::flow::Flow;
use common::world::{Stamper, account, currency, instrument, opening_commands};
use common::{SplitMix64, test_seed};
use pitwire_auditor::Auditor;
use pitwire_engine::{Engine, EngineImage, Fault, enable_fault};
use pitwire_model::{
    AccountId, Amend, CancelFilter, CancelReason, Command, Credit, Event, InstrumentId, InstrumentSpec, Lots, NewOrder,
    OrderId, OrderType, Phase, PostOnly, SelfMatch, Seq, SessionReason, Side, SequencedCommand, Ticks, TimeInForce,
    TradingRules, VenueNanos,
};
use pitwire_reference_engine::ReferenceEngine;
use pitwire_scenario::{Scenario, Witness, play_watched, read};

/// Default number of random worlds.
const WORLDS: u64 = 120;
/// Default seed, so that the default run is the same each time.
const SEED: u64 = 4;
/// Commands between two comparisons of the whole state.
const IMAGE_EVERY: usize = 61;
/// Commands in a run with a hidden order. `PAIRS` is the number of such runs.
const PAIR_COMMANDS: u64 = 60;
const PAIRS: u64 = 300;

/// Number of commands until a check failed; `None` if it passed.
type Detection = Option<u64>;

/// A command, and the answer of the reference engine.
struct ReferenceStep {
    stamped: SequencedCommand,
    events: Vec<Event>,
    image: Option<EngineImage>,
}

struct Checks {
    vectors: Vec<Scenario>,
    worlds: Vec<Vec<ReferenceStep>>,
    pairs: Vec<Vec<SequencedCommand>>,
}

impl Checks {
    fn new() -> Checks {
        let worlds = std::env::var("MUTATION_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(WORLDS);
        let seed = if std::env::var("TEST_SEED").is_ok() { test_seed() } else { SEED };
        let mut seeds = SplitMix64::new(seed);
        Checks {
            vectors: vectors(),
            worlds: (0..worlds).map(|_| world(seeds.next())).collect(),
            pairs: (0..PAIRS).map(|_| pair(seeds.next())).collect(),
        }
    }

    /// Runs every check on the engine with the fault that is enabled.
    fn run(&self, is_clean: bool) -> [(&'static str, Detection); 4] {
        [
            ("vectors", self.by_vectors()),
            ("differential", self.by_worlds()),
            ("auditor", self.by_auditor(is_clean)),
            ("pairs", self.by_pairs()),
        ]
    }

    fn by_vectors(&self) -> Detection {
        let mut count = Count(0);
        let differs = self.vectors.iter().any(|scenario| {
            let played = catch_panic(|| play_watched(&mut Engine::new(), scenario, &mut count));
            !matches!(played, Some(Ok(outcome)) if outcome.pass)
        });
        differs.then_some(count.0)
    }

    fn by_worlds(&self) -> Detection {
        let mut count = 0;
        let differs = self.worlds.iter().any(|world| {
            let mut engine = Engine::new();
            world.iter().any(|step| {
                count += 1;
                let events = catch_panic(|| applied(&mut engine, &step.stamped));
                let image = step.image.as_ref();
                events.as_ref() != Some(&step.events) || image.is_some_and(|image| *image != engine.image())
            })
        });
        differs.then_some(count)
    }

    fn by_auditor(&self, is_clean: bool) -> Detection {
        let mut count = 0;
        let objects = self.worlds.iter().any(|world| {
            let (mut engine, mut auditor) = (Engine::new(), Auditor::new());
            world.iter().any(|step| {
                count += 1;
                let judged = catch_panic(|| {
                    let events = applied(&mut engine, &step.stamped);
                    auditor.observe(&step.stamped, &events)
                });
                if let Some(Err(offence)) = &judged
                    && is_clean
                {
                    println!("the auditor rejects the unmodified engine: {offence}; {:?}", step.stamped);
                }
                !matches!(judged, Some(Ok(())))
            })
        });
        objects.then_some(count)
    }

    fn by_pairs(&self) -> Detection {
        let mut count = 0;
        let leaks = self.pairs.iter().any(|commands| {
            let with = catch_panic(|| events_of_others(commands, true));
            let without = catch_panic(|| events_of_others(commands, false));
            let same =
                with.iter().flatten().zip(without.iter().flatten()).take_while(|(with, without)| with == without);
            count += same.count() as u64;
            with.is_none() || with != without
        });
        leaks.then_some(count)
    }
}

/// Runs `work`. Returns `None` if it panics: a panic counts as a detection.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

fn applied(engine: &mut Engine, stamped: &SequencedCommand) -> Vec<Event> {
    let mut events = Vec::new();
    engine.apply(stamped, &mut events);
    events
}

struct Count(u64);

impl Witness for Count {
    fn begins(&mut self, _: &EngineImage, _: Seq, _: VenueNanos) {}

    fn saw(&mut self, _: &SequencedCommand, _: &[Event]) {
        self.0 += 1;
    }
}

fn vectors() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contracts/vectors/rules");
    let files = std::fs::read_dir(folder).expect("the vectors");
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let scenarios = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a vector file");
        read(&file.display().to_string(), &text).expect("sound vectors")
    };
    files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")).flat_map(scenarios).collect()
}

/// A random world, generated with the reference engine: the next command never depends on the
/// tested engine.
fn world(seed: u64) -> Vec<ReferenceStep> {
    let mut flow = Flow::new(seed);
    // An engine cannot recognise a bust with false details, so the auditor would reject the
    // unmodified engine.
    flow.lies = false;
    let mut reference = ReferenceEngine::new();
    let length = SplitMix64::new(seed).pick(&[200, 400, 800]);
    let mut opening = opening_commands(flow.most_resting, flow.wealth).into_iter();
    let mut stamper = Stamper::default();
    let mut steps: Vec<ReferenceStep> = Vec::new();
    while steps.len() < length {
        stamper.at.0 += flow.wait();
        let at = VenueNanos(stamper.at.0 + 1000);
        let command = opening.next().unwrap_or_else(|| flow.command(stamper.seq.next(), at));
        let stamped = stamper.stamp(command);
        let mut events = Vec::new();
        reference.apply(&stamped, &mut events);
        flow.learn(&events);
        let is_due = (steps.len() + 1).is_multiple_of(IMAGE_EVERY) || steps.len() + 1 == length;
        steps.push(ReferenceStep { stamped, events, image: is_due.then(|| reference.image()) });
    }
    steps
}

// --- Pairs: a market with and without a hidden order that never trades.

/// Owner of the hidden order.
const UNSEEN: AccountId = AccountId(7);
const ACCOUNTS_OF_A_PAIR: u32 = 8;
/// More lots than all other orders together, so that the minimum execution size is never met.
const MUCH: Lots = Lots(1_000_000);

/// A short random run with all kinds of orders and sessions, and one hidden order somewhere in it.
fn pair(seed: u64) -> Vec<SequencedCommand> {
    let mut rnd = SplitMix64::new(seed);
    let mut stamper = Stamper::default();
    let mut commands: Vec<SequencedCommand> = opening_of_a_pair().into_iter().map(|command| stamper.stamp(command)).collect();
    let hides_at = rnd.below(PAIR_COMMANDS / 2);
    let mut entered: Vec<OrderId> = Vec::new();
    for n in 0..PAIR_COMMANDS {
        let id = OrderId(stamper.seq.0 + 1);
        let command = if n == hides_at {
            let order_type = OrderType::Hidden { price: Ticks(rnd.between_signed(95, 105)), minimum_execution: MUCH };
            let side = rnd.pick(&[Side::Buy, Side::Sell]);
            let (account, lots) = (UNSEEN, MUCH);
            Command::Enter(NewOrder { id, account, lots, side, order_type, tif: TimeInForce::Day, ..NewOrder::PLAIN })
        } else {
            anything(&mut rnd, id, &mut entered)
        };
        commands.push(stamper.stamp(command));
    }
    commands
}

fn opening_of_a_pair() -> Vec<Command> {
    let rules = TradingRules { improvement: Ticks(2), ..TradingRules::default() };
    let spec = InstrumentSpec { rules: Some(Box::new(rules)), ..instrument(InstrumentId(0), 1_000) };
    let mut commands = vec![Command::AddCurrency(currency(0, "BTC", 8)), Command::AddCurrency(currency(1, "USDC", 6))];
    commands.extend(
        (0..ACCOUNTS_OF_A_PAIR).map(|id| Command::AddAccount(account(id, &format!("account-{id}"), Credit::Unlimited))),
    );
    commands.push(Command::AddInstrument(Box::new(spec)));
    commands.push(to_session(Phase::Continuous));
    commands
}

fn to_session(to: Phase) -> Command {
    let (instrument, reason, due) = (InstrumentId(0), SessionReason::Scheduled, VenueNanos(0));
    Command::ChangeSession { instrument, to, reason, due, ends: None }
}

fn anything(rnd: &mut SplitMix64, id: OrderId, entered: &mut Vec<OrderId>) -> Command {
    let price = Ticks(rnd.between_signed(97, 103));
    let lots = Lots(1 + rnd.below(12));
    let account = AccountId(rnd.below_u32(4));
    let some = (!entered.is_empty()).then(|| rnd.pick(entered));
    match (rnd.below(24), some) {
        (0, _) => to_session(rnd.pick(&[Phase::IntradayCall, Phase::Halted, Phase::ReopeningCall, Phase::Pause])),
        (1 | 2, _) => to_session(Phase::Continuous),
        (3, _) => Command::FilterHidden { instrument: InstrumentId(0) },
        (4, _) => Command::CancelAll { account, which: CancelFilter::All, reason: CancelReason::Requested },
        (5, Some(order)) => Command::Cancel { account, order },
        (6 | 7, Some(order)) => Command::Amend(Amend { account, order, price, lots, ..Amend::PLAIN }),
        (kind, _) => {
            entered.push(id);
            let order_type = match kind {
                8 | 9 => OrderType::Market,
                10 | 11 => OrderType::Stop { stop: price },
                12 => OrderType::StopLimit { stop: price, price: Ticks(rnd.between_signed(97, 103)) },
                13 => OrderType::Hidden { price, minimum_execution: Lots(1 + rnd.below(lots.0)) },
                _ => OrderType::Limit { price },
            };
            let is_limit = matches!(order_type, OrderType::Limit { .. });
            Command::Enter(NewOrder {
                id,
                account,
                lots,
                side: rnd.pick(&[Side::Buy, Side::Sell]),
                order_type,
                tif: match kind {
                    14 => TimeInForce::ImmediateOrCancel,
                    15 => TimeInForce::FillOrKill,
                    _ => TimeInForce::Day,
                },
                display: (kind == 16).then_some(Lots(1)),
                post_only: match kind {
                    17 | 18 if is_limit => PostOnly::Reject,
                    19 if is_limit => PostOnly::Reprice,
                    _ => PostOnly::No,
                },
                self_match: Some(SelfMatch::Allow),
                ..NewOrder::PLAIN
            })
        }
    }
}

/// The events that the owner of the hidden order does not receive, command by command.
fn events_of_others(commands: &[SequencedCommand], with_it: bool) -> Vec<Vec<Event>> {
    let unseen = |stamped: &SequencedCommand| matches!(&stamped.command, Command::Enter(order) if order.account == UNSEEN);
    let mut engine = Engine::new();
    let say = |stamped: &SequencedCommand| {
        if unseen(stamped) && !with_it {
            return Vec::new();
        }
        let mut events = applied(&mut engine, stamped);
        events.retain(|event| !is_of(event, UNSEEN));
        events
    };
    commands.iter().map(say).collect()
}

fn is_of(event: &Event, owner: AccountId) -> bool {
    match *event {
        Event::Accepted { account, .. }
        | Event::Rejected { account, .. }
        | Event::Cancelled { account, .. }
        | Event::AmendRefused { account, .. } => account == owner,
        _ => false,
    }
}

#[test]
fn every_fault_is_detected_and_the_unmodified_engine_passes() {
    std::panic::set_hook(Box::new(|_| {}));
    let checks = Checks::new();
    enable_fault(None);
    let clean = checks.run(true);
    let mut table = Vec::new();
    for fault in Fault::ALL {
        enable_fault(Some(*fault));
        table.push((*fault, checks.run(false)));
    }
    enable_fault(None);
    drop(std::panic::take_hook());
    let commands: usize = checks.worlds.iter().map(Vec::len).sum();
    println!("{} vectors, {commands} random commands, {} pairs", checks.vectors.len(), checks.pairs.len());
    println!("clean: {clean:?}");
    for (fault, checks) in &table {
        let results = checks.iter().map(|(name, caught)| match caught {
            Some(after) => format!("{name} {after}"),
            None => format!("{name} -"),
        });
        println!("{:>2} {fault:?}: {} ({})", *fault as u8, results.collect::<Vec<_>>().join(", "), fault.what());
    }
    assert!(clean.iter().all(|(_, caught)| caught.is_none()), "a check fails on the unmodified engine: {clean:?}");
    let missed = table.iter().filter(|(_, checks)| checks.iter().all(|(_, caught)| caught.is_none()));
    let missed: Vec<Fault> = missed.map(|(fault, _)| *fault).collect();
    assert!(missed.is_empty(), "no check detects {missed:?}");
    assert!(Fault::ALL.len() >= 56);
}
