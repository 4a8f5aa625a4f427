//! The state as plain data, to be compared with the fast engine's.

use pitwire_model::{InstrumentId, OrderType, Phase, Seq, Side, Ticks, TimeInForce, TradeReport, TradeSeq, VenueDay};

use super::tables::permits;
use super::{Account, Holding, Kind, Market, Order, ReferenceEngine};
use pitwire_engine::rule_tables::TifSet;
use pitwire_engine::{
    AccountImage, AccountStatus, Balance, ClosingPriceInputs, EngineImage, IndicativeUncross, MarketImage, OrderImage,
    Position, Reporting, SessionImage, TradeRun, UndisplayedState,
};

impl ReferenceEngine {
    pub fn image(&self) -> EngineImage {
        EngineImage {
            epoch: self.epoch,
            flow: self.flow,
            last_session: self.last_session,
            venue_killed: self.venue_killed,
            killed_sessions: self.killed_sessions.iter().copied().collect(),
            day: self.day,
            closes: self.closes,
            currencies: self.currencies.clone(),
            markets: self.markets.iter().map(|market| self.market_image(market)).collect(),
            accounts: self.accounts.iter().map(|account| self.account_image(account)).collect(),
        }
    }

    fn market_image(&self, market: &Market) -> MarketImage {
        let of = |(_, trade): &&(Seq, TradeReport)| trade.instrument == market.spec.id;
        let reporting = Reporting {
            open: market.hours.is_some(),
            ends: market.hours.and_then(|hours| hours.ends),
            trades: market.off_book,
            waiting: self.reports.iter().filter(of).cloned().collect(),
        };
        MarketImage { reporting, ..market_image(market) }
    }

    fn account_image(&self, account: &Account) -> AccountImage {
        let id = account.spec.id;
        let balance = |(at, total): (usize, &i128)| Balance {
            total: *total,
            reserved: self.reserved(id, self.currencies[at].id),
        };
        let position = |(&instrument, holding): (&InstrumentId, &Holding)| {
            let position = Position {
                lots: holding.lots,
                entry_value: holding.entry_value,
                realized: holding.realized,
                open_buy_lots: self.open_lots(id, instrument, Side::Buy),
                open_sell_lots: self.open_lots(id, instrument, Side::Sell),
            };
            (instrument, position)
        };
        AccountImage {
            spec: account.spec.clone(),
            balances: account.totals.iter().enumerate().map(balance).collect(),
            positions: account.holdings.iter().map(position).collect(),
            standing: AccountStatus {
                closed: account.closed,
                killed: account.killed,
                throttled: account.throttled,
                window: account.window,
                executions: account.executions,
                credit_lines: account
                    .credit_lines
                    .iter()
                    .filter(|line| *line.1 > 0)
                    .map(|(id, units)| (*id, *units))
                    .collect(),
            },
        }
    }
}

fn lots(lots: u64) -> u32 {
    u32::try_from(lots).expect("no order is larger")
}

/// Where an order waits beside the book that everybody sees.
fn place_of(order: &Order) -> Option<UndisplayedState> {
    match (order.place, order.kind) {
        (super::Place::Active, Kind::Hidden) => Some(UndisplayedState::Hidden),
        (super::Place::Active, Kind::Limit) => None,
        (super::Place::Active, _) => Some(UndisplayedState::Unpriced),
        (super::Place::Parked, _) => Some(UndisplayedState::Parked),
        (super::Place::Unelected, _) => Some(UndisplayedState::Unelected),
        (super::Place::Elected, _) => Some(UndisplayedState::Elected),
    }
}

