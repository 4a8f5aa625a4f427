//! The orders of the clients, drawn before a run.
//!
//! Holds       an order is drawn from the book as it is after the orders before it.
//! Start at    [`OrderSource::make`] and [`OrderSource::make_in_turns`].

use pitwire_configuration::{AccountDef, CurrencyDef, InstrumentDef, SelfMatchDef, Setup, setup_commands};
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{AccountId, Command, Event, InstrumentId, NewOrder, OrderId, Seq, SequencedCommand, VenueNanos};
use pitwire_order_flow::{Kernel, PaperClient, ParameterSet, Proposal, SEEDS, TopOfBook};

use super::plan::RowPlan;

/// Venue time of the first command, in nanoseconds since 1970.
pub const START: VenueNanos = VenueNanos(1_767_603_600_000_000_000);
/// Events in a row without an order. The book then has nothing to trade with.
const IDLE_EVENTS_MAX: u32 = 10_000;

/// An order before it is entered.
pub struct PlannedOrder {
    pub at: VenueNanos,
    pub proposal: Proposal,
    stock: usize,
    client: usize,
}

impl PlannedOrder {
    pub fn command(&self) -> Command {
        order(self.stock, self.client, self.proposal)
    }
}

/// Makes the orders on a separate engine.
pub struct OrderSource {
    /// Commands that precede the orders.
    setup: Vec<Command>,
    engine: Engine,
    last: Seq,
    time: VenueNanos,
    clients: Vec<PaperClient>,
    stocks: usize,
    events: Vec<Event>,
}

impl OrderSource {
    /// Creates clients, stocks and the first orders.
    ///
    /// # Errors
    ///
    /// Fails if the parameters of the processes are not stable.
    pub fn new(plan: RowPlan, seed: u64) -> Result<OrderSource, Failure> {
        let kernel = Kernel::published(ParameterSet::AsLoaded);
        let client = |number: usize| PaperClient::new(&kernel, seed, number as u64);
        let clients = (0..plan.clients).map(client).collect::<Result<Vec<_>, _>>();
        let clients = clients.map_err(|error| Failure::new(error.to_string()))?;
        let mut setup = setup_commands(&definitions(plan), &Engine::new())?;
        let stocks = (0..plan.stocks).flat_map(|stock| SEEDS.map(|seed| order(stock, stock, seed)));
        setup.extend(stocks);
        let (engine, events) = (Engine::new(), Vec::new());
        let mut source = OrderSource { setup, engine, last: Seq(0), time: START, clients, stocks: plan.stocks, events };
        for command in source.setup.clone() {
            source.apply(START, command);
        }
        Ok(source)
    }

    /// Returns the commands that precede the orders: definitions and the first orders.
    pub fn take_setup(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.setup)
    }

    /// Returns the next `count` orders. The event times of the processes decide which client is
    /// next.
    ///
    /// # Errors
    ///
    /// Fails if no client can trade.
    pub fn make(&mut self, count: u64) -> Result<Vec<PlannedOrder>, Failure> {
        let mut made = Vec::new();
        let mut idle_events = 0;
        while (made.len() as u64) < count {
            let next = (0..self.clients.len()).min_by_key(|client| self.clients[*client].next_due());
            let client = next.ok_or_else(|| Failure::new("no client"))?;
            match self.draw(client) {
                Some(order) => {
                    made.push(order);
                    idle_events = 0;
                }
                None => idle_events += 1,
            }
            check_idle(idle_events)?;
        }
        Ok(made)
    }

    /// Returns `count` orders of each client. The clients take turns.
    ///
    /// # Errors
    ///
    /// Fails if a client cannot trade.
    pub fn make_in_turns(&mut self, count: u64) -> Result<Vec<Vec<Proposal>>, Failure> {
        let mut made = vec![Vec::new(); self.clients.len()];
        for _ in 0..count {
            for (client, made) in made.iter_mut().enumerate() {
                let mut idle_events = 0;
                let order = loop {
                    if let Some(order) = self.draw(client) {
                        break order;
                    }
                    idle_events += 1;
                    check_idle(idle_events)?;
                };
                made.push(order.proposal);
            }
        }
        Ok(made)
    }

    /// Draws the next event of a client and applies its order. Returns `None` if the book has
    /// nothing to trade with.
    fn draw(&mut self, client: usize) -> Option<PlannedOrder> {
        let stock = client % self.stocks;
        let book = self.engine.market(instrument(stock)).map(TopOfBook::of).unwrap_or_default();
        let due = VenueNanos(START.0 + self.clients[client].next_due().0);
        let proposal = self.clients[client].propose(&book)?;
        // Clients that take turns do not enter their orders at the times of their processes.
        self.time = self.time.max(due);
        let order = PlannedOrder { at: self.time, proposal, stock, client };
        self.apply(order.at, order.command());
        Some(order)
    }

    fn apply(&mut self, at: VenueNanos, mut command: Command) {
        self.last = self.last.next();
        if let Command::Enter(order) = &mut command {
            order.id = OrderId(self.last.0);
        }
        self.engine.apply(&SequencedCommand { seq: self.last, at, command }, &mut self.events);
        self.events.clear();
    }
}

fn check_idle(events: u32) -> Result<(), Failure> {
    if events > IDLE_EVENTS_MAX {
        return Err(Failure::new("the book is full or empty, so no client can trade"));
    }
    Ok(())
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
        let orders = source.make(2_000).unwrap();
        let commands = orders.iter().map(|order| (order.at, order.command()));
        let (mut engine, mut events, mut seq) = (Engine::new(), Vec::new(), Seq(0));
        for (at, command) in source.setup.iter().map(|command| (START, command.clone())).chain(commands) {
            seq = seq.next();
            let mut command = command;
            if let Command::Enter(order) = &mut command {
                order.id = OrderId(seq.0);
            }
            engine.apply(&SequencedCommand { seq, at, command }, &mut events);
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

    #[test]
    fn clients_that_take_turns_have_equally_many_orders() {
        let plan = RowPlan { clients: 3, stocks: 1, orders_per_client: 500 };
        let made = OrderSource::new(plan, 7).unwrap().make_in_turns(500).unwrap();
        assert_eq!(made.iter().map(Vec::len).collect::<Vec<_>>(), [500; 3]);
        assert!(made[0] != made[1] && made[1] != made[2]);
    }
}
