//! The figures of the test bench: as text, as JSON, as histogram files and as a page with plots.
//!
//! Holds       published figures of other hardware have tables of their own.
//! Start at    [`HawkesReport::text`].

use std::fmt::Write;
use std::num::NonZeroU64;
use std::path::Path;

use pitwire_failure::Failure;
use pitwire_simulation::PAGE_STYLE;
use pitwire_simulation::plots::{Axis, Colour, Mark, Plot};
use pitwire_terminal::text_table::TextTable;
use serde_json::{Value, json};

use super::plan::{HawkesMode, HawkesRow, Scenario};
use super::published::{FIGURES_4_AND_5, PublishedLatency, PublishedRow, TABLE_5};
use crate::{histogram_file, summary};

/// All rows of a run.
pub struct HawkesReport {
    pub mode: HawkesMode,
    pub scenario: Scenario,
    pub seed: u64,
    pub rate: NonZeroU64,
    pub durability: &'static str,
    pub threads: &'static str,
    pub rows: Vec<HawkesRow>,
}

const OURS: [&str; 13] = [
    "clients", "stocks", "orders", "refused", "seconds", "orders/s", "count", "p50", "p90", "p99", "p99.9", "p99.99",
    "max",
];
const TABLE_5_HEAD: [&str; 5] = ["machine", "pairs", "orders", "seconds", "orders/s"];
const FIGURES_HEAD: [&str; 4] = ["machine", "p90 of", "printed, ns", "by its code, us (inferred)"];
const TABLE_5_TITLE: &str = "CoinTossX, table 5, other hardware (arXiv 2102.10925)";
const FIGURES_TITLE: &str =
    "CoinTossX, figures 4 and 5, other hardware: inside the engine, from the message to its publication";

impl HawkesReport {
    fn title(&self) -> String {
        let wire = format!("venue with durability {}, threads: {}", self.durability, self.threads);
        let venue = match self.mode {
            HawkesMode::Paper => wire,
            HawkesMode::Pipelined => format!("{} orders/s, {wire}", self.rate),
            HawkesMode::Inprocess => "engine and journal on disk".into(),
        };
        format!("Hawkes test bench, mode {}, {}, seed {}: {venue}", self.mode.name(), self.scenario.name(), self.seed)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let cells = |row: &HawkesRow| {
            let mut cells = vec![
                row.plan.clients.to_string(),
                row.plan.stocks.to_string(),
                row.orders.to_string(),
                row.refused.to_string(),
                format!("{:.3}", row.seconds),
                format!("{:.0}", row.orders_per_second()),
            ];
            cells.extend(summary::cells(&row.latencies));
            cells
        };
        self.rows.iter().map(cells).collect()
    }

