//! Answers and reports of the session as messages to the member.

use tracing::warn;

use super::member_session::*;
use super::messages::*;
use crate::codec::FixedDecimal;
use crate::messages::{
    Book, ExecutionReport, ExecutionType, InstrumentStatus, OrderAccepted, OrderSide, OrderStatus, Reject, SbeMessage,
};
use crate::profile::ClientFrames;
use crate::requests::Rejection;

/// Stands for no value in a rejectCode, whose type lists four codes of logons.
const NO_CODE: i32 = i32::MIN;
/// Code of a business reject for an unknown instrument.
const UNKNOWN_INSTRUMENT: i32 = 90_000;
/// Status of the system: missing messages cannot be repeated.
const RECOVERY_UNAVAILABLE: u8 = 2;
/// Reasons of the dialect for the end of an order by time.
const EXPIRIES: [&str; 7] =
    ["settlement", "time_reached", "date_reached", "ninety_days", "auction_ended", "pause_ended", "cross_ended"];

/// Converts a quantity. Returns `None` if it is not a whole number or does not fit.
pub(super) fn whole<N: TryFrom<i64>>(quantity: Option<FixedDecimal>) -> Option<N> {
    let units = quantity.map_or(0, |quantity| quantity.0);
    if units % WHOLE == 0 { N::try_from(units / WHOLE).ok() } else { None }
}

/// Converts a price of the public data. Absent prices are zero, as in CoinTossX.
pub(super) fn public_price(price: Option<FixedDecimal>) -> Option<CtxPrice> {
    CtxPrice::of(price.or(Some(FixedDecimal(0))))
}

/// Returns the code of a session. Sessions without one count as the start of trading, in which
/// nothing executes.
pub(super) fn trading_session(session: &str) -> CtxTradingSession {
    match session {
        "opening_auction" => CtxTradingSession::OpeningAuctionCall,
        "continuous" => CtxTradingSession::ContinuousTrading,
        "fco_auction" => CtxTradingSession::FcoAuctionCall,
        "volatility_auction" | "reopening_auction" => CtxTradingSession::VolatilityAuctionCall,
        "intraday_auction" => CtxTradingSession::IntraDayAuctionCall,
        "closing_auction" => CtxTradingSession::ClosingAuctionCall,
        "closing_price_publication" => CtxTradingSession::ClosingPricePublication,
        "closing_price_cross" => CtxTradingSession::ClosingPriceCross,
        "post_close" => CtxTradingSession::PostClose,
        _ => CtxTradingSession::StartOfTrading,
    }
}

pub(super) fn symbol_status(instrument_id: u32, session: &str, reason: &str) -> CtxMessage {
    CtxSymbolStatus {
        message_type: b'H',
        nanosecond: 0,
        instrument_id,
        trading_session: trading_session(session),
        halt_reason: if session.starts_with("halt") { 5 } else { 0 },
        session_changed_reason: match reason {
            "scheduled" | "missed" => 0,
            "extended" => 1,
            "operator" => 2,
            "breaker" => 5,
            _ => 9,
        },
        static_price_reference: CtxPrice::NONE,
        dynamic_price_reference: CtxPrice::NONE,
    }
    .into()
}

pub(super) fn best_bid_offer(
    instrument_id: u32,
    bid: (Option<FixedDecimal>, Option<FixedDecimal>),
    offer: (Option<FixedDecimal>, Option<FixedDecimal>),
) -> Option<CtxMessage> {
    let best = CtxBestBidOffer {
        message_type: b'Z',
        instrument_id,
        bid: public_price(bid.0)?,
        bid_quantity: whole(bid.1)?,
        offer: public_price(offer.0)?,
        offer_quantity: whole(offer.1)?,
    };
    Some(best.into())
}

