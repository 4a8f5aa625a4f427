mod common;
use common::flow::Flow;
use common::world::*;
use pitwire_audit::Auditor;
use pitwire_engine::Engine;
#[test]
fn speed() {
    for seed in 1..=6 {
        let mut flow = Flow::new(seed);
        let (mut e, mut st) = (Engine::new(), Stamper::default());
        let mut log = vec![];
        for c in opening_commands(100_000, 1_000_000) {
            let s = st.stamp(c);
            let ev = apply(&mut e, &s);
            log.push((s, ev));
        }
        for _ in 0..1_000_000 {
            let c = flow.command(st.seq.next());
            let s = st.stamp(c);
            let ev = apply(&mut e, &s);
            flow.learn(&ev);
            log.push((s, ev));
        }
        let n: usize = log.iter().map(|l| l.1.len()).sum();
        let t = std::time::Instant::now();
        let mut a = Auditor::new();
        for (s, ev) in &log {
            a.observe(s, ev).unwrap();
        }
        let d = t.elapsed();
        println!(
            "seed {seed}: {} commands {n} events live {} in {:?}: {:.0}/s",
            log.len(),
            a.live_orders(),
            d,
            log.len() as f64 / d.as_secs_f64()
        );
    }
}

#[test]
fn deep() {
    use pitwire_model::*;
    let mut rng = common::SplitMix64::new(5);
    let (mut e, mut st) = (Engine::new(), Stamper::default());
    let mut log = vec![];
    for c in opening_commands(1_000_000, 1_000_000) { let s = st.stamp(c); let ev = apply(&mut e, &s); log.push((s, ev)); }
    let mut ids: Vec<OrderId> = vec![];
    for _ in 0..2_000_000u32 {
        let c = if ids.len() > 200_000 || (rng.one_in(3) && !ids.is_empty()) {
            let at = rng.below(ids.len() as u64) as usize;
            Command::Cancel { account: AccountId(0), order: ids.swap_remove(at) }
        } else {
            let side = rng.pick(&[Side::Buy, Side::Sell]);
            let off = rng.between(0, 3000);
            let price = Ticks(if side == Side::Buy { 10_003 - off } else { 10_000 + off });
            let id = OrderId(st.seq.0 + 1);
            ids.push(id);
            Command::Enter(NewOrder { id, account: AccountId(0), instrument: InstrumentId(rng.small(3)), side, order_type: OrderType::Limit { price }, lots: Lots(1 + rng.below(9)), tif: TimeInForce::GoodTillCancel, label: Label::default() })
        };
        let s = st.stamp(c); let ev = apply(&mut e, &s); log.push((s, ev));
    }
    let t = std::time::Instant::now();
    let mut a = Auditor::new();
    for (s, ev) in &log { a.observe(s, ev).unwrap(); }
    let d = t.elapsed();
    println!("seed deep: {} commands live {} in {:?}: {:.0}/s", log.len(), a.live_orders(), d, log.len() as f64 / d.as_secs_f64());
}
