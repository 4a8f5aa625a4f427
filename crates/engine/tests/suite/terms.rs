//! Tables of order terms: post-only, fill or kill, icebergs, self-match prevention. The expected
//! values were derived from the order rules by hand, not copied from a run of the engine.
//! `common/engines.rs` explains the rows.

use crate::common::rows::{EnginePair, check};
use crate::common::world::NPN_ZAR;
use pitwire_model::{
    CancelReason, Command, Event, Lots, MatchGroup, NewOrder, OrderId, OrderType, PostOnly, SelfMatch, SessionId, Side,
    Ticks,
};

#[test]
fn post_only_order_never_trades_on_entry() {
    // given              | when                    | then                            | bids
    //                        | asks
    check(
        "
        a sell 5@101      | x buy 2@100 post        | -                               | x 2@100          | a 5@101
        a sell 5@101      | x buy 2@101 post        | refused post_only_would_trade   | -                | a 5@101
        a sell 5@101      | x buy 2@999 post        | refused post_only_would_trade   | -                | a 5@101
        a sell 5@101      | x buy 2@101 reprice     | -                               | x 2@100          | a 5@101
        a sell 5@101      | x buy 2@999 reprice day | -                               | x 2@100          | a 5@101
        a sell 5@101      | x buy 2@90 reprice      | -                               | x 2@90           | a 5@101
        a buy 5@101       | x sell 2@102 post       | -                               | a 5@101          | x 2@102
        a buy 5@101       | x sell 2@101 post       | refused post_only_would_trade   | a 5@101          | -
        a buy 5@101       | x sell 2@1 reprice      | -                               | a 5@101          | x 2@102
        -                 | x buy 2@101 post        | -                               | x 2@101          | -
        -                 | x sell 2@101 reprice    | -                               | -                | x 2@101
        a sell 5@101 show 1 | x buy 2@101 reprice   | -                               | x 2@100          | a 1+4@101",
    );
}

