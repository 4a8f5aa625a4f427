//! The ticket: an order that the user types, and the changes of an order.

use pitwire_client::{Number, Order, OrderRequest, OrderType, PostOnly, Side, TimeInForce, TriggerPrice, Value};

use crate::instrument::Instrument;

/// Longest text of an amount or a price.
const LONGEST_TEXT: usize = 24;

/// The order types of the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketType {
    Limit,
    PostOnly,
    Hidden,
    Market,
    /// A market order when the last price reaches the price of the ticket.
    Stop,
}

impl TicketType {
    const ALL: [Self; 5] = [Self::Limit, Self::PostOnly, Self::Hidden, Self::Market, Self::Stop];

    pub const fn name(self) -> &'static str {
        match self {
            TicketType::Limit => "limit",
            TicketType::PostOnly => "limit, post-only",
            TicketType::Hidden => "limit, hidden",
            TicketType::Market => "market",
            TicketType::Stop => "stop (market)",
        }
    }
}

/// The times in force of the ticket, with the words of `pitwire trade`. Those with a date are left
/// to that command.
static TIMES_IN_FORCE: [(&str, Option<TimeInForce>); 10] = [
    ("venue's default", None),
    ("gtc", Some(TimeInForce::GoodTillCancelled)),
    ("day", Some(TimeInForce::Day)),
    ("ioc", Some(TimeInForce::ImmediateOrCancel)),
    ("fok", Some(TimeInForce::FillOrKill)),
    ("opg", Some(TimeInForce::OpeningAuction)),
    ("gfa", Some(TimeInForce::AnyAuction)),
    ("gfx", Some(TimeInForce::IntradayAuction)),
    ("atc", Some(TimeInForce::ClosingAuction)),
    ("cpx", Some(TimeInForce::ClosingPriceCross)),
];

/// A line of the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketField {
    Amount,
    Price,
    Type,
    TimeInForce,
}

/// What the ticket does when it is sent.
#[derive(Clone, Debug)]
pub enum TicketOrder {
    Enter(OrderRequest),
    Edit { order_id: String, amount: Number, price: Number },
}

/// An order that is being typed.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub instrument: Instrument,
    pub side: Side,
    pub amount: String,
    pub price: String,
    pub field: TicketField,
    /// Why the ticket could not be sent.
    pub fault: Option<String>,
    order_type: TicketType,
    time_in_force: usize,
    /// The order that the ticket changes.
    edited: Option<String>,
    /// The next digit replaces the text of the field.
    replaces: bool,
}

impl Ticket {
    pub fn new(instrument: &Instrument, side: Side, amount: Value, price: Option<Value>) -> Self {
        let price = price.map(|price| instrument.price_text(price)).unwrap_or_default();
        Ticket {
            instrument: instrument.clone(),
            side,
            amount: amount.to_string(),
            price,
            field: TicketField::Amount,
            fault: None,
            order_type: TicketType::Limit,
            time_in_force: 0,
            edited: None,
            replaces: true,
        }
    }

    /// Opens a ticket that changes an order. Only its amount and price can change.
    pub fn of(order: &Order, instrument: &Instrument) -> Self {
        let side = if order.direction == "buy" { Side::Buy } else { Side::Sell };
        let edited = Some(order.order_id.clone());
        Ticket { edited, field: TicketField::Price, ..Ticket::new(instrument, side, order.amount, order.price) }
    }

    pub fn edited(&self) -> Option<&str> {
        self.edited.as_deref()
    }

    pub fn order_type(&self) -> TicketType {
        self.order_type
    }

