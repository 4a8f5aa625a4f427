//! The cost of orders and the funds of accounts. Every sum is computed from scratch.

use pitwire_model::{
    AccountId, Credit, CurrencyId, Decimal, InstrumentId, InstrumentKind, InstrumentSpec, Phase, Side, Ticks,
};

use crate::account::ReferencePosition;
use crate::market::ReferenceMarket;
use crate::order::ReferenceOrder;
use crate::state::VenueState;

impl VenueState {
    pub fn is_limited(&self, account: AccountId) -> bool {
        self.accounts[account.0 as usize].spec.credit == Credit::Limited
    }

    pub fn decimals(&self, currency: CurrencyId) -> u32 {
        u32::from(self.currencies[currency.0 as usize].decimals)
    }

    /// Returns the units of base currency in one spot lot, or `None` if they are not whole.
    pub fn base_units_per_lot(&self, spec: &InstrumentSpec) -> Option<i128> {
        let lot = spec.lot;
        divide(lot.mantissa.checked_mul(ten_to(self.decimals(spec.base())))?, ten_to(u32::from(lot.scale)))
    }

    /// Returns the units of quote currency that one spot lot costs at one tick, or `None` if they
    /// are not whole.
    pub fn quote_units_per_tick_lot(&self, spec: &InstrumentSpec) -> Option<i128> {
        let Decimal { mantissa: tick, scale: tick_scale } = spec.tick;
        let Decimal { mantissa: lot, scale: lot_scale } = spec.lot;
        let cost = tick.checked_mul(lot)?.checked_mul(ten_to(self.decimals(spec.quote())))?;
        divide(cost, ten_to(u32::from(tick_scale) + u32::from(lot_scale)))
    }

    /// Returns the constant k of a perpetual, or `None` if it is not whole. n lots at p ticks are
    /// worth k·n/p settlement units.
    pub fn contract_constant(&self, spec: &InstrumentSpec) -> Option<i128> {
        let worth = spec.lot.mantissa.checked_mul(ten_to(self.decimals(spec.base()) + u32::from(spec.tick.scale)))?;
        divide(worth, spec.tick.mantissa.checked_mul(ten_to(u32::from(spec.lot.scale)))?)
    }

    /// Returns ⌊k·n/p⌋.
    pub fn contract_value(&self, spec: &InstrumentSpec, lots: u64, price: Ticks) -> i128 {
        let k = self.contract_constant(spec).expect("checked when the instrument was defined");
        k * i128::from(lots) / i128::from(price.0)
    }

    /// Returns the currency and the cost of a spot order. A buy spends quote, a sell spends base.
    pub fn spot_cost(&self, spec: &InstrumentSpec, side: Side, price: Ticks, lots: u64) -> (CurrencyId, i128) {
        let lots = i128::from(lots);
        match side {
            Side::Buy => {
                let unit = self.quote_units_per_tick_lot(spec).expect("checked when the instrument was defined");
                (spec.quote(), unit * i128::from(price.0) * lots)
            }
            Side::Sell => {
                let unit = self.base_units_per_lot(spec).expect("checked when the instrument was defined");
                (spec.base(), unit * lots)
            }
        }
    }

    /// Returns the notional of an order: at its limit, or for a market order at the visible book
    /// within the collar. A waiting order without a limit counts at its protection price, or else
    /// at the reference.
    pub fn notional(&self, instrument: InstrumentId, order: &ReferenceOrder, at_once: bool) -> i128 {
        let market = &self.markets[instrument.0 as usize];
        let (side, lots) = (order.side, order.open);
        let fills = if order.has_price() {
            vec![(order.price, lots)]
        } else if at_once && market.session.phase == Phase::ClosingPriceCross {
            market.closing.cross_price().map(|price| (price, lots)).into_iter().collect()
        } else if at_once {
            visible_fills(market, side, lots)
        } else {
            order.bound.or(market.reference()).map(|price| (price, lots)).into_iter().collect()
        };
        if market.spec.is_spot() {
            return fills.iter().map(|(price, lots)| self.spot_cost(&market.spec, Side::Buy, *price, *lots).1).sum();
        }
        fills.last().map_or(0, |(worst, _)| self.contract_value(&market.spec, lots, *worst))
    }

