//! The styles of runs in charts: a prediction has the colour of the run that it predicts, if that run
//! precedes it.

use kickcache_model::result::RunResult;

use crate::plot::lines::Weight;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Look {
    /// Number of the run's colour and dash.
    pub(crate) style: usize,
    pub(crate) weight: Weight,
}

/// In the order of the runs.
pub(crate) fn looks(runs: &[RunResult]) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    let mut next = 0;
    for run in runs {
        let measured = runs.iter().position(|other| run.predicts.as_ref() == Some(&other.name));
        let look = match measured.and_then(|index| looks.get(index)) {
            Some(known) => Look { weight: Weight::Predicted, ..*known },
            None => {
                next += 1;
                let weight = if run.predicts.is_some() { Weight::Predicted } else { Weight::Plain };
                Look { style: next - 1, weight }
            }
        };
        looks.push(look);
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_has_the_colour_of_its_measurement() {
        let run = |name: &str, predicts: Option<&str>| RunResult {
            predicts: predicts.map(str::to_owned),
            ..RunResult::new(name, "", 1)
        };
        let runs = [run("a", None), run("a, predicted", Some("a")), run("b", None), run("?", Some("c"))];
        let known: Vec<(usize, Weight)> = looks(&runs).iter().map(|look| (look.style, look.weight)).collect();
        let (plain, predicted) = (Weight::Plain, Weight::Predicted);
        assert_eq!(known, [(0, plain), (0, predicted), (1, plain), (2, predicted)]);
    }
}
