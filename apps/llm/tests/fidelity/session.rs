//! What a session refuses, and what it forgets.

use pangea_llm::Error;

use super::{Plain, fixture, model};

fn plain() -> Plain {
    Plain::load(&fixture("llama-h4kv2-tied-f16"), 1)
}

#[track_caller]
fn assert_refused<T>(result: Result<T, Error>, expected: &str) {
    let Err(error) = result else { panic!("{expected} should be refused") };
    assert!(error.to_string().contains(expected), "{error} should say {expected}");
}

#[test]
fn what_cannot_be_read_is_refused_and_changes_nothing() {
    let plain = plain();
    let model = model(&plain, 1);
    let mut session = model.session(4).expect("room");
    let expected = session.forward(&[1, 2, 3]).expect("sound").to_vec();
    assert_refused(session.forward(&[]), "tokens: there is none");
    assert_refused(session.forward(&[5, 321]), "tokens: 321 is none; the vocabulary has 321");
    assert_refused(
        session.forward(&[5, 6]),
        "tokens: the text would have 5, and there is room for 4",
    );
    assert_refused(session.forward_each(&[5, u32::MAX], |_, _| ()), "4294967295 is none");
    assert_eq!(session.cache().len(), 3);
    session.truncate(2);
    assert_eq!(session.forward(&[3]).expect("sound"), expected);
}

#[test]
fn a_text_longer_than_the_model_knows_is_refused() {
    let plain = plain();
    let model = model(&plain, 1);
    assert_refused(model.session(0), "context size: is 0; 1 to 256");
    assert_refused(model.session(257), "context size: is 257; 1 to 256");
    let full = model.session(256).expect("room");
    // Keys and values, of 3 layers and 2 heads, for 256 positions, of 16 floats.
    assert_eq!(full.cache().bytes(), 2 * 3 * 2 * 256 * 16 * 4);
}

#[test]
fn each_token_has_the_logits_that_reading_up_to_it_gives() {
    let plain = plain();
    let model = model(&plain, 1);
    let ids: Vec<u32> = (0..70).collect();
    let mut session = model.session(70).expect("room");
    let mut places = Vec::new();
    let mut each = Vec::new();
    let visit = |place: usize, logits: &[f32]| {
        places.push(place);
        each.push(logits.to_vec());
    };
    session.forward_each(&ids, visit).expect("sound");
    assert_eq!(places, (0..70).collect::<Vec<_>>());
    for len in [1, 2, 64, 65, 70] {
        session.truncate(0);
        assert_eq!(session.forward(&ids[..len]).expect("sound"), each[len - 1], "{len}");
    }
}
