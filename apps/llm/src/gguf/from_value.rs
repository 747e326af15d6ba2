//! What a program takes metadata values as.

use std::fmt;

use super::value::{Kind, Value};

/// A type that metadata values can be taken as.
pub trait FromValue<'a>: Sized {
    /// What is wanted, for messages.
    const WANTED: &'static str;

    /// `value` as a `Self`, where it has the right type and range.
    fn from_value(value: &Value<'a>) -> Option<Self>;
}

impl FromValue<'_> for u64 {
    const WANTED: &'static str = "a whole number, not negative";

    fn from_value(value: &Value<'_>) -> Option<Self> {
        value.integer()?.try_into().ok()
    }
}

/// Only what the file calls a `u32`; where any width will do, ask for a `u64`.
impl FromValue<'_> for u32 {
    const WANTED: &'static str = "a u32";

    fn from_value(value: &Value<'_>) -> Option<Self> {
        value.scalar(Kind::U32)?.try_into().ok().map(Self::from_le_bytes)
    }
}

impl FromValue<'_> for f32 {
    const WANTED: &'static str = "a number (f32 or f64)";

    #[expect(
        clippy::cast_possible_truncation,
        reason = "an f64 is rounded to what is computed with"
    )]
    fn from_value(value: &Value<'_>) -> Option<Self> {
        value.float().map(|number| number as Self)
    }
}

impl FromValue<'_> for bool {
    const WANTED: &'static str = "a bool";

    fn from_value(value: &Value<'_>) -> Option<Self> {
        value.scalar(Kind::Bool).map(|bytes| bytes == [1])
    }
}

impl<'a> FromValue<'a> for &'a str {
    const WANTED: &'static str = "a string of UTF-8";

    fn from_value(value: &Value<'a>) -> Option<Self> {
        str::from_utf8(value.scalar(Kind::String)?).ok()
    }
}

impl FromValue<'_> for Vec<i32> {
    const WANTED: &'static str = "an array of i32";

    fn from_value(value: &Value<'_>) -> Option<Self> {
        Some(value.elements(Kind::I32)?.map(i32::from_le_bytes).collect())
    }
}

impl FromValue<'_> for Vec<f32> {
    const WANTED: &'static str = "an array of f32 or f64";

    #[expect(
        clippy::cast_possible_truncation,
        reason = "an f64 is rounded to what is computed with"
    )]
    fn from_value(value: &Value<'_>) -> Option<Self> {
        if let Some(elements) = value.elements(Kind::F32) {
            return Some(elements.map(f32::from_le_bytes).collect());
        }
        Some(value.elements(Kind::F64)?.map(|bytes| f64::from_le_bytes(bytes) as f32).collect())
    }
}

/// An array of strings, which need not be UTF-8.
#[derive(Clone, Copy)]
pub struct Strings<'a> {
    len: usize,
    bytes: &'a [u8],
}

impl<'a> Strings<'a> {
    /// The number of strings.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (len, tail) = rest.split_first_chunk()?;
            let (string, tail) =
                tail.split_at_checked(u64::from_le_bytes(*len).try_into().ok()?)?;
            rest = tail;
            Some(string)
        })
    }
}

impl fmt::Debug for Strings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} strings", self.len)
    }
}

impl<'a> FromValue<'a> for Strings<'a> {
    const WANTED: &'static str = "an array of strings";

    fn from_value(value: &Value<'a>) -> Option<Self> {
        let (len, bytes) = value.strings()?;
        Some(Self { len, bytes })
    }
}
