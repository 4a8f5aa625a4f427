//! Continuous trading by the rulebook, worked out by hand: aggression against hidden orders, fill
//! or kill, the steps after each command, breaches, stops, amends, the closing price. Cases of the
//! published vectors are not repeated.

use pitwire_fixtures::share;
use std::fmt::Write as _;

use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, Bust, CancelFilter, CancelReason, Command, Credit, Currency,
    CurrencyId, Decimal, Event, Expiry, InstrumentId, InstrumentSpec, KillScope, Label, Lots, NewOrder, OrderId,
    OrderType, Phase, PostOnly, Priority, Reject, RemainingSessions, SelfMatch, Seq, SequencedCommand, SessionReason,
    Side, Ticks, TimeInForce, Tolerance, TradeSeq, TradingRules, VenueDay, VenueNanos,
};

const SHARE: InstrumentId = InstrumentId(0);
const SECOND: u64 = 1_000_000_000;
const TODAY: u32 = 20_000;

/// One instrument trading continuously, nine house accounts; each order from its own unless said
/// otherwise.
struct TestMarket {
    engine: Engine,
    seq: u64,
    now: u64,
    events: Vec<Event>,
}

impl TestMarket {
    fn new() -> TestMarket {
        TestMarket::with(TradingRules::default(), SelfMatch::Allow)
    }

    fn with(rules: TradingRules, self_match: SelfMatch) -> TestMarket {
        let mut fixture = TestMarket { engine: Engine::new(), seq: 0, now: 0, events: Vec::new() };
        for (id, name) in [(0, "AAA"), (1, "ZAR")] {
            fixture.does(Command::AddCurrency(Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 0 }));
        }
        for id in 0..9 {
            let settings = AccountSettings { self_match, ..AccountSettings::default() };
            let name = format!("account-{id}");
            let spec = AccountSpec { id: AccountId(id), name, credit: Credit::Unlimited, settings };
            fixture.does(Command::AddAccount(spec));
        }
        fixture.does(Command::AddInstrument(Box::new(InstrumentSpec {
            id: SHARE,
            name: "AAA_ZAR".to_owned(),
            tick: Decimal::new(1, 0),
            max_resting_orders: 100_000,
            rules: Some(Box::new(rules)),
            ..share()
        })));
        fixture.does(Command::BeginDay { day: VenueDay(TODAY), closes: VenueNanos(100_000 * SECOND) });
        fixture.does(Command::SetRemaining { instrument: SHARE, remaining: RemainingSessions { counts: [9; 16] } });
        fixture.session(Phase::Continuous);
        fixture.seq = 100;
        fixture
    }

    fn does(&mut self, command: Command) -> String {
        self.seq += 1;
        self.events.clear();
        let stamped = SequencedCommand { seq: Seq(self.seq), at: VenueNanos(self.now), command };
        self.engine.apply(&stamped, &mut self.events);
        self.events.iter().filter_map(line_of).collect::<Vec<_>>().join(", ")
    }

    fn session(&mut self, to: Phase) -> String {
        let (reason, due) = (SessionReason::Scheduled, VenueNanos(self.now));
        self.does(Command::ChangeSession { instrument: SHARE, to, reason, due, ends: None })
    }

    /// The order's number is its account's too, modulo nine.
    fn enter(&mut self, id: u64, side: Side, lots: u64, order_type: OrderType) -> String {
        self.enters(NewOrder { lots: Lots(lots), order_type, side, ..order(id) })
    }

    fn enters(&mut self, order: NewOrder) -> String {
        self.does(Command::Enter(order))
    }

    fn amend(&mut self, amend: Amend) -> String {
        let account = AccountId(u32::try_from(amend.order.0 % 9).unwrap());
        self.does(Command::Amend(Amend { account, ..amend }))
    }

    fn cancel(&mut self, id: u64) -> String {
        let account = AccountId(u32::try_from(id % 9).unwrap());
        self.does(Command::Cancel { account, order: OrderId(id) })
    }
}

fn order(id: u64) -> NewOrder {
    let account = AccountId(u32::try_from(id % 9).unwrap());
    NewOrder { id: OrderId(id), account, instrument: SHARE, tif: TimeInForce::Day, ..NewOrder::PLAIN }
}