impl CoinTossXSession {
    pub(super) fn encode_answer(&self, message: SbeMessage, sequence: u64) -> ClientFrames {
        let number = i32::try_from(sequence).unwrap_or(i32::MAX);
        match message {
            SbeMessage::LogonAccepted(_) => {
                let accepted = CtxLogonResponse { reject_code: logon_code::SUCCESSFUL, password_expiry: 0 };
                ClientFrames::Unnumbered(self.frames([accepted.into()]))
            }
            SbeMessage::Logout(logout) => {
                let reason = CtxLogout { reason: PaddedText::new(&logout.reason) }.into();
                let reject = (logout.code != 0).then(|| self.reject(logout.code, &logout.reason, 0, ""));
                ClientFrames::Unnumbered(self.frames(reject.into_iter().chain([reason])))
            }
            SbeMessage::RetransmitComplete(complete) => {
                let complete = CtxTransmissionComplete { status: u8::from(complete.missing > 0) };
                ClientFrames::Unnumbered(self.frames([complete.into()]))
            }
            SbeMessage::OrderAccepted(accepted) => self.accept(&accepted, number),
            SbeMessage::MassCancelAccepted(accepted) => {
                const ACCEPTED: u8 = 7;
                let context = self.state().requests.remove(&accepted.request_id).unwrap_or_default();
                self.numbered([mass_cancel_report(&context, ACCEPTED, 0)], number)
            }
            SbeMessage::ExecutionReport(report) => match self.execution_report(&report, sequence) {
                Some(message) => self.numbered([message], number),
                None => {
                    warn!(order_id = report.order_id, "a report does not fit into the schema of CoinTossX");
                    self.lost(number)
                }
            },
            SbeMessage::ReportsLost(_) => self.lost(number),
            SbeMessage::Reject(reject) => self.refuse(&reject, number),
            SbeMessage::BestPrices(best) => {
                let (bid, ask) = ((best.bid_price, best.bid_quantity), (best.ask_price, best.ask_quantity));
                self.query_answer(best.request_id, best_bid_offer(best.instrument_id, bid, ask).map(|best| vec![best]))
            }
            SbeMessage::Vwap(vwap) => {
                // An average has more digits than the schema: it is cut at 1e-4.
                let average = |vwap: Option<FixedDecimal>| CtxPrice(vwap.map_or(0, |vwap| vwap.0 / 10_000));
                let security_id = i32::try_from(vwap.instrument_id).unwrap_or(i32::MAX);
                let (bid_vwap, offer_vwap) = (average(vwap.bid), average(vwap.ask));
                let answer = CtxVwap { security_id, bid_vwap, offer_vwap };
                self.query_answer(vwap.request_id, Some(vec![answer.into()]))
            }
            SbeMessage::Book(book) => self.query_answer(book.request_id, lob(&book)),
            SbeMessage::InstrumentStatus(InstrumentStatus { request_id, instrument_id, session, .. }) => {
                self.query_answer(request_id, Some(vec![symbol_status(instrument_id, session.as_str(), "")]))
            }
            // CoinTossX has no heartbeats, and requests do not go to a member.
            _ => ClientFrames::Nothing,
        }
    }

    fn numbered<const N: usize>(&self, mut messages: [CtxMessage; N], number: i32) -> ClientFrames {
        for message in &mut messages {
            message.set_sequence(number);
        }
        ClientFrames::Numbered(self.frames(messages))
    }

    /// Says that a report is missing at this number.
    fn lost(&self, number: i32) -> ClientFrames {
        self.numbered([CtxSystemStatus { status: RECOVERY_UNAVAILABLE }.into()], number)
    }

    fn reject(&self, code: i32, reason: &str, template: u16, client_order_id: &str) -> CtxMessage {
        CtxReject {
            reject_code: code,
            reject_reason: PaddedText::new(reason),
            message_type: letter(template),
            client_order_id: PaddedText::new(client_order_id),
        }
        .into()
    }

    fn query_answer(&self, request_id: u64, answer: Option<Vec<CtxMessage>>) -> ClientFrames {
        self.state().requests.remove(&request_id);
        let answer = answer.unwrap_or_else(|| vec![self.reject(-32602, "quantity_does_not_fit", ADMIN, "")]);
        ClientFrames::Unnumbered(self.frames(answer))
    }

