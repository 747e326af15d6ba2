//! A model file on disk, mapped into memory.

use std::{
    fs::{self, File},
    io, iter,
    ops::Range,
    path::{Path, PathBuf},
};

use memmap2::{Mmap, UncheckedAdvice};

use super::{Gguf, malformed};
use crate::{Error, Result};

/// Bytes of each tensor that a fingerprint is made of: what is read of a file at least.
const SAMPLE: usize = 4096;

/// A file that stays mapped, read-only, while this lives.
///
/// Nobody may shorten the file in this time: a page beyond its end cannot be read, and the process
/// is killed (SIGBUS). [`bytes`](Self::bytes) looks at the length again, which turns
/// a file that shrank after it was opened into an error; a file that shrinks between the look and
/// the reading is not caught. Replacing it by renaming another over it is harmless.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    backing: Backing,
}

/// Where the bytes are.
#[derive(Debug)]
enum Backing {
    Mapped { file: File, mapping: Mmap },
    Bundled(&'static [u8]),
}

impl ModelFile {
    /// Maps the file at `path`, which must be a regular file.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        // Looked at before it is opened: opening a pipe would wait for a writer.
        let metadata = fs::metadata(&path).map_err(|source| cannot_read(&path, source))?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { "is a directory" } else { "is no regular file" };
            return Err(cannot_read(&path, io::Error::other(format!("{kind}; a file is needed"))));
        }
        let file = File::open(&path).map_err(|source| cannot_read(&path, source))?;
        // SAFETY: the mapping is private and only read. That the file does not change under it
        // cannot be made sure of by any program; the type's documentation asks it of the user, as
        // every reader of a mapped file does. Bytes that change are wrong weights, and no invariant
        // is built on them after they were checked but the bounds of ranges, which are kept apart.
        let mapping = unsafe { Mmap::map(&file) }.map_err(|source| cannot_read(&path, source))?;
        Ok(Self { path, backing: Backing::Mapped { file, mapping } })
    }

    /// The model that is part of the program: 2.6 million parameters that have read Jane Austen's
    /// novels.
    pub fn bundled() -> Self {
        let bytes = include_bytes!("../../models/austen-q8_0.gguf");
        Self { path: "the bundled model".into(), backing: Backing::Bundled(bytes) }
    }

    fn contents(&self) -> &[u8] {
        match &self.backing {
            Backing::Mapped { mapping, .. } => mapping,
            Backing::Bundled(bytes) => bytes,
        }
    }

    /// Where the file was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of the file when it was opened.
    pub fn len(&self) -> usize {
        self.contents().len()
    }

    /// Whether the file has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.contents().is_empty()
    }

    /// Decodes the header. What it gives borrows from this mapping.
    pub fn parse(&self) -> Result<Gguf<'_>> {
        self.expect_whole()?;
        Gguf::parse(self.contents())
    }

    /// A number that tells this file from others, also from models of the same shape: of all that
    /// stands before the tensors, and of the beginning of each (FNV-1a, 64 bits).
    pub fn fingerprint(&self) -> Result<u64> {
        let gguf = self.parse()?;
        let tensors = gguf.tensors().iter().map(|tensor| tensor.range());
        let head = 0..tensors.clone().map(|range| range.start).min().unwrap_or(self.len());
        let samples = tensors.map(|range| range.start..range.end.min(range.start + SAMPLE));
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let parts = iter::once(head).chain(samples);
        Ok(parts.fold(0xcbf2_9ce4_8422_2325, |so_far, part| {
            self.contents()[part].iter().fold(so_far, hash)
        }))
    }

    /// The bytes in `range`, which is that of a tensor or of some of its rows.
    ///
    /// # Panics
    ///
    /// Where the range is not inside the file as it was opened; those of a tensor are.
    pub fn bytes(&self, range: Range<usize>) -> Result<&[u8]> {
        self.expect_whole()?;
        Ok(&self.contents()[range])
    }

    /// Gives the memory that holds this part of the file back, after it was read.
    ///
    /// Without this, a loader that copies tensors to where they shall live would end up with every
    /// weight in memory twice. Reading the range again is possible, and reads the file again.
    ///
    /// # Panics
    ///
    /// Where the range is not inside the file as it was opened.
    pub fn release(&self, range: Range<usize>) {
        let len = self.contents()[range.clone()].len();
        let Backing::Mapped { mapping, .. } = &self.backing else { return };
        // SAFETY: the mapping is of a file and never written, so that a page which is dropped comes
        // back with the same bytes when it is next touched: no reader can tell.
        let advised =
            unsafe { mapping.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, len) };
        debug_assert!(advised.is_ok(), "the range is inside the mapping: {advised:?}");
    }

    fn expect_whole(&self) -> Result<()> {
        let Backing::Mapped { file, mapping } = &self.backing else { return Ok(()) };
        let len = file.metadata().map_err(|source| cannot_read(&self.path, source))?.len();
        if len < mapping.len() as u64 {
            let opened = mapping.len();
            let reason = format!("shrank from {opened} to {len} bytes while it was in use");
            return Err(malformed(self.path.display().to_string(), reason));
        }
        Ok(())
    }
}

fn cannot_read(path: &Path, source: io::Error) -> Error {
    Error::File { path: path.into(), source }
}
