//! Where an audit that does not begin at the beginning begins, and what a snapshot is held against.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{
    AccountId, AccountSpec, Currency, CurrencyId, InstrumentId, InstrumentSpec, Lots, MatchGroup, OrderId, OrderType,
    Phase, RemainingSessions, SelfMatch, Seq, SessionId, Side, Ticks, TimeInForce, TradeSeq, VenueDay, VenueNanos,
};

use crate::book::{Kind, Live, Place};
use crate::close::Close;
use crate::fault::{Judged, offence};
use crate::ledger::Holding;
use crate::reporting::Reporting;
use crate::settling::kind_of;
use crate::turn::Turn;
use crate::{Auditor, Offence, legal_lots, legal_price};

/// The venue as a snapshot tells it, after the command numbered `seq`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    pub seq: Seq,
    pub at: VenueNanos,
    pub currencies: Vec<Currency>,
    pub markets: Vec<OpeningMarket>,
    pub accounts: Vec<OpeningAccount>,
    pub venue_killed: bool,
    /// Ascending.
    pub killed_sessions: Vec<SessionId>,
    /// The venue day and when it closes, once one has begun.
    pub today: Option<(VenueDay, VenueNanos)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningMarket {
    pub spec: InstrumentSpec,
    pub phase: Phase,
    pub change_id: u64,
    /// The last trade's number.
    pub trades: TradeSeq,
    /// The last trade's price, by which a collar is reckoned.
    pub last: Option<Ticks>,
    /// Trades taken back, ascending.
    pub busted: Vec<TradeSeq>,
    /// Every live order, wherever it is.
    pub orders: Vec<OpeningOrder>,
    pub sessions: OpeningSessions,
    pub reporting: Reporting,
}

/// What sessions, calls and prices leave behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpeningSessions {
    pub ends: Option<VenueNanos>,
    pub missed: bool,
    pub remaining: RemainingSessions,
    /// What an interrupted call would have ended, times in force and `market`; none: nothing was interrupted.
    pub unfinished: Option<BTreeSet<String>>,
    pub continues: Option<Phase>,
    pub static_reference: Option<Ticks>,
    pub dynamic: Option<Ticks>,
    /// What was told last of a call: price, volume, imbalance.
    pub indicated: (Option<Ticks>, Lots, i64),
    /// For each batch that ended, how many live orders are older; without zeros and repetitions.
    pub batch_ends: Vec<u64>,
    pub close: Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpeningOrder {
    pub id: OrderId,
    pub account: AccountId,
    pub side: Side,
    /// What it is by now: an elected stop is a market or a limit order.
    pub order_type: OrderType,
    pub place: OpeningPlace,
    pub tif: TimeInForce,
    /// The venue day of its entry where that matters (good till cancelled), else zero.
    pub entered: VenueDay,
    /// Shown and hidden together.
    pub open: Lots,
    /// What a level counts of it: zero for what stands in none.
    pub shown: Lots,
    /// The peak of an iceberg.
    pub display: Option<Lots>,
    /// All that was asked for, what has traded included.
    pub ordered: Lots,
    /// The worst price of an order without limit.
    pub bound: Option<Ticks>,
    /// By which orders of the instrument are older or younger.
    pub time: u64,
    /// The order's own word on self-match prevention, where it has not acted yet.
    pub self_match: Option<SelfMatch>,
    pub group: MatchGroup,
    pub session: SessionId,
    pub cancel_on_disconnect: bool,
}

/// Where a live order is.
pub type OpeningPlace = Place;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpeningAccount {
    pub spec: AccountSpec,
    /// Units owned, by currency.
    pub totals: Vec<i128>,
    /// Units that the account's open spot orders could cost, by currency.
    pub reserved: Vec<i128>,
    /// Lines above zero.
    pub credit: Vec<(CurrencyId, i128)>,
    pub positions: Vec<(InstrumentId, OpeningPosition)>,
    pub standing: OpeningStanding,
}

