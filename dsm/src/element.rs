//! Reading and writing one element that other processes may write at the same time.

use std::{
    mem::{MaybeUninit, transmute_copy},
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

use pangea_rdma::{copy_in, copy_out};

use crate::Portable;

/// Whether a `T` can be accessed as a word of type `W`: it has its size, and at least its
/// alignment.
const fn is_word<T, W>() -> bool {
    size_of::<T>() == size_of::<W>() && align_of::<T>() >= align_of::<W>()
}

macro_rules! load_as {
    ($word:ty, $source:expr) => {{
        // SAFETY: the caller vouches for the place; it has the size and alignment of the word, and
        // is only accessed atomically or by foreign code.
        let word = unsafe { $source.cast::<$word>().as_ref() };
        // Relaxed: elements are not ordered with each other; see `docs/memory-model.md`.
        let value = word.load(Ordering::Relaxed);
        // SAFETY: the value has the size of `T`, for which all bytes are valid (`Portable`).
        unsafe { transmute_copy(&value) }
    }};
}

macro_rules! store_as {
    ($word:ty, $target:expr, $value:expr) => {{
        // SAFETY: as in `load_as`.
        let word = unsafe { $target.cast::<$word>().as_ref() };
        // SAFETY: `T` has the size of the word and no padding (`Portable`).
        let value = unsafe { transmute_copy(&$value) };
        // Relaxed: as in `load_as`.
        word.store(value, Ordering::Relaxed);
    }};
}

/// The value at `source`; torn if it is no word and somebody writes it meanwhile.
///
/// # Safety
///
/// `source` is an element inside a window that stays mapped during the call.
#[inline]
pub(crate) unsafe fn load<T: Portable>(source: NonNull<T>) -> T {
    if const { is_word::<T, u64>() } {
        return load_as!(AtomicU64, source);
    }
    if const { is_word::<T, u32>() } {
        return load_as!(AtomicU32, source);
    }
    if const { is_word::<T, u16>() } {
        return load_as!(AtomicU16, source);
    }
    if const { is_word::<T, u8>() } {
        return load_as!(AtomicU8, source);
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `value` is `size_of::<T>()` bytes, all of them initialised (zeroed), and borrowed
    // here only.
    let bytes = unsafe { slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>()) };
    // SAFETY: the caller vouches for `source`; `value` is on this stack and does not overlap it.
    unsafe { copy_out(source.cast(), bytes) };
    // SAFETY: any bytes are a valid `T` (`Portable`).
    unsafe { value.assume_init() }
}

/// Writes `value` to `target`; torn if it is no word.
///
/// # Safety
///
/// As for [`load`].
#[inline]
pub(crate) unsafe fn store<T: Portable>(target: NonNull<T>, value: T) {
    if const { is_word::<T, u64>() } {
        store_as!(AtomicU64, target, value);
    } else if const { is_word::<T, u32>() } {
        store_as!(AtomicU32, target, value);
    } else if const { is_word::<T, u16>() } {
        store_as!(AtomicU16, target, value);
    } else if const { is_word::<T, u8>() } {
        store_as!(AtomicU8, target, value);
    } else {
        // SAFETY: the caller vouches for `target`; `value` is on this stack and does not overlap
        // it.
        unsafe { copy_in(bytes_of(slice::from_ref(&value)), target.cast()) };
    }
}

/// A value whose bytes are all zero.
pub(crate) fn zeroed<T: Portable>() -> T {
    // SAFETY: any bytes are a valid `T` (`Portable`).
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The bytes of `values`.
pub(crate) fn bytes_of<T: Portable>(values: &[T]) -> &[u8] {
    // SAFETY: a `Portable` value is all initialised bytes, without padding; they are borrowed as
    // long.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of `values`, to be written.
pub(crate) fn bytes_of_mut<T: Portable>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; any bytes that are written are valid values (`Portable`).
    unsafe { slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
