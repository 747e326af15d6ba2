//! A place in the file's bytes, which moves only over what is there.

use std::fmt;

use super::malformed;
use crate::Result;

/// Reads one field after the other; each is named so that an error can say which one was cut off.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The length of the file.
    pub(super) fn end(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes between `start` and here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.offset]
    }

    pub(super) fn take(&mut self, len: u64, field: fmt::Arguments<'_>) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.offset..];
        match usize::try_from(len).ok().and_then(|len| rest.get(..len)) {
            Some(taken) => {
                self.offset += taken.len();
                Ok(taken)
            }
            None => Err(malformed(
                field.to_string(),
                format!(
                    "needs {len} bytes at offset {}, and the file ends at {}",
                    self.offset,
                    self.end()
                ),
            )),
        }
    }

    pub(super) fn u32(&mut self, field: fmt::Arguments<'_>) -> Result<u32> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: fmt::Arguments<'_>) -> Result<u64> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A length and as many bytes.
    pub(super) fn string(&mut self, field: fmt::Arguments<'_>) -> Result<&'a [u8]> {
        let len = self.u64(field)?;
        self.take(len, field)
    }

    /// A string that must be UTF-8, as names are.
    pub(super) fn text(&mut self, field: fmt::Arguments<'_>) -> Result<&'a str> {
        let bytes = self.string(field)?;
        str::from_utf8(bytes).map_err(|error| malformed(field.to_string(), error.to_string()))
    }

    /// Refuses a count of items that cannot all be in the rest of the file, before any is read.
    pub(super) fn expect_items(
        &self,
        count: u64,
        least_bytes: u64,
        field: fmt::Arguments<'_>,
    ) -> Result<()> {
        let rest = self.bytes.len() - self.offset;
        if count > rest as u64 / least_bytes {
            let offset = self.offset;
            let reason =
                format!("is {count}, more than the {rest} bytes from offset {offset} hold");
            return Err(malformed(field.to_string(), reason));
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self, field: fmt::Arguments<'_>) -> Result<[u8; N]> {
        let taken = self.take(N as u64, field)?;
        Ok(taken.try_into().expect("as many bytes were taken"))
    }
}
