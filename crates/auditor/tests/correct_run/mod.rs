//! The correct run of `terms`: one spot instrument with a unit of one cent per lot and tick, a
//! house account (0) and a member (1). Letters name the orders.

pub use pitwire_fixtures::accepted;
use pitwire_fixtures::{limit_order, share, trade};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, Bust, CancelReason, Command, Credit, Currency, CurrencyId, Epoch,
    Event, FlowSetting, InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec, KillScope, Label, Lots,
    NewOrder, OrderId, OrderType, Phase, PostOnly, Priority, Reject, SelfMatch, Seq, SequencedCommand, SessionId, Side,
    Throttle, Ticks, TimeInForce, TradeKind, TradeSeq, VenueNanos,
};

pub type Run = Vec<(&'static str, SequencedCommand, Vec<Event>)>;

pub const MARKET: InstrumentId = InstrumentId(0);
pub const HOUSE: AccountId = AccountId(0);
pub const MEMBER: AccountId = AccountId(1);
const CASH: CurrencyId = CurrencyId(1);

pub fn step(run: &Run, name: &str) -> usize {
    run.iter().position(|(step, ..)| *step == name).unwrap_or_else(|| panic!("no step is called {name}"))
}

pub fn run() -> Run {
    let mut steps = opening();
    steps.extend(trading());
    steps.extend(operating());
    steps.extend(ending());
    let stamp = |(seq, (name, command, events))| {
        (name, SequencedCommand { seq: Seq(seq), at: VenueNanos(seq * 1000), command }, events)
    };
    (1..).zip(steps).map(stamp).collect()
}

type Step = (&'static str, Command, Vec<Event>);

fn opening() -> Vec<Step> {
    let shares = Currency { id: CurrencyId(0), name: "NPN".to_owned(), decimals: 0 };
    let cash = Currency { id: CASH, name: "ZAR".to_owned(), decimals: 2 };
    let account = |id, name: &str, credit| AccountSpec {
        id,
        name: name.to_owned(),
        credit,
        settings: AccountSettings::default(),
    };
    let (house, member) = (account(HOUSE, "house", Credit::Unlimited), account(MEMBER, "member", Credit::Limited));
    let spec = InstrumentSpec {
        id: MARKET,
        kind: InstrumentKind::Spot { base: CurrencyId(0), quote: CASH },
        max_resting_orders: 10,
        ..share()
    };
    let phase = Phase::Continuous;
    let (account, currency, units) = (MEMBER, CASH, 2_000);
    vec![
        ("", Command::AddCurrency(shares.clone()), vec![Event::CurrencyAdded(shares)]),
        ("", Command::AddCurrency(cash.clone()), vec![Event::CurrencyAdded(cash)]),
        ("", Command::AddAccount(house.clone()), vec![Event::AccountAdded(house)]),
        ("", Command::AddAccount(member.clone()), vec![Event::AccountAdded(member)]),
        ("", Command::AddInstrument(Box::new(spec.clone())), vec![Event::InstrumentAdded(Box::new(spec))]),
        ("", Command::SetPhase { instrument: MARKET, phase }, vec![Event::PhaseChanged { instrument: MARKET, phase }]),
        ("", Command::Deposit { account, currency, units }, vec![Event::Deposited { account, currency, units }]),
    ]
}

/// An iceberg of 10 that displays 3, fill-or-kill orders that fit and do not fit, amends, and
/// self-match prevention.
fn trading() -> Vec<Step> {
    use Side::{Buy, Sell};
    let mut steps = Vec::new();
    let iceberg = NewOrder { display: Some(Lots(3)), ..order('i', HOUSE, Sell, 100, 10) };
    steps.push(rests("iceberg", iceberg, 3, 1));
    steps.push(rests("plain", order('p', HOUSE, Sell, 100, 2), 5, 2));
    let sweep = NewOrder { tif: TimeInForce::ImmediateOrCancel, ..order('s', MEMBER, Buy, 100, 6) };
    let swept = vec![
        accepted(&sweep),
        traded(1, 100, 3, ('i', HOUSE, 7), ('s', MEMBER, 3)),
        refreshed('i', 100, 3),
        traded(2, 100, 2, ('p', HOUSE, 0), ('s', MEMBER, 1)),
        traded(3, 100, 1, ('i', HOUSE, 6), ('s', MEMBER, 0)),
        level(Sell, 100, 2),
        changed(3),
    ];
    steps.push(("sweep", Command::Enter(sweep), swept));
    steps.push(reduce());
    let fok = |id, lots| NewOrder { tif: TimeInForce::FillOrKill, ..order(id, MEMBER, Buy, 100, lots) };
    let killed = vec![accepted(&fok('f', 5)), cancelled('f', MEMBER, Buy, 100, 5, CancelReason::FillOrKill)];
    steps.push(("fok", Command::Enter(fok('f', 5)), killed));
    let whole = vec![
        accepted(&fok('g', 4)),
        traded(4, 100, 2, ('i', HOUSE, 2), ('g', MEMBER, 2)),
        refreshed('i', 100, 2),
        traded(5, 100, 2, ('i', HOUSE, 0), ('g', MEMBER, 0)),
        level(Sell, 100, 0),
        changed(5),
    ];
    steps.push(("fok whole", Command::Enter(fok('g', 4)), whole));
    steps.push(rests("offer", order('o', HOUSE, Sell, 105, 1), 1, 6));
    let reprice = NewOrder { post_only: PostOnly::Reprice, ..order('r', MEMBER, Buy, 107, 2) };
    let moved = NewOrder { order_type: OrderType::Limit { price: Ticks(104) }, ..reprice.clone() };
    steps.push(("reprice", Command::Enter(reprice), vec![accepted(&moved), level(Buy, 104, 2), changed(7)]));
    let post = NewOrder { post_only: PostOnly::Reject, ..order('q', MEMBER, Buy, 105, 1) };
    steps.push(refused("post", post, Reject::PostOnlyWouldTrade));
    let own = order('t', MEMBER, Sell, 104, 1);
    let met = vec![
        accepted(&own),
        cancelled('r', MEMBER, Buy, 104, 2, CancelReason::SelfMatch),
        level(Buy, 104, 0),
        level(Sell, 104, 1),
        changed(8),
    ];
    steps.push(("self", Command::Enter(own), met));
    let incoming = NewOrder { self_match: Some(SelfMatch::CancelIncoming), ..order('u', MEMBER, Buy, 104, 3) };
    let stopped = vec![accepted(&incoming), cancelled('u', MEMBER, Buy, 104, 3, CancelReason::SelfMatch)];
    steps.push(("self incoming", Command::Enter(incoming), stopped));
    steps
}

/// Two of the six lots leave, both from the hidden part.
fn reduce() -> Step {
    let amend = Amend {
        account: HOUSE,
        order: id('i'),
        price: Ticks(100),
        lots: Lots(8),
        priority: Priority::KeepWhenReduced,
        ..Amend::PLAIN
    };
    let amended = Event::Amended {
        order: id('i'),
        account: HOUSE,
        instrument: MARKET,
        side: Side::Sell,
        price: Ticks(100),
        lots: Lots(8),
        open: Lots(4),
        kept_priority: true,
        display: Some(Lots(3)),
        stop: None,
        minimum_execution: None,
        expiry: None,
    };
    ("reduce", Command::Amend(amend), vec![amended, level(Side::Sell, 100, 2), changed(4)])
}

/// A tripped throttle, a bust, a kill, and the end of a session.
fn operating() -> Vec<Step> {
    use Side::{Buy, Sell};
    let account = MEMBER;
    let settings = AccountSettings {
        throttle: Some(Throttle { executions: 1, window_ns: 1_000_000 }),
        ..AccountSettings::default()
    };
    let mut steps =
        vec![("throttle", Command::SetAccount { account, settings }, vec![Event::AccountSet { account, settings }])];
    let trip = NewOrder { self_match: Some(SelfMatch::Allow), ..order('v', MEMBER, Buy, 105, 2) };
    let tripped = vec![
        accepted(&trip),
        traded(6, 104, 1, ('t', MEMBER, 0), ('v', MEMBER, 1)),
        Event::ThrottleTripped { account },
        level(Sell, 104, 0),
        traded(7, 105, 1, ('o', HOUSE, 0), ('v', MEMBER, 0)),
        level(Sell, 105, 0),
        changed(9),
    ];
    steps.push(("trip", Command::Enter(trip), tripped));
    steps.push(refused("throttled", order('w', MEMBER, Buy, 90, 1), Reject::ExecutionThrottle));
    let scope = KillScope::Account(MEMBER);
    steps.push(("lift", Command::Lift { scope }, vec![Event::Lifted { scope }]));
    let bust = Box::new(Bust {
        instrument: MARKET,
        trade_seq: TradeSeq(7),
        price: Ticks(105),
        lots: Lots(1),
        buyer: MEMBER,
        seller: HOUSE,
        reason: Label::new("fat finger").unwrap_or_default(),
    });
    steps.push(("bust", Command::BustTrade(bust.clone()), vec![Event::TradeBusted(bust)]));
    steps.push(("", Command::CloseWindow, vec![Event::WindowClosed]));
    let of_session =
        |letter, price, session| NewOrder { session: SessionId(session), ..order(letter, HOUSE, Buy, price, 1) };
    steps.push(rests("", of_session('a', 90, 5), 1, 10));
    let reason = Label::NONE;
    steps.push((
        "kill",
        Command::Kill { scope: KillScope::Session(SessionId(5)), reason },
        vec![cancelled('a', HOUSE, Buy, 90, 1, CancelReason::Killed), level(Buy, 90, 0), changed(11), killed(1)],
    ));
    steps.push(refused("killed", of_session('b', 90, 5), Reject::Killed));
    let with_session = NewOrder { cancel_on_disconnect: true, ..of_session('c', 91, 6) };
    steps.push(rests("with session", with_session, 1, 12));
    let gone = cancelled('c', HOUSE, Buy, 91, 1, CancelReason::Disconnected);
    let epoch = Epoch(2);
    steps.push((
        "epoch",
        Command::StartEpoch { epoch },
        vec![gone, level(Buy, 91, 0), changed(13), Event::EpochStarted { epoch }],
    ));
    steps.push(rests("after epoch", of_session('d', 92, 5), 1, 14));
    steps
}

/// Limits, credit, and the end of an account and of the instrument.
fn ending() -> Vec<Step> {
    use Side::{Buy, Sell};
    let (instrument, account) = (MARKET, MEMBER);
    let limits = InstrumentLimits { max_lots: Some(Lots(5)), max_notional_units: Some(400), collar_bps: Some(1_000) };
    let set = Event::InstrumentLimitsSet { instrument, limits };
    let mut steps = vec![("limits", Command::SetInstrumentLimits { instrument, limits }, vec![set])];
    steps.push(refused("large", order('e', HOUSE, Buy, 92, 6), Reject::QuantityAboveLimit));
    steps.push(refused("dear", order('e', HOUSE, Buy, 92, 5), Reject::NotionalAboveLimit));
    // The last trade was at 105, so the collar is 115.
    steps.push(refused("collar", order('e', HOUSE, Buy, 116, 1), Reject::PriceAboveCollar));
    let settings = AccountSettings { max_open_orders: Some(0), ..AccountSettings::default() };
    steps.push(("", Command::SetAccount { account, settings }, vec![Event::AccountSet { account, settings }]));
    steps.push(refused("too many", order('e', MEMBER, Buy, 92, 1), Reject::TooManyOpenOrders));
    let settings = AccountSettings::default();
    steps.push(("", Command::SetAccount { account, settings }, vec![Event::AccountSet { account, settings }]));
    // The member has 1,000 of its 2,000 left, enough for ten lots at 100. Trades with itself and
    // busted trades cost nothing.
    let (currency, units) = (CASH, -950);
    steps.push((
        "",
        Command::Deposit { account, currency, units },
        vec![Event::Deposited { account, currency, units }],
    ));
    let units = 100;
    steps.push((
        "credit",
        Command::SetCreditLine { account, currency, units },
        vec![Event::CreditLineSet { account, currency, units }],
    ));
    steps.push(rests("on credit", order('h', MEMBER, Buy, 50, 3), 3, 15));
    let gone = cancelled('h', MEMBER, Buy, 50, 3, CancelReason::AccountClosed);
    steps.push((
        "close",
        Command::CloseAccount { account },
        vec![gone, level(Buy, 50, 0), changed(16), Event::AccountClosed { account }],
    ));
    steps.push(refused("closed", order('e', MEMBER, Sell, 100, 1), Reject::AccountClosed));
    let phase = Phase::Halted;
    steps.push((
        "quarantine",
        Command::Quarantine { seq: Seq(3), instrument: Some(instrument) },
        vec![Event::Quarantined { seq: Seq(3) }, Event::PhaseChanged { instrument, phase }],
    ));
    let phase = Phase::Deleted;
    let gone = cancelled('d', HOUSE, Buy, 92, 1, CancelReason::InstrumentDeleted);
    steps.push((
        "delete",
        Command::DeleteInstrument { instrument },
        vec![gone, level(Buy, 92, 0), changed(17), Event::PhaseChanged { instrument, phase }],
    ));
    steps.push(refused("deleted", order('e', HOUSE, Buy, 92, 1), Reject::InstrumentDeleted));
    let flow = FlowSetting { running: true, rate_percent: 0 };
    steps.push(("flow", Command::SetFlow(flow), vec![Event::CommandRefused { reason: Reject::BadDefinition }]));
    steps
}

fn id(letter: char) -> OrderId {
    OrderId(u64::from(letter))
}

fn order(letter: char, account: AccountId, side: Side, price: i64, lots: u64) -> NewOrder {
    limit_order(id(letter).0, account, side, price, lots)
}

fn rests(name: &'static str, new: NewOrder, total: u64, change: u64) -> Step {
    let price = new.order_type.limit_price().unwrap_or_default();
    let events = vec![accepted(&new), level(new.side, price.0, total), changed(change)];
    (name, Command::Enter(new), events)
}

fn refused(name: &'static str, new: NewOrder, reason: Reject) -> Step {
    let events = vec![Event::Rejected { order: new.id, account: new.account, reason }];
    (name, Command::Enter(new), events)
}

type Party = (char, AccountId, u64);

/// A buyer takes an offer. Each party is an order, its account and its remaining lots.
pub fn traded(seq: u64, price: i64, lots: u64, maker: Party, taker: Party) -> Event {
    trade_of(Side::Buy, seq, price, lots, maker, taker)
}

/// A seller takes a bid.
pub fn sold(seq: u64, price: i64, lots: u64, maker: Party, taker: Party) -> Event {
    trade_of(Side::Sell, seq, price, lots, maker, taker)
}

fn trade_of(side: Side, seq: u64, price: i64, lots: u64, maker: Party, taker: Party) -> Event {
    let [maker, taker] = [maker, taker].map(|(letter, account, open)| (id(letter).0, account, open));
    trade(seq, price, lots, maker, taker, side, TradeKind::Continuous)
}

pub fn refreshed(letter: char, price: i64, shown: u64) -> Event {
    Event::Refreshed {
        order: id(letter),
        account: HOUSE,
        instrument: MARKET,
        side: Side::Sell,
        price: Ticks(price),
        shown: Lots(shown),
    }
}

pub fn level(side: Side, price: i64, lots: u64) -> Event {
    Event::Level { instrument: MARKET, side, price: Ticks(price), lots: Lots(lots) }
}

pub fn changed(change_id: u64) -> Event {
    Event::BookChanged { instrument: MARKET, change_id }
}

pub fn cancelled(letter: char, account: AccountId, side: Side, price: i64, open: u64, reason: CancelReason) -> Event {
    let (order, instrument) = (id(letter), MARKET);
    Event::Cancelled { order, account, instrument, side, price: Ticks(price), open: Lots(open), reason }
}

/// The last event of the kill of session 5.
pub fn killed(cancelled: u32) -> Event {
    Event::Killed { scope: KillScope::Session(SessionId(5)), cancelled, reason: Label::NONE }
}