    /// Takes the answer to a request about one order. Its effect comes as an execution report, so
    /// only an order without one has an answer here.
    fn accept(&self, accepted: &OrderAccepted, number: i32) -> ClientFrames {
        let mut state = self.state();
        let Some(context) = state.requests.remove(&accepted.request_id) else { return ClientFrames::Nothing };
        let Some(order) = &context.order else { return ClientFrames::Nothing };
        let client_order_id = &context.client_order_id;
        if accepted.order_id <= context.newest_order_id {
            drop(state);
            return self.refuse_order(&context, -32602, "duplicate_client_order_id", number);
        }
        let is_open = matches!(accepted.status, OrderStatus::Open | OrderStatus::Untriggered);
        if !is_open {
            state.newest_order_id = state.newest_order_id.max(accepted.order_id);
            return ClientFrames::Nothing;
        }
        state.learn(client_order_id, accepted.order_id);
        if i32::try_from(accepted.order_id).is_err() {
            drop(state);
            return self.refuse_order(&context, -32602, "order_id_does_not_fit", number);
        }
        if order.cancel_on_disconnect == 1 && state.has_connection {
            state.cancel_on_disconnect.insert(accepted.order_id);
        }
        ClientFrames::Nothing
    }

    /// Answers a request that had no effect: the reject names the reason, and the message of the
    /// request's kind follows.
    fn refuse(&self, reject: &Reject, number: i32) -> ClientFrames {
        let context = self.state().requests.remove(&reject.request_id).unwrap_or_default();
        let name = if reject.name == "invalid_params" { &reject.reason } else { &reject.name };
        let client_order_id = context.client_order_id.as_str();
        let named = self.reject(reject.code, name, context.template, client_order_id);
        let order_book = REGULAR_BOOK;
        match context.template {
            9 if reject.code != Rejection::NOT_FOUND => self.refuse_order(&context, reject.code, name, number),
            9 | ADMIN => {
                self.forget_refused(&context);
                if reject.code != Rejection::NOT_FOUND {
                    return ClientFrames::Unnumbered(self.frames([named]));
                }
                let business = CtxBusinessReject {
                    partition_id: PARTITION,
                    sequence_number: 0,
                    reject_code: UNKNOWN_INSTRUMENT,
                    client_order_id: PaddedText::new(client_order_id),
                    order_id: 0,
                    transact_time: 0,
                };
                self.numbered([named, business.into()], number)
            }
            10 | 12 => {
                let refused = CtxOrderCancelReject {
                    partition_id: PARTITION,
                    sequence_number: 0,
                    client_order_id: PaddedText::new(client_order_id),
                    order_id: context.order_id,
                    transact_time: 0,
                    reject_code: NO_CODE,
                    order_book,
                };
                self.numbered([named, refused.into()], number)
            }
            11 => self.numbered([named, mass_cancel_report(&context, 0, NO_CODE)], number),
            _ => ClientFrames::Unnumbered(self.frames([named])),
        }
    }

    /// Forgets the entry of an order that the venue has not taken.
    fn forget_refused(&self, context: &RequestContext) {
        let mut state = self.state();
        if state.orders.get(&context.client_order_id).is_some_and(|order| order.order_id.is_none()) {
            state.orders.remove(&context.client_order_id);
        }
    }

    fn refuse_order(&self, context: &RequestContext, code: i32, name: &str, number: i32) -> ClientFrames {
        self.forget_refused(context);
        let named = self.reject(code, name, context.template, &context.client_order_id);
        let Some(order) = &context.order else { return ClientFrames::Unnumbered(self.frames([named])) };
        let report = CtxExecutionReport {
            partition_id: PARTITION,
            sequence_number: 0,
            execution_id: PaddedText::new(""),
            client_order_id: order.client_order_id,
            order_id: 0,
            execution_type: CtxExecutionType::Rejected,
            order_status: CtxOrderStatus::Rejected,
            reject_code: NO_CODE,
            leaves_quantity: 0,
            container: CtxContainer::None,
            security_id: order.security_id,
            side: order.side,
            trader_mnemonic: order.trader_mnemonic,
            account: order.account,
            is_market_ops_request: 0,
            transact_time: 0,
            order_book: REGULAR_BOOK,
            fills_group: Vec::new(),
        };
        self.numbered([named, report.into()], number)
    }

