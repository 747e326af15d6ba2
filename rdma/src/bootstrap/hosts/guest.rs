//! A node at a meeting of hosts.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    net::{IpAddr, TcpListener},
    time::{Duration, Instant},
};

use super::{
    invitation::{ADDRESSES, Invitation},
    mesh::Mesh,
    message::{self, Card, Hello},
    neighbours,
};
use crate::{
    Error, Result,
    bootstrap::{
        Build, Meeting, channel::Channel, host, interfaces, noise, race::Race,
        reception::Reception, timed::describe,
    },
    page_size,
};

/// How long one attempt to reach the coordinator may take.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Joins as a node.
pub(super) fn attend(invitation: &Invitation, build: &Build, deadline: Instant) -> Result<Meeting> {
    let places = invitation.places()?;
    let is_loopback = places.iter().all(|place| place.ip().is_loopback());
    let channel = reach(invitation, deadline)?;
    let mut guest = Guest { channel, nodes: invitation.nodes, deadline };
    match guest.meet(invitation, build, is_loopback) {
        Ok(meeting) => {
            let lifeline = Some(guest.channel.into());
            Ok(Meeting { lifeline, ..meeting })
        }
        Err(error) => {
            guest.fail(&error);
            Err(error)
        }
    }
}

/// A node that the coordinator has let in, or is about to.
#[derive(Debug)]
pub(super) struct Guest {
    channel: Channel,
    nodes: u16,
    deadline: Instant,
}

impl Guest {
    fn meet(
        &mut self,
        invitation: &Invitation,
        build: &Build,
        is_loopback: bool,
    ) -> Result<Meeting> {
        let (node, nodes) = (invitation.node, invitation.nodes);
        let listeners = listen(invitation, is_loopback)?;
        let terms = invitation.terms.clone();
        let reception = Reception::new(listeners, terms, message::INTRODUCTION_LEN)?;
        let card = Card {
            host: invitation.host.clone().unwrap_or_else(host::identity),
            label: invitation.host.clone().unwrap_or_else(host::label),
            addresses: reception.addresses(),
        };
        let page_size = u32::try_from(page_size()).expect("a page is small");
        let hello = Hello { node, nodes, page_size, build: build.clone(), card: card.encode() };
        self.channel.send(&hello.encode(), self.deadline)?;
        let cards = self.table()?;
        let cards = cards.iter().map(|card| Card::decode(card)).collect::<Result<Vec<_>>>()?;
        let neighbours = neighbours::meet(self, node, &cards)?;
        let mesh = Mesh { invitation, cards: &cards, is_loopback, deadline: self.deadline };
        let connections = mesh.connect(&reception, self)?;
        let verdicts = self.share(&neighbours.verdict())?;
        let sockets = neighbours.into_sockets(&verdicts);
        let hosts = cards.into_iter().map(|card| card.label).collect();
        Ok(Meeting { node, nodes, sockets, connections, lifeline: None, hosts })
    }

    /// Tells `content` to all nodes, and returns what each of them has told.
    pub(super) fn share(&mut self, content: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.channel.send(&message::encode_said(Ok(content)), self.deadline)?;
        self.table()
    }

    /// An error where the coordinator has called the meeting off, or has gone.
    pub(super) fn check(&mut self) -> Result {
        if !self.channel.has_input() {
            return Ok(());
        }
        // Nothing was asked of it: what comes is why there is no meeting.
        self.table()?;
        Err(Error::protocol("the coordinator spoke before it was asked"))
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Until when to join.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    fn table(&mut self) -> Result<Vec<Vec<u8>>> {
        // A coordinator gives up at its own deadline, and says for whom it has waited.
        let deadline = self.deadline + ATTEMPT;
        let told = self.channel.receive(message::table_len_max(self.nodes), deadline);
        let told = told.map_err(|error| match error {
            Error::Protocol { .. } => error,
            _ => {
                let reason = format!("no word from the coordinator: {}", describe(&error));
                Error::JoinFailed { reason }
            }
        })?;
        let table = message::decode_table(&told, self.nodes)?;
        table.map_err(|reason| Error::JoinFailed { reason })
    }

    /// Tells the others that this node cannot join.
    fn fail(&mut self, error: &Error) {
        let deadline = Instant::now() + ATTEMPT;
        let reason: String = describe(error).chars().take(message::REASON_CHARS_MAX).collect();
        // A coordinator that has gone, or called the meeting off itself, need not know.
        _ = self.channel.send(&message::encode_said(Err(&reason)), deadline);
    }
}

/// Calls the coordinator until it answers: it may not be up yet, and its host silent until it is.
fn reach(invitation: &Invitation, deadline: Instant) -> Result<Channel> {
    let start = Instant::now();
    let places = invitation.places()?;
    let mut unheard: BTreeSet<_> = places.iter().copied().collect();
    let mut failures: BTreeMap<_, _> =
        places.iter().map(|place| (*place, format!("{place}: no answer yet"))).collect();
    let mut refused = None;
    let mut race = Race::new(places, ATTEMPT)?;
    while let Some((place, called)) = race.next(deadline, &|| false) {
        unheard.remove(&place);
        match called {
            Ok(stream) => {
                let attempt = deadline.min(Instant::now() + ATTEMPT);
                match noise::call(stream, &invitation.terms, attempt) {
                    Ok(channel) => return Ok(channel),
                    Err(error) => {
                        let how = format!("{place}: {}", describe(&error));
                        if is_final(&error) {
                            refused = refused.or(Some(format!("no meeting at {how}")));
                        } else {
                            race.again(place);
                        }
                        failures.insert(place, how);
                    }
                }
            }
            Err(error) => {
                // A launcher listens before it starts a node: it will not come.
                let is_gone = error.kind() == ErrorKind::ConnectionRefused;
                if !(is_gone && invitation.has_launcher) {
                    race.again(place);
                }
                failures.insert(place, format!("{place}: {error}"));
            }
        }
        if let Some(reason) = refused.take_if(|_| unheard.is_empty()) {
            return Err(Error::JoinFailed { reason });
        }
    }
    let tried: Vec<String> = failures.into_values().collect();
    let tried = tried.join("; ");
    if Instant::now() < deadline {
        let reason = format!("the launcher went away, or called the job off ({tried})");
        return Err(Error::JoinFailed { reason });
    }
    let waiting_for = format!(
        "the coordinator ({tried}; it may not be up, or a firewall of its host drop what comes)"
    );
    Err(Error::TimedOut { waiting_for, after: start.elapsed() })
}

/// Whether somebody is there who will have nothing to do with this process.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::JoinFailed { .. } | Error::Protocol { .. })
}

/// Listens where other nodes may call this one.
fn listen(invitation: &Invitation, is_loopback: bool) -> Result<Vec<TcpListener>> {
    let bind = |address: &IpAddr| TcpListener::bind((*address, 0));
    if let Some(addresses) = &invitation.addresses {
        let bind = |address| {
            bind(address).map_err(|error| Error::Config {
                field: ADDRESSES,
                reason: format!("cannot listen at {address}: {error}; name those of this host"),
            })
        };
        return addresses.iter().map(bind).collect();
    }
    let all = interfaces::addresses()?;
    // Where the meeting is on this host, nobody else has business with its nodes.
    let wanted = all.iter().filter(|address| address.is_loopback() || !is_loopback);
    let listeners: Vec<_> = wanted.flat_map(bind).take(message::ADDRESSES_MAX).collect();
    if listeners.is_empty() {
        let reason = "none of this host's can be listened at".to_owned();
        return Err(Error::Config { field: ADDRESSES, reason });
    }
    Ok(listeners)
}
