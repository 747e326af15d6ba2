use std::{env, fs};

use super::{
    Gguf, ModelFile, Strings,
    writer::{Typed, Writer, header},
};
use crate::{Error, tensor_type::TensorType};

const F32: u32 = 0;

/// A sound file with one of everything.
fn sound() -> Writer {
    Writer::default()
        .key("general.architecture", Typed::Text("llama"))
        .key("llama.block_count", Typed::U32(3))
        .key("llama.rope.freq_base", Typed::F32(1e4))
        .key("tokenizer.ggml.tokens", Typed::strings(&[b"a", b"", b"\xff"]))
        .key("tokenizer.ggml.token_type", Typed::Array(5, 2, vec![1, 0, 0, 0, 3, 0, 0, 0]))
        .tensor("one", &[2, 3], F32, &[7; 24])
        .tensor("two", &[32], 8, &[9; 34])
}

/// The error that `bytes` give.
fn refused(bytes: &[u8]) -> String {
    Gguf::parse(bytes).expect_err("the file is bad").to_string()
}

#[track_caller]
fn assert_refused(bytes: &[u8], expected: &[&str]) {
    let message = refused(bytes);
    for part in expected {
        assert!(message.contains(part), "{message:?} should say {part:?}");
    }
}

#[test]
fn a_sound_file_gives_its_values_and_tensors() {
    for version in [2, 3] {
        let bytes = sound().finish_with(version, 32);
        let gguf = Gguf::parse(&bytes).expect("sound");
        assert_eq!(gguf.require::<&str>("general.architecture").unwrap(), "llama");
        assert_eq!(gguf.require::<u64>("llama.block_count").unwrap(), 3);
        assert_eq!(gguf.require::<f32>("llama.rope.freq_base").unwrap(), 1e4);
        let tokens = gguf.require::<Strings<'_>>("tokenizer.ggml.tokens").unwrap();
        assert_eq!(tokens.iter().collect::<Vec<_>>(), [b"a".as_slice(), b"", b"\xff"]);
        let types = gguf.require::<Vec<i32>>("tokenizer.ggml.token_type").unwrap();
        assert_eq!(types, [1, 3]);
        let [one, two] = gguf.tensors() else { panic!("two tensors") };
        assert_eq!((one.name(), one.dimensions(), one.rows()), ("one", [2, 3].as_slice(), 3));
        assert_eq!(bytes[one.range()], [7; 24]);
        assert_eq!((two.tensor_type(), two.columns()), (TensorType::Q8_0, 32));
        assert_eq!(bytes[two.range()], [9; 34]);
        assert_eq!(gguf.tensor("two").map(|tensor| tensor.range()), Some(two.range()));
        assert!(gguf.tensor("three").is_none());
    }
}

#[test]
fn every_prefix_of_a_file_is_refused() {
    let bytes = sound().finish();
    for len in 0..bytes.len() {
        let message = refused(&bytes[..len]);
        assert!(message.contains("offset"), "{len}: {message}");
    }
}

#[test]
fn the_version_and_the_byte_order_are_told_apart() {
    for version in [0_u32, 1, 4, 1 << 31] {
        let expected = format!("GGUF version {version};");
        assert_refused(&sound().finish_with(version, 32), &[&expected]);
    }
    let big = 3_u32.swap_bytes();
    assert_refused(&sound().finish_with(big, 32), &["big-endian"]);
    let mut fugg = sound().finish_with(big, 32);
    fugg[..4].copy_from_slice(b"FUGG");
    assert_refused(&fugg, &["big-endian"]);
    assert_refused(b"\x93NUMPY..........", &["magic", "\\x93NUM"]);
}

#[test]
fn counts_larger_than_the_file_are_refused() {
    assert_refused(&header(3, 1 << 63, 0), &["tensor count", "9223372036854775808"]);
    assert_refused(&header(3, 0, u64::MAX), &["metadata count", "18446744073709551615"]);
}

#[test]
fn lengths_larger_than_the_file_are_refused() {
    for len in [1_u64 << 30, 1 << 63, u64::MAX] {
        let mut key = header(3, 0, 1);
        key.extend(len.to_le_bytes());
        key.extend([0; 16]);
        assert_refused(&key, &["key 0", &len.to_string()]);
        for element in [0, 8, 10] {
            let bytes = Writer::default().key("k", Typed::Array(element, len, vec![0; 64]));
            assert_refused(&bytes.finish(), &["length of k", &len.to_string()]);
        }
    }
    let nested = Writer::default().key("k", Typed::Array(9, 1 << 62, vec![0; 64])).finish();
    assert_refused(&nested, &["k:", "array of arrays"]);
}

