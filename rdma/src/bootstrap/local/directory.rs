//! The private directory in which the nodes of a job meet.
//!
//! Its launcher holds a lock on it. A directory that nobody has locked was left by a launcher that
//! was killed, and the next one removes it.

use std::{
    env,
    fs::{self, DirBuilder, File},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Error, Result, bootstrap::Job};

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
    /// Makes the directory of `job`, among the system's temporary files.
    pub(super) fn new(job: &Job) -> Result<Self> {
        let path = path(job);
        sweep(&env::temp_dir());
        make(&path)?;
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

/// Where the directory of `job` is.
fn path(job: &Job) -> PathBuf {
    // Half of the number: the path of a socket has at most 104 bytes on macOS.
    let name: String = job.to_string().chars().take(16).collect();
    env::temp_dir().join(format!("{PREFIX}{name}"))
}

/// Where the socket of `job` is.
pub(super) fn socket(job: &Job) -> PathBuf {
    path(job).join(SOCKET)
}

/// Makes the directory at `path`. A launcher that names its jobs may have left one of that name,
/// by a job that was killed.
fn make(path: &Path) -> Result {
    let refuse = |what: String| Error::Config {
        field: "TMPDIR",
        reason: format!("cannot make the private directory {}: {what}", path.display()),
    };
    let create = || DirBuilder::new().mode(0o700).create(path);
    let mut result = create();
    if let Err(error) = &result
        && error.kind() == ErrorKind::AlreadyExists
    {
        if !is_own(path) {
            return Err(refuse("it is there, and another user's".to_owned()));
        }
        if !is_unlocked(path).unwrap_or(true) {
            return Err(refuse("a job of that name is about to start there".to_owned()));
        }
        remove_all(path);
        result = create();
    }
    result.map_err(|error| refuse(error.to_string()))
}

/// Whether the socket at `path` is there, in a directory that is this user's and nobody else's.
pub(super) fn is_private(path: &Path) -> bool {
    let Some(directory) = path.parent().filter(|directory| is_own(directory)) else {
        return false;
    };
    let is_closed = |found: fs::Metadata| found.mode() & 0o077 == 0;
    fs::symlink_metadata(directory).is_ok_and(is_closed) && fs::symlink_metadata(path).is_ok()
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
