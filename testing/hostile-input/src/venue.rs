//! A small venue in memory: four instruments, three accounts, orders on both sides of a book.

use pitwire_deribit::Venue;
use pitwire_memory_venue::MemoryVenue;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, InstrumentId, InstrumentSpec, Lots,
    NewOrder, OrderType, Phase, Side, Ticks, VenueNanos,
};

pub const NOW: VenueNanos = VenueNanos(1_795_219_359_707_000_000);
pub const MEMBERS: [&str; 3] = ["alice", "bob", "operator"];

/// Currency names with their decimals.
const CURRENCIES: [(&str, u8); 6] = [("ZAR", 2), ("USDC", 6), ("USD", 2), ("BTC", 8), ("NPN", 0), ("ETH", 8)];
const HELD_WHOLE: i128 = 1_000_000;

/// Returns a venue with the commands of [`opening`] applied.
pub fn small_venue() -> MemoryVenue {
    let mut venue = MemoryVenue { is_manual: true, ..MemoryVenue::new(NOW) };
    for command in opening() {
        // Memory does not fail.
        let _ = venue.submit(command);
    }
    venue
}

fn currency(name: &str) -> CurrencyId {
    (0..).zip(CURRENCIES).find(|(_, (known, _))| *known == name).map_or(CurrencyId(0), |(id, _)| CurrencyId(id))
}

/// The commands that set the venue up.
pub fn opening() -> Vec<Command> {
    let mut commands = Vec::new();
    for (id, (name, decimals)) in (0..).map(CurrencyId).zip(CURRENCIES) {
        commands.push(Command::AddCurrency(Currency { id, name: name.into(), decimals }));
    }
    for (id, name) in (0..).map(AccountId).zip(MEMBERS) {
        let settings = AccountSettings::default();
        commands.push(Command::AddAccount(AccountSpec { id, name: name.into(), credit: Credit::Limited, settings }));
        for (currency, (_, decimals)) in (0..).map(CurrencyId).zip(CURRENCIES) {
            let units = HELD_WHOLE * 10_i128.pow(u32::from(decimals));
            commands.push(Command::Deposit { account: id, currency, units });
        }
    }
    for spec in instruments() {
        let instrument = spec.id;
        commands.push(Command::AddInstrument(Box::new(spec)));
        commands.push(Command::SetPhase { instrument, phase: Phase::Continuous });
    }
    for spec in instruments() {
        for (side, offset) in [(Side::Buy, -2), (Side::Buy, -1), (Side::Sell, 1), (Side::Sell, 2)] {
            let price = Ticks(spec.start_price.0 + offset);
            commands.push(limit(AccountId(1), spec.id, side, price, Lots(5)));
        }
    }
    commands
}

pub fn limit(account: AccountId, instrument: InstrumentId, side: Side, price: Ticks, lots: Lots) -> Command {
    let order_type = OrderType::Limit { price };
    Command::Enter(NewOrder { account, instrument, side, order_type, lots, ..NewOrder::PLAIN })
}

fn instruments() -> Vec<InstrumentSpec> {
    pitwire_memory_venue::instruments(currency, ("ETH", "USDC", (5, 2), (1, 3), 60_000))
}

#[cfg(test)]
mod tests {
    use pitwire_model::Event;

    use super::*;

    #[test]
    fn every_command_of_the_opening_is_taken() {
        let mut venue = small_venue();
        assert_eq!((venue.engine.markets().len(), venue.engine.live_orders()), (4, 16));
        for command in opening() {
            if !matches!(command, Command::Enter(_)) {
                continue;
            }
            venue.submit(command).unwrap();
            assert!(matches!(venue.events.first(), Some(Event::Accepted { .. })), "{:?}", venue.events);
        }
    }
}
