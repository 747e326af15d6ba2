//! Metadata values: typed by the file, decoded when asked for.

use std::fmt;

use super::{Cursor, malformed};
use crate::Result;

/// The types a value, or an element of an array, may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    U64,
    I64,
    F64,
}

/// The number of arrays among the types of values.
const ARRAY: u32 = 9;

impl Kind {
    fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::String,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// Bytes of an element; `None` for strings, whose lengths differ.
    fn bytes(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String => None,
        }
    }
}

/// One value of the metadata, still as its bytes.
///
/// Shown, it tells its type and, where it is short, what it is: `i32 -1`, `array of 3 u8`.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    kind: Kind,
    // The number of elements, where this is an array.
    len: Option<usize>,
    bytes: &'a [u8],
}

impl<'a> Value<'a> {
    /// Reads the type and the bytes of the value of `key`.
    pub(super) fn read(cursor: &mut Cursor<'a>, key: &str) -> Result<Self> {
        let id = cursor.u32(format_args!("type of {key}"))?;
        if id == ARRAY {
            return Self::read_array(cursor, key);
        }
        let kind = Kind::from_id(id).ok_or_else(|| malformed(key, format!("has type {id}")))?;
        let bytes = match kind.bytes() {
            Some(len) => cursor.take(len, format_args!("{key}"))?,
            None => cursor.string(format_args!("{key}"))?,
        };
        if kind == Kind::Bool && bytes[0] > 1 {
            return Err(malformed(key, format!("is a bool of value {}", bytes[0])));
        }
        Ok(Self { kind, len: None, bytes })
    }

    fn read_array(cursor: &mut Cursor<'a>, key: &str) -> Result<Self> {
        let id = cursor.u32(format_args!("element type of {key}"))?;
        if id == ARRAY {
            return Err(malformed(key, "is an array of arrays, which no key of ours is"));
        }
        let kind = Kind::from_id(id)
            .ok_or_else(|| malformed(key, format!("is an array of elements of type {id}")))?;
        let len = cursor.u64(format_args!("length of {key}"))?;
        // A string takes at least its length's 8 bytes.
        cursor.expect_items(len, kind.bytes().unwrap_or(8), format_args!("length of {key}"))?;
        let start = cursor.offset();
        match kind.bytes() {
            Some(bytes) => {
                cursor.take(len * bytes, format_args!("{key}"))?;
            }
            None => {
                for index in 0..len {
                    cursor.string(format_args!("{key}[{index}]"))?;
                }
            }
        }
        let len = usize::try_from(len).expect("as many elements were in the file");
        Ok(Self { kind, len: Some(len), bytes: cursor.since(start) })
    }

    /// The bytes of a value that is a single `kind`.
    pub(super) fn scalar(&self, kind: Kind) -> Option<&'a [u8]> {
        (self.kind == kind && self.len.is_none()).then_some(self.bytes)
    }

    /// The elements of an array of `kind`s of `N` bytes.
    pub(super) fn elements<const N: usize>(
        &self,
        kind: Kind,
    ) -> Option<impl Iterator<Item = [u8; N]>> {
        self.len.filter(|_| self.kind == kind)?;
        Some(self.bytes.as_chunks().0.iter().copied())
    }

    /// The number and the bytes of the strings of an array of them.
    pub(super) fn strings(&self) -> Option<(usize, &'a [u8])> {
        let len = self.len.filter(|_| self.kind == Kind::String)?;
        Some((len, self.bytes))
    }

    /// A single number that is whole, whatever its width.
    pub(super) fn integer(&self) -> Option<i128> {
        if self.len.is_some() {
            return None;
        }
        // Widened by hand: a width of zero extends an unsigned number, the sign bit a signed one.
        let signed = match self.kind {
            Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 => false,
            Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => true,
            _ => return None,
        };
        let negative = signed && self.bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 16];
        wide[..self.bytes.len()].copy_from_slice(self.bytes);
        Some(i128::from_le_bytes(wide))
    }

    /// A single number with a fraction.
    pub(super) fn float(&self) -> Option<f64> {
        if let Some(bytes) = self.scalar(Kind::F32) {
            return Some(f32::from_le_bytes(bytes.try_into().ok()?).into());
        }
        Some(f64::from_le_bytes(self.scalar(Kind::F64)?.try_into().ok()?))
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind.name();
        if let Some(len) = self.len {
            return write!(f, "array of {len} {name}");
        }
        match (self.integer(), self.float()) {
            (Some(number), _) => write!(f, "{name} {number}"),
            (_, Some(number)) => write!(f, "{name} {number}"),
            _ if self.kind == Kind::Bool => write!(f, "{name} {}", self.bytes[0] == 1),
            _ => {
                let (shown, dots) = match self.bytes.get(..60) {
                    Some(start) => (start, "..."),
                    None => (self.bytes, ""),
                };
                write!(f, "{name} \"{}{dots}\"", shown.escape_ascii())
            }
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
