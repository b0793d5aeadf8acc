//! A sequential test, which `kickcache judge` decides by: numbers in, evidence out.
//!
//! A round runs the known-good command and the new one, in an order that a coin decides. Its *loss* is the logarithm of
//! how much worse the new one was: 0 as good, ln 1.2 if 20 % worse (1.2 times the time, or 1/1.2 of the rate).
//!
//! The model: the new command is worse by one factor, and all other effects in a round would have affected
//! the other command, had the coin fallen otherwise. Then losses are symmetric around the logarithm of that
//! factor, for any noise: heavy tails, slow phases, drift and dependence between rounds are allowed, because
//! given all noise the coin alone decides the sign. For a command compared with itself this holds without any
//! assumption.
//!
//! The test is a bet on signs (`evidence`), after "Testing by betting" (Shafer 2021) and e-tests of symmetry
//! (Ramdas, Ruf, Larsson, Koolen 2020, arXiv:2009.03167; Vovk, Wang 2024). The initial capital is 1. Before
//! each round a share `s` of the capital is bet on "the loss is below the boundary", with even odds; `s` may
//! grow with the distance |loss - boundary|. If the true loss is at the boundary or above, no bet gains on
//! average:
//!
//! * let the loss be t + u or t - u with equal chance, t = boundary + d, d >= 0, u >= 0;
//! * if u <= d, both lie above the boundary, and the bet is lost;
//! * if u > d, it is lost at the distance u + d and won at u - d, and s(u + d) >= s(u - d).
//!
//! So the money is a non-negative supermartingale, and so is a mixture of several such purses. By Ville's
//! inequality (1939) it ever reaches 200 with a chance of 1/200 at most: that is the error of a verdict, 0.5
//! %, however often one looks and whenever one stops. A purse cannot more than double in a round, so that 200
//! needs 8 rounds.
//!
//! Two such bets run: against "20 % worse or more", which ends with *good*, and against "at most 10 % worse",
//! which ends with *bad*. A loss between the two boundaries may get either verdict.

pub mod drift;
pub mod evidence;
pub mod interval;
pub mod margin;
pub mod median_error;
pub mod pair_test;

#[cfg(test)]
mod tests;
