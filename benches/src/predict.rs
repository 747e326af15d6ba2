//! What other hardware would take, from a model of its cable: nothing is measured here.
//!
//! Nodes of the simulator do it, over frames and by agents, as they do over Thunderbolt. The bound
//! is what the cable alone takes. What processors take at both ends is in neither.

use std::{error::Error, ptr::NonNull, sync::Arc, time::Duration};

use pangea_rdma::{
    Mapping, Moment, NodeId, Op, Region, RemoteAddr, Request, Token,
    link::FRAME_LEN_MAX,
    sim::{Cluster, Faults, Model},
};

use crate::{Figure, Figures};

pub(crate) const FIGURES: &[(&str, &str)] = &[
    ("predict.thunderbolt.get_8", "8 bytes over a model of Thunderbolt 5, against a round trip"),
    ("predict.thunderbolt.get_16k", "16 KiB, against a round trip that carries them back"),
    (
        "predict.thunderbolt.stream",
        "gets of 1 MiB, against frames one way as fast as they can be posted",
    ),
    ("predict.thunderbolt.barrier_4", "all of 4 nodes signal to all, against one way"),
    ("predict.infiniband.get_8", "8 bytes by frames over a model of InfiniBand NDR, likewise"),
    ("predict.infiniband.get_16k", "16 KiB, likewise"),
    ("predict.infiniband.stream", "gets of 1 MiB, likewise"),
    ("predict.infiniband.barrier_4", "all of 4 nodes signal to all, likewise"),
];

const REGION: Region = Region(1);
const STREAM_LEN: usize = 1 << 20;
/// Gets of a stream that are open at a time, and all of them.
const STREAM_DEPTH: usize = 4;
const STREAM_COUNT: usize = 32;
/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run() -> Figures {
    if std::env::var("PANGEA_NODE").is_ok_and(|node| node != "0") {
        return Ok(Vec::new());
    }
    let mut figures = Vec::new();
    for (name, model) in [("thunderbolt", Model::THUNDERBOLT_5), ("infiniband", Model::INFINIBAND)]
    {
        let one_way = |len| model.cost + model.transfer(len) + model.latency;
        let frames = 16_384_usize.div_ceil(FRAME_LEN_MAX);
        let frame = model.cost.max(model.transfer(FRAME_LEN_MAX));
        let back = one_way(FRAME_LEN_MAX) + frame * u32::try_from(frames - 1)?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let get = |len| Ok::<_, Box<dyn Error>>(micros(Lab::new(2, model)?.get(len)?));
        let mut add = |figure: &str, value: f64, unit: &str, bound: f64| {
            figures.push(Figure::predicted(
                &format!("predict.{name}.{figure}"),
                value,
                unit,
                bound,
            ));
        };
        add("get_8", get(8)?, "us", micros(2 * one_way(8)));
        add("get_16k", get(16 << 10)?, "us", micros(one_way(8) + back));
        let rate = Lab::new(2, model)?.stream()?;
        add("stream", rate, "GB/s", FRAME_LEN_MAX as f64 / (frame.as_secs_f64() * 1e9));
        add("barrier_4", micros(Lab::new(4, model)?.barrier()?), "us", micros(one_way(8)));
    }
    Ok(figures)
}

/// Nodes that know of each other's memory.
struct Lab {
    cluster: Cluster,
    memory: Vec<Arc<Mapping>>,
    // Requests of node 0 that have ended.
    ended: usize,
}

impl Lab {
    fn new(nodes: u16, model: Model) -> Result<Self, Box<dyn Error>> {
        let mut cluster = Cluster::new(nodes, 1, model, Faults::NONE)?;
        let mut memory = Vec::new();
        for node in NodeId::all(nodes) {
            memory.push(Arc::new(Mapping::new(STREAM_LEN)?));
            cluster.register(node, memory[node.index()].clone())?;
        }
        let mut this = Self { cluster, memory, ended: 0 };
        // All have heard of all by then, and nobody beats yet.
        this.until(Moment(100_000), |_| false);
        Ok(this)
    }

    fn until(&mut self, deadline: Moment, mut is_done: impl FnMut(&mut Cluster) -> bool) -> bool {
        self.cluster.run_until(deadline, &mut is_done)
    }

    fn post(&mut self, node: NodeId, op: Op) -> Result<(), Box<dyn Error>> {
        // SAFETY: callers keep the memory that they name until the request has ended.
        let count = unsafe { self.cluster.post(node, &[Request { token: Token(0), op }]) }?;
        if count == 1 { Ok(()) } else { Err("there is no room for a request".into()) }
    }

    /// Goes on until `count` requests of node 0 have ended, all told.
    fn finish(&mut self, count: usize) -> Result<(), Box<dyn Error>> {
        let (mut ended, deadline) = (self.ended, self.cluster.now().after(PATIENCE));
        let is_done = self.until(deadline, |cluster| {
            ended += cluster.poll(NodeId::new(0), &mut |_| {});
            ended >= count
        });
        self.ended = ended;
        if is_done { Ok(()) } else { Err("a request does not end".into()) }
    }

    /// How long node 0 takes to get `len` bytes of node 1.
    fn get(&mut self, len: usize) -> Result<Duration, Box<dyn Error>> {
        let mut bytes = vec![0; len];
        let start = self.cluster.now();
        self.post(NodeId::new(0), read(&mut bytes))?;
        self.finish(1)?;
        Ok(self.cluster.now().since(start))
    }

    /// How fast node 0 gets many MiB of node 1, in GB/s.
    fn stream(&mut self) -> Result<f64, Box<dyn Error>> {
        let mut bytes = vec![vec![0; STREAM_LEN]; STREAM_COUNT];
        let start = self.cluster.now();
        for (count, bytes) in bytes.iter_mut().enumerate() {
            self.finish((count + 1).saturating_sub(STREAM_DEPTH))?;
            self.post(NodeId::new(0), read(bytes))?;
        }
        self.finish(STREAM_COUNT)?;
        let nanos = self.cluster.now().since(start).as_secs_f64() * 1e9;
        Ok((STREAM_COUNT * STREAM_LEN) as f64 / nanos)
    }

    /// How long it takes until every node has heard of every other.
    fn barrier(&mut self) -> Result<Duration, Box<dyn Error>> {
        let nodes: Vec<NodeId> = NodeId::all(self.cluster.nodes()).collect();
        let start = self.cluster.now();
        for &node in &nodes {
            for &peer in &nodes {
                let offset = 8 * node.index() as u64;
                let target = RemoteAddr { node: peer, region: REGION, offset };
                self.post(node, Op::Signal { target, value: 1 })?;
            }
        }
        let memory = self.memory.clone();
        let has_heard = |memory: &Arc<Mapping>| {
            let mut words = vec![0; 8 * nodes.len()];
            let is_read = memory.read(0, &mut words).is_ok();
            is_read && words.chunks(8).all(|word| word == 1_u64.to_le_bytes())
        };
        let is_done = self.until(start.after(PATIENCE), |_| memory.iter().all(has_heard));
        if is_done { Ok(self.cluster.now().since(start)) } else { Err("nobody hears".into()) }
    }
}

/// A read of node 1.
fn read(bytes: &mut [u8]) -> Op {
    let source = RemoteAddr { node: NodeId::new(1), region: REGION, offset: 0 };
    Op::Read { source, target: NonNull::from(bytes) }
}
