//! What may live in the global address space.

use crate::Layout;

/// Data that means the same on every node: no addresses, no handles, no padding.
///
/// Derive it for structs whose fields are all `Portable`; the derive checks that the layout is
/// fixed (`repr(C)` or `repr(transparent)`) and without padding.
///
/// ```
/// use pangea::Portable;
///
/// #[derive(Clone, Copy, Portable)]
/// #[repr(C)]
/// struct Sample {
///     time: u64,
///     value: [f32; 2],
/// }
/// ```
///
/// Padding, whose bytes have no value, is an error to compile:
///
/// ```compile_fail
/// #[derive(Clone, Copy, pangea::Portable)]
/// #[repr(C)]
/// struct Padded {
///     small: u8,
///     large: u64,
/// }
/// ```
///
/// and so are a layout that the compiler may choose, a field that means nothing elsewhere, and an
/// enum, of which some bytes are no value:
///
/// ```compile_fail
/// #[derive(Clone, Copy, pangea::Portable)]
/// struct Unordered(u64);
/// ```
///
/// ```compile_fail
/// #[derive(Clone, Copy, pangea::Portable)]
/// #[repr(C)]
/// struct Address(&'static u64);
/// ```
///
/// ```compile_fail
/// #[derive(Clone, Copy, pangea::Portable)]
/// #[repr(u8)]
/// enum Choice {
///     One = 1,
/// }
/// ```
///
/// # Safety
///
/// Any bytes of the right size are a valid `Self` (a peer may have written them); none of its bytes
/// is padding; copying the bytes copies the value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not mean the same on every node",
    note = "numbers, arrays of them and structs that derive `Portable` do; `usize`, `bool`, tuples \
            and references do not: take `u64`, `u8`, a struct and a `GlobalPtr`"
)]
pub unsafe trait Portable: Copy + Send + Sync + 'static {
    /// What its bytes mean, to be compared with what other nodes think.
    const LAYOUT: Layout;
}

macro_rules! portable {
    ($($type:ty),*) => {$(
        // SAFETY: a number: every bit pattern is one, and it has no padding.
        unsafe impl Portable for $type {
            const LAYOUT: Layout = Layout::of::<Self>(stringify!($type));
        }
    )*};
}

portable!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

// SAFETY: elements of an array follow each other without padding, and each is `Portable`.
unsafe impl<T: Portable, const N: usize> Portable for [T; N] {
    const LAYOUT: Layout = Layout::of::<Self>("[]").field("", N, T::LAYOUT);
}

/// A 64-bit number, on which every fabric has atomic operations.
///
/// # Safety
///
/// The type has the size and the alignment of `u64`, and the two functions are inverses.
pub unsafe trait Word: Portable {
    /// The number as a word.
    fn to_word(self) -> u64;
    /// The word as a number.
    fn from_word(word: u64) -> Self;
}

// SAFETY: it is `u64`.
unsafe impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }

    fn from_word(word: u64) -> Self {
        word
    }
}

// SAFETY: it has the size and the alignment of `u64`, and casts keep all bits.
unsafe impl Word for i64 {
    fn to_word(self) -> u64 {
        self.cast_unsigned()
    }

    fn from_word(word: u64) -> Self {
        word.cast_signed()
    }
}
