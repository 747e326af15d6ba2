//! Matrix-vector products on packed weights, by the best instructions that the processor has.
//!
//! [`Kernels::multiply`] multiplies several matrices with the same input vectors in one parallel
//! region. The tasks of a region are ranges of groups; each row is added up by one task in a fixed
//! order, so that an output does not depend on the threads, the shards, the other vectors of the
//! batch, or even the instructions: all kernels agree to the bit.
//!
//! `kernels/reference.rs` says what a product is; `kernels/simd.rs` is the same, written once over
//! vectors; `kernels/x86/` and `kernels/neon.rs` name the instructions.

mod activations;
#[cfg(target_arch = "aarch64")]
mod neon;
mod output;
mod reference;
mod simd;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::{fmt, ops::Range};

pub use activations::Activations;
use activations::Quantized;
use output::{Output, Rows};

use crate::{
    Error, Result, layout,
    layout::GROUP,
    matrix::{Matrix, Shard},
    pool::Pool,
    tensor_type::TensorType,
};

/// The environment variable that names the kernels to use.
const VARIABLE: &str = "PANGEA_KERNELS";

/// A matrix and where its product goes.
#[derive(Debug)]
pub struct Product<'m, 'o> {
    /// The weights.
    pub matrix: &'m Matrix<'m>,
    /// The output vectors: that of token `t` is at `t * matrix.rows()`.
    pub output: &'o mut [f32],
}

/// Kernels for one set of instructions.
#[derive(Clone, Copy)]
pub struct Kernels {
    name: &'static str,
    multiply: Multiply,
}

/// Multiplies the groups of a piece with every vector.
type Multiply = fn(&Piece<'_>, &Activations, &mut Rows<'_>);
impl Kernels {
    /// The fastest kernels that this processor can run.
    pub fn detect() -> Self {
        Self::available().pop().unwrap_or_else(Self::reference)
    }

    /// The kernels that the environment variable `PANGEA_KERNELS` names, or else the fastest.
    pub fn from_env() -> Result<Self> {
        match std::env::var(VARIABLE) {
            Ok(name) if !name.is_empty() => Self::named(&name),
            Ok(_) | Err(std::env::VarError::NotPresent) => Ok(Self::detect()),
            Err(std::env::VarError::NotUnicode(name)) => Self::named(&name.to_string_lossy()),
        }
    }

    /// The kernels of that name, if this processor can run them.
    pub fn named(name: &str) -> Result<Self> {
        let available = Self::available();
        available.iter().find(|k| k.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = available.iter().map(|k| k.name).collect();
            let reason = format!("no kernels `{name}` here; choose from {}", names.join(", "));
            Error::Argument { field: VARIABLE, reason }
        })
    }

    /// The portable kernels, which define what the others compute.
    pub fn reference() -> Self {
        Self { name: "reference", multiply: reference::multiply }
    }

    /// All kernels that this processor can run, the fastest last.
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = x86::available();
        #[cfg(target_arch = "aarch64")]
        let vectors = neon::available();
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let vectors = [];
        [Self::reference()].into_iter().chain(vectors).collect()
    }

    /// The name by which `PANGEA_KERNELS` chooses them.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Multiplies each matrix with the same vectors, in one parallel region.
    ///
    /// # Panics
    ///
    /// Where the vectors are not as long as a matrix has columns, or an output is not of as many
    /// vectors as there are.
    pub fn multiply(&self, pool: &Pool, x: &Activations, products: &mut [Product<'_, '_>]) {
        let mut groups = 0;
        let mut bytes = 0;
        let mut shares = Vec::with_capacity(products.len());
        for Product { matrix, output } in products {
            assert_eq!(matrix.columns(), x.columns(), "vectors as long as a row");
            assert_eq!(output.len(), x.tokens() * matrix.rows(), "an output for each vector");
            let output = Output::new(output, matrix.rows());
            shares.push(Share { first_group: groups, matrix, output });
            groups += matrix.rows().div_ceil(GROUP);
            bytes += matrix.shards().iter().map(|shard| shard.bytes.len()).sum::<usize>();
        }
        let tasks = tasks(pool.threads(), groups, bytes.saturating_mul(x.tokens()));
        pool.run(tasks, &|task| {
            let groups = task * groups / tasks..(task + 1) * groups / tasks;
            for share in &shares {
                for piece in share.pieces(&groups) {
                    // SAFETY: a task runs once, tasks have disjoint groups, and the pieces of a
                    // task are in different shards: no two `Rows` of an output overlap.
                    let mut rows = unsafe { share.output.rows(piece.rows.clone()) };
                    (self.multiply)(&piece, x, &mut rows);
                }
            }
        });
    }

    /// Unpacks one row, as an embedding is looked up.
    ///
    /// # Panics
    ///
    /// Where there is no such row, or `out` is not as long as it.
    pub fn row(&self, matrix: &Matrix<'_>, row: usize, out: &mut [f32]) {
        assert!(row < matrix.rows(), "the matrix has this row");
        assert_eq!(out.len(), matrix.columns(), "a row is as long as the matrix has columns");
        let group = row / GROUP;
        let piece = pieces(matrix, group..group + 1).next().expect("shards cover all rows");
        layout::unpack_row(piece.tensor_type, piece.bytes, row % GROUP, out);
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernels").field(&self.name).finish()
    }
}