    /// Returns the amount of a currency that open spot orders of the account reserve.
    pub fn reserved(&self, account: AccountId, currency: CurrencyId) -> i128 {
        let mut sum = 0;
        for market in self.markets.iter().filter(|market| market.spec.is_spot()) {
            for order in market.orders.iter().filter(|order| order.account == account) {
                let price = order.limit().unwrap_or(Ticks(0));
                let (spends, cost) = self.spot_cost(&market.spec, order.side, price, order.open);
                sum += if spends == currency { cost } else { 0 };
            }
        }
        sum
    }

    pub fn open_lots(&self, account: AccountId, instrument: InstrumentId, side: Side) -> u64 {
        let orders = self.markets[instrument.0 as usize].orders.iter();
        orders.filter(|order| order.account == account && order.side == side).map(|order| order.open).sum()
    }

    pub fn holding(&self, account: AccountId, instrument: InstrumentId) -> ReferencePosition {
        self.accounts[account.0 as usize].holdings.get(&instrument).copied().unwrap_or_default()
    }

    /// Returns the initial margin of a perpetual if `extra` more lots were open on a side.
    pub fn margin(&self, account: AccountId, instrument: InstrumentId, extra: Option<(Side, u64)>) -> i128 {
        let on = |side: Side| {
            let more = extra.filter(|(extra_side, _)| *extra_side == side).map_or(0, |(_, lots)| lots);
            i128::from(self.open_lots(account, instrument, side) + more)
        };
        let position = i128::from(self.holding(account, instrument).lots);
        let worst = (position + on(Side::Buy)).abs().max((position - on(Side::Sell)).abs());
        self.margin_of(instrument, worst)
    }

    pub fn margin_of(&self, instrument: InstrumentId, lots: i128) -> i128 {
        let market = &self.markets[instrument.0 as usize];
        let InstrumentKind::InversePerpetual { max_leverage, .. } = market.spec.kind else { return 0 };
        let k = self.contract_constant(&market.spec).expect("checked when the instrument was defined");
        let divisor = i128::from(market.prices.mark.0) * i128::from(max_leverage);
        (k * lots + divisor - 1) / divisor
    }

    /// Returns the profit of the open position if it closed at the mark price.
    pub fn unrealized(&self, account: AccountId, instrument: InstrumentId) -> i128 {
        let market = &self.markets[instrument.0 as usize];
        let holding = self.holding(account, instrument);
        let now = self.contract_value(&market.spec, holding.lots.unsigned_abs(), market.prices.mark);
        // A long position gains when the price rises, because the contract is then worth fewer
        // coins.
        if holding.lots > 0 { holding.entry_value - now } else { now - holding.entry_value }
    }

    pub fn available(&self, account: AccountId, currency: CurrencyId) -> i128 {
        let holder = &self.accounts[account.0 as usize];
        let mut units = holder.totals[currency.0 as usize];
        units += holder.credit_lines.get(&currency).copied().unwrap_or(0);
        units -= self.reserved(account, currency);
        for market in self.markets.iter().filter(|market| !market.spec.is_spot() && market.spec.base() == currency) {
            units -= self.margin(account, market.spec.id, None);
            units += self.unrealized(account, market.spec.id).min(0);
        }
        units
    }