const BUY: Side = Side::Buy;
const SELL: Side = Side::Sell;
const MARKET: OrderType = OrderType::Market;

fn limit(price: i64) -> OrderType {
    OrderType::Limit { price: Ticks(price) }
}

fn hidden(price: i64, minimum: u64) -> OrderType {
    OrderType::Hidden { price: Ticks(price), minimum_execution: Lots(minimum) }
}

fn stop(stop: i64) -> OrderType {
    OrderType::Stop { stop: Ticks(stop) }
}

fn to(id: u64, price: i64, lots: u64) -> Amend {
    Amend { order: OrderId(id), price: Ticks(price), lots: Lots(lots), ..Amend::PLAIN }
}

fn tolerance(static_bps: Option<u32>, dynamic_bps: Option<u32>) -> TradingRules {
    let tolerance = Tolerance { static_bps, dynamic_bps };
    TradingRules { tolerances: [tolerance; 7], ..TradingRules::default() }
}

/// An event in few words; `None` for what goes without saying.
fn line_of(event: &Event) -> Option<String> {
    let mut text = String::new();
    match event {
        Event::Trade { price, lots, maker, taker, kind, .. } => {
            write!(text, "{taker} takes {lots}@{price} of {maker}").unwrap();
            if *kind == pitwire_model::TradeKind::Filter {
                text.push_str(" by filter");
            }
        }
        Event::Cancelled { order, open, reason, .. } => write!(text, "{order} ends {open} {reason:?}").unwrap(),
        Event::Level { side, price, lots, .. } => write!(text, "{side:?} {price}={lots}").unwrap(),
        Event::Triggered { order, last, .. } => write!(text, "{order} elected at {last}").unwrap(),
        Event::Breached { price, reference, against, bps, .. } => {
            write!(text, "{price} is {bps} from {against:?} {reference}").unwrap();
        }
        Event::SessionChanged { to, .. } => write!(text, "now {to:?}").unwrap(),
        Event::Indicative { price, volume, imbalance, .. } => {
            write!(text, "would be {volume}@{} {imbalance:+}", price.map_or(0, Ticks::get)).unwrap();
        }
        Event::Refreshed { order, shown, .. } => write!(text, "{order} shows {shown}").unwrap(),
        Event::Amended { order, price, open, kept_priority, .. } => {
            let place = if *kept_priority { "stays" } else { "moves" };
            write!(text, "{order} {place} {open}@{price}").unwrap();
        }
        Event::Parked { order, open, .. } => write!(text, "{order} parked {open}").unwrap(),
        Event::Rejected { reason, .. } | Event::AmendRefused { reason, .. } => {
            write!(text, "no: {}", reason.name()).unwrap();
        }
        Event::ClosingPriceSet { price, derivation, .. } => write!(text, "close {price} {derivation:?}").unwrap(),
        Event::BookChanged { .. } => text.push('.'),
        _ => return None,
    }
    Some(text)
}

#[test]
fn displayed_orders_trade_before_hidden_ones_of_the_same_price() {
    let mut fixture = TestMarket::new();
    assert_eq!(fixture.enter(1, SELL, 10, hidden(100, 1)), "", "a hidden order has no public event");
    fixture.enter(2, SELL, 10, limit(100));
    fixture.enter(3, SELL, 10, hidden(101, 1));
    fixture.enter(4, SELL, 10, limit(101));
    let all =
        "5 takes 10@100 of 2, Sell 100=0, 5 takes 10@100 of 1, 5 takes 10@101 of 4, Sell 101=0, 5 takes 2@101 of 3, .";
    assert_eq!(fixture.enter(5, BUY, 32, limit(101)), all);
    assert_eq!(fixture.enter(6, BUY, 8, limit(101)), "6 takes 8@101 of 3, .", "what shows nowhere changes no level");
    assert_eq!(fixture.engine.live_orders(), 0);
}

