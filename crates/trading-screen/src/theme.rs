//! Colours and signs of the screen, according to the terminal.

use ratatui::style::{Color, Modifier, Style};

/// The styles of the screen. Colour never carries a meaning alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    has_colours: bool,
    /// Whether the terminal has 256 colours, which the bars behind amounts need.
    has_bars: bool,
}

impl Theme {
    /// Chooses by the variables `TERM` and `COLORTERM`.
    pub fn of(has_colours: bool, term: &str, colour_term: &str) -> Self {
        let is_rich = term.contains("256color") || term.contains("direct") || !colour_term.is_empty();
        Theme { has_colours, has_bars: has_colours && is_rich }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    pub fn buy(self) -> Style {
        self.coloured(Color::Green)
    }

    pub fn sell(self) -> Style {
        self.coloured(Color::Red)
    }

    /// Style of a direction in the dialect's words.
    pub fn side(self, direction: &str) -> Style {
        match direction {
            "buy" => self.buy(),
            "sell" => self.sell(),
            _ => Style::new(),
        }
    }

    pub fn own(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub fn fault(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn faint(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn focus(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn cursor(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Background of a bar whose length shows an amount. `None` for terminals with few colours.
    pub fn bar(self, is_bid: bool) -> Option<Style> {
        // Dark green and dark red of the 256-colour palette.
        self.has_bars.then(|| Style::new().bg(Color::Indexed(if is_bid { 22 } else { 52 })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_colours_have_no_bars_and_none_no_colours() {
        assert!(Theme::of(true, "xterm-256color", "").bar(true).is_some());
        assert!(Theme::of(true, "xterm", "truecolor").bar(true).is_some());
        assert!(Theme::of(true, "linux", "").bar(true).is_none());
        let plain = Theme::of(false, "xterm-256color", "truecolor");
        assert_eq!((plain.buy(), plain.bar(true)), (Style::new(), None));
        assert_eq!(plain.fault().fg, None);
    }
}