    pub fn time_in_force_name(&self) -> &'static str {
        TIMES_IN_FORCE[self.time_in_force].0
    }

    /// Returns the lines that the user can change.
    pub fn fields(&self) -> &'static [TicketField] {
        use TicketField::{Amount, Price, TimeInForce, Type};
        match (&self.edited, self.order_type) {
            (Some(_), _) => &[Amount, Price],
            (None, TicketType::Market) => &[Amount, Type, TimeInForce],
            (None, _) => &[Amount, Price, Type, TimeInForce],
        }
    }

    /// Selects the line this many lines below.
    pub fn move_field(&mut self, lines: isize) {
        let fields = self.fields();
        let at = fields.iter().position(|field| *field == self.field).unwrap_or(0);
        let next = (at.cast_signed() + lines).rem_euclid(fields.len().cast_signed());
        self.field = fields[next.unsigned_abs()];
        self.replaces = true;
    }

    fn text(&mut self) -> Option<&mut String> {
        match self.field {
            TicketField::Amount => Some(&mut self.amount),
            TicketField::Price => Some(&mut self.price),
            TicketField::Type | TicketField::TimeInForce => None,
        }
    }

    /// Types a digit or a point.
    pub fn type_character(&mut self, character: char) {
        let replaces = std::mem::take(&mut self.replaces);
        self.fault = None;
        if let Some(text) = self.text() {
            if replaces {
                text.clear();
            }
            if text.len() < LONGEST_TEXT {
                text.push(character);
            }
        }
    }

    pub fn erase(&mut self) {
        self.replaces = false;
        self.fault = None;
        if let Some(text) = self.text() {
            text.pop();
        }
    }

    /// Changes the selected line by steps: an amount by lots, a price by ticks, or the choice.
    pub fn step(&mut self, steps: i64) {
        let instrument = &self.instrument;
        self.fault = None;
        let choose = |at: usize, count: usize| {
            let next = i64::try_from(at).unwrap_or(0) + steps;
            usize::try_from(next.rem_euclid(i64::try_from(count).unwrap_or(1))).unwrap_or(0)
        };
        match self.field {
            TicketField::Amount => step_text(&mut self.amount, instrument.lot, steps, Value::to_string),
            TicketField::Price => {
                step_text(&mut self.price, instrument.tick, steps, |price| instrument.price_text(*price));
            }
            TicketField::Type => {
                let at = TicketType::ALL.iter().position(|kind| *kind == self.order_type).unwrap_or(0);
                self.order_type = TicketType::ALL[choose(at, TicketType::ALL.len())];
            }
            TicketField::TimeInForce => self.time_in_force = choose(self.time_in_force, TIMES_IN_FORCE.len()),
        }
    }

    /// Builds the order.
    ///
    /// # Errors
    ///
    /// Fails if the amount or the price is not a number. The venue checks their values.
    pub fn order(&self) -> Result<TicketOrder, String> {
        let number = |name: &str, text: &str| text.parse::<Number>().map_err(|error| format!("{name}: {error}"));
        let amount = number("amount", &self.amount)?;
        if let Some(order_id) = &self.edited {
            let price = number("price", &self.price)?;
            return Ok(TicketOrder::Edit { order_id: order_id.clone(), amount, price });
        }
        let order_type = match self.order_type {
            TicketType::Market => OrderType::Market,
            TicketType::Limit | TicketType::PostOnly => OrderType::Limit { price: number("price", &self.price)? },
            TicketType::Hidden => OrderType::Hidden { price: number("price", &self.price)?, minimum_execution: None },
            TicketType::Stop => {
                OrderType::Stop { trigger: number("price", &self.price)?, price: None, by: TriggerPrice::Last }
            }
        };
        let mut request = OrderRequest::new(self.side, &self.instrument.name, amount, order_type);
        request.time_in_force = TIMES_IN_FORCE[self.time_in_force].1.clone();
        if self.order_type == TicketType::PostOnly {
            request.post_only = PostOnly::Reject;
        }
        Ok(TicketOrder::Enter(request))
    }
}

