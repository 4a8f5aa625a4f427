//! Measures the codec of binary order entry: the mean time to decode an order and to encode its
//! acknowledgement. The target is 30 ns for each.
//!
//!     cargo run --release -p pitwire-sbe-gateway --example codec_cost

use std::hint::black_box;
use std::time::Instant;

use pitwire_sbe_gateway::{
    EntryTimeInForce, EntryType, FixedDecimal, Flag, NewOrder, OrderAccepted, OrderSide, OrderStatus, SbeMessage, Text,
};

const ROUNDS: u32 = 9;
const MESSAGES: u32 = 2_000_000;

/// Prints the median of the rounds in nanoseconds per message.
fn measure(name: &str, mut run: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            (0..MESSAGES).for_each(|_| run());
            begin.elapsed().as_secs_f64() * 1e9 / f64::from(MESSAGES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name}: {:.1} ns", rounds[rounds.len() / 2]);
}

fn main() {
    let order = NewOrder {
        request_id: 1,
        client_order_id: Text::new("order-1"),
        instrument_id: 1,
        side: OrderSide::Buy,
        order_type: EntryType::Limit,
        time_in_force: EntryTimeInForce::Day,
        hidden: Flag::No,
        post_only: Flag::No,
        quantity: Some(FixedDecimal(1_000_000_000)),
        price: Some(FixedDecimal(320_000_000_000)),
        trigger_price: None,
        display_quantity: None,
        minimum_quantity: None,
        expires: 0,
    };
    let accepted: SbeMessage = OrderAccepted {
        sequence: 1,
        request_id: 1,
        order_id: 1,
        client_order_id: order.client_order_id,
        status: OrderStatus::Open,
        quantity: order.quantity,
        filled_quantity: Some(FixedDecimal(0)),
    }
    .into();
    let mut frame = Vec::new();
    SbeMessage::from(order).encode(&mut frame);
    measure("decode an order", || {
        black_box(SbeMessage::decode(black_box(&frame)).is_ok());
    });
    let mut out = Vec::with_capacity(256);
    measure("encode an acknowledgement", || {
        out.clear();
        black_box(&accepted).encode(black_box(&mut out));
    });
}