/// What an operator or the throttle has made of an account.
pub type OpeningStanding = crate::ledger::Standing;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpeningPosition {
    pub lots: i64,
    pub entry_value: i128,
}

impl Auditor {
    /// An auditor that knows the past only from a snapshot. What the snapshot says is taken as true, unless it
    /// cannot be.
    pub fn resume(opening: Opening) -> Result<Self, Offence> {
        let seq = opening.seq;
        let mut auditor = Auditor::new();
        auditor.take_over(opening).map_err(|fault| Offence::at(seq, fault))?;
        Ok(auditor)
    }

    fn take_over(&mut self, opening: Opening) -> Judged {
        (self.seq, self.at) = (opening.seq, opening.at);
        self.venue_killed = opening.venue_killed;
        self.today = opening.today;
        self.killed_sessions = opening.killed_sessions.into_iter().collect();
        for currency in &opening.currencies {
            self.add_currency(currency)?;
        }
        let reserved: Vec<_> = opening.accounts.iter().map(|account| account.reserved.clone()).collect();
        for account in opening.accounts {
            self.add_account(&account.spec)?;
            if account.totals.len() != self.names.currencies.len() {
                offence!(M4, "account {} has no balance for each currency", account.spec.id);
            }
            if let Some(holder) = self.ledger.accounts.last_mut() {
                holder.totals = account.totals;
                holder.standing = account.standing;
                for (currency, units) in account.credit {
                    match holder.credit.get_mut(currency.0 as usize) {
                        Some(line) => *line = units,
                        None => offence!(M4, "account {} has credit in currency {currency}", account.spec.id),
                    }
                }
                let held = |held: OpeningPosition| Holding { lots: held.lots, entry_value: held.entry_value };
                holder.positions = account.positions.into_iter().map(|(id, position)| (id, held(position))).collect();
            }
        }
        for market in opening.markets {
            self.add_market(&market.spec, market.phase, market.change_id, market.trades.0)?;
            if let Some(own) = self.markets.last_mut() {
                own.last = market.last;
                own.busted = market.busted.into_iter().collect();
            }
            let mut orders = market.orders.clone();
            orders.sort_by_key(|order| order.time);
            let oldest = self.arrivals;
            for order in &orders {
                self.take_over_order(market.spec.id, order)?;
            }
            let OpeningSessions { ends, missed, remaining, unfinished, continues, static_reference, dynamic, .. } =
                market.sessions;
            let own = self.market_mut(market.spec.id);
            (own.ends, own.missed, own.remaining, own.continues) = (ends, missed, remaining, continues);
            own.unfinished = unfinished;
            (own.static_reference, own.dynamic) = (static_reference, dynamic);
            own.indicated = market.sessions.indicated;
            own.close = market.sessions.close;
            own.reporting = market.reporting;
            own.batch_ends = market.sessions.batch_ends.iter().map(|older| oldest + older).collect();
        }
        if let Some(at) = self.ledger.accounts.iter().zip(&reserved).position(|(own, told)| own.reserved != *told) {
            offence!(
                M4,
                "account {at} has set aside {:?}, and its orders {:?}",
                reserved[at],
                self.ledger.accounts[at].reserved
            );
        }
        self.ledger.open(&self.markets);
        Ok(())
    }

