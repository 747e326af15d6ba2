use proptest::prelude::*;

use super::*;
use crate::tokenizer::Vocabulary;

/// A vocabulary whose first 256 ids are the bytes; 256 is a control token.
fn bytes() -> Tokenizer {
    let texts: Vec<String> = (0..=255u8).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut types = vec![6; 256];
    types.push(3);
    let vocabulary = Vocabulary {
        model: "llama",
        tokens: texts.iter().map(|text| text.as_bytes()).chain([&b"<s>"[..]]).collect(),
        scores: Some(vec![0.0; 257]),
        types: Some(types),
        ..Vocabulary::default()
    };
    Tokenizer::new(&vocabulary).expect("the vocabulary is sound")
}

/// What each token gives, and what is left at the end.
fn stream(ids: &[u32]) -> Vec<String> {
    let tokenizer = bytes();
    let mut detokenizer = Detokenizer::new(&tokenizer, Control::Hide);
    let mut texts: Vec<String> = ids.iter().map(|&id| detokenizer.push(id).to_owned()).collect();
    texts.push(detokenizer.finish().to_owned());
    texts
}

#[test]
fn a_character_comes_with_its_last_byte() {
    assert_eq!(stream(&[0xf0, 0x9f, 0xa6, 0x80, 0x21]), ["", "", "", "🦀", "!", ""]);
}

#[test]
fn a_control_token_inside_a_character_changes_nothing() {
    assert_eq!(stream(&[0xe4, 256, 0xbd, 0xa0]), ["", "", "", "你", ""]);
}

#[test]
fn what_can_never_be_whole_is_replaced_at_once() {
    // A space shows that the crab has no end, and comes itself.
    assert_eq!(stream(&[0xf0, 0x9f, 0x20, 0x61]), ["", "", "\u{fffd} ", "a", ""]);
    assert_eq!(stream(&[0x61, 0xff, 0x62]), ["a", "\u{fffd}", "b", ""]);
    assert_eq!(stream(&[0x80, 0xe4, 0xe4, 0xbd, 0xa0]), ["\u{fffd}", "", "\u{fffd}", "", "你", ""]);
    // No character begins with ED A0: that would be a surrogate.
    assert_eq!(stream(&[0xed, 0xa0]), ["", "\u{fffd}\u{fffd}", ""]);
}

#[test]
fn an_end_inside_a_character_is_one_replacement() {
    assert_eq!(stream(&[0x61, 0xf0, 0x9f, 0xa6]), ["a", "", "", "", "\u{fffd}"]);
}

#[test]
fn a_finished_stream_begins_anew() {
    let tokenizer = bytes();
    let mut detokenizer = Detokenizer::new(&tokenizer, Control::Hide);
    detokenizer.push(0xe4);
    assert_eq!(detokenizer.finish(), "\u{fffd}");
    assert_eq!(detokenizer.finish(), "");
    assert_eq!(detokenizer.push(0x61), "a");
}

#[test]
fn control_tokens_show_their_names_when_asked_to() {
    let tokenizer = bytes();
    let mut detokenizer = Detokenizer::new(&tokenizer, Control::Show);
    assert_eq!(detokenizer.push(256), "<s>");
    assert_eq!(detokenizer.push(0x61), "a");
    assert_eq!(detokenizer.push(u32::MAX), "");
}

proptest! {
    #[test]
    fn the_stream_is_the_text_of_all_tokens_at_once(
        ids in prop::collection::vec(prop_oneof![0u32..300, 0x80u32..0x100, 0xe0u32..0xf8], 0..40),
    ) {
        prop_assert_eq!(stream(&ids).concat(), bytes().decode(&ids));
    }

    #[test]
    fn valid_text_streams_without_replacements(text in "\\PC{0,20}") {
        let ids: Vec<u32> = text.bytes().map(u32::from).collect();
        prop_assert_eq!(stream(&ids).concat(), text);
    }
}
