//! How well a model predicts a text.

use crate::{Error, Result, forward::Session};

/// How surprised a model was by a text.
#[derive(Clone, Copy, Debug)]
pub struct Surprise {
    /// The mean of the negative logarithms of the probabilities of the tokens that came, in nats.
    pub mean: f64,
    /// Tokens that were predicted.
    pub predictions: u32,
}

impl Surprise {
    /// Among how many equally likely tokens the model might as well have chosen.
    pub fn perplexity(self) -> f64 {
        self.mean.exp()
    }
}

/// Cuts `ids` into windows of `window` tokens, each of which is run from its start and predicts all
/// but its first; `check` is asked before each whether to go on.
///
/// # Errors
///
/// Where no token predicts another, a window does not fit the session, or `check` fails.
pub fn measure(
    session: &mut Session<'_>,
    ids: &[u32],
    window: usize,
    check: &dyn Fn() -> Result<()>,
) -> Result<Surprise> {
    let (mut sum, mut predictions) = (0.0, 0);
    for window in ids.chunks(window.max(1)) {
        check()?;
        session.truncate(0);
        session.forward_each(window, |at, logits| {
            if let Some(&next) = window.get(at + 1) {
                sum += surprise(logits, next);
                predictions += 1;
            }
        })?;
    }
    if predictions == 0 {
        let reason = "no token of it predicts another; it needs two in a window".to_owned();
        return Err(Error::Argument { field: "text", reason });
    }
    Ok(Surprise { mean: sum / f64::from(predictions), predictions })
}

/// The negative logarithm of the probability that `logits` give to `id`.
fn surprise(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    let logit = usize::try_from(id).ok().and_then(|id| logits.get(id)).copied();
    f64::from(largest) + sum.ln() - f64::from(logit.unwrap_or(f32::NEG_INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_logits_surprise_by_the_logarithm_of_their_number() {
        assert!((surprise(&[3.0; 8], 5) - 8_f64.ln()).abs() < 1e-12);
        assert!(surprise(&[100.0, 0.0], 0) < 1e-12);
        assert!((surprise(&[100.0, 0.0], 1) - 100.0).abs() < 1e-12);
        assert_eq!(surprise(&[0.0], 7), f64::INFINITY);
    }
}
