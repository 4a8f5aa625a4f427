//! Icebergs, self-match prevention, places in the queue: tables of one level's queue before and
//! after.
//!
//! An order is written `id:shown`, an iceberg `id:shown+hidden/display`; `@n` sets the price to 100
//! plus n (else 100). All rest on the sell side, in the order written, each with its id as group
//! number.

use pitwire_model::{AccountId, Lots, MatchGroup, OrderId, SessionId, Side, Ticks};

use super::*;

type Venue = Book<OrderOrigin>;

fn words(cell: &str) -> impl Iterator<Item = &str> {
    cell.split_whitespace().filter(|word| *word != "-")
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().unwrap_or_else(|| panic!("not a number: {text:?}"))
}

fn parse(word: &str) -> RestingOrder {
    let (word, above) = word.split_once('@').unwrap_or((word, "0"));
    let (id, lots) = word.split_once(':').unwrap();
    let (open, rest) = lots.split_once('+').unwrap_or((lots, "0/0"));
    let (hidden, display) = rest.split_once('/').unwrap();
    let (open, hidden) = (number(open), number(hidden));
    let owner = Owner::new(AccountId(number(id)), Side::Sell, false);
    let price = Ticks(100 + number::<i64>(above));
    RestingOrder {
        id: OrderId(number(id)),
        price,
        open,
        ordered: open + hidden,
        owner,
        hidden,
        display: number(display),
    }
}

fn origin(group: u32) -> OrderOrigin {
    let (session, flags) = (SessionId(group % 2), OrderFlags::new(group % 2 == 1, false));
    OrderOrigin { session, group: MatchGroup::Key(group), flags, ..OrderOrigin::default() }
}

/// Returns the action of a policy such as `cancel2 stop5` for an order of this origin.
fn answer(policy: &str, from: &OrderOrigin) -> MakerAction {
    let MatchGroup::Key(group) = from.group else { panic!("every order has a key here") };
    match words(policy).find_map(|word| word.strip_suffix(&group.to_string())) {
        Some("cancel") => MakerAction::CancelMaker,
        Some("both") => MakerAction::CancelBoth,
        Some("stop") => MakerAction::Stop,
        _ => MakerAction::Trade,
    }
}

fn book_of(cell: &str) -> (Venue, Vec<Slot>) {
    let mut book = Venue::new();
    let slots = words(cell).map(parse).map(|order| book.rest(order, origin(order.owner.account().0)).0).collect();
    (book, slots)
}

fn show(book: &Venue) -> String {
    let mut words = Vec::new();
    for order in book.orders(Side::Sell) {
        let mut word = format!("{}:{}", order.id.0, order.open);
        if order.display > 0 {
            word += &format!("+{}/{}", order.hidden, order.display);
        }
        if order.price != Ticks(100) {
            word += &format!("@{}", order.price.0 - 100);
        }
        words.push(word);
    }
    // The lots of a level are the sum of the displayed lots of its orders.
    let displayed: u64 = book.orders(Side::Sell).map(|order| u64::from(order.open)).sum();
    assert_eq!(book.levels(Side::Sell).map(|(_, lots)| lots.0).sum::<u64>(), displayed);
    assert_eq!(book.orders(Side::Sell).count(), book.resting_orders() as usize);
    if words.is_empty() { "-".into() } else { words.join(" ") }
}

/// A sink that decides about each maker by its group and records the reports.
struct RecordingPolicy<'a> {
    policy: &'a str,
    reported: Vec<String>,
}

impl SweepSink<OrderOrigin> for RecordingPolicy<'_> {
    fn maker_action(&mut self, maker: &Maker<OrderOrigin>) -> MakerAction {
        answer(self.policy, &maker.origin())
    }

    fn fill(&mut self, maker: OrderId, owner: Owner, _: Ticks, lots: u32, maker_open: u32, refreshed: u32) {
        assert_eq!(owner.account().0, u32::try_from(maker.0).unwrap());
        assert!(refreshed == 0 || (owner.is_iceberg() && refreshed <= maker_open));
        self.reported.push(format!("{}x{lots}({maker_open})", maker.0));
    }

    fn cancelled(&mut self, order: &RestingOrder, from: OrderOrigin) {
        assert_eq!(from, origin(order.owner.account().0));
        self.reported.push(format!("{}gone({})", order.id.0, order.total_open()));
    }

    fn level(&mut self, price: Ticks, lots: u64) {
        self.reported.push(format!("[{}:{lots}]", price.0));
    }
}

