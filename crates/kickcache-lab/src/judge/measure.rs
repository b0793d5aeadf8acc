//! Rounds without a verdict: the content of a stored result.

use kickcache_random::Random;

use crate::judge::failure::NoVerdict;
use crate::judge::rounds::Runner;
use crate::judge::side::Side;

/// Values of each command, in the order of the rounds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CommandSamples {
    /// Values of the command that is to be stored.
    pub good: Vec<f64>,
    pub control: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sides {
    Alone,
    /// The command and a control, in an order that a coin decides.
    WithControl,
}

/// Measures a command; `say` is called after each round. For the runner, the command is the new one, and the
/// control is the known-good one.
///
/// # Errors
/// If a run fails.
pub fn measure(
    rounds: usize,
    sides: Sides,
    random: &mut Random,
    runner: &mut Runner<'_>,
    say: &mut dyn FnMut(&CommandSamples),
) -> Result<CommandSamples, NoVerdict> {
    let mut measured = CommandSamples::default();
    for _ in 0..rounds {
        let first = if random.chance(500) { Side::Good } else { Side::New };
        let order = match sides {
            Sides::Alone => vec![Side::New],
            Sides::WithControl => vec![first, first.other()],
        };
        for side in order {
            let value = runner(side).map_err(|failure| NoVerdict::of(side, failure))?;
            match side {
                Side::Good => measured.control.push(value),
                Side::New => measured.good.push(value),
            }
        }
        say(&measured);
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_is_measured_with_the_command() {
        let mut runner = |side| Ok(if side == Side::Good { 2.0 } else { 3.0 });
        let mut of = |sides| measure(4, sides, &mut Random::new(1), &mut runner, &mut |_| ()).unwrap();
        assert_eq!(of(Sides::Alone), CommandSamples { good: vec![3.0; 4], control: vec![] });
        assert_eq!(of(Sides::WithControl), CommandSamples { good: vec![3.0; 4], control: vec![2.0; 4] });
    }
}
