//! The records of order terms, kills, closings and busts that members and operators read later. The
//! events come from the engine.

use pitwire_engine::Engine;
use pitwire_fixtures::share;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, Bust, CancelReason, Command, Credit, Currency, CurrencyId,
    InstrumentId, InstrumentSpec, KillScope, Label, Lots, NewOrder, OrderId, OrderType, Phase, PostOnly, Priority, Seq,
    SequencedCommand, SessionId, Side, Ticks, TradeSeq, VenueNanos,
};
use pitwire_projections::{AccountBook, Change, OrderRecord, OrderState, PublicTrade, UserTrade, Views};

const MARKET: InstrumentId = InstrumentId(0);
const FIRST: AccountId = AccountId(0);
const SECOND: AccountId = AccountId(1);

#[derive(Default)]
struct Venue {
    engine: Engine,
    views: Views,
    seq: Seq,
}

impl Venue {
    /// Two members with shares and cash, and one open instrument.
    fn open() -> Venue {
        let mut venue = Venue::default();
        for (id, name) in [(0, "NPN"), (1, "ZAR")] {
            venue.apply(Command::AddCurrency(Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 2 }));
        }
        for id in [FIRST, SECOND] {
            let settings = AccountSettings::default();
            let (name, credit) = (format!("member-{id}"), Credit::Limited);
            venue.apply(Command::AddAccount(AccountSpec { id, name, credit, settings }));
            for currency in [CurrencyId(0), CurrencyId(1)] {
                venue.apply(Command::Deposit { account: id, currency, units: 1_000_000 });
            }
        }
        venue.apply(Command::AddInstrument(Box::new(InstrumentSpec {
            id: MARKET,
            max_resting_orders: 100,
            ..share()
        })));
        venue.apply(Command::SetPhase { instrument: MARKET, phase: Phase::Continuous });
        venue
    }

    fn apply(&mut self, command: Command) -> Vec<Change> {
        self.seq = self.seq.next();
        let stamped = SequencedCommand { seq: self.seq, at: VenueNanos(self.seq.0 * 1000), command };
        let (mut events, mut changes) = (Vec::new(), Vec::new());
        self.engine.apply(&stamped, &mut events);
        self.views.observe(&stamped, &events, &mut changes);
        let image = self.views.image();
        assert_eq!(Views::from_image(image.clone()).image(), image);
        changes
    }

    fn enter(&mut self, id: u64, account: AccountId, side: Side, (lots, price): (u64, i64), terms: NewOrder) {
        let order_type = OrderType::Limit { price: Ticks(price) };
        let (id, lots) = (OrderId(id), Lots(lots));
        self.apply(Command::Enter(NewOrder { id, account, instrument: MARKET, side, order_type, lots, ..terms }));
    }

    fn order(&self, account: AccountId, id: u64) -> &OrderRecord {
        self.views.account(account).and_then(|book| book.order(OrderId(id))).expect("it is remembered")
    }
}

#[test]
fn order_keeps_its_terms_and_its_moved_price() {
    let mut venue = Venue::open();
    venue.enter(1, FIRST, Side::Sell, (5, 105), NewOrder::PLAIN);
    let terms = NewOrder {
        display: Some(Lots(2)),
        post_only: PostOnly::Reprice,
        session: SessionId(7),
        client_order_id: Label::new("a-1").unwrap_or_default(),
        ..NewOrder::PLAIN
    };
    venue.enter(2, SECOND, Side::Buy, (6, 110), terms);
    let order = venue.order(SECOND, 2);
    assert_eq!((order.price(), order.display, order.post_only), (Ticks(104), Some(Lots(2)), PostOnly::Reprice));
    assert_eq!((order.session, order.client_order_id.as_str()), (SessionId(7), "a-1"));
    let amend = Amend {
        account: SECOND,
        order: OrderId(2),
        price: Ticks(103),
        lots: Lots(6),
        priority: Priority::KeepWhenReduced,
        display: Some(Lots(3)),
        ..Amend::PLAIN
    };
    venue.apply(Command::Amend(amend));
    assert_eq!((venue.order(SECOND, 2).display, venue.order(SECOND, 2).price()), (Some(Lots(3)), Ticks(103)));
    // A reduction that names no display quantity keeps the one of the order.
    venue.apply(Command::Amend(Amend { lots: Lots(5), display: None, ..amend }));
    assert_eq!((venue.order(SECOND, 2).display, venue.order(SECOND, 2).lots), (Some(Lots(3)), Lots(5)));
    // The iceberg trades part by part, and its record counts all parts.
    venue.enter(3, FIRST, Side::Sell, (4, 103), NewOrder::PLAIN);
    assert_eq!((venue.order(SECOND, 2).filled, venue.order(SECOND, 2).state), (Lots(4), OrderState::Open));
    assert_eq!(venue.views.account(SECOND).map(|book| book.trades().len()), Some(2));
}

