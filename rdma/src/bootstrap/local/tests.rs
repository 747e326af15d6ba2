//! Behaviour of the meeting, with threads in the place of processes.

use std::{
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    thread,
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// An invitation as `from_env` would read it.
pub(crate) fn invitation(rendezvous: &Rendezvous, node: u16) -> Invitation {
    Invitation {
        rendezvous: rendezvous.directory.socket(),
        nonce: rendezvous.nonce.clone(),
        node: NodeId::new(node),
        nodes: rendezvous.nodes,
    }
}

fn meet(nodes: u16) -> Vec<Meeting> {
    let rendezvous = Rendezvous::new(nodes).unwrap();
    let joins: Vec<_> = (0..nodes)
        .map(|node| {
            let invitation = invitation(&rendezvous, node);
            thread::spawn(move || join(&invitation, soon()).unwrap())
        })
        .collect();
    rendezvous.serve(soon(), &|| false).unwrap().unwrap();
    joins.into_iter().map(|join| join.join().unwrap()).collect()
}

#[test]
fn every_two_nodes_get_the_ends_of_one_socket() {
    let meetings = meet(4);
    for one in 0..4_u8 {
        for two in 0..4_u8 {
            let (from, to) = (&meetings[usize::from(one)], &meetings[usize::from(two)]);
            let socket = from.sockets[usize::from(two)].as_ref();
            assert_eq!(socket.is_none(), one == two);
            let Some(mut socket) = socket else { continue };
            socket.write_all(&[one, two]).unwrap();
            let mut seen = [0; 2];
            to.sockets[usize::from(one)].as_ref().unwrap().read_exact(&mut seen).unwrap();
            assert_eq!(seen, [one, two]);
        }
    }
}

#[test]
fn the_directory_is_private_and_goes_with_the_meeting() {
    let rendezvous = Rendezvous::new(1).unwrap();
    let directory = rendezvous.directory.socket().parent().unwrap().to_owned();
    assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    drop(rendezvous);
    assert!(!directory.exists());
}

#[test]
fn a_stranger_is_refused_with_a_reason_and_the_job_goes_on() {
    let rendezvous = Rendezvous::new(1).unwrap();
    let good = invitation(&rendezvous, 0);
    let bad_job = Invitation { nonce: Nonce::random().unwrap(), ..good.clone() };
    let bad_node = Invitation { node: NodeId::new(1), ..good.clone() };
    let path = rendezvous.directory.socket();
    let served = thread::spawn(move || rendezvous.serve(soon(), &|| false));
    for (wrong, reason) in [(bad_job, "another job"), (bad_node, "the job has 1 nodes")] {
        let error = join(&wrong, soon()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let mut stranger = UnixStream::connect(&path).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A reset or the end of the stream: the stranger learns nothing.
    _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty());
    join(&good, soon()).unwrap();
    served.join().unwrap().unwrap().unwrap();
}

#[test]
fn a_node_that_comes_twice_is_refused() {
    let rendezvous = Rendezvous::new(2).unwrap();
    let (first, second) = (invitation(&rendezvous, 0), invitation(&rendezvous, 1));
    let twice = first.clone();
    let served = thread::spawn(move || rendezvous.serve(soon(), &|| false));
    let joined = thread::spawn(move || join(&first, soon()));
    let again = thread::spawn(move || join(&twice, soon()));
    while !joined.is_finished() && !again.is_finished() {
        thread::yield_now();
    }
    join(&second, soon()).unwrap();
    served.join().unwrap().unwrap().unwrap();
    let results = [joined.join().unwrap(), again.join().unwrap()];
    let refused = results.iter().filter_map(|result| result.as_ref().err()).next().unwrap();
    assert!(refused.to_string().contains("there already"), "{refused}");
    assert!(results.iter().any(Result::is_ok));
}

#[test]
fn a_missing_node_is_named_when_time_is_up() {
    let rendezvous = Rendezvous::new(2).unwrap();
    let first = invitation(&rendezvous, 0);
    let joined = thread::spawn(move || join(&first, Instant::now() + Duration::from_millis(40)));
    let error =
        rendezvous.serve(Instant::now() + Duration::from_millis(60), &|| false).unwrap_err();
    assert!(error.to_string().contains("for node 1") || error.to_string().contains("for node 0"));
    joined.join().unwrap().unwrap_err();
}

#[test]
fn nodes_remove_the_directory_of_a_launcher_that_was_killed() {
    let rendezvous = Rendezvous::new(2).unwrap();
    let first = invitation(&rendezvous, 0);
    let directory = rendezvous.directory.socket().parent().unwrap().to_owned();
    // What a killed launcher leaves: no socket that listens, a lock that nobody holds.
    let abandoned = directory.with_file_name(format!("pangea-test-{}", std::process::id()));
    std::fs::create_dir(&abandoned).unwrap();
    std::fs::write(abandoned.join("lock"), "").unwrap();
    std::fs::write(abandoned.join("rendezvous"), "").unwrap();
    directory::remove(&first.rendezvous);
    assert!(directory.exists(), "a launcher that lives keeps its directory");
    directory::remove(&abandoned.join("rendezvous"));
    assert!(!abandoned.exists());
}

#[test]
fn twenty_jobs_at_once_never_meet() {
    let jobs: Vec<_> = (0..20).map(|_| thread::spawn(|| meet(3).len())).collect();
    for job in jobs {
        assert_eq!(job.join().unwrap(), 3);
    }
}

#[test]
fn a_job_number_survives_its_way_through_the_environment() {
    let nonce = Nonce::random().unwrap();
    assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce.clone()));
    for wrong in ["", "12", &format!("{nonce}0"), &"g".repeat(32), &"é".repeat(16)] {
        assert_eq!(Nonce::parse(wrong), None, "{wrong}");
    }
}
