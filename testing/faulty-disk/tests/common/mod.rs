//! Fixtures of the crash tests: commands from a seed, a journal on a faulty disk, and a judge of
//! lost commands.

use pitwire_random::SplitMix64;
use std::sync::Arc;

use pitwire_faulty_disk::FaultyStorage;
use pitwire_journal::records::{ChainState, SnapshotMeta};
use pitwire_journal::{Journal, JournalConfig, OpenError, Recovery, write_snapshot};
use pitwire_journal::{Log, LogError, OutputHash};
use pitwire_model::{
    AccountId, Amend, Command, Currency, CurrencyId, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Priority,
    Seq, SequencedCommand, Side, Ticks, TimeInForce, VenueNanos,
};

/// Small segments and groups, so that every case occurs within a few commands.
pub fn small() -> JournalConfig {
    JournalConfig { segment_bytes: 32 << 10, group_bytes: 8 << 10, superblock_interval_ns: 3, rule_version: 1 }
}

pub fn meta(writer: &Writer) -> SnapshotMeta {
    let seq = writer.journal.durable_position();
    let chain = ChainState { commands: seq.0, ..ChainState::default() };
    SnapshotMeta { rule_version: 1, seq, at: VenueNanos(seq.0 * 10), position: writer.journal.position(), chain }
}

pub fn payload(seq: Seq) -> Vec<u8> {
    format!("the state after {seq} ").repeat(100).into_bytes()
}

/// Takes a snapshot of the durable state, without naming it, as an earlier build would.
pub fn snapshot(disk: &FaultyStorage, writer: &Writer) -> Result<Seq, LogError> {
    let meta = meta(writer);
    write_snapshot(disk, &meta, &payload(meta.seq))?;
    Ok(meta.seq)
}

/// Takes a snapshot of the durable state and names it in the superblock.
pub fn named_snapshot(disk: &FaultyStorage, writer: &mut Writer) -> Result<Seq, LogError> {
    let meta = meta(writer);
    let named = write_snapshot(disk, &meta, &payload(meta.seq))?;
    writer.journal.name_snapshot(named)?;
    Ok(meta.seq)
}

/// `TEST_SEED=…` repeats a run; otherwise every run has a new seed.
pub fn test_seed() -> u64 {
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |elapsed| elapsed.subsec_nanos().into());
    std::env::var("TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(now)
}

pub fn command(seq: u64, random: &mut SplitMix64) -> SequencedCommand {
    let account = AccountId(u32::try_from(random.below(4)).unwrap());
    let order = OrderId(1 + random.below(seq));
    let command = match random.below(8) {
        0 => Command::Cancel { account, order },
        1 => Command::CloseWindow,
        2 => {
            let (price, lots) = (Ticks(1 + (random.next() >> 40) as i64), Lots(random.below(100)));
            Command::Amend(Amend { account, order, price, lots, priority: Priority::KeepWhenReduced, ..Amend::PLAIN })
        }
        // Now and then a long command, so that groups of several blocks and full groups occur.
        3 => {
            let name = "x".repeat(usize::try_from(random.below(1500)).unwrap());
            Command::AddCurrency(Currency { id: CurrencyId(1), name, decimals: 2 })
        }
        // Now and then a label that is mostly zeros on the disk.
        _ => Command::Enter(NewOrder {
            id: OrderId(seq),
            account,
            instrument: InstrumentId(0),
            side: if random.coin() { Side::Buy } else { Side::Sell },
            order_type: OrderType::Limit { price: Ticks(100) },
            lots: Lots(1 + random.below(1000)),
            tif: TimeInForce::GoodTillCancel,
            label: Label::new(&"\0".repeat(64)).unwrap(),
            ..NewOrder::PLAIN
        }),
    };
    SequencedCommand { seq: Seq(seq), at: VenueNanos(seq * 10), command }
}

/// Stands for the output chain: different after every command.
pub fn output_after(seq: Seq) -> OutputHash {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&seq.0.to_le_bytes());
    OutputHash(hash)
}

pub fn open(disk: &FaultyStorage) -> Result<(Journal, Recovery), OpenError> {
    Journal::open(Arc::new(disk.clone()), small())
}

/// A venue that only writes its log. It remembers all appended and all acknowledged commands.
pub struct Writer {
    pub journal: Journal,
    pub appended: Vec<SequencedCommand>,
    pub acked: u64,
    pub random: SplitMix64,
}

impl Writer {
    pub fn begin(disk: &FaultyStorage, seed: u64) -> Result<Self, OpenError> {
        Self::begin_with(disk, seed, small())
    }

    pub fn begin_with(disk: &FaultyStorage, seed: u64, config: JournalConfig) -> Result<Self, OpenError> {
        let (journal, _) = Journal::open(Arc::new(disk.clone()), config)?;
        Ok(Self { journal, appended: Vec::new(), acked: 0, random: SplitMix64::new(seed) })
    }

    pub fn append(&mut self, count: u64) -> Result<(), LogError> {
        for _ in 0..count {
            let stamped = command(self.appended.len() as u64 + 1, &mut self.random);
            self.journal.append(&stamped)?;
            self.appended.push(stamped);
        }
        Ok(())
    }

    pub fn commit(&mut self) -> Result<(), LogError> {
        let last = Seq(self.appended.len() as u64);
        self.acked = self.journal.commit(output_after(last))?.0;
        Ok(())
    }

    /// One turn of a server: a batch, a commit, and now and then maintenance.
    pub fn turn(&mut self, now_ns: u64) -> Result<(), LogError> {
        let count = 1 + self.random.below(9);
        self.append(count)?;
        self.commit()?;
        if self.random.below(4) == 0
            && let Some(job) = self.journal.segment_wanted()
        {
            self.journal.segment_ready(job.run())?;
        }
        self.journal.write_superblock_if_due(now_ns)?;
        Ok(())
    }
}

/// An error of recovery.
#[derive(Debug)]
#[allow(dead_code, reason = "a failed test prints the fields")]
pub enum Loss {
    Refused(String),
    /// Fewer commands than were acknowledged.
    Acknowledged {
        acked: u64,
        found: u64,
    },
    /// A command that differs from the appended one, or was never appended.
    Changed {
        seq: u64,
    },
    /// A group with another output hash than the commands up to it had.
    Output {
        seq: u64,
    },
}

/// Opens the disk and compares the recovered commands with those appended and acknowledged. Returns
/// how many were recovered.
pub fn judge(disk: &FaultyStorage, acked: u64, appended: &[SequencedCommand]) -> Result<u64, Loss> {
    let refused = |error: OpenError| Loss::Refused(format!("{error} ({})", error.remedy()));
    let (journal, recovery) = open(disk).map_err(refused)?;
    let mut found = recovery.base().0;
    for group in recovery.tail(disk).map_err(refused)? {
        let group = group.map_err(refused)?;
        for stamped in &group.commands {
            let expected = usize::try_from(found).ok().and_then(|index| appended.get(index));
            found += 1;
            if expected != Some(stamped) {
                return Err(Loss::Changed { seq: found });
            }
        }
        if group.end.output.is_some_and(|output| output != output_after(Seq(found))) {
            return Err(Loss::Output { seq: found });
        }
    }
    if found < acked || journal.durable_position().0 != found {
        return Err(Loss::Acknowledged { acked, found });
    }
    Ok(found)
}