#[test]
fn hidden_order_with_too_large_a_minimum_is_skipped() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, SELL, 50, hidden(100, 20));
    fixture.enter(2, SELL, 50, hidden(101, 5));
    fixture.enter(3, SELL, 50, limit(102));
    assert_eq!(fixture.enter(4, BUY, 60, limit(102)), "4 takes 50@100 of 1, 4 takes 10@101 of 2, .");
    fixture.enter(5, SELL, 50, hidden(100, 20));
    let over = fixture.enter(6, BUY, 19, limit(102));
    assert_eq!(over, "6 takes 19@101 of 2, .", "20 at least was asked for, 19 are there");
    let less = "7 takes 37@100 of 5, 5 ends 13 BelowMinimumExecution, .";
    assert_eq!(fixture.enter(7, BUY, 37, limit(101)), less, "what is left of it is less than it may trade");
    assert_eq!(fixture.enter(8, BUY, 17, limit(101)), "8 takes 17@101 of 2, 2 ends 4 BelowMinimumExecution, .");
}

#[test]
fn incoming_hidden_order_stops_below_its_minimum() {
    let mut fixture = TestMarket::new();
    fixture.enters(NewOrder { side: SELL, lots: Lots(20), order_type: limit(100), display: Some(Lots(3)), ..order(1) });
    // It shows 3 of 20: the walk ends there. Then it has come to rest, and a filter counts icebergs
    // whole.
    let filtered = "2 takes 10@100 of 1 by filter, 1 shows 3, Sell 100=3, .";
    assert_eq!(fixture.enter(2, BUY, 10, hidden(100, 5)), filtered);
    let mut fixture = TestMarket::new();
    fixture.enter(1, SELL, 7, limit(100));
    fixture.enter(2, SELL, 3, limit(100));
    let below = "3 takes 7@100 of 1, Sell 100=3, 3 ends 3 BelowMinimumExecution, .";
    assert_eq!(fixture.enter(3, BUY, 10, hidden(100, 4)), below);
}

#[test]
fn improved_price_uses_best_prices_before_the_first_fill() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, BUY, 5, limit(100));
    fixture.enter(2, SELL, 5, limit(105));
    fixture.enter(3, BUY, 50, hidden(106, 50));
    let ioc = NewOrder { side: SELL, lots: Lots(60), order_type: limit(105), ..order(4) };
    let ioc = fixture.enters(NewOrder { tif: TimeInForce::ImmediateOrCancel, ..ioc });
    assert_eq!(ioc, "4 ends 60 ImmediateRemainder", "at 104 it would sell below its limit");
    // One short of 105; then the visible bid; the level says so once.
    assert_eq!(fixture.enter(5, SELL, 55, MARKET), "5 takes 50@104 of 3, 5 takes 5@100 of 1, Buy 100=0, .");
    fixture.enter(6, SELL, 50, hidden(99, 50));
    assert_eq!(fixture.enter(7, BUY, 50, MARKET), "7 takes 50@99 of 6, .", "no bids: nothing to improve on");
}

#[test]
fn fill_or_kill_estimate_equals_the_sweep() {
    let fok = |id, lots, price| NewOrder {
        side: BUY,
        lots: Lots(lots),
        order_type: limit(price),
        tif: TimeInForce::FillOrKill,
        ..order(id)
    };
    let mut fixture = TestMarket::with(tolerance(None, Some(500)), SelfMatch::Allow);
    fixture.enters(NewOrder { side: SELL, lots: Lots(10), order_type: limit(100), display: Some(Lots(4)), ..order(1) });
    fixture.enter(2, SELL, 10, hidden(100, 8));
    fixture.enter(3, SELL, 10, limit(104));
    fixture.enter(4, SELL, 10, limit(105));
    // 10 of the iceberg, then 10 hidden if 8 are still wanted, then 10 more.
    assert_eq!(fixture.enters(fok(5, 31, 104)), "5 ends 31 FillOrKill");
    fixture.enter(6, BUY, 1, limit(100));
    // The last price is 100 now: 105 is 5 % away, and counts no more than it would trade.
    assert_eq!(fixture.enters(fok(7, 30, 105)), "7 ends 30 FillOrKill");
    // 9 of the iceberg and 7 more: 7 are less than 8, so they are 104's.
    let over = "8 takes 3@100 of 1, 1 shows 4, 8 takes 4@100 of 1, 1 shows 2, 8 takes 2@100 of 1, Sell 100=0, \
                8 takes 7@104 of 3, Sell 104=3, .";
    assert_eq!(fixture.enters(fok(8, 16, 104)), over);
    let own = NewOrder { account: AccountId(2), self_match: Some(SelfMatch::CancelIncoming), ..fok(9, 11, 104) };
    assert_eq!(fixture.enters(own), "9 ends 11 FillOrKill", "an order of its own bars the way, hidden or not");
}

