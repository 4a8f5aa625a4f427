//! Plots as SVG text, with a legend inside and colours that follow the style of the page.
//!
//! Does        draw lines, bars, bands and labelled points in linear coordinates; a logarithmic
//!             axis is a linear one whose labels are powers of ten.
//! Holds       colours are CSS variables (`--ink`, `--paper`, `--buy`, `--sell`, `--line`,
//!             `--accent`), which the page defines for light, dark and print.
//! Start at    [`Plot::svg`].

use std::error::Error;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

type DrawResult = Result<(), Box<dyn Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A colour that the page defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Buy,
    Sell,
    Line,
    Accent,
    Ink,
}

impl Colour {
    const PAPER: (RGBColor, &str) = (RGBColor(0xfe, 0xfe, 0xfe), "var(--paper)");

    /// Returns the colour that the drawing library writes, and what replaces it in the page.
    const fn pair(self) -> (RGBColor, &'static str) {
        match self {
            Colour::Buy => (RGBColor(0x1b, 0x7f, 0x5c), "var(--buy)"),
            Colour::Sell => (RGBColor(0xb4, 0x45, 0x2e), "var(--sell)"),
            Colour::Line => (RGBColor(0x33, 0x4a, 0x6b), "var(--line)"),
            Colour::Accent => (RGBColor(0x9a, 0x6b, 0x00), "var(--accent)"),
            Colour::Ink => (BLACK, "var(--ink)"),
        }
    }

    const ALL: [Colour; 5] = [Colour::Buy, Colour::Sell, Colour::Line, Colour::Accent, Colour::Ink];
}

/// One axis of a plot.
pub struct Axis<'a> {
    pub label: &'a str,
    pub from: f64,
    pub to: f64,
    /// Writes the label of a place on the axis.
    pub format: &'a dyn Fn(f64) -> String,
    /// Room for the labels in pixels.
    pub room: u32,
    /// About how many labels there are.
    pub labels: usize,
}

/// Something to draw. A label puts it into the legend.
pub enum Mark<'a> {
    /// A line through points; a break where a value is missing.
    Line { points: Vec<(f64, Option<f64>)>, colour: Colour, label: &'a str },
    /// A line with a dot at each point.
    Dots { points: Vec<(f64, f64)>, colour: Colour, label: &'a str },
    /// Rectangles: left, bottom, right, top.
    Bars { bars: Vec<[f64; 4]>, colour: Colour, label: &'a str },
    /// A pale area over the whole plot between two values of the vertical axis.
    Band { from: f64, to: f64, label: &'a str },
    /// A pale area over the whole height, with its name at the top.
    Span { from: f64, to: f64, name: String },
    /// A point with its text beside it.
    Point { at: (f64, f64), text: String },
    /// A horizontal range with its middle.
    Ranges { ranges: Vec<(f64, [f64; 3])>, label: &'a str },
}

/// A plot with linear axes.
pub struct Plot<'a> {
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    pub marks: Vec<Mark<'a>>,
}

/// Width and height of a plot in pixels.
const SIZE: (u32, u32) = (560, 320);
const FONT: &str = "sans-serif";

impl Plot<'_> {
    /// Returns the plot as an SVG element.
    ///
    /// # Errors
    /// Fails if the drawing library refuses the plot.
    pub fn svg(&self) -> Result<String, Box<dyn Error>> {
        let mut svg = String::new();
        {
            let canvas = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            // An axis without length has no scale.
            let range = |axis: &Axis<'_>| axis.from..if axis.to > axis.from { axis.to } else { axis.from + 1.0 };
            let mut chart = ChartBuilder::on(&canvas)
                .margin(8)
                .margin_right(16)
                .x_label_area_size(self.x.room)
                .y_label_area_size(self.y.room)
                .build_cartesian_2d(range(&self.x), range(&self.y))?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .x_labels(self.x.labels)
                .y_labels(self.y.labels)
                .x_desc(self.x.label)
                .y_desc(self.y.label)
                .x_label_formatter(&|at| (self.x.format)(*at))
                .y_label_formatter(&|at| (self.y.format)(*at))
                .draw()?;
            for mark in &self.marks {
                self.draw(mark, &mut chart)?;
            }
            if self.marks.iter().any(Mark::has_label) {
                chart
                    .configure_series_labels()
                    .position(SeriesLabelPosition::UpperRight)
                    .background_style(Colour::PAPER.0.mix(0.85))
                    .label_font((FONT, 12))
                    .draw()?;
            }
            canvas.present()?;
        }
        let axes = [self.y.label, self.x.label].into_iter().filter(|label| !label.is_empty());
        Ok(for_page(&svg, &axes.collect::<Vec<_>>().join(" against ")))
    }

    fn draw(&self, mark: &Mark<'_>, chart: &mut Chart<'_, '_>) -> DrawResult {
        match mark {
            Mark::Line { points, colour, label } => {
                let style = colour.pair().0.stroke_width(2);
                for (number, run) in
                    points.split(|(_, value)| value.is_none()).filter(|run| !run.is_empty()).enumerate()
                {
                    let places = run.iter().filter_map(|(x, y)| Some((*x, (*y)?)));
                    let drawn = chart.draw_series(LineSeries::new(places, style))?;
                    if number == 0 {
                        drawn.label(*label).legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
                    }
                }
            }
            Mark::Dots { points, colour, label } => {
                let style = colour.pair().0.stroke_width(2);
                chart
                    .draw_series(LineSeries::new(points.iter().copied(), style))?
                    .label(*label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
                chart.draw_series(points.iter().map(|place| Circle::new(*place, 3, colour.pair().0.filled())))?;
            }
            Mark::Bars { bars, colour, label } => {
                let style = colour.pair().0.mix(0.6).filled();
                let drawn = chart.draw_series(
                    bars.iter()
                        .map(|[left, bottom, right, top]| Rectangle::new([(*left, *bottom), (*right, *top)], style)),
                )?;
                if !label.is_empty() {
                    drawn.label(*label).legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], style));
                }
            }
            Mark::Band { from, to, label } => {
                let style = Colour::Ink.pair().0.mix(0.12).filled();
                chart
                    .draw_series([Rectangle::new([(self.x.from, *from), (self.x.to, *to)], style)])?
                    .label(*label)
                    .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], style));
            }
            Mark::Span { from, to, name } => {
                let style = Colour::Accent.pair().0.mix(0.14).filled();
                chart.draw_series([Rectangle::new([(*from, self.y.from), (*to, self.y.to)], style)])?;
                let place = (*from, self.y.to);
                chart.draw_series([Text::new(
                    name.clone(),
                    place,
                    (FONT, 11).into_font().color(&Colour::Ink.pair().0),
                )])?;
            }
            Mark::Point { at, text } => {
                let colour = Colour::Accent.pair().0;
                // Near the right edge the text is on the left of its point.
                let is_right = at.0 > self.x.from + 0.7 * (self.x.to - self.x.from);
                let width = i32::try_from(text.len() * 6).unwrap_or(0);
                let offset = if is_right { -(width + 6) } else { 6 };
                chart.draw_series([EmptyElement::at(*at)
                    + Circle::new((0, 0), 4, colour.filled())
                    + Text::new(text.clone(), (offset, -12), (FONT, 11).into_font().color(&Colour::Ink.pair().0))])?;
            }
            Mark::Ranges { ranges, label } => {
                let ink = Colour::Ink.pair().0;
                chart
                    .draw_series(
                        ranges.iter().map(|(y, [low, _, high])| {
                            PathElement::new([(*low, *y), (*high, *y)], ink.stroke_width(2))
                        }),
                    )?
                    .label(*label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], ink.stroke_width(2)));
                chart.draw_series(
                    ranges.iter().map(|(y, [_, middle, _])| Circle::new((*middle, *y), 3, ink.filled())),
                )?;
            }
        }
        Ok(())
    }
}

