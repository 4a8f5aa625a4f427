//! Busted trades: the balances afterwards, computed by hand.

use crate::common::rows::EnginePair;
use crate::common::world::{BTC, HOUSE, NPN, NPN_ZAR, PERPETUAL, ZAR};
use pitwire_model::{
    AccountId, Bust, Command, CurrencyId, Event, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Reject, Side,
    Ticks, TradeSeq,
};

const MEMBER: AccountId = AccountId(2);
const OTHER: AccountId = AccountId(3);

fn bust(instrument: InstrumentId, number: u64, lots: u64, price: i64, buyer: AccountId, seller: AccountId) -> Bust {
    let reason = Label::new("erroneous price").expect("short");
    Bust { instrument, trade_seq: TradeSeq(number), price: Ticks(price), lots: Lots(lots), buyer, seller, reason }
}

fn outcome(engines: &mut EnginePair, bust: &Bust) -> Result<(), Reject> {
    match &engines.apply(Command::BustTrade(Box::new(bust.clone())))[..] {
        [Event::TradeBusted(reported)] if **reported == *bust => Ok(()),
        [Event::CommandRefused { reason }] => Err(*reason),
        events => panic!("{events:#?}"),
    }
}

fn total(engines: &EnginePair, account: AccountId, currency: CurrencyId) -> i128 {
    engines.engine().account(account).expect("defined").balance(currency).total
}

/// 40 shares at 900: 36,000 cents there, 40 shares here, and back again.
#[test]
fn spot_bust_returns_goods_and_cash_and_restores_no_order() {
    let mut engines = EnginePair::new(100, 100);
    engines.run("a sell 40@900 by 3, b buy 60@1000 by 2");
    assert_eq!((total(&engines, MEMBER, ZAR), total(&engines, MEMBER, NPN)), (64_000, 140));
    assert_eq!((total(&engines, OTHER, ZAR), total(&engines, OTHER, NPN)), (136_000, 60));
    assert_eq!(outcome(&mut engines, &bust(NPN_ZAR, 1, 40, 900, MEMBER, OTHER)), Ok(()));
    assert_eq!((total(&engines, MEMBER, ZAR), total(&engines, MEMBER, NPN)), (100_000, 100));
    assert_eq!((total(&engines, OTHER, ZAR), total(&engines, OTHER, NPN)), (100_000, 100));
    let market = engines.engine().market(NPN_ZAR).expect("defined");
    assert_eq!((market.last(), market.trades()), (Some(Ticks(900)), TradeSeq(1)), "what happened stays published");
    let rest = engines.engine().order(OrderId(2)).expect("the rest of the buyer's order");
    assert_eq!((rest.open, engines.engine().live_orders()), (Lots(20), 1));
    engines.image();
}

/// The buyer has spent the goods: a bust takes them all the same.
#[test]
fn bust_may_make_a_balance_negative() {
    let mut engines = EnginePair::new(100, 100);
    engines.run("a sell 40@900 by 3, b buy 40@900 by 2");
    engines.apply(Command::Deposit { account: MEMBER, currency: NPN, units: -130 });
    assert_eq!(outcome(&mut engines, &bust(NPN_ZAR, 1, 40, 900, MEMBER, OTHER)), Ok(()));
    assert_eq!((total(&engines, MEMBER, NPN), total(&engines, MEMBER, ZAR)), (-30, 100_000));
    assert_eq!(engines.run("c sell 1@900 by 2"), "refused not_enough_funds");
}

/// Ten lots at 1000 are 20,000,000 units. Bought there, four sold at 1001 for ⌊8e9 / 1001⌋ =
/// 7,992,007: a profit of 8,000,000 - 7,992,007 = 7,993. Taking the first trade back sells ten at
/// 1000: six close at 12,000,000 against 12,000,000 of entry, for nothing, and four open short at
/// 8,000,000. The other side has the mirror image.
#[test]
fn inverse_bust_is_an_opposite_fill_at_the_trade_price() {
    let mut engines = EnginePair::new(100, 1000);
    trade(&mut engines, 1, 10, 1000, (MEMBER, OTHER));
    trade(&mut engines, 3, 4, 1001, (OTHER, MEMBER));
    let position = |engines: &EnginePair, account| {
        let held = engines.engine().account(account).expect("defined").position(PERPETUAL);
        (held.lots, held.entry_value, held.realized)
    };
    assert_eq!(position(&engines, MEMBER), (6, 12_000_000, 7_993));
    assert_eq!(outcome(&mut engines, &bust(PERPETUAL, 1, 10, 1000, MEMBER, OTHER)), Ok(()));
    assert_eq!(position(&engines, MEMBER), (-4, 8_000_000, 7_993));
    assert_eq!(position(&engines, OTHER), (4, 8_000_000, -7_993));
    assert_eq!((total(&engines, MEMBER, BTC), total(&engines, OTHER, BTC)), (20_007_993, 19_992_007));
    // The second: the buyer was OTHER. Four at 1001 close four at 8,000,000: 7,993 go back.
    assert_eq!(outcome(&mut engines, &bust(PERPETUAL, 2, 4, 1001, OTHER, MEMBER)), Ok(()));
    assert_eq!((position(&engines, MEMBER), position(&engines, OTHER)), ((0, 0, 0), (0, 0, 0)));
    assert_eq!((total(&engines, MEMBER, BTC), total(&engines, OTHER, BTC)), (20_000_000, 20_000_000));
    engines.image();
}