    /// Returns `None` if a number does not fit into its field.
    fn execution_report(&self, report: &ExecutionReport, sequence: u64) -> Option<CtxMessage> {
        let client_order_id = report.client_order_id.as_str();
        let mut state = self.state();
        let known = state.orders.get(client_order_id).map(|order| (order.trader_mnemonic, order.account));
        let is_open = matches!(report.status, OrderStatus::Open | OrderStatus::Untriggered | OrderStatus::Triggered);
        state.newest_order_id = state.newest_order_id.max(report.order_id);
        if is_open {
            state.learn(client_order_id, report.order_id);
        } else {
            state.forget(client_order_id, report.order_id);
        }
        drop(state);
        let (trader_mnemonic, account) = known.unwrap_or((PaddedText::new(""), PaddedText::new("")));
        let quantity: i32 = whole(report.quantity)?;
        let filled: i32 = whole(report.filled_quantity)?;
        let has_expired = EXPIRIES.contains(&report.cancel_reason.as_str());
        let is_trade = report.execution_type == ExecutionType::Trade;
        let fill = is_trade.then(|| {
            Some(CtxFill { fill_price: CtxPrice::of(report.last_price)?, fill_qty: whole(report.last_quantity)? })
        });
        let fills_group = match fill {
            Some(fill) => vec![fill?],
            None => Vec::new(),
        };
        let message = CtxExecutionReport {
            partition_id: PARTITION,
            sequence_number: 0,
            execution_id: PaddedText::new(&format!("{:x}-{sequence}", report.transact_time_ms)),
            client_order_id: PaddedText::new(client_order_id),
            order_id: i32::try_from(report.order_id).ok()?,
            execution_type: match report.execution_type {
                ExecutionType::New => CtxExecutionType::New,
                ExecutionType::Trade => CtxExecutionType::Trade,
                ExecutionType::Amended => CtxExecutionType::Amended,
                ExecutionType::Cancelled if has_expired => CtxExecutionType::Expired,
                ExecutionType::Cancelled => CtxExecutionType::Cancelled,
                ExecutionType::Triggered => CtxExecutionType::Triggered,
                ExecutionType::Rejected => CtxExecutionType::Rejected,
                ExecutionType::Restated => CtxExecutionType::Restated,
            },
            order_status: match report.status {
                OrderStatus::Filled => CtxOrderStatus::Filled,
                OrderStatus::Cancelled if has_expired => CtxOrderStatus::Expired,
                OrderStatus::Cancelled => CtxOrderStatus::Cancelled,
                OrderStatus::Rejected => CtxOrderStatus::Rejected,
                _ if filled > 0 => CtxOrderStatus::PartiallyFilled,
                _ => CtxOrderStatus::New,
            },
            reject_code: 0,
            leaves_quantity: if is_open { quantity - filled } else { 0 },
            container: match report.status {
                OrderStatus::Open => CtxContainer::Main,
                OrderStatus::Untriggered => CtxContainer::StopOrder,
                _ => CtxContainer::None,
            },
            security_id: i32::try_from(report.instrument_id).ok()?,
            side: match report.side {
                OrderSide::Buy => CtxSide::Buy,
                OrderSide::Sell => CtxSide::Sell,
            },
            trader_mnemonic,
            account,
            is_market_ops_request: 0,
            transact_time: report.transact_time_ms,
            order_book: REGULAR_BOOK,
            fills_group,
        };
        Some(message.into())
    }
}

/// Template id of an admin message.
const ADMIN: u16 = 91;

fn mass_cancel_report(context: &RequestContext, status: u8, reject_code: i32) -> CtxMessage {
    CtxOrderMassCancelReport {
        partition_id: PARTITION,
        sequence_number: 0,
        client_order_id: PaddedText::new(&context.client_order_id),
        status,
        reject_code,
        transact_time: 0,
        order_book: REGULAR_BOOK,
    }
    .into()
}

/// Returns the levels of a book between the messages that mark its start and its end.
fn lob(book: &Book) -> Option<Vec<CtxMessage>> {
    let security_id = i32::try_from(book.instrument_id).ok()?;
    let mark = |admin_message| CtxMessage::from(CtxAdmin { admin_message, security_id });
    let mut orders = Vec::with_capacity(book.levels.len());
    for level in &book.levels {
        orders.push(CtxLobOrder {
            order_id: 0,
            price: CtxPrice::of(level.price)?,
            order_quantity: whole(level.quantity)?,
            side: match level.side {
                OrderSide::Buy => CtxSide::Buy,
                OrderSide::Sell => CtxSide::Sell,
            },
            client_order_id: PaddedText::new(""),
        });
    }
    Some(vec![mark(CtxAdminType::StartLob), CtxLob { security_id, orders }.into(), mark(CtxAdminType::EndLob)])
}
