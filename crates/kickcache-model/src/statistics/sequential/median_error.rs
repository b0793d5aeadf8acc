//! How far a median may be off.

/// Half the width of an interval that holds the median with 95 % or more, from the order of the values alone; infinite
/// for fewer than six.
pub fn median_error(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let Some(depth) = depth(sorted.len()) else { return f64::INFINITY };
    (sorted[sorted.len() - 1 - depth] - sorted[depth]) / 2.0
}

/// The number of values at each end that are outside of the interval: the largest `k` for which a fair coin
/// that is tossed `count` times shows at most `k` heads with 2.5 % or less.
fn depth(count: usize) -> Option<usize> {
    let exponent = i32::try_from(count).ok()?;
    let mut chance = 0.5_f64.powi(exponent);
    let (mut below, mut found) = (0.0, None);
    for k in 0..count / 2 {
        below += chance;
        if below > 0.025 {
            break;
        }
        found = Some(k);
        #[expect(clippy::cast_precision_loss, reason = "counts of rounds")]
        let next = (count - k) as f64 / (k + 1) as f64;
        chance *= next;
    }
    found
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_those_of_the_tables_of_the_sign_test() {
        let table = [(5, None), (6, Some(0)), (8, Some(0)), (9, Some(1)), (15, Some(3)), (20, Some(5))];
        for (count, expected) in table {
            assert_eq!(depth(count), expected, "{count} values");
        }
        assert!(median_error(&[1.0; 5]).is_infinite());
        assert!((median_error(&[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]) - 4.0).abs() < 1e-12);
    }
}
