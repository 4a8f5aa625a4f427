//! The figures of the trading loop: as text, as JSON and as histogram files.

use std::path::Path;

use pitwire_benchmarks::orders::Latencies;
use pitwire_failure::Failure;
use pitwire_terminal::text_table::TextTable;
use serde_json::{Value, json};

use crate::cost::Cost;
use crate::pacing::Pacing;
use crate::{histogram_file, summary};

/// A measurement with what it is compared with.
pub struct Measurement {
    pub name: &'static str,
    pub latencies: Latencies,
    /// TCP ping-pong of the same sizes.
    pub yardstick: Option<Latencies>,
    /// Bytes of a request and of its answer.
    pub sizes: Option<(usize, usize)>,
    pub cost: Option<Cost>,
}

/// All figures of a run.
pub struct LoopReport {
    pub url: String,
    pub instrument: String,
    pub threads: &'static str,
    pub connections: usize,
    pub pacing: Pacing,
    pub measurements: Vec<Measurement>,
    /// Measurements that were left out, with the reason.
    pub left_out: Vec<&'static str>,
    pub updates_per_second: Option<f64>,
}

impl Measurement {
    /// Returns the ratio to the ping-pong at a quantile, if both have enough values.
    fn ratio(&self, quantile: f64) -> Option<f64> {
        let of = |latencies| summary::quantile_us(latencies, quantile);
        let (measured, yardstick) = (of(&self.latencies)?, of(self.yardstick.as_ref()?)?);
        (yardstick > 0.0).then(|| (measured / yardstick * 100.0).round() / 100.0)
    }

    fn json(&self) -> Value {
        let mut fields = summary::json_of(&self.latencies);
        fields["name"] = json!(self.name);
        if let (Some(yardstick), Some((request, answer))) = (&self.yardstick, self.sizes) {
            fields["request_bytes"] = json!(request);
            fields["answer_bytes"] = json!(answer);
            fields["tcp"] = summary::json_of(yardstick);
            fields["p50_to_tcp"] = json!(self.ratio(0.5));
            fields["p99_to_tcp"] = json!(self.ratio(0.99));
        }
        if let Some(cost) = &self.cost {
            fields["cost"] = cost.json();
        }
        fields
    }
}

impl LoopReport {
    pub fn json(&self) -> Value {
        let measurements: Vec<Value> = self.measurements.iter().map(Measurement::json).collect();
        let rate = match self.pacing {
            Pacing::Closed => None,
            Pacing::Open { rate } => Some(rate.get()),
        };
        json!({
            "url": self.url, "instrument": self.instrument, "loop": self.pacing.name(), "rate_per_s": rate,
            "threads": self.threads, "connections": self.connections,
            "updates_per_s": self.updates_per_second.map(f64::round), "measurements": measurements,
            "left_out": self.left_out,
        })
    }

    /// Returns the tables: latencies in microseconds, then cost per operation.
    pub fn text(&self) -> String {
        let rate = match self.pacing {
            Pacing::Closed => String::new(),
            Pacing::Open { rate } => format!(", {rate} a second"),
        };
        let LoopReport { url, instrument, threads, connections, .. } = self;
        let mut text = format!(
            "{url}, {instrument}, {} loop{rate}, threads: {threads}, connections for orders: {connections}\n\n",
            self.pacing.name()
        );
        let names: Vec<String> = self.measurements.iter().map(|one| format!("  tcp, {}", one.sizes_text())).collect();
        let mut rows = Vec::new();
        for (measurement, tcp) in self.measurements.iter().zip(&names) {
            rows.push((measurement.name, &measurement.latencies));
            rows.extend(measurement.yardstick.as_ref().map(|yardstick| (tcp.as_str(), yardstick)));
        }
        text.push_str(&summary::table("latency, us", rows));
        let mut costs = TextTable::new(&["cost of each", "cpu us", "allocations", "alloc bytes", "sent", "received"]);
        for measurement in &self.measurements {
            if let Some(cost) = &measurement.cost {
                let figures = cost.per_operation().map(|figure| format!("{figure:.1}"));
                costs.row(std::iter::once(measurement.name.to_owned()).chain(figures));
            }
        }
        text.push('\n');
        text.push_str(&costs.text());
        text.push('\n');
        for measurement in &self.measurements {
            if let (Some(p50), p99) = (measurement.ratio(0.5), measurement.ratio(0.99)) {
                let p99 = p99.map_or_else(|| "too few values".into(), |ratio| format!("{ratio:.2}"));
                text.push_str(&format!("{} to tcp: p50 {p50:.2}, p99 {p99}\n", measurement.name));
            }
        }
        if let Some(rate) = self.updates_per_second {
            text.push_str(&format!("book updates on one connection: {rate:.0} a second\n"));
        }
        self.left_out.iter().for_each(|what| text.push_str(&format!("not measured: {what}\n")));
        text
    }

    /// Writes a histogram file for each measurement.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        for measurement in &self.measurements {
            let name = measurement.name.replace(' ', "-");
            histogram_file::write(directory, &name, &measurement.latencies)?;
            if let Some(yardstick) = &measurement.yardstick {
                histogram_file::write(directory, &format!("{name}-tcp"), yardstick)?;
            }
        }
        Ok(())
    }
}

impl Measurement {
    fn sizes_text(&self) -> String {
        self.sizes.map_or_else(String::new, |(request, answer)| format!("{request} and {answer} bytes"))
    }
}
