//! Hosts that are processes of their own.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use pangea_rdma::verbs::sys::IBV_WC_SUCCESS;

use crate::{
    address::Address,
    lab::{Lab, silent},
    machine::{Machine, Pair},
};

/// A process that sends back what it receives; see `peer.rs`.
#[derive(Debug)]
struct Echo {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Echo {
    fn start(lab: &Lab, host: u8) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-peer"));
        command.arg("echo").envs(lab.environment(host));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    /// What it says next.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Connects its queue pair and ours, and waits until it has posted receives.
    fn connect(&mut self, machine: &Machine, ours: &Pair<'_>) {
        self.line().parse::<Address>().unwrap().connect(ours).unwrap();
        writeln!(self.stdin, "{}", Address::of(machine, ours)).unwrap();
        assert_eq!(self.line(), "ready\n");
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn processes_exchange_messages() {
    let lab = Lab::new(&[]);
    let one = lab.host(0);
    let mut echo = Echo::start(&lab, 1);
    let memory = one.memory(1 << 16);
    let ours = one.pair();
    echo.connect(&one, &ours);
    for round in 0..1000_u32 {
        let message = [round.to_le_bytes(); 1024].concat();
        memory.write(0, &message);
        ours.receive(1, memory.part(8192, 4096)).unwrap();
        ours.send(2, memory.part(0, 4096)).unwrap();
        let mut ids = [one.wait(), one.wait()].map(|done| {
            assert_eq!(done.status, IBV_WC_SUCCESS);
            done.wr_id
        });
        ids.sort_unstable();
        assert_eq!(ids, [1, 2]);
        assert!(memory.read(8192, 4096) == message, "{round}");
    }
}

#[test]
fn a_dead_peer_is_silence() {
    let lab = Lab::new(&[]);
    let one = lab.host(0);
    let mut echo = Echo::start(&lab, 1);
    let memory = one.memory(1 << 16);
    let ours = one.pair();
    echo.connect(&one, &ours);
    drop(echo);
    ours.receive(1, memory.part(0, 4096)).unwrap();
    // What it had posted receives for may leave; nothing else does, and nothing fails.
    for _ in 0..100 {
        ours.send(2, memory.part(0, 4096)).unwrap();
    }
    let mut left = 0;
    while let Some(done) = one.poll() {
        assert_eq!((done.wr_id, done.status), (2, IBV_WC_SUCCESS));
        left += 1;
    }
    assert!(left < 100, "{left}");
    silent(&[&one]);
}

#[test]
fn queue_pairs_are_counted_over_processes_that_live() {
    let lab = Lab::new(&[]);
    let one = lab.host(0);
    let mut same_host = Echo::start(&lab, 0);
    same_host.line();
    let pairs: Vec<_> = (0..9).map(|_| one.pair()).collect();
    let refused = one.try_pair(|_| ()).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    drop(same_host);
    one.try_pair(|_| ()).unwrap();
    drop(pairs);
}