#[test]
fn client_order_id_finds_only_the_members_own_order() {
    let mut venue = Venue::open();
    let numbered = |text: &str| NewOrder { client_order_id: Label::new(text).unwrap_or_default(), ..NewOrder::PLAIN };
    venue.enter(1, FIRST, Side::Buy, (1, 90), numbered("mine"));
    venue.enter(2, SECOND, Side::Buy, (1, 90), numbered("mine"));
    venue.enter(3, FIRST, Side::Buy, (1, 90), numbered("mine"));
    venue.enter(4, FIRST, Side::Buy, (1, 90), NewOrder::PLAIN);
    let find =
        |venue: &Venue, account, text| venue.views.account(account).and_then(|book| book.by_client_order_id(text));
    let expected = [(FIRST, "mine", Some(1)), (SECOND, "mine", Some(2)), (FIRST, "", None), (FIRST, "other", None)];
    for (account, text, id) in expected {
        assert_eq!(find(&venue, account, text), id.map(OrderId), "{account} {text}");
    }
    // A cancelled order is still found.
    venue.apply(Command::Cancel { account: FIRST, order: OrderId(1) });
    assert_eq!(find(&venue, FIRST, "mine"), Some(OrderId(1)));
}

#[test]
fn closed_orders_have_a_reason() {
    let mut venue = Venue::open();
    let session = SessionId(3);
    for (id, price) in [(1, 90), (2, 91), (3, 92), (4, 93)] {
        let cancel_on_disconnect = id == 3;
        venue.enter(id, FIRST, Side::Buy, (1, price), NewOrder { session, cancel_on_disconnect, ..NewOrder::PLAIN });
    }
    venue.enter(5, FIRST, Side::Sell, (1, 93), NewOrder::PLAIN);
    let reason = Label::NONE;
    venue.apply(Command::Kill { scope: KillScope::Order(OrderId(1)), reason });
    venue.apply(Command::StartEpoch { epoch: pitwire_model::Epoch(2) });
    venue.apply(Command::CloseAccount { account: FIRST });
    let reasons = [
        (1, CancelReason::Killed),
        (2, CancelReason::AccountClosed),
        (3, CancelReason::Disconnected),
        (4, CancelReason::SelfMatch),
        (5, CancelReason::AccountClosed),
    ];
    for (id, reason) in reasons {
        let order = venue.order(FIRST, id);
        assert_eq!((order.state, order.cancel_reason), (OrderState::Cancelled, Some(reason)), "{id}");
    }
    assert_eq!(venue.views.account(FIRST).map(|book| book.open_orders().count()), Some(0));
}

