//! Seeded commands of mixed flow over the demo's spot instruments.

use pitwire_model::{
    AccountId, Command, CurrencyId, InstrumentId, Lots, NewOrder, OrderId, OrderType, Seq, Side, Stamped, Ticks,
    TimeInForce, VenueNanos,
};

const INSTRUMENTS: u64 = 10;
const CURRENCIES: u32 = 13;
const MEMBERS: u64 = 2;
const FIRST_HOUSE: u64 = 3;
const HOUSES: u64 = 12;
/// Prices of the demo lie far above this; the flow trades around a price of its own.
const MID: i64 = 10_000;

pub struct Flow {
    state: u64,
    members: u64,
    seq: Seq,
    /// As many orders are held live throughout.
    held: usize,
    /// Whose order, and its number; some have filled by the time they are cancelled.
    live: Vec<(AccountId, OrderId)>,
}

/// Enough for the members never to run dry.
pub fn endowments() -> impl Iterator<Item = Command> {
    let accounts = (0..2).map(AccountId);
    accounts.flat_map(|account| {
        (0..CURRENCIES).map(move |currency| Command::Deposit {
            account,
            currency: CurrencyId(currency),
            units: 1 << 60,
        })
    })
}

impl Flow {
    pub fn new(seed: u64, members: u64, held: usize) -> Self {
        Flow { state: seed, members, seq: Seq(0), held, live: Vec::with_capacity(2 * held) }
    }

    /// The next command will be the one after `last`.
    pub fn skip_to(&mut self, last: Seq) {
        self.seq = last;
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn stamped(&mut self) -> Stamped {
        self.seq = self.seq.next();
        let command = match self.below(100) {
            0..=39 if self.live.len() > self.held => self.cancel(),
            94..=99 => self.enter(TimeInForce::ImmediateOrCancel),
            _ => self.enter(TimeInForce::GoodTillCancel),
        };
        Stamped { seq: self.seq, at: VenueNanos(1_767_603_600_000_000_000 + self.seq.0), command }
    }

    /// Mostly among the last few thousand.
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
