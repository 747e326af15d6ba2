//! Memory that processes share through a file.

use std::{fs::OpenOptions, io, marker::PhantomData, ops::Deref, path::Path};

use memmap2::{MmapOptions, MmapRaw};

/// What may lie in a file that several processes map.
///
/// # Safety
///
/// All zero is a valid value, the layout is `repr(C)`, and everything in it may be changed through
/// `&self` by other threads at any time: atomics and `UnsafeCell`s.
pub(crate) unsafe trait Share: Sync {}

/// A `T` in a file, mapped for as long as this lives.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    map: MmapRaw,
    _type: PhantomData<T>,
}

impl<T: Share> Shared<T> {
    /// Maps the file; whoever is first makes it, all zero.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096, "a page is aligned enough") };
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        // As long as it is already, unless this is the first.
        file.set_len(size_of::<T>() as u64)?;
        let map = MmapOptions::new().len(size_of::<T>()).map_raw(&file)?;
        Ok(Self { map, _type: PhantomData })
    }
}

impl<T: Share> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the map is as long as a `T` and aligned to a page; what is there is valid, as
        // zeroes are, and changed only through `&T` by processes that run this same code.
        unsafe { &*self.map.as_ptr().cast::<T>() }
    }
}
