//! The rule tables of `contracts/rules`: which orders are allowed, and what each session permits.
//!
//! Does        parse the tables at compile time; answer for each cell of the three tables and for
//!             each session.
//! Holds       a missing, duplicate or unknown line is a compilation error.
//! Start at    [`session_permissions`], [`type_cell`], [`tif_cell`], [`kind_cell`].

use pitwire_model::{NewOrder, OrderType, Phase, TimeInForce};

const ORDER_TYPES: &str = include_str!("../../../contracts/rules/order-types.toml");
const SESSIONS: &str = include_str!("../../../contracts/rules/sessions.toml");

/// A time in force without its date or time. The discriminant is its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tif {
    #[default]
    Day = 0,
    GoodTillCancel,
    ImmediateOrCancel,
    FillOrKill,
    GoodTillDate,
    GoodTillTime,
    OpeningCall,
    AnyCall,
    IntradayCall,
    ClosingCall,
    ClosingCross,
}

const TIFS: usize = 11;
const KINDS: usize = 6;
const PHASES: usize = Phase::ALL.len();

impl Tif {
    pub const ALL: [Tif; TIFS] = [
        Tif::Day,
        Tif::GoodTillCancel,
        Tif::ImmediateOrCancel,
        Tif::FillOrKill,
        Tif::GoodTillDate,
        Tif::GoodTillTime,
        Tif::OpeningCall,
        Tif::AnyCall,
        Tif::IntradayCall,
        Tif::ClosingCall,
        Tif::ClosingCross,
    ];

    /// HOT.
    #[inline]
    pub const fn of(tif: TimeInForce) -> Tif {
        match tif {
            TimeInForce::Day => Tif::Day,
            TimeInForce::GoodTillCancel => Tif::GoodTillCancel,
            TimeInForce::ImmediateOrCancel => Tif::ImmediateOrCancel,
            TimeInForce::FillOrKill => Tif::FillOrKill,
            TimeInForce::GoodTillDate { .. } => Tif::GoodTillDate,
            TimeInForce::GoodTillTime { .. } => Tif::GoodTillTime,
            TimeInForce::OpeningCall => Tif::OpeningCall,
            TimeInForce::AnyCall => Tif::AnyCall,
            TimeInForce::IntradayCall => Tif::IntradayCall,
            TimeInForce::ClosingCall => Tif::ClosingCall,
            TimeInForce::ClosingCross => Tif::ClosingCross,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Tif::Day => "day",
            Tif::GoodTillCancel => "gtc",
            Tif::ImmediateOrCancel => "ioc",
            Tif::FillOrKill => "fok",
            Tif::GoodTillDate => "gtd",
            Tif::GoodTillTime => "gtt",
            Tif::OpeningCall => "opg",
            Tif::AnyCall => "gfa",
            Tif::IntradayCall => "gfx",
            Tif::ClosingCall => "atc",
            Tif::ClosingCross => "cpx",
        }
    }

    /// Returns whether a remainder may rest.
    #[inline]
    pub const fn may_rest(self) -> bool {
        !matches!(self, Tif::ImmediateOrCancel | Tif::FillOrKill)
    }
}

/// The order types of the tables. An iceberg is a limit order with a display size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OrderKind {
    Market = 0,
    Limit,
    Hidden,
    Stop,
    StopLimit,
    Iceberg,
}

impl OrderKind {
    pub const ALL: [OrderKind; KINDS] = [
        OrderKind::Market,
        OrderKind::Limit,
        OrderKind::Hidden,
        OrderKind::Stop,
        OrderKind::StopLimit,
        OrderKind::Iceberg,
    ];

    pub const fn of(order: &NewOrder) -> OrderKind {
        match order.order_type {
            OrderType::Market => OrderKind::Market,
            OrderType::Limit { .. } if order.display.is_some() => OrderKind::Iceberg,
            OrderType::Limit { .. } => OrderKind::Limit,
            OrderType::Hidden { .. } => OrderKind::Hidden,
            OrderType::Stop { .. } => OrderKind::Stop,
            OrderType::StopLimit { .. } => OrderKind::StopLimit,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            OrderKind::Market => "market",
            OrderKind::Limit => "limit",
            OrderKind::Hidden => "hidden",
            OrderKind::Stop => "stop",
            OrderKind::StopLimit => "stop_limit",
            OrderKind::Iceberg => "iceberg",
        }
    }
}

/// The answer of a table. If two tables answer, the lower one in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TableAnswer {
    /// The order is refused. Also the answer for orders that are only carried over from an earlier
    /// day.
    Reject = 0,
    Park,
    Immediate,
    Active,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCell {
    pub answer: TableAnswer,
    /// Id of the rule that decides.
    pub rule: &'static str,
}

