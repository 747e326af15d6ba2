use super::{Config, RopeOrder, Shape};
use crate::gguf::{
    Gguf,
    writer::{Typed, Writer},
};

/// A sound model of the least size, with some keys changed: `None` leaves a key out.
fn model(architecture: &str, changes: &[(&str, Option<Typed<'static>>)]) -> Writer {
    let sound = [
        ("block_count", Typed::U32(2)),
        ("context_length", Typed::U32(16)),
        ("embedding_length", Typed::U32(8)),
        ("feed_forward_length", Typed::U32(12)),
        ("attention.head_count", Typed::U32(4)),
        ("attention.head_count_kv", Typed::U32(2)),
        ("attention.layer_norm_rms_epsilon", Typed::F32(1e-5)),
        ("vocab_size", Typed::U32(3)),
    ];
    let mut writer = Writer::default()
        .key("general.architecture", Typed::Text(architecture))
        .key("tokenizer.ggml.tokens", Typed::strings(&[b"a", b"b", b"c"]));
    let changed = |key: &str| changes.iter().any(|(changed, _)| *changed == key);
    for (key, value) in sound.iter().filter(|(key, _)| !changed(key)) {
        writer = writer.key(&format!("{architecture}.{key}"), value.clone());
    }
    for (key, value) in changes.iter().filter_map(|(key, value)| Some((key, value.clone()?))) {
        writer = writer.key(&format!("{architecture}.{key}"), value);
    }
    writer
}

/// Adds the tensors of such a model, in other shapes where `changes` say so.
fn with_tensors(mut writer: Writer, changes: &[(&str, &[u64])]) -> Vec<u8> {
    let global: [(&str, &[u64]); 2] =
        [("token_embd.weight", &[8, 3]), ("output_norm.weight", &[8])];
    let layer: [(&str, &[u64]); 9] = [
        ("attn_norm.weight", &[8]),
        ("attn_q.weight", &[8, 8]),
        ("attn_k.weight", &[8, 4]),
        ("attn_v.weight", &[8, 4]),
        ("attn_output.weight", &[8, 8]),
        ("ffn_norm.weight", &[8]),
        ("ffn_gate.weight", &[8, 12]),
        ("ffn_up.weight", &[8, 12]),
        ("ffn_down.weight", &[12, 8]),
    ];
    let mut tensors: Vec<(String, &[u64])> =
        global.iter().map(|(name, dims)| (name.to_string(), *dims)).collect();
    for index in 0..2 {
        tensors.extend(layer.iter().map(|(part, dims)| (format!("blk.{index}.{part}"), *dims)));
    }
    for (name, dims) in changes {
        tensors.retain(|(other, _)| other != name);
        if !dims.is_empty() {
            tensors.push((name.to_string(), dims));
        }
    }
    for (name, dims) in tensors {
        let zeros: Vec<u8> = (0..dims.iter().product::<u64>()).flat_map(|_| [0; 4]).collect();
        writer = writer.tensor(&name, dims, 0, &zeros);
    }
    writer.finish()
}

fn read(bytes: &[u8]) -> crate::Result<Config> {
    Config::read(&Gguf::parse(bytes).expect("a sound file"))
}

#[track_caller]
fn assert_refused(bytes: &[u8], expected: &[&str]) {
    let message = read(bytes).expect_err("the model is bad").to_string();
    for part in expected {
        assert!(message.contains(part), "{message:?} should say {part:?}");
    }
}

#[test]
fn a_sound_model_is_read() {
    let config = read(&with_tensors(model("llama", &[]), &[])).expect("sound");
    assert_eq!((config.layers, config.embedding_len, config.feed_forward_len), (2, 8, 12));
    assert_eq!((config.heads, config.kv_heads, config.head_len), (4, 2, 2));
    assert_eq!((config.vocabulary, config.context_len), (3, 16));
    assert_eq!((config.rope.order, config.rope.len), (RopeOrder::Adjacent, 2));
    assert_eq!((config.rope.theta, config.rope.scale), (1e4, 1.0));
    assert!(config.tied && !config.qkv_bias && !config.qk_norm && !config.rope.factors);
    let parameters = config.parameters();
    assert_eq!(parameters.len(), 20);
    let down = parameters.iter().find(|parameter| parameter.name == "blk.1.ffn_down.weight");
    assert_eq!(down.map(|down| down.shape), Some(Shape::Matrix { rows: 8, columns: 12 }));
}

#[test]
fn optional_tensors_are_noticed() {
    let extra: [(&str, &[u64]); 2] = [("output.weight", &[8, 3]), ("rope_freqs.weight", &[1])];
    let config = read(&with_tensors(model("llama", &[]), &extra)).expect("sound");
    assert!(!config.tied && config.rope.factors);
    let linear = [
        ("rope.scaling.type", Some(Typed::Text("linear"))),
        ("rope.scaling.factor", Some(Typed::F32(4.0))),
    ];
    let config = read(&with_tensors(model("llama", &linear), &[])).expect("sound");
    assert_eq!(config.rope.scale, 0.25);
}

#[test]
fn a_number_out_of_its_range_is_refused_by_name() {
    let cases = [
        ("block_count", Typed::U32(0), "is 0; 1 to"),
        ("block_count", Typed::U32(1 << 31), "is 2147483648; 1 to"),
        ("block_count", Typed::I32(-1), "is i32 -1"),
        ("block_count", Typed::Text("x"), "is string \"x\""),
        ("block_count", Typed::F32(1.5), "is f32 1.5"),
        ("attention.head_count", Typed::U32(0), "is 0; 1 to"),
        ("attention.head_count_kv", Typed::U32(0), "is 0; 1 to 4"),
        ("attention.head_count_kv", Typed::U32(8), "is 8; 1 to 4"),
        ("attention.head_count_kv", Typed::U32(3), "does not divide the 4 heads"),
        ("context_length", Typed::U32(0), "is 0; 1 to"),
        ("context_length", Typed::U64(1 << 40), "is 1099511627776; 1 to"),
        ("attention.key_length", Typed::U32(0), "is 0; 1 to"),
        ("attention.key_length", Typed::U32(1 << 30), "is 1073741824; 1 to"),
        ("rope.dimension_count", Typed::U32(3), "is 3; 2 to 2"),
        ("rope.freq_base", Typed::F32(0.0), "is 0, not between"),
        ("rope.freq_base", Typed::F32(f32::INFINITY), "is inf, not between"),
        ("rope.scaling.factor", Typed::F32(-1.0), "is -1, not between"),
        ("attention.layer_norm_rms_epsilon", Typed::F32(f32::NAN), "is NaN, not between"),
        ("attention.layer_norm_rms_epsilon", Typed::F32(0.0), "is 0, not between"),
        ("vocab_size", Typed::U32(4), "has 4 tokens, and token_embd.weight has 3 rows"),
    ];
    for (key, value, expected) in cases {
        let bytes = with_tensors(model("llama", &[(key, Some(value))]), &[]);
        assert_refused(&bytes, &[&format!("llama.{key}: "), expected]);
    }
}

#[test]
fn heads_must_divide_the_embedding_where_no_length_is_given() {
    let three = ("attention.head_count", Some(Typed::U32(3)));
    let kv = ("attention.head_count_kv", Some(Typed::U32(3)));
    let bytes = with_tensors(model("llama", &[three, kv]), &[]);
    assert_refused(&bytes, &["llama.embedding_length: is 8, no multiple of the 3 heads"]);
}

#[test]
fn a_missing_key_is_named() {
    for key in ["block_count", "attention.head_count", "context_length", "embedding_length"] {
        let bytes = with_tensors(model("llama", &[(key, None)]), &[]);
        assert_refused(&bytes, &[&format!("llama.{key}: is missing")]);
    }
}

#[test]
fn the_tensors_are_those_of_the_architecture() {
    let changed = |name, dims: &[u64]| with_tensors(model("llama", &[]), &[(name, dims)]);
    assert_refused(&changed("blk.1.ffn_up.weight", &[]), &["\"blk.1.ffn_up.weight\": is missing"]);
    assert_refused(&changed("token_embd.weight", &[]), &["\"token_embd.weight\": is missing"]);
    let wrong = changed("blk.0.attn_k.weight", &[8, 8]);
    assert_refused(&wrong, &["\"blk.0.attn_k.weight\": is [8, 8], and should be [8, 4]"]);
    let more = changed("blk.0.attn_output.bias", &[8]);
    assert_refused(&more, &["1 that llama does not have: blk.0.attn_output.bias"]);
    let fewer = with_tensors(model("qwen2", &[]), &[]);
    assert_refused(&fewer, &["\"blk.0.attn_q.bias\": is missing"]);
    let half = model("llama", &[]).tensor("token_embd.weight", &[8, 3], 0, &[0; 96]);
    let half = half.tensor("blk.0.attn_norm.weight", &[8], 1, &[0; 16]).finish();
    assert_refused(&half, &["\"blk.0.attn_norm.weight\": is of type F16"]);
}

#[test]
fn a_model_of_another_kind_is_unsupported_by_name() {
    let bytes = with_tensors(model("mamba", &[]), &[]);
    assert_refused(&bytes, &["unsupported", "\"mamba\"; supported are llama, qwen2, qwen3"]);
    let yarn = [("rope.scaling.type", Some(Typed::Text("yarn")))];
    let bytes = with_tensors(model("llama", &yarn), &[]);
    assert_refused(&bytes, &["unsupported: llama.rope.scaling.type: \"yarn\""]);
    let experts = [("expert_count", Some(Typed::U32(8)))];
    let bytes = with_tensors(model("llama", &experts), &[]);
    assert_refused(&bytes, &["unsupported: llama.expert_count: 8"]);
}
