//! The rows of the test bench: modes, scenarios and results.

use clap::ValueEnum;
use pitwire_benchmarks::orders::Latencies;

/// How clients send their orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HawkesMode {
    /// Over the wire. A client waits for a market-data update before its next order. The latency
    /// ends when the update is in the client's book.
    Paper,
    /// Over the wire, at the rate of --rate. The latency is from the due time to the answer. The
    /// orders are drawn before the first one is due.
    Pipelined,
    /// In this process: the engine, the hash of its events and the journal on disk. The latency is
    /// from the order to the end of its commit.
    Inprocess,
}

impl HawkesMode {
    pub const fn name(self) -> &'static str {
        match self {
            HawkesMode::Paper => "paper",
            HawkesMode::Pipelined => "pipelined",
            HawkesMode::Inprocess => "inprocess",
        }
    }
}

/// Who trades what in the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// 1, 2, 4, 6, 8 and 10 clients, each with its stock and --orders orders.
    Pairs,
    /// One client with 1,000,000 orders.
    Million,
    /// 1 to 64 clients on one stock, which divide --orders among themselves.
    OneStock,
}

/// One row before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlan {
    pub clients: usize,
    pub stocks: usize,
    pub orders_per_client: u64,
}

impl RowPlan {
    /// Returns the orders of all clients.
    pub fn orders(&self) -> u64 {
        self.orders_per_client * self.clients as u64
    }
}

impl Scenario {
    /// Returns the rows. `clients` replaces the numbers of clients.
    pub fn rows(self, clients: &[usize], orders: u64) -> Vec<RowPlan> {
        let defaults: &[usize] = match self {
            Scenario::Pairs => &[1, 2, 4, 6, 8, 10],
            Scenario::Million => &[1],
            Scenario::OneStock => &[1, 2, 4, 8, 16, 32, 64],
        };
        let counts = if clients.is_empty() { defaults } else { clients };
        let plan = |&clients: &usize| match self {
            Scenario::Pairs | Scenario::Million => RowPlan { clients, stocks: clients, orders_per_client: orders },
            Scenario::OneStock => {
                RowPlan { clients, stocks: 1, orders_per_client: orders.div_ceil(clients.max(1) as u64) }
            }
        };
        counts.iter().map(plan).collect()
    }

    pub const fn name(self) -> &'static str {
        match self {
            Scenario::Pairs => "pairs",
            Scenario::Million => "million",
            Scenario::OneStock => "one-stock",
        }
    }

    /// Returns the orders of a client, as published.
    pub const fn published_orders(self) -> u64 {
        match self {
            Scenario::Pairs | Scenario::OneStock => 110_000,
            Scenario::Million => 1_000_000,
        }
    }
}

/// One row after its run.
pub struct HawkesRow {
    pub plan: RowPlan,
    pub orders: u64,
    /// Orders that the venue refused, with those for which the book had nothing to trade with.
    pub refused: u64,
    pub seconds: f64,
    pub latencies: Latencies,
}

impl HawkesRow {
    #[allow(clippy::cast_precision_loss)]
    pub fn orders_per_second(&self) -> f64 {
        self.orders as f64 / self.seconds.max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_published_test_bench() {
        let rows = Scenario::Pairs.rows(&[], 110_000);
        let pairs: Vec<usize> = rows.iter().map(|row| row.clients).collect();
        assert_eq!(pairs, [1, 2, 4, 6, 8, 10]);
        assert!(rows.iter().all(|row| row.stocks == row.clients && row.orders_per_client == 110_000));
        let rows = Scenario::OneStock.rows(&[3], 10);
        assert_eq!(rows, [RowPlan { clients: 3, stocks: 1, orders_per_client: 4 }]);
    }
}
