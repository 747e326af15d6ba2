//! A figure: what was measured, and the bound beside it.

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// One figure, as `pangea bench --json` prints it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Figure {
    /// What `pangea bench --list` calls it.
    pub name: String,
    /// The median over the runs.
    pub value: f64,
    /// Of `value`, `bound`, `p50` and `p99`.
    pub unit: String,
    /// The median of what it is measured against, in the same runs.
    pub bound: f64,
    /// The median of the runs' ratios of value to bound.
    pub ratio: f64,
    /// The median of all samples.
    pub p50: f64,
    /// What all but one of a hundred samples are below.
    pub p99: f64,
    /// How often both were measured.
    pub runs: usize,
}

/// Samples of one run, each the mean of a batch of operations.
pub(crate) type Samples = Vec<f64>;

impl Figure {
    /// A figure that was computed.
    pub(crate) fn predicted(name: &str, value: f64, unit: &str, bound: f64) -> Self {
        let (name, unit, ratio) = (name.to_owned(), unit.to_owned(), value / bound);
        Self { name, value, unit, bound, ratio, p50: value, p99: value, runs: 1 }
    }

    /// Measures `ours` and `bound` by turns, `runs` times.
    pub(crate) fn compare(
        name: &str,
        unit: &str,
        runs: usize,
        mut ours: impl FnMut() -> Samples,
        mut bound: impl FnMut() -> Samples,
    ) -> Self {
        // The first run warms caches, page tables and clocks, and does not count.
        ours();
        bound();
        let (mut all, mut values, mut bounds, mut ratios) = (vec![], vec![], vec![], vec![]);
        for _ in 0..runs {
            let (samples, limit) = (ours(), median(bound()));
            let value = median(samples.clone());
            all.extend(samples);
            values.push(value);
            bounds.push(limit);
            ratios.push(value / limit);
        }
        let (p50, p99) = (percentile(&mut all, 50), percentile(&mut all, 99));
        Self {
            name: name.to_owned(),
            value: median(values),
            unit: unit.to_owned(),
            bound: median(bounds),
            ratio: median(ratios),
            p50,
            p99,
            runs,
        }
    }
}

/// Times `batches` batches of `count` operations each; nanoseconds an operation.
pub(crate) fn time(batches: usize, count: u32, mut batch: impl FnMut()) -> Samples {
    let timed = (0..batches).map(|_| {
        let start = Instant::now();
        batch();
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    });
    timed.collect()
}

fn median(mut samples: Samples) -> f64 {
    percentile(&mut samples, 50)
}

/// The sample below which `percent` of them are.
pub(crate) fn percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() - 1) * percent / 100]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_made_of_medians() {
        let mut ours = [9.0, 4.0, 2.0, 90.0].into_iter();
        let mut bound = [1.0, 2.0, 1.0, 3.0].into_iter();
        let next = |values: &mut dyn Iterator<Item = f64>| vec![values.next().unwrap()];
        let figure = Figure::compare("f", "ns", 3, || next(&mut ours), || next(&mut bound));
        assert_eq!((figure.value, figure.bound, figure.ratio), (4.0, 2.0, 2.0));
        assert_eq!((figure.p50, figure.p99, figure.runs), (4.0, 4.0, 3));
    }
}