    /// Orders come in the order of their priority.
    fn take_over_order(&mut self, instrument: InstrumentId, order: &OpeningOrder) -> Judged {
        let OpeningOrder { id, account, side, open, shown, display, ordered, place, tif, .. } = *order;
        let kind = kind_of(order.order_type);
        let live = Live {
            id,
            account,
            instrument,
            side,
            kind,
            place,
            tif,
            price: order.order_type.limit_price().unwrap_or_default(),
            stop: order.order_type.stop_price().unwrap_or_default(),
            minimum: match order.order_type {
                OrderType::Hidden { minimum_execution, .. } => minimum_execution.0,
                _ => 0,
            },
            bound: order.bound,
            open: open.0,
            shown: shown.0,
            peak: display,
            ordered: ordered.0,
            arrival: self.next_arrival(),
            entered: Some(order.entered),
            mode: order.self_match,
            group: order.group,
            session: order.session,
            cancel_on_disconnect: order.cancel_on_disconnect,
        };
        let shows = display.map_or(shown == open, |display| !shown.is_zero() && shown <= display.min(open));
        let is_priced = order.order_type.limit_price().is_some_and(|price| legal_price(price).is_ok());
        let is_legal = legal_lots(open).and(legal_lots(ordered)).is_ok()
            && open <= ordered
            && (is_priced || matches!(kind, Kind::Market | Kind::Stop))
            && (shows || !live.is_on_show());
        if !is_legal || !self.ledger.knows(account) || self.orders.contains_key(&id) {
            offence!(M10, "order {id} cannot rest as the snapshot says");
        }
        let cost = self.cost(&live, live.open);
        self.ledger.set_aside(account, cost);
        self.keep(&mut Turn::new(&[]), live);
        Ok(())
    }

    /// Holds a snapshot against everything that was observed so far. Positions that are flat may be left out.
    pub fn compare(&self, told: &Opening) -> Result<(), Offence> {
        self.compared(told).map_err(|fault| Offence::at(told.seq, fault))
    }

    fn compared(&self, told: &Opening) -> Judged {
        if self.seq != told.seq {
            offence!(M4, "the snapshot is of command {} and command {} was seen last", told.seq, self.seq);
        }
        if told.currencies != self.names.currencies {
            offence!(M4, "the snapshot has other currencies");
        }
        if told.venue_killed != self.venue_killed || !self.killed_sessions.iter().eq(&told.killed_sessions) {
            offence!(M4, "the snapshot tells otherwise what is killed");
        }
        if (told.markets.len(), told.accounts.len()) != (self.markets.len(), self.names.accounts.len()) {
            offence!(M4, "the snapshot has not as many instruments and accounts");
        }
        for (own, told) in self.markets.iter().zip(&told.markets) {
            let id = own.spec.id;
            if (&own.spec, own.phase, own.change_id, own.trades, own.last)
                != (&told.spec, told.phase, told.change_id, told.trades.0, told.last)
            {
                offence!(M4, "the snapshot tells instrument {id}, its phase or its counters otherwise");
            }
            if !own.busted.iter().eq(&told.busted) {
                offence!(M4, "the snapshot tells the busted trades of instrument {id} otherwise");
            }
            if own.reporting != told.reporting {
                offence!(M4, "the snapshot tells the trade reporting of instrument {id} otherwise");
            }
            self.compare_orders(told)?;
            self.compare_sessions(told)?;
        }
        for ((own, spec), told) in self.ledger.accounts.iter().zip(&self.names.accounts).zip(&told.accounts) {
            if *spec != told.spec || own.totals != told.totals {
                offence!(M4, "the snapshot tells account {} or what it owns otherwise", spec.id);
            }
            let lines = (0..).map(CurrencyId).zip(own.credit.iter().copied()).filter(|(_, units)| *units != 0);
            if own.standing != told.standing || !lines.eq(told.credit.iter().copied()) {
                offence!(M4, "the snapshot tells the standing or the credit of account {} otherwise", spec.id);
            }
            if own.reserved != told.reserved {
                offence!(M4, "the snapshot tells what account {} has set aside otherwise", spec.id);
            }
            let flat = |(_, held): &(InstrumentId, OpeningPosition)| *held != OpeningPosition::default();
            let held = own
                .positions
                .iter()
                .map(|(id, held)| (*id, OpeningPosition { lots: held.lots, entry_value: held.entry_value }));
            if !held.filter(flat).eq(told.positions.iter().copied().filter(flat)) {
                offence!(M4, "the snapshot tells the positions of account {} otherwise", spec.id);
            }
        }
        Ok(())
    }

