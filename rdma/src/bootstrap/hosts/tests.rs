//! Meetings of hosts, with threads in the place of processes and names in the place of hosts.

use std::{
    io::{Read, Write},
    net::{Ipv6Addr, SocketAddr, TcpStream},
    thread::JoinHandle,
    time::Duration,
};

use super::*;
use crate::{
    NodeId,
    bootstrap::{Job, Key, Lifelines, environment::Environment, interfaces, noise::Terms},
};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn coordinator(nodes: u16) -> Coordinator {
    Coordinator::bind(&[loopback()], nodes, None, Job::random().unwrap()).unwrap()
}

/// The invitation of `node`, which is to be on the host `host`.
fn invitation(coordinator: &Coordinator, node: u16, host: &str) -> Invitation {
    let host = Some(host.to_owned());
    Invitation { host, ..coordinator.invitation(NodeId::new(node)) }
}

fn join(invitation: &Invitation, deadline: Instant) -> Result<Meeting> {
    super::join(invitation, &Build::default(), deadline)
}

fn serve(coordinator: Coordinator) -> JoinHandle<Result<Option<Lifelines>>> {
    thread::spawn(move || coordinator.serve(soon(), &|| false))
}

fn start(invitation: Invitation) -> JoinHandle<Result<Meeting>> {
    thread::spawn(move || join(&invitation, soon()))
}

/// A meeting of one node for each of `hosts`.
fn meet_at(coordinator: Coordinator, hosts: &[&str]) -> (Vec<Meeting>, Lifelines) {
    let invitations = (0..).zip(hosts).map(|(node, host)| invitation(&coordinator, node, host));
    let joins: Vec<_> = invitations.map(start).collect();
    let served = serve(coordinator);
    let meetings = joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect();
    (meetings, served.join().unwrap().unwrap().unwrap())
}

/// The meetings of one node for each of `hosts`, by node.
pub(crate) fn meet(hosts: &[&str]) -> (Vec<Meeting>, Lifelines) {
    meet_at(coordinator(u16::try_from(hosts.len()).unwrap()), hosts)
}

/// Checks that every two nodes hold the ends of one connection, and those of one host of a socket.
fn check(meetings: &mut [Meeting], hosts: &[&str]) {
    for one in 0..meetings.len() {
        for two in 0..meetings.len() {
            let is_near = one != two && hosts[one] == hosts[two];
            assert_eq!(meetings[one].sockets[two].is_some(), is_near, "{one} {two}");
            assert_eq!(meetings[one].connections[two].is_some(), one != two);
            if one == two {
                continue;
            }
            let said = [u8::try_from(one).unwrap(), u8::try_from(two).unwrap()];
            let mut heard = [0; 2];
            meetings[one].connections[two].as_mut().unwrap().stream.write_all(&said).unwrap();
            let far = meetings[two].connections[one].as_mut().unwrap();
            far.stream.read_exact(&mut heard).unwrap();
            assert_eq!(said, heard);
            if is_near {
                meetings[one].sockets[two].as_ref().unwrap().write_all(&said).unwrap();
                meetings[two].sockets[one].as_ref().unwrap().read_exact(&mut heard).unwrap();
                assert_eq!(said, heard);
            }
        }
    }
}

#[test]
fn every_two_nodes_are_connected_and_those_of_a_host_share_a_socket() {
    let hosts = ["a", "b", "a", "b", "c"];
    let (mut meetings, _) = meet(&hosts);
    check(&mut meetings, &hosts);
    let connection = meetings[0].connections[1].as_ref().unwrap();
    assert!(
        connection.cipher.is_none() && connection.stream.peer_addr().unwrap().ip().is_loopback()
    );
    assert!(connection.reason.contains("in the clear"), "{}", connection.reason);
    assert_eq!(meetings[4].hosts, hosts);
}

#[test]
fn a_node_may_be_alone_or_on_ipv6() {
    let (meetings, _) = meet(&["a"]);
    assert_eq!(meetings[0].nodes(), 1);
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    // Systems without IPv6 are rare, and have nothing to show here.
    let Ok(coordinator) = Coordinator::bind(&[address], 2, None, Job::random().unwrap()) else {
        return;
    };
    let (mut meetings, _) = meet_at(coordinator, &["a", "b"]);
    check(&mut meetings, &["a", "b"]);
}

