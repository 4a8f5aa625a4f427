//! Defines new currencies, accounts and instruments, most of them invalid.

use pitwire_model::{Command, Credit, CurrencyId, Decimal, InstrumentId, InstrumentKind, Lots, Throttle, Ticks};

use super::Flow;
use crate::common::world::{ACCOUNTS, BTC_USDC, INSTRUMENTS, PERPETUAL, account, currency, instrument};

impl Flow {
    /// Mostly returns definitions that must be refused, each with one fault.
    pub(super) fn define(&mut self) -> Command {
        let bad = |change: fn(&mut pitwire_model::InstrumentSpec), of: InstrumentId| {
            let mut spec = instrument(of, 10);
            (spec.id, spec.name) = (InstrumentId(INSTRUMENTS), "FAULTY".to_owned());
            change(&mut spec);
            Command::AddInstrument(Box::new(spec))
        };
        let unknown = CurrencyId(90);
        match self.rng.below(20) {
            0 => Command::AddCurrency(currency(0, "COPY", 2)),
            1 => Command::AddCurrency(currency(4, "BTC", 2)),
            2 => Command::AddCurrency(currency(4, "FINE", 200)),
            3 => Command::AddAccount(account(0, "copy", Credit::Limited)),
            4 => Command::AddAccount(account(ACCOUNTS, "account-0", Credit::Limited)),
            5 => Command::AddAccount(account(ACCOUNTS, "late", Credit::Limited)),
            6 => Command::AddCurrency(currency(4, "LATE", 3)),
            7 => Command::AddInstrument(Box::new(instrument(BTC_USDC, 10))),
            8 => bad(|spec| spec.tick = Decimal::ZERO, BTC_USDC),
            9 => bad(|spec| spec.lot = Decimal::new(-1, 0), BTC_USDC),
            10 => bad(|spec| spec.start_price = Ticks(0), BTC_USDC),
            11 => bad(|spec| spec.lot = Decimal::new(1, 12), BTC_USDC),
            12 => bad(|spec| spec.id = InstrumentId(77), BTC_USDC),
            13 => bad(|spec| perpetual(spec, |_, index, _| *index = InstrumentId(90)), PERPETUAL),
            14 => bad(|spec| perpetual(spec, |_, _, leverage| *leverage = 0), PERPETUAL),
            15 => bad(|spec| spec.limits.max_lots = Some(Lots(0)), BTC_USDC),
            16 => bad(|spec| spec.limits.collar_bps = Some(10_000), BTC_USDC),
            17 => {
                let mut spec = account(ACCOUNTS, "frantic", Credit::Limited);
                spec.settings.throttle = Some(Throttle { executions: 1, window_ns: 0 });
                Command::AddAccount(spec)
            }
            // Valid, unless its index was deleted.
            18 => bad(|spec| spec.name = "SECOND-PERPETUAL".to_owned(), PERPETUAL),
            _ => {
                let mut spec = instrument(BTC_USDC, 10);
                (spec.id, spec.name) = (InstrumentId(INSTRUMENTS), "FAULTY".to_owned());
                spec.kind = InstrumentKind::Spot { base: unknown, quote: CurrencyId(1) };
                Command::AddInstrument(Box::new(spec))
            }
        }
    }
}

fn perpetual(spec: &mut pitwire_model::InstrumentSpec, change: fn(&mut CurrencyId, &mut InstrumentId, &mut u32)) {
    if let InstrumentKind::InversePerpetual { base, index, max_leverage, .. } = &mut spec.kind {
        change(base, index, max_leverage);
    }
}
