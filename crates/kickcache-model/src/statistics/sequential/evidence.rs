//! Evidence that the loss is on one side of a boundary: the present value of a sequence of bets.

/// Evidence that decides. If the loss is on the other side, the probability that the evidence ever reaches
/// this value is 1 in 200 at most.
pub const ENOUGH: f64 = 200.0;

/// The largest part of the capital that is bet on one round.
const STAKE_MAX: f64 = 0.98;
/// Effects and noises that the bets expect, in units of the margin: one bet for each pair.
const EFFECTS: [f64; 3] = [0.5, 1.0, 2.0];
const NOISES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// The side of the boundary that the evidence supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    Below,
    Above,
}

/// Invariants:
/// * the stake of a bet is decided by the distance from the boundary alone, never falls as it grows, and is below 1:
///   otherwise a wrong claim could gain.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    claim: Claim,
    boundary: f64,
    bets: Vec<Bet>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Bet {
    /// The distance that is expected; longer ones count the same.
    effect: f64,
    noise: f64,
    purse: f64,
}

impl Bet {
    /// The part of the purse that is put on a round: the best one if the noise were Laplace's, at most [`STAKE_MAX`].
    fn stake(&self, distance: f64) -> f64 {
        (distance.min(self.effect) / self.noise).tanh().min(STAKE_MAX)
    }
}

impl Evidence {
    /// The evidence before the first round; `margin` is the difference that matters, a loss.
    pub fn new(claim: Claim, boundary: f64, margin: f64) -> Evidence {
        let bet =
            |effect: f64, noise: f64| Bet { effect: effect * margin, noise: noise * margin, purse: 1.0 };
        let bets = EFFECTS.iter().flat_map(|effect| NOISES.iter().map(|noise| bet(*effect, *noise)));
        Evidence { claim, boundary, bets: bets.collect() }
    }

    pub fn add(&mut self, loss: f64) {
        let ahead = match self.claim {
            Claim::Below => self.boundary - loss,
            Claim::Above => loss - self.boundary,
        };
        for bet in &mut self.bets {
            let stake = bet.stake(ahead.abs());
            if ahead > 0.0 {
                bet.purse *= 1.0 + stake;
            } else if ahead < 0.0 {
                bet.purse *= 1.0 - stake;
            }
        }
    }

    pub fn amount(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few bets")]
        let count = self.bets.len() as f64;
        self.bets.iter().map(|bet| bet.purse).sum::<f64>() / count
    }

    pub fn decides(claim: Claim, boundary: f64, margin: f64, losses: &[f64]) -> bool {
        let mut evidence = Evidence::new(claim, boundary, margin);
        losses.iter().any(|loss| {
            evidence.add(*loss);
            evidence.amount() >= ENOUGH
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stakes_grow_with_the_distance_and_never_take_all() {
        for bet in Evidence::new(Claim::Below, 0.2, 0.2).bets {
            let stakes: Vec<f64> = (0..1000).map(|step| bet.stake(f64::from(step) * 0.01)).collect();
            assert!(stakes.is_sorted() && stakes[0] == 0.0 && stakes[999] <= STAKE_MAX, "{bet:?}");
        }
    }

    /// The inequality on which the error bound rests, for every pair of losses that a coin can give.
    #[test]
    fn no_bet_gains_by_a_wrong_claim() {
        for (claim, sign) in [(Claim::Below, 1.0), (Claim::Above, -1.0)] {
            for beyond in [0.0, 0.01, 0.1, 0.5, 3.0] {
                for noise in [0.0, 0.005, 0.05, 0.1, 0.4, 2.0, 50.0] {
                    let after = |loss: f64| {
                        let mut evidence = Evidence::new(claim, 0.1, 0.2);
                        evidence.add(loss);
                        evidence.bets
                    };
                    let truth = 0.1 + sign * beyond;
                    let (heads, tails) = (after(truth + noise), after(truth - noise));
                    for (one, other) in heads.iter().zip(&tails) {
                        let mean = f64::midpoint(one.purse, other.purse);
                        assert!(mean <= 1.0 + 1e-12, "{claim:?} {beyond} {noise}: {one:?} {other:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_tie_changes_no_evidence() {
        let mut evidence = Evidence::new(Claim::Above, 0.1, 0.2);
        evidence.add(0.1);
        assert_eq!(evidence, Evidence::new(Claim::Above, 0.1, 0.2));
    }
}