/// How two nodes are connected by an address of this host that others can reach, where the network
/// is trusted by as many of them as said; `None` on a host without one.
fn cipher_between(trusting: [bool; 2]) -> Option<bool> {
    let own = interfaces::addresses().unwrap();
    let own = own.into_iter().find(|address| address.is_ipv4() && !address.is_loopback())?;
    let (key, job) = (Key::random().unwrap(), Job::random().unwrap());
    let coordinator = Coordinator::bind(&[(own, 0).into()], 2, Some(key), job).unwrap();
    let mut number = 0;
    let joins = trusting.map(|is_trusting| {
        let mut invitation = invitation(&coordinator, number, ["a", "b"][usize::from(number)]);
        number += 1;
        invitation.terms.trust = is_trusting.then_some(true);
        invitation.addresses = Some(vec![own]);
        start(invitation)
    });
    let served = serve(coordinator);
    let [mut first, mut second] = joins.map(|join| join.join().unwrap().unwrap());
    served.join().unwrap().unwrap();
    let (one, two) = (first.connections[1].take().unwrap(), second.connections[0].take().unwrap());
    assert_eq!(one.stream.peer_addr().unwrap().ip(), own);
    assert_eq!(one.cipher.is_some(), two.cipher.is_some());
    if let (Some((mut sealer, _)), Some((_, mut opener))) = (one.cipher, two.cipher) {
        let (mut record, mut plain) = (Vec::new(), [0; 5]);
        sealer.seal(b"hello", &mut record).unwrap();
        assert_eq!(opener.open(&record[2..], &mut plain).unwrap(), 5);
        assert_eq!(&plain, b"hello");
        return Some(true);
    }
    Some(false)
}

#[test]
fn what_leaves_a_host_is_encrypted_unless_both_ends_trust_the_network() {
    for (trusting, is_encrypted) in
        [([false, false], true), ([true, false], true), ([false, true], true), ([true; 2], false)]
    {
        // `None` says that this host has no network, and nothing to show.
        assert_ne!(cipher_between(trusting), Some(!is_encrypted), "{trusting:?}");
    }
}

#[test]
fn a_launcher_hears_whom_a_node_has_lost() {
    let (meetings, lifelines) = meet(&["a", "b", "b"]);
    assert_eq!(lifelines.take_losses(NodeId::new(2)), []);
    let lifeline = meetings[2].lifeline.as_ref().unwrap();
    for lost in [0, 1] {
        lifeline.report(NodeId::new(lost));
    }
    let mut losses = Vec::new();
    while losses.len() < 2 {
        losses.extend(lifelines.take_losses(NodeId::new(2)));
    }
    assert_eq!(losses, [NodeId::new(0), NodeId::new(1)]);
    drop(meetings);
    assert_eq!(lifelines.take_losses(NodeId::new(1)), []);
    assert_eq!(lifelines.take_losses(NodeId::new(9)), []);
}

#[test]
fn twenty_jobs_at_once_never_meet() {
    let jobs: Vec<_> = (0..20)
        .map(|_| {
            thread::spawn(|| {
                let hosts = ["a", "b", "a", "b"];
                check(&mut meet(&hosts).0, &hosts);
            })
        })
        .collect();
    jobs.into_iter().for_each(|job| job.join().unwrap());
}

