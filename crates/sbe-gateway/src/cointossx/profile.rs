//! The profile: the logon of a member, and the messages of its session.

use std::cell::RefCell;
use std::sync::Arc;

use pitwire_projections::OrderRecord;

use super::member_session::*;
use super::members::CtxMembers;
use super::messages::*;
use crate::codec::{FixedDecimal, Text};
use crate::messages::{Logon, Logout, SbeMessage};
use crate::profile::{ALREADY_LOGGED_ON, ClientFrames, ClientMessage, EntryRefusal, Profile, SessionProfile};
use crate::requests::Rejection;

/// The schemas `contracts/cointossx-*.xml`.
pub(crate) struct CoinTossXProfile {
    members: Arc<CtxMembers>,
}

impl CoinTossXProfile {
    pub fn new(members: CtxMembers) -> Self {
        CoinTossXProfile { members: Arc::new(members) }
    }
}

impl Profile for CoinTossXProfile {
    fn decode_logon(&self, frame: &[u8]) -> Result<Logon, String> {
        match CtxMessage::decode(frame) {
            Ok((_, CtxMessage::CtxLogon(logon))) => {
                let (client_id, secret) = check_logon(&self.members, &logon)?;
                // For a wrong password, a secret that no account has: the venue then refuses the
                // logon and counts it.
                let (client_id, secret) = (Text::new(&client_id), Text::new(secret.unwrap_or("wrong password")));
                Ok(Logon { client_id, secret, next_sequence: 0, heartbeat_s: 0 })
            }
            Ok((_, other)) => Err(format!("template id {} before the logon", other.template_id())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn refuse_logon(&self, logout: Logout) -> Vec<u8> {
        let reject_code = match logout.code {
            INVALID_CREDENTIALS => logon_code::INVALID_LOGIN,
            _ if logout.reason == ALREADY_LOGGED_ON => logon_code::ALREADY_LOGGED_ON,
            _ => logon_code::NOT_LOGGED_ON,
        };
        let reject = CtxReject {
            reject_code: logout.code,
            reject_reason: PaddedText::new(&logout.reason),
            message_type: letter(1),
            client_order_id: PaddedText::new(""),
        };
        frames(0, [reject.into(), CtxLogonResponse { reject_code, password_expiry: 0 }.into()])
    }

    fn open(&self, client_id: &str) -> Box<dyn SessionProfile> {
        let comp_id = self.members.comp_id(client_id);
        Box::new(CoinTossXSession { comp_id, members: Arc::clone(&self.members), state: RefCell::default() })
    }
}

impl SessionProfile for CoinTossXSession {
    fn decode(&self, frame: &[u8], next: u64) -> Result<ClientMessage, EntryRefusal> {
        self.decode_request(frame, next)
    }

    fn encode(&self, message: SbeMessage, sequence: u64) -> ClientFrames {
        self.encode_answer(message, sequence)
    }

    fn acknowledge_retransmit(&self) -> Vec<u8> {
        self.frames([CtxMissedMessageRequestAck { status: 0 }.into()])
    }

    fn wants_open_orders(&self) -> bool {
        true
    }

    fn observe_open_order(&self, order: &OrderRecord) {
        let (order_id, client_order_id) = (order.id.0, order.client_order_id.as_str());
        let mut state = self.state();
        state.newest_order_id = state.newest_order_id.max(order_id);
        if !client_order_id.is_empty() {
            let (trader_mnemonic, account) = (PaddedText::new(""), PaddedText::new(""));
            let known = MemberOrder { order_id: Some(order_id), trader_mnemonic, account };
            state.orders.insert(client_order_id.to_owned(), known);
        }
    }

    fn check_instrument(&self, tick: Option<FixedDecimal>, lot: Option<FixedDecimal>) -> Result<(), Rejection> {
        let has_tick = tick.is_some() && CtxPrice::of(tick).is_some();
        let has_lot = lot.is_some_and(|lot| lot.0 > 0 && lot.0 % WHOLE == 0);
        if has_tick && has_lot {
            return Ok(());
        }
        Err(Rejection {
            code: -32602,
            name: "instrument_does_not_fit".into(),
            reason: "the tick is not a multiple of 1e-4, or the lot is not a whole number".into(),
            remedy: "Trade this instrument by JSON-RPC or by pitwire-order-entry.xml.".into(),
        })
    }

    fn undo(&self, answer: &SbeMessage) -> Option<SbeMessage> {
        let SbeMessage::OrderAccepted(accepted) = answer else { return None };
        let mut state = self.state();
        let is_disconnected = !state.has_connection;
        let context = state.requests.get(&accepted.request_id)?;
        let order = context.order.as_ref()?;
        let does_not_fit = i32::try_from(accepted.order_id).is_err();
        let is_new = accepted.order_id > context.newest_order_id;
        let is_late = is_disconnected && order.cancel_on_disconnect == 1;
        (is_new && (does_not_fit || is_late)).then(|| state.cancel(accepted.order_id))
    }

    fn end_connection(&self) -> Vec<SbeMessage> {
        let mut state = self.state();
        state.has_connection = false;
        let orders = std::mem::take(&mut state.cancel_on_disconnect);
        orders.into_iter().map(|order_id| state.cancel(order_id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{
        ExecutionReport, ExecutionType, LiquidityFlag, OrderAccepted, OrderSide, OrderStatus, ReportsLost,
    };

    const ABOVE_I32: u64 = 1 << 31;

    fn session() -> Box<dyn SessionProfile> {
        CoinTossXProfile::new(CtxMembers::demo()).open("demo-a")
    }

    /// Decodes a new order of the member, and returns the number of the request.
    fn enter(session: &dyn SessionProfile, cancel_on_disconnect: u8) -> u64 {
        let order = CtxNewOrder {
            client_order_id: PaddedText::new("c-1"),
            security_id: 1,
            trader_mnemonic: PaddedText::new("John"),
            account: PaddedText::new("acc"),
            order_type: CtxOrderType::Limit,
            time_in_force: CtxTimeInForce::Day,
            expire_time: PaddedText::new(""),
            side: CtxSide::Buy,
            order_quantity: 10,
            display_quantity: 10,
            min_quantity: 0,
            limit_price: CtxPrice(32_000_000),
            stop_price: CtxPrice(0),
            capacity: 2,
            cancel_on_disconnect,
            order_book: 1,
        };
        match session.decode(&frames(1, [order.into()]), 1) {
            Ok(ClientMessage::Message(message)) => match *message {
                SbeMessage::NewOrder(order) => order.request_id,
                other => panic!("{other:?}"),
            },
            _ => panic!("the frame is a new order"),
        }
    }

    fn accepted(request_id: u64, order_id: u64) -> SbeMessage {
        OrderAccepted {
            sequence: 0,
            request_id,
            order_id,
            client_order_id: Text::new("c-1"),
            status: OrderStatus::Open,
            quantity: Some(FixedDecimal(10 * WHOLE)),
            filled_quantity: Some(FixedDecimal(0)),
        }
        .into()
    }

    fn report(order_id: u64, quantity: i64) -> SbeMessage {
        ExecutionReport {
            sequence: 0,
            execution_type: ExecutionType::New,
            status: OrderStatus::Open,
            side: OrderSide::Buy,
            liquidity: LiquidityFlag::None,
            instrument_id: 1,
            order_id,
            client_order_id: Text::new("c-1"),
            price: None,
            quantity: Some(FixedDecimal(quantity)),
            filled_quantity: None,
            last_price: None,
            last_quantity: None,
            trade_sequence: 0,
            transact_time_ms: 1,
            cancel_reason: Text::new(""),
        }
        .into()
    }

    /// Returns the messages of an answer and whether they are numbered.
    fn answer(session: &dyn SessionProfile, message: SbeMessage) -> (bool, Vec<CtxMessage>) {
        let (is_numbered, bytes) = match session.encode(message, 5) {
            ClientFrames::Numbered(bytes) => (true, bytes),
            ClientFrames::Unnumbered(bytes) => (false, bytes),
            ClientFrames::Nothing => (false, Vec::new()),
        };
        let (mut rest, mut messages) = (bytes.as_slice(), Vec::new());
        while let Some(header) = rest.first_chunk() {
            let length = crate::codec::frame_length(*header, 1024).unwrap();
            messages.push(CtxMessage::decode(&rest[..length]).unwrap().1);
            rest = &rest[length..];
        }
        (is_numbered, messages)
    }

    #[test]
    fn order_number_above_the_field_is_cancelled_and_refused_by_name() {
        let session = session();
        let request_id = enter(&*session, 0);
        let undo = session.undo(&accepted(request_id, ABOVE_I32));
        assert!(matches!(undo, Some(SbeMessage::CancelOrder(cancel)) if cancel.order_id == ABOVE_I32));
        let (is_numbered, messages) = answer(&*session, accepted(request_id, ABOVE_I32));
        assert!(is_numbered);
        let [CtxMessage::CtxReject(reject), CtxMessage::CtxExecutionReport(report)] = messages.as_slice() else {
            panic!("{messages:?}");
        };
        assert_eq!(reject.reject_reason.as_str(), "order_id_does_not_fit");
        assert_eq!((report.execution_type, report.sequence_number), (CtxExecutionType::Rejected, 5));
    }

    #[test]
    fn report_that_does_not_fit_leaves_a_system_status_in_its_place() {
        let session = session();
        let lost: (bool, Vec<CtxMessage>) = (true, vec![CtxSystemStatus { status: 2 }.into()]);
        assert_eq!(answer(&*session, report(ABOVE_I32, WHOLE)), lost);
        assert_eq!(answer(&*session, report(7, WHOLE / 2)), lost);
        assert_eq!(answer(&*session, report(7, WHOLE * (1 << 31))), lost);
        assert_eq!(answer(&*session, ReportsLost { sequence: 0, count: 1 }.into()), lost);
        let (_, messages) = answer(&*session, report(7, WHOLE));
        assert!(matches!(messages.as_slice(), [CtxMessage::CtxExecutionReport(report)] if report.order_id == 7));
    }

    #[test]
    fn order_that_is_accepted_after_the_disconnect_is_cancelled() {
        let session = session();
        for (flag, is_cancelled) in [(0, false), (1, true)] {
            let request_id = enter(&*session, flag);
            assert!(session.end_connection().is_empty());
            assert_eq!(session.undo(&accepted(request_id, 7)).is_some(), is_cancelled);
        }
        let request_id = enter(&*session, 1);
        answer(&*session, accepted(request_id, 8));
        let cancels = session.end_connection();
        assert!(matches!(cancels.as_slice(), [SbeMessage::CancelOrder(cancel)] if cancel.order_id == 8));
    }
}
