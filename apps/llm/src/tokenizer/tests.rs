mod hostile;

use super::*;

const MERGES: [&str; 9] = ["t h", "th e", "i n", "a n", "e r", "Ġ t", "Ġt he", "Ġ a", "o n"];

/// The bytes in their order, what [`MERGES`] make of them, and special tokens.
fn bytes_and_merges() -> Vec<String> {
    let bytes = (0..=255).map(|byte| byte_alphabet::character(byte).to_string());
    let merged = MERGES.map(|merge| merge.replace(' ', ""));
    let special = ["<tool>", "<|bos|>", "<|im_end|>", "<|eos|>"].map(String::from);
    bytes.chain(merged).chain(special).collect()
}

const TH: u32 = 256;
const THE: u32 = 257;
const IN: u32 = 258;
const SPACE_THE: u32 = 262;
const TOOL: u32 = 265;
const BOS: u32 = 266;
const IM_END: u32 = 267;
const EOS: u32 = 268;

fn bpe_vocabulary(tokens: &[String]) -> Vocabulary<'_> {
    let mut types = vec![1; tokens.len()];
    types[TOOL as usize] = 4;
    types[BOS as usize..].fill(3);
    Vocabulary {
        model: "gpt2",
        pre: Some("qwen2"),
        tokens: tokens.iter().map(|token| token.as_bytes()).collect(),
        types: Some(types),
        merges: Some(MERGES.iter().map(|merge| merge.as_bytes()).collect()),
        bos: Some(BOS),
        eos: Some(EOS),
        ..Vocabulary::default()
    }
}

fn bpe(change: impl FnOnce(&mut Vocabulary<'_>)) -> Tokenizer {
    let tokens = bytes_and_merges();
    let mut vocabulary = bpe_vocabulary(&tokens);
    change(&mut vocabulary);
    Tokenizer::new(&vocabulary).expect("the vocabulary is sound")
}

/// A SentencePiece vocabulary with two byte tokens.
fn spm(change: impl FnOnce(&mut Vocabulary<'_>)) -> Tokenizer {
    let tokens = [
        ("<unk>", 2, 0.0), // 0
        ("<s>", 3, 0.0),
        ("</s>", 3, 0.0),
        ("<0xC3>", 6, 0.0),
        ("<0xA9>", 6, 0.0),
        ("▁", 1, -10.0), // 5
        ("a", 1, -10.0),
        ("b", 1, -10.0),
        ("ab", 1, -2.0),
        ("▁a", 1, -1.0),
        ("aba", 1, -0.5), // 10
        ("<", 1, -10.0),
        ("s>", 1, -3.0),
        ("s", 1, -10.0),
        (">", 1, -10.0),
    ];
    let mut vocabulary = Vocabulary {
        model: "llama",
        tokens: tokens.iter().map(|&(text, ..)| text.as_bytes()).collect(),
        types: Some(tokens.iter().map(|&(_, token_type, _)| token_type).collect()),
        scores: Some(tokens.iter().map(|&(.., score)| score).collect()),
        ..Vocabulary::default()
    };
    change(&mut vocabulary);
    Tokenizer::new(&vocabulary).expect("the vocabulary is sound")
}

#[test]
fn bpe_merges_the_first_rule_first() {
    let tokenizer = bpe(|_| ());
    // As llama.cpp has it. "Ġt he" has no chance: "t h" comes before "Ġ t".
    for (text, ids) in [
        ("the then", &[THE, 32, THE, 110][..]),
        (" the in an", &[32, THE, 32, IN, 32, 259]),
        ("I'll won't", &[73, 39, 108, 108, 32, 119, 264, 39, 116]),
        ("\n\n x", &[10, 10, 32, 120]),
        ("nine ten", &[110, IN, 101, 261, 101, 110]),
        ("rather", &[114, 97, THE, 114]),
        ("é", &[195, 169]),
    ] {
        assert_eq!(tokenizer.encode(text, Special::Text), ids, "{text:?}");
    }
}

#[test]
fn of_two_rules_for_a_pair_the_first_holds() {
    let tokenizer = bpe(|vocabulary| vocabulary.merges.as_mut().unwrap().push(b"t h"));
    assert_eq!(tokenizer.encode(" the", Special::Text), [32, THE]);
}

#[test]
fn bpe_takes_a_whole_word_where_the_pattern_says_so() {
    let tokenizer = bpe(|vocabulary| vocabulary.pre = Some("llama-bpe"));
    assert_eq!(tokenizer.encode(" the", Special::Text), [SPACE_THE]);
}

#[test]
fn bpe_merges_through_texts_that_are_no_tokens() {
    let tokenizer = bpe(|vocabulary| vocabulary.tokens[TH as usize] = b"unused");
    assert_eq!(tokenizer.encode("the", Special::Text), [THE]);
    assert_eq!(tokenizer.encode("th", Special::Text), [116, 104]);
}

#[test]
fn any_text_comes_back() {
    let tokenizer = bpe(|_| ());
    for text in ["", " ", "\r\n\t x", "naïve café", "你好 😀", "\0\u{7f}\u{feff}", "<|eos|>"]
    {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text, Special::Text)), text);
    }
}

