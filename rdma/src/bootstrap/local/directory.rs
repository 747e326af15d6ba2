//! The private directory in which the nodes of a job meet.
//!
//! Its launcher holds a lock on it. A directory that nobody has locked was left by a launcher that
//! was killed, and the next one removes it.

use std::{
    env,
    fs::{self, DirBuilder, File},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use super::hello::Nonce;
use crate::{Error, Result};

const PREFIX: &str = "pangea-";
const SOCKET: &str = "rendezvous";
const LOCK: &str = "lock";

/// A directory younger than this may be one whose launcher is about to lock it.
const AGE_MIN: Duration = Duration::from_secs(10);

/// A directory of mode 0700 with a name of its own; removed when dropped.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    // Locked, for as long as the launcher lives.
    _lock: File,
}

impl Directory {
    /// Makes the directory of the job that `nonce` names, among the system's temporary files.
    pub(super) fn new(nonce: &Nonce) -> Result<Self> {
        let parent = env::temp_dir();
        sweep(&parent);
        // Half of the nonce: the path of a socket has at most 104 bytes on macOS.
        let name: String = nonce.to_string().chars().take(16).collect();
        let path = parent.join(format!("{PREFIX}{name}"));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| Error::Config {
            field: "TMPDIR",
            reason: format!("cannot make the private directory {}: {error}", path.display()),
        })?;
        let lock = File::create(path.join(LOCK)).and_then(|file| file.lock().map(|()| file));
        match lock {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(error) => {
                remove_all(&path);
                Err(Error::os("locking the job's directory")(error))
            }
        }
    }

    /// Where the socket is to be.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove_all(&self.path);
    }
}

/// Removes the directory of the socket at `path`, if its launcher is gone.
pub(super) fn remove(path: &Path) {
    let Some(directory) = path.parent() else { return };
    if is_own(directory) && is_unlocked(directory).unwrap_or(false) {
        remove_all(directory);
    }
}

/// Removes what launchers of this user have left that were killed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let path = entry.path();
        // An old one without a lock is of a launcher that was killed before it made one.
        if is_ours && is_own(&path) && is_old(&path) && is_unlocked(&path).unwrap_or(true) {
            remove_all(&path);
        }
    }
}

fn is_old(directory: &Path) -> bool {
    let modified = fs::symlink_metadata(directory).and_then(|found| found.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= AGE_MIN))
}

/// Whether `directory` is one, and this user's.
fn is_own(directory: &Path) -> bool {
    // SAFETY: reads a number of this process; it touches no memory.
    let user = unsafe { libc::geteuid() };
    fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir() && found.uid() == user)
}

/// Whether no launcher holds the lock in `directory`; `None` where there is no lock.
fn is_unlocked(directory: &Path) -> Option<bool> {
    // Two launchers may find the same one, and both remove it: no harm.
    let lock = File::open(directory.join(LOCK)).ok()?;
    Some(lock.try_lock().is_ok())
}

/// Removes what a launcher makes, and nothing else. What cannot be removed is left.
fn remove_all(directory: &Path) {
    _ = fs::remove_file(directory.join(SOCKET));
    _ = fs::remove_file(directory.join(LOCK));
    _ = fs::remove_dir(directory);
}