impl Mark<'_> {
    fn has_label(&self) -> bool {
        match self {
            Mark::Line { label, .. }
            | Mark::Dots { label, .. }
            | Mark::Bars { label, .. }
            | Mark::Band { label, .. }
            | Mark::Ranges { label, .. } => !label.is_empty(),
            Mark::Span { .. } | Mark::Point { .. } => false,
        }
    }
}

/// Replaces the colours of the drawing library by those of the page, and names the drawing for
/// screen readers.
fn for_page(svg: &str, name: &str) -> String {
    let (width, height) = SIZE;
    let pairs = Colour::ALL.map(Colour::pair).into_iter().chain([Colour::PAPER]);
    let svg = pairs.fold(svg.to_owned(), |svg, (RGBColor(red, green, blue), name)| {
        svg.replace(&format!("#{red:02X}{green:02X}{blue:02X}"), name)
    });
    svg.replacen(
        &format!("<svg width=\"{width}\" height=\"{height}\""),
        &format!("<svg role=\"img\" aria-label=\"{name}\" width=\"{width}\" height=\"{height}\""),
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(label: &str) -> Axis<'_> {
        Axis { label, from: 0.0, to: 4.0, format: &|at| format!("{at:.0}"), room: 40, labels: 5 }
    }

    #[test]
    fn every_colour_of_a_plot_is_one_of_the_page() {
        let marks = vec![
            Mark::Line {
                points: vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(3.0)), (3.0, Some(2.0))],
                colour: Colour::Buy,
                label: "bids",
            },
            Mark::Dots { points: vec![(1.0, 1.0)], colour: Colour::Sell, label: "dots" },
            Mark::Bars { bars: vec![[0.0, 0.0, 1.0, 2.0]], colour: Colour::Line, label: "bars" },
            Mark::Band { from: 0.5, to: 1.0, label: "band" },
            Mark::Span { from: 1.0, to: 2.0, name: "closing_auction".into() },
            Mark::Point { at: (2.0, 2.0), text: "3,250.00".into() },
            Mark::Ranges { ranges: vec![(1.0, [0.5, 1.0, 1.5])], label: "theory" },
        ];
        let svg = Plot { x: axis("seconds"), y: axis("ticks"), marks }.svg().unwrap();
        assert!(!svg.contains("=\"#"), "{svg}");
        assert!(svg.contains("role=\"img\" aria-label=\"ticks against seconds\""), "{svg}");
        for text in ["bids", "dots", "bars", "band", "theory", "closing_auction", "3,250.00", "seconds", "var(--sell)"]
        {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn a_plot_without_values_is_drawn() {
        let marks = vec![Mark::Line { points: Vec::new(), colour: Colour::Line, label: "nothing" }];
        let flat = Axis { to: 0.0, ..axis("empty") };
        assert!(Plot { x: flat, y: axis("ticks"), marks }.svg().is_ok());
    }
}
