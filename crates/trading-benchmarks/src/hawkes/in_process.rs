//! The orders in this process: engine, hash of its events, and journal.
//!
//! Holds       an order is drawn from the book as it is when the order is entered. A second engine
//!             makes the orders outside the clock.
//! Start at    [`run`].

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::journal::SegmentMaker;
use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_configuration::{AccountDef, CurrencyDef, InstrumentDef, SelfMatchDef, Setup, setup_commands};
use pitwire_disk::DirectoryStorage;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{Journal, OutputHash, Storage};
use pitwire_model::{AccountId, Command, Event, InstrumentId, NewOrder, Seq, VenueNanos};
use pitwire_order_flow::{Kernel, PaperClient, ParameterSet, Proposal, SEEDS, TopOfBook};
use pitwire_venue::{LogBackend, Sequencer, journal_config};

use super::plan::{HawkesRow, RowPlan};

/// Venue time of the first command, in nanoseconds since 1970.
const START: VenueNanos = VenueNanos(1_767_603_600_000_000_000);
/// Commands that are made at a time, before they are timed.
const CHUNK: u64 = 65_536;

/// Runs one row with its journal in `directory`.
///
/// # Errors
///
/// Fails if the journal cannot be written.
pub fn run(
    plan: RowPlan,
    seed: u64,
    group: usize,
    directory: &Path,
    progress: &BenchProgress,
) -> Result<HawkesRow, Failure> {
    let mut source = OrderSource::new(plan, seed)?;
    let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
    let (journal, _) = Journal::open(storage, journal_config())?;
    let log = LogBackend::Disk(Box::new(journal));
    let mut sequencer = Sequencer::resume(Engine::new(), log, Seq(0), START);
    let (mut chain, mut events) = (OutputChain::new(), Vec::new());
    for command in source.setup.drain(..) {
        let stamped = sequencer.submit(START, command, &mut events)?;
        chain.absorb(&stamped, &events);
        events.clear();
    }
    sequencer.commit(OutputHash(chain.seal()))?;
    let mut segments = SegmentMaker::default();
    if let Some(journal) = sequencer.log_mut().journal_mut() {
        // A running venue has prepared its next segment. Later ones are prepared during the run.
        segments.start_wanted(journal)?;
        segments.finish(journal)?;
    }
    let (mut latencies, mut seconds, mut refused) = (Latencies::new(), 0.0, 0);
    let total = plan.orders();
    let (mut done, mut entered_at) = (0, Vec::with_capacity(group));
    while done < total {
        let commands = source.make(CHUNK.min(total - done))?;
        let made = commands.len() as u64;
        done += made;
        let mut left = commands.into_iter();
        while left.len() > 0 {
            let begun = Instant::now();
            for (at, command) in left.by_ref().take(group) {
                entered_at.push(Instant::now());
                let stamped = sequencer.submit(at, command, &mut events)?;
                chain.absorb(&stamped, &events);
                refused += u64::from(events.iter().any(|event| matches!(event, Event::Rejected { .. })));
                events.clear();
            }
            sequencer.commit(OutputHash(chain.seal()))?;
            let durable_at = Instant::now();
            seconds += (durable_at - begun).as_secs_f64();
            entered_at.drain(..).for_each(|entered| latencies.record(nanoseconds(durable_at - entered)));
            if let Some(journal) = sequencer.log_mut().journal_mut() {
                segments.start_wanted(journal)?;
            }
        }
        progress.add(made);
    }
    if let Some(journal) = sequencer.log_mut().journal_mut() {
        segments.finish(journal)?;
    }
    if let LogBackend::Disk(journal) = sequencer.into_log() {
        journal.close()?;
    }
    Ok(HawkesRow { plan, orders: total, refused, seconds, latencies })
}

/// Makes the orders on a second engine.
struct OrderSource {
    /// Commands that precede the orders.
    setup: Vec<Command>,
    engine: Engine,
    last: Seq,
    clients: Vec<PaperClient>,
    stocks: usize,
    events: Vec<Event>,
}

impl OrderSource {
    fn new(plan: RowPlan, seed: u64) -> Result<OrderSource, Failure> {
        let kernel = Kernel::published(ParameterSet::AsLoaded);
        let client = |number: usize| PaperClient::new(&kernel, seed, number as u64);
        let clients = (0..plan.clients).map(client).collect::<Result<Vec<_>, _>>();
        let clients = clients.map_err(|error| Failure::new(error.to_string()))?;
        let mut setup = setup_commands(&definitions(plan), &Engine::new())?;
        let stocks = (0..plan.stocks).flat_map(|stock| SEEDS.map(|seed| order(stock, stock, seed)));
        setup.extend(stocks);
        let engine = Engine::new();
        let mut source = OrderSource { setup, engine, last: Seq(0), clients, stocks: plan.stocks, events: Vec::new() };
        for command in source.setup.clone() {
            source.apply(START, command);
        }
        Ok(source)
    }

