//! The rules of the market as tables. Each test is one invariant. The expected values of a row come
//! from the rulebook, not from a run of the engine. `common/engines.rs` explains the rows.

use crate::common::rows::{EnginePair, check};
use crate::common::world::NPN_ZAR;
use pitwire_model::{
    AccountId, Command, Event, Lots, MatchGroup, NewOrder, OrderId, OrderType, Side, Ticks, TimeInForce, TradeSeq,
};

#[test]
fn cancel_of_head_middle_or_last_keeps_the_others() {
    // given                                           | when             | then          | bids
    //                                                                 | asks
    check("
        a buy 1@100, b buy 2@100, c buy 3@100          | cancel a         | a 1 cancelled | b 2@100, c 3@100         | -
        a buy 1@100, b buy 2@100, c buy 3@100          | cancel b         | b 2 cancelled | a 1@100, c 3@100         | -
        a buy 1@100, b buy 2@100, c buy 3@100          | cancel c         | c 3 cancelled | a 1@100, b 2@100         | -
        a buy 1@100, b buy 2@99, c buy 3@98, d buy 4@97 | cancel b, cancel d | b 2 cancelled, d 4 cancelled | a 1@100, c 3@98 | -
        a sell 1@100, b sell 2@100, c sell 3@100       | cancel b, x buy 9@100 | b 2 cancelled, a 1@100, c 3@100 | x 5@100 | -
        a sell 1@100                                   | cancel a         | a 1 cancelled | -                        | -");
}

#[test]
fn price_goes_before_time_and_time_within_a_price() {
    check("
        a sell 1@101, b sell 1@100, c sell 1@100 | x buy 3@101 | b 1@100, c 1@100, a 1@101 | - | -
        a buy 1@100, b buy 1@101, c buy 1@101    | x sell 3@100 | b 1@101, c 1@101, a 1@100 | - | -
        a sell 5@100, b sell 5@100               | x buy 2@100, y buy 2@100, z buy 2@100 | a 2@100, a 2@100, a 1@100, b 1@100 | - | b 4@100");
}

#[test]
fn sweep_goes_best_first_and_an_exact_boundary_leaves_nothing() {
    const OFFERS: &str = "a sell 3@100, b sell 2@101, c sell 4@101, d sell 5@102";
    check(&format!("
        {OFFERS} | x buy 2@102  | a 2@100                                    | -       | a 1@100, b 2@101, c 4@101, d 5@102
        {OFFERS} | x buy 3@102  | a 3@100                                    | -       | b 2@101, c 4@101, d 5@102
        {OFFERS} | x buy 4@102  | a 3@100, b 1@101                           | -       | b 1@101, c 4@101, d 5@102
        {OFFERS} | x buy 9@102  | a 3@100, b 2@101, c 4@101                  | -       | d 5@102
        {OFFERS} | x buy 13@102 | a 3@100, b 2@101, c 4@101, d 4@102         | -       | d 1@102
        {OFFERS} | x buy 14@102 | a 3@100, b 2@101, c 4@101, d 5@102         | -       | -
        {OFFERS} | x buy 15@102 | a 3@100, b 2@101, c 4@101, d 5@102         | x 1@102 | -
        a buy 3@102, b buy 2@101 | x sell 5@101 | a 3@102, b 2@101           | -       | -
        a buy 3@102, b buy 2@101 | x sell 6@101 | a 3@102, b 2@101           | -       | x 1@101"));
}

#[test]
fn residual_becomes_the_touch_and_is_fillable() {
    check(
        "
        a sell 3@100, b sell 5@103, x buy 5@100  | y sell 2@100 | x 2@100          | -       | b 5@103
        a sell 3@100, b sell 5@103, x buy 5@101  | y sell 1@100 | x 1@101          | x 1@101 | b 5@103
        a buy 3@100, b buy 5@97, x sell 5@99     | y buy 2@103  | x 2@99           | b 5@97  | -
        a buy 3@100, b buy 5@97, x sell 5@99     | y buy 3@103  | x 2@99           | y 1@103, b 5@97 | -",
    );
}

#[test]
fn marketable_limit_never_walks_past_its_limit() {
    check("
        a sell 1@100, b sell 1@101, c sell 1@102 | x buy 9@101      | a 1@100, b 1@101              | x 7@101 | c 1@102
        a sell 1@100, b sell 1@101, c sell 1@102 | x buy 9@101 ioc  | a 1@100, b 1@101, x 7 expires | -       | c 1@102
        a sell 1@100                             | x buy 9@99       | -                             | x 9@99  | a 1@100
        a buy 1@100, b buy 1@99, c buy 1@98      | x sell 9@99      | a 1@100, b 1@99               | c 1@98  | x 7@99
        a buy 1@100                              | x sell 9@101     | -                             | a 1@100 | x 9@101");
}

#[test]
fn time_in_force_decides_what_rests() {
    check(
        "
        a sell 5@101 | x buy 8@102 day     | a 5@101               | x 3@102 | -
        a sell 5@103 | x buy 8@102 day     | -                     | x 8@102 | a 5@103
        a sell 5@101 | x buy 8@102 ioc     | a 5@101, x 3 expires  | -       | -
        a sell 5@101 | x buy 5@102 ioc     | a 5@101               | -       | -
        a sell 5@101 | x buy 4@102 ioc     | a 4@101               | -       | a 1@101
        a sell 5@103 | x buy 8@102 ioc     | x 8 expires           | -       | a 5@103
        -            | x buy 8@102 ioc     | x 8 expires           | -       | -
        a sell 5@101, b sell 5@9000 | x buy 8 market | a 5@101, b 3@9000 | - | b 2@9000
        a buy 5@101, b buy 5@1      | x sell 11 market day | a 5@101, b 5@1, x 1 expires | - | -
        -            | x sell 8 market     | x 8 expires           | -       | -",
    );
}

#[test]
fn partial_fill_keeps_the_makers_place() {
    check("
        a buy 5@100, b buy 5@100, x sell 2@100          | y sell 4@100 | a 3@100, b 1@100 | b 4@100 | -
        a buy 5@100, b buy 5@100, x sell 2@100, c buy 1@100 | y sell 1@100 | a 1@100      | a 2@100, b 5@100, c 1@100 | -");
}

#[test]
fn partial_residual_can_be_cancelled_and_amended() {
    check("
        a buy 5@100, x sell 2@100            | cancel a       | a 3 cancelled       | -                | -
        a buy 5@100, b buy 1@100, x sell 2@100 | amend a 4@100 | a keeps 2          | a 2@100, b 1@100 | -
        a buy 5@100, b buy 1@100, x sell 2@100 | amend a 6@100 | a requeues 4       | b 1@100, a 4@100 | -
        a buy 5@100, x sell 2@100            | amend a 3@100  | a keeps 1           | a 1@100          | -
        a buy 5@100, x sell 2@100            | amend a 2@100  | refused amount_already_filled | a 3@100 | -
        a buy 5@100, x sell 2@100            | amend a 1@100  | refused amount_already_filled | a 3@100 | -
        a buy 5@100, x sell 2@100            | replace a 1@100, amend a 2@100 | a requeues 1, refused amount_already_filled | a 1@100 | -
        a buy 5@100, x sell 2@100            | replace a 5@99, amend a 3@99 | a requeues 5, a keeps 1 | a 1@99 | -");
}

#[test]
fn amend_keeps_its_place_only_when_it_shrinks_at_its_price() {
    const QUEUE: &str = "a buy 5@100, b buy 5@100";
    check(&format!(
        "
        {QUEUE} | amend a 4@100   | a keeps 4    | a 4@100, b 5@100 | -
        {QUEUE} | amend a 5@100   | a keeps 5    | a 5@100, b 5@100 | -
        {QUEUE} | amend a 6@100   | a requeues 6 | b 5@100, a 6@100 | -
        {QUEUE} | amend a 4@101   | a requeues 4 | a 4@101, b 5@100 | -
        {QUEUE} | amend a 4@99    | a requeues 4 | b 5@100, a 4@99  | -
        {QUEUE} | replace a 4@100 | a requeues 4 | b 5@100, a 4@100 | -
        {QUEUE} | amend a 6@101, amend a 5@100 | a requeues 6, a requeues 5 | b 5@100, a 5@100 | -"
    ));
}

#[test]
fn amend_that_crosses_trades_at_the_makers_price_in_both_directions() {
    check(
        "
        a buy 5@100, b sell 3@105                  | amend a 5@105  | a requeues 5, b 3@105          | a 2@105 | -
        a buy 5@100, b sell 3@105                  | amend a 5@110  | a requeues 5, b 3@105          | a 2@110 | -
        a buy 5@100, b sell 3@105, c sell 2@106    | amend a 5@106  | a requeues 5, b 3@105, c 2@106 | -       | -
        a buy 5@100, b sell 3@105                  | amend b 3@100  | b requeues 3, a 3@100          | a 2@100 | -
        a buy 5@100, b sell 3@105                  | amend b 9@90   | b requeues 9, a 5@100          | -       | b 4@90
        a buy 5@100, b sell 3@105, x sell 2@100    | amend a 5@105  | a requeues 3, b 3@105          | -       | -
        a buy 5@100, b sell 3@105, x sell 2@100    | replace a 5@105 | a requeues 5, b 3@105         | a 2@105 | -",
    );
}

#[test]
fn amend_of_one_sibling_keeps_the_other() {
    check(
        "
        a buy 5@100, b buy 5@100 by 1 | amend b 5@101 by 1      | b requeues 5            | b 5@101, a 5@100 | -
        a buy 5@100, b buy 5@100      | amend a 2@100, x sell 3@100 | a keeps 2, a 2@100, b 1@100 | b 4@100  | -
        a buy 5@100, b sell 5@101     | amend a 6@100           | a requeues 6            | a 6@100          | b 5@101",
    );
}

#[test]
fn cancel_or_amend_after_a_full_fill_is_refused() {
    check(
        "
        a buy 5@100, x sell 5@100 | cancel a       | refused unknown_order | - | -
        a buy 5@100, x sell 5@100 | amend a 9@100  | refused unknown_order | - | -
        a buy 5@100, x sell 5@100 | cancel x       | refused unknown_order | - | -
        a buy 5@100, cancel a     | cancel a       | refused unknown_order | - | -
        x buy 5@100 ioc           | cancel x       | refused unknown_order | - | -",
    );
}

#[test]
fn never_issued_id_is_refused_on_an_empty_book() {
    check(
        "
        - | cancel a        | refused unknown_order | - | -
        - | amend a 1@100   | refused unknown_order | - | -
        - | replace a 1@100 | refused unknown_order | - | -
        - | cancel all      | -                     | - | -",
    );
}

#[test]
fn ids_are_unique_among_live_orders_and_reusable_after() {
    check(
        "
        a buy 5@100               | a sell 5@101 | refused duplicate_order_id | a 5@100 | -
        a buy 5@100               | a sell 5@100 ioc | refused duplicate_order_id | a 5@100 | -
        a buy 5@100, cancel a     | a sell 5@101 | -                          | -       | a 5@101
        a buy 5@100, x sell 5@100 | a sell 5@101 | -                          | -       | a 5@101
        a buy 5@100, x sell 4@100 | a sell 5@101 | refused duplicate_order_id | a 1@100 | -",
    );
}

#[test]
fn best_price_is_right_after_the_best_level_empties_without_a_trade() {
    check(
        "
        a buy 5@101, b buy 5@100, cancel a        | x sell 2@99  | b 2@100 | b 3@100 | -
        a sell 5@101, b sell 5@102, amend a 5@103 | x buy 2@103  | b 2@102 | -       | b 3@102, a 5@103
        a sell 5@101, b sell 5@102, cancel a      | x buy 2@101  | -       | x 2@101 | b 5@102
        a sell 5@101 day, b sell 5@102, end day   | x buy 2@101  | -       | x 2@101 | b 5@102
        a sell 5@101, b sell 5@90000, cancel a    | x buy 2@89999 | -      | x 2@89999 | b 5@90000
        a buy 5@90000, b buy 5@7, cancel a        | x sell 1@8   | -       | b 5@7   | x 1@8",
    );
}

#[test]
fn prices_at_the_ends_of_the_range_are_ordinary_prices() {
    check(
        "
        a sell 2@4294967295, b buy 1@1 | x buy 1@4294967295    | a 1@4294967295   | b 1@1   | a 1@4294967295
        a sell 2@4294967295, b buy 1@1 | x sell 1@1            | b 1@1            | -       | a 2@4294967295
        a buy 2@4294967295             | x sell 1@1            | a 1@4294967295   | a 1@4294967295 | -
        a sell 2@1                     | x buy 3@4294967295    | a 2@1            | x 1@4294967295 | -
        a buy 2@4294967294             | x sell 1@4294967295   | -                | a 2@4294967294 | x 1@4294967295
        a sell 2@4294967295, b sell 2@1 | x buy 4 market       | b 2@1, a 2@4294967295 | -  | -
        -                              | x buy 1@4294967296    | refused price_out_of_range | - | -
        -                              | x buy 1@0             | refused price_out_of_range | - | -
        -                              | x buy 1@-5            | refused price_out_of_range | - | -
        a buy 2@5                      | amend a 2@4294967296  | refused price_out_of_range | a 2@5 | -
        a buy 4294967295@5             | x sell 4294967295@5   | a 4294967295@5   | -       | -
        -                              | x buy 4294967296@5    | refused quantity_out_of_range | - | -
        -                              | x buy 0@5             | refused quantity_out_of_range | - | -
        a buy 4294967295@5, x sell 1@5 | replace a 4294967295@5 | refused quantity_out_of_range | a 4294967294@5 | -",
    );
}

#[test]
fn far_prices_keep_their_order() {
    // Several thousand ticks apart: further than the fast book looks at once.
    check(
        "
        a sell 1@50000, b sell 1@40000, c sell 1@60000 | x buy 3@60000 | b 1@40000, a 1@50000, c 1@60000 | - | -
        a buy 1@50000, b buy 1@60000, c buy 1@40000    | x sell 3@1    | b 1@60000, a 1@50000, c 1@40000 | - | -
        a sell 1@9000, b sell 1@5, c sell 1@9000, cancel b | x buy 2@9000 | a 1@9000, c 1@9000           | - | -
        a sell 1@4096, b sell 1@8192, c sell 1@4095    | x buy 3 market | c 1@4095, a 1@4096, b 1@8192   | - | -",
    );
}

#[test]
fn a_phase_that_is_not_continuous_takes_cancels_only() {
    check("
        a buy 5@100, halt  | x sell 5@100, amend a 4@100, cancel a | refused not_open, refused not_open, a 5 cancelled | - | -
        a buy 5@100, close | x sell 5@100, cancel all              | refused not_open, a 5 cancelled                   | - | -
        a buy 5@100 day, halt | end day                            | a 5 ends                                          | - | -
        a buy 5@100, halt, open | x sell 5@100                     | a 5@100                                           | - | -
        halt               | x sell 0@0                            | refused not_open                                  | - | -
        a buy 5@100, halt  | amend a 0@0, amend a 4@100 by 1       | refused not_open, refused not_owner               | a 5@100 | -");
}

#[test]
fn day_orders_leave_when_the_day_ends_and_others_stay() {
    check(
        "
        b buy 1@100 day, a buy 2@101 day, c buy 3@100 | end day | a 2 ends, b 1 ends | c 3@100 | -
        a buy 5@100 day, x sell 2@100                 | end day | a 3 ends           | -       | -
        a buy 5@100 day, amend a 6@101                | end day | a 6 ends           | -       | -
        a buy 5@100                                   | end day | -                  | a 5@100 | -",
    );
}

#[test]
fn only_the_owner_changes_an_order() {
    check("
        a buy 5@100 by 1, b buy 5@99             | cancel a, amend a 1@100 | refused not_owner, refused not_owner | a 5@100, b 5@99 | -
        b buy 5@99, a buy 5@100 by 1, c sell 2@101 | cancel all            | b 5 cancelled, c 2 cancelled         | a 5@100 | -");
}

#[test]
fn a_full_book_refuses_what_could_rest_and_nothing_else() {
    for (when, then) in [
        ("c buy 1@100", "refused book_full"),
        ("c sell 2@90", "refused book_full"), // it would trade in full, but it might not
        ("c sell 2@90 ioc", "a 2@100"),
        ("c sell 2 market", "a 2@100"),
        ("amend a 9@99", "a requeues 9"),
        ("cancel a, c buy 1@100", "a 5 cancelled"),
    ] {
        let mut engines = EnginePair::new(2, 1_000_000);
        engines.run("a buy 5@100, b sell 5@110");
        assert_eq!(engines.run(when), then, "{when}");
    }
}

#[test]
fn sweep_of_5000_orders_at_one_price_fills_each_in_turn() {
    let mut engines = EnginePair::new(5000, 100);
    let order = |id: u64, side, lots| {
        Command::Enter(NewOrder {
            id: OrderId(id),
            account: AccountId(0),
            instrument: NPN_ZAR,
            side,
            order_type: OrderType::Limit { price: Ticks(1000) },
            lots: Lots(lots),
            tif: TimeInForce::ImmediateOrCancel,
            match_group: MatchGroup::Order,
            ..NewOrder::PLAIN
        })
    };
    for id in 1..=5000 {
        let Command::Enter(resting) = order(id, Side::Sell, 2) else { unreachable!() };
        engines.apply(Command::Enter(NewOrder { tif: TimeInForce::GoodTillCancel, ..resting }));
    }
    let events = engines.apply(order(9999, Side::Buy, 9999));
    assert_eq!(events.len(), 1 + 5000 + 1 + 1, "accepted, the trades, the level once, the change");
    for (at, event) in events[1..=5000].iter().enumerate() {
        let at = at as u64 + 1;
        let Event::Trade { trade_seq, maker, lots, maker_open, taker_open, .. } = event else {
            panic!("{event:?} is no trade");
        };
        let last = at == 5000;
        let (lots_due, open_due) = if last { (1, 1) } else { (2, 0) };
        assert_eq!((*trade_seq, *maker), (TradeSeq(at), OrderId(at)));
        assert_eq!((lots.0, maker_open.0, taker_open.0), (lots_due, open_due, 9999_u64.saturating_sub(2 * at)));
    }
    assert_eq!(engines.image().markets[NPN_ZAR.0 as usize].orders.len(), 1);
}

#[test]
fn depth_is_conserved_after_partial_fills() {
    let mut engines = EnginePair::new(100, 100);
    engines.run("a sell 5@100, b sell 7@100, c sell 9@101, x buy 6@101, y buy 3@100, amend c 4@101, cancel b");
    let book = engines.engine().market(NPN_ZAR).expect("it was defined").book();
    // 12 at 100 less 9 traded is 3, cancelled; 9 at 101 shrunk to 4.
    let levels: Vec<_> = book.levels(Side::Sell).map(|(price, lots)| (price.0, lots.0)).collect();
    assert_eq!(levels, [(101, 4)]);
    assert_eq!(book.levels(Side::Buy).count(), 0);
}
