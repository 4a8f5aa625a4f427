//! The state of a member's session: its unanswered requests and its open orders.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::members::CtxMembers;
use super::messages::*;
use crate::messages::{CancelOrder, SbeMessage};
use crate::requests::Rejection;

/// The only partition.
pub(super) const PARTITION: u8 = 1;
/// The only order book.
pub(super) const REGULAR_BOOK: u8 = 1;
/// Units of a decimal in a quantity of one.
pub(super) const WHOLE: i64 = 100_000_000;

/// Result codes of a logon.
pub(super) mod logon_code {
    pub const SUCCESSFUL: i32 = 0;
    pub const INVALID_LOGIN: i32 = 1;
    pub const NOT_LOGGED_ON: i32 = 100;
    pub const ALREADY_LOGGED_ON: i32 = 9903;
}
/// Code of the dialect for a refused login.
pub(super) const INVALID_CREDENTIALS: i32 = 13004;

pub(super) fn frames(comp_id: i32, messages: impl IntoIterator<Item = CtxMessage>) -> Vec<u8> {
    let mut frames = Vec::with_capacity(256);
    for message in messages {
        message.encode(comp_id, &mut frames);
    }
    frames
}

pub(super) fn invalid(reason: impl Into<String>) -> Rejection {
    Rejection::invalid(reason, "Encode messages by contracts/cointossx-trading.xml and cointossx-admin.xml.")
}

/// Returns the client id of a logon, and its secret if the password is right.
pub(super) fn check_logon<'a>(members: &'a CtxMembers, logon: &CtxLogon) -> Result<(String, Option<&'a str>), String> {
    let (password, new_password) = (logon.password.as_str(), logon.new_password.as_str());
    if !new_password.is_empty() && new_password != password {
        return Err("change the password in the member file".into());
    }
    Ok(members.login(logon.comp_id, password))
}

/// Returns the letter of a message in the JSE's native protocol, or a space if it has none.
pub(super) const fn letter(template: u16) -> u8 {
    match template {
        1 => b'A',
        3 => b'5',
        5 => b'M',
        9 => b'D',
        10 => b'F',
        11 => b'q',
        12 => b'G',
        _ => b' ',
    }
}

/// The parts of a request that its answer repeats.
#[derive(Debug, Default)]
pub(super) struct RequestContext {
    pub template: u16,
    pub client_order_id: String,
    pub order_id: i32,
    /// The new order.
    pub order: Option<Box<CtxNewOrder>>,
    /// Newest order number of the member when the request was decoded.
    pub newest_order_id: u64,
}

/// An order of the member that may be open.
#[derive(Debug)]
pub(super) struct MemberOrder {
    pub order_id: Option<u64>,
    pub trader_mnemonic: PaddedText<17>,
    pub account: PaddedText<10>,
}

#[derive(Debug, Default)]
pub(super) struct SessionState {
    pub last_request_id: u64,
    pub requests: HashMap<u64, RequestContext>,
    /// Orders by the client's own number.
    pub orders: BTreeMap<String, MemberOrder>,
    pub newest_order_id: u64,
    /// Open orders to cancel when the connection ends.
    pub cancel_on_disconnect: BTreeSet<u64>,
    pub has_connection: bool,
}

impl SessionState {
    /// Stores the context of a request, and returns the number of the request.
    pub fn begin(&mut self, context: RequestContext) -> u64 {
        self.last_request_id += 1;
        let newest_order_id = self.newest_order_id;
        self.requests.insert(self.last_request_id, RequestContext { newest_order_id, ..context });
        self.last_request_id
    }

    pub fn learn(&mut self, client_order_id: &str, order_id: u64) {
        self.newest_order_id = self.newest_order_id.max(order_id);
        if let Some(order) = self.orders.get_mut(client_order_id) {
            order.order_id = Some(order_id);
        }
    }

    pub fn forget(&mut self, client_order_id: &str, order_id: u64) {
        if self.orders.get(client_order_id).is_some_and(|order| order.order_id.is_none_or(|id| id == order_id)) {
            self.orders.remove(client_order_id);
        }
        self.cancel_on_disconnect.remove(&order_id);
    }

    pub fn cancel(&mut self, order_id: u64) -> SbeMessage {
        self.last_request_id += 1;
        CancelOrder { request_id: self.last_request_id, order_id }.into()
    }
}

/// The messages of one member.
pub(super) struct CoinTossXSession {
    pub comp_id: i32,
    pub members: Arc<CtxMembers>,
    pub state: RefCell<SessionState>,
}

impl CoinTossXSession {
    pub fn state(&self) -> RefMut<'_, SessionState> {
        self.state.borrow_mut()
    }

    pub fn frames(&self, messages: impl IntoIterator<Item = CtxMessage>) -> Vec<u8> {
        frames(self.comp_id, messages)
    }
}