    /// Returns the next `count` orders with their times.
    fn make(&mut self, count: u64) -> Result<Vec<(VenueNanos, Command)>, Failure> {
        /// Events in a row without an order. The book then has nothing to trade with.
        const IDLE_EVENTS_MAX: u32 = 10_000;
        let mut made = Vec::new();
        let mut idle_events = 0;
        while (made.len() as u64) < count {
            let next = (0..self.clients.len()).min_by_key(|client| self.clients[*client].next_due());
            let number = next.ok_or_else(|| Failure::new("no client"))?;
            let stock = number % self.stocks;
            let market = self.engine.market(instrument(stock));
            let book = market.map(TopOfBook::of).unwrap_or_default();
            let at = VenueNanos(START.0 + self.clients[number].next_due().0);
            let Some(proposal) = self.clients[number].propose(&book) else {
                idle_events += 1;
                if idle_events > IDLE_EVENTS_MAX {
                    return Err(Failure::new("the book is full or empty, so no client can trade"));
                }
                continue;
            };
            idle_events = 0;
            let command = order(stock, number, proposal);
            self.apply(at, command.clone());
            made.push((at, command));
        }
        Ok(made)
    }

    fn apply(&mut self, at: VenueNanos, mut command: Command) {
        self.last = self.last.next();
        if let Command::Enter(order) = &mut command {
            order.id = pitwire_model::OrderId(self.last.0);
        }
        self.engine.apply(&pitwire_model::SequencedCommand { seq: self.last, at, command }, &mut self.events);
        self.events.clear();
    }
}

fn instrument(stock: usize) -> InstrumentId {
    InstrumentId(u32::try_from(stock).unwrap_or(u32::MAX))
}

fn order(stock: usize, client: usize, proposal: Proposal) -> Command {
    Command::Enter(NewOrder {
        account: AccountId(u32::try_from(client).unwrap_or(u32::MAX)),
        instrument: instrument(stock),
        side: proposal.side,
        order_type: proposal.order_type,
        lots: proposal.lots,
        tif: proposal.tif,
        ..NewOrder::PLAIN
    })
}

/// Returns stocks in cents, and clients with unlimited credit whose orders trade with each other.
fn definitions(plan: RowPlan) -> Setup {
    let mut currencies = vec![CurrencyDef { name: "ZAR".into(), decimals: 2 }];
    let mut instruments = Vec::new();
    for stock in 0..plan.stocks {
        currencies.push(CurrencyDef { name: format!("S{stock}"), decimals: 0 });
        instruments.push(InstrumentDef {
            name: format!("S{stock}_ZAR"),
            base: format!("S{stock}"),
            quote: "ZAR".into(),
            tick: "0.01".into(),
            lot: "1".into(),
            start_price: "250.45".into(),
            ..InstrumentDef::default()
        });
    }
    let account = |number| AccountDef {
        name: format!("client-{number}"),
        house: true,
        self_match: SelfMatchDef::None,
        ..AccountDef::default()
    };
    Setup { currencies, instruments, accounts: (0..plan.clients).map(account).collect(), ..Setup::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trades_and_orders(plan: RowPlan) -> (usize, usize) {
        let mut source = OrderSource::new(plan, 7).unwrap();
        let commands = source.make(2_000).unwrap();
        let (mut engine, mut events, mut seq) = (Engine::new(), Vec::new(), Seq(0));
        for (at, command) in source.setup.iter().map(|command| (START, command.clone())).chain(commands) {
            seq = seq.next();
            let mut command = command;
            if let Command::Enter(order) = &mut command {
                order.id = pitwire_model::OrderId(seq.0);
            }
            engine.apply(&pitwire_model::SequencedCommand { seq, at, command }, &mut events);
        }
        let count = |is_one: fn(&Event) -> bool| events.iter().filter(|event| is_one(event)).count();
        (count(|event| matches!(event, Event::Trade { .. })), count(|event| matches!(event, Event::Accepted { .. })))
    }

    #[test]
    fn clients_trade_in_every_scenario() {
        for (clients, stocks) in [(1, 1), (4, 4), (8, 1)] {
            let (trades, accepted) = trades_and_orders(RowPlan { clients, stocks, orders_per_client: 2_000 });
            assert!(trades > 100 && accepted > 1_000, "{clients} on {stocks}: {trades} trades, {accepted} accepted");
        }
    }
}
