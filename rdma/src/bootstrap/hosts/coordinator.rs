//! Where the nodes of several hosts meet.

use std::{
    ffi::OsString,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpListener},
    time::Instant,
};

use super::{
    guests::Arrivals,
    invitation::{COORDINATOR, Invitation},
    message,
};
use crate::{
    Error, NodeId, Result,
    bootstrap::{
        Job, Key, Lifelines, interfaces, key,
        local::{JOB, NODE, NODES, NODES_MAX},
        noise::Terms,
        reception::Reception,
    },
};

/// Tables that nodes ask for once all have arrived: letters, reaches, verdicts.
const TABLES: usize = 3;

/// The launcher's side, or that of node 0 where there is no launcher.
#[derive(Debug)]
pub struct Coordinator {
    reception: Reception,
    terms: Terms,
    nodes: u16,
}

impl Coordinator {
    /// Listens at `addresses` for the `nodes` nodes of `job`. One without an IP stands for all of
    /// this host, one without a port gets one that is free. A meeting on loopback needs no `key`:
    /// one is made.
    pub fn bind(addresses: &[SocketAddr], nodes: u16, key: Option<Key>, job: Job) -> Result<Self> {
        if nodes == 0 || nodes > NODES_MAX {
            let reason = format!("{nodes} nodes; a job may have 1 to {NODES_MAX}");
            return Err(Error::Config { field: NODES, reason });
        }
        let open = addresses.iter().find(|address| !address.ip().is_loopback());
        let key = match (key, open) {
            (Some(key), _) => key,
            (None, None) => Key::random()?,
            (None, Some(address)) => {
                let reason = format!("missing: who listens at {address} is reached by anybody");
                return Err(Error::Config { field: key::KEY, reason });
            }
        };
        let terms = Terms { key, job, trust: None };
        let listeners = listen(addresses)?;
        let reception = Reception::new(listeners, terms.clone(), message::HELLO_LEN_MAX)?;
        Ok(Self { reception, terms, nodes })
    }

    /// The coordinator that node 0 is, where nobody has started one.
    pub(super) fn of_node(invitation: &Invitation) -> Result<Self> {
        let mut addresses = Vec::new();
        for place in &invitation.coordinator {
            match place.parse::<SocketAddr>() {
                Ok(address) => addresses.push(address),
                // A host's own name often stands for nothing but loopback on that host.
                Err(_) => addresses.extend(everywhere(place, invitation)?),
            }
        }
        let Terms { key, job, .. } = &invitation.terms;
        Self::bind(&addresses, invitation.nodes, Some(key.clone()), *job)
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.reception.addresses()
    }

    /// The environment variables that tell the process of `node` where to go. They hold the key.
    pub fn environment(&self, node: NodeId) -> Vec<(&'static str, OsString)> {
        vec![
            (COORDINATOR, self.places().join(",").into()),
            (key::KEY, self.terms.key.to_hex().into()),
            (JOB, self.terms.job.to_string().into()),
            (NODE, node.number().to_string().into()),
            (NODES, self.nodes.to_string().into()),
        ]
    }

    /// The invitation of `node`, if it is to be a part of this process.
    pub fn invitation(&self, node: NodeId) -> Invitation {
        Invitation::to(self.places(), self.terms.clone(), (node, self.nodes))
    }

    /// Brings the nodes together; `None` where `is_off` said that there will be no meeting. Who is
    /// not one of them is told why, and does no harm.
    pub fn serve(self, deadline: Instant, is_off: &dyn Fn() -> bool) -> Result<Option<Lifelines>> {
        let mut arrivals = Arrivals::new(self.nodes);
        while let Some(missing) = arrivals.missing() {
            if is_off() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                return Err(arrivals.give_up(missing));
            }
            match self.reception.next() {
                Some(Ok(caller)) => arrivals.admit(caller)?,
                Some(Err(reason)) => arrivals.note_refusal(reason),
                None => arrivals.check()?,
            }
        }
        let (mut guests, cards) = arrivals.into_guests();
        guests.tell(Ok(&cards));
        for _ in 0..TABLES {
            let Some(table) = guests.gather(deadline, is_off)? else { return Ok(None) };
            guests.tell(Ok(&table));
        }
        Ok(Some(Lifelines::new(guests.into_channels().into_iter().map(Into::into).collect())))
    }

    fn places(&self) -> Vec<String> {
        self.addresses().iter().map(SocketAddr::to_string).collect()
    }
}

/// Listens at `addresses`; one without an IP stands for all of this host.
pub(super) fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let ips =
            if address.ip().is_unspecified() { of_family(address)? } else { vec![address.ip()] };
        for ip in ips {
            let address = SocketAddr::new(ip, address.port());
            listeners.push(TcpListener::bind(address).map_err(|error| refused(address, &error))?);
        }
    }
    Ok(listeners)
}

/// All addresses of this host, with the port of `place`; those of loopback for the name of that.
fn everywhere(place: &str, invitation: &Invitation) -> Result<Vec<SocketAddr>> {
    // Asked so that what is no place at all is an error.
    let Some(found) = invitation.places()?.first().copied() else { return Ok(Vec::new()) };
    let port = place.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let is_local = place.starts_with("localhost:");
    let all = interfaces::addresses()?.into_iter();
    let all = all.filter(|address| address.is_loopback() || !is_local);
    Ok(all.map(|address| SocketAddr::new(address, port.unwrap_or(found.port()))).collect())
}

/// The addresses of this host for which an unspecified one stands.
fn of_family(address: &SocketAddr) -> Result<Vec<IpAddr>> {
    let all = interfaces::addresses()?;
    Ok(all.into_iter().filter(|own| own.is_ipv4() == address.is_ipv4()).collect())
}

fn refused(address: SocketAddr, error: &std::io::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => "another process listens there; name another port",
        ErrorKind::AddrNotAvailable => "it is no address of this host",
        ErrorKind::PermissionDenied => "ports below 1024 are the system's; name another port",
        _ => "",
    };
    let reason = format!("cannot listen at {address}: {error} ({remedy})");
    Error::Config { field: COORDINATOR, reason }
}
