//! A model whose weights are in ordinary memory, cut in as many shards as wanted.

use std::{collections::HashMap, convert::Infallible, path::Path};

use pangea_llm::{
    config::{Config, Shape, Source},
    forward::Weights,
    gguf::{ModelFile, Tensor},
    layout::{self, GROUP},
    matrix::{Matrix, Shard},
    tensor_type::TensorType,
};

/// The shards of a matrix: rows and packed bytes of each.
#[derive(Debug)]
struct Stored {
    tensor_type: TensorType,
    shards: Vec<(usize, Vec<u8>)>,
}

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Plain {
    config: Config,
    matrices: HashMap<String, Stored>,
    vectors: HashMap<String, Vec<f32>>,
}

impl Plain {
    pub(crate) fn load(path: &Path, shards: usize) -> Self {
        let file = ModelFile::open(path).expect("the file can be read");
        let gguf = file.parse().expect("the file is sound");
        let config = Config::read(&gguf).expect("the model is one of ours");
        let (mut matrices, mut vectors) = (HashMap::new(), HashMap::new());
        for parameter in config.parameters() {
            let tensor = gguf.tensor(&parameter.name).expect("config checked the tensors");
            let bytes = file.bytes(tensor.range()).expect("the file is whole");
            match parameter.shape {
                Shape::Matrix { .. } => {
                    matrices.insert(parameter.name, Stored::pack(tensor, bytes, shards));
                }
                Shape::Vector(_) => {
                    let floats = bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes);
                    vectors.insert(parameter.name, floats.collect());
                }
            }
            file.release(tensor.range());
        }
        Self { config, matrices, vectors }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn weights(&self) -> Weights<'_> {
        let Ok(weights) = Weights::collect(&self.config, &mut &*self);
        weights
    }
}

impl Stored {
    /// Packs a tensor in up to `shards` shards, which are cut between groups.
    fn pack(tensor: &Tensor<'_>, bytes: &[u8], shards: usize) -> Self {
        let (tensor_type, columns) = (tensor.tensor_type(), tensor.columns());
        let row_bytes = tensor_type.row_bytes(columns).expect("the file was checked");
        let groups = tensor.rows().div_ceil(GROUP);
        let cut = |shard: usize| (shard * groups / shards * GROUP).min(tensor.rows());
        let pack = |shard: usize| {
            let (first, end) = (cut(shard), cut(shard + 1));
            let rows = end - first;
            let size = layout::packed_bytes(tensor_type, rows, columns).expect("no overflow");
            let mut packed = vec![0; size];
            let source = &bytes[first * row_bytes..end * row_bytes];
            layout::pack(tensor_type, source, rows, columns, &mut packed);
            (rows, packed)
        };
        let shards = (0..shards).map(pack).filter(|(rows, _)| *rows > 0).collect();
        Self { tensor_type, shards }
    }

    fn matrix(&self, columns: usize) -> Matrix<'_> {
        let mut first_row = 0;
        let shards = self.shards.iter().map(|(rows, bytes)| {
            let shard = Shard { first_row, rows: *rows, bytes };
            first_row += rows;
            shard
        });
        Matrix::new(self.tensor_type, columns, shards.collect())
    }
}

impl<'a> Source for &'a Plain {
    type Matrix = Matrix<'a>;
    type Vector = &'a [f32];
    type Error = Infallible;

    fn matrix(&mut self, name: &str, _: usize, columns: usize) -> Result<Matrix<'a>, Infallible> {
        Ok(self.matrices[name].matrix(columns))
    }

    fn vector(&mut self, name: &str, _: usize) -> Result<&'a [f32], Infallible> {
        Ok(&self.vectors[name])
    }
}
