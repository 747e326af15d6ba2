//! The exponential function out of additions and multiplications only.
//!
//! IEEE 754 fixes the results of those to the last bit; the mathematics libraries of two systems
//! differ in theirs, and with them the tokens that a seed gives.

use std::f64::consts::{LN_2, LOG2_E};

/// 1 / n!, by n: the series of the exponential function.
const TERMS: [f64; 14] = {
    let mut terms = [1.0; 14];
    let mut n = 1;
    while n < terms.len() {
        terms[n] = terms[n - 1] / n as f64;
        n += 1;
    }
    terms
};

/// e to the power of `x`, which is not above 0.
pub(super) fn exp(x: f64) -> f64 {
    debug_assert!(x <= 0.0, "only weights relative to the highest are computed");
    // Below, the result would be subnormal: less than any probability that matters.
    if x < -700.0 {
        return 0.0;
    }
    let doublings = (x * LOG2_E).round();
    // At most ln 2 / 2, where a fifteenth term would be below the precision.
    let rest = x - doublings * LN_2;
    let power = TERMS.iter().rev().fold(0.0, |sum, term| sum * rest + term);
    #[expect(clippy::cast_possible_truncation, reason = "between 13 and 1023")]
    let exponent = (doublings + 1023.0) as u64;
    power * f64::from_bits(exponent << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_the_system_but_for_rounding() {
        for step in 0..70_000 {
            let x = f64::from(step) * -0.01;
            let (ours, theirs) = (exp(x), x.exp());
            assert!((ours - theirs).abs() <= theirs * 1e-13, "exp({x}) = {ours}, not {theirs}");
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-701.0), 0.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
    }
}
