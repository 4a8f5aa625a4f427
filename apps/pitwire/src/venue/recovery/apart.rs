//! A replay on three threads, for whoever wants only its end: one reads, one matches, one keeps views and hashes.
//!
//! Holds       the same outcome as [`Replay::run`], to the byte; the first thing that is wrong in the log's order is
//!             what is told.

use std::mem::take;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pitwire_journal::{OpenError, Recovery, TailGroup};
use pitwire_log::OutputChain;
use pitwire_model::{Event, Seq, Stamped};
use pitwire_ports::Storage;
use pitwire_views::Views;

use super::{GROUPS_AHEAD, Interrupted, Replay, check, observe, read_ahead};

/// A group with what its commands caused, one behind the other.
struct Heard {
    group: TailGroup,
    events: Vec<Event>,
    /// Where each command's events end.
    ends: Vec<usize>,
}

/// What has been used and may be filled again.
type Used = (Vec<Event>, Vec<usize>);

impl Replay {
    pub(super) fn run_apart(&mut self, recovery: &Recovery, storage: &dyn Storage) -> Result<(), Interrupted> {
        let tail = recovery.tail(storage)?;
        let (mut chain, mut views) = (take(&mut self.chain), take(&mut self.views));
        let (applied, judged) = thread::scope(|scope| {
            let (ahead, groups) = sync_channel(GROUPS_AHEAD);
            let (commands_back, commands_used) = sync_channel(2 * GROUPS_AHEAD);
            scope.spawn(move || read_ahead(tail, &ahead, &commands_used));
            let (tell, heard) = sync_channel(GROUPS_AHEAD);
            let (back, used) = sync_channel(2 * GROUPS_AHEAD);
            let (chain, views) = (&mut chain, &mut views);
            let listening = scope.spawn(move || listen(chain, views, &heard, &back, &commands_back));
            let applied = self.apply_groups(recovery, groups, &tell, &used);
            drop(tell);
            (applied, listening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        judged?;
        applied?;
        (self.chain, self.views) = (chain, views);
        Ok(())
    }

    fn apply_groups(
        &mut self,
        recovery: &Recovery,
        groups: Receiver<Result<TailGroup, OpenError>>,
        tell: &SyncSender<Heard>,
        used: &Receiver<Used>,
    ) -> Result<(), Interrupted> {
        for group in groups {
            let group = group?;
            self.follow(group.rule_version);
            let (mut events, mut ends) = used.try_recv().unwrap_or_default();
            for (at, stamped) in group.commands.iter().enumerate() {
                self.look_ahead(&group.commands, at);
                self.apply(stamped, recovery, &mut events)?;
                ends.push(events.len());
            }
            if tell.send(Heard { group, events, ends }).is_err() {
                // The listener has found something wrong, and will say what.
                return Ok(());
            }
        }
        Ok(())
    }
}

fn listen(
    chain: &mut OutputChain,
    views: &mut Views,
    heard: &Receiver<Heard>,
    back: &SyncSender<Used>,
    commands_back: &SyncSender<Vec<Stamped>>,
) -> Result<(), Interrupted> {
    let mut changes = Vec::new();
    for Heard { group, mut events, mut ends } in heard {
        let mut from = 0;
        for (stamped, to) in group.commands.iter().zip(&ends) {
            changes.clear();
            observe(chain, views, stamped, events.get(from..*to).unwrap_or_default(), &mut changes);
            from = *to;
        }
        let last = group.commands.last().map_or(Seq(0), |stamped| stamped.seq);
        check(chain, last, group.output)?;
        events.clear();
        ends.clear();
        // Both may have ended already.
        let _ = back.try_send((events, ends));
        let _ = commands_back.try_send(group.commands);
    }
    Ok(())
}
