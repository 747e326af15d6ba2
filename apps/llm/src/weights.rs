//! Weights in the heaps of a cluster: each node packs its share, freezes it, and sees all of them
//! as slices.

use std::ops::Range;

use pangea::{Cluster, FrozenVec, NodeId, Placement};

use crate::{
    Error, Result,
    config::{self, Config, Shape, Source},
    forward::Weights,
    gguf::ModelFile,
    layout::{self, GROUP},
    matrix::{Matrix, Shard},
    plan::{Piece, Placed, Plan},
};

/// Bytes that are packed before their part of the file is given back.
const STEP_BYTES: usize = 4 << 20;

/// The weights of a model, in the heaps of all nodes.
#[derive(Debug)]
pub struct Heaps {
    cluster: Cluster,
    // By node: packed matrices, and vectors.
    bytes: Vec<FrozenVec<u8>>,
    floats: Vec<FrozenVec<f32>>,
}

impl Heaps {
    /// Loads this node's share of `file` into its heap, and returns when every node has. A model
    /// that is loaded beside another has another `name`.
    ///
    /// # Errors
    ///
    /// Where a heap has no room, the file cannot be read or is another than that of node 0, or a
    /// node is lost.
    pub fn load(cluster: &Cluster, file: &ModelFile, plan: &Plan, name: &str) -> Result<Self> {
        expect_same(cluster, file, name)?;
        let node = cluster.node().index();
        let mut bytes = cluster.vec::<u8>(plan.bytes(node), Placement::Here)?;
        bytes.use_large_pages()?;
        let mut floats = cluster.vec::<f32>(plan.floats(node), Placement::Here)?;
        let share = Share { file, bytes: bytes.slice_mut(..)?, floats: floats.slice_mut(..)? };
        share.load(plan, node)?;
        // Once more, and all of it: where a page is touched, the system maps its neighbours too.
        file.release(0..file.len());
        cluster.publish(&format!("{name}: matrices of {node}"), &bytes.freeze()?)?;
        cluster.publish(&format!("{name}: vectors of {node}"), &floats.freeze()?)?;
        let nodes = 0..cluster.nodes();
        let bytes =
            nodes.clone().map(|node| cluster.lookup(&format!("{name}: matrices of {node}")));
        let floats = nodes.map(|node| cluster.lookup(&format!("{name}: vectors of {node}")));
        Ok(Self {
            cluster: cluster.clone(),
            bytes: bytes.collect::<Result<_, _>>()?,
            floats: floats.collect::<Result<_, _>>()?,
        })
    }

    /// Every weight of a model like `config` as slices, wherever it lives.
    ///
    /// # Errors
    ///
    /// Where a node is lost.
    pub fn weights<'a>(&'a self, config: &Config, plan: &Plan) -> Result<Weights<'a>> {
        let bytes = self.matrices()?;
        let floats = self.floats.iter().map(|vec| vec.slice(..)).collect::<Result<_, _>>()?;
        config::Weights::collect(config, &mut Slices { plan, bytes, floats })
    }

    /// The packed matrices, as they lie in the heaps.
    ///
    /// # Errors
    ///
    /// Where a node is lost.
    pub fn matrices(&self) -> Result<Vec<&[u8]>> {
        Ok(self.bytes.iter().map(|vec| vec.slice(..)).collect::<Result<_, _>>()?)
    }

    /// Whether all weights are still there. Slices of a lost node can be read, but the node that
    /// should own them cannot be counted on.
    ///
    /// # Errors
    ///
    /// Where a node is lost.
    pub fn check(&self) -> Result<()> {
        let own = self.cluster.node();
        for node in NodeId::all(self.cluster.nodes()).filter(|&node| node != own) {
            self.cluster.check_present(node)?;
        }
        Ok(())
    }
}