    /// Live orders, wherever they are, by number; of their times only the order among each other.
    fn compare_orders(&self, told: &OpeningMarket) -> Judged {
        let id = told.spec.id;
        let mut times: Vec<u64> = told.orders.iter().map(|order| order.time).collect();
        times.sort_unstable();
        let rank = |time: u64| times.partition_point(|other| *other < time) as u64;
        let orders: BTreeMap<OrderId, OpeningOrder> =
            told.orders.iter().map(|order| (order.id, OpeningOrder { time: rank(order.time), ..*order })).collect();
        let mine: Vec<&Live> = self.orders.values().filter(|order| order.instrument == id).collect();
        let mut arrivals: Vec<u64> = mine.iter().map(|order| order.arrival).collect();
        arrivals.sort_unstable();
        for order in &mine {
            let time = arrivals.partition_point(|other| *other < order.arrival) as u64;
            let own = OpeningOrder { time, ..opening_order(order) };
            match orders.get(&order.id) {
                Some(told) if *told == own => {}
                Some(told) => {
                    offence!(M4, "the snapshot tells the orders of instrument {id} otherwise: {told:?} and not {own:?}")
                }
                None => {
                    offence!(M4, "the snapshot tells the orders of instrument {id} otherwise: it lacks {}", order.id)
                }
            }
        }
        if orders.len() != mine.len() || orders.len() != told.orders.len() {
            offence!(M4, "the snapshot tells the orders of instrument {id} otherwise: {} of them", told.orders.len());
        }
        Ok(())
    }

    fn compare_sessions(&self, told: &OpeningMarket) -> Judged {
        let own = self.market_of(told.spec.id);
        let mine = self.orders.values().filter(|order| order.instrument == told.spec.id);
        let arrivals: Vec<u64> = mine.map(|order| order.arrival).collect();
        let older = |end: &u64| arrivals.iter().filter(|arrival| **arrival <= *end).count() as u64;
        let mut batch_ends: Vec<u64> = own.batch_ends.iter().map(older).filter(|older| *older > 0).collect();
        batch_ends.dedup();
        let sessions = OpeningSessions {
            ends: own.ends,
            missed: own.missed,
            remaining: own.remaining,
            unfinished: own.unfinished.clone(),
            continues: own.continues,
            static_reference: own.static_reference,
            dynamic: own.dynamic,
            indicated: own.indicated,
            batch_ends,
            close: own.close.clone(),
        };
        if sessions != told.sessions {
            offence!(
                M8,
                "the snapshot tells the session of instrument {} otherwise: {:?} and not {sessions:?}",
                told.spec.id,
                told.sessions
            );
        }
        Ok(())
    }
}

fn opening_order(live: &Live) -> OpeningOrder {
    let (price, stop) = (live.price, live.stop);
    OpeningOrder {
        id: live.id,
        account: live.account,
        side: live.side,
        order_type: match live.kind {
            Kind::Limit => OrderType::Limit { price },
            Kind::Market => OrderType::Market,
            Kind::Hidden => OrderType::Hidden { price, minimum_execution: Lots(live.minimum) },
            Kind::Stop => OrderType::Stop { stop },
            Kind::StopLimit => OrderType::StopLimit { stop, price },
        },
        place: live.place,
        tif: live.tif,
        entered: match live.tif {
            TimeInForce::GoodTillCancel => live.entered.unwrap_or_default(),
            _ => VenueDay::ZERO,
        },
        open: Lots(live.open),
        shown: Lots(if live.is_on_show() { live.shown } else { 0 }),
        display: live.peak,
        ordered: Lots(live.ordered),
        bound: live.bound,
        time: live.arrival,
        self_match: live.mode.filter(|_| !live.is_active()),
        group: live.group,
        session: live.session,
        cancel_on_disconnect: live.cancel_on_disconnect,
    }
}
