//! Output vectors, written by many tasks at once, each its own rows.

use std::{marker::PhantomData, ops::Range, ptr::NonNull};

/// The output vectors of a product.
#[derive(Debug)]
pub(super) struct Output<'a> {
    first: NonNull<f32>,
    rows: usize,
    tokens: usize,
    _values: PhantomData<&'a mut [f32]>,
}

// SAFETY: writing goes through `Rows`, of which no two may overlap; that is what the caller of
// `rows` upholds.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// `values` as vectors of `rows` elements.
    pub(super) fn new(values: &'a mut [f32], rows: usize) -> Self {
        let tokens = values.len().checked_div(rows).unwrap_or(0);
        Self { first: NonNull::from(values).cast(), rows, tokens, _values: PhantomData }
    }

    /// The right to write the rows of `range` of every vector.
    ///
    /// # Safety
    ///
    /// While the result lives, no other may exist whose range overlaps this one.
    pub(super) unsafe fn rows(&self, range: Range<usize>) -> Rows<'_> {
        assert!(range.start <= range.end && range.end <= self.rows, "rows are in the output");
        Rows { output: self, range }
    }
}

/// Some rows of every output vector.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    output: &'a Output<'a>,
    range: Range<usize>,
}

impl Rows<'_> {
    /// Writes `values` to the rows from `first` on, counted from the range's start; what is beyond
    /// its end, padding, is dropped.
    #[inline]
    pub(super) fn write(&mut self, token: usize, first: usize, values: &[f32]) {
        assert!(token < self.output.tokens && first < self.range.len(), "inside the output");
        let len = values.len().min(self.range.len() - first);
        let offset = token * self.output.rows + self.range.start + first;
        // SAFETY: `token` and `first` were just checked, and that the range ends within a vector in
        // `rows`: the offset is inside the slice that the pointer came from.
        let target = unsafe { self.output.first.add(offset) };
        // SAFETY: the slice is valid for these `len` elements, for the same reason; this value
        // alone may touch them, by the contract of `rows`; `values` is borrowed, thus elsewhere.
        unsafe { target.copy_from_nonoverlapping(NonNull::from(values).cast(), len) };
    }
}
