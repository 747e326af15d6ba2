//! Behaviour of the handshake over loopback, with a thief in the middle where need be.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    thread,
    time::Duration,
};

use super::{
    cipher::{HEAD_LEN, PLAIN_LEN_MAX, TAG_LEN},
    *,
};

/// Bytes that the caller sends, and those that it gets.
const CALLER_LEN: usize = preamble::LEN + MESSAGE_LEN;
const ANSWERER_LEN: usize = preamble::LEN + 2 + 2 + MESSAGE_LEN;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn terms() -> Terms {
    let (key, job) = (Key::random().unwrap(), Job::named("test"));
    Terms { key, job, trust: None }
}

/// Both ends of a connection.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (caller, listener.accept().unwrap().0)
}

fn shake(caller: &Terms, answerer: &Terms) -> (Result<Channel>, Result<Channel>) {
    let (one, two) = pair();
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(two, answerer, soon()));
        let called = call(one, caller, soon());
        (called, answering.join().unwrap())
    })
}

/// Shakes hands by way of a thief, who passes on what `meddle` makes of each part, and goes where
/// that is shorter.
fn shake_by(
    deadline: Instant,
    meddle: impl Fn(Party, Vec<u8>) -> Vec<u8>,
) -> (Result<Channel>, Result<Channel>) {
    let terms = terms();
    let ((one, mut near), (mut far, two)) = (pair(), pair());
    let mut pass = move |party, len: usize| {
        let (from, to) = match party {
            Party::Caller => (&mut near, &mut far),
            Party::Answerer => (&mut far, &mut near),
        };
        let mut part = vec![0; len];
        from.read_exact(&mut part)?;
        let part = meddle(party, part);
        to.write_all(&part)?;
        if part.len() == len { Ok(()) } else { Err(io::Error::other("cut")) }
    };
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(two, &terms, deadline));
        let calling = scope.spawn(|| call(one, &terms, deadline));
        // Ends early where one of them does, or the handshake was cut.
        _ = [
            (Party::Caller, preamble::LEN),
            (Party::Answerer, preamble::LEN + 2),
            (Party::Caller, MESSAGE_LEN),
            (Party::Answerer, 2 + MESSAGE_LEN),
        ]
        .into_iter()
        .try_for_each(|(party, len)| pass(party, len));
        // Whoever still waits hears that it is over.
        drop(pass);
        (calling.join().unwrap(), answering.join().unwrap())
    })
}