#[test]
fn tolerance_is_tested_before_self_match_of_hidden_orders() {
    let mut fixture = TestMarket::with(tolerance(None, Some(500)), SelfMatch::CancelResting);
    fixture.enter(1, SELL, 5, limit(100));
    fixture.enter(2, BUY, 5, limit(100));
    let mine = NewOrder { side: SELL, lots: Lots(10), account: AccountId(7), ..order(3) };
    fixture.enters(NewOrder { order_type: hidden(101, 1), ..mine.clone() });
    fixture.enters(NewOrder { id: OrderId(4), order_type: hidden(110, 1), ..mine });
    // The one is removed, at the other's price nothing may execute: so it is not even asked whose
    // it is.
    let breach = "3 ends 10 SelfMatch, 110 is 500 from Dynamic 100, Buy 110=10, now VolatilityCall, .";
    let taker = NewOrder { side: BUY, lots: Lots(10), order_type: limit(110), account: AccountId(7), ..order(5) };
    assert_eq!(fixture.enters(taker), breach);
    let ends = fixture.events.iter().find_map(|event| match event {
        Event::SessionChanged { ends, reason, .. } => Some((*ends, *reason)),
        _ => None,
    });
    assert_eq!(ends, Some((Some(VenueNanos(300 * SECOND)), SessionReason::Breaker)));
}

#[test]
fn breach_rests_the_remainder_and_reports_the_static_reference() {
    let mut fixture = TestMarket::with(tolerance(Some(1_000), Some(1_000)), SelfMatch::Allow);
    fixture.enter(1, SELL, 5, limit(100));
    fixture.enter(2, SELL, 5, limit(110));
    let breach = "3 takes 5@100 of 1, Sell 100=0, 110 is 1000 from Static 100, 3 ends 2 Breaker, now VolatilityCall, .";
    let ioc = NewOrder { side: BUY, lots: Lots(7), order_type: limit(110), ..order(3) };
    assert_eq!(fixture.enters(NewOrder { tif: TimeInForce::ImmediateOrCancel, ..ioc }), breach);
    fixture.session(Phase::Continuous);
    // An order amended into the breach rests across the book, and the call would uncross it.
    fixture.enter(4, BUY, 5, limit(90));
    let amended =
        "4 moves 5@110, Buy 90=0, 110 is 1000 from Static 100, Buy 110=5, now VolatilityCall, would be 5@110 +0, .";
    assert_eq!(fixture.amend(to(4, 110, 5)), amended);
}

#[test]
fn hidden_remainder_rests_after_a_breach() {
    let mut fixture = TestMarket::with(tolerance(Some(1_000), None), SelfMatch::Allow);
    fixture.enter(1, SELL, 5, limit(109));
    fixture.enter(2, SELL, 50, limit(110));
    let breach = "3 takes 5@109 of 1, Sell 109=0, 110 is 1000 from Static 100, now VolatilityCall, .";
    assert_eq!(fixture.enter(3, BUY, 15, hidden(110, 5)), breach, "and no call tells of it");
    assert_eq!(fixture.engine.order(OrderId(3)).map(|order| order.open), Some(Lots(10)));
}

#[test]
fn chain_of_two_thousand_stops_executes_in_one_command() {
    let mut fixture = TestMarket::new();
    for step in 0..2_000_u64 {
        let price = 5_000 - i64::try_from(step).unwrap();
        fixture.enter(1_000 + step, BUY, 1, limit(price));
        fixture.enter(10_000 + step, SELL, 1, stop(price));
    }
    let output = fixture.enter(5, SELL, 1, limit(5_000));
    assert_eq!(output.matches(" elected at ").count(), 2_000);
    assert_eq!(output.matches(" takes ").count(), 2_000, "the last one finds no order");
    assert!(
        output.starts_with("5 takes 1@5000 of 1000, Buy 5000=0, 10000 elected at 5000, 10000 takes 1@4999 of 1001")
    );
    assert!(output.ends_with("11999 elected at 3001, 11999 ends 1 ImmediateRemainder, ."), "{output}");
    assert_eq!(fixture.engine.live_orders(), 0);
}