#[test]
fn spm_merges_the_highest_score_first() {
    let without_prefix = spm(|vocabulary| vocabulary.add_space_prefix = Some(false));
    assert_eq!(without_prefix.encode("ab", Special::Text), [8]);
    assert_eq!(without_prefix.encode("aba", Special::Text), [10]);
    assert_eq!(without_prefix.encode(" ab", Special::Text), [9, 7]);
}

#[test]
fn spm_puts_a_space_before_the_text_and_after_special_tokens() {
    let tokenizer = spm(|_| ());
    assert_eq!(tokenizer.encode("ab", Special::Text), [9, 7]);
    assert_eq!(tokenizer.encode("ab</s>ab", Special::Parse), [9, 7, 2, 9, 7]);
    assert_eq!(tokenizer.decode(&[9, 7]), " ab");
    assert_eq!(tokenizer.encode("", Special::Text), []);
}

#[test]
fn spm_spells_strange_characters_in_bytes_or_not_at_all() {
    let tokenizer = spm(|vocabulary| vocabulary.add_space_prefix = Some(false));
    assert_eq!(tokenizer.encode("aé", Special::Text), [6, 3, 4]);
    assert_eq!(tokenizer.encode("a你b", Special::Text), [6, 0, 7]);
    assert_eq!(tokenizer.decode(&[6, 3, 4]), "aé");
}

#[test]
fn spm_finds_tokens_with_a_space_inside() {
    let tokenizer = spm(|vocabulary| {
        vocabulary.add_space_prefix = Some(false);
        vocabulary.tokens[14] = "b▁a".as_bytes();
    });
    assert_eq!(tokenizer.encode("b ab ab", Special::Text), [14, 14, 7]);
}

#[test]
fn control_tokens_come_from_text_only_when_asked_for() {
    let tokenizer = bpe(|_| ());
    assert_eq!(tokenizer.encode("in<|im_end|>", Special::Parse), [IN, IM_END]);
    let plain = tokenizer.encode("in<|im_end|>", Special::Text);
    assert!(!plain.contains(&IM_END));
    assert_eq!(tokenizer.decode(&plain), "in<|im_end|>");
    // "<" and "s>" are tokens, so that merging could make "<s>" of them.
    let tokenizer = spm(|vocabulary| vocabulary.add_space_prefix = Some(false));
    assert_eq!(tokenizer.encode("<s>", Special::Text), [11, 12]);
    assert_eq!(tokenizer.encode("<s>", Special::Parse), [1]);
}