/// For those who will wait in vain.
fn shortly() -> Instant {
    Instant::now() + Duration::from_millis(100)
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Party {
    Caller,
    Answerer,
}

#[test]
fn who_has_the_key_can_talk_both_ways() {
    let terms = terms();
    let (caller, answerer) = shake(&terms, &terms);
    let (mut caller, mut answerer) = (caller.unwrap(), answerer.unwrap());
    for len in [0, 1, PLAIN_LEN_MAX - 4, PLAIN_LEN_MAX, 200_000] {
        let message: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
        thread::scope(|scope| {
            scope.spawn(|| caller.send(&message, soon()).unwrap());
            assert_eq!(answerer.receive(200_000, soon()).unwrap(), message);
        });
        answerer.send(b"ready", soon()).unwrap();
        assert_eq!(caller.receive(5, soon()).unwrap(), b"ready");
    }
    answerer.send(b"too much", soon()).unwrap();
    let error = caller.receive(7, soon()).unwrap_err().to_string();
    assert!(error.contains("8 bytes; 7 are allowed"), "{error}");
}

#[test]
fn both_ends_know_why_there_is_no_handshake() {
    let ours = terms();
    let other_key = Terms { key: Key::random().unwrap(), ..ours.clone() };
    let other_job = Terms { job: Job::named("another"), ..ours.clone() };
    for (wrong, reason) in [(other_key, "another key"), (other_job, "another job")] {
        let start = Instant::now();
        let (caller, answerer) = shake(&wrong, &ours);
        for error in [caller.unwrap_err(), answerer.unwrap_err()] {
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert!(start.elapsed() < Duration::from_secs(5), "nobody waited for a deadline");
    }
}

#[test]
fn another_version_is_refused_with_both_numbers() {
    let terms = terms();
    for version in [preamble::VERSION - 1, preamble::VERSION + 1] {
        let (mut caller, two) = pair();
        let mut hello = Preamble::new(&terms, false).encode();
        hello[8..10].copy_from_slice(&version.to_le_bytes());
        caller.write_all(&hello).unwrap();
        let error = answer(two, &terms, soon()).unwrap_err().to_string();
        let mut theirs = [0; preamble::LEN];
        caller.read_exact(&mut theirs).unwrap();
        let reason = reason::receive(&mut caller).unwrap().unwrap();
        for text in [error, reason] {
            assert!(text.contains(&format!("version {version} ")), "{text}");
            assert!(text.contains(&format!("answerer {}", preamble::VERSION)), "{text}");
        }
    }
}

#[test]
fn strangers_are_dropped_whatever_they_say() {
    let terms = terms();
    let hello = Preamble::new(&terms, false).encode();
    for said in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0xff; 100], &hello[..19], b""]
    {
        let (mut stranger, two) = pair();
        stranger.write_all(said).unwrap();
        let silent = said.len() < preamble::LEN;
        let deadline = Instant::now() + Duration::from_millis(if silent { 20 } else { 10_000 });
        let error = answer(two, &terms, deadline).unwrap_err();
        let expected = if silent { "gave up waiting" } else { "not a node of Pangea" };
        assert!(error.to_string().contains(expected), "{error}");
        let mut heard = Vec::new();
        _ = stranger.read_to_end(&mut heard);
        assert!(heard.is_empty(), "a stranger learns nothing");
    }
}

#[test]
fn who_drips_is_dropped_at_the_deadline() {
    let (mut stranger, two) = pair();
    let terms = terms();
    let hello = Preamble::new(&terms, false).encode();
    let dripping = thread::spawn(move || {
        // A byte whenever the last one was taken, until nobody listens any more.
        for byte in hello.iter().chain(std::iter::repeat(&0)) {
            if stranger.write_all(&[*byte]).is_err() {
                return;
            }
            thread::park_timeout(Duration::from_millis(5));
        }
    });
    answer(two, &terms, Instant::now() + Duration::from_millis(100)).unwrap_err();
    dripping.join().unwrap();
}

#[test]
fn a_handshake_may_be_passed_on_by_others() {
    let (caller, answerer) = shake_by(soon(), |_, part| part);
    let (caller, answerer) = (caller.map(drop), answerer.map(drop));
    assert!(caller.is_ok() && answerer.is_ok(), "{caller:?} {answerer:?}");
}

#[test]
fn a_changed_byte_breaks_the_handshake() {
    let places = (0..CALLER_LEN).map(|at| (Party::Caller, at));
    let places = places.chain((0..ANSWERER_LEN).map(|at| (Party::Answerer, at)));
    for (party, at) in places {
        let passed = std::sync::Mutex::new(0);
        let (caller, answerer) = shake_by(shortly(), |sender, mut part| {
            if sender == party {
                let mut passed = passed.lock().unwrap();
                if (*passed..*passed + part.len()).contains(&at) {
                    part[at - *passed] ^= 1 << (at % 8);
                }
                *passed += part.len();
            }
            part
        });
        assert!(caller.is_err(), "byte {at} of what is sent was changed");
        // The answerer's last words may be lost on it; what the caller says next does not open.
        assert!(answerer.is_err() || party == Party::Answerer, "byte {at}");
    }
}

