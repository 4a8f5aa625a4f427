//! Reports of outbound queues.

use std::sync::Mutex;

use super::*;
use crate::handler::{OUTBOX_REPORT_BYTES, OutboxReport};

#[derive(Default)]
struct Reports(Mutex<Vec<(u32, usize)>>);

impl DeliveryHandler for Reports {
    fn open(&self, request: &Request<'_>) -> Result<SubscriberSetup, HttpResponse> {
        Paths.open(request)
    }

    fn received(&self, _: SubscriberId, _: ClientMessage<'_>, _: &mut Reply) {}

    fn outbox_sent(&self, report: OutboxReport) {
        self.0.lock().unwrap().push((report.taken, report.waiting));
    }
}

#[test]
fn handler_learns_of_every_16_kib_that_a_subscriber_was_sent() {
    let (mut world, reports) = (World::new(1), Arc::new(Reports::default()));
    let core = &mut world.core;
    core.fanout.context.handler = Arc::clone(&reports) as _;
    let reader = come(core, "/1");
    take_all(core, reader);
    let to = core.fanout.subscribers.get(reader).unwrap().id;
    let send = |core: &mut DeliveryCore, bytes: usize, sent: usize| {
        core.control(ControlMessage::Frames { to, frames: vec![0; bytes] });
        core.prepare(reader);
        core.sent(reader, sent);
        std::mem::take(&mut *reports.0.lock().unwrap())
    };
    // Each one is sent at once.
    for number in 1..=1_000 {
        let taken = 100 * number;
        let is_due = taken % (OUTBOX_REPORT_BYTES as u32).next_multiple_of(100) == 0;
        assert_eq!(send(core, 100, 100), if is_due { vec![(taken, 0)] } else { Vec::new() }, "{number}");
    }
    // 1,600 bytes were sent since the last report.
    assert_eq!(send(core, 100_000, 14_000), []);
    assert_eq!(send(core, 0, 783), []);
    assert_eq!(send(core, 0, 1), [(200_000, 85_216)]);
    assert_eq!(send(core, 0, 85_216), [(200_000, 0)]);
}
