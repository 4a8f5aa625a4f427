//! Messages of a member as requests of the session.

use super::member_session::*;
use super::messages::*;
use crate::codec::{FixedDecimal, Text};
use crate::messages::{
    AmendOrder, CancelOrder, EntryTimeInForce, EntryType, Flag, Logout, MarketQuery, MassCancel, MassCancelScope,
    NewOrder, OrderSide, QuerySubject, RetransmitRequest, SbeMessage,
};
use crate::profile::{ClientMessage, EntryRefusal};
use crate::requests::Rejection;

/// Largest number of levels of a book.
const DEPTH: u16 = 1000;

fn quantity(number: i32) -> Option<FixedDecimal> {
    Some(FixedDecimal(i64::from(number) * WHOLE))
}

/// Converts a quantity where zero stands for none.
fn optional_quantity(number: i32) -> Option<FixedDecimal> {
    if number == 0 { None } else { quantity(number) }
}

fn price(field: &str, price: CtxPrice) -> Result<Option<FixedDecimal>, Rejection> {
    if price == CtxPrice::NONE {
        return Ok(None);
    }
    price.decimal().map(Some).ok_or_else(|| Rejection {
        code: -32602,
        name: "price_does_not_fit".into(),
        reason: format!("{field} {}e-4 is outside the venue's prices", price.0),
        remedy: "Send a price below 92,233,720,368.".into(),
    })
}

/// Returns the limit and the trigger that an order type has.
fn prices(
    order_type: CtxOrderType,
    limit: CtxPrice,
    stop: CtxPrice,
) -> Result<(Option<FixedDecimal>, Option<FixedDecimal>), Rejection> {
    let (has_limit, has_stop) = match order_type {
        CtxOrderType::Market => (false, false),
        CtxOrderType::Limit => (true, false),
        CtxOrderType::Stop => (false, true),
        CtxOrderType::StopLimit => (true, true),
    };
    let limit = if has_limit { price("limitPrice", limit)? } else { None };
    let stop = if has_stop { price("stopPrice", stop)? } else { None };
    Ok((limit, stop))
}

fn instrument(security_id: i32) -> Result<u32, Rejection> {
    u32::try_from(security_id).map_err(|_| Rejection::unknown_instrument(security_id))
}