#[test]
fn busted_trade_is_marked_in_every_view() {
    let mut venue = Venue::open();
    venue.enter(1, FIRST, Side::Sell, (5, 100), NewOrder::PLAIN);
    venue.enter(2, SECOND, Side::Buy, (2, 100), NewOrder::PLAIN);
    venue.enter(3, SECOND, Side::Buy, (3, 100), NewOrder::PLAIN);
    let changes = venue.apply(Command::BustTrade(Box::new(Bust {
        instrument: MARKET,
        trade_seq: TradeSeq(1),
        price: Ticks(100),
        lots: Lots(2),
        buyer: SECOND,
        seller: FIRST,
        reason: Label::NONE,
    })));
    assert_eq!(changes, [SECOND, FIRST].map(|account| Change::Balance { account }));
    let tape = venue.views.tape(MARKET).expect("it trades");
    assert_eq!(tape.trades().iter().map(|trade| trade.busted).collect::<Vec<_>>(), [true, false]);
    for account in [FIRST, SECOND] {
        let trades = venue.views.account(account).expect("a member").trades();
        assert_eq!(trades.iter().map(|trade| trade.busted).collect::<Vec<_>>(), [true, false], "{account}");
    }
}

#[test]
fn credit_line_changes_the_balance() {
    let mut venue = Venue::open();
    let (account, currency) = (FIRST, CurrencyId(1));
    let changes = venue.apply(Command::SetCreditLine { account, currency, units: 5 });
    assert_eq!(changes, [Change::Balance { account }]);
}

#[test]
fn record_keeps_its_number_when_older_ones_are_forgotten() {
    let mut venue = Venue::open();
    venue.enter(1, FIRST, Side::Buy, (1, 90), NewOrder::PLAIN);
    venue.enter(2, SECOND, Side::Sell, (1, 90), NewOrder::PLAIN);
    let mut image = venue.views.image();
    let book = &mut image.accounts[0];
    let (order, trade) = (book.orders[0].clone(), book.trades[0].clone());
    // The account's book keeps no more closed orders and trades than these.
    book.closed = (0..AccountBook::CLOSED_ORDERS as u64).map(|id| OrderId(1_000_000 + id)).collect();
    book.orders = book.closed.iter().map(|id| OrderRecord { id: *id, ..order.clone() }).collect();
    book.trades = (0..AccountBook::TRADES as u64)
        .map(|seq| UserTrade { trade: PublicTrade { seq: TradeSeq(seq), ..trade.trade }, ..trade.clone() })
        .collect();
    let mut views = Views::from_image(image);
    let book = |views: &Views| views.account(FIRST).cloned().expect("a member");
    let full = AccountBook::CLOSED_ORDERS as u64;
    assert_eq!((book(&views).closed_numbers(), book(&views).trade_numbers()), (0..full, 0..full));
    let second = (book(&views).closed_order(1).cloned(), book(&views).trade(1).cloned());
    let next = venue.seq.0 + 1;
    let entered = NewOrder { id: OrderId(next), account: FIRST, instrument: MARKET, lots: Lots(1), ..NewOrder::PLAIN };
    for (seq, command) in [
        Command::Enter(NewOrder {
            side: Side::Buy,
            order_type: OrderType::Limit { price: Ticks(90) },
            ..entered.clone()
        }),
        Command::Enter(NewOrder {
            id: OrderId(next + 1),
            account: SECOND,
            side: Side::Sell,
            order_type: OrderType::Limit { price: Ticks(90) },
            ..entered
        }),
    ]
    .into_iter()
    .zip(next..)
    .map(|(command, seq)| (seq, command))
    {
        let stamped = SequencedCommand { seq: Seq(seq), at: VenueNanos(seq * 1000), command };
        let mut events = Vec::new();
        venue.engine.apply(&stamped, &mut events);
        views.observe(&stamped, &events, &mut Vec::new());
    }
    let book = book(&views);
    assert_eq!((book.closed_numbers(), book.trade_numbers()), (1..full + 1, 1..full + 1));
    assert_eq!((book.closed_order(0), book.trade(0)), (None, None));
    assert_eq!((book.closed_order(1).cloned(), book.trade(1).cloned()), second);
    assert_eq!(book.closed_order(full).map(|order| order.filled), Some(Lots(1)));
}