#[test]
fn group_of_stops_is_elected_by_one_price() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, SELL, 1, limit(100));
    fixture.enter(2, SELL, 1, limit(105));
    fixture.enter(3, SELL, 9, limit(120));
    fixture.enter(11, BUY, 1, stop(100));
    fixture.enter(12, BUY, 1, stop(99));
    fixture.enter(13, BUY, 1, stop(106));
    fixture.enter(14, SELL, 1, stop(100));
    let output = "4 takes 1@100 of 1, Sell 100=0, 12 elected at 100, 11 elected at 100, 14 elected at 100, \
                12 takes 1@105 of 2, Sell 105=0, 11 takes 1@120 of 3, Sell 120=8, 14 ends 1 ImmediateRemainder, \
                13 elected at 120, 13 takes 1@120 of 3, Sell 120=7, .";
    assert_eq!(fixture.enter(4, BUY, 1, limit(100)), output, "13 waits until the batch has acted");
}

#[test]
fn stop_executes_with_its_own_terms() {
    let mut fixture = TestMarket::with(TradingRules::default(), SelfMatch::CancelResting);
    fixture.enter(1, SELL, 1, limit(100));
    fixture.enters(NewOrder { side: SELL, lots: Lots(5), order_type: limit(101), account: AccountId(8), ..order(2) });
    let own = NewOrder { side: BUY, lots: Lots(9), account: AccountId(8), ..order(3) };
    let kind = OrderType::StopLimit { stop: Ticks(100), price: Ticks(101) };
    fixture.enters(NewOrder { order_type: kind, self_match: Some(SelfMatch::CancelIncoming), ..own.clone() });
    let tif = TimeInForce::ImmediateOrCancel;
    let kind = OrderType::StopLimit { stop: Ticks(100), price: Ticks(101) };
    fixture.enters(NewOrder { id: OrderId(4), order_type: kind, tif, account: AccountId(6), lots: Lots(2), ..own });
    let output = "5 takes 1@100 of 1, Sell 100=0, 3 elected at 100, 4 elected at 100, 3 ends 9 SelfMatch, \
                4 takes 2@101 of 2, Sell 101=3, .";
    assert_eq!(fixture.enter(5, BUY, 1, limit(100)), output);
    // Entered when its condition holds already: elected in the same command.
    fixture.cancel(2);
    assert_eq!(fixture.enter(6, SELL, 5, stop(101)), "6 elected at 101, 6 ends 5 ImmediateRemainder");
    assert_eq!(fixture.enter(7, SELL, 5, stop(100)), "", "at 101 it does not");
}

#[test]
fn cancel_elects_no_stop_and_a_filter_does() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, SELL, 5, limit(103));
    fixture.enter(2, BUY, 5, stop(101));
    fixture.enter(3, SELL, 10, hidden(101, 10));
    fixture.enter(4, BUY, 8, limit(101));
    assert_eq!(fixture.enter(8, BUY, 1, stop(200)), "");
    assert_eq!(fixture.cancel(8), "8 ends 1 Requested");
    // At 103 the visible offer is out of reach; the hidden one waits for more.
    assert_eq!(fixture.cancel(4), "4 ends 8 Requested, Buy 101=0, .");
    fixture.enter(4, BUY, 8, limit(101));
    // Two more at 101 and the minimum of 10 is there: one price, which elects.
    let output = "Buy 101=10, 4 takes 8@101 of 3 by filter, 5 takes 2@101 of 3 by filter, Buy 101=0, 2 elected at 101, \
                2 takes 5@103 of 1, Sell 103=0, .";
    assert_eq!(fixture.enter(5, BUY, 2, limit(101)), output);
}