const fn time_in_force(tif: CtxTimeInForce) -> EntryTimeInForce {
    match tif {
        CtxTimeInForce::Day => EntryTimeInForce::Day,
        CtxTimeInForce::Gtc => EntryTimeInForce::Gtc,
        CtxTimeInForce::Ioc => EntryTimeInForce::Ioc,
        CtxTimeInForce::Fok => EntryTimeInForce::Fok,
        CtxTimeInForce::Opg => EntryTimeInForce::Opg,
        CtxTimeInForce::Gtd => EntryTimeInForce::Gtd,
        CtxTimeInForce::Gtt => EntryTimeInForce::Gtt,
        CtxTimeInForce::Gfa => EntryTimeInForce::Gfa,
        CtxTimeInForce::Atc => EntryTimeInForce::Atc,
        CtxTimeInForce::Cpx => EntryTimeInForce::Cpx,
        CtxTimeInForce::Gfx => EntryTimeInForce::Gfx,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of = |month: u64| {
        let days = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
        Some(days + u64::from(month == 2 && is_leap(year)))
    };
    if year < 1970 || day == 0 || day > days_of(month)? {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    let months: u64 = (1..month).filter_map(days_of).sum();
    Some(years + months + day - 1)
}

/// Parses `YYYYMMDD-HH:MM:SS` in UTC to the date as a number and the milliseconds since 1970.
fn parse_expire_time(text: &str) -> Option<(u64, u64)> {
    let number = |digits: &str| -> Option<u64> {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { digits.parse().ok() } else { None }
    };
    let date = number(text.get(..8)?)?;
    let days = days_since_1970(date / 10_000, date / 100 % 100, date % 100)?;
    let seconds = match text.get(8..)? {
        "" => 0,
        time => {
            let mut parts = time.strip_prefix('-')?.split(':');
            let (hours, minutes, seconds) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
            if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 {
                return None;
            }
            (hours * 60 + minutes) * 60 + seconds
        }
    };
    Some((date, (days * 86_400 + seconds) * 1000))
}

fn expires(order: &CtxNewOrder) -> Result<u64, Rejection> {
    let text = order.expire_time.as_str();
    let parsed = || {
        let reason = format!("expireTime {text:?}: expected YYYYMMDD-HH:MM:SS in UTC");
        parse_expire_time(text).ok_or_else(|| invalid(reason))
    };
    match order.time_in_force {
        CtxTimeInForce::Gtd => Ok(parsed()?.0),
        CtxTimeInForce::Gtt => Ok(parsed()?.1),
        _ => Ok(0),
    }
}

fn new_order(order: &CtxNewOrder, request_id: u64) -> Result<NewOrder, Rejection> {
    let (price, trigger_price) = prices(order.order_type, order.limit_price, order.stop_price)?;
    let display = Some(order.display_quantity).filter(|display| *display < order.order_quantity);
    Ok(NewOrder {
        request_id,
        client_order_id: Text::new(order.client_order_id.as_str()),
        instrument_id: instrument(order.security_id)?,
        side: match order.side {
            CtxSide::Buy => OrderSide::Buy,
            CtxSide::Sell => OrderSide::Sell,
        },
        order_type: match order.order_type {
            CtxOrderType::Market => EntryType::Market,
            CtxOrderType::Limit => EntryType::Limit,
            CtxOrderType::Stop => EntryType::StopMarket,
            CtxOrderType::StopLimit => EntryType::StopLimit,
        },
        time_in_force: time_in_force(order.time_in_force),
        hidden: Flag::No,
        post_only: Flag::No,
        quantity: quantity(order.order_quantity),
        price,
        trigger_price,
        display_quantity: display.and_then(optional_quantity),
        minimum_quantity: optional_quantity(order.min_quantity),
        expires: expires(order)?,
    })
}

fn amend(request: &CtxOrderCancelReplaceRequest, request_id: u64, order_id: u64) -> Result<AmendOrder, Rejection> {
    let (price, trigger_price) = prices(request.order_type, request.limit_price, request.stop_price)?;
    let display = Some(request.display_quantity).filter(|display| *display < request.order_quantity);
    Ok(AmendOrder {
        request_id,
        order_id,
        quantity: quantity(request.order_quantity),
        price,
        trigger_price,
        display_quantity: display.and_then(optional_quantity),
        minimum_quantity: optional_quantity(request.min_quantity),
    })
}

impl CoinTossXSession {
    /// Returns the venue's number of an order: the given one, or that of the client's own number.
    fn order_id(&self, order_id: i32, orig_client_order_id: &str) -> Result<u64, Rejection> {
        if let Some(order_id) = u64::try_from(order_id).ok().filter(|id| *id > 0) {
            return Ok(order_id);
        }
        let known = self.state().orders.get(orig_client_order_id).and_then(|order| order.order_id);
        known.ok_or_else(|| Rejection {
            code: 10004,
            name: "order_not_found".into(),
            reason: format!("no open order has the client's number {orig_client_order_id:?}"),
            remedy: "Send orderId, or the clientOrderId of an open order.".into(),
        })
    }

    pub(super) fn decode_request(&self, frame: &[u8], next: u64) -> Result<ClientMessage, EntryRefusal> {
        let refused = |rejection| EntryRefusal { request_id: 0, template_id: 0, rejection };
        let (comp_id, message) = CtxMessage::decode(frame).map_err(|error| refused(invalid(error.to_string())))?;
        if comp_id != self.comp_id {
            return Err(refused(invalid(format!("compID {comp_id}: expected {}", self.comp_id))));
        }
        self.state().has_connection = true;
        let template = message.template_id();
        let begin = |context: RequestContext| self.state().begin(RequestContext { template, ..context });
        let of_order = |client_order_id: &PaddedText<20>, order_id| RequestContext {
            client_order_id: client_order_id.as_str().to_owned(),
            order_id,
            ..RequestContext::default()
        };
        let (request_id, request) = match message {
            CtxMessage::CtxLogon(logon) => return self.repeat_logon(&logon).map_err(refused),
            CtxMessage::CtxLogout(_) => {
                return Ok(ClientMessage::of(Logout { code: 0, reason: String::new() }));
            }
            CtxMessage::CtxMissedMessageRequest(request) => return Ok(self.retransmit(&request, next)),
            CtxMessage::CtxNewOrder(order) => {
                let request_id = begin(RequestContext {
                    order: Some(Box::new(order.clone())),
                    ..of_order(&order.client_order_id, 0)
                });
                let request = new_order(&order, request_id);
                if request.is_ok() && !order.client_order_id.as_str().is_empty() {
                    let CtxNewOrder { trader_mnemonic, account, .. } = order;
                    let entry = MemberOrder { order_id: None, trader_mnemonic, account };
                    // An open order keeps its entry; the venue answers a repeated number with it.
                    self.state().orders.entry(order.client_order_id.as_str().to_owned()).or_insert(entry);
                }
                (request_id, request.map(SbeMessage::from))
            }
            CtxMessage::CtxOrderCancelRequest(cancel) => {
                let request_id = begin(of_order(&cancel.client_order_id, cancel.order_id));
                let order_id = self.order_id(cancel.order_id, cancel.orig_client_order_id.as_str());
                (request_id, order_id.map(|order_id| CancelOrder { request_id, order_id }.into()))
            }
            CtxMessage::CtxOrderCancelReplaceRequest(replace) => {
                let request_id = begin(of_order(&replace.client_order_id, replace.order_id));
                let order_id = self.order_id(replace.order_id, replace.orig_client_order_id.as_str());
                (request_id, order_id.and_then(|order_id| Ok(amend(&replace, request_id, order_id)?.into())))
            }
            CtxMessage::CtxOrderMassCancelRequest(cancel) => {
                let request_id = begin(of_order(&cancel.client_order_id, 0));
                (request_id, mass_cancel(&cancel, request_id).map(SbeMessage::from))
            }
            CtxMessage::CtxAdmin(admin) => {
                let subject = match self.admin(&admin) {
                    Err(rejection) => return Err(refused(rejection)),
                    Ok(AdminAction::Client(message)) => return Ok(message),
                    Ok(AdminAction::Query(subject)) => subject,
                };
                let request_id = begin(RequestContext::default());
                let query = |instrument_id| MarketQuery { request_id, instrument_id, subject, depth: DEPTH };
                (request_id, instrument(admin.security_id).map(|id| query(id).into()))
            }
            other => {
                let reason = format!("template id {} is not a request", other.template_id());
                return Err(refused(invalid(reason)));
            }
        };
        match request {
            Ok(request) => Ok(ClientMessage::of(request)),
            Err(rejection) => Err(EntryRefusal { request_id, template_id: template, rejection }),
        }
    }

    /// Answers a logon of the connection that is logged on: CoinTossX's clients send three.
    fn repeat_logon(&self, logon: &CtxLogon) -> Result<ClientMessage, Rejection> {
        let (_, secret) = check_logon(&self.members, logon).map_err(invalid)?;
        let is_same = logon.comp_id == self.comp_id && secret.is_some();
        let reject_code = if is_same { logon_code::SUCCESSFUL } else { logon_code::INVALID_LOGIN };
        Ok(ClientMessage::Answer(self.frames([CtxLogonResponse { reject_code, password_expiry: 0 }.into()])))
    }

    fn retransmit(&self, request: &CtxMissedMessageRequest, next: u64) -> ClientMessage {
        const INVALID_PARTITION: u8 = 2;
        if request.partition_id != PARTITION {
            return ClientMessage::Answer(
                self.frames([CtxMissedMessageRequestAck { status: INVALID_PARTITION }.into()]),
            );
        }
        let from_sequence = u64::try_from(request.sequence_number).unwrap_or(1).max(1);
        let to_sequence = next.saturating_sub(1);
        ClientMessage::of(RetransmitRequest { from_sequence, to_sequence })
    }

    fn admin(&self, admin: &CtxAdmin) -> Result<AdminAction, Rejection> {
        let public = |is_wanted, answer| -> Result<AdminAction, Rejection> {
            let instrument_id = instrument(admin.security_id)?;
            Ok(AdminAction::Client(ClientMessage::Public { instrument_id, is_wanted, answer }))
        };
        match admin.admin_message {
            CtxAdminType::Lob => Ok(AdminAction::Query(QuerySubject::Book)),
            CtxAdminType::Vwap => Ok(AdminAction::Query(QuerySubject::Vwap)),
            CtxAdminType::BestBidOfferRequest => Ok(AdminAction::Query(QuerySubject::BestPrices)),
            CtxAdminType::StartMessage => public(true, Vec::new()),
            CtxAdminType::EndMessage => public(false, self.frames([admin.clone().into()])),
            CtxAdminType::SimulationComplete
            | CtxAdminType::WarmUpComplete
            | CtxAdminType::ShutDown
            | CtxAdminType::StartLob
            | CtxAdminType::EndLob => {
                let reason = format!("adminMessage {} not served", admin.admin_message as u8);
                Err(invalid(reason))
            }
        }
    }
}

/// Effect of an admin message.
enum AdminAction {
    Query(QuerySubject),
    Client(ClientMessage),
}

fn mass_cancel(cancel: &CtxOrderMassCancelRequest, request_id: u64) -> Result<MassCancel, Rejection> {
    let (scope, instrument_id) = match cancel.mass_cancel_request_type {
        CtxMassCancelType::AllFirmOrdersForInstrument | CtxMassCancelType::ClientFirmOrdersForInstrument => {
            (MassCancelScope::Instrument, instrument(cancel.security_id)?)
        }
        CtxMassCancelType::AllOrdersForClient | CtxMassCancelType::AllOrdersForFirm => (MassCancelScope::All, 0),
        CtxMassCancelType::AllFirmOrdersForSegment | CtxMassCancelType::ClientFirmOrdersForSegment => {
            return Err(Rejection {
                code: -32602,
                name: "segment_cancel_not_served".into(),
                reason: "orders cannot be cancelled by segment".into(),
                remedy: "Cancel all orders, or those of an instrument.".into(),
            });
        }
    };
    Ok(MassCancel { request_id, scope, instrument_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expire_time_is_utc() {
        // The seconds are those of `date -u -d "2024-02-29 23:00:01" +%s`.
        assert_eq!(parse_expire_time("20240229-23:00:01"), Some((20_240_229, 1_709_247_601_000)));
        assert_eq!(parse_expire_time("19700101"), Some((19_700_101, 0)));
        // `date -u -d 2100-03-01 +%s`; 2100 has no leap day.
        assert_eq!(parse_expire_time("21000301"), Some((21_000_301, 4_107_542_400_000)));
        for text in ["", "2024", "20230229", "20240001", "20240100", "20240101 10:00:00", "20240101-24:00:00"] {
            assert_eq!(parse_expire_time(text), None, "{text}");
        }
    }
}
