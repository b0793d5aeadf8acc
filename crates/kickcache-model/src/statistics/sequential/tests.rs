//! Verdicts on 2,000 series of each kind of noise, by fixed seeds.

use kickcache_random::Random;

use super::pair_test::{PairTest, Verdict, rounds_least};

const SERIES: usize = 2_000;
const ROUNDS_MAX: usize = 100;
/// Wrong verdicts that are accepted: 1 %, twice the error of a verdict, because the series are random.
const WRONG_MAX: usize = SERIES / 100;

/// IOPS of 240 runs of fio, one after the other, on two processors with nine times as much load: a machine
/// that is unsuitable for measurements. `fio --filename=/dev/shm/x --size=16m --rw=randread --bs=4k
/// --ioengine=psync --time_based --runtime=300ms`.
const RECORDED: &str = include_str!("recorded.txt");

#[derive(Clone, Copy, Debug)]
enum Noise {
    None,
    Gauss(f64),
    /// Student's t with three degrees of freedom.
    HeavyTails(f64),
    /// Each run inherits nine tenths of the deviation of the last one.
    Drift(f64),
    /// Every run is slower than the previous one.
    Wear(f64),
    /// Slow phases, of two or three runs and 50 %.
    SlowPhases(f64),
    /// One run in five takes twice as long.
    SlowRounds(f64),
    /// The second run of a pair profits by the first one.
    WarmUp(f64),
    /// Recorded runs, from anywhere in the recording on, with this part of their noise.
    Recorded(f64),
}

const NOISES: [Noise; 13] = [
    Noise::None,
    Noise::Gauss(0.01),
    Noise::Gauss(0.06),
    Noise::Gauss(0.2),
    Noise::HeavyTails(0.03),
    Noise::HeavyTails(0.1),
    Noise::Drift(0.2),
    Noise::Wear(0.03),
    Noise::SlowPhases(0.03),
    Noise::SlowRounds(0.03),
    Noise::WarmUp(0.03),
    Noise::Recorded(0.1),
    Noise::Recorded(1.0),
];

struct Machine {
    noise: Noise,
    random: Random,
    recorded: Vec<f64>,
    run: usize,
    state: f64,
}

impl Machine {
    fn new(noise: Noise, seed: u64) -> Machine {
        let mut random = Random::new(seed);
        let recorded: Vec<f64> = RECORDED.lines().map(|line| line.parse::<f64>().unwrap().ln()).collect();
        let run = random.index(recorded.len());
        Machine { noise, random, recorded, run, state: 0.0 }
    }

    fn run(&mut self) -> f64 {
        self.run += 1;
        let normal = self.random.normal();
        match self.noise {
            Noise::None => 0.0,
            Noise::Gauss(sigma) => sigma * normal,
            Noise::HeavyTails(sigma) => {
                let squares: f64 = (0..3).map(|_| self.random.normal().powi(2)).sum();
                sigma * normal / (squares / 3.0).sqrt()
            }
            Noise::Drift(sigma) => {
                self.state = 0.9 * self.state + 0.44 * sigma * normal;
                self.state + 0.3 * sigma * self.random.normal()
            }
            Noise::Wear(sigma) => sigma * normal + 0.02 * self.run as f64,
            Noise::SlowPhases(sigma) => {
                let turns = self.random.chance(if self.state > 0.0 { 400 } else { 100 });
                self.state = if turns { 0.4 - self.state } else { self.state };
                self.state + sigma * normal
            }
            Noise::SlowRounds(sigma) => sigma * normal + if self.random.chance(200) { 0.7 } else { 0.0 },
            Noise::WarmUp(sigma) => 0.1 * (self.run % 2) as f64 + sigma * normal,
            Noise::Recorded(part) => part * self.recorded[self.run % self.recorded.len()],
        }
    }

    /// The loss of a round in which the new command is worse by a true loss.
    fn round(&mut self, truth: f64) -> f64 {
        let (first, second) = (self.run(), self.run());
        if self.random.chance(500) { truth + first - second } else { truth + second - first }
    }
}

