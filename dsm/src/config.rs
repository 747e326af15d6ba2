//! Every setting, its default, its reason.

use std::{env, fs, time::Duration};

use pangea_rdma::Choice;

use crate::{Error, Result};

/// Bytes that the node contributes: `PANGEA_HEAP`.
const HEAP: &str = "PANGEA_HEAP";
/// Bytes of other hosts' memory that the node may keep: `PANGEA_CACHE`.
const CACHE: &str = "PANGEA_CACHE";
/// Seconds after which a wait gives up: `PANGEA_TIMEOUT`.
const TIMEOUT: &str = "PANGEA_TIMEOUT";

/// The longest timeout, about 30 years: the end of a longer one may be no point in time.
const TIMEOUT_MAX: Duration = Duration::from_secs(1_000_000_000);

/// The smallest heap: a block.
const HEAP_MIN: u64 = 16 << 10;

/// How a node joins its cluster.
///
/// ```
/// let mut config = pangea::Config::from_env()?;
/// config.heap_bytes = 64 << 20;
/// let cluster = pangea::Cluster::join(config)?;
/// # Ok::<(), pangea::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Capacity of this node's heap, in bytes; memory is taken when it is first written. Default:
    /// as much as the machine has, so that what fits the machine fits the heap. `PANGEA_HEAP=1.5G`.
    pub heap_bytes: u64,
    /// How many bytes of frozen vectors of other hosts are kept here at most, once fetched.
    /// Default: three quarters of the machine's memory. `PANGEA_CACHE=8G`.
    pub cache_bytes: u64,
    /// Which ways to take to the other nodes. Default: to each the fastest. `PANGEA_PATH=tcp`,
    /// `PANGEA_REQUIRE=rdma`.
    pub choice: Choice,
    /// After how long a wait for other nodes gives up. The death of a node ends a wait at once, and
    /// so does, within 4 seconds, that it is stopped or cut off; this bounds the wait for one that
    /// takes another way. Default: 10 minutes, as nodes may compute unevenly. `PANGEA_TIMEOUT=600`
    /// (seconds).
    pub timeout: Duration,
    /// After how long joining gives up. Default: 30 seconds, or `timeout` if that is less.
    pub join_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            heap_bytes: memory_bytes(),
            cache_bytes: memory_bytes() / 4 * 3,
            choice: Choice::default(),
            timeout: Duration::from_secs(600),
            join_timeout: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// The defaults, changed by what the environment says.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] where a variable is set to something that is not in its range.
    pub fn from_env() -> Result<Self> {
        let mut config = Self { choice: Choice::from_env()?, ..Self::default() };
        if let Some(text) = variable(HEAP)? {
            config.heap_bytes = parse_bytes(&text).and_then(check_heap).map_err(reject(HEAP))?;
        }
        if let Some(text) = variable(CACHE)? {
            config.cache_bytes = parse_bytes(&text).map_err(reject(CACHE))?;
        }
        if let Some(text) = variable(TIMEOUT)? {
            let range = 0.001..=TIMEOUT_MAX.as_secs_f64();
            let seconds = text.parse().ok().filter(|seconds| range.contains(seconds));
            let seconds = seconds.ok_or_else(|| format!("'{text}' is not 0.001 to 1e9 seconds"));
            config.timeout = Duration::from_secs_f64(seconds.map_err(reject(TIMEOUT))?);
            config.join_timeout = config.join_timeout.min(config.timeout);
        }
        Ok(config)
    }

    /// Checks what was set by hand.
    pub(crate) fn check(&self) -> Result {
        check_heap(self.heap_bytes).map_err(reject(HEAP))?;
        if self.timeout.max(self.join_timeout) > TIMEOUT_MAX {
            return Err(reject(TIMEOUT)(format!("more than {} seconds", TIMEOUT_MAX.as_secs())));
        }
        Ok(())
    }
}

fn reject(field: &'static str) -> impl FnOnce(String) -> Error {
    move |reason| Error::Config { field, reason }
}

fn variable(field: &'static str) -> Result<Option<String>> {
    match env::var(field) {
        // Set to nothing is not set, as for most programs.
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(reject(field)("not UTF-8".to_owned())),
    }
}

fn check_heap(bytes: u64) -> Result<u64, String> {
    let memory = memory_bytes();
    if bytes < HEAP_MIN {
        return Err(format!("{bytes} bytes are less than the smallest heap, {HEAP_MIN}"));
    }
    if bytes > memory {
        return Err(format!("{bytes} bytes are more than this machine's memory, {memory}"));
    }
    Ok(bytes)
}

/// Reads a number of bytes: digits, a fraction if there is a unit, and a unit of K, M, G or T
/// (powers of 1024; `KiB` and the like too).
///
/// # Errors
///
/// What is wrong, in a sentence.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number of bytes such as 4096, 64M or 1.5G");
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = trimmed[digits.len()..].to_ascii_lowercase();
    let shift = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => return digits.parse().map_err(|_| wrong()),
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    let bytes = number * f64::from(1_u32 << 10).powi(shift / 10);
    // 2^63: a float this large or larger is no length.
    if bytes >= 9.2e18 {
        return Err(format!("'{text}' is more than an address space holds"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above; a fraction of a byte goes")]
    #[expect(clippy::cast_sign_loss, reason = "there is no minus sign among the digits")]
    Ok(bytes as u64)
}

/// Bytes of memory in this machine.
fn memory_bytes() -> u64 {
    // SAFETY: `sysconf` reads numbers of the system; it touches no memory of ours.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let pages = u64::try_from(pages).unwrap_or(1 << 18);
    (pages * pangea_rdma::page_size() as u64).min(limit_of_container().unwrap_or(u64::MAX))
}

/// What a container allows, where there is one that says so.
fn limit_of_container() -> Option<u64> {
    fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64k", 64 << 10),
            ("64g ", 64 << 30),
            ("1.5G", 3 << 29),
            ("2MiB", 2 << 20),
            ("3MB", 3 << 20),
            ("0", 0),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_an_error_that_quotes_it() {
        for text in
            ["", "-1", "-1G", "abc", "1.5", "G", "1e3k", "nanG", "infG", "1X", "1 G", "99999999T"]
        {
            let error = parse_bytes(text).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_heap_that_cannot_be_is_refused() {
        for bytes in [0, 1, HEAP_MIN - 1, memory_bytes() + 1, 1 << 63] {
            let config = Config { heap_bytes: bytes, ..Config::default() };
            let error = config.check().unwrap_err();
            assert!(matches!(error, Error::Config { field: HEAP, .. }), "{error}");
        }
        Config::default().check().unwrap();
    }
}
