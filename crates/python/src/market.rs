//! A market in the process of its caller.

use numpy::PyReadonlyArray1;
use pitwire_configuration::{Preset, PresetName};
use pitwire_flow_models::FlowSource;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, CancelFilter, CancelReason, Command, Credit, CurrencyId, Event,
    Label, Lots, NewOrder, OrderId, Side, Ticks, VenueNanos,
};
use pitwire_simulation::{SteppedMarket, SteppedPlan};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{
    OrderTypeArguments, account, count, flag, flow, instrument, path, post_only, preset, side, text, ticks,
    time_in_force,
};
use crate::errors::{ErrorType, check_signals, error, failed, invalid};
use crate::event_columns::EventColumns;
use crate::exclusive::Exclusive;
use crate::order_batch::{BatchColumns, BatchEffects};
use crate::outcome::Outcome;
use crate::running_market::{COMMANDS_PER_SLICE, LevelArray, RunningMarket};

/// A market in this process: an engine, a schedule, and an order flow from a seed.
#[pyclass(frozen, subclass, module = "pitwire._native")]
pub struct Market {
    running: Exclusive<RunningMarket>,
}

#[pymethods]
impl Market {
    #[new]
    #[pyo3(
        signature = (preset=PresetName::Demo.preset(), seed=None, *, flow=FlowSource::Market, data=None,
                     tape_hash=None, record=None, max_events=None),
        text_signature = "(preset='demo', seed=0, *, flow='market', data=None, tape_hash=True, record=True, \
                          max_events=5000000)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = preset)] preset: Preset,
        seed: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = flow)] flow: Option<FlowSource>,
        data: Option<&Bound<'_, PyAny>>,
        tape_hash: Option<&Bound<'_, PyAny>>,
        record: Option<&Bound<'_, PyAny>>,
        max_events: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        const MAX_EVENTS: u64 = 5_000_000;
        let max_events = max_events.map_or(Ok(MAX_EVENTS), |value| count("max_events", value))?;
        let plan = SteppedPlan {
            preset,
            flow,
            seed: seed.map_or(Ok(0), |value| count("seed", value))?,
            directory: data.map(|value| path("data", value)).transpose()?,
            has_tape_hash: tape_hash.map_or(Ok(true), |value| flag("tape_hash", value))?,
        };
        let is_recorded = record.map_or(Ok(true), |value| flag("record", value))?;
        let opened = py.detach(|| SteppedMarket::open(&plan));
        let class = if plan.directory.is_some() { ErrorType::DataDirectoryError } else { ErrorType::VenueFailed };
        let market = opened.map_err(|failure| failed(py, class, failure))?;
        let events = is_recorded.then(EventColumns::default);
        let max_events = usize::try_from(max_events).unwrap_or(usize::MAX);
        Ok(Market { running: Exclusive::new(RunningMarket { market, events, max_events }) })
    }

    /// Enters an order at the current time. Without a price it is a market order.
    ///
    /// `side` is "buy" or 1, "sell" or -1. `account` is a name or id, by default the first account.
    /// `tif` is gtc, day, ioc, fok, gtt (with `expires_ns`, venue time), opg, gfa, gfx, atc or cpx;
    /// by default gtc, and ioc for a market order. `post_only` is "reprice" or "reject".
    /// `display_lots` makes an iceberg, `stop_ticks` a stop. `label` has at most 64 bytes.
    #[pyo3(
        signature = (instrument, side, lots, price_ticks=None, *, account=None, tif=None, expires_ns=None,
                     post_only=None, display_lots=None, stop_ticks=None, hidden=None, min_execution_lots=None,
                     reduce_only=None, label=None),
        text_signature = "($self, instrument, side, lots, price_ticks=None, *, account=None, tif=None, \
                          expires_ns=None, post_only=None, display_lots=None, stop_ticks=None, hidden=False, \
                          min_execution_lots=None, reduce_only=False, label='')"
    )]
    #[allow(clippy::too_many_arguments)]
    fn submit(
        &self,
        py: Python<'_>,
        instrument: &Bound<'_, PyAny>,
        side: &Bound<'_, PyAny>,
        lots: &Bound<'_, PyAny>,
        price_ticks: Option<&Bound<'_, PyAny>>,
        account: Option<&Bound<'_, PyAny>>,
        tif: Option<&Bound<'_, PyAny>>,
        expires_ns: Option<&Bound<'_, PyAny>>,
        post_only: Option<&Bound<'_, PyAny>>,
        display_lots: Option<&Bound<'_, PyAny>>,
        stop_ticks: Option<&Bound<'_, PyAny>>,
        hidden: Option<&Bound<'_, PyAny>>,
        min_execution_lots: Option<&Bound<'_, PyAny>>,
        reduce_only: Option<&Bound<'_, PyAny>>,
        label: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Outcome> {
        let order_type = OrderTypeArguments {
            price: price_ticks.map(|value| ticks("price_ticks", value)).transpose()?,
            stop: stop_ticks.map(|value| ticks("stop_ticks", value)).transpose()?,
            is_hidden: hidden.map_or(Ok(false), |value| flag("hidden", value))?,
            min_execution: min_execution_lots.map(|value| count("min_execution_lots", value)).transpose()?.map(Lots),
        };
        let order_type = order_type.order_type(py)?;
        let is_market = matches!(order_type, pitwire_model::OrderType::Market);
        let expires_ns = expires_ns.map(|value| count("expires_ns", value)).transpose()?;
        let tif = tif.map(|value| text("tif", value)).transpose()?;
        let post_only = post_only.map(|value| text("post_only", value)).transpose()?;
        let label = label.map_or(Ok(""), |value| text("label", value))?;
        let order = NewOrder {
            side: self::side(side)?,
            order_type,
            lots: Lots(count("lots", lots)?),
            tif: time_in_force(py, tif, expires_ns, is_market)?,
            display: display_lots.map(|value| count("display_lots", value)).transpose()?.map(Lots),
            post_only: self::post_only(py, post_only)?,
            reduce_only: reduce_only.map_or(Ok(false), |value| flag("reduce_only", value))?,
            label: Label::new(label)
                .ok_or_else(|| invalid(py, format!("label has {} bytes", label.len()), "use at most 64 bytes"))?,
            ..NewOrder::PLAIN
        };
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let instrument = self::instrument(engine, instrument)?;
            let account = account.map_or(Ok(AccountId::ZERO), |value| self::account(engine, value))?;
            let sequence = running.submit(py, Command::Enter(NewOrder { instrument, account, ..order }))?;
            Ok(Outcome::new(OrderId(sequence), running.market.events()))
        })
    }

    /// Changes the total lots, with the filled ones, or the price of a live order.
    ///
    /// Fewer lots at the same price keep the place in the queue. `account` is by default the owner.
    #[pyo3(signature = (order_id, *, lots=None, price_ticks=None, account=None))]
    fn amend(
        &self,
        py: Python<'_>,
        order_id: &Bound<'_, PyAny>,
        lots: Option<&Bound<'_, PyAny>>,
        price_ticks: Option<&Bound<'_, PyAny>>,
        account: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Outcome> {
        let order = OrderId(count("order_id", order_id)?);
        let lots = lots.map(|value| count("lots", value)).transpose()?.map(Lots);
        let price = price_ticks.map(|value| ticks("price_ticks", value)).transpose()?;
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let known = engine.order(order);
            let owner = account.map(|value| self::account(engine, value)).transpose()?;
            let amend = Amend {
                account: owner.or(known.map(|known| known.account)).unwrap_or_default(),
                order,
                price: price.or(known.map(|known| known.price)).unwrap_or_default(),
                lots: lots.or(known.map(|known| known.ordered)).unwrap_or_default(),
                ..Amend::PLAIN
            };
            running.submit(py, Command::Amend(amend))?;
            Ok(Outcome::new(order, running.market.events()))
        })
    }

    /// Cancels a live order. `account` is by default the owner.
    #[pyo3(signature = (order_id, *, account=None))]
    fn cancel(
        &self,
        py: Python<'_>,
        order_id: &Bound<'_, PyAny>,
        account: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Outcome> {
        let order = OrderId(count("order_id", order_id)?);
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let owner = account.map(|value| self::account(engine, value)).transpose()?;
            let account = owner.or_else(|| engine.order(order).map(|known| known.account)).unwrap_or_default();
            running.submit(py, Command::Cancel { account, order })?;
            Ok(Outcome::new(order, running.market.events()))
        })
    }

    /// Cancels the live orders of an account, and returns their number.
    #[pyo3(signature = (account=None, instrument=None))]
    fn cancel_all(
        &self,
        py: Python<'_>,
        account: Option<&Bound<'_, PyAny>>,
        instrument: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let account = account.map_or(Ok(AccountId::ZERO), |value| self::account(engine, value))?;
            let instrument = instrument.map(|value| self::instrument(engine, value)).transpose()?;
            let which = instrument.map_or(CancelFilter::All, CancelFilter::Instrument);
            running.submit(py, Command::CancelAll { account, which, reason: CancelReason::Requested })?;
            let events = running.market.events();
            Ok(events.iter().filter(|event| matches!(event, Event::Cancelled { .. })).count())
        })
    }

    /// Executes whole-number columns as commands. `pitwire.Venue.submit_batch` checks the arrays.
    #[allow(clippy::too_many_arguments)]
    fn _submit_columns<'py>(
        &self,
        py: Python<'py>,
        action: PyReadonlyArray1<'py, i64>,
        instrument: PyReadonlyArray1<'py, i64>,
        account: PyReadonlyArray1<'py, i64>,
        side: PyReadonlyArray1<'py, i64>,
        lots: PyReadonlyArray1<'py, i64>,
        price_ticks: PyReadonlyArray1<'py, i64>,
        order_id: PyReadonlyArray1<'py, i64>,
        tif: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let tif = tif.map(|value| text("tif", value)).transpose()?;
        let tif = time_in_force(py, tif, None, false)?;
        let columns = BatchColumns {
            action: action.as_slice()?.to_vec(),
            instrument: instrument.as_slice()?.to_vec(),
            account: account.as_slice()?.to_vec(),
            side: side.as_slice()?.to_vec(),
            lots: lots.as_slice()?.to_vec(),
            price_ticks: price_ticks.as_slice()?.to_vec(),
            order_id: order_id.as_slice()?.to_vec(),
            tif,
        };
        self.running.with(py, |running| {
            columns.check(py, running.market.engine())?;
            let rows = columns.rows();
            let mut effects = BatchEffects::with_capacity(rows);
            while effects.rows() < rows {
                running.check_buffer(py)?;
                let slice = py.detach(|| columns.execute(running, &mut effects, COMMANDS_PER_SLICE));
                slice.map_err(|failure| failed(py, ErrorType::VenueFailed, failure))?;
                check_signals(py, || format!("the batch was interrupted after {} of {rows} rows", effects.rows()))?;
            }
            effects.into_arrays(py)
        })
    }

    /// Moves venue time by `ns` nanoseconds, or until the flow has executed `flow_commands`.
    ///
    /// Executes what comes due in between and returns the number of commands.
    #[pyo3(signature = (ns=None, *, flow_commands=None))]
    fn advance(
        &self,
        py: Python<'_>,
        ns: Option<&Bound<'_, PyAny>>,
        flow_commands: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let ns = ns.map(|value| count("ns", value)).transpose()?;
        let commands = flow_commands.map(|value| count("flow_commands", value)).transpose()?;
        self.running.with(py, |running| match (ns, commands) {
            (Some(ns), None) => {
                let until = VenueNanos(running.market.now().0.saturating_add(ns));
                running.run_until(py, until, u64::MAX)
            }
            (None, Some(_)) if !running.market.has_flow() => Err(invalid(
                py,
                "flow_commands is given, and this venue has no flow",
                "give ns, or create it with a flow",
            )),
            (None, Some(commands)) => {
                let limit = running.market.flow_commands().saturating_add(commands);
                running.run_until(py, VenueNanos(u64::MAX), limit)
            }
            _ => Err(invalid(py, "advance needs exactly one of ns and flow_commands", "give one of them")),
        })
    }

    #[pyo3(signature = (instrument, depth=None))]
    fn _book<'py>(
        &self,
        py: Python<'py>,
        instrument: &Bound<'py, PyAny>,
        depth: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(LevelArray<'py>, LevelArray<'py>, u64)> {
        let depth = depth.map(|value| count("depth", value)).transpose()?;
        let depth = depth.map_or(usize::MAX, |depth| usize::try_from(depth).unwrap_or(usize::MAX));
        self.running.with(py, |running| {
            let id = self::instrument(running.market.engine(), instrument)?;
            let bids = running.levels(py, id, Side::Buy, depth)?;
            let asks = running.levels(py, id, Side::Sell, depth)?;
            Ok((bids, asks, running.market.now().0))
        })
    }

    /// Returns bid, lots of the bid, ask, lots of the ask; 0 for an empty side. Prices in ticks.
    fn touch(&self, py: Python<'_>, instrument: &Bound<'_, PyAny>) -> PyResult<(i64, u64, i64, u64)> {
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let id = self::instrument(engine, instrument)?;
            let best = |side| engine.market(id).and_then(|market| market.best(side)).unwrap_or_default();
            let ((bid, bid_lots), (ask, ask_lots)) = (best(Side::Buy), best(Side::Sell));
            Ok((bid.0, bid_lots.0, ask.0, ask_lots.0))
        })
    }

    fn _take_events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.running.with(py, |running| match &mut running.events {
            Some(events) => events.take(py),
            None => Err(invalid(py, "this venue records no events", "create it with record=True")),
        })
    }

    /// The instruments: id, name, tick, lot, start price in ticks, base, quote, and kind.
    #[allow(clippy::type_complexity)]
    fn _instruments(&self, py: Python<'_>) -> PyResult<Vec<(u32, String, String, String, i64, String, String, &str)>> {
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let currency = |id| engine.currency(id).map_or_else(String::new, |currency| currency.name.clone());
            let describe = |market: &pitwire_engine::Market| {
                let spec = &market.spec;
                let kind = if spec.is_spot() { "spot" } else { "inverse_perpetual" };
                let (tick, lot) = (spec.tick.to_string(), spec.lot.to_string());
                let (base, quote) = (currency(spec.base()), currency(spec.quote()));
                (spec.id.0, spec.name.clone(), tick, lot, spec.start_price.0, base, quote, kind)
            };
            Ok(engine.markets().iter().map(describe).collect())
        })
    }

    /// Ids of the accounts by name.
    #[getter]
    fn accounts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.running.with(py, |running| {
            let accounts = PyDict::new(py);
            for account in running.market.engine().accounts() {
                accounts.set_item(&account.spec.name, account.spec.id.0)?;
            }
            Ok(accounts)
        })
    }

    /// Adds an account. Without credit its orders need funds.
    fn _add_account(&self, py: Python<'_>, name: &Bound<'_, PyAny>, unlimited: &Bound<'_, PyAny>) -> PyResult<u32> {
        let (name, is_unlimited) = (text("name", name)?, flag("unlimited", unlimited)?);
        self.running.with(py, |running| {
            let next = u32::try_from(running.market.engine().accounts().len()).unwrap_or(u32::MAX);
            let credit = if is_unlimited { Credit::Unlimited } else { Credit::Limited };
            let settings = AccountSettings::default();
            let spec = AccountSpec { id: AccountId(next), name: name.into(), credit, settings };
            running.submit(py, Command::AddAccount(spec))?;
            check_refusal(py, running, &format!("the account {name:?}"), "use a name that no account has")?;
            Ok(next)
        })
    }

    /// Deposits units of a currency; a negative number withdraws.
    fn _deposit(
        &self,
        py: Python<'_>,
        account: &Bound<'_, PyAny>,
        currency: &Bound<'_, PyAny>,
        units: i128,
    ) -> PyResult<()> {
        let currency = text("currency", currency)?;
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let account = self::account(engine, account)?;
            let currency = currency_id(py, engine, currency)?;
            running.submit(py, Command::Deposit { account, currency, units })?;
            check_refusal(py, running, "the deposit", "use an amount that the balance allows")
        })
    }

    /// Units owned, units available, and decimals of a unit.
    fn _balance(
        &self,
        py: Python<'_>,
        account: &Bound<'_, PyAny>,
        currency: &Bound<'_, PyAny>,
    ) -> PyResult<(i128, i128, u8)> {
        let currency = text("currency", currency)?;
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let id = self::account(engine, account)?;
            let currency = currency_id(py, engine, currency)?;
            let total = engine.account(id).map_or(0, |account| account.balance(currency).total);
            let decimals = engine.currency(currency).map_or(0, |currency| currency.decimals);
            Ok((total, engine.available(id, currency), decimals))
        })
    }

    /// Returns the position in a perpetual: positive for long, negative for short.
    fn position_lots(
        &self,
        py: Python<'_>,
        account: &Bound<'_, PyAny>,
        instrument: &Bound<'_, PyAny>,
    ) -> PyResult<i64> {
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let id = self::account(engine, account)?;
            let instrument = self::instrument(engine, instrument)?;
            Ok(engine.account(id).map_or(0, |account| account.position(instrument).lots))
        })
    }

    /// Live orders of an account: id, instrument id, side, price, open lots.
    #[allow(clippy::type_complexity)]
    fn _orders(&self, py: Python<'_>, account: &Bound<'_, PyAny>) -> PyResult<Vec<(u64, u32, i8, i64, u64)>> {
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let id = self::account(engine, account)?;
            let orders = engine.orders_of(id).into_iter();
            let sign = |side| if side == Side::Buy { 1 } else { -1 };
            Ok(orders
                .map(|order| (order.id.0, order.instrument.0, sign(order.side), order.price.0, order.open.0))
                .collect())
        })
    }

    /// Returns the lots ahead of an order in its queue, or None if it is not on a level.
    fn queue_ahead_lots(&self, py: Python<'_>, order_id: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
        let order = OrderId(count("order_id", order_id)?);
        self.running.with(py, |running| Ok(running.market.engine().queue_ahead(order).map(|lots| lots.0)))
    }

    /// Returns the session, such as "continuous".
    fn session(&self, py: Python<'_>, instrument: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let id = self::instrument(engine, instrument)?;
            Ok(engine.market(id).map_or("closed", |market| market.phase().name()))
        })
    }

    /// Returns the price of the last trade, or None before the first.
    fn last_price_ticks(&self, py: Python<'_>, instrument: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        self.running.with(py, |running| {
            let engine = running.market.engine();
            let id = self::instrument(engine, instrument)?;
            Ok(engine.market(id).and_then(|market| market.last()).map(|price: Ticks| price.0))
        })
    }

    /// Venue time in nanoseconds since 1970.
    #[getter]
    fn time_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.running.with(py, |running| Ok(running.market.now().0))
    }

    /// Number of the last command.
    #[getter]
    fn sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.running.with(py, |running| Ok(running.market.last().0))
    }

    /// Hash of all public output, as `pitwire sim` prints it.
    #[getter]
    fn tape_hash(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.running.with(py, |running| Ok(running.market.tape_hash().map(hex::encode)))
    }

    /// Whether the market can still be used.
    #[getter]
    fn is_open(&self) -> bool {
        self.running.is_open()
    }

    /// Commits the journal, if there is one, and closes the market. May be called again.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(running) = self.running.take(py)? else { return Ok(()) };
        py.detach(|| running.market.close()).map_err(|failure| failed(py, ErrorType::VenueFailed, failure))
    }
}

fn currency_id(py: Python<'_>, engine: &pitwire_engine::Engine, name: &str) -> PyResult<CurrencyId> {
    engine.currency_named(name).map(|currency| currency.id).ok_or_else(|| {
        let known: Vec<&str> = engine.currencies().iter().map(|currency| currency.name.as_str()).collect();
        let what = format!("there is no currency {name:?}");
        error(py, ErrorType::UnknownName, what, &format!("use one of {}", known.join(", ")))
    })
}

fn check_refusal(py: Python<'_>, running: &RunningMarket, what: &str, remedy: &str) -> PyResult<()> {
    match running.market.events().last() {
        Some(Event::CommandRefused { reason }) => {
            Err(invalid(py, format!("{what} was refused: {}", reason.name()), remedy))
        }
        _ => Ok(()),
    }
}
