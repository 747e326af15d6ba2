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
        let call = "making a private directory among the temporary files (TMPDIR)";
        DirBuilder::new().mode(0o700).create(&path).map_err(Error::os(call))?;
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
    if let Some(directory) = path.parent().filter(|directory| is_abandoned(directory)) {
        remove_all(directory);
    }
}

/// Removes what launchers of this user have left that were killed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && is_old(&entry.path()) && is_abandoned(&entry.path()) {
            remove_all(&entry.path());
        }
    }
}

fn is_old(directory: &Path) -> bool {
    let modified = fs::symlink_metadata(directory).and_then(|found| found.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= AGE_MIN))
}

/// Whether `directory` is this user's, is a launcher's, and has no launcher.
fn is_abandoned(directory: &Path) -> bool {
    // SAFETY: reads a number of this process; it touches no memory.
    let user = unsafe { libc::geteuid() };
    let owned =
        fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir() && found.uid() == user);
    owned
        && match File::open(directory.join(LOCK)) {
            // Two launchers may find the same one, and both remove it: no harm.
            Ok(lock) => lock.try_lock().is_ok(),
            // Its launcher is about to make the lock, or has just removed it.
            Err(_) => false,
        }
}

/// Removes what a launcher makes, and nothing else. What cannot be removed is left.
fn remove_all(directory: &Path) {
    _ = fs::remove_file(directory.join(SOCKET));
    _ = fs::remove_file(directory.join(LOCK));
    _ = fs::remove_dir(directory);
}