/// How a session matches orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchingMode {
    Nothing,
    /// On entry.
    Continuous,
    /// Once, at its end.
    Uncross,
    /// On entry, at the closing price alone.
    ClosingPrice,
}

/// A set of times in force, which may also contain market orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TifSet(pub u16);

impl TifSet {
    pub const NONE: TifSet = TifSet(0);
    const MARKET: u16 = 1 << 15;

    pub const fn has(self, tif: Tif) -> bool {
        self.0 & (1 << tif as u16) != 0
    }

    pub const fn has_market(self) -> bool {
        self.0 & Self::MARKET != 0
    }

    #[must_use]
    pub const fn union(self, other: TifSet) -> TifSet {
        TifSet(self.0 | other.0)
    }

    /// Returns whether the set contains no unknown members.
    pub const fn is_valid(self) -> bool {
        self.0 & !(Self::MARKET | ((1 << TIFS) - 1)) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPermissions {
    pub enter: bool,
    pub amend: bool,
    pub amend_hidden: bool,
    pub park: bool,
    pub breaker: bool,
    pub self_match: bool,
    pub matching: MatchingMode,
    /// Parked orders that are injected when the session begins.
    pub inject: TifSet,
    /// Orders that expire when the session ends.
    pub expire: TifSet,
}

/// Returns what a session permits. `Closed` and `Deleted` permit the same as `PostClose`.
pub fn session_permissions(phase: Phase) -> &'static SessionPermissions {
    &TABLES.permits[row(phase)]
}

/// Returns the cell of an order type and a time in force, for every session. Never `Park` or
/// `Immediate`.
pub fn type_cell(kind: OrderKind, tif: Tif) -> &'static RuleCell {
    &TABLES.types[tif as usize][kind as usize]
}

/// Returns the cell of a session and a time in force.
pub fn tif_cell(phase: Phase, tif: Tif) -> &'static RuleCell {
    &TABLES.cells[row(phase)][tif as usize]
}

/// Returns the cell of a session and an order type.
pub fn kind_cell(phase: Phase, kind: OrderKind) -> &'static RuleCell {
    &TABLES.cells[row(phase)][TIFS + kind as usize]
}

const fn row(phase: Phase) -> usize {
    match phase {
        Phase::Closed | Phase::Deleted => Phase::PostClose as usize,
        other => other as usize,
    }
}

struct Tables {
    types: [[RuleCell; KINDS]; TIFS],
    cells: [[RuleCell; TIFS + KINDS]; PHASES],
    permits: [SessionPermissions; PHASES],
}

#[allow(long_running_const_eval)]
static TABLES: Tables = read();

const NO_RULE: &str = "";
const NO_CELL: RuleCell = RuleCell { answer: TableAnswer::Reject, rule: NO_RULE };
const NO_PERMIT: SessionPermissions = SessionPermissions {
    enter: false,
    amend: false,
    amend_hidden: false,
    park: false,
    breaker: false,
    self_match: false,
    matching: MatchingMode::Nothing,
    inject: TifSet::NONE,
    expire: TifSet::NONE,
};

/// Parses both files. Understands only lines of the form `{ key = "value", … }` and lists of
/// values.
const fn read() -> Tables {
    let mut tables = Tables {
        types: [[NO_CELL; KINDS]; TIFS],
        cells: [[NO_CELL; TIFS + KINDS]; PHASES],
        permits: [NO_PERMIT; PHASES],
    };
    let (mut types, mut cells, mut permits) = (0, 0, 0);
    let mut at = 0;
    while at < ORDER_TYPES.len() {
        let line = line_from(ORDER_TYPES, at);
        if starts(line, "    { tif = ") {
            let cell = &mut tables.types[tif_named(text(line, "tif = "))][kind_named(text(line, "type = "))];
            assert!(cell.rule.is_empty(), "order-types.toml contains a cell twice");
            *cell = RuleCell { answer: answer_named(text(line, "answer = ")), rule: text(line, "rule = ") };
            types += 1;
        }
        at += line.len() + 1;
    }
    at = 0;
    while at < SESSIONS.len() {
        let line = line_from(SESSIONS, at);
        if starts(line, "    { session = ") {
            let column = if same(text(line, "kind = "), "tif") {
                tif_named(text(line, "column = "))
            } else {
                TIFS + kind_named(text(line, "column = "))
            };
            let cell = &mut tables.cells[phase_named(text(line, "session = "))][column];
            assert!(cell.rule.is_empty(), "sessions.toml contains a cell twice");
            *cell = RuleCell { answer: answer_named(text(line, "answer = ")), rule: text(line, "rule = ") };
            cells += 1;
        } else if starts(line, "    { name = ") {
            tables.permits[phase_named(text(line, "name = "))] = permit_of(line);
            permits += 1;
        }
        at += line.len() + 1;
    }
    assert!(types == TIFS * KINDS, "a cell is missing in order-types.toml");
    assert!(permits == PHASES - 2, "a session is missing in sessions.toml");
    assert!(cells == (PHASES - 2) * (TIFS + KINDS), "a cell is missing in sessions.toml");
    tables
}

