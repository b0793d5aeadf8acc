use super::*;
use crate::judge::stored_result::Runs;

fn rules(rounds_max: usize) -> Rules {
    Rules { margin: "20%".parse().unwrap(), worse: MetricDirection::Lower, rounds_max, seed: 1 }
}

fn judge(mut judge: Judge, runner: &mut Runner<'_>) -> (Judge, Result<Verdict, NoVerdict>) {
    loop {
        match judge.run(runner) {
            Ok(None) => {}
            Ok(Some(verdict)) => return (judge, Ok(verdict)),
            Err(none) => return (judge, Err(none)),
        }
    }
}

fn steady(good: f64, new: f64) -> impl FnMut(Side) -> Result<f64, RunFailure> {
    move |side| Ok(if side == Side::Good { good } else { new })
}

fn stored(control: f64, good: f64) -> StoredResult {
    let runs = |value| Runs { command: "x".into(), values: vec![value; 15] };
    StoredResult::new(&"iops".parse().unwrap(), MetricDirection::Lower, runs(good), Some(runs(control)))
}

#[test]
fn a_coin_decides_the_order_and_the_seed_the_coin() {
    let orders = |seed| {
        let rules = Rules { seed, ..rules(100) };
        let (judge, _) = judge(Judge::new(rules, None).unwrap(), &mut steady(100.0, 92.0));
        judge.rounds().iter().map(|round| round.first).collect::<Vec<_>>()
    };
    assert_eq!(orders(1), orders(1));
    assert_ne!(orders(1), orders(2));
    assert!(orders(1).contains(&Side::Good) && orders(1).contains(&Side::New));
}

#[test]
fn lower_is_worse_of_rates() {
    let verdict = |new| judge(Judge::new(rules(100), None).unwrap(), &mut steady(100.0, new)).1;
    assert_eq!(verdict(100.0), Ok(Verdict::Good));
    assert_eq!(verdict(200.0), Ok(Verdict::Good));
    assert_eq!(verdict(80.0), Ok(Verdict::Bad));
}

#[test]
fn rounds_end() {
    let (judge, result) = judge(Judge::new(rules(7), None).unwrap(), &mut steady(100.0, 100.0));
    assert_eq!((judge.rounds().len(), result.unwrap_err().code()), (7, 125));
}

#[test]
fn a_failing_new_command_is_skipped_if_the_good_works() {
    for seed in 0..8 {
        let judge_of = || Judge::new(Rules { seed, ..rules(9) }, None).unwrap();
        let mut new_fails = |side| match side {
            Side::Good => Ok(1.0),
            Side::New => Err(RunFailure::Failed("x".into())),
        };
        assert_eq!(judge(judge_of(), &mut new_fails).1.unwrap_err().code(), 125);
        let mut both_fail = |_| Err(RunFailure::Failed("x".into()));
        assert_eq!(judge(judge_of(), &mut both_fail).1.unwrap_err().code(), 128, "whoever is first");
    }
}

#[test]
fn a_stored_result_is_compared_by_way_of_its_control() {
    let verdict = |control, new| {
        let judge_of = Judge::new(rules(100), Some(&stored(1000.0, 100.0))).unwrap();
        judge(judge_of, &mut steady(control, new)).1
    };
    assert_eq!(verdict(1000.0, 100.0), Ok(Verdict::Good));
    assert_eq!(verdict(1000.0, 80.0), Ok(Verdict::Bad));
    assert_eq!(verdict(960.0, 100.0), Ok(Verdict::Good), "a quarter of the margin is allowed");
    assert_eq!(verdict(930.0, 100.0).unwrap_err().code(), 125);
    assert_eq!(verdict(1080.0, 80.0).unwrap_err().code(), 125, "a better control is another machine, too");
}

#[test]
fn a_control_that_has_surely_drifted_ends_the_rounds() {
    let judge_of = Judge::new(rules(100), Some(&stored(1000.0, 100.0))).unwrap();
    let (judge, _) = judge(judge_of, &mut steady(500.0, 50.0));
    assert_eq!(judge.rounds().len(), 6, "six runs have an interval");
    assert!((judge.drift().unwrap() - 0.5).abs() < 1e-9);
}