fn check_sweep(row: &str) {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [before, buy, policy, reported, left, after] = cells[..] else { panic!("six cells: {row}") };
    let (lots, limit) = buy.split_once('@').unwrap_or((buy, "0"));
    let (mut book, _) = book_of(before);
    let mut recording = RecordingPolicy { policy, reported: Vec::new() };
    let limit = Some(Ticks(100 + number::<i64>(limit)));
    let lots: u32 = number(lots);
    let reach = book.estimate_fill(Side::Buy, limit, u64::from(lots), |_, from| answer(policy, from));
    let open = book.sweep(Side::Buy, limit, lots, &mut recording);
    assert_eq!(recording.reported, words(reported).collect::<Vec<_>>(), "{row}");
    assert_eq!(open, number::<u32>(left), "left of {row}");
    assert_eq!(show(&book), after, "{row}");
    assert_eq!(reach.lots, u64::from(lots - open), "what was said to be reachable: {row}");
}

fn each_row(table: &str, check: impl Fn(&str)) {
    table.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(check);
}

#[test]
fn refreshed_part_joins_the_tail_and_can_trade_in_the_same_sweep() {
    each_row(
        // resting      | buy  | objects | sent, in this order                                     |
        //              left | resting after
        "1:5 2:5        | 7    | -       | 1x5(0) 2x2(3) [100:3]                                   | 0    | 2:3
         1:3+7/3 2:4    | 2    | -       | 1x2(8) [100:5]                                          | 0    | 1:1+7/3 2:4
         1:3+7/3 2:4    | 3    | -       | 1x3(7) [100:7]                                          | 0    | 2:4 1:3+4/3
         1:3+7/3 2:4    | 8    | -       | 1x3(7) 2x4(0) 1x1(6) [100:2]                            | 0    | 1:2+4/3
         1:3+7/3 2:4    | 14   | -       | 1x3(7) 2x4(0) 1x3(4) 1x3(1) 1x1(0) [100:0]              | 0    | -
         1:3+7/3 2:4    | 15   | -       | 1x3(7) 2x4(0) 1x3(4) 1x3(1) 1x1(0) [100:0]              | 1    | -
         1:3+2/3 2:4    | 3    | -       | 1x3(2) [100:6]                                          | 0    | 2:4 1:2+0/3
         1:3+0/3 2:4    | 3    | -       | 1x3(0) [100:4]                                          | 0    | 2:4
         1:2+4/2 2:1+2/1 | 4   | -       | 1x2(4) 2x1(2) 1x1(3) [100:2]                            | 0    | 1:1+2/2 2:1+1/1
         1:1+9/9 2:5@1  | 12@1 | -       | 1x1(9) 1x9(0) [100:0] 2x2(3) [101:3]                    | 0    | 2:3@1
         1:1+9/9 2:5@1  | 12   | -       | 1x1(9) 1x9(0) [100:0]                                   | 2    | 2:5@1
         -              | 3    | -       | -                                                       | 3    | -",
        check_sweep,
    );
}

#[test]
fn sink_may_cancel_makers_or_end_the_sweep() {
    each_row(
        // resting      | buy  | objects | sent, in this order                                     |
        // left | resting after
        "1:5 2:5 3:5    | 7    | cancel1 | 1gone(5) 2x5(0) 3x2(3) [100:3]                          | 0    | 3:3
         1:5 2:5 3:5    | 7    | cancel2 | 1x5(0) 2gone(5) 3x2(3) [100:3]                          | 0    | 3:3
         1:5            | 7    | cancel1 | 1gone(5) [100:0]                                        | 7    | -
         1:5 2:5@1      | 7@1  | cancel1 | 1gone(5) [100:0] 2x5(0) [101:0]                         | 2    | -
         1:5 2:5 3:5    | 7    | stop1   | -                                                       | 7    | 1:5 2:5 3:5
         1:5 2:5 3:5    | 7    | stop2   | 1x5(0) [100:10]                                         | 2    | 2:5 3:5
         1:5 2:5@1 3:5@1 | 9@1 | stop2   | 1x5(0) [100:0]                                          | 4    | 2:5@1 3:5@1
         1:5 2:5 3:5    | 7    | both2   | 1x5(0) 2gone(5) [100:5]                                 | 2    | 3:5
         1:5 2:5        | 7    | both1   | 1gone(5) [100:5]                                        | 7    | 2:5
         1:5            | 7    | both1   | 1gone(5) [100:0]                                        | 7    | -
         1:3+7/3 2:5    | 7    | cancel1 | 1gone(10) 2x5(0) [100:0]                                | 2    | -
         1:3+7/3 2:5    | 7    | stop2   | 1x3(7) [100:8]                                          | 4    | 2:5 1:3+4/3
         1:3+7/3 2:5    | 20   | cancel2 | 1x3(7) 2gone(5) 1x3(4) 1x3(1) 1x1(0) [100:0]            | 10   | -
         1:3 2:4@1 3:5@1 | 8@1 | cancel1 cancel2 | 1gone(3) [100:0] 2gone(4) 3x5(0) [101:0]        | 3    | -",
        check_sweep,
    );
}

