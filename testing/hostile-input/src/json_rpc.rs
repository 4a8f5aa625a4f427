//! Hostile input for the dispatcher: JSON texts, or WebSocket frames that carry them.
//!
//! The first byte of an input chooses: `F` and a step feed the rest through the frame decoder in
//! pieces of that many bytes; anything else is lines. A line goes to a session with a login; a line
//! that starts with `~` to a session without one, with `@` to another member's, with `#` to the
//! operator's, and with `?` to HTTP as `scope/method?query`.

use pitwire_memory_venue::MemoryVenue;
use std::cell::Cell;
use std::collections::BTreeMap;

use pitwire_deribit::codec::{Request, RequestId, RpcError};
use pitwire_deribit::{
    Access, AnswerProgress, Credential, DispatchOutcome, Dispatcher, NoticeTexts, RequestClock, RequestContext,
    Session, Transport, account_events, method_names,
};
use pitwire_model::AccountId;
use pitwire_websocket::{Decoder, IncomingMessage, MessageLimits};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::venue::{MEMBERS, small_venue};

const WALL_US: u64 = 1_795_219_359_706_101;
/// Longer texts are refused by the decoder.
const LONGEST_TEXT: usize = 32 * 1024;

thread_local! {
    static TOKENS: Cell<u64> = const { Cell::new(0) };
}

/// Tokens need not be secret here, only unique, and equal from run to run.
fn token() -> [u8; 32] {
    TOKENS.set(TOKENS.get() + 1);
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&TOKENS.get().to_le_bytes());
    bytes
}

struct HostileClient {
    venue: MemoryVenue,
    dispatcher: Dispatcher,
    /// The sessions without a login, of alice, of bob and of the operator.
    sessions: [Session; 4],
}

/// Accepts any input and checks that only answers of the dialect come out.
pub fn run(input: &[u8]) {
    let mut client = HostileClient::open();
    match input {
        [b'F', step, frames @ ..] => client.frames(frames, usize::from(*step).max(1)),
        lines => lines.split(|byte| *byte == b'\n').for_each(|line| client.line(line)),
    }
}

