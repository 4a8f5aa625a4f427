//! A venue in memory with a client: the fixture of every test of the methods.

pub mod requests;
pub mod shape;

use std::sync::atomic::{AtomicU64, Ordering};

use pitwire_deribit::codec::Request;
use pitwire_deribit::{
    Access, AccountEvent, AnswerProgress, Authorization, Credential, DispatchOutcome, Dispatcher, Effect, LongAnswer,
    NoticeTexts, RequestClock, RequestContext, Session, SignedRequest, Transport, account_events,
};
use pitwire_memory_venue::MemoryVenue;
use pitwire_model::{
    AccountId, Command, Credit, Currency, CurrencyId, InstrumentSpec, Label, Phase, TradingRules, VenueNanos,
};
use serde_json::{Value, json};

/// The times of the example in the dialect's documentation.
pub const VENUE_MS: u64 = 1_795_219_359_707;
pub const WALL_US: u64 = 1_795_219_359_706_101;
const ANSWERED_US: u64 = 1_795_219_359_707_003;

pub const ALICE: AccountId = AccountId(0);

/// Currency names with their decimals.
const CURRENCIES: [(&str, u8); 7] =
    [("ZAR", 2), ("USDC", 6), ("USD", 2), ("BTC", 8), ("NPN", 0), ("AGL", 0), ("ETH", 8)];

fn currency(name: &str) -> CurrencyId {
    let at = CURRENCIES.iter().position(|(known, _)| *known == name).expect("a currency of the table");
    CurrencyId(u32::try_from(at).expect("a short table"))
}

/// All shares of the table belong to one segment.
fn rules(name: &str) -> Option<Box<TradingRules>> {
    let segment = Label::new("ZA01").expect("a short text");
    name.ends_with("_ZAR").then(|| Box::new(TradingRules { segment, ..TradingRules::default() }))
}

fn instruments() -> impl Iterator<Item = InstrumentSpec> {
    let third = ("AGL", "ZAR", (1, 2), (1, 0), 51_000);
    pitwire_memory_venue::instruments(currency, third)
        .into_iter()
        .map(|spec| InstrumentSpec { rules: rules(&spec.name), ..spec })
}

/// Returns a venue with four instruments, and three members with balances.
fn test_venue() -> MemoryVenue {
    let mut venue = MemoryVenue::new(VenueNanos(VENUE_MS * 1_000_000));
    for (name, decimals) in CURRENCIES {
        venue.must(Command::AddCurrency(Currency { id: currency(name), name: name.into(), decimals }));
    }
    for (id, name) in (0..).map(AccountId).zip(["alice", "bob", "operator"]) {
        venue.must(Command::AddAccount(pitwire_fixtures::account(id, name, Credit::Limited)));
        for (currency_name, whole) in [("ZAR", 1_000_000), ("USDC", 1_000_000), ("BTC", 20), ("NPN", 100), ("AGL", 100)]
        {
            let currency = currency(currency_name);
            let decimals = CURRENCIES[currency.0 as usize].1;
            let units = whole * 10_i128.pow(u32::from(decimals));
            venue.must(Command::Deposit { account: id, currency, units });
        }
    }
    for spec in instruments() {
        let instrument = spec.id;
        venue.must(Command::AddInstrument(Box::new(spec)));
        venue.must(Command::SetPhase { instrument, phase: Phase::Continuous });
    }
    venue
}

/// Returns texts that never repeat, which is all that tokens need in a test.
fn random() -> [u8; 32] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    bytes
}

pub struct World {
    pub venue: MemoryVenue,
    pub dispatcher: Dispatcher,
    pub wall_us: u64,
    pub steady_ns: u64,
    /// Records of each part of a long answer.
    pub records_per_part: usize,
    /// Parts of long answers up to now, without the last part of each.
    pub parts: usize,
}

/// One answer: its bytes and its parsed form.
#[derive(Debug)]
pub struct Reply {
    pub text: String,
    pub value: Value,
    pub effects: Vec<Effect>,
    pub is_error: bool,
    pub log_failed: bool,
}

impl Reply {
    pub fn code(&self) -> i64 {
        self.value["error"]["code"].as_i64().unwrap_or(0)
    }

    #[track_caller]
    pub fn result(&self) -> &Value {
        self.value.get("result").unwrap_or_else(|| panic!("{}", self.text))
    }

    /// Collects one field of a list, such as instrument names or order ids.
    #[track_caller]
    pub fn each(&self, field: &str) -> Vec<&str> {
        let list = self.result().as_array().unwrap_or_else(|| panic!("{}", self.text));
        list.iter().map(|item| item[field].as_str().expect("a text")).collect()
    }
}

/// Returns the credentials of all members. A secret is the name and `-secret`.
pub fn credentials() -> Vec<Credential> {
    let credential = |(name, account): (&str, u32)| Credential {
        client_id: name.into(),
        secret: format!("{name}-secret").into(),
        account: AccountId(account),
        account_name: name.into(),
        access: if name == "operator" { Access::OPERATOR } else { Access::MEMBER },
    };
    ["alice", "bob", "operator"].into_iter().zip(0..).map(credential).collect()
}

impl World {
    pub fn new() -> Self {
        let dispatcher = Dispatcher::new(credentials(), random);
        World { venue: test_venue(), dispatcher, wall_us: WALL_US, steady_ns: 0, records_per_part: 100, parts: 0 }
    }

