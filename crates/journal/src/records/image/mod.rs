//! The payload of a snapshot: the engine's image and then the projections' image.
//!
//! Does        give each state exactly one encoding, so that BLAKE3 of an engine's image is its
//!             state hash.
//! Leaves out  the container around it: see `snapshot`.
//! Start at    [`encode_state`].

mod engine;
mod fields;
mod reports;
mod session;
mod sessions;
mod signatures;
mod views;

use pitwire_engine::EngineImage;
use pitwire_projections::ViewsImage;

use crate::records::Hash;
use crate::records::bytes::{DecodeError, Reader, Writer};

pub fn encode_state(engine: &EngineImage, views: &ViewsImage, out: &mut Vec<u8>) {
    let mut w = Writer::new(out);
    engine::put(&mut w, engine);
    views::put(&mut w, views);
}

/// Reads the state of a snapshot: the image of the engine and that of the views.
///
/// # Errors
///
/// Returns the position and the kind of the first fault.
pub fn decode_state(payload: &[u8]) -> Result<(EngineImage, ViewsImage), DecodeError> {
    let mut r = Reader::new(payload);
    let state = (engine::take(&mut r)?, views::take(&mut r)?);
    r.finish()?;
    Ok(state)
}

/// BLAKE3 of the engine's canonical image.
pub fn state_hash(engine: &EngineImage) -> Hash {
    let mut out = Vec::new();
    engine::put(&mut Writer::new(&mut out), engine);
    *blake3::hash(&out).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_engine::rule_tables::TifSet;
    use pitwire_engine::{
        AccountImage, AccountStatus, Balance, IndicativeUncross, MarketImage, OrderImage, Position, Reporting,
        SessionImage, TradeRun,
    };
    use pitwire_model::*;
    use pitwire_projections::*;

    fn spec() -> InstrumentSpec {
        InstrumentSpec {
            id: InstrumentId(0),
            name: "A_B".into(),
            kind: InstrumentKind::Spot { base: CurrencyId(0), quote: CurrencyId(1) },
            tick: Decimal::new(1, 2),
            lot: Decimal::new(1, 0),
            start_price: Ticks(100),
            max_resting_orders: 10,
            limits: pitwire_model::InstrumentLimits::default(),
            rules: None,
        }
    }

    fn session() -> SessionImage {
        let run = TradeRun { second: 1, first: TradeSeq(2), last: TradeSeq(3), lots: -4, tick_lots: i128::MIN };
        let mut remaining = RemainingSessions::default();
        remaining.counts[15] = 255;
        SessionImage {
            ends: Some(VenueNanos(5)),
            remaining,
            missed: true,
            continues: Some(Phase::ClosingCall),
            unfinished: Some(TifSet(0x8421)),
            static_reference: Some(Ticks(1)),
            dynamic_reference: Some(Ticks(2)),
            closing: Some((Ticks(3), Derivation::Manual)),
            previous_close: Some(Ticks(4)),
            uncross_price: Some(Ticks(5)),
            indicated: IndicativeUncross { price: Some(Ticks(6)), volume: u64::MAX, imbalance: i64::MIN },
            day: pitwire_engine::ClosingPriceInputs {
                last: Some(Ticks(7)),
                closing_call: Some(Ticks(8)),
                ended: Some(VenueNanos(9)),
                runs: vec![run; 40].into(),
            },
            older_than_batches: vec![1; 40],
        }
    }

    fn engine() -> EngineImage {
        let order = OrderImage {
            id: OrderId(9),
            account: AccountId(0),
            side: Side::Sell,
            place: Some(pitwire_engine::UndisplayedState::Unelected),
            order_type: OrderType::StopLimit { stop: Ticks(7), price: Ticks(101) },
            tif: TimeInForce::GoodTillTime { at: VenueNanos(9) },
            entered: VenueDay(20_000),
            open: 3,
            ordered: 5,
            shown: 2,
            display: 2,
            bound: Ticks(1 << 31),
            rank: 41,
            mode: Some(SelfMatch::Allow),
            session: SessionId(6),
            group: MatchGroup::Key(7),
            cancel_on_disconnect: true,
            reduce_only: true,
        };
        let plain = OrderImage {
            place: None,
            order_type: OrderType::Market,
            tif: TimeInForce::Day,
            mode: None,
            group: MatchGroup::Order,
            ..order
        };
        let orders = vec![plain; 40].into_iter().chain([order]);
        let standing = AccountStatus {
            closed: true,
            killed: true,
            throttled: true,
            window: u64::MAX,
            executions: 8,
            credit_lines: (0..40).map(|currency| (CurrencyId(currency), i128::MAX)).collect(),
        };
        let position = Position { lots: -4, entry_value: 17, realized: -1, open_buy_lots: 2, open_sell_lots: u64::MAX };
        EngineImage {
            epoch: Epoch(3),
            flow: FlowSetting { running: false, rate_percent: 250 },
            last_session: SessionId(6),
            venue_killed: true,
            killed_sessions: vec![SessionId(3); 40],
            day: VenueDay(20_001),
            closes: VenueNanos(u64::MAX),
            currencies: vec![Currency { id: CurrencyId(0), name: "A".into(), decimals: 2 }],
            markets: vec![MarketImage {
                spec: spec(),
                phase: Phase::Continuous,
                change_id: 12,
                trades: TradeSeq(4),
                last: None,
                index: Ticks(100),
                mark: Ticks(99),
                busted: vec![TradeSeq(2); 40],
                session: session(),
                reporting: Reporting::default(),
                orders: orders.collect(),
            }],
            accounts: vec![AccountImage {
                spec: AccountSpec {
                    id: AccountId(0),
                    name: "x".into(),
                    credit: Credit::Limited,
                    settings: pitwire_model::AccountSettings::default(),
                },
                balances: vec![Balance { total: -5, reserved: i128::MAX }; 40],
                positions: vec![(InstrumentId(0), position); 40],
                standing,
            }],
        }
    }

    fn views() -> ViewsImage {
        let trade = PublicTrade {
            seq: TradeSeq(4),
            price: Ticks(101),
            lots: Lots(2),
            taker_side: Side::Buy,
            kind: TradeKind::Call(Phase::ClosingCall),
            at: VenueNanos(77),
            direction: TickDirection::Minus,
            index: Ticks(100),
            mark: Ticks(99),
            busted: true,
        };
        let candle = Candle {
            start_ms: 60_000,
            open: Ticks(1),
            high: Ticks(4),
            low: Ticks(1),
            close: Ticks(2),
            lots: 8,
            tick_lots: u128::MAX,
            lots_per_tick: u128::MAX - 1,
        };
        let order = OrderRecord {
            id: OrderId(9),
            account: AccountId(0),
            instrument: InstrumentId(0),
            side: Side::Sell,
            order_type: OrderType::StopLimit { stop: Ticks(100), price: Ticks(101) },
            place: Place::Unelected,
            elected_at: Some(Ticks(99)),
            lots: Lots(5),
            filled: Lots(2),
            tick_lots: 202,
            tif: TimeInForce::Day,
            state: OrderState::Cancelled,
            cancel_reason: Some(CancelReason::DayEnded),
            replaced: true,
            created: VenueNanos(5),
            updated: VenueNanos(6),
            display: Some(Lots(2)),
            post_only: PostOnly::Reprice,
            reduce_only: true,
            session: SessionId(7),
            label: Label::new("mine").unwrap_or_default(),
            client_order_id: Label::new("a-1").unwrap_or_default(),
        };
        let fill = UserTrade {
            instrument: InstrumentId(0),
            trade,
            order: OrderId(9),
            side: Side::Sell,
            liquidity: Liquidity::Maker,
            is_market: true,
            state: OrderState::Filled,
            reduce_only: true,
            self_trade: false,
            busted: true,
            label: Label::default(),
        };
        ViewsImage {
            tapes: vec![TapeImage {
                direction: TickDirection::ZeroMinus,
                index: Ticks(100),
                mark: Some(Ticks(99)),
                trades: vec![PublicTrade { kind: TradeKind::Continuous, ..trade }; 39]
                    .into_iter()
                    .chain([trade])
                    .collect(),
                parties: vec![(AccountId(3), AccountId(4)); 40],
                candles: vec![candle; 40],
            }],
            // Minimal views, and one with every field.
            sessions: [vec![SessionView::default(); 40], vec![session_view()]].concat(),
            accounts: vec![AccountBookImage {
                account: AccountId(0),
                // Several unlabelled orders: the smallest encodings must pass the bound on counts.
                orders: vec![
                    OrderRecord {
                        label: Label::default(),
                        client_order_id: Label::default(),
                        display: None,
                        cancel_reason: None,
                        order_type: OrderType::Market,
                        elected_at: None,
                        ..order.clone()
                    };
                    40
                ]
                .into_iter()
                .chain([order])
                .collect(),
                closed: vec![OrderId(9); 40],
                trades: vec![fill; 40],
            }],
            reports: Reports::default(),
            signatures: Vec::new(),
        }
    }

    fn report() -> TradeReport {
        TradeReport {
            instrument: InstrumentId(0),
            account: AccountId(1),
            counterparty: AccountId(0),
            side: Side::Sell,
            price: Ticks(-1),
            lots: Lots(u64::MAX),
            label: Label::NONE,
        }
    }

    /// The same venue with off-book trades and a large number of the smallest encodings.
    fn with_reports() -> (EngineImage, ViewsImage) {
        let (mut engine, mut views) = (engine(), views());
        let labelled = TradeReport { label: Label::new("block").unwrap_or_default(), ..report() };
        let waiting = (0..40).map(|number| (Seq(number), report())).chain([(Seq(41), labelled.clone())]);
        let reporting =
            Reporting { open: true, ends: Some(VenueNanos(5)), trades: u64::MAX, waiting: waiting.collect() };
        engine.markets[0].reporting = reporting;
        let print = OffBookPrint { number: 3, price: Ticks(5), lots: Lots(6), at: VenueNanos(7) };
        let market = OffBook {
            open: true,
            ends: Some(VenueNanos(5)),
            trades: vec![print; 40].into(),
            volume: 8,
            turnover: u128::MAX,
            count: 9,
        };
        let record =
            |state, trade| ReportRecord { report: Seq(4), trade, state, made: VenueNanos(1), updated: VenueNanos(2) };
        let mut records = vec![record(ReportState::Waiting, report()); 40];
        records.push(record(ReportState::Confirmed(3), labelled));
        records.extend(ReportEnd::ALL.map(|end| record(ReportState::Ended(end), report())));
        let quiet = (1..40).map(|id| (InstrumentId(id), OffBook::default()));
        views.reports = Reports {
            markets: quiet.chain([(InstrumentId(0), market)]).collect(),
            accounts: [(AccountId(0), std::collections::VecDeque::new()), (AccountId(1), records.into())].into(),
        };
        (engine, views)
    }

    #[test]
    fn trade_reports_survive_a_snapshot_and_cost_no_bytes_without_any() {
        let (engine, views) = with_reports();
        let mut bytes = Vec::new();
        encode_state(&engine, &views, &mut bytes);
        assert_eq!(decode_state(&bytes), Ok((engine.clone(), views.clone())));
        // One truncation is a valid state: the one without any reports.
        let mut without = Vec::new();
        encode_state(&engine, &ViewsImage { reports: Reports::default(), ..views }, &mut without);
        for cut in (0..bytes.len()).filter(|cut| *cut != without.len()).step_by(7) {
            assert!(decode_state(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert_ne!(state_hash(&engine), state_hash(&super::tests::engine()));
    }

    #[test]
    fn used_signatures_follow_with_and_without_reports() {
        let signature = |n: u8, purpose| SpentSignature { digest: [n; 32], account: AccountId(0), used_ms: 5, purpose };
        let signatures = vec![
            signature(1, SignaturePurpose::Order),
            signature(2, SignaturePurpose::Login(Some(core::net::Ipv6Addr::LOCALHOST.into()))),
        ];
        for (engine, views) in [(engine(), views()), with_reports()] {
            let (mut bytes, mut without) = (Vec::new(), Vec::new());
            encode_state(&engine, &views, &mut without);
            let views = ViewsImage { signatures: signatures.clone(), ..views };
            encode_state(&engine, &views, &mut bytes);
            assert_eq!(decode_state(&bytes), Ok((engine, views)));
            for cut in without.len() + 1..bytes.len() {
                let is_whole_without = bytes[..cut] == without;
                assert_eq!(decode_state(&bytes[..cut]).is_ok(), is_whole_without, "cut at {cut}");
            }
        }
    }

    fn session_view() -> SessionView {
        let there = AtPrice { lots: 8, trades: 2 };
        let day = Day {
            volume: 9,
            turnover: u128::MAX,
            trades: 3,
            by_price: [(Ticks(5), there), (Ticks(7), there)].into(),
            first: Some((TradeSeq(1), Ticks(5), OpeningDerivation::FirstTrade)),
            last: Some((TradeSeq(3), Ticks(7))),
            since: Some(TradeSeq(1)),
        };
        SessionView {
            phase: Phase::VolatilityCall,
            from: Phase::Continuous,
            reason: SessionReason::Breaker,
            since: VenueNanos(4),
            ends: Some(VenueNanos(5)),
            indicative: Some(Indicative { price: Some(Ticks(6)), volume: Lots(7), imbalance: -8 }),
            uncross: Some(Uncross { call: Phase::IntradayCall, price: Ticks(9), volume: Lots(10), at: VenueNanos(3) }),
            breach: Some(Breach { price: Ticks(11), reference: Ticks(12), at: VenueNanos(4) }),
            closing: Some((Ticks(13), Derivation::Manual)),
            previous_close: Some(Ticks(14)),
            day,
        }
    }

    #[test]
    fn every_field_comes_back_and_every_truncation_is_refused() {
        let mut bytes = Vec::new();
        encode_state(&engine(), &views(), &mut bytes);
        assert_eq!(decode_state(&bytes), Ok((engine(), views())));
        // Every truncation of the beginning, then every 13th, because each one reads the whole
        // input.
        for cut in (0..2_000).chain((2_000..bytes.len()).step_by(13)) {
            assert!(decode_state(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    /// Nothing follows these lists that could hide a bound that is set too high.
    #[test]
    fn a_list_of_the_smallest_items_at_the_very_end_is_read() {
        let whole = views();
        let order = OrderRecord { label: Label::default(), ..whole.accounts[0].orders[0].clone() };
        let fill = UserTrade { label: Label::default(), ..whole.accounts[0].trades[0].clone() };
        let account = AccountId(0);
        let resting = vec![engine().markets[0].orders[0]; 40];
        let market = MarketImage { orders: resting, ..engine().markets[0].clone() };
        let mut bytes = Vec::new();
        engine::put(&mut Writer::new(&mut bytes), &EngineImage { markets: vec![market], ..EngineImage::default() });
        bytes.truncate(bytes.len() - 4); // The count of accounts.
        let last_order = bytes.split_off(bytes.len() - 40 * 55);
        assert!(last_order.chunks(55).all(|order| order == &last_order[..55]), "the smallest order takes 55 bytes");
        for (orders, closed, trades) in [
            (vec![order; 40], vec![], vec![]),
            (vec![], vec![OrderId(1); 40], vec![]),
            (vec![], vec![], vec![fill; 40]),
        ] {
            let book = AccountBookImage { account, orders, closed, trades };
            let views = ViewsImage { accounts: vec![book], ..ViewsImage::default() };
            let mut bytes = Vec::new();
            encode_state(&EngineImage::default(), &views, &mut bytes);
            assert_eq!(decode_state(&bytes), Ok((EngineImage::default(), views)));
        }
    }

    #[test]
    fn the_state_hash_sees_every_change() {
        let mut other = engine();
        other.markets[0].orders[0].open = 2;
        assert_ne!(state_hash(&engine()), state_hash(&other));
    }
}