impl HostileClient {
    fn open() -> Self {
        let credentials = (0..).map(AccountId).zip(MEMBERS).map(|(account, name)| Credential {
            client_id: name.into(),
            secret: format!("{name}-secret").into(),
            account,
            account_name: name.into(),
            access: if name == "operator" { Access::OPERATOR } else { Access::MEMBER },
        });
        TOKENS.set(0);
        let dispatcher = Dispatcher::new(credentials.collect(), token);
        let mut client = HostileClient { venue: small_venue(), dispatcher, sessions: Default::default() };
        for (at, name) in [(1, "alice"), (2, "bob"), (3, "operator")] {
            let grant = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"public/auth","params":{{"grant_type":"client_credentials","client_id":"{name}","client_secret":"{name}-secret"}}}}"#
            );
            client.text(at, &grant);
        }
        client
    }

    fn line(&mut self, line: &[u8]) {
        // The decoder passes nothing else.
        let Ok(text) = std::str::from_utf8(line) else { return };
        match text.split_at_checked(1) {
            Some(("~", rest)) => self.text(0, rest),
            Some(("@", rest)) => self.text(2, rest),
            Some(("#", rest)) => self.text(3, rest),
            Some(("?", rest)) => self.query(rest),
            _ => self.text(1, text),
        }
    }

    fn frames(&mut self, bytes: &[u8], step: usize) {
        let (mut decoder, mut waiting) = (Decoder::new(MessageLimits::default()), Vec::new());
        for piece in bytes.chunks(step) {
            waiting.extend_from_slice(piece);
            loop {
                let text = match decoder.decode(&waiting) {
                    Err(_) | Ok((_, Some(IncomingMessage::Close(_)))) => return,
                    Ok((0, None)) => break,
                    Ok((used, message)) => {
                        assert!(used <= waiting.len(), "a frame ends behind what has arrived");
                        let text = match message {
                            Some(IncomingMessage::Text(text)) => {
                                assert!(text.len() <= LONGEST_TEXT, "a message above its limit came through");
                                Some(text.to_owned())
                            }
                            _ => None,
                        };
                        waiting.drain(..used);
                        text
                    }
                };
                if let Some(text) = text {
                    self.text(1, &text);
                }
            }
        }
    }

    fn text(&mut self, at: usize, text: &str) {
        self.asked(at, Transport::WebSocket, |dispatcher, visit, out| dispatcher.answer_text(visit, text, None, out));
    }

    fn query(&mut self, line: &str) {
        let (method, query) = line.split_once('?').unwrap_or((line, ""));
        self.asked(1, Transport::Http, |dispatcher, visit, out| match Request::from_query(method, query) {
            Ok(request) => dispatcher.answer(visit, &request, out),
            Err(error) => refused(&error, visit.clock, out),
        });
    }

    fn asked(
        &mut self,
        at: usize,
        transport: Transport,
        ask: impl FnOnce(&mut Dispatcher, RequestContext<'_>, &mut Vec<u8>) -> DispatchOutcome,
    ) {
        let clock = RequestClock { received_us: WALL_US, now_us: || WALL_US, steady_ns: WALL_US * 1000 };
        let mut out = Vec::new();
        let Some(session) = self.sessions.get_mut(at) else { return };
        let mut answer =
            ask(&mut self.dispatcher, RequestContext { venue: &mut self.venue, session, transport, clock }, &mut out);
        if let Some(mut rest) = answer.rest.take() {
            let finished = rest.advance(&mut self.venue, usize::MAX, || WALL_US);
            if let Ok(AnswerProgress::Finished { text, error }) = finished {
                (out, answer.is_error) = (text, error.is_some());
            }
        }
        check_answer(&out, &answer);
        self.notify();
    }

    /// Sends notifications to every session.
    fn notify(&mut self) {
        let MemoryVenue { engine, views, changes, .. } = &self.venue;
        let accounts = engine.accounts().iter().map(|account| account.spec.id);
        let events = account_events(engine, views, changes, |_| true, accounts);
        let mut texts = NoticeTexts::for_sessions(self.sessions.len());
        for session in &mut self.sessions {
            session.notify((engine, views), &events, &mut texts, &mut |text| {
                let notice: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
                assert_eq!(notice["method"], "subscription", "{}", String::from_utf8_lossy(text));
            });
        }
        self.venue.changes.clear();
    }
}

fn refused(error: &RpcError, clock: RequestClock, out: &mut Vec<u8>) -> DispatchOutcome {
    Dispatcher::refuse(&RequestId::default(), error, clock, out)
}

/// Checks one envelope with a result or a registered error. Numbers are not checked, because a
/// client may choose an id that no machine number can hold and gets it back as written.
fn check_answer(out: &[u8], answer: &DispatchOutcome) {
    let text = String::from_utf8_lossy(out);
    let envelope: BTreeMap<&str, &RawValue> = serde_json::from_slice(out).unwrap_or_default();
    let field = |name| envelope.get(name).map(|raw: &&RawValue| raw.get());
    assert_eq!(field("jsonrpc"), Some("\"2.0\""), "no answer of the dialect: {text}");
    assert_eq!(field("error").is_some(), answer.is_error, "{text}");
    assert_ne!(field("error").is_some(), field("result").is_some(), "{text}");
    if let Some(error) = field("error") {
        let error: Value = serde_json::from_str(error).unwrap_or(Value::Null);
        let code = error["code"].as_i64();
        assert!(code.is_some_and(|code| code != 11_094), "an error that is not registered: {text}");
    }
    assert!(!answer.log_failed, "memory does not fail");
}

