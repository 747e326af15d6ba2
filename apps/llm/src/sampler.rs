//! Choosing the next token from the logits.
//!
//! The filters come in llama.cpp's order: top-k, top-p, min-p, and the temperature last, so that
//! which tokens are considered does not depend on it. The choice is the same on every platform:
//! nothing here calls the system's mathematics library, and every sum has one order.

mod exponential;
mod random;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use exponential::exp;
use random::Random;

use crate::{Error, Result};

/// How tokens are chosen. The default takes the most likely one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Above 1 evens the probabilities out, below 1 sharpens them; 0 takes the most likely token.
    pub temperature: f32,
    /// Only this many of the most likely tokens are considered; 0 for all.
    pub top_k: usize,
    /// Only the most likely tokens that together reach this probability are considered; 1 for all.
    pub top_p: f32,
    /// Only tokens with at least this share of the highest probability are considered; 0 for all.
    pub min_p: f32,
    /// The same seed gives the same choices.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 }
    }
}

/// Chooses tokens.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Random,
    /// The tokens under consideration; their memory is used again for each choice.
    candidates: Vec<Candidate>,
    weights: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u32,
    logit: f32,
}

impl Sampler {
    /// A sampler, if `sampling` makes sense.
    pub fn new(sampling: Sampling) -> Result<Self> {
        let Sampling { temperature, top_p, min_p, seed, .. } = sampling;
        if !(temperature.is_finite() && temperature >= 0.0) {
            let reason = format!("{temperature}, but it must be a number from 0 upwards");
            return Err(Error::Argument { field: "temperature", reason });
        }
        check_share("top_p", top_p)?;
        check_share("min_p", min_p)?;
        let random = Random::new(seed);
        Ok(Self { sampling, random, candidates: Vec::new(), weights: Vec::new() })
    }

    /// The id of the next token, where `logits` has a number for each.
    ///
    /// NaN is taken for minus infinity. Of equals, the lowest id is the more likely.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32> {
        if logits.is_empty() {
            let reason = "there are none to choose from".into();
            return Err(Error::Argument { field: "logits", reason });
        }
        let highest = max(logits);
        if self.sampling.temperature == 0.0 {
            let first = (0..).zip(logits).find(|&(_, &logit)| logit == highest);
            return Ok(first.map_or(0, |(id, _)| id));
        }
        self.consider(logits);
        self.keep_top_k();
        self.keep_top_p(highest);
        self.keep_min_p(highest);
        Ok(self.draw(highest))
    }

    /// Takes all tokens for candidates, but for those that are certainly not among the top-k.
    fn consider(&mut self, logits: &[f32]) {
        let floor = top_k_floor(logits, self.sampling.top_k);
        let candidates = (0..).zip(logits).map(|(id, &logit)| Candidate::new(id, logit));
        self.candidates.clear();
        self.candidates.extend(candidates.filter(|candidate| candidate.logit >= floor));
    }

    fn keep_top_k(&mut self) {
        let count = self.sampling.top_k;
        if count == 0 || count >= self.candidates.len() {
            return;
        }
        self.candidates.select_nth_unstable_by(count - 1, Candidate::by_rank);
        self.candidates.truncate(count);
        // The selection leaves them in an order of its own, which sums must not depend on.
        self.candidates.sort_unstable_by(Candidate::by_rank);
    }

    fn keep_top_p(&mut self, highest: f32) {
        if self.sampling.top_p == 1.0 {
            return;
        }
        let total: f64 = self.candidates.iter().map(|c| c.weight(highest, 1.0)).sum();
        let wanted = total * f64::from(self.sampling.top_p);
        let mut sum = 0.0;
        let mut sorted = 0;
        // A few tokens often have nearly all probability, so no more are sorted than that takes.
        while sorted < self.candidates.len() {
            let rest = &mut self.candidates[sorted..];
            let count = rest.len().min(sorted.max(256));
            rest.select_nth_unstable_by(count - 1, Candidate::by_rank);
            rest[..count].sort_unstable_by(Candidate::by_rank);
            for candidate in &rest[..count] {
                sorted += 1;
                sum += candidate.weight(highest, 1.0);
                if sum >= wanted {
                    self.candidates.truncate(sorted);
                    return;
                }
            }
        }
    }

    fn keep_min_p(&mut self, highest: f32) {
        let share = f64::from(self.sampling.min_p);
        if share > 0.0 {
            self.candidates.retain(|candidate| candidate.weight(highest, 1.0) >= share);
        }
    }

    /// One of the candidates, each as often as its weight says.
    fn draw(&mut self, highest: f32) -> u32 {
        let temperature = f64::from(self.sampling.temperature);
        self.weights.clear();
        self.weights.extend(self.candidates.iter().map(|c| c.weight(highest, temperature)));
        let point = self.random.unit() * self.weights.iter().sum::<f64>();
        let place = place_of(point, &self.weights);
        self.candidates[place].id
    }
}

impl Candidate {
    fn new(id: u32, logit: f32) -> Self {
        // Adding 0 makes -0 equal to it.
        Self { id, logit: if logit.is_nan() { f32::NEG_INFINITY } else { logit + 0.0 } }
    }

    /// The most likely first.
    fn by_rank(&self, other: &Self) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.id.cmp(&other.id))
    }

    /// The probability relative to that of a token with the `highest` logit.
    fn weight(&self, highest: f32, temperature: f64) -> f64 {
        if self.logit == highest {
            return 1.0; // also of infinities, whose difference is no number
        }
        exp((f64::from(self.logit) - f64::from(highest)) / temperature)
    }
}

fn check_share(field: &'static str, share: f32) -> Result<()> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    Err(Error::Argument { field, reason: format!("{share}, but it must be a number from 0 to 1") })
}

/// A number that at least `count` logits reach, so that the highest `count` do: the lowest of the
/// maxima of as many stretches. Few others reach it, which leaves little to select from.
fn top_k_floor(logits: &[f32], count: usize) -> f32 {
    match logits.len().checked_div(count) {
        None | Some(0) => f32::NEG_INFINITY,
        Some(length) => logits.chunks_exact(length).map(max).fold(f32::INFINITY, f32::min),
    }
}

/// The highest logit; NaN is none.
fn max(logits: &[f32]) -> f32 {
    logits.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// The place of the weight that covers `point` when they are laid end to end. A point beyond all of
/// them, where rounding can put it, is covered by the last that is not 0.
fn place_of(point: f64, weights: &[f64]) -> usize {
    let mut end = 0.0;
    let mut place = 0;
    for (next, &weight) in weights.iter().enumerate().filter(|&(_, &weight)| weight > 0.0) {
        place = next;
        end += weight;
        if point < end {
            break;
        }
    }
    place
}
