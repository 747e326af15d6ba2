//! The process at the other end: `fake-peer echo`; `fake-peer speed` prints what a wire carries.
//!
//! It tells the address of its queue pair on a line, reads the other's, and tells a line once it
//! has posted receives. It ends with its input.

mod address;
#[allow(dead_code, reason = "the tests use all of it")]
mod machine;
#[allow(dead_code, reason = "as above")]
mod verbs;

use std::{
    env,
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    process::{self, Command, Stdio},
    thread,
    time::Instant,
};

use pangea_rdma::verbs::sys::{IBV_WC_RECV, IBV_WR_SEND};

use crate::{
    address::Address,
    machine::{Machine, Memory, Pair},
};

/// Receives that a peer has posted, and bytes of each.
const RECEIVES: usize = 64;
const RECEIVE_LEN: usize = 64 << 10;
/// Round trips of a measurement, and messages of another.
const ROUNDS: u32 = 200_000;
const MESSAGES: u32 = 64_000;

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        Some("echo") => serve(4096, true),
        Some("sink") => serve(RECEIVE_LEN, false),
        Some("speed") => {
            let round_trip = measure("echo", ping)?;
            println!("8 bytes, round trip: {:.2} us", round_trip * 1e6 / f64::from(ROUNDS));
            let stream = measure("sink", stream)?;
            let bytes = f64::from(MESSAGES) * RECEIVE_LEN as f64;
            println!("64 KiB messages, one way: {:.2} GB/s", bytes / stream / 1e9);
            Ok(())
        }
        _ => Err("usage: fake-peer echo | sink | speed, with PANGEA_FAKE_TB_DIR set".into()),
    }
}

/// Receives messages of up to `len` bytes, and sends back what came if `answers`.
fn serve(len: usize, answers: bool) -> Result<(), Box<dyn Error>> {
    let machine = Machine::open("rdma_en2");
    let memory = machine.memory(RECEIVES * len);
    let pair = machine.pair();
    println!("{}", Address::of(&machine, &pair));
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    line.parse::<Address>()?.connect(&pair)?;
    let receive =
        |slot: u64| pair.receive(slot, memory.part(usize::try_from(slot).unwrap() * len, len));
    (0..RECEIVES as u64).try_for_each(receive)?;
    println!("ready");
    thread::spawn(|| {
        _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    });
    loop {
        let Some(done) = machine.poll() else {
            thread::yield_now();
            continue;
        };
        let slot = usize::try_from(done.wr_id)?;
        if answers && done.opcode == IBV_WC_RECV {
            pair.send(done.wr_id, memory.part(slot * len, done.byte_len as usize))?;
        } else {
            receive(done.wr_id)?;
        }
    }
}

/// Seconds that `run` takes with a peer that does as `role` says.
fn measure(role: &str, run: fn(&Machine, &Pair<'_>, &Memory<'_>)) -> Result<f64, Box<dyn Error>> {
    let machine = Machine::open("rdma_en2");
    let memory = machine.memory(RECEIVE_LEN);
    let mut command = Command::new(env::current_exe()?);
    command.arg(role).env("PANGEA_FAKE_TB_HOST", "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("it is piped")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("it is piped")?);
    let (mut address, mut ready) = (String::new(), String::new());
    output.read_line(&mut address)?;
    let pair = machine.pair();
    address.parse::<Address>()?.connect(&pair)?;
    writeln!(input, "{}", Address::of(&machine, &pair))?;
    output.read_line(&mut ready)?;
    let start = Instant::now();
    run(&machine, &pair, &memory);
    let taken = start.elapsed().as_secs_f64();
    drop(input);
    child.wait()?;
    Ok(taken)
}

fn ping(machine: &Machine, pair: &Pair<'_>, memory: &Memory<'_>) {
    for _ in 0..ROUNDS {
        pair.receive(1, memory.part(64, 8)).unwrap();
        pair.send_with(2, memory.part(0, 8), IBV_WR_SEND, 0).unwrap();
        machine.wait();
    }
}

fn stream(machine: &Machine, pair: &Pair<'_>, memory: &Memory<'_>) {
    // As many as a send queue of this depth takes.
    let mut left = MESSAGES;
    for _ in 0..32 {
        pair.send(1, memory.part(0, RECEIVE_LEN)).unwrap();
        left -= 1;
    }
    for _ in 0..MESSAGES {
        machine.wait();
        if left > 0 {
            pair.send(1, memory.part(0, RECEIVE_LEN)).unwrap();
            left -= 1;
        }
    }
}