/// A product of a region; the groups of all products are numbered on from one to the next.
struct Share<'a> {
    first_group: usize,
    matrix: &'a Matrix<'a>,
    output: Output<'a>,
}

impl Share<'_> {
    /// What of this product is in the region's groups `groups`.
    fn pieces(&self, groups: &Range<usize>) -> impl Iterator<Item = Piece<'_>> {
        let here = |group: usize| group.saturating_sub(self.first_group);
        pieces(self.matrix, here(groups.start)..here(groups.end))
    }
}

/// Into how many tasks a region is split: enough for a thread to take over from one that lost its
/// core, but not so many that claiming them costs.
fn tasks(threads: usize, groups: usize, bytes: usize) -> usize {
    const TASKS_PER_THREAD: usize = 8;
    const BYTES_PER_TASK: usize = 16 << 10;
    if threads == 1 {
        return 1;
    }
    (threads * TASKS_PER_THREAD).min(bytes.div_ceil(BYTES_PER_TASK)).min(groups).max(1)
}

/// Groups that follow each other in one shard.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    tensor_type: TensorType,
    columns: usize,
    /// The rows of the matrix that these are, without padding.
    rows: Range<usize>,
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    fn group_bytes(&self) -> usize {
        group_bytes(self.tensor_type, self.columns)
    }

    /// The groups' bytes.
    fn groups(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks_exact(self.group_bytes())
    }
}

/// Bytes of a group of a matrix that exists.
fn group_bytes(tensor_type: TensorType, columns: usize) -> usize {
    layout::group_bytes(tensor_type, columns).expect("the shards' sizes were checked")
}

/// The pieces that groups `groups` of `matrix` are in, in order; those beyond its end are left out.
fn pieces<'a>(matrix: &'a Matrix<'_>, groups: Range<usize>) -> impl Iterator<Item = Piece<'a>> {
    let (tensor_type, columns) = (matrix.tensor_type(), matrix.columns());
    let group_bytes = group_bytes(tensor_type, columns);
    let piece = move |shard: &Shard<'a>| {
        let first_group = shard.first_row / GROUP;
        let start = groups.start.max(first_group);
        let end = groups.end.min(first_group + shard.rows.div_ceil(GROUP));
        if start >= end {
            return None;
        }
        let rows = start * GROUP..(end * GROUP).min(shard.first_row + shard.rows);
        let bytes = (start - first_group) * group_bytes..(end - first_group) * group_bytes;
        Some(Piece { tensor_type, columns, rows, bytes: &shard.bytes[bytes] })
    };
    matrix.shards().iter().filter_map(piece)
}

#[cfg(test)]
mod tests;