/// Refuses a file that node 0 does not have: weights of two models are those of none.
fn expect_same(cluster: &Cluster, file: &ModelFile, name: &str) -> Result<()> {
    let (fingerprint, name) = (file.fingerprint()?, format!("{name}: file"));
    if cluster.node().number() == 0 {
        let mut of_all = cluster.vec::<u64>(1, Placement::Here)?;
        of_all.slice_mut(..)?[0] = fingerprint;
        return Ok(cluster.publish(&name, &of_all.freeze()?)?);
    }
    let of_all: FrozenVec<u64> = cluster.lookup(&name)?;
    if of_all.slice(..)?[0] == fingerprint {
        return Ok(());
    }
    Err(Error::Malformed {
        field: file.path().display().to_string(),
        reason: format!(
            "{} has another model than node 0; give all hosts the same file",
            cluster.node()
        ),
    })
}

/// A node's share, while it is loaded.
struct Share<'a> {
    file: &'a ModelFile,
    bytes: &'a mut [u8],
    floats: &'a mut [f32],
}

impl Share<'_> {
    fn load(mut self, plan: &Plan, node: usize) -> Result<()> {
        for tensor in plan.tensors() {
            for piece in tensor.pieces.iter().filter(|piece| piece.node == node) {
                match tensor.shape {
                    Shape::Matrix { columns, .. } => self.load_matrix(tensor, piece, columns)?,
                    Shape::Vector(_) => self.load_vector(tensor, piece)?,
                }
            }
        }
        Ok(())
    }

    /// Packs the rows of `piece`, a few groups at a time, so that no more of the file is in memory.
    fn load_matrix(&mut self, tensor: &Placed, piece: &Piece, columns: usize) -> Result<()> {
        let t = tensor.tensor_type;
        let row_bytes = t.row_bytes(columns).expect("the plan has packed whole rows");
        let step = (STEP_BYTES / (row_bytes * GROUP)).max(1) * GROUP;
        let group_bytes = piece.place.len() / piece.rows.len().div_ceil(GROUP);
        let mut target = &mut self.bytes[piece.place.clone()];
        for first in piece.rows.clone().step_by(step) {
            let rows = first..(first + step).min(piece.rows.end);
            let range = rows_in(&tensor.file, &rows, row_bytes);
            let (packed, rest) = target.split_at_mut(rows.len().div_ceil(GROUP) * group_bytes);
            layout::pack(t, self.file.bytes(range.clone())?, rows.len(), columns, packed);
            self.file.release(range);
            target = rest;
        }
        Ok(())
    }

    fn load_vector(&mut self, tensor: &Placed, piece: &Piece) -> Result<()> {
        let source = self.file.bytes(tensor.file.clone())?;
        let (numbers, _) = source.as_chunks::<4>();
        for (target, number) in self.floats[piece.place.clone()].iter_mut().zip(numbers) {
            *target = f32::from_le_bytes(*number);
        }
        Ok(())
    }
}

/// Where `rows` are in the file, of a tensor that is at `file`.
fn rows_in(file: &Range<usize>, rows: &Range<usize>, row_bytes: usize) -> Range<usize> {
    file.start + rows.start * row_bytes..file.start + rows.end * row_bytes
}

/// The heaps as the source of weights.
struct Slices<'a, 'p> {
    plan: &'p Plan,
    // By node.
    bytes: Vec<&'a [u8]>,
    floats: Vec<&'a [f32]>,
}

impl Slices<'_, '_> {
    fn placed(&self, name: &str) -> Result<&Placed> {
        self.plan.tensor(name).ok_or_else(|| Error::Malformed {
            field: format!("tensor {name:?}"),
            reason: "is missing".to_owned(),
        })
    }
}

impl<'a> Source for Slices<'a, '_> {
    type Matrix = Matrix<'a>;
    type Vector = &'a [f32];
    type Error = Error;

    fn matrix(&mut self, name: &str, _rows: usize, columns: usize) -> Result<Matrix<'a>> {
        let tensor = self.placed(name)?;
        let shard = |piece: &Piece| Shard {
            first_row: piece.rows.start,
            rows: piece.rows.len(),
            bytes: &self.bytes[piece.node][piece.place.clone()],
        };
        Ok(Matrix::new(tensor.tensor_type, columns, tensor.pieces.iter().map(shard).collect()))
    }

    fn vector(&mut self, name: &str, _len: usize) -> Result<&'a [f32]> {
        let [piece] = self.placed(name)?.pieces.as_slice() else {
            unreachable!("a vector is placed whole");
        };
        Ok(&self.floats[piece.node][piece.place.clone()])
    }
}
