//! What it takes to reach memory over a wire, against what a bare TCP connection takes.

use std::{
    hint::black_box,
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use pangea::{Cluster, Config, FrozenVec, GlobalVec, Placement};

use crate::{
    Figure, Figures,
    figure::{Samples, time},
    pin::pin,
};

pub(crate) const PLAIN: &[(&str, &str)] = &[
    ("tcp.get.awake", "8-byte get over TCP, against a ping-pong of 8 bytes by busy polling"),
    ("tcp.get.asleep", "8-byte get when both sides sleep, against a ping-pong that blocks"),
    ("tcp.read", "gets of 1 MiB over TCP, against a stream one way"),
];
pub(crate) const SEALED: &[(&str, &str)] = &[
    ("tcp-encrypted.get.awake", "8-byte get, encrypted, against the same ping-pong in the clear"),
    ("tcp-encrypted.get.asleep", "8-byte get when both sides sleep, likewise"),
    ("tcp-encrypted.read", "gets of 1 MiB, encrypted, against a stream in the clear"),
];
pub(crate) const VERBS: &[(&str, &str)] = &[
    ("verbs.get.awake", "8-byte get by RDMA, against a ping-pong of 8 bytes over TCP"),
    ("verbs.get.asleep", "8-byte get when both sides sleep, likewise"),
    ("verbs.get.page", "4-KiB get by RDMA, against 8 bytes to and 4 KiB fro over TCP"),
    ("verbs.add", "fetch-add by RDMA, against a ping-pong of 8 bytes over TCP"),
    ("verbs.read", "gets of 1 MiB by RDMA, against a stream over TCP"),
];

const RUNS: usize = 9;
const BATCHES: usize = 20;
const BATCH: u32 = 200;
/// Round trips in which both sides sleep.
const ASLEEP_BATCHES: usize = 40;
const PAUSE: Duration = Duration::from_millis(1);
const PAGE: usize = 4096;
const CHUNK: usize = 1 << 20;
const CHUNKS: u32 = 64;
/// Bytes of a write in a bare stream: the size with which it is fastest.
const WRITE_LEN: usize = 128 << 10;
/// What a bare connection may wait for: a job whose other node dies is ended by its launcher.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run_plain() -> Figures {
    run("tcp")
}

pub(crate) fn run_sealed() -> Figures {
    run("tcp-encrypted")
}

pub(crate) fn run_verbs() -> Figures {
    run("verbs")
}

fn run(path: &str) -> Figures {
    let node = std::env::var("PANGEA_NODE").ok().and_then(|node| node.parse().ok());
    // Before joining, so that the thread that answers is on the same core. Not by RDMA: the part of
    // a device that the system does may need the core.
    if path != "verbs" {
        pin(node.unwrap_or(0));
    }
    let cluster = Cluster::join(Config::from_env()?)?;
    let mut figures = Vec::new();
    match cluster.node().number() {
        0 => {
            let words: GlobalVec<u64> = cluster.lookup("words")?;
            let bytes: GlobalVec<u8> = cluster.lookup("bytes")?;
            let port: FrozenVec<u64> = cluster.lookup("port")?;
            let port = u16::try_from(port.slice(..)?[0])?;
            let bare = Bare::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)?;
            // An error would be a node that is lost; the barrier at the end finds out.
            let mut get = || _ = black_box(words.get(0));
            figures.push(awake(&format!("{path}.get.awake"), &mut get, &bare, Part::Spin));
            figures.push(get_asleep(path, &words, &bare));
            if path == "verbs" {
                let mut page = [0; PAGE];
                let mut get = || _ = black_box(bytes.get_slice(0, &mut page));
                figures.push(awake("verbs.get.page", &mut get, &bare, Part::SpinPage));
                let mut add = || _ = black_box(words.fetch_add(0, 1));
                figures.push(awake("verbs.add", &mut add, &bare, Part::Spin));
            }
            figures.push(read(path, &bytes, &bare));
            bare.call(Part::End, 0)?;
        }
        1 => {
            let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            cluster.publish("words", &cluster.vec::<u64>(512, Placement::Here)?)?;
            let mut bytes = cluster.vec::<u8>(CHUNK, Placement::Here)?;
            bytes.slice_mut(..)?.fill(1);
            cluster.publish("bytes", &bytes)?;
            let mut port = cluster.vec::<u64>(1, Placement::Here)?;
            port.slice_mut(..)?[0] = u64::from(listener.local_addr()?.port());
            cluster.publish("port", &port.freeze()?)?;
            Bare::new(listener.accept()?.0)?.answer()?;
        }
        _ => {}
    }
    cluster.barrier()?;
    Ok(figures)
}

/// Times `act` against a ping-pong by busy polling, of 8 bytes to and what `part` sends fro.
fn awake(name: &str, act: &mut dyn FnMut(), bare: &Bare, part: Part) -> Figure {
    let ours = || micros(time(BATCHES, BATCH, || (0..BATCH).for_each(|_| act())));
    let bound = || {
        _ = bare.call(part, BATCH * u32::try_from(BATCHES).unwrap_or(0));
        _ = bare.stream.set_nonblocking(true);
        let samples = micros(time(BATCHES, BATCH, || {
            (0..BATCH).for_each(|_| _ = bare.round_trip(part));
        }));
        _ = bare.stream.set_nonblocking(false);
        samples
    };
    Figure::compare(name, "us", RUNS, ours, bound)
}

