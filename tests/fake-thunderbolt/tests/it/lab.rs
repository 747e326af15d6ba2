//! Hosts of a test: a directory of its own, and hardware as the test asks for.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::machine::{Machine, Pair};

/// Variables that a test may set.
const VARIABLES: [&str; 11] = [
    "CABLES",
    "CLAIMS",
    "CORRUPT",
    "DIR",
    "DOWN",
    "DUPLICATE",
    "EVENTS",
    "HOST",
    "LOSS",
    "SEED",
    "STALL_MS",
];

#[derive(Debug)]
pub(crate) struct Lab {
    directory: PathBuf,
    variables: Vec<(String, String)>,
}

impl Lab {
    /// Hardware with these settings, besides the usual.
    pub(crate) fn new(variables: &[(&str, &str)]) -> Self {
        static LABS: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only its being unique counts.
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = format!("fake-thunderbolt-{}-{number}", process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&directory).unwrap();
        let owned = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Self { directory, variables: owned.collect() }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The environment of a host's process.
    pub(crate) fn environment(&self, host: u8) -> Vec<(String, String)> {
        let directory = self.directory.to_str().unwrap().to_owned();
        let host = [("DIR".to_owned(), directory), ("HOST".to_owned(), host.to_string())];
        let all = self.variables.iter().cloned().chain(host);
        all.map(|(name, value)| (format!("PANGEA_FAKE_TB_{name}"), value)).collect()
    }

    /// Does something as a process of `host` would.
    pub(crate) fn as_host<T>(&self, host: u8, act: impl FnOnce() -> T) -> T {
        static ENVIRONMENT: Mutex<()> = Mutex::new(());
        let _guard = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
        for name in VARIABLES {
            // SAFETY: who reads or writes the environment by other means than this process's
            // standard library is the tested library, in `act`, under the lock.
            unsafe { env::remove_var(format!("PANGEA_FAKE_TB_{name}")) };
        }
        for (name, value) in self.environment(host) {
            // SAFETY: as above.
            unsafe { env::set_var(name, value) };
        }
        act()
    }

    /// Opens a host's first device.
    pub(crate) fn host(&self, host: u8) -> Machine {
        self.device(host, "rdma_en2")
    }

    /// Opens a host's device.
    pub(crate) fn device(&self, host: u8, device: &str) -> Machine {
        self.as_host(host, || Machine::open(device))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A test that has failed leaves what it was about.
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.directory).unwrap();
        }
    }
}

/// Two connected queue pairs.
pub(crate) fn connected<'a>(one: &'a Machine, other: &'a Machine) -> (Pair<'a>, Pair<'a>) {
    let pairs = (one.pair(), other.pair());
    join(one, &pairs.0, other, &pairs.1);
    pairs
}

/// Connects two queue pairs.
pub(crate) fn join(one: &Machine, ours: &Pair<'_>, other: &Machine, theirs: &Pair<'_>) {
    ours.connect(other.gid(1), theirs.number()).unwrap();
    theirs.connect(one.gid(1), ours.number()).unwrap();
}

/// Checks that nothing completes, however often either end polls.
pub(crate) fn silent(machines: &[&Machine]) {
    // Frames move only when a verb is called: these calls would move all that can be.
    for _ in 0..100 {
        for machine in machines {
            assert_eq!(machine.poll().map(|completion| completion.wr_id), None);
        }
    }
}
