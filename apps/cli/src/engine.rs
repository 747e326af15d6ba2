//! A model in the heaps of a cluster, ready to compute: what demo and llm share.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use pangea::{Cluster, Config, cores};
use pangea_llm::{
    config::Config as Shape, forward::Model, gguf::ModelFile, kernels::Kernels, plan::Plan,
    pool::Pool, tokenizer::Tokenizer, weights::Heaps,
};

use crate::{
    args::Place,
    failure::{Failure, Result},
};

/// Tokens of a text where nothing else is said; a longer context takes memory that few texts need.
const CONTEXT_MAX: usize = 4096;
/// How long the nodes that only hold weights wait for the one that computes.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the others have to hear that it has failed.
const PARTING: Duration = Duration::from_secs(1);

/// What a node knows of the model, whether it computes or not.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) cluster: Cluster,
    pub(crate) shape: Shape,
    pub(crate) plan: Plan,
    heaps: Heaps,
    file: ModelFile,
}

impl Engine {
    /// Joins the cluster and loads this node's share of the weights.
    ///
    /// `nodes` is how many were asked for, if it was said.
    pub(crate) fn start(file: ModelFile, nodes: Option<u16>) -> Result<Self> {
        // Read first: a file that is no model need not start a cluster.
        let gguf = file.parse()?;
        let shape = Shape::read(&gguf)?;
        let cluster = Cluster::join(Config::from_env()?)?;
        if let Some(nodes) = nodes.filter(|&nodes| nodes != cluster.nodes()) {
            let found = cluster.nodes();
            return Err(Failure::usage(format!("--nodes: {nodes}, but this job has {found}")));
        }
        let plan = Plan::new(&gguf, &shape, usize::from(cluster.nodes()))?;
        let heaps = Heaps::load(&cluster, &file, &plan, "model")?;
        Ok(Self { cluster, shape, plan, heaps, file })
    }

    /// Does `work` on the node that computes, while the others hold weights; then all end together.
    pub(crate) fn run(&self, work: impl FnOnce() -> Result<()>) -> Result {
        if self.cluster.node().number() != 0 {
            self.cluster.barrier_until(Instant::now() + PATIENCE)?;
            return Ok(ExitCode::SUCCESS);
        }
        let worked = work();
        if worked.is_err() {
            // Those that wait have done nothing wrong; but what is wrong is not to be kept for
            // long. Where a node is lost, they are to say so too, and not to take this for the end.
            if self.check().is_ok() {
                _ = self.cluster.barrier_until(Instant::now() + PARTING);
            }
            return worked.map(|()| ExitCode::SUCCESS);
        }
        self.cluster.barrier()?;
        Ok(ExitCode::SUCCESS)
    }

    /// Whether all nodes are still there.
    pub(crate) fn check(&self) -> pangea_llm::Result<()> {
        self.heaps.check()
    }

    pub(crate) fn tokenizer(&self) -> Result<Tokenizer> {
        Ok(Tokenizer::from_gguf(&self.file.parse()?)?)
    }

    /// The model, computing with `place`'s threads.
    pub(crate) fn model(&self, place: &Place) -> Result<Model<'_>> {
        let threads = place.threads.map_or_else(cores, usize::from);
        let weights = self.heaps.weights(&self.shape, &self.plan)?;
        Ok(Model::new(&self.shape, weights, Kernels::from_env()?, Pool::new(threads)))
    }

    /// Tokens that a text may have.
    pub(crate) fn context(&self, wanted: Option<usize>) -> usize {
        wanted.unwrap_or(self.shape.context_len.min(CONTEXT_MAX))
    }
}
