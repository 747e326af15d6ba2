//! What the bytes of a type mean, as a number: programs that were built from different sources see
//! by it that they would not understand each other.

use std::any::type_name;

use linkme::distributed_slice;

/// What the bytes of a type mean: its name, size and alignment, and the names, places and layouts
/// of its fields, as one number.
///
/// Two types of one layout may be exchanged between programs. The derive of
/// [`Portable`](crate::Portable) computes it; by hand it is
///
/// ```
/// use pangea::{Layout, Portable};
///
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Sample {
///     time: u64,
///     value: u64,
/// }
///
/// // SAFETY: two numbers of 8 bytes each, and no padding.
/// unsafe impl Portable for Sample {
///     const LAYOUT: Layout = Layout::of::<Self>("Sample")
///         .field("time", std::mem::offset_of!(Self, time), u64::LAYOUT)
///         .field("value", std::mem::offset_of!(Self, value), u64::LAYOUT);
/// }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Layout(u64);

impl Layout {
    /// A `T` called `name`, of whose fields nothing is known yet.
    pub const fn of<T>(name: &str) -> Self {
        Self(START).text(name).count(size_of::<T>()).count(align_of::<T>())
    }

    /// The type with one field more: `name`, `offset` bytes from its start.
    #[must_use]
    pub const fn field(self, name: &str, offset: usize, layout: Self) -> Self {
        let placed = self.text(name).count(offset);
        Self(hash(placed.0, &layout.0.to_le_bytes()))
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    const fn text(self, text: &str) -> Self {
        // What ends a text is no part of any, so that no two lists of fields look the same.
        Self(hash(hash(self.0, text.as_bytes()), &[0xFF]))
    }

    const fn count(self, count: usize) -> Self {
        Self(hash(self.0, &(count as u64).to_le_bytes()))
    }
}

/// What FNV-1a begins with.
pub(crate) const START: u64 = 0xCBF2_9CE4_8422_2325;

/// FNV-1a of `bytes` after those of `sum`: the same on every machine, and while compiling.
pub(crate) const fn hash(mut sum: u64, mut bytes: &[u8]) -> u64 {
    while let [first, rest @ ..] = bytes {
        sum = (sum ^ *first as u64).wrapping_mul(0x0100_0000_01B3);
        bytes = rest;
    }
    sum
}

/// A type that the program shares: its name, as a path, and its layout.
#[doc(hidden)]
pub type Shared = (&'static str, Layout);

/// All types that derive `Portable`, gathered by the linker.
#[doc(hidden)]
#[distributed_slice]
pub static TYPES: [Shared];

/// The name of `T` without the paths in it, which say which program this is.
pub(crate) fn name_of<T>() -> String {
    without_paths(type_name::<T>())
}

/// `name` without the paths in it.
pub(crate) fn without_paths(name: &str) -> String {
    let (mut bare, mut word) = (String::new(), 0);
    for character in name.chars() {
        if character == ':' {
            bare.truncate(word);
            continue;
        }
        bare.push(character);
        if !(character.is_alphanumeric() || character == '_') {
            word = bare.len();
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GlobalPtr, Portable};

    /// The same type of other programs, each with another definition.
    macro_rules! programs {
        ($($program:ident { $($field:ident: $type:ty),* })*) => {$(
            mod $program {
                use crate::Portable;

                #[derive(Clone, Copy, Portable)]
                #[repr(C)]
                pub(super) struct Sample {
                    $(pub(super) $field: $type),*
                }
            }
        )*};
    }

    programs! {
        first { x: u32, y: u32, z: [f32; 2] }
        same { x: u32, y: u32, z: [f32; 2] }
        reordered { y: u32, x: u32, z: [f32; 2] }
        retyped { x: u32, y: i32, z: [f32; 2] }
        longer { x: u32, y: u32, z: [f32; 3] }
        nested { x: u32, y: u32, z: super::first::Sample }
    }

    #[derive(Clone, Copy, Portable)]
    #[repr(transparent)]
    struct Tuple(u64);

    #[test]
    fn a_layout_is_of_names_places_and_types() {
        let first = first::Sample::LAYOUT;
        assert_eq!(first, same::Sample::LAYOUT);
        let others = [
            reordered::Sample::LAYOUT,
            retyped::Sample::LAYOUT,
            longer::Sample::LAYOUT,
            nested::Sample::LAYOUT,
            Tuple::LAYOUT,
            u64::LAYOUT,
            f64::LAYOUT,
            GlobalPtr::<u8>::LAYOUT,
            <[u32; 2]>::LAYOUT,
            <[[u32; 2]; 1]>::LAYOUT,
            <[[u32; 1]; 2]>::LAYOUT,
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(*other, first, "{at}");
            assert!(!others[at + 1..].contains(other), "{at}");
        }
        // Computed elsewhere: other machines come to the same.
        assert_eq!(u64::LAYOUT.number(), 10_600_153_510_889_785_047);
    }

    #[test]
    fn the_linker_has_gathered_what_derives() {
        for (name, layout) in [
            ("first::Sample", first::Sample::LAYOUT),
            ("reordered::Sample", reordered::Sample::LAYOUT),
            ("Tuple", Tuple::LAYOUT),
        ] {
            let name = format!("pangea::layout::tests::{name}");
            assert!(TYPES.contains(&(&*name, layout)), "{name}: {TYPES:?}");
        }
    }

    #[test]
    fn a_name_has_no_path() {
        assert_eq!(name_of::<GlobalPtr<[first::Sample; 3]>>(), "GlobalPtr<[Sample; 3]>");
        assert_eq!(without_paths("a::b<c::d_1, &e>::f"), "b<d_1, &e>f");
        assert_eq!(name_of::<f32>(), "f32");
    }
}