fn order_image(market: &Market, order: &Order) -> OrderImage {
    let place = place_of(order);
    let price = order.price;
    let waits =
        matches!(place, Some(UndisplayedState::Parked | UndisplayedState::Unelected | UndisplayedState::Elected));
    let ages = order.tif == TimeInForce::GoodTillCancel;
    let is_bounded = !order.has_price();
    OrderImage {
        id: order.id,
        account: order.account,
        side: order.side,
        place,
        order_type: match order.kind {
            Kind::Market => OrderType::Market,
            Kind::Limit => OrderType::Limit { price },
            Kind::Hidden => OrderType::Hidden { price, minimum_execution: pitwire_model::Lots(order.minimum) },
            Kind::Stop => OrderType::Stop { stop: order.stop },
            Kind::StopLimit => OrderType::StopLimit { stop: order.stop, price },
        },
        tif: order.tif,
        entered: if ages { order.entered } else { VenueDay(0) },
        open: lots(order.open),
        ordered: lots(order.ordered),
        shown: if place.is_none() { lots(order.shown) } else { 0 },
        display: order.peak.map_or(0, |peak| lots(peak.0)),
        bound: order.bound.filter(|_| is_bounded).unwrap_or(Ticks(0)),
        rank: lots(market.orders.iter().filter(|other| other.time <= order.time).count() as u64),
        mode: order.mode.filter(|_| waits),
        session: order.session,
        group: order.group,
        cancel_on_disconnect: order.cancel_on_disconnect,
    }
}

fn market_image(market: &Market) -> MarketImage {
    let mut beside: Vec<&Order> = market.orders.iter().filter(|order| place_of(order).is_some()).collect();
    beside.sort_by_key(|order| (place_of(order).map(|place| place as u8), order.id));
    let shown: Vec<Order> = [Side::Buy, Side::Sell].into_iter().flat_map(|side| market.visible_queue(side)).collect();
    let orders = shown.iter().chain(beside).map(|order| order_image(market, order)).collect();
    MarketImage {
        spec: market.spec.clone(),
        phase: market.phase,
        change_id: market.change_id,
        trades: TradeSeq(market.trades),
        last: market.last,
        index: market.index,
        mark: market.mark,
        busted: market.busted.iter().copied().collect(),
        session: session_image(market),
        reporting: Reporting::default(),
        orders,
    }
}

/// Market orders stand at the top bit, times in force at their codes.
fn unfinished(market: &Market) -> Option<TifSet> {
    let words = |call: &u8| permits(Phase::ALL[usize::from(*call)]).expire.iter();
    let bit = |word: &String| match word.as_str() {
        "market" => 1 << 15,
        "gtt" => 1 << 5,
        "opg" => 1 << 6,
        "gfx" => 1 << 8,
        "atc" => 1 << 9,
        "cpx" => 1 << 10,
        other => panic!("{other} expires with no session"),
    };
    let bits = market.unfinished.iter().flat_map(words).map(bit).fold(0, |bits, bit| bits | bit);
    (!market.unfinished.is_empty()).then_some(TifSet(bits))
}

/// How many live orders are older than each end of a batch that parts orders.
fn older_than_batches(market: &Market) -> Vec<u32> {
    let older = |end: &u64| market.orders.iter().filter(|order| order.time <= *end).count();
    let mut counts: Vec<u32> =
        market.batch_ends.iter().map(older).filter(|count| *count > 0).map(|count| lots(count as u64)).collect();
    counts.dedup();
    counts
}

fn day_image(market: &Market) -> ClosingPriceInputs {
    let run = |run: super::closing::Run| TradeRun {
        second: run.second,
        first: TradeSeq(run.first),
        last: TradeSeq(run.last),
        lots: run.lots,
        tick_lots: run.tick_lots,
    };
    ClosingPriceInputs {
        last: market.day_last,
        closing_call: market.closing_call,
        ended: market.continuous_ended,
        runs: market.runs().into_iter().map(run).collect(),
    }
}

fn session_image(market: &Market) -> SessionImage {
    let super::auction::Indicated { price, volume, imbalance } = market.told;
    SessionImage {
        ends: market.ends,
        remaining: market.remaining,
        missed: market.missed,
        continues: market.continues,
        unfinished: unfinished(market),
        static_reference: market.fixed,
        dynamic_reference: market.dynamic.filter(|_| market.dynamic != market.last),
        closing: market.closing,
        previous_close: market.previous_close,
        uncross_price: market.uncross_price,
        indicated: IndicativeUncross { price, volume, imbalance },
        older_than_batches: older_than_batches(market),
        day: day_image(market),
    }
}
