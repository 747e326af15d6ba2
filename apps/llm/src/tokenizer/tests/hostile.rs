//! Vocabularies as no converter writes them.

use proptest::{
    array::{uniform3, uniform5},
    collection::vec,
    option,
    prelude::*,
};

use super::*;
use crate::gguf::writer::{Typed, Writer};

fn refused(vocabulary: &Vocabulary<'_>) -> String {
    Tokenizer::new(vocabulary).expect_err("the vocabulary is not sound").to_string()
}

fn check_refused(expected: &str, change: impl FnOnce(&mut Vocabulary<'_>)) {
    let tokens = bytes_and_merges();
    let mut vocabulary = bpe_vocabulary(&tokens);
    change(&mut vocabulary);
    assert_eq!(refused(&vocabulary), expected);
}

#[test]
fn special_ids_outside_the_vocabulary_are_refused() {
    let expected = "malformed model: tokenizer.ggml.eos_token_id: 269, but there are 269 tokens";
    check_refused(expected, |vocabulary| vocabulary.eos = Some(269));
    for set in [
        (|v, id| v.bos = id) as fn(&mut Vocabulary<'_>, Option<u32>),
        |v, id| v.eos = id,
        |v, id| v.eot = id,
        |v, id| v.eom = id,
        |v, id| v.unknown = id,
    ] {
        let tokens = bytes_and_merges();
        let mut vocabulary = bpe_vocabulary(&tokens);
        set(&mut vocabulary, Some(u32::MAX));
        assert!(refused(&vocabulary).contains("_id: 4294967295, but there are 269 tokens"));
    }
}

#[test]
fn lengths_that_do_not_agree_are_refused() {
    for (length, key) in [(268, "token_type"), (270, "token_type")] {
        let expected = format!(
            "malformed model: tokenizer.ggml.{key}: {length} entries, but there are 269 tokens"
        );
        check_refused(&expected, |vocabulary| vocabulary.types = Some(vec![1; length]));
    }
    let expected = "malformed model: tokenizer.ggml.scores: 268 entries, but there are 269 tokens";
    check_refused(expected, |vocabulary| vocabulary.scores = Some(vec![0.0; 268]));
}

#[test]
fn merges_that_are_no_pairs_are_refused() {
    for (merge, shown) in [("ab", "ab"), ("a ", "a "), (" b", " b"), ("", "")] {
        let expected = format!(
            "malformed model: tokenizer.ggml.merges[1]: \"{shown}\" is not two texts with a space \
             between"
        );
        check_refused(&expected, |v| v.merges = Some(vec![b"t h", merge.as_bytes()]));
    }
    let expected = "malformed model: tokenizer.ggml.merges: \"b c\" is not spelled in bytes";
    check_refused(expected, |v| v.merges = Some(vec![b"a b c"]));
    let expected = "malformed model: tokenizer.ggml.merges: \"\u{fffd}\" is not spelled in bytes";
    check_refused(expected, |v| v.merges = Some(vec![b"a \xff"]));
}

#[test]
fn entries_that_a_model_needs_are_asked_for() {
    let expected = "malformed model: tokenizer.ggml.tokens: there are none";
    check_refused(expected, |vocabulary| vocabulary.tokens = Vec::new());
    let expected =
        "malformed model: tokenizer.ggml.merges: missing, but a gpt2 tokenizer needs them";
    check_refused(expected, |vocabulary| vocabulary.merges = None);
    let expected =
        "malformed model: tokenizer.ggml.scores: missing, but a llama tokenizer needs them";
    check_refused(expected, |vocabulary| vocabulary.model = "llama");
    let expected = "malformed model: tokenizer.ggml.scores[7]: not a number";
    check_refused(expected, |vocabulary| {
        vocabulary.model = "llama";
        let scores = vocabulary.scores.insert(vec![0.0; 269]);
        scores[7] = f32::NAN;
    });
}

#[test]
fn types_that_mean_nothing_are_refused() {
    let expected = "malformed model: tokenizer.ggml.token_type[3]: 7, but types are 0 to 6";
    check_refused(expected, |vocabulary| vocabulary.types.as_mut().unwrap()[3] = 7);
    let expected =
        "malformed model: tokenizer.ggml.token_type[256]: a byte, but its text is \"th\"";
    check_refused(expected, |vocabulary| vocabulary.types.as_mut().unwrap()[256] = 6);
}

#[test]
fn unknown_models_and_patterns_are_named() {
    let expected =
        "unsupported: tokenizer.ggml.model: \"bert\"; supported are \"gpt2\" and \"llama\"";
    check_refused(expected, |vocabulary| vocabulary.model = "bert");
    let tokens = bytes_and_merges();
    let vocabulary = Vocabulary { pre: Some("tekken"), ..bpe_vocabulary(&tokens) };
    let message = refused(&vocabulary);
    assert!(message.starts_with("unsupported: tokenizer.ggml.pre: \"tekken\"; supported are "));
    assert!(message.contains("llama-bpe") && message.contains("qwen2"));
}

#[test]
fn one_token_is_vocabulary_enough() {
    for (model, text, printed) in [
        ("gpt2", "a", "a"),
        ("gpt2", "<0x41>", "<0x41>"),
        ("llama", "a", "a"),
        ("llama", "<0x41>", "A"),
    ] {
        let vocabulary = Vocabulary {
            model,
            tokens: vec![text.as_bytes()],
            scores: Some(vec![0.0]),
            merges: Some(Vec::new()),
            ..Vocabulary::default()
        };
        let tokenizer = Tokenizer::new(&vocabulary).unwrap();
        assert_eq!((tokenizer.bos(), tokenizer.ends()), (None, &[][..]));
        assert!(tokenizer.encode_prompt("aA é", Special::Parse).iter().all(|&id| id == 0));
        assert_eq!(tokenizer.decode(&[0, 1, u32::MAX]), printed);
    }
}

#[test]
fn of_two_tokens_with_one_text_the_first_is_used() {
    let tokenizer = bpe(|vocabulary| vocabulary.tokens[TH as usize] = b"the");
    assert_eq!(tokenizer.encode("the", Special::Text), [TH]);
    assert_eq!(tokenizer.decode(&[TH, THE]), "thethe");
}

#[test]
fn empty_invalid_and_huge_tokens_do_no_harm() {
    static HUGE: [u8; 100 << 10] = [b'a'; 100 << 10];
    let texts = [&b""[..], b"\xff\xfe", b"\xa9", &HUGE];
    for (token_type, text) in (1..6).flat_map(|t| texts.map(|text| (t, text))) {
        let tokenizer = bpe(|vocabulary| {
            vocabulary.tokens[TOOL as usize] = text;
            vocabulary.types.as_mut().unwrap()[TOOL as usize] = token_type;
        });
        let printed = String::from_utf8_lossy(text);
        let expected = if [1, 4].contains(&token_type) { &printed } else { "" };
        assert_eq!(tokenizer.decode(&[TOOL]), expected);
        let long = format!("é{}", "a".repeat(HUGE.len() + 1));
        assert_eq!(tokenizer.decode(&tokenizer.encode(&long, Special::Text)), long);
    }
}

/// The message about a file whose entry `key` is `value`.
fn refused_file(key: &str, value: Typed<'_>) -> String {
    let mut writer = Writer::default().key("tokenizer.ggml.model", Typed::Text("llama"));
    let key = format!("tokenizer.ggml.{key}");
    let tokens = [&b"<unk>"[..], b"<s>", b"a"];
    let scores = [0f32; 3].iter().flat_map(|score| score.to_le_bytes()).collect();
    for (name, entry) in [
        ("tokenizer.ggml.tokens", Typed::strings(&tokens)),
        ("tokenizer.ggml.scores", Typed::Array(6, 3, scores)),
    ] {
        if name != key {
            writer = writer.key(name, entry);
        }
    }
    let bytes = writer.key(&key, value).finish();
    let gguf = Gguf::parse(&bytes).expect("the file is well formed");
    Tokenizer::from_gguf(&gguf).expect_err("the entry is wrong").to_string()
}

#[test]
fn entries_of_other_types_are_refused_with_both_types() {
    for (key, value, found, wanted) in [
        ("scores", Typed::Array(0, 3, vec![0; 3]), "array of 3 u8", "an array of f32 or f64"),
        ("scores", Typed::Array(11, 3, vec![0; 24]), "array of 3 i64", "an array of f32 or f64"),
        ("token_type", Typed::Array(0, 3, vec![1; 3]), "array of 3 u8", "an array of i32"),
        ("merges", Typed::Array(4, 1, vec![0; 4]), "array of 1 u32", "an array of strings"),
        ("tokens", Typed::Text("a"), "string \"a\"", "an array of strings"),
        ("bos_token_id", Typed::I32(-1), "i32 -1", "a whole number, not negative"),
        ("add_bos_token", Typed::U32(1), "u32 1", "a bool"),
    ] {
        let expected =
            format!("malformed model: tokenizer.ggml.{key}: is {found}, and should be {wanted}");
        assert_eq!(refused_file(key, value), expected);
    }
}

#[test]
fn files_whose_lengths_do_not_agree_are_refused() {
    for count in [2u64, 4] {
        let zeros = vec![0; 4 * usize::try_from(count).unwrap()];
        let message = refused_file("scores", Typed::Array(6, count, zeros));
        let expected = format!("scores: {count} entries, but there are 3 tokens");
        assert!(message.ends_with(&expected), "{message}");
    }
}

/// Texts and names that are likely to meet.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ab▁Ġ ]{0,4}".prop_map(String::into_bytes),
        "<0x[0-9A-F]{2}>".prop_map(String::into_bytes),
        "<[|]im_end[|]>|<s>|</s>".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..5),
    ]
}

