//! Times operations over verbs between two devices of this host, as perftest does: prints one
//! figure, in microseconds for a latency (the median) and in MB/s for a bandwidth.
//!
//! ```text
//! verbs_bench read|write|add|send|bandwidth [operations]
//! ```

use std::{
    env,
    error::Error,
    ptr::NonNull,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use pangea_rdma::{
    Mapping, NodeId, Op, Region, RemoteAddr, Request, Token,
    verbs::{
        Library, Port, ProtectionDomain, Registry,
        rc::{Event, Rc},
        uc::{self, FRAME_LEN, Uc},
    },
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

const REGION: Region = Region(0);
const MEMORY_LEN: usize = 8 << 20;
/// Bytes of a bandwidth's reads.
const BULK_LEN: usize = 64 << 10;
/// Reads of a bandwidth that are under way at a time.
const BULK_DEPTH: usize = 32;

fn main() -> Result {
    let mut arguments = env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let count = arguments.next().map_or(Ok(1000), |count| count.parse::<usize>())?.max(10);
    let ports = ports()?;
    match mode.as_str() {
        "read" => latency(ports, count, |target| Op::Read { source: at(0), target }),
        "add" => latency(ports, count, |_| Op::FetchAdd { target: at(0), addend: 1 }),
        "write" => writes(ports, count),
        "send" => frames(ports, count),
        "bandwidth" => bandwidth(ports, count),
        other => Err(format!("{other}: read, write, add, send or bandwidth is wanted").into()),
    }
}

fn ports() -> Result<[Port; 2]> {
    let mut ports = Port::all_active(&Library::load()?)?;
    ports.truncate(2);
    let first = ports[0].clone();
    let second = ports.pop().ok_or("there is no device")?;
    Ok([first, second])
}

/// An end of a connection, with the memory that it shares and keeps.
struct End {
    rc: Rc,
    memory: Arc<Mapping>,
}

fn pair(ports: &[Port; 2]) -> Result<[End; 2]> {
    let end = |port: &Port| -> Result<End> {
        let registry = Registry::new(&ProtectionDomain::new(port)?);
        let memory = Arc::new(Mapping::new(MEMORY_LEN)?);
        registry.share(REGION, &memory);
        Ok(End { rc: Rc::new(&registry, 0)?, memory })
    };
    let mut ends = [end(&ports[0])?, end(&ports[1])?];
    let endpoints = [ends[0].rc.endpoint(), ends[1].rc.endpoint()];
    ends[0].rc.connect(&endpoints[1])?;
    ends[1].rc.connect(&endpoints[0])?;
    Ok(ends)
}

impl End {
    fn post(&mut self, op: Op) {
        // SAFETY: the memory is part of a mapping that outlives the connection, or of a local
        // variable of a caller that waits.
        let taken = unsafe { self.rc.post(&[Request { token: Token(0), op }]) };
        assert_eq!(taken, 1, "the queue has room for what is under way");
    }

    /// Takes what has ended, and returns how much that was.
    fn poll(&mut self) -> usize {
        let mut ended = 0;
        self.rc.poll(&mut |event| {
            if let Event::Done { result, .. } = event {
                result.expect("the operation succeeds");
                ended += 1;
            }
        });
        ended
    }

    fn wait(&mut self) {
        while self.poll() == 0 {}
    }

    fn part(&self, offset: usize, len: usize) -> NonNull<[u8]> {
        let start = self.memory.range(offset as u64, len as u64).expect("inside the memory");
        NonNull::slice_from_raw_parts(start, len)
    }
}

/// The first operation asks the peer where its memory is: the peer answers.
fn introduce([ours, theirs]: &mut [End; 2]) {
    for (asker, other) in [(0, 1), (1, 0)] {
        let ends = [&mut *ours, &mut *theirs];
        let target = ends[asker].part(0, 8);
        ends[asker].post(Op::Read { source: at(0), target });
        while ends[asker].poll() == 0 {
            ends[other].poll();
        }
    }
}

/// How long each of `count` rounds takes. The clock is read once a round, as perftest does.
fn rounds(count: usize, mut round: impl FnMut()) -> Vec<Duration> {
    let mut last = Instant::now();
    let mut time = || {
        round();
        let now = Instant::now();
        let time = now - last;
        last = now;
        time
    };
    (0..count).map(|_| time()).collect()
}

fn latency(ports: [Port; 2], count: usize, op: impl Fn(NonNull<[u8]>) -> Op) -> Result {
    let mut ends = pair(&ports)?;
    introduce(&mut ends);
    let [ours, _theirs] = &mut ends;
    let target = ours.part(0, 8);
    let times = rounds(count, || {
        ours.post(op(target));
        ours.wait();
    });
    println!("{:.2}", microseconds(median(times)));
    Ok(())
}

/// Two ends write to each other in turn, each when it sees the other's: half of a round.
fn writes(ports: [Port; 2], count: usize) -> Result {
    let mut ends = pair(&ports)?;
    introduce(&mut ends);
    let [mut ours, mut theirs] = ends;
    let times = thread::scope(|scope| {
        scope.spawn(move || {
            for round in 1..=count as u64 {
                await_round(&theirs.memory, round);
                write(&mut theirs, round);
            }
        });
        let mut round = 0;
        rounds(count, || {
            round += 1;
            write(&mut ours, round);
            await_round(&ours.memory, round);
        })
    });
    println!("{:.2}", microseconds(median(times)) / 2.0);
    Ok(())
}

/// Writes to the other's word; the completion is taken when the next is posted.
fn write(end: &mut End, round: u64) {
    let source = round.to_ne_bytes();
    end.post(Op::Write { source: NonNull::from(&source[..]), target: at(64) });
    end.wait();
}

fn await_round(memory: &Mapping, round: u64) {
    let word = memory.word(64).expect("a word of the memory");
    // Acquire: what was written before is not looked at, but a reader would.
    while word.load(Ordering::Acquire) != round {
        std::hint::spin_loop();
    }
}

/// Frames of 4 KiB to and fro over an unreliable connection: half of a round.
fn frames(ports: [Port; 2], count: usize) -> Result {
    let end = |port: &Port| Uc::new(&ProtectionDomain::new(port)?, 16, 64, 0);
    let (mut ours, mut theirs) = (end(&ports[0])?, end(&ports[1])?);
    let endpoints = [ours.endpoint(), theirs.endpoint()];
    ours.connect(&endpoints[1])?;
    theirs.connect(&endpoints[0])?;
    let times = thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..count {
                await_frame(&mut theirs);
                assert!(theirs.send(0, FRAME_LEN));
            }
        });
        rounds(count, || {
            assert!(ours.send(0, FRAME_LEN));
            await_frame(&mut ours);
        })
    });
    println!("{:.2}", microseconds(median(times)) / 2.0);
    Ok(())
}

fn await_frame(end: &mut Uc) {
    let mut came = false;
    while !came {
        end.poll(&mut |event| came |= matches!(event, uc::Event::Frame(_)));
    }
}

fn bandwidth(ports: [Port; 2], count: usize) -> Result {
    let mut ends = pair(&ports)?;
    introduce(&mut ends);
    let [ours, _theirs] = &mut ends;
    let start = Instant::now();
    let (mut begun, mut ended) = (0, 0);
    while ended < count {
        while begun < count && begun - ended < BULK_DEPTH {
            let offset = begun % BULK_DEPTH * BULK_LEN;
            let source = at(offset as u64);
            ours.post(Op::Read { source, target: ours.part(offset, BULK_LEN) });
            begun += 1;
        }
        ended += ours.poll();
    }
    let bytes = (count * BULK_LEN) as f64;
    println!("{:.1}", bytes / start.elapsed().as_secs_f64() / 1e6);
    Ok(())
}

fn at(offset: u64) -> RemoteAddr {
    RemoteAddr { node: NodeId::new(1), region: REGION, offset }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
