//! Behaviour of the meeting, with threads in the place of processes.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
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
        job: rendezvous.job,
        node: NodeId::new(node),
        nodes: rendezvous.nodes,
        has_launcher: true,
    }
}

fn join(invitation: &Invitation, deadline: Instant) -> Result<Meeting> {
    super::join(invitation, &Build::default(), deadline)
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
    let bad_job = Invitation { job: Job::random().unwrap(), ..good.clone() };
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
fn a_missing_node_is_named_to_all_when_time_is_up() {
    let rendezvous = Rendezvous::new(2).unwrap();
    let first = invitation(&rendezvous, 0);
    let socket = UnixStream::connect(&first.rendezvous).unwrap();
    let joined = thread::spawn(move || attend(&first, socket, &Build::default(), soon()));
    let deadline = Instant::now() + Duration::from_millis(60);
    let error = rendezvous.serve(deadline, &|| false).unwrap_err().to_string();
    let told = joined.join().unwrap().unwrap_err().to_string();
    if error.contains("for node 1") {
        assert!(told.contains(&error), "{told}");
    } else {
        // This machine was too busy for the first one to be heard.
        assert!(error.contains("for node 0"), "{error}");
    }
}

#[test]
fn nodes_of_two_builds_are_told_so_both() {
    let rendezvous = Rendezvous::new(3).unwrap();
    let joins: Vec<_> = (0..3)
        .map(|node| {
            let invitation = invitation(&rendezvous, node);
            // The two that agree wait for the third.
            let build = Build::new("pangea", [("shared::Sample", u64::from(node / 2))]);
            thread::spawn(move || super::join(&invitation, &build, soon()))
        })
        .collect();
    let error = rendezvous.serve(soon(), &|| false).unwrap_err().to_string();
    let expected = "the type shared::Sample has one layout in node";
    assert!(error.contains(expected) && error.contains("node 2"), "{error}");
    let mut told = joins.into_iter().map(|join| join.join().unwrap().unwrap_err().to_string());
    // Who comes after that finds nobody; the other two are told.
    assert!(told.by_ref().filter(|told| told.contains(expected)).count() >= 2);
}

#[test]
fn nodes_remove_the_directory_of_a_launcher_that_was_killed() {
    let rendezvous = Rendezvous::new(2).unwrap();
    let first = invitation(&rendezvous, 0);
    let directory = rendezvous.directory.socket().parent().unwrap().to_owned();
    // What a killed launcher leaves: no socket that listens, a lock that nobody holds.
    let abandoned = directory.with_file_name(format!("pangea-test-{}", std::process::id()));
    fs::create_dir(&abandoned).unwrap();
    fs::write(abandoned.join("lock"), "").unwrap();
    fs::write(abandoned.join("rendezvous"), "").unwrap();
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

/// The invitations of a job that has a name, and no launcher of ours.
fn named(nodes: u16) -> Vec<Invitation> {
    let job = Job::random().unwrap();
    let node = |node| Invitation::without_launcher(job, NodeId::new(node), nodes);
    (0..nodes).map(node).collect()
}

fn join_all(invitations: Vec<Invitation>) -> Vec<Meeting> {
    // The node that prepares the meeting comes last.
    let joins: Vec<_> = invitations
        .into_iter()
        .rev()
        .map(|invitation| thread::spawn(move || join(&invitation, soon()).unwrap()))
        .collect();
    joins.into_iter().rev().map(|join| join.join().unwrap()).collect()
}

#[test]
fn nodes_without_a_launcher_meet_where_their_job_is_named() {
    let invitations = named(3);
    let directory = invitations[0].rendezvous.parent().unwrap().to_owned();
    let meetings = join_all(invitations);
    assert!(meetings.iter().all(|meeting| meeting.sockets.iter().flatten().count() == 2));
    assert!(!directory.exists());
}

#[test]
fn what_a_killed_job_of_the_same_name_has_left_is_replaced() {
    let invitations = named(2);
    let socket = &invitations[0].rendezvous;
    let directory = socket.parent().unwrap();
    fs::DirBuilder::new().mode(0o700).create(directory).unwrap();
    fs::write(directory.join("lock"), "").unwrap();
    drop(UnixListener::bind(socket).unwrap());
    assert_eq!(join_all(invitations).len(), 2);
}

#[test]
fn nobody_meets_in_the_directory_of_another_user() {
    let mut invitations = named(2);
    let directory = invitations[0].rendezvous.parent().unwrap().to_owned();
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    let _listener = UnixListener::bind(&invitations[0].rendezvous).unwrap();
    // Only the superuser can make what another user has left, or else open to all.
    let is_foreign = std::os::unix::fs::chown(&directory, Some(65_534), None).is_ok();
    if !is_foreign {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let late = Instant::now() + Duration::from_millis(50);
    let waiting = join(&invitations.pop().unwrap(), late).unwrap_err().to_string();
    assert!(waiting.contains("node 0 to prepare the meeting"), "{waiting}");
    if is_foreign {
        let refused = join(&invitations.pop().unwrap(), soon()).unwrap_err().to_string();
        assert!(refused.contains("another user's"), "{refused}");
    }
    assert!(directory.exists(), "what is not ours is left alone");
    fs::remove_dir_all(&directory).unwrap();
}
