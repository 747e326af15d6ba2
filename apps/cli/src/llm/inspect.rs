//! `pangea llm inspect`: what is in a model file, and where it would live.

use std::{fmt::Write, process::ExitCode};

use pangea_llm::{
    config::{Config, Shape},
    gguf::ModelFile,
    plan::{Placed, Plan},
};

use crate::{args::Inspect, failure::Result, output};

pub(crate) fn run(args: &Inspect) -> Result {
    let file = ModelFile::open(&args.model)?;
    let gguf = file.parse()?;
    let config = Config::read(&gguf)?;
    let plan = Plan::new(&gguf, &config, usize::from(args.nodes))?;
    let mut text = String::new();
    describe(&mut text, &config);
    _ = writeln!(
        text,
        "\n{:<28} {:<5} {:>16} {:>12}  bytes on each node",
        "tensor", "type", "shape", "bytes"
    );
    for tensor in plan.tensors() {
        describe_tensor(&mut text, tensor, usize::from(args.nodes));
    }
    _ = writeln!(text);
    for node in 0..usize::from(args.nodes) {
        _ = writeln!(text, "node {node}: {} bytes of weights", plan.weight_bytes(node));
    }
    output::write(&text)?;
    Ok(ExitCode::SUCCESS)
}

// Writing to a string cannot fail, here and below.
fn describe(text: &mut String, config: &Config) {
    _ = writeln!(text, "architecture     {}", config.architecture);
    _ = writeln!(text, "layers           {}", config.layers);
    _ = writeln!(text, "embedding        {}", config.embedding_len);
    _ = writeln!(
        text,
        "heads            {} of {}, {} for keys and values",
        config.heads, config.head_len, config.kv_heads
    );
    _ = writeln!(text, "feed forward     {}", config.feed_forward_len);
    _ = writeln!(
        text,
        "vocabulary       {}{}",
        config.vocabulary,
        if config.tied { ", tied" } else { "" }
    );
    _ = writeln!(text, "context          {}", config.context_len);
    _ = writeln!(text, "rope             theta {}", config.rope.theta);
}

fn describe_tensor(text: &mut String, tensor: &Placed, nodes: usize) {
    let shape = match tensor.shape {
        Shape::Matrix { rows, columns } => format!("{rows} x {columns}"),
        Shape::Vector(len) => len.to_string(),
    };
    let on = |node: usize| -> usize {
        let here = tensor.pieces.iter().filter(|piece| piece.node == node);
        let element = if matches!(tensor.shape, Shape::Vector(_)) { size_of::<f32>() } else { 1 };
        here.map(|piece| piece.place.len() * element).sum()
    };
    let places: Vec<String> = (0..nodes).map(|node| on(node).to_string()).collect();
    _ = writeln!(
        text,
        "{:<28} {:<5} {shape:>16} {:>12}  {}",
        tensor.name,
        tensor.tensor_type.name(),
        tensor.file.len(),
        places.join(" ")
    );
}
