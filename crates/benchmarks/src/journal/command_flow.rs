//! Commands of mixed flow over the spot instruments of the demo market, from a seed.

use pitwire_model::{
    AccountId, Command, CurrencyId, InstrumentId, Lots, NewOrder, OrderId, OrderType, Seq, SequencedCommand, Side,
    Ticks, TimeInForce, VenueNanos,
};
use pitwire_random::SplitMix64;

const INSTRUMENTS: u64 = 10;
const CURRENCIES: u32 = 13;
/// Number of member accounts.
const MEMBERS: u64 = 2;
/// First house account.
const FIRST_HOUSE: u64 = 3;
const HOUSES: u64 = 12;
/// Price in ticks around which the flow trades, far below the prices of the demo flow.
const MID: i64 = 10_000;

/// Generates the commands.
pub struct CommandFlow {
    random: SplitMix64,
    members: u64,
    seq: Seq,
    /// Target number of live orders.
    depth: usize,
    /// Account and id of the entered orders. Some are filled before their cancel.
    live: Vec<(AccountId, OrderId)>,
}

/// Returns deposits that no member can use up.
pub fn deposits() -> impl Iterator<Item = Command> {
    let accounts = (0..2).map(AccountId);
    accounts.flat_map(|account| {
        (0..CURRENCIES).map(move |currency| Command::Deposit {
            account,
            currency: CurrencyId(currency),
            units: 1 << 60,
        })
    })
}

impl CommandFlow {
    /// Creates a flow in which `members` percent of the orders come from members.
    pub fn new(seed: u64, members: u64, depth: usize) -> Self {
        CommandFlow { random: SplitMix64::new(seed), members, seq: Seq(0), depth, live: Vec::with_capacity(2 * depth) }
    }

    /// Continues after command `last`.
    pub fn skip_to(&mut self, last: Seq) {
        self.seq = last;
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.remainder(bound)
    }

    /// Returns the next command.
    pub fn stamped(&mut self) -> SequencedCommand {
        self.seq = self.seq.next();
        let command = match self.below(100) {
            0..=39 if self.live.len() > self.depth => self.cancel(),
            94..=99 => self.enter(TimeInForce::ImmediateOrCancel),
            _ => self.enter(TimeInForce::GoodTillCancel),
        };
        SequencedCommand { seq: self.seq, at: VenueNanos(1_767_603_600_000_000_000 + self.seq.0), command }
    }

    /// Cancels an order, mostly among the last few thousand.
    fn cancel(&mut self) -> Command {
        let back = usize::try_from(self.below(4_000).min(self.below(40_000))).unwrap_or(0).min(self.live.len() - 1);
        let at = self.live.len() - 1 - back;
        let (account, order) = self.live.swap_remove(at);
        Command::Cancel { account, order }
    }

    fn enter(&mut self, tif: TimeInForce) -> Command {
        let account =
            if self.below(100) < self.members { self.below(MEMBERS) } else { FIRST_HOUSE + self.below(HOUSES) };
        let account = AccountId(u32::try_from(account).unwrap_or(0));
        let instrument = InstrumentId(u32::try_from(self.below(INSTRUMENTS)).unwrap_or(0));
        let side = if self.below(2) == 0 { Side::Buy } else { Side::Sell };
        let depth = (self.below(60) * self.below(60) / 40).cast_signed();
        let away = if tif == TimeInForce::ImmediateOrCancel { -3 } else { 1 + depth };
        let price = match side {
            Side::Buy => Ticks(MID - away),
            Side::Sell => Ticks(MID + away),
        };
        if tif == TimeInForce::GoodTillCancel {
            self.live.push((account, OrderId(self.seq.0)));
        }
        let lots = Lots(1 + self.below(20));
        let (id, order_type) = (OrderId(self.seq.0), OrderType::Limit { price });
        Command::Enter(NewOrder { id, account, instrument, side, order_type, lots, tif, ..NewOrder::PLAIN })
    }
}
