//! A job whose nodes all run on this host.

use std::{
    process::{ChildStderr, ChildStdout, Command},
    sync::mpsc::Sender,
};

use pangea_rdma::NodeId;

use super::{Children, Ending, Event, Place, Supervision};
use crate::Result;

/// The processes of a job, each a node; killed when dropped.
#[derive(Debug)]
pub struct Job {
    // Declared first: nodes end before their meeting is called off, which then is quick.
    children: Children,
    supervision: Supervision,
}

impl Job {
    /// Starts a process for each of `commands`, the nodes of one cluster in order. They end with
    /// the calling thread, where the system can see to that (Linux).
    ///
    /// # Errors
    ///
    /// [`Error::Config`](crate::Error::Config) where one cannot be started; the others are ended.
    pub fn start(commands: impl IntoIterator<Item = Command>) -> Result<Self> {
        let commands: Vec<Command> = commands.into_iter().collect();
        let nodes = u16::try_from(commands.len()).unwrap_or(u16::MAX);
        Self::start_at(Place::local(nodes)?, commands)
    }

    /// As [`start`](Self::start), for nodes that meet at `place`, which is for as many.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_at(place: Place, commands: impl IntoIterator<Item = Command>) -> Result<Self> {
        let nodes: Vec<NodeId> = NodeId::all(place.nodes()).collect();
        let environments: Vec<_> = nodes.iter().map(|&node| place.environment(node)).collect();
        let supervision = Supervision::new(place)?;
        let mut children = Children::default();
        for ((node, environment), mut command) in nodes.into_iter().zip(environments).zip(commands)
        {
            command.envs(environment);
            children.start(node, command, supervision.events())?;
        }
        Ok(Self { children, supervision })
    }

    /// The number of the process of `node`; `None` once it has ended.
    pub fn process(&self, node: NodeId) -> Option<u32> {
        self.children.process(node)
    }

    /// What `node` prints, if it was started with a pipe and nobody has taken it yet.
    pub fn take_stdout(&mut self, node: NodeId) -> Option<ChildStdout> {
        self.children.take_stdout(node)
    }

    /// What `node` prints of its errors, likewise.
    pub fn take_stderr(&mut self, node: NodeId) -> Option<ChildStderr> {
        self.children.take_stderr(node)
    }

    /// To pass signals on to the nodes: an [`Event::Signal`].
    pub fn events(&self) -> Sender<Event> {
        self.supervision.events()
    }

    /// Waits until all nodes have ended, and returns how the first failed, if one did: see
    /// [`Supervision::wait`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait(self) -> Result<Option<Ending>> {
        self.supervision.wait(&self.children)
    }
}
