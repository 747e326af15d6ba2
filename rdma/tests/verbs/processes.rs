//! Two processes, as in earnest: memory of the other, and its sudden end.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use pangea_rdma::{
    Mapping, Op, Request, Token,
    verbs::{
        ENDPOINT_LEN, Endpoint, ProtectionDomain, Registry,
        rc::{Event, Failure, Rc},
    },
};

use crate::{
    devices,
    fixture::{REGION, at, deadline, pattern, read, send, write},
};

/// Set in the process that is the peer.
const ROLE: &str = "PANGEA_TEST_VERBS_PEER";
const LEN: usize = 1 << 20;

/// Not a test, but the peer's process: serves its memory until it is told to end.
#[test]
fn peer() {
    if env::var(ROLE).is_err() {
        return;
    }
    let [_, port] = devices::ports().unwrap();
    let (mut end, memory) = end_on(&ProtectionDomain::new(&port).unwrap());
    memory.write(100, b"of the other process").unwrap();
    let mut line = String::new();
    println!("\nendpoint {}", to_hex(end.endpoint()));
    std::io::stdin().read_line(&mut line).unwrap();
    end.connect(&from_hex(line.trim())).unwrap();
    println!("\nconnected");
    let mut is_told = false;
    while !is_told {
        end.poll(&mut |event| is_told |= matches!(event, Event::Message(_)));
    }
    // As a crash: nothing is closed or said.
    std::process::abort();
}

#[test]
fn a_process_is_read_written_and_lost() {
    let Some([port, _]) = devices::ports() else { return };
    let (mut end, _memory) = end_on(&ProtectionDomain::new(&port).unwrap());
    let mut peer = start();
    let mut said = BufReader::new(peer.stdout.take().unwrap()).lines();
    let mut listen = |word: &str| -> String {
        let line = said.find(|line| line.as_ref().unwrap().starts_with(word));
        line.expect("the peer says it").unwrap()[word.len()..].trim().to_owned()
    };
    let theirs = from_hex(&listen("endpoint"));
    writeln!(peer.stdin.take().unwrap(), "{}", to_hex(end.endpoint())).unwrap();
    end.connect(&theirs).unwrap();
    listen("connected");

    let mut found = [0; 20];
    run(&mut end, read(100, &mut found)).unwrap();
    assert_eq!(&found, b"of the other process");
    let bytes = pattern(3, 300_000);
    run(&mut end, write(&bytes, 1000)).unwrap();
    let mut found = vec![0; bytes.len()];
    run(&mut end, read(1000, &mut found)).unwrap();
    assert!(found == bytes);
    assert_eq!(run(&mut end, Op::FetchAdd { target: at(0), addend: 3 }), Ok(0));
    assert_eq!(run(&mut end, Op::FetchAdd { target: at(0), addend: 3 }), Ok(3));

    run(&mut end, send(b"end")).unwrap();
    peer.wait().unwrap();
    let result = run(&mut end, read(100, &mut found));
    assert!(matches!(result, Err(Failure::Lost(_))), "{result:?}");
}

fn end_on(domain: &Arc<ProtectionDomain>) -> (Rc, Arc<Mapping>) {
    let registry = Registry::new(domain);
    let memory = Arc::new(Mapping::new(LEN).unwrap());
    registry.share(REGION, &memory);
    (Rc::new(&registry, 0).unwrap(), memory)
}

fn start() -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["processes::peer", "--exact", "--nocapture"])
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run(end: &mut Rc, op: Op) -> Result<u64, Failure> {
    // SAFETY: the memory outlives this function, which waits for the operation.
    assert_eq!(unsafe { end.post(&[Request { token: Token(0), op }]) }, 1);
    let (mut ended, deadline) = (None, deadline());
    while ended.is_none() {
        assert!(Instant::now() < deadline, "the operation does not end");
        end.poll(&mut |event| {
            if let Event::Done { result, .. } = event {
                ended = Some(result);
            }
        });
    }
    ended.unwrap()
}

fn to_hex(endpoint: Endpoint) -> String {
    endpoint.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Endpoint {
    assert_eq!(text.len(), 2 * ENDPOINT_LEN, "{text}");
    let byte = |index: usize| u8::from_str_radix(&text[2 * index..2 * index + 2], 16).unwrap();
    Endpoint::from_bytes(&std::array::from_fn(byte)).unwrap()
}
