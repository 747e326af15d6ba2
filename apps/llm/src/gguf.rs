//! The GGUF file format, versions 2 and 3, little-endian.
//!
//! Decoding is pure and borrows: [`Gguf::parse`] walks the header once, checks every length against
//! the bytes that are there before it is believed, and keeps ranges instead of copies. A file that
//! parses has all its tensors inside it, whole, aligned and apart from each other.

mod cursor;
mod file;
mod from_value;
mod tensor;
#[cfg(test)]
mod tests;
mod value;
#[cfg(test)]
pub(crate) mod writer;

use std::collections::BTreeMap;

use self::cursor::Cursor;
pub use self::{
    file::ModelFile,
    from_value::{FromValue, Strings},
    tensor::Tensor,
    value::Value,
};
use crate::{Error, Result};

/// Tensors begin at multiples of this where `general.alignment` does not say otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;
/// The largest alignment taken; more would only be padding.
const MAX_ALIGNMENT: u64 = 1 << 20;

/// A decoded file: its metadata and its tensors, borrowed from the bytes.
#[derive(Debug)]
pub struct Gguf<'a> {
    metadata: BTreeMap<&'a str, Value<'a>>,
    tensors: Vec<Tensor<'a>>,
    // The places in `tensors`, by name.
    places: BTreeMap<&'a str, usize>,
}

impl<'a> Gguf<'a> {
    /// Decodes a whole file.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        read_version(&mut cursor)?;
        let tensor_count = cursor.u64(format_args!("tensor count"))?;
        let key_count = cursor.u64(format_args!("metadata count"))?;
        let metadata = read_metadata(&mut cursor, key_count)?;
        let mut gguf = Self { metadata, tensors: Vec::new(), places: BTreeMap::new() };
        gguf.refuse_split()?;
        let alignment = gguf.alignment()?;
        gguf.tensors = tensor::read_all(&mut cursor, tensor_count, alignment)?;
        for (place, tensor) in gguf.tensors.iter().enumerate() {
            if gguf.places.insert(tensor.name(), place).is_some() {
                return Err(malformed(format!("tensor {:?}", tensor.name()), "is there twice"));
            }
        }
        Ok(gguf)
    }

    /// The value of `key`, or `None` where the file does not have it; an error that names the key,
    /// the type found and the type wanted where it is no `T`.
    pub fn get<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match T::from_value(value) {
            Some(found) => Ok(Some(found)),
            None => Err(malformed(key, format!("is {value}, and should be {}", T::WANTED))),
        }
    }

    /// The value of `key`, which the file must have.
    pub fn require<T: FromValue<'a>>(&self, key: &str) -> Result<T> {
        self.get(key)?.ok_or_else(|| malformed(key, format!("is missing; {} is needed", T::WANTED)))
    }

    /// The token number at `key`, which must be one of `vocabulary` tokens where it is given.
    pub fn token_id(&self, key: &str, vocabulary: usize) -> Result<Option<u32>> {
        let Some(id) = self.get::<u64>(key)? else { return Ok(None) };
        match u32::try_from(id) {
            Ok(token) if id < vocabulary as u64 => Ok(Some(token)),
            _ => {
                Err(malformed(key, format!("is {id}, and the vocabulary has {vocabulary} tokens")))
            }
        }
    }

    /// Every key with its value, sorted by key.
    pub fn metadata(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        self.metadata.iter().map(|(key, value)| (*key, *value))
    }

    /// Every tensor, in the order of the file's list.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&Tensor<'a>> {
        self.places.get(name).map(|&place| &self.tensors[place])
    }

    fn refuse_split(&self) -> Result<()> {
        match self.get::<u64>("split.count")? {
            None | Some(0 | 1) => Ok(()),
            Some(count) => Err(Error::Unsupported {
                field: "split.count".into(),
                reason: format!("the model is split in {count} files; join them into one first"),
            }),
        }
    }

    fn alignment(&self) -> Result<u64> {
        let key = "general.alignment";
        let Some(alignment) = self.get::<u32>(key)?.map(u64::from) else {
            return Ok(DEFAULT_ALIGNMENT);
        };
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            let rule = format!("is {alignment}, and should be a power of two to {MAX_ALIGNMENT}");
            return Err(malformed(key, rule));
        }
        Ok(alignment)
    }
}

/// Checks the magic and the version.
///
/// Big-endian files have the same magic; their version is what tells them, as no version is so
/// large that its bytes could be taken for a small one's.
fn read_version(cursor: &mut Cursor<'_>) -> Result<()> {
    let unsupported = |reason| Err(Error::Unsupported { field: "version".into(), reason });
    let magic = cursor.take(4, format_args!("magic"))?;
    if magic != b"GGUF" && magic != b"FUGG" {
        let found = magic.escape_ascii();
        return Err(malformed(
            "magic",
            format!("is \"{found}\"; a GGUF file begins with \"GGUF\""),
        ));
    }
    let version = cursor.u32(format_args!("version"))?;
    if magic == b"FUGG" || (1..=3).contains(&version.swap_bytes()) {
        return unsupported("big-endian file; only little-endian ones can be read".into());
    }
    match version {
        2 | 3 => Ok(()),
        _ => unsupported(format!("GGUF version {version}; versions 2 and 3 can be read")),
    }
}

fn read_metadata<'a>(cursor: &mut Cursor<'a>, count: u64) -> Result<BTreeMap<&'a str, Value<'a>>> {
    // An empty key, a type and a byte: the least that an entry takes.
    cursor.expect_items(count, 13, format_args!("metadata count"))?;
    let mut metadata = BTreeMap::new();
    for index in 0..count {
        let key = cursor.text(format_args!("key {index}"))?;
        let value = Value::read(cursor, key)?;
        if metadata.insert(key, value).is_some() {
            return Err(malformed(key, "is given twice"));
        }
    }
    Ok(metadata)
}

fn malformed(field: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Malformed { field: field.into(), reason: reason.into() }
}