#[test]
fn dimensions_that_overflow_are_refused() {
    let cases: [(&[u64], &str); 7] = [
        (&[(1 << 42) + 1, 1152], "out of the file"),
        (&[u64::MAX, 2, 1, 1], "size overflow"),
        (&[1 << 32, 1 << 32], "size overflow"),
        (&[1 << 62, 1], "size overflow"),
        (&[0, 4], "no elements"),
        (&[], "0 dimensions"),
        (&[1, 1, 1, 1, 1], "5 dimensions"),
    ];
    for (dims, expected) in cases {
        let bytes = Writer::default().listed("X", dims, F32, 0).finish();
        assert_refused(&bytes, &["tensor \"X\"", expected]);
    }
    let mut many = Writer::default().listed("X", &[1], F32, 0).finish();
    for rank in [1_000_000_u32, u32::MAX] {
        many[33..37].copy_from_slice(&rank.to_le_bytes());
        assert_refused(&many, &["tensor \"X\"", &rank.to_string()]);
    }
}

#[test]
fn tensors_must_be_aligned_apart_and_inside() {
    let with = |offset| sound().listed("X", &[4], F32, offset).finish();
    assert_refused(&with(4), &["\"X\"", "no multiple of 32"]);
    assert_refused(&with(1 << 20), &["\"X\"", "out of the file"]);
    assert_refused(&with(u64::MAX - 31), &["\"X\"", "out of the file"]);
    assert_refused(&with(32), &["overlaps"]);
    let ragged = Writer::default().listed("X", &[33], 8, 0).finish();
    assert_refused(&ragged, &["\"X\"", "blocks of 32"]);
    let twice = Writer::default().tensor("X", &[1], F32, &[0; 4]).tensor("X", &[1], F32, &[0; 4]);
    assert_refused(&twice.finish(), &["\"X\"", "twice"]);
}

#[test]
fn an_alignment_is_a_power_of_two() {
    for alignment in [0, 3, 31, 1 << 30, 1 << 31, u32::MAX] {
        let bytes = sound().key("general.alignment", Typed::U32(alignment)).finish();
        assert_refused(&bytes, &["general.alignment", &format!("is {alignment},")]);
    }
    for alignment in [1_u32, 32, 64, 4096] {
        let writer = Writer::default().key("general.alignment", Typed::U32(alignment));
        let bytes = writer.tensor("one", &[1], F32, &[7; 4]).finish_with(3, alignment as usize);
        let gguf = Gguf::parse(&bytes).expect("sound");
        assert_eq!(gguf.tensors()[0].range().start % alignment as usize, 0);
        assert_eq!(bytes[gguf.tensors()[0].range()], [7; 4]);
    }
    for value in [Typed::Text("32"), Typed::F32(32.0), Typed::U64(32)] {
        let bytes = sound().key("general.alignment", value).finish();
        assert_refused(&bytes, &["general.alignment", "should be a u32"]);
    }
    let twice = sound().key("k", Typed::U32(1)).key("k", Typed::U32(1)).finish();
    assert_refused(&twice, &["k: is given twice"]);
}

#[test]
fn all_unsupported_tensor_types_are_listed_at_once() {
    let mut writer = Writer::default();
    for (name, id) in [("a", 23), ("b", 21), ("c", 39), ("d", 255), ("e", 23), ("fine", 30)] {
        writer = writer.listed(name, &[256], id, 0);
    }
    let expected =
        ["IQ4_XS (type 23) in a, e", "IQ3_S (type 21) in b", "MXFP4 (type 39) in c", "(type 255)"];
    assert_refused(&writer.finish(), &expected);
    assert_refused(&writer.finish(), &["supported are F32, F16, BF16, Q8_0"]);
    assert!(!refused(&writer.finish()).contains("fine"));
}

