//! CPU time and allocations of this process.

use pitwire_benchmarks::journal::cpu_seconds;
use serde_json::{Value, json};

/// Access to the counter of the process's allocator, which belongs to the binary.
#[derive(Clone, Copy)]
pub struct AllocationCounter {
    /// Starts to count.
    pub start: fn(),
    /// Returns the allocations since then, and their bytes.
    pub read: fn() -> (u64, u64),
}

/// Cost of a number of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub operations: u64,
    /// CPU time of all threads, in seconds.
    pub cpu_s: f64,
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Bytes on the wire.
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

impl Cost {
    pub fn add(&mut self, other: Cost) {
        self.operations += other.operations;
        self.cpu_s += other.cpu_s;
        self.allocations += other.allocations;
        self.allocated_bytes += other.allocated_bytes;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
    }

    /// Returns the cost per operation: CPU in microseconds, allocations, allocated bytes, sent and
    /// received bytes.
    #[allow(clippy::cast_precision_loss)]
    pub fn per_operation(&self) -> [f64; 5] {
        let count = self.operations.max(1) as f64;
        let counts = [self.allocations, self.allocated_bytes, self.sent_bytes, self.received_bytes];
        let [allocations, allocated, sent, received] = counts.map(|sum| sum as f64 / count);
        [self.cpu_s * 1e6 / count, allocations, allocated, sent, received]
    }

    pub fn json(&self) -> Value {
        let [cpu_us, allocations, allocated_bytes, sent_bytes, received_bytes] =
            self.per_operation().map(|figure| (figure * 100.0).round() / 100.0);
        json!({
            "operations": self.operations, "cpu_us": cpu_us, "allocations": allocations,
            "allocated_bytes": allocated_bytes, "sent_bytes": sent_bytes, "received_bytes": received_bytes,
        })
    }
}

/// Measures the cost between its creation and [`CostMeter::stop`].
pub struct CostMeter {
    counter: AllocationCounter,
    cpu_s: f64,
    allocations: (u64, u64),
}

impl CostMeter {
    pub fn start(counter: AllocationCounter) -> CostMeter {
        let allocations = (counter.read)();
        CostMeter { counter, cpu_s: cpu_seconds(), allocations }
    }

    /// Returns the cost of `operations`. The caller adds the bytes on the wire.
    pub fn stop(self, operations: u64) -> Cost {
        let cpu_s = cpu_seconds() - self.cpu_s;
        let (allocations, bytes) = (self.counter.read)();
        Cost {
            operations,
            cpu_s,
            allocations: allocations - self.allocations.0,
            allocated_bytes: bytes - self.allocations.1,
            ..Cost::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_divided_by_the_operations() {
        let mut cost = Cost { operations: 1, cpu_s: 0.000_002, allocations: 3, ..Cost::default() };
        cost.add(Cost { operations: 3, cpu_s: 0.000_002, allocations: 3, sent_bytes: 400, ..Cost::default() });
        assert_eq!(cost.per_operation(), [1.0, 1.5, 0.0, 100.0, 0.0]);
    }
}