    /// Whether an account can afford an order now. `at_once` means that it trades immediately or
    /// not at all.
    pub fn affords_entry(&self, instrument: InstrumentId, order: &ReferenceOrder, at_once: bool) -> bool {
        if !self.is_limited(order.account) {
            return true;
        }
        let market = &self.markets[instrument.0 as usize];
        let spec = &market.spec;
        if !at_once && !order.has_price() && order.side == Side::Buy && order.bound.is_none() {
            return false;
        }
        let fills = if order.has_price() || !at_once { Vec::new() } else { self.fills_at_once(instrument, order) };
        if !spec.is_spot() {
            let worst =
                if at_once && !order.has_price() { fills.last().map(|(price, _)| *price) } else { order.limit() };
            let lots = (order.open, order.open);
            return self.affords_perpetual(order.account, instrument, order.side, worst, lots);
        }
        let (currency, needed) = if order.side == Side::Sell {
            self.spot_cost(spec, Side::Sell, Ticks(0), order.open)
        } else if order.has_price() || !at_once {
            self.spot_cost(spec, Side::Buy, order.limit().unwrap_or(Ticks(0)), order.open)
        } else {
            let new = fills.iter().map(|(price, lots)| self.spot_cost(spec, Side::Buy, *price, *lots).1);
            (spec.quote(), new.sum())
        };
        needed <= self.available(order.account, currency)
    }

    /// Returns the fills of an order that trades immediately or not at all.
    pub fn fills_at_once(&self, instrument: InstrumentId, order: &ReferenceOrder) -> Vec<(Ticks, u64)> {
        let at = instrument.0 as usize;
        let market = &self.markets[at];
        let mode = order.mode.unwrap_or_else(|| self.self_match_mode(order.account));
        if market.session.phase != Phase::ClosingPriceCross {
            return self.markets[at].fills_of(self, order, mode);
        }
        let lots = self.markets[at].cross_lots(order, mode);
        market.closing.cross_price().filter(|_| lots > 0).map(|price| (price, lots)).into_iter().collect()
    }

    /// Whether the owner can afford to amend its order.
    pub fn affords_amend(&self, instrument: InstrumentId, before: &ReferenceOrder, after: &ReferenceOrder) -> bool {
        if !self.is_limited(before.account) {
            return true;
        }
        // The same or fewer lots at the same price need no funds.
        if after.price == before.price && after.open <= before.open {
            return true;
        }
        let spec = &self.markets[instrument.0 as usize].spec;
        if !spec.is_spot() {
            let more = after.open.saturating_sub(before.open);
            return self.affords_perpetual(before.account, instrument, before.side, after.limit(), (more, after.open));
        }
        let cost =
            |order: &ReferenceOrder| self.spot_cost(spec, order.side, order.limit().unwrap_or(Ticks(0)), order.open);
        let (currency, needed) = cost(after);
        needed <= self.available(before.account, currency) + cost(before).1
    }

    /// Whether a party can settle an off-book trade.
    pub fn affords_trade(
        &self,
        instrument: InstrumentId,
        party: AccountId,
        side: Side,
        price: Ticks,
        lots: u64,
    ) -> bool {
        let spec = &self.markets[instrument.0 as usize].spec;
        if !self.is_limited(party) {
            return true;
        }
        if !spec.is_spot() {
            return self.affords_block(party, instrument, side, price, lots);
        }
        let (currency, needed) = self.spot_cost(spec, side, price, lots);
        needed <= self.available(party, currency)
    }

    /// Whether a party can settle an off-book trade in a perpetual. The price is not limited, so
    /// the loss and the margin after the trade together must not exceed the available money and the
    /// margin before it. A trade without a loss is allowed if the margin does not grow.
    pub fn affords_block(
        &self,
        party: AccountId,
        instrument: InstrumentId,
        side: Side,
        price: Ticks,
        lots: u64,
    ) -> bool {
        let market = &self.markets[instrument.0 as usize];
        let (agreed, at_mark) = (
            self.contract_value(&market.spec, lots, price),
            self.contract_value(&market.spec, lots, market.prices.mark),
        );
        let (sign, loss) = if side == Side::Buy { (1, at_mark - agreed) } else { (-1, agreed - at_mark) };
        let position = i128::from(self.holding(party, instrument).lots) + sign * i128::from(lots);
        let bought = i128::from(self.open_lots(party, instrument, Side::Buy));
        let sold = i128::from(self.open_lots(party, instrument, Side::Sell));
        let after = self.margin_of(instrument, (position + bought).abs().max((position - sold).abs()));
        let before = self.margin(party, instrument, None);
        if loss <= 0 && after <= before {
            return true;
        }
        loss.max(0) + after <= self.available(party, market.spec.base()) + before
    }