#[test]
fn user_defined_tokens_are_recognised_always() {
    let tokenizer = bpe(|_| ());
    for special in [Special::Text, Special::Parse] {
        assert_eq!(tokenizer.encode("a<tool>a", special), [97, TOOL, 97]);
    }
    assert_eq!(tokenizer.decode(&[97, TOOL]), "a<tool>");
}

#[test]
fn the_longest_special_token_wins() {
    let tokenizer = bpe(|vocabulary| vocabulary.tokens[BOS as usize] = b"<tool>>");
    assert_eq!(tokenizer.encode("<tool>>", Special::Parse), [BOS]);
    assert_eq!(tokenizer.encode("<tool>>", Special::Text), [TOOL, 62]);
}

#[test]
fn control_tokens_print_nothing_but_have_names() {
    let tokenizer = bpe(|_| ());
    assert_eq!(tokenizer.decode(&[BOS, THE, IM_END]), "the");
    assert_eq!(tokenizer.name(IM_END), b"<|im_end|>");
    assert_eq!(tokenizer.name(SPACE_THE), b" the");
}

#[test]
fn bos_and_eos_are_added_where_the_model_wants_them_and_once() {
    let text = |tokenizer: &Tokenizer, text| tokenizer.encode_prompt(text, Special::Parse);
    assert_eq!(text(&bpe(|_| ()), "in"), [IN]);
    let both = bpe(|vocabulary| {
        vocabulary.add_bos = Some(true);
        vocabulary.add_eos = Some(true);
    });
    assert_eq!(text(&both, "in"), [BOS, IN, EOS]);
    assert_eq!(text(&both, ""), [BOS, EOS]);
    assert_eq!(text(&both, "<|bos|>in<|eos|>"), [BOS, IN, EOS]);
    // What the file does not say, the kind of vocabulary does.
    assert_eq!(text(&bpe(|vocabulary| vocabulary.pre = Some("llama-bpe")), "in"), [BOS, IN]);
    assert_eq!(text(&spm(|_| ()), "a"), [1, 9]);
}

#[test]
fn every_token_known_to_end_a_generation_is_an_end() {
    let tokenizer = bpe(|vocabulary| {
        vocabulary.eot = Some(THE);
        // The converters of some models forget that it is a control token.
        vocabulary.types.as_mut().unwrap()[IM_END as usize] = 1;
    });
    assert_eq!(tokenizer.ends(), [THE, IM_END, EOS]);
    assert!(tokenizer.is_end(IM_END) && !tokenizer.is_end(BOS));
    assert_eq!(tokenizer.encode("<|im_end|>", Special::Parse), [IM_END]);
    assert_eq!(tokenizer.decode(&[IM_END]), "");
}

#[test]
fn sentencepiece_has_special_ids_that_files_need_not_name() {
    let tokenizer = spm(|_| ());
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    assert_eq!(spm(|vocabulary| vocabulary.bos = Some(2)).bos(), Some(2));
    // Without types, nothing tells that those tokens are special.
    assert_eq!(spm(|vocabulary| vocabulary.types = None).bos(), None);
}

#[test]
fn types_are_guessed_where_the_file_has_none() {
    let tokenizer = spm(|vocabulary| {
        vocabulary.types = None;
        vocabulary.bos = Some(1);
        vocabulary.add_space_prefix = Some(false);
    });
    assert_eq!(tokenizer.encode("<s>é", Special::Parse), [1, 3, 4]);
    assert_eq!(tokenizer.decode(&[1, 3, 4]), "é");
}

#[test]
fn a_million_equal_characters_are_divided() {
    let tokenizer = bpe(|_| ());
    assert_eq!(tokenizer.encode(&"in".repeat(500_000), Special::Text), vec![IN; 500_000]);
    assert_eq!(tokenizer.encode(&" ".repeat(1_000_000), Special::Text), vec![32; 1_000_000]);
    let ids = spm(|_| ()).encode(&"ab".repeat(500_000), Special::Text);
    assert_eq!(ids[..2], [9, 7]);
}
