//! The ways by which the nodes of a job may reach each other, all on this host.

use std::{
    env, fs, io,
    net::Ipv4Addr,
    path::PathBuf,
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use pangea::{
    Result,
    launch::{Job, Place},
};
use pangea_fake_thunderbolt::InUse;

/// Two cables between two hosts, as the library has them described: crossed, so that not every pair
/// of ports is one.
const TWO_CABLES: &str = "0.en2-1.en3,0.en3-1.en2";

/// A way that is forced on all pairs of nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// Shared memory.
    Shm,
    /// TCP, of this host with itself.
    Tcp,
    /// RDMA by a library that behaves as Apple's does.
    Thunderbolt,
    /// The same, where one frame in a hundred is lost.
    Lossy,
    /// The same, over two cables between two nodes.
    Striped,
}

/// A job that was started, and what its path needs while it runs.
#[derive(Debug)]
pub struct Started {
    /// The job.
    pub job: Job,
    /// To be held until it has ended.
    pub cables: Option<Cables>,
}

/// The folder where the ends of cables meet that are none; removed when dropped.
#[derive(Debug)]
pub struct Cables(PathBuf);

impl Path {
    /// One of each kind.
    pub const ALL: [Self; 3] = [Self::Shm, Self::Tcp, Self::Thunderbolt];
    /// Those over which nodes share no memory.
    pub const WIRES: [Self; 2] = [Self::Tcp, Self::Thunderbolt];

    /// Starts a job of `commands` whose nodes reach each other so.
    ///
    /// # Errors
    ///
    /// As for [`Job::start_at`].
    pub fn start(self, commands: impl IntoIterator<Item = Command>) -> Result<Started> {
        let mut commands: Vec<Command> = commands.into_iter().collect();
        let nodes = u16::try_from(commands.len()).expect("few nodes");
        let cables = (!matches!(self, Self::Shm | Self::Tcp)).then(Cables::lay);
        let name = match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Thunderbolt | Self::Lossy | Self::Striped => "verbs",
        };
        for command in &mut commands {
            command.env("PANGEA_PATH", name);
            if let Some(cables) = &cables {
                command.envs(cables.environment());
            }
            match self {
                Self::Lossy => _ = command.env("PANGEA_FAKE_TB_LOSS", "0.01"),
                Self::Striped => _ = command.env("PANGEA_FAKE_TB_CABLES", TWO_CABLES),
                _ => {}
            }
        }
        let place = match self {
            Self::Shm => Place::local(nodes)?,
            _ => Place::network(&[(Ipv4Addr::LOCALHOST, 0).into()], nodes)?,
        };
        Ok(Started { job: Job::start_at(place, commands)?, cables })
    }
}

impl Cables {
    /// Makes an empty one.
    ///
    /// # Panics
    ///
    /// Where it cannot be made.
    pub fn lay() -> Self {
        static LAID: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number need only differ from the others.
        let number = LAID.fetch_add(1, Ordering::Relaxed);
        let name = format!("pangea-cables-{}-{number}", process::id());
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// What of the adapter of a port, `0.en2`, was not given back.
    ///
    /// # Errors
    ///
    /// Where its file cannot be read.
    pub fn in_use(&self, port: &str) -> io::Result<InUse> {
        pangea_fake_thunderbolt::in_use(&self.0, port)
    }

    /// What tells a node to use them.
    ///
    /// # Panics
    ///
    /// Where the library has not been built.
    pub fn environment(&self) -> [(&'static str, PathBuf); 2] {
        let library = pangea_fake_thunderbolt::library_path().unwrap();
        [("PANGEA_VERBS_LIBRARY", library), ("PANGEA_FAKE_TB_DIR", self.0.clone())]
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        // One that is left is in the folder for what may go.
        _ = fs::remove_dir_all(&self.0);
    }
}
