//! The state as plain data, to be compared with the fast engine's.

use pitwire_model::{InstrumentId, Side, TradeSeq};

use super::{Account, Holding, Market, Order, ReferenceEngine};
use crate::{AccountImage, Balance, EngineImage, MarketImage, OrderImage, Position, Standing};

impl ReferenceEngine {
    pub fn image(&self) -> EngineImage {
        EngineImage {
            epoch: self.epoch,
            flow: self.flow,
            last_session: self.last_session,
            venue_killed: self.venue_killed,
            killed_sessions: self.killed_sessions.iter().copied().collect(),
            day: pitwire_model::VenueDay::ZERO,
            closes: pitwire_model::VenueNanos::ZERO,
            currencies: self.currencies.clone(),
            markets: self.markets.iter().map(market_image).collect(),
            accounts: self.accounts.iter().map(|account| self.account_image(account)).collect(),
        }
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
            standing: Standing {
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

fn market_image(market: &Market) -> MarketImage {
    let lots = |lots: u64| u32::try_from(lots).expect("no order is larger");
    let image = |order: Order| OrderImage {
        id: order.id,
        account: order.account,
        side: order.side,
        place: None,
        order_type: pitwire_model::OrderType::Limit { price: order.price },
        tif: if order.day { pitwire_model::TimeInForce::Day } else { pitwire_model::TimeInForce::GoodTillCancel },
        entered: pitwire_model::VenueDay::ZERO,
        open: lots(order.open),
        ordered: lots(order.ordered),
        shown: lots(order.shown),
        display: order.peak.map_or(0, |peak| lots(peak.0)),
        bound: pitwire_model::Ticks::ZERO,
        rank: 1 + lots(market.orders.iter().filter(|other| other.arrival < order.arrival).count() as u64),
        mode: None,
        session: order.session,
        group: order.group,
        cancel_on_disconnect: order.cancel_on_disconnect,
    };
    let orders = [Side::Buy, Side::Sell].into_iter().flat_map(|side| market.queue(side));
    MarketImage {
        spec: market.spec.clone(),
        phase: market.phase,
        change_id: market.change_id,
        trades: TradeSeq(market.trades),
        last: market.last,
        index: market.index,
        mark: market.mark,
        busted: market.busted.iter().copied().collect(),
        session: crate::SessionImage {
            static_reference: Some(market.spec.start_price),
            ..crate::SessionImage::default()
        },
        orders: orders.map(image).collect(),
    }
}