#[test]
fn strangers_delay_nobody() {
    let coordinator = coordinator(2);
    let address = coordinator.addresses()[0];
    let mut strangers: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (number, stranger) in strangers.iter_mut().enumerate() {
        let said = [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PANGEA\r\n", b"", b"\xff\xff"][number % 4];
        stranger.write_all(said).unwrap();
    }
    // They stay until the nodes have met.
    let (mut meetings, _) = meet_at(coordinator, &["a", "b"]);
    check(&mut meetings, &["a", "b"]);
    drop(strangers);
}

#[test]
fn who_is_refused_knows_why_and_the_job_goes_on() {
    let coordinator = coordinator(2);
    let good = |node| invitation(&coordinator, node, "a");
    let wrong_terms = |change: fn(&mut Invitation)| {
        let mut invitation = good(1);
        change(&mut invitation);
        invitation
    };
    let wrong = [
        (wrong_terms(|it| it.terms.key = Key::random().unwrap()), "another key"),
        (wrong_terms(|it| it.terms.job = Job::named("other")), "another job"),
        (wrong_terms(|it| it.nodes = 3), "the job has 2 nodes"),
        (wrong_terms(|it| it.node = NodeId::new(2)), "the job has 2 nodes"),
    ];
    let nodes = [good(0), good(1)];
    let served = serve(coordinator);
    for (invitation, reason) in wrong {
        let error = join(&invitation, soon()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let joins = nodes.map(start);
    for join in joins {
        join.join().unwrap().unwrap();
    }
    served.join().unwrap().unwrap().unwrap();
}

/// What the nodes and the launcher hear where the two were built so.
fn errors_of(builds: [Build; 2]) -> Vec<String> {
    let coordinator = coordinator(2);
    let one = [0, 1].map(|node| invitation(&coordinator, node, ["a", "b"][usize::from(node)]));
    let served = serve(coordinator);
    let joins: Vec<_> = one
        .into_iter()
        .zip(builds)
        .map(|(invitation, build)| {
            thread::spawn(move || super::join(&invitation, &build, soon()).err())
        })
        .collect();
    let errors = joins.into_iter().map(|join| join.join().unwrap());
    let errors: Vec<_> = errors.chain([served.join().unwrap().err()]).flatten().collect();
    errors.into_iter().map(|error| error.to_string()).collect()
}

#[test]
fn nodes_of_two_builds_are_told_so_both() {
    let build = |layout| Build::new("pangea 1", [("shared::Sample", layout)]);
    let errors = errors_of([build(7), build(8)]);
    assert_eq!(errors.len(), 3, "{errors:?}");
    for error in errors {
        assert!(error.contains("the type shared::Sample has one layout in node"), "{error}");
        assert!(error.contains("node 0") && error.contains("node 1"), "{error}");
    }
    let errors = errors_of([Build::new("pangea 1", []), Build::new("pangea 2", [])]);
    assert_eq!(errors.len(), 3, "{errors:?}");
    for error in errors {
        assert!(error.contains("pangea 1") && error.contains("pangea 2"), "{error}");
    }
    assert!(errors_of([build(7), Build::new("pangea 1", [("b::Sample", 8)])]).is_empty());
}

#[test]
fn a_node_that_does_not_come_is_named_to_all() {
    let coordinator = coordinator(2);
    let first = invitation(&coordinator, 0, "a");
    let stranger = Invitation {
        terms: Terms { key: Key::random().unwrap(), ..first.terms.clone() },
        ..first.clone()
    };
    // All give up at the same time, as they do where node 0 is the coordinator.
    let deadline = Instant::now() + Duration::from_millis(500);
    let served = thread::spawn(move || coordinator.serve(deadline, &|| false));
    join(&stranger, deadline).unwrap_err();
    let told = join(&first, deadline).unwrap_err().to_string();
    for text in [told, served.join().unwrap().unwrap_err().to_string()] {
        assert!(text.contains("node 1 to join the job"), "{text}");
        assert!(text.contains("another key"), "{text}");
    }
}

#[test]
fn a_job_that_is_called_off_ends_for_its_nodes() {
    let coordinator = coordinator(2);
    let first = invitation(&coordinator, 0, "a");
    let deadline = Instant::now() + Duration::from_millis(300);
    let first = thread::spawn(move || join(&first, deadline));
    assert!(coordinator.serve(soon(), &|| true).unwrap().is_none());
    first.join().unwrap().unwrap_err();
}

#[test]
fn who_comes_when_a_job_was_called_off_is_told_so() {
    let late = invitation(&coordinator(2), 1, "a");
    let error = join(&late, soon()).unwrap_err().to_string();
    assert!(error.contains("called the job off"), "{error}");
}

#[test]
fn node_zero_is_the_coordinator_where_there_is_no_launcher() {
    let prepared = coordinator(3);
    let mut invitations: Vec<Invitation> =
        (0..3).map(|node| invitation(&prepared, node, "a")).collect();
    // Its port is free again, and its number known to all.
    drop(prepared);
    invitations.iter_mut().for_each(|invitation| invitation.has_launcher = false);
    let joins: Vec<_> = invitations.into_iter().rev().map(start).collect();
    let mut meetings: Vec<_> =
        joins.into_iter().map(|join| join.join().unwrap().unwrap()).collect();
    meetings.reverse();
    check(&mut meetings, &["a"; 3]);
}

#[test]
fn a_busy_port_is_an_error_that_names_it() {
    let first = coordinator(1);
    let address = first.addresses()[0];
    let error = Coordinator::bind(&[address], 1, None, Job::random().unwrap()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains(&address.to_string()) && error.contains("another port"), "{error}");
}

#[test]
fn who_listens_beyond_loopback_needs_a_key() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let job = Job::random().unwrap();
    let error = Coordinator::bind(&[everywhere], 1, None, job).unwrap_err().to_string();
    assert!(error.contains("PANGEA_KEY"), "{error}");
    let key = Some(Key::random().unwrap());
    let coordinator = Coordinator::bind(&[everywhere], 1, key, job).unwrap();
    assert!(coordinator.addresses().iter().all(|address| address.port() != 0));
}

#[test]
fn the_environment_of_a_node_is_its_invitation() {
    let coordinator = coordinator(3);
    let variables = coordinator.environment(NodeId::new(2));
    let get = |name: &str| {
        let found = variables.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.clone())
    };
    let read = Invitation::read(&Environment::new(&get)).unwrap().unwrap();
    let expected = coordinator.invitation(NodeId::new(2));
    assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    assert_eq!(read.terms.key, expected.terms.key);
}