    /// Returns the table of this run, and the published tables apart.
    pub fn text(&self) -> String {
        let table = |head: &[&str], rows: Vec<Vec<String>>| {
            let mut table = TextTable::new(head);
            rows.into_iter().for_each(|row| table.row(row));
            table.text()
        };
        format!(
            "{}\nlatency in us\n\n{}\n{TABLE_5_TITLE}\n\n{}\n{FIGURES_TITLE}\n\n{}",
            self.title(),
            table(&OURS, self.rows()),
            table(&TABLE_5_HEAD, table_5()),
            table(&FIGURES_HEAD, figures_4_and_5()),
        )
    }

    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let mut fields = summary::json_of(&row.latencies);
            fields["clients"] = json!(row.plan.clients);
            fields["stocks"] = json!(row.plan.stocks);
            fields["orders"] = json!(row.orders);
            fields["refused"] = json!(row.refused);
            fields["seconds"] = json!(row.seconds);
            fields["orders_per_s"] = json!(row.orders_per_second().round());
            fields
        });
        let table_5 = TABLE_5.iter().map(|row| {
            json!({"machine": row.machine, "pairs": row.pairs, "seconds": row.seconds, "orders": row.orders,
                   "orders_per_s": row.orders_per_second})
        });
        let figures = FIGURES_4_AND_5.iter().map(|one| {
            json!({"machine": one.machine, "what": one.what, "p90_ns_as_printed": one.p90,
                   "p90_us_inferred": one.p90})
        });
        let rate = (self.mode == HawkesMode::Pipelined).then(|| self.rate.get());
        json!({
            "mode": self.mode.name(), "scenario": self.scenario.name(), "seed": self.seed, "rate_per_s": rate,
            "durability": if self.mode == HawkesMode::Inprocess { "disk" } else { self.durability },
            "threads": self.threads, "rows": rows.collect::<Vec<_>>(),
            "published_on_other_hardware": {
                "table_5": table_5.collect::<Vec<_>>(), "figures_4_and_5": figures.collect::<Vec<_>>(),
            },
        })
    }

    /// Writes a histogram file for each row, `report.json` and `report.html`.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written or a plot cannot be drawn.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        for row in &self.rows {
            let name = format!("{}-{}-{}", self.mode.name(), self.scenario.name(), row.plan.clients);
            histogram_file::write(directory, &name, &row.latencies)?;
        }
        histogram_file::write_text(&directory.join("report.json"), &format!("{}\n", self.json()))?;
        let page = self.page().map_err(|error| Failure::new(format!("cannot draw the plots: {error}")))?;
        histogram_file::write_text(&directory.join("report.html"), &page)
    }

    fn page(&self) -> Result<String, Box<dyn std::error::Error>> {
        let title = self.title();
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Hawkes test bench</title>\n\
             <style>{PAGE_STYLE}</style>\n<h1>Hawkes test bench</h1>\n<p>{title}. Latencies are in microseconds.</p>\n"
        );
        html_table(&mut page, &OURS, &self.rows());
        let throughput = self.throughput()?;
        let latency = self.latency()?;
        // Writing into a String does not fail.
        let _ = write!(
            page,
            "<div class=\"plots\"><figure><h3>Orders per second by clients</h3>{throughput}<figcaption>A horizontal \
             line means that further clients cost nothing.</figcaption></figure>\n<figure><h3>Latency by percentile\
             </h3>{latency}<figcaption>Both axes are logarithmic. A line ends where fewer than 100 values are above \
             it.</figcaption></figure></div>\n<h2>{TABLE_5_TITLE}</h2>\n"
        );
        html_table(&mut page, &TABLE_5_HEAD, &table_5());
        let _ = writeln!(page, "<h2>{FIGURES_TITLE}</h2>");
        html_table(&mut page, &FIGURES_HEAD, &figures_4_and_5());
        page.push_str("</html>\n");
        Ok(page)
    }

    #[allow(clippy::cast_precision_loss)]
    fn throughput(&self) -> Result<String, Box<dyn std::error::Error>> {
        let points: Vec<(f64, f64)> =
            self.rows.iter().map(|row| (row.plan.clients as f64, row.orders_per_second())).collect();
        let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(1.0, f64::max);
        let (clients, rate) = (most(|point| point.0), most(|point| point.1));
        let plain = |at: f64| format!("{at:.0}");
        let x = Axis { label: "clients", from: 0.0, to: clients * 1.05, format: &plain, room: 40, labels: 8 };
        let y = Axis { label: "orders per second", from: 0.0, to: rate * 1.2, format: &plain, room: 80, labels: 6 };
        Plot { x, y, marks: vec![Mark::Dots { points, colour: Colour::Line, label: self.mode.name() }] }.svg()
    }

    #[allow(clippy::cast_precision_loss)]
    fn latency(&self) -> Result<String, Box<dyn std::error::Error>> {
        let colours = [Colour::Line, Colour::Buy, Colour::Sell, Colour::Accent, Colour::Ink];
        let labels: Vec<String> = self.rows.iter().map(|row| format!("{} clients", row.plan.clients)).collect();
        let (mut marks, mut highest) = (Vec::new(), 1.0_f64);
        for (number, row) in self.rows.iter().enumerate() {
            let points: Vec<(f64, Option<f64>)> = row
                .latencies
                .histogram()
                .iter_quantiles(4)
                .map(|step| step.quantile_iterated_to())
                .filter(|quantile| *quantile < 1.0)
                .map_while(|quantile| {
                    let us = summary::quantile_us(&row.latencies, quantile)?;
                    Some((-(1.0 - quantile).log10(), Some(us.max(0.01).log10())))
                })
                .collect();
            highest = points.iter().filter_map(|(_, us)| *us).fold(highest, f64::max);
            let colour = colours[number % colours.len()];
            marks.push(Mark::Line { points, colour, label: &labels[number] });
        }
        let percentile = |at: f64| format!("{}", ((1.0 - 10_f64.powf(-at)) * 1e6).round() / 1e4);
        let us = |at: f64| format!("{:.2}", 10_f64.powf(at));
        let x = Axis { label: "percentile", from: 0.0, to: 4.0, format: &percentile, room: 40, labels: 5 };
        let y = Axis { label: "us", from: -1.0, to: highest + 1.0, format: &us, room: 80, labels: 6 };
        Plot { x, y, marks }.svg()
    }
}

fn table_5() -> Vec<Vec<String>> {
    let cells = |row: &PublishedRow| {
        vec![
            row.machine.to_owned(),
            row.pairs.to_string(),
            row.orders.to_string(),
            format!("{:.3}", row.seconds),
            row.orders_per_second.to_string(),
        ]
    };
    TABLE_5.iter().map(cells).collect()
}

fn figures_4_and_5() -> Vec<Vec<String>> {
    let cells = |one: &PublishedLatency| {
        vec![one.machine.to_owned(), one.what.to_owned(), one.p90.to_string(), one.p90.to_string()]
    };
    FIGURES_4_AND_5.iter().map(cells).collect()
}

fn html_table(page: &mut String, heads: &[&str], rows: &[Vec<String>]) {
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let _ = write!(page, "<table class=\"numbers\"><thead><tr>{heads}</tr></thead><tbody>");
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = write!(page, "<tr>{cells}</tr>");
    }
    page.push_str("</tbody></table>\n");
}