/// Adds steps to a number. A text that is not a number becomes one step. The result is at least one
/// step.
fn step_text(text: &mut String, step: Value, steps: i64, format: impl Fn(&Value) -> String) {
    let value = Value::parse(text).unwrap_or(Value::ZERO).plus(step.times(steps));
    *text = format(&value.max(step));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::tests::share;
    use crate::ladder::tests::order;

    fn ticket() -> Ticket {
        Ticket::new(&share(), Side::Sell, Value::parse("10").unwrap(), Value::parse("3250.1"))
    }

    fn type_text(ticket: &mut Ticket, text: &str) {
        text.chars().for_each(|character| ticket.type_character(character));
    }

    fn sent(ticket: &Ticket) -> String {
        match ticket.order() {
            Ok(TicketOrder::Enter(request)) => serde_json::to_string(&request.params()).unwrap(),
            Ok(TicketOrder::Edit { order_id, amount, price }) => format!("{order_id} {amount} {price}"),
            Err(fault) => fault,
        }
    }

    #[test]
    fn first_digit_replaces_the_amount_and_the_next_ones_follow() {
        let mut ticket = ticket();
        type_text(&mut ticket, "25");
        ticket.erase();
        assert_eq!(ticket.amount, "2");
        ticket.move_field(1);
        type_text(&mut ticket, "3251.5");
        assert_eq!(sent(&ticket), r#"{"instrument_name":"NPN_ZAR","amount":2,"type":"limit","price":3251.5}"#);
        ticket.move_field(-1);
        ticket.erase();
        assert_eq!(sent(&ticket), r#"amount: "" is not a positive decimal number such as 0.25 or 60000"#);
    }

    #[test]
    fn every_type_and_time_in_force_can_be_chosen() {
        let mut ticket = ticket();
        ticket.field = TicketField::Type;
        let mut types = Vec::new();
        for _ in 0..TicketType::ALL.len() {
            types.push(sent(&ticket).replace(r#"{"instrument_name":"NPN_ZAR","amount":10,"type":"#, ""));
            ticket.step(1);
        }
        assert_eq!(
            types,
            [
                r#""limit","price":3250.10}"#,
                r#""limit","price":3250.10,"post_only":true,"reject_post_only":true}"#,
                r#""limit","price":3250.10,"hidden":true}"#,
                r#""market"}"#,
                r#""stop_market","trigger":"last_price","trigger_price":3250.10}"#,
            ]
        );
        assert_eq!(ticket.order_type(), TicketType::Limit, "the choice begins again");
        ticket.field = TicketField::TimeInForce;
        ticket.step(-1);
        assert!(sent(&ticket).ends_with(r#""tif_ext":"cpx"}"#), "{}", sent(&ticket));
    }

    #[test]
    fn market_order_has_no_price_line() {
        let mut ticket = ticket();
        ticket.field = TicketField::Type;
        ticket.step(3);
        assert_eq!(ticket.order_type(), TicketType::Market);
        ticket.move_field(-1);
        assert_eq!(ticket.field, TicketField::Amount);
        ticket.move_field(1);
        assert_eq!(ticket.field, TicketField::Type);
    }

    #[test]
    fn steps_stay_on_the_grid_and_above_zero() {
        let mut ticket = ticket();
        ticket.step(-100);
        assert_eq!(ticket.amount, "1");
        ticket.move_field(1);
        ticket.step(-1);
        assert_eq!(ticket.price, "3250.09");
        ticket.price = "x".into();
        ticket.step(1);
        assert_eq!(ticket.price, "0.01");
    }

    #[test]
    fn edit_changes_amount_and_price_only() {
        let mut ticket = Ticket::of(&order("77", "buy", "9.90", "5"), &share());
        assert_eq!((ticket.side, ticket.field), (Side::Buy, TicketField::Price));
        ticket.step(2);
        assert_eq!(sent(&ticket), "77 5 9.92");
        ticket.move_field(1);
        assert_eq!(ticket.field, TicketField::Amount);
    }

    #[test]
    fn long_text_is_bounded() {
        let mut ticket = ticket();
        type_text(&mut ticket, &"9".repeat(1000));
        assert_eq!(ticket.amount.len(), LONGEST_TEXT);
    }
}