const fn permit_of(line: &str) -> SessionPermissions {
    let matching = text(line, "match = ");
    SessionPermissions {
        enter: flag(line, " enter = "),
        amend: flag(line, " amend = "),
        amend_hidden: flag(line, " amend_hidden = "),
        park: flag(line, " park = "),
        breaker: flag(line, " breaker = "),
        self_match: flag(line, " self_match = "),
        matching: if same(matching, "none") {
            MatchingMode::Nothing
        } else if same(matching, "continuous") {
            MatchingMode::Continuous
        } else if same(matching, "uncross") {
            MatchingMode::Uncross
        } else {
            assert!(same(matching, "closing_price"), "an unknown way of matching");
            MatchingMode::ClosingPrice
        },
        inject: kinds(line, "inject = ["),
        expire: kinds(line, "expire = ["),
    }
}

const fn line_from(all: &'static str, from: usize) -> &'static str {
    let bytes = all.as_bytes();
    let mut to = from;
    while to < bytes.len() && bytes[to] != b'\n' {
        to += 1;
    }
    all.split_at(to).0.split_at(from).1
}

const fn starts(line: &str, with: &str) -> bool {
    here(line.as_bytes(), 0, with.as_bytes())
}

const fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && here(a.as_bytes(), 0, b.as_bytes())
}

const fn here(bytes: &[u8], at: usize, wanted: &[u8]) -> bool {
    let mut n = 0;
    while n < wanted.len() {
        if at + n >= bytes.len() || bytes[at + n] != wanted[n] {
            return false;
        }
        n += 1;
    }
    true
}

/// Returns what follows the first `key`.
const fn after<'a>(line: &'a str, key: &str) -> &'a str {
    let (bytes, wanted) = (line.as_bytes(), key.as_bytes());
    let mut at = 0;
    while !here(bytes, at, wanted) {
        at += 1;
        assert!(at < bytes.len(), "a line lacks a key");
    }
    line.split_at(at + wanted.len()).1
}

/// Returns the text between the next two quotation marks.
const fn quoted(rest: &str) -> &str {
    let rest = after(rest, "\"");
    let bytes = rest.as_bytes();
    let mut to = 0;
    while bytes[to] != b'"' {
        to += 1;
    }
    rest.split_at(to).0
}

const fn text<'a>(line: &'a str, key: &str) -> &'a str {
    quoted(after(line, key))
}

const fn flag(line: &str, key: &str) -> bool {
    let rest = after(line, key);
    assert!(starts(rest, "true") || starts(rest, "false"), "a flag is true or false");
    starts(rest, "true")
}

/// Returns the values of a list up to its closing bracket.
const fn kinds(line: &str, key: &str) -> TifSet {
    let mut rest = after(line, key);
    let mut found = 0;
    while !starts(rest, "]") {
        let name = quoted(rest);
        found |= if same(name, "market") { TifSet::MARKET } else { 1 << tif_named(name) };
        rest = after(after(rest, "\""), "\"");
        if starts(rest, ", ") {
            rest = rest.split_at(2).1;
        }
    }
    TifSet(found)
}

/// Defines a function that returns the index of the variant with a name.
macro_rules! index_by_name {
    ($function:ident, $enum:ident, $what:literal) => {
        const fn $function(name: &str) -> usize {
            let mut at = 0;
            while at < $enum::ALL.len() {
                if same(name, $enum::ALL[at].name()) {
                    return at;
                }
                at += 1;
            }
            panic!($what);
        }
    };
}

index_by_name!(tif_named, Tif, "an unknown time in force");
index_by_name!(kind_named, OrderKind, "an unknown type of order");
index_by_name!(phase_named, Phase, "an unknown session");

const fn answer_named(name: &str) -> TableAnswer {
    if same(name, "reject") || same(name, "carried") {
        TableAnswer::Reject
    } else if same(name, "park") {
        TableAnswer::Park
    } else if same(name, "immediate") {
        TableAnswer::Immediate
    } else {
        assert!(same(name, "active") || same(name, "accept"), "an unknown answer");
        TableAnswer::Active
    }
}