    /// Returns the session of an HTTP request with this `Authorization` header.
    pub fn by_header(&mut self, header: &str) -> Session {
        let request = SignedRequest { method: "GET", uri: "/api/v2/x", body: "" };
        let clock = self.clock();
        self.dispatcher.session_of(Authorization(header), request, None, clock)
    }

    pub fn clock(&self) -> RequestClock {
        RequestClock { received_us: self.wall_us, now_us: || ANSWERED_US, steady_ns: self.steady_ns }
    }

    fn visited(
        &mut self,
        session: &mut Session,
        transport: Transport,
        ask: impl FnOnce(&mut Dispatcher, RequestContext<'_>, &mut Vec<u8>) -> DispatchOutcome,
    ) -> Reply {
        let clock = self.clock();
        let mut out = Vec::new();
        let visit = RequestContext { venue: &mut self.venue, session, transport, clock };
        let DispatchOutcome { effects, mut is_error, log_failed, rest, .. } =
            ask(&mut self.dispatcher, visit, &mut out);
        if let Some(mut answer) = rest {
            assert!(out.is_empty(), "nothing is answered before the whole answer");
            while out.is_empty() {
                match answer.advance(&mut self.venue, self.records_per_part, || ANSWERED_US).expect("no journal fails")
                {
                    AnswerProgress::Unfinished => self.parts += 1,
                    AnswerProgress::Finished { text, error } => (out, is_error) = (text, error.is_some()),
                }
            }
        }
        let text = String::from_utf8(out).expect("UTF-8");
        let value = serde_json::from_str(&text).unwrap_or(Value::Null);
        Reply { text, value, effects, is_error, log_failed }
    }

    /// Sends one text over a WebSocket.
    pub fn text(&mut self, session: &mut Session, text: &str) -> Reply {
        self.visited(session, Transport::WebSocket, |dispatcher, visit, out| {
            dispatcher.answer_text(visit, text, None, out)
        })
    }

    pub fn call(&mut self, session: &mut Session, method: &str, params: Value) -> Reply {
        let text = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        self.text(session, &text)
    }

    /// Sends a call with a long answer. Returns the part that was sent at once and the rest.
    pub fn begin(&mut self, session: &mut Session, method: &str, params: Value) -> (String, LongAnswer) {
        let text = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string();
        let clock = RequestClock { received_us: self.wall_us, now_us: || ANSWERED_US, steady_ns: self.steady_ns };
        let (mut out, venue) = (Vec::new(), &mut self.venue);
        let visit = RequestContext { venue, session, transport: Transport::WebSocket, clock };
        let rest = self.dispatcher.answer_text(visit, &text, None, &mut out).rest.expect("a long answer");
        (String::from_utf8(out).expect("UTF-8"), rest)
    }

    /// Produces the rest of a long answer.
    pub fn finish(&mut self, answer: &mut LongAnswer) -> Value {
        loop {
            let progress = answer.advance(&mut self.venue, self.records_per_part, || ANSWERED_US);
            if let AnswerProgress::Finished { text, .. } = progress.expect("no journal fails") {
                return parsed(&text);
            }
        }
    }

    /// Sends a call that must succeed.
    #[track_caller]
    pub fn ok(&mut self, session: &mut Session, method: &str, params: Value) -> Reply {
        let reply = self.call(session, method, params);
        assert!(!reply.is_error, "{method}: {}", reply.text);
        reply
    }

    /// `GET /api/v2/{method}?{query}`.
    pub fn get(&mut self, session: &mut Session, method: &str, query: &str) -> Reply {
        let request = Request::from_query(method, query).expect("a query without broken escapes");
        self.visited(session, Transport::Http, |dispatcher, visit, out| dispatcher.answer(visit, &request, out))
    }

    pub fn grant(&mut self, session: &mut Session, name: &str) -> Value {
        let grant = json!({"grant_type": "client_credentials", "client_id": name,
            "client_secret": format!("{name}-secret")});
        self.ok(session, "public/auth", grant).result().clone()
    }

    /// Returns a connection without a login.
    pub fn connect(&mut self) -> Session {
        self.dispatcher.connect(&self.venue.engine)
    }

    pub fn login(&mut self, name: &str) -> Session {
        let mut session = self.connect();
        self.grant(&mut session, name);
        session
    }

    pub fn token(&mut self, name: &str) -> String {
        let granted = self.grant(&mut Session::new(), name);
        granted["access_token"].as_str().expect("a token").into()
    }

    /// Enters a limit order and returns its id.
    #[track_caller]
    pub fn limit(&mut self, session: &mut Session, side: &str, instrument: &str, amount: f64, price: f64) -> String {
        let params = json!({"instrument_name": instrument, "amount": amount, "type": "limit", "price": price});
        let reply = self.ok(session, &format!("private/{side}"), params);
        reply.result()["order"]["order_id"].as_str().expect("a text").into()
    }

    /// Returns the messages that a session receives for all events since the last call.
    pub fn received(&mut self, session: &mut Session) -> Vec<Value> {
        let mut received = Vec::new();
        let MemoryVenue { engine, views, .. } = &self.venue;
        let mut texts = NoticeTexts::for_sessions(1);
        session.notify((engine, views), &self.events(), &mut texts, &mut |text| received.push(parsed(text)));
        received
    }

    /// Returns the changes of all accounts since the last call.
    pub fn events(&self) -> Vec<AccountEvent> {
        let MemoryVenue { engine, views, changes, .. } = &self.venue;
        account_events(engine, views, changes, |_| true, (0..3).map(AccountId))
    }
}

pub fn parsed(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}
