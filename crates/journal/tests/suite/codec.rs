//! Bytes that were cut, changed or made up: refused, never misread, never a panic.

use crate::samples;
use pitwire_journal::records::{
    DecodeError, GroupFault, GroupSeal, OutputChain, SnapshotFault, Superblock, SuperblockFault, decode_command,
    encode_command, fits,
    group::{SECTOR_BYTES, begin_group, is_zero, read_group, read_header, seal_group},
    snapshot::{decode_snapshot, encode_snapshot},
};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Allocation, Amend, Bust, CancelFilter, CancelReason, Command, Credit,
    Currency, CurrencyId, Decimal, Epoch, Expiry, FlowSetting, InstrumentId, InstrumentKind, InstrumentLimits,
    InstrumentSpec, KillScope, Label, Lots, MatchGroup, NewOrder, OrderId, OrderType, Phase, PostOnly, Priority,
    RemainingSessions, SelfMatch, Seq, SequencedCommand, SessionId, SessionReason, Side, SignaturePurpose,
    SpentSignature, Throttle, Ticks, TimeInForce, Tolerance, TradeReport, TradeSeq, TradingRules, VenueDay, VenueNanos,
};
use pitwire_random::SplitMix64;

/// Random values of every type in a record.
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    /// Small and large numbers, and the ends of the range, alike.
    fn number(&mut self) -> u64 {
        let shift = self.below(65);
        if shift == 64 { u64::MAX } else { self.next() >> shift }
    }

    fn short(&mut self) -> u32 {
        u32::try_from(self.number() >> 32).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn wide(&mut self) -> i128 {
        i128::from(self.next().cast_signed()) * i128::from(self.number())
    }

    fn text(&mut self, longest: usize) -> String {
        let characters = ['a', 'é', '€', '𝄞', '\n', '"', '\0'];
        let mut text = String::new();
        for _ in 0..self.below(longest + 1) {
            let next = characters[self.below(characters.len())];
            if text.len() + next.len_utf8() <= longest {
                text.push(next);
            }
        }
        text
    }

    fn label(&mut self) -> Label {
        Label::new(&self.text(Label::MAX_BYTES)).unwrap()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.next() & 1 == 0 { None } else { Some(make(self)) }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn arbitrary(kind: usize, r: &mut Random) -> Command {
    let (account, order, instrument) = (AccountId(r.short()), OrderId(r.number()), InstrumentId(r.short()));
    match kind {
        0 => Command::StartEpoch { epoch: Epoch(r.number()) },
        1 => Command::AddCurrency(Currency { id: CurrencyId(r.short()), name: r.text(100), decimals: r.byte() }),
        2 => Command::AddInstrument(Box::new(instrument_spec(r))),
        3 => {
            let credit = r.pick(&[Credit::Limited, Credit::Unlimited]);
            Command::AddAccount(AccountSpec { id: account, name: r.text(200), credit, settings: settings(r) })
        }
        4 => Command::Deposit { account, currency: CurrencyId(r.short()), units: r.wide() },
        5 => Command::SetPhase { instrument, phase: r.pick(&Phase::ALL) },
        6 => Command::Enter(new_order(r)),
        7 => Command::Amend(Amend {
            account,
            order,
            price: Ticks(r.next().cast_signed()),
            lots: Lots(r.number()),
            priority: r.pick(&[Priority::KeepWhenReduced, Priority::AlwaysLose]),
            display: r.maybe(|r| Lots(r.number())),
            post_only: r.pick(&POST_ONLY),
            stop: r.maybe(|r| Ticks(r.next().cast_signed())),
            minimum_execution: r.maybe(|r| Lots(r.number())),
            expiry: r.maybe(|r| {
                let (day, time) = (Expiry::Day(VenueDay(r.short())), Expiry::Time(VenueNanos(r.number())));
                r.pick(&[day, time])
            }),
        }),
        8 => Command::Cancel { account, order },
        9 => Command::CancelAll { account, which: filter(r), reason: r.pick(&CancelReason::ALL) },
        10 => Command::CloseWindow,
        11 => Command::SampleIndex,
        12 => Command::EndDay,
        _ => operator(kind, r),
    }
}

/// Kinds of commands that [`arbitrary`] makes.
const KINDS: usize = 36;
const POST_ONLY: [PostOnly; 3] = [PostOnly::No, PostOnly::Reprice, PostOnly::Reject];

fn operator(kind: usize, r: &mut Random) -> Command {
    let (account, instrument) = (AccountId(r.short()), InstrumentId(r.short()));
    match kind {
        13 => Command::SetInstrumentLimits { instrument, limits: limits(r) },
        14 => Command::DeleteInstrument { instrument },
        15 => Command::SetAccount { account, settings: settings(r) },
        16 => Command::SetCreditLine { account, currency: CurrencyId(r.short()), units: r.wide() },
        17 => Command::CloseAccount { account },
        18 => Command::Kill { scope: scope(r), reason: r.label() },
        19 => Command::Lift { scope: scope(r) },
        20 => Command::BustTrade(Box::new(Bust {
            instrument,
            trade_seq: TradeSeq(r.number()),
            price: Ticks(r.next().cast_signed()),
            lots: Lots(r.number()),
            buyer: account,
            seller: AccountId(r.short()),
            reason: r.label(),
        })),
        21 if r.pick(&[true, false]) => Command::DefineFlow { text: "x = 1\n".repeat(r.below(900)).into() },
        21 => Command::SetFlow(FlowSetting { running: r.pick(&[true, false]), rate_percent: r.short() }),
        22 => Command::Quarantine { seq: Seq(r.number()), instrument: r.maybe(|r| InstrumentId(r.short())) },
        _ => session(kind, r),
    }
}

fn session(kind: usize, r: &mut Random) -> Command {
    let (instrument, at) = (InstrumentId(r.short()), VenueNanos(r.number()));
    match kind {
        23 => Command::ChangeSession {
            instrument,
            to: r.pick(&Phase::ALL),
            reason: r.pick(&SessionReason::ALL),
            due: at,
            ends: r.maybe(|r| VenueNanos(r.number())),
        },
        24 => Command::ExtendSession { instrument, ends: at },
        25 => Command::SetRemaining {
            instrument,
            remaining: RemainingSessions { counts: std::array::from_fn(|_| r.byte()) },
        },
        26 => Command::BeginDay { day: VenueDay(r.short()), closes: at },
        27 => Command::PassTime,
        28 => Command::FilterHidden { instrument },
        29 => Command::RunBatch { instrument },
        30 => Command::SetTradingRules { instrument, rules: Box::new(rules(r)) },
        31 => Command::SetClosingPrice { instrument, price: Ticks(r.next().cast_signed()) },
        _ => reporting(kind, r),
    }
}

fn reporting(kind: usize, r: &mut Random) -> Command {
    let (instrument, account) = (InstrumentId(r.short()), AccountId(r.short()));
    match kind {
        32 => Command::SetReporting {
            instrument,
            open: r.pick(&[true, false]),
            reason: r.pick(&SessionReason::ALL),
            due: VenueNanos(r.number()),
            ends: r.maybe(|r| VenueNanos(r.number())),
        },
        33 => Command::ReportTrade(Box::new(TradeReport {
            instrument,
            account,
            counterparty: AccountId(r.short()),
            side: r.pick(&[Side::Buy, Side::Sell]),
            price: Ticks(r.next().cast_signed()),
            lots: Lots(r.number()),
            label: r.label(),
        })),
        34 => Command::AnswerReport { account, report: Seq(r.number()), confirm: r.pick(&[true, false]) },
        _ => {
            let v4 = SignaturePurpose::Login(Some([r.byte(), 0, 0, 1].into()));
            let v6 = SignaturePurpose::Login(Some([r.byte(); 16].into()));
            let purpose = r.pick(&[SignaturePurpose::Order, SignaturePurpose::Login(None), v4, v6]);
            Command::SpendSignature(SpentSignature { digest: [r.byte(); 32], account, used_ms: r.number(), purpose })
        }
    }
}

fn rules(r: &mut Random) -> TradingRules {
    TradingRules {
        segment: r.label(),
        minimum_reserve: r.maybe(|r| Lots(r.number())),
        improvement: Ticks(r.next().cast_signed()),
        band_pct: r.maybe(Random::short),
        min_display_pct: r.pick(&[0, 1, 2, 100, u32::MAX]),
        tolerances: std::array::from_fn(|_| Tolerance {
            static_bps: r.maybe(Random::short),
            dynamic_bps: r.maybe(Random::short),
        }),
        allocation: r.pick(&Allocation::ALL),
        volatility_call_ns: r.number(),
        batch_interval_ns: r.number(),
    }
}

fn scope(r: &mut Random) -> KillScope {
    match r.below(4) {
        0 => KillScope::Order(OrderId(r.number())),
        1 => KillScope::Session(SessionId(r.short())),
        2 => KillScope::Account(AccountId(r.short())),
        _ => KillScope::Venue,
    }
}

fn limits(r: &mut Random) -> InstrumentLimits {
    InstrumentLimits {
        max_lots: r.maybe(|r| Lots(r.number())),
        max_notional_units: r.maybe(Random::wide),
        collar_bps: r.maybe(Random::short),
    }
}

fn settings(r: &mut Random) -> AccountSettings {
    AccountSettings {
        self_match: r.pick(&SelfMatch::ALL),
        max_open_orders: r.maybe(Random::short),
        throttle: r.maybe(|r| Throttle { executions: r.short(), window_ns: r.number() }),
    }
}

fn new_order(r: &mut Random) -> NewOrder {
    let (price, stop) = (Ticks(r.next().cast_signed()), Ticks(r.next().cast_signed()));
    let minimum_execution = Lots(r.number());
    let tifs = [
        TimeInForce::Day,
        TimeInForce::GoodTillCancel,
        TimeInForce::ImmediateOrCancel,
        TimeInForce::FillOrKill,
        TimeInForce::GoodTillDate { day: VenueDay(r.short()) },
        TimeInForce::GoodTillTime { at: VenueNanos(r.number()) },
        TimeInForce::OpeningCall,
        TimeInForce::AnyCall,
        TimeInForce::IntradayCall,
        TimeInForce::ClosingCall,
        TimeInForce::ClosingCross,
    ];
    let types = [
        OrderType::Limit { price },
        OrderType::Market,
        OrderType::Hidden { price, minimum_execution },
        OrderType::Stop { stop },
        OrderType::StopLimit { stop, price },
    ];
    let key = r.short();
    NewOrder {
        id: OrderId(r.number()),
        account: AccountId(r.short()),
        instrument: InstrumentId(r.short()),
        side: r.pick(&[Side::Buy, Side::Sell]),
        order_type: r.pick(&types),
        lots: Lots(r.number()),
        tif: r.pick(&tifs),
        display: r.maybe(|r| Lots(r.number())),
        post_only: r.pick(&POST_ONLY),
        reduce_only: r.pick(&[true, false]),
        self_match: r.maybe(|r| r.pick(&SelfMatch::ALL)),
        match_group: r.pick(&[MatchGroup::Account, MatchGroup::Order, MatchGroup::Key(key)]),
        session: SessionId(r.short()),
        cancel_on_disconnect: r.pick(&[true, false]),
        label: r.label(),
        client_order_id: r.label(),
    }
}

fn filter(r: &mut Random) -> CancelFilter {
    match r.below(4) {
        0 => CancelFilter::All,
        1 => CancelFilter::Instrument(InstrumentId(r.short())),
        2 => CancelFilter::Session(SessionId(r.short())),
        _ => CancelFilter::Listed((0..r.below(5)).map(|_| OrderId(r.number())).collect()),
    }
}

fn instrument_spec(r: &mut Random) -> InstrumentSpec {
    let (base, quote) = (CurrencyId(r.short()), CurrencyId(r.short()));
    let kind = r.pick(&[
        InstrumentKind::Spot { base, quote },
        InstrumentKind::InversePerpetual { base, quote, index: InstrumentId(3), max_leverage: 7 },
    ]);
    InstrumentSpec {
        id: InstrumentId(r.short()),
        name: r.text(40),
        kind,
        tick: Decimal::new(r.wide(), r.byte()),
        lot: Decimal::new(r.wide(), r.byte()),
        start_price: Ticks(r.next().cast_signed()),
        max_resting_orders: r.short(),
        limits: limits(r),
        rules: r.maybe(|r| Box::new(rules(r))),
    }
}

fn record(stamped: &SequencedCommand) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(stamped, &mut bytes);
    bytes
}

#[test]
fn every_command_comes_back_as_it_went() {
    let mut r = Random(SplitMix64::new(1));
    for round in 0..2_000 * KINDS {
        let command = arbitrary(round % KINDS, &mut r);
        let stamped = SequencedCommand { seq: Seq(r.number()), at: VenueNanos(r.number()), command };
        assert!(fits(&stamped.command));
        let mut bytes = record(&stamped);
        let length = bytes.len();
        assert_eq!(decode_command(&bytes), Ok((stamped.clone(), length)));
        bytes.extend_from_slice(b"what follows does not matter");
        assert_eq!(decode_command(&bytes), Ok((stamped, length)));
    }
}

#[test]
fn every_truncation_is_refused() {
    for (name, stamped) in samples::all() {
        let bytes = record(&stamped);
        for length in 0..bytes.len() {
            assert_eq!(decode_command(&bytes[..length]), Err(DecodeError::Truncated { at: length }), "{name}");
            // The stated length is right here, but the body is too short for its command.
            let mut shorter = bytes[..length].to_vec();
            if let Some(field) = shorter.first_chunk_mut::<4>() {
                *field = u32::try_from(length).unwrap().to_le_bytes();
                assert!(decode_command(&shorter).is_err(), "{name} {length}");
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        let length = u32::try_from(longer.len()).unwrap();
        longer[..4].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(decode_command(&longer), Err(DecodeError::BadValue { .. })), "{name}");
    }
}

/// A changed byte is either refused or decoded as the value that it now encodes.
#[test]
fn every_changed_byte_is_refused_or_reads_as_itself() {
    let mut refused = 0;
    for (_, stamped) in samples::all() {
        let bytes = record(&stamped);
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut changed = bytes.clone();
                changed[at] = value;
                match decode_command(&changed) {
                    Ok((read, length)) => assert_eq!(record(&read), changed[..length]),
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 30_000, "{refused}");
}

#[test]
fn unknown_kinds_and_codes_are_named() {
    let good = record(&samples::commands()[7].1); // set_phase
    for (at, what) in [(4, "command kind"), (5, "record version"), (26, "phase")] {
        let mut bytes = good.clone();
        bytes[at] = 200;
        match decode_command(&bytes) {
            Err(DecodeError::UnknownTag { what: found, tag: 200, at: place }) => assert_eq!((found, place), (what, at)),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn noise_is_refused() {
    let mut r = Random(SplitMix64::new(2));
    for _ in 0..100_000 {
        let mut bytes: Vec<u8> = (0..r.below(80)).map(|_| r.byte()).collect();
        // Half of it with a plausible length and kind, so that the bodies are reached.
        if bytes.len() > 22 && r.next() & 1 == 0 {
            let length = u32::try_from(bytes.len()).unwrap();
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes[4] = 1 + bytes[4] % 23;
            bytes[5] = 1;
        }
        if let Ok((read, length)) = decode_command(&bytes) {
            assert_eq!(record(&read), bytes[..length]);
        }
        let _ = (read_group(&bytes).is_err(), read_header(&bytes).is_err());
        assert!(decode_snapshot(&bytes).is_err() && Superblock::decode_file(&bytes).is_err());
    }
}

#[test]
fn names_that_have_no_encoding_are_known_beforehand() {
    let named = |name: String| Command::AddCurrency(Currency { id: CurrencyId(0), name, decimals: 0 });
    for (name, expected) in
        [("\0".repeat(255), true), ("\0".repeat(256), false), ("x".repeat(65_535), true), ("x".repeat(65_536), false)]
    {
        let command = named(name);
        assert_eq!(fits(&command), expected);
        let bytes = record(&SequencedCommand { seq: Seq(1), at: VenueNanos(0), command });
        assert_eq!(decode_command(&bytes).is_ok(), expected);
    }
}

fn group(stamped: &[SequencedCommand]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = begin_group(&mut bytes);
    for stamped in stamped {
        encode_command(stamped, &mut bytes);
    }
    let seal = GroupSeal {
        rule_version: 1,
        number: 1,
        first: Seq(1),
        commands: u32::try_from(stamped.len()).unwrap(),
        watermark: Seq(0),
        previous: [0; 32],
        output: None,
    };
    seal_group(&mut bytes, start, &seal);
    bytes
}

/// The rule on which recovery stands: a sector of zeros was never written.
#[test]
fn no_sector_of_a_group_is_all_zeros() {
    let zeros = |seq| SequencedCommand {
        seq: Seq(seq),
        at: VenueNanos(0),
        command: Command::AddInstrument(Box::new(InstrumentSpec {
            id: InstrumentId(0),
            name: "\0".repeat(255),
            kind: InstrumentKind::InversePerpetual {
                base: CurrencyId(0),
                quote: CurrencyId(0),
                index: InstrumentId(0),
                max_leverage: 0,
            },
            tick: Decimal::ZERO,
            lot: Decimal::ZERO,
            start_price: Ticks(0),
            max_resting_orders: 0,
            limits: InstrumentLimits::default(),
            rules: None,
        })),
    };
    let bytes = group(&(0..300).map(|_| zeros(0)).collect::<Vec<_>>());
    assert!(bytes.len() > 100_000 && bytes.windows(SECTOR_BYTES).all(|window| !is_zero(window)));
}

#[test]
fn group_names_its_fault() {
    let commands: Vec<SequencedCommand> = samples::commands().into_iter().map(|(_, stamped)| stamped).collect();
    let good = group(&commands);
    assert!(read_group(&good).is_ok());
    for length in (0..good.len()).step_by(100) {
        assert_eq!(read_group(&good[..length]).unwrap_err(), GroupFault::Short, "{length}");
    }
    for at in (0..good.len()).step_by(SECTOR_BYTES) {
        let mut torn = good.clone();
        torn[at..at + SECTOR_BYTES].fill(0);
        assert_eq!(read_group(&torn).unwrap_err(), GroupFault::LostSector { at });
    }
    let mut without_end = good.clone();
    let end = good.len();
    without_end[end - 16..].fill(0);
    assert_eq!(read_group(&without_end).unwrap_err(), GroupFault::LostTrailer);
    for (at, fault) in [
        (0, GroupFault::BadMagic),
        (8, GroupFault::BadHeaderChecksum),
        (119, GroupFault::BadHeaderChecksum),
        (121, GroupFault::BadChecksum),
        (200, GroupFault::BadChecksum),
        (end - 1, GroupFault::BadChecksum),
    ] {
        let mut damaged = good.clone();
        damaged[at] ^= 0x80;
        assert_eq!(read_group(&damaged).unwrap_err(), fault, "{at}");
    }
}

/// The bytes of the same thing under another format's number: whole, and not for this build.
fn of_format(version: u8, good: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    bytes[8] = version;
    bytes
}

#[test]
fn another_format_is_known_by_its_number() {
    let good = group(&[SequencedCommand { seq: Seq(1), at: VenueNanos(0), command: Command::EndDay }]);
    let found_in_group = |version| {
        let mut bytes = of_format(version, &good);
        let checksum = crc32c::crc32c(&bytes[..120]);
        bytes[124..128].copy_from_slice(&checksum.to_le_bytes());
        read_group(&bytes).unwrap_err()
    };
    assert_eq!(found_in_group(3), GroupFault::NewerFormat { found: 3 });
    assert_eq!(found_in_group(1), GroupFault::OlderFormat { found: 1 });
    assert_eq!(found_in_group(0), GroupFault::BadFrame);
    assert!(!GroupFault::OlderFormat { found: 1 }.is_torn(), "nothing of it may be cut");

    let meta = pitwire_journal::records::SnapshotMeta {
        rule_version: 1,
        seq: Seq(1),
        at: VenueNanos(1),
        position: pitwire_journal::records::JournalPosition::START,
        chain: OutputChain::new().state().clone(),
    };
    let snapshot = encode_snapshot(&meta, b"some state");
    let found_in_snapshot = |version| {
        let mut bytes = of_format(version, &snapshot);
        let end = bytes.len() - 32;
        let hash = blake3::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(hash.as_bytes());
        decode_snapshot(&bytes).unwrap_err()
    };
    assert_eq!(found_in_snapshot(5), SnapshotFault::NewerFormat { found: 5 });
    assert_eq!(found_in_snapshot(3), SnapshotFault::OlderFormat { found: 3 });
    assert_eq!(found_in_snapshot(2), SnapshotFault::OlderFormat { found: 2 });

    let slot = |version| {
        let mut bytes = of_format(version, &Superblock { generation: 4, ..Superblock::default() }.encode());
        bytes[12..16].fill(0);
        let checksum = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    };
    assert_eq!(Superblock::decode_file(&slot(3)), Err(SuperblockFault::NewerFormat { found: 3 }));
    assert_eq!(Superblock::decode_file(&slot(1)), Err(SuperblockFault::OlderFormat { found: 1 }));
    let both = [slot(1), Superblock { generation: 5, ..Superblock::default() }.encode()].concat();
    assert!(Superblock::decode_file(&both).is_ok_and(|newest| newest.generation == 5));
}

#[test]
fn the_newest_whole_slot_wins() {
    let (older, newer) =
        (Superblock { generation: 4, ..Superblock::default() }, Superblock { generation: 5, ..Superblock::default() });
    let good = [older.encode(), newer.encode()].concat();
    assert_eq!(Superblock::decode_file(&good), Ok(newer));
    for torn in (0..4096).step_by(512) {
        let mut bytes = good.clone();
        bytes[4096 + torn..4096 + torn + 512].fill(0x11);
        assert_eq!(Superblock::decode_file(&bytes), Ok(older), "{torn}");
    }
    for bit in 0..4096 * 8 {
        let mut bytes = good.clone();
        bytes[4096 + bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Superblock::decode_file(&bytes), Ok(older), "{bit}");
    }
    assert_eq!(Superblock::decode_file(&good[4096..5000]), Err(SuperblockFault::Damaged));
    assert_eq!(older.slot_offset() + newer.slot_offset(), 4096);
}

#[test]
fn every_flipped_bit_of_a_snapshot_is_seen() {
    let golden = include_str!("../../../../contracts/vectors/log/v2.txt").lines().last().unwrap();
    assert!(golden.starts_with("snapshot "));
    let meta = pitwire_journal::records::SnapshotMeta {
        rule_version: 1,
        seq: Seq(1),
        at: VenueNanos(1),
        position: pitwire_journal::records::JournalPosition::START,
        chain: OutputChain::new().state().clone(),
    };
    let good = encode_snapshot(&meta, b"some state");
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let fault = decode_snapshot(&bytes).unwrap_err();
        assert!(matches!(fault, SnapshotFault::BadMagic | SnapshotFault::BadHash), "{bit}: {fault}");
    }
    for length in 0..good.len() {
        assert!(decode_snapshot(&good[..length]).is_err());
    }
}

/// Private fields do not change the tape hash; public fields do.
#[test]
fn the_tape_knows_nothing_private() {
    let stamped = SequencedCommand { seq: Seq(1), at: VenueNanos(9), command: Command::EndDay };
    let tape = |seq, event| {
        let mut chain = OutputChain::new();
        chain.absorb(&SequencedCommand { seq: Seq(seq), ..stamped.clone() }, &[event]);
        (chain.tape(), chain.seal())
    };
    let mut other_makers = samples::trade(5);
    if let pitwire_model::Event::Trade { maker, maker_account, maker_open, taker, taker_account, taker_open, .. } =
        &mut other_makers
    {
        (*maker, *maker_account, *maker_open) = (OrderId(100), AccountId(100), Lots(100));
        (*taker, *taker_account, *taker_open) = (OrderId(200), AccountId(200), Lots(200));
    }
    let (reference, others) = (tape(1, samples::trade(5)), tape(1, other_makers));
    assert_eq!(reference.0, others.0);
    assert_ne!(reference.1, others.1);
    assert_eq!(reference.0, tape(2, samples::trade(5)).0, "numbers of commands are private");
    assert_ne!(reference.0, tape(1, samples::trade(6)).0);
}