    /// Whether an account can afford an order in a perpetual. The growth of the margin and the loss
    /// against the mark at the worst price must be available. If the margin does not grow, the loss
    /// may also use the margin of the lots that the order would close.
    pub fn affords_perpetual(
        &self,
        account: AccountId,
        instrument: InstrumentId,
        side: Side,
        worst: Option<Ticks>,
        (more, lots): (u64, u64),
    ) -> bool {
        let market = &self.markets[instrument.0 as usize];
        let free = self.available(account, market.spec.base());
        let growth = self.margin(account, instrument, Some((side, more))) - self.margin(account, instrument, None);
        let at_mark = self.contract_value(&market.spec, lots, market.prices.mark);
        let mut loss = 0;
        if let Some(worst) = worst {
            // A seller owes the coins that the contract is worth, and a buyer receives them.
            let traded = self.contract_value(&market.spec, lots, worst);
            loss = if side == Side::Sell { traded - at_mark } else { at_mark - traded };
        }
        if growth > 0 {
            return growth + loss.max(0) <= free;
        }
        let position = self.holding(account, instrument).lots;
        let closes = if (position > 0) == (side == Side::Sell) { lots.min(position.unsigned_abs()) } else { 0 };
        loss <= free.max(0) + self.margin_of(instrument, i128::from(closes))
    }

    /// Settles a trade, the taker first. The sequence matters only if an account trades with
    /// itself.
    pub fn settle_money(&mut self, instrument: InstrumentId, parties: [(AccountId, Side); 2], price: Ticks, lots: u64) {
        let spec = self.markets[instrument.0 as usize].spec.clone();
        for (account, side) in parties {
            let sign = if side == Side::Buy { 1 } else { -1 };
            if spec.is_spot() {
                let (_, paid) = self.spot_cost(&spec, Side::Buy, price, lots);
                let (_, delivered) = self.spot_cost(&spec, Side::Sell, price, lots);
                let totals = &mut self.accounts[account.0 as usize].totals;
                totals[spec.base().0 as usize] += i128::from(sign) * delivered;
                totals[spec.quote().0 as usize] -= i128::from(sign) * paid;
            } else {
                let value = self.contract_value(&spec, lots, price);
                let account = &mut self.accounts[account.0 as usize];
                let profit = account.holdings.entry(instrument).or_default().fill(sign * lots.cast_signed(), value);
                account.totals[spec.base().0 as usize] += profit;
            }
        }
    }
}

/// Returns the displayed quantity that `lots` would take, price by price.
fn visible_fills(market: &ReferenceMarket, side: Side, mut lots: u64) -> Vec<(Ticks, u64)> {
    let edge = market.collar(side);
    let mut fills = Vec::new();
    for order in market.visible_queue(side.opposite()) {
        let outside = edge.is_some_and(|edge| if side == Side::Buy { order.price > edge } else { order.price < edge });
        if outside || lots == 0 {
            break;
        }
        let taken = lots.min(order.shown);
        fills.push((order.price, taken));
        lots -= taken;
    }
    fills
}

fn ten_to(power: u32) -> i128 {
    10_i128.pow(power)
}

/// Returns the quotient if it is whole and positive.
fn divide(value: i128, by: i128) -> Option<i128> {
    (value > 0 && value % by == 0).then(|| value / by)
}