#[test]
fn repriced_post_only_price_stays_in_range() {
    check("
        a sell 5@1          | x buy 2@1 reprice          | refused post_only_no_place    | -                | a 5@1
        a sell 5@1          | x buy 2@1 post             | refused post_only_would_trade | -                | a 5@1
        a sell 5@2          | x buy 2@2 reprice          | -                             | x 2@1            | a 5@2
        a buy 5@4294967295  | x sell 2@4294967295 reprice | refused post_only_no_place   | a 5@4294967295   | -
        a buy 5@4294967294  | x sell 2@1 reprice         | -                             | a 5@4294967294   | x 2@4294967295");
}

#[test]
fn post_only_and_display_need_an_order_that_may_rest() {
    check(
        "
        - | x buy 2@101 ioc post       | refused post_only_not_allowed | - | -
        - | x buy 2@101 fok reprice    | refused post_only_not_allowed | - | -
        - | x buy 2 market post        | refused post_only_not_allowed | - | -
        - | x buy 2@101 ioc show 1     | refused display_out_of_range  | - | -
        - | x buy 2 market show 1      | refused display_out_of_range  | - | -
        - | x buy 2@101 show 0         | refused display_out_of_range  | - | -
        - | x buy 2@101 show 3         | refused display_out_of_range  | - | -
        - | x buy 2@101 ioc post show 9 | refused display_out_of_range  | - | -
        - | x buy 2@101 show 4294967298 | refused display_out_of_range | - | -
        a sell 1@101 | x buy 2@101 post show 3 | refused display_out_of_range | - | a 1@101
        - | x buy 2@101 show 2         | -                             | x 2@101 | -
        - | x buy 2@101 day show 1     | -                             | x 1+1@101 | -
        - | x buy 0@101 show 3         | refused quantity_out_of_range | - | -",
    );
}

/// The event `Accepted` has the price at which the order rests.
#[test]
fn repriced_order_is_accepted_at_its_final_price() {
    let mut engines = EnginePair::new(100, 1_000_000);
    engines.run("a sell 5@101");
    let events = engines.apply(Command::Enter(NewOrder {
        id: OrderId(2),
        instrument: NPN_ZAR,
        side: Side::Buy,
        order_type: OrderType::Limit { price: Ticks(500) },
        lots: Lots(3),
        post_only: PostOnly::Reprice,
        session: SessionId(4),
        ..NewOrder::PLAIN
    }));
    let [Event::Accepted { order_type, .. }, Event::Level { price, .. }, Event::BookChanged { .. }] = events[..] else {
        panic!("{events:#?}")
    };
    assert_eq!((order_type, price), (OrderType::Limit { price: Ticks(100) }, Ticks(100)));
    let view = engines.engine().order(OrderId(2)).expect("it rests");
    assert_eq!((view.price, view.session), (Ticks(100), SessionId(4)));
    assert_eq!(engines.engine().last_session(), SessionId(4));
}

#[test]
fn post_only_amend_follows_the_rules_of_an_order() {
    check(
        "
        a sell 5@105, b buy 2@100 | amend b 2@105 post    | refused post_only_would_trade | b 2@100 | a 5@105
        a sell 5@105, b buy 2@100 | amend b 2@104 post    | b requeues 2                  | b 2@104 | a 5@105
        a sell 5@105, b buy 2@100 | amend b 2@200 reprice | b requeues 2                  | b 2@104 | a 5@105
        a sell 5@2, b buy 2@1, c buy 1@1 | amend b 2@2 reprice | b keeps 2               | b 2@1, c 1@1 | a 5@2
        a sell 5@2, b buy 2@1, c buy 1@1 | amend b 3@2 reprice | b requeues 3            | c 1@1, b 3@1 | a 5@2",
    );
}

#[test]
fn fill_or_kill_fills_completely_or_changes_nothing() {
    const OFFERS: &str = "a sell 3@100, b sell 2@101, c sell 4@102";
    check(&format!("
        {OFFERS} | x buy 5@101 fok       | a 3@100, b 2@101          | - | c 4@102
        {OFFERS} | x buy 6@101 fok       | x 6 killed                | - | a 3@100, b 2@101, c 4@102
        {OFFERS} | x buy 3@100 fok       | a 3@100                   | - | b 2@101, c 4@102
        {OFFERS} | x buy 4@100 fok       | x 4 killed                | - | a 3@100, b 2@101, c 4@102
        {OFFERS} | x buy 9@102 fok       | a 3@100, b 2@101, c 4@102 | - | -
        {OFFERS} | x buy 10@102 fok      | x 10 killed               | - | a 3@100, b 2@101, c 4@102
        {OFFERS} | x buy 9 market fok    | a 3@100, b 2@101, c 4@102 | - | -
        {OFFERS} | x buy 10 market fok   | x 10 killed               | - | a 3@100, b 2@101, c 4@102
        {OFFERS} | x sell 1@1 fok        | x 1 killed                | - | a 3@100, b 2@101, c 4@102
        a sell 10@100 show 2 | x buy 10@100 fok | a 2@100, a shows 2, a 2@100, a shows 2, a 2@100, a shows 2, a 2@100, a shows 2, a 2@100 | - | -
        a sell 10@100 show 2 | x buy 11@100 fok | x 11 killed               | - | a 2+8@100"));
}

#[test]
fn killed_fill_or_kill_order_changes_no_book() {
    let mut engines = EnginePair::new(100, 1_000_000);
    engines.run("a sell 3@100");
    let before = engines.engine().market(NPN_ZAR).expect("defined").change_id();
    let events = engines.apply(Command::Enter(NewOrder {
        id: OrderId(2),
        instrument: NPN_ZAR,
        order_type: OrderType::Limit { price: Ticks(100) },
        lots: Lots(4),
        tif: pitwire_model::TimeInForce::FillOrKill,
        ..NewOrder::PLAIN
    }));
    assert!(matches!(events[..], [Event::Accepted { .. }, Event::Cancelled { open: Lots(4), price: Ticks(100), .. }]));
    assert_eq!(engines.engine().market(NPN_ZAR).expect("defined").change_id(), before);
}

#[test]
fn fill_or_kill_skips_orders_blocked_by_self_match_prevention() {
    // The own order is first in the queue, or between orders of others.
    const OWN_FIRST: &str = "a sell 3@100 guarded, b sell 5@100 by 1";
    const OWN_SECOND: &str = "a sell 5@100 by 1, b sell 3@100 guarded, c sell 5@101 by 1";
    const HIDING: &str = "a sell 6@100 by 1 show 2, b sell 3@100 guarded, c sell 5@100 by 1";
    check(&format!("
        {OWN_FIRST}  | x buy 5@100 fok guarded takes resting  | a 3 meets itself, b 5@100           | - | -
        {OWN_FIRST}  | x buy 6@100 fok guarded takes resting  | x 6 killed                          | - | a 3@100, b 5@100
        {OWN_FIRST}  | x buy 1@100 fok guarded takes incoming | x 1 killed                          | - | a 3@100, b 5@100
        {OWN_FIRST}  | x buy 1@100 fok guarded takes both     | x 1 killed                          | - | a 3@100, b 5@100
        {OWN_FIRST}  | x buy 8@100 fok guarded takes none     | a 3@100, b 5@100                    | - | -
        {OWN_FIRST}  | x buy 8@100 fok                        | a 3@100, b 5@100                    | - | -
        {OWN_SECOND} | x buy 5@101 fok guarded takes incoming | a 5@100                             | - | b 3@100, c 5@101
        {OWN_SECOND} | x buy 6@101 fok guarded takes incoming | x 6 killed                          | - | a 5@100, b 3@100, c 5@101
        {OWN_SECOND} | x buy 5@101 fok guarded takes both     | a 5@100                             | - | b 3@100, c 5@101
        {OWN_SECOND} | x buy 5@101 fok guarded takes resting  | a 5@100                             | - | b 3@100, c 5@101
        {OWN_SECOND} | x buy 9@101 fok guarded takes resting  | a 5@100, b 3 meets itself, c 4@101  | - | c 1@101
        {OWN_SECOND} | x buy 11@101 fok guarded takes resting | x 11 killed                         | - | a 5@100, b 3@100, c 5@101
        {HIDING}     | x buy 3@100 fok guarded takes incoming | x 3 killed                          | - | a 2+4@100, b 3@100, c 5@100
        {HIDING}     | x buy 2@100 fok guarded takes incoming | a 2@100, a shows 2                  | - | b 3@100, c 5@100, a 2+2@100
        {HIDING}     | x buy 11@100 fok guarded takes resting | a 2@100, a shows 2, b 3 meets itself, c 5@100, a 2@100, a shows 2, a 2@100 | - | -"));
}

#[test]
fn iceberg_displays_one_part_and_requeues_with_each() {
    check("
        a sell 10@100 show 3                  | x buy 2@100  | a 2@100                    | - | a 1+7@100
        a sell 10@100 show 3                  | x buy 3@100  | a 3@100, a shows 3         | - | a 3+4@100
        a sell 10@100 show 3, b sell 4@100    | x buy 3@100  | a 3@100, a shows 3         | - | b 4@100, a 3+4@100
        a sell 10@100 show 3, b sell 4@100    | x buy 5@100  | a 3@100, a shows 3, b 2@100 | - | b 2@100, a 3+4@100
        a sell 10@100 show 3, b sell 1@100    | x buy 8@100  | a 3@100, a shows 3, b 1@100, a 3@100, a shows 3, a 1@100 | - | a 2+1@100
        a sell 10@100 show 3, b sell 1@100    | x buy 11@100 | a 3@100, a shows 3, b 1@100, a 3@100, a shows 3, a 3@100, a shows 1, a 1@100 | - | -
        a sell 4@100 show 2, b sell 4@100 show 2 | x buy 6@100 | a 2@100, a shows 2, b 2@100, b shows 2, a 2@100 | - | b 2@100
        a sell 4@100 show 4                   | x buy 3@100  | a 3@100                    | - | a 1@100
        a sell 4@100 show 9                   | x buy 3@100  | -                          | x 3@100 | -
        a sell 10@100 show 3                  | cancel a     | a 10 cancelled             | - | -
        a sell 10@100 show 3 day, x buy 4@100 | end day      | a 6 ends                   | - | -");
}

#[test]
fn incoming_iceberg_trades_completely_and_displays_one_part() {
    check(
        "
        a sell 5@100            | x buy 12@100 show 2 | a 5@100          | x 2+5@100 | -
        a sell 5@100            | x buy 6@100 show 2  | a 5@100          | x 1@100   | -
        a sell 5@100            | x buy 5@100 show 2  | a 5@100          | -         | -
        a sell 5@100 show 5, b sell 9@101 | x buy 12@101 show 6 | a 5@100, b 7@101 | - | b 2@101",
    );
}

#[test]
fn reduced_iceberg_gives_up_undisplayed_lots_first() {
    const QUEUE: &str = "a sell 10@100 show 3, b sell 1@100";
    check(&format!(
        "
        {QUEUE} | amend a 8@100           | a keeps 8      | - | a 3+5@100, b 1@100
        {QUEUE} | amend a 3@100           | a keeps 3      | - | a 3@100, b 1@100
        {QUEUE} | amend a 2@100           | a keeps 2      | - | a 2@100, b 1@100
        {QUEUE} | amend a 11@100          | a requeues 11  | - | b 1@100, a 3+8@100
        {QUEUE} | amend a 8@100 show 3    | a keeps 8      | - | a 3+5@100, b 1@100
        {QUEUE} | amend a 8@100 show 4    | a requeues 8   | - | b 1@100, a 4+4@100
        {QUEUE} | amend a 10@100 show 10  | a requeues 10  | - | b 1@100, a 10@100
        {QUEUE} | amend b 1@100 show 1    | b requeues 1   | - | a 3+7@100, b 1@100
        {QUEUE} | amend b 4@100 show 2    | b requeues 4   | - | a 3+7@100, b 2+2@100
        {QUEUE} | amend a 10@100 show 0   | refused display_out_of_range | - | a 3+7@100, b 1@100
        {QUEUE} | amend a 10@100 show 11  | refused display_out_of_range | - | a 3+7@100, b 1@100
        {QUEUE} | replace a 5@100         | a requeues 5   | - | b 1@100, a 3+2@100
        {QUEUE}, x buy 2@100 | amend a 9@100  | a keeps 7    | - | a 1+6@100, b 1@100
        {QUEUE}, x buy 5@100 | amend a 6@100  | a keeps 2    | - | a 2@100
        {QUEUE}, x buy 5@100 | amend a 4@100  | refused amount_already_filled | - | a 2+4@100
        {QUEUE}, x buy 5@100 | amend a 9@99   | a requeues 5 | - | a 3+2@99"
    ));
}

#[test]
fn queue_ahead_counts_displayed_lots() {
    let mut engines = EnginePair::new(100, 1_000_000);
    engines.run("a sell 10@100 show 3, b sell 4@100, c sell 1@100, d sell 1@99");
    let ahead = |engines: &EnginePair, order| engines.engine().queue_ahead(OrderId(order)).map(|lots| lots.0);
    assert_eq!([1, 2, 3, 4, 9].map(|order| ahead(&engines, order)), [Some(0), Some(3), Some(7), Some(0), None]);
    engines.run("x buy 1@99, x buy 3@100");
    assert_eq!([1, 2, 3].map(|order| ahead(&engines, order)), [Some(5), Some(0), Some(4)]);
    let view = engines.engine().order(OrderId(1)).expect("it rests");
    assert_eq!((view.open, view.shown, view.display), (Lots(7), Lots(3), Some(Lots(3))));
}

#[test]
fn self_match_prevention_cancels_one_both_or_none() {
    const OWN: &str = "a sell 3@100 guarded, b sell 5@100 by 1, c sell 2@101 guarded";
    check(&format!("
        {OWN} | x buy 4@101 guarded                    | a 3 meets itself, b 4@100                              | - | b 1@100, c 2@101
        {OWN} | x buy 9@101 guarded takes resting      | a 3 meets itself, b 5@100, c 2 meets itself            | x 4@101 | -
        {OWN} | x buy 9@101 guarded ioc takes resting  | a 3 meets itself, b 5@100, c 2 meets itself, x 4 expires | - | -
        {OWN} | x buy 4@101 guarded takes incoming     | x 4 meets itself                                       | - | a 3@100, b 5@100, c 2@101
        {OWN} | x buy 4@101 guarded takes both         | a 3 meets itself, x 4 meets itself                     | - | b 5@100, c 2@101
        {OWN} | x buy 4@101 guarded takes none         | a 3@100, b 1@100                                       | - | b 4@100, c 2@101
        {OWN}, cancel a | x buy 9@101 guarded takes incoming | b 5@100, x 4 meets itself                        | - | c 2@101
        {OWN}, cancel a | x buy 9@101 guarded takes both | b 5@100, c 2 meets itself, x 4 meets itself          | - | -
        {OWN}, cancel a | x buy 9 market guarded takes both | b 5@100, c 2 meets itself, x 4 meets itself       | - | -
        {OWN} | x buy 4@101                            | a 3@100, b 1@100                                       | - | b 4@100, c 2@101
        {OWN} | x buy 4@101 guarded by 2               | a 3@100, b 1@100                                       | - | b 4@100, c 2@101
        a sell 9@100 show 2 guarded | x buy 4@100 guarded | a 9 meets itself                                    | x 4@100 | -"));
}

#[test]
fn match_group_is_a_key_an_account_or_none() {
    check(
        "
        a sell 3@100 group 7         | x buy 3@100 group 7            | a 3 meets itself | x 3@100 | -
        a sell 3@100 group 7 by 1    | x buy 3@100 group 7 by 2       | a 3 meets itself | x 3@100 | -
        a sell 3@100 group 7         | x buy 3@100 group 8            | a 3@100          | -       | -
        a sell 3@100 group 0         | x buy 3@100 group 0 by 1       | a 3 meets itself | x 3@100 | -
        a sell 3@100 group 0         | x buy 3@100 guarded            | a 3@100          | -       | -
        a sell 3@100 group 7         | x buy 3@100 guarded            | a 3@100          | -       | -
        a sell 3@100 guarded         | x buy 3@100 group 7            | a 3@100          | -       | -
        a sell 3@100                 | x buy 3@100 guarded            | a 3@100          | -       | -
        a sell 3@100 guarded         | x buy 3@100                    | a 3@100          | -       | -",
    );
}

#[test]
fn account_setting_applies_without_an_order_setting() {
    check("
        set account 0 takes incoming, a sell 3@100 guarded | x buy 3@100 guarded                | x 3 meets itself | - | a 3@100
        set account 0 takes both, a sell 3@100 guarded     | x buy 3@100 guarded                | a 3 meets itself, x 3 meets itself | - | -
        set account 0 takes none, a sell 3@100 guarded     | x buy 3@100 guarded                | a 3@100 | - | -
        set account 0 takes none, a sell 3@100 guarded     | x buy 3@100 guarded takes incoming | x 3 meets itself | - | a 3@100
        set account 0 takes both, a sell 3@100 guarded     | x buy 3@100 guarded takes none     | a 3@100 | - | -");
}

/// An amend uses the self-match mode of the account. The mode of the order at its entry is ignored.
#[test]
fn crossing_amend_is_subject_to_self_match_prevention() {
    const BOTH_SIDES: &str = "a sell 3@105 guarded, b buy 4@100 guarded takes none";
    check(&format!("
        {BOTH_SIDES} | amend b 4@105 | b requeues 4, a 3 meets itself | b 4@105 | -
        set account 0 takes incoming, {BOTH_SIDES} | amend b 4@105 | b requeues 4, b 4 meets itself | - | a 3@105
        set account 0 takes both, {BOTH_SIDES} | amend b 4@105 | b requeues 4, a 3 meets itself, b 4 meets itself | - | -
        set account 0 takes none, {BOTH_SIDES} | amend b 4@105 | b requeues 4, a 3@105 | b 1@105 | -"));
}

/// The events come in this order: cancel of the resting order, its level, cancel of the incoming
/// order.
#[test]
fn cancel_both_emits_the_level_between_the_cancels() {
    let mut engines = EnginePair::new(100, 1_000_000);
    engines.run("a sell 2@100 by 1, b sell 3@100 guarded");
    let events = engines.apply(Command::Enter(NewOrder {
        id: OrderId(9),
        instrument: NPN_ZAR,
        order_type: OrderType::Limit { price: Ticks(105) },
        lots: Lots(6),
        self_match: Some(SelfMatch::CancelBoth),
        match_group: MatchGroup::Account,
        ..NewOrder::PLAIN
    }));
    let [
        Event::Accepted { .. },
        Event::Trade { maker: OrderId(1), .. },
        Event::Cancelled { order: OrderId(2), open: Lots(3), .. },
        Event::Level { side: Side::Sell, price: Ticks(100), lots: Lots(0), .. },
        Event::Cancelled { order: OrderId(9), price: Ticks(105), open: Lots(4), .. },
        Event::BookChanged { .. },
    ] = events[..]
    else {
        panic!("{events:#?}")
    };
}

/// Returns the events of a market order. The book has one order, of the same account.
fn met_own_order(mode: SelfMatch) -> Vec<Event> {
    let mut engines = EnginePair::new(100, 1_000_000);
    engines.run("a sell 3@100 guarded");
    engines.apply(Command::Enter(NewOrder {
        id: OrderId(9),
        instrument: NPN_ZAR,
        lots: Lots(6),
        self_match: Some(mode),
        ..NewOrder::PLAIN
    }))
}

/// The order never enters the book, so the public feed gets no event and no change number.
#[test]
fn order_stopped_at_once_by_self_match_changes_nothing_public() {
    let events = met_own_order(SelfMatch::CancelIncoming);
    let [Event::Accepted { .. }, Event::Cancelled { order: OrderId(9), price: Ticks(0), .. }] = events[..] else {
        panic!("{events:#?}")
    };
}

/// No order traded and none rests, but a public price level is gone. This is a numbered change of
/// the book.
#[test]
fn self_match_cancel_without_a_trade_changes_the_book() {
    let events = met_own_order(SelfMatch::CancelResting);
    let [
        Event::Accepted { .. },
        Event::Cancelled { order: OrderId(1), .. },
        Event::Level { lots: Lots(0), .. },
        Event::Cancelled { order: OrderId(9), open: Lots(6), reason: CancelReason::ImmediateRemainder, .. },
        Event::BookChanged { .. },
    ] = events[..]
    else {
        panic!("{events:#?}")
    };
}