#[test]
fn reduced_iceberg_loses_undisplayed_lots_first() {
    each_row(
        // resting        | order 1 to | resting after
        "1:3+7/3 2:4      | 9          | 1:3+6/3 2:4
         1:3+7/3 2:4      | 3          | 1:3+0/3 2:4
         1:3+7/3 2:4      | 2          | 1:2+0/3 2:4
         1:5 2:4          | 2          | 1:2 2:4
         1:5 2:4          | 5          | 1:5 2:4",
        |row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [before, open, after] = cells[..] else { panic!("three cells: {row}") };
            let (mut book, slots) = book_of(before);
            let lots = book.reduce(slots[0], number(open), 77);
            assert_eq!(Lots(lots), book.lots_at(Side::Sell, Ticks(100)), "{row}");
            assert_eq!(show(&book), after, "{row}");
            let order = book.get(slots[0]);
            assert_eq!((order.total_open(), order.ordered), (number(open), 77), "{row}");
        },
    );
}

#[test]
fn queue_ahead_is_displayed_and_earlier() {
    each_row(
        // resting                   | ahead of each, as written
        "1:5 2:4 3:1                 | 0 5 9
         1:3+7/3 2:4 3:1             | 0 3 7
         1:5 2:4@1 3:1 4:2@1         | 0 0 5 4",
        |row| {
            let (before, ahead) = row.split_once('|').unwrap();
            let (book, slots) = book_of(before);
            let got: Vec<u64> = slots.iter().map(|slot| book.queue_ahead(*slot).unwrap()).collect();
            assert_eq!(got, words(ahead).map(number).collect::<Vec<u64>>(), "{row}");
        },
    );
}

#[test]
fn refreshed_part_waits_behind_earlier_orders() {
    let (mut book, slots) = book_of("1:3+7/3 2:4");
    book.sweep(Side::Buy, None, 3, &mut RecordingPolicy { policy: "", reported: Vec::new() });
    assert_eq!([0, 1].map(|at| book.queue_ahead(slots[at])), [Some(4), Some(0)]);
}

#[test]
fn queue_ahead_of_the_last_order_shrinks_with_fills() {
    let (mut book, slots) = book_of("1:5 2:4@1 3:6 4:2@1");
    book.reduce(slots[0], 3, 9);
    let ahead = |book: &Venue| [2, 3].map(|at| book.queue_ahead(slots[at]).unwrap());
    assert_eq!(ahead(&book), [3, 4], "the last of each of two levels");
    // At 100, the first order fills completely and the last one partially.
    book.sweep(Side::Buy, Some(Ticks(100)), 4, &mut RecordingPolicy { policy: "", reported: Vec::new() });
    assert_eq!(ahead(&book), [0, 4]);
    book.remove(slots[1]);
    assert_eq!(ahead(&book), [0, 0]);
}

#[test]
fn fill_estimate_counts_undisplayed_lots() {
    let (book, _) = book_of("1:3+7/3 2:4@2 3:1+9/1@5");
    //  lots, cost, found
    for (lots, cost, found) in [(3, 300, 3), (10, 1000, 10), (12, 1204, 12), (20, 1408 + 6 * 105, 20), (99, 2458, 24)] {
        let reach = book.estimate_fill(Side::Buy, None, lots, |_, _| MakerAction::Trade);
        assert_eq!((reach.tick_lots, reach.lots), (cost, found), "{lots} lots");
    }
    for (lots, worst) in [(10, 100), (11, 102), (14, 102), (15, 105), (99, 105)] {
        assert_eq!(
            book.estimate_fill(Side::Buy, None, lots, |_, _| MakerAction::Trade).worst,
            Some(Ticks(worst)),
            "{lots} lots"
        );
    }
}

#[test]
fn removed_iceberg_leaves_no_reserve_in_its_slot() {
    let (mut book, slots) = book_of("1:3+7/3 2:4");
    let (order, lots) = book.remove(slots[0]);
    assert_eq!((order.open, order.hidden, order.display, order.total_open(), lots), (3, 7, 3, 10, 4));
    let (slot, _) = book.rest(parse("9:6"), origin(9));
    assert_eq!(slot, slots[0], "the slot is used again");
    assert_eq!(show(&book), "2:4 9:6");
    assert_eq!(book.origin(slot), origin(9));
}

