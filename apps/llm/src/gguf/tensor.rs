//! The list of tensors: where each one's bytes are, and what they mean.

use std::{collections::BTreeMap, ops::Range};

use super::{Cursor, malformed};
use crate::{Error, Result, tensor_type::TensorType};

/// The most dimensions a tensor may have.
const MAX_DIMENSIONS: usize = 4;
/// How many tensors of an unsupported type are named one by one.
const NAMED: usize = 8;

/// A tensor of the file: its bytes are all there, and its own.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    name: &'a str,
    tensor_type: TensorType,
    // The unused ones are 1.
    dimensions: [usize; MAX_DIMENSIONS],
    rank: usize,
    range: Range<usize>,
}

impl<'a> Tensor<'a> {
    /// The name, such as `blk.0.attn_q.weight`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// How the elements are stored.
    pub fn tensor_type(&self) -> TensorType {
        self.tensor_type
    }

    /// The dimensions, the fastest running first, as the file gives them.
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions[..self.rank]
    }

    /// The first dimension: elements that lie side by side.
    pub fn columns(&self) -> usize {
        self.dimensions[0]
    }

    /// The product of the other dimensions.
    pub fn rows(&self) -> usize {
        self.dimensions[1..].iter().product()
    }

    /// Where in the file the elements are.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Where in the file some of the rows are.
    ///
    /// # Panics
    ///
    /// Where the tensor has no such rows.
    pub fn row_range(&self, rows: Range<usize>) -> Range<usize> {
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "rows of the tensor");
        let row_bytes = self.range.len() / self.rows();
        self.range.start + rows.start * row_bytes..self.range.start + rows.end * row_bytes
    }
}

/// A tensor as the file lists it, before anything is believed.
struct Entry<'a> {
    name: &'a str,
    dimensions: [u64; MAX_DIMENSIONS],
    rank: usize,
    type_id: u32,
    offset: u64,
}

/// Reads the list, and places each tensor in the data that follows.
pub(super) fn read_all<'a>(
    cursor: &mut Cursor<'a>,
    count: u64,
    alignment: u64,
) -> Result<Vec<Tensor<'a>>> {
    // An empty name, a rank, one dimension, a type and an offset.
    cursor.expect_items(count, 32, format_args!("tensor count"))?;
    let mut entries = Vec::new();
    for index in 0..count {
        entries.push(Entry::read(cursor, index)?);
    }
    refuse_unsupported(&entries)?;
    let data = (cursor.offset() as u64).next_multiple_of(alignment);
    let place = |entry: &Entry<'a>| entry.place(data, alignment, cursor.end());
    let tensors: Vec<_> = entries.iter().map(place).collect::<Result<_>>()?;
    refuse_overlap(&tensors)?;
    Ok(tensors)
}

impl<'a> Entry<'a> {
    fn read(cursor: &mut Cursor<'a>, index: u64) -> Result<Self> {
        let name = cursor.text(format_args!("name of tensor {index}"))?;
        let rank = cursor.u32(format_args!("number of dimensions of {name:?}"))? as usize;
        if !(1..=MAX_DIMENSIONS).contains(&rank) {
            let reason = format!("has {rank} dimensions; 1 to {MAX_DIMENSIONS} are possible");
            return Err(malformed(format!("tensor {name:?}"), reason));
        }
        let mut dimensions = [1; MAX_DIMENSIONS];
        for dimension in &mut dimensions[..rank] {
            *dimension = cursor.u64(format_args!("dimensions of {name:?}"))?;
        }
        let type_id = cursor.u32(format_args!("type of {name:?}"))?;
        let offset = cursor.u64(format_args!("offset of {name:?}"))?;
        Ok(Self { name, dimensions, rank, type_id, offset })
    }

    /// Finds the bytes of the tensor, whose data begins at `data` and must end by `end`.
    fn place(&self, data: u64, alignment: u64, end: usize) -> Result<Tensor<'a>> {
        let fail = |reason: String| malformed(format!("tensor {:?}", self.name), reason);
        let tensor_type = TensorType::from_ggml(self.type_id).expect("others were refused");
        let bytes = self.bytes(tensor_type).map_err(fail)?;
        if !self.offset.is_multiple_of(alignment) {
            let reason = format!("offset {} is no multiple of {alignment}", self.offset);
            return Err(fail(reason));
        }
        let start = data.checked_add(self.offset);
        let stop = start.and_then(|start| start.checked_add(bytes));
        let range = start.zip(stop).filter(|&(_, stop)| stop <= end as u64);
        let Some((start, stop)) = range else {
            let reason = format!(
                "{bytes} bytes at offset {} of the data, which begins at {data}, are out of the \
                 file, which ends at {end}",
                self.offset
            );
            return Err(fail(reason));
        };
        let fits = |number: u64| usize::try_from(number).expect("not more than the file's length");
        Ok(Tensor {
            name: self.name,
            tensor_type,
            dimensions: self.dimensions.map(fits),
            rank: self.rank,
            range: fits(start)..fits(stop),
        })
    }

    /// The bytes of all elements, or why there is no such number.
    fn bytes(&self, tensor_type: TensorType) -> Result<u64, String> {
        let [columns, rows @ ..] = self.dimensions;
        let shape = &self.dimensions[..self.rank];
        if shape.contains(&0) {
            return Err(format!("has no elements: its dimensions are {shape:?}"));
        }
        let block = tensor_type.block_len();
        if !columns.is_multiple_of(block as u64) {
            let name = tensor_type.name();
            return Err(format!("has rows of {columns} elements; {name} has blocks of {block}"));
        }
        let row_bytes = (columns / block as u64).checked_mul(tensor_type.block_bytes() as u64);
        rows.iter()
            .try_fold(row_bytes, |bytes, &rows| Some(bytes?.checked_mul(rows)))
            .flatten()
            .ok_or_else(|| format!("size overflow: its dimensions are {shape:?}"))
    }
}

/// Lists every tensor of a type that is not ours, by type, in one error.
fn refuse_unsupported(entries: &[Entry<'_>]) -> Result<()> {
    let mut unsupported: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| TensorType::from_ggml(entry.type_id).is_none()) {
        unsupported.entry(entry.type_id).or_default().push(entry.name);
    }
    if unsupported.is_empty() {
        return Ok(());
    }
    let list = |(id, names): (&u32, &Vec<&str>)| {
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = names[..names.len().min(NAMED)].join(", ");
        format!("{} (type {id}) in {first}{more}", type_name(*id))
    };
    let found: Vec<_> = unsupported.iter().map(list).collect();
    let ours = TensorType::ALL.map(TensorType::name).join(", ");
    Err(Error::Unsupported {
        field: "tensor types".into(),
        reason: format!("{}; supported are {ours}", found.join("; ")),
    })
}

/// ggml's names of the types that are not ours.
fn type_name(id: u32) -> &'static str {
    match id {
        3 => "Q4_1",
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => "unknown",
    }
}

fn refuse_overlap(tensors: &[Tensor<'_>]) -> Result<()> {
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|tensor| tensor.range.start);
    for pair in sorted.windows(2) {
        if pair[0].range.end > pair[1].range.start {
            let reason = format!("overlaps tensor {:?}", pair[0].name);
            return Err(malformed(format!("tensor {:?}", pair[1].name), reason));
        }
    }
    Ok(())
}
