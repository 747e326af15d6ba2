//! Rotary position embedding: pairs of elements are turned by angles that grow with the position.

use crate::config::{Rope, RopeOrder};

/// The turns of the tokens of one batch; the same for all layers and heads.
#[derive(Debug)]
pub(super) struct Turns {
    order: RopeOrder,
    // The angle of each pair at position 1.
    frequencies: Vec<f64>,
    // Cosine and sine, tokens × pairs.
    turns: Vec<(f32, f32)>,
}

impl Turns {
    pub(super) fn new(rope: &Rope, factors: Option<&[f32]>) -> Self {
        let pairs = rope.len / 2;
        let frequency = |pair: usize| {
            let power = -(pair as f64) / pairs as f64;
            let factor = factors.map_or(1.0, |factors| f64::from(factors[pair]));
            f64::from(rope.scale) * f64::from(rope.theta).powf(power) / factor
        };
        let frequencies = (0..pairs).map(frequency).collect();
        Self { order: rope.order, frequencies, turns: Vec::new() }
    }

    /// Prepares for `tokens` tokens from `position` on.
    #[expect(clippy::cast_possible_truncation, reason = "rounded after all else is computed")]
    pub(super) fn set(&mut self, position: usize, tokens: usize) {
        self.turns.clear();
        for position in position..position + tokens {
            self.turns.extend(self.frequencies.iter().map(|frequency| {
                let (sine, cosine) = (position as f64 * frequency).sin_cos();
                (cosine as f32, sine as f32)
            }));
        }
    }

    /// Turns `vectors`, which are tokens × heads × `head_len`.
    pub(super) fn turn(&self, vectors: &mut [f32], head_len: usize) {
        let pairs = self.frequencies.len();
        let tokens = self.turns.chunks_exact(pairs);
        let token_len = vectors.len() / tokens.len();
        for (vector, turns) in vectors.chunks_exact_mut(token_len).zip(tokens) {
            for head in vector.chunks_exact_mut(head_len) {
                match self.order {
                    RopeOrder::Adjacent => turn_adjacent(&mut head[..2 * pairs], turns),
                    RopeOrder::Halves => turn_halves(&mut head[..2 * pairs], turns),
                }
            }
        }
    }
}

fn turn_adjacent(head: &mut [f32], turns: &[(f32, f32)]) {
    for ([a, b], turn) in head.as_chunks_mut().0.iter_mut().zip(turns) {
        (*a, *b) = turned(*a, *b, *turn);
    }
}

fn turn_halves(head: &mut [f32], turns: &[(f32, f32)]) {
    let (first, second) = head.split_at_mut(turns.len());
    for ((a, b), turn) in first.iter_mut().zip(second).zip(turns) {
        (*a, *b) = turned(*a, *b, *turn);
    }
}

fn turned(a: f32, b: f32, (cosine, sine): (f32, f32)) -> (f32, f32) {
    (a * cosine - b * sine, a * sine + b * cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_turns_its_pairs_and_leaves_the_rest() {
        for (order, expected) in [
            (RopeOrder::Adjacent, [0.0, 1.0, 1.0, 0.0, 5.0]),
            (RopeOrder::Halves, [0.0, 0.0, 1.0, 1.0, 5.0]),
        ] {
            let turns = [(0.0, 1.0), (1.0, 0.0)].to_vec();
            let turns = Turns { order, frequencies: vec![0.0; 2], turns };
            // A quarter turn of the first pair, none of the second.
            let mut head = match order {
                RopeOrder::Adjacent => [1.0, 0.0, 1.0, 0.0, 5.0],
                RopeOrder::Halves => [1.0, 0.0, 0.0, 1.0, 5.0],
            };
            turns.turn(&mut head, 5);
            assert_eq!(head, expected, "{order:?}");
        }
    }

    #[test]
    fn factors_and_the_scale_slow_the_turning_down() {
        let rope =
            Rope { order: RopeOrder::Halves, len: 4, theta: 100.0, scale: 0.5, factors: true };
        let turns = Turns::new(&rope, Some(&[1.0, 5.0]));
        assert_eq!(turns.frequencies, [0.5, 0.5 * 0.1 / 5.0]);
    }
}