#[test]
fn orders_are_found_by_origin() {
    let (mut book, slots) = book_of("4:1 1:1@3 3:2+5/2 2:1 5:9@1");
    let of_session_1: Vec<u64> =
        book.slots_of(|_, from| from.session == SessionId(1)).iter().map(|(id, _)| id.0).collect();
    assert_eq!(of_session_1, [1, 3, 5], "in the order of entry");
    book.set_origin(slots[0], OrderOrigin { session: SessionId(1), ..origin(4) });
    let dropped = book.slots_of(|order, from| from.session == SessionId(1) && order.open == 1);
    assert_eq!(dropped, [(OrderId(1), slots[1]), (OrderId(4), slots[0])]);
}

#[test]
fn deducted_iceberg_displays_its_next_part_at_the_tail_or_in_place() {
    each_row(
        // resting        | order 1 trades, shows anew: at the back, where it is | resting after: at
        //                the back | where it is
        "1:3+7/3 2:4      | 2  | 0 | 3 | 1:1+7/3 2:4 | 1:3+5/3 2:4
         1:3+7/3 2:4      | 3  | 3 | 3 | 2:4 1:3+4/3 | 1:3+4/3 2:4
         1:3+7/3 2:4      | 8  | 2 | 2 | 2:4 1:2+0/3 | 1:2+0/3 2:4
         1:2+0/3 2:4      | 1  | 0 | 0 | 1:1+0/3 2:4 | 1:1+0/3 2:4
         1:3+7/3 2:4      | 10 | 0 | 0 | 2:4         | 2:4
         1:5 2:4          | 2  | 0 | 0 | 1:3 2:4     | 1:3 2:4
         1:5 2:4          | 5  | 0 | 0 | 2:4         | 2:4
         1:5              | 5  | 0 | 0 | -           | -",
        |row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [before, lots, anew, anew_in_place, after, after_in_place] = cells[..] else {
                panic!("six cells: {row}")
            };
            for (in_place, anew, after) in [(false, anew, after), (true, anew_in_place, after_in_place)] {
                let (mut book, slots) = book_of(before);
                let whole = book.total_open(slots[0]);
                let reported = if in_place {
                    book.deduct_in_place(slots[0], number(lots))
                } else {
                    book.deduct(slots[0], number(lots))
                };
                assert_eq!(show(&book), after, "{row}");
                assert_eq!((reported.left, reported.refreshed), (whole - number::<u32>(lots), number(anew)), "{row}");
                assert_eq!(Lots(reported.level), book.lots_at(Side::Sell, Ticks(100)), "{row}");
            }
        },
    );
}

#[test]
fn visit_levels_visits_every_order_by_price_and_time() {
    // More prices than are read at once, with queues of different length.
    let mut book = Venue::new();
    let mut want = Vec::new();
    for at in 0..40_u64 {
        let times = 1 + at * at % 7;
        for time in 0..times {
            let id = at * 100 + time;
            let mut order = parse(&format!("{}:2+{time}/2@{at}", id + 1));
            order.id = OrderId(id);
            book.rest(order, OrderOrigin { time: id, ..OrderOrigin::default() });
            want.push((100 + at.cast_signed(), id, 2 + u32::try_from(time).unwrap()));
        }
    }
    let mut seen = Vec::new();
    book.visit_levels(Side::Sell, |price, orders| {
        seen.extend(orders.iter().map(|order| (price.0, order.id.0, order.open)));
        assert!(orders.iter().all(|order| order.time == order.id.0));
        true
    });
    assert_eq!(seen, want);
    let mut prices = 0;
    book.visit_levels(Side::Sell, |_, _| {
        prices += 1;
        prices < 5
    });
    assert_eq!(prices, 5, "it stops on request");
}

#[test]
fn queue_ahead_visits_a_bounded_number_of_orders() {
    const STEPS: usize = super::queries::MAX_QUEUE_STEPS;
    let mut book = Venue::new();
    let resting = (1..=3 * STEPS).map(|id| format!("{id}:2"));
    let slots: Vec<Slot> = resting.map(|cell| book.rest(parse(&cell), origin(0)).0).collect();
    let ahead = |at: usize| book.queue_ahead(slots[at]);
    assert_eq!([0, STEPS].map(ahead), [Some(0), Some(2 * STEPS as u64)], "counted from the front");
    assert_eq!([2 * STEPS - 1, 3 * STEPS - 1].map(ahead), [2 * STEPS - 1, 3 * STEPS - 1].map(|at| Some(2 * at as u64)));
    assert_eq!(ahead(STEPS + STEPS / 2), None, "far from both ends");
}
