use proptest::prelude::*;

use super::*;

fn sampler(sampling: Sampling) -> Sampler {
    Sampler::new(sampling).expect("settings are valid")
}

fn hot(seed: u64) -> Sampling {
    Sampling { temperature: 1.0, seed, ..Sampling::default() }
}

/// How often each token is chosen in `rounds` choices.
fn counts(sampling: Sampling, logits: &[f32], rounds: u32) -> Vec<u32> {
    let mut sampler = sampler(sampling);
    let mut counts = vec![0; logits.len()];
    for _ in 0..rounds {
        counts[sampler.sample(logits).unwrap() as usize] += 1;
    }
    counts
}

/// The ids that are ever chosen.
fn chosen(sampling: Sampling, logits: &[f32]) -> Vec<usize> {
    let counts = counts(sampling, logits, 2000);
    (0..logits.len()).filter(|&id| counts[id] > 0).collect()
}

/// Logits of tokens with these probabilities.
fn logits_of(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

#[test]
fn at_temperature_0_the_highest_wins_and_of_equals_the_first() {
    let mut greedy = sampler(Sampling::default());
    assert_eq!(greedy.sample(&[0.5, 2.0, -1.0, 2.0]).unwrap(), 1);
    assert_eq!(greedy.sample(&[f32::NAN, -3.0, f32::NAN]).unwrap(), 1);
    assert_eq!(greedy.sample(&[f32::NAN, f32::NAN]).unwrap(), 0);
    assert_eq!(greedy.sample(&[f32::NEG_INFINITY; 3]).unwrap(), 0);
    assert_eq!(greedy.sample(&[1.0, f32::INFINITY]).unwrap(), 1);
}

#[test]
fn tokens_come_as_often_as_their_probabilities_say() {
    let probabilities = [0.5, 0.3, 0.15, 0.05];
    let counts = counts(hot(7), &logits_of(&probabilities), 100_000);
    for (count, p) in counts.iter().zip(probabilities) {
        assert!((f64::from(*count) / 100_000.0 - f64::from(p)).abs() < 0.006, "{counts:?}");
    }
}

#[test]
fn the_temperature_raises_probabilities_to_its_inverse() {
    let sampling = Sampling { temperature: 2.0, ..hot(1) };
    // Square roots of 0.64 and 0.36 are as 8 to 6.
    let counts = counts(sampling, &logits_of(&[0.64, 0.36]), 100_000);
    assert!((f64::from(counts[0]) / 100_000.0 - 8.0 / 14.0).abs() < 0.006, "{counts:?}");
}

#[test]
fn top_k_keeps_the_most_likely_and_of_equals_the_first() {
    let logits = [1.0, 3.0, 2.0, 3.0, 2.0];
    assert_eq!(chosen(Sampling { top_k: 2, ..hot(0) }, &logits), [1, 3]);
    assert_eq!(chosen(Sampling { top_k: 3, ..hot(0) }, &logits), [1, 2, 3]);
    assert_eq!(chosen(Sampling { top_k: 99, ..hot(0) }, &logits), [0, 1, 2, 3, 4]);
    assert_eq!(chosen(Sampling { top_k: 1, ..hot(0) }, &[-0.0, 0.0]), [0]);
}

#[test]
fn top_k_chooses_as_if_the_others_were_not_there() {
    let ranked: Vec<f32> = (0u8..50).map(|rank| f32::from(rank) * -0.1).collect();
    // 29 has no factor in common with 101, so that this is an order of all ids.
    let id_of = |rank: u32| (rank * 29 + 7) % 101;
    let mut logits = vec![-100.0; 101];
    (0..).zip(&ranked).for_each(|(rank, &logit)| logits[id_of(rank) as usize] = logit);
    let mut few = sampler(hot(5));
    let mut many = sampler(Sampling { top_k: ranked.len(), ..hot(5) });
    for _ in 0..100 {
        assert_eq!(many.sample(&logits).unwrap(), id_of(few.sample(&ranked).unwrap()));
    }
}

#[test]
fn a_point_on_the_edge_is_covered_by_a_weight_that_is_not_0() {
    assert_eq!(place_of(0.0, &[0.0, 1.0, 2.0, 0.0]), 1);
    assert_eq!(place_of(1.0, &[0.0, 1.0, 2.0, 0.0]), 2);
    assert_eq!(place_of(3.0, &[0.0, 1.0, 2.0, 0.0]), 2);
}

#[test]
fn top_p_keeps_the_fewest_that_reach_it() {
    let logits = logits_of(&[0.1, 0.4, 0.3, 0.2]);
    assert_eq!(chosen(Sampling { top_p: 0.0, ..hot(0) }, &logits), [1]);
    assert_eq!(chosen(Sampling { top_p: 0.39, ..hot(0) }, &logits), [1]);
    assert_eq!(chosen(Sampling { top_p: 0.65, ..hot(0) }, &logits), [1, 2]);
    assert_eq!(chosen(Sampling { top_p: 0.95, ..hot(0) }, &logits), [0, 1, 2, 3]);
}

#[test]
fn top_p_finds_its_tokens_among_many() {
    // Of 10,000 equal tokens, the first tenth.
    let mut sampler = sampler(Sampling { top_p: 0.1, ..hot(3) });
    let ids: Vec<u32> = (0..5000).map(|_| sampler.sample(&[0.5; 10_000]).unwrap()).collect();
    assert!(ids.iter().all(|&id| id < 1001));
    assert!(ids.iter().any(|&id| id > 900));
}

#[test]
fn min_p_keeps_those_near_the_most_likely() {
    let logits = logits_of(&[0.06, 0.5, 0.24, 0.2]);
    assert_eq!(chosen(Sampling { min_p: 0.45, ..hot(0) }, &logits), [1, 2]);
    assert_eq!(chosen(Sampling { min_p: 1.0, ..hot(0) }, &logits), [1]);
}

#[test]
fn filters_do_not_see_the_temperature() {
    let logits = logits_of(&[0.1, 0.4, 0.3, 0.2]);
    let hotter = Sampling { temperature: 50.0, top_p: 0.65, ..hot(0) };
    assert_eq!(chosen(hotter, &logits), [1, 2]);
    let hotter = Sampling { temperature: 50.0, min_p: 0.7, ..hot(0) };
    assert_eq!(chosen(hotter, &logits), [1, 2]);
}

#[test]
fn top_p_counts_the_probability_of_what_top_k_left() {
    // Among the two left, the first has 0.57 of the probability.
    let logits = logits_of(&[0.1, 0.4, 0.3, 0.2]);
    assert_eq!(chosen(Sampling { top_k: 2, top_p: 0.5, ..hot(0) }, &logits), [1]);
}

#[test]
fn a_seed_gives_one_sequence_on_every_platform() {
    let logits: Vec<f32> = (0u8..200).map(|id| f32::from(id % 17) * 0.3).collect();
    let draw = |seed| {
        let mut sampler = sampler(Sampling { top_k: 40, top_p: 0.95, min_p: 0.05, ..hot(seed) });
        [(); 8].map(|()| sampler.sample(&logits).unwrap())
    };
    assert_eq!(draw(42), draw(42));
    assert_ne!(draw(42), draw(43));
    assert_eq!(draw(42), [31, 84, 135, 169, 33, 133, 101, 82]);
}

#[test]
fn infinite_logits_are_chosen_from_evenly() {
    let logits = [f32::INFINITY, 0.0, f32::INFINITY, f32::NAN];
    assert_eq!(chosen(hot(0), &logits), [0, 2]);
    assert_eq!(chosen(Sampling { temperature: 1e-30, ..hot(0) }, &[1.0, 2.0, 2.0]), [1, 2]);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let refused = |sampling| match Sampler::new(sampling) {
        Err(Error::Argument { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    for temperature in [f32::NAN, -0.1, f32::INFINITY] {
        assert_eq!(refused(Sampling { temperature, ..hot(0) }), "temperature");
    }
    for share in [f32::NAN, -0.1, 1.01, f32::INFINITY] {
        assert_eq!(refused(Sampling { top_p: share, ..hot(0) }), "top_p");
        assert_eq!(refused(Sampling { min_p: share, ..hot(0) }), "min_p");
    }
}

#[test]
fn no_logits_are_an_error() {
    let error = sampler(hot(0)).sample(&[]).unwrap_err();
    assert_eq!(error.to_string(), "logits: there are none to choose from");
}

proptest! {
    #[test]
    fn top_k_is_the_beginning_of_the_sorted_tokens(
        numbers in prop::collection::vec(-9i8..9, 1..99),
        top_k in 1usize..99,
        seed: u64,
    ) {
        let mut logits: Vec<f32> = numbers.iter().map(|&number| number.into()).collect();
        logits[0] = f32::NAN;
        let sampling = Sampling { temperature: 99.0, top_k, ..hot(seed) };
        let id = sampler(sampling).sample(&logits).unwrap();
        let mut ranked: Vec<u32> = (0..).take(logits.len()).collect();
        let number = |id: u32| logits[id as usize].max(f32::NEG_INFINITY);
        ranked.sort_by(|&a, &b| number(b).total_cmp(&number(a)));
        prop_assert!(ranked.iter().take(top_k).any(|&ranked| ranked == id));
    }

    #[test]
    fn any_logits_give_an_id_among_them(
        logits in prop::collection::vec(any::<f32>(), 1..700),
        temperature in 0f32..4.0,
        top_k in 0usize..800,
        top_p in 0f32..=1.0,
        min_p in 0f32..=1.0,
        seed: u64,
    ) {
        let mut sampler = sampler(Sampling { temperature, top_k, top_p, min_p, seed });
        prop_assert!((sampler.sample(&logits).unwrap() as usize) < logits.len());
    }
}