#[test]
fn a_value_of_another_type_is_named_with_both_types() {
    let bytes = sound()
        .key("scores", Typed::Array(0, 2, vec![1, 2]))
        .key("merges", Typed::Array(4, 1, vec![0; 4]))
        .key("doubles", Typed::Array(12, 1, 0.5_f64.to_le_bytes().to_vec()))
        .key("negative", Typed::I32(-1))
        .finish();
    let gguf = Gguf::parse(&bytes).expect("sound");
    let say = |error: Error| error.to_string();
    assert_eq!(
        say(gguf.get::<Vec<f32>>("scores").unwrap_err()),
        "malformed model: scores: is array of 2 u8, and should be an array of f32 or f64"
    );
    assert!(say(gguf.get::<Vec<i32>>("scores").unwrap_err()).contains("array of 2 u8"));
    assert!(say(gguf.get::<Strings<'_>>("merges").unwrap_err()).contains("array of 1 u32"));
    assert_eq!(gguf.require::<Vec<f32>>("doubles").unwrap(), [0.5]);
    assert!(say(gguf.get::<u64>("negative").unwrap_err()).contains("i32 -1"));
    assert!(say(gguf.get::<u64>("scores").unwrap_err()).contains("array of 2 u8"));
    assert!(say(gguf.require::<u64>("absent").unwrap_err()).contains("absent: is missing"));
    assert!(gguf.get::<u64>("absent").unwrap().is_none());
}

#[test]
fn a_token_id_outside_the_vocabulary_is_refused() {
    let id = |value| Writer::default().key("bos", value).finish();
    let token = |bytes: &[u8]| Gguf::parse(bytes).expect("sound").token_id("bos", 2);
    assert_eq!(token(&id(Typed::U32(1))).unwrap(), Some(1));
    assert_eq!(token(&header(3, 0, 0)).unwrap(), None);
    for value in [Typed::U32(2), Typed::U32(u32::MAX), Typed::I32(-1), Typed::U64(1 << 32)] {
        assert!(token(&id(value)).unwrap_err().to_string().contains("bos"));
    }
}

#[test]
fn a_split_model_is_refused() {
    let bytes = sound().key("split.count", Typed::U32(3)).finish();
    assert_refused(&bytes, &["split.count", "3 files"]);
    Gguf::parse(&sound().key("split.count", Typed::U32(1)).finish()).expect("one file is whole");
}

#[test]
fn no_change_of_a_byte_makes_the_decoder_panic() {
    let sound = sound().finish();
    for place in 0..sound.len() - 100 {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = sound.clone();
            bytes[place] = value;
            if let Ok(gguf) = Gguf::parse(&bytes) {
                assert!(gguf.tensors().iter().all(|tensor| tensor.range().end <= bytes.len()));
            }
        }
    }
}

#[test]
fn a_file_is_read_from_disk_and_noticed_to_shrink() {
    let path = env::temp_dir().join(format!("pangea-gguf-{}.gguf", std::process::id()));
    fs::write(&path, sound().finish()).expect("a file can be written");
    let file = ModelFile::open(&path).expect("it is there");
    let gguf = file.parse().expect("sound");
    let tensor = gguf.tensor("one").expect("it is there");
    assert_eq!(file.bytes(tensor.range()).unwrap(), [7; 24]);
    file.release(tensor.range());
    assert_eq!(file.bytes(tensor.row_range(1..3)).unwrap(), [7; 16]);
    fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    let shrunk = file.bytes(tensor.range()).unwrap_err().to_string();
    fs::remove_file(&path).unwrap();
    assert!(shrunk.contains("shrank from") && shrunk.contains("to 100 bytes"), "{shrunk}");
}

#[test]
fn what_is_no_file_is_one_clear_error() {
    let why = |path: &std::path::Path| {
        let error = ModelFile::open(path).expect_err("no file");
        let source = std::error::Error::source(&error).expect("the reason").to_string();
        format!("{error}: {source}")
    };
    let folder = env::temp_dir();
    assert!(why(&folder).contains("is a directory"), "{}", why(&folder));
    let absent = folder.join("there-is-no-such-model.gguf");
    assert!(why(&absent).contains("there-is-no-such-model.gguf: No such file"), "{}", why(&absent));
    let empty = folder.join(format!("pangea-empty-{}.gguf", std::process::id()));
    fs::write(&empty, b"").unwrap();
    let message = ModelFile::open(&empty).unwrap().parse().unwrap_err().to_string();
    fs::remove_file(&empty).unwrap();
    assert!(message.contains("the file ends at 0"), "{message}");
}
