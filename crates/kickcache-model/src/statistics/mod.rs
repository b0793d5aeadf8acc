//! Conclusions from the figures of several rounds: medians, ratios with their confidence, and a verdict in
//! words.
//!
//! The unit is the round. Seconds of one run depend on each other and are never taken for independent measurements.

pub mod comparison;
pub mod sequential;
mod student;

/// The median of some numbers: the middle one, or the mean of the two in the middle; `None` if there are no
/// numbers.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    let low = sorted[(sorted.len() - 1) / 2];
    Some(low.midpoint(high))
}

/// The mean of some numbers; 0 if there are no numbers.
pub fn mean(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        numbers.into_iter().fold((0.0, 0.0), |(sum, count), number| (sum + number, count + 1.0));
    sum / f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
    }

    #[test]
    fn a_mean_is_of_all() {
        assert_eq!((mean([]), mean([3.0]), mean([9.0, 1.0, 2.0])), (0.0, 3.0, 4.0));
    }
}
