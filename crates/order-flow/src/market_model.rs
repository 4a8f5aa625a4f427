//! The event types of the market flow, without sides: they are drawn for each event.
//!
//! Holds       the long-run rates are the chosen shares, because the base rates follow from them.
//! Start at    [`market_model`].

use crate::event_type::{Act, EventType, FlowModel};
use crate::kernel::{Exponential, Kernel, matrix};

/// Names, acts and shares of the events. About a third of the limit orders are cancelled by an
/// event, many others at the end of their lifetime: most orders on real markets are (Hautsch and
/// Huang 2012).
const TYPES: [(&str, Act, f64); 7] = [
    ("market order, empties the touch", Act::EmptyTouch, 0.03),
    ("market order, leaves the touch", Act::LeaveTouch, 0.15),
    ("limit order, inside the spread", Act::Inside, 0.09),
    ("limit order, at the best price", Act::Join, 0.19),
    ("limit order, behind the best price", Act::Behind, 0.24),
    ("cancel, at the best price", Act::CancelBest, 0.12),
    ("cancel, behind the best price", Act::CancelBehind, 0.18),
];

/// Share of the events that are market orders.
pub const MARKET_SHARE: f64 = TYPES[0].2 + TYPES[1].2;

/// Events of a type (row) that an event (column) causes at once. Trades cause refills and cancels,
/// and cancels cause cancels (Large 2007; Bacry, Jaisson and Muzy 2016).
const FAST: [[f64; 7]; 7] = [
    [0.05, 0.01, 0.01, 0.00, 0.00, 0.01, 0.00],
    [0.20, 0.20, 0.03, 0.01, 0.00, 0.03, 0.00],
    [0.30, 0.05, 0.05, 0.02, 0.01, 0.08, 0.02],
    [0.10, 0.10, 0.10, 0.10, 0.05, 0.10, 0.05],
    [0.15, 0.05, 0.05, 0.05, 0.12, 0.05, 0.15],
    [0.15, 0.05, 0.12, 0.10, 0.02, 0.20, 0.02],
    [0.10, 0.03, 0.05, 0.03, 0.12, 0.05, 0.25],
];
/// Events of a type that an event of the same type causes within seconds.
const SLOW: f64 = 0.18;
/// Decay rates per second at one event per second.
const FAST_DECAY: f64 = 2.0;
const SLOW_DECAY: f64 = 0.04;

/// Returns the model at one event per second.
pub fn market_model() -> FlowModel {
    let size = TYPES.len();
    let slow = |i: usize, j: usize| if i == j { SLOW } else { 0.0 };
    let base = (0..size).map(|i| {
        let caused = |j: usize| (FAST[i][j] + slow(i, j)) * TYPES[j].2;
        TYPES[i].2 - (0..size).map(caused).sum::<f64>()
    });
    let part = |branching: &dyn Fn(usize, usize) -> f64, decay: f64| Exponential {
        jump: matrix(size, |i, j| branching(i, j) * decay),
        decay: vec![vec![decay; size]; size],
    };
    let parts = vec![part(&|i, j| FAST[i][j], FAST_DECAY), part(&slow, SLOW_DECAY)];
    FlowModel {
        kernel: Kernel { base: base.collect(), parts },
        types: TYPES.map(|(name, act, _)| EventType::new(name, act, None)).into(),
        has_labels: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_stable_and_has_its_shares() {
        let model = market_model();
        model.check().unwrap();
        let radius = model.kernel.radius();
        assert!((0.5..0.8).contains(&radius), "{radius}");
        for (rate, (name, _, share)) in model.kernel.stationary_rates().iter().zip(TYPES) {
            assert!((rate - share).abs() < 1e-12, "{name}: {rate}");
        }
        assert!((model.kernel.total_rate() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn cancels_excite_cancels() {
        let FlowModel { kernel, types, .. } = market_model();
        let cancels = |act: Act| matches!(act, Act::CancelBest | Act::CancelBehind);
        let kinds: Vec<usize> = (0..TYPES.len()).filter(|kind| cancels(TYPES[*kind].1)).collect();
        assert_eq!((kinds.len(), types.len()), (2, TYPES.len()));
        for kind in kinds {
            // Cancels of the same type that one cancel causes at once, and within minutes.
            let caused = kernel.parts.iter().map(|part| part.jump[kind][kind] / part.decay[kind][kind]);
            let caused: Vec<f64> = caused.collect();
            assert!(caused.iter().all(|events| *events > 0.1), "{}: {caused:?}", TYPES[kind].0);
        }
    }
}