#[test]
fn a_handshake_that_is_cut_anywhere_is_none() {
    for party in [Party::Caller, Party::Answerer] {
        let len = if party == Party::Caller { CALLER_LEN } else { ANSWERER_LEN };
        for cut in 0..len {
            let left = std::sync::Mutex::new(cut);
            let (caller, answerer) = shake_by(shortly(), |sender, mut part| {
                if sender == party {
                    let mut left = left.lock().unwrap();
                    part.truncate(*left);
                    *left -= part.len();
                }
                part
            });
            assert!(caller.is_err(), "cut after {cut} bytes");
            assert!(answerer.is_err() || party == Party::Answerer, "cut after {cut} bytes");
        }
    }
}

/// The four halves of a handshake: the caller's, and the answerer's.
fn halves() -> ((cipher::Sealer, cipher::Opener), (cipher::Sealer, cipher::Opener)) {
    let terms = terms();
    let bytes = Preamble::new(&terms, false).encode();
    let noise = Noise::new(&terms, [bytes, bytes]);
    let (mut caller, mut answerer) = (noise.caller().unwrap(), noise.answerer().unwrap());
    let mut message = [0; MESSAGE_LEN];
    write(&mut caller, &mut message).unwrap();
    answerer.read_message(&message, &mut []).unwrap();
    write(&mut answerer, &mut message).unwrap();
    caller.read_message(&message, &mut []).unwrap();
    let split =
        |noise: HandshakeState| cipher::split(noise.into_stateless_transport_mode().unwrap());
    (split(caller), split(answerer))
}

#[test]
fn a_record_opens_once_whole_and_in_its_place() {
    let ((mut sealer, _), (_, mut opener)) = halves();
    let mut records = Vec::new();
    sealer.seal(b"first", &mut records).unwrap();
    let second = records.len();
    sealer.seal(b"second", &mut records).unwrap();
    let (first, second) = records.split_at(second);
    let mut out = [0; 64];
    assert_eq!(opener.open(&first[HEAD_LEN..], &mut out).unwrap(), 5);
    assert_eq!(&out[..5], b"first");
    opener.open(&first[HEAD_LEN..], &mut out).unwrap_err();

    let ((mut sealer, _), (_, mut opener)) = halves();
    let mut records = Vec::new();
    sealer.seal(b"first", &mut records).unwrap();
    opener.open(&second[HEAD_LEN..], &mut out).unwrap_err();
    for wrong in [&records[HEAD_LEN..HEAD_LEN + TAG_LEN - 1], &records[..HEAD_LEN], &[]] {
        opener.open(wrong, &mut out).unwrap_err();
    }
    opener.open(&[0; 100], &mut out).unwrap_err();
}

#[test]
fn both_halves_work_at_once_in_threads_of_their_own() {
    let ((mut sealer, mut opener), (mut back, mut there)) = halves();
    let exchange = |sealer: &mut cipher::Sealer, opener: &mut cipher::Opener| {
        let (mut record, mut out) = (Vec::new(), vec![0; PLAIN_LEN_MAX]);
        for len in [0, 1, 100, PLAIN_LEN_MAX].repeat(8) {
            record.clear();
            sealer.seal(&vec![7; len], &mut record).unwrap();
            assert_eq!(record.len(), HEAD_LEN + len + TAG_LEN);
            assert_eq!(opener.open(&record[HEAD_LEN..], &mut out).unwrap(), len);
            assert!(out[..len].iter().all(|byte| *byte == 7));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| exchange(&mut sealer, &mut there));
        scope.spawn(|| exchange(&mut back, &mut opener));
    });
    let error = sealer.seal(&vec![0; PLAIN_LEN_MAX + 1], &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::OutOfBounds { .. }), "{error}");
}

#[test]
fn a_preamble_of_anybody_is_read_without_harm() {
    let good = Preamble::new(&terms(), true);
    assert_eq!(Preamble::decode(&good.encode()).unwrap(), good);
    for len in (0..preamble::LEN).chain([preamble::LEN + 1, 100]) {
        Preamble::decode(&vec![b'P'; len]).unwrap_err();
    }
}