fn get_asleep(path: &str, words: &GlobalVec<u64>, bare: &Bare) -> Figure {
    let slowly = |act: &mut dyn FnMut()| {
        let trips = (0..ASLEEP_BATCHES).map(|_| {
            thread::sleep(PAUSE);
            let start = Instant::now();
            act();
            start.elapsed().as_secs_f64() * 1e6
        });
        trips.collect::<Samples>()
    };
    let ours = || slowly(&mut || _ = black_box(words.get(0)));
    let bound = || {
        _ = bare.call(Part::Block, u32::try_from(ASLEEP_BATCHES).unwrap_or(0));
        slowly(&mut || _ = bare.round_trip(Part::Block))
    };
    Figure::compare(&format!("{path}.get.asleep"), "us", RUNS, ours, bound)
}

fn read(path: &str, bytes: &GlobalVec<u8>, bare: &Bare) -> Figure {
    let (mut target, mut other) = (vec![0; CHUNK], vec![0; CHUNK]);
    let rate = |samples: Samples| samples.into_iter().map(|ns| CHUNK as f64 / ns).collect();
    let ours = || {
        rate(time(1, CHUNKS, || {
            (0..CHUNKS).for_each(|_| _ = bytes.get_slice(0, &mut target));
            black_box(&target);
        }))
    };
    let mut stream = |spins: bool| {
        let part = if spins { Part::StreamSpinning } else { Part::Stream };
        _ = bare.call(part, CHUNKS);
        _ = bare.stream.set_nonblocking(spins);
        let samples = rate(time(1, CHUNKS, || {
            (0..CHUNKS).for_each(|_| _ = bare.receive(&mut other, spins));
            black_box(&other);
        }));
        _ = bare.stream.set_nonblocking(false);
        samples
    };
    // Which is faster depends on the machine: the better of the two is the bound.
    let bound = || {
        let both = [stream(true), stream(false)];
        both.into_iter().flatten().reduce(f64::max).into_iter().collect()
    };
    Figure::compare(&format!("{path}.read"), "GB/s", RUNS, ours, bound)
}

fn micros(samples: Samples) -> Samples {
    samples.into_iter().map(|ns| ns / 1e3).collect()
}

/// What the second is to do on a bare connection.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Part {
    End,
    Spin,
    SpinPage,
    Block,
    Stream,
    StreamSpinning,
}

impl Part {
    const ALL: [Self; 6] =
        [Self::End, Self::Spin, Self::SpinPage, Self::Block, Self::Stream, Self::StreamSpinning];

    /// Whether both ends look all the time.
    fn spins(self) -> bool {
        matches!(self, Self::Spin | Self::SpinPage | Self::StreamSpinning)
    }

    /// Bytes that come back to 8 that were sent.
    fn reply_len(self) -> usize {
        if self == Self::SpinPage { PAGE } else { 8 }
    }
}

/// A connection without anything of ours.
struct Bare {
    stream: TcpStream,
}

impl Bare {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    fn call(&self, part: Part, count: u32) -> io::Result<()> {
        let mut order = [0; 8];
        order[0] = part as u8;
        order[4..].copy_from_slice(&count.to_le_bytes());
        (&self.stream).write_all(&order)
    }

    /// Does what it is called to, until the end.
    fn answer(&self) -> io::Result<()> {
        let chunk = vec![1; CHUNK];
        loop {
            let mut order = [0; 8];
            (&self.stream).read_exact(&mut order)?;
            let count = u32::from_le_bytes([order[4], order[5], order[6], order[7]]);
            let part = Part::ALL.into_iter().find(|&part| part as u8 == order[0]);
            let part = part.unwrap_or(Part::End);
            self.stream.set_nonblocking(part.spins())?;
            for _ in 0..count {
                match part {
                    Part::Stream | Part::StreamSpinning => {
                        chunk.chunks(WRITE_LEN).try_for_each(|part| self.send(part))?;
                    }
                    _ => {
                        self.receive(&mut [0; 8], part.spins())?;
                        self.send(&chunk[..part.reply_len()])?;
                    }
                }
            }
            self.stream.set_nonblocking(false)?;
            if part == Part::End {
                return Ok(());
            }
        }
    }

    fn round_trip(&self, part: Part) -> io::Result<()> {
        (&self.stream).write_all(&[1; 8])?;
        // To clear a page for 8 bytes would be no part of the bound.
        match part {
            Part::SpinPage => self.receive(&mut [0; PAGE], part.spins()),
            _ => self.receive(&mut [0; 8], part.spins()),
        }
    }

    /// Sends all of `bytes`, however often there is no room.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match (&self.stream).write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&self, target: &mut [u8], spins: bool) -> io::Result<()> {
        if !spins {
            return (&self.stream).read_exact(target);
        }
        let mut filled = 0;
        while filled < target.len() {
            match (&self.stream).read(&mut target[filled..]) {
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
