//! The key of a cluster: who has it is trusted.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use super::bytes;
use crate::{Error, Result};

/// The key itself, as 64 hexadecimal digits.
pub const KEY: &str = "PANGEA_KEY";
/// The path of a file that holds the key.
pub const KEY_FILE: &str = "PANGEA_KEY_FILE";

/// Bytes of a key file that are looked at: a key is shorter.
const FILE_LEN_MAX: u64 = 256;

/// The 32 bytes that the nodes of a cluster share, and nobody else has.
#[derive(Clone, Eq, PartialEq)]
pub struct Key([u8; Self::LEN]);

impl Key {
    pub(super) const LEN: usize = 32;

    /// A new key.
    pub fn random() -> Result<Self> {
        bytes::random().map(Self)
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Result<Self> {
        let key = bytes::parse_hex(text).map(Self);
        key.ok_or_else(|| malformed(KEY, format!("{} characters", text.chars().count())))
    }

    /// Reads a key from a file that nobody but its owner may read.
    pub fn from_file(path: &Path) -> Result<Self> {
        let refuse = |what: String| Error::Config {
            field: KEY_FILE,
            reason: format!("{}: {what}", path.display()),
        };
        let file = File::open(path).map_err(|error| refuse(format!("cannot read it: {error}")))?;
        let found = file.metadata().map_err(|error| refuse(format!("cannot read it: {error}")))?;
        // SAFETY: reads a number of this process; it touches no memory.
        let user = unsafe { libc::geteuid() };
        if !found.is_file() || (found.uid() != user && found.uid() != 0) {
            return Err(refuse("not a file of this user".to_owned()));
        }
        if found.mode() & 0o077 != 0 {
            let (mode, path) = (found.mode() & 0o777, path.display());
            let what = format!("others may read or write it (mode {mode:03o}): chmod 600 {path}");
            return Err(refuse(what));
        }
        let mut text = String::new();
        let read = file.take(FILE_LEN_MAX).read_to_string(&mut text);
        read.map_err(|error| refuse(format!("cannot read it: {error}")))?;
        let text = text.trim();
        let key = bytes::parse_hex(text).map(Self);
        key.ok_or_else(|| {
            malformed(KEY_FILE, format!("{}: {} characters", path.display(), text.chars().count()))
        })
    }

    /// Writes the key to a new file, which nobody but its owner may read (mode 0600).
    pub fn write_file(&self, path: &Path) -> Result {
        let refuse = |what: String| Error::Config {
            field: KEY_FILE,
            reason: format!("{}: {what}", path.display()),
        };
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => refuse("it is there already, and is kept".to_owned()),
            _ => refuse(format!("cannot make it: {error}")),
        })?;
        writeln!(file, "{}", self.to_hex()).map_err(|error| {
            // Half a key would be found, and refused, by whoever comes next.
            _ = fs::remove_file(path);
            refuse(format!("cannot write it: {error}"))
        })
    }

    /// The key as text: to be passed on to a process of the cluster, never to be printed.
    pub(super) fn to_hex(&self) -> String {
        let mut text = String::new();
        bytes::write_hex(&self.0, &mut text).expect("a string takes everything");
        text
    }

    pub(super) fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

fn malformed(field: &'static str, what: String) -> Error {
    let reason = format!("{what}; a key is {} hexadecimal digits", 2 * Key::LEN);
    Error::Config { field, reason }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{env, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_key_file_is_private_and_gives_the_key_back() {
        let key = Key::random().unwrap();
        let path = env::temp_dir().join(format!("pangea-key-{}", &key.to_hex()[..16]));
        key.write_file(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(Key::from_file(&path).unwrap(), key);
        let kept = Key::random().unwrap().write_file(&path).unwrap_err().to_string();
        assert!(kept.contains("already"), "{kept}");
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = Key::from_file(&path).unwrap_err().to_string();
            assert!(refused.contains("chmod 600") && !refused.contains(&key.to_hex()));
        }
        fs::remove_file(&path).unwrap();
        let missing = Key::from_file(&path).unwrap_err().to_string();
        assert!(missing.contains(KEY_FILE), "{missing}");
    }

    #[test]
    fn a_key_is_not_printed_and_a_wrong_one_is_not_repeated() {
        let key = Key::random().unwrap();
        assert!(!format!("{key:?}").contains(&key.to_hex()[..4]));
        assert_eq!(Key::from_hex(&key.to_hex()).unwrap(), key);
        for wrong in ["", "secret", &key.to_hex()[1..], &"é".repeat(32)] {
            let error = Key::from_hex(wrong).unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
    }
}
