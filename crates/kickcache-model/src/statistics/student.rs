//! Student's t distribution.

/// The value below which `part` of the distribution is. `part` is between 0.5 and 1, both excluded.
pub(super) fn quantile(part: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while below(high, freedom) < part && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if below(middle, freedom) < part { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The part of the distribution below a value that is not negative.
fn below(value: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / (freedom + value * value), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function, by its continued fraction on the side where that converges fast.
fn incomplete_beta(at: f64, a: f64, b: f64) -> f64 {
    if at <= 0.0 {
        return 0.0;
    }
    if at >= 1.0 {
        return 1.0;
    }
    let front = (a * at.ln() + b * (1.0 - at).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    if at < (a + 1.0) / (a + b + 2.0) {
        front * fraction(at, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - at, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, by the method of Lentz.
fn fraction(at: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let apart = |number: f64| if number.abs() < TINY { TINY } else { number };
    let mut c = 1.0;
    let mut d = 1.0 / apart(1.0 - (a + b) * at / (a + 1.0));
    let mut product = d;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (b - m) * at / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * at / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / apart(1.0 + term * d);
            c = apart(1.0 + term / c);
            product *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

/// The logarithm of the gamma function, by Lanczos's approximation with g = 7.
fn ln_gamma(value: f64) -> f64 {
    const PARTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if value < 0.5 {
        return (std::f64::consts::PI / (std::f64::consts::PI * value).sin()).ln() - ln_gamma(1.0 - value);
    }
    let x = value - 1.0;
    let sum = (1_u32..)
        .zip(PARTS)
        .fold(0.999_999_999_999_809_9, |sum, (index, part)| sum + part / (x + f64::from(index)));
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let known = [
            (0.975, 1.0, 12.706_204_736),
            (0.95, 2.0, 2.919_985_58),
            (0.975, 2.0, 4.302_652_730),
            (0.95, 4.0, 2.131_846_786),
            (0.975, 4.0, 2.776_445_105),
            (0.975, 9.0, 2.262_157_163),
            (0.995, 30.0, 2.749_995_654),
            (0.975, 1_000.0, 1.962_339_081),
        ];
        for (part, freedom, expected) in known {
            let found = quantile(part, freedom);
            assert!((found - expected).abs() < 1e-6, "{part} {freedom}: {found}");
        }
    }
}
