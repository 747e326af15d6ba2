//! The keys of one architecture, each with the range its value must be in.

use std::{
    fmt::Display,
    ops::{Range, RangeInclusive},
};

use crate::{Error, Result, gguf::Gguf};

/// The metadata whose keys begin with the architecture's name.
pub(super) struct Keys<'a> {
    gguf: &'a Gguf<'a>,
    prefix: &'static str,
}

impl<'a> Keys<'a> {
    pub(super) fn new(gguf: &'a Gguf<'a>, prefix: &'static str) -> Self {
        Self { gguf, prefix }
    }

    pub(super) fn gguf(&self) -> &'a Gguf<'a> {
        self.gguf
    }

    /// The full name of `key`.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    /// A whole number that must be there.
    pub(super) fn number(&self, key: &str, range: RangeInclusive<usize>) -> Result<usize> {
        let number = self.gguf.require::<u64>(&self.name(key))?;
        self.in_range(key, number, range)
    }

    /// A whole number that may be left out.
    pub(super) fn optional(
        &self,
        key: &str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>> {
        let number = self.gguf.get::<u64>(&self.name(key))?;
        number.map(|number| self.in_range(key, number, range)).transpose()
    }

    /// A number inside `range`, both ends excluded, that must be there.
    pub(super) fn fraction(&self, key: &str, range: Range<f32>) -> Result<f32> {
        let number = self.gguf.require::<f32>(&self.name(key))?;
        self.inside(key, number, range)
    }

    /// A number inside `range`, both ends excluded, that may be left out.
    pub(super) fn optional_fraction(&self, key: &str, range: Range<f32>) -> Result<Option<f32>> {
        let number = self.gguf.get::<f32>(&self.name(key))?;
        number.map(|number| self.inside(key, number, range)).transpose()
    }

    /// An error about the value of `key`.
    pub(super) fn malformed(&self, key: &str, reason: impl Display) -> Error {
        Error::Malformed { field: self.name(key), reason: reason.to_string() }
    }

    fn in_range(&self, key: &str, number: u64, range: RangeInclusive<usize>) -> Result<usize> {
        usize::try_from(number).ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            self.malformed(key, format!("is {number}; {least} to {most} are possible"))
        })
    }

    fn inside(&self, key: &str, number: f32, range: Range<f32>) -> Result<f32> {
        // Written so that a NaN is refused.
        if number > range.start && number < range.end {
            return Ok(number);
        }
        let rule = format!("is {number}, not between {} and {}", range.start, range.end);
        Err(self.malformed(key, rule))
    }
}
