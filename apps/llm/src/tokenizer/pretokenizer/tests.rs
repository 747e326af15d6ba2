use proptest::prelude::*;

use super::*;

fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
    Pretokenizer::from_name(name).expect("the pattern is known").split(text).collect()
}

#[test]
fn every_name_is_in_one_family() {
    let mut names: Vec<&str> = NAMES.iter().flat_map(|&(_, names)| names).copied().collect();
    names.sort_unstable();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
}

#[test]
fn a_space_belongs_to_the_word_after_it() {
    for name in ["gpt-2", "smollm", "llama-bpe", "qwen2"] {
        assert_eq!(words(name, "one two  three"), ["one", " two", " ", " three"]);
        assert_eq!(words(name, " a , b "), [" a", " ,", " b", " "]);
        assert_eq!(words(name, ""), [""; 0]);
    }
}

#[test]
fn contractions_are_cut_off() {
    let text = "I'll won't it's'd";
    let expected = ["I", "'ll", " won", "'t", " it", "'s", "'d"];
    for name in ["gpt-2", "smollm", "llama-bpe", "qwen2"] {
        assert_eq!(words(name, text), expected);
    }
    assert_eq!(words("gpt-2", "I'LL 'S"), ["I", "'", "LL", " '", "S"]);
    assert_eq!(words("qwen2", "I'LL 'S"), ["I", "'LL", " '", "S"]);
}

#[test]
fn digits_are_grouped_as_the_family_has_them() {
    let text = "x 12345";
    assert_eq!(words("gpt-2", text), ["x", " 12345"]);
    assert_eq!(words("smollm", text), ["x", " ", "1", "2", "3", "4", "5"]);
    assert_eq!(words("llama-bpe", text), ["x", " ", "123", "45"]);
    assert_eq!(words("qwen2", text), ["x", " ", "1", "2", "3", "4", "5"]);
    // Numbers are not digits alone.
    assert_eq!(words("llama-bpe", "٠½Ⅳ٣"), ["٠½Ⅳ", "٣"]);
}

#[test]
fn lone_digits_end_what_stands_before_them() {
    // The two spaces do not see a word after them, so that they stay together.
    assert_eq!(words("smollm", "a  1  b"), ["a", "  ", "1", " ", " b"]);
}

#[test]
fn a_mark_may_lead_a_word() {
    assert_eq!(words("gpt-2", "(word\tword"), ["(", "word", "\t", "word"]);
    assert_eq!(words("qwen2", "(word\tword"), ["(word", "\tword"]);
    assert_eq!(words("qwen2", "((word"), ["((", "word"]);
    assert_eq!(words("qwen2", "\nword"), ["\n", "word"]);
}

#[test]
fn newlines_end_marks_and_spaces() {
    assert_eq!(words("gpt-2", "a;\n\n  b"), ["a", ";", "\n\n ", " b"]);
    assert_eq!(words("qwen2", "a;\n\n  b"), ["a", ";\n\n", " ", " b"]);
    assert_eq!(words("qwen2", "a \r\n \n  b"), ["a", " \r\n \n", " ", " b"]);
    assert_eq!(words("qwen2", "a\n  "), ["a", "\n", "  "]);
}

#[test]
fn letters_and_marks_are_those_of_unicode() {
    for name in ["gpt-2", "qwen2"] {
        assert_eq!(words(name, "naïve你好"), ["naïve你好"]);
        // A combining vowel is no letter, but it may lead a word.
        assert_eq!(words(name, "a\u{3000}b").len(), if name == "gpt-2" { 3 } else { 2 });
    }
    assert_eq!(words("gpt-2", "हिन"), ["ह", "\u{93f}", "न"]);
    assert_eq!(words("qwen2", "हिन"), ["ह", "िन"]);
}

proptest! {
    #[test]
    fn words_are_whole_and_none_is_empty(text in "([ \\n\\r\\t'a1.é٣]|\\PC){0,40}") {
        for (pretokenizer, _) in NAMES {
            let words: Vec<&str> = pretokenizer.split(&text).collect();
            prop_assert!(words.iter().all(|word| !word.is_empty()));
            prop_assert_eq!(words.concat(), text.clone());
        }
    }
}