#[derive(Default, Debug)]
struct Tally {
    good: usize,
    bad: usize,
    none: usize,
    rounds: usize,
}

fn series(noise: Noise, truth: f64, seed: u64) -> PairTest {
    let mut machine = Machine::new(noise, seed);
    let mut test = PairTest::new("20%".parse().unwrap());
    while test.verdict().is_none() && test.rounds() < ROUNDS_MAX {
        test.add(machine.round(truth));
    }
    test
}

fn tally(noise: Noise, truth: f64) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..SERIES {
        let test = series(noise, truth, seed as u64);
        tally.rounds += test.rounds();
        match test.verdict() {
            Some(Verdict::Good) => tally.good += 1,
            Some(Verdict::Bad) => tally.bad += 1,
            None => tally.none += 1,
        }
    }
    println!(
        "{noise:?}, worse by {:.0} %: good {} bad {} none {} rounds {:.1}",
        truth.exp_m1() * 100.0,
        tally.good,
        tally.bad,
        tally.none,
        tally.rounds as f64 / SERIES as f64
    );
    tally
}

#[test]
fn a_command_against_itself_is_hardly_ever_called_bad() {
    for noise in NOISES {
        let tally = tally(noise, 0.0);
        assert!(tally.bad <= WRONG_MAX, "{noise:?}: {tally:?}");
    }
}

#[test]
fn a_barely_good_command_is_rarely_called_bad() {
    for noise in NOISES {
        let tally = tally(noise, 1.1_f64.ln());
        assert!(tally.bad <= WRONG_MAX, "{noise:?}: {tally:?}");
    }
}

#[test]
fn a_barely_bad_command_is_rarely_called_good() {
    for noise in NOISES {
        let tally = tally(noise, 1.2_f64.ln());
        assert!(tally.good <= WRONG_MAX, "{noise:?}: {tally:?}");
    }
}

/// Noises under which 100 rounds must be enough.
fn is_bearable(noise: Noise) -> bool {
    !matches!(noise, Noise::Gauss(0.2) | Noise::HeavyTails(0.1) | Noise::Recorded(1.0))
}

#[test]
fn a_command_against_itself_is_called_good() {
    for noise in NOISES.into_iter().filter(|noise| is_bearable(*noise)) {
        let tally = tally(noise, 0.0);
        assert!(tally.good * 100 >= SERIES * 99, "{noise:?}: {tally:?}");
    }
}

#[test]
fn a_slowdown_of_20_percent_is_called_bad() {
    for noise in NOISES.into_iter().filter(|noise| is_bearable(*noise)) {
        let tally = tally(noise, 1.2_f64.ln());
        assert!(tally.bad * 100 >= SERIES * 95, "{noise:?}: {tally:?}");
    }
}

#[test]
fn fewer_rounds_than_the_least_never_end() {
    assert_eq!(rounds_least(), 9);
    let mut test = PairTest::new("20%".parse().unwrap());
    (1..rounds_least()).for_each(|_| test.add(50.0));
    assert_eq!(test.verdict(), None);
}

#[test]
fn a_quiet_machine_needs_few_rounds() {
    for truth in [0.0, 0.5] {
        let rounds = series(Noise::Gauss(0.01), truth, 1).rounds();
        assert!((5..=10).contains(&rounds), "{rounds} rounds");
    }
}

#[test]
fn intervals_hold_the_truth_and_agree_with_the_verdict() {
    let truth = 0.1;
    let mut missed = 0;
    for seed in 0..400 {
        let test = series(Noise::HeavyTails(0.05), truth, seed);
        let interval = test.interval();
        missed += usize::from(truth < interval.low || truth > interval.high);
        match test.verdict() {
            Some(Verdict::Good) => assert!(interval.high < 1.200001_f64.ln(), "{seed}: {interval:?}"),
            Some(Verdict::Bad) => assert!(interval.low > 1.099999_f64.ln(), "{seed}: {interval:?}"),
            None => {}
        }
    }
    assert!(missed <= 8, "{missed} of 400 intervals of 99 % miss the truth");
}