#[test]
fn amend_of_a_missing_term_is_refused() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, BUY, 10, limit(100));
    fixture.enter(2, BUY, 10, hidden(100, 5));
    fixture.enter(3, BUY, 10, stop(200));
    let no = |reason: Reject| format!("no: {}", reason.name());
    let not_amendable = no(Reject::NotAmendable);
    assert_eq!(fixture.amend(Amend { stop: Some(Ticks(5)), ..to(1, 100, 10) }), not_amendable);
    assert_eq!(fixture.amend(Amend { minimum_execution: Some(Lots(5)), ..to(1, 100, 10) }), not_amendable);
    assert_eq!(fixture.amend(Amend { expiry: Some(Expiry::Day(VenueDay(TODAY))), ..to(1, 100, 10) }), not_amendable);
    assert_eq!(fixture.amend(to(3, 100, 10)), not_amendable, "a stop has no limit");
    assert_eq!(fixture.amend(Amend { display: Some(Lots(1)), ..to(2, 100, 10) }), no(Reject::DisplayOutOfRange));
    assert_eq!(fixture.amend(Amend { display: Some(Lots(1)), ..to(3, 0, 10) }), no(Reject::DisplayOutOfRange));
    assert_eq!(fixture.amend(Amend { post_only: PostOnly::Reject, ..to(2, 101, 10) }), no(Reject::PostOnlyNotAllowed));
    assert_eq!(fixture.amend(to(2, 100, 4)), no(Reject::MinimumExecutionOutOfRange));
    assert_eq!(fixture.amend(Amend { stop: Some(Ticks(0)), ..to(3, 0, 10) }), no(Reject::PriceOutOfRange));
    // Nothing has changed by all of that.
    assert_eq!(fixture.enter(4, SELL, 20, limit(100)), "4 takes 10@100 of 1, Buy 100=0, 4 takes 10@100 of 2, .");
}

#[test]
fn hidden_order_keeps_its_place_only_when_reduced() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, BUY, 10, hidden(100, 5));
    fixture.enter(2, BUY, 10, hidden(100, 5));
    assert_eq!(fixture.amend(to(1, 100, 8)), "1 stays 8@100");
    assert_eq!(fixture.enter(3, SELL, 6, limit(100)), "3 takes 6@100 of 1, 1 ends 2 BelowMinimumExecution, .");
    fixture.enter(4, BUY, 10, hidden(100, 5));
    assert_eq!(fixture.amend(to(2, 100, 11)), "2 moves 11@100");
    assert_eq!(fixture.enter(5, SELL, 5, limit(100)), "5 takes 5@100 of 4, .");
    // A smaller minimum keeps the place, and may be met at once by what shows.
    fixture.enter(6, SELL, 3, limit(101));
    fixture.enter(7, BUY, 10, hidden(101, 10));
    let filtered = "7 stays 10@101, 7 takes 3@101 of 6 by filter, Sell 101=0, .";
    assert_eq!(fixture.amend(Amend { minimum_execution: Some(Lots(3)), ..to(7, 101, 10) }), filtered);
}

#[test]
fn elsewhere_an_amended_order_goes_to_the_back_without_matching() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, BUY, 10, limit(100));
    fixture.enter(2, BUY, 10, limit(100));
    fixture.enter(3, SELL, 10, limit(101));
    fixture.session(Phase::IntradayCall);
    assert_eq!(fixture.amend(to(1, 100, 12)), "1 moves 12@100, Buy 100=10, Buy 100=22, .");
    assert_eq!(fixture.amend(to(3, 100, 10)), "3 moves 10@100, Sell 101=0, Sell 100=10, would be 10@100 +12, .");
    assert_eq!(fixture.enter(4, SELL, 4, MARKET), "would be 14@100 +8, .");
    assert_eq!(fixture.amend(to(4, 0, 2)), "4 stays 2@0, would be 12@100 +10, .");
    assert_eq!(fixture.amend(to(4, 100, 2)), "no: not_amendable");
    let uncrossed = fixture.session(Phase::Continuous);
    assert!(uncrossed.starts_with("4 takes 2@100 of 2, 3 takes 8@100 of 2, 3 takes 2@100 of 1"), "{uncrossed}");
    fixture.session(Phase::Halted);
    assert_eq!(fixture.amend(to(1, 100, 1)), "no: not_open");
}

