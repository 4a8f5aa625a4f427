//! The report as one self-contained HTML page: SVG plots, and the figures as text.

use std::error::Error;
use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::run_report::{CurvePoint, InstrumentFigures, RunFigures};

/// Result of drawing a plot.
type DrawResult = Result<(), Box<dyn Error>>;
/// The drawing area of one plot.
type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width and height of a plot in pixels.
const SIZE: (u32, u32) = (560, 340);
const BUY: RGBColor = RGBColor(0x1b, 0x7f, 0x5c);
const SELL: RGBColor = RGBColor(0xb4, 0x45, 0x2e);
const INK: RGBColor = RGBColor(0x33, 0x4a, 0x6b);
/// Number of instruments with plots, most trades first. The table has all instruments.
const PLOTTED: usize = 4;

/// Returns the HTML document.
///
/// # Errors
///
/// Returns an error if the plotting library refuses the figures.
pub fn page(title: &str, figures: &RunFigures) -> Result<String, Box<dyn Error>> {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<p>{:.0} s of venue time. Figures as numbers: <code>report.json</code>.</p>\n",
        figures.seconds
    );
    section(&mut out, "Events of the flow: measured and theoretical", &[rates(figures)?]);
    for instrument in figures.instruments.iter().take(PLOTTED) {
        let drawings = [
            spread(instrument)?,
            depth(instrument)?,
            curve(
                instrument,
                "Volatility signature",
                ("seconds between samples", "ticks / √s"),
                &instrument.volatility,
            )?,
            curve(
                instrument,
                "Autocorrelation of signs",
                ("orders later", "correlation"),
                &instrument.sign_autocorrelation,
            )?,
            curve(instrument, "Impact: response of the mid", ("orders later", "ticks"), &instrument.impact)?,
        ];
        section(&mut out, &instrument.name, &drawings);
    }
    let _ = writeln!(out, "<h2>All instruments</h2>\n<pre>{}</pre>\n</html>", figures.lines().join("\n"));
    Ok(out)
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2rem auto;padding:0 1rem;color:#222}\
    section{display:flex;flex-wrap:wrap;gap:12px}svg{border:1px solid #ddd;border-radius:6px;max-width:100%}\
    pre{overflow-x:auto;background:#f6f6f4;padding:1rem}";

fn section(out: &mut String, title: &str, drawings: &[String]) {
    let _ = writeln!(out, "<h2>{title}</h2>\n<section>\n{}\n</section>", drawings.join("\n"));
}

fn svg_of(draw: impl FnOnce(&Canvas<'_>) -> DrawResult) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        canvas.fill(&WHITE)?;
        draw(&canvas)?;
        canvas.present()?;
    }
    Ok(svg)
}

/// Returns the end of an axis: 10 % above the largest value, and never zero.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    1.1 * values.fold(f64::MIN_POSITIVE, f64::max).max(1e-9)
}

fn rates(figures: &RunFigures) -> Result<String, Box<dyn Error>> {
    let types = &figures.flow.types;
    let highest = top(types.iter().map(|one| one.per_s.max(one.expected_per_s + 2.0 * one.standard_error_per_s)));
    svg_of(|canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .caption("Events a second by type: realised (bars), theory ± 2 standard errors", ("sans-serif", 14))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(52)
            .build_cartesian_2d((0_u32..7).into_segmented(), 0.0..highest)?;
        chart.configure_mesh().disable_x_mesh().x_desc("type, in the order of the table").y_desc("1/s").draw()?;
        chart.draw_series((0_u32..).zip(types).map(|(at, one)| {
            let colour = if at % 2 == 0 { BUY } else { SELL };
            let mut bar = Rectangle::new(
                [(SegmentValue::Exact(at), 0.0), (SegmentValue::Exact(at + 1), one.per_s)],
                colour.mix(0.6).filled(),
            );
            bar.set_margin(0, 0, 6, 6);
            bar
        }))?;
        chart.draw_series((0_u32..).zip(types).map(|(at, one)| {
            let around = 2.0 * one.standard_error_per_s;
            let (low, high) = ((one.expected_per_s - around).max(0.0), one.expected_per_s + around);
            ErrorBar::new_vertical(SegmentValue::CenterOf(at), low, one.expected_per_s, high, BLACK.filled(), 10)
        }))?;
        Ok(())
    })
}

#[allow(clippy::cast_precision_loss)]
fn spread(instrument: &InstrumentFigures) -> Result<String, Box<dyn Error>> {
    let share = instrument.spread_ticks.as_ref().map_or(&[][..], |spread| &spread.share);
    // Wider spreads are so rare that they would only compress the others.
    let widest = instrument.spread_ticks.as_ref().map_or(1, |spread| (2 * spread.p95).max(4)) as f64;
    svg_of(|canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .caption("Spread: share of the time", ("sans-serif", 14))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..widest + 1.0, 0.0..top(share.iter().map(|(_, share)| *share)))?;
        chart.configure_mesh().disable_x_mesh().x_desc("ticks").y_desc("share").draw()?;
        let within = share.iter().map(|(ticks, share)| (*ticks as f64, *share)).filter(|(ticks, _)| *ticks <= widest);
        chart.draw_series(
            within.map(|(ticks, share)| {
                Rectangle::new([(ticks - 0.4, 0.0), (ticks + 0.4, share)], INK.mix(0.7).filled())
            }),
        )?;
        Ok(())
    })
}

#[allow(clippy::cast_precision_loss)]
fn depth(instrument: &InstrumentFigures) -> Result<String, Box<dyn Error>> {
    let levels = &instrument.depth_lots;
    let highest = top(levels.iter().map(|depth| depth.bid.max(depth.ask)));
    svg_of(|canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .caption("Depth: mean lots by distance from the best price (bids left)", ("sans-serif", 14))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(-(levels.len() as f64)..levels.len() as f64, 0.0..highest)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_desc("ticks from the best price of the same side")
            .y_desc("lots")
            .draw()?;
        let bars = levels.iter().flat_map(|depth| {
            let away = depth.ticks as f64;
            [((-away - 0.9, -away - 0.1), depth.bid, BUY), ((away + 0.1, away + 0.9), depth.ask, SELL)]
        });
        chart.draw_series(bars.map(|((left, right), lots, colour)| {
            Rectangle::new([(left, 0.0), (right, lots)], colour.mix(0.6).filled())
        }))?;
        Ok(())
    })
}

/// Plots points over a logarithmic axis of lags.
#[allow(clippy::cast_precision_loss)]
fn curve(
    instrument: &InstrumentFigures,
    caption: &str,
    (x, y): (&str, &str),
    points: &[CurvePoint],
) -> Result<String, Box<dyn Error>> {
    let caption = format!("{caption} ({} orders that traded on arrival)", instrument.hits);
    let caption = if x.starts_with("seconds") { "Volatility signature".to_owned() } else { caption };
    let last = points.last().map_or(2.0, |point| point.at as f64).max(2.0);
    let lowest = points.iter().map(|point| point.value).fold(0.0, f64::min) * 1.1;
    svg_of(|canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .caption(caption, ("sans-serif", 14))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d((0.9..last * 1.1).log_scale(), lowest..top(points.iter().map(|point| point.value)))?;
        chart.configure_mesh().x_desc(x).y_desc(y).x_label_formatter(&|at| format!("{at:.0}")).draw()?;
        let places = || points.iter().map(|point| (point.at as f64, point.value));
        chart.draw_series(LineSeries::new(places(), INK.stroke_width(2)))?;
        chart.draw_series(places().map(|place| Circle::new(place, 3, INK.filled())))?;
        Ok(())
    })
}