/// A vocabulary's entries, of which a [`Vocabulary`] borrows.
#[derive(Debug)]
struct Entries {
    model: &'static str,
    pre: &'static str,
    tokens: Vec<(Vec<u8>, i32, f32)>,
    has_types: bool,
    merges: Vec<String>,
    ids: [Option<u32>; 5],
    flags: [Option<bool>; 3],
}

prop_compose! {
    fn entries()(
        model in prop_oneof![Just("gpt2"), Just("llama")],
        pre in prop_oneof![Just("gpt-2"), Just("smollm"), Just("llama-bpe"), Just("qwen2")],
        tokens in vec((fragment(), 0i32..7, -9f32..9.0), 1..40),
        has_types: bool,
        merges in vec("[abĠ]{1,2} [abĠ]{1,2}", 0..20),
        ids in uniform5(option::of(0u32..40)),
        flags in uniform3(option::of(any::<bool>())),
    ) -> Entries {
        Entries { model, pre, tokens, has_types, merges, ids, flags }
    }
}

impl Entries {
    fn vocabulary(&self) -> Vocabulary<'_> {
        let types = || self.tokens.iter().map(|&(_, token_type, _)| token_type).collect();
        let ids = self.ids.map(|id| id.filter(|&id| (id as usize) < self.tokens.len()));
        Vocabulary {
            model: self.model,
            pre: Some(self.pre),
            tokens: self.tokens.iter().map(|(text, ..)| text.as_slice()).collect(),
            types: self.has_types.then(types),
            scores: Some(self.tokens.iter().map(|&(.., score)| score).collect()),
            merges: Some(self.merges.iter().map(|merge| merge.as_bytes()).collect()),
            bos: ids[0],
            eos: ids[1],
            eot: ids[2],
            eom: ids[3],
            unknown: ids[4],
            add_bos: self.flags[0],
            add_eos: self.flags[1],
            add_space_prefix: self.flags[2],
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_vocabulary_nothing_panics(
        entries in entries(),
        text in "([ab▁Ġ ]|<s>|<[|]im_end[|]>|\\PC){0,12}",
        foreign in vec(any::<u32>(), 0..5),
    ) {
        // A byte token that spells no byte is refused; all others are sound.
        let Ok(tokenizer) = Tokenizer::new(&entries.vocabulary()) else { return Ok(()) };
        for special in [Special::Parse, Special::Text] {
            let ids = tokenizer.encode_prompt(&text, special);
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.len()));
            tokenizer.decode(&ids);
        }
        tokenizer.decode(&foreign);
    }

    #[test]
    fn a_vocabulary_of_all_bytes_spells_any_text(text: String) {
        for pre in ["gpt-2", "smollm", "llama-bpe", "qwen2"] {
            let tokenizer = bpe(|vocabulary| vocabulary.pre = Some(pre));
            let ids = tokenizer.encode(&text, Special::Text);
            prop_assert_eq!(tokenizer.decode(&ids), text.clone());
        }
    }
}
