//! The value of a constant on traces that did not choose it: for each trace, the other traces choose a value,
//! and its effect on that trace counts.

use crate::statistics::mean;

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Effect {
    /// Hits, in points of the requested blocks.
    pub hits: f64,
    /// Bytes written for each byte that entered the cache.
    pub written: f64,
}

impl Effect {
    pub fn mean<'a>(effects: impl IntoIterator<Item = &'a Effect, IntoIter: Clone>) -> Effect {
        let effects = effects.into_iter();
        let hits = mean(effects.clone().map(|effect| effect.hits));
        Effect { hits, written: mean(effects.map(|effect| effect.written)) }
    }
}

const WRITTEN_MORE_MAX: f64 = 0.02;

#[derive(Clone, PartialEq, Debug)]
pub struct LeftOut {
    /// The number of the value, trace by trace.
    pub chosen: Vec<usize>,
    /// Points of hits gained on the traces that were left out, against the first value; the mean of all cases.
    pub gained: f64,
}

/// Chooses for each trace, by the cases of the other traces. `values` has the effects of each value on every
/// case; the first is the present value. The choice is the value with the most hits that writes hardly more
/// than the present value. `traces` gives the trace of each case.
///
/// # Panics
/// If there is no value, or a value without an effect for each case.
pub fn left_out(traces: &[usize], values: &[&[Effect]]) -> LeftOut {
    let count = traces.iter().max().map_or(0, |most| most + 1);
    let of_others = |trace: usize, effects: &[Effect]| {
        let others = traces.iter().zip(effects).filter(move |pair| *pair.0 != trace);
        Effect::mean(others.map(|pair| pair.1))
    };
    let choose = |trace: usize| {
        let built = of_others(trace, values[0]);
        let tried = values.iter().map(|effects| of_others(trace, effects));
        let allowed =
            tried.enumerate().filter(|(_, tried)| tried.written <= built.written + WRITTEN_MORE_MAX);
        let first = (0, built);
        allowed.fold(first, |best, tried| if tried.1.hits > best.1.hits { tried } else { best }).0
    };
    let chosen: Vec<usize> = (0..count).map(choose).collect();
    let gain = |(case, trace): (usize, &usize)| values[chosen[*trace]][case].hits - values[0][case].hits;
    let gained = mean(traces.iter().enumerate().map(gain));
    LeftOut { chosen, gained }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(hits: &[f64], written: f64) -> Vec<Effect> {
        hits.iter().map(|hits| Effect { hits: *hits, written }).collect()
    }

    #[test]
    fn a_trace_does_not_choose_for_itself() {
        let built = effects(&[50.0, 50.0, 50.0], 1.2);
        let other = effects(&[60.0, 49.0, 49.0], 1.2);
        let found = left_out(&[0, 1, 2], &[&built, &other]);
        assert_eq!(found.chosen, [0, 1, 1], "the others choose the value that helps the first");
        assert!((found.gained - -2.0 / 3.0).abs() < 1e-9, "{}", found.gained);
    }

    #[test]
    fn a_value_that_costs_more_writes_is_not_chosen() {
        let built = effects(&[50.0, 50.0], 1.2);
        let found = left_out(&[0, 1], &[&built, &effects(&[60.0, 60.0], 1.3)]);
        assert_eq!(found, LeftOut { chosen: vec![0, 0], gained: 0.0 });
        let found = left_out(&[0, 1], &[&built, &effects(&[60.0, 60.0], 1.21)]);
        assert_eq!(found.chosen, [1, 1]);
        assert!((found.gained - 10.0).abs() < 1e-9);
    }
}