/// Check 9 comes after the terms, however far off the date is.
#[test]
fn a_date_beyond_sixteen_bits_is_too_far_and_no_more() {
    let mut fixture = TestMarket::new();
    for day in [TODAY + 91, 65_536, u32::MAX] {
        let gtd = TimeInForce::GoodTillDate { day: VenueDay(day) };
        let new = NewOrder { side: BUY, lots: Lots(10), order_type: limit(99), tif: gtd, ..order(1) };
        assert_eq!(fixture.enters(new.clone()), "no: expiry_too_far", "{day}");
        assert_eq!(fixture.enters(NewOrder { display: Some(Lots(11)), ..new }), "no: display_out_of_range", "{day}");
    }
    // The last date there is stays the last one once the venue's days are later.
    fixture.does(Command::BeginDay { day: VenueDay(65_530), closes: VenueNanos(100) });
    for (id, day, output) in [(1, 65_529, "no: expiry_passed"), (2, 65_536, "no: expiry_too_far"), (3, 65_535, "")] {
        let gtd = TimeInForce::GoodTillDate { day: VenueDay(day) };
        let said_here =
            fixture.enters(NewOrder { side: BUY, lots: Lots(10), order_type: limit(99), tif: gtd, ..order(id) });
        assert!(said_here.contains(output) && said_here.starts_with("no") != output.is_empty(), "{day}: {said_here}");
    }
}

#[test]
fn dates_and_stop_prices_change_in_place() {
    let mut fixture = TestMarket::new();
    let gtd = TimeInForce::GoodTillDate { day: VenueDay(TODAY) };
    fixture.enters(NewOrder { side: BUY, lots: Lots(10), order_type: limit(99), tif: gtd, ..order(1) });
    fixture.enter(2, BUY, 10, limit(99));
    let later = |day| Amend { expiry: Some(Expiry::Day(VenueDay(day))), ..to(1, 99, 10) };
    assert_eq!(fixture.amend(later(TODAY - 1)), "no: expiry_passed");
    assert_eq!(fixture.amend(later(TODAY + 91)), "no: expiry_too_far");
    assert_eq!(fixture.amend(later(TODAY + 1)), "1 stays 10@99, Buy 99=20, .");
    // A plain amend tells the date as it is.
    fixture.amend(to(1, 99, 9));
    let expiry = fixture.events.iter().find_map(|event| match event {
        Event::Amended { expiry, .. } => Some(*expiry),
        _ => None,
    });
    assert_eq!(expiry, Some(Some(Expiry::Day(VenueDay(TODAY + 1)))));
    fixture.does(Command::EndDay);
    assert!(fixture.engine.order(OrderId(1)).is_some() && fixture.engine.order(OrderId(2)).is_none());
    let gtt = TimeInForce::GoodTillTime { at: VenueNanos(50) };
    fixture.enters(NewOrder { side: BUY, lots: Lots(10), order_type: stop(200), tif: gtt, ..order(3) });
    fixture.amend(Amend { expiry: Some(Expiry::Time(VenueNanos(70))), ..to(3, 0, 10) });
    fixture.now = 60;
    assert_eq!(fixture.does(Command::PassTime), "");
    fixture.now = 70;
    assert_eq!(fixture.does(Command::PassTime), "3 ends 10 TimeReached");
    // A new stop price whose condition holds elects at once.
    fixture.enter(4, SELL, 1, limit(99));
    fixture.enter(5, BUY, 5, stop(120));
    assert_eq!(fixture.amend(Amend { stop: Some(Ticks(100)), ..to(5, 0, 5) }), "5 stays 5@0");
    let elected = "5 stays 5@0, 5 elected at 99, 5 ends 5 ImmediateRemainder";
    assert_eq!(fixture.amend(Amend { stop: Some(Ticks(99)), ..to(5, 0, 5) }), elected);
}

