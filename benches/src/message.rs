//! How long an 8-byte message and its answer take, over the fabric itself.

use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pangea::{Error, NodeId, Result};
use pangea_rdma::{
    Completion, Fabric, Mapping, Op, PeerMemory, Request, Token,
    bootstrap::{
        Build,
        local::{Invitation, join},
    },
    shm::Shm,
};

use crate::{
    Figure, Figures,
    figure::time,
    handover::{Handover, Sleepers},
    pin::pin,
};

pub(crate) const FIGURES: &[(&str, &str)] = &[
    ("message.awake", "8-byte message round trip, both awake, against a cache-line hand-over"),
    ("message.asleep", "8-byte message round trip, both asleep, against a futex hand-over"),
];

const PATIENCE: Duration = Duration::from_secs(30);
const RUNS: usize = 21;
const AWAKE_BATCHES: usize = 20;
const AWAKE_BATCH: u32 = 500;
const ASLEEP_BATCHES: usize = 40;
/// Long enough for the other side to have stopped spinning, and to sleep.
const PAUSE: Duration = Duration::from_micros(300);

pub(crate) fn run() -> Figures {
    let deadline = Instant::now() + PATIENCE;
    let invitation = Invitation::from_env()?.ok_or_else(|| Error::Config {
        field: "nodes",
        reason: "messages are measured between 2 nodes".to_owned(),
    })?;
    let fabric = Shm::connect(join(&invitation, &Build::default(), deadline)?, deadline)?;
    pin(fabric.node().index());
    let mine = Arc::new(Mapping::new(4096)?);
    let region = fabric.register(mine.clone())?;
    let first = NodeId::new(0);
    let page = match fabric.node() {
        node if node == first => mine,
        _ => match fabric.region(first, region, deadline)? {
            PeerMemory::Object(object) => Arc::new(object.map()?),
            PeerMemory::Remote(_) => unreachable!("shared memory is mapped"),
        },
    };
    let pair = Pair { fabric, page, deadline };
    match pair.fabric.node().number() {
        0 => Ok(vec![pair.awake(true)?, pair.asleep(true)?]),
        1 => {
            pair.awake(false)?;
            pair.asleep(false)?;
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}

/// Two nodes that play ball.
struct Pair {
    fabric: Shm,
    page: Arc<Mapping>,
    deadline: Instant,
}

impl Pair {
    fn awake(&self, is_first: bool) -> Result<Figure> {
        let (forth, back) = (self.page.word(0)?, self.page.word(256)?);
        let handover = Handover { forth, back };
        let mut last = 0;
        let ours = || {
            time(AWAKE_BATCHES, AWAKE_BATCH, || {
                (0..AWAKE_BATCH).for_each(|_| self.round_trip(is_first));
            })
        };
        let bound = || {
            time(AWAKE_BATCHES, AWAKE_BATCH, || {
                last += u64::from(AWAKE_BATCH);
                if is_first {
                    handover.call(last, AWAKE_BATCH);
                } else {
                    handover.answer(last, AWAKE_BATCH);
                }
            })
        };
        Ok(Figure::compare("message.awake", "ns", RUNS, ours, bound))
    }

    /// Both sides sleep when a message comes: the second because the first pauses before it calls,
    /// the first because the second pauses before it answers, and says how long.
    fn asleep(&self, is_first: bool) -> Result<Figure> {
        let sleepers = Sleepers { forth: self.page.word(512)?, back: self.page.word(768)? };
        let pause = self.page.word(1024)?;
        let mut number = 0;
        let ours = || {
            slow_round_trips(is_first, pause, |part| match part {
                Part::Call => self.round_trip(true),
                Part::AwaitCall => self.receive(),
                Part::Reply => self.send(0),
            })
        };
        let bound = || {
            slow_round_trips(is_first, pause, |part| match part {
                Part::Call => {
                    number += 1;
                    sleepers.call(number);
                }
                Part::AwaitCall => {
                    number += 1;
                    sleepers.await_call(number);
                }
                Part::Reply => sleepers.reply(number),
            })
        };
        Ok(Figure::compare("message.asleep", "us", RUNS, ours, bound))
    }

    fn round_trip(&self, is_first: bool) {
        if is_first {
            self.send(1);
            self.receive();
        } else {
            self.receive();
            self.send(0);
        }
    }

    fn send(&self, target: u16) {
        let mut message = 7_u64.to_le_bytes();
        let op = Op::Send { target: NodeId::new(target), message: NonNull::from(&mut message[..]) };
        // SAFETY: shared memory sends before `post` returns, so that the message outlives its use.
        _ = unsafe { self.fabric.post(&[Request { token: Token(0), op }]) };
    }

    fn receive(&self) {
        let mut has_come = false;
        loop {
            self.fabric.poll(&mut |completion| {
                has_come |= matches!(completion, Completion::Message { .. });
            });
            // A job whose other node dies is ended by its launcher.
            if has_come || !self.fabric.wait(1, self.deadline) {
                return;
            }
        }
    }
}

/// What a side does in a round trip.
enum Part {
    /// The first calls and waits for the reply.
    Call,
    /// The second waits for the call …
    AwaitCall,
    /// … and replies.
    Reply,
}

/// Times round trips in which both sides have time to fall asleep; microseconds without the
/// second's pause, which it leaves in `pause`.
fn slow_round_trips(is_first: bool, pause: &AtomicU64, mut act: impl FnMut(Part)) -> Vec<f64> {
    let trips = (0..ASLEEP_BATCHES).map(|_| {
        if is_first {
            thread::sleep(PAUSE);
            let start = Instant::now();
            act(Part::Call);
            // Relaxed: the reply orders it.
            let pause = Duration::from_nanos(pause.load(Ordering::Relaxed));
            return start.elapsed().saturating_sub(pause).as_secs_f64() * 1e6;
        }
        act(Part::AwaitCall);
        let start = Instant::now();
        thread::sleep(PAUSE);
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: the reply orders it.
        pause.store(nanoseconds, Ordering::Relaxed);
        act(Part::Reply);
        0.0
    });
    trips.collect()
}