/// Every served method with more parameters than it needs, then whole conversations.
pub fn seeds() -> Vec<Vec<u8>> {
    const PARAMS: &str = r#"{"instrument_name":"NPN_ZAR","currency":"ZAR","kind":"any","type":"limit","amount":3,"price":3200.01,"time_in_force":"good_til_cancelled","label":"x","order_id":"33","count":5,"depth":5,"start_timestamp":0,"end_timestamp":1795219400000,"resolution":"1","index_name":"btc_usd","channels":["book.NPN_ZAR.100ms","user.orders.any.any.raw","user.trades.any.any.100ms","ticker.BTC_USDC.100ms"],"grant_type":"client_credentials","client_id":"bob","client_secret":"bob-secret","scope":"venue","interval":10,"ns":1000000000,"account":"bob","action":"stop","reason":"r","rate_percent":50,"trade_id":"1000000000001","name":"NPN","base_currency":"NPN","quote_currency":"ZAR","tick_size":0.01,"lot_size":1,"start_price":5,"self_match":"none","max_open_orders":5,"max_amount":9,"max_notional":1000,"collar_percent":5,"max_executions":3,"execution_window_ms":1000,"credit":"limited","durability":"memory","running":true}"#;
    const LINES: &[&str] = &[
        r#"{"jsonrpc":"2.0","id":1,"method":"private/subscribe","params":{"channels":["user.orders.any.any.raw","user.trades.any.any.raw","user.changes.any.any.raw","user.portfolio.any"]}}
{"jsonrpc":"2.0","id":2,"method":"private/buy","params":{"instrument_name":"BTC-PERPETUAL","amount":20,"type":"market","label":"m"}}
@{"jsonrpc":"2.0","id":"b","method":"private/sell","params":{"instrument_name":"BTC-PERPETUAL","amount":"10","type":"limit","price":"60000.5"}}
{"jsonrpc":"2.0","id":3,"method":"private/close_position","params":{"instrument_name":"BTC-PERPETUAL","type":"market"}}
{"jsonrpc":"2.0","id":4,"method":"private/get_positions","params":{"currency":"BTC"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"private/buy","params":{"instrument_name":"NPN_ZAR","amount":4,"price":3199.99,"max_show":1,"post_only":true}}
{"jsonrpc":"2.0","id":6,"method":"private/edit","params":{"order_id":"49","amount":2,"price":3199.98}}
{"jsonrpc":"2.0","id":7,"method":"private/cancel","params":{"order_id":"49"}}
?private/get_order_state?order_id=49
~{"id":8,"method":"private/buy"}
~not json at all"#,
        "?public/get_order_book?instrument_name=NPN_ZAR&depth=10",
        "?public/auth?grant_type=client_credentials&client_id=alice&client_secret=alice%2Dsecret",
        r#"[{"jsonrpc":"2.0","id":1,"method":"public/test"}]"#,
        r#"{"jsonrpc":"1.0","id":{"a":1},"method":7,"params":[1,2]}"#,
    ];
    let mut seeds: Vec<Vec<u8>> = LINES.iter().map(|line| line.as_bytes().to_vec()).collect();
    for method in method_names() {
        // Operators' methods refuse every other login.
        let whose = if method.contains("pitwire") || method.contains("operator") { "#" } else { "" };
        seeds.push(format!(r#"{whose}{{"jsonrpc":"2.0","id":9,"method":"{method}","params":{PARAMS}}}"#).into_bytes());
    }
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"public/test","params":{}}"#.as_bytes();
    let (begun, ended) = text.split_at(20);
    let conversation = [
        frame(0x89, b"ping"),
        frame(0x01, begun),
        frame(0x8A, b""),
        frame(0x80, ended),
        frame(0x82, &[0xFF; 200]),
        frame(0x81, text),
        frame(0x88, &[0x03, 0xE8]),
    ];
    for step in [1, 7, 255] {
        seeds.push([&[b'F', step], conversation.concat().as_slice()].concat());
    }
    seeds
}

/// Masks a frame as a client does.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];
    let mut out = vec![first];
    match u8::try_from(payload.len()) {
        Ok(short @ 0..=125) => out.push(0x80 | short),
        _ => {
            out.push(0x80 | 126);
            out.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}