#[test]
fn partial_cancel_of_a_waiting_order_passes_every_block() {
    let mut fixture = TestMarket::new();
    let gfa = NewOrder { side: BUY, lots: Lots(10), order_type: limit(100), tif: TimeInForce::AnyCall, ..order(1) };
    assert_eq!(fixture.enters(gfa), "1 parked 10");
    fixture.enter(2, SELL, 10, stop(1));
    fixture.does(Command::Kill { scope: KillScope::Session(pitwire_model::SessionId(0)), reason: Label::NONE });
    assert_eq!(fixture.engine.live_orders(), 0, "kills take what waits");
    fixture.does(Command::Lift { scope: KillScope::Session(pitwire_model::SessionId(0)) });
    let gfa = NewOrder { side: BUY, lots: Lots(10), order_type: limit(100), tif: TimeInForce::AnyCall, ..order(3) };
    fixture.enters(gfa);
    fixture.enter(4, SELL, 10, stop(1));
    fixture.does(Command::SetAccount { account: AccountId(3), settings: throttled() });
    fixture.enters(NewOrder { side: SELL, lots: Lots(1), order_type: limit(90), account: AccountId(3), ..order(5) });
    fixture.enters(NewOrder { side: BUY, lots: Lots(1), order_type: limit(90), account: AccountId(3), ..order(6) });
    assert_eq!(fixture.amend(to(3, 100, 11)), "no: execution_throttle");
    assert_eq!(fixture.amend(to(3, 100, 9)), "3 stays 9@100");
    let all = fixture.does(Command::CancelAll {
        account: AccountId(3),
        which: CancelFilter::All,
        reason: CancelReason::Requested,
    });
    assert_eq!(all, "3 ends 9 Requested", "and nothing of it is public");
}

fn throttled() -> AccountSettings {
    let throttle = Some(pitwire_model::Throttle { executions: 1, window_ns: SECOND });
    AccountSettings { self_match: SelfMatch::Allow, throttle, ..AccountSettings::default() }
}

#[test]
fn the_closing_price_forgets_busted_trades_and_looks_ten_minutes_back() {
    let mut fixture = TestMarket::new();
    let trade = |fixture: &mut TestMarket, id: u64, lots: u64, price: i64| {
        fixture.enter(id, SELL, lots, limit(price));
        fixture.enter(id + 1, BUY, lots, limit(price));
    };
    trade(&mut fixture, 10, 1_000, 50);
    fixture.now = 601 * SECOND;
    trade(&mut fixture, 20, 10, 100);
    trade(&mut fixture, 30, 30, 104);
    // (10 x 100 + 30 x 104) / 40 = 103; without the second 100; the first is 601 seconds old.
    assert_eq!(fixture.session(Phase::HaltAndClose), "now HaltAndClose, close 103 Vwap, .");
    fixture.session(Phase::Continuous);
    let bust = Bust {
        instrument: SHARE,
        trade_seq: TradeSeq(3),
        price: Ticks(104),
        lots: Lots(30),
        buyer: AccountId(4),
        seller: AccountId(3),
        reason: Label::NONE,
    };
    fixture.does(Command::BustTrade(Box::new(bust)));
    assert_eq!(fixture.session(Phase::HaltAndClose), "now HaltAndClose, close 100 Vwap, .");
    fixture.session(Phase::Continuous);
    fixture.now += 601 * SECOND;
    assert_eq!(fixture.session(Phase::HaltAndClose), "now HaltAndClose, close 104 LastTrade, .");
    fixture.does(Command::EndDay);
    assert_eq!(
        fixture.session(Phase::ClosingPricePublication),
        "now ClosingPricePublication, close 104 PreviousClose, ."
    );
}

#[test]
fn book_average_price_counts_displayed_lots() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, BUY, 10, limit(99));
    fixture.enters(NewOrder { side: BUY, lots: Lots(30), order_type: limit(96), display: Some(Lots(5)), ..order(2) });
    fixture.enter(3, BUY, 100, hidden(98, 100));
    let market = fixture.engine.market(SHARE).unwrap();
    // (10 x 99 + 5 x 96) / 15 = 98.
    assert_eq!((market.book_vwap(BUY), market.book_vwap(SELL)), (Some(Ticks(98)), None));
}

#[test]
fn an_amend_in_the_cross_is_matched_as_if_entered() {
    let mut fixture = TestMarket::new();
    fixture.enter(1, SELL, 10, limit(100));
    fixture.enter(2, BUY, 5, limit(100));
    fixture.enter(3, BUY, 5, limit(98));
    fixture.session(Phase::ClosingPricePublication);
    fixture.session(Phase::ClosingPriceCross);
    // The close is 100: 98 takes no part, 101 does.
    let met = fixture.amend(Amend { priority: Priority::KeepWhenReduced, ..to(3, 101, 5) });
    assert!(met.starts_with("3 moves 5@101, Buy 98=0, 3 takes 5@100 of 1"), "{met}");
}