#[test]
fn unknown_or_busted_trade_cannot_be_busted() {
    let mut engines = EnginePair::new(100, 100);
    engines.run("a sell 40@900 by 3, b buy 40@900 by 2");
    let good = bust(NPN_ZAR, 1, 40, 900, MEMBER, OTHER);
    let unknown = AccountId(90);
    for (wrong, reason) in [
        (Bust { instrument: InstrumentId(9), buyer: unknown, ..good.clone() }, Reject::UnknownInstrument),
        (Bust { buyer: unknown, trade_seq: TradeSeq(0), ..good.clone() }, Reject::UnknownAccount),
        (Bust { seller: unknown, ..good.clone() }, Reject::UnknownAccount),
        (Bust { trade_seq: TradeSeq(0), lots: Lots(0), ..good.clone() }, Reject::UnknownTrade),
        (Bust { trade_seq: TradeSeq(2), ..good.clone() }, Reject::UnknownTrade),
        (Bust { lots: Lots(0), ..good.clone() }, Reject::BadDefinition),
        (Bust { lots: Lots(1 << 32), ..good.clone() }, Reject::BadDefinition),
        (Bust { price: Ticks(0), ..good.clone() }, Reject::BadDefinition),
        (Bust { price: Ticks(1 << 32), ..good.clone() }, Reject::BadDefinition),
    ] {
        let before = engines.image();
        assert_eq!(outcome(&mut engines, &wrong), Err(reason), "{wrong:?}");
        assert_eq!(engines.image(), before, "a refused command changes nothing");
    }
    assert_eq!(outcome(&mut engines, &good), Ok(()));
    assert_eq!(outcome(&mut engines, &good), Err(Reject::AlreadyBusted));
    assert_eq!(outcome(&mut engines, &Bust { lots: Lots(0), ..good }), Err(Reject::AlreadyBusted));
}

/// Busts neither create nor destroy money.
#[test]
fn busts_conserve_money() {
    let mut engines = EnginePair::new(100, 1000);
    let sums = |engines: &EnginePair| {
        [BTC, NPN, ZAR]
            .map(|currency| engines.engine().accounts().iter().map(|a| a.balance(currency).total).sum::<i128>())
    };
    let before = sums(&engines);
    engines.run("a sell 40@900 by 3, b buy 40@900 by 2, c sell 7@11 by 2, d buy 7@11 by 2");
    trade(&mut engines, 11, 7, 997, (MEMBER, OTHER));
    trade(&mut engines, 13, 3, 1003, (HOUSE[0], MEMBER));
    for bust in [
        bust(NPN_ZAR, 1, 40, 900, MEMBER, OTHER),
        bust(NPN_ZAR, 2, 7, 11, MEMBER, MEMBER),
        bust(PERPETUAL, 2, 3, 1003, HOUSE[0], MEMBER),
        bust(PERPETUAL, 1, 7, 997, MEMBER, OTHER),
    ] {
        assert_eq!(outcome(&mut engines, &bust), Ok(()), "{bust:?}");
        let open: i128 = engines.engine().accounts().iter().map(|a| i128::from(a.position(PERPETUAL).lots)).sum();
        assert_eq!(open, 0, "longs and shorts are one number");
    }
    let after = sums(&engines);
    assert_eq!((before[1], before[2]), (after[1], after[2]));
    // Open positions have unpaid profits: the entry values of the shorts minus those of the longs.
    let entered = |long: bool| {
        let held = engines.engine().accounts().iter().map(|account| account.position(PERPETUAL));
        held.filter(|held| (held.lots > 0) == long).map(|held| held.entry_value).sum::<i128>()
    };
    assert_eq!(after[0] - before[0], entered(false) - entered(true));
}

fn trade(engines: &mut EnginePair, id: u64, lots: u64, price: i64, (buyer, seller): (AccountId, AccountId)) {
    for (id, account, side) in [(id, buyer, Side::Buy), (id + 1, seller, Side::Sell)] {
        let order_type = OrderType::Limit { price: Ticks(price) };
        let (id, lots) = (OrderId(id), Lots(lots));
        let order = NewOrder { id, account, instrument: PERPETUAL, side, lots, order_type, ..NewOrder::PLAIN };
        let events = engines.apply(Command::Enter(order));
        assert!(!matches!(events[..], [Event::Rejected { .. }]), "{events:?}");
    }
}
