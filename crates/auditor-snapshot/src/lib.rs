//! Converts an engine image to a snapshot of the auditor, so that an audit can start from it.
//!
//! Does        copy every field of the image to its place in the snapshot.
//! Leaves out  checks. The auditor must not depend on the engine, so the conversion is a crate of
//!             its own.
//! Start at    [`audit_snapshot`].

use std::collections::BTreeSet;

use pitwire_auditor::{
    AuditSnapshot, ClosingPrices, ReportingState, SnapshotAccount, SnapshotMarket, SnapshotOrder, SnapshotOrderState,
    SnapshotPosition, SnapshotRestrictions, SnapshotSession, WindowRun,
};
use pitwire_engine::{AccountImage, EngineImage, MarketImage, OrderImage, UndisplayedState};
use pitwire_model::{Lots, Seq, Ticks, VenueDay, VenueNanos};

/// Returns the image as a snapshot after command `seq` at venue time `at`.
pub fn audit_snapshot(image: &EngineImage, seq: Seq, at: VenueNanos) -> AuditSnapshot {
    AuditSnapshot {
        seq,
        at,
        venue_killed: image.venue_killed,
        killed_sessions: image.killed_sessions.clone(),
        currencies: image.currencies.clone(),
        markets: image.markets.iter().map(market).collect(),
        accounts: image.accounts.iter().map(account).collect(),
        today: (image.day != VenueDay::ZERO).then_some((image.day, image.closes)),
    }
}

fn market(market: &MarketImage) -> SnapshotMarket {
    SnapshotMarket {
        spec: market.spec.clone(),
        phase: market.phase,
        change_id: market.change_id,
        trades: market.trades,
        last: market.last,
        busted: market.busted.clone(),
        orders: market.orders.iter().map(order).collect(),
        sessions: sessions(market),
        reporting: ReportingState {
            hours: market.reporting.open.then_some(market.reporting.ends),
            trades: market.reporting.trades,
            waiting: market.reporting.waiting.clone(),
        },
    }
}

fn sessions(market: &MarketImage) -> SnapshotSession {
    const NAMES: [&str; 11] = ["day", "gtc", "ioc", "fok", "gtd", "gtt", "opg", "gfa", "gfx", "atc", "cpx"];
    let session = &market.session;
    let run = |run: &pitwire_engine::TradeRun| WindowRun {
        second: run.second,
        first: run.first.0,
        last: run.last.0,
        lots: run.lots,
        value: run.tick_lots,
    };
    let unfinished = session.unfinished.map(|kinds| {
        let named = (0..).zip(NAMES).chain([(15, "market")]);
        let named = named.filter(|(bit, _)| kinds.0 & (1 << bit) != 0);
        named.map(|(_, name)| name.to_owned()).collect::<BTreeSet<String>>()
    });
    SnapshotSession {
        ends: session.ends,
        missed: session.missed,
        remaining: session.remaining,
        unfinished,
        continues: session.continues,
        static_reference: session.static_reference,
        dynamic: session.dynamic_reference.or(market.last),
        indicated: (session.indicated.price, Lots(session.indicated.volume), session.indicated.imbalance),
        batch_ends: session.older_than_batches.iter().map(|older| u64::from(*older)).collect(),
        close: ClosingPrices {
            closing: session.closing,
            previous: session.previous_close,
            closing_call: session.day.closing_call,
            last: session.day.last,
            ended: session.day.ended,
            runs: session.day.runs.iter().map(run).collect(),
        },
    }
}

fn order(order: &OrderImage) -> SnapshotOrder {
    SnapshotOrder {
        id: order.id,
        account: order.account,
        side: order.side,
        order_type: order.order_type,
        place: match order.place {
            Some(UndisplayedState::Parked) => SnapshotOrderState::Parked,
            Some(UndisplayedState::Unelected) => SnapshotOrderState::Unelected,
            Some(UndisplayedState::Elected) => SnapshotOrderState::Elected,
            None | Some(UndisplayedState::Hidden | UndisplayedState::Unpriced) => SnapshotOrderState::Active,
        },
        tif: order.tif,
        entered: order.entered,
        open: Lots(order.open.into()),
        shown: Lots(order.shown.into()),
        display: (order.display > 0).then(|| Lots(order.display.into())),
        ordered: Lots(order.ordered.into()),
        bound: (order.bound != Ticks::ZERO).then_some(order.bound),
        time: order.rank.into(),
        self_match: order.mode,
        group: order.group,
        session: order.session,
        cancel_on_disconnect: order.cancel_on_disconnect,
        reduce_only: order.reduce_only,
    }
}

fn account(account: &AccountImage) -> SnapshotAccount {
    SnapshotAccount {
        spec: account.spec.clone(),
        totals: account.balances.iter().map(|balance| balance.total).collect(),
        reserved: account.balances.iter().map(|balance| balance.reserved).collect(),
        credit: account.standing.credit_lines.iter().map(|(currency, units)| (*currency, *units)).collect(),
        restrictions: SnapshotRestrictions {
            closed: account.standing.closed,
            killed: account.standing.killed,
            throttled: account.standing.throttled,
            window: account.standing.window,
            executions: account.standing.executions,
        },
        positions: account
            .positions
            .iter()
            .map(|(id, held)| (*id, SnapshotPosition { lots: held.lots, entry_value: held.entry_value }))
            .collect(),
    }
}
