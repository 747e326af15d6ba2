//! Copies from and to memory that other processes may write at the same time.
//!
//! A word, which is 2, 4 or 8 bytes at a multiple of so many, is copied whole. The C library does
//! the rest, through a pointer that the compiler cannot see through: the copy is made by foreign
//! code, for which another process's writes at the same time are not undefined, only of an unknown
//! order. It may copy a word byte by byte (AArch64 with SVE does).

use std::{
    hint::black_box,
    ptr::NonNull,
    // The memory is no model's: these are never loom's.
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// Copies shared memory to `target`; a word is read whole.
///
/// # Safety
///
/// `source` must be `target.len()` bytes that stay mapped during the call, and not overlap
/// `target`.
#[inline]
pub unsafe fn copy_out(source: NonNull<u8>, target: &mut [u8]) {
    macro_rules! load {
        ($word:ty) => {{
            // SAFETY: the caller vouches for the bytes, which are as many and as aligned as the
            // word (checked), and are otherwise accessed atomically or by foreign code.
            let word = unsafe { source.cast::<$word>().as_ref() };
            // Relaxed: what is copied is not ordered with anything.
            target.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }};
    }
    match target.len() {
        8 if source.cast::<AtomicU64>().is_aligned() => load!(AtomicU64),
        4 if source.cast::<AtomicU32>().is_aligned() => load!(AtomicU32),
        2 if source.cast::<AtomicU16>().is_aligned() => load!(AtomicU16),
        len => {
            let memcpy: unsafe extern "C" fn(_, _, _) -> *mut libc::c_void =
                black_box(libc::memcpy);
            // SAFETY: the caller vouches for `source`; `target` is exclusively ours.
            unsafe { memcpy(target.as_mut_ptr().cast(), source.as_ptr().cast(), len) };
        }
    }
}

/// Copies `source` to shared memory; a word is written whole.
///
/// # Safety
///
/// `target` must be `source.len()` bytes that stay mapped during the call, and not overlap
/// `source`.
#[inline]
pub unsafe fn copy_in(source: &[u8], target: NonNull<u8>) {
    macro_rules! store {
        ($word:ty, $number:ty) => {{
            let number = <$number>::from_ne_bytes(source.try_into().expect("as many bytes"));
            // SAFETY: as in `copy_out`.
            let word = unsafe { target.cast::<$word>().as_ref() };
            // Relaxed: as in `copy_out`.
            word.store(number, Ordering::Relaxed);
        }};
    }
    match source.len() {
        8 if target.cast::<AtomicU64>().is_aligned() => store!(AtomicU64, u64),
        4 if target.cast::<AtomicU32>().is_aligned() => store!(AtomicU32, u32),
        2 if target.cast::<AtomicU16>().is_aligned() => store!(AtomicU16, u16),
        len => {
            let memcpy: unsafe extern "C" fn(_, _, _) -> *mut libc::c_void =
                black_box(libc::memcpy);
            // SAFETY: the caller vouches for `target`; `source` is borrowed for the call.
            unsafe { memcpy(target.as_ptr().cast(), source.as_ptr().cast(), len) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_and_place_are_copied() {
        for len in 0..=17 {
            for place in 0..8 {
                let bytes: Vec<u8> = (1..=17).collect();
                let mut shared = [0_u64; 4];
                let start = NonNull::from(&mut shared).cast::<u8>();
                // SAFETY: 8 + 17 bytes are inside the 32 of the array.
                let start = unsafe { start.add(place) };
                // SAFETY: so many bytes are inside the array, which nobody else has.
                unsafe { copy_in(&bytes[..len], start) };
                let mut copy = vec![0; len];
                // SAFETY: as above.
                unsafe { copy_out(start, &mut copy) };
                assert_eq!(copy, bytes[..len], "{len} bytes at {place}");
                let all: Vec<u8> = shared.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let others = all[..place].iter().chain(&all[place + len..]);
                assert!(others.into_iter().all(|byte| *byte == 0), "{len} bytes at {place}");
            }
        }
    }
}
